from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sample_sets import Floats, covariance, hard_rows
from scipy.optimize import minimize

from optensemble.exceptions import EmptySetError, InputError, SolverError
from optensemble.feasible import RiskBudget
from optensemble.feasible._cone import ConeProgram
from optensemble.feasible._supports import pull_inside

general_solver: Any = minimize


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    return np.asarray(C / np.where(size > 0, size, 1.0))


def best_value(c: Floats, omega: RiskBudget) -> float:
    """The value by a general solver, from the best of several starts."""
    d, C, limit = omega.dimension, omega.covariance, omega.limit
    constraints = [
        {"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(d)},
        {"type": "ineq", "fun": lambda a: 1 - a @ C @ a / limit, "jac": lambda a: -2 * C @ a / limit},
    ]
    starts = [np.full(d, 1 / d), omega._centre]
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
        for start in starts
    ]
    inside = [-r.fun for r in results if r.success and omega.violation(r.x[None])[0] < 1e-7]
    return float(max(inside, default=-np.inf))


def upper_bound_gap(c: Floats, action: Floats, omega: RiskBudget) -> float:
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


CASES = {
    "one": RiskBudget([[2.0]], 2.0),
    "two": RiskBudget([[4.0, 0.5], [0.5, 1.0]], 1.5),
    "four": RiskBudget(covariance(4, 1), float(np.diag(covariance(4, 1)).min() * 0.9)),
    "loose": RiskBudget(covariance(4, 1), 100.0),
    "eight": RiskBudget(covariance(8, 2), 0.25),
    "low rank": RiskBudget(covariance(6, 3, rank=2), 0.05),
    "twins": RiskBudget(np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0]), 1.2),
    "zero": RiskBudget(np.zeros((3, 3)), 0.0),
    "twelve": RiskBudget(covariance(12, 4), float(np.diag(covariance(12, 4)).min() * 0.6)),
    "large low rank": RiskBudget(covariance(12, 5, rank=3), 0.05),
    "large loose": RiskBudget(covariance(12, 4), 100.0),
}


@pytest.mark.parametrize("name", CASES)
def test_actions_are_optimal_by_weak_duality(name: str) -> None:
    omega = CASES[name]
    C = hard_rows(omega.dimension, n=25)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-8
    gaps = [upper_bound_gap(c, action, omega) for c, action in zip(scaled(C), actions, strict=True)]
    assert max(gaps) <= 1e-8


@pytest.mark.parametrize("name", ["two", "four", "eight", "low rank", "twins", "twelve", "large low rank"])
def test_actions_are_no_worse_than_a_general_solver(name: str) -> None:
    omega = CASES[name]
    C = scaled(hard_rows(omega.dimension, n=15, seed=8))
    for c, action in zip(C, omega.argmax(C), strict=True):
        assert c @ action >= best_value(c, omega) - 1e-7


def test_the_closed_form_and_the_solver_agree() -> None:
    omega = CASES["eight"]
    C = np.random.default_rng(0).normal(size=(200, 8))
    exact = omega.argmax(C)
    twin = RiskBudget(omega.covariance, omega.limit)
    twin.kernel = None
    twin._program = ConeProgram(twin.covariance, twin.limit)
    np.testing.assert_allclose(twin.argmax(C), exact, atol=1e-9)


def test_the_solver_alone_is_nearly_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    omega = CASES["twelve"]
    C = np.random.default_rng(1).normal(size=(50, 12))
    exact = omega.argmax(C)
    monkeypatch.setattr(ConeProgram, "_polish", lambda self, c, action: None)
    answers = [_solve_or_none(omega, c) for c in C]
    pairs = [(answer, best) for answer, best in zip(answers, exact, strict=True) if answer is not None]
    assert len(pairs) > 25
    for answer, best in pairs:
        np.testing.assert_allclose(answer, best, atol=1e-5)


def _solve_or_none(omega: RiskBudget, c: Floats) -> Floats | None:
    try:
        return np.asarray(omega.argmax(c[None])[0])
    except SolverError:
        return None


