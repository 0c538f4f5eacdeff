"""Linear constraints on coordinates that are, some or all of them, whole numbers."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel
from optensemble._core.validation import require_number
from optensemble.exceptions import EmptySetError, InputError, SolverError
from optensemble.feasible._base import checks_actions
from optensemble.feasible._batches import Unsolved, run_kernel, try_again
from optensemble.feasible._binding import name_fractions
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._bounds import as_bounds
from optensemble.feasible._linear import LinearSet
from optensemble.feasible._solvers.constraints import scaled
from optensemble.feasible._solvers.highs import (
    MARGIN,
    SATISFIED,
    SMALLEST,
    LinearModel,
    build,
    in_background,
    is_optimal,
    least_excess,
    require_feasible,
    set_cost,
    set_integer,
    stop_by,
)
from optensemble.feasible._solvers.lattice import (
    LARGEST_WHOLE,
    MOST_NUMBERS,
    TOO_LARGE,
    list_points,
    round_inward,
    whole_bounds,
    without_between,
)
from optensemble.feasible._solvers.scale import rounded
from optensemble.feasible._solvers.shared_list import EMPTY, NEARLY_TIED, shared_list_kernel
from optensemble.feasible._solvers.vertex_list import vertex_kernel
from optensemble.feasible.polytope import Polytope

_WHOLE = 1e-9
"""How near to whole numbers HiGHS gets. At 1e-10, the least it takes, it now and then calls optimal what is not."""

_MIP_OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": _WHOLE,
    "primal_feasibility_tolerance": SATISFIED,
    "dual_feasibility_tolerance": SATISFIED,
}
"""No gap: with one, the order of the search would choose among nearly tied actions. Threads are for rows."""

_NOTHING_FOUND = ("kInfeasible", "kUnboundedOrInfeasible")

_Attempt = tuple[Floats, str | None]
"""An action, and None or the reason why it could not be found."""

ACCEPTED = 1e-9
"""Actions further outside than this, relative to the extent, are not accepted: ten times what HiGHS may leave."""

_EMPTY = (
    "no action satisfies all constraints together with the bounds and the whole numbers. Check the signs of A_ub and "
    "b_ub, that upper= (1 unless given) leaves enough room, and that integer= names the right coordinates."
)


@final
class MixedInteger(LinearSet):
    """``A_ub a <= b_ub``, ``A_eq a = b_eq``, ``lower <= a <= upper``, and some or all coordinates whole numbers.

    Where all coordinates are whole (or fixed) and the actions few, they are listed once, in ascending lexicographic
    order, and every row takes the best of the list: values within 1e-12 of the best, relative to ``sum_j |v_j c_j|`` of
    the action v that has it, are tied, and the lowest action wins. Actions between two others along one coordinate are
    not listed: they are never better than both, and of exactly tied actions never the lowest. Few means at most 262,144
    numbers in the list, found by looking at 65,536 choices for the first coordinates at a time, and 8 million numbers
    in all.

    Otherwise each row is a mixed-integer programme of its own, solved by HiGHS to a gap of 0, as many rows at once as
    numba has threads. Whole numbers are exact; where rounding them would move an action outside, the other coordinates
    are solved again as a linear programme. Coefficients are first rounded to 40 bits below the largest of their row, so
    that rows tied but for rounding get the same action: which one depends on the set and the row alone.

    If right-hand sides or bounds come from the row, actions of all rows of a batch are listed once where they are few,
    and each row takes the best of those that its own constraints allow; otherwise each row is listed, or solved by
    HiGHS, alone. In any case it gets the bits of a fixed set with its numbers.

    Parameters
    ----------
    A_ub, b_ub
        Inequalities: a matrix (a SciPy sparse one too) with a column for each coordinate, and its right-hand sides,
        which may come from the row: ``Columns``, a callable of X, or a list of these and numbers.
    A_eq, b_eq
        Equalities, likewise.
    lower, upper
        Numbers, or one for each coordinate, or by row. An infinite bound is replaced by the tightest one that the
        constraints imply without the whole numbers; if they imply none the set is unbounded. Bounds must be finite if
        anything comes from the row.
    integer
        Which coordinates are whole numbers: True for all, a boolean mask, or a list of their indices.
    dimension
        The number of coordinates, if neither constraints nor bounds tell.
    node_limit
        The number of nodes of HiGHS's search tree after which a row has failed; no limit by default.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn. From a
        list every row is solved.

    Examples
    --------
    >>> knapsack = MixedInteger(A_ub=[[3, 4, 5]], b_ub=[8])
    >>> knapsack.argmax([[3.0, 4.0, 6.0], [1.0, 3.0, 1.0]])
    array([[1., 0., 1.],
           [1., 1., 0.]])
    """

    def __init__(
        self,
        A_ub: Any = None,
        b_ub: Any = None,
        A_eq: Any = None,
        b_eq: Any = None,
        lower: Any = 0.0,
        upper: Any = 1.0,
        integer: Any = True,
        dimension: int | None = None,
        node_limit: int | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        if node_limit is not None:
            require_number(node_limit, "node_limit", at_least=1, whole=True)
        self.node_limit = node_limit
        by_row = self._set_constraints(A_ub, b_ub, A_eq, b_eq, lower, upper, dimension)
        self.integer = _as_mask(integer, self.dimension)
        sides = [scaled(matrix, np.ones(matrix.shape[0])) for matrix, _ in (self._ub, self._eq)]
        self._rows = sparse.csr_array(sparse.vstack([matrix for matrix, _ in sides]))
        self._factors: Floats = np.concatenate([factors for _, factors in sides])
        self._points: Floats | None = None
        if not by_row:
            self._set_whole_bounds(*self._tighten(*as_bounds(lower, upper, self.dimension)))
            self._set_model(*self._right_sides())
            self._points = self._list_points()
            if self._points is None:
                self._require_an_action()
            else:
                self.kernel = vertex_kernel(self._points)
        elif not self._bounds_vary():
            self._set_whole_bounds(self.lower, self.upper)
        self._set_failure(on_failure, fallback)

    @property
    def convex(self) -> bool:
        """Whether every mixture of actions is one: where no coordinate is whole."""
        return not self.integer.any()

    def _tighten(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            return lower, upper
        relaxed = Polytope(*self._ub, *self._eq, lower, upper, self.dimension)
        return relaxed.lower, relaxed.upper

    def _set_whole_bounds(self, lower: Floats, upper: Floats) -> None:
        self._set_bounds(*whole_bounds(lower, upper, self.integer), self.dimension)

    def _set_model(self, b_ub: Floats, b_eq: Floats) -> None:
        """Make HiGHS's model of the set, or of the set of one row."""
        row_lower, row_upper = (side[0] for side in self._row_limits(b_ub, b_eq))
        self._model = LinearModel(self._rows, row_lower, row_upper, self.lower, self.upper)

    def _row_limits(self, b_ub: Floats, b_eq: Floats) -> tuple[Floats, Floats]:
        """Return the least and the most of rows scaled to a size near 1, for several right-hand sides."""
        most = np.concatenate([b_ub, b_eq], axis=1) * self._factors
        return np.where(np.arange(most.shape[1]) < b_ub.shape[1], -np.inf, most), most

    @property
    def points(self) -> Floats | None:
        """The list that rows take the best of, in ascending lexicographic order, or None where HiGHS solves them."""
        return None if self._points is None else self._points.copy()

    def _list_points(self) -> Floats | None:
        """List the actions, if all coordinates are whole or fixed, and the actions few enough."""
        if not (self.integer | (self.lower == self.upper)).all():
            return None
        points = list_points(*self._model)
        if points is None:
            return None
        points = points[self.violation(points) <= ACCEPTED]  # absolute, as HiGHS's own tolerance is
        if not len(points):
            raise EmptySetError(_EMPTY)
        points = without_between(points)
        return points if points.size <= MOST_NUMBERS else None

    def _require_an_action(self) -> None:
        _, failures = self._solve(np.zeros((1, self.dimension)))
        if failures.get(0) in _NOTHING_FOUND:
            require_feasible(self._least_excess(), _EMPTY)
        if failures:
            raise SolverError(f"a first feasible action could not be found: {_explain_failure(failures[0])}")

    def _least_excess(self) -> float:
        """Return the least excess over a row that an action can have."""
        stop, found = threading.Event(), list[float]()
        solver = build(self._model.with_excess(), {**_MIP_OPTIONS, "small_matrix_value": SMALLEST})
        self._prepare(solver, np.append(self.integer, False), stop)
        in_background(lambda _: found.append(least_excess(solver)), [0], stop)
        return found[0]

    def _argmax(self, coefficients: Floats) -> Floats:
        if self.row_count is not None:
            return self._argmax_by_row(coefficients)
        actions, failures = self._solve(rounded(coefficients))
        if failures:
            raise Unsolved(actions, {row: _explain_failure(failure) for row, failure in failures.items()})
        return actions

    def _solve_batch(self, coefficients: Floats, hint: Floats | None) -> Floats:
        shared = self._shared_list() if self.row_count else None
        if shared is None:
            return super()._solve_batch(coefficients, hint)
        actions, status = run_kernel(shared[0], coefficients, None, lambda rows: shared[1][rows])
        reasons = dict.fromkeys(np.flatnonzero(status == EMPTY).tolist(), _EMPTY)
        actions[status == EMPTY] = 0.0
        doubtful = np.flatnonzero(status == NEARLY_TIED)
        try:
            try_again(self.take(doubtful)._argmax, coefficients, actions, doubtful)
        except Unsolved as unsolved:
            reasons |= unsolved.reasons
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _shared_list(self) -> tuple[Kernel, Floats] | None:
        """Return a kernel with the actions of all rows in one list, and each row's limits; None if they are too many.

        The list is that of the least and the most of all rows' right-hand sides and bounds. It does not change what a
        row takes: any list will do that holds the row's actions.
        """
        least, most = self._row_limits(*self._right_sides())
        lower, upper = self._every_bound()
        outer = lower.min(axis=0), upper.max(axis=0)
        if not (self.integer | (outer[0] == outer[1])).all():
            return None
        points = list_points(self._rows, least.min(axis=0), most.max(axis=0), *outer)
        if points is None or points.size > MOST_NUMBERS:
            return None
        vary = np.flatnonzero((lower > outer[0]).any(axis=0) | (upper < outer[1]).any(axis=0))
        measures = np.concatenate([points @ self._rows.T, points[:, vary]], axis=1)
        limits = least - ACCEPTED, lower[:, vary], most + ACCEPTED, upper[:, vary]
        return shared_list_kernel(points, measures), np.concatenate(limits, axis=1)

    def _argmax_by_row(self, coefficients: Floats) -> Floats:
        """Solve each row by a list of its own, or by HiGHS: as the fixed set of that row would."""
        actions, reasons = np.zeros_like(coefficients), dict[int, str]()
        costs, stop, unlisted = rounded(coefficients), threading.Event(), list[int]()
        for row in range(len(costs)):
            try:
                alone = self._alone(row)
                points = alone._list_points()
            except EmptySetError as error:
                reasons[row] = str(error)
                continue
            if points is None:
                unlisted.append(row)
            else:
                actions[row] = run_kernel(vertex_kernel(points), coefficients[row : row + 1])[0][0]

        def solve(row: int) -> None:
            actions[row], failure = self._alone(row)._try(costs[row], {}, stop)
            if failure is not None:
                reasons[row] = _EMPTY if failure in _NOTHING_FOUND else _explain_failure(failure)

        in_background(solve, unlisted, stop)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _alone(self, row: int) -> MixedInteger:
        """Return the set of one row, ready for HiGHS, without asking whether it has an action."""
        alone, bounds = copy.copy(self), [side[row] for side in self._every_bound()]
        b_ub, b_eq = (side[row : row + 1] for side in self._right_sides())
        alone.parameters, alone._values, alone._faulty = (), None, None
        alone._ub, alone._eq = (self._ub[0], b_ub[0]), (self._eq[0], b_eq[0])
        alone._set_whole_bounds(*bounds)
        alone._set_model(b_ub, b_eq)
        return alone

    def _solve(self, costs: Floats) -> tuple[Floats, dict[int, str]]:
        """Return an action for each row, and for rows without one the reason."""
        actions = np.zeros_like(costs)
        failures: dict[int, str] = {}
        stop, local = threading.Event(), threading.local()

        def solve(row: int) -> None:
            actions[row], failure = self._try(costs[row], local.__dict__.setdefault("solvers", {}), stop)
            if failure is not None:
                failures[row] = failure

        in_background(solve, range(len(costs)), stop)
        return actions, failures

    def _try(self, cost: Floats, solvers: dict[float, Any], stop: threading.Event) -> _Attempt:
        """Return an action for one cost, or the reason why there is none."""
        action, failure = self._best(cost, solvers, 0.0, stop)
        if failure in _NOTHING_FOUND:  # maybe no action satisfies the rows but for rounding
            action, failure = self._best(cost, solvers, MARGIN, stop)
        return action, failure

    def _best(self, cost: Floats, solvers: dict[float, Any], margin: float, stop: threading.Event) -> _Attempt:
        """Return an action for one cost, with rows relaxed by a margin, or the reason why there is none."""
        if margin not in solvers:
            solvers[margin] = self._build(self.integer, margin, stop)
        failure = _solve_cost(solvers[margin], cost)
        if failure is not None:
            return np.zeros_like(cost), failure
        return self._exact(_found_action(solvers[margin]), cost, margin, stop)

    def _exact(self, found: Floats, cost: Floats, margin: float, stop: threading.Event) -> _Attempt:
        """Round the whole numbers; where that changes them, solve for the other coordinates once more."""
        action, failure = self._round(found), None
        if not self.integer.all() and (action != found)[self.integer].any():
            solver = self._build(np.zeros_like(self.integer), margin, stop)
            columns = np.flatnonzero(self.integer).astype(np.int32)
            solver.changeColsBounds(len(columns), columns, action[columns], action[columns])
            failure = _solve_cost(solver, cost)
            action = self._round(_found_action(solver))
        if failure is None and self.violation(action[None])[0] > ACCEPTED * self.extent:
            failure = "kRounded"
        return action, failure

    def _round(self, action: Floats) -> Floats:
        rounded = np.where(self.integer, np.rint(action), action)
        return np.asarray(np.clip(rounded, self.lower, self.upper) + 0.0, dtype=np.float64)

    def _build(self, integer: npt.NDArray[np.bool_], margin: float, stop: threading.Event) -> Any:
        options = {**_MIP_OPTIONS, "small_matrix_value": SMALLEST} if margin else _MIP_OPTIONS
        return self._prepare(build(self._model.relaxed(margin), options), integer, stop)

    def _prepare(self, solver: Any, integer: npt.NDArray[np.bool_], stop: threading.Event) -> Any:
        if self.node_limit is not None:
            solver.setOptionValue("mip_max_nodes", int(self.node_limit))
        set_integer(solver, integer)
        stop_by(solver, stop)
        return solver

    def _row_box(self) -> tuple[Floats, Floats]:
        lower, upper = super()._row_box()
        if self.row_count is None or not self._bounds_vary():
            return lower, upper
        return round_inward(lower, upper, self.integer)

    def _faults(self) -> Iterator[Fault]:
        if self._bounds_vary():
            lower, upper = super()._row_box()
            name = "upper" if self._varies_in("upper") else "lower"
            with np.errstate(invalid="ignore"):
                large = self.integer & (np.maximum(np.abs(lower), np.abs(upper)) > LARGEST_WHOLE)
                whole = round_inward(lower, upper, self.integer)
                between = (lower <= upper) & (whole[0] > whole[1])
            if large.any():
                yield Fault(name, np.broadcast_to(large, (len(self.values), self.dimension)), TOO_LARGE)
            if between.any():
                yield Fault(name, between, "must leave a whole number between the bounds where integer= asks for one")
        yield from super()._faults()

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its largest excess: over a bound, a row scaled to a size near 1, or a whole number."""
        parts = np.abs(actions - np.rint(actions))[:, self.integer]
        excess = np.concatenate([*self._excess(actions), parts], axis=1)
        largest: Floats = np.maximum(self._outside_box(actions), excess.max(axis=1, initial=0.0))
        return largest

    def _project(self, actions: Floats) -> Floats:
        """Round whole numbers, and take the nearest others; where that is no action, what HiGHS finds."""
        found, solved = self._nearest_of_others(actions, np.rint(actions))
        others = np.flatnonzero(~solved)
        if others.size:
            rest, near = self.take(others), actions[others]
            nearest = rest._nearest_by_highs(near, self.integer)
            polished, better = rest._nearest_of_others(near, np.rint(nearest))
            found[others] = np.where(better[:, None], polished, nearest)
        return found

    def _nearest_of_others(self, actions: Floats, whole: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return actions with given whole numbers whose other coordinates are nearest, and which are in the set."""
        lower, upper = (np.array(np.broadcast_to(side, actions.shape)) for side in self._every_bound())
        fixed = np.where(self.integer, np.clip(whole, lower, upper), 0.0)
        if self.integer.all():
            return fixed, self.violation(fixed) <= ACCEPTED * self.extent
        for side in (lower, upper):
            side[:, self.integer] = fixed[:, self.integer]
        found, solved = self._nearest(actions, lower, upper)
        return found, solved & (self.violation(found) <= ACCEPTED * self.extent)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        parts = np.where(self.integer, action, 0.0)
        return [*super()._broken(action, slack), *name_fractions(parts, slack)]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {**super().spec(), "integer": self.integer.copy(), "node_limit": self.node_limit}


