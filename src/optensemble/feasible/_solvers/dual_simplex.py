"""Linear programmes that differ in their costs alone, by the dual simplex method on a dense tableau.

A basis expresses m *basic* variables by k *others*, ``x_basic = T x_others``, and the others stand at a bound. All
variables are bounded on both sides: put at the side that their reduced costs ask for, they make any basis dual
feasible. So every row starts from the same basis, without a first phase, and its answer depends on nothing but the set
and the row. A hint is of no use here.

The tableau has margins. Below T: the reduced costs of the weights that break ties, those of the row, and for each of
the others its side (1 at its lower bound, -1 at its upper bound), its lower bound and its upper bound. To the right of
T: for each basic variable its value, its lower bound and its upper bound. ``names`` tells which variables these are,
the others first.

Where right-hand sides or bounds come from the row, the standard form is laid out anew for each row, by the code that
lays out that of a fixed set.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble.feasible._solvers.scale import magnitude
from optensemble.feasible._solvers.standard_form import (
    Rows,
    StandardForm,
    assemble,
    eliminate,
    fill,
    make_ready,
    measure,
    put_together,
)

GAVE_UP = 1
"""The status of a row that is left to HiGHS."""

EMPTY = 2
"""The status of a row whose constraints contradict each other, beyond any doubt."""

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

_BEYOND_DOUBT = 1e-4
"""A row of a size near 1 that is missed by more is not missed by rounding, nor for entries that are not divided by."""

_AT_BOUND = 1e-11
"""Variables of a vertex this close to a bound define it."""

_ON_BOUND = 1e-12
"""A basic variable this close to a bound stands at it, so that the coordinate is exact."""


def simplex_kernel(form: StandardForm, least: Floats, most: Floats, small: bool) -> Kernel:
    """Return the kernel for ``least <= a <= most`` in a standard form; tied actions as :func:`solve_form` says."""
    m, k = form.matrix.shape
    weights = tie_weights(len(least))
    start, columns = _start_once(form.matrix, form.lower, form.upper, form.variables, form.units, weights)
    return make_kernel(
        best_bases,
        floats=[start, columns, form.lower, form.upper, form.bases, form.units, least, most],
        ints=[m, k, small, form.variables],
        rows_at_once=_rows_at_once(m, k),
    )


def simplex_kernel_by_row(rows: Rows, small: bool, most_tableau: int) -> Kernel:
    """Return the kernel for constraints whose right-hand sides and bounds are each row's own, one after the other."""
    total, d = rows.matrix.shape
    return make_kernel(
        best_bases_by_row,
        floats=[rows.matrix, rows.ratios, tie_weights(d)],
        ints=[total, rows.inequalities, small, most_tableau, rows.leads],
        rows_at_once=_rows_at_once(total, d),
    )


def tie_weights(dimension: int) -> Floats:
    """Return the weights of which tied actions have the least sum, where the set is not small."""
    weights: Floats = np.exp(-2.0 * np.arange(dimension) / dimension)
    return weights


