"""Cross-fitting: what debiasing learns from some rows, judged on others.

Members are asked once, for all rows; their replies are cut into folds. Each fold's rows are promised and earned by
corrections that the other rows taught. A *candidate* is how much to shrink and how many rounds to make; the one that
earned most out of fold is taken if it beats making no correction by more than one paired standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import exact_mean, row_dots
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.loop import PatchLog, Run, debias, replay, walk
from optensemble.multicalibration.state import Situation
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling, winners_curse

SHRINKAGES = (10.0, 100.0, 1000.0)
"""Pseudo-rows among which cross-validation chooses."""

EVERY_ROUND = 10
"""Up to so many rounds each is a candidate, of more those that double; the joint schedule makes no more by itself."""


@dataclass(frozen=True)
class Replies:
    """What the members say of some rows, before any correction; the arrays that a situation is made of.

    ``actions`` has room for every contender, and is None where there are no given policies.
    """

    predictions: Floats
    actions: Floats | None
    groups: npt.NDArray[np.int32] | None

    def take(self, rows: Indices) -> Replies:
        """Return a copy of what is said of some of the rows."""
        actions = None if self.actions is None else self.actions[:, rows]
        return Replies(self.predictions[:, rows], actions, None if self.groups is None else self.groups[:, rows])

    @property
    def said(self) -> list[Floats]:
        """The members' own words: predictions of models, or actions of given policies."""
        return list(self.predictions if self.actions is None else self.actions[:-1])


class Stage(NamedTuple):
    """A debiasing that can be done again on other rows: its cells, how many rows it saw, and its parameters."""

    layout: Layout
    rows: int
    schedule: str
    alpha: float
    shrinkage: float
    min_cell: int
    rounds: int | None

    def debias(self, situation: Situation, labels: Floats, callback: Callable[[int, float], None] | None = None) -> Run:
        """Correct the situation's predictions, in place."""
        return debias(
            situation,
            labels,
            self.layout,
            schedule=self.schedule,
            alpha=self.alpha,
            max_rounds=self.rounds,
            shrinkage=self.shrinkage,
            min_cell=self.min_cell,
            callback=callback,
        )


@dataclass(frozen=True)
class Study:
    """Rows with known labels, cut into those to learn from and those to be judged on.

    ``begin`` makes a situation of replies. With ``from_mean`` the only model begins as the mean of the labels, which
    must then be that of the rows learned from.
    """

    replies: Replies
    labels: Floats
    begin: Callable[[Replies], Situation]
    from_mean: bool
    sampling: Sampling
    seed: int | None = None

    @cached_property
    def folds(self) -> list[Fold]:
        """The rows to learn from and to judge on, time and again."""
        return self.sampling.folds(len(self.labels), self.seed)

    def learn(self, train: Indices, stages: Sequence[Stage]) -> tuple[Floats | None, list[PatchLog]]:
        """Debias on some rows only, stage after stage; return the mean begun with, if any, and the logs."""
        first = _among(train, stages[0].rows)
        mean = exact_mean(self.labels[first]) if self.from_mean else None
        logs: list[PatchLog] = []
        for stage in stages:
            rows = _among(train, stage.rows)
            situation = self._situation(rows, mean)
            for log in logs:
                replay(situation, log)
            run = stage.debias(situation, self.labels[rows])
            if run.interrupted:
                raise KeyboardInterrupt
            logs.append(run.log)
        return mean, logs

    def judge(
        self, test: Indices, mean: Floats | None, logs: Sequence[PatchLog], looks: Sequence[int]
    ) -> tuple[Floats, Floats]:
        """Return what is promised and realised on other rows, of shape (looks, rows)."""
        situation, labels = self._situation(test, mean), self.labels[test]
        promised, realised = np.empty((2, len(looks), len(test)))
        for look, now in enumerate(walk(situation, logs, looks)):
            promised[look] = now.taken(now.assessed)
            realised[look] = row_dots(now.taken(now.actions), labels)
        return promised, realised

    def out_of_fold(self, stages: Sequence[Stage], every: bool = False) -> tuple[list[int], Floats, Floats]:
        """Return after which rounds was looked, and what was then promised and realised of each row, (looks, n).

        Without ``every``, the end is all that is looked at.
        """
        learned = [self.learn(fold.train, stages) for fold in self.folds]
        most = max(sum(len(log.rounds) for log in logs) for _, logs in learned)
        looks = _looks(most) if every else [most]
        promised, realised = np.empty((2, len(looks), len(self.labels)))
        for fold, (mean, logs) in zip(self.folds, learned, strict=True):
            promised[:, fold.test], realised[:, fold.test] = self.judge(fold.test, mean, logs, looks)
        return looks, promised, realised

    def _situation(self, rows: Indices, mean: Floats | None) -> Situation:
        replies = self.replies.take(rows)
        if mean is not None:
            replies.predictions[0] = mean
        return self.begin(replies)


def _among(rows: Indices, first: int) -> Indices:
    """Return which of the rows are among the first so many; if none is, all."""
    early = rows[rows < first]
    return early if len(early) else rows


def _looks(most: int) -> list[int]:
    """Return after how many rounds to look.

    >>> _looks(3), _looks(40)
    ([0, 1, 2, 3], [0, 1, 2, 4, 8, 16, 32, 40])
    """
    if most <= EVERY_ROUND:
        return list(range(most + 1))
    return [0, *(2**power for power in range(most.bit_length()) if 2**power < most), most]


class Choice(NamedTuple):
    """What cross-validation chose, its record, by how much that flatters, and the table of all candidates."""

    shrinkage: float
    rounds: int
    promised: Floats
    realised: Floats
    curse: float
    table: pd.DataFrame


def cross_validate(study: Study, stage: Stage, shrinkages: Sequence[float], sign: float) -> Choice:
    """Judge every candidate out of fold, and choose: no correction unless one earns more by one standard error."""
    found: list[tuple[int, float, Floats, Floats]] = []
    for shrinkage in shrinkages:
        looks, promised, realised = study.out_of_fold([stage._replace(shrinkage=shrinkage)], every=True)
        found += list(zip(looks, [shrinkage] * len(looks), promised, realised, strict=True))
    # the simplest first, and no correction at all once: of ties the first is taken
    found.sort(key=lambda candidate: (candidate[0], -candidate[1]))
    found = found[:1] + [candidate for candidate in found if candidate[0] > 0]
    rounds, strength = [candidate[0] for candidate in found], [candidate[1] for candidate in found]
    promised, realised = (np.stack([candidate[i] for candidate in found]) for i in (2, 3))
    gains = sign * (realised - realised[0])
    chosen = pick(gains, study.sampling)
    table = pd.DataFrame(
        {
            "shrinkage": [np.nan, *strength[1:]],
            "rounds": rounds,
            "realised": realised.mean(axis=1),
            "promised": promised.mean(axis=1),
            "gain": gains.mean(axis=1),
            "standard_error": [study.sampling.error(gain) for gain in gains],
            "chosen": np.arange(len(found)) == chosen,
        }
    )
    curse = winners_curse(sign * realised, _pick_again, study.sampling, study.seed)
    return Choice(strength[chosen], rounds[chosen], promised[chosen], realised[chosen], curse, table)


def _pick_again(payoffs: Floats) -> int:
    return pick(payoffs - payoffs[0], Sampling())


def pick(gains: Floats, sampling: Sampling) -> int:
    """Return who gains most over the first, if that is more than one standard error; otherwise the first."""
    best = int(gains.mean(axis=1).argmax())
    return best if gains[best].mean() > sampling.error(gains[best]) else 0
