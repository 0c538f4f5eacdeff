"""Columns by pattern: the text in place of the star assigns a column to its label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from optensemble._core.patterns import coordinates, is_pattern, split, star_of, stars
from optensemble._core.suggestions import listed
from optensemble.exceptions import InputError

__all__ = ["align", "coordinates", "is_pattern", "left_to", "natural", "split", "stars"]


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return a sort key that orders numbers in names as numbers.

    >>> sorted(["y_10", "y_9"], key=natural)
    ['y_9', 'y_10']
    """
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def left_to(pattern: str, others: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return the columns without those that match a longer, more specific pattern.

    >>> left_to("price_*", ["price_vendor_*"], ["price_0", "price_vendor_0"])
    ['price_0']
    """
    longer = [other for other in others if is_pattern(other) and len(other) > len(pattern)]
    return [column for column in columns if not any(star_of(other, column) for other in longer)]


def align(pattern: str, names: Sequence[str], columns: Sequence[str], where: str) -> list[str]:
    """Return the columns of a pattern in the order of the coordinates ``names``.

    >>> align("a_*", ["0", "1"], ["a_1", "a_0", "a_note"], "job.toml")
    ['a_0', 'a_1']
    """
    before, after = split(pattern, where)
    found = stars(pattern, columns, where)
    missing = [star for star in names if star not in found]
    if missing:
        raise InputError(
            f"{where}: {pattern!r} finds no column {before + missing[0] + after!r}: the star is {listed(found)}, "
            f"in the labels {listed(names)}. List the columns in the order of the labels."
        )
    return [before + star + after for star in names]