def _rows_at_once(m: int, k: int) -> int:
    return int(np.clip(1e8 // (m * k * (m + k) + 1), 16, 4096))


def refine_vertices(form: StandardForm, least: Floats, most: Floats, vertices: Floats) -> Floats:
    """Return vertices as the kernel would: computed from the bounds that they are at, and from nothing else.

    Where constraints are so badly scaled that this moves them, they stay as they are.
    """
    coordinates = np.stack([form.bases, form.units, least, most])
    bounds, columns = np.stack([form.lower, form.upper]), np.ascontiguousarray(form.matrix.T)
    refined: Floats = _refine_once(np.ascontiguousarray(vertices), columns, bounds, form.variables, coordinates)
    moved = np.any(np.abs(refined - vertices) > _SIMPLEX_ROUNDING * (most - least), axis=1, keepdims=True)
    return np.where(moved, vertices, refined)


@njit(cache=True, nogil=True, error_model="numpy")
def _refine_once(vertices, columns, bounds, variables, coordinates):  # type: ignore[no-untyped-def]
    k, m = columns.shape
    point, places, system = np.empty(k + m), np.empty((2, k + 1), np.int64), np.empty((m, k + 1))
    refined = np.empty_like(vertices)
    for v in range(len(vertices)):
        for j in range(len(variables)):
            if 0 <= variables[j] < k:
                point[variables[j]] = (vertices[v, j] - coordinates[0, j]) / coordinates[1, j]
        for i in range(m):
            point[k + i] = 0.0
            for j in range(k):
                point[k + i] += columns[j, i] * point[j]
        refine(point, bounds, columns, places, system)
        write_point(point, variables, bounds, coordinates, refined[v])
    return refined


@njit(cache=True, nogil=True, error_model="numpy")
def _start_once(matrix, lower, upper, variables, units, weights):  # type: ignore[no-untyped-def]
    m, k = matrix.shape
    start, columns, gains = np.empty((m + _BELOW, k + _RIGHT)), np.empty((k, m)), np.empty(k + m)
    bounds = np.empty((2, k + m))
    bounds[0], bounds[1] = lower, upper
    fill_start(matrix, bounds, variables, units, weights, gains, start, columns)
    return start, columns


@njit(cache=True, nogil=True, error_model="numpy")
def best_bases(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row from the basis in which all rows of the matrix are basic."""
    n, d = C.shape
    m, k, small, variables = ints[0], ints[1], ints[2], ints[3:]
    end = (m + _BELOW) * (k + _RIGHT)
    start, rest = floats[:end].reshape(m + _BELOW, k + _RIGHT), floats[end:]
    columns, rest = rest[: m * k].reshape(k, m), rest[m * k :]
    bounds, coordinates = rest[: 2 * (m + k)].reshape(2, m + k), rest[2 * (m + k) :].reshape(4, d)
    T, names = np.empty((m + _BELOW, k + _RIGHT)), np.empty(k + m, np.int64)
    ratios, places = np.empty((2, k)), np.empty((2, k + 1), np.int64)
    cost, point, error = np.zeros(k + m), np.empty(k + m), np.empty(m)
    system = np.empty((m if small else 0, k + 1))
    for i in range(n):
        scale_costs(C[i], variables, coordinates, cost)
        begin(T, names, start, cost, columns, error)
        status[i] = solve_form(T, names, ratios, places, small, bounds, variables, columns, point, error, system)
        if status[i] == 0:
            write_point(point, variables, bounds, coordinates, actions[i])


@njit(cache=True, nogil=True, error_model="numpy")
def best_bases_by_row(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Lay out the standard form of each row's own set, and solve the row in it as :func:`best_bases` would."""
    n, d = C.shape
    total, p, small, most_tableau, leads = ints[0], ints[1], ints[2], ints[3], ints[4:]
    matrix, rest = floats[: total * d].reshape(total, d), floats[total * d :]
    multiples, weights = rest[:p], rest[p:]
    measured, sizes, sides, marks = (
        np.empty((total, d)),
        np.empty((4, total)),
        np.empty((3, total)),
        np.empty(total, np.int64),
    )
    coordinates, width = np.empty((4, d)), np.empty(d)
    variables, chosen = np.empty(d, np.int64), np.empty((2, d), np.int64)
    work, forms, turned = np.empty(total * (d + 1)), np.empty(total * d), np.empty(total * d)
    tableaux = np.empty((2, (total + _BELOW) * (d + _RIGHT)))
    vectors, limits, gains = np.empty((3, total + d)), np.empty(2 * (total + d)), np.empty(2 * d)
    names, labels = np.empty(total + d, np.int64), np.empty(2 * (d + 1), np.int64)
    systems = np.empty(total * (d + 1) if small else 0)
    ready, reaches = np.empty((p, d)), np.empty((3, p))
    for i in range(n):
        if i == 0 or differ(own[i], own[i - 1], total):
            measure(matrix, own[i, total : total + d], own[i, total + d :], measured, sizes, coordinates, width)
            make_ready(measured[:p], coordinates[1], width, ready, reaches)
        right = own[i, :total]
        e, used, f, sound = fill(
            measured, p, leads, multiples, right, sizes, sides, marks, coordinates, chosen[0], work
        )
        block = work[: (e + used) * (f + 1)].reshape(e + used, f + 1)
        s, consistent = eliminate(block, e, chosen[1])
        m, k = s + used, f - s
        if not (sound and consistent and m * k <= most_tableau):
            status[i] = GAVE_UP
            continue
        form, columns = forms[: m * k].reshape(m, k), turned[: m * k].reshape(k, m)
        size, end = k + m, (m + _BELOW) * (k + _RIGHT)
        start = tableaux[0, :end].reshape(m + _BELOW, k + _RIGHT)
        T = tableaux[1, :end].reshape(m + _BELOW, k + _RIGHT)
        bounds, cost, point, error = (
            limits[: 2 * size].reshape(2, size),
            vectors[0, :size],
            vectors[1, :size],
            vectors[2, :m],
        )
        if e > 0:
            assemble(block, e, s, marks, chosen, width, sides, coordinates, variables, form, bounds)
        else:
            put_together(ready, reaches, marks, chosen[0], width, sides, variables, form, bounds)
        fill_start(form, bounds, variables, coordinates[1], weights, point, start, columns)
        cost[:] = 0.0
        scale_costs(C[i], variables, coordinates, cost)
        begin(T, names[:size], start, cost, columns, error)
        ratios, places = gains[: 2 * k].reshape(2, k), labels[: 2 * (k + 1)].reshape(2, k + 1)
        system = systems[: m * (k + 1) if small else 0].reshape(m if small else 0, k + 1)
        status[i] = solve_form(T, names[:size], ratios, places, small, bounds, variables, columns, point, error, system)
        if status[i] == 0:
            write_point(point, variables, bounds, coordinates, actions[i])


@inner
def differ(own, other, start):  # type: ignore[no-untyped-def]
    """Return whether two rows of numbers differ from some place on."""
    different = False
    for j in range(start, len(own)):
        different |= own[j] != other[j]
    return different


@inner
def fill_start(form, bounds, variables, units, weights, gains, start, columns):  # type: ignore[no-untyped-def]
    """Write the tableau that every row starts from, and the matrix by columns."""
    m, k = form.shape
    gains[:] = 0.0
    for j in range(len(variables)):
        if variables[j] >= 0:
            gains[variables[j]] = -weights[j] * units[j]
    size = magnitude(gains)
    for v in range(k + m):
        gains[v] /= size if size > 0.0 else 1.0
    for j in range(k):
        start[m, j], start[m + 1, j], start[m + 2, j] = gains[j], 0.0, 1.0
        start[m + 3, j], start[m + 4, j] = bounds[0, j], bounds[1, j]
    for i in range(m):
        for j in range(k):
            start[i, j] = columns[j, i] = form[i, j]
            start[m, j] += gains[k + i] * form[i, j]
        start[i, k], start[i, k + 1], start[i, k + 2] = 0.0, bounds[0, k + i], bounds[1, k + i]
    for i in range(m, m + _BELOW):
        for j in range(k, k + _RIGHT):
            start[i, j] = 0.0


@inner
def solve_form(T, names, ratios, places, small, bounds, variables, columns, point, error, system):  # type: ignore[no-untyped-def]
    """Find the best point of a tableau set up for a row; return its status.

    Of tied points a small set takes the lowest in lexicographic order, as if its vertices were listed, and computes it
    anew from the bounds that it is at; otherwise the one of least weight is taken.
    """
    m = len(T) - _BELOW
    if not make_feasible(T, names, ratios, places[0]):
        return EMPTY if is_empty(T, ratios, places[0]) else GAVE_UP
    if not climb(T, names, m + 1):
        return GAVE_UP
    if not (climb_in_order(T, names, variables, places[0]) if small else climb(T, names, m)):
        return GAVE_UP
    if not collect(T, names, bounds, point, columns, error) <= _SIMPLEX_ROUNDING:
        return GAVE_UP
    if small:
        refine(point, bounds, columns, places, system)
    return 0


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
def is_empty(T, ratios, order):  # type: ignore[no-untyped-def]
    """Return whether a basic variable is far outside and none of the others can bring it nearer."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    r, excess = furthest_outside(T, m, k)
    if excess <= _BEYOND_DOUBT:
        return False
    return list_ratios(T, r, 1.0 if T[r, k] < T[r, k + 1] else -1.0, ratios, order) == 0


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
def climb_in_order(T, names, variables, tied):  # type: ignore[no-untyped-def]
    """Move along tied edges to the least first coordinate, then along those that keep it to the least second one."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    left = 0
    for q in range(k):
        tied[q] = (abs(T[m + 1, q]) <= _TIED) & (T[m + 4, q] > T[m + 3, q])
        left += tied[q]
    trials, j = 100 + 10 * (m + k), 0
    while j < len(variables) and left > 0 and trials > 0:
        q = -1
        if variables[j] >= 0:
            at = place_of(names, variables[j])
            q = falling_edge(T, at, tied)
            if q < 0:
                left -= keep(T, at, tied)
        if q < 0:
            j += 1
            continue
        trials -= 1
        T[m + 1, q] = 0.0
        leaving, step = first_blocked(T, q)
        if leaving < 0:
            flip_bound(T, q)
        else:
            falls = T[leaving, q] * T[m + 2, q] < 0.0
            exchange(T, names, leaving, q, step, 1.0 if falls else -1.0)
            if not T[m + 4, q] > T[m + 3, q]:
                tied[q] = 0
                left -= 1
    return trials > 0


@inner
def place_of(names, variable):  # type: ignore[no-untyped-def]
    """Return the place of a variable among the others, and then the basic ones."""
    at = 0
    while names[at] != variable:
        at += 1
    return at


@inner
def falling_edge(T, at, tied):  # type: ignore[no-untyped-def]
    """Return the tied edge along which a variable falls fastest, or -1."""
    m, k = len(T) - _BELOW, T.shape[1] - _RIGHT
    if at < k:
        return at if tied[at] and T[m + 2, at] < 0.0 else -1
    best, most = -1, _GAIN
    for q in range(k):
        fall = -T[at - k, q] * T[m + 2, q]
        if tied[q] and fall > most:
            best, most = q, fall
    return best


@inner
def keep(T, at, tied):  # type: ignore[no-untyped-def]
    """Give up the tied edges that change a variable; return how many there were."""
    k, count = T.shape[1] - _RIGHT, 0
    for q in range(k):
        changes = q == at if at < k else abs(T[at - k, q]) > _GAIN
        if tied[q] and changes:
            tied[q] = 0
            count += 1
    return count


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


@inner
def refine(point, bounds, columns, places, system):  # type: ignore[no-untyped-def]
    """Compute a vertex anew from the bounds that it is at: variables in between solve the rows that are at a bound.

    So it has the same bits whatever way led to it. Where these rows do not tell it, it stays as it is.
    """
    k, m = columns.shape
    free = count = np.int64(0)
    for v in range(k):
        places[0, free] = v
        free += not is_at_bound(point, bounds, v)
    for i in range(m):
        if is_at_bound(point, bounds, k + i):
            write_equality(point, columns, i, places[0], free, system[count])
            count += 1
    found, consistent = eliminate(system[:count, : free + 1], count, places[1])
    if found < free or not consistent:
        return
    for t in range(free):
        v = places[0, places[1, t]]
        value = min(max(system[t, free], bounds[0, v]), bounds[1, v])
        if abs(value - point[v]) > _SIMPLEX_ROUNDING:
            return
        system[t, 0] = value
    for t in range(free):
        point[places[0, places[1, t]]] = system[t, 0]
    for i in range(m):
        if bounds[0, k + i] < point[k + i] < bounds[1, k + i]:
            point[k + i] = 0.0
            for j in range(k):
                point[k + i] += columns[j, i] * point[j]


@inner
def is_at_bound(point, bounds, v):  # type: ignore[no-untyped-def]
    """Return whether a variable is at a bound, and put it there exactly."""
    low, high = point[v] - bounds[0, v] <= _AT_BOUND, bounds[1, v] - point[v] <= _AT_BOUND
    point[v] = bounds[0, v] if low else bounds[1, v] if high else point[v]
    return low or high


@inner
def write_equality(point, columns, i, free, count, equality):  # type: ignore[no-untyped-def]
    """Write a row at its bound as an equality of the variables in between."""
    k = len(columns)
    right, f = point[k + i], 0
    for j in range(k):
        if f < count and free[f] == j:
            equality[f] = columns[j, i]
            f += 1
        else:
            right -= columns[j, i] * point[j]
    equality[count] = right
