"""RiskBudget: hints of earlier rounds change no bit of an action."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.feasible.risk_budget import RiskBudget
from tests.feasible.risk_budgets import EVERY, sectors
from tests.sample_sets import covariance, hard_rows


@pytest.mark.parametrize("name", sorted(EVERY))
def test_hints_and_neighbours_never_change_a_bit(name: str) -> None:
    omega = EVERY[name]
    rng = np.random.default_rng(4)
    C = np.concatenate([hard_rows(omega.dimension, n=20, seed=5), rng.integers(-4, 5, (20, omega.dimension)) / 3.0])
    actions = omega.argmax(C)
    half = np.where(rng.random(C.shape) < 0.3, 0.0, actions)
    nearly = omega.argmax(C + 0.05 * rng.normal(size=C.shape) * np.abs(C).max(axis=1, keepdims=True))
    for hint in (actions, actions[::-1], half, nearly, rng.normal(size=C.shape), np.full(C.shape, 1e300)):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    order = rng.permutation(len(C))
    np.testing.assert_array_equal(omega.argmax(C[order]), actions[order])
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C[:30]]), actions[:30])


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "name", ["four", "eight", "low rank", "twelve", "large low rank", "caps", "sectors", "balanced"]
)
def test_hints_change_no_bit_where_one_support_turns_into_another(name: str) -> None:
    """Between two rows with different supports lies a row where a weight vanishes; around it hints are half right."""
    omega = EVERY[name]
    rng = np.random.default_rng(12)
    for _ in range(15):
        one, other = rng.normal(size=(2, omega.dimension))
        low, high = 0.0, 1.0
        support = omega.argmax(one[None])[0] > 0
        for _ in range(60):
            middle = (low + high) / 2
            same = np.array_equal(omega.argmax((one + middle * (other - one))[None])[0] > 0, support)
            low, high = (middle, high) if same else (low, middle)
        nudges = np.concatenate([-(10.0 ** -np.arange(3.0, 17.0)), 10.0 ** -np.arange(3.0, 17.0)])
        C = one + (low + nudges)[:, None] * (other - one)
        actions = omega.argmax(C)
        for hint in (actions[:1], actions[-15:-14], actions[14:15], omega.argmax(other[None])):
            np.testing.assert_array_equal(omega.argmax(C, hint=np.tile(hint, (len(C), 1))), actions)


@pytest.mark.parametrize(("times", "seed"), [(0.15, 13), (0.15, 5), (2.0, 1), (2.0, 7), (100.0, 1)])
def test_hints_prove_nothing_that_is_not_found_without_them(times: float, seed: int) -> None:
    """Around a change of support, under a loose limit, the line may lead nowhere where a lucky hint is proven."""
    rng, matrix = np.random.default_rng(seed), covariance(10, seed)
    limit = times * float(np.diag(matrix).max())
    omega = RiskBudget(matrix, limit, A_ub=sectors(10), b_ub=[0.4, 0.35, 0.3])
    one, other = rng.normal(size=(2, 10))
    low, high, support = 0.0, 1.0, omega.argmax(one[None])[0] > 0
    for _ in range(50):
        middle = (low + high) / 2
        same = np.array_equal(omega.argmax((one + middle * (other - one))[None])[0] > 0, support)
        low, high = (middle, high) if same else (low, middle)
    nudges = np.concatenate([-(10.0 ** -np.arange(4.0, 12.0)), 10.0 ** -np.arange(4.0, 12.0)])
    C = one + (low + nudges)[:, None] * (other - one)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    lucky = [rng.random(C.shape) * (rng.random(C.shape) < share) for share in (0.2, 0.3, 0.5)]
    for hint in (*(np.tile(action, (len(C), 1)) for action in actions), *lucky):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C]), actions)


@pytest.mark.parametrize("seed", range(6))
def test_wrong_hints_change_nothing_under_a_limit_far_above_the_least_variance(seed: int) -> None:
    """Limits of up to some 1e11 times the least variance: of what is certain there, few digits are left."""
    rng, d = np.random.default_rng(seed), 10
    risk = np.concatenate([[1e-5], 10.0 ** rng.uniform(-2, 0.5, size=d - 1)])
    root = rng.normal(size=(d, 3))
    matrix = np.outer(risk, risk) * (root @ root.T / 3 + np.diag(rng.uniform(0.1, 1.0, size=d)))
    caps = 1.0 if seed % 2 else 0.6
    least = RiskBudget(matrix, 1e9, upper=caps).least_variance
    omega = RiskBudget(matrix, float(np.diag(matrix).max()) * (0.3, 0.9, 2.0)[seed % 3], upper=caps)
    assert seed % 2 == 0 or omega.limit / least > 1e9
    C = np.concatenate([rng.normal(size=(40, d)), rng.integers(-2, 3, size=(20, d)).astype(float)])
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= omega.tolerance
    for hint in (actions, actions[::-1], np.eye(d)[rng.integers(d, size=len(C))], rng.dirichlet(np.ones(d), len(C))):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)


def test_a_hint_moves_nothing_where_a_row_makes_assets_nearly_tied() -> None:
    """The limit does not bind, and a sector leaves little of the coefficients: the better end of an edge is best."""
    matrix = [
        [3.6, 2.16, -1.41, 1.4, 0.62],
        [2.16, 5.67, -1.09, -0.24, 0.51],
        [-1.41, -1.09, 2.42, 0.78, 1.89],
        [1.4, -0.24, 0.78, 3.56, 3.08],
        [0.62, 0.51, 1.89, 3.08, 5.27],
    ]
    omega = RiskBudget(matrix, 14.0, A_ub=[[0, 1, 0, 1, 1]], b_ub=[0.6])
    for nudge in (*(10.0 ** -np.arange(1.0, 11.0)), 5e-9, 3e-9, 7e-9):
        C = np.array([[-0.73, -1.68, -0.73 + nudge, 1.03, -2.44]])
        action = omega.argmax(C)
        best = np.array([0.0, 0.0, 0.4, 0.6, 0.0])
        assert (C @ (best - action[0])).max() <= 1e-12
        if nudge > 1e-8:  # below, actions of nearly equal value are far apart
            np.testing.assert_allclose(action, [best], atol=1e-7)
        for hint in ([[0, 0, 0.4, 0.6, 0]], [[0.4, 0, 0, 0.6, 0]], [[0.2, 0, 0.2, 0.6, 0]], [[0, 0, 1, 0, 0]]):
            np.testing.assert_array_equal(omega.argmax(C, hint=hint), action)


def test_a_hint_moves_no_bit_at_a_corner_that_meets_the_limit() -> None:
    """A limit that is the variance of an asset, or of a corner, may bind there or not."""
    rng = np.random.default_rng(0)
    root = np.round(rng.normal(size=(9, 3)), 1)
    matrix = root @ root.T + 0.5 * np.eye(9)
    for asset in range(9):
        omega = RiskBudget(matrix, matrix[asset, asset], A_ub=[[1.0] * 2 + [0.0] * 7], b_ub=[0.9])
        C = np.where(np.arange(9) == asset, 1.0, rng.choice([-1.0, 0.0, 0.5], size=(30, 9)))
        actions = omega.argmax(C)
        for hint in (actions, np.eye(9)[[asset] * 30], np.eye(9)[rng.integers(9, size=30)]):
            np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
