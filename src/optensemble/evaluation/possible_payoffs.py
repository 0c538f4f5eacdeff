"""The payoffs that are possible: where labels and actions are of one sign, so is their product."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible import FeasibleSet

_ROUNDING = 1e-9  # relative to a row's largest coordinate: solvers return a bound of 0 only up to rounding

Where = TypeVar("Where", bool, Any)


class Possible(NamedTuple):
    """The least and the largest payoff that each row's action can come to, in the user's units and sense."""

    low: Floats
    high: Floats

    def clip(self, values: Floats) -> Floats:
        """Return values within what is possible in each row."""
        return np.clip(values, self.low, self.high)

    def take(self, rows: Indices) -> Possible:
        """Return the same of some of the rows."""
        return Possible(self.low[rows], self.high[rows])


class LabelRange(NamedTuple):
    """The least and the largest label seen, in the user's units; infinite where that is not known.

    Of labels that were never negative it is taken for granted that they cannot be. So actions without a negative
    coordinate earn at least nothing, before the known cost of acting is taken off.

    Examples
    --------
    >>> from optensemble.feasible import Box
    >>> seen = LabelRange.of(np.array([[0.0, 3.0], [2.0, 1.0]]))
    >>> seen.payoffs(Box([-1, -1], [1, 1]), np.array([[1.0, 0.5], [1.0, -0.5]]), 1.0).low
    array([  0., -inf])
    """

    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, labels: Floats) -> Self:
        """Return the range of some labels."""
        return cls(float(labels.min(initial=np.inf)), float(labels.max(initial=-np.inf)))

    def joined(self, other: LabelRange) -> LabelRange:
        """Return the range of both."""
        return LabelRange(min(self.low, other.low), max(self.high, other.high))

    def signed(self, sign: float) -> LabelRange:
        """Return the same of labels in the other sense, if ``sign`` is -1."""
        return self if sign > 0 else LabelRange(-self.high, -self.low)

    @property
    def one_sided(self) -> bool:
        """Whether all labels are of one sign."""
        return self.low >= 0 or self.high <= 0

    def payoffs(self, omega: FeasibleSet, actions: Floats, sign: float) -> Possible | None:
        """Return the payoffs that are possible in each row; None where labels of either sign were seen."""
        if not self.one_sided:
            return None
        slack = _ROUNDING * np.abs(actions).max(axis=1, initial=0.0)
        least, most = self._sides(actions.min(axis=1) >= -slack, actions.max(axis=1) <= slack)
        cost = sign * omega.cost(actions) if omega.has_cost else 0.0
        return Possible(np.where(least, 0.0, -np.inf) - cost, np.where(most & ~least, 0.0, np.inf) - cost)

    def anywhere(self, omega: FeasibleSet) -> tuple[float, float]:
        """Return the least and the largest payoff of any action; infinite where acting has a cost."""
        if not self.one_sided or omega.has_cost:
            return -np.inf, np.inf
        least, most = self._sides(bool((omega.lower >= 0).all()), bool((omega.upper <= 0).all()))
        return 0.0 if least else -np.inf, 0.0 if most and not least else np.inf

    def _sides(self, positive: Where, negative: Where) -> tuple[Where, Where]:
        """Return where payoffs are not negative, and where they are not positive, given the sign of actions."""
        return (positive, negative) if self.low >= 0 else (negative, positive)


NOTHING_KNOWN = LabelRange()
"""The range of labels that nothing is known of: any payoff is possible."""
