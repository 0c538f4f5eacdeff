"""Decision ensembles on small random problems, fitted once and shared."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError, OptEnsembleError
from tests.problems import Floats, Problem, random_problem

Ensemble = oe.DecisionEnsemble
N, D = 400, 3
ACCESS = pytest.mark.parametrize("access", ["models", "policies", "both"])
SENSES = pytest.mark.parametrize("sense", ["max", "min"])


@cache
def problem(omega: str = "simplex", n: int = 2 * N, seed: int = 0) -> Problem:
    return random_problem(seed, n=n, omega=omega)


def make(access: str = "models", given: Problem | None = None, **parameters: Any) -> Ensemble:
    """An ensemble of the members of a problem; of both, the first two are models and the last is a policy."""
    given = given or problem()
    models, policies = given.models, given.policies
    members = {"models": (models, None), "policies": (None, policies), "both": (models[:2], policies[2:])}[access]
    return Ensemble(*members, feasible=given.omega, **parameters)


OLD, NEW = slice(0, N), slice(N, 2 * N)


@cache
def fitted(access: str = "models", omega: str = "simplex", sense: str = "max", time_ordered: bool = False) -> Ensemble:
    """Fitted on the first rows. Shared: copy it before changing it."""
    given = problem(omega)
    ensemble = make(access, given, sense=sense)
    return ensemble.fit(given.X[OLD], given.Y[OLD], time_ordered=time_ordered)


def answers(ensemble: Ensemble, X: Any) -> list[Any]:
    answer = ensemble.answer(X)
    return [answer.actions, answer.promised, answer.chosen, answer.predictions]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


def forecasts(ensemble: Ensemble, X: Any) -> dict[str, Floats]:
    return ensemble.decider_.forecaster(ensemble._query()(X)).forecasts


def member_actions(access: str, sense: str, m: int, rows: slice = OLD) -> Floats:
    given, models = problem(), {"models": 3, "policies": 0, "both": 2}[access]
    sign = -1.0 if sense == "min" and m < models else 1.0
    return given.omega.argmax(sign * given.P[m][rows])


def grouped_frame() -> tuple[pd.DataFrame, Floats, list[tuple[str, Any]]]:
    given = problem()
    frame = pd.DataFrame({"row": given.X[OLD], "day": [f"day {i // 7}" for i in range(N)]})
    models = [(name, lambda X, m=model: m(X["row"].to_numpy())) for name, model in given.models]
    return frame, given.Y[OLD], models


def state(ensemble: Ensemble) -> list[Any]:
    return [
        *answers(ensemble, problem().X),
        *(ensemble.record_.assessed, ensemble.record_.realised, ensemble.record_.curse),
        *(ensemble.advantage_.assessed, ensemble.fingerprints_),
        ensemble.leaderboard_.select_dtypes("number").to_numpy(na_value=0.0),
        ensemble.guarantees_.select_dtypes("number").to_numpy(na_value=0.0),
    ]


def refused(ensemble: Ensemble, X: Any, Y: Any, words: str, error: type[Exception] = InputError, **fit: Any) -> None:
    """A first fit fails, and so does a second one after a good first, which is then as it was."""
    with pytest.raises(error, match=words) as caught:
        ensemble.fit(X, Y, **fit)
    assert isinstance(caught.value, OptEnsembleError)
    assert not hasattr(ensemble, "decider_")
    good = copy.copy(fitted())
    before = state(good)
    good.set_params(**ensemble.get_params(deep=False))
    with pytest.raises(error, match=words):
        good.fit(X, Y, **fit)
    assert same(state(good), before)


def half_updated(time_ordered: bool = False, access: str = "models") -> Ensemble:
    return copy.deepcopy(fitted(access, time_ordered=time_ordered))
