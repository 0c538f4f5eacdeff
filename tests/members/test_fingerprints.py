"""Fingerprints of rows: the same for the same numbers, and rows that were fitted on are counted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.exceptions import InputError
from optensemble.members.fingerprints import add_marks, count_seen, fingerprints, is_sample, marks

# Fingerprints


@given(st.integers(0, 2**32 - 1))
def test_rows_have_the_same_fingerprint_where_all_their_numbers_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(3, size=(80, 2)).astype(float), rng.integers(3, size=80).astype(float)
    prints = fingerprints(left, right)
    table = np.column_stack([left, right])
    equal = (table[:, None] == table[None]).all(axis=2)
    assert prints.dtype == np.uint64
    assert np.array_equal(prints[:, None] == prints[None], equal)


def test_a_fingerprint_sees_the_last_bit_and_the_order_but_not_the_sign_of_zero() -> None:
    row = np.array([[0.1, 0.2, 0.0]])
    assert fingerprints(row) != fingerprints(np.nextafter(row, 1.0))
    assert fingerprints(row) != fingerprints(row[:, [1, 0, 2]])
    assert fingerprints(row) == fingerprints(row * [1, 1, -1])
    assert fingerprints(row) == fingerprints(row[:, :2], row[:, 2]) == fingerprints(row.reshape(1, 3, 1))


def test_fingerprints_of_many_rows_do_not_collide() -> None:
    rows = np.arange(200_000, dtype=float)
    assert len(np.unique(fingerprints(rows))) == 200_000


@pytest.mark.slow
def test_fingerprints_are_the_same_in_another_process() -> None:
    code = (
        "import numpy as np; from optensemble.members.fingerprints import fingerprints; "
        "print(fingerprints(np.arange(6.0).reshape(3, 2)).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(fingerprints(np.arange(6.0).reshape(3, 2)).tolist())


def test_fingerprints_of_arrays_that_do_not_match_are_refused() -> None:
    with pytest.raises(InputError, match=r"same number of rows; got \[2, 3\]"):
        fingerprints(np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="got none"):
        fingerprints()
    assert len(fingerprints(np.zeros((0, 2)))) == 0


# Rows recognised


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 60))
def test_rows_that_were_fitted_on_are_counted_each(seed: int, new: int, old: int) -> None:
    rng = np.random.default_rng(seed)
    fitted, fresh = rng.normal(size=(100, 2)), rng.normal(size=(new, 2))
    again = fitted[rng.integers(100, size=old)]  # the same one may come several times
    rows = rng.permutation(np.concatenate([fresh, again]))
    assert count_seen(fingerprints(rows), marks(fitted)) == old


@pytest.mark.parametrize(("values", "known"), [(50, False), (51, True)])
def test_rows_of_few_values_are_not_known_again(values: int, known: bool) -> None:
    """Fifty different values of every column, however many rows: new rows are like old ones by chance."""
    left = np.stack([np.arange(400) % values, np.arange(400) % 3], axis=1).astype(float)
    right = (np.arange(400) % 7).astype(float)[:, None]
    found = marks(left, right)
    assert len(found) == (400 if known else 0)
    assert count_seen(fingerprints(left, right), found) == (400 if known else 0)
    if known:
        np.testing.assert_array_equal(found, fingerprints(left, right))


# Very many rows


def test_of_very_many_rows_a_sample_is_marked_and_stays_one() -> None:
    rng = np.random.default_rng(0)
    fitted, later, fresh = rng.normal(size=(150_000, 2)), rng.normal(size=(20_000, 2)), rng.normal(size=(20_000, 2))
    known = marks(fitted, total=2**20 + 1)
    assert is_sample(known)
    assert 0.9 < 64 * len(known) / len(fitted) < 1.1
    np.testing.assert_array_equal(known, [mark for mark in fingerprints(fitted) if mark % 64 == 0])
    both = add_marks(known, fingerprints(later))
    assert is_sample(both)
    for rows, share in ((fitted[:20_000], 1.0), (later, 1.0), (fresh, 0.0)):
        assert count_seen(fingerprints(rows), both) == pytest.approx(share * 20_000, rel=0.2)
    few = marks(fitted[:100])
    np.testing.assert_array_equal(
        add_marks(few, fingerprints(later)), fingerprints(np.concatenate([fitted[:100], later]))
    )
