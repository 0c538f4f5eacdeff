"""Sums whose bits do not depend on the order of the rows."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._types import Floats, Indices


@njit(cache=True, nogil=True)
def cell_sums(cells: Indices, values: Floats, count: int) -> tuple[Indices, Floats]:
    """Count the rows of each cell and sum their ``values``, exactly.

    Each value is split into two limbs on grids so coarse that no partial sum of a limb is ever rounded: float
    addition is then associative, and any order of the rows agrees. One rounding is left, when the limbs meet.
    """
    n, d = values.shape
    top = 0.0
    for i in range(n):
        for j in range(d):
            top = max(top, abs(values[i, j]))
    counts = np.zeros(count, np.int64)
    high, low = np.zeros((count, d)), np.zeros((count, d))
    bits = 52.0 - np.ceil(np.log2(n + 1.0))
    # below the smallest normal number there is nothing left to split
    coarse = 2.0 ** max(np.ceil(np.log2(top)) - bits, -960.0) if top > 0.0 else 1.0
    fine = coarse * 2.0**-bits
    for i in range(n):
        cell = cells[i]
        counts[cell] += 1
        for j in range(d):
            head = np.rint(values[i, j] / coarse) * coarse
            high[cell, j] += head
            low[cell, j] += np.rint((values[i, j] - head) / fine) * fine
    return counts, high + low


@njit(cache=True, nogil=True)
def overlap_counts(cells: Indices, count: int) -> Floats:
    """Return ``G = ZᵀZ``: how many rows each two cells share; ``cells`` is (n, columns)."""
    n, columns = cells.shape
    shared = np.zeros((count, count))
    for i in range(n):
        for p in range(columns):
            for q in range(columns):
                shared[cells[i, p], cells[i, q]] += 1.0
    return shared


@njit(cache=True, nogil=True)
def row_dots(left: Floats, right: Floats) -> Floats:
    """Return ``left[i]·right[i]`` for every row, summed in the order of the coordinates."""
    n, d = left.shape
    dots = np.zeros(n)
    for i in range(n):
        for j in range(d):
            dots[i] += left[i, j] * right[i, j]
    return dots
