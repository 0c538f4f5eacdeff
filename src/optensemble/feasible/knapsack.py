"""Knapsacks: items to take, whole or in fractions, as long as they fit."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble._core.validation import as_floats
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._solvers.density import FIT, fill_by_density
from optensemble.feasible._solvers.knapsack import choose_items, table_size
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.polytope import Polytope

_WEIGHTLESS = 1e-100
"""A smaller share of the capacity weighs nothing: densities, coefficients over weights, must stay finite."""

_LARGEST_SHARE = 1e200
"""Weights beyond this share of the capacity are cut to it, where sums must stay finite."""

_MOST_TABLE = 1 << 26
"""Numbers, half a gigabyte of them, that the kernel may need at most on every thread: 61 resources, or 3,800 items."""

_NODES = 10_000
"""Nodes of HiGHS's search tree after which a row that was too hard for the kernel has failed."""


@final
class Knapsack(FeasibleSet):
    """``weights a <= capacity`` with ``0 <= a <= 1``, or with every ``a`` 0 or 1: budgets, loads, project portfolios.

    Items whose coefficient is not positive are never taken. A weight beyond the capacity by 1e-12 of it is taken for
    rounding, and fits. No hint is needed.

    - Fractions, one resource: items are taken by density, coefficient over weight, until the capacity is used.
      Densities within 1e-12 of the last one taken, relative to it, are tied; the lowest index is taken first.
    - Fractions, several resources: a :class:`Polytope`, with its tie rule.
    - Whole items: dynamic programming over the items whose choice is in doubt, with bounds from a price for each
      resource. Choices whose values differ by less than 1e-14 of the sum of the positive coefficients are tied, and
      by more than 1e-12 of it they are not. Of tied choices the one with the earlier items wins: with item 0 if any of
      them has it, then with item 1, and so on. Rows of half a million undominated states or more are solved by HiGHS,
      like a :class:`MixedInteger`, with its tie rule; expect them, and to wait for them, where the coefficients are
      nearly a fixed function of many unequal weights.

    Parameters
    ----------
    weights
        The amount of the resource that each item needs, or of each resource, of shape (resources, dimension); none
        negative.
    capacity
        The amount of each resource that there is; not negative.
    integer
        Whether items are taken whole or not at all.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    weights, capacity, integer
        As given, with one row of weights and one capacity for each resource.

    Examples
    --------
    >>> Knapsack([3, 4, 5], capacity=8).argmax([[2.0, 5.0, 5.0]])
    array([[0. , 1. , 0.8]])
    >>> Knapsack([3, 4, 5], capacity=8, integer=True).argmax([[2.0, 4.0, 5.0], [2.0, 5.0, 5.0], [1.0, 2.0, -1.0]])
    array([[1., 0., 1.],
           [1., 1., 0.],
           [1., 1., 0.]])
    """

    def __init__(
        self,
        weights: npt.ArrayLike,
        capacity: npt.ArrayLike,
        integer: bool = False,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self.weights = _as_weights(weights)
        self.capacity = _as_capacity(capacity, len(self.weights))
        if not isinstance(integer, bool | np.bool_):
            raise InputError(
                f"integer must be True (items are taken whole) or False (fractions are allowed); got {integer!r}. "
                "Where only some items are whole, use MixedInteger."
            )
        self.integer = bool(integer)
        resources, d = self.weights.shape
        self._set_bounds(0.0, 1.0, d)
        shares = _shares(self.weights, self.capacity)
        self._polytope: Polytope | None = None
        if self.integer:
            shares[:, (shares > 1.0 + FIT).any(axis=0)] = np.inf
            # Hard rows take milliseconds, and an interrupt waits for all rows at once.
            rows_at_once = max(1, (4096 if resources == 1 else 512) // d)
            if table_size(d, resources) <= _MOST_TABLE:
                self.kernel = make_kernel(choose_items, floats=[shares.T], rows_at_once=rows_at_once)
        elif resources == 1:
            self.kernel = make_kernel(fill_by_density, floats=[shares])
        else:
            self._polytope = Polytope(A_ub=self.weights, b_ub=self.capacity)
            self.kernel = self._polytope.kernel
        self._set_failure(on_failure, fallback)

    def _argmax(self, coefficients: Floats) -> Floats:
        if self._polytope is not None:
            return self._polytope._argmax(coefficients)
        # Items that gain nothing must not be taken, even where they weigh nothing.
        costs = np.where(coefficients > 0, coefficients, -np.abs(coefficients).max(axis=1, keepdims=True))
        return MixedInteger(A_ub=self.weights, b_ub=self.capacity, node_limit=_NODES)._argmax(costs)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest excess over a bound or a capacity, or the distance to whole items.

        The excess over a capacity is relative to it, or to the largest weight if it is 0.
        """
        size = np.where(self.capacity > 0, self.capacity, self.weights.max(axis=1))
        shares = np.minimum(_shares(self.weights, size), _LARGEST_SHARE)
        excess = actions @ shares.T - (self.capacity > 0)
        largest: Floats = np.maximum(self._outside_box(actions), excess.max(axis=1))
        if self.integer:
            largest = np.maximum(largest, np.abs(actions - np.rint(actions)).max(axis=1))
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {
            "weights": self.weights.copy(),
            "capacity": self.capacity.copy(),
            "integer": self.integer,
            **self._failure_spec(),
        }


def _shares(weights: Floats, capacity: Floats) -> Floats:
    """Return weights as shares of their capacity; infinity where it is 0, and 0 for next to nothing."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        shares = weights / capacity[:, None]
    return np.where(shares > _WEIGHTLESS, shares, 0.0)  # 0 / 0 is not a number, and weighs nothing


def _as_weights(value: npt.ArrayLike) -> Floats:
    weights = as_floats(value, "the weights")
    if weights.ndim not in (1, 2) or not weights.size:
        raise InputError(
            "the weights must have one entry for each item, or shape (resources, items); got an array of shape "
            f"{weights.shape}. One fixed set for all rows is supported."
        )
    if (weights < 0).any():
        raise InputError(
            f"the weights of a knapsack must not be negative; the least is {weights.min():g}. "
            "Use Polytope (fractions) or MixedInteger (whole items) for constraints of any sign."
        )
    return np.atleast_2d(weights) + 0.0  # negative zero is zero


def _as_capacity(value: npt.ArrayLike, resources: int) -> Floats:
    capacity = as_floats(value, "the capacity")
    if capacity.shape not in ((), (resources,)):
        raise InputError(
            f"the capacity must be a number, or have one entry for each of the {resources} resources; got an array of "
            f"shape {capacity.shape}. One fixed set for all rows is supported."
        )
    if (capacity < 0).any():
        raise InputError(
            f"the capacity of a knapsack must not be negative; got {capacity.min():g}. Not even taking nothing would "
            "fit. Use Polytope or MixedInteger for constraints of any sign."
        )
    return np.broadcast_to(capacity + 0.0, (resources,)).copy()  # a weight is divided by it: negative zero is zero
