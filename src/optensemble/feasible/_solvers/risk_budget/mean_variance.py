"""The best portfolio at a given price of variance: ``max c'a - gamma a'Qa``, by the active sets of risk budgets.

The critical line of a risk budget is the best portfolio as a function of the price of variance; here the price is
given, and the portfolio is the point of the line at ``t = 1 / (2 gamma)``. The ways are the same: the active set of the
hint, the one held where the straight line from the least variance comes to t, or the one where the largest coefficients
are filled up, with wrong places exchanged until it is proven; else the line up from the least variance, or down from
the largest coefficients. The action is computed from the active set alone. Rows that are left are solved by Clarabel,
and polished.

How to call it::

    solver = MeanVariance(Q, simplex_rows(d))      # or collect_rows((A_ub, b_ub), (A_eq, b_eq), upper) of ``rows``
    actions = solver.argmax(coefficients, gamma)   # gamma: a number, or one for each row; not negative

``argmax`` raises ``Unsolved`` as a set's ``_argmax`` does. ``solver.kernel`` is the kernel on its own: it takes gamma
as ``own``, of shape (n, 1), and leaves rows of a status other than 0 to ``solver.by_solver(coefficients, gamma)``.

Ties: where gamma is 0, or so small that ``t`` is infinite, the largest coefficients are filled up in the order of their
indices (with sectors: as HiGHS decides, from a fixed basis). Otherwise only a singular Q leaves ties. Among tied
coordinates that are free the least variance decides; where that is not unique either, the order in which the line
exchanges coordinates, which depends on the row alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, make_kernel
from optensemble.feasible._batches import Unsolved, run_kernel, try_again
from optensemble.feasible._solvers.highs import LinearModel, LinearProgram
from optensemble.feasible._solvers.risk_budget.active_set import CERTAIN, LOOSE, NEAR, PROVEN, Problem, repair_at
from optensemble.feasible._solvers.risk_budget.cone import (
    WAYS,
    PortfolioRows,
    least_variance,
    linear_constraints,
    portfolio_solver,
    share_out,
)
from optensemble.feasible._solvers.risk_budget.critical_line import Line, follow_line, start_at_centre, start_at_top
from optensemble.feasible._solvers.risk_budget.portfolio import (
    HELD,
    Start,
    find_direction,
    hold_at,
    new_portfolio_work,
    pack_portfolio,
    polishing,
    read_hint,
    read_scaled,
    scale_to,
    unpack_portfolio,
    write_portfolio,
)
from optensemble.feasible._solvers.scale import normalised

_GUESSES = 12
"""Exchanges to try before the line is followed."""

_GAP = 1e-8
"""An approximate action must be known to be within this much, of the spread of the coefficients, of the optimum."""

_UNSOLVED = (
    "Clarabel ended with status {}, with an action that may be {:.1e} of the spread of the coefficients below the "
    "optimum. The likely cause is a matrix whose entries differ by many orders of magnitude; rescale it."
)


def simplex_rows(dimension: int) -> PortfolioRows:
    """Return the constraints of the simplex: weights between 0 and 1 that sum to 1."""
    return PortfolioRows(np.ones((1, dimension)), np.ones(1), 1, np.ones(dimension))


class MeanVariance:
    """Maximise ``c'a - gamma a'Qa`` over portfolios: weights that sum to 1, with caps and sectors.

    Parameters
    ----------
    matrix
        Q: symmetric and positive semidefinite, of shape (dimension, dimension); it may be singular.
    rows
        The constraints, as :func:`simplex_rows` or ``collect_rows`` return them.
    """

    def __init__(self, matrix: Floats, rows: PortfolioRows) -> None:
        self.matrix, self.rows = matrix, rows
        self.centre, _ = least_variance(matrix, rows)
        packed = pack_portfolio(matrix, self.centre, rows)
        self.kernel: Kernel = make_kernel(best_trade_offs, packed.floats, packed.ints, packed.rows_at_once)

    def argmax(self, coefficients: Floats, gamma: npt.ArrayLike, hint: Floats | None = None) -> Floats:
        """Return the best action of each row, for one gamma or one for each row, none of them negative.

        A row's action depends on its coefficients and its gamma alone, whatever the hint. Rows that cannot be solved
        are named by ``Unsolved``.
        """
        own = np.broadcast_to(np.asarray(gamma, dtype=np.float64), (len(coefficients),)).reshape(-1, 1).copy()
        actions, status = run_kernel(self.kernel, coefficients, hint, own.__getitem__)
        failed = np.flatnonzero(status)
        if failed.size:
            try_again(lambda C: self.by_solver(C, own[failed, 0]), coefficients, actions, failed)
        return actions

    def by_solver(self, coefficients: Floats, gamma: Floats) -> Floats:
        """Solve rows that the kernel gave up: by Clarabel, or by HiGHS where gamma is 0."""
        actions, reasons = np.empty_like(coefficients), dict[int, str]()
        scaled = normalised(coefficients)
        scaled -= scaled.max(axis=1, keepdims=True)
        for i, price in enumerate(gamma):
            spread = float(coefficients[i].max() - coefficients[i].min()) or 1.0
            size = float(-scaled[i].min()) or 1.0
            weight = price / spread
            if price == 0.0 or not weight > 0.0:
                found, why = self._linear.try_argmax(scaled[i : i + 1] / size)
                actions[i], reason = share_out(found, self.rows.upper)[0], why.get(0, "")
            else:
                actions[i], reason = self._by_cone(scaled[i] / size, weight)
            if reason:
                reasons[i] = reason
        self._polish(coefficients, gamma, actions, reasons)
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _by_cone(self, c: Floats, weight: float) -> tuple[Floats, str]:
        """Return the best action that Clarabel finds with any of its settings, and why it is not good enough."""
        best, least, status = self.centre, np.inf, ""
        matrix, right, cones = linear_constraints(self.rows)
        for way in WAYS:
            solution = portfolio_solver(2.0 * weight * self.matrix, -c, matrix, right, cones, way).solve()
            found, y = np.array(solution.x), np.array(solution.z)[: len(self.rows.b)]
            if not np.isfinite(found).all():
                continue
            action = share_out(found[None], self.rows.upper)[0]
            gap = self._gap(c - 2.0 * weight * (self.matrix * action).sum(axis=1), action, y)
            if gap < least:
                best, least, status = action, gap, str(solution.status)
            if least <= NEAR:
                break
        return best, "" if least <= _GAP else _UNSOLVED.format(status, least)

    def _gap(self, slope: Floats, action: Floats, y: Floats) -> float:
        """Return a bound on what any action gains on this one, from the slope there and prices of the constraints."""
        A, b, equal, upper = self.rows
        y[equal:] = np.maximum(y[equal:], 0.0)
        left = np.maximum(slope - (A * y[:, None]).sum(axis=0), 0.0)
        return float((y * b).sum() + (left * np.minimum(upper, 1.0)).sum() - (slope * action).sum())

    def _polish(self, coefficients: Floats, gamma: Floats, actions: Floats, reasons: dict[int, str]) -> None:
        """Take the kernel's action where it can prove an active set near an approximate action."""
        rows, own = np.arange(len(actions)), gamma.reshape(-1, 1)
        for held in HELD:
            kernel = polishing(self.kernel, held)
            exact, status = run_kernel(kernel, coefficients[rows], actions[rows], own[rows].__getitem__)
            for k in np.flatnonzero(status == 0):
                actions[rows[k]] = exact[k]
                reasons.pop(int(rows[k]), None)
            rows = rows[status > 0]

    @cached_property
    def _linear(self) -> LinearProgram:
        A, b, equal, upper = self.rows
        low = np.concatenate([b[:equal], np.full(len(b) - equal, -np.inf)])
        return LinearProgram(LinearModel(sparse.csr_array(A), low, b, np.zeros(len(upper)), np.minimum(upper, 1.0)))


