"""The leaderboard: the calibrated choice decides unless a simple candidate beats it out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.number_format import format_by_error
from optensemble._core.sums import Sums
from optensemble.stats.blocks import RowUnits, UnitSums, sum_units
from optensemble.stats.paired_tests import NO_DIFFERENCE, PairedTest, paired_difference, paired_test
from optensemble.stats.sample_size import LEARNING
from optensemble.stats.sampling import Sampling, resampled_bias, resampled_units, scale_units

ENSEMBLE = -1
"""The number of the calibrated choice among policies; members and forecasts have their index into ``names_``."""

ENSEMBLE_NAME = "ensemble"

POWER = 2.8
"""A difference of this number of standard errors is detected four times out of five."""


@dataclass(frozen=True)
class Candidate:
    """A policy that may be played.

    The ensemble is the first of all candidates. ``margin`` is the number of paired standard errors by which a candidate
    must beat it to be played instead; infinite for a part of the ensemble.
    """

    name: str
    kind: str
    margin: float


@dataclass(frozen=True)
class PayoffSums(Sums):
    """What the candidates earned out of fold, as sums over rows.

    Attributes
    ----------
    payoffs
        Of every candidate, about a common centre.
    gains
        Of every candidate over the first, the ensemble, and last of deciding by the mean label of all rows.
    squares
        Of the difference of each two of these, in the same order; differences, for sums of payoffs would cancel.
    resampled
        The gains over the units in which rows are resampled.
    assessed
        The sum of every candidate's self-assessments.
    """

    payoffs: UnitSums
    gains: UnitSums
    squares: Floats
    resampled: Floats
    assessed: Floats

    @classmethod
    def of(cls, realised: Floats, by_mean: Floats, assessed: Floats, rows: WeightedUnits, scale: PayoffScale) -> Self:
        """Sum payoffs of candidates (candidates, n), and of deciding by the mean label, over rows of these numbers."""
        numbers, units, weights = rows
        whole = np.concatenate([realised, by_mean[None]])
        gains = np.stack([paired_difference(each, realised[0], scale.size) for each in whole])
        unit, count = resampled_units(numbers, scale.rows, units)
        squares = pair_squares if weights is None else weighted_pair_squares
        return cls(
            payoffs=UnitSums.of(realised - scale.centre, units, weights),
            gains=UnitSums.of(gains, units, weights),
            squares=squares(whole, NO_DIFFERENCE * scale.size, *(() if weights is None else (weights,))),
            resampled=sum_units(gains[:-1], unit, count, weights),
            assessed=(assessed if weights is None else assessed * weights).sum(axis=1),
        )


class WeightedUnits(NamedTuple):
    """The numbers of rows, their units, and their weights if they have any."""

    numbers: Indices
    units: RowUnits
    weights: Floats | None = None


def weighted_pair_squares(payoffs: Floats, rounding: float, weights: Floats) -> Floats:
    """Return the same as :func:`pair_squares` over weighted rows."""
    squares = np.zeros((len(payoffs), len(payoffs)))
    for first, payoff in enumerate(payoffs):
        apart = payoffs - payoff
        squares[first] = np.where(np.abs(apart) > rounding, apart * apart, 0.0) @ weights
    return squares


@njit(cache=True, nogil=True)
def pair_squares(payoffs: Floats, rounding: float) -> Floats:
    """Return the sums of squared differences of each two candidates' payoffs (candidates, n), but for rounding."""
    count, n = payoffs.shape
    squares = np.zeros((count, count))
    for a in range(count):
        for b in range(a):
            total = 0.0
            for i in range(n):
                difference = payoffs[a, i] - payoffs[b, i]
                total += difference * difference if abs(difference) > rounding else 0.0
            squares[a, b] = squares[b, a] = total
    return squares


class PayoffScale(NamedTuple):
    """The number of rows, about what payoffs are summed, and the size of the largest."""

    rows: int
    centre: float
    size: float


def find_winner(candidates: Mapping[int, Candidate], sums: PayoffSums) -> int:
    """Return the ensemble, or the candidate that beats it by its margin; of several the one that earns most."""
    means, errors = sums.gains.means, sums.gains.errors
    tests = {
        number: PairedTest(float(gain), float(error), candidate.margin)
        for (number, candidate), gain, error in zip(candidates.items(), means, errors, strict=False)
        if np.isfinite(candidate.margin)
    }
    beating = [number for number, test in tests.items() if test.gain > 0 and test.passed]
    return max(beating, key=lambda number: tests[number].gain) if beating else ENSEMBLE


def winner_bias(candidates: Mapping[int, Candidate], sums: PayoffSums, random_state: int | None) -> float:
    """Estimate the selection bias (winner's curse) in the selected candidate's payoff."""
    margins = [candidate.margin for candidate in candidates.values()]
    return resampled_bias(scale_units(sums.resampled), lambda payoffs: _select(payoffs, margins), random_state)


