"""Columns by pattern: what the star stands for says which label a column belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return a key that sorts numbers in names as numbers.

    >>> sorted(["y_10", "y_9"], key=natural)
    ['y_9', 'y_10']
    """
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", name) if part]


def is_pattern(name: str) -> bool:
    """Say whether a name stands for several columns."""
    return "*" in name


def split(pattern: str, where: str) -> tuple[str, str]:
    """Return what comes before and after the star."""
    if pattern.count("*") != 1:
        raise InputError(f"{where}: the pattern {pattern!r} must have exactly one star. List the columns instead.")
    before, _, after = pattern.partition("*")
    return before, after


def _star(pattern: str, column: str) -> str:
    """Return what the star stands for in a column; nothing if it does not match."""
    before, _, after = pattern.partition("*")
    matches = column.startswith(before) and column.endswith(after)
    return column[len(before) : len(column) - len(after)] if matches else ""


def left_to(pattern: str, others: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return the columns without those that a longer pattern says more of.

    >>> left_to("price_*", ["price_vendor_*"], ["price_0", "price_vendor_0"])
    ['price_0']
    """
    longer = [other for other in others if is_pattern(other) and len(other) > len(pattern)]
    return [column for column in columns if not any(_star(other, column) for other in longer)]


def stars(pattern: str, columns: Sequence[str], where: str) -> list[str]:
    """Return what the star stands for in the columns that match: numbers in their order, words in the table's."""
    before, _ = split(pattern, where)
    found = [star for column in columns if (star := _star(pattern, column))]
    if not found:
        hint = did_you_mean(before, {_stem(column) for column in columns}).replace("'?", "*'?")
        raise InputError(f"{where}: no column matches {pattern!r}.{hint or f' There are {listed(columns)}.'}")
    return sorted(found, key=lambda star: (int(star), star)) if all(map(str.isdecimal, found)) else found


def coordinates(labels: Sequence[str]) -> list[str]:
    """Return what tells labels apart: their names without what all begin with.

    >>> coordinates(["y_9", "y_10"]), coordinates(["price_north", "price_nouth"]), coordinates(["here", "there"])
    (['9', '10'], ['north', 'nouth'], ['here', 'there'])
    """
    if len(labels) == 1:
        return list(labels)
    first, last = min(labels), max(labels)  # what these share, all share
    shared = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    while shared and any(_same_word(label, shared) for label in labels):
        shared -= 1
    return [label[shared:] for label in labels]


def _same_word(label: str, at: int) -> bool:
    """Say whether cutting a label there would cut a word or a number in two, or leave nothing."""
    if at >= len(label):
        return True
    left, right = label[at - 1], label[at]
    return (left.isalpha() and right.isalpha()) or (left.isdecimal() and right.isdecimal())


def align(pattern: str, wanted: Sequence[str], columns: Sequence[str], where: str) -> list[str]:
    """Return the columns of a pattern in the order of the labels, whose coordinates are ``wanted``.

    >>> align("a_*", ["0", "1"], ["a_1", "a_0", "a_note"], "job.toml")
    ['a_0', 'a_1']
    """
    before, after = split(pattern, where)
    found = stars(pattern, columns, where)
    missing = [star for star in wanted if star not in found]
    if missing:
        raise InputError(
            f"{where}: {pattern!r} finds no column {before + missing[0] + after!r}: the star is {listed(found)}, "
            f"in the labels {listed(wanted)}. List the columns in the order of the labels."
        )
    return [before + star + after for star in wanted]


def _stem(column: str) -> str:
    return re.sub(r"[^\W_]*$", "", column) or column
