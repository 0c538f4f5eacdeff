"""Units of dependent rows (tenths of time, clusters), sums over them, and the standard errors these imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import Sums

LEVEL = 0.95
"""The coverage of an interval, or of all intervals of a family together."""

BLOCKS = 10
"""The number of contiguous blocks that rows in time order are cut into, to see how far the mean payoff wanders."""


class RowUnits(NamedTuple):
    """The block of time of each row, and its cluster out of some ``clusters``; None where rows have none."""

    block: Indices | None = None
    cluster: Indices | None = None
    clusters: int = 0

    def take(self, rows: Indices | slice) -> RowUnits:
        """Return the units of some of the rows."""
        block = None if self.block is None else self.block[rows]
        return RowUnits(block, None if self.cluster is None else self.cluster[rows], self.clusters)


@dataclass(frozen=True)
class UnitSums(Sums):
    """The sums of some columns over rows and over units of dependent rows: all that a standard error needs.

    Columns should be about a value near their mean, where sums of squares lose no digits.

    Attributes
    ----------
    rows
        The number of rows, or the sum of their weights.
    total, squares
        The sums of every column, and of its squares.
    blocks, clusters
        The sums over each block of time and over each cluster, of shape (units, columns + 1); the last column counts
        their rows. None where rows have none.
    weight_squares
        The sum of squared weights; None where rows have no weights.
    """

    rows: float
    total: Floats
    squares: Floats
    blocks: Floats | None = None
    clusters: Floats | None = None
    weight_squares: float | None = None

    @classmethod
    def of(cls, values: Floats, units: RowUnits, weights: Floats | None = None) -> Self:
        """Sum columns, of shape (columns, n), over rows that belong to ``units``, each ``weights`` times."""
        blocks = None if units.block is None else sum_units(values, units.block, BLOCKS, weights)
        clusters = None if units.cluster is None else sum_units(values, units.cluster, units.clusters, weights)
        if weights is None:
            return cls(values.shape[1], values.sum(axis=1), np.square(values).sum(axis=1), blocks, clusters)
        weighted = values * weights
        squares = float(np.square(weights).sum())
        return cls(
            *(float(weights.sum()), weighted.sum(axis=1), (weighted * values).sum(axis=1), blocks, clusters, squares)
        )

    @property
    def effective(self) -> float:
        """The number of rows of equal weight whose mean is as sure: ``(Σw)²/Σw²`` (Kish)."""
        return self.rows if self.weight_squares is None else self.rows**2 / self.weight_squares

    def column(self, number: int, minus: int | None = None, squares: float | None = None) -> UnitSums:
        """Return a single column; the difference of two, given the sum of its ``squares``.

        Where that is 0, the two are the same in every row, and what their sums differ by is rounding.
        """
        same = squares == 0

        def pick(sums: Floats | None) -> Floats | None:
            if sums is None:
                return None
            found = sums[:, number] if minus is None else sums[:, number] - sums[:, minus]
            return np.stack([0.0 * found if same else found, sums[:, -1]], axis=1)

        total = 0.0 if same else self.total[number] - (0.0 if minus is None else self.total[minus])
        known = self.squares[number] if squares is None else squares
        sums = np.array([total]), np.array([known]), pick(self.blocks), pick(self.clusters)
        return UnitSums(self.rows, *sums, self.weight_squares)

    @property
    def means(self) -> Floats:
        """The mean of every column."""
        return np.asarray(self.total / self.rows)

    @property
    def variances(self) -> Floats:
        """The variance of every column."""
        left = self.squares - self.total * self.means
        return np.asarray(np.where(left > _ROUNDING * self.squares, left, 0.0) / (self.rows - 1))

    @property
    def design_effects(self) -> Floats:
        """The ratio of the variance of each mean to that of as many independent rows; at least 1 without weights."""
        return self._effects(self.variances)

    def _effects(self, variances: Floats) -> Floats:
        least = self.rows / self.effective
        if self.clusters is not None:  # whose sums tell what weights do
            least = min(least, 1.0)
        effects, varied = np.full(len(self.total), least), variances > 0
        if self.blocks is not None:
            sizes = self.blocks[:, -1]
            levels = self.blocks[:, :-1][sizes > 0] / sizes[sizes > 0][:, None]
            found = levels.var(axis=0, ddof=1) * self.rows / BLOCKS
            np.maximum(effects, np.divide(found, variances, out=np.ones_like(found), where=varied), out=effects)
        if self.clusters is not None:
            sizes = self.clusters[:, -1]
            left = max(left_by_centring(sizes), 1e-9)
            found = np.square(self.clusters[:, :-1] - sizes[:, None] * self.means).sum(axis=0) / self.rows / left
            np.maximum(effects, np.divide(found, variances, out=np.ones_like(found), where=varied), out=effects)
        return effects

    @property
    def errors(self) -> Floats:
        """The standard error of every mean."""
        variances = self.variances
        return np.asarray(np.sqrt(variances / self.rows * self._effects(variances)))

    def quantile(self, family: int = 1) -> float:
        """Return the half-width of a 95 % interval in standard errors, or of each of a ``family`` held jointly."""
        sizes = None if self.clusters is None else self.clusters[:, -1]
        return t_quantile(self.effective, self.blocks is not None, sizes, family)


_ROUNDING = 1e-14  # relative to the sum of squares: less of a variance is rounding


def sum_units(values: Floats, unit: Indices, units: int, weights: Floats | None = None) -> Floats:
    """Return the sums of columns (columns, n) over units, and in the last column the units' numbers of rows.

    With weights, each row is there as often as its weight says.
    """
    if weights is None:
        return np.asarray(add_units(values, unit, units))
    return np.asarray(add_units(np.concatenate([values * weights, weights[None]]), unit, units)[:, :-1])


@njit(cache=True, nogil=True)
def add_units(values: Floats, unit: Indices, units: int) -> Floats:
    """Return the sums of columns (columns, n) over units, and in the last column the units' numbers of rows."""
    columns, n = values.shape
    sums = np.zeros((units, columns + 1))
    for i in range(n):
        for c in range(columns):
            sums[unit[i], c] += values[c, i]
        sums[unit[i], columns] += 1.0
    return sums


