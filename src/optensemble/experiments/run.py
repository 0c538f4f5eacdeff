"""One experiment: debiasing with both algorithms, replayed in sample and on fresh rows, beside policies without rounds.

Rows here are the members' predictions: a *table* has a column for each member and label.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from optensemble import BlackBoxEnsemble, WhiteBoxEnsemble
from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments.outcome import (
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FRESH,
    IN_SAMPLE,
    UNCORRECTED,
    WHITE_BOX_ENSEMBLE,
    Outcome,
    PolicyCost,
    PolicyPayoff,
    policy_payoffs,
)
from optensemble.experiments.policies import (
    Reply,
    audit_decision,
    decision_reply,
    fit_decision_ensemble,
    member_of_table,
    simple_policies,
)
from optensemble.experiments.settings import Settings
from optensemble.experiments.setup import LABELS, Experiment
from optensemble.feasible import FeasibleSet, Polytope, RiskBudget
from optensemble.multicalibration.corrections import trace
from optensemble.multicalibration.state import Situation
from optensemble.stats.sample_size import MINIMUM_ROWS

DEBIASING, REPLAY_IN_SAMPLE, REPLAY_FRESH, AUDIT = "debiasing", "replay in sample", "replay on fresh rows", "audit"

RECORDED_ROUNDS = 250
"""The number of rounds recorded for curves and heatmaps."""

_HEATMAP_ROWS = 200
"""The largest number of rows in a heatmap of rows."""

_ROWS_FOR_CALLBACK = 10_000
"""With fewer rows, rounds are so fast that reporting each of them would slow debiasing down."""

DebiasedEnsemble = WhiteBoxEnsemble | BlackBoxEnsemble
TellPhase = Callable[[str, float], None]
"""Takes a phase of the work, and the share of it that is done."""


def run_experiment(experiment: Experiment, settings: Settings, tell: TellPhase = lambda phase, share: None) -> Outcome:
    """Debias, replay the rounds, and evaluate every policy in sample and on fresh rows."""
    omega, names = experiment.feasible, [name for name, _ in experiment.models]
    rounds = settings.rounds_of(experiment.name)
    X, Y = _debiasing_rows(experiment, settings)
    fresh_X, fresh_Y = experiment.draw(settings.fresh_rows, settings.seed + 2)
    table, fresh = (np.hstack([model(rows) for _, model in experiment.models]) for rows in (X, fresh_X))
    costs: list[PolicyCost] = []
    best, policies = simple_policies(omega, len(names), table, Y, costs)
    ensembles = make_ensembles(omega, names, settings, rounds)
    _fit_ensembles(ensembles, table, Y, costs, tell)
    decision = fit_decision_ensemble(omega, names, table, Y, costs)
    payoffs, curves = list[PolicyPayoff](), {}
    for where, phase, rows, labels in (
        (IN_SAMPLE, REPLAY_IN_SAMPLE, table, Y),
        (FRESH, REPLAY_FRESH, fresh, fresh_Y),
    ):
        replies = {name: policy(rows) for name, policy in policies.items()}
        curves[where] = _record_curves(ensembles, rows, labels, rounds, replies, partial(tell, phase))
        replies[DECISION_ENSEMBLE] = decision_reply(decision, rows)
        foresight = omega.value(omega.argmax(labels), labels)
        answers = {name: (promised, omega.value(actions, labels)) for name, (actions, promised) in replies.items()}
        payoffs += policy_payoffs(where, answers, foresight)
    tell(AUDIT, 0)
    realised = {name: payoff for name, (_, payoff) in answers.items()}  # on the fresh rows, which came last
    audit = audit_decision(decision, fresh, fresh_Y, realised, foresight)
    tell(AUDIT, 1)
    white_box, grid = ensembles[WHITE_BOX_ENSEMBLE], recorded_rounds(rounds).tolist()
    return Outcome(
        name=experiment.name,
        note=experiment.note,
        members=names,
        best=names[best],
        payoffs=tuple(payoffs),
        costs=tuple(costs),
        curves=curves,
        disagreement=np.array([_disagreement(state) for state in white_box.retrace(table, grid)]),
        audit=audit,
    )


def compile_kernels(settings: Settings) -> float:
    """Fit everything once on a few rows, so that times measured later exclude compilation; return the seconds."""
    begun = time.perf_counter()
    rng, names = np.random.default_rng(0), ["first", "second"]
    table, Y = (rng.normal(size=(MINIMUM_ROWS, width)) for width in (len(names) * LABELS, LABELS))
    for omega in (RiskBudget(np.eye(LABELS), 0.5), Polytope(A_ub=[[1, 1, 0, 0]], b_ub=[0.5])):
        ensembles = make_ensembles(omega, names, settings, 5)
        _fit_ensembles(ensembles, table, Y, [], lambda phase, share: None)
        fit_decision_ensemble(omega, names, table, Y, [])
        for ensemble in ensembles.values():
            trace(next(ensemble.retrace(table, [0])), ensemble.log_, [0, 5], Y)
    return time.perf_counter() - begun


def make_ensembles(
    omega: FeasibleSet, names: list[str], settings: Settings, rounds: int, schedule: str = "round-robin"
) -> dict[str, DebiasedEnsemble]:
    """Return both algorithms for tables of predictions, with the settings and the schedule of the paper's experiments.

    Another ``schedule`` makes the same corrections in another order.
    """
    models = [(name, member_of_table(number)) for number, name in enumerate(names)]
    policies = [(name, lambda table, model=model: omega.argmax(model(table))) for name, model in models]
    options: dict[str, Any] = {
        "alpha": settings.alpha,
        "bucket_width": settings.bucket_width,
        "schedule": schedule,
        "max_rounds": rounds,
        "validation": None,
    }
    return {
        WHITE_BOX_ENSEMBLE: WhiteBoxEnsemble(models, omega, **options),
        BLACK_BOX_ENSEMBLE: BlackBoxEnsemble(policies, omega, **options),
    }


def recorded_rounds(rounds: int) -> Indices:
    """Return the rounds to record: evenly spaced, from none to all."""
    return np.unique(np.linspace(0, rounds, RECORDED_ROUNDS + 1).round().astype(np.int64))


def _debiasing_rows(experiment: Experiment, settings: Settings) -> tuple[Floats, Floats]:
    if settings.debias_on == "train":
        X, Y = experiment.training
        return X[: settings.rows], Y[: settings.rows]
    return experiment.draw(settings.rows, settings.seed + 1)


def _fit_ensembles(
    ensembles: dict[str, DebiasedEnsemble], table: Floats, Y: Floats, costs: list[PolicyCost], tell: TellPhase
) -> None:
    """Fit the ensembles, and append their costs."""
    for number, (name, ensemble) in enumerate(ensembles.items()):

        def told(share: float, number: int = number) -> None:
            tell(DEBIASING, (number + share) / len(ensembles))

        costs.append(fit_ensemble(name, ensemble, table, Y, told))


def fit_ensemble(
    name: str, ensemble: DebiasedEnsemble, table: Floats, Y: Floats, tell: Callable[[float], None]
) -> PolicyCost:
    """Fit one of the paper's ensembles, and return its cost; ``tell`` is called with the share of rounds made."""
    rounds, start = ensemble.max_rounds or 1, time.perf_counter()

    def after(made: int, violation: float) -> None:
        tell(made / rounds)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        ensemble.fit(table, Y, callback=after if len(Y) >= _ROWS_FOR_CALLBACK else None)
    seconds = time.perf_counter() - start
    models = len(ensemble.members_) if name == WHITE_BOX_ENSEMBLE else 1
    every = models * ensemble.n_rows_ * ensemble.n_rounds_  # row-solves, if each round solves every row again
    tell(1.0)
    return PolicyCost(
        policy=name,
        rounds=ensemble.n_rounds_,
        row_solves=ensemble.n_solves_,
        avoided=max(every - ensemble.n_solves_, 0),
        seconds=seconds,
        converged=ensemble.converged_,
        worst_violation=ensemble.worst_violation_,
        stopped=ensemble.stopped_,
    )


