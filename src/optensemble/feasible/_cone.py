"""Portfolios under a quadratic limit by an interior-point solver: what the compiled solver gives up, and the set-up."""

from __future__ import annotations

from typing import Any, NamedTuple

import clarabel
import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._types import Floats
from optensemble.feasible._base import FEASIBILITY
from optensemble.feasible._highs import LinearProgram
from optensemble.feasible._per_thread import PerThread

_TOLERANCE = 1e-12
_ALMOST = 1e-9
_SOLVED = ("Solved", "AlmostSolved")


class Rows(NamedTuple):
    """Linear constraints ``A a <= b``, the first ``equal`` of them with equality, and ``0 <= a <= upper``.

    The first row is ``sum(a) = 1``.
    """

    A: Floats
    b: Floats
    equal: int
    upper: Floats


class ConeProgram(PerThread):
    """One solver, given new coefficients row by row; everything else stays as it was built."""

    def __init__(self, covariance: Floats, limit: float, rows: Rows) -> None:
        self.covariance, self.limit, self.rows = covariance, limit, rows
        super().__init__()

    def try_argmax(self, coefficients: Floats) -> tuple[Floats, dict[int, str]]:
        """Solve coefficients between -1 and 0; for rows that could not be solved return the reason."""
        if not hasattr(self._local, "solver"):
            self._local.solver = self._build()
        actions, reasons = np.empty_like(coefficients), {}
        for i, c in enumerate(coefficients):
            # The first row too: what the solver was built with must not show in any action.
            self._local.solver.update(q=-c)
            solution = self._local.solver.solve()
            actions[i] = solution.x
            if not _is_solved(solution):
                reasons[i] = (
                    f"Clarabel ended with status {solution.status}. The likely cause is a limit barely above the "
                    "least attainable variance, or a covariance whose entries differ by many orders of magnitude; "
                    "raise the limit or rescale the covariance."
                )
        return actions, reasons

    def _build(self) -> Any:
        d = len(self.covariance)
        root = _root(self.covariance / self.limit)
        matrix, right, cones = _linear(self.rows)
        matrix = np.concatenate([matrix, np.zeros((1, d)), -root])
        right = np.concatenate([right, [1.0], np.zeros(len(root))])
        cones = [*cones, clarabel.SecondOrderConeT(1 + len(root))]
        return _solver(np.zeros((d, d)), np.linspace(0.0, 1.0, d), matrix, right, cones)


def _is_solved(solution: Any) -> bool:
    """Say whether the gap is small, and the action feasible: the last digits of an action may be out of reach."""
    if str(solution.status) != "InsufficientProgress":
        return str(solution.status) in _SOLVED
    gap = max(abs(solution.obj_val - solution.obj_val_dual), solution.r_dual)
    return bool(gap <= _ALMOST and solution.r_prim <= FEASIBILITY)


def least_variance(covariance: Floats, rows: Rows) -> tuple[Floats, float]:
    """Return the action of least variance, and its variance."""
    d, scale = len(covariance), float(np.diag(covariance).max()) or 1.0
    solution = _solver(covariance / scale, np.zeros(d), *_linear(rows)).solve()
    action = inside(np.array(solution.x)[None], rows.upper)[0]
    return action, float(action @ covariance @ action)


def least_variance_face(covariance: Floats, centre: Floats, rows: Rows) -> LinearProgram:
    """Return the set of all actions of least variance, a polytope: they share ``Ca``, and differ in its kernel."""
    root = _root(covariance / (float(np.diag(covariance).max()) or 1.0))
    size = np.abs(root).max(axis=1, initial=0.0)
    deviation = float(np.linalg.norm(root @ centre))
    width = 1e-9 * deviation / size + 1e-12  # of which the variance grows by about 1e-9 of itself
    share = (root / size[:, None]) @ centre
    matrix = sparse.csr_array(np.concatenate([rows.A, root / size[:, None]]))
    low = np.concatenate([rows.b[: rows.equal], np.full(len(rows.b) - rows.equal, -np.inf), share - width])
    high = np.concatenate([rows.b, share + width])
    return LinearProgram(matrix, low, high, np.zeros(len(centre)), np.minimum(rows.upper, 1.0))


def inside(actions: Floats, upper: Floats) -> Floats:
    """Clip to the bounds, and share out one."""
    clipped = np.clip(actions, 0.0, upper)
    total = clipped.sum(axis=1, keepdims=True)
    return np.asarray(np.minimum(clipped / np.where(total > 0.0, total, 1.0), upper), dtype=np.float64)


def _linear(rows: Rows) -> tuple[Floats, Floats, list[Any]]:
    """Return the linear constraints as Clarabel wants them; caps of 1 or more are left out."""
    d = len(rows.upper)
    capped = np.flatnonzero(rows.upper < 1.0)
    matrix = np.concatenate([rows.A, np.eye(d)[capped], -np.eye(d)])
    right = np.concatenate([rows.b, rows.upper[capped], np.zeros(d)])
    return matrix, right, [clarabel.ZeroConeT(rows.equal), clarabel.NonnegativeConeT(len(right) - rows.equal)]


def _root(covariance: Floats) -> Floats:
    """Return R with ``R'R`` equal to the covariance, and no more rows than its rank."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(1e-14 * values[-1], 0.0)
    root: Floats = (vectors[:, kept] * np.sqrt(values[kept])).T
    return root


def _solver(quadratic: Floats, q: npt.ArrayLike, matrix: Floats, right: Floats, cones: list[Any]) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", _TOLERANCE)
        setattr(settings, f"reduced_tol_{name}", _ALMOST)
    upper = sparse.csc_matrix(np.triu(quadratic))
    return clarabel.DefaultSolver(upper, np.asarray(q), sparse.csc_matrix(matrix), right, cones, settings)
