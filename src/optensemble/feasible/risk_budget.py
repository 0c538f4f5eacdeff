"""Portfolio weights under a cap on their variance."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble._core.validation import as_floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, Unsolved, checks_actions, run_kernel, try_again
from optensemble.feasible._solvers.highs import LinearProgram
from optensemble.feasible._solvers.risk_budget.active_set import NEAR
from optensemble.feasible._solvers.risk_budget.cone import (
    WAYS,
    ConeProgram,
    PortfolioRows,
    least_variance,
    least_variance_face,
    share_out,
)
from optensemble.feasible._solvers.risk_budget.critical_line import line_kernel
from optensemble.feasible._solvers.risk_budget.portfolio import HELD, Packed, guess_kernel, pack_portfolio, polishing
from optensemble.feasible._solvers.risk_budget.supports import least_variance_on_simplex, pull_inside, supports_kernel
from optensemble.feasible._solvers.scale import normalised

_CLOSED_FORM = 8
"""Up to this dimension all supports (255 of them) are known in closed form."""

_GAP = 1e-8
"""An approximate action must be known to be within this much, of the spread of the coefficients, of the optimum."""

_UNSOLVED = (
    "Clarabel ended with status {}, with an action that may be {:.1e} of the spread of the coefficients below the "
    "optimum and {:.1e} outside the set. The likely cause is a limit barely above the least attainable variance, or a "
    "covariance whose entries differ by many orders of magnitude; raise the limit, or rescale the covariance."
)

_ROOM = 1e-10
"""Constraints, scaled to a largest entry of 1, that leave no more room than this leave none."""

_EXCESS = 1e-9
"""Constraints that must be missed by more than this contradict each other; less may be SciPy's tolerance."""

_ASYMMETRY = 1e-9
"""Rounding of a covariance, relative to its largest entry: in its symmetry, and in its eigenvalues below 0."""

_LIMIT_SLACK = 1e-9
"""A limit this close to the least variance, relative to itself, is the least variance."""

_VARIANCE_SLACK = 1e-12
"""The same relative to the largest variance, whose rounding is in the least variance too."""


