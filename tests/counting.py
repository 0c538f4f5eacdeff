"""Sets and members that count what they are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble import feasible

Floats = npt.NDArray[np.float64]


class CountingSet(feasible.FeasibleSet):
    """A set that notes the rows of every batch it solves, and every X it is bound to.

    It has no kernel, so that compiled code leaves every row to it: nothing is solved without being counted.
    """

    def __init__(self, inner: feasible.FeasibleSet) -> None:
        self.inner, self.solved, self.bound = inner, list[int](), list[Any]()
        self._set_bounds(inner.lower, inner.upper, inner.dimension)

    def _argmax(self, coefficients: Floats) -> Floats:
        self.solved.append(len(coefficients))
        return self.inner.argmax(coefficients)

    def for_rows(self, X: Any) -> CountingSet:
        self.bound.append(X)
        return self

    def violation(self, actions: Floats) -> Floats:
        return self.inner.violation(actions)

    def spec(self) -> None:
        return None


class CountingMember:
    """A member that notes the number of rows it is asked for, as a model and as a policy."""

    def __init__(self, answer: Callable[[Any], Any], names: tuple[str, ...] = ()) -> None:
        self.answer, self.names, self.asked = answer, names, Counter[str]()

    def predict(self, X: Any) -> Any:
        self.asked["predict"] += 1
        return self.answer(X)

    def decide(self, X: Any) -> Any:
        self.asked["decide"] += 1
        return self.answer(X)

    @property
    def times(self) -> int:
        return self.asked.total()
