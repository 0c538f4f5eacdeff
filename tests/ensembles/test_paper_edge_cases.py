"""Unusual input that works: one coordinate, one action, frames, lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from optensemble import feasible
from tests.ensembles.paper_inputs import BOTH, PANDAS, POLARS, PROBLEM, D, answers, column, make, members, on_rows, same
from tests.problems import random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


@BOTH
def test_one_coordinate_with_one_dimensional_labels(kind: Any) -> None:
    problem = random_problem(3, d=1, omega="box")
    flat = [(name, lambda X, member=member: member(X)[:, 0]) for name, member in members(kind, problem)]
    ensemble = make(kind, problem, members=flat).fit(problem.X, problem.Y[:, 0])
    other = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.decide(problem.X).shape == (60, 1)
    assert same(answers(ensemble, problem.X), answers(other, problem.X))
    assert ensemble.score(problem.X, problem.Y[:, 0]) == other.score(problem.X, problem.Y)


@BOTH
def test_a_fixed_coordinate(kind: Any) -> None:
    problem = random_problem(4)
    problem.omega = feasible.Box([0.0, 0.5, -1.0], [1.0, 0.5, 1.0])
    ensemble = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.converged_
    assert (ensemble.decide(problem.X)[:, 1] == 0.5).all()


@BOTH
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_single_action(kind: Any) -> None:
    problem = random_problem(5)
    problem.omega = feasible.Vertices([[0.2, 0.3, 0.4]])
    ensemble = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.converged_
    assert (ensemble.decide(problem.X) == [0.2, 0.3, 0.4]).all()


@BOTH
def test_frames_lists_and_dicts(kind: Any) -> None:
    expected = answers(make(kind).fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X)
    labels = [f"y{j}" for j in range(D)]
    for X, Y in (
        (PANDAS, pd.DataFrame(PROBLEM.Y, columns=labels)),
        (PANDAS.set_index("region", drop=False), PROBLEM.Y.tolist()),
        (POLARS, pl.DataFrame(PROBLEM.Y, schema=labels)),
        (POLARS, np.asfortranarray(PROBLEM.Y)),
    ):
        assert same(answers(make(kind, members=on_rows(kind, column)).fit(X, Y), X), expected)
    as_dict = make(kind, members=dict(members(kind))).fit(PROBLEM.X, PROBLEM.Y)
    assert as_dict.names_[:3] == ["m0", "m1", "m2"]
    assert same(answers(as_dict, PROBLEM.X), expected)
    in_frames = [(name, lambda X, m=member: pd.DataFrame(m(X))) for name, member in members(kind)]
    assert same(answers(make(kind, members=in_frames).fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X), expected)
