"""What every set promises whose parameters come from the row: a row is solved as by the set of that row alone."""

from __future__ import annotations

import copy
import pickle

import numba
import numpy as np
import pytest

from optensemble.exceptions import InputError
from optensemble.feasible.registry import SAVED_KINDS, from_spec, to_spec
from tests.costs_by_row import CASES, Case
from tests.sample_sets import Floats, hard_rows

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

ROWS = 160
FEWER = {"some whole numbers", "whole numbers with cost"}
"""Sets whose rows take HiGHS milliseconds each: a quarter of the rows will do."""


def make(name: str, n: int = ROWS, seed: int = 0) -> tuple[Case, Floats]:
    """A set with a table of rows, and coefficients of which many are tied."""
    n = n // 4 if name in FEWER else n
    omega, X = CASES[name](np.random.default_rng(seed), n)
    return (omega, X), hard_rows(omega.dimension, n=n // 2, seed=seed + 1)[:n]


@pytest.fixture(params=sorted(CASES))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_row_is_solved_as_by_the_set_of_that_row_alone_to_the_bit(name: str) -> None:
    (omega, X), C = make(name)
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    rows = range(0, len(C), 2)  # making the set of a row takes longer than solving it
    alone = np.concatenate([bound.of_row(i).argmax(C[i : i + 1]) for i in rows])
    np.testing.assert_array_equal(actions[rows], alone)
    assert (bound.violation(actions) <= bound.tolerance).all()
    assert [bool(bound.of_row(i).violation(actions[i : i + 1])[0] <= bound.tolerance) for i in range(20)] == [True] * 20


def test_order_batch_hints_and_threads_do_not_matter(name: str) -> None:
    (omega, X), C = make(name, seed=7)
    bound = omega.for_rows(X)
    actions, order = bound.argmax(C), np.random.default_rng(3).permutation(len(C))
    np.testing.assert_array_equal(bound.take(order).argmax(C[order]), actions[order])
    np.testing.assert_array_equal(omega.for_rows(X.iloc[order]).argmax(C[order]), actions[order])
    for i in range(0, len(C), 7):
        np.testing.assert_array_equal(bound.take(slice(i, i + 1)).argmax(C[i : i + 1])[0], actions[i])
    for hint in (actions, actions[order], np.random.default_rng(0).normal(size=C.shape) * 1e9):
        np.testing.assert_array_equal(bound.argmax(C, hint), actions)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(bound.argmax(C), actions)
    finally:
        numba.set_num_threads(threads)


def test_columns_of_constants_give_the_bits_of_the_fixed_set(name: str) -> None:
    (omega, X), C = make(name, seed=11)
    for row in (0, 1, 2):
        same = X.iloc[[row] * len(C)].reset_index(drop=True)
        fixed = omega.for_rows(same).of_row(0)
        np.testing.assert_array_equal(omega.for_rows(same).argmax(C), fixed.argmax(C))


def test_copies_and_specs_make_the_same_set(name: str) -> None:
    (omega, X), C = make(name, seed=13)
    actions = omega.for_rows(X).argmax(C)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.for_rows(X).argmax(C), actions)
    spec = to_spec(omega)
    if spec is not None:
        np.testing.assert_array_equal(from_spec(type(omega).__name__, spec).for_rows(X).argmax(C), actions)


def test_a_set_must_be_bound_to_as_many_rows_as_there_are_coefficients(name: str) -> None:
    (omega, X), C = make(name)
    with pytest.raises(InputError, match=r"from the row, which it is not bound to yet. Call omega.for_rows\(X\)"):
        omega.argmax(C)
    with pytest.raises(InputError, match=f"one row for each of the {len(X)} rows of X"):
        omega.for_rows(X).argmax(C[:-1])


def test_every_set_with_parameters_from_the_row_is_among_the_cases() -> None:
    tried = {type(CASES[name](np.random.default_rng(0), 2)[0]).__name__ for name in CASES}
    assert tried == {*SAVED_KINDS, "Oracle"}
