"""Fitted ensembles, and an explanation's numbers told again by plain loops."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.explanation.explanation import Explanation
from tests.problems import Floats, Problem, random_problem

SENSES = pytest.mark.parametrize("sense", ["max", "min"])
SCHEDULES = pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
BUCKETS = 10
N = 1500
Told = tuple[str, int, Floats]
"""The name of a cell, how many rows it had, and what its patch adds."""


def coordinates(table: pd.DataFrame, what: str = "y") -> Floats:
    return table.filter(regex=f"^{what}_").to_numpy(dtype=float)


def sign_of(ensemble: Any) -> float:
    return 1.0 if ensemble.sense == "max" else -1.0


def between(omega: feasible.FeasibleSet, j: int, t: int, count: int = BUCKETS) -> str:
    """Where a bucket is, in words."""
    low, high = (omega.lower[j] + (omega.upper[j] - omega.lower[j]) * edge / count for edge in (t, t + 1))
    return f"in [{low:.4g}, {high:.4g}{']' if t == count - 1 else ')'}"


def added_up(found: list[Told]) -> dict[str, tuple[int, int, Floats]]:
    """By cell the fewest rows, how often it moved, and by how much in all."""
    cells: dict[str, tuple[int, int, Floats]] = {}
    for name, rows, delta in found:
        least, times, total = cells.get(name, (rows, 0, np.zeros_like(delta)))
        cells[name] = (min(least, rows), times + 1, total + delta)
    return cells


def assert_patches(explanation: Explanation, found: list[Told]) -> None:
    expected, table = added_up([entry for entry in found if entry[2].any()]), explanation.patches
    assert set(table["cell"]) == set(expected)
    assert len(table) == len(expected)
    for line, moved in zip(table.to_dict("records"), coordinates(table), strict=True):
        rows, times, total = expected[str(line["cell"])]
        assert (line["rows"], line["times"]) == (rows, times)
        np.testing.assert_allclose(moved, total, rtol=1e-9, atol=1e-12)
    sizes = np.square(coordinates(table)).sum(axis=1)
    assert (np.diff(sizes) <= 0).all()


def assert_added_up(explanation: Explanation) -> None:
    """What the patches add is the last step minus the one before."""
    before, after = coordinates(explanation.steps)[-2:]
    np.testing.assert_allclose(coordinates(explanation.patches).sum(axis=0), after - before, rtol=0, atol=1e-12)


def assert_answers(ensemble: Any, explanation: Explanation, X: Any) -> None:
    """An explanation speaks of what is done."""
    answer, row = ensemble.answer(X), explanation.row
    assert explanation.followed == ensemble.names_[answer.chosen[row]]
    np.testing.assert_array_equal(explanation.action, answer.actions[row])
    assert explanation.promised == pytest.approx(answer.promised[row], rel=1e-12)
    np.testing.assert_array_equal(coordinates(explanation.steps)[-1], answer.predictions[row])


def assert_alternatives(ensemble: Any, explanation: Explanation, omega: feasible.FeasibleSet) -> None:
    """The table agrees with itself: who is first, who is behind, and the margin."""
    table, sign = explanation.alternatives, sign_of(ensemble)
    assert sorted(table["name"]) == sorted(ensemble.names_)
    assert table["name"].iloc[0] == explanation.followed
    actions, alike = coordinates(table, "action"), 1e-9 * (omega.upper - omega.lower)
    same = [bool((abs(action - explanation.action) <= alike).all()) for action in actions]
    assert table["same"].tolist() == same
    assert same[0]
    behind = sign * (explanation.promised - table["value"].to_numpy())
    np.testing.assert_allclose(table["behind"], behind, atol=1e-9)
    assert (table["behind"].iloc[1:].dropna().diff().dropna() >= 0).all()
    others = [b for b, alike in zip(behind, same, strict=True) if not alike and not math.isnan(b)]
    assert explanation.margin == pytest.approx(min(others, default=math.nan), abs=1e-9, nan_ok=True)


def biased(n: int, sense: str) -> tuple[Floats, Floats, list[tuple[str, Any]], list[tuple[str, Any]]]:
    """Two models and a policy; where the second would put all on the first coordinate, that is worth less."""
    rng = np.random.default_rng(0)
    signal, sign = rng.normal(size=(n, 3)), 1.0 if sense == "max" else -1.0
    first, second, third = signal + 0.5 * rng.normal(size=(3, n, 3))
    labels = signal + 0.5 * rng.normal(size=(n, 3))
    labels[:, 0] -= 1.5 * (second.argmax(axis=1) == 0)
    X = np.concatenate([sign * first, sign * second, np.eye(3)[third.argmax(axis=1)]], axis=1)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    return X, sign * labels, models, [("planner", oe.Columns([6, 7, 8]))]


@cache
def patched(sense: str = "max") -> tuple[oe.DecisionEnsemble, Floats]:
    X, Y, models, policies = biased(N, sense)
    ensemble = oe.DecisionEnsemble(models, policies, feasible.Simplex(3), sense).fit(X, Y)
    assert "patched" in ensemble.names_
    assert ensemble.winner_ == "ensemble"
    return ensemble, X


@cache
def white(schedule: str, sense: str, omega: str = "polytope", groups: bool = False) -> tuple[Problem, Any]:
    problem = random_problem(1, n=200, omega=omega)
    options: dict[str, Any] = {"subgroups": lambda X: X % 3} if groups else {}
    ensemble = problem.white_box(schedule=schedule, sense=sense, max_rounds=400, **options)
    assert ensemble.n_rounds_ > 2
    return problem, ensemble


def saved(kind: str) -> tuple[Any, Any, dict[str, Any]]:
    if kind == "decision":
        return *patched(), {}
    problem = random_problem(1, n=200)
    if kind == "white":
        return white("round-robin", "max")[1], problem.X, {"models": problem.models}
    return problem.black_box(max_rounds=20), problem.X, {"policies": problem.policies}
