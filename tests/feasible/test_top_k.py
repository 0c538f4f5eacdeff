from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optensemble.exceptions import InputError
from optensemble.feasible.top_k import TopK
from tests.sample_sets import Floats, hard_rows

SHAPES = [(1, 1), (4, 1), (4, 4), (30, 7), (100, 10), (100, 50), (100, 93)]


def by_sorting(c: Floats, k: int, at_most: bool) -> Floats:
    """Sort, then deal with the tie at the k-th place by its definition."""
    allowed = c > 0 if at_most else np.ones(len(c), dtype=bool)
    if allowed.sum() <= k:
        return allowed.astype(float)
    last = float(np.sort(c)[-k])
    slack = 1e-12 * max(abs(last), abs(float(c.max())))
    action = (c > last + slack).astype(float)
    tied = np.flatnonzero(allowed & (c >= last - slack) & (c <= last + slack))
    action[tied[: k - int(action.sum())]] = 1.0
    return action


@pytest.mark.parametrize("at_most", [False, True])
@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_it_is_what_sorting_gives(d: int, k: int, at_most: bool) -> None:
    C = np.concatenate([hard_rows(d, n=200), np.random.default_rng(1).standard_cauchy(size=(200, d)) ** 5])
    omega = TopK(d, k, at_most)
    actions = omega.argmax(C)
    np.testing.assert_array_equal(actions, [by_sorting(c, k, at_most) for c in C])
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    garbage = np.random.default_rng(2).normal(size=C.shape)
    np.testing.assert_array_equal(omega.argmax(C, hint=garbage), actions)


@pytest.mark.parametrize("at_most", [False, True])
def test_it_is_the_best_by_brute_force(at_most: bool) -> None:
    d, k = 6, 3
    corners = np.array([a for a in itertools.product([0.0, 1.0], repeat=d) if sum(a) == k or (at_most and sum(a) < k)])
    C = hard_rows(d, n=300) / np.maximum(np.abs(hard_rows(d, n=300)).max(axis=1, keepdims=True), 1e-300)
    values = (C * TopK(d, k, at_most).argmax(C)).sum(axis=1)
    np.testing.assert_allclose(values, (C @ corners.T).max(axis=1), atol=1e-11)


@pytest.mark.no_cover
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_finite_coefficients_are_solved_to_optimality(data: st.DataObject) -> None:
    d = data.draw(st.integers(1, 40))
    k, at_most = data.draw(st.integers(1, d)), data.draw(st.booleans())
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False, allow_infinity=False))
    c: Floats = data.draw(arrays(np.float64, d, elements=numbers))
    np.testing.assert_array_equal(TopK(d, k, at_most).argmax(c[None])[0], by_sorting(c, k, at_most))


def test_the_largest_and_the_smallest_of_floats() -> None:
    huge, tiny = np.finfo(np.float64).max, np.nextafter(0.0, 1.0)
    C = np.tile([-1.0, 0.0, 1.0], (2, 10)) * np.array([[huge], [tiny]])
    np.testing.assert_array_equal(TopK(30, 10).argmax(C), C > 0)
    np.testing.assert_array_equal(TopK(30, 20, at_most=True).argmax(C), C > 0)


def test_ties_go_to_the_lowest_index_whatever_the_noise() -> None:
    omega = TopK(5, k=2)
    np.testing.assert_array_equal(omega.argmax([[0.0, 0.3, 0.9, 0.1 + 0.2, 0.3]]), [[0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(omega.argmax([[0.3, 0.1 + 0.2, 0.1 + 0.2, 0.3, 0.0]]), [[1, 1, 0, 0, 0]])
    rng = np.random.default_rng(3)
    whole = rng.integers(-3, 4, size=(500, 40)).astype(float)
    exact = TopK(40, 15).argmax(whole)
    np.testing.assert_array_equal(TopK(40, 15).argmax(whole / 3.0), exact)
    np.testing.assert_array_equal(TopK(40, 15).argmax(whole + 1e-15 * rng.normal(size=whole.shape)), exact)


def test_a_forbidding_coefficient_does_not_blur_the_others() -> None:
    np.testing.assert_array_equal(TopK(4, k=2).argmax([[1.0, 1.0 + 1e-6, -1e12, 1.0 + 2e-6]]), [[0, 1, 0, 1]])


def test_coordinates_of_zero_are_left_out_where_fewer_are_allowed() -> None:
    omega = TopK(3, k=2, at_most=True)
    np.testing.assert_array_equal(omega.argmax([[0.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), [[0, 0, 0], [0, 1, 0]])


def test_violation_is_the_distance_from_the_set() -> None:
    actions = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 1.0], [1.0, 1.0, 1.0], [2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(TopK(3, k=2).violation(actions), [0.0, 1.0, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(TopK(3, k=2, at_most=True).violation(actions), [0.0, 0.0, 0.5, 1.0, 1.0])


def test_a_spec_makes_the_same_set() -> None:
    omega = TopK(4, 2, at_most=True)
    assert omega.spec() == {"dimension": 4, "k": 2, "at_most": True}
    C = hard_rows(4)
    np.testing.assert_array_equal(TopK(**omega.spec()).argmax(C), omega.argmax(C))


def test_errors_say_what_to_do() -> None:
    for k in (0, 1.5, "2", True, np.nan):
        with pytest.raises(InputError, match="k must be a whole number at least 1; got"):
            TopK(3, k)
    with pytest.raises(InputError, match="at most the number of coordinates, 3; got 4"):
        TopK(3, 4)
    with pytest.raises(InputError, match="dimension must be at least 1"):
        TopK(0, 1)
    with pytest.raises(InputError, match="at_most must be one of True, False; got 2"):
        TopK(3, 1, 2)  # type: ignore[arg-type]