def _record_curves(
    ensembles: dict[str, DebiasedEnsemble],
    rows: Floats,
    labels: Floats,
    rounds: int,
    replies: dict[str, Reply],
    tell: Callable[[float], None],
) -> pd.DataFrame:
    """Return the curves over rounds, and add to ``replies`` those of the ensembles before and after all rounds."""
    grid, curves = recorded_rounds(rounds), {"round": recorded_rounds(rounds)}
    members = dict[str, Any]()
    for number, (name, ensemble) in enumerate(ensembles.items()):

        def told(share: float, number: int = number) -> None:
            tell((number + share) / len(ensembles))

        situation = next(ensemble.retrace(rows, [0]))
        if name == WHITE_BOX_ENSEMBLE:
            replies[UNCORRECTED] = _ensemble_reply(situation)
        promised, realised, *seen = trace(situation, ensemble.log_, grid.tolist(), labels, told).T
        replies[name] = _ensemble_reply(situation)
        curves |= {f"{name}, promised": promised, f"{name}, realised": realised}
        if name == WHITE_BOX_ENSEMBLE:
            members |= {f"{member}, realised": each for member, each in zip(ensemble.names_, seen[1::3], strict=True)}
            members |= {f"{member}, chosen": each for member, each in zip(ensemble.names_, seen[2::3], strict=True)}
    return pd.DataFrame(curves | members)


def _ensemble_reply(situation: Situation) -> Reply:
    return situation.taken(situation.actions), situation.taken(situation.assessed)


# What is recorded of a round


def _disagreement(situation: Situation) -> Floats:
    """Return the variance between the members' actions, averaged over coordinates, of rows in sorted order."""
    rows = np.sort(situation.actions.var(axis=0).mean(axis=1))
    shown = np.linspace(0, len(rows) - 1, min(len(rows), _HEATMAP_ROWS)).round().astype(np.int64)
    return np.round(rows[shown], 6)  # more digits than a figure shows, and few in a file
