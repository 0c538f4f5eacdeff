"""The final policy: forecasts, candidate policies, calibrated choice, leaderboard; it decides for any rows.

In the sense of maximising throughout. The same functions serve out-of-fold forecasts when fitting and the fitted ones
later, so that what is judged is what is played.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble._core.sums import EACH, LARGEST, Sums
from optensemble.members.absence import Absent, mean_rows_present, stand_in_numbers
from optensemble.members.blocks import Block, Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.state import Solver
from optensemble.stacking.arm_choice import Choice, ChoiceSums, beyond_mean
from optensemble.stacking.cells import Counts, RowCells
from optensemble.stacking.forecaster import (
    AVERAGE,
    CORRECTED,
    FORECASTS,
    MEAN,
    RIDGE,
    STACK,
    ForecastBatch,
    Forecaster,
    Forecasts,
    Policies,
)
from optensemble.stacking.leaderboard import ENSEMBLE, ENSEMBLE_NAME, Candidate
from optensemble.stacking.out_of_fold import OutOfFold, gain_sums
from optensemble.stacking.stack import BlendSums
from optensemble.stats.blocks import UnitSums
from optensemble.stats.row_design import RowDesign

PLAYED = (AVERAGE, STACK, *CORRECTED)
"""Forecasts whose policies the calibrated choice may play, beside the members."""

EVALUATORS = (STACK, *CORRECTED)
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
        return self._mean_member(np.ascontiguousarray(self.decisions.forecast))

    def _mean_member(self, coefficients: Floats) -> Floats:
        """Return what the members that are present are worth on average."""
        outputs = self.outputs
        return mean_rows_present(outputs.payoffs(outputs.actions, [coefficients])[:, 0], outputs.absent)

    def beyond_members(self, labels: Floats) -> tuple[Floats, Floats]:
        """Return the assessed and the realised advantage over the mean member."""
        earned = self._mean_member(labels)
        assessed = self.decisions.assessed - self.members_assessed
        return assessed, self.outputs.omega.value(self.decisions.actions, labels) - earned


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
        return self.on_batch(outputs, self.forecaster(outputs), every=every)

    def on_batch(self, outputs: MemberOutputs, batch: ForecastBatch, *, every: bool = False) -> PolicyPass:
        """Decide for some rows, given their forecasts."""
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
        assessed = assess_arms(outputs, forecasts, arms, self.forecaster.scale)
        picked = self.choice(assessed, absent_arms(outputs, len(arms)))
        return play_arms(outputs, forecasts, arms, picked, self.forecasts)

    def _decide_by_winner(self, outputs: MemberOutputs, forecasts: Forecasts, played: Policies) -> Decisions:
        chosen, forecast = np.full(outputs.count, self.winner), forecasts[last_of(forecasts)]
        if self.winner < self.members:
            actions = follow_member(outputs, self.winner, forecast)
            if outputs.absent is not None:
                away, known = outputs.absent[self.winner], self.forecasts
                average = self.members + known.index(AVERAGE) if AVERAGE in known else 0
                instead = stand_in_numbers(outputs.absent, outputs.models, average, self.members + known.index(STACK))
                chosen[away] = instead[away]
        else:
            name = self.forecasts[self.winner - self.members]
            actions = played[name]
            if name in (RIDGE, MEAN):
                forecast = np.ascontiguousarray(forecasts[name])
        return Decisions(actions, chosen, outputs.omega.value(actions, forecast), forecast)

    def margin(self, models: int) -> float:
        """Return the margin by which the winner beat the ensemble; 0 for the ensemble itself."""
        if self.winner == ENSEMBLE:
            return 0.0
        return _POLICY_MARGIN if models <= self.winner < self.members else _MARGIN


def list_arms(outputs: MemberOutputs, played: Policies) -> list[Floats]:
    """Return the actions of all that the calibrated choice may play: members, then forecasts."""
    return [*outputs.actions, *(played[name] for name in PLAYED if name in played)]


def absent_arms(outputs: MemberOutputs, arms: int) -> Absent | None:
    """Return where arms cannot be played: where members are absent, and the average where all models are."""
    if outputs.absent is None:
        return None
    away = np.zeros((arms, outputs.count), dtype=np.bool_)
    away[: len(outputs.absent)] = outputs.absent
    if outputs.models:
        away[len(outputs.absent)] = outputs.absent[: outputs.models].all(axis=0)
    return away


def follow_member(outputs: MemberOutputs, member: int, forecast: Floats) -> Floats:
    """Return the actions of a member, or of who stands in for it; where nobody is present, those of a forecast."""
    actions: Floats = outputs.actions[member]
    if outputs.absent is None or not (alone := outputs.absent.all(axis=0)).any():
        return actions
    actions = actions.copy()
    actions[alone] = outputs.omega.take(alone).argmax(np.ascontiguousarray(forecast[alone]))
    return actions


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
    return Decisions(actions, np.array(numbers)[picked], outputs.omega.value(actions, forecast), forecast)


def last_of(forecasts: Collection[str]) -> str:
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
    """Return the same under a forecast with few different rows: each is solved once, if all rows share one set."""
    if omega.varies:
        return solve_forecast(omega, forecast)
    keys = row_dots(forecast, np.broadcast_to(np.sqrt(np.arange(2.0, 2.0 + forecast.shape[1])), forecast.shape).copy())
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(omega.argmax(forecast[first])[number])


def assess_arms(outputs: MemberOutputs, forecasts: Forecasts, arms: list[Floats], scale: Floats) -> Floats:
    """Return each evaluator's assessment of each arm, of shape (arms, evaluators, n)."""
    evaluators = [forecasts[name] for name in EVALUATORS if name in forecasts]
    if not outputs.models:  # what most policies do, and what is good on average, are evidence too
        evaluators += [outputs.mean_action * scale, np.ascontiguousarray(forecasts[MEAN])]
    return outputs.payoffs(arms, evaluators)