def _select(payoffs: Floats, margins: list[float]) -> int:
    """Return the candidate that earns most of those that beat the first by their margin; otherwise the first."""
    gains, sampling = payoffs - payoffs[0], Sampling()
    means = gains.mean(axis=1)
    able = np.flatnonzero(np.isfinite(margins) & (means > 0))  # spares the others' standard errors
    beating = [number for number in able if paired_test(gains[number], sampling, margins[number]).passed]
    return int(max(beating, key=means.__getitem__)) if beating else 0


@dataclass(frozen=True)
class Standing:
    """A candidate's line in the leaderboard, in the user's units and sense.

    ``difference`` is the paired difference to the winner; ``detectable`` is the size of difference that these rows can
    show; ``followed`` is the share of rows on which its action is taken.
    """

    candidate: str
    kind: str
    realised: float
    low: float
    high: float
    difference: float
    difference_low: float
    difference_high: float
    detectable: float
    promised: float
    followed: float
    chosen: bool
    why: str


@dataclass(frozen=True)
class Competition:
    """All candidates, the number of the winner, what they earned about a ``centre``, and the sense."""

    candidates: Mapping[int, Candidate]
    winner: int
    sums: PayoffSums
    centre: float
    sign: float

    def standings(self, followed: Mapping[int, float]) -> list[Standing]:
        """Return a line for every candidate, the best first."""
        found = [self._standing(at, number, followed) for at, number in enumerate(self.candidates)]
        return sorted(found, key=lambda line: (-self.sign * line.realised, not line.chosen))

    def _gain(self, at: int) -> UnitSums:
        """Return the paired gain of a candidate over the winner."""
        winner = list(self.candidates).index(self.winner)
        return self.sums.gains.column(at, minus=winner, squares=self.sums.squares[at, winner])

    def _standing(self, at: int, number: int, followed: Mapping[int, float]) -> Standing:
        candidate, sums, sign = self.candidates[number], self.sums, self.sign
        # what was learned also varies with the rows it was learned from
        learning = 1.0 if candidate.kind in ("model", "policy") else np.sqrt(1 + LEARNING / sums.payoffs.effective)
        quantile = sums.payoffs.quantile()
        mean, half = self.centre + sums.payoffs.means[at], quantile * sums.payoffs.column(at).errors[0] * learning
        paired = self._gain(at)
        gain, error = float(paired.means[0]), float(paired.errors[0])
        ends = sorted(sign * (gain + side * quantile * error) for side in (-1, 1))
        return Standing(
            candidate=candidate.name,
            kind=candidate.kind,
            realised=float(sign * mean),
            low=float(sign * mean - half),
            high=float(sign * mean + half),
            difference=sign * gain + 0.0,  # no -0
            difference_low=ends[0],
            difference_high=ends[1],
            detectable=POWER * error,
            promised=float(sign * sums.assessed[at] / sums.payoffs.rows),
            followed=followed.get(number, float(number == self.winner)),
            chosen=number == self.winner,
            why=self._why(number, gain, error),
        )

    def _why(self, number: int, gain: float, error: float) -> str:
        margin = self.candidates[number].margin
        if number == self.winner:
            return winning_reason(number, margin)
        if gain == 0:
            return "earns the same as the winner"
        side = "better" if gain > 0 else "worse"
        size = f"{abs(gain) / error:.1f} standard errors {side} than the winner" if error > 0 else f"always {side}"
        if number == ENSEMBLE:
            return size
        if not np.isfinite(margin):
            return f"part of the ensemble; alone {size}"
        return f"{size}; would decide alone only if more than {margin:g} standard errors better than the ensemble"

    def finding(self) -> str:
        """Compare the winner with deciding by the mean label of these very rows, in words.

        The winner was selected among all candidates by the same rows: the interval allows for that (Bonferroni).
        """
        best, paired = self.candidates[self.winner], self._gain(len(self.candidates))
        gain = 0.0 - float(paired.means[0])  # no -0
        half = paired.quantile(len(self.candidates) - 1) * float(paired.errors[0])
        size, doubt = format_by_error([gain, half])
        gained = f"{best.name} {f'earns {size} ± {doubt} more' if self.sign > 0 else f'costs {size} ± {doubt} less'}"
        if gain > half:
            return f"{gained} than deciding by the mean label of all rows, out of fold"
        return f"nothing beats deciding by the mean label: {gained}, out of fold"


def winning_reason(winner: int, margin: float) -> str:
    """Return why a candidate decides."""
    if winner == ENSEMBLE:
        return "plays in every row the policy of the best calibrated value; no simple candidate beats that"
    return f"beats the ensemble out of fold by more than {margin:g} standard errors"


def leaderboard_frame(standings: list[Standing], left_out: Mapping[str, str]) -> pd.DataFrame:
    """Return the leaderboard as a frame, with the forecasts that were left out at the end."""
    rows = [vars(line) for line in standings]
    rows += [{"candidate": name, "kind": "left out", "chosen": False, "why": why} for name, why in left_out.items()]
    return pd.DataFrame(rows).fillna({"followed": 0.0})
