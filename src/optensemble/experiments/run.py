"""Run one experiment: debias with both algorithms, follow every round on the rows debiased on and on fresh ones.

Beside them stand policies that take no rounds, DecisionEnsemble among them.

Here a row is what the members predict for it: a *table* has a column for each member and label.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from optensemble import BlackBoxEnsemble, WhiteBoxEnsemble
from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments.outcome import (
    BLACK,
    FRESH,
    HONEST,
    IN_SAMPLE,
    UNCORRECTED,
    WHITE,
    Outcome,
    costs_frame,
    payoffs_frame,
)
from optensemble.experiments.policies import Reply, ask_honest, fit_honest, judge, member, simple_policies
from optensemble.experiments.settings import Settings
from optensemble.experiments.setup import LABELS, Experiment
from optensemble.feasible import FeasibleSet, Polytope, RiskBudget
from optensemble.multicalibration.history import Recorder, history_frame
from optensemble.multicalibration.state import Situation
from optensemble.stats.sample_size import MINIMUM_ROWS

DEBIASING, LOOKING_BACK, LOOKING_AHEAD, JUDGING = "debiasing", "looking back", "fresh rows", "audit"

LOOKS = 250
"""How many times the rounds are looked at for curves and heatmaps."""

_POSITIONS = 200
"""How many rows a heatmap of rows has, at most."""

_LONG = 10_000
"""From so many rows on, rounds are slow enough to be told of one by one."""

Ensemble = WhiteBoxEnsemble | BlackBoxEnsemble
TellPhase = Callable[[str, float], None]
"""Takes a phase of the work, and what share of it is done."""


def run_experiment(experiment: Experiment, settings: Settings, tell: TellPhase = lambda phase, share: None) -> Outcome:
    """Debias, look back and ahead, and price every policy."""
    omega, names = experiment.feasible, [name for name, _ in experiment.models]
    rounds = settings.rounds_of(experiment.name)
    X, Y = _debiasing_rows(experiment, settings)
    fresh_X, fresh_Y = experiment.draw(settings.fresh_rows, settings.seed + 2)
    table, fresh = (np.hstack([model(rows) for _, model in experiment.models]) for rows in (X, fresh_X))
    costs: list[dict[str, Any]] = []
    best, policies = simple_policies(omega, len(names), table, Y, costs)
    ensembles = make_ensembles(omega, names, settings, rounds)
    _fit(ensembles, table, Y, costs, tell)
    honest = fit_honest(omega, names, table, Y, costs)
    frames, curves = [], {}
    for where, phase, rows, labels in (
        (IN_SAMPLE, LOOKING_BACK, table, Y),
        (FRESH, LOOKING_AHEAD, fresh, fresh_Y),
    ):
        replies = {name: policy(rows) for name, policy in policies.items()}
        curves[where] = _follow(ensembles, rows, labels, rounds, replies, partial(tell, phase))
        replies[HONEST] = ask_honest(honest, rows)
        foresight = row_dots(omega.argmax(labels), labels)
        priced = {name: (promised, row_dots(actions, labels)) for name, (actions, promised) in replies.items()}
        frames.append(payoffs_frame(where, priced, foresight))
    tell(JUDGING, 0)
    earned = {name: realised for name, (_, realised) in priced.items()}  # on the fresh rows, which came last
    judgement = judge(honest, fresh, fresh_Y, earned, foresight)
    tell(JUDGING, 1)
    return Outcome(
        name=experiment.name,
        note=experiment.note,
        members=names,
        best=names[best],
        payoffs=pd.concat(frames, ignore_index=True),
        costs=costs_frame(costs),
        curves=curves,
        disagreement=np.array(
            [_disagreement(look) for look in ensembles[WHITE].retrace(table, looks(rounds).tolist())]
        ),
        judgement=judgement,
    )


def compile_kernels(settings: Settings) -> float:
    """Fit everything once on next to nothing, so that seconds measured later are of work; return the seconds."""
    begun = time.perf_counter()
    rng, names = np.random.default_rng(0), ["first", "second"]
    table, Y = (rng.normal(size=(MINIMUM_ROWS, width)) for width in (len(names) * LABELS, LABELS))
    for omega in (RiskBudget(np.eye(LABELS), 0.5), Polytope(A_ub=[[1, 1, 0, 0]], b_ub=[0.5])):
        ensembles = make_ensembles(omega, names, settings, 5)
        _fit(ensembles, table, Y, [], lambda phase, share: None)
        fit_honest(omega, names, table, Y, [])
        for situations in walk(ensembles, table, looks(5)):
            for situation in situations.values():
                Recorder(situation, Y).entry()
    return time.perf_counter() - begun


def make_ensembles(omega: FeasibleSet, names: list[str], settings: Settings, rounds: int) -> dict[str, Ensemble]:
    """Return both algorithms as the paper's experiments have them, for tables of predictions."""
    models = [(name, member(number)) for number, name in enumerate(names)]
    policies = [(name, lambda table, model=model: omega.argmax(model(table))) for name, model in models]
    options: dict[str, Any] = {
        "alpha": settings.alpha,
        "bucket_width": settings.bucket_width,
        "schedule": "round-robin",
        "max_rounds": rounds,
        "validation": None,
    }
    return {WHITE: WhiteBoxEnsemble(models, omega, **options), BLACK: BlackBoxEnsemble(policies, omega, **options)}


