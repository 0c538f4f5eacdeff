"""The final policy: forecasts, candidate policies, calibrated choice, leaderboard; it decides for any rows.

In the sense of maximising throughout. The same functions serve out-of-fold forecasts when fitting and the fitted ones
later, so that what is judged is what is played.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble._core.progress import Progress, Stage, Step, silent
from optensemble.members.fit_data import FitData
from optensemble.members.outputs import MemberOutputs
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
    ForecastBatch,
    Forecaster,
    ForecastFit,
    Forecasts,
    Policies,
)
from optensemble.stacking.leaderboard import ENSEMBLE, ENSEMBLE_NAME, Candidate, find_winner
from optensemble.stacking.stack import blend_weights

PLAYED = (AVERAGE, STACK, REFINED, PATCHED)
"""Forecasts whose policies the calibrated choice may play, beside the members."""

EVALUATORS = (STACK, REFINED, PATCHED)
"""Forecasts that assess every policy."""

_MARGIN = 2.0
_POLICY_MARGIN = 0.5  # the choice knows little of a policy without predictions: it needs less to be preferred
_NO_MODELS_STRENGTH = 0.5


@dataclass(frozen=True)
class Decisions:
    """The actions on a batch of rows, the candidate followed in each, its assessment, and the forecast behind it."""

    actions: Floats
    chosen: Indices
    assessed: Floats
    forecast: Floats


@dataclass(frozen=True)
class PolicyPass:
    """One pass over a batch of rows: members' outputs, forecasts, the policies solved, and the decisions."""

    outputs: MemberOutputs
    forecasts: Forecasts
    played: Policies
    decisions: Decisions

    @property
    def members_assessed(self) -> Floats:
        """The mean member's payoff, as assessed by the forecast behind the decision."""
        forecast = np.ascontiguousarray(self.decisions.forecast)
        return np.asarray(np.mean([row_dots(actions, forecast) for actions in self.outputs.actions], axis=0))

    def beyond_members(self, labels: Floats) -> tuple[Floats, Floats]:
        """Return the assessed and the realised advantage over the mean member."""
        earned = np.mean([row_dots(actions, labels) for actions in self.outputs.actions], axis=0)
        assessed = self.decisions.assessed - self.members_assessed
        return assessed, row_dots(self.decisions.actions, labels) - earned


@dataclass(frozen=True)
class FinalPolicy:
    """Everything that decides: forecasts, the calibrated choice, and the winner of the leaderboard.

    Members are numbered first, then ``forecasts``; ``winner`` is such a number, or that of the ensemble.
    """

    members: int
    forecasts: tuple[str, ...]
    forecaster: Forecaster
    choice: Choice
    winner: int

    def __call__(self, outputs: MemberOutputs, *, every: bool = False) -> PolicyPass:
        """Decide for some rows; with ``every``, solve the policies of all forecasts, not only of those needed."""
        batch = self.forecaster(outputs)
        played = solve_policies(outputs.omega, batch, FORECASTS if every else self._needed)
        return PolicyPass(outputs, batch.forecasts, played, self.decide(outputs, batch.forecasts, played))

    @property
    def _needed(self) -> tuple[str, ...]:
        if self.winner == ENSEMBLE:
            return PLAYED
        return () if self.winner < self.members else (self.forecasts[self.winner - self.members],)

    def decide(self, outputs: MemberOutputs, forecasts: Forecasts, played: Policies) -> Decisions:
        """Decide, given the actions of the forecasts' policies."""
        if self.winner != ENSEMBLE:
            return self._decide_by_winner(outputs, forecasts, played)
        arms = list_arms(outputs, played)
        picked = self.choice(assess_arms(outputs, forecasts, arms, self.forecaster.scale))
        return play_arms(outputs, forecasts, arms, picked, self.forecasts)

    def _decide_by_winner(self, outputs: MemberOutputs, forecasts: Forecasts, played: Policies) -> Decisions:
        chosen, forecast = np.full(outputs.count, self.winner), forecasts[last_of(forecasts)]
        if self.winner < self.members:
            actions = outputs.actions[self.winner]
        else:
            name = self.forecasts[self.winner - self.members]
            actions = played[name]
            if name in (RIDGE, MEAN):
                forecast = np.ascontiguousarray(forecasts[name])
        return Decisions(actions, chosen, row_dots(actions, forecast), forecast)

    def margin(self, models: int) -> float:
        """Return the margin by which the winner beat the ensemble; 0 for the ensemble itself."""
        if self.winner == ENSEMBLE:
            return 0.0
        return _POLICY_MARGIN if models <= self.winner < self.members else _MARGIN


def list_arms(outputs: MemberOutputs, played: Policies) -> list[Floats]:
    """Return the actions of all that the calibrated choice may play: members, then forecasts."""
    return [*outputs.actions, *(played[name] for name in PLAYED if name in played)]


def play_arms(
    outputs: MemberOutputs, forecasts: Forecasts, arms: list[Floats], picked: Indices, names: tuple[str, ...]
) -> Decisions:
    """Return the decisions where each row plays the arm picked for it."""
    forecast, members = forecasts[last_of(forecasts)], len(outputs.actions)
    numbers = [*range(members), *(members + names.index(name) for name in PLAYED if name in forecasts)]
    actions = np.empty_like(forecast)
    for number, arm in enumerate(arms):
        rows = picked == number
        actions[rows] = arm[rows]
    return Decisions(actions, np.array(numbers)[picked], row_dots(actions, forecast), forecast)


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


def solve_policies(omega: Solver, batch: ForecastBatch, names: tuple[str, ...] = FORECASTS) -> Policies:
    """Return the actions that some forecasts induce, each solved once."""
    found = {}
    for name in names:
        if name in batch.solved:
            found[name] = batch.solved[name]
        elif name in batch.forecasts:
            found[name] = (solve_few if name == MEAN else solve_forecast)(omega, batch.forecasts[name])
    return found


