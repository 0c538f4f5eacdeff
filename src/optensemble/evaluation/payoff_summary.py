"""A summary of self-assessments for promises: a few numbers that add up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.evaluation.possible_payoffs import Possible


@dataclass(frozen=True)
class Assessments:
    """The number, mean, spread and range of self-assessments.

    Examples
    --------
    >>> both = Assessments.of(np.array([1.0, 2.0])) + Assessments.of(np.array([6.0]))
    >>> both.count, both.mean, both.high
    (3, 3.0, 6.0)
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    weighed: float | None = None
    """The effective number of rows, where they have weights."""
    incomplete: float = 0.0
    """The share of rows in which some member is absent."""
    floor: float = -np.inf
    ceiling: float = np.inf
    """The least and the largest mean payoff that is possible."""

    @classmethod
    def of(
        cls,
        assessed: Floats,
        weights: Floats | None = None,
        incomplete: npt.NDArray[np.bool_] | None = None,
        possible: Possible | None = None,
    ) -> Self:
        """Summarise a batch; with weights it is one of its own, and is not added to others.

        ``incomplete`` are the rows in which some member is absent; None if there are none. ``possible`` are the payoffs
        that are possible in each row, if anything is known of that.
        """
        if not len(assessed):
            return cls()
        low, high = float(assessed.min()), float(assessed.max())
        away = 0.0 if incomplete is None else float(np.average(incomplete, weights=weights))
        ends = (-np.inf, np.inf) if possible is None else tuple(_mean(end, weights) for end in possible)
        mean = _mean(assessed, weights)
        if weights is None:
            return cls(len(assessed), mean, float(np.square(assessed - mean).sum()), low, high, None, away, *ends)
        total = float(weights.sum())
        squares = float(weights @ np.square(assessed - mean)) * len(assessed) / total
        effective = total**2 / float(np.square(weights).sum())
        return cls(len(assessed), mean, squares, low, high, effective, away, *ends)

    @property
    def effective(self) -> float:
        """The number of rows of equal weight whose mean is as sure."""
        return self.count if self.weighed is None else self.weighed

    def __add__(self, other: Self) -> Self:
        """Put two batches together (Chan, Golub and LeVeque)."""
        if not (self.count and other.count):
            return self if self.count else other
        count = self.count + other.count
        apart, share = other.mean - self.mean, other.count / count
        squares = self.squares + other.squares + apart**2 * self.count * share
        away = self.incomplete + (other.incomplete - self.incomplete) * share
        ends = min(self.low, other.low), max(self.high, other.high)
        pairs = (self.floor, other.floor), (self.ceiling, other.ceiling)
        possible = (left * (1 - share) + right * share for left, right in pairs)
        return type(self)(count, self.mean + apart * share, squares, *ends, None, away, *possible)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0

    def beyond(self, centre: float) -> float:
        """Return how far the farthest lies from a centre."""
        return max(centre - self.low, self.high - centre)


def _mean(values: Floats, weights: Floats | None) -> float:
    """Return the mean of finite or infinite numbers; of equal ones it is that number, to the bit."""
    low, high = float(values.min()), float(values.max())
    if low == high or low == -np.inf or high == np.inf:
        return high if high == np.inf else low
    mean = float(values.mean()) if weights is None else float(weights @ values) / float(weights.sum())
    return min(max(mean, low), high)
