"""Members that came out of a file: what they raise is told as an error of the package, with the member's name."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

from optensemble.exceptions import InputError

_LONGEST_REASON = 500  # letters: what a file makes a member say should not fill a screen

_STORED: dict[int, weakref.ref[Any]] = {}
"""By id, because a member may be of a class whose objects have no hash. A copy in another process is not known here."""


def note_stored(member: Any) -> None:
    """Remember that a member came out of a file."""
    number = id(member)
    with suppress(TypeError):  # of a class whose objects cannot be referred to
        _STORED[number] = weakref.ref(member, lambda _: _STORED.pop(number, None))


def is_stored(member: Any) -> bool:
    """Return whether a member came out of a file."""
    found = _STORED.get(id(member))
    return found is not None and found() is member


def stored_error(name: str, error: Exception) -> InputError:
    """Return the error of a member from a file that cannot answer: what it raised may quote the file."""
    what = printable(f"{type(error).__name__}: {error}", _LONGEST_REASON)
    return InputError(
        f"the member {name!r}, which came out of a file, cannot answer for these rows ({what}). Check the columns of "
        "X, or give the member again to load."
    )


def printable(text: str, most: int) -> str:
    r"""Return a text in one line, without what would control a terminal, cut if it is long.

    >>> printable("red \x1b[31m and\n more", 12)
    'red [31m an…'
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
