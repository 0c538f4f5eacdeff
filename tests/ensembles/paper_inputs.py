"""A small problem with something wrong in it, and what must be said of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import optensemble as oe
from optensemble.exceptions import InputError, OptEnsembleError
from tests.problems import Floats, Problem, random_problem

PROBLEM = random_problem(0, n=40)
N, D = PROBLEM.Y.shape
BOTH = pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
QUICK: dict[str, Any] = {"alpha": 0.05, "bucket_width": 0.25, "validation": None}


def members(kind: type, problem: Problem = PROBLEM) -> list[tuple[str, Any]]:
    return problem.models if kind is oe.WhiteBoxEnsemble else problem.policies


def make(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    given = parameters.pop("members", None)
    omega = parameters.pop("feasible", problem.omega)
    return kind(members(kind, problem) if given is None else given, omega, **{**QUICK, **parameters})


def answers(ensemble: Any, X: Any) -> list[Any]:
    return [ensemble.decide(X), ensemble.predict(X), ensemble.self_assess(X), ensemble.choose(X), ensemble.n_rounds_]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def refused(ensemble: Any, X: Any, Y: Any, words: str, error: type[Exception] = InputError) -> None:
    """The first fit fails, and so does a second one after a good first, which is then as it was."""
    with pytest.raises(error, match=words) as caught:
        ensemble.fit(X, Y)
    assert isinstance(caught.value, OptEnsembleError)
    assert not hasattr(ensemble, "log_")
    good = make(type(ensemble)).fit(PROBLEM.X, PROBLEM.Y)
    before, parameters = answers(good, PROBLEM.X), good.get_params()
    good.set_params(**ensemble.get_params(deep=False))
    with pytest.raises(error, match=words):
        good.fit(X, Y)
    good.set_params(**parameters)
    assert same(answers(good, PROBLEM.X), before)


def with_value(values: Floats, rows: list[int], value: float) -> Floats:
    changed = values.copy()
    changed[rows, 1] = value
    return changed


REGION = np.array(["north", "south", "west"])[np.arange(N) % 3]
NUMBER = np.arange(N) % 3
PANDAS = pd.DataFrame({"row": PROBLEM.X, "region": REGION, "number": NUMBER})
POLARS = pl.DataFrame({"row": PROBLEM.X, "region": REGION, "number": NUMBER})


def on_rows(kind: Any, row: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    """Members that look up the row numbers that ``row`` finds in X."""
    return [(name, lambda X, member=member: member(row(X))) for name, member in members(kind)]


def column(X: Any) -> Any:
    return X["row"].to_numpy()
