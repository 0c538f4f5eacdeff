"""The best of a finite list of actions that satisfy a row's own limits."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import row_scale

EMPTY = 1
"""The status of a row that no action of the list is allowed in."""

NEARLY_TIED = 2
"""The status of a row whose actions are tied, but not by rounding alone: its own list, which is shorter, decides."""

_BY_ROUNDING = 1e-14
"""Values that differ by more, relative to the terms that add up to them, are not tied by rounding."""


def shared_list_kernel(points: Floats, measures: Floats) -> Kernel:
    """Return the kernel that takes the best of a list of points whose measures lie within a row's own limits.

    ``measures`` has a column for each limit; a row's own parameters are the least and then the most they may be.
    """
    rows_at_once = max(1, min(8192, 40_000_000 // (points.size + measures.size + 1)))
    return make_kernel(best_within_limits, [points.T, measures.T], ints=[len(points)], rows_at_once=rows_at_once)


@njit(cache=True, nogil=True, error_model="numpy")
def best_within_limits(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best points within its limits."""
    n, d = C.shape
    count, m = ints[0], own.shape[1] // 2
    columns = floats[: d * count].reshape(d, count)
    measures = floats[d * count :].reshape(m, count)
    values = np.empty(count)
    for i in range(n):
        scale = row_scale(C[i])
        # The sum runs over coordinates for all points at once: vectorised, yet in one fixed order.
        values[:] = 0.0
        for j in range(d):
            c = C[i, j] / scale
            for v in range(count):
                values[v] += columns[j, v] * c
        for r in range(m):
            least, most = own[i, r], own[i, m + r]
            for v in range(count):
                values[v] = values[v] if (measures[r, v] >= least) & (measures[r, v] <= most) else -np.inf
        best, chosen = first_best(values)
        if not best > -np.inf:
            status[i] = EMPTY
            continue
        size = 0.0
        for j in range(d):
            size += abs(columns[j, chosen] * (C[i, j] / scale))
        for v in range(chosen):
            if values[v] >= best - SAME_VALUE * size:
                chosen = v
                break
        if values[chosen] < best - _BY_ROUNDING * size:
            status[i] = NEARLY_TIED
        for j in range(d):
            actions[i, j] = columns[j, chosen]


@inner
def first_best(values):  # type: ignore[no-untyped-def]
    """Return the largest value, and the first place that has it."""
    best, first = -np.inf, 0
    for v in range(len(values)):
        if values[v] > best:
            best, first = values[v], v
    return best, first
