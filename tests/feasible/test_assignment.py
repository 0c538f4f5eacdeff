from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from optensemble.exceptions import InputError
from optensemble.feasible.assignment import Assignment
from tests.sample_sets import Floats, hard_rows

SMALL = [(1, 1), (1, 6), (6, 1), (2, 2), (2, 4), (4, 2), (3, 5), (5, 3), (4, 4), (5, 5), (6, 6)]
LARGE = [(10, 10), (10, 15), (15, 10), (31, 33), (50, 50), (3, 200)]


def scaled(C: Floats) -> Floats:
    sized: Floats = C / np.maximum(np.abs(C).max(axis=1, keepdims=True), 1e-320)
    return sized


def all_assignments(rows: int, columns: int) -> Floats:
    """Return every assignment, those where row 0 (column 0, if these are fewer) is served lowest first."""
    n, m = min(rows, columns), max(rows, columns)
    ways = np.array(list(itertools.permutations(range(m), n)))
    matrices = np.zeros((len(ways), n, m))
    matrices[np.arange(len(ways))[:, None], np.arange(n), ways] = 1.0
    return (matrices if rows <= columns else matrices.transpose(0, 2, 1)).reshape(len(ways), -1)


def best_value(c: Floats, rows: int, columns: int) -> float:
    matrix = c.reshape(rows, columns)
    return float(matrix[linear_sum_assignment(matrix, maximize=True)].sum())


@pytest.mark.parametrize(("rows", "columns"), SMALL)
def test_it_is_the_first_of_the_best_by_brute_force(rows: int, columns: int) -> None:
    omega = Assignment(rows, columns)
    rng = np.random.default_rng(rows + 10 * columns)
    few = rng.integers(0, 3, size=(100, omega.dimension)) * rng.integers(0, 2, size=(100, omega.dimension))
    C = np.concatenate([hard_rows(omega.dimension), few / 7.0])
    actions = omega.argmax(C)
    every = all_assignments(rows, columns)
    values = scaled(C) @ every.T
    first = np.argmax(values >= values.max(axis=1, keepdims=True) - 1e-12, axis=1)
    np.testing.assert_array_equal(actions, every[first])
    np.testing.assert_array_equal(omega.violation(actions), 0.0)


@pytest.mark.parametrize(("rows", "columns"), LARGE)
def test_it_is_as_good_as_scipy(rows: int, columns: int) -> None:
    omega = Assignment(rows, columns)
    C = hard_rows(omega.dimension, n=40)
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    values = (scaled(C) * actions).sum(axis=1)
    np.testing.assert_allclose(values, [best_value(c, rows, columns) for c in scaled(C)], rtol=0, atol=1e-12)


def test_a_very_large_one_is_as_good_as_scipy() -> None:
    rng = np.random.default_rng(4)
    for C in (rng.normal(size=(1, 300 * 310)), rng.integers(0, 4, size=(1, 300 * 310)) / 3.0):
        value = float((Assignment(300, 310).argmax(C) * C).sum())
        np.testing.assert_allclose(value, best_value(C[0], 300, 310), rtol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (4, 7), (7, 4), (12, 12), (20, 20), (12, 30)])
def test_ties_do_not_depend_on_noise(rows: int, columns: int) -> None:
    omega = Assignment(rows, columns)
    rng = np.random.default_rng(5)
    whole = rng.integers(-3, 4, size=(300, omega.dimension)).astype(float)
    exact = omega.argmax(whole)
    np.testing.assert_array_equal(omega.argmax(whole / 3.0), exact)
    np.testing.assert_array_equal(omega.argmax(whole * 0.1), exact)
    np.testing.assert_array_equal(omega.argmax(whole + 1e-15 * rng.normal(size=whole.shape)), exact)


def test_ties_made_of_different_sums() -> None:
    # The diagonal and the other way round are both worth 1, in rows (1/3, 2/3) that do not round alike.
    np.testing.assert_array_equal(Assignment(2).argmax([[1 / 3, 0.9, 0.1, 2 / 3]]), [[1, 0, 0, 1]])
    np.testing.assert_array_equal(Assignment(2).argmax([[0.1 + 0.2, 0.1, 0.5, 0.3]]), [[1, 0, 0, 1]])


