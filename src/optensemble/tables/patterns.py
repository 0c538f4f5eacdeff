"""Columns by pattern: the text in place of the star assigns a column to its label."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from optensemble._core.patterns import is_pattern, split, star_of, stars
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


def coordinates(labels: Sequence[str]) -> list[str]:
    """Return the names of the coordinates: the names of the labels without their common beginning.

    >>> coordinates(["y_9", "y_10"]), coordinates(["price_north", "price_nouth"]), coordinates(["here", "there"])
    (['9', '10'], ['north', 'nouth'], ['here', 'there'])
    """
    if len(labels) == 1:
        return list(labels)
    first, last = min(labels), max(labels)  # a beginning common to these is common to all
    shared = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    while shared and any(_same_word(label, shared) for label in labels):
        shared -= 1
    return [label[shared:] for label in labels]


def _same_word(label: str, at: int) -> bool:
    """Return whether a cut there would split a word or a number, or leave nothing."""
    if at >= len(label):
        return True
    left, right = label[at - 1], label[at]
    return (left.isalpha() and right.isalpha()) or (left.isdecimal() and right.isdecimal())


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
