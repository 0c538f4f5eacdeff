"""From what members say to forecasts of the labels, each step cross-fitted and kept only if it pays out of fold.

::

    average → stack → refined → patched          each a candidate policy and, but for the average, an evaluator
    mean, ridge                                  what anyone would try; for the leaderboard
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.progress import Progress, Stage, Step, silent
from optensemble.members.fit_data import FitData
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.patches import PatchLog
from optensemble.stacking.patch import MOST_STEPS, PatchFit, apply_patch, learn_patch
from optensemble.stacking.ridge import RIDGE_PENALTIES, Design, Ridge, RidgePath, RidgeTable
from optensemble.stacking.stack import Stack, StackTable, average_weights, prior_strength, squared_loss
from optensemble.stats.paired_tests import PairedTest, compare_losses

AVERAGE, STACK, REFINED, PATCHED, RIDGE, MEAN = "average", "stack", "refined", "patched", "ridge", "mean"
FORECASTS = (AVERAGE, STACK, REFINED, PATCHED, RIDGE, MEAN)

Forecasts = dict[str, Floats]
"""Predictions of shape (n, d) by the name of who made them, from the simplest to the most corrected."""

Policies = dict[str, Floats]
"""Actions of shape (n, d) by the name of the forecast that induces them."""

S = TypeVar("S")
T = TypeVar("T")
Table = TypeVar("Table", StackTable, RidgeTable)


@dataclass(frozen=True)
class ForecastBatch:
    """All forecasts for a batch of rows, and the actions of those that were solved on the way."""

    forecasts: Forecasts
    solved: Policies


@dataclass(frozen=True)
class Forecaster:
    """The forecasts of labels from what members say; ``refinement`` and ``patch`` may be left out.

    ``mean`` and ``scale`` are the labels' means and standard deviations.
    """

    mean: Floats
    scale: Floats
    stack: Stack
    ridge: Ridge
    refinement: Ridge | None = None
    patch: PatchLog | None = None

    def __call__(self, outputs: MemberOutputs) -> ForecastBatch:
        """Return all forecasts for some rows."""
        features = outputs.features(self.scale)
        forecasts = {MEAN: np.broadcast_to(self.mean, (outputs.count, len(self.mean))), RIDGE: self.ridge(features)}
        if outputs.models:
            forecasts[AVERAGE] = outputs.predictions.mean(axis=0)
        forecasts[STACK], name = self.stack(features), STACK
        if self.refinement is not None:
            forecasts[REFINED], name = forecasts[STACK] + self.refinement(features), REFINED
        if self.patch is None:
            return ForecastBatch(forecasts, {})
        forecasts[PATCHED], before, after = apply_patch(self.patch, outputs, forecasts[name])
        return ForecastBatch(forecasts, {name: before, PATCHED: after})


@dataclass(frozen=True)
class ForecastFit:
    """A forecaster, its out-of-fold forecasts on the fitting rows, and the tests of what was kept."""

    forecaster: Forecaster
    out_of_fold: ForecastBatch
    refinement: PairedTest
    patch: PatchFit

    @property
    def left_out(self) -> dict[str, str]:
        """The forecasts that were not kept, and why."""
        refined = {} if self.refinement.passed else {REFINED: str(self.refinement)}
        return refined if self.patch.log.rounds else {**refined, PATCHED: self.patch.note}


def learn_forecasts(data: FitData, threads: int = 1, progress: Progress = silent) -> ForecastFit:
    """Fit every step on all rows, and judge it by what it says of rows it was not fitted on."""
    labels, outputs, tables = data.labels, data.outputs, _Tables(data)
    with Stage(progress, "cross-fitting", len(data.folds)) as step:
        folded = _map(tables.fit_fold, range(len(data.folds)), threads, step)
    refining, ridging = (_best_penalty(folded, which) for which in (REFINED, RIDGE))
    stacked = _gather(folded, lambda fold: fold.stacked)
    refined = stacked + _gather(folded, lambda fold: fold.refinement(refining))
    test = compare_losses(squared_loss(labels, stacked), squared_loss(labels, refined), data.sampling)
    stack, correction, ridge = tables.fit(refining, ridging)
    out_of_fold: Forecasts = {
        MEAN: _gather(folded, lambda fold: np.broadcast_to(fold.mean, fold.stacked.shape)),
        RIDGE: _gather(folded, lambda fold: fold.ridge(ridging)),
    }
    if outputs.models:
        out_of_fold[AVERAGE] = outputs.predictions.mean(axis=0)
    out_of_fold[STACK], last = stacked, STACK
    if test.passed:
        out_of_fold[REFINED], last = refined, REFINED
    with Stage(progress, "patching", MOST_STEPS) as step:
        patch = learn_patch(data, out_of_fold[last], step)
    solved = {last: patch.before}
    if patch.log.rounds:
        out_of_fold[PATCHED], solved[PATCHED] = patch.predictions, patch.actions
    forecaster = Forecaster(
        mean=labels.mean(axis=0),
        scale=data.scale,
        stack=stack,
        ridge=ridge,
        refinement=correction if test.passed else None,
        patch=patch.log if patch.log.rounds else None,
    )
    return ForecastFit(forecaster, ForecastBatch(out_of_fold, solved), test, patch)


def learn_baselines(data: FitData) -> Forecaster:
    """Fit only what anyone would try: mean, stack and ridge."""
    tables = _Tables(data)
    ridging = _best_penalty([tables.fit_fold(number) for number in range(len(data.folds))], RIDGE)
    stack, _, ridge = tables.fit(ridging, ridging)
    return Forecaster(data.labels.mean(axis=0), data.scale, stack, ridge)


@dataclass(frozen=True)
class _Folded:
    """What one fold's training rows say of its test ``rows``: the stack, per penalty what comes on top, or instead."""

    rows: Indices
    mean: Floats
    stacked: Floats
    refinement: Callable[[float], Floats]
    ridge: Callable[[float], Floats]
    losses: dict[str, Floats]


