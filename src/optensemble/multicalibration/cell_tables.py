"""Tables of cells: all that Update needs to know of the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import cell_sums, overlap_counts
from optensemble.multicalibration.events import Cells

TABLE_LIMIT = 2048
"""Up to this many occupied cells, ``G`` is held as a table; beyond, one goes by way of the rows."""

_SHARD = 1 << 16  # rows


class Tables(NamedTuple):
    """Per cell the number of rows and the sum of residuals ``y − h``; which cells have rows enough to count at all."""

    counts: Indices
    sums: Floats
    occupied: Indices


def tabulate(cells: Cells, values: Floats, min_cell: int = 1) -> Tables:
    """Count and sum ``values`` over every cell, in one pass over the rows for each event family.

    Cells of fewer than ``min_cell`` rows are not among the occupied, and sum to 0.
    """
    layout = cells.layout
    counts = np.zeros(layout.count, dtype=np.int64)
    sums = np.zeros((layout.count, values.shape[1]))
    for event, (start, stop) in enumerate(zip(layout.offsets[:-1], layout.offsets[1:], strict=True)):
        counts[start:stop], sums[start:stop] = cell_sums(cells.column(event) - start, values, stop - start)
    sums[counts < min_cell] = 0.0
    return Tables(counts, sums, np.flatnonzero(counts >= min_cell))


def overlaps(cells: Cells, tables: Tables) -> Floats:
    """Return ``G`` on the occupied cells; the tables of shards add up."""
    kept = len(tables.occupied)
    number = np.full(cells.layout.count, kept, dtype=np.int64)  # all others share one more row and column, cut off
    number[tables.occupied] = np.arange(kept)
    n, events = len(cells.parts[0]), range(len(cells.layout.events))
    shared = np.zeros((kept, kept))
    for start in range(0, n, _SHARD):
        columns = [number[cells.column(event, slice(start, start + _SHARD))] for event in events]
        shared += overlap_counts(np.stack(columns, axis=1), kept + 1)[:kept, :kept]
    return shared


def gram(cells: Cells, delta: Floats, tables: Tables) -> Floats:
    """Return ``G δ`` on the occupied cells as ``Zᵀ(Z δ)``, by way of the rows; 0 on all others."""
    onto_rows = sum(delta[cells.column(event)] for event in range(len(cells.layout.events)))
    product = np.zeros_like(delta)
    product[tables.occupied] = tabulate(cells, np.asarray(onto_rows)).sums[tables.occupied]
    return product


class Correction(NamedTuple):
    """Per cell what to add to the predictions, the patches that took, and the drop of squared error they bring."""

    delta: Floats
    patches: int
    drop: float
