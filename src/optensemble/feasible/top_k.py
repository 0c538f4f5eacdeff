"""The best k of d coordinates: a slate, a crew, a shortlist."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble._core.validation import require_choice, require_number
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, as_dimension, checks_actions
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
        The number of coordinates that are 1.
    at_most
        Whether fewer than ``k`` may be 1. Then only positive coefficients are taken, and zero is not.

    Examples
    --------
    >>> TopK(4, k=2).argmax([[0.3, -0.5, 0.9, 0.3]])
    array([[1., 0., 1., 0.]])
    >>> TopK(4, k=2, at_most=True).argmax([[-0.3, -0.5, 0.9, 0.0]])
    array([[0., 0., 1., 0.]])
    """

    def __init__(self, dimension: int, k: int, at_most: bool = False) -> None:
        self._set_bounds(0.0, 1.0, as_dimension(dimension))
        require_number(k, "k", at_least=1, whole=True)
        if k > self.dimension:
            raise InputError(f"k must be at most the number of coordinates, {self.dimension}; got {k}.")
        require_choice(at_most, "at_most", [True, False])
        self.k, self.at_most = int(k), at_most
        least = np.nextafter(0.0, 1.0) if at_most else -np.inf
        rows_at_once = max(1, min(8192, 4_000_000 // self.dimension))
        self.kernel = make_kernel(best_k, floats=[least], ints=[self.k], rows_at_once=rows_at_once)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the larger of its distance to whole numbers in [0, 1] and to a right sum."""
        fraction = np.abs(actions - np.rint(actions)).max(axis=1)
        excess = actions.sum(axis=1) - self.k
        largest: Floats = np.maximum(excess if self.at_most else np.abs(excess), fraction)
        return np.maximum(largest, self._outside_box(actions))

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"dimension": self.dimension, "k": self.k, "at_most": self.at_most}


@njit(cache=True, nogil=True)
def best_k(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take the k largest coefficients, none below the least that may be taken."""
    n, d = C.shape
    least, k = floats[0], ints[0]
    work = np.empty(d + 1)
    for i in range(n):
        c, action = C[i], actions[i]
        if take_from(c, least, action) > k:
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
