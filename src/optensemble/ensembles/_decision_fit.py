"""The fit of a DecisionEnsemble: functions of the rows; the estimator keeps what they return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import row_dots
from optensemble._core.number_format import format_by_error
from optensemble._core.progress import Progress, Stage
from optensemble._core.threads import one_blas_thread
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.lemmas_out_of_fold import audited_cells, verify
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.promise import Promise
from optensemble.members.fit_data import FitData
from optensemble.stacking.final_policy import FinalPolicy, PolicyFit, PolicyPass, last_of, learn_policy, title_all
from optensemble.stacking.forecaster import FORECASTS, PATCHED, REFINED, ForecastFit, learn_forecasts
from optensemble.stacking.leaderboard import ENSEMBLE_NAME, Competition, Standing, winner_bias
from optensemble.stats.folds import fold_numbers

STALE = 0.4
"""New rows, as a share of those fitted on, after which a fit in time order is due again."""

_BROKEN = 2.0  # half-widths: an honest promise is missed by more in one batch of ten thousand


class FitOptions(TypedDict, total=False):
    """Options that a fit and an extension share; see :meth:`~optensemble.DecisionEnsemble.fit`."""

    random_state: int | None
    n_jobs: int | None
    progress: Progress | None


@dataclass(frozen=True)
class DecisionFit:
    """Everything that a fit of a DecisionEnsemble learns.

    Attributes
    ----------
    policy
        What decides.
    names
        The candidates that may be followed: members, then forecasts.
    winner
        The name of what decides.
    standings
        The leaderboard, the best first.
    left_out
        The forecasts that were not kept, and why.
    notes
        What was left out, in words.
    finding
        Whether anything beats deciding by the mean label, in words.
    guarantees
        The lemmas, measured out of fold.
    record, advantage
        The out-of-fold record of payoffs, and of the advantage over the mean member.
    """

    policy: FinalPolicy
    names: list[str]
    winner: str
    standings: list[Standing]
    left_out: dict[str, str]
    notes: list[str]
    finding: str
    guarantees: pd.DataFrame
    record: Record
    advantage: Record


def learn_decision(members: list[str], data: FitData, threads: int, progress: Progress) -> DecisionFit:
    """Learn to decide from rows that members were not trained on."""
    titles = title_all(members)
    with one_blas_thread():
        forecasts = learn_forecasts(data, threads, progress)
        known = forecasts.out_of_fold.forecasts
        names = [*members, *(titles[name] for name in FORECASTS if name in known)]
        fit = learn_policy([*names, titles[ENSEMBLE_NAME]], data, forecasts, progress)
        with Stage(progress, "verifying", 1):
            return _conclude(names, titles, data, forecasts, fit)


def _conclude(
    names: list[str], titles: dict[str, str], data: FitData, forecasts: ForecastFit, fit: PolicyFit
) -> DecisionFit:
    """Return who won, what may be promised, and the evidence for both."""
    labels, outputs, candidates, policy = data.labels, data.outputs, fit.candidates, fit.policy
    competition = Competition(candidates, policy.winner, data.sampling, outputs.sign)
    left_out = {titles[name]: why for name, why in forecasts.left_out.items()}
    constant = outputs.omega.argmax(labels.mean(axis=0, keepdims=True))[0]
    own = policy.members + policy.forecasts.index(last_of(forecasts.out_of_fold.forecasts))
    record, advantage = _records(data, fit)
    return DecisionFit(
        policy=policy,
        names=names,
        winner=candidates[policy.winner].name,
        standings=competition.standings(fit.followed),
        left_out=left_out,
        notes=[*(f"{name} was left out: {why}" for name, why in left_out.items()), *forecasts.patch.notes],
        finding=competition.finding(labels @ constant),
        guarantees=verify(forecasts, candidates[own], [candidates[m] for m in range(policy.members)], data),
        record=record,
        advantage=advantage,
    )


def _records(data: FitData, fit: PolicyFit) -> tuple[Record, Record]:
    sign, sampling, decisions = data.outputs.sign, data.sampling, fit.out_of_fold.decisions
    record = Record(
        assessed=sign * decisions.assessed,
        realised=sign * row_dots(decisions.actions, data.labels),
        sign=sign,
        time_ordered=sampling.time_ordered,
        clusters=sampling.clusters,
        curse=winner_bias(fit.candidates, sampling, data.random_state),
        folds=fold_numbers(data.folds),
    )
    assessed, realised = fit.out_of_fold.beyond_members(data.labels)
    return record, replace(record, assessed=sign * assessed, realised=sign * realised)


def audit_inputs(
    done: PolicyPass,
    policy: FinalPolicy,
    labels: Floats,
    *,
    promised: Floats,
    interval: Promise,
    names: tuple[list[str], list[str]],
) -> AuditInputs:
    """Return what an audit looks at: the pass, with ``names`` of all candidates and of the members among them."""
    outputs, sign = done.outputs, done.outputs.sign
    arms = [*outputs.actions, *(done.played[name] for name in policy.forecasts)]
    earned = [sign * row_dots(actions, labels) for actions in arms]
    # baselines are what anyone would try, not the ensemble's own parts
    elaborate = {policy.members + policy.forecasts.index(name) for name in (REFINED, PATCHED) if name in done.played}
    return AuditInputs(
        promised=promised,
        realised=sign * row_dots(done.decisions.actions, labels),
        interval=interval,
        names=list(names[0]),
        chosen=done.decisions.chosen,
        arms=np.stack(earned),
        rivals={name: earned[at] for at, name in enumerate(names[0]) if at not in elaborate},
        residuals=sign * (labels - done.decisions.forecast),
        partitions=audited_cells(done, *names),
        sign=sign,
    )


def why_broken(promised: Promise, realised: float) -> str:
    """Return by how far rows that came to ``realised`` on average missed their promise; nothing if not by far."""
    if abs(realised - promised.mean) <= _BROKEN * (promised.high - promised.mean):
        return ""
    shown = format_by_error([realised, promised.low, promised.high, promised.high - promised.mean])
    return f"{promised.rows:,} rows came to {shown[0]} on average, far from the promised {shown[1]} to {shown[2]}"
