"""Problems with other variables, products with expressions, and known costs, as cvxpy itself solves them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from optensemble.exceptions import EmptySetError
from optensemble.feasible import Polytope, Simplex, WithCost
from optensemble.feasible.contract import check
from optensemble.feasible.cvxpy_set import CvxpySet
from optensemble.feasible.registry import to_spec
from tests.sample_sets import Floats, hard_rows

pytestmark = pytest.mark.slow

cp = pytest.importorskip("cvxpy")

ROWS = 200  # cvxpy takes milliseconds for every one


def battery(hours: int, start: Any = 0.5) -> tuple[Any, Any, list[Any]]:
    """Charge and discharge within the hour's limits and the state of charge."""
    charge, discharge = cp.Variable(hours, nonneg=True), cp.Variable(hours, nonneg=True)
    state = cp.Variable(hours + 1)
    return (
        charge,
        discharge,
        [
            state[0] == start,
            state[1:] == state[:-1] + 0.9 * charge - discharge,
            state >= 0,
            state <= 2,
            charge <= 1,
            discharge <= 1,
        ],
    )


def solved(problem: Any, c: Any, C: Floats, solver: str = "HIGHS", **options: Any) -> Floats:
    """The optimal values of the user's own problem, row by row."""
    values = []
    for row in C:
        c.value = row.reshape(c.shape)
        values.append(problem.solve(solver=solver, **options))
    return np.array(values)


def require_same(values: Floats, wanted: Floats, tolerance: float = 1e-9) -> None:
    assert np.abs(values - wanted).max() <= tolerance * max(1.0, np.abs(wanted).max())


@pytest.mark.no_cover
def test_a_battery_is_a_lifted_polytope() -> None:
    charge, discharge, constraints = battery(6)
    price = cp.Parameter(6)
    problem = cp.Problem(cp.Maximize(price @ (discharge - charge)), constraints)
    omega = CvxpySet(problem, discharge - charge, price)
    assert omega.recognised == "Polytope"
    assert omega.dimension == 6
    assert omega.inner is not None
    assert omega.inner.dimension > 6
    np.testing.assert_allclose(omega.lower, -1.0)
    np.testing.assert_allclose(omega.upper, np.array([0.5, 1, 1, 1, 1, 1]))
    C = np.random.default_rng(0).normal(size=(ROWS, 6))
    actions = omega.argmax(C)
    require_same((C * actions).sum(axis=1), solved(problem, price, C))
    assert omega.violation(actions).max() <= 1e-9
    assert not omega.has_cost
    report = check(omega, rows=32)
    assert report.ok, str(report)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C[:9]), actions[:9])


def test_the_distance_of_a_lifted_polytope_is_exact() -> None:
    charge, discharge, constraints = battery(2, start=0.0)
    price = cp.Parameter(2)
    problem = cp.Problem(cp.Maximize(price @ (discharge - charge)), constraints)
    omega = CvxpySet(problem, discharge - charge, price)
    # Nothing can be discharged at first: 0.9 of what was charged in the first hour can be in the second.
    given = np.array([[-1.0, 0.9], [-1.0, 1.0], [0.5, 0.0], [-0.5, 0.45], [-3.0, 0.0], [np.nan, 0.0], [1e30, 0.0]])
    near = 0.1 / 1.9  # less charged and less discharged by t: 1 - t = 0.9 (1 + t) were 1 allowed to grow
    np.testing.assert_allclose(
        omega.violation(given), [0, max(near, 0.1), 0.5, 0, 2.0, np.inf, 1e30], atol=1e-9, rtol=1e-9
    )


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "make",
    [
        lambda a: [cp.sum(a) == 1, a >= 0, cp.norm1(a - 0.25) <= 0.6],
        lambda a: [cp.norm_inf(a) <= 2, cp.abs(a[0] - a[1]) <= 0.5, cp.max(a) - cp.min(a) <= 3],
        lambda a: [a >= 0, cp.sum_largest(a, 2) <= 1],
        lambda a: [a <= 1, cp.sum(cp.pos(-a)) <= 2, cp.Variable(4, nonneg=True) >= a],  # one variable without a limit
    ],
)
def test_piecewise_linear_constraints_are_lifted(make: Any) -> None:
    a, c = cp.Variable(4), cp.Parameter(4)
    problem = cp.Problem(cp.Maximize(c @ a), make(a))
    omega = CvxpySet(problem, a, c)
    assert omega.recognised == "Polytope"
    C = np.random.default_rng(1).normal(size=(200, 4))
    actions = omega.argmax(C)
    require_same((C * actions).sum(axis=1), solved(problem, c, C))
    assert omega.violation(actions).max() <= 1e-9
    assert check(omega, rows=16).ok


