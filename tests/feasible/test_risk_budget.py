"""RiskBudget: actions are optimal, by duality and by independent solvers."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from optensemble.exceptions import SolverError
from optensemble.feasible._batches import run_kernel
from optensemble.feasible._solvers.risk_budget.cone import WAYS, ConeProgram
from optensemble.feasible.risk_budget import RiskBudget
from tests.feasible.risk_budgets import CONSTRAINED, EVERY, PLAIN, factor_model, sectors, tight, wishart
from tests.sample_sets import Floats, covariance, hard_rows

pytestmark = pytest.mark.slow

general_solver: Any = minimize


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    return np.asarray(C / np.where(size > 0, size, 1.0))


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


@pytest.mark.parametrize("name", PLAIN)
def test_actions_are_optimal_by_weak_duality(name: str) -> None:
    omega = PLAIN[name]
    C = hard_rows(omega.dimension, n=25)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-8
    gaps = [duality_gap(c, action, omega) for c, action in zip(scaled(C), actions, strict=True)]
    assert max(gaps) <= 1e-8


@pytest.mark.no_cover
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


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["two", "four", "eight", "low rank", "twins", "twelve", "large low rank"])
def test_actions_are_no_worse_than_a_general_solver(name: str) -> None:
    omega = PLAIN[name]
    C = scaled(hard_rows(omega.dimension, n=15, seed=8))
    for c, action in zip(C, omega.argmax(C), strict=True):
        assert c @ action >= slsqp_value(c, omega) - 1e-7


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
