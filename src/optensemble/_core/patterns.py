"""Names of columns: patterns with a star, which stands for any text, and what names have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern for several columns."""
    return "*" in name


def split(pattern: str, where: str) -> tuple[str, str]:
    """Return the text before and after the star."""
    if pattern.count("*") != 1:
        raise InputError(f"{where}: the pattern {pattern!r} must have exactly one star. List the columns instead.")
    before, _, after = pattern.partition("*")
    return before, after


def star_of(pattern: str, column: str) -> str:
    """Return the text in place of the star in a column; empty if the column does not match."""
    before, _, after = pattern.partition("*")
    matches = column.startswith(before) and column.endswith(after)
    return column[len(before) : len(column) - len(after)] if matches else ""


def stars(pattern: str, columns: Sequence[str], where: str) -> list[str]:
    """Return the text in place of the star in all matching columns: numbers sorted, words in the table's order."""
    before, _ = split(pattern, where)
    found = [star for column in columns if (star := star_of(pattern, column))]
    if not found:
        hint = did_you_mean(before, {_stem(column) for column in columns}).replace("'?", "*'?")
        raise InputError(f"{where}: no column matches {pattern!r}.{hint or f' There are {listed(columns)}.'}")
    return sorted(found, key=lambda star: (int(star), star)) if all(map(str.isdecimal, found)) else found


def _stem(column: str) -> str:
    return re.sub(r"[^\W_]*$", "", column) or column


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


def trimmed(names: Sequence[str]) -> list[str]:
    """Return names without their common beginning and without their common end.

    >>> trimmed(["north_price", "south_price"]), trimmed(["p_north_eur", "p_south_eur"]), trimmed(["here", "there"])
    (['north', 'south'], ['north', 'south'], ['here', 'there'])
    """
    ends = coordinates([name[::-1] for name in coordinates(names)])
    return [name[::-1] for name in ends]
