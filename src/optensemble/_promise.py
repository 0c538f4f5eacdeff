"""What a policy may promise of its payoff: out-of-fold payoff regressed on out-of-fold self-assessment.

A self-assessment is a claim. Its record, pairs of what was assessed and what was then realised on rows that the policy
was not fitted on, says what the claim is worth: ``v'(x) = r̄ + β(v(x) − v̄)``. Decisions do not change by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import t as student

from optensemble._types import Floats, Indices
from optensemble.planning import LEARNING

LEVEL = 0.95
"""How often an interval, or all intervals of a family together, are to hold the truth."""

BLOCKS = 10
"""Into so many contiguous blocks rows in time order are cut to see how far the level of payoff wanders."""

TREND = 3.0
"""So many standard errors make a steady trend in the level of rows in time order, which a promise then follows."""

UNLIKE = 1.25
"""Self-assessments that spread this much wider than the fitted rows' belong to rows unlike them."""


@dataclass(frozen=True)
class Promise:
    """The average payoff over some rows, as promised before their labels are known.

    Attributes
    ----------
    mean, low, high
        The promise and its 95 % interval for the average payoff that will be realised on these very rows, in the
        user's units and sense.
    rows
        How many rows.
    rely_on
        The limit to rely on: the lower one of a payoff, the upper one of a cost.
    unlike
        Whether these rows are unlike the fitted ones: their self-assessments spread much wider.
    time_ordered
        Whether the interval allows for a level that wanders with time.
    advantage
        The same for the advantage over the mean member, which is known much better than the level where members are
        policies without predictions; None where that was not recorded.
    note
        What else should be known, in words; empty if nothing.
    """

    mean: float
    low: float
    high: float
    rows: int
    rely_on: float
    unlike: bool = False
    time_ordered: bool = False
    advantage: Promise | None = None
    note: str = ""

    def __str__(self) -> str:
        relied = f"; rely on {self.rely_on:.4g}" if self.time_ordered else ""
        note = f" ({self.note})" if self.note else ""
        rows = f"{self.rows:,} row{'s' if self.rows != 1 else ''}"
        return f"{self.mean:.4g} (95 %: {self.low:.4g} to {self.high:.4g}{relied}) on average over {rows}{note}"


