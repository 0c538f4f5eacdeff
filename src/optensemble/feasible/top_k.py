"""The best k of d coordinates: a slate, a crew, a shortlist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble._core.validation import require_choice, require_number
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._binding import (
    MOST_NAMED,
    name_broken_bounds,
    name_constraint,
    name_fractions,
    name_taken,
    name_unavailable,
    name_wrong_sum,
)
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._bounds import as_dimension
from optensemble.feasible._flags import as_flags, flag_faults
from optensemble.feasible._nearest_whole import nearest_of_zeros_and_ones
from optensemble.feasible._row_parameters import from_rows, row_parameters
from optensemble.feasible._solvers.scale import magnitude

_FEW = 8
"""With this few candidates left, selecting among them takes less time than another halving."""

_HALVINGS = 16
"""Halvings at most: numbers that are very unequal in size would need hundreds."""


@final
class TopK(FeasibleSet):
    """Exactly ``k`` coordinates are 1 and the others 0: those with the largest coefficients.

    Coefficients within 1e-12 of the k-th largest, relative to it or to the largest, are tied for the last places; the
    lowest indices win.

    Parameters
    ----------
    dimension
        The number of coordinates.
    k
        The number of coordinates that are 1, or one by row, as ``Columns`` or a callable of X: from 1, or from 0 with
        ``at_most``, to the number of coordinates.
    at_most
        Whether fewer than ``k`` may be 1. Then only positive coefficients are taken, and zero is not.
    available
        Which coordinates may be 1: a 1 for each of them and a 0 for the others, or booleans; or by row. Without
        ``at_most`` at least ``k``.
    on_failure, fallback
        What to do with a row whose parameters make no set: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    k, available
        As given; None for what comes from the row, and if all are available.

    Examples
    --------
    >>> TopK(4, k=2).argmax([[0.3, -0.5, 0.9, 0.3]])
    array([[1., 0., 1., 0.]])
    >>> TopK(4, k=2, at_most=True).argmax([[-0.3, -0.5, 0.9, 0.0]])
    array([[0., 0., 1., 0.]])

    Places by row, and in the first row the third is ill:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> days = pd.DataFrame({"places": [1, 2], "here_0": [1, 1], "here_1": [1, 1], "here_2": [0, 1]})
    >>> crew = TopK(3, k=Columns("places"), available=Columns("here_*"))
    >>> crew.for_rows(days).argmax([[0.3, 0.5, 0.9], [0.3, 0.5, 0.9]])
    array([[0., 1., 0.],
           [0., 1., 1.]])
    """

    def __init__(
        self,
        dimension: int,
        k: Any,
        at_most: bool = False,
        *,
        available: Any = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        self._set_bounds(0.0, 1.0, as_dimension(dimension))
        require_choice(at_most, "at_most", [True, False])
        self.at_most = at_most
        self.parameters = row_parameters(k=(k, ()), available=(available, (self.dimension,)))
        self.k = None if from_rows(k) else self._as_k(k)
        self.available: Floats | None = None
        if available is not None and not from_rows(available):
            self.available = as_flags(available, "available", self.dimension, "coordinates")
            if self.k is not None and self.available.sum() < self.k and not at_most:
                raise EmptySetError(
                    f"fewer are available than k: {self.available.sum():g} of k = {self.k}. Give a smaller k, or "
                    "at_most=True."
                )
        rows_at_once = max(1, min(8192, 4_000_000 // self.dimension))
        self.kernel = make_kernel(best_k, floats=self._fixed(), rows_at_once=rows_at_once)
        self._set_failure(on_failure, fallback)

    def _as_k(self, k: Any) -> int:
        # Exactly none is no choice at all, and more likely a mistake.
        require_number(k, "k", at_least=0 if self.at_most else 1, whole=True)
        if k > self.dimension:
            raise InputError(f"k must be at most the number of coordinates, {self.dimension}; got {k}.")
        return int(k)

    @property
    def _least(self) -> float:
        """The least coefficient that may be taken."""
        return float(np.nextafter(0.0, 1.0)) if self.at_most else -np.inf

    def _fixed(self) -> list[Any]:
        """Return the kernel's data where all rows share one set."""
        if self.varies:
            return []
        return [self._least, self.k, *([] if self.available is None else [self.available])]

    def _pack(self) -> Floats:
        n = len(self.values)
        packed = np.empty((n, 2 if self._flags() is None else 2 + self.dimension))
        packed[:, 0], packed[:, 1] = self._least, self._numbers()
        if packed.shape[1] > 2:
            packed[:, 2:] = self._flags()
        return packed

    def _arguments_of(self, row: int) -> dict[str, Any]:
        found = super()._arguments_of(row)
        return found | ({"k": int(found["k"])} if "k" in found else {})

    def _numbers(self) -> Floats:
        """Return k of each row, or of all."""
        return np.array([float(self.k)]) if self.k is not None else self._of_rows("k")

    def _flags(self) -> Floats | None:
        """Return which coordinates are available in each row, or in all; None if all of them are."""
        return self._of_rows("available") if self._varies_in("available") else self.available

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        k, flags = self._numbers(), self._flags()
        fewest = 0 if self.at_most else 1
        wrong = np.isfinite(k) & ((k != np.rint(k)) | (k < fewest) | (k > self.dimension))
        if self.k is None and wrong.any():
            yield Fault("k", wrong, f"must be a whole number from {fewest} to {self.dimension}")
        if flags is None:
            return
        if self._varies_in("available"):
            yield from flag_faults(flags, "available", "may be taken", "may not")
        few = np.atleast_2d(flags).sum(axis=1) < k
        if few.any() and not self.at_most:
            by_flags = self._varies_in("available")
            where = few[:, None] & (flags == 0.0) if by_flags else few
            rule = "leaves fewer available than k" if by_flags else "must not be more than are available"
            yield Fault("available" if by_flags else "k", where, rule)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the larger of its distance to whole numbers in [0, 1] and to a right sum."""
        fraction = np.abs(actions - np.rint(actions)).max(axis=1)
        excess = actions.sum(axis=1) - self._numbers()
        largest: Floats = np.maximum(excess if self.at_most else np.abs(excess), fraction)
        if (flags := self._flags()) is not None:
            largest = np.maximum(largest, np.abs(actions * (1.0 - flags)).max(axis=1))
        return np.maximum(largest, self._outside_box(actions))

    def _project(self, actions: Floats) -> Floats:
        return nearest_of_zeros_and_ones(self, actions)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        total, k = float(action.sum()), float(self._numbers()[0])
        wrong = (total - k if self.at_most else abs(total - k)) > slack
        found = [name_wrong_sum(total, k, at_most=self.at_most)] if wrong else []
        found += name_taken(self, action, self._flags(), slack)
        return [*found, *(name_broken_bounds(self, action, slack) or name_fractions(action, slack, "0 or 1"))]

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        self._require_rows(1)
        k = float(self._numbers()[0])
        full = [name_constraint(self, "k", k)] if action.sum() >= k - 0.5 else []
        return [*full, *name_unavailable(self, self._flags())][:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        arguments = {"dimension": self.dimension, "k": self._argument("k", self.k), "at_most": self.at_most}
        if self._flags_given:
            arguments["available"] = self._argument("available", self.available)
        return arguments | self._failure_spec_if_any()

    @property
    def _flags_given(self) -> bool:
        return self.available is not None or self._varies_in("available")


@njit(cache=True, nogil=True)
def best_k(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take the k largest coefficients, none below the least that may be taken.

    The data are this least, k, and, unless all are available, a flag for each coordinate.
    """
    n, d = C.shape
    work, few, taken = np.empty(d + 1), np.empty(d), np.empty(d)
    for i in range(n):
        data = own[i] if own.shape[1] else floats
        least, k = data[0], int(data[1])
        if len(data) == 2:
            take_best(C[i], least, k, actions[i], work)
            continue
        count = 0
        for j in range(d):
            few[count] = C[i, j]
            count += data[2 + j] != 0.0
        take_best(few[:count], least, k, taken[:count], work)
        count = 0
        for j in range(d):
            actions[i, j] = 0.0
            if data[2 + j] != 0.0:
                actions[i, j] = taken[count]
                count += 1


