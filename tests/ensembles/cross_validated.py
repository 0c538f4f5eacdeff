"""A small problem on which corrections pay, and its record out of fold by a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.stats.folds import folds
from tests.problems import Floats, Problem, random_problem

KINDS = [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble]
BOTH = pytest.mark.parametrize("kind", KINDS)
NOT_CONVERGED = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
N = 120
PROBLEM = random_problem(3, n=N, d=2, k=2)
PROBLEM.P[0] += [1.0, -1.0]  # so that corrections pay
QUICK: dict[str, Any] = {"alpha": 0.01, "bucket_width": 0.25, "min_cell": 10, "max_rounds": 3}
PAPER: dict[str, Any] = {**QUICK, "validation": None}


def members(kind: type, problem: Problem) -> list[tuple[str, Any]]:
    return problem.models if kind is oe.WhiteBoxEnsemble else problem.policies


def make(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    return kind(members(kind, problem), problem.omega, **{**QUICK, **parameters})


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


def out_of_fold(
    kind: Any, problem: Problem, *, time_ordered: bool = False, seed: int | None = None, **parameters: Any
) -> tuple[Floats, Floats]:
    """A textbook cross-validation of the paper's algorithm: what it promises and earns on rows it did not see."""
    promised, realised = np.empty((2, len(problem.X)))
    for train, test in folds(len(problem.X), time_ordered=time_ordered, random_state=seed):
        ensemble = make(kind, problem, validation=None, **parameters).fit(problem.X[train], problem.Y[train])
        answer = ensemble.answer(problem.X[test])
        promised[test], realised[test] = answer.promised, payoff(answer.actions, problem.Y[test])
    return promised, realised


def load(path: Path, kind: type, problem: Problem) -> Any:
    models, policies = (problem.models, None) if kind is oe.WhiteBoxEnsemble else (None, problem.policies)
    return oe.load(path, models=models, policies=policies)
