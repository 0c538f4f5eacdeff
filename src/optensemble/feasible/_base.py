"""The base class of all feasible sets: one batched argmax, and its contract."""

from __future__ import annotations

import copy
import operator
import os
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, wraps
from typing import Any, NamedTuple, Self, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble._core.kernel import SHARED, Kernel
from optensemble._core.suggestions import did_you_mean
from optensemble._core.validation import as_floats, describe_rows, is_finite, require_finite
from optensemble.exceptions import (
    EmptySetError,
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)
from optensemble.feasible._row_parameters import RowParameter, count_rows, from_rows, row_parameters
from optensemble.feasible._table_rows import TableRows

FEASIBILITY = 1e-7
"""Excess over a constraint, as a share of the set's extent, that still counts as inside: what solvers leave."""

FIXED = 1e-12
"""A range this small beside its bounds may be rounding, as of bounds that the constraints imply."""

_CHECKED_AT_ONCE = 1 << 20
"""Numbers that a thread checks for NaN before it takes the next piece: enough to outweigh the hand-over."""


class Unsolved(Exception):  # noqa: N818  (argmax catches it: a SolverError, or the fallback, comes out)
    """Rows of a batch that could not be solved: the actions of the batch, and for each such row the reason."""

    def __init__(self, actions: Floats, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} of {len(actions)} rows")
        self.actions, self.reasons = actions, reasons


SomeSet = TypeVar("SomeSet", bound="FeasibleSet")


def checks_actions(violation: Callable[[SomeSet, Floats], Floats]) -> Callable[[SomeSet, npt.ArrayLike], Floats]:
    """Wrap a set's ``violation``: it sees finite actions of the right shape, and all others are infinitely far out."""

    @wraps(violation)
    def checked(self: SomeSet, actions: npt.ArrayLike) -> Floats:
        batch = self._as_batch(actions, "the actions", finite=False)
        finite = np.isfinite(batch).all(axis=1)
        excess = np.full(len(batch), np.inf)
        if self.row_count is not None and len(batch) != self.row_count:
            raise InputError(f"the actions must be one for each of the {self.row_count} rows of X; got {len(batch)}.")
        judged = finite & ~self.faulty if self.row_count is not None else finite
        with np.errstate(over="ignore", invalid="ignore"):
            excess[judged] = violation(self.take(judged), batch[judged]) if not judged.all() else violation(self, batch)
        excess[np.isnan(excess)] = np.inf  # infinity less infinity: the numbers were too large
        excess[finite & ~judged] = 0.0  # nothing is known of the set of a faulty row
        return excess

    return checked


class Fault(NamedTuple):
    """Rows whose parameters make no set: a mask of rows, or of rows and entries of a parameter, and what is wrong."""

    parameter: str
    where: npt.NDArray[np.bool_]
    rule: str

    @property
    def rows(self) -> npt.NDArray[np.bool_]:
        """The rows."""
        return np.asarray(self.where.reshape(len(self.where), -1).any(axis=1))