@dataclass(frozen=True)
class Record:
    """What was assessed and what was realised, row by row, on rows the policy was not fitted on.

    ``clusters`` numbers the groups of rows that belong together, if any; ``curse`` is by how much the record flatters
    because the policy was picked by it.
    """

    assessed: Floats
    realised: Floats
    sign: float = 1.0
    time_ordered: bool = False
    clusters: Indices | None = None
    curse: float = 0.0

    def extend(self, assessed: Floats, realised: Floats, clusters: Indices | None = None) -> Record:
        """Return the record with further rows; unless ``clusters`` says otherwise, each is on its own."""
        if self.clusters is not None:
            first = int(self.clusters.max()) + 1
            further = first + (np.arange(len(assessed)) if clusters is None else clusters)
            clusters = np.concatenate([self.clusters, further])
        return replace(
            self,
            assessed=np.concatenate([self.assessed, assessed]),
            realised=np.concatenate([self.realised, realised]),
            clusters=clusters if self.clusters is not None else None,
        )

    def correct(self, assessed: Floats) -> Floats:
        """Return for each row the payoff that can be believed."""
        return self.level + self.slope * (assessed - self.centre)

    def promise(self, assessed: Floats) -> Promise:
        """Promise the average payoff over new rows, with an interval for what will be realised on them."""
        drift, doubt = self._drift(len(assessed))
        mean = float(self.correct(assessed).mean()) + drift
        half = float(np.hypot(self.half_width(assessed), doubt))
        low, high = mean - half, mean + half
        unlike = self.time_ordered and self._widening(assessed) > UNLIKE
        notes = ["these rows are unlike the fitted ones: the promise may not hold"] if unlike else []
        if drift:
            notes.append(f"the level has been {'rising' if drift > 0 else 'falling'} steadily: the promise follows it")
        return Promise(
            mean=mean,
            low=low,
            high=high,
            rows=len(assessed),
            rely_on=low if self.sign > 0 else high,
            unlike=unlike,
            time_ordered=self.time_ordered,
            note="; ".join(notes),
        )

    def _drift(self, m: int) -> tuple[float, float]:
        """Return how far a steady trend carries the level of the next ``m`` rows, and how far that may be off."""
        if not self.time_ordered or self.noise == 0:
            return 0.0, 0.0
        rows = np.array_split(np.arange(len(self.residual)), BLOCKS)
        when = np.array([block.mean() for block in rows]) - (len(self.residual) - 1) / 2
        slope = float(when @ self.blocks / (when @ when))
        left = self.blocks - self.blocks.mean() - slope * when
        error = float(np.sqrt(left @ left / (BLOCKS - 2) / (when @ when)))
        if abs(slope) <= TREND * error:
            return 0.0, 0.0
        ahead = (len(self.residual) + m) / 2  # from the middle of one stretch of rows to the middle of the other
        return slope * ahead, float(student.ppf((1 + LEVEL) / 2, BLOCKS - 2)) * error * ahead

    def half_width(self, assessed: Floats) -> float:
        """Return half the width of the interval for the average over these rows."""
        n, m = len(self.realised), len(assessed)
        noise, away = self.noise, float(assessed.mean()) - self.centre
        leverage = away**2 / self.spread if self.spread > 0 else 0.0
        # what the rows fitted on and the new ones share by chance, if rows of a block or cluster go together
        together = self.design_effect * noise * (1 / n + 1 / m + leverage)
        if not self.time_ordered:
            learning = self.design_effect * noise * LEARNING / n**2
            return self.quantile * float(np.sqrt(together + learning))
        # or the level of a block is drawn anew, whatever its length
        wandering = noise * (1 / n + 1 / m) + (1 + 1 / BLOCKS) * self.wander + self.design_effect * noise * leverage
        return self.quantile * float(np.sqrt(max(together, wandering) * max(1.0, self._widening(assessed))))

    # The regression

    @cached_property
    def centre(self) -> float:
        """Return the mean self-assessment."""
        return float(self.assessed.mean())

    @cached_property
    def level(self) -> float:
        """Return the mean payoff, without what flatters it."""
        return float(self.realised.mean()) - self.sign * self.curse

    @cached_property
    def spread(self) -> float:
        """Return the sum of squares of self-assessments about their mean."""
        spread = float(np.square(self.assessed - self.centre).sum())
        size = float(np.square(self.assessed).sum())
        return spread if spread > 1e-18 * size else 0.0

    @cached_property
    def slope(self) -> float:
        """Return how much payoff comes with a unit of self-assessment."""
        if self.spread == 0:
            return 0.0
        return float((self.assessed - self.centre) @ (self.realised - self.realised.mean())) / self.spread

    @cached_property
    def residual(self) -> Floats:
        """Return what the self-assessment does not explain."""
        return np.asarray(self.realised - self.realised.mean() - self.slope * (self.assessed - self.centre))

    @cached_property
    def noise(self) -> float:
        """Return the variance of the residuals."""
        return float(np.square(self.residual).sum() / max(len(self.residual) - 2, 1))

    @cached_property
    def blocks(self) -> Floats:
        """Return the mean residual of each contiguous block."""
        return np.array([block.mean() for block in np.array_split(self.residual, BLOCKS)])

    @cached_property
    def wander(self) -> float:
        """Return the variance of the level of a block, beyond what row noise explains."""
        return max(float(self.blocks.var(ddof=1)) - self.noise / (len(self.residual) / BLOCKS), 0.0)

    @cached_property
    def design_effect(self) -> float:
        """Return how many times the variance of a mean exceeds that of independent rows."""
        if self.noise == 0:
            return 1.0
        if self.time_ordered:
            return max(1.0, float(self.blocks.var(ddof=1)) * len(self.residual) / BLOCKS / self.noise)
        if self.clusters is None:
            return 1.0
        sums = np.bincount(self.clusters, self.residual)
        return max(1.0, float(np.square(sums).sum()) / (len(self.residual) * self.noise))

    @cached_property
    def quantile(self) -> float:
        """Return the quantile of Student's t that goes with how the variance was measured."""
        if self.time_ordered:
            freedom = BLOCKS - 1
        else:
            freedom = (len(self.residual) - 1 if self.clusters is None else int(self.clusters.max())) - 1
        return float(student.ppf((1 + LEVEL) / 2, max(freedom, 1)))

    def _widening(self, assessed: Floats) -> float:
        fitted = float(self.assessed.std())
        return float(assessed.std()) / fitted if fitted > 0 and len(assessed) > 1 else 1.0
