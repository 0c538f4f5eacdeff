"""The known cost of an action, where the action alone determines it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.lifted_form import Lifted


class Pressed(NamedTuple):
    """A coordinate that is the largest of some affine functions of others, and of its lower bound."""

    j: int
    rows: Floats
    sides: Affine


class ActionCost:
    """The cost of a programme at an action, where costs press all other coordinates onto functions of it.

    Such a coordinate is what cvxpy makes of an absolute value, a maximum or a positive part.
    """

    def __init__(self, lifted: Lifted, pressed: list[Pressed]) -> None:
        self.lifted, self.pressed = lifted, pressed
        self.used = _costing(lifted)
        P = lifted.program.P
        self.columns = np.repeat(np.arange(P.shape[1]), np.diff(P.indptr))

    @classmethod
    def of(cls, lifted: Lifted) -> ActionCost | None:
        """Return the cost, or None if the action leaves some coordinate that costs something open."""
        done = np.arange(len(lifted.whole)) < lifted.dimension
        costs = lifted.map[_costing(lifted)].any(axis=0)
        pressed, found = list[Pressed](), True
        while found and (costs & ~done).any():
            found = False
            for j in np.flatnonzero(costs & ~done):
                step = _pressed(lifted, int(j), done)
                if step is not None:
                    pressed.append(step)
                    done[j] = found = True
        return cls(lifted, pressed) if not (costs & ~done).any() else None

    def __call__(self, actions: Floats, values: Floats) -> Floats:
        """Return the cost of each action in its row; ``values`` are the parameters of the rows."""
        y = np.zeros((len(actions), len(self.lifted.whole)))
        y[:, : self.lifted.dimension] = actions
        for coordinate, rows, sides in self.pressed:
            reached = -sides.at(values)
            for i, k in np.argwhere(rows):
                reached[:, i] += rows[i, k] * y[:, k]
            y[:, coordinate] = reached.max(axis=1)
        program, x = self.lifted.program, self.lifted.origin.at(values)
        for j in self.used:
            for k in np.flatnonzero(self.lifted.map[j]):
                x[:, j] += self.lifted.map[j, k] * y[:, k]
        cost, q, P = program.offset.at(values)[:, 0], program.q.at(values), program.P.entries.at(values)
        for j in np.flatnonzero(program.q.terms.any(axis=1)):
            cost = cost + q[:, j] * x[:, j]
        for place, (i, j) in enumerate(zip(program.P.indices, self.columns, strict=True)):
            cost = cost + 0.5 * P[:, place] * (x[:, i] * x[:, j])
        return np.asarray(cost, dtype=np.float64)


def _costing(lifted: Lifted) -> Indices:
    """Return the programme's own coordinates that cost something."""
    program = lifted.program
    return np.union1d(np.flatnonzero(program.q.terms.any(axis=1)), program.P.indices)


def _pressed(lifted: Lifted, j: int, done: npt.NDArray[np.bool_]) -> Pressed | None:
    """Return the functions that a coordinate is the largest of, if costs press it onto those of known coordinates."""
    column = lifted.A_ub[:, j]
    squared = lifted.map[np.unique(lifted.program.P.indices), j].any()
    if squared or lifted.A_eq[:, j].any() or lifted.curved[j] or lifted.whole[j]:
        return None
    if not (lifted.program.is_positive(lifted.linear[j]) and (column <= 0).all()):
        return None
    used = np.flatnonzero(column)
    rows = lifted.A_ub[used] / -column[used, None]
    rows[:, j] = 0.0
    if rows[:, ~done].any():
        return None
    sides = [lifted.b_ub[used] / -column[used, None]]
    sides += [-terms[None] for k, terms in lifted.bounds.below if k == j]
    if np.isfinite(lifted.bounds.lower[j]):
        sides.append(np.append(-lifted.bounds.lower[j], np.zeros(lifted.b_ub.shape[1] - 1))[None])
    all_sides = np.concatenate(sides)
    fixed = np.zeros((len(all_sides) - len(rows), rows.shape[1]))
    return Pressed(j, np.concatenate([rows, fixed]), Affine.of(all_sides))
