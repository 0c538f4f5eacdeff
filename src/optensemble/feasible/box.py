"""Boxes: every coordinate between two bounds of its own."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import make_kernel
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._binding import MOST_NAMED, name_bounds, name_broken_bounds
from optensemble.feasible._bounds import as_dimension, bound_length


@final
class Box(FeasibleSet):
    """``lower <= a <= upper``: a coordinate goes up where its coefficient is positive, and down otherwise.

    A tie (a coefficient of exactly zero) goes to the lower bound.

    Parameters
    ----------
    lower, upper
        Numbers, or one for each coordinate; by row if they are ``Columns`` or callables of X.
    dimension
        The number of coordinates; needed where both bounds are numbers.
    on_failure, fallback
        What to do with a row whose bounds make no box: "raise" an error, or take the "fallback" action and warn.

    Examples
    --------
    >>> Box(upper=[1, 2, 3]).argmax([[0.5, -1.0, 2.0]])
    array([[1., 0., 3.]])

    Upper bounds by row:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> free = pd.DataFrame({"free_0": [0.4, 1.0], "free_1": [0.0, 2.0]})
    >>> Box(upper=Columns(["free_0", "free_1"])).for_rows(free).argmax([[1.0, 1.0], [-1.0, 1.0]])
    array([[0.4, 0. ],
           [0. , 2. ]])
    """

    convex = True

    def __init__(
        self,
        lower: Any = 0.0,
        upper: Any = 1.0,
        dimension: int | None = None,
        *,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        found = bound_length(lower, upper) if dimension is None else as_dimension(dimension)
        if not found:
            raise InputError(
                "the number of coordinates of the box is unknown: lower= and upper= are numbers or empty. "
                "Give dimension=, or one bound for each coordinate."
            )
        self._set_row_bounds(lower, upper, found)
        self.kernel = make_kernel(best_corners, floats=() if self.varies else [self.lower, self.upper])
        self._set_failure(on_failure, fallback)

    def _pack(self) -> Floats:
        return self._pack_bounds()

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest excess over a bound."""
        return self._outside_box(actions)

    def _project(self, actions: Floats) -> Floats:
        return np.clip(actions, *self._row_box())

    def _broken(self, action: Floats, slack: float) -> list[str]:
        return name_broken_bounds(self, action, slack)

    def binding(self, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of the only row that the set is bound to, or of a fixed set."""
        own, shared = name_bounds(self, action)
        return [*own, *shared][:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {**self._bounds_spec(), "dimension": self.dimension, **self._failure_spec_if_any()}


@njit(cache=True, nogil=True)
def best_corners(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each coordinate its upper bound where that pays, and its lower bound otherwise."""
    n, d = C.shape
    for i in range(n):
        bounds = own[i] if own.shape[1] else floats
        for j in range(d):
            actions[i, j] = bounds[d + j] if C[i, j] > 0.0 else bounds[j]
