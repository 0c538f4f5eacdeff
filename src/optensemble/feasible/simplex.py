"""The simplex: one unit, or another amount, to share out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble._core.validation import require_number
from optensemble.exceptions import EmptySetError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._binding import (
    MOST_NAMED,
    name_broken_bounds,
    name_constraint,
    name_taken,
    name_unavailable,
    name_wrong_sum,
)
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._bounds import as_dimension
from optensemble.feasible._flags import as_flags, flag_faults
from optensemble.feasible._row_parameters import from_rows, row_parameters


@final
class Simplex(FeasibleSet):
    """The probability simplex ``a >= 0, sum(a) = 1``: the largest coefficient gets everything.

    Coefficients within 1e-12 of the largest, relative to it, are tied; the lowest index among them wins.

    Parameters
    ----------
    dimension
        The number of coordinates.
    available
        Which coordinates may get something: a 1 for each of them and a 0 for the others, or booleans. By row as
        ``Columns`` or a callable of X; then at least one of each row.
    total
        The amount to share out in place of 1, or one by row; not negative.
    on_failure, fallback
        What to do with a row whose parameters make no set: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    available, total
        As given; None for what comes from the row, and if all are available.

    Examples
    --------
    >>> Simplex(3).argmax([[0.1, 0.7, 0.7]])
    array([[0., 1., 0.]])

    In the first row the second of three is not available:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> rows = pd.DataFrame({"open_0": [1, 1], "open_1": [0, 1], "open_2": [1, 1], "amount": [5.0, 2.0]})
    >>> omega = Simplex(3, available=Columns("open_*"), total=Columns("amount"))
    >>> omega.for_rows(rows).argmax([[0.1, 0.7, 0.6], [0.1, 0.7, 0.6]])
    array([[0., 0., 5.],
           [0., 2., 0.]])
    """

    convex = True

    def __init__(
        self,
        dimension: int,
        *,
        available: Any = None,
        total: Any = 1.0,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self.dimension = as_dimension(dimension)
        self.parameters = row_parameters(available=(available, (self.dimension,)), total=(total, ()))
        self.available: Floats | None = None
        if available is not None and not from_rows(available):
            self.available = as_flags(available, "available", self.dimension, "coordinates")
            if not self.available.any():
                raise EmptySetError("no coordinate is available. Give a 1 for each that may get something.")
        self.total: float | None = None
        if not from_rows(total):
            require_number(total, "total", at_least=0)
            self.total = float(total)
            self._set_bounds(0.0, self.total, self.dimension)
        plain = self.varies or (available is None and self.total == 1.0)
        self.kernel = make_kernel(best_unit, floats=[] if plain else [self._totals(), self._available()])
        self._set_failure(on_failure, fallback)

    @property
    def open_bounds(self) -> bool:
        """Whether the total comes from the row, and with it the bounds of the actions."""
        return self._varies_in("total")

    def _row_box(self) -> tuple[Floats, Floats]:
        if not self.open_bounds or self.row_count is None:
            return self.lower, self.upper
        return np.zeros(self.dimension), np.repeat(self._totals()[:, None], self.dimension, axis=1)

    def _totals(self) -> Floats:
        """Return the total of each row, or of all."""
        return np.array([self.total]) if self.total is not None else self._of_rows("total")

    def _available(self) -> Floats:
        """Return the flags of each row, or of all."""
        if self._varies_in("available"):
            return self._of_rows("available")
        return np.ones((1, self.dimension)) if self.available is None else self.available[None]

    def _pack(self) -> Floats:
        n, d = len(self.values), self.dimension
        total, available = np.broadcast_to(self._totals(), n), np.broadcast_to(self._available(), (n, d))
        return np.concatenate([total[:, None], available], axis=1)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        if self._varies_in("available"):
            flags = self._of_rows("available")
            yield from flag_faults(flags, "available", "may get something", "may not")
            if (none := (flags == 0.0).all(axis=1)).any():
                yield Fault("available", none, "must be 1 for at least one coordinate")
        if self._varies_in("total") and (negative := self._of_rows("total") < 0).any():
            yield Fault("total", negative, "must not be negative")

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest of its most negative weight, what others get, and its distance to the sum."""
        largest: Floats = np.maximum(self._outside_box(actions), np.abs(actions.sum(axis=1) - self._totals()))
        if self.available is not None or self._varies_in("available"):
            largest = np.maximum(largest, np.abs(actions * (1.0 - self._available())).max(axis=1))
        return largest

    def _project(self, actions: Floats) -> Floats:
        available = np.broadcast_to(self._available() != 0.0, actions.shape)
        return nearest_shares(actions, np.broadcast_to(self._totals(), len(actions)), available)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        total, wanted = float(action.sum()), float(self._totals()[0])
        found = [name_wrong_sum(total, wanted)] if abs(total - wanted) > slack else []
        flags = self._available() if self.available is not None or self._varies_in("available") else None
        return [*found, *name_taken(self, action, flags, slack), *name_broken_bounds(self, action, slack)]

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        self._require_rows(1)
        total = float(self._totals()[0])
        shared = [] if self.total == 1.0 else [name_constraint(self, "total", total)]
        return [*shared, *name_unavailable(self, self._available())][:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        arguments: dict[str, Any] = {"dimension": self.dimension}
        if self.available is not None or self._varies_in("available"):
            arguments["available"] = self._argument("available", self.available)
        if self.total != 1.0:
            arguments["total"] = self._argument("total", self.total)
        return arguments | self._failure_spec_if_any()


def nearest_shares(actions: Floats, totals: Floats, available: npt.NDArray[np.bool_]) -> Floats:
    """Return what is nearest to each row among shares of its total, of which some may get nothing.

    All available shares are lowered by the same amount, and those that would be negative are 0.
    """
    descending = -np.sort(-np.where(available, actions, -np.inf), axis=1)
    count = np.arange(1, actions.shape[1] + 1)
    surplus = (np.cumsum(descending, axis=1) - totals[:, None]) / count
    kept = np.maximum((descending > surplus).sum(axis=1), 1)  # of a total of 0 none is positive
    lowered = np.maximum(actions - surplus[np.arange(len(actions)), kept - 1][:, None], 0.0)
    return np.where(available, lowered, 0.0)


@njit(cache=True, nogil=True)
def best_unit(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Give everything to the first of the largest coefficients that are available.

    The data are the total and a flag for each coordinate, or nothing: one unit, and all are available.
    """
    n, d = C.shape
    for i in range(n):
        data = own[i] if own.shape[1] else floats
        some, total = len(data) > 0, data[0] if len(data) else 1.0
        largest = -np.inf
        for j in range(d):
            if not some or data[1 + j] != 0.0:
                largest = max(largest, C[i, j])
        first = 0
        while C[i, first] < largest - SAME_VALUE * abs(largest) or (some and data[1 + first] == 0.0):
            first += 1
        actions[i] = 0.0
        actions[i, first] = total