@njit(cache=True, nogil=True, error_model="numpy")
def best_trade_offs(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row by the active set of its hint, by a guess, or by the line up or down to its price of variance."""
    n, d = C.shape
    model, base, start, H, nudged = unpack_portfolio(d, floats, ints)
    rho, variance = scale_to(model.unit, model, base, start, H, nudged)
    start = Start(base.state, base.places, start.inverse, start.x, start.w, variance)
    N, m, n0, plain = len(H), len(model.b), len(base.places), model.plain
    problem = Problem(d, model.equal, rho, H, model.b, model.upper)
    path = Problem(d, model.equal, rho, nudged, model.b, model.upper)
    work = new_portfolio_work(d, N)
    line = Line(np.empty((N + 1, N + 1)), np.empty(N + 1), np.empty(N + 1), np.empty(N), np.arange(N + 1))
    c, ordered = np.empty(d), np.empty(d)
    for i in range(n):
        gamma = own[i, 0] if own.shape[1] else floats[0]
        tie = read_scaled(C[i], c)
        t = price_to_length(C[i], tie, gamma, model.unit)
        if t < 1.0:  # variance counts for more than coefficients, which are measured by it then
            tie *= t
            for j in range(d):
                c[j] *= t
            t = 1.0
        for j in range(d):
            ordered[j] = c[j] - tie * j
        if t == np.inf:
            status[i] = m > 1
            if m == 1:
                start_at_top(ordered, problem, work, line)
                write_portfolio(t, plain, problem, work, actions[i])
            continue
        done = False
        for way in range(5):  # by the hint, straight from the least variance, from the top, up the line, down the line
            if done or (way == 0 and not hinted) or (way in (1, 3) and n0 == 0) or (way in (2, 4) and m > 1):
                continue
            if way == 0:
                read_hint(actions[i], floats[2], problem, work.state)
            elif way == 1:
                find_direction(c, start, problem, work)
                hold_at(t, start, problem, work)
            elif way == 2:
                start_at_top(ordered, problem, work, line)
            else:
                down = way == 4
                size = (
                    start_at_top(ordered, problem, work, line) if down else start_at_centre(c, start, path, work, line)
                )
                follow_line(ordered if down else c, down, t, size, problem if down else path, work, line)
            enough = int(floats[3]) if way == 0 else (PROVEN if way < 3 else LOOSE)
            done = repair_at(t, c, tie, 6 if way > 1 else _GUESSES, enough, problem, work)
            if way == 0 and floats[3] < CERTAIN:
                break
        status[i] = not done
        if done:
            write_portfolio(t, plain, problem, work, actions[i])


@njit(cache=True, nogil=True, error_model="numpy")
def price_to_length(row, tie, gamma, unit):  # type: ignore[no-untyped-def]
    """Return the t of a price of variance, for coefficients with a spread of 1; any will do if they are all tied."""
    largest = lowest = row[0]
    for value in row:
        largest, lowest = max(largest, value), min(lowest, value)
    if gamma == 0.0:
        return np.inf
    return 1.0 if tie == 1.0 else (largest - lowest) / gamma / (2.0 * unit)
