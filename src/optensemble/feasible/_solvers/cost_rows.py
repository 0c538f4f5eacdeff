"""Sets of actions with a known cost of the action alone: linear, quadratic, and for moving away from what is held."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError, UnboundedSetError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._row_parameters import RowParameter
from optensemble.feasible._solvers.action_cost import ActionCost, Pressed
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.implied_bounds import Bounds
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.lifted_rows import LiftedRows
from optensemble.feasible._solvers.row_sources import as_argument
from optensemble.feasible.simplex import Simplex
from optensemble.feasible.with_cost import WithCost


class CostRows(LiftedRows):
    """Rows of a set of actions alone, solved by :class:`WithCost`."""

    def __init__(
        self, lifted: Lifted, alone: Lifted, cost: dict[str, Affine], parameters: Sequence[RowParameter]
    ) -> None:
        super().__init__(alone, parameters)
        self.costs, self.full = cost, lifted
        self.action_cost = ActionCost.of(lifted)
        self.omega = Simplex(alone.dimension) if _is_simplex(alone) else self.inner
        arguments = {name: as_argument(parameters, numbers, self.numbers, name) for name, numbers in cost.items()}
        turnover = (arguments.pop("held"), arguments.pop("rate")) if "rate" in arguments else None
        quadratic = lifted.P[: alone.dimension, : alone.dimension] / 2.0
        self.inner = WithCost(
            self.omega, **arguments, quadratic=quadratic if quadratic.any() else None, turnover=turnover
        )

    @classmethod
    def of_cost(cls, lifted: Lifted | None, parameters: Sequence[RowParameter] = ()) -> CostRows | None:
        """Return the rows, or None where the set or the cost is of another kind."""
        if lifted is None or not lifted.has_cost or lifted.curved.any() or lifted.program.P.entries.varies:
            return None
        known = ActionCost.of(lifted)
        others = range(lifted.dimension, len(lifted.whole))
        if known is None or lifted.whole.any() or sorted(each.j for each in known.pressed) != list(others):
            return None
        cost = _parts(lifted, known.pressed)
        alone = None if cost is None else _alone(lifted)
        if cost is None or alone is None:
            return None
        try:
            return cls(lifted, alone, cost, parameters)
        except (InputError, UnboundedSetError):  # what the set and the cost are together is not known there
            return None

    def numbers(self, name: str, values: Floats) -> Floats:
        """Return an argument of the set, or of its cost, for each row of parameters."""
        return self.costs[name].at(values) if name in self.costs else super().numbers(name, values)

    def bound(self, values: Floats) -> FeasibleSet:
        """Return the set with its cost for rows with these parameters."""
        if not self.inner.parameters:
            return self.inner
        names = [parameter.name.removeprefix("omega.") for parameter in self.inner.parameters]
        return self.inner.bind(np.concatenate([self.numbers(name, values) for name in names], axis=1))

    @property
    def direct(self) -> bool:
        """Whether the inner set judges actions by itself."""
        return True

    def argmax(self, coefficients: Floats, values: Floats) -> Floats:
        """Return the action of each row, or raise ``Unsolved``."""
        return self._solved(self.bound(values), coefficients)

    def of_row(self, values: Floats) -> CostRows:
        """Return the same for one row of parameters, as a fixed set."""
        fixed = copy.copy(self)
        fixed.inner = self.bound(values).of_row(0) if self.inner.parameters else self.inner
        return fixed


def _parts(lifted: Lifted, pressed: Sequence[Pressed]) -> dict[str, Affine] | None:
    """Return the linear part of the cost, and what is held with the rate for moving, in each coordinate."""
    d, width = lifted.dimension, lifted.linear.shape[1]
    held, rate = np.zeros((d, width)), np.zeros((d, width))
    for each in pressed:
        sides = each.sides.terms
        moving = np.flatnonzero(each.rows.any(axis=1))
        columns = np.flatnonzero(each.rows.any(axis=0))
        rest = np.delete(sides, moving, axis=0)
        # |a_j - held| is the largest of two opposite functions; a bound below 0 beside them says nothing.
        if len(moving) != 2 or len(columns) != 1 or (rest[:, 0] < 0.0).any() or rest[:, 1:].any():
            return None
        j, (up, down) = int(columns[0]), each.rows[moving, columns[0]]
        if j >= d or up != -down or rate[j].any() or not np.array_equal(sides[moving[0]], -sides[moving[1]]):
            return None
        held[j], rate[j] = sides[moving[0]] / up, lifted.linear[each.j] * abs(up)
    found = {"linear": Affine.of(lifted.linear[:d])} if lifted.linear[:d].any() else {}
    return found | ({"held": Affine.of(held), "rate": Affine.of(rate)} if rate.any() else {})


def _alone(lifted: Lifted) -> Lifted | None:
    """Return the set of the action alone, without the coordinates that only the cost needs, and without a cost."""
    d = lifted.dimension
    mine = ~lifted.A_ub[:, d:].any(axis=1)
    bounds = lifted.bounds
    steps = [step for step in bounds.steps if step.j < d]
    if any((row.columns >= d).any() for step in steps for row in step.rows):
        return None
    below, above = ([each for each in side if each[0] < d] for side in (bounds.below, bounds.above))
    return replace(
        lifted,
        A_ub=lifted.A_ub[mine][:, :d],
        b_ub=lifted.b_ub[mine],
        A_eq=lifted.A_eq[:, :d],
        bounds=Bounds(bounds.lower[:d], bounds.upper[:d], below, above, steps),
        whole=lifted.whole[:d],
        P=np.zeros((d, d)),
        linear=np.zeros((d, lifted.linear.shape[1])),
        curved=lifted.curved[:d],
        map=lifted.map[:, :d],
        bounded=True,
        costless=True,
    )


def _is_simplex(alone: Lifted) -> bool:
    """Return whether the weights are all those that sum to 1."""
    bounds = alone.bounds
    plain = not (len(alone.A_ub) or bounds.varying.any() or alone.b_eq[:, 1:].any())
    return bool(
        plain
        and len(alone.A_eq) == 1
        and (alone.A_eq == alone.A_eq[0, 0]).all()
        and alone.A_eq[0, 0] == alone.b_eq[0, 0] != 0.0
        and not bounds.lower.any()
        and (bounds.upper >= 1.0).all()
    )
