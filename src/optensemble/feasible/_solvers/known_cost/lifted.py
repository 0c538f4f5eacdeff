"""A cost of moving away from what is held, in linear sets: an action is cut in two parts where it is held.

The part of a coordinate up to what is held gains the rate with every unit, and the part beyond loses it: a linear
objective in twice as many coordinates, under the set's own constraints. Since the first part gains more, it is full
before the second begins.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible.knapsack import Knapsack
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.simplex import Simplex


def bound_to(lifted: FeasibleSet, **values: Floats) -> FeasibleSet:
    """Return a set bound to rows whose parameters are given by name, of shape (rows, numbers)."""
    return lifted.bind(np.concatenate([values[parameter.name] for parameter in lifted.parameters], axis=1))


def by_row(omega: FeasibleSet, name: str, fixed: Floats | float) -> Floats:
    """Return an argument of every row, or of all rows alike, of shape (rows or 1, numbers)."""
    if not omega._varies_in(name):
        return np.asarray(fixed, dtype=np.float64).reshape(1, -1)
    found = omega._of_rows(name)
    return found.reshape(len(found), prod(found.shape[1:]))


def share_of_each(omega: Simplex) -> tuple[Floats, Floats]:
    """Return the total of a simplex, and the most that each coordinate can get, of every row or of all alike."""
    total = omega._totals()[:, None]
    return total, total * omega._available()


def numbered(*sizes: int) -> list[Columns]:
    """Return columns as stand-ins for parameters of these sizes; the values come by :func:`bound_to`."""
    return [Columns(range(size)) for size in sizes]


class Parts:
    """The two parts of every coordinate of every row: from ``lower`` to what is held, and from there to ``upper``."""

    def __init__(self, lower: Floats, upper: Floats, charges: Charges, n: int) -> None:
        _, held, self.rate = charges.own(n)
        self.lower, self.upper = (np.broadcast_to(side, held.shape) for side in (lower, upper))
        self.held = np.clip(held, self.lower, self.upper)

    @property
    def most(self) -> Floats:
        """The upper bounds of the parts; the lower bound of the second is 0."""
        return np.concatenate([self.held, self.upper - self.held], axis=1)

    @property
    def least(self) -> Floats:
        """The lower bounds of the parts."""
        return np.concatenate([self.lower, np.zeros_like(self.held)], axis=1)

    def gains(self, C: Floats) -> Floats:
        """Return the coefficients of the parts."""
        return np.concatenate([C + self.rate, C - self.rate], axis=1)

    def join(self, parts: Floats) -> Floats:
        """Return actions; what stays as it is held, or is at a bound, does so exactly."""
        first, second = np.split(parts, 2, axis=1)
        actions = np.where(first >= self.held, self.held + second, first + second)
        full = (first >= self.held) & (second >= self.upper - self.held)
        return np.asarray(np.where(full, self.upper, actions), dtype=np.float64)


class LiftedKnapsack:
    """Parts of coordinates as items of a :class:`Knapsack` of one resource, and with its tie rule."""

    name = "Knapsack"

    def __init__(self, dimension: int) -> None:
        weights, capacity, upper = numbered(2 * dimension, 1, 2 * dimension)
        self.lifted = Knapsack(weights, capacity, upper=upper, dimension=2 * dimension)

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        if isinstance(omega, Simplex):
            return self._share_out(omega, C, charges)
        assert isinstance(omega, Knapsack)
        parts = Parts(np.zeros(omega.dimension), omega._row_box()[1], charges, len(C))
        weights, capacity = by_row(omega, "weights", omega.weights), by_row(omega, "capacity", omega.capacity)
        return parts.join(self._fill(parts, parts.gains(C), weights, capacity))

    def _share_out(self, omega: Simplex, C: Floats, charges: Charges) -> Floats:
        """Raise coefficients until every part is worth it, so that nothing of the total is left."""
        total, most = share_of_each(omega)
        parts = Parts(np.zeros(omega.dimension), most, charges, len(C))
        gains = parts.gains(C)
        gains -= gains.min(axis=1, keepdims=True)
        spread = gains.max(axis=1, keepdims=True)
        gains += np.where(spread > 0.0, spread, 1.0)
        return parts.join(self._fill(parts, gains, np.ones((1, omega.dimension)), total))

    def _fill(self, parts: Parts, gains: Floats, weights: Floats, capacity: Floats) -> Floats:
        both = np.broadcast_to(np.tile(weights, 2), gains.shape)
        room = np.broadcast_to(capacity, (len(gains), 1))
        return bound_to(self.lifted, weights=both, capacity=room, upper=parts.most).argmax(gains)


class LiftedPolytope:
    """Parts of coordinates as those of a :class:`Polytope` with bounds by row, and with its tie rule."""

    name = "Polytope"

    def __init__(self, omega: Polytope) -> None:
        least, most = numbered(2 * omega.dimension, 2 * omega.dimension)
        sides = {f"b_{name}": omega._argument(f"b_{name}", b) for name, (_, b) in _constraints(omega).items() if len(b)}
        matrices = {f"A_{name}": sparse.hstack([A, A]) for name, (A, b) in _constraints(omega).items() if len(b)}
        self.lifted = Polytope(**matrices, **sides, lower=least, upper=most, dimension=2 * omega.dimension)

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        if isinstance(omega, Knapsack):
            assert omega._polytope is not None
            omega = omega._polytope.bind(omega.values) if omega.varies else omega._polytope
        parts = Parts(*omega._row_box(), charges, len(C))
        varying = {name: omega._of_rows(name) for name in ("b_ub", "b_eq") if omega._varies_in(name)}
        bound = bound_to(self.lifted, lower=parts.least, upper=parts.most, **varying)
        try:
            return parts.join(bound._solve_batch(parts.gains(C), None))
        except Unsolved as unsolved:
            raise Unsolved(parts.join(unsolved.actions), unsolved.reasons) from unsolved


def _constraints(omega: Polytope) -> dict[str, tuple[Any, Floats]]:
    return {"ub": omega._ub, "eq": omega._eq}
