"""Exact sums: the same bits in any order, whole or in shards."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.exact_sums import add_rows, cell_sums


@given(
    values=st.lists(st.floats(-1e12, 1e12) | st.floats(-1e-12, 1e-12), min_size=1, max_size=60),
    seed=st.integers(0, 1000),
)
def test_sums_are_exact_and_so_do_not_depend_on_the_order(values: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.integers(3, size=len(values))
    array = np.array(values)[:, None]
    counts, sums = cell_sums(cells, array, 3)
    for cell in range(3):
        exact = math.fsum(array[cells == cell, 0])
        # two limbs hold about a hundred bits below the largest value
        assert sums[cell, 0] == pytest.approx(exact, rel=4e-16, abs=max(1e-24 * np.abs(array).max(), 1e-300))
    np.testing.assert_array_equal(counts, np.bincount(cells, minlength=3))
    order = rng.permutation(len(values))
    np.testing.assert_array_equal(cell_sums(cells[order], array[order], 3)[1], sums)


@given(seed=st.integers(0, 1000), shards=st.integers(2, 6))
def test_sums_of_shards_agree_in_any_order(seed: int, shards: int) -> None:
    rng = np.random.default_rng(seed)
    cells, values = rng.integers(3, size=50), rng.normal(size=(50, 2)) * 10.0 ** rng.integers(-12, 12, size=(50, 1))
    counts, whole = cell_sums(cells, values, 3)
    pieces = np.array_split(rng.permutation(50), shards)
    found, high, low = np.zeros(3, dtype=np.int64), np.zeros((3, 2)), np.zeros((3, 2))
    for rows in pieces:
        add_rows(cells[rows][:, None], values[rows], np.abs(values).max(), 50, found, high, low)
    np.testing.assert_array_equal(high + low, whole)
    np.testing.assert_array_equal(found, counts)


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-300, 1e300])
def test_sums_of_extreme_values(size: float) -> None:
    _, sums = cell_sums(np.zeros(4, dtype=np.int64), np.full((4, 1), size / 8), 1)
    assert sums[0, 0] == pytest.approx(size / 2, rel=1e-3 if size < 1e-310 else 1e-15)