class FeasibleSet(ABC):
    """Ω: a bounded set of actions, one for all rows or one for each, with ``argmax`` of a linear objective over it.

    The contract of :meth:`argmax`, kept by every set here and expected of every set of yours
    (:func:`optensemble.feasible.check` tries it):

    - row-independent and batch-invariant: a row's action is the same to the last bit alone, in a batch,
      in another order, on one thread or several, with a hint or without;
    - ties are broken deterministically, never by solver noise;
    - actions are feasible: their :meth:`violation` is 0 up to :attr:`tolerance`.

    The same bits are promised on one kind of processor. Another kind (other vector instructions, another BLAS kernel)
    rounds otherwise: actions agree there within :attr:`tolerance`, unless two of them are tied.

    A set only maximises, and knows nothing of labels, models or events. To write one, set the attributes
    below in ``__init__`` by :meth:`_set_bounds` and implement :meth:`_argmax`, :meth:`violation` and
    :meth:`spec`. A compiled set sets ``kernel``, and implements :meth:`_argmax` only for rows that the kernel gives up.

    A set whose parameters come from the row (:class:`~optensemble.Columns`, or a callable of X, in place of numbers) is
    *bound* to the rows in hand by :meth:`for_rows`; only then it has an argmax. Estimators do that for each batch. To
    write such a set, list its ``parameters`` in ``__init__``, read them by :meth:`_of_rows`, name what cannot be in
    :meth:`_faults`, and, for a kernel, lay them out row by row in :meth:`_pack`. If the bounds of actions are among
    them, leave out :meth:`_set_bounds`, set ``dimension``, and return each row's bounds in :meth:`_row_box`.

    Attributes
    ----------
    dimension
        The number of coordinates of an action.
    lower, upper
        A box around the set, of all rows if it differs between them. Buckets of actions are cut between these bounds.
    kernel
        The compiled solver, or None where rows are solved by other means.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.
    parameters
        The arguments that come from the row.
    """

    dimension: int
    lower: Floats
    upper: Floats
    kernel: Kernel | None = None
    on_failure: str = "raise"
    fallback: Floats | None = None
    parameters: tuple[RowParameter, ...] = ()
    _values: Floats | None = None
    _faulty: npt.NDArray[np.bool_] | None = None
    _table_rows: TableRows | None = None
    needs_table: bool = False
    """Whether it needs the rows of X themselves: what :meth:`read_rows` returns is not enough to bind it."""
    has_cost: bool = False
    """Whether acting has a known cost, so that :meth:`value` is less than ``c·a``."""

    def argmax(self, C: npt.ArrayLike, hint: npt.ArrayLike | None = None) -> Floats:
        """Return the action that maximises ``c·a`` for every row ``c`` of ``C``.

        Parameters
        ----------
        C
            Coefficients, of shape (n, dimension).
        hint
            An action for each row that may still be optimal, of the same shape: what ``argmax`` returned before the
            coefficients changed a little. It saves time where it is right, and never changes the answer.

        Returns
        -------
        Actions of the same shape, one for each row.
        """
        try:
            return self._unsettled(C, hint)
        except Unsolved as unsolved:
            actions, reasons = unsolved.actions, unsolved.reasons
        return self._settle(actions, reasons)

    def unsolved(self, C: npt.ArrayLike, X: Any = None) -> dict[int, str]:
        """Return the rows that have no set, or that :meth:`argmax` cannot solve, and for each the reason.

        The rows of X that the set is bound to let the reasons quote what is in them.
        """
        reasons = dict[int, str]()
        for fault in self._faults() if self.row_count is not None and self.faulty.any() else ():
            for row in np.flatnonzero(fault.rows).tolist():
                reasons.setdefault(row, f"{fault.parameter} {fault.rule}, and is {self._told(fault, row, X)}.")
        try:
            self._unsettled(C, None)
        except Unsolved as unsolved:
            reasons |= unsolved.reasons
        return reasons

    def took_fallback(self, actions: Floats, C: Floats) -> npt.NDArray[np.bool_]:
        """Return for each row whether its action is the fallback because the row could not be solved."""
        taken = np.zeros(len(actions), dtype=np.bool_)
        if self.fallback is not None:
            suspects = np.flatnonzero((actions == self.fallback).all(axis=1))
            taken[suspects[list(self.take(suspects).unsolved(C[suspects]))]] = True
        return taken

    def _unsettled(self, C: npt.ArrayLike, hint: npt.ArrayLike | None) -> Floats:
        """Return the actions of a batch, or raise :class:`Unsolved`."""
        coefficients = self._as_batch(C, "the coefficients")
        self._require_rows(len(coefficients))
        previous = None if hint is None else self._as_hint(hint, len(coefficients))
        if self.row_count is not None and self.faulty.any():
            return self._argmax_without_faults(coefficients, previous)
        return self._solve_batch(coefficients, previous)

    def __getattr__(self, name: str) -> Any:
        if name in ("lower", "upper") and self.parameters:
            raise AttributeError(
                f"the bounds of this {type(self).__name__} come from the row: call omega.for_rows(X), and ask what it "
                "returns."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _solve_batch(self, coefficients: Floats, hint: Floats | None) -> Floats:
        """Solve a checked batch by the kernel, if there is one, or by other means."""
        return self._argmax(coefficients) if self.kernel is None else self._by_kernel(self.kernel, coefficients, hint)

    # Rows

    @property
    def varies(self) -> bool:
        """Whether parameters of the set come from the row."""
        return bool(self.parameters)

    @property
    def row_count(self) -> int | None:
        """The number of rows that the set is bound to; None if it is one set for all rows, or not bound yet."""
        return None if self._values is None else len(self._values)

    @property
    def values(self) -> Floats:
        """The parameters of every row that the set is bound to, one after the other, of shape (rows, numbers)."""
        return SHARED if self._values is None else self._values

    @property
    def faulty(self) -> npt.NDArray[np.bool_]:
        """Which of the rows that it is bound to have parameters that make no set."""
        return np.zeros(0, dtype=np.bool_) if self._faulty is None else self._faulty

    def for_rows(self, X: Any) -> FeasibleSet:
        """Return Ω for the rows of a batch: what :meth:`argmax` and :meth:`violation` then take, row by row.

        Estimators call it once for each batch and solve with the set it returns: coefficients and actions come in the
        order of ``X``, one for each row. A set without parameters from the row returns itself and looks at no row.

        Parameters
        ----------
        X
            The rows, as the members are given them.

        Examples
        --------
        >>> import pandas as pd
        >>> from optensemble import Columns
        >>> from optensemble.feasible import Knapsack, Simplex
        >>> omega = Simplex(3)
        >>> omega.for_rows([[1.0], [2.0]]) is omega
        True
        >>> bag = Knapsack([3, 4, 5], capacity=Columns("budget"))
        >>> bag.for_rows(pd.DataFrame({"budget": [4.0, 9.0]})).argmax([[2.0, 5.0, 5.0], [2.0, 5.0, 5.0]])
        array([[0., 1., 0.],
               [0., 1., 1.]])
        """
        if not self.varies:
            return self
        bound = self.bind_again(self.read_rows(X), X)
        bound.report_faults(X)
        return bound

    def read_rows(self, X: Any) -> Floats:
        """Return the parameters of every row of X, of shape (rows, numbers)."""
        n = count_rows(X)
        return np.concatenate([parameter.read(X, n) for parameter in self.parameters], axis=1)

    @property
    def width(self) -> int:
        """How many numbers :meth:`read_rows` returns for a row."""
        return sum(parameter.size for parameter in self.parameters)

    def bind(self, values: Floats, rows: TableRows | None = None) -> Self:
        """Return the set bound to rows with these parameters, as :meth:`read_rows` returned them.

        A set that needs the table is given its rows too.
        """
        bound = copy.copy(self)
        bound._values, bound._table_rows = values, rows
        bound._faulty = np.zeros(len(values), dtype=np.bool_)
        for fault in bound._faults():
            bound._faulty |= fault.rows
        if not hasattr(self, "lower"):
            bound.lower, bound.upper = bound.box()
        return bound

    def bind_again(self, values: Floats, X: Any) -> Self:
        """Return the set bound to rows of X whose parameters were read earlier, and reported if they make no set."""
        return self.bind(values, TableRows.of(X, count_rows(X)) if self.needs_table else None)

    def take(self, rows: Any) -> Self:
        """Return the set bound to some of its rows: a slice, indices or a mask; the same set if it is not bound."""
        if self._values is None:
            return self
        part = copy.copy(self)
        part._values, part._faulty = self._values[rows], self.faulty[rows]
        part._table_rows = None if self._table_rows is None else self._table_rows.take(rows)
        return part

    def unfilled(self, n: int) -> Self:
        """Return the set with room for the parameters of ``n`` rows, to be filled in; itself if it has none."""
        if not self.varies:
            return self
        room = copy.copy(self)
        room._values = np.empty((n, self.width))
        room._faulty = np.zeros(n, dtype=np.bool_)
        room._table_rows = TableRows.unfilled(n) if self.needs_table else None
        return room

    def fill(self, bound: FeasibleSet) -> None:
        """Write the parameters of rows into the room made by :meth:`unfilled`."""
        if self._values is not None and self._faulty is not None:
            self._values[:], self._faulty[:] = bound.values, bound.faulty
        if self._table_rows is not None and bound._table_rows is not None:
            self._table_rows.fill(bound._table_rows)

    def reorder(self, rows: slice, order: Indices) -> None:
        """Put the parameters of the rows ``order`` in the place of ``rows``: for who owns them."""
        if self._values is not None and self._faulty is not None:
            self._values[rows], self._faulty[rows] = self._values[order], self._faulty[order]
        if self._table_rows is not None:
            self._table_rows.reorder(rows, order)

    def joined(self, bound: Sequence[FeasibleSet]) -> Self:
        """Return the set bound to the rows of several, which are it bound to some rows each, one after the other."""
        if self._values is None:
            return self
        whole = copy.copy(self)
        whole._values = np.concatenate([each.values for each in bound])
        whole._faulty = np.concatenate([each.faulty for each in bound])
        tables = [each._table_rows for each in bound if each._table_rows is not None]
        whole._table_rows = TableRows.joined(tables) if tables else None
        return whole

    def of_row(self, row: int) -> FeasibleSet:
        """Return the set of one of the rows that this one is bound to, as a set of its own for all rows."""
        arguments = self.spec()
        if arguments is None or not self.varies:
            return self
        return type(self)(**arguments | self._arguments_of(row))

    def _arguments_of(self, row: int) -> dict[str, Any]:
        """Return the arguments that come from the row as they are in one row."""
        return {each.name: self._of_rows(each.name)[row] for each in self.parameters}

    def enveloped(self, lower: Floats, upper: Floats) -> Self:
        """Return the set with a box that holds the actions of all rows to come, or nearly all."""
        if not self.open_bounds:
            return self
        known = copy.copy(self)
        known.lower, known.upper = lower.copy(), upper.copy()
        return known

    @property
    def open_bounds(self) -> bool:
        """Whether bounds of the actions come from the row, so that only rows tell the box around them."""
        return self._bounds_vary()

    def box(self) -> tuple[Floats, Floats]:
        """Return the smallest box around the sets of all rows it is bound to; faulty ones do not count."""
        if not self.open_bounds:
            return self.lower, self.upper
        lower, upper = (np.broadcast_to(side, (len(self.values), self.dimension)) for side in self._row_box())
        sound = ~self.faulty
        if not sound.any():
            return np.zeros(self.dimension), np.ones(self.dimension)
        return lower[sound].min(axis=0) + 0.0, upper[sound].max(axis=0) + 0.0

    def row_bounds(self) -> tuple[Floats, Floats]:
        """Return the bounds of the actions: of every row that the set is bound to, if they come from the row."""
        return self._row_box()

    def beyond(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its own bounds go beyond ``lower`` and ``upper``."""
        if self.row_count is None or not self.open_bounds:
            return np.zeros(self.row_count or 0, dtype=np.bool_)
        (lower, upper), slack = self._row_box(), FEASIBILITY * (self.upper - self.lower)
        outside = (lower < self.lower - slack) | (upper > self.upper + slack)
        return np.broadcast_to(outside, (self.row_count, self.dimension)).any(axis=1) & ~self.faulty

    def _of_rows(self, name: str) -> Floats:
        """Return a parameter of every row that the set is bound to, of shape (rows, ...)."""
        start = 0
        for parameter in self.parameters:
            if parameter.name == name:
                part = self.values[:, start : start + parameter.size]
                return part.reshape(len(part), *parameter.shape)
            start += parameter.size
        raise KeyError(name)

    def _argument(self, name: str, fixed: Any) -> Any:
        """Return an argument for ``spec``: as it comes from the row, or the fixed value."""
        given = {parameter.name: parameter.value for parameter in self.parameters}
        return given.get(name, fixed)

    def _varies_in(self, name: str) -> bool:
        """Return whether an argument comes from the row."""
        return any(parameter.name == name for parameter in self.parameters)

    def _pack(self) -> Floats:
        """Lay out the parameters of the rows that the set is bound to as the kernel takes them, a row each."""
        return np.ascontiguousarray(self.values)

    def _pack_bounds(self) -> Floats:
        """Lay out the lower and then the upper bounds of each row."""
        return np.concatenate(
            [np.broadcast_to(side, (len(self.values), self.dimension)) for side in self._row_box()], axis=1
        )

    @property
    def bound_kernel(self) -> Kernel | None:
        """The kernel with the parameters of all rows; None where it cannot be used without this set.

        Rows of a cost are assessed by this set alone, and rows that are faulty must not be solved.
        """
        if self.kernel is None or self.has_cost or self.faulty.any() or (self.varies and self.row_count is None):
            return None
        return self.kernel if self._values is None else self.kernel._replace(own=self._pack())

    def _faults(self) -> Iterator[Fault]:
        """Go through what is wrong with the parameters of rows."""
        for parameter in self.parameters:
            found = self._of_rows(parameter.name)
            if not is_finite(found):
                yield Fault(parameter.name, ~np.isfinite(found), "must be a finite number")
        if self._bounds_vary():
            lower, upper = self._row_box()
            crossed = np.broadcast_to(lower > upper, (len(self.values), self.dimension))
            if crossed.any():
                first = "lower" if self._varies_in("lower") else "upper"
                yield Fault(first, crossed, f"must not be {'above upper' if first == 'lower' else 'below lower'}")

    def report_faults(self, X: Any = None) -> None:
        """Name the rows that it is bound to whose parameters make no set: as an error, or a warning with a fallback."""
        if not self.faulty.any():
            return
        fault = next(self._faults())
        found, named, rows = self._describe(fault, X)
        if self.on_failure == "fallback":
            taken = f"{self.faulty.sum()} of {self.row_count} rows have no set and take the fallback action"
            warnings.warn(f"{taken}: {found}", FallbackWarning, stacklevel=3)
            return
        error = InputError(
            f"{found} Correct these rows, leave them out, or let them take a given action by on_failure='fallback'."
        )
        error.rows = named, int(rows[0]), len(rows)
        raise error

    def _describe(self, fault: Fault, X: Any) -> tuple[str, str, Indices]:
        """Return what is wrong, where and what is found there, in words; and the rows, in words and numbers."""
        rows = np.flatnonzero(fault.rows)
        named, first = f"{describe_rows(rows)} of {self.row_count}", int(rows[0])
        told = f"{fault.parameter} {fault.rule}; in {named} it is {self._told(fault, first, X)}."
        return told + self._suggestion(fault, first, X), named, rows

    def _told(self, fault: Fault, row: int, X: Any) -> str:
        """Return the value at fault in one row, and where it comes from."""
        parameter, entry = self._at_fault(fault, row)
        title = parameter.titles(X)[entry]
        value = self._of_rows(parameter.name)[row].ravel()[entry]
        shown = parameter.raw(X, row, entry) if X is not None else f"{value:g}"
        return f"{shown} ({title})" if title else str(shown)

    def _suggestion(self, fault: Fault, row: int, X: Any) -> str:
        """Return the known label that is nearest to an unknown one, as a question."""
        parameter, entry = self._at_fault(fault, row)
        if parameter.codes is None or X is None or np.isfinite(self._of_rows(parameter.name)[row].ravel()[entry]):
            return ""
        return did_you_mean(parameter.raw(X, row, entry).strip("'"), [str(label) for label in parameter.codes])

    def _at_fault(self, fault: Fault, row: int) -> tuple[RowParameter, int]:
        """Return the parameter that is at fault in a row, and the number of its first wrong entry."""
        parameter = next(each for each in self.parameters if each.name == fault.parameter)
        wrong = np.broadcast_to(fault.where.reshape(len(fault.where), -1)[row], (parameter.size,))
        return parameter, int(wrong.argmax())

    def _argmax_without_faults(self, coefficients: Floats, hint: Floats | None) -> Floats:
        """Solve the rows whose parameters make a set; the others, reported when they were bound, take the fallback."""
        sound, actions = np.flatnonzero(~self.faulty), np.empty_like(coefficients)
        if self.fallback is None:
            self.report_faults()
        actions[self.faulty] = self.fallback
        try:
            actions[sound] = self.take(sound)._solve_batch(coefficients[sound], None if hint is None else hint[sound])
        except Unsolved as unsolved:
            actions[sound] = unsolved.actions
            raise Unsolved(actions, {int(sound[row]): why for row, why in unsolved.reasons.items()}) from unsolved
        return actions

    def _require_rows(self, n: int) -> None:
        if not self.varies:
            return
        if self.row_count is None:
            names = ", ".join(parameter.name for parameter in self.parameters)
            raise InputError(
                f"{names} of this {type(self).__name__} come{'s' if len(self.parameters) == 1 else ''} from the row, "
                "which it is not bound to yet. Call omega.for_rows(X), and take what it returns."
            )
        if n != self.row_count:
            raise InputError(
                f"the coefficients must have one row for each of the {self.row_count} rows of X that the set is bound "
                f"to; got {n}."
            )

    # Payoffs

    def cost(self, actions: Floats) -> Floats:
        """Return the known cost of each action, in the row it is taken in; 0 unless the set is a ``WithCost``."""
        return np.zeros(len(actions))

    def value(self, actions: Floats, coefficients: Floats) -> Floats:
        """Return what each action is worth under coefficients, ``c·a`` less the known cost: what argmax maximises."""
        gross: Floats = row_dots(np.ascontiguousarray(actions), np.ascontiguousarray(coefficients))
        return gross - self.cost(actions) if self.has_cost else gross

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        return []

    def explain_binding(self, row: int, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of a row, or that the row has no set and takes the fallback."""
        alone = self.take(slice(row, row + 1))
        if alone.row_count is not None and alone.faulty.any():
            return ["the row has no set of its own, and takes the fallback action"]
        return alone.binding(action)

    def _argmax(self, coefficients: Floats) -> Floats:
        """Solve a checked batch of shape (n, dimension); raise :class:`Unsolved` if some rows cannot be solved."""
        raise NotImplementedError(f"{type(self).__name__} has neither a kernel nor an _argmax.")

    def _as_batch(self, C: npt.ArrayLike, name: str, *, finite: bool = True) -> Floats:
        batch = as_floats(C, name, ndim=2, finite=False)
        if batch.shape[1] != self.dimension:
            raise InputError(
                f"{name} must have {self.dimension} columns, one for each coordinate of the "
                f"actions; got an array of shape {batch.shape}."
            )
        if finite:
            refuse_nan(batch, name)
        return batch

    def _as_hint(self, hint: npt.ArrayLike, n: int) -> Floats:
        actions = self._as_batch(hint, "the hint")
        if len(actions) != n:
            raise InputError(f"the hint must have one action for each of the {n} rows; got {len(actions)}.")
        return actions

    def _by_kernel(self, kernel: Kernel, coefficients: Floats, hint: Floats | None) -> Floats:
        actions, status = run_kernel(kernel, coefficients, hint, self._own())
        failed = np.flatnonzero(status)
        if failed.size and type(self)._argmax is not FeasibleSet._argmax:
            try_again(self.take(failed)._argmax, coefficients, actions, failed)
        elif failed.size:
            raise Unsolved(actions, {int(row): self._diagnosis(int(status[row])) for row in failed})
        return actions

    def _own(self) -> Callable[[slice], Floats] | None:
        """Return how a kernel gets the parameters of some rows; None if all rows share one set."""
        return None if self._values is None else lambda rows: self.take(rows)._pack()

    def _diagnosis(self, status: int) -> str:
        """Return the meaning of a kernel's status other than 0, and its likely cause."""
        return f"its kernel ended with status {status}."

    def _settle(self, actions: Floats, reasons: dict[int, str]) -> Floats:
        """Raise an error that names the first unsolved row, or give them all the fallback action and warn."""
        rows = np.array(sorted(reasons))
        told = self._row_told(int(rows[0])) if self.row_count is not None else ""
        first = f"row {rows[0]} could not be solved: {reasons[int(rows[0])]} {told}".rstrip()
        if self.on_failure == "raise":
            error = SolverError(first)
            error.rows = f"row {rows[0]}", int(rows[0]), 1
            raise error
        warnings.warn(
            f"{len(rows)} of {len(actions)} rows could not be solved and took the fallback action; {first}",
            FallbackWarning,
            stacklevel=3,
        )
        actions[rows] = self.fallback
        return actions

    def _row_told(self, row: int) -> str:
        """Return the parameters of one row in words."""
        shown = list[str]()
        for parameter in self.parameters:
            values = self._of_rows(parameter.name)[row].ravel()
            titles = [title or "fixed" for title in parameter.titles()]
            shown += [f"{parameter.name} = {value:g} ({title})" for value, title in zip(values, titles, strict=True)]
        if not shown:
            return ""
        more = f" and {len(shown) - 4} more" if len(shown) > 4 else ""
        return f"This row has {', '.join(shown[:4])}{more}."

    def _set_failure(self, on_failure: str, fallback: npt.ArrayLike | None) -> None:
        """Validate and keep what to do with unsolved rows; call it last, because the fallback must lie in the set."""
        if on_failure not in ("raise", "fallback"):
            raise InputError(f"on_failure must be 'raise' or 'fallback'; got {on_failure!r}.")
        if (on_failure == "fallback") != (fallback is not None):
            raise InputError(
                f"on_failure={on_failure!r} and fallback={'None' if fallback is None else '...'} do not go together. "
                "Give on_failure='fallback' with the action to take as fallback=, or neither."
            )
        self.on_failure = on_failure
        if fallback is not None:
            action = self._as_batch(np.atleast_2d(np.asarray(fallback)), "the fallback action")
            if len(action) != 1:
                raise InputError(f"the fallback must be one action; got {len(action)}. All rows take the same.")
            if not np.isfinite(action).all():
                raise InputError(f"the fallback action must be finite; got {action[0]}.")
            # A set that differs between rows cannot tell; the user says that the action is always allowed.
            excess = 0.0 if self.varies else float(self.violation(action)[0])
            if not (self.varies or excess <= self.tolerance):
                raise InfeasibleActionError(
                    f"the fallback action must lie inside the set; it is outside by {excess:.3g}. Give an action "
                    "that is always allowed, such as doing nothing."
                )
            self.fallback = action[0] + 0.0  # negative zero is zero

    def _failure_spec(self) -> dict[str, Any]:
        """Return the arguments about failure, for ``spec``."""
        return {"on_failure": self.on_failure, "fallback": None if self.fallback is None else self.fallback.copy()}

    def _failure_spec_if_any(self) -> dict[str, Any]:
        """Return the same of a set that is saved without them, unless it has a fallback."""
        return self._failure_spec() if self.on_failure == "fallback" else {}

    @abstractmethod
    def violation(self, actions: Floats) -> Floats:
        """Return the distance of each row from the set: 0 inside, the largest excess over a constraint otherwise.

        Rounding may leave an action of the set's own outside, but by no more than :attr:`tolerance`. An action with
        NaN or infinity is outside by infinity.
        """

    @abstractmethod
    def spec(self) -> dict[str, Any] | None:
        """Return the keyword arguments that make this set again, or None if they cannot be saved."""

    def _set_bounds(self, lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> None:
        self.dimension = dimension
        self.lower, self.upper = as_bounds(lower, upper, dimension)
        unbounded = np.flatnonzero(~np.isfinite(self.lower) | ~np.isfinite(self.upper))
        if unbounded.size:
            raise UnboundedSetError(
                f"every coordinate of the actions must be bounded; coordinate {unbounded[0]} lies in "
                f"[{self.lower[unbounded[0]]:g}, {self.upper[unbounded[0]]:g}]. Give finite lower= and "
                "upper=."
            )

    def _set_row_bounds(self, lower: Any, upper: Any, dimension: int) -> None:
        """Keep bounds of which some may come from the row; then each row's are in :meth:`_row_box`."""
        self.parameters += row_parameters(lower=(lower, (dimension,)), upper=(upper, (dimension,)))
        if not self._bounds_vary():
            self._set_bounds(lower, upper, dimension)
            return
        self.dimension = dimension
        self._fixed_bounds = tuple(
            None if from_rows(given) else _as_bound(given, name, dimension)
            for name, given in (("lower", lower), ("upper", upper))
        )
        for name, bound in zip(("lower", "upper"), self._fixed_bounds, strict=True):
            if bound is not None and not np.isfinite(bound).all():
                raise UnboundedSetError(f"{name} must be finite where the other bound comes from the row.")

    def _bounds_vary(self) -> bool:
        """Whether bounds of the actions come from the row."""
        return any(parameter.name in ("lower", "upper") for parameter in self.parameters)

    def _row_box(self) -> tuple[Floats, Floats]:
        """Return the bounds of the actions, of shape (dimension,), or of every row, of shape (rows, dimension)."""
        if not self._bounds_vary() or self.row_count is None:
            return self.lower, self.upper
        lower, upper = (
            self._of_rows(name) if fixed is None else fixed
            for name, fixed in zip(("lower", "upper"), self._fixed_bounds, strict=True)
        )
        return lower, upper

    def _bounds_spec(self) -> dict[str, Any]:
        """Return the bounds as arguments that make them again."""
        if not self._bounds_vary():
            return {"lower": self.lower.copy(), "upper": self.upper.copy()}
        sides = zip(("lower", "upper"), self._fixed_bounds, strict=True)
        return {name: self._argument(name, bound) for name, bound in sides}

    @property
    def extent(self) -> float:
        """The largest range of a coordinate, or the largest coordinate where all are fixed: the scale of "small"."""
        width, size = self.upper - self.lower, np.maximum(np.abs(self.lower), np.abs(self.upper))
        return float(width[width > FIXED * size].max(initial=0.0) or size.max() or 1.0)

    @property
    def tolerance(self) -> float:
        """The largest :meth:`violation` that counts as inside: 1e-7 of the :attr:`extent`."""
        return FEASIBILITY * self.extent

    @property
    def span(self) -> float:
        """The ranges of the coordinates, summed: the place of ``d`` beside ``w`` in the paper's bounds."""
        return float((self.upper - self.lower).sum())

    @property
    def reach(self) -> float:
        """The largest magnitudes of the coordinates, summed: the place of ``d`` beside ``alpha`` in the bounds."""
        return float(np.maximum(np.abs(self.lower), np.abs(self.upper)).sum())

    def _outside_box(self, actions: Floats) -> Floats:
        """Return the distance of each row from the box of the bounds."""
        lower, upper = self._row_box()
        excess = np.maximum(lower - actions, actions - upper)
        outside: Floats = np.maximum(excess.max(axis=1), 0.0)
        return outside

    def __repr__(self) -> str:
        by_row = "".join(f", {parameter.name} by row" for parameter in self.parameters)
        return f"{type(self).__name__}(dimension={self.dimension}{by_row})"


def try_again(solve: Callable[[Floats], Floats], coefficients: Floats, actions: Floats, failed: Indices) -> None:
    """Solve the rows that a kernel gave up by other means, and write their actions among the others."""
    try:
        actions[failed] = solve(coefficients[failed])
    except Unsolved as unsolved:
        actions[failed] = unsolved.actions
        raise Unsolved(actions, {int(failed[row]): why for row, why in unsolved.reasons.items()}) from unsolved


def run_kernel(
    kernel: Kernel, coefficients: Floats, hint: Floats | None = None, own: Callable[[slice], Floats] | None = None
) -> tuple[Floats, Indices]:
    """Solve a batch by a kernel on all threads; return the actions and the status of each row.

    ``own`` returns the parameters of some rows, where rows have their own.
    """
    coefficients = np.require(coefficients, np.float64, ["C", "W"])  # read-only arrays would compile again
    actions, status = np.empty_like(coefficients), np.zeros(len(coefficients), dtype=np.int64)

    def solve(start: int) -> None:
        rows = slice(start, start + kernel.rows_at_once)
        if hint is not None:
            actions[rows] = hint[rows]
        parameters = SHARED if own is None else own(rows)
        kernel(coefficients[rows], hint is not None, actions[rows], status[rows], parameters)

    share(solve, range(0, len(coefficients), kernel.rows_at_once))
    return actions, status


def refuse_nan(batch: Floats, name: str) -> None:
    """Raise ``InputError`` on NaN and infinity; large batches are checked on all threads."""
    rows, found = _CHECKED_AT_ONCE // batch.shape[1] + 1, list[int]()

    def look(start: int) -> None:
        if not is_finite(batch[start : start + rows]):
            found.append(start)

    share(look, range(0, len(batch), rows))
    if found:
        require_finite(batch, name)


def share(work: Callable[[int], None], pieces: Sequence[int]) -> None:
    """Do pieces of work that release the GIL on all threads; an interrupt ends after the pieces that have begun."""
    todo = iter(pieces)

    def work_on() -> None:
        for piece in todo:
            work(piece)

    others = min(numba.get_num_threads(), len(pieces)) - 1
    helpers = [_helpers(os.getpid()).submit(work_on) for _ in range(others)]
    try:
        work_on()
    finally:
        deque(todo, maxlen=0)  # empties the iterator: no thread finds another piece
        wait(helpers)
    for helper in helpers:
        helper.result()


@cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Return the pool of helping threads; a forked process makes its own, for threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="optensemble")


def as_dimension(value: Any) -> int:
    """Return a number of coordinates as a positive int, or raise ``InputError``."""
    try:
        dimension = operator.index(value)
    except TypeError as error:
        raise InputError(f"dimension must be a positive integer; got {value!r}.") from error
    if dimension < 1:
        raise InputError(f"dimension must be at least 1; got {dimension}.")
    return dimension


def bound_length(lower: Any, upper: Any) -> int | None:
    """Return the length of the bounds that are arrays; None if both are numbers."""
    lengths = list[int]()
    for name, bound in (("lower", lower), ("upper", upper)):
        if from_rows(bound):
            known = RowParameter.unshaped(name, bound).known_size
            lengths += [known] if known is not None and known > 1 else []
        elif np.ndim(bound) == 1:
            lengths.append(len(np.asarray(bound)))
    return max(lengths, default=None)


def as_bounds(lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> tuple[Floats, Floats]:
    """Return both bounds as arrays of the given length, possibly infinite, with ``lower <= upper``."""
    low, high = _as_bound(lower, "lower", dimension), _as_bound(upper, "upper", dimension)
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        j = crossed[0]
        raise EmptySetError(
            f"no action is feasible: coordinate {j} has lower bound {low[j]:g} above its upper bound "
            f"{high[j]:g}. Check lower= and upper= (upper is 1 unless given)."
        )
    return low, high


def _as_bound(value: npt.ArrayLike, name: str, dimension: int) -> Floats:
    try:
        bound = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numeric; got {value!r}.") from error
    if bound.shape not in ((), (dimension,)):
        raise InputError(
            f"{name} must be a number or have one entry for each of the {dimension} coordinates; "
            f"got an array of shape {bound.shape}. If it differs between rows, give oe.Columns."
        )
    if np.isnan(bound).any():
        raise InputError(f"{name} must not hold NaN. Use -inf or inf where only the constraints bound a coordinate.")
    return np.broadcast_to(bound + 0.0, (dimension,)).copy()  # negative zero is zero
