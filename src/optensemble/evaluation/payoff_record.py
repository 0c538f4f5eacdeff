"""The out-of-fold record of payoffs, and the calibration of self-assessments by it.

Raw self-assessments are calibrated by regression: realised payoff on self-assessment, on rows that the policy was not
fitted on, ``v'(x) = r̄ + β(v(x) − v̄)``. Decisions do not change by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.payoff_totals import PairTotals, pair_sample
from optensemble.evaluation.possible_payoffs import NOTHING_KNOWN, LabelRange, Possible
from optensemble.evaluation.promise import Promise
from optensemble.stats.blocks import BLOCKS, LEVEL, left_by_centring, t_quantile
from optensemble.stats.intervals import outer_quantiles
from optensemble.stats.long_run import long_run_ratio
from optensemble.stats.row_design import EXACT_ROWS
from optensemble.stats.sample_size import LEARNING

TREND = 3.0
"""The standard errors that make a steady trend in the mean of rows in time order, which a promise then follows."""

WHITE = 1.0
"""Below this Durbin-Watson statistic the residuals of a line are no noise: the mean wanders, and has no trend."""

UNLIKE = 1.25
"""The ratio of standard deviations of self-assessments above which rows are unlike the fitting rows."""

SHIFT = 0.5
"""The shift of their mean, in standard deviations, above which rows are unlike the fitting rows, if not by chance."""

_ENOUGH_FOR_SPREAD = 20  # rows
_FEWEST_EACH = 30  # rows with, and without, an absent member: fewer do not tell them apart
_UNSEEN = 3.0  # rows: what none of n rows showed may come in 3 of n, at 95 % (the rule of three)
_ROUNDING = 1e-9  # relative: what sums of payoffs may be off by, and more


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """Self-assessed and realised payoff, row by row, on rows the policy was not fitted on.

    ``clusters`` numbers the groups of rows that belong together, if any; ``curse`` is the selection bias (winner's
    curse) of having selected the policy by this record; ``folds`` is the number of each row's fold, if any.

    Of very many rows only a sample is kept, with its ``rows``, and the ``totals`` of all. ``weights`` of rows are about
    1 on average; ``unit`` is what a weight of 1, as the user gave it, is among them. ``incomplete`` are the rows in
    which some member is absent, if there are any: what self-assessments are off by there is told apart. ``labels`` is
    the range of the labels of all rows.
    """

    assessed: Floats
    realised: Floats
    sign: float = 1.0
    time_ordered: bool = False
    clusters: Indices | None = None
    curse: float = 0.0
    folds: Indices | None = None
    rows: Indices | None = None
    totals: PairTotals | None = None
    weights: Floats | None = None
    unit: float = 1.0
    incomplete: npt.NDArray[np.bool_] | None = None
    labels: LabelRange = NOTHING_KNOWN

    def __repr__(self) -> str:
        return f"Record({len(self):,} rows, {self._sums.means[1]:.4g} realised, slope {self.slope:.3g})"

    def __len__(self) -> int:
        return self._sums.rows

    @cached_property
    def _sums(self) -> PairTotals:
        """Return the sums over all rows."""
        if self.totals is not None:
            return self.totals
        n = len(self.assessed)
        fold = np.zeros(n, dtype=np.int64) if self.folds is None else self.folds
        return PairTotals.of(
            *(self.assessed, self.realised, float(self.realised.mean())),
            *(fold, int(fold.max()) + 1),
            bins=(np.arange(n), n) if self.time_ordered else None,
            clusters=None if self.clusters is None else (self.clusters, int(self.clusters.max()) + 1),
            weights=self.weights,
        )

    @property
    def effective(self) -> float:
        """The number of rows of equal weight whose mean is as sure."""
        return self._sums.effective

    def extend(
        self,
        assessed: Floats,
        realised: Floats,
        clusters: Indices | None = None,
        weights: Floats | None = None,
        incomplete: npt.NDArray[np.bool_] | None = None,
        labels: LabelRange = NOTHING_KNOWN,
    ) -> Record:
        """Return the record with further rows; where there are clusters and none are given, each is on its own.

        Weights are in the user's units. Where earlier rows have weights and these have none, each counts for one.
        ``labels`` is the range of these rows' labels.
        """
        n, m = len(self), len(assessed)
        if weights is not None and self._sums.weight_squares is None:
            return replace(self, weights=np.ones(len(self.assessed)), totals=_with_weights(self.totals)).extend(
                assessed, realised, clusters, weights, incomplete, labels
            )
        if self._sums.weight_squares is not None:
            weights = np.full(m, self.unit) if weights is None else weights * self.unit
        if self._sums.clusters is not None and clusters is None:
            clusters = len(self._sums.clusters) + np.arange(m)
        curse = self.curse * n / (n + m)  # new rows are free of selection
        if self.totals is None and n + m <= EXACT_ROWS:
            return replace(
                self,
                assessed=np.concatenate([self.assessed, assessed]),
                realised=np.concatenate([self.realised, realised]),
                clusters=None if self.clusters is None else np.concatenate([self.clusters, np.asarray(clusters)]),
                curse=curse,
                folds=None if self.folds is None else np.concatenate([self.folds, np.full(m, self.folds.max() + 1)]),
                weights=None if self.weights is None else np.concatenate([self.weights, np.asarray(weights)]),
                incomplete=_joined(self.incomplete, incomplete, n, m),
                labels=self.labels.joined(labels),
            )
        columns = [(self.assessed, assessed), (self.realised, realised)]
        columns += [] if self.weights is None or weights is None else [(self.weights, weights)]
        pairs = np.stack([np.concatenate(each) for each in columns], axis=1)
        rows = np.concatenate([np.arange(n) if self.rows is None else self.rows, n + np.arange(m)])
        kept, (sampled, earned, *weighted) = pair_sample(rows, pairs, n + m).in_order()
        totals = self._sums.followed_by(assessed, realised, clusters, weights)
        terms = sampled, earned, self.sign, self.time_ordered, None, curse, None, kept, totals
        known = self.labels.joined(labels)
        return Record(*terms, weights=weighted[0] if weighted else None, unit=self.unit, labels=known)

    def first(self, n: int) -> Record:
        """Return the record of the first rows, as it was before others came; all rows must be in it."""
        names = ("assessed", "realised", "clusters", "folds", "weights", "incomplete")
        rows: dict[str, Any] = {name: None if (each := getattr(self, name)) is None else each[:n] for name in names}
        if rows["incomplete"] is not None and not rows["incomplete"].any():
            rows["incomplete"] = None
        return replace(self, curse=self.curse * len(self) / n, **rows)

    def correct(
        self,
        assessed: Floats,
        incomplete: npt.NDArray[np.bool_] | None = None,
        possible: Possible | None = None,
    ) -> Floats:
        """Return the calibrated payoff of each row, at the level of the last rows if there is a trend.

        It lies within what is ``possible`` in each row, if anything is known of that.
        """
        return self.calibration.correct(assessed, incomplete, possible)

    @cached_property
    def calibration(self) -> Calibration:
        """How self-assessments are calibrated."""
        offset, share = (0.0, 0.0) if self.absence is None else (self.absence.offset, self.absence.share)
        base = self.level + self.trend[0] * len(self) / 2
        return Calibration(base, self.slope, self.centre, offset, share, self.weighing)

    @property
    def weighing(self) -> float:
        """What a weight of 1 is among weights that are 1 on average; 0 where the rows have none."""
        return 0.0 if self._sums.weight_squares is None else self.unit

    def limits(
        self,
        assessed: Floats,
        incomplete: npt.NDArray[np.bool_] | None = None,
        possible: Possible | None = None,
    ) -> tuple[Floats, Floats]:
        """Return a 95 % prediction interval for the payoff of each row.

        Its ends are quantiles of the out-of-fold errors (conformal prediction): normality is not assumed. It holds on
        average over rows, not for every kind of row. The mean of clusters and of rows in time order may differ from the
        past one; a trend may go on for a quarter as many rows, or stop.
        """
        calibrated = self.correct(assessed, incomplete)
        low, high = (calibrated + side for side in self._sides)
        return (low, high) if possible is None else (possible.clip(low), possible.clip(high))

    @cached_property
    def _sides(self) -> tuple[float, float]:
        """Return how far the payoff of a row may lie from the calibrated one, on either side."""
        when = np.arange(len(self.residual)) if self.rows is None else self.rows
        missed = self.residual - self.trend[0] * (when - (len(self) - 1) / 2)
        tails = outer_quantiles(missed, self.weights, (1 - LEVEL) / 2)
        if tails is None:
            return -np.inf, np.inf
        drift, doubt = self._drift(len(self) // 4)
        level = float(np.hypot(self._level_doubt, doubt))
        low = -max(np.hypot(tails[0], level), self._floor) + min(2 * drift, 0.0)
        return float(low), float(max(np.hypot(tails[1], level), self._floor) + max(2 * drift, 0.0))

    @cached_property
    def _level_doubt(self) -> float:
        """Return the half-width for the mean of new rows, beyond what their own noise explains."""
        level = self.noise * (self.design_effect - 1) / self.effective
        if self.time_ordered:
            level += (1 + 1 / BLOCKS) * self.wander
        return self.quantile * float(np.sqrt(level)) if level else 0.0

    def promise(self, rows: Floats | Assessments) -> Promise:
        """Promise the average payoff over new rows, with an interval for what will be realised on them.

        Of a single row it is the interval of that row, see :meth:`limits`.
        """
        assessed = _summary(rows)
        drift, _ = self._drift(assessed.count)
        mean, low, high = (self._of_row if assessed.count == 1 else self._of_mean)(assessed)
        mean, low, high = (min(max(value, assessed.floor), assessed.ceiling) for value in (mean, low, high))
        strange = self._strangeness(assessed)
        notes = [f"these rows are unlike the fitted ones, {strange}: the promise may not hold"] if strange else []
        if drift:
            way = "rising" if drift > 0 else "falling"
            notes.append(f"the level has been {way} steadily, which may go on or stop")
        return Promise(
            mean=mean,
            low=low,
            high=high,
            rows=assessed.count,
            rely_on=low if self.sign > 0 else high,
            unlike=bool(strange),
            time_ordered=self.time_ordered,
            note="; ".join(notes),
        )

    def finds_unlike(self, rows: Assessments) -> bool:
        """Return whether rows are unlike the fitting rows; less is computed for that than for a promise."""
        return bool(self._strangeness(rows))

    def _of_row(self, assessed: Assessments) -> tuple[float, float, float]:
        """Return the calibrated payoff of a single row, and its limits."""
        row = np.array([assessed.mean]), np.array([assessed.incomplete > 0])
        low, high = self.limits(*row)
        return float(self.correct(*row)[0]), float(low[0]), float(high[0])

    def _of_mean(self, assessed: Assessments) -> tuple[float, float, float]:
        """Return the calibrated mean payoff of several rows, and its limits."""
        drift, doubt = self._drift(assessed.count)
        mean = float(self.correct(np.array([assessed.mean]), np.array([assessed.incomplete]))[0]) + drift / 2
        half = float(np.hypot(self.half_width(assessed), doubt)) + abs(drift) / 2  # it may go on, or stop
        return mean, mean - half, mean + half

    def _drift(self, m: int) -> tuple[float, float]:
        """Return how far a trend carries the mean over the next ``m`` rows, and the half-width of that."""
        slope, error = self.trend
        if not error:
            return slope * m / 2, 0.0
        from scipy.special import stdtrit  # takes a tenth of a second to load, and most rows have no trend

        ahead = (len(self) + m) / 2  # from the centre of the record to the centre of the new rows
        return slope * m / 2, float(stdtrit(BLOCKS - 2, (1 + LEVEL) / 2)) * error * ahead

    def half_width(self, rows: Floats | Assessments) -> float:
        """Return half the width of the interval for the average over these rows."""
        assessed = _summary(rows)
        n, m = self.effective, assessed.effective
        noise, away = self.noise, assessed.mean - self.centre
        leverage = away * away / self.spread if self.spread > 0 else 0.0
        if self.absence is not None:
            leverage += (assessed.incomplete - self.absence.share) ** 2 * self.absence.doubt
        # rows of a block or cluster go together; fewer new rows than that cannot
        together = noise * (self.design_effect * (1 / n + leverage) + min(self.design_effect, m) / m)
        if not self.time_ordered:
            learning = self.design_effect * noise * LEARNING / n**2
            return max(self.quantile * float(np.sqrt(together + learning)), self._floor)
        # or the level of a block is drawn anew, whatever its length
        wandering = noise * (1 / n + 1 / m) + (1 + 1 / BLOCKS) * self.wander + self.design_effect * noise * leverage
        widened = max(together, wandering) * max(1.0, self._widening(assessed))
        return max(self.quantile * float(np.sqrt(widened)), self._floor)

    @property
    def own_half_width(self) -> float:
        """Return half the width of the promise for as many rows again as the record has, of the same kind."""
        n, share = len(self), 0.0 if self.absence is None else self.absence.share
        squares, weighed = n * self._sums.deviation**2, None if self._sums.weight_squares is None else self.effective
        mean, _, high = self._of_mean(Assessments(n, self.centre, squares, weighed=weighed, incomplete=share))
        return high - mean

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a row's payoff about the calibrated one; never 0, for payoffs are rounded.

        Where rows have weights it is that of the weighted residual, whose mean is the one that the promise is of.

        >>> Record(np.ones(9), np.ones(9)).deviation
        1e-09
        """
        size = max(map(abs, self._sums.means))
        spread = np.sqrt(self.noise) if self.weights is None else (self.weights * self.residual).std()
        return max(float(spread), _ROUNDING * (size or 1.0))

    @cached_property
    def long_run(self) -> float:
        """Return the ratio of the long-run variance of residuals to their variance, at least 1.

        Where only a sample of the rows is kept, which do not follow each other, it is the design effect.
        """
        if self.totals is not None:
            return self.design_effect
        residual = self.residual if self.weights is None else self.weights * self.residual
        return max(long_run_ratio(residual), self._cluster_effect)

    @cached_property
    def _floor(self) -> float:
        """Return the least half-width of an interval: no record shows that nothing can go wrong.

        Self-assessments that were right in all ``n`` rows may be wrong in 3 of the next ``n`` (the rule of three), by
        as much as payoffs differ: that moves the mean by 3 standard deviations over ``n``. Where all payoffs were equal
        nothing is known of by how much, and only rounding is left (of one unit, if all were 0). Ordinary intervals are
        far wider: their half-width goes down with the root of ``n``.
        """
        n, size = len(self), max(map(abs, self._sums.means))
        spread = float(np.sqrt(self._sums.residual_squares(0.0) / n))
        return max(_UNSEEN * spread / max(n, _UNSEEN), _ROUNDING * (size or 1.0))

    # The regression

    @cached_property
    def absence(self) -> Absence | None:
        """How far residuals differ where some member is absent; None where too few rows tell.

        The share of such rows may be another one later, if a member stops for good or has joined late.
        """
        if self.incomplete is None:
            return None
        weights = np.ones(len(self.residual)) if self.weights is None else self.weights
        there, away = weights[~self.incomplete], weights[self.incomplete]
        if min(_kish(there), _kish(away)) < _FEWEST_EACH:
            return None
        means = [np.average(self.residual[rows], weights=weights[rows]) for rows in (~self.incomplete, self.incomplete)]
        share = float(away.sum() / weights.sum())
        return Absence(share, float(means[1] - means[0]), 1 / _kish(there) + 1 / _kish(away))

    @property
    def centre(self) -> float:
        """Return the mean self-assessment."""
        return self._sums.means[0]

    @property
    def level(self) -> float:
        """Return the mean payoff, without its selection bias."""
        return self._sums.means[1] - self.sign * self.curse

    @cached_property
    def _spread(self) -> tuple[float, float]:
        """Return sums of squares and products about means, of independent rows about the means of their folds.

        Out of fold a forecast lacks its own fold's level, so that levels of folds and of their forecasts go against
        each other: what self-assessments are worth shows within folds. In time order levels differ for better reasons.
        """
        return self._sums.spread(within=not self.time_ordered)

    @property
    def spread(self) -> float:
        """Return the sum of squares of self-assessments about their means."""
        return self._spread[0]

    @cached_property
    def slope(self) -> float:
        """Return the slope of payoff on self-assessment; never negative."""
        squares, products = self._spread
        return max(products / squares, 0.0) if squares > 0 else 0.0

    @cached_property
    def residual(self) -> Floats:
        """Return the residuals of the regression; of very many rows those of the sample."""
        centre, level = self._sums.means
        return np.asarray(self.realised - level - self.slope * (self.assessed - centre))

    @cached_property
    def noise(self) -> float:
        """Return the variance of the residuals."""
        squares, n = self._sums.residual_squares(self.slope), self.effective
        if self._sums.weight_squares is None:
            return squares / max(n - 2, 1)
        return squares / float(self._sums.folds[:, 0].sum()) * n / max(n - 2, 1)

    @cached_property
    def _blocks(self) -> tuple[Floats, Floats]:
        return self._sums.block_levels(self.slope)

    @property
    def blocks(self) -> Floats:
        """Return the mean residual of each contiguous block of rows in time order."""
        return self._blocks[0]

    @cached_property
    def trend(self) -> tuple[float, float]:
        """Return the trend of the mean per row and its standard error; 0 unless it is steady."""
        if not self.time_ordered:
            return 0.0, 0.0
        slope, left = self._line
        error = float(np.sqrt(left @ left / (BLOCKS - 2) / (self._when @ self._when)))
        wandering = np.square(np.diff(left)).sum() < WHITE * float(left @ left)
        if abs(slope) <= TREND * error or wandering:
            return 0.0, 0.0
        # a fold's own level is missing in the forecast made without it, which makes a trend look steeper than it is
        folds = int((self._sums.folds[:, 0] > 0).sum())
        return slope * (1 - 1 / folds if folds > 1 else 1.0), error

    @property
    def _when(self) -> Floats:
        return self._blocks[1]

    @cached_property
    def _line(self) -> tuple[float, Floats]:
        """Return the slope of the blocks' levels, and what a line through them leaves."""
        slope = float(self._when @ self.blocks / (self._when @ self._when))
        return slope, self.blocks - self.blocks.mean() - slope * self._when

    @cached_property
    def _block_variance(self) -> float:
        """Return the variance of the blocks' levels, about their trend if they have one."""
        if self.trend[0] == 0:
            return float(self.blocks.var(ddof=1))
        return float(self._line[1] @ self._line[1]) / (BLOCKS - 2)

    @cached_property
    def wander(self) -> float:
        """Return the variance of the level of a block, beyond what row noise explains."""
        return max(self._block_variance - self.noise / (self.effective / BLOCKS), 0.0)

    @cached_property
    def design_effect(self) -> float:
        """Return the ratio of the variance of a mean to that of independent rows."""
        if self.noise == 0 or not self.time_ordered:
            return self._cluster_effect
        return max(self._cluster_effect, self._block_variance * self.effective / BLOCKS / self.noise)

    @property
    def _cluster_effect(self) -> float:
        """Return the same where only rows of a cluster go together."""
        found = self._sums.cluster_residuals(self.slope)
        if self.noise == 0 or found is None:
            return 1.0
        sums, sizes = found
        left = max(left_by_centring(sizes), 1e-9)
        squares = len(self) if self._sums.weight_squares is None else self._sums.weight_squares
        return max(1.0, float(np.square(sums).sum()) / (squares * self.noise) / left)

    @cached_property
    def quantile(self) -> float:
        """Return the quantile of Student's t that goes with how the variance was measured."""
        sizes = None if self._sums.clusters is None else self._sums.clusters[:, -1]
        return t_quantile(self.effective - 1, self.time_ordered, sizes)

    def _strangeness(self, assessed: Assessments) -> str:
        """Return how the self-assessments of rows differ from the fitting rows', in words; empty if they do not."""
        n, m, spread = self.effective, assessed.effective, self._sums.deviation
        if spread == 0:
            return ""
        away = abs(assessed.mean - self.centre) / spread
        if away > SHIFT and away > 5 * np.sqrt(1 / n + 1 / m):
            return f"on average {away:.1f} of their standard deviations away"
        beyond = assessed.beyond(self.centre) / self._sums.farthest
        if beyond > 3:
            return f"some of them {beyond:.0f} times as far out as any of those"
        if m >= _ENOUGH_FOR_SPREAD and self._widening(assessed) > UNLIKE:
            return f"{self._widening(assessed):.1f} times as spread out"
        return ""

    def _widening(self, assessed: Assessments) -> float:
        fitted = self._sums.deviation
        return assessed.deviation / fitted if fitted > 0 and assessed.count > 1 else 1.0


