"""Sets of actions that are a part of the coordinates of a polytope, or of a set of whole numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.exceptions import UnboundedSetError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._row_parameters import RowParameter
from optensemble.feasible._solvers.action_cost import ActionCost
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.conic_rows import NO_ACTION
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.projection import Projection, Sides
from optensemble.feasible._solvers.row_sources import as_argument
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.polytope import Polytope

_NOTHING = "no action satisfies"
"""How built-in sets begin to say that a row has no action; they go on about arguments that are not the user's."""


class LiftedRows:
    """A linear programme for each row whose first coordinates are the action, with the known cost of the others.

    ``values`` are the parameters of the rows, of shape (rows, numbers); of a fixed set there is one row of none.
    """

    def __init__(self, lifted: Lifted, parameters: Sequence[RowParameter] = ()) -> None:
        self.lifted = lifted
        self.dimension = lifted.dimension
        self.b_ub, self.b_eq = Affine.of(lifted.b_ub), Affine.of(lifted.b_eq)
        self.linear = Affine.of(lifted.linear)
        self.inner = self._make(parameters)
        self.projection = Projection(lifted.A_ub, lifted.A_eq, lifted.dimension, lifted.whole)
        self.action_cost = ActionCost.of(lifted)

    @classmethod
    def of(cls, lifted: Lifted | None, parameters: Sequence[RowParameter] = ()) -> LiftedRows | None:
        """Return the rows, or None where they make no polytope: with curved costs, or coordinates without bounds."""
        if lifted is None or not lifted.complete or lifted.P.any():
            return None
        try:
            return cls(lifted, parameters)
        except UnboundedSetError:
            return None  # of the action, or of another coordinate that does no harm: Clarabel finds out

    def _make(self, parameters: Sequence[RowParameter]) -> FeasibleSet:
        form = self.lifted
        arguments: dict[str, Any] = {"dimension": len(form.whole)}
        for name, matrix, sides in (("ub", form.A_ub, self.b_ub), ("eq", form.A_eq, self.b_eq)):
            if len(matrix):
                arguments[f"A_{name}"] = sparse.csr_array(matrix)
                arguments[f"b_{name}"] = as_argument(parameters, sides, self.numbers, f"b_{name}")
        varying = [bool(side.any()) for side in form.bounds.varying]
        low, high = form.bounds.at(np.zeros((1, form.b_ub.shape[1] - 1)))
        for side, name, fixed in zip((0, 1), ("lower", "upper"), (low[0], high[0]), strict=True):
            by_row = varying[side]
            arguments[name] = (
                as_argument(parameters, self._affine_bound(side), self.numbers, name) if by_row else fixed + 0.0
            )
        if form.whole.any():
            return MixedInteger(**arguments, integer=form.whole)
        return Polytope(**arguments)

    def _affine_bound(self, side: int) -> Affine | None:
        """Return bounds as affine functions of the parameters; None if some are the tightest of several."""
        bounds = self.lifted.bounds
        found, fixed = (bounds.below, bounds.lower) if side == 0 else (bounds.above, bounds.upper)
        by_row = [j for j, _ in found]
        if len(set(by_row)) < len(by_row) or np.isfinite(fixed[by_row]).any():
            return None
        if any(int(step.above) == side for step in bounds.steps):
            return None
        terms = np.zeros((len(fixed), self.lifted.b_ub.shape[1]))
        terms[:, 0] = fixed
        for j, numbers in found:
            terms[j] = numbers
        return Affine.of(terms)

    def numbers(self, name: str, values: Floats) -> Floats:
        """Return an argument of the inner set for each row of parameters."""
        if name in ("b_ub", "b_eq"):
            return (self.b_ub if name == "b_ub" else self.b_eq).at(values)
        return self.lifted.bounds.at(values)[name == "upper"]

    def bound(self, values: Floats) -> FeasibleSet:
        """Return the inner set for rows with these parameters."""
        if not self.inner.parameters:
            return self.inner
        parts = [self.numbers(parameter.name, values) for parameter in self.inner.parameters]
        return self.inner.bind(np.concatenate(parts, axis=1))

    def box(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of actions, for each row if they differ between them."""
        if not self.box_varies:
            return self.inner_box[0][: self.dimension], self.inner_box[1][: self.dimension]
        low, high = self.lifted.bounds.at(values)
        return low[:, : self.dimension], high[:, : self.dimension]

    @property
    def inner_box(self) -> tuple[Floats, Floats]:
        """The box of all coordinates of the inner set, of the bounds that do not differ between rows."""
        if not self.inner.open_bounds:
            return self.inner.lower, self.inner.upper
        low, high = self.lifted.bounds.at(np.zeros((1, self.lifted.b_ub.shape[1] - 1)))
        return low[0], high[0]

    @property
    def box_varies(self) -> bool:
        """Whether bounds of the action differ between rows."""
        return self.inner.open_bounds and bool(self.lifted.bounds.varying[:, : self.dimension].any())

    @property
    def direct(self) -> bool:
        """Whether the inner set has no coordinates but the action's, and no cost."""
        return self.inner.dimension == self.dimension and not self.lifted.has_cost

    def empty_rows(self, values: Floats) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
        """Go through rows that have a lower bound above an upper one."""
        low, high = self.lifted.bounds.at(values) if self.inner.open_bounds else (np.zeros((1, 1)), np.zeros((1, 1)))
        crossed = np.asarray((low > high).any(axis=1))
        if crossed.any():
            yield crossed, "must leave room between the bounds of the problem"

    def argmax(self, coefficients: Floats, values: Floats) -> Floats:
        """Return the action of each row, or raise :class:`Unsolved`."""
        padded = np.zeros((len(coefficients), self.inner.dimension))
        padded[:] = -self.linear.at(values)
        padded[:, : self.dimension] += coefficients
        return self._solved(self.bound(values), padded)

    def _solved(self, inner: FeasibleSet, coefficients: Floats) -> Floats:
        """Return the actions of the inner set, or raise :class:`Unsolved` with reasons in words of the problem."""
        try:
            return inner._solve_batch(coefficients, None)[:, : self.dimension].copy()
        except Unsolved as unsolved:
            reasons = {row: NO_ACTION if why.startswith(_NOTHING) else why for row, why in unsolved.reasons.items()}
            raise Unsolved(unsolved.actions[:, : self.dimension].copy(), reasons) from unsolved

    def _sides(self, values: Floats) -> Sides:
        if self.inner.open_bounds:
            bounds = self.lifted.bounds.at(values)
        else:
            bounds = self.inner.lower[None], self.inner.upper[None]
        return Sides(self.b_ub.at(values), self.b_eq.at(values), *bounds)

    def distance(self, actions: Floats, values: Floats) -> Floats:
        """Return how far each action is from the set, in its largest coordinate."""
        return self.projection.distance(actions, self._sides(values))

    def nearest(self, actions: Floats, values: Floats) -> Floats:
        """Return an action of the set nearest to each given one in its largest coordinate."""
        return self.projection.nearest(actions, self._sides(values))

    def cost(self, actions: Floats, values: Floats) -> Floats:
        """Return the least cost of each action in its row."""
        if self.action_cost is not None:
            return self.action_cost(actions, values)
        cheapest, left = np.zeros(len(actions)), np.arange(len(actions))
        if self._completion is not None:
            cheapest, left = self._completion(actions, values)
        if len(left):
            sides, linear = self._sides(values[left]), self.linear.at(values[left])
            cheapest[left] = self.projection.least_cost(actions[left], sides, linear)
        return cheapest + self.lifted.offsets(values)

    @cached_property
    def _completion(self) -> Any:
        """The programme that completes actions at least cost; None where it cannot be compiled."""
        from optensemble.feasible._solvers.completion import Completion  # which is made of such rows itself

        return Completion.of(self.lifted)

    def of_row(self, values: Floats) -> LiftedRows:
        """Return the same for one row of parameters, as a fixed set."""
        fixed = copy.copy(self)
        fixed.inner = self.bound(values).of_row(0)
        return fixed
