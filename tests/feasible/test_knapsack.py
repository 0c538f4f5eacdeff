from __future__ import annotations

import copy
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import mixed_integer
from optensemble.feasible._solvers.density import FIT
from optensemble.feasible.knapsack import Knapsack
from tests.sample_sets import Floats, hard_rows

solve_lp: Any = linprog


def unit_rows(C: Floats) -> Floats:
    """Scale rows to a largest size of 1, so that huge and tiny ones count alike."""
    size = np.abs(C).max(axis=1, keepdims=True)
    scaled: Floats = np.divide(C, size, out=np.zeros_like(C), where=size > 0)
    return scaled


def every_choice(omega: Knapsack) -> Floats:
    """All choices that fit, those with the earlier items first; sums are exact for small whole weights."""
    choices: Floats = np.array(list(product([1.0, 0.0], repeat=omega.dimension)))
    fits = (choices @ omega.weights.T <= omega.capacity * (1 + 1e-12)).all(axis=1)
    return np.asarray(choices[fits])


def best_choices(omega: Knapsack, C: Floats, tie: float = 1e-9) -> Floats:
    choices = every_choice(omega)
    values = np.where(C > 0, C, -1e-3) @ choices.T
    best: Floats = choices[(values >= values.max(axis=1, keepdims=True) - tie).argmax(axis=1)]
    return best


def best_value(omega: Knapsack, c: Floats) -> float:
    rows, whole = LinearConstraint(omega.weights, ub=omega.capacity), np.full(omega.dimension, int(omega.integer))
    # HiGHS stops at an absolute gap of 1e-6, which SciPy cannot change.
    found: Any = milp(-1e6 * c, constraints=rows, bounds=Bounds(0, 1), integrality=whole, options={"mip_rel_gap": 0.0})
    return float(-found.fun / 1e6)


# Fractions


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_fractions_agree_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = [1, 2, 5, 10, 48, 48, 48, 48][seed]
    weights = rng.integers(0, 20, size=d) * 1.0 if seed % 2 else rng.uniform(0, 10.0 ** rng.integers(-9, 9), size=d)
    omega = Knapsack(weights, weights.sum() * rng.choice([0.1, 0.5, 0.9]))
    C = hard_rows(d, n=25, seed=seed)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-11
    assert (actions[C <= 0] == 0.0).all()
    assert not np.signbit(actions).any()
    scaled = unit_rows(C)
    size = weights.max() or 1.0
    for c, action in zip(scaled, actions, strict=True):
        value = -solve_lp(-c, A_ub=[weights / size], b_ub=omega.capacity / size, bounds=(0, 1)).fun
        assert c @ action == pytest.approx(value, abs=1e-9)


