"""Patterns for names of columns: one star, which stands for any text."""

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
