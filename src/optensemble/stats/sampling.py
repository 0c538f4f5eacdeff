"""How rows hang together, and what a mean over them is therefore worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.stats.blocks import BLOCKS, cluster_effect, t_quantile
from optensemble.stats.folds import Fold, folds

_RESAMPLES = 60
_MOST_UNITS = 500  # more rows than these are resampled in groups, whose means vary as much less


@dataclass(frozen=True, eq=False)
class Sampling:
    """Rows are independent, or in time order, or belong together by ``clusters``."""

    time_ordered: bool = False
    clusters: Indices | None = None

    def folds(self, n: int, random_state: int | None = None) -> list[Fold]:
        """Cut rows into parts that tell little of each other."""
        return folds(n, time_ordered=self.time_ordered, clusters=self.clusters, random_state=random_state)

    def error(self, values: Floats) -> float:
        """Return the standard error of the mean of ``values``, one for each row."""
        plain = float(values.std(ddof=1)) / np.sqrt(len(values))
        return float(plain * np.sqrt(self.design_effect(values)))

    def design_effect(self, values: Floats) -> float:
        """Return how many times the variance of a mean exceeds that of independent rows; at least 1."""
        variance = float(values.var(ddof=1))
        if variance == 0:
            return 1.0
        effect = 1.0
        if self.time_ordered:
            means = [block.mean() for block in np.array_split(values, BLOCKS)]
            effect = max(effect, float(np.var(means, ddof=1)) * len(values) / BLOCKS / variance)
        if self.clusters is not None:
            effect = max(effect, cluster_effect(values - values.mean(), self.clusters, variance))
        return effect

    def quantile(self, n: int, family: int = 1) -> float:
        """Return how many standard errors make half of a 95 % interval, or of each of so many that hold together."""
        return t_quantile(n, self.time_ordered, self.clusters, family)

    def independent(self, payoffs: Floats) -> Floats:
        """Add rows that hang together up, so that there are fewer, independent ones of the same means and errors."""
        n = payoffs.shape[1]
        if self.time_ordered:
            units = np.arange(n) * min(2 * BLOCKS, n) // n
        elif self.clusters is not None:
            units = self.clusters
        elif n > _MOST_UNITS:
            units = np.arange(n) % _MOST_UNITS
        else:
            return payoffs
        sums = np.stack([np.bincount(units, each) for each in payoffs])
        return np.asarray(sums * sums.shape[1] / n)


def winners_curse(
    payoffs: Floats, pick: Callable[[Floats], int], sampling: Sampling, random_state: int | None
) -> float:
    """Return by how much the payoff of whoever is picked is flattered by having been picked.

    Estimated by resampling: by how much more the one picked on resampled rows leads the one really picked there than on
    all rows. Rows that hang together are resampled together.

    Parameters
    ----------
    payoffs
        Of every candidate, of shape (candidates, n).
    pick
        Returns the number of the candidate that such payoffs, of independent rows, speak for.
    sampling
        How rows hang together.
    random_state
        Seeds the resampling.
    """
    if len(payoffs) == 1:
        return 0.0
    payoffs = sampling.independent(payoffs)
    n, lead = payoffs.shape[1], payoffs - payoffs[pick(payoffs)]
    rng, means, curse = np.random.default_rng(random_state or 0), lead.mean(axis=1), 0.0
    for _ in range(_RESAMPLES):
        rows = rng.integers(n, size=n)
        picked = pick(payoffs[:, rows])
        curse += float(lead[picked, rows].mean() - means[picked]) / _RESAMPLES
    return max(curse, 0.0)
