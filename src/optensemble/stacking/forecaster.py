"""From what members say to forecasts of the labels, each step cross-fitted and let in only if it pays out of fold.

::

    average → stack → refined → patched          each of them an arm and, but for the average, an evaluator
    mean, ridge                                  what anyone would try; for the league
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.progress import Progress, Stage, Step, silent
from optensemble.members.outputs import View
from optensemble.multicalibration.loop import PatchLog
from optensemble.multicalibration.state import Solver
from optensemble.stacking.patch import MOST_STEPS, Patched, apply, learn_patch
from optensemble.stacking.stack import (
    STRENGTHS,
    Design,
    Gate,
    Ridge,
    RidgePath,
    RidgeTable,
    Stack,
    StackTable,
    judge,
    squared_loss,
    stack_pull,
    without,
)
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling

AVERAGE, STACK, REFINED, PATCHED, RIDGE, MEAN = "average", "stack", "refined", "patched", "ridge", "mean"
FORECASTS = (AVERAGE, STACK, REFINED, PATCHED, RIDGE, MEAN)

Forecasts = dict[str, Floats]
"""Predictions of shape (n, d) by the name of who made them, from the simplest to the most corrected."""

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Forecaster:
    """Everything learned to forecast labels from what members say; ``refinement`` and ``patch`` may be left out.

    ``mean`` and ``scale`` are the labels' means and standard deviations.
    """

    mean: Floats
    scale: Floats
    stack: Stack
    ridge: Ridge
    refinement: Ridge | None = None
    patch: PatchLog | None = None

    def __call__(self, view: View, omega: Solver, buckets: Buckets) -> Forecasts:
        """Return all forecasts for some rows."""
        forecasts = {MEAN: np.broadcast_to(self.mean, (view.count, len(self.mean))), RIDGE: self.ridge(view.features)}
        if view.models:
            forecasts[AVERAGE] = view.predictions.mean(axis=0)
        forecasts[STACK] = last = self.stack(view.features)
        if self.refinement is not None:
            forecasts[REFINED] = last = last + self.refinement(view.features)
        if self.patch is not None:
            forecasts[PATCHED] = apply(self.patch, view, last, omega, buckets)
        return forecasts


@dataclass
class Learned:
    """A forecaster, its out-of-fold forecasts on the rows it was fitted on, and what was let in and why not."""

    forecaster: Forecaster
    out_of_fold: Forecasts
    refinement: Gate
    patched: Patched

    @property
    def left_out(self) -> dict[str, str]:
        """Say by name which forecasts were not let in, and why."""
        refined = {} if self.refinement.open else {REFINED: str(self.refinement)}
        return refined if self.patched.log.rounds else {**refined, PATCHED: self.patched.note}


def learn_forecasts(
    view: View,
    labels: Floats,
    omega: Solver,
    buckets: Buckets,
    sampling: Sampling,
    parts: list[Fold],
    threads: int = 1,
    progress: Progress = silent,
) -> Learned:
    """Fit every step on all rows, and judge it by what it says of rows it was not fitted on."""
    tables = _Tables(view, Design(view.features), labels, parts)
    with Stage(progress, "cross-fitting", len(parts)) as step:
        folded = _map(tables.fit_fold, range(len(parts)), threads, step)
    refining, ridging = (_best_strength(folded, which) for which in (REFINED, RIDGE))
    stacked = _gather(folded, lambda fold: fold.stacked)
    refined = stacked + _gather(folded, lambda fold: fold.refinement(refining))
    gate = judge(squared_loss(labels, stacked), squared_loss(labels, refined), sampling)
    stack, correction, ridge = tables.fit(refining, ridging)
    out_of_fold: Forecasts = {
        MEAN: _gather(folded, lambda fold: np.broadcast_to(fold.mean, fold.stacked.shape)),
        RIDGE: _gather(folded, lambda fold: fold.ridge(ridging)),
    }
    if view.models:
        out_of_fold[AVERAGE] = view.predictions.mean(axis=0)
    out_of_fold[STACK] = last = stacked
    if gate.open:
        out_of_fold[REFINED] = last = refined
    with Stage(progress, "patching", MOST_STEPS) as step:
        patched = learn_patch(view, last, labels, omega, buckets, sampling, parts, step)
    if patched.log.rounds:
        out_of_fold[PATCHED] = patched.predictions
    forecaster = Forecaster(
        mean=labels.mean(axis=0),
        scale=view.scale,
        stack=stack,
        ridge=ridge,
        refinement=correction if gate.open else None,
        patch=patched.log if patched.log.rounds else None,
    )
    return Learned(forecaster, out_of_fold, gate, patched)


def learn_simple(view: View, labels: Floats, parts: list[Fold]) -> Forecaster:
    """Fit only what anyone would try: mean, stack and ridge."""
    tables = _Tables(view, Design(view.features), labels, parts)
    ridging = _best_strength([tables.fit_fold(number) for number in range(len(parts))], RIDGE)
    stack, _, ridge = tables.fit(ridging, ridging)
    return Forecaster(labels.mean(axis=0), view.scale, stack, ridge)


@dataclass(frozen=True)
class _Folded:
    """What one fold's training rows say of its test ``rows``: the stack, per strength what comes on top, or instead."""

    rows: Indices
    mean: Floats
    stacked: Floats
    refinement: Callable[[float], Floats]
    ridge: Callable[[float], Floats]
    losses: dict[str, Floats]