@final
class RiskBudget(FeasibleSet):
    """Portfolio weights under a risk cap: ``a >= 0, sum(a) = 1, a'Ca <= limit``; optionally caps and sectors.

    Up to 8 coordinates, without caps and sectors, the action is the best of a closed form over all supports.
    Candidates have a fixed order: single coordinates first, then supports by size and in lexicographic order; a
    later one must beat the earlier ones by more than 1e-12 of the row's largest coefficient: ties go to the first.

    Otherwise a guess of the coordinates that are held and the constraints that bind is improved until it is proven.
    The first guess is the hint, or the point where the straight line from the portfolio of least variance meets the
    limit. Where that fails the critical line is followed: the best portfolio as a function of the price of variance,
    exchange by exchange. The action is computed from the proven set alone, so that it is the same either way. If a
    tied largest coefficient may take everything, the lowest index does (with caps: the largest coefficients are filled
    up, tied ones in the order of their indices, if the limit allows); otherwise the least variance decides among tied
    actions, and a row of equal coefficients gets the least variance of all. Rows that the line does not reach, because
    rounding or ties leave nothing to confirm, are solved by Clarabel; an active set that can be proven near its action
    is taken instead. Otherwise weak duality must show that the action is within 1e-8, of the spread of the
    coefficients, of the optimum; a row where it does not is a ``SolverError``.

    Where the limit is the least attainable variance (within 1e-9 of itself, or 1e-12 of the largest variance) the
    portfolios of that variance are left, a polytope for HiGHS.

    Parameters
    ----------
    covariance
        Symmetric and positive semidefinite, of shape (dimension, dimension); it may be singular.
    limit
        The largest variance allowed.
    factors, specific
        Instead of the covariance, a factor model of it: ``factors @ factors.T + diag(specific)``, with factors of shape
        (dimension, number of factors) and specific variances (a number, or one for each coordinate).
    upper
        The largest weight: a number, or one for each coordinate.
    A_ub, b_ub, A_eq, b_eq
        Further constraints ``A_ub a <= b_ub`` and ``A_eq a = b_eq``, such as the largest weight of a sector.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise", or take the "fallback" action and warn.

    Examples
    --------
    >>> RiskBudget([[4.0, 0.0], [0.0, 1.0]], limit=2.0).argmax([[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([[0.69, 0.31],
           [0.  , 1.  ]])
    >>> RiskBudget(factors=[[1.0], [1.0], [0.5]], specific=0.1, limit=0.9, upper=0.6).argmax([[3.0, 2.0, 1.0]]).round(3)
    array([[0.6 , 0.25, 0.15]])
    """

    def __init__(
        self,
        covariance: npt.ArrayLike | None = None,
        limit: float | None = None,
        *,
        factors: npt.ArrayLike | None = None,
        specific: npt.ArrayLike | None = None,
        upper: npt.ArrayLike = 1.0,
        A_ub: npt.ArrayLike | None = None,
        b_ub: npt.ArrayLike | None = None,
        A_eq: npt.ArrayLike | None = None,
        b_eq: npt.ArrayLike | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self._factors, self.covariance = _read_risk(covariance, factors, specific)
        if limit is None:
            raise InputError("limit= is missing: give the largest variance allowed.")
        self.limit = float(as_floats(limit, "limit", ndim=0)) + 0.0  # negative zero is zero
        self._set_bounds(0.0, upper, len(self.covariance))
        self._ub = _as_dense_rows(A_ub, b_ub, "ub", self.dimension)
        self._eq = _as_dense_rows(A_eq, b_eq, "eq", self.dimension)
        self._rows = self._collect_rows()
        self._slack = max(_LIMIT_SLACK * self.limit, _VARIANCE_SLACK * float(np.diag(self.covariance).max()))
        small = self.dimension <= _CLOSED_FORM and self._plain
        if small:
            self._centre, self.least_variance = least_variance_on_simplex(self.covariance)
        else:
            self._centre, self.least_variance = least_variance(self.covariance, self._rows)
        if self.least_variance > self.limit + self._slack:
            raise EmptySetError(
                f"no portfolio has a variance of at most {self.limit:.6g}; the least attainable variance is "
                f"{self.least_variance:.6g}. Raise limit= to at least that."
            )
        self._program: ConeProgram | LinearProgram
        self._packed: Packed | None = None
        if small:
            self.kernel = supports_kernel(self.covariance, self.limit, self._slack, self._centre)
        elif self.limit - self.least_variance > self._slack:
            self._program = ConeProgram(self.covariance, self.limit, self._rows)
            self._packed = pack_portfolio(self.covariance, self.limit, self._centre, self._rows)
            self.kernel = guess_kernel(self._packed) if self._packed.has_start else self._line
        else:
            self._program = least_variance_face(self.covariance, self._centre, self._rows)
        self._set_failure(on_failure, fallback)

    @property
    def _plain(self) -> bool:
        """Whether there are neither caps nor sectors."""
        return len(self._rows.b) == 1 and bool((self.upper >= 1.0).all())

    def _collect_rows(self) -> PortfolioRows:
        """Return all linear constraints, scaled and without redundant ones, or raise ``EmptySetError``."""
        if self.upper.sum() < 1.0:
            raise EmptySetError(
                f"no portfolio is feasible: the weights must sum to 1, and the caps upper= to only "
                f"{self.upper.sum():.6g}. Raise upper=."
            )
        A, b = np.ones((1, self.dimension)), np.ones(1)
        for row, right in zip(*_scaled_rows(*self._eq), strict=True):
            if np.linalg.matrix_rank(np.vstack([A, row])) > len(A):
                A, b = np.vstack([A, row]), np.append(b, right)
        (ub, b_ub), (eq, b_eq) = _scaled_rows(*self._ub), _scaled_rows(*self._eq)
        excess = _least_excess(np.vstack([ub, eq, -eq]), np.concatenate([b_ub, b_eq, -b_eq]), self.upper)
        if excess > _EXCESS:
            raise EmptySetError(
                "no portfolio satisfies A_ub, b_ub, A_eq, b_eq, the caps upper= and a sum of 1 together: some "
                f"constraint is missed by at least {excess:.3g} (rows scaled to a largest entry of 1). Check their "
                "signs, and that the sectors leave room for weights that sum to 1."
            )
        always, needed = _sort_out(ub, b_ub, A, b, self.upper)
        for row, right in zip(ub[always], b_ub[always], strict=True):
            if np.linalg.matrix_rank(np.vstack([A, row])) > len(A):
                A, b = np.vstack([A, row]), np.append(b, right)
        return PortfolioRows(np.vstack([A, ub[needed]]), np.concatenate([b, b_ub[needed]]), len(b), self.upper)

    @cached_property
    def _line(self) -> Kernel:
        """The kernel for rows whose active set is not proven at once; compiled when there is such a row."""
        assert self._packed is not None
        return line_kernel(self._packed)

    def _argmax(self, coefficients: Floats) -> Floats:
        if self._packed is None or not self._packed.has_start:
            return self._by_solver(coefficients)
        actions, status = run_kernel(self._line, coefficients)
        if status.any():
            try_again(self._by_solver, coefficients, actions, np.flatnonzero(status))
        return actions

    def _by_solver(self, coefficients: Floats) -> Floats:
        scaled = normalised(coefficients)
        scaled -= scaled.max(axis=1, keepdims=True)
        spread = -scaled.min(axis=1, keepdims=True)
        scaled /= np.where(spread > SAME_VALUE, spread, 1.0)
        if isinstance(self._program, ConeProgram):
            actions, reasons = self._by_cone(self._program, scaled)
        else:
            found, reasons = self._program.try_argmax(scaled)
            actions = self._make_feasible(found)
        flat = spread[:, 0] <= SAME_VALUE
        alone = (scaled >= -SAME_VALUE) & (np.diag(self.covariance) <= self.limit) & self._plain
        single = alone.any(axis=1)
        actions[flat] = self._centre
        actions[single] = np.eye(self.dimension)[alone[single].argmax(axis=1)]
        self._polish(coefficients, actions, reasons)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _by_cone(self, program: ConeProgram, scaled: Floats) -> tuple[Floats, dict[int, str]]:
        """Return the best actions that Clarabel finds with any of its settings, and why some are not good enough."""
        n, status = len(scaled), [""] * len(scaled)
        actions, gaps, outside = np.tile(self._centre, (n, 1)), np.full(n, np.inf), np.zeros(n)
        for way in range(len(WAYS)):
            rows = np.flatnonzero(gaps > NEAR)
            if not rows.size:
                break
            answer = program.try_argmax(scaled[rows], way)
            found = self._make_feasible(answer.actions)
            excess = self.violation(found)
            gap = answer.bounds - (scaled[rows] * found).sum(axis=1)
            gap[~(excess <= self.tolerance) | np.isnan(gap)] = np.inf
            for k in np.flatnonzero((gap < gaps[rows]) | (way == 0)):
                i = rows[k]
                actions[i], gaps[i], outside[i], status[i] = found[k], gap[k], excess[k], answer.status[k]
        bad = np.flatnonzero(gaps > _GAP)
        return actions, {int(i): _UNSOLVED.format(status[i], gaps[i], outside[i]) for i in bad}

    def _make_feasible(self, found: Floats) -> Floats:
        """Move approximate actions into the set; rows that are not finite become the least variance."""
        found = np.where(np.isfinite(found).all(axis=1, keepdims=True), found, self._centre)
        actions = share_out(found, self.upper)
        pull_inside(actions, self.covariance, self.limit, self._slack, self._centre)
        return actions

    def _polish(self, coefficients: Floats, actions: Floats, reasons: dict[int, str]) -> None:
        """Take the kernel's action where it can prove an active set near an approximate action."""
        if self._packed is None:
            return
        rows = np.arange(len(actions))
        for held in HELD:
            exact, status = run_kernel(polishing(self._line, held), coefficients[rows], actions[rows])
            for k in np.flatnonzero(status == 0):
                actions[rows[k]] = exact[k]
                reasons.pop(int(rows[k]), None)
            rows = rows[status > 0]

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest of its excess over a bound or constraint, error in the sum, and risk excess.

        The risk excess is ``a'Ca - limit`` relative to the limit (or to the largest variance, times 1e-3, if
        that is more). Constraints are scaled to a largest entry of 1.
        """
        variance = np.einsum("ij,ij->i", actions @ self.covariance, actions)
        excess = np.maximum(variance - self.limit, 0.0) / (1e9 * self._slack or 1.0)
        (ub, b_ub), (eq, b_eq) = _scaled_rows(*self._ub), _scaled_rows(*self._eq)
        outside = np.column_stack(
            [
                self._outside_box(actions),
                excess,
                np.abs(actions.sum(axis=1) - 1.0),
                actions @ ub.T - b_ub,
                np.abs(actions @ eq.T - b_eq),
            ]
        )
        largest: Floats = outside.max(axis=1)
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        arguments: dict[str, Any] = {"limit": self.limit, "upper": self.upper.copy(), **self._failure_spec()}
        if self._factors is None:
            arguments["covariance"] = self.covariance.copy()
        else:
            arguments["factors"], arguments["specific"] = (part.copy() for part in self._factors)
        for name, (matrix, right) in (("ub", self._ub), ("eq", self._eq)):
            if len(right):
                arguments[f"A_{name}"], arguments[f"b_{name}"] = matrix.copy(), right.copy()
        return arguments


def _read_risk(
    covariance: npt.ArrayLike | None, factors: npt.ArrayLike | None, specific: npt.ArrayLike | None
) -> tuple[tuple[Floats, Floats] | None, Floats]:
    """Return the factor form, if that is given, and the covariance."""
    if (covariance is None) == (factors is None) or (factors is None) != (specific is None):
        raise InputError(
            "the risk must be given once: either the covariance, or factors= and specific= together (specific=0.0 if "
            "there is no specific risk)."
        )
    if covariance is not None:
        return None, _as_covariance(covariance)
    F = as_floats(factors, "the factors", ndim=2)
    D = as_floats(specific, "the specific variances")
    if not len(F) or D.shape not in ((), (len(F),)) or (D < 0).any():
        raise InputError(
            f"factors must have a row for each coordinate, and specific must be a number or one for each, none of them "
            f"negative; got arrays of shape {F.shape} and {D.shape}, the least specific variance being "
            f"{D.min(initial=np.inf):.3g}."
        )
    return (F, D), _as_covariance(F @ F.T + np.diag(np.broadcast_to(D, len(F))))


def _as_covariance(value: npt.ArrayLike) -> Floats:
    matrix = as_floats(value, "the covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError(
            f"the covariance must be a square matrix; got an array of shape {matrix.shape}. One fixed set "
            "for all rows is supported."
        )
    size = float(np.abs(matrix).max())
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > _ASYMMETRY * size:
        raise InputError(
            f"the covariance must be symmetric; entries across the diagonal differ by up to {skew:.3g}. If "
            "that is rounding, give (C + C.T) / 2."
        )
    symmetric: Floats = (matrix + matrix.T) / 2 + 0.0  # negative zero is zero, to a solver of eigenvalues too
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if smallest < -_ASYMMETRY * size:
        raise InputError(
            f"the covariance must be positive semidefinite; its smallest eigenvalue is {smallest:.3g}. Clip "
            "negative eigenvalues to zero, or shrink the matrix toward its diagonal."
        )
    return symmetric


def _as_dense_rows(A: npt.ArrayLike | None, b: npt.ArrayLike | None, name: str, d: int) -> tuple[Floats, Floats]:
    if (A is None) != (b is None):
        raise InputError(f"A_{name} and b_{name} go together; only one of them is given.")
    if A is None or b is None:
        return np.empty((0, d)), np.empty(0)
    matrix, right = np.atleast_2d(as_floats(A, f"A_{name}")), np.atleast_1d(as_floats(b, f"b_{name}"))
    if matrix.ndim != 2 or matrix.shape[1] != d or right.shape != (len(matrix),):
        raise InputError(
            f"A_{name} must have {d} columns, one for each coordinate, and b_{name} one entry for each of its rows; "
            f"got arrays of shape {matrix.shape} and {right.shape}."
        )
    return matrix, right + 0.0  # negative zero is zero


def _scaled_rows(A: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Divide each row by its largest entry; a row of zeros stays as it is."""
    size = np.abs(A).max(axis=1, initial=0.0)
    size[size == 0.0] = 1.0
    return A / size[:, None], b / size


