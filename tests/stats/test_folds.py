"""Folds: evenly sized, clusters whole, time order kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble.stats.folds import Fold, folds
from optensemble.stats.sampling import Sampling
from tests.stats.clusters import Clusters, some_clusters


def sizes(parts: list[Fold]) -> list[int]:
    return [len(fold.test) for fold in parts]


def assert_partition(parts: list[Fold], n: int) -> None:
    assert sorted(np.concatenate([fold.test for fold in parts])) == list(range(n))
    for fold in parts:
        assert len(fold.test) > 0
        np.testing.assert_array_equal(fold.train, np.setdiff1d(np.arange(n), fold.test))
        np.testing.assert_array_equal(fold.test, np.sort(fold.test))


@given(n=st.integers(20, 1500), time_ordered=st.booleans(), seed=st.integers(0, 5))
def test_folds_partition_the_rows_evenly(n: int, time_ordered: bool, seed: int) -> None:
    parts = folds(n, time_ordered=time_ordered, random_state=seed)
    assert_partition(parts, n)
    assert len(parts) == (10 if n < 1000 else 5)
    assert max(sizes(parts)) - min(sizes(parts)) <= 1


@given(n=st.integers(20, 1500))
def test_folds_in_time_order_are_contiguous_and_come_one_after_the_other(n: int) -> None:
    tests = [fold.test for fold in folds(n, time_ordered=True)]
    np.testing.assert_array_equal(np.concatenate(tests), np.arange(n))


@given(n=st.integers(20, 1200), count=st.integers(2, 200), seed=st.integers(0, 20))
def test_rows_of_one_cluster_stay_together(n: int, count: int, seed: int) -> None:
    clusters = some_clusters(n, count, seed)
    parts = folds(n, clusters=clusters, random_state=seed)
    assert_partition(parts, n)
    for fold in parts:
        assert not set(clusters[fold.train]) & set(clusters[fold.test])
    # the emptiest part is filled next, so that two parts differ by at most the size of one cluster
    if len(set(clusters)) >= 10:
        assert max(sizes(parts)) - min(sizes(parts)) <= np.bincount(clusters).max()


def apart(parts: list[Fold], clusters: Clusters) -> bool:
    return not any(set(clusters[fold.train]) & set(clusters[fold.test]) for fold in parts)


@given(n=st.integers(100, 1200), count=st.integers(30, 100), seed=st.integers(0, 20))
def test_days_in_time_order_go_whole_with_their_first_row(n: int, count: int, seed: int) -> None:
    days = np.sort(some_clusters(n, count, seed))
    parts, plain = folds(n, time_ordered=True, clusters=days), folds(n, time_ordered=True)
    assert_partition(parts, n)
    assert apart(parts, days)
    np.testing.assert_array_equal(np.concatenate([fold.test for fold in parts]), np.arange(n))
    first = [int(np.flatnonzero(days == day)[0]) for day in days]
    expected = [np.flatnonzero(np.isin(first, fold.test)) for fold in plain]
    for fold, rows in zip(parts, [rows for rows in expected if len(rows)], strict=True):
        np.testing.assert_array_equal(fold.test, rows)


@given(n=st.integers(100, 1200), count=st.integers(5, 60), seed=st.integers(0, 20))
def test_customers_that_stay_through_time_are_dealt_out_as_without_time(n: int, count: int, seed: int) -> None:
    """Their first rows all lie at the beginning: to go with these would leave nothing to learn from."""
    customers = np.arange(n) % count
    parts = folds(n, time_ordered=True, clusters=customers, random_state=seed)
    assert_partition(parts, n)
    assert apart(parts, customers)
    assert all(len(fold.train) > 0 for fold in parts)
    assert len(parts) == min(10 if n < 1000 else 5, count)
    for ours, theirs in zip(parts, folds(n, clusters=customers, random_state=seed), strict=True):
        np.testing.assert_array_equal(ours.test, theirs.test)


@given(n=st.integers(100, 400), count=st.integers(5, 100), seed=st.integers(0, 20), width=st.floats(0, 1))
def test_in_time_order_no_cluster_of_any_kind_is_cut(n: int, count: int, seed: int, width: float) -> None:
    """Between days and customers: each comes and goes, within a share of all rows."""
    middle = np.linspace(0, 1, n) + width * np.random.default_rng(seed).uniform(-0.5, 0.5, size=n)
    clusters = np.unique((middle * count).astype(np.int64), return_inverse=True)[1]
    parts = folds(n, time_ordered=True, clusters=clusters)
    assert_partition(parts, n)
    assert apart(parts, clusters)
    assert len(parts) >= 2


def test_a_seed_shuffles_rows_and_clusters_always_in_the_same_way() -> None:
    clusters = some_clusters(300, 60, 0)
    for given_clusters in (None, clusters):
        first, again, other, default = (
            np.concatenate([fold.test for fold in folds(300, clusters=given_clusters, random_state=seed)])
            for seed in (1, 1, 2, None)
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)
        zero = np.concatenate([fold.test for fold in folds(300, clusters=given_clusters, random_state=0)])
        np.testing.assert_array_equal(default, zero)


def test_shuffled_folds_have_nothing_to_do_with_the_order_of_rows() -> None:
    part = np.empty(600)
    for number, fold in enumerate(folds(600, random_state=3)):
        part[fold.test] = number
    assert abs(stats.spearmanr(part, np.arange(600)).statistic) < 0.1
    assert not np.array_equal(part, np.arange(600) % 10)


def test_a_cluster_that_outweighs_all_others_has_a_fold_to_itself() -> None:
    clusters = np.concatenate([np.zeros(500, np.int64), 1 + np.arange(100, dtype=np.int64) % 50])
    parts = folds(600, clusters=clusters, random_state=0)
    largest = max(parts, key=lambda fold: len(fold.test))
    np.testing.assert_array_equal(largest.test, np.arange(500))
    assert len(parts) == 10


def test_a_sampling_cuts_the_folds_of_its_rows() -> None:
    clusters = some_clusters(200, 40, 0)
    for sampling in (Sampling(), Sampling(True), Sampling(clusters=clusters), Sampling(True, clusters)):
        ours = sampling.folds(200, 5)
        theirs = folds(200, time_ordered=sampling.time_ordered, clusters=sampling.clusters, random_state=5)
        for left, right in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(left.test, right.test)


def nearest(fold: Fold) -> int:
    return int(np.abs(fold.train[:, None] - fold.test).min())


def test_a_gap_holds_where_clusters_overlap_in_time() -> None:
    """Parcels that are on their way for up to three days: folds of days, which overlap at their edges."""
    days = np.arange(1000) // 10 - np.random.default_rng(0).integers(0, 4, 1000)
    clusters = days - days.min()
    for fold in folds(1000, time_ordered=True, clusters=clusters, count=5, gap=10):
        assert nearest(fold) == 11
        assert len(fold.train) > 700


def test_customers_that_stay_have_no_gap() -> None:
    parts = folds(1000, time_ordered=True, clusters=np.arange(1000) % 50, count=5, gap=10)
    assert_partition(parts, 1000)


@given(n=st.integers(60, 400), count=st.integers(2, 60), parts=st.integers(2, 4), seed=st.integers(0, 20))
def test_of_few_folds_none_is_empty(n: int, count: int, parts: int, seed: int) -> None:
    clusters = some_clusters(n, count, seed)
    wanted = min(parts, len(set(clusters)))
    found = folds(n, time_ordered=True, clusters=clusters, count=wanted, gap=n // 100)
    assert all(len(fold.train) and len(fold.test) for fold in found)
    assert len(found) > 1
