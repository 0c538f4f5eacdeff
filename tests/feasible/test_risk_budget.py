from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from itertools import combinations
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from optensemble.exceptions import (
    EmptySetError,
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)
from optensemble.feasible._base import run_kernel
from optensemble.feasible._solvers.risk_budget.cone import WAYS, ConeProgram
from optensemble.feasible._solvers.risk_budget.supports import pull_inside
from optensemble.feasible.risk_budget import RiskBudget
from tests.sample_sets import Floats, covariance, hard_rows

general_solver: Any = minimize


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    return np.asarray(C / np.where(size > 0, size, 1.0))


def wishart(d: int, seed: int = 0) -> Floats:
    factor = np.random.default_rng(seed).normal(size=(d, d + 10))
    product: Floats = factor @ factor.T / (d + 10)
    return product


def sectors(d: int, count: int = 3) -> Floats:
    member = np.zeros((count, d))
    member[np.arange(d) % count, np.arange(d)] = 1.0
    return member


def tight(matrix: Floats, times: float = 1.7, **constraints: Any) -> RiskBudget:
    """A set whose limit is a multiple of the least variance."""
    least = RiskBudget(matrix, 1e9, **constraints).least_variance
    return RiskBudget(matrix, times * least, **constraints)


def independent_values(C: Floats, omega: RiskBudget) -> Floats:
    """The best values by Clarabel, on the problem written down afresh; NaN where it does not solve it."""
    d, spec = omega.dimension, omega.spec()
    rows, right = [np.ones((1, d))], [np.ones(1)]
    if "A_eq" in spec:
        rows, right = [*rows, spec["A_eq"]], [*right, spec["b_eq"]]
    equal = sum(len(part) for part in right)
    rows, right = [*rows, -np.eye(d), np.eye(d)], [*right, np.zeros(d), omega.upper]
    if "A_ub" in spec:
        rows, right = [*rows, spec["A_ub"]], [*right, spec["b_ub"]]
    total = sum(len(part) for part in right)
    values, vectors = np.linalg.eigh(omega.covariance / omega.limit)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    matrix = sparse.csc_matrix(np.concatenate([*rows, np.zeros((1, d)), -root]))
    bound = np.concatenate([*right, [1.0], np.zeros(d)])
    cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(total - equal), clarabel.SecondOrderConeT(1 + d)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    found = np.full(len(C), np.nan)
    for i, c in enumerate(C):
        solution = clarabel.DefaultSolver(sparse.csc_matrix((d, d)), -c, matrix, bound, cones, options).solve()
        if str(solution.status) == "Solved":
            found[i] = -solution.obj_val_dual
    return found


def slsqp_value(c: Floats, omega: RiskBudget) -> float:
    """The value by a general solver, from the better of two starts."""
    d, C, limit = omega.dimension, omega.covariance, omega.limit
    constraints = [
        {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(d)},
        {"type": "ineq", "fun": lambda a: 1 - a @ C @ a / limit, "jac": lambda a: -2 * C @ a / limit},
    ]
    results = [
        general_solver(
            lambda a: -c @ a,
            start,
            jac=lambda a: -c,
            bounds=[(0, 1)] * d,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 300},
        )
        for start in (np.full(d, 1 / d), omega._centre)
    ]
    inside = [-r.fun for r in results if r.success and omega.violation(r.x[None])[0] < 1e-7]
    return float(max(inside, default=-np.inf))


def duality_gap(c: Floats, action: Floats, omega: RiskBudget) -> float:
    """How far the action can be from optimal, by weak duality.

    Every price t >= 0 of risk bounds the best value by ``max_j (c - 2tCa)_j + t(limit + a'Ca)``. The price
    that equalises the held coordinates is the one to try, beside zero.
    """
    risk = omega.covariance @ action
    held = action > 1e-9
    design = np.column_stack([2 * risk[held], np.ones(held.sum())])
    price = max(float(np.linalg.lstsq(design, c[held], rcond=None)[0][0]), 0.0)
    bounds = [(c - 2 * t * risk).max() + t * (omega.limit + action @ risk) for t in (0.0, price)]
    return float(min(bounds) - c @ action)


