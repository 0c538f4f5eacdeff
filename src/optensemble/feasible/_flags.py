"""Parameters that say yes or no: edges that are closed, pairs that are forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats
from optensemble.exceptions import InputError
from optensemble.feasible._bound_rows import Fault


def as_flags(value: Any, name: str, size: int, things: str) -> Floats:
    """Return zeros and ones, one for each thing, of what a user gives as such or as booleans.

    >>> as_flags([[False, True], [True, False]], "forbidden", 4, "pairs")
    array([0., 1., 1., 0.])
    """
    flags = as_floats(value, name).ravel()
    if len(flags) != size or not np.isin(flags, (0.0, 1.0)).all():
        found = f"{len(flags)} numbers" if len(flags) != size else f"{flags[~np.isin(flags, (0.0, 1.0))][0]:g}"
        raise InputError(
            f"{name} must have a 0 or a 1 for each of the {size} {things}; got {found}. If it differs between rows, "
            "give oe.Columns."
        )
    return flags + 0.0  # negative zero is zero


def flag_faults(flags: Floats, name: str, yes: str, no: str) -> Iterator[Fault]:
    """Go through what is wrong with the flags of rows: numbers, already known to be finite, other than 0 and 1."""
    wrong = np.isfinite(flags) & ~np.isin(flags, (0.0, 1.0))
    if wrong.any():
        yield Fault(name, wrong, f"must be 1 ({yes}) or 0 ({no})")
