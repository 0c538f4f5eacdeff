"""Candidate policies and what they earn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np

from optensemble.stacking.leaderboard import (
    Candidate,
    Competition,
    PayoffScale,
    PayoffSums,
    WeightedUnits,
    find_winner,
    winner_bias,
)
from optensemble.stats.sampling import Sampling
from tests.problems import Floats


def textbook_choice(assessed: Floats, realised: Floats, prior: Floats, pull: float) -> tuple[Floats, Floats]:
    """Regress on a design with a row for every arm in every row, and pseudo-rows for what the slopes are pulled to."""
    a, e, n = assessed.shape
    beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
    rows, target = [], []
    for arm in range(a):
        for i in range(n):
            rows.append([*np.eye(a)[arm], *beyond[arm, :, i]])
            target.append(earned[arm, i])
    weight = 400 * pull * a * (beyond.var() or 1.0)
    penalty = np.diag(np.sqrt([5 * pull] * a + [weight] * e))
    design = np.vstack([rows, penalty])
    solution = np.linalg.lstsq(design, [*target, *(penalty @ [*np.zeros(a), *prior])], rcond=None)[0]
    return solution[:a], solution[a:]


@dataclass(frozen=True)
class Earning:
    """A candidate, and what it earned in every row; its self-assessments are half of that."""

    candidate: Candidate
    realised: Floats

    @property
    def assessed(self) -> Floats:
        return self.realised / 2


def earning(realised: Floats, margin: float = 2.0, name: str = "x") -> Earning:
    return Earning(Candidate(name, "model", margin), realised)


@dataclass(frozen=True)
class Field:
    """Some candidates by their numbers, the ensemble first, and how their rows depend on each other."""

    earnings: dict[int, Earning]
    sampling: Sampling = field(default_factory=Sampling)

    @property
    def candidates(self) -> dict[int, Candidate]:
        return {number: each.candidate for number, each in self.earnings.items()}

    @property
    def realised(self) -> Floats:
        return np.stack([each.realised for each in self.earnings.values()])

    @property
    def centre(self) -> float:
        return float(self.realised.mean())

    def sums(self, parts: int = 1) -> PayoffSums:
        """What they earn as sums over rows, which come in some parts."""
        realised = self.realised
        assessed, n = np.stack([each.assessed for each in self.earnings.values()]), realised.shape[1]
        scale, units = PayoffScale(n, self.centre, float(np.abs(realised).max())), self.sampling.units(n)
        found = [
            PayoffSums.of(realised[:, rows], assessed[:, rows], WeightedUnits(rows, units.take(rows)), scale)
            for rows in np.array_split(np.arange(n), parts)
        ]
        return reduce(add, found)

    @property
    def winner(self) -> int:
        return find_winner(self.candidates, self.sums())

    def bias(self, seed: int | None) -> float:
        return winner_bias(self.candidates, self.sums(), seed)

    def competition(self, winner: int, sign: float, mean: int = 0, parts: int = 1) -> Competition:
        """The outcome, where the candidate of number ``mean`` decides by the mean label."""
        return Competition(self.candidates, winner, self.sums(parts), self.centre, sign, mean)

    def finding(self, winner: int, sign: float, mean: int, parts: int = 1) -> str:
        outcome = self.competition(winner, sign, mean, parts)
        return outcome.finding(outcome.standings({}))