def _least_excess(A: Floats, b: Floats, upper: Floats) -> float:
    """Return the least excess over ``A a <= b`` of weights between 0 and their caps that sum to 1."""
    if not len(b):
        return 0.0
    d = len(upper)
    columns, cost = np.column_stack([A, -np.ones(len(b))]), np.append(np.zeros(d), 1.0)
    total, bounds = np.append(np.ones(d), 0.0)[None], [*((0.0, cap) for cap in upper), (0.0, None)]
    return float(linprog(cost, A_ub=columns, b_ub=b, A_eq=total, b_eq=[1.0], bounds=bounds)["fun"])


def _sort_out(A: Floats, b: Floats, A_eq: Floats, b_eq: Floats, upper: Floats) -> tuple[list[int], list[int]]:
    """Return which of ``A a <= b`` always bind, and which of the others the rest does not imply.

    Interior-point and active-set methods fail where a constraint leaves no room, or repeats others.
    """

    def least(row: Floats, rows: list[int]) -> float:
        bounds = [(0.0, cap) for cap in upper]
        if not rows:
            return float(linprog(row, A_eq=A_eq, b_eq=b_eq, bounds=bounds)["fun"])
        return float(linprog(row, A_ub=A[rows], b_ub=b[rows], A_eq=A_eq, b_eq=b_eq, bounds=bounds)["fun"])

    everything = list(range(len(b)))
    always = [i for i in everything if least(A[i], everything) >= b[i] - _ROOM]
    A_eq, b_eq = np.vstack([A_eq, A[always]]), np.concatenate([b_eq, b[always]])
    needed = [i for i in everything if i not in always]
    for i in list(needed):
        others = [j for j in needed if j != i]
        if -least(-A[i], others) <= b[i] + _ROOM:
            needed = others
    return always, needed
