"""Knapsacks: items to take, whole or in fractions, as long as they fit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, make_kernel
from optensemble._core.validation import as_floats
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved, run_kernel, try_again
from optensemble.feasible._binding import (
    BINDS,
    MOST_NAMED,
    name_broken_bounds,
    name_constraint,
    name_entries,
    name_excess,
    name_fractions,
)
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._bounds import as_dimension
from optensemble.feasible._nearest_whole import nearest_of_zeros_and_ones
from optensemble.feasible._row_parameters import RowParameter, from_rows, row_parameters
from optensemble.feasible._solvers.density import FIT, WEIGHTLESS, fill_by_density
from optensemble.feasible._solvers.knapsack import choose_items, table_size
from optensemble.feasible._solvers.knapsack_core import choose_from_core
from optensemble.feasible._solvers.nearest import nearest_points
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.polytope import Polytope

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
    - Whole items: branch and bound for one resource; for several, and for hard rows of one, dynamic programming. Both
      go over the items whose choice is in doubt, with bounds from a price for each resource. Choices whose values
      differ by less than 1e-14 of the sum of the positive coefficients are tied, and by more than 1e-12 of it they are
      not. Of tied choices the one with the earlier items wins: with item 0 if any of them has it, then with item 1, and
      so on. Rows of half a million undominated states or more are solved by HiGHS, like a :class:`MixedInteger`, with
      its tie rule; expect them, and to wait for them, where the coefficients are nearly a fixed function of many
      unequal weights.

    Parameters
    ----------
    weights
        The amount of the resource that each item needs, or of each resource, of shape (resources, dimension); none
        negative. By row as ``Columns`` or a callable of X, row by row of the matrix if there are several resources.
    capacity
        The amount of each resource that there is, or one by row; not negative.
    integer
        Whether items are taken whole or not at all.
    upper
        How much of each item there is, or by row: a number, or one for each item, none negative. Of whole items 0 or 1.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    weights, capacity, integer
        As given, with one row of weights and one capacity for each resource; None for what comes from the row.

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
        weights: Any,
        capacity: Any,
        integer: bool = False,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
        *,
        upper: Any = 1.0,
        dimension: int | None = None,
    ) -> None:
        if not isinstance(integer, bool | np.bool_):
            raise InputError(
                f"integer must be True (items are taken whole) or False (fractions are allowed); got {integer!r}. "
                "Where only some items are whole, use MixedInteger."
            )
        self.integer = bool(integer)
        resources, d = _find_shape(weights, capacity, dimension)
        self.parameters = row_parameters(weights=(weights, (resources, d)), capacity=(capacity, (resources,)))
        self.weights: Any = None if from_rows(weights) else _as_weights(weights)
        self.capacity: Any = None if from_rows(capacity) else _as_capacity(capacity, resources)
        self._set_row_bounds(0.0, upper, d)
        if not self._bounds_vary() and not _are_amounts(self.upper, self.integer).all():
            raise InputError(f"upper {_rule_of_amounts(self.integer)}; got {self.upper.tolist()}.")
        self._polytope: Polytope | None = None
        if self.integer:
            if self._has_lists:
                self.kernel = self._make_core_kernel() if resources == 1 else self._list_kernel
        elif resources == 1:
            self.kernel = make_kernel(fill_by_density, self._fixed())
        else:
            self._polytope = self._as_polytope()
            self.kernel = self._polytope.kernel
        self._set_failure(on_failure, fallback)

    @property
    def dear(self) -> bool:
        """Whether solves take long: sorting many items does, too."""
        return True

    @property
    def convex(self) -> bool:
        """Whether every mixture of actions is one: of fractions."""
        return not self.integer

    @property
    def resources(self) -> int:
        """The number of resources."""
        given = self.weights if self.weights is not None else next(p for p in self.parameters if p.name == "weights")
        return int(given.shape[0])

    @property
    def _has_lists(self) -> bool:
        """Whether lists of states find room in memory."""
        return table_size(self.dimension, self.resources) <= _MOST_TABLE

    def _make_core_kernel(self) -> Kernel:
        """Return the kernel for whole items of one resource, which gives hard rows up."""
        return make_kernel(choose_from_core, self._fixed(), rows_at_once=max(1, (1 << 18) // self.dimension))

    @cached_property
    def _list_kernel(self) -> Kernel:
        """The kernel for whole items of several resources, and for hard rows; compiled when it is needed."""
        # Hard rows take milliseconds, and an interrupt waits for all rows at once.
        rows_at_once = max(1, (4096 if self.resources == 1 else 512) // self.dimension)
        return make_kernel(choose_items, self._fixed(), ints=[self.resources], rows_at_once=rows_at_once)

    def _as_polytope(self) -> Polytope:
        if self.weights is None:
            raise InputError(
                "weights by row are for one resource, or for whole items; got several resources and fractions. Use "
                "feasible.Oracle(function, rows=True) with a solver of your own, or feasible.ByKey if the rows have "
                "few different weights."
            )
        capacity = self._argument("capacity", self.capacity)
        upper = self._argument("upper", None if self._bounds_vary() else self.upper)
        return Polytope(A_ub=self.weights, b_ub=capacity, upper=upper)

    @property
    def _own_capacity_alone(self) -> bool:
        """Whether nothing but the capacity comes from the row, and the kernel makes shares of weights itself."""
        return self.resources == 1 and not self.integer and [each.name for each in self.parameters] == ["capacity"]

    def _fixed(self) -> list[Floats]:
        """Return the kernel's data that all rows share."""
        if self._own_capacity_alone:
            return [self.weights, self.upper]
        if self.varies:
            return []
        return [self._lay_out(self.weights[None], self.capacity[None], self.upper[None])]

    def _pack(self) -> Floats:
        if self._polytope is not None:
            return self._polytope.bind(self.values)._pack()
        if self._own_capacity_alone:
            return np.ascontiguousarray(self.values)
        n, (_, upper) = len(self.values), self._row_box()
        weights, capacity = (
            self._of_rows(name) if fixed is None else np.broadcast_to(fixed, (n, *fixed.shape))
            for name, fixed in (("weights", self.weights), ("capacity", self.capacity))
        )
        return self._lay_out(weights, capacity, np.broadcast_to(upper, (n, self.dimension)))

    def _lay_out(self, weights: Floats, capacity: Floats, upper: Floats) -> Floats:
        """Return the shares of the capacities that all there is of each item needs, and how much there is of it."""
        shares = _shares(weights, capacity)
        if not self.integer:
            with np.errstate(invalid="ignore"):  # none of an item that never fits weighs nothing
                whole = shares[:, 0] * upper
            return np.concatenate([np.where(whole > WEIGHTLESS, whole, 0.0), upper], axis=1)
        never = (shares > 1.0 + FIT).any(axis=1) | (upper < 1.0)
        shares = np.where(never[:, None], np.inf, shares)
        return np.ascontiguousarray(shares.transpose(0, 2, 1)).reshape(len(shares), -1)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        for name in ("weights", "capacity"):
            if self._varies_in(name) and (negative := self._of_rows(name) < 0).any():
                yield Fault(name, negative, "of a knapsack must not be negative")
        if self._varies_in("upper") and (wrong := ~_are_amounts(self._of_rows("upper"), self.integer)).any():
            yield Fault("upper", wrong, _rule_of_amounts(self.integer))

    def _argmax(self, coefficients: Floats) -> Floats:
        if self._polytope is not None:
            polytope = self._polytope.bind(self.values) if self.varies else self._polytope
            return polytope._argmax(coefficients)
        if self.resources > 1 or not self._has_lists:
            return self._by_highs(coefficients)
        actions, status = run_kernel(self._list_kernel, coefficients, own=self._own())
        failed = np.flatnonzero(status)
        if failed.size:
            try_again(self.take(failed)._by_highs, coefficients, actions, failed)
        return actions

    def _by_highs(self, coefficients: Floats) -> Floats:
        """Solve rows of whole items that are too hard for the kernels."""
        # Items that gain nothing must not be taken, even where they weigh nothing.
        costs = np.where(coefficients > 0, coefficients, -np.abs(coefficients).max(axis=1, keepdims=True))
        if not self.varies:
            exact = MixedInteger(A_ub=self.weights, b_ub=self.capacity, upper=self.upper, node_limit=_NODES)
            return exact._argmax(costs)
        actions, reasons = np.zeros_like(costs), dict[int, str]()
        for row in range(len(costs)):
            try:
                actions[row] = self.of_row(row)._by_highs(costs[row : row + 1])[0]
            except Unsolved as unsolved:
                reasons[row] = unsolved.reasons[0]
        if reasons:
            raise Unsolved(actions, reasons)
        return actions

    def _shares_used(self) -> tuple[Floats, Floats]:
        """Return what a unit of each item uses of each capacity, and how much may be used: 1, or 0 of a capacity of 0.

        Both are of every row, or in one row if all share them.
        """
        weights = self._of_rows("weights") if self.weights is None else self.weights[None]
        capacity = self._of_rows("capacity") if self.capacity is None else self.capacity[None]
        size = np.where(capacity > 0, capacity, weights.max(axis=2))
        return np.minimum(_shares(weights, size), _LARGEST_SHARE), (capacity > 0).astype(np.float64)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest excess over a bound or a capacity, or the distance to whole items.

        The excess over a capacity is relative to it, or to the largest weight if it is 0.
        """
        shares, fits = self._shares_used()
        largest: Floats = np.maximum(self._outside_box(actions), (_used(shares, actions) - fits).max(axis=1))
        if self.integer:
            largest = np.maximum(largest, np.abs(actions - np.rint(actions)).max(axis=1))
        return largest

    def _project(self, actions: Floats) -> Floats:
        if self.integer:
            return nearest_of_zeros_and_ones(self, actions)
        shares, fits = self._shares_used()
        lower, upper = (np.atleast_2d(side) for side in self._row_box())
        found, _ = nearest_points(actions, shares, fits, 0, lower, upper)
        found = np.clip(found, lower, upper)
        # What rounding leaves above a capacity; less of everything is always allowed. Without BLAS: bits by row.
        used, some = (shares * found[:, None]).sum(axis=2), fits > 0.0
        found /= np.where(some, used, 0.0).max(axis=1, initial=1.0)[:, None]
        never = ((shares > 0.0) & ~some[:, :, None]).any(axis=1)
        return np.where(never, 0.0, found)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        shares, fits = self._shares_used()
        weights = self._of_rows("weights")[0] if self.weights is None else self.weights
        capacity = self._of_rows("capacity")[0] if self.capacity is None else self.capacity
        found = list[str]()
        for k in np.flatnonzero(_used(shares, action[None])[0] - fits[0] > slack).tolist():
            title, entry = ("capacity", None) if self.resources == 1 else (f"capacity[{k}]", k)
            found.append(name_excess(self, title, weights[k] @ action, ">", capacity[k], ("capacity", entry)))
        found += name_broken_bounds(self, action, slack)
        return [*found, *(name_fractions(action, slack) if self.integer else [])]

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        self._require_rows(1)
        weights = self._of_rows("weights")[0] if self.weights is None else self.weights
        capacity = self._of_rows("capacity")[0] if self.capacity is None else self.capacity
        upper = np.atleast_2d(self._row_box()[1])[0]
        left, slack = capacity - weights @ action, BINDS * np.maximum(capacity, weights.max(axis=1))
        used_up = left <= slack
        if self.integer:  # it binds if it keeps an item out
            used_up |= ((weights > left[:, None] + slack[:, None]) & (action < 0.5) & (upper > 0.5)).any(axis=1)
        found = name_entries(self, "capacity", capacity, used_up)
        if self.resources == 1 and found:
            found = [name_constraint(self, "capacity", float(capacity[0]))]
        all_taken = (action >= upper - BINDS * self.extent) & (self._varies_in("upper") | (upper != 1.0))
        return [*found, *name_entries(self, "upper", upper, all_taken)][:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        given: dict[str, Any] = {"weights": self.weights, "capacity": self.capacity}
        arguments = {name: self._argument(name, fixed) for name, fixed in given.items()} | {"integer": self.integer}
        if self.parameters or (self.upper != 1.0).any():
            arguments |= {"upper": self._bounds_spec()["upper"], "dimension": self.dimension}
        return {**arguments, **self._failure_spec()}


def _find_shape(weights: Any, capacity: Any, dimension: int | None) -> tuple[int, int]:
    """Return the numbers of resources and items."""
    if not from_rows(weights):
        found = _as_weights(weights).shape
        if dimension is not None and dimension != found[1]:
            raise InputError(f"the weights are of {found[1]} items, but dimension is {dimension}. Leave it out.")
        return found[0], found[1]
    resources = 1 if from_rows(capacity) or np.ndim(capacity) == 0 else len(capacity)
    if dimension is not None:
        return resources, as_dimension(dimension)
    known = RowParameter.unshaped("weights", weights).known_size
    if known is None or known % resources:
        raise InputError(
            "the number of items is unknown, for the weights come from the row. Give dimension=, or list the columns."
        )
    return resources, known // resources


def _are_amounts(upper: Floats, integer: bool) -> npt.NDArray[np.bool_]:
    """Return which amounts of items can be: not negative, and of whole items 0 or 1."""
    return np.isin(upper, (0.0, 1.0)) if integer else np.asarray(upper >= 0.0)


def _rule_of_amounts(integer: bool) -> str:
    return (
        "of whole items must be 0 or 1 (use MixedInteger for several of an item)" if integer else "must not be negative"
    )


def _shares(weights: Floats, capacity: Floats) -> Floats:
    """Return weights of shape (n, resources, items) as shares of capacities; infinity for 0, and 0 for nearly none."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        shares = weights / capacity[:, :, None]
    return np.where(shares > WEIGHTLESS, shares, 0.0)  # 0 / 0 is not a number, and weighs nothing


def _used(shares: Floats, actions: Floats) -> Floats:
    """Return what actions use of each capacity."""
    if len(shares) == 1:
        return np.asarray(actions @ shares[0].T, dtype=np.float64)
    return np.asarray(np.einsum("nrd,nd->nr", shares, actions), dtype=np.float64)


def _as_weights(value: npt.ArrayLike) -> Floats:
    weights = as_floats(value, "the weights")
    if weights.ndim not in (1, 2) or not weights.size:
        raise InputError(
            "the weights must have one entry for each item, or shape (resources, items); got an array of shape "
            f"{weights.shape}. If it differs between rows, give oe.Columns."
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
            f"shape {capacity.shape}. If it differs between rows, give oe.Columns."
        )
    if (capacity < 0).any():
        raise InputError(
            f"the capacity of a knapsack must not be negative; got {capacity.min():g}. Not even taking nothing would "
            "fit. Use Polytope or MixedInteger for constraints of any sign."
        )
    return np.broadcast_to(capacity + 0.0, (resources,)).copy()  # a weight is divided by it: negative zero is zero
