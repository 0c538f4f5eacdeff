"""The best of a finite list of actions, row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._kernel import Kernel, make_kernel
from optensemble._types import Floats
from optensemble.feasible._base import TIE


def vertex_kernel(vertices: Floats) -> Kernel:
    """Return the kernel that takes the best of a list of actions.

    Values within ``TIE * sum_j max_v |v_j| |c_j|`` of the best are tied; the lowest index wins.
    """
    return make_kernel(best_vertices, floats=[vertices, vertices.T, np.abs(vertices).max(axis=0)], ints=[len(vertices)])


@njit(cache=True, nogil=True)
def best_vertices(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best vertices."""
    n, d = C.shape
    count = ints[0]
    vertices = floats[: count * d].reshape(count, d)
    columns = floats[count * d : 2 * count * d].reshape(d, count)
    size = floats[2 * count * d :]
    values = np.empty(count)
    for i in range(n):
        scale = row_scale(C[i])
        values[:] = 0.0
        slack = 0.0
        # The sum runs over coordinates for all vertices at once: vectorised, yet in one fixed order.
        for j in range(d):
            c = C[i, j] / scale
            slack += size[j] * abs(c)
            for v in range(count):
                values[v] += columns[j, v] * c
        best = values[0]
        for v in range(1, count):
            best = max(best, values[v])
        chosen = 0
        while values[chosen] < best - TIE * slack:
            chosen += 1
        actions[i] = vertices[chosen]


@njit(cache=True, nogil=True)
def row_scale(c):  # type: ignore[no-untyped-def]
    """Return 1, except for rows whose products could overflow or vanish: those are divided by their size."""
    size = 0.0
    for j in range(len(c)):
        size = max(size, abs(c[j]))
    return size if size > 1e100 or 0.0 < size < 1e-100 else 1.0