def test_fractions_agree_with_sorting() -> None:
    """Whole weights often use the capacity up exactly, where sums in another order may say otherwise."""
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 30, size=200).astype(float)
    omega = Knapsack(weights, weights.sum() // 2)
    C = rng.uniform(size=(8000, 200))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-11
    order = np.argsort(-C / weights, axis=1)
    before = np.cumsum(weights[order], axis=1) - weights[order]
    share = np.clip((omega.capacity - before) / weights[order], 0.0, 1.0)
    np.testing.assert_allclose(np.take_along_axis(actions, order, axis=1), share, atol=1e-10)


@given(st.data())
def test_fractions_satisfy_optimality(data: st.DataObject) -> None:
    """At an optimum no item left out is denser than one taken, and the capacity is used or nothing is left to take."""
    d = data.draw(st.one_of(st.integers(1, 9), st.integers(13, 30)))
    numbers = st.one_of(st.integers(0, 4).map(float), st.floats(1e-3, 1e3))
    weights = np.array(data.draw(st.lists(numbers, min_size=d, max_size=d)))
    c = np.array(data.draw(st.lists(st.one_of(numbers, numbers.map(lambda x: -x)), min_size=d, max_size=d)))
    omega = Knapsack(weights, data.draw(numbers))
    (action,) = omega.argmax(c[None])
    room = omega.capacity[0] - weights @ action
    assert room >= -1e-9
    left, taken = (c > 0) & (action < 1), action > 0
    if left.any():
        assert room <= 1e-9 * max(1.0, omega.capacity[0])
        density = np.divide(c, weights, out=np.full(d, np.inf), where=weights > 0)
        assert density[left].max() <= density[taken].min(initial=np.inf) * (1 + 1e-11)


def test_tied_densities_are_taken_by_index_whatever_the_noise() -> None:
    omega = Knapsack([1, 2, 3, 6, 1], 5)
    expected = [[1.0, 1.0, 2 / 3, 0.0, 0.0]]
    weights = omega.weights[0]
    for c in (weights, weights / 3, weights * 0.1, weights * (1 + 1e-15 * np.array([-1, 0, 1, 2, 3]))):
        np.testing.assert_allclose(omega.argmax(c[None]), expected, rtol=1e-12)
    np.testing.assert_array_equal(omega.argmax([[1, 2, 3.001, 6, -1]]), [[1.0, 0.5, 1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(Knapsack(np.full(10, 0.1), 0.3).argmax(np.ones((1, 10))), [[1] * 3 + [0] * 7])


def test_weights_and_capacities_of_zero_and_extreme_size_are_solved() -> None:
    few = np.array([[1.0, 2.0, 3.0, 0.0, -1.0] * 4])  # few enough to fit, at any scale
    for weight, worth in ((1e-300, 1e300), (1e300, 1e-99), (1.0, 1e-320), (0.0, 1.0)):
        taken = Knapsack(np.full(20, weight), 12.5 * weight).argmax(worth * few)
        assert taken.sum() == pytest.approx(12.0)
        np.testing.assert_array_equal(taken > 0, few > 0)
    C = [[1.0, 2.0, 3.0, 0.0, -1.0]]
    for integer in (False, True):
        np.testing.assert_array_equal(Knapsack(np.ones(5), 99, integer).argmax(C), [[1, 1, 1, 0, 0]])
        np.testing.assert_array_equal(Knapsack([1, 0, 1, 0, 0], 0, integer).argmax(C), [[0, 1, 0, 0, 0]])
        np.testing.assert_array_equal(Knapsack(np.zeros(5), 0, integer).argmax(C), [[1, 1, 1, 0, 0]])
        np.testing.assert_array_equal(Knapsack([3], 3, integer).argmax([[2.0], [0.0], [-1.0]]), [[1], [0], [0]])
    np.testing.assert_array_equal(Knapsack([4, 1], 3).argmax([[100.0, 1.0]]), [[0.75, 0.0]])
    np.testing.assert_array_equal(Knapsack([4, 1], 3, integer=True).argmax([[100.0, 1.0]]), [[0, 1]])
    np.testing.assert_array_equal(Knapsack([1e-300, 1e-300], 1e-300).argmax([[1.0, 2.0]]), [[0, 1]])
    np.testing.assert_array_equal(Knapsack([1e-300, 1e300, 1.0], 1.0).argmax([[1.0, 1.0, 1.0]]), [[1, 0, 1]])
    np.testing.assert_array_equal(Knapsack([1e300, 1e300], 1e300, True).argmax([[1.0, 2.0]]), [[0, 1]])
    np.testing.assert_array_equal(Knapsack([0.1, 0.2], 0.3, True).argmax([[1.0, 1.0]]), [[1, 1]])


def test_several_resources_in_fractions_agree_with_scipy() -> None:
    rng = np.random.default_rng(0)
    for d, m in ((3, 2), (20, 3)):
        weights = rng.uniform(size=(m, d))
        omega = Knapsack(weights, weights.sum(axis=1) / 3)
        C = rng.normal(size=(40, d))
        actions = omega.argmax(C)
        assert omega.violation(actions).max() <= 1e-9
        for c, action in zip(C, actions, strict=True):
            value = -solve_lp(-c, A_ub=weights, b_ub=omega.capacity, bounds=(0, 1)).fun
            assert c @ action == pytest.approx(value, abs=1e-9)


# Whole items


@pytest.mark.parametrize("resources", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_whole_items_and_their_ties_agree_with_brute_force(resources: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 12))
    weights = rng.integers(0, 5, size=(resources, d))
    omega = Knapsack(weights, np.floor(weights.sum(axis=1) * rng.uniform(0.2, 0.8)), integer=True)
    C = rng.integers(-2, 6, size=(300, d)).astype(float)
    expected = best_choices(omega, C)
    np.testing.assert_array_equal(omega.argmax(C), expected)
    for noisy in (C / 3, C * 0.1, C * (1 + 2e-16 * rng.normal(size=C.shape)), C * 1e200 / 7, C * 1e-200):
        np.testing.assert_array_equal(omega.argmax(noisy), expected)


@pytest.mark.parametrize("resources", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_generic_whole_items_agree_with_brute_force(resources: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(6, 13))
    weights = rng.uniform(0.5, 1, size=(resources, d)) * 10.0 ** rng.integers(-8, 9, size=(resources, 1))
    omega = Knapsack(weights, weights.sum(axis=1) * rng.uniform(0.2, 0.8, size=resources), integer=True)
    near = omega.weights[0] / omega.weights[0].max()
    C = np.concatenate([rng.normal(size=(200, d)), near + rng.uniform(0, 0.02, size=(200, d)), near[None] + 0.1])
    np.testing.assert_array_equal(omega.argmax(C), best_choices(omega, C, tie=1e-14))


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize(("d", "resources"), [(32, 1), (48, 1), (32, 2), (24, 3)])
def test_many_items_agree_with_scipy(d: int, resources: int) -> None:
    rng = np.random.default_rng(d + resources)
    weights = rng.integers(1, 101, size=(resources, d))
    omega = Knapsack(weights, weights.sum(axis=1) / 2, integer=True)
    near = unit_rows(weights.mean(axis=0)[None])
    C = np.concatenate([rng.normal(size=(20, d)), rng.uniform(size=(6, d)), near + rng.uniform(0, 0.1, size=(2, d))])
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= FIT  # sums of shares may be off by a last digit
    for c, action in zip(C, actions, strict=True):
        assert c @ action == pytest.approx(best_value(omega, c), abs=1e-9)


@pytest.mark.parametrize("d", [3, 9, 32])
def test_branch_and_bound_agrees_with_lists_of_states(d: int) -> None:
    """Both kernels for one resource take the same items, ties included; the second solves what the first gives up."""
    rng = np.random.default_rng(d)
    weights = rng.integers(0, 9, size=d).astype(float)
    omega = Knapsack(weights, np.floor(0.4 * weights.sum()), integer=True)
    spread = np.exp(rng.normal(size=(50, d)) * 20) * rng.choice([-1, 1, 1], size=(50, d))
    whole = rng.integers(-2, 9, size=(100, d))
    near = weights + rng.uniform(0, 0.1, size=(50, d))
    C = np.concatenate([rng.normal(size=(200, d)), whole, whole / 3, spread, spread * 1e150, near, hard_rows(d)])
    np.testing.assert_array_equal(omega.argmax(C), omega._argmax(C))


@pytest.mark.parametrize("seed", range(4))
def test_items_of_equal_value_or_weight_agree_with_brute_force(seed: int) -> None:
    """As many as possible of equal values, and those alike by index; some are never taken, or weigh nothing."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 12))
    weights = rng.integers(0, 8, size=d) if seed % 2 else rng.choice([0, 2, 3, 40], size=d)
    omega = Knapsack(weights, np.floor(weights[weights < 40].sum() * rng.uniform(0.2, 0.9)), integer=True)
    some = rng.choice([-1.0, 0.0, 1.0, 1.0, 1.0], size=(200, d))
    C = np.concatenate([some, 0.1 * some, np.ones((1, d)), rng.integers(1, 3, size=(100, d))])
    np.testing.assert_array_equal(omega.argmax(C), best_choices(omega, C))


@pytest.mark.parametrize("d", [40, 70])
def test_many_items_of_equal_value_agree_with_lists_of_states(d: int) -> None:
    rng = np.random.default_rng(d)
    for weights in (rng.integers(1, 101, size=d).astype(float), rng.integers(1, 4, size=d).astype(float), np.ones(d)):
        omega = Knapsack(weights, np.floor(0.4 * weights.sum()), integer=True)
        C = rng.choice([0.0, 0.3, 0.3, 0.3], size=(50, d))
        np.testing.assert_array_equal(omega.argmax(C), omega._argmax(C))
        few = rng.integers(1, 4, size=(50, d)).astype(float)
        np.testing.assert_array_equal(omega.argmax(few), omega._argmax(few))


@pytest.mark.parametrize("d", [64, 150])
def test_more_items_in_doubt_than_bits_in_a_word(d: int) -> None:
    alike = Knapsack(np.ones(d), d // 2 + 0.5, integer=True)
    np.testing.assert_array_equal(alike.argmax(np.ones((1, d)) / 3)[0], np.arange(d) < d // 2)
    weights = np.random.default_rng(d).integers(1, 20, size=d)
    omega = Knapsack(weights, weights.sum() // 3, integer=True)
    C = np.array([weights, weights + 5, weights * 2 + 1.0])
    actions = omega.argmax(C)
    best = np.zeros((3, int(omega.capacity[0]) + 1))  # the textbook's table of the best value for every capacity
    for c, w in zip(C.T, weights, strict=True):
        best[:, w:] = np.maximum(best[:, w:], best[:, :-w] + c[:, None])
    np.testing.assert_array_equal((C * actions).sum(axis=1), best[:, -1])
    assert omega.violation(actions).max() <= FIT


@pytest.mark.parametrize("resources", [1, 2])
@pytest.mark.parametrize("integer", [False, True])
def test_batches_hints_copies_and_specs_change_nothing(resources: int, integer: bool) -> None:
    rng = np.random.default_rng(1)
    omega = Knapsack(rng.integers(0, 9, size=(resources, 10)), 20, integer)
    C = hard_rows(10)
    actions = omega.argmax(C)
    order = rng.permutation(len(C))
    np.testing.assert_array_equal(omega.argmax(C[order]), actions[order])
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C]), actions)
    for hint in (actions, actions[::-1], rng.normal(size=C.shape) * 1e9):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega)), Knapsack(**omega.spec())):
        np.testing.assert_array_equal(twin.argmax(C), actions)
    assert omega.violation(actions).max() <= 1e-9


@pytest.mark.parametrize("resources", [1, 2])
def test_mixed_sizes_lose_nothing(resources: int) -> None:
    rng = np.random.default_rng(2)
    omega = Knapsack(rng.integers(1, 9, size=(resources, 8)), 15, integer=True)
    C = np.exp(rng.normal(size=(200, 8)) * 20) * rng.choice([-1, 1, 1], size=(200, 8))
    C = np.concatenate([C, C * 1e150, [[1e-300, 1e300, 1, 1e-200, -1e300, 1e200, 5e-324, 0]]])
    scaled = unit_rows(C)
    values = scaled @ every_choice(omega).T
    np.testing.assert_allclose((scaled * omega.argmax(C)).sum(axis=1), values.max(axis=1), rtol=1e-12, atol=1e-12)


# Rows left to HiGHS


def gives_up(C: Floats, hinted: bool, actions: Floats, status: Any, own: Floats, floats: Floats, ints: Any) -> None:
    status[:] = 1


def test_rows_that_the_kernel_gives_up_are_solved_by_highs() -> None:
    rng = np.random.default_rng(3)
    omega = Knapsack(rng.integers(1, 9, size=(2, 9)), [20, 15], integer=True)
    C = np.concatenate([rng.normal(size=(10, 9)), np.zeros((1, 9)), -np.ones((1, 9))])
    expected = omega.argmax(C)
    assert omega.kernel is not None
    omega.kernel = omega.kernel._replace(function=gives_up)
    np.testing.assert_array_equal(omega.argmax(C), expected)


def test_what_highs_cannot_solve_is_an_error_or_takes_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = mixed_integer.MixedInteger(A_ub=[[1, 1]], b_ub=[1])
    monkeypatch.setattr(mixed_integer.MixedInteger, "_solve", lambda self, C: (C, {0: "kTimeLimit"}))
    monkeypatch.setattr("optensemble.feasible.knapsack.MixedInteger", lambda **_: failing)
    for on_failure, fallback in (("raise", None), ("fallback", [0, 1])):
        omega = Knapsack([[1, 1], [1, 1]], 1, True, on_failure, fallback)
        assert omega.kernel is not None
        omega.kernel = omega.kernel._replace(function=gives_up)
        if fallback is None:
            with pytest.raises(SolverError, match="row 0 could not be solved: HiGHS ended with status kTimeLimit"):
                omega.argmax([[1.0, 1.0]])
        else:
            with pytest.warns(FallbackWarning, match="1 of 1 rows"):
                np.testing.assert_array_equal(omega.argmax([[1.0, 1.0]]), [[0, 1]])


# The set itself


def test_violation_is_relative_to_the_capacity() -> None:
    actions = np.array([[1.0, 1.0], [0.5, 0.0], [1.5, 0.0], [-0.25, 0.0]])
    np.testing.assert_allclose(Knapsack([2, 3], 4).violation(actions), [0.25, 0, 0.5, 0.25])
    np.testing.assert_allclose(Knapsack([2, 3], 4, integer=True).violation(actions), [0.25, 0.5, 0.5, 0.25])
    np.testing.assert_allclose(Knapsack([[2, 3], [0, 4]], [4, 0]).violation(actions), [1, 0, 0.5, 0.25])
    np.testing.assert_allclose(Knapsack([[2, 3], [0, 0]], [4, 0]).violation(actions), [0.25, 0, 0.5, 0.25])


def test_the_bounds_are_the_unit_box() -> None:
    omega = Knapsack([[1, 2, 3], [3, 2, 1]], 3)
    np.testing.assert_array_equal([omega.lower, omega.upper], [[0] * 3, [1] * 3])
    np.testing.assert_array_equal(omega.capacity, [3, 3])
    assert repr(omega) == "Knapsack(dimension=3)"


def test_the_arguments_are_copied() -> None:
    weights, capacity = np.array([1.0, 2.0]), np.array([2.0])
    omega = Knapsack(weights, capacity)
    weights[:], capacity[:] = 9.0, 9.0
    np.testing.assert_array_equal(omega.weights, [[1, 2]])
    np.testing.assert_array_equal(omega.capacity, [2])


@pytest.mark.parametrize(
    ("weights", "capacity", "message"),
    [
        ([1, -2], 1, r"weights of a knapsack must not be negative; the least is -2\. Use Polytope .* or MixedInteger"),
        ([1, 2], -1, r"capacity of a knapsack must not be negative; got -1\..*Use Polytope or MixedInteger"),
        ([], 1, r"weights must have one entry for each item.*shape \(0,\)"),
        (3.0, 1, r"weights must have one entry for each item.*shape \(\)"),
        (np.ones((2, 2, 2)), 1, "If it differs between rows, give oe.Columns"),
        ([1, np.nan], 1, "the weights must be finite"),
        (["a", "b"], 1, "the weights must be numeric"),
        ([1, 2], np.inf, "the capacity must be finite"),
        ([1, 2], None, "the capacity must be numeric"),
        ([1, 2], [1, 2], r"for each of the 1 resources; got an array of shape \(2,\)"),
        ([[1, 2], [3, 4]], [1, 2, 3], r"for each of the 2 resources; got an array of shape \(3,\)"),
    ],
)
def test_bad_arguments_are_refused(weights: Any, capacity: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Knapsack(weights, capacity)


def test_bad_options_are_refused() -> None:
    bad: Any = [True, False]
    with pytest.raises(InputError, match=r"integer must be True .*got \[True, False\].*use MixedInteger"):
        Knapsack([1, 2], 1, integer=bad)
    with pytest.raises(InputError, match="on_failure must be"):
        Knapsack([1, 2], 1, on_failure="ignore")
    with pytest.raises(InfeasibleActionError, match="outside by 2"):
        Knapsack([1, 2], 1, True, "fallback", [1, 1])
    assert Knapsack([1, 2], 1, True, "fallback", [1, 0]).spec()["on_failure"] == "fallback"
