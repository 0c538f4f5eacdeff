"""Cross-validation of a debiasing: what it learns from some rows, judged on others.

Members are asked once, for all rows; their outputs are cut into folds. Each fold's rows are promised and earned by
corrections that the other rows taught. A *candidate* is a shrinkage and a number of rounds; the one that earned most
out of fold is taken if it beats making no correction by more than one paired standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import exact_mean
from optensemble._core.progress import Progress, Stage, Step, silent
from optensemble.ensembles.starting_point import StartingPoint
from optensemble.multicalibration.corrections import replay, walk
from optensemble.multicalibration.loop import learn_logs
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from optensemble.stats.folds import Fold
from optensemble.stats.paired_tests import best_of
from optensemble.stats.sampling import Sampling, selection_bias

SHRINKAGES = (10.0, 100.0, 1000.0)
"""Pseudo-rows among which cross-validation chooses."""

EVERY_ROUND = 10
"""Up to this number of rounds each is a candidate, beyond it those that double; the joint schedule makes no more."""


class FittedStage(NamedTuple):
    """A debiasing that was done, and the number of rows it saw: it can be done again without some of them."""

    how: Debiasing
    rows: int


class OutOfFold(NamedTuple):
    """After which numbers of rounds was looked, and what was then promised and realised of each row: (2, looks, n)."""

    looks: list[int]
    payoffs: Floats


@dataclass(frozen=True)
class Study:
    """Rows with known labels, cut into those to learn from and those to be judged on.

    With ``from_mean`` the only model begins as the mean of the labels: that of the rows learned from.
    """

    start: StartingPoint
    labels: Floats
    from_mean: bool
    sampling: Sampling
    seed: int | None = None

    @cached_property
    def folds(self) -> list[Fold]:
        """The rows to learn from and the rows to judge on, fold by fold."""
        return self.sampling.folds(len(self.labels), self.seed)

    def learn(
        self, train: Indices, stages: Sequence[FittedStage], hows: Sequence[Debiasing], step: Step = silent
    ) -> tuple[Floats | None, list[list[PatchLog]]]:
        """Debias on some rows only, stage after stage, the last in each of several ways.

        Returns
        -------
        The mean begun with, if any, and for each of ``hows`` the logs of all stages.
        """
        mean = exact_mean(self.labels[_among(train, stages[0].rows)]) if self.from_mean else None
        earlier: list[PatchLog] = []
        for stage in stages[:-1]:
            earlier += self._learn_stage(train, mean, earlier, stage.rows, [stage.how], step)
        last = self._learn_stage(train, mean, earlier, stages[-1].rows, hows, step)
        return mean, [[*earlier, log] for log in last]

    def _learn_stage(
        self,
        train: Indices,
        mean: Floats | None,
        earlier: Sequence[PatchLog],
        first: int,
        hows: Sequence[Debiasing],
        step: Step,
    ) -> list[PatchLog]:
        rows = _among(train, first)
        situation = self.start.take(rows, mean).situation()
        for log in earlier:
            replay(situation, log)
        return learn_logs(situation, self.labels[rows], hows, step)

    def judge(self, situation: Situation, labels: Floats, logs: Sequence[PatchLog], looks: Sequence[int]) -> Floats:
        """Return what is promised and realised on other rows, of shape (2, looks, rows); the situation is used up."""
        judged = np.empty((2, len(looks), len(labels)))
        for look, now in enumerate(walk(situation, logs, looks)):
            judged[:, look] = now.taken(now.assessed), now.earned(labels)
        return judged

    def out_of_fold(
        self,
        stages: Sequence[FittedStage],
        hows: Sequence[Debiasing],
        name: str,
        progress: Progress = silent,
        *,
        every: bool = False,
    ) -> list[OutOfFold]:
        """Judge the last stage, done in each of several ways, on rows held out; the stages before are as they were.

        Without ``every``, the end is all that is looked at.
        """
        rounds = len(hows) * sum(stage.how.max_rounds or 0 for stage in stages)  # of a fold; at most, where it is known
        with Stage(progress, name, len(self.folds) * (rounds + 2)) as stage:
            learned = []
            for number, fold in enumerate(self.folds, start=1):
                learned.append(self.learn(fold.train, stages, hows, stage if rounds else silent))
                stage.reach(number * (rounds + 1))
            made = [[sum(len(log.rounds) for log in logs) for logs in all_logs] for _, all_logs in learned]
            looks = [_looks(most) if every else [most] for most in map(max, zip(*made, strict=True))]
            found = [OutOfFold(its, np.empty((2, len(its), len(self.labels)))) for its in looks]
            for fold, (mean, all_logs) in zip(self.folds, learned, strict=True):
                begun, labels = self.start.take(fold.test, mean).situation(), self.labels[fold.test]
                for its, logs in zip(found, all_logs, strict=True):
                    its.payoffs[:, :, fold.test] = self.judge(begun.copy(), labels, logs, its.looks)
                stage()
        return found


def _among(rows: Indices, first: int) -> Indices:
    """Return the rows that are among the first ``first``; all of them if none is."""
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


@dataclass(frozen=True)
class CandidateRecord:
    """A shrinkage and a number of rounds, with what they promised and earned of each row out of fold."""

    rounds: int
    shrinkage: float
    promised: Floats
    realised: Floats


@dataclass(frozen=True)
class CrossValidation:
    """All candidates, the simplest first; the number of the one chosen; its selection bias.

    ``gains`` of shape (candidates, n) are over making no correction, which is the first candidate: positive is better.
    """

    candidates: list[CandidateRecord]
    gains: Floats
    errors: list[float]
    number: int
    bias: float

    @property
    def chosen(self) -> CandidateRecord:
        """The candidate chosen."""
        return self.candidates[self.number]


def cross_validate(
    study: Study, how: Debiasing, shrinkages: Sequence[float], sign: float, progress: Progress = silent
) -> CrossValidation:
    """Judge every candidate out of fold, and choose: no correction unless one earns more by one standard error."""
    found: list[CandidateRecord] = []
    hows = [how._replace(shrinkage=shrinkage) for shrinkage in shrinkages]
    stage = FittedStage(how, len(study.labels))
    tried = study.out_of_fold([stage], hows, "cross-validating", progress, every=True)
    for shrinkage, (looks, (promised, realised)) in zip(shrinkages, tried, strict=True):
        found += map(CandidateRecord, looks, [shrinkage] * len(looks), promised, realised)
    # the simplest first, and no correction at all once: of ties the first is taken
    found.sort(key=lambda candidate: (candidate.rounds, -candidate.shrinkage))
    found = found[:1] + [candidate for candidate in found if candidate.rounds > 0]
    realised = np.stack([candidate.realised for candidate in found])
    gains = sign * (realised - realised[0])
    errors = [study.sampling.error(gain) for gain in gains]
    bias = selection_bias(sign * realised, _select_again, study.sampling, study.seed)
    return CrossValidation(found, gains, errors, best_of(gains, study.sampling), bias)


def _select_again(payoffs: Floats) -> int:
    return best_of(payoffs - payoffs[0], Sampling())
