"""Tables of cells: the counts, overlaps and residual sums that every correction is computed from.

A table is all that a correction needs to know of the rows. Sums are exact but for one rounding at the end, whatever the
order of the rows, so tables of disjoint rows add up to the same bits anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from optensemble._core import cell_sums
from optensemble._core.arrays import Floats, Indices
from optensemble._core.cell_sums import Cells as CellNumbers
from optensemble._core.cell_sums import add_limbs
from optensemble._core.threads import one_blas_thread
from optensemble.multicalibration.events import Cells

TABLE_LIMIT = 2048
"""Up to this number of cells, the overlaps ``G`` are held as a table; beyond, products with ``G`` go by the rows."""

_SHARD = 1 << 12  # rows: overlaps are counted in pieces that fit into the cache
_DEFINITE = 1e-9  # of the largest eigenvalue, of which the largest sum of a line is a bound


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
        The limbs of the residual sums, of shape (cells, d); see :func:`~optensemble._core.cell_sums.add_limbs`.
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

    def thick(self, least: int) -> CellTable:
        """Return the table of the cells that have at least ``least`` rows, without overlaps."""
        at = np.flatnonzero(self.counts >= least)
        return CellTable(self.kept[at], self.counts[at], self.high[at], self.low[at])

    def ridge(self, penalty: float) -> Floats:
        """Solve ``(G + penalty·I) δ = H`` for the correction of each cell; the penalty must be positive."""
        from scipy.linalg import cho_factor, cho_solve

        normal = self.overlaps.T.copy(order="F")  # G is symmetric, and LAPACK goes by columns
        normal[np.diag_indices(len(normal))] += penalty
        return np.asarray(
            cho_solve(cho_factor(normal, overwrite_a=True, check_finite=False), self.sums, check_finite=False)
        )

    def smallest(self, shrinkage: float) -> tuple[Floats, Floats]:
        """Solve ``(G + shrinkage·I) δ = H``, without shrinkage for the smallest ``δ``; return ``δ`` and ``G δ``.

        Cells overlap, so ``G`` is singular: its null space is left out by way of the eigenvalues. Shrinkage that can be
        seen beside these makes the equations definite, and they take a small part of the time.
        """
        from scipy.linalg import eigh

        with one_blas_thread():
            if shrinkage > _DEFINITE * float(self.overlaps.sum(axis=1).max()):
                delta = self.ridge(shrinkage)
            else:
                values, vectors = eigh(self.overlaps, driver="evd")
                null = values <= len(values) * np.finfo(np.float64).eps * values[-1]
                inverse = np.where(null, 0.0, 1.0 / np.where(null, 1.0, values + shrinkage))
                delta = vectors @ (inverse[:, None] * (vectors.T @ self.sums))
            return delta, self.overlaps @ delta

    @property
    def overlaps(self) -> Floats:
        """The overlaps ``G``; an error if they were not counted."""
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
    return tabulate_all(cells, residual, float(np.abs(residual).max(initial=0.0)), len(residual)).thick(min_cell)


def tabulate_all(cells: Cells, residual: Floats, top: float, total: int) -> CellTable:
    """Return the table of all cells, empty ones too, of some of ``total`` rows, none larger than ``top``."""
    counts, high, low = _sum_cells(cells, residual, top, total)
    return CellTable(np.arange(len(counts)), counts, high, low)


def _sum_cells(cells: Cells, values: Floats, top: float, total: int) -> tuple[Indices, Floats, Floats]:
    """Sum the ``values`` of some of ``total`` rows, none larger than ``top``, over every cell."""
    shape = (1, cells.layout.count, values.shape[1])
    counts, high, low = np.zeros(shape[:2], dtype=np.int64), np.zeros(shape), np.zeros(shape)
    for here in _shards(len(values)):
        columns = cells.columns(here).astype(np.int32)
        add_limbs(columns, np.zeros(len(columns), dtype=np.int64), values[here], top, total, counts, high, low)
    return counts[0], high[0], low[0]


def _shards(count: int) -> list[slice]:
    return [slice(start, start + _SHARD) for start in range(0, count, _SHARD)]


def with_overlaps(cells: Cells, table: CellTable) -> CellTable:
    """Return a table of all rows with its overlaps, which are counted unless they were."""
    return table if table.shared is not None else replace(table, shared=count_overlaps(cells, table.kept))


def count_overlaps(cells: Cells, kept: Indices) -> Floats:
    """Return ``G`` on the cells kept: the number of rows that each two share."""
    everything, still = np.arange(len(kept)), cells.layout.in_fixed[kept]
    if cells.counted is None or not still.any():
        return _count(cells, kept, everything)
    name = cells.layout, kept[still].tobytes()
    if name not in cells.counted:  # what given policies and subgroups share is the same in every round
        cells.counted[name] = _count(cells, kept[still], np.arange(int(still.sum())))
    shared = _count(cells, kept, everything[~still])
    shared[np.ix_(still, still)] = cells.counted[name]
    return shared


def _count(cells: Cells, kept: Indices, moving: Indices) -> Floats:
    """Count the rows that each two cells share of which one at least is moving."""
    number = np.full(cells.layout.count, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    lines = np.zeros((1, len(moving), len(kept)), dtype=np.int32)
    for here in _shards(len(cells.parts[0])):
        columns = number[cells.columns(here)]
        cell_sums.count_overlaps(columns, np.zeros(len(columns), dtype=np.int64), moving, lines)
    return _both_places(lines[0], moving)


def _both_places(lines: CellNumbers, moving: Indices) -> Floats:
    """Return the counts of two cells, each in one of its two places, as a symmetric table; of fixed cells 0."""
    once = np.zeros((lines.shape[1], lines.shape[1]))
    once[moving] = lines
    shared = once + once.T
    shared[np.diag_indices(len(shared))] = np.diag(once)
    return shared


def overlaps_times(cells: Cells, table: CellTable, delta: Floats) -> Floats:
    """Return ``G δ`` on the cells of a table as ``Zᵀ(Z δ)``, by way of the rows, without ever holding ``G``."""
    whole = np.zeros((cells.layout.count, delta.shape[1]))
    whole[table.kept] = delta
    on_rows = cells.spread(whole)
    _, high, low = _sum_cells(cells, on_rows, float(np.abs(on_rows).max(initial=0.0)), len(on_rows))
    return (high + low)[table.kept]
