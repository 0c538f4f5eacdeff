"""The best of a finite list of actions, row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._kernel import Kernel, make_kernel
from optensemble._types import Floats
from optensemble.feasible._base import TIE

_LANES = 4
"""The list is padded to a multiple of this, so that loops over it vectorise to the end."""


def vertex_kernel(vertices: Floats) -> Kernel:
    """Return the kernel that takes the best of a list of actions.

    Values within ``TIE * sum_j max_v |v_j| |c_j|`` of the best are tied; the lowest index wins.
    """
    padded = np.concatenate([vertices, np.repeat(vertices[-1:], -len(vertices) % _LANES, axis=0)])
    return make_kernel(best_vertices, floats=[padded, padded.T, np.abs(vertices).max(axis=0)], ints=[len(padded)])


@njit(cache=True, nogil=True, error_model="numpy")
def best_vertices(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best vertices."""
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
        slack = 0.0
        # The sum runs over coordinates for all vertices at once: vectorised, yet in one fixed order.
        for j in range(d):
            c = C[i, j] / scale
            slack += sizes[j] * abs(c)
            for v in range(count):
                values[v] += columns[j, v] * c
        tied = largest(values) - TIE * slack
        chosen = 0
        for v in range(count - 1, -1, -1):
            chosen = v if values[v] >= tied else chosen
        for j in range(d):
            actions[i, j] = vertices[chosen, j]


@njit(cache=True, nogil=True)
def largest(values):  # type: ignore[no-untyped-def]
    """Return the largest of a multiple of four values, by four comparisons at a time."""
    a = b = c = d = -np.inf
    for v in range(0, len(values), _LANES):
        a = values[v] if values[v] > a else a
        b = values[v + 1] if values[v + 1] > b else b
        c = values[v + 2] if values[v + 2] > c else c
        d = values[v + 3] if values[v + 3] > d else d
    return max(max(a, b), max(c, d))


@njit(cache=True, nogil=True)
def row_scale(c):  # type: ignore[no-untyped-def]
    """Return 1, except for rows whose products could overflow or vanish: those are divided by their size."""
    size = 0.0
    for j in range(len(c)):
        size = max(size, abs(c[j]))
    return size if size > 1e100 or 0.0 < size < 1e-100 else 1.0
