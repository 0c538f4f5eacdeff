"""The simplex under a quadratic limit by an interior-point solver, for dimensions beyond closed forms."""

from __future__ import annotations

import threading
from typing import Any

import clarabel
import numpy as np
from scipy import sparse

from optensemble._types import Floats
from optensemble.exceptions import SolverError
from optensemble.feasible._highs import LinearProgram
from optensemble.feasible._supports import NEGATIVE

_TOLERANCE = 1e-12
_ALMOST = 1e-9
_IN_SUPPORT = 1e-7


class ConeProgram:
    """One solver, given new coefficients row by row; everything else stays as it was built.

    The solver is built anew for each thread, and is left out of copies and pickles.
    """

    def __init__(self, covariance: Floats, limit: float) -> None:
        self.covariance = covariance
        self.limit = limit
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._local = threading.local()

    def argmax(self, coefficients: Floats, rows: Any) -> Floats:
        """Solve coefficients between -1 and 0; ``rows`` are the numbers under which errors name them."""
        if not hasattr(self._local, "solver"):
            self._local.solver = self._build()
        actions = np.empty_like(coefficients)
        for i, c in enumerate(coefficients):
            actions[i] = self._solve(self._local.solver, c, rows[i])
        return actions

    def _build(self) -> Any:
        d = len(self.covariance)
        root = _root(self.covariance / self.limit)
        rows = np.concatenate([np.ones((1, d)), -np.eye(d), np.zeros((1, d)), -root])
        right = np.concatenate([[1.0], np.zeros(d), [1.0], np.zeros(len(root))])
        cones = [
            clarabel.ZeroConeT(1),
            clarabel.NonnegativeConeT(d),
            clarabel.SecondOrderConeT(1 + len(root)),
        ]
        quadratic = sparse.csc_matrix((d, d))
        return clarabel.DefaultSolver(
            quadratic, np.linspace(0.0, 1.0, d), sparse.csc_matrix(rows), right, cones, _settings()
        )

    def _solve(self, solver: Any, c: Floats, row: int) -> Floats:
        # The first row too: what the solver was built with must not show in any action.
        solver.update(q=-c)
        solution = solver.solve()
        action = normalised(np.array(solution.x))
        polished = self._polish(c, action)
        if polished is not None:
            return polished
        if str(solution.status) not in ("Solved", "AlmostSolved"):
            raise SolverError(
                f"row {row} could not be solved: Clarabel ended with status {solution.status}. The likely "
                "cause is a limit barely above the least attainable variance, or a covariance whose entries "
                "differ by many orders of magnitude; raise the limit or rescale the covariance."
            )
        return action

    def _polish(self, c: Floats, action: Floats) -> Floats | None:
        """Return the exact optimum near an approximate one, if its optimality conditions can be confirmed."""
        support = action > _IN_SUPPORT
        for _ in range(len(c)):
            weights, gains = self._on_support(c, support)
            if weights is None or gains is None:
                return None
            if weights.min() < -NEGATIVE:
                support[weights.argmin()] = False
            elif gains.max() > _TOLERANCE:
                support[gains.argmax()] = True
            else:
                return normalised(weights)
        return None

    def _on_support(self, c: Floats, support: Any) -> tuple[Floats | None, Floats | None]:
        """Return the best point on a support, and what each coordinate outside would gain."""
        members = np.flatnonzero(support)
        size = len(members)
        if size < 2:
            return None, None
        system = np.ones((size + 1, size + 1))
        system[:size, :size] = self.covariance[np.ix_(members, members)] / self.limit
        system[-1, -1] = 0.0
        right = np.zeros((size + 1, 2))
        right[:size, 0] = c[members]
        right[-1, 1] = 1.0
        try:
            direction, centre = np.linalg.solve(system, right).T
        except np.linalg.LinAlgError:
            return None, None
        curvature, room = c[members] @ direction[:-1], 1.0 + centre[-1]
        if not (curvature > 0.0 and room > 0.0):
            return None, None
        step = np.sqrt(room / curvature)
        weights = np.zeros(len(c))
        weights[members] = centre[:-1] + step * direction[:-1]
        price = direction[-1] + centre[-1] / step
        gains = c - price - self.covariance @ weights / (self.limit * step)
        return weights, np.where(support, -np.inf, gains)


def least_variance(covariance: Floats) -> tuple[Floats, float]:
    """Return the action of least variance on the simplex, and its variance."""
    d = len(covariance)
    scale = float(np.diag(covariance).max()) or 1.0
    rows = sparse.csc_matrix(np.concatenate([np.ones((1, d)), -np.eye(d)]))
    right = np.concatenate([[1.0], np.zeros(d)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(d)]
    quadratic = sparse.csc_matrix(np.triu(covariance / scale))
    solution = clarabel.DefaultSolver(quadratic, np.zeros(d), rows, right, cones, _settings()).solve()
    action = normalised(np.array(solution.x))
    return action, float(action @ covariance @ action)


def least_variance_face(covariance: Floats, centre: Floats) -> LinearProgram:
    """Return the set of all actions of least variance, a polytope: they share ``Ca``, and differ in its kernel."""
    d = len(covariance)
    root = _root(covariance / (float(np.diag(covariance).max()) or 1.0))
    rows = sparse.csr_array(np.concatenate([np.ones((1, d)), root]))
    right = np.concatenate([[1.0], root @ centre])
    return LinearProgram(rows, right, right, np.zeros(d), np.ones(d))


def _root(covariance: Floats) -> Floats:
    """Return R with ``R'R`` equal to the covariance, and no more rows than its rank."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(1e-14 * values[-1], 0.0)
    root: Floats = (vectors[:, kept] * np.sqrt(values[kept])).T
    return root


def normalised(action: Floats) -> Floats:
    """Clip to the nonnegative, and share out exactly one."""
    clipped = np.maximum(action, 0.0)
    return np.asarray(clipped / clipped.sum(), dtype=np.float64)


def _settings() -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", _TOLERANCE)
        setattr(settings, f"reduced_tol_{name}", _ALMOST)
    return settings
