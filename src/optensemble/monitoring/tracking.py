"""The tracked correction of a promise: by how much payoffs have lately been more than promised, as labels come in.

It follows a level that moves; it does not foresee. What it leaves is known exactly: with the correction ``c`` now, and
memory ``τ``, realised less promised payoffs sum to ``τ·c + delayed``, where ``delayed`` sums by how much ``c``, when a
label came, differed from the ``c`` that the row was promised with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats

MEMORY = 30.0
"""Rows after which an error of the promise counts for a third."""

_MISSED = 0.025  # of rows, on either side
_FASTER = 0.05  # of an interval's side, for each row that is outside
WIDTHS = 0.1, 1e6
"""How wide an interval may be, times that of the record."""


_CORRECTION, _DELAYED, _ERRORS, _COUNTED, _LOW, _HIGH = range(6)


@dataclass(frozen=True)
class Tracking:
    """A promise's correction, and how wide the interval of a row must be.

    Attributes
    ----------
    correction
        What is added to a promise, in the user's units.
    delayed, errors, counted
        The sums of the identity, and the number of rows, each as often as it counts: ``errors`` is the sum of realised
        less promised payoffs, and equals ``τ·correction + delayed``.
    below, above
        The sides of a row's interval, as multiples of those that its record gives: wider after each row that is
        outside, narrower after each that is not, so that one in forty is outside on either side.
    """

    correction: float = 0.0
    delayed: float = 0.0
    errors: float = 0.0
    counted: float = 0.0
    below: float = 1.0
    above: float = 1.0

    @property
    def mean_error(self) -> float:
        """Realised less promised payoff, on average over the rows whose labels have come."""
        return self.errors / self.counted if self.counted else 0.0

    def learn(
        self, realised: Floats, raw: Floats, promised: Floats, limits: tuple[Floats, Floats], counts: Floats
    ) -> Self:
        """Return what follows from the labels of further rows, in the order in which they came.

        Parameters
        ----------
        realised, raw, promised
            Payoffs; promises before they were corrected; and as they were made.
        limits
            The interval of each row.
        counts
            The number of rows that a row counts for.
        """
        numbers = np.array([self.correction, self.delayed, self.errors, self.counted, self.below, self.above])
        track(realised, raw, promised, *limits, counts, numbers)
        return replace(self, **dict(zip(self.__dataclass_fields__, numbers.tolist(), strict=True)))


@njit(cache=True, nogil=True)
def track(  # type: ignore[no-untyped-def]
    realised, raw, promised, low, high, counts, numbers
):
    """Add rows to the numbers of :class:`Tracking`, in place."""
    for i in range(len(realised)):
        missed, correction = realised[i] - raw[i], numbers[_CORRECTION]
        gain = min(counts[i] / MEMORY, 1.0)
        numbers[_CORRECTION] += gain * (missed - correction)
        numbers[_DELAYED] += counts[i] * (correction - (promised[i] - raw[i]))
        numbers[_DELAYED] += (counts[i] - MEMORY * gain) * (missed - correction)  # 0 but for very large counts
        numbers[_ERRORS] += counts[i] * (realised[i] - promised[i])
        numbers[_COUNTED] += counts[i]
        for side, outside in ((_LOW, realised[i] < low[i]), (_HIGH, realised[i] > high[i])):
            wider = numbers[side] * np.exp(counts[i] * _FASTER * (outside - _MISSED))
            numbers[side] = min(max(wider, WIDTHS[0]), WIDTHS[1])
