"""The recipe: forecasts, arms, calibrated choice, league. What it learns decides for any rows.

In the sense of maximising throughout. The same functions serve out-of-fold forecasts when fitting and the fitted ones
later, so that what is judged is what is played.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
from optensemble._core.progress import Progress, Stage, Step, silent
from optensemble.members.outputs import View
from optensemble.multicalibration.state import Solver
from optensemble.stacking.arm_choice import Choice, fit_choice
from optensemble.stacking.forecaster import (
    AVERAGE,
    FORECASTS,
    MEAN,
    PATCHED,
    REFINED,
    RIDGE,
    STACK,
    Forecaster,
    Forecasts,
    Learned,
)
from optensemble.stacking.leaderboard import ENSEMBLE, ENSEMBLE_NAME, Candidate, find_winner
from optensemble.stacking.stack import blend_weights
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling

PLAYED = (AVERAGE, STACK, REFINED, PATCHED)
"""Forecasts whose policies are arms, beside the members."""

EVALUATORS = (STACK, REFINED, PATCHED)
"""Forecasts that assess every arm."""

_MARGIN = 2.0
_BLIND_MARGIN = 0.5  # of a policy without predictions the choice among arms knows little: it needs less to be preferred
_BLIND_PULL = 0.5


@dataclass(frozen=True)
class Decided:
    """What is done on a batch of rows, whose arm it is, what it is assessed at, and by which forecast."""

    actions: Floats
    chosen: Indices
    assessed: Floats
    forecast: Floats


def members_assessed(view: View, decided: Decided) -> Floats:
    """Return at what the mean member is assessed by the forecast behind the decision."""
    forecast = np.ascontiguousarray(decided.forecast)
    return np.asarray(np.mean([row_dots(actions, forecast) for actions in view.actions], axis=0))


def beyond_members(view: View, decided: Decided, labels: Floats) -> tuple[Floats, Floats]:
    """Return by how much a decision is assessed, and earns, beyond the mean member."""
    earned = np.mean([row_dots(actions, labels) for actions in view.actions], axis=0)
    return decided.assessed - members_assessed(view, decided), row_dots(decided.actions, labels) - earned


@dataclass(frozen=True)
class Decider:
    """Everything that decides: forecasts, the choice among arms, and who won the league.

    Members are numbered first, then ``forecasts``; ``winner`` is such a number, or that of the ensemble.
    """

    members: int
    forecasts: tuple[str, ...]
    forecaster: Forecaster
    choice: Choice
    winner: int

    def __call__(self, view: View, omega: Solver, buckets: Buckets) -> Decided:
        """Decide for some rows."""
        forecasts = self.forecaster(view, omega, buckets)
        return self.decide(view, forecasts, play(view, forecasts, omega, self._needed))

    @property
    def _needed(self) -> tuple[str, ...]:
        if self.winner == ENSEMBLE:
            return PLAYED
        return () if self.winner < self.members else (self.forecasts[self.winner - self.members],)

    def decide(self, view: View, forecasts: Forecasts, played: dict[str, Floats]) -> Decided:
        """Decide, given what the forecasts' policies do."""
        if self.winner != ENSEMBLE:
            return self._decide_by_winner(view, forecasts, played)
        arms = [*view.actions, *(played[name] for name in PLAYED if name in played)]
        picked = self.choice(assess(view, forecasts, arms))
        return take(view, forecasts, arms, picked, self.forecasts)

    def _decide_by_winner(self, view: View, forecasts: Forecasts, played: dict[str, Floats]) -> Decided:
        chosen, forecast = np.full(view.count, self.winner), forecasts[last_of(forecasts)]
        if self.winner < self.members:
            actions = view.actions[self.winner]
        else:
            name = self.forecasts[self.winner - self.members]
            actions = played[name]
            if name in (RIDGE, MEAN):
                forecast = np.ascontiguousarray(forecasts[name])
        return Decided(actions, chosen, row_dots(actions, forecast), forecast)


def take(view: View, forecasts: Forecasts, arms: list[Floats], picked: Indices, names: tuple[str, ...]) -> Decided:
    """Return what is done where each row plays the arm that was picked for it."""
    forecast, members = forecasts[last_of(forecasts)], len(view.actions)
    numbers = [*range(members), *(members + names.index(name) for name in PLAYED if name in forecasts)]
    actions = np.empty_like(forecast)
    for number, arm in enumerate(arms):
        rows = picked == number
        actions[rows] = arm[rows]
    return Decided(actions, np.array(numbers)[picked], row_dots(actions, forecast), forecast)


def last_of(forecasts: Forecasts) -> str:
    """Return the forecast that was corrected most: the one to assess by."""
    return [name for name in EVALUATORS if name in forecasts][-1]


def title_all(members: list[str]) -> dict[str, str]:
    """Name all forecasts and the ensemble for display; they give way to members of the same name.

    >>> title_all(["ridge", "ours"])["ridge"]
    'ridge of all'
    """
    titles = {name: name for name in (*FORECASTS, ENSEMBLE_NAME)}
    for name in titles:
        while titles[name] in members:
            titles[name] += " of all"
    return titles


def play(view: View, forecasts: Forecasts, omega: Solver, names: tuple[str, ...] = FORECASTS) -> dict[str, Floats]:
    """Return what the policies of some forecasts do."""
    return {name: (solve_few if name == MEAN else solve)(omega, forecasts[name]) for name in names if name in forecasts}


