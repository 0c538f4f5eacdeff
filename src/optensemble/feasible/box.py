"""Boxes: every coordinate between two bounds of its own."""

from __future__ import annotations

from typing import Any, final

import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, as_dimension, bound_length, checks_actions


@final
class Box(FeasibleSet):
    """``lower <= a <= upper``: a coordinate goes up where its coefficient is positive, and down otherwise.

    A tie (a coefficient of exactly zero) goes to the lower bound.

    Parameters
    ----------
    lower, upper
        Numbers, or one for each coordinate.
    dimension
        The number of coordinates; needed where both bounds are numbers.

    Examples
    --------
    >>> Box(upper=[1, 2, 3]).argmax([[0.5, -1.0, 2.0]])
    array([[1., 0., 3.]])
    """

    def __init__(self, lower: npt.ArrayLike = 0.0, upper: npt.ArrayLike = 1.0, dimension: int | None = None) -> None:
        found = bound_length(lower, upper) if dimension is None else as_dimension(dimension)
        if not found:
            raise InputError(
                "the number of coordinates of the box is unknown: lower= and upper= are numbers or empty. "
                "Give dimension=, or one bound for each coordinate."
            )
        self._set_bounds(lower, upper, found)
        self.kernel = make_kernel(best_corners, floats=[self.lower, self.upper])

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest excess over a bound."""
        return self._outside_box(actions)

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"lower": self.lower.copy(), "upper": self.upper.copy(), "dimension": self.dimension}


@njit(cache=True, nogil=True)
def best_corners(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each coordinate its upper bound where that pays, and its lower bound otherwise."""
    n, d = C.shape
    for i in range(n):
        for j in range(d):
            actions[i, j] = floats[d + j] if C[i, j] > 0.0 else floats[j]
