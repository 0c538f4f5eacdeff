"""The paper's two ensembles on one small problem, and comparisons to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from tests.problems import Problem, random_problem

PROBLEM = random_problem(11)
N, D = PROBLEM.Y.shape
KINDS = [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble]
BOTH = pytest.mark.parametrize("kind", KINDS)
OPTIONS: list[dict[str, Any]] = [
    {"schedule": "frozen"},
    {"schedule": "round-robin"},
    {"schedule": "joint"},
    {"schedule": "joint", "shrinkage": 2.0},
]
SCHEDULES = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
SENSES = pytest.mark.parametrize("sense", ["max", "min"])
NOT_CONVERGED = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
COMMON: dict[str, Any] = {"alpha": 0.02, "bucket_width": 0.25, "max_rounds": 200, "validation": None}


def members(kind: type, problem: Problem) -> list[tuple[str, Any]]:
    return problem.models if kind is oe.WhiteBoxEnsemble else problem.policies


def make(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    return kind(members(kind, problem), problem.omega, **{**COMMON, **parameters})


def fitted(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    return make(kind, problem, **parameters).fit(problem.X, problem.Y)


def answers(ensemble: Any, X: Any) -> list[Any]:
    more = [ensemble.predict_members(X)] if isinstance(ensemble, oe.WhiteBoxEnsemble) else []
    return [ensemble.decide(X), ensemble.predict(X), ensemble.self_assess(X), ensemble.choose(X), *more]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_log(ours: Any, theirs: Any) -> None:
    """The same corrections, to the last bit."""
    assert len(ours.log_) == len(theirs.log_)
    for a, b in zip(ours.log_, theirs.log_, strict=True):
        assert a.layout == b.layout
        assert len(a.rounds) == len(b.rounds)
        for left, right in zip(a.rounds, b.rounds, strict=True):
            assert [patch.member for patch in left] == [patch.member for patch in right]
            for p, q in zip(left, right, strict=True):
                np.testing.assert_array_equal(p.cells, q.cells)
                np.testing.assert_array_equal(p.delta, q.delta)
