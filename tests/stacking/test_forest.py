"""Forests of randomised trees: what a leaf says, what a split is worth, and the same bits for the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor

import optensemble.stacking.forest as forest_module
from optensemble.stacking.forest import LEAF, MOST_LABELS, TREES, Forest
from tests.problems import Floats


def world(n: int = 400, p: int = 5, d: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, np.sin(X @ rng.normal(size=(p, d))) + 0.3 * rng.normal(size=(n, d))


def leaves(forest: Forest, row: Floats) -> list[int]:
    """Walk through all trees, as the definition says."""
    found = []
    for root in forest.roots.tolist():
        node = root
        while forest.feature[node] >= 0:
            low = row[forest.feature[node]] <= forest.threshold[node]
            node = int(forest.left[node] if low else forest.right[node])
        found.append(int(forest.left[node]))
    return found


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 60), st.booleans(), st.sampled_from([3, MOST_LABELS + 1, 40]))
def test_a_leaf_says_the_weighted_mean_of_its_rows(seed: int, n: int, weighted: bool, d: int) -> None:
    X, Y = world(n, d=d, seed=seed)
    X = X.round(1)  # ties
    weights = np.random.default_rng(seed).integers(0, 3, n).astype(float) if weighted else None
    forest = Forest.grow(X, Y, weights, seed=seed)
    assert len(forest.roots) == TREES
    rows = np.array([leaves(forest, row) for row in X])
    counted = np.ones(n) if weights is None else weights
    for leaf in np.unique(rows):
        here = (rows == leaf).any(axis=1)
        assert here.sum() >= min(LEAF, n)
        total = counted[here].sum()
        mean = (counted[here] @ Y[here] / total) if total else np.zeros(d)
        assert np.allclose(forest.values[leaf], mean, rtol=1e-9, atol=1e-12)
    assert np.allclose(forest(X), forest.values[rows].mean(axis=1), rtol=1e-9, atol=1e-12)
    assert np.abs(forest(X)).max() <= forest.reach * (1 + 1e-12)


@pytest.mark.parametrize("d", [3, 60])
def test_it_predicts_as_well_as_scikit_learns(d: int) -> None:
    X, Y = world(2000, d=d)
    ours = Forest.grow(X[:1000], Y[:1000])
    theirs = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, random_state=0).fit(X[:1000], Y[:1000])
    missed = [np.square(Y[1000:] - said).mean() for said in (ours(X[1000:]), theirs.predict(X[1000:]))]
    assert missed[0] == pytest.approx(missed[1], rel=0.03)
    assert missed[0] < 0.9 * Y.var()


def test_the_same_numbers_give_the_same_bits() -> None:
    X, Y = world()
    one, two, other = (Forest.grow(X, Y, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one(X), two(X))
    assert not np.array_equal(one(X), other(X))
    assert np.array_equal(one(X)[7:8], one(X[7:8]))
    assert np.array_equal(one(X), one(np.asfortranarray(X)))


def test_columns_that_say_nothing_and_rows_too_few_make_a_mean() -> None:
    Y = np.arange(24.0).reshape(12, 2)
    for X in (np.ones((12, 3)), np.empty((12, 0))):
        assert np.allclose(Forest.grow(X, Y)(X), Y.mean(axis=0))
    assert np.allclose(Forest.grow(np.arange(9.0)[:, None], Y[:9])(np.zeros((1, 1))), Y[:9].mean(axis=0))


def test_huge_and_tiny_columns_are_split() -> None:
    X, Y = world()
    forest = Forest.grow(X * [1e300, 1e-300, 1.0, 1.0, 1.0], Y)
    assert len(np.unique(forest.feature)) == 6


def test_of_many_sampled_columns_a_tree_looks_at_a_few_and_at_all_others() -> None:
    X, Y = world(1000, p=4, d=40)
    S = np.random.default_rng(1).normal(size=(1000, 40))
    forest = Forest.grow(np.concatenate([X, S], axis=1), Y, sampled=40)
    ends = [*forest.roots[1:].tolist(), len(forest.feature)]
    trees = [set(forest.feature[root:end].tolist()) - {-1} for root, end in zip(forest.roots, ends, strict=True)]
    assert all({0, 1, 2, 3} <= looked_at for looked_at in trees)
    assert max(len(looked_at) for looked_at in trees) <= 4 + MOST_LABELS
    assert set().union(*trees) == set(range(44))


def test_of_few_sampled_columns_a_tree_looks_at_all() -> None:
    X, Y = world(p=MOST_LABELS + 2, d=MOST_LABELS)
    one, two = Forest.grow(X, Y), Forest.grow(X, Y, sampled=MOST_LABELS)
    assert np.array_equal(one.feature, two.feature)
    assert np.array_equal(one(X), two(X))


def test_a_tree_is_judged_by_a_few_sums_of_many_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = list[tuple[int, int]]()

    def grow(columns: Floats, judged: Floats, *others: Any) -> Any:
        looked_at.append((columns.shape[1], judged.shape[1]))
        return grow_tree(columns, judged, *others)

    grow_tree = forest_module.grow_tree
    monkeypatch.setattr(forest_module, "grow_tree", grow)
    for d in (2, MOST_LABELS, 200):
        X, Y = world(50, p=6 + d, d=d)
        Forest.grow(X, Y, sampled=d)
    few = {(8, 3), (6 + MOST_LABELS, MOST_LABELS + 1)}  # beside labels there are weights
    assert set(looked_at) == few
