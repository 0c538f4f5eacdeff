"""The best of a list of actions, each with a cost of its own in every row."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import run_kernel
from optensemble.feasible._solvers.known_cost.charges import Charges, side_by_side


class BestOfList:
    """Take the best of a list of actions by its value less its cost.

    Values within 1e-12 of the best are tied, relative to the terms that add up to it; the lowest index wins.
    """

    name = "list"

    def __init__(self, actions: Floats, Q: Floats) -> None:
        nothing = np.zeros((1, actions.shape[1]))
        squares = Charges(nothing, np.ones(1), Q, nothing, nothing)
        rows_at_once = max(1, min(8192, 20_000_000 // actions.size))
        floats = [actions, actions.T, squares.of(actions)]
        self.kernel: Kernel = make_kernel(best_after_cost, floats, ints=[len(actions)], rows_at_once=rows_at_once)

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row, of those that are available; C is less the linear cost."""
        gamma, held, rate = charges.own(len(C))
        open_to = omega._of_rows("available") if omega._varies_in("available") else np.empty((len(C), 0))

        def own(rows: slice) -> Floats:
            return side_by_side(gamma[rows, None], held[rows], rate[rows], open_to[rows])

        return run_kernel(self.kernel, C, None, own)[0]


@njit(cache=True, nogil=True, error_model="numpy")
def best_after_cost(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the first of the best actions; its own are gamma, held, rate, and what is available."""
    n, d = C.shape
    count = ints[0]
    listed = floats[: count * d].reshape(count, d)
    columns = floats[count * d : 2 * count * d].reshape(d, count)
    squares = floats[2 * count * d :]
    values = np.empty(count)
    for i in range(n):
        gamma, held, rate = own[i, 0], own[i, 1 : 1 + d], own[i, 1 + d : 1 + 2 * d]
        available = own[i, 1 + 2 * d :]
        for v in range(count):
            values[v] = -gamma * squares[v]
        for j in range(d):
            c, at, fee = C[i, j], held[j], rate[j]
            for v in range(count):
                values[v] += columns[j, v] * c - fee * abs(columns[j, v] - at)
        for v in range(len(available)):
            values[v] = values[v] if available[v] != 0.0 else -np.inf
        best = 0
        for v in range(1, count):
            best = v if values[v] > values[best] else best
        least = values[best] - SAME_VALUE * size_of(listed[best], C[i], gamma * squares[best], held, rate)
        chosen = 0
        while values[chosen] < least:
            chosen += 1
        for j in range(d):
            actions[i, j] = listed[chosen, j]


@inner
def size_of(action, c, squares, held, rate):  # type: ignore[no-untyped-def]
    """Return the sum of the magnitudes of the terms of a value."""
    size = abs(squares)
    for j in range(len(c)):
        size += abs(action[j] * c[j]) + rate[j] * abs(action[j] - held[j])
    return size
