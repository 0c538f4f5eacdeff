"""Knapsacks of one resource whose items may be taken in fractions, by density.

Weights of all there is of an item come as shares of the capacity, which is 1; after them, how much there is. A row may
have both of its own, or only its capacity: its shares are then made here, of the weights.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner, reduction
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import row_scale

FIT = 1e-12
"""A weight beyond the capacity by this share of it is rounding, and fits."""

WEIGHTLESS = 1e-100
"""A smaller share of the capacity weighs nothing: densities, coefficients over weights, must stay finite."""


_NARROWING = 4  # times that the load is weighed: of some fifty items two or three are then left
_FEW = 12  # items: to leave some of these out would take longer than it saves


@njit(cache=True, nogil=True, error_model="numpy")
def fill_by_density(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take the items above the critical density, and then those at it, in order, as far as they fit."""
    n, d = C.shape
    density, level = np.empty(d), np.empty(d, np.int64)
    candidates, buffer = np.empty((2, d)), np.empty((2, d))
    shares, critical = np.empty(d), 1.0
    for i in range(n):
        scale, row = row_scale(C[i]), actions[i]
        weight = own[i, :d] if own.shape[1] == 2 * d else floats[:d]
        there_is = own[i, d:] if own.shape[1] == 2 * d else floats[d:]
        if own.shape[1] == 1:
            share_out(weight, own[i, 0], there_is, shares)
            weight = shares
        for j in range(d):
            density[j] = C[i, j] / scale * there_is[j] / weight[j] if C[i, j] * there_is[j] > 0.0 else 0.0
        if d > _FEW:
            critical = critical_near(critical, density, weight, candidates, buffer)
        else:
            critical = critical_density(density, weight, d, candidates, buffer)
        above, under = critical * (1.0 + SAME_VALUE), critical * (1.0 - SAME_VALUE)
        for j in range(d):
            row[j] = 1.0 if density[j] > above else 0.0
        room, count = 1.0, 0
        for j in range(d):  # without branches, which could not be predicted
            room -= weight[j] * row[j]
            level[count] = j
            count += (density[j] >= under) & (density[j] <= above)
        for j in level[:count]:
            if room > FIT and density[j] > 0.0:
                row[j] = 1.0 if weight[j] <= room + FIT else room / weight[j]
                room -= weight[j]
        for j in range(d):
            row[j] *= there_is[j]


@inner
def share_out(weights, capacity, there_is, shares):  # type: ignore[no-untyped-def]
    """Write the shares of the capacity that all there is of each item weighs; next to nothing, and 0 / 0, is 0."""
    for j in range(len(shares)):
        share = weights[j] / capacity
        share = share * there_is[j] if share > WEIGHTLESS else 0.0
        shares[j] = share if share > WEIGHTLESS else 0.0


@inner
def critical_density(density, weight, n, candidates, buffer):  # type: ignore[no-untyped-def]
    """Return the density at which the capacity is used up if items are taken from the densest on; 0 if all fit."""
    count = 0
    for j in range(n):
        candidates[0, count], candidates[1, count] = density[j], weight[j]
        count += density[j] > 0.0
    return _select(candidates, buffer, count, 1.0)


@inner
def critical_near(guess, density, weight, candidates, buffer):  # type: ignore[no-untyped-def]
    """Return the same for many items, faster if the guess is near: then few items are left to look at closely.

    From the guess on, the load is interpolated between the prices on both sides.
    """
    n, price = len(density), guess
    low, high, more, less = 0.0, np.inf, np.inf, 0.0
    for _ in range(_NARROWING):
        used = weigh_above(density, weight, price)
        if used <= 1.0:
            high, less = price, used
        else:
            low, more = price, min(used, 1e300)
        if more < np.inf and high < np.inf:
            price = low + (high - low) * ((more - 1.0) / (more - less))
        else:
            price *= min(used * used, 4.0)
    count = 0
    for j in range(n):
        candidates[0, count], candidates[1, count] = density[j], weight[j]
        count += (density[j] > low) & (density[j] <= high)
    found = _select(candidates, buffer, count, 1.0 - less)
    if found == 0.0 and low > 0.0:  # all of them fit, but for rounding: the next item is the critical one
        for j in range(n):
            found = density[j] if found < density[j] <= low else found
    return found


@reduction
def weigh_above(density, weight, price):  # type: ignore[no-untyped-def]
    """Return the weight of the items above a density."""
    load = 0.0
    for j in range(len(density)):
        load += weight[j] if density[j] > price else 0.0
    return load


@inner
def _select(candidates, buffer, count, room):  # type: ignore[no-untyped-def]
    """Return the density at which the room is used up if ``count`` candidates are taken from the densest on."""
    below = 0.0
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