@dataclass(frozen=True)
class ChoicePass:
    """A pass that judges the last correction if it is ``pending``, and sums what the choice among policies needs."""

    design: RowDesign
    out_of_fold: OutOfFold
    pending: bool

    @property
    def outcomes(self) -> list[OutOfFold]:
        """The forecasts that may come of it: as they are, and without the last correction while that is pending."""
        return [self.out_of_fold, self.out_of_fold.without_last()] if self.pending else [self.out_of_fold]


@dataclass(frozen=True)
class ArmSums(Sums):
    """What the choice among policies is fitted from, for one outcome of the last correction's test.

    ``payoffs`` are of each arm beyond the mean arm; ``total`` is the sum of all arms' payoffs, and ``size`` that of the
    largest; ``own`` counts the rows of the forecast's own cells.
    """

    choice: ChoiceSums
    blend: BlendSums
    payoffs: UnitSums
    total: float
    own: Counts
    size: float = field(metadata=LARGEST)


@dataclass(frozen=True)
class ChoiceLook(Sums):
    """What the pass found: the gain of the last correction, and the sums of every outcome."""

    gain: UnitSums
    outcomes: tuple[ArmSums, ...] = field(metadata=EACH)


def look_at_choices(block: Block, state: ChoicePass) -> ChoiceLook:
    """Pass 4: what the last correction gained, and sums of what each policy is assessed at and earns."""
    found = []
    for chunk in block.chunks(state.design):
        cells = RowCells(chunk.outputs)
        steps = state.out_of_fold.corrected(chunk, state.out_of_fold.wide(chunk), cells)
        sums, shared = list[ArmSums](), Policies()  # outcomes differ in the last correction alone
        for outcome in state.outcomes:
            batch = outcome.batch(chunk, cells, list(steps), ridge=False)
            played = solve_policies(chunk.outputs.omega, replace(batch, solved=shared | batch.solved), PLAYED)
            sums.append(_arm_sums(chunk, batch, played, cells, outcome.linear.scale))
            shared = {name: played[name] for name in (AVERAGE, STACK) if name in played}
        found.append(ChoiceLook(gain_sums(chunk, state.out_of_fold, steps), tuple(sums)))
    return reduce(add, found)


def _arm_sums(chunk: Chunk, batch: ForecastBatch, played: Policies, cells: RowCells, scale: Floats) -> ArmSums:
    outputs, labels = chunk.outputs, chunk.labels
    arms = list_arms(outputs, played)
    assessed = assess_arms(outputs, batch.forecasts, arms, scale)
    realised = outputs.payoffs(arms, [labels])[:, 0]
    absent, weights = absent_arms(outputs, len(arms)), chunk.weights
    fitted = sum(name in batch.forecasts for name in EVALUATORS)
    apart, earned = beyond_mean(assessed[:, :fitted], absent), beyond_mean(realised, absent)
    return ArmSums(
        choice=ChoiceSums.of(assessed, realised, chunk.folds, absent, weights),
        blend=BlendSums.of(apart.transpose(1, 2, 0), earned.T, weights),
        payoffs=UnitSums.of(earned, chunk.units, weights),
        total=float(realised.sum()),
        own=cells.own_counts(weights),
        size=float(np.abs(realised).max(initial=0.0)),
    )


