"""Boxes with a cost: every coordinate by itself, in closed form."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, make_kernel
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import run_kernel
from optensemble.feasible._solvers.known_cost.charges import Charges, side_by_side


class ByCoordinate:
    """Maximise ``c a - gamma q a² - rate |a - held|`` between two bounds, for each coordinate.

    A coordinate moves from what is held only where that gains; of tied actions it takes the one nearest to it.
    """

    name = "by coordinate"

    def __init__(self, Q: Floats, dimension: int) -> None:
        self.kernel: Kernel = make_kernel(best_of_each, floats=[np.diag(Q) if Q.size else np.zeros(dimension)])

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        gamma, held, rate = charges.own(len(C))
        low, high = (np.broadcast_to(side, C.shape) for side in omega._row_box())

        def own(rows: slice) -> Floats:
            return side_by_side(gamma[rows, None], held[rows], rate[rows], low[rows], high[rows])

        return run_kernel(self.kernel, C, None, own)[0]


@njit(cache=True, nogil=True, error_model="numpy")
def best_of_each(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Go up from what is held while a unit gains more than its rate, or down while it gains less than minus the rate.

    The objective is concave, so that the best action of a box is the best of the line, cut off at the bounds.
    """
    n, d = C.shape
    for i in range(n):
        gamma, parts = own[i, 0], own[i, 1:].reshape(4, d)
        for j in range(d):
            held, rate, low, high = parts[0, j], parts[1, j], parts[2, j], parts[3, j]
            curve = 2.0 * gamma * floats[j]
            start = min(max(held, low), high)
            up, down = C[i, j] - rate - curve * start, C[i, j] + rate - curve * start
            action = start
            if up > 0.0:
                action = min((C[i, j] - rate) / curve, high) if curve > 0.0 else high
            elif down < 0.0:
                action = max((C[i, j] + rate) / curve, low) if curve > 0.0 else low
            actions[i, j] = action
