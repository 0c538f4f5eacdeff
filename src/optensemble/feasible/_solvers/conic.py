"""A linear objective over a product of cones, by Clarabel."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, SolverError, UnboundedSetError
from optensemble.feasible._solvers.per_thread import PerThread

_BEST = ((1e-12, 0.99), (1e-10, 0.99), (1e-10, 0.9), (1e-9, 0.8))
"""Tolerances, and shares of the way to the boundary that a step may go, in the order they are tried.

Looser tolerances and shorter steps reach an optimum where rounding stops Clarabel before it meets the tighter ones.
"""

_NEAREST = ((1e-9, 0.99), (1e-9, 0.9), (1e-8, 0.99), (1e-8, 0.8))
"""The same for distances, which are compared with a tolerance of 1e-7 only."""


class ConicProgram(PerThread):
    """Maximise ``c·x[:d] - x'Px / 2 - q·x`` with ``b - A x`` in a product of cones, by one Clarabel for each thread."""

    def __init__(
        self,
        A: Any,
        b: Floats,
        cones: list[tuple[Any, ...]],
        start: int,
        dimension: int,
        P: Any = None,
        q: Floats | None = None,
    ) -> None:
        self.A, self.b, self.cones = sparse.csc_matrix(A), b, cones
        self.columns = slice(start, start + dimension)
        self.P = None if P is None else sparse.csc_matrix(sparse.triu(P))
        self.q = np.zeros(self.A.shape[1]) if q is None else q
        super().__init__()

    def argmax(self, costs: Floats) -> tuple[Floats, dict[int, str]]:
        """Return an action for each row, and for rows without one the status of Clarabel."""
        actions, failures = np.zeros_like(costs), {}
        for row, cost in enumerate(costs):
            x, status = self.best(q=self._objective(cost))
            if status is None:
                actions[row] = x[self.columns]
            else:
                failures[row] = status
        return actions, failures

    def best(self, **data: Floats) -> tuple[Floats, str | None]:
        """Solve with new data, of ``P`` its entries; return the variables, and None or the status of Clarabel."""
        return self._solve("best", _BEST, **data)

    def distance(self, actions: Floats) -> Floats:
        """Return the least ``t`` with an action of the set within ``t`` of each given one, in every coordinate."""
        distances = np.zeros(len(actions))
        for row, action in enumerate(actions):
            x, status = self._solve("nearest", _NEAREST, b=np.concatenate([self.b, action, -action]))
            if status is not None:
                raise SolverError(
                    f"the distance of row {row} to the set could not be found: {explain_clarabel(status)}"
                )
            distances[row] = max(x[-1], 0.0)
        return distances

    def nearest(self, actions: Floats) -> Floats:
        """Return the action of the set nearest to each given one, by the sum of squares.

        It is measured from the given one, in units of its distance, so that tolerances are shares of that.
        """
        found = actions.copy()
        for row, (action, near) in enumerate(zip(actions, self.distance(actions), strict=True)):
            unit = max(float(near), 1e-9 * max(1.0, float(np.abs(action).max())))
            x, status = self._solve("closest", _NEAREST, b=(self.b - self.A[:, self.columns] @ action) / unit)
            if status is not None:
                raise SolverError(f"row {row} could not be moved onto the set: {explain_clarabel(status)}")
            found[row] += unit * x[self.columns]
        return found

    def least_cost(self, actions: Floats, room: float) -> Floats:
        """Return ``x'Px / 2 + q·x`` of the cheapest x that completes each action, which may move by its distance."""
        costs = np.zeros(len(actions))
        for row, (action, near) in enumerate(zip(actions, self.distance(actions) + room, strict=True)):
            x, status = self._solve("cheapest", _NEAREST, b=np.concatenate([self.b, action + near, near - action]))
            if status is not None:
                raise SolverError(
                    f"the least cost of the action of row {row} could not be found: {explain_clarabel(status)}"
                )
            x[self.columns] = action
            costs[row] = self.q @ x + (0.0 if self.P is None else x @ self.P @ x - 0.5 * x**2 @ self.P.diagonal())
        return costs

    def _solve(self, kind: str, tries: tuple[tuple[float, float], ...], **data: Floats) -> tuple[Floats, str | None]:
        """Solve with new data; return the status if no try succeeds."""
        status = ""
        for number, (tolerance, step) in enumerate(tries):
            name = f"{kind}{number}"
            if not hasattr(self._local, name):
                setattr(self._local, name, getattr(self, f"_build_{kind}")(tolerance, step))
            solver = getattr(self._local, name)
            # The first row too: what the solver was built with must not show in any action.
            solver.update(**data)
            solution = solver.solve()
            status = str(solution.status)
            if status in ("Solved", "AlmostSolved"):
                return np.array(solution.x), None
            if "Infeasible" in status:
                break
        return np.empty(0), status

    def _build_best(self, tolerance: float, step: float) -> Any:
        d = self.columns.stop - self.columns.start
        q = self._objective(np.ones(d))
        return _conic_solver(self.A, self.b, q, self.cones, tolerance, _BEST[-1][0], step, self.P)

    def _build_cheapest(self, tolerance: float, step: float) -> Any:
        """Minimise the cost with an action between right-hand sides."""
        pick: Any = sparse.eye_array(self.A.shape[1], format="csr")[self.columns]
        d = pick.shape[0]
        A, b = sparse.vstack([self.A, pick, -pick]), np.append(self.b, np.zeros(2 * d))
        cones = [*self.cones, ("NonnegativeConeT", 2 * d)]
        return _conic_solver(A, b, self.q, cones, tolerance, _NEAREST[-1][0], step, self.P)

    def _build_closest(self, tolerance: float, step: float) -> Any:
        """Minimise the sum of squares of the action, measured from where right-hand sides say."""
        n = self.A.shape[1]
        squares = np.zeros(n)
        squares[self.columns] = 1.0
        P = sparse.csc_matrix(sparse.diags_array(squares))
        return _conic_solver(self.A, self.b, np.zeros(n), self.cones, tolerance, _NEAREST[-1][0], step, P)

    def _build_nearest(self, tolerance: float, step: float) -> Any:
        """Minimise ``t`` with ``-t <= x[:d] - action <= t``; the actions are right-hand sides."""
        pick: Any = sparse.eye_array(self.A.shape[1], format="csr")[self.columns]
        d = pick.shape[0]
        rows: list[Any] = [[self.A, None], [pick, -np.ones((d, 1))], [-pick, -np.ones((d, 1))]]
        A: Any = sparse.block_array(rows)
        t = np.append(np.zeros(self.A.shape[1]), 1.0)
        cones = [*self.cones, ("NonnegativeConeT", 2 * d)]
        return _conic_solver(A, np.append(self.b, np.zeros(2 * d)), t, cones, tolerance, _NEAREST[-1][0], step)

    def tighten(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Replace infinite bounds by the farthest that each coordinate gets; find out whether there are actions."""
        d = len(lower)
        self._farthest(np.zeros(d), "a first action")
        low, high = lower.copy(), upper.copy()
        for bound, sign, side in ((low, -1.0, "smallest"), (high, 1.0, "largest")):
            for j in np.flatnonzero(np.isinf(bound)):
                bound[j] = self._farthest(sign * np.eye(d)[j], f"the {side} value of coordinate {j}")[j]
        # Rounded to nine digits, because these become edges of buckets and 0.9999999999 means 1.
        size = max(float(np.abs([low, high]).max()), 1e-300)
        digits = 9 - int(np.ceil(np.log10(size)))
        low = np.where(np.isinf(lower), np.round(low, digits), low)
        high = np.where(np.isinf(upper), np.round(high, digits), high)
        return low + 0.0, np.maximum(low, high) + 0.0

    def _farthest(self, cost: Floats, what: str) -> Floats:
        actions, failures = self.argmax(cost[None])
        status = failures.get(0, "")
        if "PrimalInfeasible" in status:
            raise EmptySetError("no action satisfies all constraints of the problem. Relax them, or check their signs.")
        if "DualInfeasible" in status:
            raise UnboundedSetError(f"{what} is infinite: no constraint limits it. Add one to the problem.")
        if status:
            raise SolverError(
                f"{what} could not be found: {explain_clarabel(status)} If there is no such value, add a bound."
            )
        return np.asarray(actions[0], dtype=np.float64)

    def _objective(self, cost: Floats) -> Floats:
        q = self.q.copy()
        q[self.columns] -= cost
        return q


def _conic_solver(
    A: Any,
    b: Floats,
    q: Floats,
    cones: list[tuple[Any, ...]],
    tolerance: float,
    almost: float,
    step: float,
    P: Any = None,
) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    settings.max_step_fraction = step
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", tolerance)
        setattr(settings, f"reduced_tol_{name}", almost)
    made = [getattr(clarabel, name)(*arguments) for name, *arguments in cones]
    square = sparse.csc_matrix((len(q), len(q))) if P is None else P
    return clarabel.DefaultSolver(square, q, sparse.csc_matrix(A), b, made, settings)


def explain_clarabel(status: str) -> str:
    """Return what a status of Clarabel means for the user."""
    return (
        f"Clarabel ended with status {status}. The likely cause is a set that is barely feasible, or constraints whose "
        "numbers differ by many orders of magnitude; relax or rescale them."
    )
