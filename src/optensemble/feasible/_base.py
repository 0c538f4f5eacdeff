"""The base class of all feasible sets: one batched argmax, and its contract."""

from __future__ import annotations

import operator
import os
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, wraps
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel
from optensemble._core.validation import as_floats, is_finite, require_finite
from optensemble.exceptions import (
    EmptySetError,
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)

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
        with np.errstate(over="ignore", invalid="ignore"):
            excess[finite] = violation(self, batch if finite.all() else batch[finite])
        excess[np.isnan(excess)] = np.inf  # infinity less infinity: the numbers were too large
        return excess

    return checked


class FeasibleSet(ABC):
    """Ω: a fixed, bounded set of actions, with ``argmax`` of a linear objective over it.

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

    Every set here is one set for all rows. Estimators call :meth:`for_rows` for each batch nevertheless, so that a set
    which differs from row to row can be bound to the rows in hand.

    Attributes
    ----------
    dimension
        The number of coordinates of an action.
    lower, upper
        A box around the set. Buckets of actions are cut between these bounds.
    kernel
        The compiled solver, or None where rows are solved by other means.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.
    """

    dimension: int
    lower: Floats
    upper: Floats
    kernel: Kernel | None = None
    on_failure: str = "raise"
    fallback: Floats | None = None

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
        coefficients = self._as_batch(C, "the coefficients")
        previous = None if hint is None else self._as_hint(hint, len(coefficients))
        try:
            if self.kernel is not None:
                return self._by_kernel(self.kernel, coefficients, previous)
            return self._argmax(coefficients)
        except Unsolved as unsolved:
            actions, reasons = unsolved.actions, unsolved.reasons
        return self._settle(actions, reasons)

    def for_rows(self, X: Any) -> FeasibleSet:
        """Return Ω for the rows of a batch: what :meth:`argmax` and :meth:`violation` then take, row by row.

        Estimators call it once for each batch and solve with the set it returns: coefficients and actions come in the
        order of ``X``, one for each row. A fixed set, as all of this package's are, returns itself and looks at no row.
        A set that differs from row to row overrides this; the set that it returns must have the same dimension and
        the same box of ``lower`` and ``upper``, between which the buckets of actions are cut.

        Parameters
        ----------
        X
            The rows, as the members are given them.

        Examples
        --------
        >>> from optensemble.feasible import Simplex
        >>> omega = Simplex(3)
        >>> omega.for_rows([[1.0], [2.0]]) is omega
        True
        """
        return self

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
        actions, status = run_kernel(kernel, coefficients, hint)
        failed = np.flatnonzero(status)
        if failed.size and type(self)._argmax is not FeasibleSet._argmax:
            try_again(self._argmax, coefficients, actions, failed)
        elif failed.size:
            raise Unsolved(actions, {int(row): self._diagnosis(int(status[row])) for row in failed})
        return actions

    def _diagnosis(self, status: int) -> str:
        """Return the meaning of a kernel's status other than 0, and its likely cause."""
        return f"its kernel ended with status {status}."

    def _settle(self, actions: Floats, reasons: dict[int, str]) -> Floats:
        """Raise an error that names the first unsolved row, or give them all the fallback action and warn."""
        rows = np.array(sorted(reasons))
        first = f"row {rows[0]} could not be solved: {reasons[int(rows[0])]}"
        if self.on_failure == "raise":
            raise SolverError(first)
        warnings.warn(
            f"{len(rows)} of {len(actions)} rows could not be solved and took the fallback action; {first}",
            FallbackWarning,
            stacklevel=3,
        )
        actions[rows] = self.fallback
        return actions

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
            excess = float(self.violation(action)[0])
            if not excess <= self.tolerance:
                raise InfeasibleActionError(
                    f"the fallback action must lie inside the set; it is outside by {excess:.3g}. Give an action "
                    "that is always allowed, such as doing nothing."
                )
            self.fallback = action[0] + 0.0  # negative zero is zero

    def _failure_spec(self) -> dict[str, Any]:
        """Return the arguments about failure, for ``spec``."""
        return {"on_failure": self.on_failure, "fallback": None if self.fallback is None else self.fallback.copy()}

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
        excess = np.maximum(self.lower - actions, actions - self.upper)
        outside: Floats = np.maximum(excess.max(axis=1), 0.0)
        return outside

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dimension={self.dimension})"


def try_again(solve: Callable[[Floats], Floats], coefficients: Floats, actions: Floats, failed: Indices) -> None:
    """Solve the rows that a kernel gave up by other means, and write their actions among the others."""
    try:
        actions[failed] = solve(coefficients[failed])
    except Unsolved as unsolved:
        actions[failed] = unsolved.actions
        raise Unsolved(actions, {int(failed[row]): why for row, why in unsolved.reasons.items()}) from unsolved


def run_kernel(kernel: Kernel, coefficients: Floats, hint: Floats | None = None) -> tuple[Floats, Indices]:
    """Solve a batch by a kernel on all threads; return the actions and the status of each row."""
    coefficients = np.require(coefficients, np.float64, ["C", "W"])  # read-only arrays would compile again
    actions, status = np.empty_like(coefficients), np.zeros(len(coefficients), dtype=np.int64)

    def solve(start: int) -> None:
        rows = slice(start, start + kernel.rows_at_once)
        if hint is not None:
            actions[rows] = hint[rows]
        kernel(coefficients[rows], hint is not None, actions[rows], status[rows])

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


def bound_length(lower: npt.ArrayLike, upper: npt.ArrayLike) -> int | None:
    """Return the length of the bounds that are arrays; None if both are numbers."""
    lengths = [len(np.asarray(bound)) for bound in (lower, upper) if np.ndim(bound) == 1]
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
            f"got an array of shape {bound.shape}. One fixed set for all rows is supported."
        )
    if np.isnan(bound).any():
        raise InputError(f"{name} must not hold NaN. Use -inf or inf where only the constraints bound a coordinate.")
    return np.broadcast_to(bound + 0.0, (dimension,)).copy()  # negative zero is zero
