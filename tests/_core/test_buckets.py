"""Buckets of actions: both ends of the range inside, solver noise absorbed, intervals that tell them apart."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.buckets import Buckets


def unit(d: int, count: int) -> Buckets:
    return Buckets(np.zeros(d), np.ones(d), count)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 10, 20, 50])
def test_edges_belong_to_the_bucket_above_and_the_last_bucket_is_closed(count: int) -> None:
    edges = np.arange(count + 1) / count
    for noise in (0.0, 1e-12, -1e-12):
        found = unit(1, count)((edges + noise)[:, None]).ravel()
        np.testing.assert_array_equal(found, [*range(count), count - 1])


@given(a=st.floats(0, 1), count=st.integers(1, 50), lower=st.floats(-10, 10), width=st.floats(0.1, 100))
def test_buckets_follow_the_bounds(a: float, count: int, lower: float, width: float) -> None:
    """What matters is the share of the range, up to noise at the edges."""
    scaled = Buckets(np.array([lower]), np.array([lower + width]), count)
    plain, moved = unit(1, count)(np.array([[a]])), scaled(np.array([[lower + a * width]]))
    near_edge = abs(a * count - round(a * count)) < 1e-6
    assert near_edge or plain == moved


def test_a_fixed_coordinate_has_one_cell() -> None:
    buckets = Buckets(np.array([0.0, 3.0]), np.array([1.0, 3.0]), 10)
    assert buckets.sizes == (10, 1)
    np.testing.assert_array_equal(buckets(np.array([[0.95, 3.0]])), [[9, 0]])


@given(lower=st.floats(-1e6, 1e6), width=st.floats(1e-6, 1e6), count=st.integers(1, 20), share=st.floats(0, 1))
def test_intervals_are_where_the_buckets_are_and_told_apart(
    lower: float, width: float, count: int, share: float
) -> None:
    buckets = Buckets(np.array([lower]), np.array([lower + width]), count)
    intervals = buckets.intervals(0)
    assert len(intervals) == buckets.sizes[0] == count
    assert [interval.closed for interval in intervals] == [*[False] * (count - 1), True]
    assert len({str(interval) for interval in intervals}) == count
    for before, after in pairwise(intervals):
        assert before.high == after.low
    edges = [float(interval.low) for interval in intervals] + [float(intervals[-1].high)]
    action = lower + share * width
    number = int(buckets(np.array([[action]]))[0, 0])
    slack = 1e-3 * max(abs(lower), abs(lower + width))  # four digits at least
    assert edges[number] - slack <= action <= edges[number + 1] + slack


def test_the_interval_of_a_fixed_coordinate_is_a_point() -> None:
    (interval,) = Buckets(np.array([3.0]), np.array([3.0]), 10).intervals(0)
    assert str(interval) == "in [3, 3]"
