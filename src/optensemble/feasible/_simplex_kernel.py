"""Linear programmes that differ in their costs alone, by the dual simplex method.

All variables are bounded on both sides: put at the side that their reduced costs ask for, they make any basis dual
feasible. So every row starts from the same basis, without a first phase, and its answer depends on nothing but the set
and the row. A hint is of no use to it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from optensemble._kernel import Kernel, make_kernel
from optensemble._types import Floats
from optensemble.feasible._standard_form import StandardForm
from optensemble.feasible._tableau import BELOW, RIGHT, ROUNDING, WEIGHT, climb, flip, make_feasible

GAVE_UP = 1

_AT_BOUND = 1e-12


def simplex_kernel(form: StandardForm, least: Floats, most: Floats, weights: Floats) -> Kernel:
    """Return the kernel for ``least <= a <= most`` in a standard form; among tied actions ``weights·a`` is least."""
    m, k = form.matrix.shape
    moving = form.variables >= 0
    gains = np.zeros(k + m)
    gains[form.variables[moving]] = -(weights * form.units)[moving]
    gains /= np.abs(gains).max(initial=0.0) or 1.0
    start = np.zeros((m + BELOW, k + RIGHT))
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
def best_bases(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row from the basis in which all rows of the matrix are basic."""
    n, d = C.shape
    m, k, variables = ints[0], ints[1], ints[2:]
    end = (m + BELOW) * (k + RIGHT)
    start, rest = floats[:end].reshape(m + BELOW, k + RIGHT), floats[end:]
    columns, rest = rest[: m * k].reshape(k, m), rest[m * k :]
    bounds, coordinates = rest[: 2 * (m + k)].reshape(2, m + k), rest[2 * (m + k) :].reshape(4, d)
    T, names = np.empty((m + BELOW, k + RIGHT)), np.empty(k + m, np.int64)
    ratios, order = np.empty((2, k)), np.empty(k, np.int64)
    cost, point, error = np.zeros(k + m), np.empty(k + m), np.empty(m)
    for i in range(n):
        scale_costs(C[i], variables, coordinates, cost)
        begin(T, names, start, cost)
        solved = make_feasible(T, names, ratios, order) and climb(T, names, m + 1) and climb(T, names, m)
        if solved and collect(T, names, bounds, point, columns, error) <= ROUNDING:
            write(point, variables, bounds, coordinates, actions[i])
        else:
            status[i] = GAVE_UP


@njit(cache=True, nogil=True, error_model="numpy")
def scale_costs(c, variables, coordinates, cost):  # type: ignore[no-untyped-def]
    """Bring a row to the units of the variables and to a size near 1, by powers of two."""
    factor = normaliser(c)
    for j in range(len(c)):
        if variables[j] >= 0:
            cost[variables[j]] = c[j] * factor * coordinates[1, j]
    factor = normaliser(cost)
    for v in range(len(cost)):
        cost[v] *= factor


@njit(cache=True, nogil=True, error_model="numpy")
def normaliser(values):  # type: ignore[no-untyped-def]
    """Return the power of two that brings the largest value near 1."""
    size = 0.0
    for value in values:
        size = max(size, abs(value))
    return math.ldexp(1.0, min(-math.frexp(size)[1], 1000))


@njit(cache=True, nogil=True, error_model="numpy")
def begin(T, names, start, cost):  # type: ignore[no-untyped-def]
    """Set up the first basis, with each of the others at the side that its reduced cost asks for."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    for i in range(m + BELOW):
        for j in range(k + RIGHT):
            T[i, j] = start[i, j]
    for v in range(k + m):
        names[v] = v
    for j in range(k):
        T[m + 1, j] = cost[j]
    for i in range(m):
        if cost[k + i] != 0.0:
            for j in range(k):
                T[m + 1, j] += cost[k + i] * start[i, j]
    for j in range(k):
        if T[m + 1, j] + WEIGHT * T[m, j] > 0.0:
            flip(T, j)


@njit(cache=True, nogil=True, error_model="numpy")
def collect(T, names, bounds, point, columns, error):  # type: ignore[no-untyped-def]
    """Collect the variables by name, onto bounds that rounding missed; return how far they miss ``y = matrix x``."""
    k, m = columns.shape
    for j in range(k):
        point[names[j]] = T[m + 3 if T[m + 2, j] > 0.0 else m + 4, j]
    for i in range(m):
        v, value = names[k + i], T[i, k]
        value = bounds[0, v] if value - bounds[0, v] <= _AT_BOUND else value
        point[v] = bounds[1, v] if bounds[1, v] - value <= _AT_BOUND else value
    for i in range(m):
        error[i] = -point[k + i]
    for j in range(k):
        for i in range(m):
            error[i] += columns[j, i] * point[j]
    worst = 0.0
    for i in range(m):
        worst = max(worst, abs(error[i]))
    return worst


@njit(cache=True, nogil=True, error_model="numpy")
def write(point, variables, bounds, coordinates, action):  # type: ignore[no-untyped-def]
    """Write the coordinates of a point; where a variable stands at its bound, so does the coordinate, exactly."""
    for j in range(len(action)):
        v, least, most = variables[j], coordinates[2, j], coordinates[3, j]
        if v < 0 or point[v] <= bounds[0, v]:
            action[j] = least
        elif point[v] >= bounds[1, v]:
            action[j] = most
        else:
            action[j] = min(max(coordinates[0, j] + coordinates[1, j] * point[v], least), most)
