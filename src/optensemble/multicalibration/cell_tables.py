"""Tables of cells: the counts, overlaps and residual sums that every correction is computed from.

A table is all that a correction needs to know of the rows. Sums are exact but for one rounding at the end, whatever the
order of the rows, so tables of disjoint rows add up, and a fold can be subtracted, to the same bits anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import add_rows, overlap_counts
from optensemble._core.threads import one_blas_thread
from optensemble.multicalibration.events import Cells

TABLE_LIMIT = 2048
"""Up to this number of cells, the overlaps ``G`` are held as a table; beyond, products with ``G`` go by the rows."""

_SHARD = 1 << 12  # rows: overlaps are counted in pieces that fit into the cache
_PRODUCT_SPEED = 30  # steps of a matrix product in the time of one step by itself


@dataclass(frozen=True)
class CellTable:
    """Counts, residual sums ``H = Zᵀ(y − h)`` and overlaps ``G = ZᵀZ`` of some cells over some rows.

    Attributes
    ----------
    kept
        The numbers of the cells, ascending.
    counts
        The number of rows of each cell.
    high, low
        The limbs of the residual sums, of shape (cells, d); see :func:`~optensemble._core.exact_sums.add_rows`.
    shared
        The number of rows that each two cells share; None if they were not counted.
    """

    kept: Indices
    counts: Indices
    high: Floats
    low: Floats
    shared: Floats | None = None

    @property
    def sums(self) -> Floats:
        """The residual sums ``H``."""
        return self.high + self.low

    @property
    def largest(self) -> float:
        """The largest ``|H_C|``; 0 without cells."""
        return float(np.abs(self.sums).max(initial=0.0))

    def __add__(self, other: CellTable) -> CellTable:
        """Return the table of the rows of both, on the same cells and the same grid."""
        shared = None if self.shared is None or other.shared is None else self.shared + other.shared
        return CellTable(self.kept, self.counts + other.counts, self.high + other.high, self.low + other.low, shared)

    def __sub__(self, other: CellTable) -> CellTable:
        """Return the table without some of its rows: what is learned without a fold."""
        shared = None if self.shared is None or other.shared is None else self.shared - other.shared
        return CellTable(self.kept, self.counts - other.counts, self.high - other.high, self.low - other.low, shared)

    def ridge(self, penalty: float) -> Floats:
        """Solve ``(G + penalty·I) δ = H`` for the correction of each cell; the penalty must be positive."""
        from scipy.linalg import cho_factor, cho_solve

        normal = self._overlaps.copy()
        normal[np.diag_indices(len(normal))] += penalty
        return np.asarray(cho_solve(cho_factor(normal, overwrite_a=True), self.sums))

    def product(self, delta: Floats) -> Floats:
        """Return ``G δ``."""
        return np.asarray(self._overlaps @ delta)

    def smallest(self, shrinkage: float) -> tuple[Floats, Floats]:
        """Solve ``(G + shrinkage·I) δ = H``, without shrinkage for the smallest ``δ``; return ``δ`` and ``G δ``.

        Cells overlap, so ``G`` is singular: its null space is left out by way of the eigenvalues.
        """
        from scipy.linalg import eigh

        with one_blas_thread():
            values, vectors = eigh(self._overlaps, driver="evd")
            null = values <= len(values) * np.finfo(np.float64).eps * values[-1]
            inverse = np.where(null, 0.0, 1.0 / np.where(null, 1.0, values + shrinkage))
            delta = vectors @ (inverse[:, None] * (vectors.T @ self.sums))
            return delta, self._overlaps @ delta

    @property
    def _overlaps(self) -> Floats:
        if self.shared is None:
            raise ValueError("the overlaps of this table were not counted")
        return self.shared


class Correction(NamedTuple):
    """Per cell of a table what to add to predictions, the patches that took, and the drop of squared error."""

    delta: Floats
    patches: int
    drop: float


def tabulate(cells: Cells, residual: Floats, min_cell: int = 1) -> CellTable:
    """Return the table of all cells that have at least ``min_cell`` rows, without overlaps."""
    counts, high, low = _sum_cells(cells, residual)
    kept = np.flatnonzero(counts >= min_cell)
    return CellTable(kept, counts[kept], high[kept], low[kept])


def cell_counts(cells: Cells) -> Indices:
    """Return the number of rows of every cell."""
    counts = np.zeros(cells.layout.count, dtype=np.int64)
    for event in range(len(cells.layout.events)):
        counts += np.bincount(cells.column(event), minlength=cells.layout.count)
    return counts


def _sum_cells(cells: Cells, values: Floats) -> tuple[Indices, Floats, Floats]:
    """Sum the ``values`` of rows over every cell."""
    shape, (n, top) = (cells.layout.count, values.shape[1]), (len(values), float(np.abs(values).max(initial=0.0)))
    counts, high, low = np.zeros(shape[0], dtype=np.int64), np.zeros(shape), np.zeros(shape)
    for start in range(0, n, _SHARD):
        rows = np.arange(start, min(start + _SHARD, n))
        add_rows(cells.columns(rows), values[rows], top, n, counts, high, low)
    return counts, high, low


def count_overlaps(cells: Cells, kept: Indices) -> Floats:
    """Return ``G`` on the cells kept: the number of rows that each two share."""
    number = np.full(cells.layout.count, len(kept), dtype=np.int64)  # all others share one more row and column, cut off
    number[kept] = np.arange(len(kept))
    n = len(cells.parts[0])
    # a row takes events² steps one by one, or cells² steps of a matrix product, which are that much quicker
    count = _by_product if len(kept) ** 2 < _PRODUCT_SPEED * len(cells.layout.events) ** 2 else _one_by_one
    shared = np.zeros((len(kept), len(kept)))
    for start in range(0, n, _SHARD):
        shared += count(number[cells.columns(np.arange(start, min(start + _SHARD, n)))], len(kept))
    return shared


def _one_by_one(columns: Indices, kept: int) -> Floats:
    return np.asarray(overlap_counts(columns, kept + 1)[:-1, :-1])


def _by_product(columns: Indices, kept: int) -> Floats:
    """Count by ``ZᵀZ``: whole numbers, exact in single precision up to 2²⁴ rows."""
    onto = np.zeros((len(columns), kept + 1), dtype=np.float32)
    onto[np.arange(len(columns))[:, None], columns] = 1.0
    onto = onto[:, :-1]
    return np.asarray(onto.T @ onto, dtype=np.float64)


def overlaps_times(cells: Cells, table: CellTable, delta: Floats) -> Floats:
    """Return ``G δ`` on the cells of a table as ``Zᵀ(Z δ)``, by way of the rows, without ever holding ``G``."""
    whole = np.zeros((cells.layout.count, delta.shape[1]))
    whole[table.kept] = delta
    on_rows = cells.spread(whole)
    _, high, low = _sum_cells(cells, on_rows)
    return (high + low)[table.kept]