def block_of(rows: Indices, n: int) -> Indices:
    """Return the block of time that each of ``n`` rows belongs to; the first ones may have a row more.

    >>> block_of(np.arange(23), 23).tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    """
    size, longer = divmod(n, BLOCKS)
    early = rows // (size + 1)
    return np.asarray(np.where(early < longer, early, longer + (rows - longer * (size + 1)) // max(size, 1)))


def part_of(rows: Indices, n: int, parts: int) -> Indices:
    """Return which of some contiguous parts each of ``n`` rows belongs to."""
    return np.asarray(rows * parts // n)


def left_by_centring(sizes: Floats) -> float:
    """Return the share of the variance of unit sums that is left once the common mean is taken out.

    It is ``1 − 1/G`` for ``G`` equal units, and less if some are larger and vary as much as their size.
    """
    n, squares = sizes.sum(), np.square(sizes).sum()
    return float(1 - 2 * (sizes**3).sum() / (n * squares) + squares / n**2)


def t_quantile(n: float, time_ordered: bool, sizes: Floats | None, family: int = 1) -> float:
    """Return the half-width of a 95 % interval in standard errors, or of each of a ``family`` held jointly.

    ``sizes`` are those of clusters, if there are any.
    """
    freedom = float(n - 1)
    if sizes is not None:  # unequal clusters count for fewer
        freedom = float(sizes.sum() ** 2 / np.square(sizes).sum()) - 1
    if time_ordered:
        freedom = min(freedom, BLOCKS - 1)
    from scipy.special import stdtrit  # takes a tenth of a second to load

    return float(-stdtrit(max(freedom, 1.0), (1 - LEVEL) / 2 / family))
