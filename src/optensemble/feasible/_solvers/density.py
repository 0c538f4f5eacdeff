"""Knapsacks of one resource whose items may be taken in fractions, by density.

Weights come as shares of the capacity, which is 1.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import row_scale

FIT = 1e-12
"""A weight beyond the capacity by this share of it is rounding, and fits."""


@njit(cache=True, nogil=True, error_model="numpy")
def fill_by_density(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Take the items above the critical density, and then those at it, in order, as far as they fit."""
    n, d = C.shape
    density, first, second = np.empty(d), np.empty((2, d)), np.empty((2, d))
    for i in range(n):
        scale = row_scale(C[i])
        for j in range(d):
            density[j] = C[i, j] / scale / floats[j] if C[i, j] > 0.0 else 0.0
        critical = critical_density(density, floats, d, first, second)
        room = 1.0
        for j in range(d):
            whole = density[j] > critical * (1.0 + SAME_VALUE)
            actions[i, j] = 1.0 if whole else 0.0
            room -= floats[j] if whole else 0.0
        for j in range(d):
            level = critical * (1.0 - SAME_VALUE) <= density[j] <= critical * (1.0 + SAME_VALUE)
            if level and room > FIT and density[j] > 0.0:
                actions[i, j] = 1.0 if floats[j] <= room + FIT else room / floats[j]
                room -= floats[j]


@inner
def critical_density(density, weight, n, candidates, buffer):  # type: ignore[no-untyped-def]
    """Return the density at which the capacity is used up if items are taken from the densest on; 0 if all fit."""
    count = 0
    for j in range(n):
        candidates[0, count], candidates[1, count] = density[j], weight[j]
        count += density[j] > 0.0
    room, below = 1.0, 0.0
    while count > 0:
        a, b, c = candidates[0, 0], candidates[0, count // 2], candidates[0, count - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        above = under = 0
        denser = level = 0.0
        # Denser items go to the front of the buffer and sparser ones to its end, without branches to mispredict.
        for k in range(count):
            x, w = candidates[0, k], candidates[1, k]
            buffer[0, above], buffer[1, above] = x, w
            above += x > pivot
            buffer[0, count - 1 - under], buffer[1, count - 1 - under] = x, w
            under += x < pivot
            denser += w if x > pivot else 0.0
            level += w if x == pivot else 0.0
        if denser <= room < denser + level:
            return pivot
        start = 0
        if denser > room:
            count, below = above, pivot
        else:
            start, count, room = count - under, under, room - denser - level
        for k in range(count):
            candidates[0, k], candidates[1, k] = buffer[0, start + k], buffer[1, start + k]
    return below
