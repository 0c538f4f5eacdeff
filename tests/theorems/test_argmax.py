"""What every set promises, whatever it is."""

from __future__ import annotations

import copy
import pickle
import threading

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optensemble import feasible
from optensemble.exceptions import InputError
from optensemble.feasible._bounds import FEASIBILITY
from optensemble.feasible.registry import from_spec
from tests.sample_sets import Floats, every_set, hard_rows

SETS = every_set()
numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e8, 1e8, allow_subnormal=False), st.floats(-1e-8, 1e-8))


@pytest.fixture(params=sorted(SETS))
def omega(request: pytest.FixtureRequest) -> feasible.FeasibleSet:
    return SETS[request.param]


def test_the_public_names_are_sorted() -> None:
    assert feasible.__all__ == sorted(feasible.__all__)
    assert all(hasattr(feasible, name) for name in feasible.__all__)


def test_actions_are_feasible(omega: feasible.FeasibleSet) -> None:
    actions = omega.argmax(hard_rows(omega.dimension))
    assert omega.violation(actions).max() <= FEASIBILITY
    assert (actions >= omega.lower).all()
    assert (actions <= omega.upper).all()


def test_a_row_does_not_depend_on_its_batch(omega: feasible.FeasibleSet) -> None:
    C = hard_rows(omega.dimension, seed=5)
    together = omega.argmax(C)
    order = np.random.default_rng(6).permutation(len(C))
    np.testing.assert_array_equal(omega.argmax(C[order]), together[order])
    np.testing.assert_array_equal(np.concatenate([omega.argmax(row[None]) for row in C]), together)
    np.testing.assert_array_equal(omega.argmax(np.asfortranarray(C)), together)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_order_and_batch_do_not_matter_for_any_numbers(name: str, data: st.DataObject) -> None:
    omega = SETS[name]
    shape = data.draw(st.integers(1, 5)), omega.dimension
    C: Floats = data.draw(arrays(np.float64, shape, elements=numbers))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= FEASIBILITY
    np.testing.assert_array_equal(omega.argmax(C[::-1])[::-1], actions)
    np.testing.assert_array_equal(omega.argmax(C[-1:]), actions[-1:])
    for hint in (actions, actions[::-1], data.draw(arrays(np.float64, shape, elements=numbers))):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in sorted(SETS) if SETS[name].kernel is not None])
def test_threads_do_not_matter(name: str) -> None:
    omega = SETS[name]
    C = np.random.default_rng(7).integers(-4, 5, size=(40_000, omega.dimension)) / 3.0
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = omega.argmax(C)
        numba.set_num_threads(before)
        np.testing.assert_array_equal(omega.argmax(C), alone)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("name", ["grid", "large risk"])
def test_a_set_may_be_shared_by_threads(name: str) -> None:
    omega = SETS[name]
    C = hard_rows(omega.dimension, n=20)
    expected = omega.argmax(C)
    results: list[Floats] = []
    workers = [threading.Thread(target=lambda: results.append(omega.argmax(C))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 3
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_copies_and_pickles_decide_alike(omega: feasible.FeasibleSet) -> None:
    C = hard_rows(omega.dimension, n=20)
    expected = omega.argmax(C)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), expected)


def test_a_spec_makes_the_same_set(omega: feasible.FeasibleSet) -> None:
    spec = omega.spec()
    if spec is None:
        assert isinstance(omega, feasible.Oracle)
        return
    twin = from_spec(type(omega).__name__, spec)
    C = hard_rows(omega.dimension, n=20)
    np.testing.assert_array_equal(twin.argmax(C), omega.argmax(C))
    np.testing.assert_array_equal(twin.lower, omega.lower)
    np.testing.assert_array_equal(twin.upper, omega.upper)


def test_the_coefficients_are_left_alone(omega: feasible.FeasibleSet) -> None:
    C = hard_rows(omega.dimension, n=5)
    kept = C.copy()
    C.flags.writeable = False
    omega.argmax(C)
    np.testing.assert_array_equal(C, kept)


def test_hints_of_the_wrong_shape_are_refused(omega: feasible.FeasibleSet) -> None:
    with pytest.raises(InputError, match="one action for each of the 2 rows; got 3"):
        omega.argmax(np.zeros((2, omega.dimension)), hint=np.zeros((3, omega.dimension)))


def test_argmax_of_no_rows_has_no_rows(omega: feasible.FeasibleSet) -> None:
    assert omega.argmax(np.empty((0, omega.dimension))).shape == (0, omega.dimension)


def test_bad_coefficients_are_refused(omega: feasible.FeasibleSet) -> None:
    with pytest.raises(InputError, match=f"must have {omega.dimension} columns"):
        omega.argmax(np.zeros((2, omega.dimension + 1)))
    with pytest.raises(InputError, match="2 dimension"):
        omega.argmax(np.zeros(omega.dimension))
    with pytest.raises(InputError, match="row 1 of 2"):
        omega.argmax([[0.0] * omega.dimension, [np.nan] * omega.dimension])


def test_repr_says_how_large_a_set_is() -> None:
    assert repr(SETS["grid"]) == "Polytope(dimension=40)"


def test_unknown_kinds_and_specs_are_refused() -> None:
    with pytest.raises(InputError, match="unknown kind of feasible set 'Oracle'"):
        from_spec("Oracle", {})
    with pytest.raises(InputError, match="saved Simplex does not fit"):
        from_spec("Simplex", {"size": 3})
