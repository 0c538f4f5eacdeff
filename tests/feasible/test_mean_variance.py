"""The best portfolio at a price of variance: optimality conditions, Clarabel row by row, ties and singular matrices."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse

from optensemble.feasible._batches import run_kernel
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows
from optensemble.feasible._solvers.risk_budget.mean_variance import MeanVariance, simplex_rows
from optensemble.feasible._solvers.risk_budget.rows import collect_rows

Floats = npt.NDArray[np.float64]


def covariance_of(d: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(d, 3)) * 0.1
    return np.asarray(factors @ factors.T + np.diag(rng.uniform(0.005, 0.05, d)), dtype=np.float64)


def rows_of(d: int, kind: str) -> PortfolioRows:
    """A simplex, one with caps, or one with caps and sectors, of which one is an equality."""
    nothing = np.empty((0, d)), np.empty(0)
    if kind == "simplex":
        return simplex_rows(d)
    caps = np.linspace(0.15, 0.4, d)
    if kind == "caps":
        return collect_rows(nothing, nothing, caps)
    sectors = np.zeros((2, d))
    sectors[0, : d // 3], sectors[1, d // 3 : d // 2] = 1.0, 2.0
    return collect_rows((sectors, np.array([0.5, 0.6])), (np.eye(d)[-2:-1] + np.eye(d)[-1:], np.array([0.2])), caps)


def value(c: Floats, gamma: Any, a: Floats, Q: Floats) -> Floats:
    return np.asarray((c * a).sum(axis=-1) - gamma * np.einsum("...i,ij,...j->...", a, Q, a))


def best_value(c: Floats, gamma: float, Q: Floats, rows: PortfolioRows) -> float:
    """The optimum of one row by Clarabel, from nothing."""
    d = len(c)
    matrix = np.concatenate([rows.A, np.eye(d), -np.eye(d)])
    right = np.concatenate([rows.b, rows.upper, np.zeros(d)])
    cones = [clarabel.ZeroConeT(rows.equal), clarabel.NonnegativeConeT(len(right) - rows.equal)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", 1e-12)
    quadratic = sparse.csc_matrix(np.triu(2.0 * gamma * Q))
    solution = clarabel.DefaultSolver(quadratic, -c, sparse.csc_matrix(matrix), right, cones, settings).solve()
    return -float(solution.obj_val)


def gap_by_duality(c: Floats, gamma: float, a: Floats, Q: Floats, rows: PortfolioRows) -> float:
    """What any portfolio can gain on ``a``: the objective is concave, so no more than along its slope at ``a``."""
    from scipy.optimize import linprog

    slope = c - 2.0 * gamma * Q @ a
    ub, equal = slice(rows.equal, None), slice(rows.equal)
    found = linprog(
        -slope,
        A_ub=rows.A[ub] if len(rows.b) > rows.equal else None,
        b_ub=rows.b[ub] if len(rows.b) > rows.equal else None,
        A_eq=rows.A[equal],
        b_eq=rows.b[equal],
        bounds=[(0.0, cap) for cap in rows.upper],
    )
    return float(-found["fun"] - slope @ a)


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simplex", "caps", "sectors"])
@pytest.mark.parametrize("d", [5, 18])
def test_rows_agree_with_clarabel_and_are_optimal(d: int, kind: str) -> None:
    n, rng, Q, rows = 1000, np.random.default_rng(d), covariance_of(d), rows_of(max(d, 9), kind)
    Q = covariance_of(len(rows.upper))
    d = len(Q)
    C, gamma = rng.normal(size=(n, d)) * 0.05, 10.0 ** rng.uniform(-2, 2, n)
    solver = MeanVariance(Q, rows)
    actions = solver.argmax(C, gamma)
    assert actions.min() >= 0.0
    assert (actions <= rows.upper).all()
    assert np.abs(actions @ rows.A[: rows.equal].T - rows.b[: rows.equal]).max() <= 1e-12
    assert (actions @ rows.A.T - rows.b).max() <= 1e-12
    mine = value(C, gamma, actions, Q)
    best = np.array([best_value(C[i], gamma[i], Q, rows) for i in range(n)])
    np.testing.assert_allclose(mine, best, rtol=1e-9, atol=1e-11)
    assert max(gap_by_duality(C[i], gamma[i], actions[i], Q, rows) for i in range(0, n, 20)) <= 1e-12


@pytest.mark.parametrize("kind", ["simplex", "caps", "sectors"])
def test_a_row_depends_on_itself_alone(kind: str) -> None:
    n, d, rng = 200, 12, np.random.default_rng(0)
    solver = MeanVariance(covariance_of(d), rows_of(d, kind))
    C = np.concatenate([rng.normal(size=(n // 2, d)), rng.integers(-1, 2, (n // 2, d)).astype(float)]) * 0.05
    gamma = rng.choice([0.0, 1e-12, 0.01, 1.0, 5.0, 1e9], n)
    actions, order = solver.argmax(C, gamma), rng.permutation(n)
    np.testing.assert_array_equal(solver.argmax(C[order], gamma[order]), actions[order])
    for i in range(0, n, 11):
        np.testing.assert_array_equal(solver.argmax(C[i : i + 1], gamma[i])[0], actions[i])
    for hint in (actions, actions[order], rng.dirichlet(np.full(d, 0.3), n), rng.normal(size=C.shape) * 1e9):
        np.testing.assert_array_equal(solver.argmax(C, gamma, hint), actions)
    for i in range(0, n, 3):
        assert gap_by_duality(C[i], gamma[i], actions[i], solver.matrix, solver.rows) <= 1e-9 * (1.0 + gamma[i])


def test_without_a_price_the_largest_coefficients_are_filled_up_in_order() -> None:
    Q, C = covariance_of(4), np.array([[1.0, 3.0, 3.0, 2.0], [1.0, 1.0, 1.0, 1.0], [-1.0, -2.0, -2.0, -2.0]])
    np.testing.assert_array_equal(MeanVariance(Q, simplex_rows(4)).argmax(C, 0.0).argmax(axis=1), [1, 0, 0])
    nothing = np.empty((0, 4)), np.empty(0)
    capped = MeanVariance(Q, collect_rows(nothing, nothing, np.full(4, 0.4)))
    np.testing.assert_allclose(
        capped.argmax(C, 0.0), [[0.0, 0.4, 0.4, 0.2], [0.4, 0.4, 0.2, 0.0], [0.4, 0.4, 0.2, 0.0]], atol=1e-15
    )
    sector = collect_rows((np.array([[0.0, 1.0, 1.0, 0.0]]), np.array([0.5])), nothing, np.full(4, 0.4))
    best = MeanVariance(Q, sector).argmax(C, 0.0)
    np.testing.assert_allclose((C * best).sum(axis=1), [0.5 * 3 + 0.4 * 2 + 0.1, 1.0, -1.6], atol=1e-12)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["simplex", "caps", "sectors"])
@pytest.mark.parametrize("what", ["few factors", "nothing", "cash", "twins"])
def test_a_singular_matrix_leaves_optimal_actions(what: str, kind: str) -> None:
    d, rng = 12, np.random.default_rng(5)
    factors = rng.normal(size=(d, 2)) * 0.2
    kinds: dict[str, Any] = {
        "few factors": np.asarray(factors @ factors.T, dtype=np.float64),
        "nothing": np.zeros((d, d)),
        "cash": covariance_of(d) * np.outer(np.arange(d) > 0, np.arange(d) > 0),
        "twins": np.kron(covariance_of(d // 2), np.ones((2, 2))),
    }
    Q = kinds[what]
    solver = MeanVariance(Q, rows_of(d, kind))
    C = np.concatenate([rng.normal(size=(60, d)), np.repeat(rng.integers(-1, 2, (40, d // 2)), 2, axis=1)]) * 0.05
    gamma = rng.choice([0.3, 2.0, 20.0], len(C))
    actions = solver.argmax(C, gamma)
    order = rng.permutation(len(C))
    np.testing.assert_array_equal(solver.argmax(C[order], gamma[order], actions), actions[order])
    for c, price, action in zip(C, gamma, actions, strict=True):
        assert gap_by_duality(c, price, action, Q, solver.rows) <= 1e-9


def test_equal_coefficients_leave_the_least_variance() -> None:
    Q = covariance_of(15)
    solver = MeanVariance(Q, rows_of(15, "caps"))
    flat = solver.argmax(np.full((3, 15), 0.7), np.array([0.1, 1.0, 10.0]))
    np.testing.assert_array_equal(flat[1:], flat[:2])
    np.testing.assert_allclose(flat[0], solver.centre, atol=1e-7)
    assert value(np.zeros(15), 1.0, flat[0], Q) >= value(np.zeros(15), 1.0, solver.centre, Q) - 1e-15


@pytest.mark.parametrize("kind", ["simplex", "caps", "sectors"])
def test_the_second_solver_ends_at_the_same_bits(kind: str) -> None:
    rng, Q = np.random.default_rng(8), covariance_of(12)
    solver = MeanVariance(Q, rows_of(12, kind))
    C, gamma = rng.normal(size=(50, 12)) * 0.05, 10.0 ** rng.uniform(-1, 1, 50)
    exact, status = run_kernel(solver.kernel, C, None, gamma[:, None].__getitem__)
    assert not status.any()
    np.testing.assert_array_equal(solver.by_solver(C, gamma), exact)
