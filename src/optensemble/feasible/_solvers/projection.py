"""Actions as a part of the coordinates of a polytope: how far they are from it, and the least cost of the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.exceptions import SolverError
from optensemble.feasible._solvers.constraints import scaled
from optensemble.feasible._solvers.highs import (
    SATISFIED,
    SMALLEST,
    LinearModel,
    build,
    is_optimal,
    set_cost,
    set_integer,
)
from optensemble.feasible._solvers.per_thread import PerThread

_OPTIONS = {
    "output_flag": False,
    "solver": "simplex",
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "parallel": "off",
    "primal_feasibility_tolerance": SATISFIED,
    "dual_feasibility_tolerance": SATISFIED,
    "small_matrix_value": SMALLEST,
}

_ROOM = 1e-9
"""Actions that rounding moved outside get this much room, beside their distance, to be completed."""


class Sides(NamedTuple):
    """Right-hand sides and bounds: of shape (rows, numbers), or (1, numbers) where all rows share them."""

    b_ub: Floats
    b_eq: Floats
    lower: Floats
    upper: Floats

    def of_row(self, row: int) -> Sides:
        """Return those of one row."""
        return Sides(*(side[min(row, len(side) - 1)] for side in self))


class Projection(PerThread):
    """The first coordinates of ``A_ub y <= b_ub``, ``A_eq y = b_eq``, ``lower <= y <= upper``, one HiGHS per thread."""

    def __init__(self, A_ub: Any, A_eq: Any, dimension: int, whole: npt.NDArray[np.bool_]) -> None:
        super().__init__()
        n = A_ub.shape[1]
        (self._ub, self._ub_factor), (self._eq, self._eq_factor) = (
            scaled(sparse.csr_array(matrix), np.ones(matrix.shape[0])) for matrix in (A_ub, A_eq)
        )
        self.dimension, self.whole = dimension, whole
        pick = sparse.eye_array(dimension, n)
        t = sparse.csr_array(np.ones((dimension, 1)))
        blocks: list[list[Any]] = [[self._ub, None], [self._eq, None], [pick, -t], [pick, t]]
        self.rows: Any = sparse.csr_array(sparse.block_array(blocks))

    def distance(self, actions: Floats, sides: Sides) -> Floats:
        """Return the least ``t`` with an action of the set within ``t`` of each given one, in every coordinate."""
        cost = np.zeros(self.rows.shape[1])
        cost[-1] = -1.0  # solvers here maximise
        return np.array([max(self._solve(a, sides.of_row(i), cost, np.inf, i)[-1], 0.0) for i, a in enumerate(actions)])

    def nearest(self, actions: Floats, sides: Sides) -> Floats:
        """Return an action of the set nearest to each given one in its largest coordinate."""
        cost = np.zeros(self.rows.shape[1])
        cost[-1] = -1.0
        found = [self._solve(a, sides.of_row(i), cost, np.inf, i)[: self.dimension] for i, a in enumerate(actions)]
        return np.array(found).reshape(actions.shape)

    def least_cost(self, actions: Floats, sides: Sides, linear: Floats) -> Floats:
        """Return ``linear·y`` of the cheapest coordinates that complete each action; ``linear`` has a row for each."""
        room = self.distance(actions, sides)
        found = np.empty(len(actions))
        for i, action in enumerate(actions):
            cost = np.append(linear[min(i, len(linear) - 1)], 0.0)
            within = room[i] + _ROOM * max(1.0, float(np.abs(action).max()))
            y = self._solve(action, sides.of_row(i), -cost, within, i)
            y[: self.dimension] = action
            found[i] = sum(cost[j] * y[j] for j in np.flatnonzero(cost))
        return found

    def _solve(self, action: Floats, sides: Sides, cost: Floats, within: float, row: int) -> Floats:
        if not hasattr(self._local, "solver"):
            m, n = self.rows.shape
            free = np.full(m, np.inf), np.full(n, np.inf)
            self._local.solver = build(LinearModel(self.rows, -free[0], free[0], -free[1], free[1]), _OPTIONS)
            set_integer(self._local.solver, np.append(self.whole, False))
        solver = self._local.solver
        solver.clearSolver()
        infinite = np.full(len(self._ub_factor) + len(action), np.inf)
        ub, eq = sides.b_ub * self._ub_factor, sides.b_eq * self._eq_factor
        row_lower = np.concatenate([-infinite[: len(ub)], eq, -infinite[: len(action)], action])
        row_upper = np.concatenate([ub, eq, action, infinite[: len(action)]])
        m, n = self.rows.shape
        solver.changeRowsBounds(m, np.arange(m, dtype=np.int32), row_lower, row_upper)
        lower, upper = np.append(sides.lower, 0.0), np.append(sides.upper, within)
        solver.changeColsBounds(n, np.arange(n, dtype=np.int32), lower, upper)
        set_cost(solver, cost)
        solver.run()
        if not is_optimal(solver.getModelStatus()):
            raise SolverError(
                f"the distance of row {row} to the set, or the least cost of its action, could not be found: HiGHS "
                f"ended with status {solver.getModelStatus().name}. The likely cause is a badly scaled problem, or a "
                "row without any feasible action."
            )
        return np.array(solver.getSolution().col_value, dtype=np.float64)
