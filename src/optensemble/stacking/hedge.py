"""AdaHedge over policies whose payoffs become known late, in any order, and what is then certain of the payoff lost.

For any sequence of payoffs and any delays, the regret against a policy on the rows with labels is at most

    D − D₀ + D·ln(m)/K + drift + played,      K = ln m,

with ``D`` the mixability gaps added up from ``D₀`` on. ``drift`` is how much more the weights in force when labels
arrived would have earned than the weights that were played: the price of delays. ``played`` is what the weights played
would have earned beyond the action that was: a single policy in place of a mixture, say. Both are known exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner

_GAP, _DRIFT, _PLAYED = range(3)


@dataclass(frozen=True, eq=False)
class Hedge:
    """The weights of policies, and what was lost to each of them.

    Attributes
    ----------
    lost
        The regret against each policy: by how much it was ahead of what was earned, summed over the rows with labels,
        of shape (policies,).
    start
        The mixability gap D₀ to begin with: as large as payoffs differ by in a few rows, it keeps the first labels from
        deciding everything.
    gap, drift, played
        The sums that the certificate consists of.
    """

    lost: Floats
    start: float
    gap: float
    drift: float = 0.0
    played: float = 0.0

    @classmethod
    def over(cls, policies: int, start: float) -> Self:
        """Begin with equal weights.

        >>> Hedge.over(2, 1.0).weights.tolist()
        [0.5, 0.5]
        """
        return cls(np.zeros(policies), start, start)

    @property
    def weights(self) -> Floats:
        """The weight of each policy, as it follows from all labels that have come."""
        found = np.empty(len(self.lost))
        weigh(self.lost, self.gap, found)
        return found

    def learn(self, beyond: Floats, weights: Floats) -> Self:
        """Return what follows from the labels of further rows, in the order in which they came.

        Parameters
        ----------
        beyond
            By how much each policy was ahead of what was earned, of shape (n, policies).
        weights
            The weights that were in force when the rows were decided, of the same shape.
        """
        lost, sums = self.lost.copy(), np.array([self.gap, self.drift, self.played])
        absorb(np.ascontiguousarray(beyond), np.ascontiguousarray(weights), lost, sums)
        return replace(self, lost=lost, gap=float(sums[_GAP]), drift=float(sums[_DRIFT]), played=float(sums[_PLAYED]))

    @property
    def bound(self) -> float:
        """What was lost to any of the policies at most, whatever the labels were and whenever they came."""
        prior = 1.0 if len(self.lost) > 1 else 0.0  # ln(m)/K
        return self.gap - self.start + prior * self.gap + self.drift + self.played


@inner
def temper(policies: int) -> float:
    """Return K, which says how fast weights follow payoffs: the bound is smallest at ln m."""
    return math.log(max(policies, 2))


@inner
def log_sum_exp(values: Floats, rate: float) -> float:
    """Return ``ln Σ exp(rate·values)/rate``, which is the largest value where the rate is infinite."""
    most, total = values[0], 0.0
    for at in range(1, len(values)):
        most = max(most, values[at])
    if math.isinf(rate):
        return float(most)
    for at in range(len(values)):
        total += math.exp(rate * (values[at] - most))
    return float(most) + math.log(total) / rate


@njit(cache=True, nogil=True)
def weigh(lost: Floats, gap: float, weights: Floats) -> float:
    """Write the weights that follow from what was lost to each policy; return the rate they were made with."""
    rate = temper(len(lost)) / gap if gap > 0.0 else math.inf
    most, total = lost.max(), 0.0
    for at in range(len(lost)):
        behind = lost[at] - most
        weights[at] = (1.0 if behind == 0.0 else 0.0) if math.isinf(rate) else math.exp(rate * behind)
        total += weights[at]
    weights /= total
    return rate


@njit(cache=True, nogil=True)
def absorb(beyond: Floats, weights: Floats, lost: Floats, sums: Floats) -> None:
    """Add rows to what was lost and to the sums of the certificate, in place."""
    now = np.empty(len(lost))
    for i in range(len(beyond)):
        rate = weigh(lost, sums[_GAP], now)
        before = log_sum_exp(lost, rate)
        mean, then = 0.0, 0.0
        for at in range(len(lost)):
            mean += now[at] * beyond[i, at]
            then += weights[i, at] * beyond[i, at]
            lost[at] += beyond[i, at]
        # the gap is a difference of logarithms of sums: weights too small for a number count in it too
        sums[_GAP] += max(log_sum_exp(lost, rate) - before - mean, 0.0)
        sums[_DRIFT] += mean - then
        sums[_PLAYED] += then