@dataclass(frozen=True)
class FoldChoices:
    """The choice among policies: from all rows, and for every fold from the others."""

    whole: Choice
    folds: tuple[Choice, ...]

    def __call__(self, assessed: Floats, folds: list[slice], absent: Absent | None = None) -> Indices:
        """Return for every row the arm to play by the choice of its fold."""
        picked = np.empty(assessed.shape[2], dtype=np.int64)
        for choice, fold in zip(self.folds, folds, strict=True):
            picked[fold] = choice(assessed[:, :, fold], None if absent is None else absent[:, fold])
        return picked


def learn_choices(found: ArmSums, models: int) -> FoldChoices:
    """Fit the choice on all rows, and for every fold on the others."""
    # dependent rows teach less than as many independent ones: the prior weighs more
    strength = float(np.mean(found.payoffs.design_effects)) * (1.0 if models else _NO_MODELS_STRENGTH)
    weights = found.blend.weights()
    prior = weights if models else np.concatenate([weights, np.zeros(2)])
    folds = tuple(found.choice.fit(prior, strength, fold) for fold in range(len(found.choice.rows)))
    return FoldChoices(found.choice.fit(prior, strength), folds)


@dataclass(frozen=True)
class Contest:
    """All candidates on some rows out of fold: the pass that plays the choices, and each candidate's payoffs.

    ``assessed`` and ``realised`` are of shape (candidates, n), the ensemble first, then members, then forecasts.
    """

    taken: PolicyPass
    assessed: Floats
    realised: Floats


def play_contest(chunk: Chunk, out_of_fold: OutOfFold, choices: FoldChoices, cells: RowCells) -> Contest:
    """Have every candidate decide for some rows by what the other folds teach."""
    outputs, labels = chunk.outputs, chunk.labels
    batch = out_of_fold.batch(chunk, cells)
    forecasts, played = batch.forecasts, solve_policies(outputs.omega, batch)
    arms, known, last = list_arms(outputs, played), known_forecasts(forecasts), forecasts[last_of(forecasts)]
    assessed = assess_arms(outputs, forecasts, arms, out_of_fold.linear.scale)
    picked = choices(assessed, chunk.folds, absent_arms(outputs, len(arms)))
    taken = play_arms(outputs, forecasts, arms, picked, known)
    members = [follow_member(outputs, member, last) for member in range(len(outputs.actions))]
    decided = [taken.actions, *members, *(played[name] for name in known)]
    by = [last] * (1 + len(outputs.actions)) + [forecasts[name] if name in (RIDGE, MEAN) else last for name in known]
    return Contest(
        PolicyPass(outputs, forecasts, played, taken),
        np.stack([outputs.omega.value(actions, forecast) for actions, forecast in zip(decided, by, strict=True)]),
        outputs.payoffs(decided, [labels])[:, 0],
    )


def known_forecasts(forecasts: Collection[str]) -> tuple[str, ...]:
    """Return the names of the forecasts there are, in order."""
    return tuple(name for name in FORECASTS if name in forecasts)


def list_candidates(
    names: list[str], outputs: MemberOutputs, known: tuple[str, ...], cross_fitted: Collection[str] = ()
) -> dict[int, Candidate]:
    """Return all candidates, each with the margin it needs to be preferred to the ensemble, which comes first.

    ``names`` are for display: of members, forecasts, and last of the ensemble. Of ``outputs``, only members matter.
    Those that are ``cross_fitted`` are so called: what they earned is what they earned out of fold.
    """
    candidates, members = {ENSEMBLE: Candidate(names[-1], "choice", np.inf)}, len(outputs.actions)
    for number in range(members):
        kind, margin = ("model", _MARGIN) if number < outputs.models else ("policy", _POLICY_MARGIN)
        kind = f"cross-fitted {kind}" if names[number] in cross_fitted else kind
        candidates[number] = Candidate(names[number], kind, margin)
    for number, name in enumerate(known, start=members):
        simple = name not in CORRECTED
        kind, margin = ("baseline", _MARGIN) if simple else ("forecast", np.inf)
        candidates[number] = Candidate(names[number], kind, margin)
    return candidates
