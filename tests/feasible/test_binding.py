"""The constraints that bind at an action, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError
from optensemble.feasible import Box, ByKey, FeasibleSet, Knapsack, Product, Simplex, TopK, Vertices

ROW = pd.DataFrame({"free_0": [0.4], "free_1": [2.0], "budget": [12.5], "k": [1], "open_0": [0], "open_1": [1]})
FREE, OPEN, BUDGET = oe.Columns(["free_0", "free_1"]), oe.Columns(["open_0", "open_1"]), oe.Columns("budget")
BAG = Knapsack([10.0, 20.0], BUDGET)

CASES: list[tuple[FeasibleSet, Any, list[str]]] = [
    (Box(upper=FREE), [0.4, 0.0], ["upper[0] = 0.4 (column 'free_0')", "lower[1] = 0"]),
    (Box(lower=FREE, upper=5.0), [0.4, 5.0], ["lower[0] = 0.4 (column 'free_0')", "upper[1] = 5"]),
    (Box(upper=[1, 2]), [1.0, 1.5], ["upper[0] = 1"]),
    (Box(upper=[lambda X: X["free_0"], 3.0], dimension=2), [0.4, 3.0], ["upper[0] = 0.4 (upper(X))", "upper[1] = 3"]),
    (Box(upper=oe.Columns("free_*"), dimension=2), [0.1, 2.0], ["upper[1] = 2 (column 'free_*')"]),
    (Simplex(2), [1.0, 0.0], []),
    (Simplex(2, total=BUDGET), [12.5, 0.0], ["total = 12.5 (column 'budget')"]),
    (Simplex(2, total=3.0, available=OPEN), [0.0, 3.0], ["total = 3", "available[0] = 0 (column 'open_0')"]),
    (Simplex(2, available=[1, 0]), [1.0, 0.0], ["available[1] = 0"]),
    (TopK(2, oe.Columns("k")), [0.0, 1.0], ["k = 1 (column 'k')"]),
    (TopK(2, 2, at_most=True, available=OPEN), [0.0, 1.0], ["available[0] = 0 (column 'open_0')"]),
    (TopK(3, 1), [0.0, 1.0, 0.0], ["k = 1"]),
    (Vertices(np.eye(2), available=OPEN), [0.0, 1.0], ["available[0] = 0 (column 'open_0')"]),
    (Vertices(np.eye(2)), [0.0, 1.0], []),
    (BAG, [1.0, 0.125], ["capacity = 12.5 (column 'budget')"]),
    (BAG, [1.0, 0.0], []),
    (Knapsack([10.0, 20.0], BUDGET, integer=True), [1.0, 0.0], ["capacity = 12.5 (column 'budget')"]),
    (Knapsack([1.0, 2.0], BUDGET, integer=True), [1.0, 0.0], []),
    (Knapsack([[10, 20], [1, 1]], [BUDGET, 9.0]), [1.0, 0.125], ["capacity[0] = 12.5 (column 'budget')"]),
    (Knapsack([1.0, 1.0], 12.5, upper=FREE), [0.4, 0.0], ["upper[0] = 0.4 (column 'free_0')"]),
    (Product([Simplex(1), BAG]), [1.0, 1.0, 0.125], ["blocks[1].capacity = 12.5 (column 'budget')"]),
    (
        ByKey("k", {1: BAG, 2: Simplex(2)}),
        [1.0, 0.125],
        ["key = 1 (column 'k')", "sets[1].capacity = 12.5 (column 'budget')"],
    ),
    (ByKey("k", {1: Simplex(2)}), [1.0, 0.0], ["key = 1 (column 'k')"]),
]


@pytest.mark.parametrize(("omega", "action", "expected"), CASES, ids=[f"{case[0]!r} {case[1]}" for case in CASES])
def test_constraints_that_bind_are_named(omega: FeasibleSet, action: Any, expected: list[str]) -> None:
    bound = omega.for_rows(ROW)
    taken = np.array(action, dtype=np.float64)
    assert bound.violation(taken[None])[0] <= bound.tolerance
    assert bound.binding(taken) == expected


def test_only_the_first_few_are_named() -> None:
    found = Box(upper=np.ones(50)).binding(np.ones(50))
    assert len(found) == 6


def test_the_set_must_be_bound_to_one_row() -> None:
    with pytest.raises(InputError, match="not bound to yet"):
        BAG.binding(np.zeros(2))