class _Tables:
    """The tables of every fold: what the others teach is the sum of theirs."""

    def __init__(self, data: FitData) -> None:
        self._features, self._labels, self._design = data.features, data.labels, Design(data.features)
        self._prior, self._strength = average_weights(data.outputs), prior_strength(data.features)
        # about their means, sums of squares lose no digits
        self._means = (data.features.mean(axis=1), data.labels.mean(axis=0))
        features, labels = data.features - self._means[0][:, None], data.labels - self._means[1]
        self._tests = [fold.test for fold in data.folds]
        self._stacks = [StackTable.of(features[:, rows], labels[rows]) for rows in self._tests]
        self._ridges = [RidgeTable.of(self._design.rows[rows], labels[rows]) for rows in self._tests]

    def fit_fold(self, number: int) -> _Folded:
        """Learn from all folds but one, and speak of that one."""
        rows = self._tests[number]
        stack, path = self._learn(number)
        truth, stacked = self._labels[rows], stack(self._features[:, rows])
        columns = self._design.rows[rows] - path.centre
        beyond, alone = path.towards(self._design.coefficients(stack)), path.towards()
        losses = {REFINED: np.empty(len(RIDGE_PENALTIES)), RIDGE: np.empty(len(RIDGE_PENALTIES))}
        for index, penalty in enumerate(RIDGE_PENALTIES):
            losses[REFINED][index] = squared_loss(truth, stacked + columns @ beyond(penalty)).sum()
            losses[RIDGE][index] = squared_loss(truth, path.level + columns @ alone(penalty)).sum()
        return _Folded(
            rows=rows,
            mean=path.level,
            stacked=stacked,
            refinement=lambda penalty: columns @ beyond(penalty),
            ridge=lambda penalty: path.level + columns @ alone(penalty),
            losses=losses,
        )

    def fit(self, refining: float, ridging: float) -> tuple[Stack, Ridge, Ridge]:
        """Learn the stack, its refinement and the ridge from all folds."""
        stack, path = self._learn(None)
        beyond = path.towards(self._design.coefficients(stack))(refining)
        refinement = self._design.ridge(beyond, path.centre, np.zeros_like(path.level))
        return stack, refinement, self._design.ridge(path.towards()(ridging), path.centre, path.level)

    def _learn(self, left_out: int | None) -> tuple[Stack, RidgePath]:
        table = add_up(self._stacks, left_out)
        stack = table.fit(self._prior, self._strength * table.n).about(*self._means)
        return stack, add_up(self._ridges, left_out).path(self._means[1])


def _best_penalty(folded: list[_Folded], which: str) -> float:
    return RIDGE_PENALTIES[int(np.sum([fold.losses[which] for fold in folded], axis=0).argmin())]


def _gather(folded: list[_Folded], say: Callable[[_Folded], Floats]) -> Floats:
    """Put what is said of each fold's test rows into the order of the rows."""
    whole = np.empty((sum(len(fold.rows) for fold in folded), folded[0].stacked.shape[1]))
    for fold in folded:
        whole[fold.rows] = say(fold)
    return whole


def _map(function: Callable[[S], T], items: Iterable[S], threads: int, step: Step) -> list[T]:
    """Apply the function to every item; each is a step, reported by the calling thread."""
    if threads == 1:
        return _collect(map(function, items), step)
    with ThreadPoolExecutor(threads) as pool:
        try:
            return _collect(pool.map(function, items), step)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what has not begun is no longer needed
            raise


def _collect(results: Iterable[T], step: Step) -> list[T]:
    collected = []
    for result in results:
        collected.append(result)
        step()
    return collected


def add_up(tables: Sequence[Table], left_out: int | None = None) -> Table:
    """Add tables up, all or all but one."""
    kept = [table for number, table in enumerate(tables) if number != left_out]
    return type(tables[0])(*(sum(parts[1:], start=parts[0]) for parts in zip(*kept, strict=True)))
