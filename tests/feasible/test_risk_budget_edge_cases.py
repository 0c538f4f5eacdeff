"""RiskBudget where limits, caps, sectors or covariances are extreme."""

from __future__ import annotations

import copy
import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from optensemble.feasible._solvers.risk_budget.cone import ConeProgram
from optensemble.feasible._solvers.risk_budget.support_search import pull_inside
from optensemble.feasible.risk_budget import RiskBudget
from tests.feasible.risk_budgets import EVERY, PLAIN, factor_model, sectors, tight, wishart
from tests.sample_sets import Floats, covariance, hard_rows


def test_ties_go_to_the_first_candidate() -> None:
    np.testing.assert_array_equal(PLAIN["loose"].argmax(np.zeros((1, 4))), [[1.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(PLAIN["loose"].argmax([[0.0, 0.1 + 0.2, 0.3, 0.0]]), [[0.0, 1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(PLAIN["large loose"].argmax(np.zeros((1, 12))), np.eye(12)[:1])
    tied = PLAIN["twelve"].argmax(np.ones((1, 12)))[0]
    assert tied @ PLAIN["twelve"].covariance @ tied == pytest.approx(PLAIN["twelve"].least_variance)


def first_best(c: Floats, omega: RiskBudget) -> Floats:
    """The documented rule, candidate by candidate: a later one must win by 1e-12 of the largest coefficient."""
    d, to_beat, best = omega.dimension, -np.inf, np.zeros(omega.dimension)
    for size in range(1, d + 1):
        for members in map(list, combinations(range(d), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[-1, -1] = omega.covariance[np.ix_(members, members)], 0.0
            inverse = np.linalg.inv(system)
            centre, room = inverse[:size, -1], omega.limit + inverse[-1, -1]
            gain = inverse[:size, :size] @ (c[members] - c[members[0]])
            if room < 0.0:
                continue
            curvature = float(gain @ (c[members] - c[members[0]]))
            weights = centre + (np.sqrt(room / curvature) * gain if size > 1 and curvature > 0.0 else 0.0)
            if weights.min() >= -1e-12 and c[members] @ weights > to_beat:
                to_beat = c[members] @ weights + 1e-12 * np.abs(c).max()
                best = np.zeros(d)
                best[members] = weights
    return best


@pytest.mark.no_cover
@pytest.mark.parametrize("omega", [tight(wishart(3), 1.4), tight(wishart(4)), tight(wishart(5, 1), 2.5)])
def test_the_closed_form_follows_its_rule_where_a_weight_vanishes(omega: RiskBudget) -> None:
    rng = np.random.default_rng(13)
    for _ in range(10):
        one, other = rng.normal(size=(2, omega.dimension))
        low, high, held = 0.0, 1.0, np.count_nonzero(first_best(one, omega))
        for _ in range(45):
            middle = (low + high) / 2
            same = np.count_nonzero(first_best(one + middle * (other - one), omega)) == held
            low, high = (middle, high) if same else (low, middle)
        # Nearer than this the rule itself hangs on the last bits of two values.
        for nudge in (-1e-3, -1e-5, -3e-7, 3e-7, 1e-5, 1e-3):
            c = one + (low + nudge) * (other - one)
            np.testing.assert_allclose(omega.argmax(c[None])[0], first_best(c, omega), atol=1e-9)


def test_noise_does_not_break_ties() -> None:
    rng = np.random.default_rng(2)
    for name in ("four", "loose", "eight", "twins", "large loose"):
        C = rng.integers(-2, 3, size=(50, PLAIN[name].dimension)) / 3.0
        noisy = C + 1e-17 * rng.normal(size=C.shape)
        np.testing.assert_allclose(PLAIN[name].argmax(noisy), PLAIN[name].argmax(C), atol=1e-12)


def test_a_loose_limit_fills_the_largest_coefficients_up_to_their_caps() -> None:
    omega = RiskBudget(wishart(10), 100.0, upper=0.3)
    C = np.random.default_rng(3).normal(size=(50, 10))
    expected = np.zeros_like(C)
    for row, order in zip(expected, np.argsort(-C, axis=1), strict=True):
        row[order[:4]] = [0.3, 0.3, 0.3, 0.1]
    np.testing.assert_allclose(omega.argmax(C), expected, atol=1e-15)
    np.testing.assert_allclose(omega.argmax(np.ones((1, 10)))[0, :5], [0.3, 0.3, 0.3, 0.1, 0.0], atol=1e-15)
    even = RiskBudget(np.eye(4), 1.0, upper=0.25)
    np.testing.assert_array_equal(even.argmax([[3.0, 1.0, 2.0, 0.0]]), np.full((1, 4), 0.25))


def test_caps_and_sectors_that_allow_everything_change_nothing() -> None:
    C = np.random.default_rng(5).normal(size=(50, 12))
    omega = PLAIN["twelve"]
    wide = RiskBudget(omega.covariance, omega.limit, upper=2.0)
    np.testing.assert_array_equal(wide.argmax(C), omega.argmax(C))
    free = RiskBudget(omega.covariance, omega.limit, A_ub=sectors(12), b_ub=[1.5, 1.5, 1.5])
    np.testing.assert_allclose(free.argmax(C), omega.argmax(C), atol=1e-12)


def test_a_vanishing_coordinate_neither_jumps_nor_leaves_the_set() -> None:
    for omega in (RiskBudget(np.eye(3), 0.6), RiskBudget(np.eye(3), 0.6, A_ub=[[1.0, 0.0, 0.0]], b_ub=[1.0])):
        edge = omega.argmax([[1.0, 0.0, -1.0]])[0]
        for nudge in 10.0 ** -np.arange(4.0, 17.0):
            actions = omega.argmax([[1.0, 0.0, -1.0 + nudge], [1.0, nudge, -1.0]])
            assert omega.violation(actions).max() <= 1e-12
            assert np.abs(actions - edge).max() <= 10 * nudge + 1e-5


@pytest.mark.parametrize("constraints", [{}, {"upper": 0.6}, {"A_ub": [[1.0] + [0.0] * 11], "b_ub": [0.5]}])
def test_the_limit_may_be_the_least_variance(constraints: dict[str, Any]) -> None:
    for d in (3, 12) if not constraints else (12,):
        C = covariance(d, 6)
        least = RiskBudget(C, 100.0, **constraints)
        omega = RiskBudget(C, least.least_variance, **constraints)
        actions = omega.argmax(hard_rows(d, n=5))
        np.testing.assert_allclose(actions, np.tile(least._centre, (len(actions), 1)), atol=1e-4)
        assert omega.violation(actions).max() <= 1e-8


def test_a_singular_covariance_leaves_a_face_of_least_variance() -> None:
    slopes = np.linspace(-1.0, 1.0, 11)
    omega = RiskBudget(np.outer(slopes, slopes), 0.0)
    C = np.random.default_rng(2).normal(size=(50, 11))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    np.testing.assert_allclose(actions @ slopes, 0.0, atol=1e-9)
    balanced = (C[:, 0] + C[:, -1]) / 2
    assert ((C * actions).sum(axis=1) >= np.maximum(balanced, C[:, 5]) - 1e-9).all()
    np.testing.assert_array_equal(omega.argmax(C[::-1])[::-1], actions)


def test_duplicated_assets_do_not_matter() -> None:
    once = tight(wishart(9))
    twice = RiskBudget(np.kron(np.ones((2, 2)), once.covariance), once.limit)
    C = np.random.default_rng(7).normal(size=(40, 9))
    folded = twice.argmax(np.tile(C, (1, 2))).reshape(40, 2, 9).sum(axis=1)
    np.testing.assert_allclose((C * folded).sum(axis=1), (C * once.argmax(C)).sum(axis=1), atol=1e-8)


@pytest.mark.parametrize("d", [5, 12])
def test_factors_say_the_same_as_their_covariance(d: int) -> None:
    rng = np.random.default_rng(8)
    F, D = rng.normal(size=(d, 3)), rng.uniform(0.1, 1.0, size=d)
    C = rng.normal(size=(30, d))
    for specific in (D, 0.2, 0.0):
        matrix = F @ F.T + specific * np.eye(d)
        limit = 1.5 * RiskBudget(matrix, 1e9).least_variance + 0.1
        omega = RiskBudget(factors=F, specific=specific, limit=limit)
        np.testing.assert_allclose(omega.covariance, matrix)
        np.testing.assert_allclose(omega.argmax(C), RiskBudget(matrix, limit).argmax(C), atol=1e-9)
        spec = omega.spec()
        np.testing.assert_array_equal(spec["factors"], F)
        np.testing.assert_array_equal(spec["specific"], specific)
        assert "covariance" not in spec


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(EVERY))
def test_specs_copies_and_pickles_decide_alike(name: str) -> None:
    omega = EVERY[name]
    C = hard_rows(omega.dimension, n=5)
    expected = omega.argmax(C)
    for twin in (RiskBudget(**omega.spec()), copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), expected)


def test_a_tiny_limit_beside_a_large_variance_loses_nothing() -> None:
    rng = np.random.default_rng(9)
    matrix = np.zeros((12, 12))
    matrix[:6, :6] = 1e-13 * wishart(6)
    matrix[6:, 6:] = wishart(6, 1)
    omega = tight(matrix, 2.0)
    small = RiskBudget(1e13 * matrix[:6, :6], 1e13 * omega.limit)
    C = np.concatenate([rng.normal(size=(20, 6)), np.full((20, 6), -10.0)], axis=1)
    best = (C[:, :6] * small.argmax(C[:, :6])).sum(axis=1)
    assert np.abs((C * omega.argmax(C)).sum(axis=1) - best).max() <= 1e-8


def test_rows_beyond_the_limit_are_pulled_to_it() -> None:
    actions = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    pull_inside(actions, np.eye(2), 0.68, 1e-9, np.array([0.5, 0.5]))
    np.testing.assert_allclose(actions, [[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])
    flat = np.array([[1.0, 0.0]])
    pull_inside(flat, np.ones((2, 2)), 0.5, 1e-9, np.array([0.5, 0.5]))
    np.testing.assert_array_equal(flat, [[0.5, 0.5]])


def sectors_that_fill_up(dimension: int = 12, **arguments: Any) -> RiskBudget:
    """Three sectors of at most a half each: two full ones leave nothing, and say what the sum says."""
    caps = np.repeat(np.eye(3), dimension // 3, axis=1)
    return RiskBudget(factor_model(dimension), 0.4, A_ub=caps, b_ub=[0.5] * 3, **arguments)


def test_sectors_that_fill_up_are_not_proven_by_rounding() -> None:
    omega = sectors_that_fill_up()
    C = np.random.default_rng(1).normal(size=(300, 12))
    actions = omega.argmax(C)
    for hint in (actions, actions[::-1], np.random.default_rng(2).normal(size=C.shape)):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    approximate = ConeProgram(omega.covariance, omega.limit, omega._rows).try_argmax(C)[0]
    assert ((approximate - actions) * C).sum(axis=1).max() <= 1e-7
    assert omega.violation(actions).max() <= 1e-9


@pytest.mark.parametrize(
    ("A_ub", "b_ub", "same"),
    [
        ([[1, 1, 1, 1]], [1.0], {}),
        ([[1, 1, 0, 0]], [1.0], {}),
        ([[1, 1, 0, 0], [1, 1, 0, 0]], [0.5, 0.5], {"A_ub": [[1, 1, 0, 0]], "b_ub": [0.5]}),
        ([[1, 1, 0, 0], [0, 0, 1, 1]], [0.5, 0.5], {"A_eq": [[1, 1, 0, 0]], "b_eq": [0.5]}),
        ([[1, 1, 0, 0], [-1, -1, 0, 0]], [0.5, -0.5], {"A_eq": [[1, 1, 0, 0]], "b_eq": [0.5]}),
    ],
)
def test_constraints_that_repeat_others_or_always_bind(A_ub: Any, b_ub: Any, same: dict[str, Any]) -> None:
    C = np.random.default_rng(3).normal(size=(200, 4))
    covariance = factor_model(6)[:4, :4]
    limit = 1.5 * RiskBudget(covariance, 100.0, A_ub=A_ub, b_ub=b_ub).least_variance
    actions = RiskBudget(covariance, limit, A_ub=A_ub, b_ub=b_ub).argmax(C)
    np.testing.assert_allclose(actions, RiskBudget(covariance, limit, **same).argmax(C), atol=1e-9)
