"""Ensembles whose set and members count, and the solves that an answer may take."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble import feasible
from optensemble.stacking.arms import ENSEMBLE, PLAYED
from optensemble.stacking.forecaster import MEAN, PATCHED
from tests.counting import CountingMember, CountingSet
from tests.problems import Floats

D, FITTED, NEW = 3, 500, 120
LABELS = [f"y_{j}" for j in range(D)]


@cache
def rows() -> pd.DataFrame:
    """Two models and a planner that know nothing of regions; in the north the first price is lower."""
    rng = np.random.default_rng(0)
    n = FITTED + NEW
    signal = rng.normal(size=(n, D))
    said = signal + 0.5 * rng.normal(size=(3, n, D))
    region = rng.choice(["north", "south"], size=n)
    labels = signal + 0.5 * rng.normal(size=(n, D)) - np.outer(region == "north", np.eye(D)[0])
    planned = np.eye(D)[said[2].argmax(axis=1)]
    columns = {"a": said[0], "b": said[1], "plan": planned, "y": labels}
    table = pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(D)})
    return table.assign(region=region)


def fitting() -> tuple[pd.DataFrame, Floats]:
    return rows()[:FITTED], rows()[LABELS].to_numpy()[:FITTED]


def later() -> tuple[pd.DataFrame, Floats]:
    return rows()[FITTED:].reset_index(drop=True), rows()[LABELS].to_numpy()[FITTED:]


def member(name: str) -> tuple[str, CountingMember]:
    columns = [f"{name}_{j}" for j in range(D)]
    return name, CountingMember(lambda X: X[columns].to_numpy(), tuple(columns))


def decision(subgroups: str | None = None, policies: bool = True, sense: str = "max") -> oe.DecisionEnsemble:
    """An ensemble of members that count, over a set that counts; with subgroups its patch is kept."""
    given = [member("plan")] if policies else None
    omega = CountingSet(feasible.Simplex(D))
    ensemble = oe.DecisionEnsemble([member("a"), member("b")], given, omega, sense, subgroups).fit(*fitting())
    assert (PATCHED in ensemble.decider_.forecasts) == (subgroups is not None)
    return ensemble


def paper(kind: Any, **parameters: Any) -> Any:
    """A white box of the two models, or a black box of the planner."""
    given = [member("a"), member("b")] if kind is oe.WhiteBoxEnsemble else [member("plan")]
    options = {"max_rounds": 3, "bucket_width": 0.5, "alpha": 0.01, **parameters}
    return kind(given, CountingSet(feasible.Simplex(D)), **options).fit(*fitting())


def won_by(winner: int | str, ensemble: oe.DecisionEnsemble) -> oe.DecisionEnsemble:
    """The same ensemble, had another candidate won: by its number, or a forecast by its name."""
    other, policy = copy.copy(ensemble), ensemble.decider_
    number = policy.members + policy.forecasts.index(winner) if isinstance(winner, str) else winner
    other.decider_ = replace(policy, winner=number)
    return other


class Tally:
    """What is solved and asked while it is looked at: batches of rows, and times per member."""

    def __init__(self, ensemble: Any) -> None:
        self._ensemble, self._set = ensemble, ensemble.feasible
        self.clear()

    def clear(self) -> None:
        self._set.solved.clear()
        self._set.bound.clear()
        for _, each in self._ensemble.members_:
            each.asked.clear()

    @property
    def solved(self) -> Counter[int]:
        """How many batches of each number of rows were solved."""
        return Counter(self._set.solved)

    @property
    def rows(self) -> int:
        return sum(self._set.solved)

    @property
    def asked(self) -> list[int]:
        return [each.times for _, each in self._ensemble.members_]

    @property
    def bound(self) -> int:
        return len(self._set.bound)


def patch_rounds(ensemble: oe.DecisionEnsemble) -> int:
    log = ensemble.decider_.forecaster.patch
    return 0 if log is None else len(log.rounds)


def policies_to_solve(ensemble: oe.DecisionEnsemble, *, every: bool) -> Counter[int]:
    """The batches of a pass, but for the rounds of the patch: models, and each forecast needed, the mean as one row.

    A patch has its forecast solved before its first round, needed or not, and solves itself round by round.
    """
    policy = ensemble.decider_
    needed = list(policy.forecasts)
    if not every and policy.winner == ENSEMBLE:
        needed = [name for name in PLAYED if name in policy.forecasts]
    elif not every:
        needed = [] if policy.winner < policy.members else [policy.forecasts[policy.winner - policy.members]]
    solved = {name for name in needed if name != PATCHED}
    if PATCHED in policy.forecasts:
        solved.add([name for name in PLAYED if name in policy.forecasts and name != PATCHED][-1])
    return Counter({NEW: ensemble.n_models_ + len(solved - {MEAN}), 1: int(MEAN in solved)})
