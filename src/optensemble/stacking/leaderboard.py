"""The leaderboard: the calibrated choice decides unless a simple candidate beats it out of fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.number_format import format_by_error
from optensemble.stats.paired_tests import paired_difference, paired_test
from optensemble.stats.sample_size import LEARNING
from optensemble.stats.sampling import Sampling, selection_bias

ENSEMBLE = -1
"""The number of the calibrated choice among policies; members and forecasts have their index into ``names_``."""

ENSEMBLE_NAME = "ensemble"

POWER = 2.8
"""A difference of this number of standard errors is detected four times out of five."""


@dataclass(frozen=True)
class Candidate:
    """A policy that may be played: per row, out of fold, its self-assessment and what it earned.

    The ensemble is the first of all candidates. ``margin`` is the number of paired standard errors by which a candidate
    must beat it to be played instead; infinite for a part of the ensemble.
    """

    name: str
    kind: str
    assessed: Floats
    realised: Floats
    margin: float


def find_winner(candidates: Mapping[int, Candidate], sampling: Sampling) -> int:
    """Return the ensemble, or the candidate that beats it by its margin; of several the one that earns most."""
    return list(candidates)[_select(_payoffs(candidates), _margins(candidates), sampling)]


def winner_bias(candidates: Mapping[int, Candidate], sampling: Sampling, random_state: int | None) -> float:
    """Estimate the selection bias (winner's curse) in the selected candidate's payoff."""
    margins = _margins(candidates)
    return selection_bias(
        _payoffs(candidates), lambda payoffs: _select(payoffs, margins, Sampling()), sampling, random_state
    )


def _payoffs(candidates: Mapping[int, Candidate]) -> Floats:
    return np.stack([candidate.realised for candidate in candidates.values()])


def _margins(candidates: Mapping[int, Candidate]) -> list[float]:
    return [candidate.margin for candidate in candidates.values()]


def _select(payoffs: Floats, margins: list[float], sampling: Sampling) -> int:
    """Return the candidate that earns most of those that beat the first by their margin; otherwise the first."""
    gains = np.stack([paired_difference(payoff, payoffs[0]) for payoff in payoffs])
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
    """All candidates, the number of the winner, the dependence between rows, and the sense."""

    candidates: Mapping[int, Candidate]
    winner: int
    sampling: Sampling
    sign: float

    def standings(self, followed: Mapping[int, float]) -> list[Standing]:
        """Return a line for every candidate, the best first."""
        found = [self._standing(number, followed) for number in self.candidates]
        return sorted(found, key=lambda line: (-self.sign * line.realised, not line.chosen))

    def _standing(self, number: int, followed: Mapping[int, float]) -> Standing:
        candidate, sampling, sign = self.candidates[number], self.sampling, self.sign
        n = len(candidate.realised)
        # what was learned also varies with the rows it was learned from
        learning = 1.0 if candidate.kind in ("model", "policy") else np.sqrt(1 + LEARNING / n)
        mean, half = candidate.realised.mean(), sampling.quantile(n) * sampling.error(candidate.realised) * learning
        gain = paired_difference(candidate.realised, self.candidates[self.winner].realised)
        error = sampling.error(gain)
        ends = sorted(sign * (gain.mean() + side * sampling.quantile(n) * error) for side in (-1, 1))
        return Standing(
            candidate=candidate.name,
            kind=candidate.kind,
            realised=sign * mean,
            low=sign * mean - half,
            high=sign * mean + half,
            difference=sign * gain.mean() + 0.0,  # no -0
            difference_low=ends[0],
            difference_high=ends[1],
            detectable=POWER * error,
            promised=sign * candidate.assessed.mean(),
            followed=followed.get(number, float(number == self.winner)),
            chosen=number == self.winner,
            why=self._why(number, float(gain.mean()), error),
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

    def finding(self, by_mean: Floats) -> str:
        """Compare the winner with deciding by the mean label of these very rows, which earns ``by_mean``, in words.

        The winner was selected among all candidates by the same rows: the interval allows for that (Bonferroni).
        """
        best = self.candidates[self.winner]
        gain = paired_difference(best.realised, by_mean)
        half = self.sampling.quantile(len(gain), len(self.candidates) - 1) * self.sampling.error(gain)
        size, doubt = format_by_error([float(gain.mean()), half])
        gained = f"{best.name} {f'earns {size} ± {doubt} more' if self.sign > 0 else f'costs {size} ± {doubt} less'}"
        if gain.mean() > half:
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
