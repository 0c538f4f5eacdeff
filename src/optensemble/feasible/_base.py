"""The base class of all feasible sets: one batched argmax, and its contract."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import row_dots
from optensemble._core.kernel import Kernel
from optensemble._core.validation import as_floats, require_finite
from optensemble.exceptions import (
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)
from optensemble.feasible._batches import CheckingKernel, NotFinite, Unsolved, refuse_nan, run_kernel, try_again
from optensemble.feasible._bound_rows import BoundRows
from optensemble.feasible._bounds import FEASIBILITY, FIXED, as_bounds

_MOST_NAMED = 6
"""Violated constraints that are named at most."""

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


class FeasibleSet(BoundRows):
    """Ω: a bounded set of actions, one for all rows or one for each, with ``argmax`` of a linear objective over it.

    The contract of :meth:`argmax`, kept by every set here and expected of every set of yours
    (:func:`optensemble.feasible.check` tries it):

    - row-independent and batch-invariant: a row's action is the same to the last bit alone, in a batch,
      in another order, on one thread or several, with a hint or without;
    - ties are broken deterministically, never by solver noise;
    - actions are feasible: their :meth:`violation` is 0 up to :attr:`tolerance`.

    The same bits are promised on one kind of processor. Another kind (other vector instructions, another BLAS kernel)
    rounds otherwise: actions agree there within :attr:`tolerance`, unless two of them are tied.

    :meth:`project` moves actions that are off by rounding onto the set, and :attr:`convex` says whether mixtures of
    actions are actions.

    A set only maximises, and knows nothing of labels, models or events. To write one, set the attributes
    below in ``__init__`` by :meth:`_set_bounds` and implement :meth:`_argmax`, :meth:`violation` and
    :meth:`spec`. A compiled set sets ``kernel``, and implements :meth:`_argmax` only for rows that the kernel gives up.
    If logged actions are to be moved onto it, implement :meth:`_project`. If every mixture of its actions is one, say
    so: ``convex = True`` in the class.

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
        try:
            return self._unsettled(C, hint)
        except Unsolved as unsolved:
            actions, reasons = unsolved.actions, unsolved.reasons
        return self._settle(actions, reasons)

    def try_argmax(self, C: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return the action of every row, and where there is one: rows without are no error, and take no fallback."""
        solved = np.ones(len(C), dtype=np.bool_)
        if type(self).argmax is not FeasibleSet.argmax:  # a class of the user's own
            return self.argmax(C), solved
        try:
            return self._unsettled(C, None), solved
        except Unsolved as unsolved:
            solved[list(unsolved.reasons)] = False
            return unsolved.actions, solved

    @property
    def dear(self) -> bool:
        """Whether a solve takes so long that one more pays if its value shows that others are needless; hints do then.

        Only a set whose argmax is exact says so: the value is taken for a bound.
        """
        return False

    @property
    def convex(self) -> bool:
        """Whether every mixture of actions of the set is one: mixtures may then be played.

        In each row, if sets differ between rows; a known cost is then convex too, so that a mixture is worth at least
        the mixture of what its actions are worth. False where it is not known. It speaks of the set's actions: a
        fallback need not be one where sets differ between rows.
        """
        return False

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
        coefficients = self._as_batch(C, "the coefficients", finite=False)
        self._require_rows(len(coefficients))
        previous = None if hint is None else self._as_hint(hint, len(coefficients))
        faulty = self.row_count is not None and bool(self.faulty.any())
        if self.kernel is not None and not faulty and type(self)._solve_batch is FeasibleSet._solve_batch:
            return self._by_checking_kernel(self.kernel, coefficients, previous)
        refuse_nan(coefficients, "the coefficients")
        solve = self._argmax_without_faults if faulty else self._solve_batch
        return solve(coefficients, previous)

    def _by_checking_kernel(self, kernel: Kernel, coefficients: Floats, hint: Floats | None) -> Floats:
        """Solve a batch by the kernel, which refuses NaN and infinity in the rows that it is about to read."""
        try:
            return self._by_kernel(CheckingKernel(*kernel), coefficients, hint)
        except NotFinite:
            require_finite(coefficients, "the coefficients")  # names all rows that are not
            raise

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

    # Actions of others

    def project(self, actions: npt.ArrayLike) -> Floats:
        """Return an action of the set near each given one: what a log that is off by rounding meant.

        - The :meth:`violation` of what is returned is at most :attr:`tolerance`.
        - Actions with no larger violation come back unchanged, to the bit.
        - A row's action depends on that row and its set alone.

        Of a convex set it is the nearest action, by the sum of squares; it is farther away than the violation by a
        factor that depends on the angles of the constraints. Where the set is a polytope in more coordinates than the
        action's, or one too large to be made dense, some other action as near in its largest coordinate may be taken.
        Of whole numbers it is the nearest one if rounding finds an action of the set, or if they are zeros and ones.

        Parameters
        ----------
        actions
            Of shape (n, dimension), and finite. If the set is bound to rows, one for each.

        Examples
        --------
        >>> from optensemble.feasible import Simplex
        >>> Simplex(3).project([[0.333, 0.333, 0.333], [0.5, 0.5, 0.0]]).round(4)
        array([[0.3333, 0.3333, 0.3333],
               [0.5   , 0.5   , 0.    ]])
        """
        batch = self._as_batch(actions, "the actions")
        self._require_rows(len(batch))
        moved = self._moved_inside(batch, self.tolerance)
        left = self.violation(moved)
        if not (left <= self.tolerance).all():
            row = int(np.argmax(left))
            error = SolverError(
                f"the action of row {row} could not be moved onto the set: the nearest that was found is outside by "
                f"{left[row]:.3g}. The likely cause is a badly scaled set; project the actions yourself."
            )
            error.rows = f"row {row}", row, 1
            raise error
        return moved

    @property
    def can_project(self) -> bool:
        """Whether :meth:`project` knows how: all sets here do."""
        return type(self)._project is not FeasibleSet._project

    def _moved_inside(self, batch: Floats, slack: float) -> Floats:
        """Return a checked batch with actions that are outside by more than ``slack`` moved onto the set."""
        moved, outside = batch.copy(), ~(self.violation(batch) <= slack)
        if outside.any():
            moved[outside] = self.take(outside)._project(batch[outside]) + 0.0  # negative zero is zero
        return moved

    def _project(self, actions: Floats) -> Floats:
        """Return an action of the set near each of a checked batch, all of which are outside."""
        raise InputError(
            f"{type(self).__name__} cannot move actions onto itself: it has no _project. Project the actions yourself, "
            "or implement _project(actions)."
        )

    def violated(self, action: npt.ArrayLike) -> list[str]:
        """Return the constraints that an action violates, in words; none if it is inside.

        The set is fixed, or bound to the only row of the action: ``omega.take([row])``.
        """
        batch = self._as_batch(np.atleast_2d(np.asarray(action)), "the action")
        self._require_rows(1)
        excess = float(self.violation(batch)[0])
        if excess <= self.tolerance:
            return []
        return self._broken(batch[0], self.tolerance)[:_MOST_NAMED] or [f"outside by {excess:.3g}"]

    def _broken(self, action: Floats, slack: float) -> list[str]:
        """Return the constraints that an action exceeds by more than ``slack``, in words, if they can be named."""
        return []

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
