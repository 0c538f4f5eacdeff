"""Linear programmes that differ in their costs alone, by the dual simplex method on a dense tableau.

A basis expresses m *basic* variables by k *others*, ``x_basic = T x_others``, and the others stand at a bound. All
variables are bounded on both sides: put at the side that their reduced costs ask for, they make any basis dual
feasible. So every row starts from the same basis, without a first phase, and its answer depends on nothing but the set
and the row. A hint is of no use here.

The tableau has margins. Below T: the reduced costs of the weights that break ties, those of the row, and for each of
the others its side (1 at its lower bound, -1 at its upper bound), its lower bound and its upper bound. To the right of
T: for each basic variable its value, its lower bound and its upper bound. ``names`` tells which variables these are,
the others first.

All compiled code is in this one module, because numba's cache looks at the module of a function and not at those of
the functions it calls.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble.feasible._solvers.scale import magnitude
from optensemble.feasible._solvers.standard_form import StandardForm

GAVE_UP = 1
"""The status of a row that is left to HiGHS."""

_BELOW, _RIGHT = 5, 3
"""The rows and columns of the margins."""

_TIED = 1e-12
"""Reduced costs this close to 0, beside costs of a size near 1, are 0."""

_WEIGHT = 1e-9
"""The share of the weights beside the costs until the basis is feasible: with no tied costs, no step is in vain."""

_GAIN = 1e-10
"""What a tied edge must gain by the weights; above their rounding, which would let the method run in circles."""

_SIMPLEX_ROUNDING = 1e-9
"""An error that may be rounding, beside variables of a size near 1: as much as HiGHS's rows are relaxed by."""

_PIVOT = 1e-7
"""Entries no larger are not divided by: they may be zeros that elimination has rounded."""

_OUTSIDE = 1e-11
"""A basic variable no further outside its bounds is inside."""

_ON_BOUND = 1e-12
"""A basic variable this close to a bound stands at it, so that the coordinate is exact."""