PLAIN = {
    "one": RiskBudget([[2.0]], 2.0),
    "two": RiskBudget([[4.0, 0.5], [0.5, 1.0]], 1.5),
    "four": RiskBudget(covariance(4, 1), float(np.diag(covariance(4, 1)).min() * 0.9)),
    "barely": tight(wishart(4), 1.0005),
    "loose": RiskBudget(covariance(4, 1), 100.0),
    "eight": RiskBudget(covariance(8, 2), 0.25),
    "low rank": RiskBudget(covariance(6, 3, rank=2), 0.05),
    "twins": RiskBudget(np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0]), 1.2),
    "zero": RiskBudget(np.zeros((3, 3)), 0.0),
    "nine": tight(wishart(9)),
    "twelve": RiskBudget(covariance(12, 4), float(np.diag(covariance(12, 4)).min() * 0.6)),
    "large low rank": RiskBudget(covariance(12, 5, rank=3), 0.05),
    "large rank one": RiskBudget(np.outer(np.arange(-4.0, 8.0), np.arange(-4.0, 8.0)), 0.5),
    "large zero": RiskBudget(np.zeros((10, 10)), 0.0),
    "large loose": RiskBudget(covariance(12, 4), 100.0),
    "fifty": tight(wishart(50)),
}
CONSTRAINED = {
    "caps": tight(wishart(12), upper=0.2),
    "small caps": tight(wishart(4), 1.3, upper=[0.3, 0.5, 0.4, 1.0]),
    "caps low rank": RiskBudget(covariance(12, 5, rank=3), 0.05, upper=0.3),
    "sectors": tight(wishart(12), A_ub=sectors(12), b_ub=[0.4, 0.35, 0.3]),
    "small sectors": tight(wishart(5), 1.3, A_ub=sectors(5, 2), b_ub=[0.6, 0.5], upper=0.45),
    "sectors and caps": tight(wishart(15, 3), A_ub=10 * sectors(15), b_ub=[4.0, 4.0, 4.0], upper=0.15),
    "balanced": tight(wishart(10, 2), A_eq=[np.linspace(-1.0, 1.0, 10), np.linspace(-2.0, 2.0, 10)], b_eq=[0.1, 0.2]),
    "singular sectors": RiskBudget(covariance(10, 6, rank=3), 0.1, A_ub=sectors(10), b_ub=[0.5, 0.5, 0.4]),
    "fifty sectors": tight(wishart(50), A_ub=sectors(50, 5), b_ub=np.full(5, 0.3)),
}
EVERY = {**PLAIN, **CONSTRAINED}


@pytest.mark.parametrize("name", PLAIN)
def test_actions_are_optimal_by_weak_duality(name: str) -> None:
    omega = PLAIN[name]
    C = hard_rows(omega.dimension, n=25)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-8
    gaps = [duality_gap(c, action, omega) for c, action in zip(scaled(C), actions, strict=True)]
    assert max(gaps) <= 1e-8


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("zero", "large zero")])
def test_values_are_those_of_an_independent_solver(name: str) -> None:
    omega = EVERY[name]
    C = scaled(hard_rows(omega.dimension, n=8 if omega.dimension > 20 else 40, seed=3))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    assert (actions >= 0.0).all()
    assert (actions <= omega.upper).all()
    best = independent_values(C, omega)
    assert np.isfinite(best).mean() > 0.8
    gaps = best - (C * actions).sum(axis=1)
    assert np.nanmax(np.abs(gaps)) <= 2e-7


@pytest.mark.parametrize("name", ["two", "four", "eight", "low rank", "twins", "twelve", "large low rank"])
def test_actions_are_no_worse_than_a_general_solver(name: str) -> None:
    omega = PLAIN[name]
    C = scaled(hard_rows(omega.dimension, n=15, seed=8))
    for c, action in zip(C, omega.argmax(C), strict=True):
        assert c @ action >= slsqp_value(c, omega) - 1e-7


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