def _solve_cost(solver: Any, cost: Floats) -> str | None:
    """Solve for one cost, with nothing left of the row before; return the status if that is not optimal."""
    solver.clearSolver()
    set_cost(solver, cost)
    solver.run()
    status = solver.getModelStatus()
    return None if is_optimal(status) else str(status.name)


def _found_action(solver: Any) -> Floats:
    return np.array(solver.getSolution().col_value, dtype=np.float64)


def _explain_failure(failure: str) -> str:
    if failure == "kSolutionLimit":
        return (
            "its best action was not found and proven within the limit of nodes. The likely cause is coefficients that "
            "nearly are a function of the constraints, so that very many actions are nearly as good. Allow more nodes, "
            "or let such rows take a given action by on_failure='fallback'."
        )
    happened = "its whole numbers had to be rounded, and that moved it outside the constraints"
    if failure != "kRounded":
        happened = f"HiGHS ended with status {failure}"
    return (
        f"{happened}. The likely cause is a set of constraints with nearly parallel rows, or with coefficients that "
        "differ by many orders of magnitude; rescale or simplify them."
    )


def _as_mask(integer: Any, dimension: int) -> npt.NDArray[np.bool_]:
    if isinstance(integer, bool | np.bool_):
        return np.full(dimension, bool(integer))
    given = np.asarray(integer)
    if given.dtype == np.bool_ and given.shape == (dimension,):
        return given.copy()
    mask = np.zeros(dimension, dtype=np.bool_)
    if given.size == 0 and given.ndim == 1:
        return mask
    indices: Indices = given if given.dtype.kind in "iu" and given.ndim == 1 else np.array([dimension])
    if indices.min() < -dimension or indices.max() >= dimension:
        raise InputError(
            f"integer must be True, a boolean mask of {dimension} entries, or a list of column numbers below "
            f"{dimension}; got {integer!r}."
        )
    mask[indices] = True
    return mask
