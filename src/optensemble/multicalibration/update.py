"""Algorithm 1 on frozen cells: while some cell violates α-consistency, patch the worst.

It never needs the rows. It acts on the table of overlaps ``G = ZᵀZ`` and residual sums ``H = Zᵀ(y − h)`` alone: a patch
is ``δ = H_C / G_CC``, after which ``H −= G[:, C] δ``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import cell_sums
from optensemble._core.tolerances import SAME_VIOLATION
from optensemble.multicalibration import cell_tables
from optensemble.multicalibration.cell_tables import CellTable, Correction, with_overlaps
from optensemble.multicalibration.events import Cells

_PATCHES_AT_ONCE = 10_000  # an interrupt waits for them


def update(cells: Cells, residual: Floats, table: CellTable, alpha: float) -> Correction:
    """Algorithm 1: while some cell violates, patch the worst.

    Where ``G`` would be too large, every violating cell of a column is patched at once, column after column: the
    cells of a column are disjoint, so these are patches of Algorithm 1 too, in another order.
    """
    if len(table.kept) > cell_tables.TABLE_LIMIT:
        return _sweep(cells, residual.copy(), table, alpha * len(residual))
    return update_table(with_overlaps(cells, table), len(residual), alpha)


def update_table(table: CellTable, n: int, alpha: float) -> Correction:
    """Algorithm 1 on the table of ``n`` rows, overlaps included."""
    sums, counts, shared = table.sums, table.counts.astype(np.float64), table.overlaps
    threshold, delta = alpha * n, np.zeros_like(sums)
    patches, drop, made, worst, before = 0, 0.0, _PATCHES_AT_ONCE, np.abs(sums).max(), np.inf
    # if many patches bring no progress, rounding has worn the tables out: the next round makes new ones
    while made == _PATCHES_AT_ONCE and worst < before:
        made, dropped = patch_worst(sums, counts, shared, delta, threshold, _PATCHES_AT_ONCE)
        patches, drop = patches + made, drop + dropped
        worst, before = np.abs(sums).max(), worst
    return Correction(delta, patches, drop / n)


@njit(cache=True, nogil=True)
def patch_worst(
    sums: Floats, counts: Floats, overlaps: Floats, delta: Floats, threshold: float, most: int
) -> tuple[int, float]:
    """Patch the worst cell, at most ``most`` times, while some ``|H_C|`` exceeds the threshold; in place."""
    cells, d = sums.shape
    drop, largest = 0.0, np.zeros(cells)
    for cell in range(cells):
        for j in range(d):
            largest[cell] = max(largest[cell], abs(sums[cell, j]))
    for made in range(most):
        worst, C = 0.0, -1
        for cell in range(cells):
            # most cells are dismissed by their largest sum alone
            if largest[cell] > threshold and largest[cell] > worst * (1.0 + SAME_VIOLATION):
                C = cell
                for j in range(d):
                    size = abs(sums[cell, j])
                    if size > threshold and size > worst * (1.0 + SAME_VIOLATION):  # a tie goes to the first cell
                        worst = size
        if C < 0:
            return made, drop
        step = sums[C] / counts[C]
        delta[C] += step
        for j in range(d):
            drop += counts[C] * step[j] ** 2
        line = overlaps[C]  # overlaps are symmetric
        for cell in range(cells):
            shared = line[cell]
            if shared > 0.0:
                left, size = sums[cell], 0.0
                for j in range(d):
                    left[j] -= shared * step[j]
                    size = max(size, abs(left[j]))
                largest[cell] = size
    return most, drop


def _sweep(cells: Cells, residual: Floats, table: CellTable, threshold: float) -> Correction:
    """Patch every violating cell of one column at once, column after column, until a whole sweep finds none."""
    layout, n = cells.layout, len(residual)
    offsets, kept = layout.offsets, np.zeros(layout.count, dtype=np.bool_)
    kept[table.kept] = True
    delta = np.zeros((layout.count, residual.shape[1]))
    patches, drop, quiet, event = 0, 0.0, 0, 0
    while quiet < len(layout.events):
        start, stop = offsets[event : event + 2]
        local = cells.column(event) - start
        counts, sums = cell_sums(local, residual, stop - start)
        violating = (np.abs(sums).max(axis=1) > threshold) & kept[start:stop]
        quiet = 0 if violating.any() else quiet + 1
        if quiet == 0:
            step = np.where(violating[:, None], sums / np.maximum(counts, 1)[:, None], 0.0)
            delta[start:stop] += step
            residual -= step[local]
            patches += int(violating.sum())
            drop += float((counts[:, None] * step**2).sum())
        event = (event + 1) % len(layout.events)
    return Correction(delta[table.kept], patches, drop / n)