def looks(rounds: int) -> Indices:
    """Return after how many rounds to look: from none to all, evenly."""
    return np.unique(np.linspace(0, rounds, LOOKS + 1).round().astype(np.int64))


def walk(ensembles: dict[str, Ensemble], table: Floats, grid: Indices) -> Iterator[dict[str, Situation]]:
    """Replay all ensembles side by side, and show where they are at every look."""
    walks = (ensemble.retrace(table, grid.tolist()) for ensemble in ensembles.values())
    for situations in zip(*walks, strict=True):
        yield dict(zip(ensembles, situations, strict=True))


def _debiasing_rows(experiment: Experiment, settings: Settings) -> tuple[Floats, Floats]:
    if settings.debias_on == "train":
        X, Y = experiment.training
        return X[: settings.rows], Y[: settings.rows]
    return experiment.draw(settings.rows, settings.seed + 1)


def _fit(
    ensembles: dict[str, Ensemble], table: Floats, Y: Floats, costs: list[dict[str, Any]], tell: TellPhase
) -> None:
    for number, (name, ensemble) in enumerate(ensembles.items()):
        begun, rounds = number / len(ensembles), ensemble.max_rounds or 1

        def after(made: int, violation: float, begun: float = begun, rounds: int = rounds) -> None:
            tell(DEBIASING, begun + made / rounds / len(ensembles))

        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            ensemble.fit(table, Y, callback=after if len(Y) >= _LONG else None)
        seconds = time.perf_counter() - start
        models = len(ensemble.members_) if name == WHITE else 1
        every = models * ensemble.n_rows_ * ensemble.n_rounds_  # row-solves, if each round solves every row again
        costs.append(
            {
                "policy": name,
                "rounds": ensemble.n_rounds_,
                "row_solves": ensemble.n_solves_,
                "avoided": max(every - ensemble.n_solves_, 0),
                "seconds": seconds,
                "converged": ensemble.converged_,
                "worst_violation": ensemble.worst_violation_,
                "stopped": ensemble.stopped_,
            }
        )
        tell(DEBIASING, begun + 1 / len(ensembles))


def _follow(
    ensembles: dict[str, Ensemble],
    rows: Floats,
    labels: Floats,
    rounds: int,
    replies: dict[str, Reply],
    tell: Callable[[float], None],
) -> pd.DataFrame:
    """Go through the rounds; return curves, and add what ensembles reply before and after them."""
    grid, entries = looks(rounds), {name: list[Floats]() for name in ensembles}
    for number, situations in enumerate(walk(ensembles, rows, grid)):
        if number == 0:
            replies[UNCORRECTED] = _reply(situations[WHITE])
        for name, situation in situations.items():
            entries[name].append(Recorder(situation, labels).entry())
        tell((number + 1) / len(grid))
    replies |= {name: _reply(situation) for name, situation in situations.items()}
    return _curve(grid, entries, ensembles)


def _reply(situation: Situation) -> Reply:
    return situation.taken(situation.actions), situation.taken(situation.assessed)


# What is seen at a look


def _disagreement(situation: Situation) -> Floats:
    """Return the variance between members in each coordinate of the action, averaged over coordinates; rows sorted."""
    rows = np.sort(situation.actions.var(axis=0).mean(axis=1))
    shown = np.linspace(0, len(rows) - 1, min(len(rows), _POSITIONS)).round().astype(np.int64)
    return np.round(rows[shown], 6)  # more than a picture shows, and short in a file


def _curve(grid: Indices, entries: dict[str, list[Floats]], ensembles: dict[str, Ensemble]) -> pd.DataFrame:
    columns: dict[str, Any] = {"round": grid}
    for name, ensemble in ensembles.items():
        members = ensemble.names_ if name == WHITE else ensemble.names_[-1:]
        history = history_frame(entries[name], ensemble.names_, members).reset_index(drop=True)
        columns |= {f"{name}, {what}": history[what] for what in ("promised", "realised")}
        if name == WHITE:
            rows = history[[f"chosen_{member}" for member in members]].sum(axis=1)
            columns |= {f"{member}, realised": history[f"realised_{member}"] for member in members}
            columns |= {f"{member}, chosen": history[f"chosen_{member}"] / rows for member in members}
    return pd.DataFrame(columns)
