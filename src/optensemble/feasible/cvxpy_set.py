"""Feasible sets of cvxpy problems."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._binding import name_broken_bounds
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._solvers.budget_rows import BudgetRows
from optensemble.feasible._solvers.conic import ConicProgram
from optensemble.feasible._solvers.conic_rows import ConicRows
from optensemble.feasible._solvers.cost_rows import CostRows
from optensemble.feasible._solvers.cvxpy_checks import Watched, is_plain, require_form
from optensemble.feasible._solvers.cvxpy_form import clarabel_form, read_problem, recognise
from optensemble.feasible._solvers.cvxpy_program import Program, read_program, sign_of
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.lifted_rows import LiftedRows
from optensemble.feasible._solvers.lifting import lift
from optensemble.feasible._solvers.row_sources import as_row_parameters, require_used


@final
class CvxpySet(FeasibleSet):
    """The feasible set of a convex cvxpy problem whose objective is ``parameter @ variable``, less a known cost.

    ``variable`` may be any linear expression of variables, such as ``discharge - charge``: the action is its value, and
    the objective multiplies it by the parameter. One of two dimensions is laid out row by row, as NumPy does (cvxpy's
    own ``vec`` goes by columns). The problem is read once; a parameter that changes later is an error. What it
    describes decides how rows are solved:

    - linear constraints on a variable alone make a :class:`Polytope`;
    - with one more constraint ``quad_form(a, C) <= limit``, ``sum_squares(F.T @ a) <= limit`` or
      ``norm(F.T @ a) <= s`` beside ``sum(a) == 1`` and ``a >= 0``, a :class:`RiskBudget`;
    - linear constraints on other variables too, and piecewise linear ones and costs (``norm1``, ``abs``, ``max``), a
      :class:`Polytope` of more coordinates, of which the first are the action. Its rule for ties decides. Variables
      without bounds are eliminated, or bounded where costs do that; where neither can be, the problem is conic;
    - the same with whole numbers a :class:`MixedInteger`;
    - linear constraints on the action alone, with a cost of the action alone that is linear, quadratic, or of moving
      away from what is held, ``norm1(a - held)``, a :class:`WithCost`, up to a constant;
    - anything else is "conic": brought to standard form once, and solved for each row by Clarabel at a tolerance of
      1e-12, or 1e-10 or 1e-9 where rounding does not let it get there. A gap of 1e-12 moves the action by about 1e-6
      where the set is curved. Rows that do not get within 1e-9 have failed. Coefficients are rounded to 40 bits below
      the largest of their row first, and tied rows get a point inside the face of the best actions, which depends on
      the set and the row alone.

    A set maximises. With ``cp.Maximize(parameter @ variable - cost)`` the parameter stands for the coefficients; with
    ``cp.Minimize(parameter @ variable + cost)`` for costs, and the set maximises the coefficients all the same, by
    taking their negative as costs. Terms without the parameter are a known cost in either case: what they take from
    the payoff is subtracted in :meth:`value`. If they depend on other variables, :meth:`cost` is the least that an
    action can have.

    A cvxpy problem is code, which cannot be saved; a recognised set can: give ``inner`` to the ensemble instead.

    Parameters
    ----------
    problem
        A ``cvxpy.Problem``. It may have other variables, and other parameters, whose present values are taken.
    variable
        The action: a ``cvxpy.Variable``, or a linear expression of variables.
    parameter
        The coefficients: a ``cvxpy.Parameter`` of the same shape, in the objective alone.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.
    rows
        Parameters that differ between rows, as a dict of a ``cvxpy.Parameter`` and where its numbers come from: the
        name of a column, a pattern, a list of names, ``oe.Columns``, a function of X, or a list that mixes columns and
        numbers. One of two dimensions is filled row by row. Where such parameters are in right-hand sides, bounds and
        linear costs alone, rows are solved by a set whose arguments come from the row; otherwise by Clarabel, and then
        linear constraints must tell bounds of the action.

    Attributes
    ----------
    inner
        The recognised set that solves the rows, or None where Clarabel does. If there are other variables, its first
        coordinates are the action. It can be saved if what comes from the row is columns as they are.

    Examples
    --------
    >>> import cvxpy as cp
    >>> a, c = cp.Variable(3), cp.Parameter(3)
    >>> omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1, a >= 0]), a, c)
    >>> omega.recognised
    'conic'
    >>> omega.argmax([[3.0, 4.0, -1.0]]).round(6)
    array([[0.6, 0.8, 0. ]])

    A battery with a loss, and a cost of wear:

    >>> charge, discharge = cp.Variable(3, nonneg=True), cp.Variable(3, nonneg=True)
    >>> stored, price = cp.cumsum(0.9 * charge - discharge), cp.Parameter(3)
    >>> earned = price @ (discharge - charge) - 0.1 * cp.sum(charge + discharge)
    >>> limits = [stored >= 0, stored <= 2, charge <= 1, discharge <= 1]
    >>> battery = CvxpySet(cp.Problem(cp.Maximize(earned), limits), discharge - charge, price)
    >>> battery.recognised
    'Polytope'
    >>> actions = battery.argmax([[1.0, 2.0, 3.0]])
    >>> actions
    array([[-1. , -0.1111..., 1. ]])
    >>> battery.cost(actions)
    array([0.2111...])
    """

    inner: FeasibleSet | None
    _way: LiftedRows | BudgetRows | ConicRows | None = None
    """How rows are solved that no set of the same dimension solves."""
    _at: Floats = np.zeros((1, 0))
    """The parameters of the row that this is the set of."""

    def __init__(
        self,
        problem: Any,
        variable: Any,
        parameter: Any,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
        rows: Mapping[Any, Any] | None = None,
    ) -> None:
        given = as_row_parameters(rows, parameter)
        open_ones = list(given)
        checked = require_form(problem, variable, parameter, open_ones)
        require_used(problem, open_ones)
        self.has_cost = checked.has_cost
        known = {parameter.id, *(each.id for each in open_ones)}
        self._watched = Watched([each for each in problem.parameters() if each.id not in known])
        problem, variable, _ = checked
        self.parameters = tuple(given.values())
        self._signs = {row.name: sign_of(each) for each, row in given.items()}
        self.dimension = int(variable.size)
        self.inner = None
        if not self.has_cost and is_plain(variable):
            if given:
                self._way = BudgetRows.of(problem, variable, given)
            else:
                self._read_plain(problem, variable, parameter)
        if self.inner is None and self._way is None:
            program = read_program(problem, variable, parameter, open_ones)
            lifted = lift(program)
            self._way = (
                CostRows.of_cost(lifted, self.parameters)
                or self._as_lifted(program, lifted)
                or ConicRows(program, lifted)
            )
        self._adopt(on_failure, fallback)

    def _read_plain(self, problem: Any, variable: Any, parameter: Any) -> None:
        """Recognise a set of the variable alone; otherwise a polytope with more coordinates; otherwise a cone."""
        form = read_problem(problem, variable)
        self.inner = recognise(form, self.dimension)
        if self.inner is None:
            program = read_program(problem, variable, parameter)
            self._way = self._as_lifted(program, lift(program))
        if self.inner is None and self._way is None:
            conic = ConicProgram(*clarabel_form(problem, variable), self.dimension)
            self._way = ConicRows.plain(conic, form.lower[: self.dimension], form.upper[: self.dimension])

    def _as_lifted(self, program: Program, lifted: Lifted | None) -> LiftedRows | None:
        if not program.whole.any():
            return LiftedRows.of(lifted, self.parameters)
        if lifted is None or not lifted.complete or lifted.P.any():
            raise InputError(
                "the problem has whole numbers, and constraints or costs that are not linear, or coordinates without "
                "bounds. Make all of them linear and bounded, or bring your own solver as feasible.Oracle."
            )
        return LiftedRows(lifted, self.parameters)

    def _adopt(self, on_failure: str, fallback: npt.ArrayLike | None) -> None:
        """Take bounds and kernel from what solves the rows."""
        if self._way is not None:
            self.inner = self._way.inner
            self._at = np.zeros((1, sum(each.size for each in self.parameters)))
            if not self._way.box_varies:
                self._set_bounds(*self._way.box(self._at), self.dimension)
        elif self.inner is not None:
            self._set_bounds(self.inner.lower, self.inner.upper, self.dimension)
        if self.inner is not None and self.inner.dimension == self.dimension:
            self.kernel = self.inner.kernel
            self.inner._set_failure(on_failure, fallback)
        self._set_failure(on_failure, fallback)

    @property
    def recognised(self) -> str:
        """The kind of set that was recognised, such as "Polytope" or "WithCost", or "conic" for Clarabel."""
        return "conic" if self.inner is None else type(self.inner).__name__

    @property
    def convex(self) -> bool:
        """Whether every mixture of actions is one: unless variables are whole numbers, the action's or others."""
        return self.inner is None or self.inner.convex

    def argmax(self, C: npt.ArrayLike, hint: npt.ArrayLike | None = None) -> Floats:
        """Return the action that maximises ``c·a``, less the cost, for every row ``c`` of ``C``."""
        self._watched.require_unchanged()
        if self._way is None and self.inner is not None:
            return self.inner.argmax(C, hint)
        return super().argmax(C, hint)

    def _solve_batch(self, coefficients: Floats, hint: Floats | None) -> Floats:
        assert self._way is not None
        return self._way.argmax(coefficients, self._parameters_of(len(coefficients)))

    def _parameters_of(self, n: int) -> Floats:
        return np.repeat(self._at, n, axis=0) if self._values is None else self._values

    def _pack(self) -> Floats:
        assert isinstance(self._way, LiftedRows | BudgetRows)
        return self._way.bound(self.values)._pack()

    def _diagnosis(self, status: int) -> str:
        return super()._diagnosis(status) if self.inner is None else self.inner._diagnosis(status)

    def of_row(self, row: int) -> FeasibleSet:
        """Return the set of one of the rows that this one is bound to, as a set of its own for all rows."""
        if self._values is None or self._way is None:
            return self
        fixed = copy.copy(self)
        fixed._at, fixed._values, fixed._faulty, fixed.parameters = self._values[row : row + 1], None, None, ()
        fixed._way = self._way.of_row(fixed._at)
        fixed.inner = fixed._way.inner
        fixed.kernel = fixed.inner.kernel if fixed.inner is not None and self.kernel is not None else None
        fixed.lower, fixed.upper = (np.atleast_2d(side)[0] for side in fixed._way.box(fixed._at))
        return fixed

    def _faults(self) -> Iterator[Fault]:
        for parameter in self.parameters:
            found = self._of_rows(parameter.name)
            if not np.isfinite(found).all():
                yield Fault(parameter.name, ~np.isfinite(found), "must be a finite number")
            if (wrong := found * self._signs[parameter.name] < 0.0).any():
                yield Fault(parameter.name, wrong, f"must not be {'negative' if found[wrong][0] < 0.0 else 'positive'}")
        if self.parameters and isinstance(self._way, LiftedRows | BudgetRows):
            for where, rule in self._way.empty_rows(self.values):
                yield Fault(self.parameters[0].name, where, rule)

    def _bounds_vary(self) -> bool:
        return self._way is not None and self._way.box_varies and bool(self.parameters)

    def _row_box(self) -> tuple[Floats, Floats]:
        if self._way is None or self._values is None or not self._bounds_vary():
            return self.lower, self.upper
        return self._way.box(self._values)

    def cost(self, actions: Floats) -> Floats:
        """Return the known cost of each action in its row: the least that the other variables allow."""
        if not self.has_cost or self._way is None:
            return np.zeros(len(actions))
        costs, sound = np.zeros(len(actions)), ~self.faulty if self._values is not None else slice(None)
        costs[sound] = self._way.cost(np.asarray(actions)[sound], self._parameters_of(len(actions))[sound])
        return costs

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action, where a recognised set of the same dimension knows them."""
        if isinstance(self._way, LiftedRows | BudgetRows) and self._way.direct:
            return self._way.bound(self._parameters_of(1)).binding(action)
        return self.inner.binding(action) if self._way is None and self.inner is not None else []

    def _project(self, actions: Floats) -> Floats:
        """Return what a recognised set of the same dimension does; otherwise what HiGHS or Clarabel finds."""
        if (recognised := self._recognised_for(len(actions))) is not None:
            return recognised._project(actions)
        assert isinstance(self._way, LiftedRows | ConicRows)
        return np.clip(self._way.nearest(actions, self._parameters_of(len(actions))), *self._row_box())

    def _broken(self, action: Floats, slack: float) -> list[str]:
        recognised = self._recognised_for(1)
        return name_broken_bounds(self, action, slack) if recognised is None else recognised._broken(action, slack)

    def _recognised_for(self, n: int) -> FeasibleSet | None:
        """Return the recognised set of the same dimension, bound to as many rows; None if there is none."""
        if isinstance(self._way, LiftedRows | BudgetRows) and self._way.direct:
            return self._way.bound(self._parameters_of(n))
        return self.inner if self._way is None else None

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return the distance of each row from the set.

        A recognised set of the same dimension measures it in its own way. Otherwise it is the distance, in its largest
        coordinate, to the nearest action of the set, by HiGHS or Clarabel; or to the bounds, if they are further away
        than they are apart.
        """
        if self._way is None and self.inner is not None:
            return self.inner.violation(actions)
        values = self._parameters_of(len(actions))
        if isinstance(self._way, LiftedRows | BudgetRows) and self._way.direct:
            return self._way.bound(values).violation(actions)
        assert isinstance(self._way, LiftedRows | ConicRows)
        excess = self._outside_box(actions)
        near = excess <= self.extent  # solvers fail on numbers that are too large
        excess[near] = np.maximum(excess[near], self._way.distance(actions[near], values[near]))
        return excess

    def spec(self) -> None:
        """Return None: a cvxpy problem is code, which cannot be saved. Save ``inner``, if there is one."""