def test_ties_go_to_the_first_candidate() -> None:
    np.testing.assert_array_equal(CASES["loose"].argmax(np.zeros((1, 4))), [[1.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(CASES["loose"].argmax([[0.0, 0.1 + 0.2, 0.3, 0.0]]), [[0.0, 1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(CASES["large loose"].argmax(np.zeros((1, 12))), np.eye(12)[:1])
    tied = CASES["twelve"].argmax(np.ones((1, 12)))[0]
    assert tied @ CASES["twelve"].covariance @ tied == pytest.approx(CASES["twelve"].least_variance)


def test_a_vanishing_coordinate_neither_jumps_nor_leaves_the_set() -> None:
    omega = RiskBudget(np.eye(3), 0.6)
    edge = omega.argmax([[1.0, 0.0, -1.0]])[0]
    for nudge in 10.0 ** -np.arange(4.0, 17.0):
        actions = omega.argmax([[1.0, 0.0, -1.0 + nudge], [1.0, nudge, -1.0]])
        assert omega.violation(actions).max() <= 1e-12
        assert np.abs(actions - edge).max() <= 10 * nudge + 1e-5


def test_the_limit_may_be_the_least_variance() -> None:
    for d in (3, 12):
        C = covariance(d, 6)
        least = RiskBudget(C, 100.0)
        omega = RiskBudget(C, least.least_variance)
        actions = omega.argmax(hard_rows(d, n=5))
        np.testing.assert_allclose(actions, np.tile(least._centre, (len(actions), 1)), atol=1e-4)
        assert omega.violation(actions).max() <= 1e-8


def test_rows_beyond_the_limit_are_pulled_to_it() -> None:
    actions = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    pull_inside(actions, np.eye(2), 0.68, 1e-9, np.array([0.5, 0.5]))
    np.testing.assert_allclose(actions, [[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])
    flat = np.array([[1.0, 0.0]])
    pull_inside(flat, np.ones((2, 2)), 0.5, 1e-9, np.array([0.5, 0.5]))
    np.testing.assert_array_equal(flat, [[0.5, 0.5]])


def test_polishing_gives_up_where_nothing_can_be_confirmed() -> None:
    program = ConeProgram(np.ones((3, 3)), 2.0)
    c = np.array([0.0, -0.5, -1.0])
    assert program._polish(c, np.array([1.0, 0.0, 0.0])) is None
    assert program._polish(c, np.array([0.5, 0.5, 0.0])) is None
    assert ConeProgram(np.eye(3), 0.1)._polish(c, np.array([0.5, 0.5, 0.0])) is None


def test_an_unsolved_row_is_named() -> None:
    class Stuck:
        x = (1.0,) * 12
        status = "MaxIterations"

        def update(self, q: Floats) -> None:
            pass

        def solve(self) -> Stuck:
            return self

    omega = RiskBudget(CASES["twelve"].covariance, CASES["twelve"].limit)
    assert isinstance(omega._program, ConeProgram)
    omega._program._local.solver = Stuck()
    omega._program._polish = lambda c, action: None  # type: ignore[method-assign]
    first_alone = np.eye(12)[np.diag(omega.covariance).argmax()]
    message = "row 1 could not be solved: Clarabel ended with status MaxIterations.*likely"
    with pytest.raises(SolverError, match=message):
        omega.argmax([np.zeros(12), first_alone])


def test_violation_names_the_worst() -> None:
    omega = RiskBudget(np.eye(2), 0.5)
    np.testing.assert_allclose(
        omega.violation(np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.4], [1.1, -0.1]])), [0.0, 1.0, 0.1, 1.44]
    )


@pytest.mark.parametrize(
    ("matrix", "limit", "message"),
    [
        ([1.0, 2.0], 1.0, "square matrix"),
        (np.ones((2, 3)), 1.0, "square matrix"),
        (np.empty((0, 0)), 1.0, "square matrix"),
        (np.ones((5, 2, 2)), 1.0, "One fixed set for all rows"),
        ([[1.0, 0.3], [0.2, 1.0]], 1.0, "symmetric; .* differ by up to 0.1"),
        ([[1.0, 2.0], [2.0, 1.0]], 1.0, "smallest eigenvalue is -1"),
        (np.eye(2), np.nan, "limit must be finite"),
        (np.eye(2), [1.0, 2.0], "limit must have 0 dimension"),
    ],
)
def test_input_errors_say_what_to_do(matrix: object, limit: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RiskBudget(matrix, limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [4, 10])
def test_an_empty_set_says_the_least_attainable_variance(d: int) -> None:
    with pytest.raises(EmptySetError, match=f"the least attainable variance is {1 / d:.6g}"):
        RiskBudget(np.eye(d), 0.99 / d)
    with pytest.raises(EmptySetError, match="Raise limit="):
        RiskBudget(np.eye(d), -1.0)


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
