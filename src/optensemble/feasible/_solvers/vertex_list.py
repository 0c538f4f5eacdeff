"""The best of a finite list of actions, row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.lanes import (
    LANES,
    add_multiple,
    larger,
    least,
    load,
    load_column,
    load_row,
    magnitudes,
    spread,
    store,
    where_greater,
)
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import LARGE, SMALL, row_scale


def vertex_kernel(vertices: Floats) -> Kernel:
    """Return the kernel that takes the best of a list of actions.

    Values within ``SAME_VALUE * sum_j |v_j c_j|`` of the best, where v has it, are tied; the lowest index wins.
    """
    padded = np.concatenate([vertices, np.repeat(vertices[-1:], -len(vertices) % LANES, axis=0)])
    rows_at_once = max(1, min(8192, 40_000_000 // padded.size))
    floats = [padded, padded.T, np.abs(vertices).max(axis=0)]
    return make_kernel(best_vertices, floats, ints=[len(padded), len(vertices)], rows_at_once=rows_at_once)


def padded_flags(flags: Floats) -> Floats:
    """Return a flag for each vertex in every row, of shape (n, vertices), as the kernel takes them."""
    return np.concatenate([flags, np.repeat(flags[:, -1:], -flags.shape[1] % LANES, axis=1)], axis=1)


@njit(cache=True, nogil=True, error_model="numpy")
def best_vertices(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best vertices; of those that its own flags, if it has any, let it take."""
    n, d = C.shape
    count = ints[0]
    vertices = floats[: count * d].reshape(count, d)
    columns = floats[count * d : 2 * count * d].reshape(d, count)
    sizes = floats[2 * count * d :]
    values, block, found = np.empty(count), np.empty(d * LANES), np.empty(LANES)
    for i in range(n):
        lane = i % LANES
        if lane == 0:
            store(found, 0, spread(-1.0))
            if own.shape[1] == 0 and i + LANES <= n:
                store(found, 0, clear_best(C, i, vertices, ints[1], sizes, block))
        chosen = np.int64(found[lane])
        if chosen < 0:
            chosen = best_vertex(C, own, i, vertices, columns, sizes, values)
        for j in range(d):
            actions[i, j] = vertices[chosen, j]


@inner
def clear_best(C, first, vertices, count, sizes, block):  # type: ignore[no-untyped-def]
    """Return the best vertex of rows from the first on; -1 if an earlier one may be tied, or the row must be scaled."""
    size = most = spread(0.0)
    for j in range(C.shape[1]):
        c = load_column(C, first, j)
        store(block, j, c)
        size = larger(size, magnitudes(c))
        most = add_multiple(most, sizes[j], magnitudes(c))
    best = earlier = spread(-np.inf)
    chosen, unclear = spread(-1.0), spread(-1.0)
    for v in range(count):
        value = spread(0.0)
        for j in range(C.shape[1]):
            value = add_multiple(value, vertices[v, j], load(block, j))
        earlier = where_greater(value, best, best, earlier)
        chosen = where_greater(value, best, spread(np.float64(v)), chosen)
        best = larger(value, best)
    chosen = where_greater(add_multiple(best, -SAME_VALUE, most), earlier, chosen, unclear)
    chosen = where_greater(size, spread(LARGE), unclear, chosen)
    return where_greater(spread(SMALL), size, unclear, chosen)


@inner
def best_vertex(C, own, i, vertices, columns, sizes, values):  # type: ignore[no-untyped-def]
    """Return the first of the best vertices of a row; of those that its flags, if it has any, let it take."""
    scale, most = row_scale(C[i]), 0.0
    for k in range(len(values) // LANES):
        store(values, k, spread(0.0))
    # The sum runs over coordinates for all vertices at once: in lanes, yet in one fixed order.
    for j in range(C.shape[1]):
        c = C[i, j] / scale
        most += sizes[j] * abs(c)
        for k in range(len(values) // LANES):
            store(values, k, add_multiple(load(values, k), c, load_row(columns, j, k * LANES)))
    if own.shape[1]:
        for v in range(len(values)):
            values[v] = values[v] if own[i, v] != 0.0 else -np.inf
    best = largest(values)
    chosen = first_from(values, best - SAME_VALUE * most)
    if values[chosen] < best:  # maybe tied: now with the size of the best one's own terms
        chosen = first_from(values, best)
        size = 0.0
        for j in range(C.shape[1]):
            size += abs(vertices[chosen, j] * (C[i, j] / scale))
        chosen = first_from(values, best - SAME_VALUE * size)
    return chosen


@inner
def first_from(values, lowest):  # type: ignore[no-untyped-def]
    """Return the first index of a value that is not below the lowest."""
    v = 0
    while v < len(values) - 1 and values[v] < lowest:
        v += 1
    return v


@inner
def largest(values):  # type: ignore[no-untyped-def]
    """Return the largest value."""
    best = spread(-np.inf)
    for k in range(len(values) // LANES):
        best = larger(load(values, k), best)
    return -least(spread(0.0) - best)