@njit(cache=True, nogil=True)
def take_best(c, least, k, action, work):  # type: ignore[no-untyped-def]
    """Take the k largest of some coefficients; all of them if they are no more."""
    if k == 0:
        action[:] = 0.0
    elif take_from(c, least, action) > k:
        last = kth_largest(c, k, magnitude(c), work)
        slack = SAME_VALUE * max(abs(last), abs(c.max()))
        if take_from(c, max(last - slack, least), action) > k:
            drop_ties(c, last + slack, k, action)


@njit(cache=True, nogil=True)
def take_from(c, least, action):  # type: ignore[no-untyped-def]
    """Take every coefficient that is not below the least, and count them."""
    count = 0
    for j in range(len(c)):
        taken = c[j] >= least
        action[j] = 1.0 if taken else 0.0
        count += taken
    return count


@njit(cache=True, nogil=True)
def drop_ties(c, clear, k, action):  # type: ignore[no-untyped-def]
    """Keep the coefficients taken that are clear of the tie, and the lowest indices of the others, k in all."""
    places = k
    for j in range(len(c)):
        places -= c[j] > clear
    for j in range(len(c)):
        if action[j] == 1.0 and c[j] <= clear:
            action[j] = 1.0 if places > 0 else 0.0
            places -= 1


@njit(cache=True, nogil=True)
def kth_largest(c, k, size, work):  # type: ignore[no-untyped-def]
    """Halve the range that holds the k-th largest of numbers of at most this size, then select among the few left.

    Counting what lies above the middle has no branches and is vectorised.
    """
    low, high = -size, np.nextafter(size, np.inf)
    at_low, at_high = len(c), 0  # how many are at least as large
    halvings = 0
    while at_low - at_high > _FEW and halvings < _HALVINGS:
        halvings += 1
        middle = 0.5 * low + 0.5 * high
        count = 0
        for j in range(len(c)):
            count += c[j] >= middle
        if count >= k:
            low, at_low = middle, count
        else:
            high, at_high = middle, count
    left = 0
    for j in range(len(c)):
        work[left] = c[j]
        left += (c[j] >= low) & (c[j] < high)
    return select(work[:left], k - at_high - 1)


@njit(cache=True, nogil=True)
def select(x, rank):  # type: ignore[no-untyped-def]
    """Return the entry at index ``rank`` of x sorted from the largest down (Hoare's FIND); the order of x changes."""
    left, right = 0, len(x) - 1
    while left < right:
        pivot = x[rank]
        i, j = left, right
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if j < rank:
            left = i
        if i > rank:
            right = j
    return x[rank]