def solve_forecast(omega: Solver, forecast: Floats) -> Floats:
    """Return the best actions under a forecast."""
    return omega.argmax(np.ascontiguousarray(forecast))


def solve_few(omega: Solver, forecast: Floats) -> Floats:
    """Return the same under a forecast with few different rows: each is solved once."""
    keys = row_dots(forecast, np.broadcast_to(np.sqrt(np.arange(2.0, 2.0 + forecast.shape[1])), forecast.shape).copy())
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(omega.argmax(forecast[first])[number])


def assess_arms(outputs: MemberOutputs, forecasts: Forecasts, arms: list[Floats], scale: Floats) -> Floats:
    """Return each evaluator's assessment of each arm, of shape (arms, evaluators, n)."""
    evaluators = [forecasts[name] for name in EVALUATORS if name in forecasts]
    if not outputs.models:  # what most policies do, and what is good on average, are evidence too
        evaluators += [outputs.actions.mean(axis=0) * scale, np.ascontiguousarray(forecasts[MEAN])]
    return np.stack([[row_dots(arm, each) for each in evaluators] for arm in arms])


def _prior_slopes(data: FitData, forecasts: Forecasts) -> Floats:
    """Return the slopes to begin with: the weights of a blend of the forecasts that were fitted."""
    fitted = [forecasts[name] for name in EVALUATORS if name in forecasts]
    weights = blend_weights(np.stack(fitted), data.labels)
    return weights if data.outputs.models else np.concatenate([weights, np.zeros(2)])


@dataclass(frozen=True)
class PolicyFit:
    """The final policy and the evidence behind it: every candidate out of fold, and the out-of-fold pass.

    ``followed`` is the share of rows on which each candidate's action is taken.
    """

    policy: FinalPolicy
    candidates: dict[int, Candidate]
    out_of_fold: PolicyPass
    followed: dict[int, float]


def learn_policy(names: list[str], data: FitData, fit: ForecastFit, progress: Progress = silent) -> PolicyFit:
    """Fit the choice among candidate policies and the leaderboard, all on out-of-fold forecasts.

    ``names`` are for display: of members, forecasts, and last of the ensemble.
    """
    outputs, labels, forecasts = data.outputs, data.labels, fit.out_of_fold.forecasts
    members, known = len(outputs.actions), tuple(name for name in FORECASTS if name in forecasts)
    played = solve_policies(outputs.omega, fit.out_of_fold)
    arms = list_arms(outputs, played)
    assessed = assess_arms(outputs, forecasts, arms, data.scale)
    realised = np.stack([row_dots(arm, labels) for arm in arms])
    with Stage(progress, "choosing", len(data.folds) + 1) as step:
        picked, choice = _cross_fit_choice(assessed, realised, _prior_slopes(data, forecasts), data, step)
    taken = play_arms(outputs, forecasts, arms, picked, known)
    candidates = {
        ENSEMBLE: Candidate(names[-1], "choice", taken.assessed, row_dots(taken.actions, labels), np.inf),
        **_candidates(names, data, forecasts, played),
    }
    policy = FinalPolicy(members, known, fit.forecaster, choice, find_winner(candidates, data.sampling))
    decisions = taken if policy.winner == ENSEMBLE else policy.decide(outputs, forecasts, played)
    share = np.bincount(decisions.chosen, minlength=members + len(known)) / outputs.count
    out_of_fold = PolicyPass(outputs, forecasts, played, decisions)
    return PolicyFit(policy, candidates, out_of_fold, dict(enumerate(share.tolist())))


def _candidates(names: list[str], data: FitData, forecasts: Forecasts, played: Policies) -> dict[int, Candidate]:
    """Return members and forecasts, each with the margin it needs to be preferred to the ensemble."""
    outputs, labels = data.outputs, data.labels
    candidates, last = {}, forecasts[last_of(forecasts)]
    for number, actions in enumerate(outputs.actions):
        kind, margin = ("model", _MARGIN) if number < outputs.models else ("policy", _POLICY_MARGIN)
        earned = row_dots(actions, labels)
        candidates[number] = Candidate(names[number], kind, row_dots(actions, last), earned, margin)
    known = [name for name in FORECASTS if name in forecasts]
    for number, name in enumerate(known, start=len(outputs.actions)):
        actions, simple = played[name], name not in (REFINED, PATCHED)
        by = np.ascontiguousarray(forecasts[name]) if name in (RIDGE, MEAN) else last
        margin = _MARGIN if simple else np.inf
        kind = "baseline" if simple else "forecast"
        candidates[number] = Candidate(names[number], kind, row_dots(actions, by), row_dots(actions, labels), margin)
    return candidates


def _cross_fit_choice(
    assessed: Floats, realised: Floats, prior: Floats, data: FitData, step: Step
) -> tuple[Indices, Choice]:
    """Return the arm picked in each row out of fold, and the choice fitted on all rows."""
    # dependent rows teach less than as many independent ones: the prior weighs more
    effect = [data.sampling.design_effect(arm) for arm in realised - realised.mean(axis=0)]
    strength = float(np.mean(effect)) * (1.0 if data.outputs.models else _NO_MODELS_STRENGTH)
    picked = np.empty(assessed.shape[2], dtype=np.int64)
    for fold in data.folds:
        choice = fit_choice(assessed[:, :, fold.train], realised[:, fold.train], prior, strength)
        picked[fold.test] = choice(assessed[:, :, fold.test])
        step()
    return picked, fit_choice(assessed, realised, prior, strength)
