"""Folds, blocks of time and clusters of rows: those of a block are those of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.engine import BLOCK_ROWS
from optensemble._core.hashing import Hashes, hash_labels, hash_rows
from optensemble.stats.blocks import UnitSums
from optensemble.stats.row_design import MOST_CLUSTERS, ClusterTable, KnownClusters, RowDesign, fold_count
from tests.stats.clusters import Clusters, some_clusters

SEEDS = st.integers(0, 2**32)


def ids_of(clusters: Clusters) -> Hashes:
    return hash_rows(0, int(clusters.max(initial=0)) + 1, 7)[clusters]


def clustered(clusters: Clusters, time_ordered: bool = False, seed: int = 0) -> tuple[RowDesign, Hashes]:
    ids = ids_of(clusters)
    return RowDesign(len(ids), time_ordered, seed).clustered(ClusterTable.of(ids, 0)), ids


# Independent rows


@given(n=st.integers(10, 5000), seed=SEEDS)
def test_rows_are_dealt_out_evenly(n: int, seed: int) -> None:
    sizes = np.bincount(RowDesign(n, seed=seed)(0, n).fold, minlength=fold_count(n))
    assert len(sizes) == (10 if n < 1000 else 5)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("time_ordered", [False, True])
@pytest.mark.parametrize("n", [BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 3 * BLOCK_ROWS + 777])
def test_the_places_of_a_block_are_those_of_the_whole(n: int, time_ordered: bool) -> None:
    design = RowDesign(n, time_ordered, seed=3)
    whole = design(0, n)
    for start in range(0, n, BLOCK_ROWS):
        rows = slice(start, min(start + BLOCK_ROWS, n))
        places = design(start, rows.stop - start)
        np.testing.assert_array_equal(places.fold, whole.fold[rows])
        assert (places.units.block is None) == (not time_ordered)
        if whole.units.block is not None:
            np.testing.assert_array_equal(places.units.block, whole.units.block[rows])
        sizes = np.bincount(places.fold, minlength=5)
        if not time_ordered:
            assert sizes.max() - sizes.min() <= 1


def test_another_seed_deals_rows_out_otherwise() -> None:
    first, again, other = (RowDesign(5000, seed=seed)(0, 5000).fold for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs((first == other).mean() - 0.2) < 5 * 0.4 / np.sqrt(5000)  # a fifth by chance
    # nor do neighbours tell of each other
    assert abs((first[1:] == first[:-1]).mean() - 0.2) < 5 * 0.4 / np.sqrt(5000)


@given(n=st.integers(10, 3000))
def test_rows_in_time_order_are_cut_into_contiguous_folds_and_tenths(n: int) -> None:
    places = RowDesign(n, time_ordered=True)(0, n)
    assert places.units.block is not None
    tenths = np.array_split(np.arange(n), 10)
    for tenth, rows in enumerate(tenths):
        assert (places.units.block[rows] == tenth).all()
    assert (np.diff(places.fold) >= 0).all()
    sizes = np.bincount(places.fold)
    assert len(sizes) == fold_count(n)
    assert sizes.max() - sizes.min() <= 1


# Clusters


@given(n=st.integers(100, 1500), count=st.integers(5, 400), seed=st.integers(0, 1000), time_ordered=st.booleans())
def test_clusters_stay_whole_and_folds_are_balanced(n: int, count: int, seed: int, time_ordered: bool) -> None:
    clusters = some_clusters(n, count, seed)
    design, ids = clustered(clusters, time_ordered, seed)
    places, largest = design(0, n, ids), int(np.bincount(clusters).max())
    pairs = np.unique(np.stack([clusters, places.fold]), axis=1)
    assert pairs.shape[1] == clusters.max() + 1
    if not time_ordered or (np.ptp(np.flatnonzero(clusters == 0)) > n / 2):
        sizes = np.bincount(places.fold, minlength=design.folds)
        assert sizes.max() - sizes.min() <= largest
    assert places.units.cluster is not None
    assert places.units.clusters == clusters.max() + 1
    # numbered in the order in which they first appear
    first = [int(np.flatnonzero(clusters == c)[0]) for c in range(clusters.max() + 1)]
    np.testing.assert_array_equal(places.units.cluster, np.argsort(np.argsort(first))[clusters])


def test_clusters_that_come_and_go_are_cut_into_contiguous_folds_in_time_order() -> None:
    days = np.arange(1200) // 12
    design, ids = clustered(days, time_ordered=True)
    fold = design(0, 1200, ids).fold
    assert (np.diff(fold) >= 0).all()
    assert np.bincount(fold).tolist() == [240] * 5
    customers, ids = clustered(np.arange(1200) % 12, time_ordered=True)
    assert (np.diff(customers(0, 1200, ids).fold) != 0).any()


@given(seed=st.integers(0, 1000), time_ordered=st.booleans())
def test_what_clusters_are_called_does_not_matter(seed: int, time_ordered: bool) -> None:
    clusters = some_clusters(300, 80, seed)
    names = np.random.default_rng(seed).permutation(clusters.max() + 1)[clusters]
    ours, theirs = (clustered(each, time_ordered, seed) for each in (clusters, names))
    left, right = ours[0](0, 300, ours[1]), theirs[0](0, 300, theirs[1])
    np.testing.assert_array_equal(left.fold, right.fold)
    np.testing.assert_array_equal(left.units.cluster, right.units.cluster)


def test_the_places_of_clustered_rows_in_a_part_are_those_of_the_whole() -> None:
    clusters = some_clusters(2000, 300, 0)
    design, ids = clustered(clusters, time_ordered=True)
    whole = design(0, 2000, ids)
    assert whole.units.cluster is not None
    assert whole.units.block is not None
    for start, stop in ((0, 1), (123, 777), (777, 2000)):
        places = design(start, stop - start, ids[start:stop])
        np.testing.assert_array_equal(places.fold, whole.fold[start:stop])
        np.testing.assert_array_equal(places.units.cluster, whole.units.cluster[start:stop])
        np.testing.assert_array_equal(places.units.block, whole.units.block[start:stop])


@given(clusters=st.lists(st.integers(0, 9), min_size=1, max_size=60), cut=st.integers(0, 60))
def test_tables_of_clusters_add_up(clusters: list[int], cut: int) -> None:
    numbers, cut = np.array(clusters), min(cut, len(clusters))
    ids = ids_of(numbers)
    found = ClusterTable.of(ids[:cut], 0) + ClusterTable.of(ids[cut:], cut)
    for ours, theirs in zip(vars(found).values(), vars(ClusterTable.of(ids, 0)).values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for each, size, first, last in zip(found.ids, found.sizes, found.first, found.last, strict=True):
        rows = np.flatnonzero(ids == each)
        assert (size, first, last) == (len(rows), rows[0], rows[-1])


# Very many clusters


@pytest.mark.parametrize("listed", [True, False])
def test_very_many_clusters_are_pooled_and_stay_whole(listed: bool) -> None:
    n, count = 60_000, 3 * MOST_CLUSTERS
    rng = np.random.default_rng(0)
    clusters = rng.integers(count, size=n)
    values = rng.normal(size=n) + rng.normal(size=count)[clusters]
    ids = ids_of(clusters)
    plain = RowDesign(n, seed=5)
    none = np.empty(0, dtype=np.uint64)
    design = plain.clustered(ClusterTable.of(ids, 0)) if listed else plain.pooled(none)
    places = design(0, n, ids)
    assert places.units.cluster is not None
    assert places.units.clusters == MOST_CLUSTERS
    assert 0 <= places.units.cluster.min() <= places.units.cluster.max() < MOST_CLUSTERS
    for place in (places.fold, places.units.cluster):
        assert len(np.unique(np.stack([clusters, place]), axis=1).T) == len(np.unique(clusters))
    sizes = np.bincount(places.fold, minlength=5)
    assert sizes.max() - sizes.min() <= (20 if listed else 6 * np.sqrt(n))
    # the error of a mean is that of the clusters themselves
    pooled = float(UnitSums.of(values[None], places.units).errors[0])
    sums = np.bincount(clusters, values - values.mean())
    assert pooled == pytest.approx(np.sqrt(np.square(sums).sum()) / n, rel=0.1)
    assert pooled > 1.5 * values.std() / np.sqrt(n)


LABELS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20)


@given(batches=st.lists(LABELS, min_size=1, max_size=5))
def test_clusters_keep_their_numbers_and_new_ones_go_on(batches: list[list[Any]]) -> None:
    known, found = KnownClusters.of(ClusterTable.of(hash_labels(batches[0]), 0)), []
    for labels in batches:
        numbers, known = known.number(hash_labels(labels))
        found += numbers.tolist()
    everything = [label for labels in batches for label in labels]
    order = list(dict.fromkeys(everything))
    assert found == [order.index(label) for label in everything]
    assert known.ids.tolist() == hash_labels(order).tolist()


def test_pooled_clusters_keep_their_pools() -> None:
    ids = hash_rows(0, MOST_CLUSTERS + 1)
    known = KnownClusters.of(ClusterTable.of(ids, 0))
    assert known.pooled
    assert not len(known.ids)
    first, later = known.number(ids[:50])
    again, _ = later.number(ids[:50])
    np.testing.assert_array_equal(first, again)
    assert first.max() < MOST_CLUSTERS
    assert not KnownClusters.of(ClusterTable.of(ids[:-1], 0)).pooled
