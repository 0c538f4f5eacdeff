"""Risk budgets whose limit and caps are functions of parameters of a cvxpy problem that come from the row."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._row_parameters import RowParameter
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.cvxpy_checks import values_restored
from optensemble.feasible._solvers.cvxpy_form import Form, read_problem, recognise
from optensemble.feasible._solvers.row_sources import as_argument
from optensemble.feasible.risk_budget import RiskBudget

_MOST_PARAMETERS = 200
"""The problem is read once for each number of the row: with more of them that would take too long."""

_SAME = 1e-12
"""Differences, relative to the numbers, that are rounding."""


class _Read(NamedTuple):
    """What a risk budget takes from a problem at some values of its parameters."""

    form: Form
    shared: Floats
    limit: float
    upper: Floats


class BudgetRows:
    """Rows of a :class:`RiskBudget` whose limit, or its root, and caps are affine functions of the row's parameters."""

    direct = True

    def __init__(
        self, omega: RiskBudget, limit: Affine, root: bool, upper: Affine, parameters: Sequence[RowParameter]
    ) -> None:
        self.dimension, self.limit, self.root, self.upper = omega.dimension, limit, root, upper
        arguments = {**(omega.spec() or {})}
        plain = None if root and limit.varies else limit
        arguments["limit"] = as_argument(parameters, plain, self.numbers, "limit") if limit.varies else omega.limit
        arguments["upper"] = as_argument(parameters, upper, self.numbers, "upper")
        if isinstance(arguments["limit"], list):
            (arguments["limit"],) = arguments["limit"]
        self.inner: FeasibleSet = RiskBudget(**arguments)

    @classmethod
    def of(cls, problem: Any, variable: Any, given: dict[Any, RowParameter]) -> BudgetRows | None:
        """Return the rows, or None if the problem is of another kind."""
        width = sum(each.size for each in given.values())
        if width > _MOST_PARAMETERS:
            return None
        base = _read(problem, variable, given, np.ones(width))
        omega = None if base is None else _roomy(base.form, variable.size)
        if base is None or omega is None:
            return None
        # Small and large numbers too: of two bounds, the one that does not hold at first does there.
        others = np.random.default_rng(0).uniform(0.8, 1.3, (3, width)) * np.array([[1e-3], [1.0], [1e3]])
        values, terms = np.concatenate([np.ones(width) + np.eye(width), others]), list[_Read]()
        for trial in values:
            found = _read(problem, variable, given, trial)
            if found is None or not np.array_equal(found.shared, base.shared):
                return None
            terms.append(found)
        upper = _affine(base.upper, np.array([each.upper for each in terms]), values)
        for root in (False, True):
            limits = np.array([[each.limit] for each in terms]) ** (0.5 if root else 1.0)
            limit = _affine(np.array([base.limit]) ** (0.5 if root else 1.0), limits, values)
            if limit is not None and upper is not None:
                return cls(omega, limit, root, upper, tuple(given.values()))
        return None

    def numbers(self, name: str, values: Floats) -> Floats:
        """Return the limit or the caps of each row."""
        if name == "upper":
            return self.upper.at(values)
        limit = self.limit.at(values)
        return np.where(limit > 0.0, limit**2, np.minimum(limit, -0.0)) if self.root else limit

    def bound(self, values: Floats) -> FeasibleSet:
        """Return the inner set for rows with these parameters."""
        if not self.inner.parameters:
            return self.inner
        parts = [self.numbers(parameter.name, values) for parameter in self.inner.parameters]
        return self.inner.bind(np.concatenate(parts, axis=1))

    @property
    def box_varies(self) -> bool:
        """Whether bounds of the action differ between rows."""
        return self.inner.open_bounds

    def box(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of actions, for each row if they differ between them."""
        if not self.box_varies:
            return self.inner.lower, self.inner.upper
        upper = self.numbers("upper", values)
        return np.zeros_like(upper), upper

    def empty_rows(self, values: Floats) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
        """Go through rows that the inner set has no portfolio for, and say why."""
        for fault in self.bound(values)._faults():
            yield fault.rows, fault.rule

    def argmax(self, coefficients: Floats, values: Floats) -> Floats:
        """Return the action of each row, or raise ``Unsolved``."""
        return self.bound(values)._solve_batch(coefficients, None)

    def cost(self, actions: Floats, values: Floats) -> Floats:
        """Return 0: such a set has no cost."""
        return np.zeros(len(actions))

    def of_row(self, values: Floats) -> BudgetRows:
        """Return the same for one row of parameters, as a fixed set."""
        fixed = copy.copy(self)
        fixed.inner = self.bound(values).of_row(0)
        return fixed


def _read(problem: Any, variable: Any, given: dict[Any, RowParameter], values: Floats) -> _Read | None:
    """Read the problem with parameters of the row at some values; None if it is no risk budget."""
    with values_restored(list(given)):
        start = 0
        for parameter in given:
            parameter.save_value(values[start : start + parameter.size].reshape(parameter.shape))
            start += parameter.size
        form = read_problem(problem, variable)
    if form.other or form.whole.any() or len(form.quadratic) != 1 or len(form.lower) > variable.size:
        return None
    covariance, limit = form.quadratic[0]
    parts = [covariance, form.lower, *(part for side in (form.ub, form.eq) for rows in side for part in _dense(rows))]
    upper = np.where(np.isfinite(form.upper), form.upper, 1.0)
    return _Read(form, np.concatenate([part.ravel() for part in parts]), limit, upper)


def _dense(rows: tuple[Any, Floats]) -> tuple[Floats, Floats]:
    return rows[0].toarray(), rows[1]


def _roomy(form: Form, dimension: int) -> RiskBudget | None:
    """Return the risk budget of a form with a limit that every portfolio keeps: the rows' own may be any."""
    covariance, _ = form.quadratic[0]
    form.quadratic[0] = covariance, float(np.abs(covariance).sum()) + 1.0
    form.upper = np.ones(dimension)
    found = recognise(form, dimension)
    return found if isinstance(found, RiskBudget) else None


def _affine(base: Floats, found: Floats, values: Floats) -> Affine | None:
    """Return numbers as an affine function of parameters, known at ones and one step from there; None if it is none."""
    width = values.shape[1]
    slopes = found[:width] - base
    slopes[np.abs(slopes) <= _SAME * np.abs(base)] = 0.0
    slopes = np.where(np.abs(slopes - np.rint(slopes)) <= 1e-9, np.rint(slopes), slopes)
    constant = base - slopes.sum(axis=0)
    constant = np.where(np.abs(constant) <= 1e-9 * np.abs(base), 0.0, constant)
    result = Affine.of(np.column_stack([constant, slopes.T]))
    if not np.allclose(result.at(values), found, rtol=1e-9, atol=1e-12):
        return None
    return result
