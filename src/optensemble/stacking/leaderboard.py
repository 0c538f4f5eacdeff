"""The leaderboard: the calibrated choice decides unless a simple candidate beats it out of fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.number_format import column_decimals, format_interval, format_number
from optensemble._core.sums import Sums
from optensemble.stacking.arms import ENSEMBLE
from optensemble.stats.blocks import RowUnits, UnitSums, sum_units
from optensemble.stats.paired_tests import NO_DIFFERENCE, PairedTest, paired_difference, paired_test
from optensemble.stats.sample_size import LEARNING
from optensemble.stats.sampling import Sampling, resampled_bias, resampled_units, scale_units

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
        Of every candidate over the first, the ensemble.
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
    def of(cls, realised: Floats, assessed: Floats, rows: WeightedUnits, scale: PayoffScale) -> Self:
        """Sum payoffs of candidates (candidates, n) over rows of these numbers."""
        numbers, units, weights = rows
        gains = np.stack([paired_difference(each, realised[0], scale.size) for each in realised])
        unit, count = resampled_units(numbers, scale.rows, units)
        squares = pair_squares if weights is None else weighted_pair_squares
        return cls(
            payoffs=UnitSums.of(realised - scale.centre, units, weights),
            gains=UnitSums.of(gains, units, weights),
            squares=squares(realised, NO_DIFFERENCE * scale.size, *(() if weights is None else (weights,))),
            resampled=sum_units(gains, unit, count, weights),
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
        for (number, candidate), gain, error in zip(candidates.items(), means, errors, strict=True)
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

    ``difference`` is the paired difference to the winner, NaN for the winner itself; ``detectable`` is the size of
    difference that these rows can show; ``followed`` is the share of rows on which its action is taken.
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
    """All candidates, the number of the winner, what they earned about a ``centre``, and the sense.

    ``mean`` is the number of the candidate that decides by the mean label; ``possible`` are the least and the largest
    payoff that there can be, in the user's units.
    """

    candidates: Mapping[int, Candidate]
    winner: int
    sums: PayoffSums
    centre: float
    sign: float
    mean: int
    possible: tuple[float, float] = (-np.inf, np.inf)

    def standings(self, followed: Mapping[int, float]) -> list[Standing]:
        """Return a line for every candidate, the best first."""
        found = [self._standing(number, followed) for number in self.candidates]
        return sorted(found, key=lambda line: (-self.sign * line.realised, not line.chosen))

    def lead(self, number: int, over: int) -> UnitSums:
        """Return the paired gain of one candidate over another."""
        numbers = list(self.candidates)
        at, other = numbers.index(number), numbers.index(over)
        return self.sums.gains.column(at, minus=other, squares=self.sums.squares[at, other])

    def _standing(self, number: int, followed: Mapping[int, float]) -> Standing:
        candidate, sums, sign, at = self.candidates[number], self.sums, self.sign, list(self.candidates).index(number)
        # what was learned also varies with the rows it was learned from
        learning = 1.0 if candidate.kind in ("model", "policy") else np.sqrt(1 + LEARNING / sums.payoffs.effective)
        quantile = sums.payoffs.quantile()
        mean, half = self.centre + sums.payoffs.means[at], quantile * sums.payoffs.column(at).errors[0] * learning
        paired = self.lead(number, self.winner)
        gain, error = float(paired.means[0]), float(paired.errors[0])
        ends = sorted(sign * (gain + side * quantile * error) for side in (-1, 1))
        compared = sign * gain + 0.0, *ends, POWER * error  # no -0
        if number == self.winner:  # what decides is not compared with itself
            compared = (np.nan,) * 4
        return Standing(
            candidate=candidate.name,
            kind=candidate.kind,
            realised=float(sign * mean),
            low=max(float(sign * mean - half), self.possible[0]),
            high=min(float(sign * mean + half), self.possible[1]),
            difference=compared[0],
            difference_low=compared[1],
            difference_high=compared[2],
            detectable=compared[3],
            promised=float(sign * sums.assessed[at] / sums.payoffs.rows),
            followed=followed.get(number, float(number == self.winner)),
            chosen=number == self.winner,
            why=self._why(number, gain, error),
        )

    def _why(self, number: int, gain: float, error: float) -> str:
        margin = self.candidates[number].margin
        if number == self.winner:
            return winning_reason(number, margin, *self._doing_better())
        if gain == 0:
            return f"{self._verb} the same as the winner"
        side = "better" if gain > 0 else "worse"
        size = f"{abs(gain) / error:.1f} standard errors {side} than the winner" if error > 0 else f"always {side}"
        if number == ENSEMBLE:
            return size
        if not np.isfinite(margin):
            return f"part of the ensemble; alone {size}"
        return f"{size}; would decide alone only if more than {margin:g} standard errors better than the ensemble"

    def _doing_better(self) -> tuple[list[str], list[str]]:
        """Return the candidates that earned more than what decides: those that might have decided, and its parts."""
        means, winner = self.sums.gains.means, list(self.candidates).index(self.winner)
        each = zip(self.candidates.values(), means - means[winner], self.sums.squares[winner], strict=True)
        better = [candidate for candidate, lead, apart in each if lead > 0 and apart > 0]
        simple = [candidate.name for candidate in better if np.isfinite(candidate.margin)]
        return simple, [candidate.name for candidate in better if candidate.name not in simple]

    def finding(self, standings: list[Standing]) -> str:
        """Compare what decides with deciding by the mean label, in words: what the table says of that.

        What decides was selected among all candidates by the same rows, and both were learned from them. So it is said
        to be better only if that is sure for all candidates at once (Bonferroni), and allowing for other rows to learn
        from: of that the interval in the table knows nothing.
        """
        best, mean = (self.candidates[number].name for number in (self.winner, self.mean))
        if self.winner == self.mean:
            return "the mean label itself decides, in every row"
        line = next(line for line in standings if line.candidate == mean)
        if line.difference == line.difference_low == line.difference_high == 0:
            return f"{best} does not beat deciding by the mean label: it {self._verb} the same out of fold"
        if self._is_sure(self.lead(self.winner, self.mean)):
            return f"{best} {self._compared(line, standings, ' than deciding by the mean label')}"
        better = self.sign * line.difference < 0
        clear = better and self.sign * (line.difference_high if self.sign > 0 else line.difference_low) < 0
        doubt = (
            f", but was learned and selected among {len(self.candidates)} candidates by the same rows" if clear else ""
        )
        beat = f"does not {'surely ' if better else ''}beat deciding by the mean label"
        return f"{best} {beat}: it {self._compared(line, standings)}{doubt}"

    def _is_sure(self, lead: UnitSums) -> bool:
        """Return whether one candidate would lead another on other rows too, had it been any of all candidates."""
        learning = float(np.sqrt(1 + LEARNING / lead.effective))
        return float(lead.means[0]) > lead.quantile(len(self.candidates) - 1) * float(lead.errors[0]) * learning

    @property
    def _verb(self) -> str:
        return "earns" if self.sign > 0 else "costs"

    def _compared(self, line: Standing, standings: list[Standing], than: str = "") -> str:
        """Say what decides earns or costs more or less than the candidate of a line, with the digits of the table."""
        decimals = difference_decimals(standings)
        side = "less" if line.difference > 0 else "more"
        turned = 1.0 if line.difference > 0 else -1.0
        ends = sorted(turned * end for end in (line.difference_low, line.difference_high))
        size = format_number(abs(line.difference), decimals)
        return f"{self._verb} {size} {side}{than} out of fold (95 %: {format_interval(ends[0], ends[1], decimals)})"


def difference_decimals(standings: list[Standing]) -> int:
    """Return the decimals of differences in the table of the leaderboard."""
    halves = [(line.difference_high - line.difference_low) / 2 for line in standings]
    return column_decimals([line.difference for line in standings], halves)


def winning_reason(winner: int, margin: float, better: Sequence[str] = (), parts: Sequence[str] = ()) -> str:
    """Return why a candidate decides.

    ``better`` names those that earned more, but not by enough to decide, and ``parts`` those that may not decide alone.

    >>> winning_reason(ENSEMBLE, 0.0, ["ridge"])
    'plays in every row the policy of the best calibrated value; ridge did better, by too little to be sure'
    >>> winning_reason(ENSEMBLE, 0.0, parts=["patched"])
    'plays in every row the policy of the best calibrated value; its part patched did better alone'
    """
    if winner != ENSEMBLE:
        return f"beats the ensemble out of fold by more than {margin:g} standard errors"
    others = [f"{', '.join(better)} did better, by too little to be sure"] if better else []
    others += [f"its part {', '.join(parts)} did better alone"] if parts else []
    known = "; ".join(others) or "no candidate did better"
    return f"plays in every row the policy of the best calibrated value; {known}"


def leaderboard_frame(standings: list[Standing], left_out: Mapping[str, str]) -> pd.DataFrame:
    """Return the leaderboard as a frame, with the forecasts that were left out at the end."""
    rows = [vars(line) for line in standings]
    rows += [{"candidate": name, "kind": "left out", "chosen": False, "why": why} for name, why in left_out.items()]
    return pd.DataFrame(rows).fillna({"followed": 0.0})
