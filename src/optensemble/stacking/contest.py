"""The choice among policies and the contest of all candidates, out of fold: two passes over the fitting rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import EACH, LARGEST, Sums
from optensemble.members.absence import Absent
from optensemble.members.blocks import Block, Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import Choice, ChoiceSums, beyond_mean
from optensemble.stacking.arms import (
    ENSEMBLE,
    EVALUATORS,
    PLAYED,
    absent_arms,
    assess_arms,
    follow_member,
    last_of,
    list_arms,
    play_arms,
    solve_policies,
)
from optensemble.stacking.cells import Counts, RowCells
from optensemble.stacking.final_policy import MARGIN, POLICY_MARGIN, PolicyPass
from optensemble.stacking.forecaster import AVERAGE, CORRECTED, FORECASTS, MEAN, RIDGE, STACK, ForecastBatch, Policies
from optensemble.stacking.leaderboard import Candidate
from optensemble.stacking.out_of_fold import OutOfFold, gain_sums
from optensemble.stacking.stack import BlendSums
from optensemble.stats.blocks import UnitSums
from optensemble.stats.row_design import RowDesign

_NO_MODELS_STRENGTH = 0.5


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
        kind, margin = ("model", MARGIN) if number < outputs.models else ("policy", POLICY_MARGIN)
        kind = f"cross-fitted {kind}" if names[number] in cross_fitted else kind
        candidates[number] = Candidate(names[number], kind, margin)
    for number, name in enumerate(known, start=members):
        simple = name not in CORRECTED
        kind, margin = ("baseline", MARGIN) if simple else ("forecast", np.inf)
        candidates[number] = Candidate(names[number], kind, margin)
    return candidates
