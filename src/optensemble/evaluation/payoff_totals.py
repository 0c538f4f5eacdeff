"""Self-assessed beside realised payoff as sums over rows: all that the calibration of a promise needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import LARGEST, Sums
from optensemble.stats.blocks import BLOCKS, block_of, part_of, sum_units
from optensemble.stats.row_design import EXACT_ROWS
from optensemble.stats.row_sample import RowSample

SAMPLE_ROWS = 1 << 16
"""Rows of a sample, where not every row is kept."""

TIME_BINS = 100 * BLOCKS
"""The contiguous parts over which very many rows in time order are summed."""

_ROUNDING = 1e-13  # relative to the sum of squares about the centre: a spread below this is none


@dataclass(frozen=True)
class PairTotals(Sums):
    """Sums of self-assessed (a) and realised (r) payoff about a common ``centre``.

    Attributes
    ----------
    folds
        For each fold the sums of 1, a, r, a², a·r, r², each row as often as its weight says: shape (folds, 6).
    bins
        For contiguous parts of time the sums of a, r and 1: shape (bins, 3); None without time order.
    clusters
        The same for each cluster; None without clusters.
    low, high
        The least (as its negative) and the largest self-assessment, about the centre.
    weight_squares
        The sum of squared weights; None where rows have no weights.
    """

    centre: float = field(metadata={"join": lambda left, right: left})
    folds: Floats
    bins: Floats | None
    clusters: Floats | None
    low: float = field(metadata=LARGEST)
    high: float = field(metadata=LARGEST)
    weight_squares: float | None = None

    @classmethod
    def of(
        cls,
        assessed: Floats,
        realised: Floats,
        centre: float,
        fold: Indices,
        folds: int,
        bins: tuple[Indices, int] | None = None,
        clusters: tuple[Indices, int] | None = None,
        weights: Floats | None = None,
    ) -> Self:
        """Sum over rows, given the fold, the part of time and the cluster of each, and how many of these there are."""
        a, r = assessed - centre, realised - centre
        powers = sum_units(np.stack([np.ones_like(a), a, r, a * a, a * r, r * r]), fold, folds, weights)[:, :-1]
        pair = np.stack([a, r])
        return cls(
            centre=centre,
            folds=powers,
            bins=None if bins is None else sum_units(pair, *bins, weights),
            clusters=None if clusters is None else sum_units(pair, *clusters, weights),
            weight_squares=None if weights is None else float(np.square(weights).sum()),
            low=float(-a.min(initial=np.inf)),  # both may be of either sign: the centre need not lie between them
            high=float(a.max(initial=-np.inf)),
        )

    def followed_by(
        self, assessed: Floats, realised: Floats, clusters: Indices | None, weights: Floats | None = None
    ) -> PairTotals:
        """Return the totals with further rows, which came later and are a fold of their own."""
        clustered = None
        if self.clusters is not None and clusters is not None:
            known = max(len(self.clusters), int(clusters.max()) + 1)
            clustered = (clusters, known)
        n = len(assessed)
        parts = max(min(n, int(np.ceil(n / max(self.rows / TIME_BINS, 1)))), 1)
        bins = None if self.bins is None else (part_of(np.arange(n), n, parts), parts)
        more = type(self).of(assessed, realised, self.centre, np.zeros(n, dtype=np.int64), 1, bins, clustered, weights)
        wider = self.clusters
        if wider is not None and more.clusters is not None:
            wider = np.concatenate([wider, np.zeros((len(more.clusters) - len(wider), 3))]) + more.clusters
        return replace(
            self,
            folds=np.concatenate([self.folds, more.folds]),
            bins=None if self.bins is None or more.bins is None else np.concatenate([self.bins, more.bins]),
            clusters=wider,
            low=max(self.low, more.low),
            high=max(self.high, more.high),
            weight_squares=None
            if self.weight_squares is None or more.weight_squares is None
            else self.weight_squares + more.weight_squares,
        )

    def scaled(self, factor: float) -> PairTotals:
        """Return the same with all weights multiplied by a factor; itself where rows have no weights."""
        if self.weight_squares is None:
            return self
        bins, clusters = (None if sums is None else sums * factor for sums in (self.bins, self.clusters))
        squares = self.weight_squares * factor**2
        return replace(self, folds=self.folds * factor, bins=bins, clusters=clusters, weight_squares=squares)

    def signed(self, sign: float) -> PairTotals:
        """Return the same of payoffs in the other sense, if ``sign`` is -1."""
        if sign > 0:
            return self

        def turned(sums: Floats | None) -> Floats | None:
            return None if sums is None else sums * np.array([-1.0, -1.0, 1.0])

        folds = self.folds * np.array([1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
        sums = turned(self.bins), turned(self.clusters)
        return PairTotals(-self.centre, folds, *sums, self.high, self.low, self.weight_squares)

    # The regression of r on a

    @property
    def rows(self) -> int:
        """The number of rows; of weighted rows the sum of their weights, which are about 1."""
        return round(float(self.folds[:, 0].sum()))

    @property
    def effective(self) -> float:
        """The number of rows of equal weight whose mean is as sure."""
        if self.weight_squares is None:
            return self.rows
        return float(self.folds[:, 0].sum()) ** 2 / self.weight_squares

    @property
    def means(self) -> tuple[float, float]:
        """The mean self-assessed and the mean realised payoff."""
        n, a, r = self.folds[:, :3].sum(axis=0)
        return float(self.centre + a / n), float(self.centre + r / n)

    def spread(self, within: bool) -> tuple[float, float]:
        """Return the sums of squares of a, and of its products with r, about means; ``within`` folds about theirs."""
        sums = self.folds[self.folds[:, 0] > 0] if within else self.folds.sum(axis=0, keepdims=True)
        n, a, r, aa, ar, _ = sums.T
        squares, products = float((aa - a * a / n).sum()), float((ar - a * r / n).sum())
        size = _ROUNDING * float(self.folds[:, 3].sum()) + 1e-18 * self.rows * self.centre**2
        return (squares, products) if squares > size else (0.0, 0.0)

    @property
    def deviation(self) -> float:
        """The standard deviation of self-assessments."""
        return float(np.sqrt(self.spread(within=False)[0] / self.rows))

    @property
    def farthest(self) -> float:
        """How far the farthest self-assessment lies from their mean."""
        mean = self.means[0] - self.centre
        return max(self.high - mean, self.low + mean)

    def residual_squares(self, slope: float) -> float:
        """Return the sum of squared residuals ``r − r̄ − slope·(a − ā)``."""
        n, a, r, aa, ar, rr = self.folds.sum(axis=0)
        squares = (rr - r * r / n) - 2 * slope * (ar - a * r / n) + slope**2 * (aa - a * a / n)
        size = rr + slope**2 * aa
        return float(squares) if squares > 1e-14 * size else 0.0

    def block_levels(self, slope: float) -> tuple[Floats, Floats]:
        """Return the mean residual of each tenth of time, and the mean number of its rows about that of all."""
        if self.bins is None:
            return np.empty(0), np.empty(0)
        sizes = self.bins[:, -1]
        ends = np.cumsum(sizes)
        middles = np.minimum((ends - sizes / 2).astype(np.int64), self.rows - 1)  # the last bins may be empty
        tenth = block_of(middles, self.rows)
        summed = np.zeros((BLOCKS, 3))
        np.add.at(summed, tenth, self.bins)
        where = np.bincount(tenth, weights=(ends - sizes / 2 - 0.5) * sizes, minlength=BLOCKS)
        summed, where = summed[summed[:, -1] > 0], where[summed[:, -1] > 0]
        a, r, n = summed.T
        whole = self.folds.sum(axis=0)
        levels = r / n - whole[2] / whole[0] - slope * (a / n - whole[1] / whole[0])
        centres = where / n
        return levels, centres - centres.mean()

    def cluster_residuals(self, slope: float) -> tuple[Floats, Floats] | None:
        """Return the sum of residuals and the number of rows of each cluster; None without clusters."""
        if self.clusters is None:
            return None
        n, a, r = self.folds[:, :3].sum(axis=0)
        sums = self.clusters
        return sums[:, 1] - sums[:, 2] * r / n - slope * (sums[:, 0] - sums[:, 2] * a / n), sums[:, 2]


def pair_sample(rows: Indices, columns: Floats, total: int) -> RowSample:
    """Keep columns (n, columns) of some of ``total`` rows; of very many rows a sample."""
    return RowSample.of(rows, columns, total, exact=EXACT_ROWS, most=SAMPLE_ROWS)
