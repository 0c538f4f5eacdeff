"""The probability simplex: one unit to share out."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._base import FeasibleSet, as_dimension, checks_actions


@final
class Simplex(FeasibleSet):
    """The probability simplex ``a >= 0, sum(a) = 1``: the largest coefficient gets everything.

    Coefficients within 1e-12 of the largest, relative to it, are tied; the lowest index among them wins.

    Parameters
    ----------
    dimension
        The number of coordinates.

    Examples
    --------
    >>> Simplex(3).argmax([[0.1, 0.7, 0.7]])
    array([[0., 1., 0.]])
    """

    def __init__(self, dimension: int) -> None:
        self._set_bounds(0.0, 1.0, as_dimension(dimension))
        self.kernel = make_kernel(best_unit)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the larger of its most negative weight and its distance to a sum of 1."""
        largest: Floats = np.maximum(self._outside_box(actions), np.abs(actions.sum(axis=1) - 1.0))
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"dimension": self.dimension}


@njit(cache=True, nogil=True)
def best_unit(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Give everything to the first of the largest coefficients."""
    n, d = C.shape
    for i in range(n):
        largest = C[i, 0]
        for j in range(d):
            largest = max(largest, C[i, j])
        first = 0
        while C[i, first] < largest - SAME_VALUE * abs(largest):
            first += 1
        actions[i] = 0.0
        actions[i, first] = 1.0