@settings(max_examples=60, deadline=None)
@given(
    d=st.sampled_from([1, 2, 3, 5, 8, 9, 11]),
    seed=st.integers(0, 10**6),
    rank=st.sampled_from([1, 2, 20]),
    times=st.sampled_from([1.0, 1.01, 1.5, 4.0]),
    cap=st.sampled_from([1.0, 0.7]),
)
def test_random_sets_are_solved_to_optimality(d: int, seed: int, rank: int, times: float, cap: float) -> None:
    matrix = covariance(d, seed, rank=min(rank, d + 2))
    upper = max(cap, 1.0 / d)
    least = RiskBudget(matrix, 1e9, upper=upper).least_variance
    omega = RiskBudget(matrix, times * least + 0.01 * float(np.diag(matrix).max()), upper=upper)
    C = np.random.default_rng(seed).normal(size=(6, d))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    np.testing.assert_array_equal(omega.argmax(C, hint=actions), actions)
    best = independent_values(scaled(C), omega)
    assert np.nanmax(best - (scaled(C) * actions).sum(axis=1), initial=0.0) <= 2e-7


@pytest.mark.parametrize("name", ["four", "eight", "twelve", "caps", "sectors", "fifty sectors"])
def test_the_size_of_coefficients_does_not_matter(name: str) -> None:
    omega = EVERY[name]
    C = np.random.default_rng(6).normal(size=(30, omega.dimension))
    actions = omega.argmax(C)
    for size in (1e300, 1e-300, 1e-8):
        np.testing.assert_allclose(omega.argmax(C * size), actions, atol=1e-9)
    np.testing.assert_allclose(omega.argmax(C + 1e3), actions, atol=1e-7)


@pytest.mark.parametrize("name", ["twelve", "fifty", "caps", "sectors", "balanced"])
def test_the_kernel_and_the_solver_behind_it_agree(name: str) -> None:
    omega = EVERY[name]
    C = np.random.default_rng(0).normal(size=(40, omega.dimension))
    exact = omega.argmax(C)
    twin = copy.deepcopy(omega)
    twin._packed = None
    actions = twin._by_solver(C)
    np.testing.assert_allclose(actions, exact, atol=1e-5)
    # Where the kernels give up, they still make an approximate action exact.
    omega._polish(C, actions, {})
    np.testing.assert_array_equal(actions, exact)


def spread_out(C: Floats) -> Floats:
    """Coefficients between -1 and 0, as the solver behind the kernels sees them."""
    return np.asarray((C - C.max(axis=1, keepdims=True)) / np.ptp(C, axis=1, keepdims=True))


@pytest.mark.parametrize("times", [1.0001, 1.01, 1.7])
@pytest.mark.parametrize(
    "constraints",
    [{}, {"upper": 0.2}, {"A_ub": sectors(20), "b_ub": [0.4, 0.4, 0.4], "upper": 0.15}],
)
def test_the_solver_behind_the_kernels_leaves_no_row_unsolved(times: float, constraints: dict[str, Any]) -> None:
    """At the tolerance asked for it ends in all manner of ways; what counts is that the gap is closed."""
    rng = np.random.default_rng(21)
    orders = 10.0 ** rng.uniform(-2.0, 2.0, 20)
    for matrix in (wishart(20), factor_model(20), wishart(20, 1) * np.outer(orders, orders)):
        omega = tight(matrix, times, **constraints)
        C = rng.normal(size=(6, 20))
        exact = omega.argmax(C)
        omega._packed = None
        actions = omega._by_solver(C)
        assert omega.violation(actions).max() <= 1e-8
        assert (spread_out(C) * (exact - actions)).sum(axis=1).max() <= 2e-8


@pytest.mark.parametrize("name", ["twelve", "caps", "sectors", "balanced", "large low rank"])
def test_bounds_hold_whatever_the_prices_are(name: str) -> None:
    omega, rng = EVERY[name], np.random.default_rng(22)
    assert isinstance(omega._program, ConeProgram)
    C = spread_out(rng.normal(size=(20, omega.dimension)))
    best = (C * omega.argmax(C)).sum(axis=1)
    for way in range(len(WAYS)):
        assert np.abs(omega._program.try_argmax(C, way).bounds - best).max() <= 1e-8
        _, root = omega._program._solver(way)
        for c, value in zip(C, best, strict=True):
            y, u = rng.normal(size=len(omega._rows.b)), rng.normal(size=len(root))
            assert omega._program._bound(c, omega._centre, y, u, root) >= value - 1e-9


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


