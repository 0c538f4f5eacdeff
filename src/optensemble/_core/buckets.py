"""The bucketing of actions: level sets of equal width between the bounds of each coordinate (Definition 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner
from optensemble._core.lanes import larger, smaller, spread

EDGE = 1e-9
"""An action this close below the edge of a bucket, in bucket widths, belongs to the next one: solver noise."""


class Interval(NamedTuple):
    """A bucket of a coordinate, as text; only the last one is closed above."""

    low: str
    high: str
    closed: bool

    def __str__(self) -> str:
        return f"in [{self.low}, {self.high}{']' if self.closed else ')'}"


@dataclass(frozen=True)
class Buckets:
    """The bucketing 𝒯: ``count`` level sets of equal width between the bounds of each coordinate.

    >>> unit = Buckets(lower=np.zeros(1), upper=np.ones(1), count=10)
    >>> unit(np.array([[0.0], [0.3], [0.99], [1.0]])).ravel().tolist()
    [0, 3, 9, 9]
    """

    lower: Floats
    upper: Floats
    count: int

    def __call__(self, actions: Floats) -> npt.NDArray[np.int16]:
        """Return the bucket of every coordinate of every action; both ends of the range are inside."""
        levels: npt.NDArray[np.int16] = _bucket_all(actions, self.lower, self.per_unit, self.count)
        return levels

    @cached_property
    def per_unit(self) -> Floats:
        """How many buckets there are to a unit of each coordinate; none where it is fixed."""
        span = self.upper - self.lower
        return np.divide(self.count, span, out=np.zeros_like(span), where=span > 0)

    def intervals(self, coordinate: int) -> list[Interval]:
        """Return the buckets of a coordinate, with enough digits to tell their edges apart.

        >>> [str(each) for each in Buckets(lower=np.array([0.0]), upper=np.array([4.0]), count=2).intervals(0)]
        ['in [0, 2)', 'in [2, 4]']
        >>> [str(each) for each in Buckets(lower=np.array([1000.0]), upper=np.array([1001.0]), count=2).intervals(0)]
        ['in [1000, 1000.5)', 'in [1000.5, 1001]']
        """
        edges = np.linspace(self.lower[coordinate], self.upper[coordinate], self.sizes[coordinate] + 1).tolist()
        written = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(4, 18))
        shown = next(texts for texts in written if len(set(texts)) == len(set(edges)))
        return [Interval(low, high, closed=at == len(shown) - 2) for at, (low, high) in enumerate(pairwise(shown))]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many buckets each coordinate has: one where it is fixed."""
        return tuple(np.where(self.upper > self.lower, self.count, 1).tolist())


@inner
def bucket(coordinate: float, lower: float, per_unit: float, count: int) -> np.int32:
    """Definition 2: the number of the level set that a coordinate of an action lies in."""
    # what is not negative is rounded down by the conversion; of 32 bits, processors have one for several at a time
    return np.int32(min(max((coordinate - lower) * per_unit + EDGE, 0.0), count - 1.0))


@inner
def buckets_of(coordinates, lower, per_unit, count):  # type: ignore[no-untyped-def]
    """Return the same of eight rows side by side, before it is rounded down."""
    level = (coordinates - spread(lower)) * spread(per_unit) + spread(EDGE)
    return smaller(larger(level, spread(0.0)), spread(count - 1.0))


@njit(cache=True, nogil=True)
def _bucket_all(actions: Floats, lower: Floats, per_unit: Floats, count: int) -> npt.NDArray[np.int16]:
    n, d = actions.shape
    levels = np.empty((n, d), np.int16)
    for i in range(n):
        for j in range(d):
            levels[i, j] = bucket(actions[i, j], lower[j], per_unit[j], count)
    return levels
