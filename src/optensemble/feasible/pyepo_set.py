"""Feasible sets of PyEPO models."""

from __future__ import annotations

import threading
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble._core.validation import require_choice
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._binding import name_broken_bounds
from optensemble.feasible._bounds import as_dimension
from optensemble.feasible._solvers.scale import rounded

_SENSE_SIGNS = {1: -1.0, -1: 1.0, "MINIMIZE": -1.0, "MAXIMIZE": 1.0}
"""The factor of the coefficients for each of PyEPO's senses."""


@final
class PyEPOSet(FeasibleSet):
    """The feasible set of a PyEPO ``optModel``, or of any object with its four names, solved row by row.

    A set maximises: a model that minimises is given the coefficients with the opposite sign. They are divided by the
    largest of their row, and rounded to 40 bits below it, so that neither the size of a row nor its last digits matter.
    Each action is checked to be finite and within the bounds, and clipped to them; the model's own constraints are not
    known here, hence ``violation`` sees the bounds alone.

    Where the model has other variables than those with predicted costs, its ``c_pred_index`` tells the positions of
    these: the action is the solution there. Fixed costs of the model at these positions are a known cost, which
    :meth:`value` subtracts; the size of coefficients then matters, and they are rounded but not divided. Fixed costs of
    other variables are refused, because a solver alone does not tell what they come to for an action.

    The model is used by one thread at a time. Whether it carries something from one row to the next (many solvers
    start from the last solution, which then chooses among tied actions) is up to the model:
    :func:`optensemble.feasible.check` finds out. A model cannot be saved with an ensemble: give it again on loading.

    OR-Tools, which PyEPO imports where it is installed, and highspy each bring a HiGHS of their own, and a process can
    load only one of them. A set that needs highspy (see :class:`Polytope` and :class:`MixedInteger`) is then a
    ``SolverError``; and where such a set was made before, PyEPO takes OR-Tools for missing.

    Parameters
    ----------
    optmodel
        An object with ``setObj(c)``, ``solve()`` that returns a solution and its objective, ``num_cost``, and
        ``modelSense`` (``EPO.MINIMIZE`` or ``EPO.MAXIMIZE``); and perhaps ``c_pred_index``.
    lower, upper
        A box around the set.
    on_failure, fallback
        What to do with a row for which the model fails: "raise" an error, or take the "fallback" action and warn.
    convex
        Whether every mixture of actions of the model is one, as in a linear programme: mixtures may then be played. It
        is for you to know.

    Examples
    --------
    >>> class Cheapest:  # in place of pyepo.model.opt.optModel
    ...     num_cost, modelSense = 3, 1
    ...
    ...     def setObj(self, c):
    ...         self.best = int(np.argmin(c))
    ...
    ...     def solve(self):
    ...         return np.eye(3)[self.best], None
    >>> PyEPOSet(Cheapest()).argmax([[1.0, 3.0, 2.0]])
    array([[0., 1., 0.]])
    """

    convex = False
    _one_at_a_time = threading.Lock()

    def __init__(
        self,
        optmodel: Any,
        lower: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike = 1.0,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
        *,
        convex: bool = False,
    ) -> None:
        missing = [name for name in ("setObj", "solve", "num_cost", "modelSense") if not hasattr(optmodel, name)]
        if missing or isinstance(optmodel, type):
            found = f"the class {optmodel.__name__}" if isinstance(optmodel, type) else type(optmodel).__name__
            lack = f", which has no {missing[0]}" if missing else ""
            raise InputError(
                "optmodel must be an object with setObj, solve, num_cost and modelSense, as PyEPO's models are; "
                f"got {found}{lack}."
            )
        require_choice(convex, "convex", [True, False])
        self.convex = convex
        self.optmodel = optmodel
        self._sign = _as_sign(optmodel.modelSense)
        self._set_bounds(lower, upper, as_dimension(optmodel.num_cost))
        self._positions = _as_positions(getattr(optmodel, "c_pred_index", None), self.dimension)
        self._unit_costs = self._read_unit_costs()
        self.has_cost = bool(self._unit_costs.any())
        self._set_failure(on_failure, fallback)

    def _argmax(self, coefficients: Floats) -> Floats:
        actions, reasons = np.zeros_like(coefficients), {}
        size = np.abs(coefficients).max(axis=1, keepdims=True) if self.has_cost else 1.0
        for row, cost in enumerate(self._sign * rounded(coefficients) * size + 0.0):
            try:
                with self._one_at_a_time:
                    self.optmodel.setObj(cost)
                    solution = self.optmodel.solve()[0]
                actions[row] = self._as_action(solution)
            except Exception as error:
                reasons[row] = f"the model raised {type(error).__name__}: {error}"
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _as_action(self, solution: Any) -> Floats:
        if hasattr(solution, "detach"):  # a tensor, which may be on another device
            solution = solution.detach().cpu().numpy()
        action = np.array(list(solution.values()) if isinstance(solution, dict) else solution, dtype=np.float64)
        if self._positions is not None and action.ndim == 1:
            if len(action) <= self._positions.max():
                raise InputError(
                    f"the solution must have an entry for every variable, and c_pred_index goes up to "
                    f"{self._positions.max()}; got {len(action)} entries."
                )
            action = action[self._positions]
        if action.shape != (self.dimension,):
            raise InputError(f"the solution must have {self.dimension} entries; got shape {action.shape}.")
        excess = float(self._outside_box(action[None])[0])
        if not excess <= self.tolerance:
            raise InputError(
                f"the solution must be finite and within the bounds; it leaves them by {excess:.3g}. Give the model's "
                "true lower= and upper=."
            )
        return np.clip(action, self.lower, self.upper) + 0.0

    def _read_unit_costs(self) -> Floats:
        """Return the fixed costs of the action's coordinates, as what they take from the payoff."""
        known = np.zeros(self.dimension)
        if self._positions is None or not hasattr(self.optmodel, "_fullCost"):
            return known
        full = self.optmodel._fullCost(known.copy())
        costs = np.array(full.detach().cpu().numpy() if hasattr(full, "detach") else full, dtype=np.float64).ravel()
        others = np.delete(costs, self._positions)
        if others.any():
            raise InputError(
                f"the model has fixed costs of {np.count_nonzero(others)} variables that are not predicted, which are "
                "a cost of the action that its solver does not tell. Write the problem in cvxpy, as CvxpySet, which "
                "knows it; or leave these costs out of the model."
            )
        return -self._sign * costs[self._positions] + 0.0

    def cost(self, actions: Floats) -> Floats:
        """Return the model's fixed cost of each action."""
        return row_dots(np.ascontiguousarray(actions), np.broadcast_to(self._unit_costs, actions.shape).copy())

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its excess over the bounds; the model's constraints are not known here."""
        return self._outside_box(actions)

    def _project(self, actions: Floats) -> Floats:
        """Clip to the bounds: the model's constraints are not known here."""
        return np.clip(actions, self.lower, self.upper)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        return name_broken_bounds(self, action, slack)

    def spec(self) -> None:
        """Return None: a model is code, which cannot be saved."""


def _as_positions(index: Any, dimension: int) -> Indices | None:
    """Return the positions of the predicted variables in a solution; None if all are predicted."""
    if index is None:
        return None
    positions = np.asarray(index.detach().cpu().numpy() if hasattr(index, "detach") else index)
    whole = positions.dtype.kind in "iu" and positions.ndim == 1 and (positions >= 0).all()
    if not whole or len(np.unique(positions)) != dimension or len(positions) != dimension:
        raise InputError(
            f"c_pred_index must have a position for each of the {dimension} predicted costs (num_cost), all distinct; "
            f"got {index!r}."
        )
    return positions.astype(np.int64)


def _as_sign(sense: Any) -> float:
    for value in (sense, getattr(sense, "value", None), getattr(sense, "name", None)):
        key = value.upper() if isinstance(value, str) else value
        if isinstance(key, int | str) and key in _SENSE_SIGNS:
            return _SENSE_SIGNS[key]
    raise InputError(
        f"modelSense must be EPO.MINIMIZE (1) or EPO.MAXIMIZE (-1); got {sense!r}. Set it in the model's _getModel."
    )