def test_the_solver_behind_the_kernels_keeps_to_the_tolerance_of_small_caps() -> None:
    """Assets nearly the same, and hardly any room above the least variance: rows may fail, but not be outside."""
    answered = 0
    for seed in range(85, 95):
        rng = np.random.default_rng([12, seed])
        d = int(rng.integers(12, 40))
        root = rng.normal(size=(d // 2, d))
        root = root[np.arange(d) % len(root)] + 1e-6 * rng.normal(size=(d, d))
        omega = tight(root @ root.T / d, 1 + 1e-8, upper=2 / d, A_ub=sectors(d)[:2], b_ub=[0.4, 0.35])
        for c in rng.normal(size=(6, d)):
            with suppress(SolverError):
                assert omega.violation(omega.argmax(c[None]))[0] <= omega.tolerance
                answered += 1
    assert answered > 30


def test_ordinary_rows_need_no_other_solver() -> None:
    for name in (*PLAIN, *CONSTRAINED):
        omega = EVERY[name]
        C = np.random.default_rng(1).normal(size=(200, omega.dimension))
        if omega.kernel is None:
            continue
        _, status = run_kernel(omega.kernel, C)
        if omega._packed is not None and status.any():
            _, status = run_kernel(omega._line, C[status > 0])
        assert status.mean() <= (0.25 if name == "singular sectors" else 0.0), name


def test_guesses_are_proven_for_nearly_all_rows_of_regular_sets() -> None:
    for name in ("nine", "twelve", "fifty", "caps", "sectors", "fifty sectors"):
        omega = EVERY[name]
        assert omega.kernel is not None
        C = np.random.default_rng(1).normal(size=(500, omega.dimension))
        actions, status = run_kernel(omega.kernel, C)
        assert status.mean() < 0.05, name
        proven = status == 0
        exact, _ = run_kernel(omega._line, C)  # another road to the same bits
        np.testing.assert_array_equal(actions[proven], exact[proven])


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


class Stuck:
    """A solver that never gets anywhere."""

    x, z = (1.0,) * 12, (0.0,) * 50
    status = "MaxIterations"

    def update(self, q: Floats) -> None:
        pass

    def solve(self) -> Stuck:
        return self


def stuck(**arguments: Any) -> RiskBudget:
    omega = RiskBudget(PLAIN["twelve"].covariance, PLAIN["twelve"].limit, **arguments)
    assert isinstance(omega._program, ConeProgram)
    omega.kernel = omega._packed = None
    omega._program._local.solvers = {way: (Stuck(), np.eye(12)) for way in range(len(WAYS))}
    return omega


def test_an_unsolved_row_is_named() -> None:
    C = np.random.default_rng(0).normal(size=(2, 12))
    with pytest.raises(
        SolverError, match=r"row 0 could not be solved: Clarabel ended with status MaxIterations.*likely"
    ):
        stuck().argmax(C)


def test_an_unsolved_row_may_take_the_fallback() -> None:
    centre = PLAIN["twelve"]._centre
    omega = stuck(on_failure="fallback", fallback=centre)
    with pytest.warns(FallbackWarning, match="2 of 2 rows could not be solved"):
        actions = omega.argmax(np.random.default_rng(0).normal(size=(2, 12)))
    np.testing.assert_array_equal(actions, [centre, centre])
    assert omega.spec()["on_failure"] == "fallback"
    with pytest.raises(InfeasibleActionError, match="inside the set"):
        stuck(on_failure="fallback", fallback=np.eye(12)[np.diag(omega.covariance).argmax()])


def test_violation_names_the_worst() -> None:
    omega = RiskBudget(np.eye(2), 0.5)
    np.testing.assert_allclose(
        omega.violation(np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.4], [1.1, -0.1]])), [0.0, 1.0, 0.1, 1.44]
    )
    capped = RiskBudget(np.eye(2), 1.0, upper=0.7, A_ub=[[10.0, 0.0]], b_ub=[6.0], A_eq=[[0.0, 2.0]], b_eq=[1.0])
    np.testing.assert_allclose(capped.violation(np.array([[0.5, 0.5], [0.9, 0.1]])), [0.0, 0.4])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": [1.0, 2.0], "limit": 1.0}, "square matrix"),
        ({"covariance": np.ones((2, 3)), "limit": 1.0}, "square matrix"),
        ({"covariance": np.empty((0, 0)), "limit": 1.0}, "square matrix"),
        ({"covariance": np.ones((5, 2, 2)), "limit": 1.0}, "One fixed set for all rows"),
        ({"covariance": [[1.0, 0.3], [0.2, 1.0]], "limit": 1.0}, "symmetric; .* differ by up to 0.1"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]], "limit": 1.0}, "smallest eigenvalue is -1"),
        ({"covariance": np.eye(2), "limit": np.nan}, "limit must be finite"),
        ({"covariance": np.eye(2), "limit": [1.0, 2.0]}, "limit must have 0 dimension"),
        ({"covariance": np.eye(2)}, "limit= is missing"),
        ({"limit": 1.0}, "given once"),
        ({"covariance": np.eye(2), "limit": 1.0, "factors": np.ones((2, 1)), "specific": 0.1}, "given once"),
        ({"limit": 1.0, "factors": np.ones((2, 1))}, "factors= and specific= together"),
        ({"covariance": np.eye(2), "limit": 1.0, "specific": 0.1}, "given once"),
        ({"limit": 1.0, "factors": np.ones(2), "specific": 0.1}, "factors must have 2 dimension"),
        ({"limit": 1.0, "factors": np.ones((2, 1)), "specific": [0.1] * 3}, r"shape \(2, 1\) and \(3,\)"),
        ({"limit": 1.0, "factors": np.ones((2, 1)), "specific": -0.1}, "least specific variance being -0.1"),
        ({"covariance": np.eye(2), "limit": 1.0, "upper": [0.5] * 3}, "upper must be a number or have one entry"),
        ({"covariance": np.eye(2), "limit": 1.0, "upper": "much"}, "upper must be numeric"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[1.0, 0.0]]}, "A_ub and b_ub go together"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_eq": [[1.0]], "b_eq": [1.0]}, "A_eq must have 2 columns"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[1.0, 0.0]], "b_ub": [1.0, 2.0]}, "one entry for each"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[np.nan, 0.0]], "b_ub": [1.0]}, "A_ub must be finite"),
        ({"covariance": np.eye(2), "limit": 1.0, "on_failure": "ignore"}, "on_failure must be"),
    ],
)
def test_input_errors_say_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RiskBudget(**arguments)


