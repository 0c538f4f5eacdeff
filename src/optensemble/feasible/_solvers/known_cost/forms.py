"""What a way to solve needs to know of a set: its linear constraints, or its cones, and their sides row by row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._solvers.known_cost.lifted import by_row, share_of_each
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows
from optensemble.feasible._solvers.risk_budget.mean_variance import simplex_rows
from optensemble.feasible._solvers.risk_budget.rows import collect_rows
from optensemble.feasible.box import Box
from optensemble.feasible.knapsack import Knapsack
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.risk_budget import RiskBudget
from optensemble.feasible.simplex import Simplex

_RANK = 1e-14
"""Eigenvalues below this share of the largest are rounding: the covariance has no such direction."""


class Rows(NamedTuple):
    """Linear constraints ``A_ub a <= b_ub`` and ``A_eq a = b_eq``, and ``|root a|² <= limit`` if root has rows."""

    A_ub: Floats
    A_eq: Floats
    root: Floats

    def as_cones(self) -> tuple[Any, list[tuple[Any, ...]]]:
        """Return the constraints and the bounds as cones; :meth:`Sides.as_cones` returns the right-hand sides."""
        d = self.A_ub.shape[1]
        matrix = [self.A_eq, self.A_ub, np.eye(d), -np.eye(d)]
        cones: list[tuple[Any, ...]] = [("ZeroConeT", len(self.A_eq)), ("NonnegativeConeT", len(self.A_ub) + 2 * d)]
        if len(self.root):
            matrix += [np.zeros((1, d)), -self.root]
            cones.append(("SecondOrderConeT", 1 + len(self.root)))
        return sparse.csc_array(np.concatenate(matrix)), [cone for cone in cones if cone[1]]


class Sides(NamedTuple):
    """The right-hand sides of :class:`Rows` and the bounds, of every row or of all rows alike."""

    b_ub: Floats
    b_eq: Floats
    lower: Floats
    upper: Floats
    limit: Floats

    def as_cones(self, root: Floats, n: int) -> Floats:
        """Return the right-hand sides of :meth:`Rows.as_cones`, of each of n rows or of all."""
        parts = [self.b_eq, self.b_ub, self.upper, -self.lower]
        if len(root):
            parts += [np.sqrt(self.limit), np.zeros((1, len(root)))]
        count = 1 if all(len(part) == 1 for part in parts) else n
        return np.concatenate([np.broadcast_to(part, (count, part.shape[1])) for part in parts], axis=1)


def rows_of(omega: FeasibleSet) -> Rows | None:
    """Return the constraints of a convex set; None if it is not one, or not known as one."""
    d = omega.dimension
    nothing = np.empty((0, d))
    if isinstance(omega, Box):
        return Rows(nothing, nothing, nothing)
    if isinstance(omega, Simplex):
        return Rows(nothing, np.ones((1, d)), nothing)
    if isinstance(omega, Knapsack) and not omega.integer and omega.weights is not None:
        return Rows(omega.weights, nothing, nothing)
    if isinstance(omega, Polytope):
        return Rows(omega._ub[0].toarray(), omega._eq[0].toarray(), nothing)
    if isinstance(omega, RiskBudget):
        return Rows(omega._ub[0], np.concatenate([np.ones((1, d)), omega._eq[0]]), _root(omega.covariance))
    return None


def portfolio_rows(omega: FeasibleSet) -> PortfolioRows | None:
    """Return the constraints of a set of weights that sum to 1, the same for all rows; None for any other set."""
    if isinstance(omega, Simplex) and not omega.varies and omega.available is None and omega.total == 1.0:
        return simplex_rows(omega.dimension)
    if not isinstance(omega, Polytope) or omega.varies or omega.lower.any():
        return None
    (A_ub, b_ub), (A_eq, b_eq) = ((matrix.toarray(), right) for matrix, right in (omega._ub, omega._eq))
    sums = (A_eq == b_eq[:, None]).all(axis=1) & (b_eq != 0.0)
    return collect_rows((A_ub, b_ub), (A_eq[~sums], b_eq[~sums]), omega.upper) if sums.any() else None


def sides_of(omega: FeasibleSet) -> Sides:
    """Return the right-hand sides of a set that :func:`rows_of` knows, bound to rows if it varies."""
    lower, upper = (np.atleast_2d(side) for side in omega._row_box())
    b_ub = b_eq = np.empty((1, 0))
    limit = np.empty((1, 1))
    if isinstance(omega, Simplex):
        b_eq, upper = share_of_each(omega)
    elif isinstance(omega, Knapsack):
        b_ub = by_row(omega, "capacity", omega.capacity)
    elif isinstance(omega, Polytope):
        b_ub, b_eq = omega._right_sides()
    elif isinstance(omega, RiskBudget):
        limit = by_row(omega, "limit", omega.limit)
        b_ub, b_eq = np.atleast_2d(omega._ub[1]), np.concatenate([[1.0], omega._eq[1]])[None]
    return Sides(b_ub, b_eq, lower, upper, limit)


def _root(covariance: Floats) -> Floats:
    """Return R with ``R'R`` equal to the covariance, and no more rows than its rank."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(_RANK * values[-1], 0.0)
    root: Floats = (vectors[:, kept] * np.sqrt(values[kept])).T
    return root
