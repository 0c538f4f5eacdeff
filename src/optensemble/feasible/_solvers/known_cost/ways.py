"""Which way a set with a cost is solved, by what the set and the cost are."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._composite import Composite
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible._solvers.known_cost.lifted import LiftedKnapsack, LiftedPolytope
from optensemble.feasible._solvers.known_cost.listed import BestOfList
from optensemble.feasible._solvers.known_cost.separable import ByCoordinate
from optensemble.feasible._solvers.known_cost.whole import LiftedMixedInteger
from optensemble.feasible._solvers.lattice import MOST_NUMBERS, list_points
from optensemble.feasible.assignment import Assignment
from optensemble.feasible.box import Box
from optensemble.feasible.knapsack import Knapsack
from optensemble.feasible.mixed_integer import ACCEPTED, MixedInteger
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.product import Product
from optensemble.feasible.shortest_path import ShortestPath
from optensemble.feasible.simplex import Simplex
from optensemble.feasible.top_k import TopK
from optensemble.feasible.vertices import Vertices


class Way(Protocol):
    """A way to solve rows whose cost is more than linear."""

    name: str

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row of a set bound to them; C is less the linear cost."""


def is_linear(omega: FeasibleSet, Q: Floats, turnover: bool) -> bool:
    """Return whether the cost is linear on a set: no other part is charged, or none that zeros and ones make linear."""
    return not (Q.size or turnover) or (not _is_crossed(Q) and _is_binary(omega))


def is_solved_alone(omega: FeasibleSet, Q: Floats, turnover: bool) -> bool:
    """Return whether each row must make a set of its own: of whole numbers that differ by row, some can be listed."""
    return isinstance(omega, MixedInteger) and omega.varies and not is_linear(omega, Q, turnover)


def choose_way(omega: FeasibleSet, Q: Floats, turnover: bool) -> Way:
    """Return the way that solves a set, or raise ``InputError``."""
    if isinstance(omega, Box) and not _is_crossed(Q):
        return ByCoordinate(Q, omega.dimension)
    actions = _listed(omega)
    if actions is not None:
        return BestOfList(actions, Q)
    if isinstance(omega, MixedInteger) and not Q.size:
        return LiftedMixedInteger(omega)
    shared_out = isinstance(omega, Simplex) or (isinstance(omega, Knapsack) and omega.resources == 1)
    if shared_out and not Q.size and not getattr(omega, "integer", False):
        return LiftedKnapsack(omega.dimension)
    polytope = omega._polytope if isinstance(omega, Knapsack) else omega
    if isinstance(polytope, Polytope) and not Q.size:
        return LiftedPolytope(polytope)
    # Clarabel is loaded by sets that need it alone.
    from optensemble.feasible._solvers.known_cost.conic import ByClarabel
    from optensemble.feasible._solvers.known_cost.forms import portfolio_rows, rows_of
    from optensemble.feasible._solvers.known_cost.trade_off import TradeOff

    portfolio = None if turnover else portfolio_rows(omega)
    if portfolio is not None:
        return TradeOff(Q, portfolio)
    rows = rows_of(omega)
    if rows is not None:
        return ByClarabel(rows, Q, turnover)
    raise InputError(_unknown(omega, bool(Q.size)))


def _is_crossed(Q: Floats) -> bool:
    """Return whether products of two coordinates are charged for."""
    return bool(np.count_nonzero(Q - np.diag(np.diag(Q)))) if Q.size else False


def _is_binary(omega: FeasibleSet) -> bool:
    """Return whether all actions are of zeros and ones."""
    if isinstance(omega, Product):
        return all(map(_is_binary, omega.blocks))
    if isinstance(omega, Knapsack):
        return omega.integer
    if isinstance(omega, MixedInteger):
        bounded = not omega.open_bounds and bool((omega.lower >= 0.0).all() and (omega.upper <= 1.0).all())
        return bounded and bool(omega.integer.all())
    if isinstance(omega, Vertices):
        return bool(np.isin(omega.vertices, (0.0, 1.0)).all())
    return isinstance(omega, TopK | Assignment | ShortestPath)


def _listed(omega: FeasibleSet) -> Floats | None:
    """Return all actions of a set that has a list of them, between others too: with a cost they may be best."""
    if isinstance(omega, Vertices):
        return omega._listed
    if not isinstance(omega, MixedInteger) or omega.varies or omega.points is None:
        return None
    points = list_points(*omega._model)
    points = None if points is None else points[omega.violation(points) <= ACCEPTED]
    return None if points is None or points.size > MOST_NUMBERS else points


def _unknown(omega: FeasibleSet, quadratic: bool) -> str:
    part = "quadratic=" if quadratic else "turnover="
    if isinstance(omega, Composite):
        return (
            f"{part} is not possible on {omega!r} as a whole. Give the sets that it is made of a cost each: "
            f"{type(omega).__name__} takes sets with a cost."
        )
    if type(omega).__name__ == "CvxpySet":  # by name: cvxpy may not be installed
        return f"{part} is not possible on {omega!r}. Write the cost into the objective of its problem."
    return (
        f"{part} is not possible on {omega!r}, whose actions are neither listed nor a convex set that is known here. "
        "Give Vertices if they can be listed; a linear cost; or feasible.Oracle with a solver of your own."
    )
