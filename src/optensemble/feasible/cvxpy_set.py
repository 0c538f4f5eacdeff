"""Feasible sets of cvxpy problems."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, Unsolved, checks_actions
from optensemble.feasible._solvers.conic import ConicProgram, explain_clarabel
from optensemble.feasible._solvers.cvxpy_form import clarabel_form, read_problem, recognise, require_form
from optensemble.feasible._solvers.scale import rounded
from optensemble.feasible.mixed_integer import MixedInteger


@final
class CvxpySet(FeasibleSet):
    """The feasible set of a convex cvxpy problem whose objective is ``parameter @ variable``.

    The problem is read once; later changes to it are not seen. What it describes decides how rows are solved:

    - linear constraints on the variable alone make a :class:`Polytope`;
    - with one more constraint ``quad_form(a, C) <= limit``, ``sum_squares(F.T @ a) <= limit`` or
      ``norm(F.T @ a) <= s`` beside ``sum(a) == 1`` and ``a >= 0``, a :class:`RiskBudget`;
    - linear constraints with whole numbers, in other variables too, a :class:`MixedInteger`;
    - anything else is "conic": brought to standard form once, and solved for each row by Clarabel at a tolerance of
      1e-12, or 1e-10 or 1e-9 where rounding does not let it get there. A gap of 1e-12 moves the action by about 1e-6
      where the set is curved. Rows that do not get within 1e-9 have failed. Coefficients are rounded to 40 bits below
      the largest of their row first, and tied rows get a point inside the face of the best actions, which depends on
      the set and the row alone.

    A set maximises. With ``cp.Maximize(parameter @ variable)`` the parameter stands for the coefficients; with
    ``cp.Minimize(parameter @ variable)`` for costs, and the set maximises the coefficients all the same, by taking
    their negative as costs.

    A cvxpy problem is code, which cannot be saved; a recognised set can: give ``inner`` to the ensemble instead.

    Parameters
    ----------
    problem
        A ``cvxpy.Problem``. It may have other variables, and other parameters, whose present values are taken.
    variable
        The action: a ``cvxpy.Variable`` of one dimension.
    parameter
        The coefficients: a ``cvxpy.Parameter`` of the same shape, in the objective alone.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    inner
        The recognised set that solves the rows, or None where Clarabel does. If whole numbers come with other
        variables, its first coordinates are the action.

    Examples
    --------
    >>> import cvxpy as cp
    >>> a, c = cp.Variable(3), cp.Parameter(3)
    >>> omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1, a >= 0]), a, c)
    >>> omega.recognised
    'conic'
    >>> omega.argmax([[3.0, 4.0, -1.0]]).round(6)
    array([[0.6, 0.8, 0. ]])
    """

    inner: FeasibleSet | None

    def __init__(
        self,
        problem: Any,
        variable: Any,
        parameter: Any,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        require_form(problem, variable, parameter)
        form = read_problem(problem, variable)
        self.inner = recognise(form, variable.size)
        self._lifted = self.inner is not None and self.inner.dimension > variable.size
        if self.inner is not None:
            self.kernel = None if self._lifted else self.inner.kernel
            self._set_bounds(self.inner.lower[: variable.size], self.inner.upper[: variable.size], variable.size)
        elif form.whole.any():
            raise InputError(
                "the problem has whole numbers, and constraints that are not linear. Make all constraints linear, or "
                "bring your own solver as feasible.Oracle."
            )
        else:
            self._program = ConicProgram(*clarabel_form(problem, variable), variable.size)
            lower, upper = form.lower[: variable.size], form.upper[: variable.size]
            self._set_bounds(*self._program.tighten(lower, upper), variable.size)
        if self.inner is not None and not self._lifted:
            self.inner._set_failure(on_failure, fallback)
        self._set_failure(on_failure, fallback)

    @property
    def recognised(self) -> str:
        """The kind of set that was recognised: "Polytope", "RiskBudget", "MixedInteger", or "conic" for Clarabel."""
        return "conic" if self.inner is None else type(self.inner).__name__

    def argmax(self, C: npt.ArrayLike, hint: npt.ArrayLike | None = None) -> Floats:
        """Return the action that maximises ``c·a`` for every row ``c`` of ``C``; see :meth:`FeasibleSet.argmax`."""
        if self.inner is None or self._lifted:
            return super().argmax(C, hint)
        return self.inner.argmax(C, hint)

    def _argmax(self, coefficients: Floats) -> Floats:
        if self.inner is None:
            return self._by_clarabel(coefficients)
        others = self.inner.dimension - self.dimension
        try:
            return self.inner._argmax(np.pad(coefficients, ((0, 0), (0, others))))[:, : self.dimension]
        except Unsolved as unsolved:
            raise Unsolved(unsolved.actions[:, : self.dimension], unsolved.reasons) from unsolved

    def _by_clarabel(self, coefficients: Floats) -> Floats:
        actions, failures = self._program.argmax(rounded(coefficients))
        actions = np.clip(actions, self.lower, self.upper) + 0.0
        if failures:
            raise Unsolved(actions, {row: explain_clarabel(status) for row, status in failures.items()})
        return actions

    def _diagnosis(self, status: int) -> str:
        return super()._diagnosis(status) if self.inner is None else self.inner._diagnosis(status)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return the distance of each row from the set.

        A recognised set measures it in its own way. Otherwise it is the distance, in its largest coordinate, to the
        nearest action of the set, by Clarabel; or to the bounds, if they are further away than they are apart. Where
        whole numbers come with other variables, only the bounds and the whole numbers of the action are looked at.
        """
        if self.inner is None:
            excess = self._outside_box(actions)
            near = excess <= self.extent  # Clarabel fails on numbers that are too large
            excess[near] = np.maximum(excess[near], self._program.distance(actions[near]))
            return excess
        if not self._lifted:
            return self.inner.violation(actions)
        assert isinstance(self.inner, MixedInteger)
        parts = np.abs(actions - np.rint(actions))[:, self.inner.integer[: self.dimension]]
        return np.asarray(np.maximum(self._outside_box(actions), parts.max(axis=1, initial=0.0)))

    def spec(self) -> None:
        """Return None: a cvxpy problem is code, which cannot be saved. Save ``inner``, if there is one."""
