"""Dependence between rows (independent, clustered, time-ordered) and the standard errors it implies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.stats.blocks import BLOCKS, cluster_effect, t_quantile
from optensemble.stats.folds import Fold, folds

_RESAMPLES = 60
_MOST_UNITS = 500  # more rows than these are resampled in groups, whose means vary that much less


@dataclass(frozen=True, eq=False)
class Sampling:
    """The dependence between rows: none, time order, or ``clusters`` of rows that belong together."""

    time_ordered: bool = False
    clusters: Indices | None = None

    def folds(self, n: int, random_state: int | None = None) -> list[Fold]:
        """Cut rows into folds that depend little on each other."""
        return folds(n, time_ordered=self.time_ordered, clusters=self.clusters, random_state=random_state)

    def error(self, values: Floats) -> float:
        """Return the standard error of the mean of ``values``, one for each row."""
        plain = float(values.std(ddof=1)) / np.sqrt(len(values))
        return float(plain * np.sqrt(self.design_effect(values)))

    def design_effect(self, values: Floats) -> float:
        """Return the ratio of the variance of a mean to that of independent rows; at least 1."""
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
        """Return the half-width of a 95 % interval in standard errors, or of each of a ``family`` held jointly."""
        return t_quantile(n, self.time_ordered, self.clusters, family)

    def independent(self, payoffs: Floats) -> Floats:
        """Add up rows that depend on each other: fewer, independent ones of the same means and errors remain."""
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


def selection_bias(
    payoffs: Floats, select: Callable[[Floats], int], sampling: Sampling, random_state: int | None
) -> float:
    """Estimate the selection bias (winner's curse) in the payoff of the selected candidate.

    By resampling: the lead over the one really selected, of the one selected on resampled rows, is larger on these
    than on all rows. Rows that depend on each other are resampled together.

    Parameters
    ----------
    payoffs
        Of every candidate, of shape (candidates, n).
    select
        Returns the number of the candidate that such payoffs, of independent rows, speak for.
    sampling
        The dependence between rows.
    random_state
        Seeds the resampling.
    """
    if len(payoffs) == 1:
        return 0.0
    payoffs = sampling.independent(payoffs)
    n, lead = payoffs.shape[1], payoffs - payoffs[select(payoffs)]
    rng, means, bias = np.random.default_rng(random_state or 0), lead.mean(axis=1), 0.0
    for _ in range(_RESAMPLES):
        rows = rng.integers(n, size=n)
        selected = select(payoffs[:, rows])
        bias += float(lead[selected, rows].mean() - means[selected]) / _RESAMPLES
    return max(bias, 0.0)
