"""The memory that a fit may take: as the user says, or half of the machine's."""

from __future__ import annotations

import os
import re

from optensemble.exceptions import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SHARE = 0.5


def memory_limit(given: str | None) -> float:
    """Return bytes: those given, such as ``2GB`` or ``500 MiB``, or half of the machine's memory.

    >>> memory_limit("2GB"), memory_limit("1.5 MiB")
    (2000000000.0, 1572864.0)
    """
    if given is None:
        return _SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?\s*", given.upper())
    if found is None or not float(found[1]):
        raise InputError(f"--memory must be a size such as 2GB or 500MB; got {given!r}.")
    base = _UNITS[found[2]] if not found[3] else 1024 ** (" KMGT".index(found[2]) if found[2] else 0)
    return float(found[1]) * base
