"""Do no harm: the ensemble plays unless something simple beats it out of fold, and everyone is told the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.number_format import figures
from optensemble.stats.sample_size import LEARNING
from optensemble.stats.sampling import Sampling, winners_curse

ENSEMBLE = -1
"""The number of the calibrated choice among arms; members and forecasts have their index into ``names_``."""

ENSEMBLE_NAME = "ensemble"

POWER = 2.8
"""A difference of so many standard errors is seen four times out of five."""

_ROUNDING = 1e-10


@dataclass(frozen=True)
class Candidate:
    """A policy that may be played: per row, out of fold, what it was assessed at and what it earned.

    The ensemble is the first of all candidates. ``margin`` is by how many paired standard errors a candidate must beat
    it to be played instead; infinite of what is part of the ensemble only.
    """

    name: str
    kind: str
    assessed: Floats
    realised: Floats
    margin: float


def paired(left: Floats, right: Floats) -> Floats:
    """Return ``left − right`` row by row; what is a matter of rounding is no difference."""
    difference = left - right
    rounding = _ROUNDING * max(float(np.abs(left).max()), float(np.abs(right).max()))
    return np.where(np.abs(difference) <= rounding, 0.0, difference)


def find_winner(candidates: Mapping[int, Candidate], sampling: Sampling) -> int:
    """Return the ensemble, or what beats it by its margin; of several the one that earns most."""
    return list(candidates)[_beating(_payoffs(candidates), _margins(candidates), sampling)]


def league_curse(candidates: Mapping[int, Candidate], sampling: Sampling, random_state: int | None) -> float:
    """Return by how much the payoff of whoever wins the league is flattered by having won."""
    margins = _margins(candidates)

    def win(payoffs: Floats) -> int:
        return _beating(payoffs, margins, Sampling())

    return winners_curse(_payoffs(candidates), win, sampling, random_state)


def _payoffs(candidates: Mapping[int, Candidate]) -> Floats:
    return np.stack([candidate.realised for candidate in candidates.values()])


def _margins(candidates: Mapping[int, Candidate]) -> list[float]:
    return [candidate.margin for candidate in candidates.values()]


def _beating(payoffs: Floats, margins: list[float], sampling: Sampling) -> int:
    """Return who beats the first by the margin and earns most, or the first."""
    gains = np.stack([paired(payoff, payoffs[0]) for payoff in payoffs])
    means, margin = gains.mean(axis=1), np.array(margins)
    able = np.flatnonzero(np.isfinite(margin) & (means > 0))
    beating = [number for number in able if means[number] > margin[number] * sampling.error(gains[number])]
    return int(max(beating, key=means.__getitem__)) if beating else 0


def make_leaderboard(
    candidates: Mapping[int, Candidate],
    winner: int,
    sampling: Sampling,
    sign: float,
    followed: Mapping[int, float],
    left_out: Mapping[str, str],
) -> pd.DataFrame:
    """Return a row for every candidate, the best first, in the user's units and sense."""
    best = candidates[winner].realised
    rows = []
    for number, candidate in candidates.items():
        n = len(candidate.realised)
        # what was learned also varies with the rows it was learned from
        learning = 1.0 if candidate.kind in ("model", "policy") else np.sqrt(1 + LEARNING / n)
        mean, half = candidate.realised.mean(), sampling.quantile(n) * sampling.error(candidate.realised) * learning
        gain = paired(candidate.realised, best)
        error = sampling.error(gain)
        ends = sorted(sign * (gain.mean() + side * sampling.quantile(n) * error) for side in (-1, 1))
        rows.append(
            {
                "candidate": candidate.name,
                "kind": candidate.kind,
                "realised": sign * mean,
                "low": sign * mean - half,
                "high": sign * mean + half,
                "difference": sign * gain.mean() + 0.0,  # no -0
                "difference_low": ends[0],
                "difference_high": ends[1],
                "detectable": POWER * error,
                "promised": sign * candidate.assessed.mean(),
                "followed": followed.get(number, float(number == winner)),
                "chosen": number == winner,
                "why": _why(number, candidate, winner, float(gain.mean()), error),
            }
        )
    rows.sort(key=lambda row: (-sign * row["realised"], not row["chosen"]))
    rows += [{"candidate": name, "kind": "left out", "chosen": False, "why": why} for name, why in left_out.items()]
    frame = pd.DataFrame(rows)
    return frame.fillna({"followed": 0.0})


def _why(number: int, candidate: Candidate, winner: int, gain: float, error: float) -> str:
    if number == winner:
        if number == ENSEMBLE:
            return "plays in every row the arm of the best calibrated value; nothing simple beats that"
        return f"beats the ensemble out of fold by more than {candidate.margin:g} standard errors"
    if gain == 0:
        return "earns the same as the winner"
    side = "better" if gain > 0 else "worse"
    size = f"{abs(gain) / error:.1f} standard errors {side} than the winner" if error > 0 else f"always {side}"
    if number == ENSEMBLE:
        return size
    if not np.isfinite(candidate.margin):
        return f"part of the ensemble; alone {size}"
    return f"{size}; only if more than {candidate.margin:g} better than the ensemble would it play instead"


def finding(candidates: Mapping[int, Candidate], winner: int, by_mean: Floats, sampling: Sampling, sign: float) -> str:
    """Say in a sentence whether anything beats deciding by the mean label of these very rows, which earns ``by_mean``.

    Whoever is compared was picked among all candidates by the same rows: the interval allows for that (Bonferroni).
    """
    best = candidates[winner]
    gain = paired(best.realised, by_mean)
    half = sampling.quantile(len(gain), len(candidates) - 1) * sampling.error(gain)
    size, doubt = figures([float(gain.mean()), half])
    gained = f"{best.name} {f'earns {size} ± {doubt} more' if sign > 0 else f'costs {size} ± {doubt} less'}"
    if gain.mean() > half:
        return f"{gained} than deciding by the mean label of all rows, out of fold"
    return f"nothing beats deciding by the mean label: {gained}, out of fold"
