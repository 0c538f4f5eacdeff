"""Linear forecasts for each pattern of who is absent: learned from the rows in which at least the others are present.

A regression on all members needs what absent ones would have said (:mod:`optensemble.stacking.filling`). Better, where
a pattern is common or only one member is absent, is a regression on those present, learned from all rows in which they
are, whoever else is. All of these come from the same Gram matrices, summed up pattern by pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.members.absence import Absent
from optensemble.stacking.ridge import Ridge
from optensemble.stacking.stack import Stack
from optensemble.stats.sample_size import MIN_CELL, MINIMUM_ROWS

Pattern = tuple[int, ...]
"""The members that are absent, by number, ascending."""

MOST_PATTERNS = 16
"""Patterns with forecasts of their own; in rows of rarer ones, absent members are filled in."""

_MOST_MEMBERS = 62  # whose absence fits into the bits of a number


def pattern_codes(absent: Absent | None, n: int) -> Indices:
    """Return a number for the pattern of each of ``n`` rows: bit ``m`` is set where member ``m`` is absent."""
    if absent is None or len(absent) > _MOST_MEMBERS:
        return np.zeros(n, dtype=np.int64)
    return np.asarray((np.int64(1) << np.arange(len(absent))) @ absent.astype(np.int64))


def pattern_code(pattern: Pattern) -> int:
    """Return the number of a pattern.

    >>> pattern_code((0, 2))
    5
    """
    return sum(1 << member for member in pattern)


@dataclass(frozen=True)
class PatternCounts:
    """The patterns of some rows, by number, and how many rows have each; tables of disjoint rows add up."""

    codes: Indices
    rows: Indices

    @classmethod
    def of(cls, absent: Absent | None, n: int) -> Self:
        """Count the patterns of some rows."""
        codes, rows = np.unique(pattern_codes(absent, n), return_counts=True)
        return cls(codes, rows)

    def __add__(self, other: Self) -> Self:
        """Return the patterns of the rows of both."""
        codes, which = np.unique(np.concatenate([self.codes, other.codes]), return_inverse=True)
        rows = np.bincount(which, np.concatenate([self.rows, other.rows]), minlength=len(codes))
        return type(self)(codes, rows.astype(np.int64))

    def common(self) -> Indices:
        """Return the numbers of the most common patterns, ascending."""
        most = np.argsort(-self.rows, kind="stable")[:MOST_PATTERNS]
        return np.sort(self.codes[most])


def members_of(code: int, members: int) -> tuple[Indices, Indices]:
    """Return the members that are absent in a pattern, and the others.

    >>> [each.tolist() for each in members_of(5, 4)]
    [[0, 2], [1, 3]]
    """
    away = np.array([bool(code >> member & 1) for member in range(members)])
    return np.flatnonzero(away), np.flatnonzero(~away)


def with_at_least(code: int, codes: Indices) -> npt.NDArray[np.bool_]:
    """Return which patterns have at least the members present that a pattern has."""
    return np.asarray(codes & ~np.int64(code) == 0)


def enough_rows(grams: Floats) -> bool:
    """Return whether the rows of Gram matrices of folds (folds, c, c) are enough, in all and without any one fold."""
    rows = grams[:, -1, -1]
    return bool(rows.sum() >= MINIMUM_ROWS and rows.sum() - rows.max() >= MIN_CELL)


def columns_of(present: Sequence[int] | Indices, k: int, d: int) -> Indices:
    """Return the columns of some of ``k`` members in a Gram matrix of [all members, labels, 1], with the latter."""
    own = (np.asarray(present, dtype=np.int64)[:, None] * d + np.arange(d)).ravel()
    return np.concatenate([own, np.arange(k * d, k * d + d + 1)])


@dataclass(frozen=True)
class PatternForecast:
    """The linear forecasts of rows with a pattern, learned from all rows; coefficients of absent members are 0."""

    absent: Pattern
    stack: Stack
    ridge: Ridge
    refinement: Ridge

    def padded(self, present: Indices, k: int) -> PatternForecast:
        """Return the same in terms of all ``k`` members, given in terms of those present."""
        stack, d = self.stack, len(self.stack.level)
        whole = Stack(pad(stack.weights, present, k), pad(stack.centre, present, k), stack.level)
        ridges = (pad_ridge(each, present, k, d) for each in (self.ridge, self.refinement))
        return PatternForecast(self.absent, whole, *ridges)


def pad(values: Floats, present: Indices, k: int, axis: int = 0) -> Floats:
    """Return values of members present, along an axis, as those of all ``k``; 0 for the others."""
    shape = list(values.shape)
    shape[axis] = k
    found = np.zeros(shape)
    found[(slice(None),) * axis + (present,)] = values
    return found


def pad_ridge(ridge: Ridge, present: Indices, k: int, d: int) -> Ridge:
    """Return a ridge on what members present say as one on what all say."""

    def wide(values: Floats) -> Floats:
        rest = values.shape[1:]
        return pad(values.reshape(len(present), d, *rest), present, k).reshape(k * d, *rest)

    scale = wide(ridge.scale)
    return replace(
        ridge, mean=wide(ridge.mean), scale=np.where(scale == 0, 1.0, scale), coefficients=wide(ridge.coefficients)
    )
