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
    BITS,
    LANES,
    add_multiple,
    added_up,
    all_greater,
    bits_within,
    gather,
    larger,
    least,
    load,
    load_column,
    load_row,
    load_square,
    lowest_bit,
    magnitudes,
    roots,
    smaller,
    spread,
    store,
    store_column,
    store_row,
    store_square,
    store_whole,
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
def _moved(matrix, row, column, out):  # type: ignore[no-untyped-def]
    store_row(out, row, column, load_row(matrix, row, column))


@njit
def _added(total, factor, lanes, out):  # type: ignore[no-untyped-def]
    store(out, 0, add_multiple(load(total, 0), factor, load(lanes, 0)))


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
@pytest.mark.parametrize("row", [0, 1, 4])
def test_entries_of_a_row_are_read_and_written_in_place(width: int, column: int, row: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(5, width))
    out, expected = np.full_like(matrix, 7.0), np.full_like(matrix, 7.0)
    _moved(matrix, row, column, out)
    expected[row, column : column + LANES] = matrix[row, column : column + LANES]
    assert np.array_equal(out, expected)


@given(rows_of_lanes, numbers, rows_of_lanes)
def test_a_multiple_is_rounded_before_it_is_added(total: Floats, factor: float, lanes: Floats) -> None:
    out = np.empty(LANES)
    _added(total, float(factor), lanes, out)
    with np.errstate(all="ignore"):
        assert same_bits(out, total + float(factor) * lanes)


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


@njit
def _places_within(numbers, first, low, high):  # type: ignore[no-untyped-def]
    bits, places = bits_within(numbers, first, low, high), []
    while bits > 0:
        places.append(lowest_bit(bits))
        bits &= bits - np.uint64(1)
    return places


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@given(seed=st.integers(0, 2**32 - 1), first=st.integers(0, 9), low=st.integers(0, 12), more=st.integers(0, 3))
def test_bits_tell_which_numbers_are_within_limits(dtype: Any, seed: int, first: int, low: int, more: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 12, size=BITS + 10).astype(dtype)
    numbers[seed % len(numbers)] = np.iinfo(dtype).max
    here = numbers[first : first + BITS].astype(np.int64)
    for high in (low + more, 2**62):  # more than some types can hold
        expected = np.flatnonzero((here >= low) & (here <= high))
        assert _places_within(numbers, first, low, high) == expected.tolist()


@njit
def _rooted_and_added(lanes, out):  # type: ignore[no-untyped-def]
    store(out, 0, roots(load(lanes, 0)))
    return added_up(load(lanes, 0))


@given(rows_of_lanes)
def test_roots_and_sums_are_those_of_plain_arithmetic(lanes: Floats) -> None:
    out, total = np.empty(LANES), lanes[0]
    found = _rooted_and_added(lanes, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, np.sqrt(lanes))
        for each in lanes[1:]:
            total = total + each
    np.testing.assert_array_equal(found, total)


@njit
def _whole(matrix, out):  # type: ignore[no-untyped-def]
    for column in range(matrix.shape[1]):
        store_whole(out, 1, column, np.int32(10 * column), load_column(matrix, 1, column))


def test_whole_parts_are_counted_from_the_start_of_their_column() -> None:
    numbers = np.random.default_rng(1).uniform(-5, 5, size=(LANES + 2, 3))
    out = np.full(numbers.shape, -99, dtype=np.int32)
    _whole(numbers, out)
    np.testing.assert_array_equal(out[1:-1], np.trunc(numbers[1:-1]) + np.array([0, 10, 20]))
    assert (out[[0, -1]] == -99).all()


@njit
def _gathered(numbers, begin, offset, out):  # type: ignore[no-untyped-def]
    store(out, 0, gather(numbers, begin, offset))


@given(arrays(np.int64, LANES, elements=st.integers(0, 20)), st.integers(0, 5))
def test_each_lane_gathers_from_its_own_place(begin: npt.NDArray[np.int64], offset: int) -> None:
    numbers, out = np.sqrt(np.arange(26.0)), np.empty(LANES)
    _gathered(numbers, begin, offset, out)
    np.testing.assert_array_equal(out, numbers[begin + offset])
