"""What ``violation`` promises of every set: 0 inside up to the set's tolerance, never NaN, and no odd input taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import (
    Box,
    CvxpySet,
    FeasibleSet,
    Knapsack,
    MixedInteger,
    Oracle,
    Polytope,
    RiskBudget,
    Simplex,
    TopK,
    Vertices,
)
from tests.sample_sets import every_set, hard_rows

SETS = every_set()
of_every_set = pytest.mark.parametrize("omega", SETS.values(), ids=SETS)


@of_every_set
def test_actions_of_the_sets_own_are_inside(omega: FeasibleSet) -> None:
    actions = omega.argmax(hard_rows(omega.dimension, n=20))
    assert omega.violation(actions).max() <= omega.tolerance
    assert omega.tolerance == 1e-7 * omega.extent


@of_every_set
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_the_violation_of_nan_is_infinite(omega: FeasibleSet, wrong: float) -> None:
    actions = omega.argmax(hard_rows(omega.dimension, n=3))[:3].copy()
    before = omega.violation(actions)
    actions[1, -1] = wrong
    excess = omega.violation(actions)
    assert excess[1] == np.inf
    np.testing.assert_allclose(excess[[0, 2]], before[[0, 2]], atol=omega.tolerance)
    assert (omega.violation(np.full((2, omega.dimension), wrong)) == np.inf).all()


@of_every_set
def test_numbers_too_large_to_add_up_are_outside_too(omega: FeasibleSet) -> None:
    huge = 1e308 * np.where(np.arange(omega.dimension) % 2, -1.0, 1.0)
    assert omega.violation(huge[None])[0] > omega.tolerance


@of_every_set
def test_no_rows_have_no_violation(omega: FeasibleSet) -> None:
    assert omega.violation(np.empty((0, omega.dimension))).shape == (0,)


@of_every_set
def test_violation_accepts_the_same_input_as_argmax(omega: FeasibleSet) -> None:
    action = omega.argmax(np.ones((1, omega.dimension)))
    np.testing.assert_array_equal(omega.violation(action.tolist()), omega.violation(action))
    wrong: list[Any] = [action[0], action[:, :-1], np.hstack([action, action]), "a", None, [["x"] * omega.dimension]]
    for actions in wrong:
        with pytest.raises(InputError, match="the actions must"):
            omega.violation(actions)


def test_a_policy_that_returns_nan_is_refused() -> None:
    X = np.arange(150.0)[:, None]
    policy = oe.BlackBoxEnsemble([("gap", lambda X: np.full((len(X), 2), np.nan))], Simplex(2))
    with pytest.raises((InputError, InfeasibleActionError), match="policy 'gap'"):
        policy.fit(X, np.hstack([X, -X]))


# Negative zero is zero, wherever a bound or a capacity is given


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("weights", [[1, 2, 3], [[1, 2, 3], [3, 2, 1]]])
def test_a_knapsack_without_room_takes_nothing(integer: bool, weights: Any) -> None:
    for none in (0.0, -0.0, np.negative(np.zeros(len(np.atleast_2d(weights))))):
        omega = Knapsack(weights, none, integer)
        np.testing.assert_array_equal(omega.argmax([[1.0, 2.0, 3.0], [-1.0, 0.0, 5.0]]), np.zeros((2, 3)))
        assert not np.signbit(omega.capacity).any()
    light = Knapsack([-0.0, 1.0, 2.0], 1.0, integer)
    np.testing.assert_array_equal(light.argmax([[1.0, 1.0, 0.0]]), [[1.0, 1.0, 0.0]])


def test_bounds_of_negative_zero() -> None:
    sets: list[FeasibleSet] = [
        Box(lower=-0.0, upper=[-0.0, 1.0]),
        Polytope(A_ub=[[1.0, 1.0]], b_ub=[-0.0], lower=[-0.0, -0.0]),
        Polytope(A_eq=[[1.0, 1.0]], b_eq=[-0.0], lower=-0.0),
        MixedInteger(A_ub=[[1.0, 1.0]], b_ub=[-0.0], lower=-0.0),
        RiskBudget(np.diag([0.0, 1.0]), -0.0),
        TopK(2, 1),
    ]
    for omega in sets:
        actions = omega.argmax([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
        assert not np.signbit(omega.lower).any()
        assert not np.signbit(omega.upper).any()
        assert not np.signbit(actions).any(), omega


@pytest.mark.no_cover
@pytest.mark.slow
def test_negative_zeros_of_a_covariance_change_nothing() -> None:
    """They change what a solver of eigenvalues finds, and so the last digits, where it cannot tell some apart."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        d = int(rng.integers(4, 14))
        factors = rng.normal(size=(d, 3)) * (rng.random((d, 3)) < 0.6)
        matrix = factors @ factors.T + np.diag(rng.random(d) * (rng.random(d) < 0.7))
        sector = (rng.random((2, d)) < 0.4).astype(float)
        C = rng.integers(-2, 3, size=(12, d)).astype(float)
        constraints: list[dict[str, Any]] = [{}, {"A_ub": sector, "b_ub": [0.7, 0.8]}]
        for rows in constraints:
            least = RiskBudget(matrix, 1e9, **rows).least_variance
            for limit in (least, 1.0001 * least, 1.5 * least):
                negative = RiskBudget(np.where(matrix == 0, -0.0, matrix), limit, **rows)
                np.testing.assert_array_equal(RiskBudget(matrix, limit, **rows).argmax(C), negative.argmax(C))


def test_actions_that_are_given_have_no_negative_zeros() -> None:
    assert not np.signbit(Vertices([[-0.0, 1.0]]).argmax([[1.0, 1.0]])).any()
    box = Polytope(A_ub=[[1.0, 1.0]], b_ub=[1.0], on_failure="fallback", fallback=[-0.0, -0.0])
    assert box.fallback is not None
    assert not np.signbit(box.fallback).any()
    oracle = Oracle(lambda C: np.full_like(C, -0.0), 2, lower=-1.0, upper=1.0)
    assert not np.signbit(oracle.argmax([[1.0, 1.0]])).any()


def test_a_cone_has_a_violation_for_every_number() -> None:
    cp = pytest.importorskip("cvxpy")
    a, c = cp.Variable(3), cp.Parameter(3)
    omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1, a >= 0]), a, c)
    assert omega.recognised == "conic"
    excess = omega.violation(
        [[0.5, 0.0, 0.0], [1e12, 0.0, 0.0], [1.5, 0.0, 0.0], [-1e300, 1e300, 0.0], [1.0, 1.0, 0.0]]
    )
    np.testing.assert_allclose(excess, [0.0, 1e12, 0.5, 1e300, 1.0 - 0.5**0.5], rtol=1e-6, atol=1e-7)
