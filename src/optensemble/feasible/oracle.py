"""Sets of the user's own, known through their argmax alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.validation import as_floats, describe_rows, require_choice
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._binding import name_broken_bounds
from optensemble.feasible._bounds import as_dimension
from optensemble.feasible._row_parameters import RowParameter, count_rows
from optensemble.feasible._table_rows import pick_rows


@final
class Oracle(FeasibleSet):
    """Any batched argmax of yours: a solver, a dynamic programme, a lookup.

    The oracle's actions are checked on every call, and clipped to the bounds where they leave them by less than 1e-7
    of their range. That a row's action does not depend on the rest of its batch is for the oracle to keep.
    An oracle cannot be saved with an ensemble: give it again on loading.

    Parameters
    ----------
    function
        Takes coefficients of shape (n, dimension), a copy of its own, and returns actions of the same shape. With
        ``rows`` it takes the rows as well, ``function(C, X)``: X as the members are given it, or some of its rows, one
        for each row of C.
    dimension
        The number of coordinates.
    lower, upper
        A box around the set.
    contains
        Takes actions, and with ``rows`` the rows, and returns a boolean mask with one entry per row; left out, only the
        box is checked.
    on_failure, fallback
        What to do with a row for which the function returns NaN or an action outside the set: "raise" an error, or
        take the "fallback" action and warn.
    rows
        Whether the set differs between rows, and the functions take them too.
    convex
        Whether every mixture of actions of the set is one, in each row: mixtures may then be played. It is for you to
        know; ``contains`` must allow for the rounding of mixtures.

    Examples
    --------
    >>> top = Oracle(lambda C: (C == C.max(axis=1, keepdims=True)).astype(float), dimension=2)
    >>> top.argmax([[1.0, 3.0]])
    array([[0., 1.]])

    A set of each row, in any way that a function can say:

    >>> import pandas as pd
    >>> spend = Oracle(lambda C, X: (C > 0) * X[["most"]].to_numpy(), dimension=2, upper=9.0, rows=True)
    >>> spend.for_rows(pd.DataFrame({"most": [3.0, 5.0]})).argmax([[1.0, 3.0], [1.0, -3.0]])
    array([[3., 3.],
           [5., 0.]])
    """

    convex = False

    def __init__(
        self,
        function: Callable[..., npt.ArrayLike],
        dimension: int,
        lower: npt.ArrayLike = 0.0,
        upper: npt.ArrayLike = 1.0,
        contains: Callable[..., npt.ArrayLike] | None = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
        *,
        rows: bool = False,
        convex: bool = False,
    ) -> None:
        for name, value in (("function", function), ("contains", contains)):
            if not callable(value) and not (name == "contains" and value is None):
                raise InputError(f"{name} must be callable; got {type(value).__name__}. Give a function of a batch.")
        self.function = function
        self.contains = contains
        require_choice(rows, "rows", [True, False])
        require_choice(convex, "convex", [True, False])
        self.convex = convex
        self.needs_table = bool(rows)
        # No number is read: the functions look at the rows themselves.
        self.parameters = (RowParameter("rows", (function,), (0,)),) if rows else ()
        self._set_bounds(lower, upper, as_dimension(dimension))
        self._set_failure(on_failure, fallback)

    def read_rows(self, X: Any) -> Floats:
        """Return no numbers for every row of X: the functions take the rows."""
        return np.empty((count_rows(X), 0))

    def of_row(self, row: int) -> FeasibleSet:
        """Return the oracle of one of the rows that this one is bound to."""
        if self._table_rows is None:
            return self
        ((_, X),) = self._table_rows.take(slice(row, row + 1)).pieces()

        def of_row(function: Callable[..., npt.ArrayLike]) -> Callable[[Floats], npt.ArrayLike]:
            return lambda batch: function(batch, pick_rows(X, np.zeros(len(batch), dtype=np.int64), 1))

        contains = None if self.contains is None else of_row(self.contains)
        bounds = (self.dimension, self.lower, self.upper)
        return Oracle(of_row(self.function), *bounds, contains, self.on_failure, self.fallback, convex=self.convex)

    def _call(self, function: Callable[..., npt.ArrayLike], batch: Floats) -> npt.ArrayLike:
        """Return what a function says of a batch; one that takes the rows is called with each table's."""
        if not self.needs_table:
            return function(batch.copy())
        if self._table_rows is None:
            raise InputError("this Oracle takes the rows, but it is bound to none. Call omega.for_rows(X).")
        pieces = list(self._table_rows.pieces())
        if len(pieces) == 1:
            return function(batch.copy(), pieces[0][1])
        parts = [np.asarray(function(batch[places].copy(), X)) for places, X in pieces]
        for (places, _), part in zip(pieces, parts, strict=True):
            if part.shape[:1] != places.shape or part.shape[1:] != parts[0].shape[1:]:
                raise InputError(
                    f"the oracle must answer each row it is given; got an array of shape {part.shape} for "
                    f"{len(places)} rows. It is called with a whole batch, not row by row."
                )
        answer = np.empty((len(batch), *parts[0].shape[1:]), np.result_type(*parts))
        for (places, _), part in zip(pieces, parts, strict=True):
            answer[places] = part
        return answer

    def _argmax(self, coefficients: Floats) -> Floats:
        if not len(coefficients):
            return coefficients.copy()
        answer, missing = self._fill_in(self._call(self.function, coefficients))
        actions = as_floats(answer, "the oracle's actions", finite=False)
        if actions.shape != coefficients.shape:
            raise InputError(
                f"the oracle must return one action for each row, of shape {coefficients.shape}; got an "
                f"array of shape {actions.shape}. It is called with a whole batch, not row by row."
            )
        wrong = np.flatnonzero(~np.isfinite(actions).all(axis=1))
        if wrong.size:
            raise InputError(
                f"the oracle's actions must be finite; got NaN or infinity in {describe_rows(wrong)} of "
                f"{len(actions)}. Correct the oracle, or let such rows take an action by on_failure='fallback'."
            )
        if self.fallback is None:
            self._require_inside(actions)
        elif reasons := self._reasons(actions, missing):
            raise Unsolved(np.clip(actions, self.lower, self.upper), reasons)
        return np.clip(actions, self.lower, self.upper) + 0.0  # negative zero is zero

    def _fill_in(self, answer: npt.ArrayLike) -> tuple[npt.ArrayLike, Indices]:
        """Put the fallback, if there is one, into rows that are not finite; return their numbers."""
        values = np.array(answer)
        if self.fallback is None or values.dtype.kind != "f" or values.shape[1:] != (self.dimension,):
            return answer, np.empty(0, dtype=np.int64)
        missing = np.flatnonzero(~np.isfinite(values).all(axis=1))
        values[missing] = self.fallback
        return values, missing

    def _reasons(self, actions: Floats, missing: Indices) -> dict[int, str]:
        """Return the reason for each row that cannot be used."""
        excess = self._outside_box(actions)
        reasons = {int(row): "contains= refuses the oracle's action." for row in np.flatnonzero(~self._inside(actions))}
        for row in np.flatnonzero(~(excess <= self.tolerance)):
            reasons[int(row)] = f"the oracle left the bounds by {excess[row]:.3g}."
        return reasons | {int(row): "the oracle returned NaN or infinity." for row in missing}

    def _require_inside(self, actions: Floats) -> None:
        excess = self._outside_box(actions)
        outside = np.flatnonzero(~(excess <= self.tolerance))
        if outside.size:
            raise InfeasibleActionError(
                f"the oracle left the bounds in {describe_rows(outside)} of {len(actions)}, by up to "
                f"{excess.max():.3g}. Correct the oracle, or give its true lower= and upper=."
            )
        refused = np.flatnonzero(~self._inside(actions))
        if refused.size:
            raise InfeasibleActionError(
                f"contains= refuses the oracle's actions in {describe_rows(refused)} of {len(actions)}. "
                "Correct the oracle, or allow for its rounding in contains=."
            )

    def _inside(self, actions: Floats) -> npt.NDArray[np.bool_]:
        if self.contains is None or not len(actions):
            return np.ones(len(actions), dtype=np.bool_)
        mask = np.asarray(self._call(self.contains, actions))
        if mask.shape != (len(actions),) or mask.dtype != np.bool_:
            raise InputError(
                f"contains= must return a boolean mask of shape ({len(actions)},), one entry for each row; "
                f"got {mask.dtype} of shape {mask.shape}."
            )
        return mask

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row its excess over the bounds, or infinity where ``contains`` refuses it."""
        return np.where(self._inside(actions), self._outside_box(actions), np.inf)

    def _project(self, actions: Floats) -> Floats:
        """Clip to the bounds: nothing else is known of the set."""
        clipped = np.clip(actions, self.lower, self.upper)
        refused = np.flatnonzero(~self._inside(clipped))
        if refused.size:
            raise InputError(
                f"contains= refuses actions in {describe_rows(refused)} of {len(actions)} even within the bounds, and "
                "an Oracle knows nothing else that would move them onto the set. Project the actions yourself."
            )
        return clipped

    def _broken(self, action: Floats, slack: float) -> list[str]:
        refused = [] if self._inside(action[None])[0] else ["contains= refuses it"]
        return [*refused, *name_broken_bounds(self, action, slack)]

    def spec(self) -> None:
        """Return None: code cannot be saved."""
