"""The end of an error message: the closest known name, or what there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Return a question to end an error with, or nothing if no known name is close.

    >>> did_you_mean("lables", ["labels", "time"])
    " Did you mean 'labels'?"
    >>> did_you_mean("day1", [0, "day"])  # columns may have numbers for names
    " Did you mean 'day'?"
    """
    names = {str(other): other for other in known}
    text = str(name)
    close = get_close_matches(text, names, n=1) or [other for other in names if other.lower() == text.lower()]
    return f" Did you mean {names[close[0]]!r}?" if close else ""


def listed(names: Sequence[object], most: int = 8) -> str:
    """Name the first few, and count the rest.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
