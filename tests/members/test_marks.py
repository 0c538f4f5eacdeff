"""Marks of rows: those that are there several times stay together, those that are there very often stand alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.members import fingerprints as _fingerprints
from optensemble.members.fingerprints import Marks, alike_by_nature, fingerprints
from optensemble.stats.row_design import MOST_CLUSTERS, RowDesign

Numbers = npt.NDArray[np.int64]
NONE = np.empty(0, dtype=np.uint64)


def marks_of(which: Numbers) -> Marks:
    return Marks(fingerprints(which.astype(float)), NONE, None)


@given(copies=st.lists(st.integers(1, 25), min_size=1, max_size=30), seed=st.integers(0, 20))
def test_repeated_rows_share_a_number_unless_repeated_very_often(copies: list[int], seed: int) -> None:
    which = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(copies)), copies))
    marks, n = marks_of(which), len(which)
    found = marks.cluster(RowDesign(n))
    together = (which[:, None] == which) & (np.array(copies)[which] <= 20) | np.eye(n, dtype=bool)
    if together.sum() == n:
        assert found is None
        return
    assert found is not None
    places = found(0, n, marks.hashes)
    number = places.units.cluster
    assert number is not None
    np.testing.assert_array_equal(number[:, None] == number, together)
    assert sorted(set(number.tolist())) == list(range(number.max() + 1))
    assert places.units.clusters == number.max() + 1
    for row in range(len(copies)):
        if copies[row] <= 20:
            assert len(set(places.fold[which == row].tolist())) == 1
    sizes = np.bincount(places.fold, minlength=10)
    assert sizes.max() - sizes.min() <= 20


def test_no_rows_have_no_repeats() -> None:
    assert marks_of(np.empty(0, dtype=np.int64)).cluster(RowDesign(0)) is None


@given(n=st.integers(1, 200), values=st.integers(1, 80), cut=st.integers(0, 200), seed=st.integers(0, 100))
def test_marks_of_parts_add_up(n: int, values: int, cut: int, seed: int) -> None:
    rng, cut = np.random.default_rng(seed), min(cut, n)
    said, labels = rng.integers(values, size=(n, 2)).astype(float), rng.integers(3, size=(n, 1)).astype(float)
    hashes = fingerprints(said, labels)
    whole = Marks.of(hashes, n, said, labels)
    both = Marks.of(hashes[:cut], n, said[:cut], labels[:cut]) + Marks.of(hashes[cut:], n, said[cut:], labels[cut:])
    np.testing.assert_array_equal(both.hashes, whole.hashes)
    assert both.telling == whole.telling == (max(len(np.unique(column)) for column in said.T) > 50)
    if whole.values is not None and both.values is not None:
        for ours, theirs in zip(both.values, whole.values, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_rows_of_few_values_are_not_taken_for_repeats() -> None:
    said = (np.arange(400) % 50).astype(float)[:, None]
    found = Marks.of(fingerprints(said), 400, said)
    assert not found.telling
    assert found.cluster(RowDesign(400)) is None


def test_of_very_many_rows_repeats_are_found_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fingerprints, "EXACT_ROWS", 1000)
    rng = np.random.default_rng(0)
    # most rows are there once, many twice, and one in a tenth of all rows
    which = rng.permutation(np.concatenate([np.arange(20_000), np.arange(10_000), np.full(3000, 20_000)]))
    said, n = rng.normal(size=20_001)[which][:, None], len(which)
    hashes = fingerprints(said)
    marks = Marks.of(hashes[:15_000], n, said[:15_000]) + Marks.of(hashes[15_000:], n, said[15_000:])
    assert len(marks.hashes) < n / 30
    np.testing.assert_array_equal(np.unique(marks.hashes), np.unique(hashes[hashes % np.uint64(64) == 0]))
    found = marks.cluster(RowDesign(n, seed=1))
    assert found is not None
    assert found.clusters is not None
    assert found.clusters.single.tolist() == [hashes[which == 20_000][0]]
    places = found(0, n, hashes)
    assert places.units.cluster is not None
    assert places.units.clusters == MOST_CLUSTERS
    often = which == 20_000
    order = np.argsort(which[~often], kind="stable")
    same = np.flatnonzero(np.diff(which[~often][order]) == 0)
    assert len(same) == 10_000
    for place in (places.fold[~often][order], places.units.cluster[~often][order]):
        np.testing.assert_array_equal(place[same], place[same + 1])
    for fold in (places.fold, places.fold[often]):
        assert np.bincount(fold, minlength=5).min() > 0.17 * len(fold)
    # and in any block of rows
    for start in (0, 12_345):
        part = found(start, 5000, hashes[start : start + 5000])
        np.testing.assert_array_equal(part.fold, places.fold[start : start + 5000])
        np.testing.assert_array_equal(part.units.cluster, places.units.cluster[start : start + 5000])


def test_of_very_many_different_rows_none_are_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_fingerprints, "EXACT_ROWS", 1000)
    said = np.random.default_rng(0).normal(size=(20_000, 2))
    assert Marks.of(fingerprints(said), 20_000, said).cluster(RowDesign(20_000)) is None


def test_copies_stay_together_however_many_where_members_learn() -> None:
    """But what is in more than a tenth of the rows, as a night without sun is, stands alone."""
    which = np.concatenate([np.repeat(np.arange(30), 50), np.full(300, 30), np.arange(31, 100)])
    x, labels = which[:, None] + 0.5, np.random.default_rng(0).normal(size=(100, 2))[which]
    hashes, n = fingerprints(x, labels), len(which)
    single = alike_by_nature(labels, x)
    assert single.tolist() == [hashes[which == 30][0]]
    found = Marks.of(hashes, n, x, labels).cluster(RowDesign(n), single)
    assert found is not None
    fold = found(0, n, hashes).fold
    assert all(len(set(fold[which == row].tolist())) == 1 for row in range(30))
    assert len(set(fold[which == 30].tolist())) == found.folds


def test_rows_of_one_content_and_several_labels_are_alike_by_chance() -> None:
    """Copies that stay together would leave a member only the other labels to learn from."""
    rng = np.random.default_rng(0)
    for n in (2000, 20_000):  # six rows of each kind, and sixty
        x, labels = rng.integers(168, size=(n, 1)).astype(float), rng.integers(2, size=(n, 1)).astype(float)
        hashes = fingerprints(x, labels)
        assert Marks.of(hashes, n, x, labels).cluster(RowDesign(n), alike_by_nature(labels, x)) is None
    many = np.repeat(rng.normal(size=(10_000, 1)), 2, axis=0)  # no two rows have such a label by chance
    assert not len(alike_by_nature(many, x))
