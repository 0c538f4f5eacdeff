"""Lanes: each does what plain arithmetic does to the row in it, to the bit, and sees nothing of the others."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numba import njit

from optensemble._core.lanes import (
    LANES,
    all_greater,
    larger,
    least,
    load,
    load_column,
    load_square,
    magnitudes,
    smaller,
    spread,
    store,
    store_column,
    store_square,
    where_greater,
)

Floats = npt.NDArray[np.float64]

numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308]), st.floats(width=64), st.integers(-2, 2)
)
rows_of_lanes = arrays(np.float64, LANES, elements=numbers)


@njit
def _computed(left, right, yes, no, out):  # type: ignore[no-untyped-def]
    a, b = load(left, 0), load(right, 0)
    store(out, 0, a + b)
    store(out, 1, a - b)
    store(out, 2, a * b)
    store(out, 3, larger(a, b))
    store(out, 4, smaller(a, b))
    store(out, 5, magnitudes(a))
    store(out, 6, where_greater(a, b, load(yes, 0), load(no, 0)))
    store(out, 7, a / b)
    return all_greater(a, b)


@njit
def _copied(matrix, first, columns, out):  # type: ignore[no-untyped-def]
    for column in columns:
        store_column(out, first, column, load_column(matrix, first, column))


@njit
def _transposed(matrix, first, column, block, out):  # type: ignore[no-untyped-def]
    load_square(matrix, first, column, block)
    store_square(out, first, column, block)


@njit
def _spread_over(number, block, place):  # type: ignore[no-untyped-def]
    store(block, place, spread(number))


@njit
def _least(block):  # type: ignore[no-untyped-def]
    return least(load(block, 0))


def textbook(a: float, b: float, yes: float, no: float) -> list[float]:
    """Return what one lane should hold after each operation; comparisons with NaN are false."""
    with np.errstate(all="ignore"):
        sums: list[Callable[[Any, Any], Any]] = [operator.add, operator.sub, operator.mul]
        arithmetic = [float(work(np.float64(a), np.float64(b))) for work in sums]
        quotient = float(np.float64(a) / np.float64(b))
    return [*arithmetic, a if a > b else b, a if a < b else b, abs(a), yes if a > b else no, quotient]


def same_bits(found: Floats, expected: Floats) -> bool:
    """Whether numbers are the same, zeros with their signs; one NaN is as good as another."""
    nan = np.isnan(found)
    signs = np.signbit(found) == np.signbit(expected)
    return bool(np.array_equal(found, expected, equal_nan=True) and (signs | nan).all())


@given(rows_of_lanes, rows_of_lanes, rows_of_lanes, rows_of_lanes)
def test_every_lane_is_computed_as_by_itself(left: Floats, right: Floats, yes: Floats, no: Floats) -> None:
    out = np.empty(8 * LANES)
    everywhere = _computed(left, right, yes, no, out)
    expected = np.array([textbook(*each) for each in zip(left, right, yes, no, strict=True)])
    assert same_bits(out.reshape(8, LANES), expected.T)
    assert everywhere == all(a > b for a, b in zip(left, right, strict=True))


@given(rows_of_lanes, rows_of_lanes, st.permutations(range(LANES)))
def test_a_row_has_the_same_bits_in_any_lane(left: Floats, right: Floats, order: list[int]) -> None:
    out, moved = np.empty(8 * LANES), np.empty(8 * LANES)
    _computed(left, right, left, right, out)
    _computed(left[order], right[order], left[order], right[order], moved)
    assert same_bits(moved.reshape(8, LANES), out.reshape(8, LANES)[:, order])


@pytest.mark.parametrize("lane", range(LANES))
def test_all_greater_sees_every_lane(lane: int) -> None:
    left, right, out = np.ones(LANES), np.zeros(LANES), np.empty(8 * LANES)
    assert _computed(left, right, left, right, out)
    for not_greater in (0.0, -1.0, np.nan):
        left[lane] = not_greater
        assert not _computed(left, right, left, right, out)


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("first", [0, 1, 8])
def test_columns_of_eight_rows_are_read_and_written_in_place(width: int, first: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(first + LANES + 2, width))
    out, columns = np.full_like(matrix, 7.0), np.arange(0, width, 2)
    _copied(matrix, first, columns, out)
    expected = np.full_like(matrix, 7.0)
    expected[first : first + LANES, columns] = matrix[first : first + LANES, columns]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(("width", "column"), [(8, 0), (11, 0), (11, 3), (40, 16)])
@pytest.mark.parametrize("first", [0, 1, 8])
def test_squares_are_turned_into_lanes_and_back(width: int, column: int, first: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(first + LANES + 2, width))
    out, block = np.full_like(matrix, 7.0), np.full(width * LANES, 7.0)
    _transposed(matrix, first, column, block, out)
    rows, columns = slice(first, first + LANES), slice(column, column + LANES)
    lanes, back = np.full((width, LANES), 7.0), np.full_like(matrix, 7.0)
    lanes[columns], back[rows, columns] = matrix[rows, columns].T, matrix[rows, columns]
    assert np.array_equal(block.reshape(width, LANES), lanes)
    assert np.array_equal(out, back)


@given(numbers, st.integers(0, 3))
def test_a_number_is_spread_over_its_lanes_alone(number: float, place: int) -> None:
    block = np.full(4 * LANES, 7.0)
    _spread_over(float(number), block, place)
    expected = np.full((4, LANES), 7.0)
    expected[place] = number
    assert same_bits(block.reshape(4, LANES), expected)


@given(rows_of_lanes)
def test_the_least_is_of_all_lanes(block: Floats) -> None:
    block = np.nan_to_num(block, nan=1.0, posinf=np.inf, neginf=-np.inf)
    assert _least(block) == block.min()
    for lane in range(LANES):
        assert _least(np.where(np.arange(LANES) == lane, -np.inf, block)) == -np.inf
