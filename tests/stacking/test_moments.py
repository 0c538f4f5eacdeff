"""What models and labels say of the differences between members' actions: by its definition, in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from optensemble.stacking.moments import DecisionMoments, DecisionRows
from tests.problems import Floats


def world(k: int, n: int, d: int = 2) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(k, n, d)), rng.normal(size=(n, k, d)), rng.normal(size=(n, d))


@pytest.mark.parametrize("gaps", [False, True])
def test_worth_is_that_of_the_difference_from_the_mean_action(gaps: bool) -> None:
    actions, said, labels = world(4, 30)
    there = np.random.default_rng(1).uniform(size=(4, 30)) > 0.3 * gaps
    there[:, 7] = not gaps  # nobody is there
    weights = np.random.default_rng(2).uniform(size=30)
    expected = np.zeros((2, 7, 7))
    for row in range(30):
        present = np.flatnonzero(there[:, row])
        for member in present:
            apart = actions[member, row] - actions[present, row].mean(axis=0)
            columns = np.concatenate([said[row] @ apart, [labels[row] @ apart], apart])
            expected[int(row >= 12)] += weights[row] * np.outer(columns, columns)
    rows = DecisionRows([slice(0, 12), slice(12, 30)], ~there if gaps else None, weights=weights)
    found = DecisionMoments.of(actions, said, labels, rows)
    np.testing.assert_allclose(found.gram, expected, rtol=1e-9, atol=1e-12)
    assert found.size == max(np.abs(said).max(), np.abs(labels).max()) * np.abs(actions).max()


def test_many_members_take_memory_in_proportion() -> None:
    k, n = 60, 2000
    actions, said, labels = world(k, n)
    rows = DecisionRows([slice(0, n)])
    DecisionMoments.of(actions, said, labels, rows)  # compiled before
    tracemalloc.start()
    DecisionMoments.of(actions, said, labels, rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * k * n * 8
