"""The best of a finite list of actions, row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import row_scale

_LANES = 4
"""The list is padded to a multiple of this, so that loops over it vectorise to the end."""


def vertex_kernel(vertices: Floats) -> Kernel:
    """Return the kernel that takes the best of a list of actions.

    Values within ``SAME_VALUE * sum_j |v_j c_j|`` of the best, where v has it, are tied; the lowest index wins.
    """
    padded = np.concatenate([vertices, np.repeat(vertices[-1:], -len(vertices) % _LANES, axis=0)])
    rows_at_once = max(1, min(8192, 40_000_000 // padded.size))
    floats = [padded, padded.T, np.abs(vertices).max(axis=0)]
    return make_kernel(best_vertices, floats, ints=[len(padded)], rows_at_once=rows_at_once)


def padded_flags(flags: Floats) -> Floats:
    """Return a flag for each vertex in every row, of shape (n, vertices), as the kernel takes them."""
    return np.concatenate([flags, np.repeat(flags[:, -1:], -flags.shape[1] % _LANES, axis=1)], axis=1)


@njit(cache=True, nogil=True, error_model="numpy")
def best_vertices(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best vertices; of those that its own flags, if it has any, let it take."""
    n, d = C.shape
    count = ints[0]
    vertices = floats[: count * d].reshape(count, d)
    columns = floats[count * d : 2 * count * d].reshape(d, count)
    sizes = floats[2 * count * d :]
    values = np.empty(count)
    for i in range(n):
        scale = row_scale(C[i])
        for v in range(count):
            values[v] = 0.0
        most = 0.0
        # The sum runs over coordinates for all vertices at once: vectorised, yet in one fixed order.
        for j in range(d):
            c = C[i, j] / scale
            most += sizes[j] * abs(c)
            for v in range(count):
                values[v] += columns[j, v] * c
        if own.shape[1]:
            for v in range(count):
                values[v] = values[v] if own[i, v] != 0.0 else -np.inf
        best = largest(values)
        chosen = first_from(values, best - SAME_VALUE * most)
        if values[chosen] < best:  # maybe tied: now with the size of the best one's own terms
            chosen = first_from(values, best)
            size = 0.0
            for j in range(d):
                size += abs(vertices[chosen, j] * (C[i, j] / scale))
            chosen = first_from(values, best - SAME_VALUE * size)
        for j in range(d):
            actions[i, j] = vertices[chosen, j]


@inner
def first_from(values, least):  # type: ignore[no-untyped-def]
    """Return the first index of a value that is not below the least."""
    first = 0
    for v in range(len(values) - 1, -1, -1):
        first = v if values[v] >= least else first
    return first


@inner
def largest(values):  # type: ignore[no-untyped-def]
    """Return the largest of a multiple of four values, by four comparisons at a time."""
    a = b = c = d = -np.inf
    for v in range(0, len(values), _LANES):
        a = values[v] if values[v] > a else a
        b = values[v + 1] if values[v + 1] > b else b
        c = values[v + 2] if values[v + 2] > c else c
        d = values[v + 3] if values[v + 3] > d else d
    return max(max(a, b), max(c, d))