def simplex_kernel(form: StandardForm, least: Floats, most: Floats, weights: Floats) -> Kernel:
    """Return the kernel for ``least <= a <= most`` in a standard form; among tied actions ``weights·a`` is least."""
    m, k = form.matrix.shape
    moving = form.variables >= 0
    gains = np.zeros(k + m)
    gains[form.variables[moving]] = -(weights * form.units)[moving]
    gains /= np.abs(gains).max(initial=0.0) or 1.0
    start = np.zeros((m + _BELOW, k + _RIGHT))
    start[:m, :k] = form.matrix
    start[:m, k + 1], start[:m, k + 2] = form.lower[k:], form.upper[k:]
    start[m, :k] = gains[:k] + gains[k:] @ form.matrix
    start[m + 2, :k], start[m + 3, :k], start[m + 4, :k] = 1.0, form.lower[:k], form.upper[:k]
    return make_kernel(
        best_bases,
        floats=[start, form.matrix.T, form.lower, form.upper, form.bases, form.units, least, most],
        ints=[m, k, form.variables],
        rows_at_once=int(np.clip(1e8 // (m * k * (m + k) + 1), 16, 4096)),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def best_bases(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row from the basis in which all rows of the matrix are basic."""
    n, d = C.shape
    m, k, variables = ints[0], ints[1], ints[2:]
    end = (m + _BELOW) * (k + _RIGHT)
    start, rest = floats[:end].reshape(m + _BELOW, k + _RIGHT), floats[end:]
    columns, rest = rest[: m * k].reshape(k, m), rest[m * k :]
    bounds, coordinates = rest[: 2 * (m + k)].reshape(2, m + k), rest[2 * (m + k) :].reshape(4, d)
    T, names = np.empty((m + _BELOW, k + _RIGHT)), np.empty(k + m, np.int64)
    ratios, order = np.empty((2, k)), np.empty(k, np.int64)
    cost, point, error = np.zeros(k + m), np.empty(k + m), np.empty(m)
    for i in range(n):
        scale_costs(C[i], variables, coordinates, cost)
        begin(T, names, start, cost, columns, error)
        solved = make_feasible(T, names, ratios, order) and climb(T, names, m + 1) and climb(T, names, m)
        if solved and collect(T, names, bounds, point, columns, error) <= _SIMPLEX_ROUNDING:
            write_point(point, variables, bounds, coordinates, actions[i])
        else:
            status[i] = GAVE_UP


@inner
def scale_costs(c, variables, coordinates, cost):  # type: ignore[no-untyped-def]
    """Bring a row to the units of the variables and to a size near 1, by powers of two."""
    factor = normaliser(c)
    for j in range(len(c)):
        if variables[j] >= 0:
            cost[variables[j]] = c[j] * factor * coordinates[1, j]
    factor = normaliser(cost)
    for v in range(len(cost)):
        cost[v] *= factor


@inner
def normaliser(values):  # type: ignore[no-untyped-def]
    """Return the power of two that brings the largest value near 1."""
    return math.ldexp(1.0, min(-math.frexp(magnitude(values))[1], 1000))


@inner
def begin(T, names, start, cost, columns, value):  # type: ignore[no-untyped-def]
    """Set up the first basis, with each of the others at the side that its reduced cost asks for."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    for i in range(m + _BELOW):
        for j in range(k + _RIGHT):
            T[i, j] = start[i, j]
    for v in range(k + m):
        names[v] = v
    for j in range(k):
        T[m + 1, j] = cost[j]
    for i in range(m):
        if cost[k + i] != 0.0:
            for j in range(k):
                T[m + 1, j] += cost[k + i] * start[i, j]
    # Without branches, which would be mispredicted half of the time: variables that stay make steps of 0.
    value[:] = 0.0
    for j in range(k):
        gains = T[m + 1, j] + _WEIGHT * T[m, j] > 0.0
        T[m + 2, j] = -1.0 if gains else 1.0
        step = T[m + 4, j] - T[m + 3, j] if gains else 0.0
        for i in range(m):
            value[i] += columns[j, i] * step
    for i in range(m):
        T[i, k] += value[i]


@inner
def make_feasible(T, names, ratios, order):  # type: ignore[no-untyped-def]
    """Bring the basic variable that is furthest outside to its bound, by the others that cost least; repeat."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    trials = 100 + 10 * (m + k)
    r, excess = furthest_outside(T, m, k)
    while r >= 0 and trials > 0:
        trials -= 1
        side = 1.0 if T[r, k] < T[r, k + 1] else -1.0
        count = list_ratios(T, r, side, ratios, order)
        passed = pass_over(excess, ratios, order, count)
        # Even all of those passed over, at their other bounds, leave some excess: they go there.
        for t in range(passed):
            flip_bound(T, order[t])
        bound = k + 1 if side > 0.0 else k + 2
        if passed < count:
            q = order[passed]
            exchange(T, names, r, q, (T[r, bound] - T[r, k]) / T[r, q], side)
        elif abs(T[r, bound] - T[r, k]) <= _SIMPLEX_ROUNDING:
            T[r, bound] = T[r, k]  # rounding of the constraints keeps it outside
        else:
            trials = 0
        r, excess = furthest_outside(T, m, k)
    return r < 0


@inner
def furthest_outside(T, m, k):  # type: ignore[no-untyped-def]
    """Return the row of the basic variable that is furthest outside its bounds, or -1, and how far."""
    furthest, excess = -1, _OUTSIDE
    for i in range(m):
        outside = max(T[i, k + 1] - T[i, k], T[i, k] - T[i, k + 2])
        if outside > excess:
            furthest, excess = i, outside
    return furthest, excess


@inner
def list_ratios(T, r, side, ratios, order):  # type: ignore[no-untyped-def]
    """List the others that can bring row r toward its bound: the cost of a unit, and the most they gain; count them."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    count = 0
    for j in range(k):
        slope = T[r, j] * T[m + 2, j] * side
        order[count] = j
        ratios[0, count] = abs(T[m + 1, j] + _WEIGHT * T[m, j]) / slope
        ratios[1, j] = slope * (T[m + 4, j] - T[m + 3, j])
        count += slope > _PIVOT
    return count


@inner
def pass_over(excess, ratios, order, count):  # type: ignore[no-untyped-def]
    """Return how many of least ratios together gain less than the excess; they come first, and the next one after."""
    first, end = 0, count
    while first < end:
        last = end - 1
        middle = sample(excess, ratios, order, first, last)
        pivot, chosen = ratios[0, middle], order[middle]
        ratios[0, middle], order[middle] = ratios[0, last], order[last]
        place, total = first, 0.0
        for t in range(first, last):
            # Without branches: put in front in any case, and kept there only if less.
            ratio, j = ratios[0, t], order[t]
            ratios[0, t], order[t] = ratios[0, place], order[place]
            ratios[0, place], order[place] = ratio, j
            less = ratio < pivot
            total += ratios[1, j] if less else 0.0
            place += less
        ratios[0, last], order[last] = ratios[0, place], order[place]
        ratios[0, place], order[place] = pivot, chosen
        if excess <= total:
            end = place
        elif excess <= total + ratios[1, chosen]:
            first = end = place
        else:
            excess -= total + ratios[1, chosen]
            first = place + 1
    return first


@inner
def sample(excess, ratios, order, first, last):  # type: ignore[no-untyped-def]
    """Return a place to divide at: of three, the least ratio if little is left to gain, otherwise the median."""
    a, b, c = first, (first + last) // 2, last
    a, b = (b, a) if ratios[0, b] < ratios[0, a] else (a, b)
    b, c = (c, b) if ratios[0, c] < ratios[0, b] else (b, c)
    little = excess < ratios[1, order[a]] + ratios[1, order[b]] + ratios[1, order[c]]
    a, b = (b, a) if ratios[0, b] < ratios[0, a] else (a, b)
    return a if little else b


@inner
def climb(T, names, row):  # type: ignore[no-untyped-def]
    """Move along edges that gain by a row of reduced costs; by the weights only along edges that are tied."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    trials = 100 + 10 * (m + k)
    q = best_edge(T, row, m, k)
    while q >= 0 and trials > 0:
        trials -= 1
        leaving, step = first_blocked(T, q)
        if leaving < 0:
            flip_bound(T, q)
        else:
            falls = T[leaving, q] * T[m + 2, q] < 0.0
            exchange(T, names, leaving, q, step, 1.0 if falls else -1.0)
        q = best_edge(T, row, m, k)
    return q < 0


@inner
def first_blocked(T, q):  # type: ignore[no-untyped-def]
    """Return the row that stops one of the others on its way to its other bound, or -1, and the step."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    side = T[m + 2, q]
    way, row = T[m + 4, q] - T[m + 3, q], -1
    for i in range(m):
        slope = T[i, q] * side
        room = (T[i, k + 2 if slope > 0.0 else k + 1] - T[i, k]) / slope
        if abs(slope) > _PIVOT and room < way:
            way, row = max(room, 0.0), i
    return row, side * way


@inner
def best_edge(T, row, m, k):  # type: ignore[no-untyped-def]
    """Return which of the others gains most, or -1."""
    best, most = -1, _GAIN if row == m else _TIED
    for j in range(k):
        if row > m or abs(T[m + 1, j]) <= _TIED:
            gain = T[row, j] * T[m + 2, j]
            if gain > most:
                best, most = j, gain
    if row == m and best >= 0:
        T[m + 1, best] = 0.0
    return best


@inner
def flip_bound(T, j):  # type: ignore[no-untyped-def]
    """Move one of the others from one bound to the other, and the basic variables with it."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    step = T[m + 2, j] * (T[m + 4, j] - T[m + 3, j])
    T[m + 2, j] = -T[m + 2, j]
    for i in range(m):
        T[i, k] += T[i, j] * step


@inner
def exchange(T, names, r, q, step, side):  # type: ignore[no-untyped-def]
    """Let one of the others enter the basis by a step, for a basic variable that comes to its bound on a side."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    for i in range(m):
        T[i, k] += T[i, q] * step
    T[r, k] = T[m + 3 if T[m + 2, q] > 0.0 else m + 4, q] + step
    T[r, k + 1], T[m + 3, q] = T[m + 3, q], T[r, k + 1]
    T[r, k + 2], T[m + 4, q] = T[m + 4, q], T[r, k + 2]
    T[m + 2, q] = side
    names[k + r], names[q] = names[q], names[k + r]
    inverse = 1.0 / T[r, q]
    for j in range(k):
        T[r, j] *= -inverse
    T[r, q] = inverse
    for i in range(m + 2):
        factor = T[i, q]
        if i != r and factor != 0.0:
            T[i, q] = 0.0
            for j in range(k):
                T[i, j] += factor * T[r, j]


@inner
def collect(T, names, bounds, point, columns, error):  # type: ignore[no-untyped-def]
    """Collect the variables by name, onto bounds that rounding missed; return how far they miss ``y = matrix x``."""
    k, m = columns.shape
    for j in range(k):
        point[names[j]] = T[m + 3 if T[m + 2, j] > 0.0 else m + 4, j]
    for i in range(m):
        v, value = names[k + i], T[i, k]
        value = bounds[0, v] if value - bounds[0, v] <= _ON_BOUND else value
        point[v] = bounds[1, v] if bounds[1, v] - value <= _ON_BOUND else value
    for i in range(m):
        error[i] = -point[k + i]
    for j in range(k):
        for i in range(m):
            error[i] += columns[j, i] * point[j]
    worst = 0.0
    for i in range(m):
        worst = max(worst, abs(error[i]))
    return worst


@inner
def write_point(point, variables, bounds, coordinates, action):  # type: ignore[no-untyped-def]
    """Write the coordinates of a point; where a variable stands at its bound, so does the coordinate, exactly."""
    bases, units, least, most = coordinates
    for j in range(len(action)):
        v = max(variables[j], 0)
        value = min(max(bases[j] + units[j] * point[v], least[j]), most[j])
        value = most[j] if point[v] >= bounds[1, v] else value
        action[j] = least[j] if (variables[j] < 0) | (point[v] <= bounds[0, v]) else value