def test_variables_that_no_constraint_bounds_do_no_harm() -> None:
    a, c = cp.Variable(2), cp.Parameter(2)
    free, dual, other = cp.Variable(), cp.Variable(3), cp.Variable(2)
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    box = [a >= 0, a <= 1]
    for more in (
        [a[0] + a[1] + free == 1.5],
        [A @ a + dual == 0, dual <= 0],
        [free >= a[0], free >= a[1]],
        [other[0] + other[1] == a[0], other[0] - other[1] >= a[1]],  # grows in opposite directions
    ):
        problem = cp.Problem(cp.Maximize(c @ a), [*box, *more])
        omega = CvxpySet(problem, a, c)
        C = np.random.default_rng(2).normal(size=(20, 2))
        np.testing.assert_allclose((C * omega.argmax(C)).sum(axis=1), solved(problem, c, C), atol=1e-8)


def test_products_with_expressions_of_any_shape() -> None:
    x, y = cp.Variable(3, nonneg=True), cp.Variable((2, 3), nonneg=True)
    box = [x <= [1, 2, 3], cp.sum(y, axis=0) <= x, cp.sum(y) <= 2]
    for action in (x[1:], cp.hstack([x, y[0]]), y, y.T, x @ np.array([1.0, 2.0, 3.0]), 2 * x - y[1], cp.vstack([x, x])):
        c = cp.Parameter(action.shape)
        problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(c, action))), box)
        omega = CvxpySet(problem, action, c)
        assert omega.recognised == "Polytope"
        assert omega.dimension == action.size
        C = np.random.default_rng(3).normal(size=(60, action.size))
        actions = omega.argmax(C)
        require_same((C * actions).sum(axis=1), solved(problem, c, C))
        for row, found in zip(C[:5], actions[:5], strict=True):  # coordinates are laid out row by row
            c.value = row.reshape(c.shape)
            problem.solve(solver="HIGHS")
            np.testing.assert_allclose(found.reshape(c.shape), action.value, atol=1e-7)


def test_a_matrix_in_a_cone_is_laid_out_row_by_row() -> None:
    a, c = cp.Variable((2, 3)), cp.Parameter((2, 3))
    omega = CvxpySet(cp.Problem(cp.Maximize(cp.trace(c.T @ a)), [cp.norm(a, "fro") <= 1]), a, c)
    assert omega.recognised == "conic"
    row = np.array([[1.0, 2.0, 3.0, -4.0, 5.0, -6.0]])
    np.testing.assert_allclose(omega.argmax(row), row / np.sqrt((row**2).sum()), atol=1e-6)


SENSES: dict[str, Any] = {
    "maximised": lambda product, cost: cp.Maximize(product - cost),
    "minimised": lambda product, cost: cp.Minimize(-product + cost),
}


@pytest.mark.parametrize("sense", sorted(SENSES))
@pytest.mark.parametrize(
    "cost",
    [
        lambda a: 0.3 * cp.norm1(a - 0.1),
        lambda a: cp.sum(cp.abs(a)) + 2.5,
        lambda a: np.array([0.1, -0.2, 0.3, 0.0]) @ a - 1.0,
        lambda a: 0.2 * cp.max(a) + 0.1 * cp.sum(cp.pos(a - 0.3)),
    ],
)
def test_piecewise_linear_costs(cost: Any, sense: str) -> None:
    a, c = cp.Variable(4), cp.Parameter(4)
    problem = cp.Problem(SENSES[sense](c @ a, cost(a)), [a >= -1, a <= 1, cp.sum(a) <= 1])
    omega = CvxpySet(problem, a, c)
    assert omega.recognised in ("Polytope", "WithCost")
    assert omega.has_cost
    C = np.random.default_rng(4).normal(size=(ROWS, 4)) * 0.4
    actions = omega.argmax(C)
    sign = 1.0 if sense == "maximised" else -1.0
    require_same(omega.value(actions, C), sign * solved(problem, c, C))
    for row in actions[:10]:
        a.value = row
        np.testing.assert_allclose(omega.cost(row[None]), cost(a).value, atol=1e-12)


