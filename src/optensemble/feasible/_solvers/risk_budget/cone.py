"""Portfolios under a limit of variance by an interior-point solver: set-up, and rows that the compiled one gives up."""

from __future__ import annotations

from typing import Any, NamedTuple

import clarabel
import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._solvers.highs import LinearModel, LinearProgram
from optensemble.feasible._solvers.per_thread import PerThread

_TOLERANCE = 1e-12
"""Clarabel's tolerance; it stops short of it for want of progress, with an action that is often as good."""

_ALMOST = 1e-9
"""The tolerance at which Clarabel calls a row almost solved."""

_RANK = 1e-14
"""Eigenvalues below this share of the largest are rounding: the covariance has no such direction."""

WAYS: tuple[dict[str, float], ...] = (
    {},
    {"static_regularization_constant": 1e-10},
    {"max_step_fraction": 0.9},
    {"static_regularization_constant": 1e-10, "max_step_fraction": 0.9},
)
"""Settings to try in turn: where the limit is barely above the least variance the default ones lose digits."""


class PortfolioRows(NamedTuple):
    """Linear constraints ``A a <= b``, the first ``equal`` of them with equality, and ``0 <= a <= upper``.

    The first row is ``sum(a) = 1``.
    """

    A: Floats
    b: Floats
    equal: int
    upper: Floats


class Solved(NamedTuple):
    """A solver's answer to each row: an approximate action, a bound on the value of any action, and its status."""

    actions: Floats
    bounds: Floats
    status: list[str]


class ConeProgram(PerThread):
    """One solver for each entry of :data:`WAYS`, given new coefficients row by row; all else stays as it was built.

    A solver's status says little: at the tolerance asked for it often stops for want of progress, or at a numerical
    error, with an action that is as good as any. So each row comes with a bound by weak duality. Let ``R'R`` be the
    covariance in units of the limit. For any prices y of the linear constraints and any vector u, no action can reach
    more than ``b'y + |u| + upper'max(c - A'y + R'u, 0)``, because ``-u'Ra <= |u|``. The effect of rounding in R on the
    limit is estimated at the action found, and added to ``|u|``.
    """

    def __init__(self, covariance: Floats, limit: float, rows: PortfolioRows) -> None:
        self.covariance, self.limit, self.rows = covariance, limit, rows
        super().__init__()

    def try_argmax(self, coefficients: Floats, way: int = 0) -> Solved:
        """Solve coefficients between -1 and 0, by one of the ways."""
        solver, root = self._solver(way)
        m, k = len(self.rows.b), len(root)
        actions, bounds, status = np.empty_like(coefficients), np.empty(len(coefficients)), []
        for i, c in enumerate(coefficients):
            # The first row too: what the solver was built with must not show in any action.
            solver.update(q=-c)
            solution = solver.solve()
            actions[i], z = solution.x, np.array(solution.z)
            bounds[i] = self._bound(c, actions[i], z[:m], z[len(z) - k :], root)
            status.append(str(solution.status))
        return Solved(actions, bounds, status)

    def _bound(self, c: Floats, action: Floats, y: Floats, u: Floats, root: Floats) -> float:
        """Return a bound for one row; without BLAS, whose last bits may differ from batch to batch."""
        A, b, equal, upper = self.rows
        y[equal:] = np.maximum(y[equal:], 0.0)
        left = np.maximum(c - (A * y[:, None]).sum(axis=0) + (root * u[:, None]).sum(axis=0), 0.0)
        variance = (action * (self.covariance * action).sum(axis=1)).sum() / self.limit
        lost = abs(variance - ((root * action).sum(axis=1) ** 2).sum())
        most = np.sqrt((u * u).sum() * (1.0 + lost))
        return float((y * b).sum() + most + (left * np.minimum(upper, 1.0)).sum())

    def _solver(self, way: int) -> tuple[Any, Floats]:
        """Return this thread's solver, and the root of the covariance in it."""
        if not hasattr(self._local, "solvers"):
            self._local.solvers = {}
        if way not in self._local.solvers:
            self._local.solvers[way] = self._build(way)
        found: tuple[Any, Floats] = self._local.solvers[way]
        return found

    def _build(self, way: int) -> tuple[Any, Floats]:
        d = len(self.covariance)
        # Scaled to variances of 1, small ones lose no digits; not for the first way, whose last digits would change.
        scale = np.sqrt(np.diag(self.covariance / self.limit)) if way else np.ones(d)
        scale[scale == 0.0] = 1.0
        root = root_of(self.covariance / self.limit / np.outer(scale, scale)) * scale
        matrix, right, cones = linear_constraints(self.rows)
        matrix = np.concatenate([matrix, np.zeros((1, d)), -root])
        right = np.concatenate([right, [1.0], np.zeros(len(root))])
        cones = [*cones, clarabel.SecondOrderConeT(1 + len(root))]
        return portfolio_solver(np.zeros((d, d)), np.linspace(0.0, 1.0, d), matrix, right, cones, WAYS[way]), root