def test_all_ties_give_the_diagonal() -> None:
    for rows, columns in ((4, 4), (3, 5), (5, 3)):
        diagonal = np.eye(rows, columns).reshape(1, -1)
        for value in (0.0, -2.0, 1e300, 1e-300, 5e-324):
            np.testing.assert_array_equal(Assignment(rows, columns).argmax(np.full_like(diagonal, value)), diagonal)


def test_nearly_equal_values_do_not_keep_the_auction_from_ending() -> None:
    # Two columns are worth as good as the same to three rows, and far more than the third column.
    matrix = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 - 2e-15, 0.0], [1.0 - 2e-15, 1.0, -1.0]])
    np.testing.assert_array_equal(Assignment(3).argmax(matrix.reshape(1, -1)).reshape(3, 3), np.eye(3)[[0, 2, 1]])


@pytest.mark.parametrize("price", [1e3, 1e9, 1e15, 1e100, 1e300])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 5), (5, 3)])
def test_forbidden_pairs_do_not_blur_the_others(rows: int, columns: int, price: float) -> None:
    rng = np.random.default_rng(6)
    C = rng.normal(size=(200, rows * columns))
    forbidden = (rng.random(C.shape) < 0.3) & (np.eye(rows, columns).ravel() == 0)
    actions = Assignment(rows, columns).argmax(np.where(forbidden, -price, C))
    values = np.where(forbidden, -100.0, C) @ all_assignments(rows, columns).T
    np.testing.assert_array_equal(actions, all_assignments(rows, columns)[values.argmax(axis=1)])


def test_a_forbidden_pair_is_not_bought_by_a_large_one() -> None:
    np.testing.assert_array_equal(Assignment(2).argmax([[1000.0, 1.0, 1.0, -1e6]]), [[0, 1, 1, 0]])


@pytest.mark.no_cover
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_finite_coefficients_are_solved_to_optimality(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    omega = Assignment(rows, columns)
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_nan=False, allow_infinity=False))
    C: Floats = data.draw(arrays(np.float64, (2, omega.dimension), elements=numbers))
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.violation(actions), 0.0)
    best = [best_value(c, rows, columns) for c in scaled(C)]
    np.testing.assert_allclose((scaled(C) * actions).sum(axis=1), best, rtol=0, atol=1e-11)
    for hint in (actions, actions[::-1], C):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    np.testing.assert_array_equal(omega.argmax(C[1:]), actions[1:])


def test_transposing_transposes_the_answer() -> None:
    C = hard_rows(4 * 7)
    across = Assignment(4, 7).argmax(C).reshape(-1, 4, 7)
    down = Assignment(7, 4).argmax(C.reshape(-1, 4, 7).transpose(0, 2, 1).reshape(-1, 28)).reshape(-1, 7, 4)
    np.testing.assert_array_equal(down.transpose(0, 2, 1), across)


def test_violation_is_the_distance_from_the_set() -> None:
    square, wide, tall = Assignment(2), Assignment(1, 2), Assignment(2, 1)
    matrices = np.array([np.eye(2), np.full((2, 2), 0.5), [[1, 0], [1, 0]], [[1, 0], [0, 0.75]], [[2, -1], [-1, 2]]])
    np.testing.assert_array_equal(square.violation(matrices.reshape(-1, 4)), [0.0, 0.5, 1.0, 0.25, 1.0])
    actions = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    for omega in (wide, tall):
        np.testing.assert_array_equal(omega.violation(actions), [0.0, 1.0, 1.0])


def test_a_spec_makes_the_same_set() -> None:
    omega = Assignment(3)
    assert omega.spec() == {"rows": 3, "columns": 3}
    C = hard_rows(9)
    for twin in (Assignment(**omega.spec()), copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), omega.argmax(C))


def test_errors_say_what_to_do() -> None:
    for value in (0, -1, 2.0, "3", True, np.nan):
        with pytest.raises(InputError, match="rows must be a whole number at least 1; got"):
            Assignment(value)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="columns must be a whole number at least 1; got"):
            Assignment(2, value)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must have 6 columns"):
        Assignment(2, 3).argmax(np.zeros((1, 5)))
