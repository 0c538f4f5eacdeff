"""Hashes of rows and labels: the same anywhere, and as if drawn at random."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.hashing import hash_labels, hash_numbers, hash_rows


@given(start=st.integers(0, 2**40), count=st.integers(0, 50), seed=st.integers(0, 2**70), cut=st.integers(0, 50))
def test_the_hash_of_a_row_depends_on_its_number_and_the_seed_alone(
    start: int, count: int, seed: int, cut: int
) -> None:
    whole, cut = hash_rows(start, count, seed), min(cut, count)
    parts = [hash_rows(start, cut, seed), hash_rows(start + cut, count - cut, seed)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(hash_numbers(start + np.arange(count), seed), whole)
    assert whole.dtype == np.uint64


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_hashes_of_rows_are_different_and_even(seed: int) -> None:
    hashes = hash_rows(0, 200_000, seed)
    assert len(np.unique(hashes)) == 200_000
    for bit in range(64):
        share = float(((hashes >> np.uint64(bit)) & np.uint64(1)).mean())
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(200_000), bit
    other = hash_rows(0, 200_000, seed + 1)
    assert not (hashes == other).any()
    # which rows come first under one seed says nothing of another
    assert abs(np.corrcoef(np.argsort(hashes), np.argsort(other))[0, 1]) < 5 / np.sqrt(200_000)


LABELS = st.one_of(
    st.text(max_size=5), st.integers(-5, 5), st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.5, 1e30, 10**30]), st.booleans()
)


@given(labels=st.lists(st.one_of(LABELS, st.tuples(LABELS, LABELS)), min_size=1, max_size=30))
def test_labels_are_equal_if_and_only_if_their_hashes_are(labels: list[Any]) -> None:
    hashes = hash_labels(labels)
    for left, one in zip(labels, hashes, strict=True):
        for right, other in zip(labels, hashes, strict=True):
            assert (one == other) == (left == right)
    # wherever they are met first
    np.testing.assert_array_equal(hash_labels(labels[::-1]), hashes[::-1])
    np.testing.assert_array_equal(np.concatenate([hash_labels([label]) for label in labels]), hashes)


def test_numpys_text_and_numbers_are_like_pythons() -> None:
    theirs: list[Any] = [np.str_("Mon"), np.float64(0.1), np.float64(3.0), (np.str_("Mon"), np.float64(0.1))]
    np.testing.assert_array_equal(hash_labels(theirs), hash_labels(["Mon", 0.1, 3, ("Mon", 0.1)]))


@pytest.mark.slow
def test_hashes_are_the_same_in_another_process() -> None:
    code = (
        "from optensemble._core.hashing import hash_labels, hash_rows; "
        "print([*hash_rows(5, 3, 7).tolist(), *hash_labels(['Mon', 1, (2.5, 'x')]).tolist()])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str([*hash_rows(5, 3, 7).tolist(), *hash_labels(["Mon", 1, (2.5, "x")]).tolist()])