def least_variance(covariance: Floats, rows: PortfolioRows) -> tuple[Floats, float]:
    """Return the action of least variance, and its variance."""
    d, scale = len(covariance), float(np.diag(covariance).max()) or 1.0
    solution = portfolio_solver(covariance / scale, np.zeros(d), *linear_constraints(rows), WAYS[0]).solve()
    action = share_out(np.array(solution.x)[None], rows.upper)[0]
    return action, float(action @ covariance @ action)


def least_variance_face(covariance: Floats, centre: Floats, rows: PortfolioRows) -> LinearProgram:
    """Return the set of all actions of least variance, a polytope: they share ``Ca``, and differ in its kernel."""
    root = root_of(covariance / (float(np.diag(covariance).max()) or 1.0))
    size = np.abs(root).max(axis=1, initial=0.0)
    deviation = float(np.linalg.norm(root @ centre))
    width = 1e-9 * deviation / size + 1e-12  # by which the variance grows by about 1e-9 of itself
    share = (root / size[:, None]) @ centre
    matrix = sparse.csr_array(np.concatenate([rows.A, root / size[:, None]]))
    low = np.concatenate([rows.b[: rows.equal], np.full(len(rows.b) - rows.equal, -np.inf), share - width])
    high = np.concatenate([rows.b, share + width])
    return LinearProgram(LinearModel(matrix, low, high, np.zeros(len(centre)), np.minimum(rows.upper, 1.0)))


def share_out(actions: Floats, upper: Floats) -> Floats:
    """Clip weights to their bounds, and scale them to a sum of 1."""
    clipped = np.clip(actions, 0.0, upper)
    total = clipped.sum(axis=1, keepdims=True)
    return np.asarray(np.minimum(clipped / np.where(total > 0.0, total, 1.0), upper), dtype=np.float64)


def linear_constraints(rows: PortfolioRows) -> tuple[Floats, Floats, list[Any]]:
    """Return the linear constraints as Clarabel wants them; caps of 1 or more are left out."""
    d = len(rows.upper)
    capped = np.flatnonzero(rows.upper < 1.0)
    matrix = np.concatenate([rows.A, np.eye(d)[capped], -np.eye(d)])
    right = np.concatenate([rows.b, rows.upper[capped], np.zeros(d)])
    return matrix, right, [clarabel.ZeroConeT(rows.equal), clarabel.NonnegativeConeT(len(right) - rows.equal)]


def root_of(covariance: Floats) -> Floats:
    """Return R with ``R'R`` equal to the covariance, and no more rows than its rank."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(_RANK * values[-1], 0.0)
    root: Floats = (vectors[:, kept] * np.sqrt(values[kept])).T
    return root


def portfolio_solver(
    quadratic: Floats, q: npt.ArrayLike, matrix: Floats, right: Floats, cones: list[Any], way: dict[str, float]
) -> Any:
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.presolve_enable = False
    settings.chordal_decomposition_enable = False
    settings.max_threads = 1
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", _TOLERANCE)
        setattr(settings, f"reduced_tol_{name}", _ALMOST)
    for name, value in way.items():
        setattr(settings, name, value)
    upper = sparse.csc_matrix(np.triu(quadratic))
    return clarabel.DefaultSolver(upper, np.asarray(q), sparse.csc_matrix(matrix), right, cones, settings)
