"""The known cost of an action, where the action alone determines it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.lifting import Lifted


class _Largest(NamedTuple):
    """A coordinate that is the largest of some affine functions of others, and of its lower bound."""

    j: int
    rows: Floats
    sides: Affine


class ActionCost:
    """``y'Py / 2 + linear·y + offset`` where costs press some coordinates ``y`` onto functions of the action.

    Such a coordinate is what cvxpy makes of an absolute value, a maximum or a positive part.
    """

    def __init__(self, lifted: Lifted, pressed: list[_Largest]) -> None:
        self.lifted, self.pressed = lifted, pressed
        self.linear = Affine.of(lifted.linear)
        self.pairs = [(int(i), int(j)) for i, j in np.argwhere(np.triu(lifted.P))]

    @classmethod
    def of(cls, lifted: Lifted) -> ActionCost | None:
        """Return the cost, or None if the action leaves some coordinate that costs something open."""
        if lifted.program.P.entries.varies:
            return None
        n = len(lifted.whole)
        done = np.arange(n) < lifted.dimension
        costs = lifted.linear.any(axis=1) | lifted.P.any(axis=1)
        pressed, found = list[_Largest](), True
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
        cost, linear = self.lifted.offsets(values), self.linear.at(values)
        for j in np.flatnonzero(self.lifted.linear.any(axis=1)):
            cost = cost + linear[:, j] * y[:, j]
        for first, second in self.pairs:
            share = (0.5 if first == second else 1.0) * self.lifted.P[first, second]
            cost = cost + share * (y[:, first] * y[:, second])
        return cost


def _pressed(lifted: Lifted, j: int, done: npt.NDArray[np.bool_]) -> _Largest | None:
    """Return the functions that a coordinate is the largest of, if costs press it onto those of known coordinates."""
    column = lifted.A_ub[:, j]
    fixed = not (lifted.P[j].any() or lifted.A_eq[:, j].any() or lifted.linear[j, 1:].any())
    if not fixed or lifted.curved[j] or lifted.whole[j]:
        return None
    if not (lifted.linear[j, 0] > 0 and (column <= 0).all()):
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
    sides_all = np.concatenate(sides)
    return _Largest(
        j, np.concatenate([rows, np.zeros((len(sides_all) - len(rows), rows.shape[1]))]), Affine.of(sides_all)
    )