def test_a_cost_of_turnover_beside_a_limit_of_size() -> None:
    a, c = cp.Variable(3), cp.Parameter(3)
    problem = cp.Problem(cp.Maximize(c @ a - 0.2 * cp.norm1(a - 0.1)), [cp.norm1(a) <= 1])
    omega = CvxpySet(problem, a, c)
    assert omega.recognised == "Polytope"  # absolute values bound what no single constraint does
    C = np.random.default_rng(14).normal(size=(200, 3))
    require_same(omega.value(omega.argmax(C), C), solved(problem, c, C))


def test_the_cost_of_an_action_is_the_least_of_its_other_variables() -> None:
    charge, discharge, constraints = battery(4)
    price = cp.Parameter(4)
    wear = 0.05 * cp.sum(charge + discharge) + 0.1 * cp.norm1(discharge - charge)
    problem = cp.Problem(cp.Maximize(price @ (discharge - charge) - wear), constraints)
    omega = CvxpySet(problem, discharge - charge, price)
    assert omega.recognised == "Polytope"
    C = np.random.default_rng(5).normal(size=(200, 4))
    actions = omega.argmax(C)
    require_same(omega.value(actions, C), solved(problem, price, C), 1e-8)
    # An action at random is cheapest without charging and discharging in one hour.
    held = 0.25 * actions
    np.testing.assert_allclose(omega.cost(held), 0.15 * np.abs(held).sum(axis=1), atol=1e-8)


@pytest.mark.no_cover
def test_costs_of_the_action_alone_are_a_set_with_a_cost() -> None:
    w, c, held = cp.Variable(4, nonneg=True), cp.Parameter(4), np.array([0.1, 0.2, 0.3, 0.4])
    S = np.cov(np.random.default_rng(12).normal(size=(4, 9)))
    simplex, capped = [cp.sum(w) == 1], [cp.sum(w) == 1, w <= 0.6]
    C = np.random.default_rng(13).normal(size=(100, 4)) * 0.3
    for cost, constraints, solver, within in (
        (0.1 * cp.norm1(w - held), simplex, "HIGHS", 1e-9),
        (0.1 * cp.norm1(2 * (w - held)) + w[0] + 3.0, capped, "HIGHS", 1e-9),
        (0.5 * cp.quad_form(w, S), simplex, "CLARABEL", 1e-7),
        (cp.sum_squares(w - held) + cp.quad_form(w, S), capped, "CLARABEL", 1e-7),
        (cp.quad_form(w, S) + 0.05 * cp.norm1(w - held), simplex, "CLARABEL", 1e-7),
    ):
        problem = cp.Problem(cp.Maximize(c @ w - cost), constraints)
        omega = CvxpySet(problem, w, c)
        assert isinstance(omega.inner, WithCost)
        assert isinstance(omega.inner.omega, Simplex if constraints is simplex else Polytope)
        assert omega.inner.dimension == 4
        assert to_spec(omega.inner) is not None
        actions = omega.argmax(C)
        require_same(omega.value(actions, C), solved(problem, c, C, solver), within)
        w.value = actions[0]
        np.testing.assert_allclose(omega.cost(actions[:1]), cost.value, atol=1e-12)
        np.testing.assert_array_equal(actions, omega.inner.argmax(C))
        assert check(omega, rows=16).ok


@pytest.mark.parametrize("sense", sorted(SENSES))
def test_quadratic_costs(sense: str) -> None:
    F = np.random.default_rng(6).normal(size=(4, 4))
    S = F @ F.T
    held = np.array([0.1, 0.2, 0.3, 0.4])
    w, c = cp.Variable(4), cp.Parameter(4)
    for cost in (
        0.5 * cp.quad_form(w, S) + 0.1 * cp.norm1(w - held),
        cp.sum_squares(w - held),
        cp.sum_squares(F.T @ w) + w[0],
        cp.power(cp.norm(w), 3),
    ):
        problem = cp.Problem(SENSES[sense](c @ w, cost), [w >= 0, cp.sum(w) == 1])
        omega = CvxpySet(problem, w, c)
        assert omega.has_cost
        C = np.random.default_rng(7).normal(size=(12, 4))
        actions = omega.argmax(C)
        sign = 1.0 if sense == "maximised" else -1.0
        require_same(omega.value(actions, C), sign * solved(problem, c, C, "CLARABEL"), 1e-6)
        assert omega.violation(actions).max() <= omega.tolerance
        for row in actions[:3]:
            w.value = row
            np.testing.assert_allclose(omega.cost(row[None]), cost.value, atol=1e-6)
        np.testing.assert_array_equal(omega.argmax(C[3:5]), actions[3:5])


