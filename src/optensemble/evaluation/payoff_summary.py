"""A summary of self-assessments for promises: a few numbers that add up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats


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

    @classmethod
    def of(
        cls, assessed: Floats, weights: Floats | None = None, incomplete: npt.NDArray[np.bool_] | None = None
    ) -> Self:
        """Summarise a batch; with weights it is one of its own, and is not added to others.

        ``incomplete`` are the rows in which some member is absent; None if there are none.
        """
        if not len(assessed):
            return cls()
        low, high = float(assessed.min()), float(assessed.max())
        away = 0.0 if incomplete is None else float(np.average(incomplete, weights=weights))
        if weights is None:
            mean = float(assessed.mean())
            return cls(len(assessed), mean, float(np.square(assessed - mean).sum()), low, high, None, away)
        total = float(weights.sum())
        mean = float(weights @ assessed) / total
        squares = float(weights @ np.square(assessed - mean)) * len(assessed) / total
        return cls(len(assessed), mean, squares, low, high, total**2 / float(np.square(weights).sum()), away)

    @property
    def effective(self) -> float:
        """The number of rows of equal weight whose mean is as sure."""
        return self.count if self.weighed is None else self.weighed

    def __add__(self, other: Self) -> Self:
        """Put two batches together (Chan, Golub and LeVeque)."""
        count = self.count + other.count
        if not count:
            return self
        apart, share = other.mean - self.mean, other.count / count
        squares = self.squares + other.squares + apart**2 * self.count * share
        mean = self.mean + apart * share if self.count else other.mean
        away = self.incomplete + (other.incomplete - self.incomplete) * share if self.count else other.incomplete
        ends = min(self.low, other.low), max(self.high, other.high)
        return type(self)(count, mean, squares, *ends, incomplete=away)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(self.squares / self.count)) if self.count else 0.0

    def beyond(self, centre: float) -> float:
        """Return how far the farthest lies from a centre."""
        return max(centre - self.low, self.high - centre)
