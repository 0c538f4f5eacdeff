"""Portfolio weights under a cap on their variance."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble._core.kernel import Kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble._core.validation import as_floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved, run_kernel, try_again
from optensemble.feasible._binding import (
    MOST_NAMED,
    name_broken_bounds,
    name_broken_rows,
    name_constraint,
    name_excess,
    name_wrong_sum,
)
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._row_parameters import RowParameter, from_rows, row_parameters
from optensemble.feasible._solvers.highs import LinearProgram
from optensemble.feasible._solvers.risk_budget.active_set import NEAR
from optensemble.feasible._solvers.risk_budget.body import Body
from optensemble.feasible._solvers.risk_budget.capped import capped_kernel, find_attainable
from optensemble.feasible._solvers.risk_budget.cone import WAYS, ConeProgram, PortfolioRows, share_out
from optensemble.feasible._solvers.risk_budget.covariance import read_risk
from optensemble.feasible._solvers.risk_budget.kept import Kept
from optensemble.feasible._solvers.risk_budget.nearest import NearestPortfolios
from optensemble.feasible._solvers.risk_budget.portfolio import HELD, Packed, polishing, with_limit
from optensemble.feasible._solvers.risk_budget.rows import as_dense_rows, collect_rows, scaled_rows
from optensemble.feasible._solvers.risk_budget.support_search import pull_inside
from optensemble.feasible._solvers.risk_budget.supports import own_limits, supports_kernel
from optensemble.feasible._solvers.scale import normalised

_GAP = 1e-8
"""An approximate action must be known to be within this much, of the spread of the coefficients, of the optimum."""

_UNSOLVED = (
    "Clarabel ended with status {}, with an action that may be {:.1e} of the spread of the coefficients below the "
    "optimum and {:.1e} outside the set. The likely cause is a limit barely above the least attainable variance, or a "
    "covariance whose entries differ by many orders of magnitude; raise the limit, or rescale the covariance."
)

_LIMIT_SLACK = 1e-9
"""A limit this close to the least variance, relative to itself, is the least variance."""

_VARIANCE_SLACK = 1e-12
"""The same relative to the largest variance, whose rounding is in the least variance too."""

_BINDS = 1e-7
"""A constraint that leaves no more than this, as a share of the limit or of all weights, binds."""


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

    Limits by row are solved as by the set with that limit, at nearly its speed; so are caps.

    Where the limit is the least attainable variance (within 1e-9 of itself, or 1e-12 of the largest variance) the
    portfolios of that variance are left, a polytope for HiGHS.

    Parameters
    ----------
    covariance
        Symmetric and positive semidefinite, of shape (dimension, dimension); it may be singular.
    limit
        The largest variance allowed; by row if it is ``Columns`` or a callable of X.
    factors, specific
        Instead of the covariance, a factor model of it: ``factors @ factors.T + diag(specific)``, with factors of shape
        (dimension, number of factors) and specific variances (a number, or one for each coordinate).
    upper
        The largest weight: a number, or one for each coordinate; by row if they are ``Columns`` or callables of X. Rows
        whose active set is in doubt, as with ties, need a set with their caps, which takes milliseconds to make; the
        last 64 are kept.
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

    convex = True

    def __init__(
        self,
        covariance: npt.ArrayLike | None = None,
        limit: Any = None,
        *,
        factors: npt.ArrayLike | None = None,
        specific: npt.ArrayLike | None = None,
        upper: Any = 1.0,
        A_ub: npt.ArrayLike | None = None,
        b_ub: npt.ArrayLike | None = None,
        A_eq: npt.ArrayLike | None = None,
        b_eq: npt.ArrayLike | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self._factors, self.covariance = read_risk(covariance, factors, specific)
        if limit is None:
            raise InputError("limit= is missing: give the largest variance allowed.")
        self.parameters = row_parameters(limit=(limit, ()))
        # Negative zero is zero.
        self.limit: Any = None if from_rows(limit) else float(as_floats(limit, "limit", ndim=0)) + 0.0
        self._set_row_bounds(0.0, upper, len(self.covariance))
        self._ub = as_dense_rows(A_ub, b_ub, "ub", self.dimension)
        self._eq = as_dense_rows(A_eq, b_eq, "eq", self.dimension)
        self._packed: Packed | None = None
        self._kept: Kept[RiskBudget] = Kept()
        self._set_caps(np.ones(self.dimension) if self._bounds_vary() else self.upper)
        self._set_failure(on_failure, fallback)

    def _set_caps(self, upper: Floats) -> None:
        """Prepare what rows with these caps share, and the limit if they share it too."""
        self._body = Body(self.covariance, collect_rows(self._ub, self._eq, upper))
        if self._bounds_vary():
            self.kernel = capped_kernel(self._body.packed)
        elif self.limit is not None:
            self._set_limit(self.limit)
        else:
            self.kernel = self._body.kernel
            self._packed = None if self._body.small else self._body.packed

    def _set_limit(self, limit: float) -> None:
        """Prepare the solvers for a limit that rows share, or raise ``EmptySetError``."""
        body, slack = self._body, float(_slack(self.covariance, limit))
        if body.least_variance > limit + slack:
            raise EmptySetError(
                f"no portfolio has a variance of at most {limit:.6g}; the least attainable variance is "
                f"{body.least_variance:.6g}. Raise limit= to at least that."
            )
        self.limit, self._slack = limit, slack
        self._program: ConeProgram | LinearProgram
        self._packed, self.kernel = None, None
        if body.small:
            shared = own_limits(np.array([limit]), np.array([slack]), body.least_variance)[0]
            self.kernel = supports_kernel(self.covariance, body.centre, shared)
        elif limit - body.least_variance > slack:
            self._program = ConeProgram(self.covariance, limit, body.rows)
            self._packed, self.kernel = body.packed, with_limit(body.kernel, limit)
        else:
            self._program = body.face

    @property
    def dear(self) -> bool:
        """Whether solves take long: a search for the support does."""
        return not self._body.small

    @property
    def least_variance(self) -> float:
        """The least variance of the portfolios that caps and sectors allow; without caps if they come from the row."""
        return self._body.least_variance

    @property
    def _centre(self) -> Floats:
        return self._body.centre

    @property
    def _rows(self) -> PortfolioRows:
        return self._body.rows

    @property
    def _line(self) -> Kernel:
        return self._body.line if self.limit is None else with_limit(self._body.line, self.limit)

    # Rows with limits and caps of their own

    def _limits(self) -> Floats:
        """Return the limit of every row."""
        return np.full(len(self.values), self.limit) if self.limit is not None else self._of_rows("limit") + 0.0

    def _pack(self) -> Floats:
        limit = self._limits()
        if self._bounds_vary():
            caps = self._row_box()[1]
            closed_form = (caps >= 1.0).all(axis=1) & self._body.small
            return np.column_stack([limit, closed_form, caps])
        slack = _slack(self.covariance, limit)
        return own_limits(limit, slack, self.least_variance) if self._body.small else self._body.own(limit, slack)

    def _faults(self) -> Iterator[Fault]:
        faulty = np.zeros(len(self.values), dtype=np.bool_)
        for fault in super()._faults():
            faulty |= fault.rows
            yield fault
        if self._bounds_vary():
            for fault in self._faults_of_caps(~faulty):
                faulty |= fault.rows
                yield fault
        elif self.limit is None:
            limit = np.where(faulty, np.inf, self._limits())
            if (below := self.least_variance > limit + _slack(self.covariance, limit)).any():
                yield Fault(
                    "limit", below, f"must be at least {self.least_variance:.6g}, the least attainable variance"
                )

    def _faults_of_caps(self, sound: npt.NDArray[np.bool_]) -> Iterator[Fault]:
        """Go through what is wrong with caps, and with limits beside them, in rows whose numbers are sound."""
        total = np.where(sound, self._row_box()[1].sum(axis=1), 1.0)
        if (short := total < 1.0).any():
            first = f"{total[short.argmax()]:.6g} in row {short.argmax()}"
            yield Fault("upper", short, f"must sum to at least 1, as the weights do (the sum is {first})")
        rows = np.flatnonzero(sound & ~short)
        least, contradicted = self._least_variances(rows)
        if contradicted.any():
            yield Fault("upper", contradicted, "must leave a portfolio that satisfies A_ub, b_ub, A_eq and b_eq too")
        limit = self._limits()
        empty = least > limit + _slack(self.covariance, np.where(sound, limit, 0.0))
        if empty.any():
            first = f"{least[empty.argmax()]:.6g} in row {empty.argmax()}"
            if self.limit is None:
                yield Fault("limit", empty, f"must be at least the least attainable variance, {first}")
            else:
                rule = f"must leave a variance of at most limit={self.limit:.6g} (the least attainable is {first})"
                yield Fault("upper", empty, rule)

    def _least_variances(self, rows: npt.NDArray[np.intp]) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the least variance of rows, where it may be above the limit, and which rows have no portfolio at all.

        It is 0 for rows that need no closer look.
        """
        least, contradicted = np.zeros(len(self.values)), np.zeros(len(self.values), dtype=np.bool_)
        limit = self._limits()[rows]
        close = 10.0 * _slack(self.covariance, limit)
        assert self.kernel is not None
        attainable, found = find_attainable(self.kernel, self._row_box()[1][rows], limit - close)
        far = np.abs(found - limit) > close
        least[rows[far]] = found[far]
        for same, caps in self._by_caps(rows[~(attainable < limit - close) & ~far]):
            try:
                least[same] = self._with_caps(caps).least_variance
            except EmptySetError:
                contradicted[same] = True
        return least, contradicted

    def _by_caps(self, rows: npt.NDArray[np.intp]) -> Iterator[tuple[npt.NDArray[np.intp], Floats]]:
        """Go through rows that have the same caps."""
        different, number = np.unique(self._row_box()[1][rows], axis=0, return_inverse=True)
        order, ends = np.argsort(number.reshape(-1), kind="stable"), np.cumsum(np.bincount(number.reshape(-1)))
        for caps, end, start in zip(different, ends, [0, *ends], strict=False):
            yield rows[order[start:end]], caps

    def _with_caps(self, caps: Floats) -> RiskBudget:
        """Return the set of rows with these caps, whose limit comes from the row in any case."""

        def make() -> RiskBudget:
            alike = self._unbound()
            alike.parameters = (RowParameter.of("limit", Columns("limit")),)
            alike.limit = None
            alike.lower, alike.upper = np.zeros(self.dimension), caps.copy()
            alike._set_caps(alike.upper)
            return alike

        return self._kept.get(caps.tobytes(), make)

    def _unbound(self) -> RiskBudget:
        alone = copy.copy(self)
        alone._values = alone._faulty = None
        return alone

    def _argmax_by_caps(self, coefficients: Floats) -> Floats:
        """Solve rows that have the same caps together."""
        actions, reasons = np.empty_like(coefficients), dict[int, str]()
        limits = self._limits()[:, None]
        for rows, caps in self._by_caps(np.arange(len(coefficients))):
            try:
                actions[rows] = self._with_caps(caps).bind(limits[rows])._solve_batch(coefficients[rows], None)
            except Unsolved as unsolved:
                actions[rows] = unsolved.actions
                reasons |= {int(rows[row]): why for row, why in unsolved.reasons.items()}
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _argmax(self, coefficients: Floats) -> Floats:
        if self._bounds_vary():
            return self._argmax_by_caps(coefficients)
        if self._packed is None or not self._packed.has_start:
            return self._by_second_solver(coefficients)
        actions, status = run_kernel(self._line, coefficients, own=self._own())
        failed = np.flatnonzero(status)
        if failed.size:
            try_again(self.take(failed)._by_second_solver, coefficients, actions, failed)
        return actions

    def _by_second_solver(self, coefficients: Floats) -> Floats:
        return self._by_solver(coefficients) if self.limit is not None else self._by_solvers_of_rows(coefficients)

    def _by_solvers_of_rows(self, coefficients: Floats) -> Floats:
        """Solve rows with limits of their own, each by the solver for its limit."""
        actions, reasons = np.empty_like(coefficients), dict[int, str]()
        for row, limit in enumerate(self._limits()):
            alone = self._unbound()
            alone.parameters = ()
            alone._set_limit(float(limit))
            try:
                actions[row] = alone._by_solver(coefficients[row : row + 1])[0]
            except Unsolved as unsolved:
                actions[row], reasons[row] = unsolved.actions[0], unsolved.reasons[0]
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    # Rows that the kernels give up

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
        alone = (scaled >= -SAME_VALUE) & (np.diag(self.covariance) <= self.limit) & self._body.plain
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

    def _project(self, actions: Floats) -> Floats:
        limit = np.broadcast_to(self._limits() if self.varies else np.array([self.limit]), len(actions))
        nearest = NearestPortfolios(self.covariance, scaled_rows(*self._ub), scaled_rows(*self._eq))
        first, second, known = nearest(actions, np.atleast_2d(self._row_box()[1]), limit)
        for found in (first, second):
            self._pull_to_centre(found, known, limit, nearest.variances(found))
        nearer = np.square(second - actions).sum(axis=1) < np.square(first - actions).sum(axis=1)
        return np.where(nearer[:, None], second, first)

    def _pull_to_centre(self, found: Floats, known: npt.NDArray[np.bool_], limit: Floats, variance: Floats) -> None:
        """Pull portfolios beyond the limit towards that of least variance; it replaces those that are not known."""
        slack = _slack(self.covariance, limit)
        far = np.flatnonzero(~known | (variance > limit + slack))
        if not far.size:
            return
        for rows, caps in self._by_caps(far) if self._bounds_vary() else [(far, self.upper)]:
            centre = self._with_caps(caps)._centre if self._bounds_vary() else self._centre
            found[rows[~known[rows]]] = centre
            for row in rows:
                pull_inside(found[row : row + 1], self.covariance, limit[row], slack[row], centre)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest of its excess over a bound or constraint, error in the sum, and risk excess.

        The risk excess is ``a'Ca - limit`` relative to the limit (or to the largest variance, times 1e-3, if
        that is more). Constraints are scaled to a largest entry of 1.
        """
        variance = np.einsum("ij,ij->i", actions @ self.covariance, actions)
        limit = self.limit if self.limit is not None else self._limits()
        slack = 1e9 * _slack(self.covariance, limit)
        excess = np.maximum(variance - limit, 0.0) / np.where(slack > 0.0, slack, 1.0)
        (ub, b_ub), (eq, b_eq) = scaled_rows(*self._ub), scaled_rows(*self._eq)
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

    def _broken(self, action: Floats, slack: float) -> list[str]:
        limit = self.limit if self.limit is not None else float(self._limits()[0])
        variance, total, found = float(action @ self.covariance @ action), float(action.sum()), list[str]()
        if abs(total - 1.0) > slack:
            found.append(name_wrong_sum(total, 1.0))
        if variance - limit > slack * 1e9 * float(_slack(self.covariance, limit)):
            found.append(name_excess(self, "limit: variance", variance, ">", limit, ("limit", None)))
        for name, (A, b) in (("ub", self._ub), ("eq", self._eq)):
            matrix, right = scaled_rows(A, b)
            excess = matrix @ action - right
            broken = (excess if name == "ub" else np.abs(excess)) > slack
            found += name_broken_rows(self, name, A @ action, b, broken)
        return [*found, *name_broken_bounds(self, action, slack)]

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        limit = self.limit if self.limit is not None else float(self._limits()[0])
        upper = np.atleast_2d(self._row_box()[1])[0]
        found = list[str]()
        if action @ self.covariance @ action >= limit - _BINDS * max(
            limit, 1e3 * float(_slack(self.covariance, limit))
        ):
            found.append(name_constraint(self, "limit", limit))
        for j in np.flatnonzero((action >= upper - _BINDS) & (upper < 1.0)):
            found.append(name_constraint(self, "upper", float(upper[j]), int(j)))
        (ub, b_ub), given = scaled_rows(*self._ub), self._ub[1]
        for k in np.flatnonzero(ub @ action >= b_ub - _BINDS):
            found.append(f"A_ub[{k}]: {name_constraint(self, 'b_ub', float(given[k]), int(k))}")
        return found[:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        arguments: dict[str, Any] = {"limit": self._argument("limit", self.limit), **self._failure_spec()}
        arguments["upper"] = self._bounds_spec()["upper"]
        if self._factors is None:
            arguments["covariance"] = self.covariance.copy()
        else:
            arguments["factors"], arguments["specific"] = (part.copy() for part in self._factors)
        for name, (matrix, right) in (("ub", self._ub), ("eq", self._eq)):
            if len(right):
                arguments[f"A_{name}"], arguments[f"b_{name}"] = matrix.copy(), right.copy()
        return arguments


def _slack(covariance: Floats, limit: Any) -> Any:
    """Return how far above a limit the least variance may be, and be taken for the limit."""
    return np.maximum(_LIMIT_SLACK * limit, _VARIANCE_SLACK * float(np.diag(covariance).max()))
