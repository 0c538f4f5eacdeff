"""Convex programmes whose data may come from the row, and whose actions may have a known cost, by Clarabel."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError, UnboundedSetError
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._solvers.action_cost import ActionCost
from optensemble.feasible._solvers.affine import VaryingMatrix
from optensemble.feasible._solvers.conic import ConicProgram, explain_clarabel
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.lifted_form import Lifted
from optensemble.feasible._solvers.scale import rounded

_ROOM = 1e-9
"""An action may move by this share of the set's extent, beside its distance, while its least cost is looked for."""


NO_ACTION = "no action satisfies all constraints of the problem in this row. Relax them, or check its parameters."


class ConicRows:
    """A convex programme for each row; see :class:`LiftedRows` for what ``values`` are."""

    inner = None

    def __init__(self, program: Program, lifted: Lifted | None) -> None:
        self.program, self.has_cost = program, program.has_cost
        self.dimension = program.columns.stop - program.columns.start
        self.action_cost = None if lifted is None else ActionCost.of(lifted)
        self._bounds = None if lifted is None else lifted.bounds
        self._shared: ConicProgram | None = None
        if program.varies:
            self._require_bounds()
        else:
            nothing = np.zeros((1, 0))
            self._shared = self._programs(nothing)
            low, high = (side[0, : self.dimension] for side in self._explicit(nothing))
            self._box = self._programs(nothing, cost=False).tighten(low, high)
            self._require_least_cost()

    @classmethod
    def plain(cls, program: ConicProgram, lower: Floats, upper: Floats) -> ConicRows:
        """Return the rows of a programme in standard form without costs, with bounds that may be infinite."""
        rows = object.__new__(cls)
        rows.dimension, rows.has_cost, rows._bounds, rows.action_cost = len(lower), False, None, None
        rows._shared, rows._box = program, program.tighten(lower, upper)
        return rows

    def _explicit(self, values: Floats) -> tuple[Floats, Floats]:
        if self._bounds is None:
            return np.full((len(values), self.dimension), -np.inf), np.full((len(values), self.dimension), np.inf)
        return self._bounds.at(values)

    def _require_least_cost(self) -> None:
        assert self._shared is not None
        _, failures = self._shared.argmax(np.zeros((1, self.dimension)))
        if "DualInfeasible" in failures.get(0, ""):
            raise UnboundedSetError(
                "the terms beside the product have no largest value: some variable that they reward grows forever. "
                "Bound it by a constraint, or take it out of the objective."
            )

    def _require_bounds(self) -> None:
        known = np.zeros((2, self.dimension)) if self._bounds is None else self._bounds.known[:, : self.dimension]
        if not known.all():
            side, j = np.argwhere(~known.astype(np.bool_))[0]
            raise InputError(
                f"coordinate {j} of the action needs {'an upper' if side else 'a lower'} bound that linear constraints "
                "tell, because the set differs between rows. Add bounds to the problem, such as a >= 0 and a <= 1."
            )

    def _programs(self, values: Floats, cost: bool = True) -> ConicProgram:
        """Return the programme of one row of parameters."""
        p = self.program
        A = p.A.with_entries(p.A.entries.at(values)[0])
        P, q = _at(p.P, values) if cost else None, p.q.at(values)[0] if cost else None
        return ConicProgram(A, p.b.at(values)[0], p.cones, p.columns.start, self.dimension, P, q)

    @property
    def box_varies(self) -> bool:
        """Whether bounds of the action differ between rows."""
        return (
            self._shared is None and self._bounds is not None and bool(self._bounds.varying[:, : self.dimension].any())
        )

    def box(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of actions, for each row if they differ between them."""
        if self._shared is not None:
            return self._box
        at = values if self.box_varies else np.zeros((1, values.shape[1]))
        low, high = (side[:, : self.dimension] for side in self._explicit(at))
        return (low, high) if self.box_varies else (low[0], high[0])

    def argmax(self, coefficients: Floats, values: Floats) -> Floats:
        """Return the action of each row, or raise :class:`Unsolved`."""
        costs = rounded(coefficients)
        if self.has_cost:  # beside a cost, the size of coefficients matters
            costs = costs * np.abs(coefficients).max(axis=1, keepdims=True)
        if self._shared is not None:
            actions, failures = self._shared.argmax(costs)
        else:
            actions, failures = np.zeros_like(costs), dict[int, str]()
            for row in range(len(costs)):
                found, failed = self._programs(values[row : row + 1]).argmax(costs[row : row + 1])
                actions[row] = found[0]
                if failed:
                    failures[row] = failed[0]
        actions = np.clip(actions, *self.box(values)) + 0.0
        if failures:
            raise Unsolved(actions, {row: _explain(status) for row, status in failures.items()})
        return actions

    def distance(self, actions: Floats, values: Floats) -> Floats:
        """Return how far each action is from the set, in its largest coordinate."""
        if self._shared is not None:
            return self._shared.distance(actions)
        rows = range(len(actions))
        return np.array([self._programs(values[i : i + 1]).distance(actions[i : i + 1])[0] for i in rows])

    def nearest(self, actions: Floats, values: Floats) -> Floats:
        """Return the action of the set nearest to each given one."""
        if self._shared is not None:
            return self._shared.nearest(actions)
        rows = range(len(actions))
        return np.array([self._programs(values[i : i + 1]).nearest(actions[i : i + 1])[0] for i in rows])

    def cost(self, actions: Floats, values: Floats) -> Floats:
        """Return the least cost of each action in its row."""
        if self.action_cost is not None:
            return self.action_cost(actions, values)
        low, high = self.box(values)
        extent = np.broadcast_to((high - low).max(axis=-1), len(actions))
        found = np.zeros(len(actions))
        for row, room in enumerate(_ROOM * np.where(extent > 0.0, extent, 1.0)):
            program = self._programs(values[row : row + 1]) if self._shared is None else self._shared
            found[row] = program.least_cost(actions[row : row + 1], room)[0]
        return found + self.program.offset.at(values)[:, 0]

    def of_row(self, values: Floats) -> ConicRows:
        """Return the same for one row of parameters; it solves as before, because a row must not change by that."""
        return copy.copy(self)


def _at(matrix: VaryingMatrix, values: Floats) -> Any:
    return matrix.with_entries(matrix.entries.at(values)[0]) if len(matrix.indices) else None


def _explain(status: str) -> str:
    if "PrimalInfeasible" in status:
        return NO_ACTION
    return explain_clarabel(status)