class Calibration(NamedTuple):
    """How a self-assessment becomes a promise: by a line through ``base`` at ``centre``, and by whether members lack.

    Where a member is absent, as in a ``share`` of the rows, payoffs are higher by ``offset``. ``weighing`` is what a
    weight of 1 is among those of the record, or 0: errors count by their weights where the record's rows have any.
    """

    base: float
    slope: float
    centre: float
    offset: float
    share: float
    weighing: float = 0.0

    def correct(
        self, assessed: Floats, incomplete: npt.NDArray[np.bool_] | None = None, possible: Possible | None = None
    ) -> Floats:
        """Return the calibrated payoff of each row; see :meth:`Record.correct`."""
        calibrated = self.base + self.slope * (assessed - self.centre)
        if self.offset:
            away = np.zeros(len(assessed)) if incomplete is None else incomplete
            calibrated = np.asarray(calibrated + self.offset * (away - self.share))
        return calibrated if possible is None else possible.clip(calibrated)


class Absence(NamedTuple):
    """The share of rows in which some member is absent, by how much payoffs there are more than calibrated, and doubt.

    The variance of the ``offset`` is ``doubt`` times that of a row.
    """

    share: float
    offset: float
    doubt: float


def _kish(weights: Floats) -> float:
    """Return the effective number of rows of some weights."""
    return float(weights.sum() ** 2 / np.square(weights).sum()) if weights.any() else 0.0


def _joined(
    left: npt.NDArray[np.bool_] | None, right: npt.NDArray[np.bool_] | None, n: int, m: int
) -> npt.NDArray[np.bool_] | None:
    """Return a mask of both parts; None where neither has one."""
    if left is None and right is None:
        return None
    parts = (np.zeros(size, dtype=np.bool_) if each is None else each for each, size in ((left, n), (right, m)))
    return np.concatenate(list(parts))


def _with_weights(totals: PairTotals | None) -> PairTotals | None:
    """Return totals of rows that each count for one, as those of weighted rows."""
    return None if totals is None else replace(totals, weight_squares=float(totals.rows))


def _summary(rows: Floats | Assessments) -> Assessments:
    return rows if isinstance(rows, Assessments) else Assessments.of(rows)
