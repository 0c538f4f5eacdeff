"""The best of a finite list of actions, row by row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._types import Floats
from optensemble.feasible._base import TIE


class VertexTable:
    """A list of actions, laid out for the kernel.

    Values within ``TIE * sum_j max_v |v_j| |c_j|`` of the best are tied; the lowest index wins.
    """

    def __init__(self, vertices: Floats) -> None:
        self.vertices = np.ascontiguousarray(vertices)
        self._columns = np.ascontiguousarray(vertices.T)
        self._size = np.ascontiguousarray(np.abs(vertices).max(axis=0))

    def argmax(self, coefficients: Floats) -> Floats:
        """Return the best action for each row."""
        writable = np.require(coefficients, np.float64, ["C", "W"])  # read-only arrays would compile again
        return best_vertices(writable, self.vertices, self._columns, self._size, TIE)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def best_vertices(C, vertices, columns, size, tie):  # type: ignore[no-untyped-def]
    n, d = C.shape
    count = len(vertices)
    actions = np.empty((n, d))
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
        while values[chosen] < best - tie * slack:
            chosen += 1
        actions[i] = vertices[chosen]
    return actions


@njit(cache=True, nogil=True)
def row_scale(c):  # type: ignore[no-untyped-def]
    """Return 1, except for rows whose products could overflow or vanish: those are divided by their size."""
    size = 0.0
    for j in range(len(c)):
        size = max(size, abs(c[j]))
    return size if size > 1e100 or 0.0 < size < 1e-100 else 1.0
