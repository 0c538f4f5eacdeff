"""One unit to share out, and nothing else to obey."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from optensemble._types import Floats
from optensemble.feasible._base import TIE, FeasibleSet, as_dimension


@final
class Simplex(FeasibleSet):
    """The probability simplex ``a >= 0, sum(a) = 1``: the largest coefficient gets everything.

    Coefficients within 1e-12 of the largest, relative to the largest magnitude of the row, are tied; the
    lowest index among them wins.

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

    def _argmax(self, coefficients: Floats) -> Floats:
        size = np.abs(coefficients).max(axis=1, keepdims=True)
        tied = coefficients >= coefficients.max(axis=1, keepdims=True) - TIE * size
        actions = np.zeros_like(coefficients)
        actions[np.arange(len(actions)), tied.argmax(axis=1)] = 1.0
        return actions

    def violation(self, actions: Floats) -> Floats:
        """Return for each row the larger of its most negative weight and its distance to a sum of 1."""
        largest: Floats = np.maximum(self._outside_box(actions), np.abs(actions.sum(axis=1) - 1.0))
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"dimension": self.dimension}