class _Tables:
    """The tables of every fold: what the others teach is the sum of theirs."""

    def __init__(self, view: View, design: Design, labels: Floats, parts: list[Fold]) -> None:
        self._features, self._prior, self._design, self._labels = view.features, view.prior, design, labels
        self._pull, self._middles = stack_pull(view.features), (view.features.mean(axis=1), labels.mean(axis=0))
        features, labels = view.features - self._middles[0][:, None], labels - self._middles[1]
        self._tests = [fold.test for fold in parts]
        self._stacks = [StackTable.of(features[:, rows], labels[rows]) for rows in self._tests]
        self._ridges = [RidgeTable.of(design.rows[rows], labels[rows]) for rows in self._tests]

    def fit_fold(self, number: int) -> _Folded:
        """Learn from all folds but one, and speak of that one."""
        rows = self._tests[number]
        stack, path = self._learn(number)
        truth, stacked = self._labels[rows], stack(self._features[:, rows])
        columns = self._design.rows[rows] - path.centre
        beyond, alone = path.towards(self._design.coefficients(stack)), path.towards()
        losses = {REFINED: np.empty(len(STRENGTHS)), RIDGE: np.empty(len(STRENGTHS))}
        for index, strength in enumerate(STRENGTHS):
            losses[REFINED][index] = squared_loss(truth, stacked + columns @ beyond(strength)).sum()
            losses[RIDGE][index] = squared_loss(truth, path.level + columns @ alone(strength)).sum()
        return _Folded(
            rows=rows,
            mean=path.level,
            stacked=stacked,
            refinement=lambda strength: columns @ beyond(strength),
            ridge=lambda strength: path.level + columns @ alone(strength),
            losses=losses,
        )

    def fit(self, refining: float, ridging: float) -> tuple[Stack, Ridge, Ridge]:
        """Learn the stack, its refinement and the ridge from all folds."""
        stack, path = self._learn(None)
        beyond = path.towards(self._design.coefficients(stack))(refining)
        refinement = self._design.ridge(beyond, path.centre, np.zeros_like(path.level))
        return stack, refinement, self._design.ridge(path.towards()(ridging), path.centre, path.level)

    def _learn(self, left_out: int | None) -> tuple[Stack, RidgePath]:
        table = without(self._stacks, left_out)
        stack = table.fit(self._prior, self._pull * table.n).about(*self._middles)
        return stack, without(self._ridges, left_out).path(self._middles[1])


def _best_strength(folded: list[_Folded], which: str) -> float:
    return STRENGTHS[int(np.sum([fold.losses[which] for fold in folded], axis=0).argmin())]


def _gather(folded: list[_Folded], say: Callable[[_Folded], Floats]) -> Floats:
    """Put what is said of each fold's test rows into the order of the rows."""
    whole = np.empty((sum(len(fold.rows) for fold in folded), folded[0].stacked.shape[1]))
    for fold in folded:
        whole[fold.rows] = say(fold)
    return whole


def _map(function: Callable[[S], T], items: Iterable[S], threads: int, step: Step) -> list[T]:
    """Return what the function makes of every item; each is a step, told by the thread that asks for all of them."""
    if threads == 1:
        return _collect(map(function, items), step)
    with ThreadPoolExecutor(threads) as pool:
        try:
            return _collect(pool.map(function, items), step)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # nobody waits for what has not begun
            raise


def _collect(results: Iterable[T], step: Step) -> list[T]:
    collected = []
    for result in results:
        collected.append(result)
        step()
    return collected