def test_quadratic_costs_of_other_variables() -> None:
    charge, discharge, constraints = battery(3)
    price = cp.Parameter(3)
    wear = 0.2 * cp.sum_squares(charge) + 0.1 * cp.sum_squares(discharge)
    problem = cp.Problem(cp.Maximize(price @ (discharge - charge) - wear), constraints)
    omega = CvxpySet(problem, discharge - charge, price)
    assert omega.recognised == "conic"
    C = np.random.default_rng(8).normal(size=(12, 3))
    actions = omega.argmax(C)
    require_same(omega.value(actions, C), solved(problem, price, C, "CLARABEL"), 1e-6)
    held = 0.25 * actions
    expected = (np.where(held < 0, 0.2, 0.1) * held**2).sum(axis=1)
    np.testing.assert_allclose(omega.cost(held), expected, atol=1e-7)


def test_whole_numbers_with_costs_and_expressions() -> None:
    amount, used = cp.Variable(3, nonneg=True), cp.Variable(3, boolean=True)
    c = cp.Parameter(3)
    constraints = [amount <= 2 * used, cp.sum(amount) <= 3]
    problem = cp.Problem(cp.Maximize(c @ (2 * amount) - 0.5 * cp.sum(used)), constraints)
    omega = CvxpySet(problem, 2 * amount, c)
    assert omega.recognised == "MixedInteger"
    C = np.random.default_rng(9).normal(size=(30, 3)) * 0.3
    actions = omega.argmax(C)
    require_same(omega.value(actions, C), solved(problem, c, C), 1e-7)
    np.testing.assert_allclose(omega.cost(np.array([[0.0, 0.0, 0.0], [4.0, 1.0, 0.0]])), [0.0, 1.0], atol=1e-7)
    np.testing.assert_allclose(omega.violation(np.array([[4.0, 2.0, 0.0], [5.0, 0, 0]])), [0.0, 1.0], atol=1e-7)


def test_ties_depend_on_the_row_alone() -> None:
    charge, discharge, constraints = battery(4)
    price = cp.Parameter(4)
    omega = CvxpySet(cp.Problem(cp.Maximize(price @ (discharge - charge)), constraints), discharge - charge, price)
    C = np.concatenate([np.zeros((3, 4)), np.ones((3, 4)), hard_rows(4, n=40)])
    actions = omega.argmax(C)
    order = np.random.default_rng(10).permutation(len(C))
    np.testing.assert_array_equal(omega.argmax(C[order]), actions[order])
    np.testing.assert_array_equal(np.concatenate([omega.argmax(row[None]) for row in C]), actions)


def test_an_independent_linear_programme_agrees() -> None:
    """The battery by hand, with HiGHS through SciPy, in place of cvxpy."""
    hours = 5
    charge, discharge, constraints = battery(hours)
    price = cp.Parameter(hours)
    omega = CvxpySet(cp.Problem(cp.Maximize(price @ (discharge - charge)), constraints), discharge - charge, price)
    running = np.tril(np.ones((hours, hours)))
    A = np.block([[0.9 * running, -running], [-0.9 * running, running]])
    b = np.concatenate([np.full(hours, 1.5), np.full(hours, 0.5)])
    C = np.random.default_rng(11).normal(size=(50, hours))
    least = np.array([linprog(np.concatenate([row, -row]), A, b, bounds=(0, 1)).fun for row in C])
    require_same((C * omega.argmax(C)).sum(axis=1), -least)


def test_a_lifted_set_takes_the_fallback_and_says_when_it_is_empty() -> None:
    charge, discharge, constraints = battery(3)
    price = cp.Parameter(3)
    product = cp.Maximize(price @ (discharge - charge))
    omega = CvxpySet(
        cp.Problem(product, constraints), discharge - charge, price, on_failure="fallback", fallback=[0, 0, 0]
    )
    np.testing.assert_array_equal(omega.fallback, [0, 0, 0])
    with pytest.raises(EmptySetError):
        CvxpySet(cp.Problem(product, [*constraints, cp.sum(discharge - charge) >= 1]), discharge - charge, price)
