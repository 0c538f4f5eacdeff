"""Dependence between rows (independent, clustered, time-ordered) and the standard errors it implies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.stats.blocks import BLOCKS, RowUnits, UnitSums, block_of, part_of, sum_units, t_quantile
from optensemble.stats.folds import Fold, folds

_RESAMPLES = 60

MOST_UNITS = 500
"""More rows than these are resampled in groups, whose means vary that much less."""


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
        return self.mean_and_error(values)[1]

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Return the mean of ``values``, one for each row, and its standard error."""
        mean = values.mean()
        return float(mean), float(self._sums_about(mean, values).errors[0])

    def design_effect(self, values: Floats) -> float:
        """Return the ratio of the variance of a mean to that of independent rows; at least 1."""
        return float(self.sums(values).design_effects[0])

    def sums(self, values: Floats) -> UnitSums:
        """Return the sums of ``values`` about their mean over rows and units."""
        return self._sums_about(values.mean(), values)

    def _sums_about(self, mean: float, values: Floats) -> UnitSums:
        return UnitSums.of((values - mean)[None], self.units(len(values)))

    def units(self, n: int) -> RowUnits:
        """Return the units of ``n`` rows."""
        block = block_of(np.arange(n), n) if self.time_ordered else None
        return RowUnits(block, self.clusters, 0 if self.clusters is None else int(self.clusters.max()) + 1)

    def quantile(self, n: int, family: int = 1) -> float:
        """Return the half-width of a 95 % interval in standard errors, or of each of a ``family`` held jointly."""
        sizes = None if self.clusters is None else np.bincount(self.clusters).astype(np.float64)
        return t_quantile(n, self.time_ordered, sizes, family)

    def independent(self, payoffs: Floats) -> Floats:
        """Add up rows that depend on each other: fewer, independent ones of the same means and errors remain."""
        n = payoffs.shape[1]
        unit, units = resampled_units(np.arange(n), n, self.units(n))
        return scale_units(sum_units(payoffs, unit, units))


def resampled_units(rows: Indices, n: int, units: RowUnits) -> tuple[Indices, int]:
    """Return the unit in which each of ``n`` rows is resampled, and the number of these units."""
    if units.block is not None:
        count = min(2 * BLOCKS, n)
        return part_of(rows, n, count), count
    if units.cluster is not None:
        return units.cluster, units.clusters
    return rows % MOST_UNITS, min(n, MOST_UNITS)


def scale_units(sums: Floats) -> Floats:
    """Return sums over units, of shape (units, columns + 1), as so many rows of the same mean, (columns, units)."""
    return np.asarray(sums[:, :-1].T * (len(sums) / sums[:, -1].sum()))


def selection_bias(
    payoffs: Floats, select: Callable[[Floats], int], sampling: Sampling, random_state: int | None
) -> float:
    """Estimate the selection bias (winner's curse) in the payoff of the selected candidate.

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
    return resampled_bias(sampling.independent(payoffs), select, random_state)


def resampled_bias(payoffs: Floats, select: Callable[[Floats], int], random_state: int | None) -> float:
    """Estimate the same from payoffs of independent rows, by resampling them.

    The lead over the one really selected, of the one selected on resampled rows, is larger on these than on all rows.
    """
    if len(payoffs) == 1:
        return 0.0
    n, lead = payoffs.shape[1], payoffs - payoffs[select(payoffs)]
    rng, means, bias = np.random.default_rng(random_state or 0), lead.mean(axis=1), 0.0
    for _ in range(_RESAMPLES):
        rows = rng.integers(n, size=n)
        selected = select(payoffs[:, rows])
        bias += float(lead[selected, rows].mean() - means[selected]) / _RESAMPLES
    return max(bias, 0.0)
