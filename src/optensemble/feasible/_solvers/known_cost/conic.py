"""A quadratic cost over a convex set, or one of moving over a curved set: a programme for each row, by Clarabel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._solvers.conic import ConicProgram, explain_clarabel
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible._solvers.known_cost.forms import Rows, sides_of
from optensemble.feasible._solvers.known_cost.lifted import Parts
from optensemble.feasible._solvers.scale import BITS


class ByClarabel(ConicProgram):
    """Minimise ``gamma a'Qa - c·a + rate·|a - held|`` over a convex set, by one Clarabel for each thread.

    What is bought, ``b >= a - held`` and ``b >= 0``, are variables too, for ``|a - held| = 2 b - (a - held)``.
    Objectives are brought to a size of 1, and coefficients rounded to 40 bits below the largest of their row.
    """

    name = "conic"

    def __init__(self, rows: Rows, Q: Floats, turnover: bool) -> None:
        self.rows, self.turnover = rows, turnover
        A, cones = rows.as_cones()
        d = A.shape[1]
        if turnover:
            one: Any = sparse.eye_array(d)
            A = sparse.block_array([[A, None], [one, -one], [None, -one]])
            cones = [*cones, ("NonnegativeConeT", 2 * d)]
        self.Q = Q if Q.size else np.zeros((d, d))
        super().__init__(A, np.zeros(A.shape[0]), cones, 0, d, np.pad(2.0 * self.Q, (0, A.shape[1] - d)))

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        n, gamma, sides = len(C), charges.own(len(C))[0], sides_of(omega)
        parts, b = Parts(sides.lower, sides.upper, charges, n), sides.as_cones(self.rows.root, n)
        gains = _rounded(C + parts.rate) if self.turnover else _rounded(C)
        most = np.maximum(np.abs(gains).max(axis=1), gamma * np.abs(self.Q).max(initial=0.0))
        size = np.where(most > 0.0, most, 1.0)
        right = np.broadcast_to(b, (n, b.shape[-1]))
        actions, failures = np.zeros_like(C), dict[int, str]()
        squares = np.asarray(self.P.data) if self.P is not None else np.empty(0)
        for i in range(n):
            q = self._objective(gains[i] / size[i])
            ends = right[i]
            if self.turnover:
                q[-self.dimension :] = 2.0 * parts.rate[i] / size[i]
                ends = np.concatenate([ends, parts.held[i], np.zeros(self.dimension)])
            x, status = self.best(P=squares * (gamma[i] / size[i]), q=q, b=ends)
            if status is None:
                actions[i] = x[self.columns]
            else:
                failures[i] = explain_clarabel(status)
        actions = np.clip(actions, parts.lower, parts.upper) + 0.0
        if failures:
            raise Unsolved(actions, failures)
        return actions

    @property
    def dimension(self) -> int:
        """The number of coordinates of an action."""
        return self.columns.stop - self.columns.start


def _rounded(gains: Floats) -> Floats:
    """Round away what may be noise of the last bits; unlike without a cost, the scale counts."""
    size = np.exp2(np.ceil(np.log2(np.maximum(np.abs(gains).max(axis=1, keepdims=True), 1e-300))) - BITS)
    return np.asarray(np.rint(gains / size) * size, dtype=np.float64)
