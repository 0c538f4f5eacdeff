"""Run one experiment: debias with both algorithms, follow every round on the rows debiased on and on fresh ones.

Here a row is what the members predict for it: a *table* has a column for each member and label.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optensemble import BlackBoxEnsemble, WhiteBoxEnsemble
from optensemble._exact import row_dots
from optensemble._types import Floats, Indices
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments.outcome import (
    AVERAGE,
    BEST,
    BLACK,
    FRESH,
    IN_SAMPLE,
    RIDGE,
    WHITE,
    Outcome,
    Settings,
    costs_frame,
    payoffs_frame,
)
from optensemble.experiments.setup import LABELS, Experiment, Model
from optensemble.feasible import FeasibleSet, Polytope, RiskBudget
from optensemble.history import Recorder, history_frame
from optensemble.situation import Situation

DEBIASING, LOOKING_BACK, LOOKING_AHEAD = "debiasing", "looking back", "fresh rows"

LOOKS = 250
"""How many times the rounds are looked at for curves and heatmaps."""

_POSITIONS = 200
"""How many rows a heatmap of rows has, at most."""

_LONG = 10_000
"""From so many rows on, rounds are slow enough to be told of one by one."""

Ensemble = WhiteBoxEnsemble | BlackBoxEnsemble
Tell = Callable[[str, float], None]
"""Takes a phase of the work, and what share of it is done."""


def run_experiment(experiment: Experiment, settings: Settings, tell: Tell = lambda phase, share: None) -> Outcome:
    """Debias, look back and ahead, and price every policy."""
    omega, names = experiment.feasible, [name for name, _ in experiment.models]
    rounds = settings.rounds_of(experiment.name)
    X, Y = _debiasing_rows(experiment, settings)
    fresh_X, fresh_Y = experiment.draw(settings.fresh_rows, settings.seed + 2)
    table, fresh = (np.hstack([model(rows) for _, model in experiment.models]) for rows in (X, fresh_X))
    costs: list[dict[str, Any]] = []
    policies = _simple_policies(omega, len(names), table, Y, costs)
    ensembles = make_ensembles(omega, names, settings, rounds)
    _fit(ensembles, table, Y, costs, tell)
    frames, curves, disagreement = [], {}, list[Floats]()
    for where, phase, rows, labels in (
        (IN_SAMPLE, LOOKING_BACK, table, Y),
        (FRESH, LOOKING_AHEAD, fresh, fresh_Y),
    ):
        entries: dict[str, list[Floats]] = {name: [] for name in ensembles}
        grid = looks(rounds)
        for number, situations in enumerate(walk(ensembles, rows, grid)):
            for name, situation in situations.items():
                entries[name].append(Recorder(situation, labels).entry(np.nan))
            if where == IN_SAMPLE:
                disagreement.append(_disagreement(situations[WHITE]))
            tell(phase, (number + 1) / len(grid))
        curves[where] = _curve(grid, entries, ensembles)
        answers = {name: policy(rows) for name, policy in policies.items()}
        answers |= {name: (_taken(end), end.taken(end.assessed)) for name, end in situations.items()}
        earned = {name: (promised, row_dots(actions, labels)) for name, (actions, promised) in answers.items()}
        frames.append(payoffs_frame(where, earned, row_dots(omega.argmax(labels), labels)))
    return Outcome(
        name=experiment.name,
        note=experiment.note,
        members=names,
        best=names[_best(omega, len(names), table, Y)],
        payoffs=pd.concat(frames, ignore_index=True),
        costs=costs_frame(costs),
        curves=curves,
        disagreement=np.array(disagreement),
    )


def compile_kernels(settings: Settings) -> float:
    """Run both algorithms once on next to nothing, so that seconds measured later are of work; return the seconds."""
    begun = time.perf_counter()
    rng, names = np.random.default_rng(0), ["first", "second"]
    table, Y = rng.normal(size=(50, len(names) * LABELS)), rng.normal(size=(50, LABELS))
    for omega in (RiskBudget(np.eye(LABELS), 0.5), Polytope(A_ub=[[1, 1, 0, 0]], b_ub=[0.5])):
        ensembles = make_ensembles(omega, names, settings, 5)
        _fit(ensembles, table, Y, [], lambda phase, share: None)
        for situations in walk(ensembles, table, looks(5)):
            for situation in situations.values():
                Recorder(situation, Y).entry(np.nan)
    return time.perf_counter() - begun


def make_ensembles(omega: FeasibleSet, names: list[str], settings: Settings, rounds: int) -> dict[str, Ensemble]:
    """Return both algorithms as the paper's experiments have them, for tables of predictions."""
    models = [(name, _member(number)) for number, name in enumerate(names)]
    policies = [(name, lambda table, model=model: omega.argmax(model(table))) for name, model in models]
    options: dict[str, Any] = {
        "alpha": settings.alpha,
        "bucket_width": settings.bucket_width,
        "schedule": "round-robin",
        "max_rounds": rounds,
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


def _fit(ensembles: dict[str, Ensemble], table: Floats, Y: Floats, costs: list[dict[str, Any]], tell: Tell) -> None:
    for number, (name, ensemble) in enumerate(ensembles.items()):
        begun, rounds = number / len(ensembles), ensemble.max_rounds or 1

        def after(made: int, violation: float, begun: float = begun, rounds: int = rounds) -> None:
            tell(DEBIASING, begun + made / rounds / len(ensembles))

        with _timed(costs, name) as cost, warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            ensemble.fit(table, Y, callback=after if len(Y) >= _LONG else None)
        models = len(ensemble.members_) if name == WHITE else 1
        every = models * ensemble.n_rows_ * ensemble.n_rounds_  # row-solves, if each round solves every row again
        cost |= {
            "rounds": ensemble.n_rounds_,
            "row_solves": ensemble.n_solves_,
            "avoided": max(every - ensemble.n_solves_, 0),
        }
        cost |= {"converged": ensemble.converged_, "stopped": ensemble.stopped_}
        tell(DEBIASING, begun + 1 / len(ensembles))


@contextmanager
def _timed(costs: list[dict[str, Any]], policy: str) -> Iterator[dict[str, Any]]:
    cost: dict[str, Any] = {"policy": policy}
    begun = time.perf_counter()
    yield cost
    cost["seconds"] = time.perf_counter() - begun
    costs.append(cost)


# What anyone would try first

Policy = Callable[[Floats], tuple[Floats, Floats]]
"""From a table to actions and the payoff they promise, per row."""


def _simple_policies(
    omega: FeasibleSet, members: int, table: Floats, Y: Floats, costs: list[dict[str, Any]]
) -> dict[str, Policy]:
    """Return the best member, the average and ridge stacking; what is to be learned is learned on these rows."""
    with _timed(costs, BEST) as cost:
        best = _member(_best(omega, members, table, Y))
    cost["row_solves"] = members * len(Y)
    with _timed(costs, RIDGE):
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(table, Y)

    def optimise(predict: Model) -> Policy:
        def policy(table: Floats) -> tuple[Floats, Floats]:
            predictions = np.ascontiguousarray(predict(table))
            actions = omega.argmax(predictions)
            return actions, row_dots(actions, predictions)

        return policy

    return {
        BEST: optimise(best),
        AVERAGE: optimise(lambda table: table.reshape(len(table), members, LABELS).mean(axis=1)),
        RIDGE: optimise(ridge.predict),
    }


def _member(number: int) -> Model:
    """Return the model whose predictions stand in the table."""
    return lambda table: table[:, number * LABELS : (number + 1) * LABELS]


def _best(omega: FeasibleSet, members: int, table: Floats, Y: Floats) -> int:
    """Return which member's own policy earns the most."""
    return int(np.argmax([row_dots(omega.argmax(_member(i)(table)), Y).mean() for i in range(members)]))


# What is seen at a look


def _taken(situation: Situation) -> Floats:
    actions: Floats = situation.taken(situation.actions)
    return actions


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