def solve(omega: Solver, forecast: Floats) -> Floats:
    """Return the best actions under a forecast."""
    return omega.argmax(np.ascontiguousarray(forecast))


def solve_few(omega: Solver, forecast: Floats) -> Floats:
    """Return the same of a forecast that has few different rows: each is solved once."""
    keys = row_dots(forecast, np.broadcast_to(np.sqrt(np.arange(2.0, 2.0 + forecast.shape[1])), forecast.shape).copy())
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(omega.argmax(forecast[first])[number])


def assess(view: View, forecasts: Forecasts, arms: list[Floats]) -> Floats:
    """Return what each evaluator expects of each arm, of shape (arms, evaluators, n)."""
    evaluators = [forecasts[name] for name in EVALUATORS if name in forecasts]
    if not view.models:  # what most policies do, and what is good on average, are evidence too
        evaluators += [view.actions.mean(axis=0) * view.scale, np.ascontiguousarray(forecasts[MEAN])]
    return np.stack([[row_dots(arm, each) for each in evaluators] for arm in arms])


def _prior(view: View, forecasts: Forecasts, labels: Floats) -> Floats:
    """Return the slopes to begin with: how a blend of the forecasts that were fitted would weigh them."""
    fitted = [forecasts[name] for name in EVALUATORS if name in forecasts]
    weights = blend_weights(np.stack(fitted), labels)
    return weights if view.models else np.concatenate([weights, np.zeros(2)])


@dataclass(frozen=True)
class Learning:
    """A decider, and what it was judged by: per candidate what it earned out of fold, and what would have been done.

    ``followed`` is on what share of the rows whose action is taken.
    """

    decider: Decider
    candidates: dict[int, Candidate]
    decided: Decided
    followed: dict[int, float]


def learn_decider(
    names: list[str],
    view: View,
    labels: Floats,
    omega: Solver,
    learned: Learned,
    sampling: Sampling,
    parts: list[Fold],
    progress: Progress = silent,
) -> Learning:
    """Fit the choice among arms and hold the league, all on out-of-fold forecasts; ``names`` are for display."""
    forecasts, members = learned.out_of_fold, len(view.actions)
    known = tuple(name for name in FORECASTS if name in forecasts)
    played = play(view, forecasts, omega)
    arms = [*view.actions, *(played[name] for name in PLAYED if name in played)]
    assessed, realised = assess(view, forecasts, arms), np.stack([row_dots(arm, labels) for arm in arms])
    prior = _prior(view, forecasts, labels)
    with Stage(progress, "choosing", len(parts) + 1) as step:
        picked, choice = _cross_choose(assessed, realised, prior, view, sampling, parts, step)
    taken = take(view, forecasts, arms, picked, known)
    candidates = {
        ENSEMBLE: Candidate(names[-1], "choice", taken.assessed, row_dots(taken.actions, labels), np.inf),
        **_candidates(names, view, labels, forecasts, played, known),
    }
    decider = Decider(members, known, learned.forecaster, choice, find_winner(candidates, sampling))
    decided = taken if decider.winner == ENSEMBLE else decider.decide(view, forecasts, played)
    share = np.bincount(decided.chosen, minlength=members + len(known)) / view.count
    return Learning(decider, candidates, decided, dict(enumerate(share.tolist())))


def _candidates(
    names: list[str],
    view: View,
    labels: Floats,
    forecasts: Forecasts,
    played: dict[str, Floats],
    known: tuple[str, ...],
) -> dict[int, Candidate]:
    """Return members and forecasts, each with what it takes to be preferred to the ensemble."""
    candidates, last = {}, forecasts[last_of(forecasts)]
    for number, actions in enumerate(view.actions):
        kind, margin = ("model", _MARGIN) if number < view.models else ("policy", _BLIND_MARGIN)
        earned = row_dots(actions, labels)
        candidates[number] = Candidate(names[number], kind, row_dots(actions, last), earned, margin)
    for number, name in enumerate(known, start=len(view.actions)):
        actions, simple = played[name], name not in (REFINED, PATCHED)
        by = np.ascontiguousarray(forecasts[name]) if name in (RIDGE, MEAN) else last
        margin = _MARGIN if simple else np.inf
        kind = "baseline" if simple else "forecast"
        candidates[number] = Candidate(names[number], kind, row_dots(actions, by), row_dots(actions, labels), margin)
    return candidates


def _cross_choose(
    assessed: Floats,
    realised: Floats,
    prior: Floats,
    view: View,
    sampling: Sampling,
    parts: list[Fold],
    step: Step,
) -> tuple[Indices, Choice]:
    """Return which arm is picked out of fold, and the choice fitted on all rows."""
    # rows that go together teach less than as many independent ones: the prior weighs more
    together = float(np.mean([sampling.design_effect(arm) for arm in realised - realised.mean(axis=0)]))
    pull = together * (1.0 if view.models else _BLIND_PULL)
    picked = np.empty(assessed.shape[2], dtype=np.int64)
    for fold in parts:
        choice = fit_choice(assessed[:, :, fold.train], realised[:, fold.train], prior, pull)
        picked[fold.test] = choice(assessed[:, :, fold.test])
        step()
    return picked, fit_choice(assessed, realised, prior, pull)