@pytest.mark.parametrize("d", [4, 10])
def test_an_empty_set_says_the_least_attainable_variance(d: int) -> None:
    with pytest.raises(EmptySetError, match=f"the least attainable variance is {1 / d:.6g}"):
        RiskBudget(np.eye(d), 0.99 / d)
    with pytest.raises(EmptySetError, match="Raise limit="):
        RiskBudget(np.eye(d), -1.0)


def test_contradictions_are_refused_with_numbers() -> None:
    with pytest.raises(EmptySetError, match=r"caps upper= to only 0.8. Raise upper="):
        RiskBudget(np.eye(4), 1.0, upper=0.2)
    with pytest.raises(EmptySetError, match=r"missed by at least 0.05"):
        RiskBudget(np.eye(4), 1.0, A_ub=sectors(4, 2), b_ub=[0.5, 0.4])
    with pytest.raises(EmptySetError, match="coordinate 1 has lower bound 0 above its upper bound -1"):
        RiskBudget(np.eye(2), 1.0, upper=[1.0, -1.0])
    with pytest.raises(UnboundedSetError, match="coordinate 0"):
        RiskBudget(np.eye(2), 1.0, upper=np.inf)
    # The sectors force a portfolio of more variance than the least of all.
    with pytest.raises(EmptySetError, match=r"the least attainable variance is 0.58"):
        RiskBudget(np.eye(2), 0.55, A_eq=[[1.0, 0.0]], b_eq=[0.3])


def sectors_that_fill_up(dimension: int = 12, **arguments: Any) -> RiskBudget:
    """Three sectors of at most a half each: two full ones leave nothing, and say what the sum says."""
    caps = np.repeat(np.eye(3), dimension // 3, axis=1)
    return RiskBudget(factor_model(dimension), 0.4, A_ub=caps, b_ub=[0.5] * 3, **arguments)


def factor_model(dimension: int) -> Floats:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(dimension, 3))
    model: Floats = factors @ factors.T + np.diag(rng.uniform(0.2, 1.0, dimension))
    return model


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
