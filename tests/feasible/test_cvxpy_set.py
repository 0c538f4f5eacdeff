from __future__ import annotations

import copy
import inspect
import pickle
import sys
from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import EmptySetError, FallbackWarning, InputError, SolverError, UnboundedSetError
from optensemble.feasible import Polytope, RiskBudget
from optensemble.feasible._solvers.conic import ConicProgram
from optensemble.feasible.contract import check
from optensemble.feasible.cvxpy_set import CvxpySet
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.registry import to_spec
from tests.sample_sets import Floats, covariance, grid_path, hard_rows

pytestmark = pytest.mark.slow

cp = pytest.importorskip("cvxpy")


def make(d: int, constraints: Any, sense: str = "Maximize", **attributes: Any) -> CvxpySet:
    a, c = cp.Variable(d, **attributes), cp.Parameter(d)
    return CvxpySet(cp.Problem(getattr(cp, sense)(c @ a), constraints(a)), a, c)


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    return np.asarray(C / np.where(size > 0, size, 1.0))


def best_by_cvxpy(C: Floats, constraints: Any, solver: str, **attributes: Any) -> Floats:
    """The optimal values by cvxpy itself, through another solver."""
    a = cp.Variable(C.shape[1], **attributes)
    return np.array([cp.Problem(cp.Maximize(c @ a), constraints(a)).solve(solver=solver) for c in C])


A_SHARED = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 2.0, 1.0, 0.5]])


@pytest.mark.parametrize(
    ("constraints", "attributes"),
    [
        (lambda a: [A_SHARED @ a <= [0.5, 0.6], a >= 0, a <= 1], {}),
        (lambda a: [A_SHARED @ a <= [0.5, 0.6], a <= 1], {"nonneg": True}),
        (lambda a: [-a[0] >= a[1] - 0.5, 4 * a[1] + 2 * a[2] + a[3] <= 1.2], {"bounds": [0, 1]}),
        (lambda a: [cp.NonNeg(a), cp.NonNeg(1 - a), A_SHARED @ a - [0.5, 0.6] <= 0, cp.sum(a) <= 100], {}),
    ],
)
def test_linear_constraints_are_a_polytope(constraints: Any, attributes: Any) -> None:
    omega = make(4, constraints, **attributes)
    expected = Polytope(A_ub=A_SHARED, b_ub=[0.5, 0.6])
    assert omega.recognised == "Polytope"
    assert omega.inner is not None
    assert omega.kernel is omega.inner.kernel
    C = hard_rows(4)
    np.testing.assert_array_equal(omega.argmax(C), expected.argmax(C))
    np.testing.assert_array_equal([omega.lower, omega.upper], [expected.lower, expected.upper])
    np.testing.assert_allclose(omega.violation(C[:5]), expected.violation(C[:5]))


def test_equalities_and_implied_bounds_are_read() -> None:
    A, b = grid_path(4)
    omega = make(24, lambda a: [A @ a == b, a >= 0])
    expected = Polytope(A_eq=A, b_eq=b)
    C = np.random.default_rng(0).normal(size=(40, 24))
    assert omega.recognised == "Polytope"
    np.testing.assert_allclose(omega.argmax(C), expected.argmax(C), atol=1e-12)
    np.testing.assert_array_equal(omega.upper, expected.upper)
    assert to_spec(omega) is None
    assert omega.inner is not None
    assert omega.inner.spec() is not None


@pytest.mark.parametrize(
    "limit",
    [
        lambda a, C, F, s: [cp.quad_form(a, C) <= s**2],
        lambda a, C, F, s: [cp.sum_squares(F.T @ a) <= s**2],
        lambda a, C, F, s: [cp.norm(F.T @ a) <= s],
        lambda a, C, F, s: [s >= cp.norm(F.T @ a, 2)],
        lambda a, C, F, s: [cp.quad_form(a, cp.psd_wrap(C)) - s**2 <= 0],
    ],
)
def test_a_quadratic_limit_is_a_risk_budget(limit: Any) -> None:
    F = np.random.default_rng(1).normal(size=(5, 5)) / 5
    C, s = F @ F.T, float(np.sqrt(np.diag(F @ F.T).min() * 0.7))
    omega = make(5, lambda a: [cp.sum(a) == 1, a >= 0, *limit(a, C, F, s)])
    assert omega.recognised == "RiskBudget"
    assert isinstance(omega.inner, RiskBudget)
    np.testing.assert_allclose(omega.inner.covariance, C, rtol=1e-12, atol=1e-15)
    rows = hard_rows(5, n=30)
    expected = RiskBudget(C, s**2)
    value, wanted = (scaled(rows) * omega.argmax(rows)).sum(axis=1), (scaled(rows) * expected.argmax(rows)).sum(axis=1)
    np.testing.assert_allclose(value, wanted, atol=1e-9)


@pytest.mark.skipif("upper" not in inspect.signature(RiskBudget).parameters, reason="a risk budget without caps")
def test_caps_and_sectors_belong_to_a_risk_budget() -> None:
    C = covariance(6, seed=2)
    limit = float(np.diag(C).min())
    omega = make(
        6, lambda a: [cp.sum(a) == 1, a >= 0, a <= 0.4, a[0] + a[1] <= 0.5, a[2] == a[3], cp.quad_form(a, C) <= limit]
    )
    assert omega.recognised == "RiskBudget"
    np.testing.assert_array_equal(omega.upper, 0.4)
    rows = np.random.default_rng(3).normal(size=(20, 6))
    actions = omega.argmax(rows)
    assert (actions[:, 0] + actions[:, 1]).max() <= 0.5 + 1e-8
    np.testing.assert_allclose(actions[:, 2], actions[:, 3], atol=1e-8)
    a = cp.Variable(6, nonneg=True)
    given = [cp.sum(a) == 1, a <= 0.4, a[0] + a[1] <= 0.5, a[2] == a[3], cp.quad_form(a, C) <= limit]
    best = [cp.Problem(cp.Maximize(c @ a), given).solve(solver="CLARABEL") for c in rows]
    np.testing.assert_allclose((rows * actions).sum(axis=1), best, atol=1e-6)


CONIC: dict[str, Any] = {
    "ball": lambda a: [cp.norm(a) <= 1],
    "lower bounds": lambda a: [cp.sum(a) == 1, a >= 0.05, cp.sum_squares(a) <= 0.4],
    "two limits": lambda a: [cp.sum(a) == 1, a >= 0, cp.sum_squares(a) <= 0.4, cp.norm(a - 0.2) <= 0.3],
    "far corners": lambda a: [cp.sum(a) == 1, a >= 0, cp.norm1(a - 0.25) <= 0.6, cp.norm(a) <= 0.7],
    "entropy": lambda a: [cp.sum(a) == 1, cp.sum(cp.entr(a)) >= 1.0],
    "semidefinite": lambda a: [cp.bmat([[1, a[0], a[1]], [a[0], 1, a[2]], [a[1], a[2], 1]]) >> 0, a[3] == a[0]],
    "power": lambda a: [a >= 0, cp.sum(cp.power(a, 1.5)) <= 1],
    "linear term": lambda a: [cp.sum_squares(a) + a[0] <= 1],
}


@pytest.mark.parametrize("name", sorted(CONIC))
def test_other_convex_sets_agree_with_another_solver(name: str) -> None:
    omega = make(4, CONIC[name])
    assert omega.recognised == "conic"
    assert omega.inner is None
    C = scaled(np.random.default_rng(4).normal(size=(12, 4)))
    actions = omega.argmax(C)
    theirs = best_by_cvxpy(C, CONIC[name], "SCS")
    np.testing.assert_allclose((C * actions).sum(axis=1), theirs, atol=2e-3)
    fine = best_by_cvxpy(C, CONIC[name], "CLARABEL")
    np.testing.assert_allclose((C * actions).sum(axis=1), fine, atol=1e-6)
    assert omega.violation(actions).max() <= 1e-8


def test_the_ball_is_exact() -> None:
    omega = make(5, CONIC["ball"])
    C = hard_rows(5, n=100)
    C = C[C.any(axis=1)]
    actions = omega.argmax(C)
    unit = scaled(C)
    norms = np.sqrt((unit**2).sum(axis=1))
    np.testing.assert_allclose((unit * actions).sum(axis=1), norms, rtol=1e-10)
    np.testing.assert_allclose(actions, unit / norms[:, None], atol=1e-5)
    np.testing.assert_array_equal([omega.lower, omega.upper], [[-1] * 5, [1] * 5])
    outside = np.array([[2.0, 0, 0, 0, 0], [0.5, 0, 0, 0, 0], [1.0, 1.0, 0, 0, 0]])
    np.testing.assert_allclose(omega.violation(outside), [1.0, 0.0, 1 - np.sqrt(0.5)], atol=1e-8)


@pytest.mark.parametrize("name", ["ball", "far corners", "two limits"])
def test_conic_sets_keep_the_contract(name: str) -> None:
    omega = make(4, CONIC[name])
    report = check(omega, rows=32)
    assert report.ok, str(report)
    C = hard_rows(4, n=5)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), omega.argmax(C))
        np.testing.assert_array_equal(twin.violation(C[:3]), omega.violation(C[:3]))


def test_attributes_of_a_conic_variable_count() -> None:
    omega = make(3, lambda a: [cp.norm(a) <= 2], nonneg=True)
    assert omega.recognised == "conic"
    np.testing.assert_array_equal([omega.lower, omega.upper], [[0] * 3, [2] * 3])
    np.testing.assert_allclose(omega.argmax([[3.0, 4.0, -1.0]]), [[1.2, 1.6, 0]], atol=1e-6)


def test_other_variables_are_fine() -> None:
    def split(a: Any) -> list[Any]:
        up, down = cp.Variable(3, nonneg=True), cp.Variable(3, nonneg=True)
        return [a == 0.3 + up - down, cp.sum(up + down) <= 0.5, a >= 0, a <= 1]

    omega = make(3, split)
    assert omega.recognised == "Polytope"
    assert omega.dimension == 3
    C = np.random.default_rng(5).normal(size=(20, 3))
    np.testing.assert_allclose((C * omega.argmax(C)).sum(axis=1), best_by_cvxpy(C, split, "CLARABEL"), atol=1e-7)
    np.testing.assert_allclose(omega.violation(np.array([[0.3, 0.3, 0.8], [0.3, 0.3, 1.0]])), [0.0, 0.2], atol=1e-8)


def test_whole_numbers_are_a_mixed_integer_set() -> None:
    omega = make(3, lambda a: [np.array([3, 4, 5]) @ a <= 8], boolean=True)
    expected = MixedInteger(A_ub=[[3, 4, 5]], b_ub=[8])
    C = hard_rows(3, n=10)
    assert omega.recognised == "MixedInteger"
    np.testing.assert_array_equal(omega.argmax(C), expected.argmax(C))
    some = make(2, lambda a: [cp.sum(a) <= 1.5, a >= 0, a <= 1], integer=[(0,)])
    np.testing.assert_array_equal(some.argmax([[2.0, 1.0]]), [[1, 0.5]])


def fixed_charge(a: Any) -> list[Any]:
    """At least 0.3 or nothing, of at most two."""
    used = cp.Variable(3, boolean=True)
    return [a <= used, a >= 0.3 * used, cp.sum(used) <= 2, cp.sum(a) == 1]


@pytest.mark.no_cover
def test_whole_numbers_in_other_variables_are_lifted() -> None:
    omega = make(3, fixed_charge, bounds=[0, 1])
    assert omega.recognised == "MixedInteger"
    assert omega.dimension == 3
    C = hard_rows(3, n=12)
    actions = omega.argmax(C)
    candidates = np.array(
        [*np.eye(3), *(p for i in range(3) for p in np.roll([[0.7, 0.3, 0], [0.3, 0.7, 0]], i, axis=1))]
    )
    np.testing.assert_allclose((scaled(C) * actions).sum(axis=1), (scaled(C) @ candidates.T).max(axis=1), atol=1e-9)
    assert omega.violation(actions).max() == 0
    np.testing.assert_allclose(omega.violation(np.array([[1.5, 0.0, 0.0]])), [0.5])
    assert check(omega, rows=16).ok


@pytest.mark.parametrize(
    "objective",
    [
        lambda c, a: cp.Maximize(c @ a),
        lambda c, a: cp.Minimize(c @ a),
        lambda c, a: cp.Minimize(-c @ a),
        lambda c, a: cp.Maximize(cp.sum(cp.multiply(c, a))),
        lambda c, a: cp.Minimize(-(a @ c)),
    ],
)
def test_sets_maximise_whatever_the_sense(objective: Any) -> None:
    a, c = cp.Variable(2), cp.Parameter(2)
    omega = CvxpySet(cp.Problem(objective(c, a), [a >= 0, cp.sum(a) <= 1]), a, c)
    np.testing.assert_array_equal(omega.argmax([[1.0, 2.0], [-1.0, -2.0]]), [[0, 1], [0, 0]])


def test_the_problem_is_left_as_it_was() -> None:
    a, c, b, size = cp.Variable(2, nonneg=True), cp.Parameter(2), cp.Variable(), cp.Parameter(value=2.0)
    a.value = np.array([0.25, 0.5])
    c.value = np.array([7.0, 8.0])
    omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= b, b <= size]), a, c)
    np.testing.assert_array_equal([a.value, c.value], [[0.25, 0.5], [7, 8]])
    assert b.value is None
    np.testing.assert_allclose(omega.argmax([[1.0, 0.0]]), [[2, 0]], atol=1e-5)


def test_a_parameter_that_changes_later_is_noticed() -> None:
    a, c, size = cp.Variable(2, nonneg=True), cp.Parameter(2), cp.Parameter(value=2.0, name="size")
    for limit in (cp.norm(a), cp.sum(a)):
        size.value = 2.0
        omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), [limit <= size]), a, c)
        c.value = [7.0, 8.0]  # the coefficients may change
        before = omega.argmax([[1.0, 0.0]])
        size.value = 10.0
        with pytest.raises(
            InputError, match=r"size has changed .* from 2.0 to 10.0; .* Make the set again; or,.*rows="
        ):
            omega.argmax([[1.0, 0.0]])
        copied = pickle.loads(pickle.dumps(omega))
        np.testing.assert_array_equal(copied.argmax([[1.0, 0.0]]), before)
        size.value = 2.0
        np.testing.assert_array_equal(omega.argmax([[1.0, 0.0]]), before)


def test_numbers_for_rows_are_not_taken_for_constraints_of_all_rows() -> None:
    a, c, budgets = cp.Variable(2, nonneg=True), cp.Parameter(2), np.array([1.0, 2.0, 3.0])
    for limit in (budgets, cp.Parameter(3, value=budgets)):
        with pytest.raises(InputError, match=r"compares one number with 3, .* rows=\{limit: 'column'\}"):
            CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.sum(a) <= limit]), a, c)
    size = cp.Parameter(name="size")
    size.save_value(budgets)  # what setting size.value refuses
    with pytest.raises(InputError, match=r"size has the shape \(\), but its value has \(3,\).*rows="):
        CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.sum(a) <= size]), a, c)
    fine = CvxpySet(cp.Problem(cp.Maximize(c @ a), [a <= np.array([1.0, 2.0]), a[0] <= np.array([1.0])]), a, c)
    np.testing.assert_array_equal(fine.upper, [1, 2])


def test_one_coordinate() -> None:
    assert make(1, lambda a: [a <= 3, a >= -1]).argmax([[1.0], [-1.0]]).tolist() == [[3.0], [-1.0]]
    np.testing.assert_allclose(make(1, lambda a: [cp.norm(a) <= 3]).argmax([[1.0], [-1.0]]), [[3], [-3]], atol=1e-8)


def test_invalid_sets_say_why() -> None:
    with pytest.raises(EmptySetError, match="no action satisfies"):
        make(2, lambda a: [cp.norm(a) <= 1, a[0] >= 2])
    with pytest.raises(EmptySetError):
        make(2, lambda a: [a >= 0, a <= 1, cp.sum(a) == 3])
    with pytest.raises(UnboundedSetError, match="the largest value of coordinate 0 is infinite"):
        make(2, lambda a: [cp.norm(a[1]) <= 1, a[0] >= a[1]])
    with pytest.raises(UnboundedSetError):
        make(2, lambda a: [a >= 0])
    with pytest.raises(SolverError, match="the smallest value of coordinate 1 could not be found"):
        make(2, lambda a: [cp.square(a[1]) <= a[0]])  # without a bound, but without a straight way out either
    with pytest.raises(InputError, match="whole numbers, and constraints or costs that are not linear"):
        make(2, lambda a: [cp.norm(a) <= 1], boolean=True)


def test_what_is_not_of_this_form_is_refused() -> None:
    a, c, other = cp.Variable(2), cp.Parameter(2), cp.Variable(2)
    box = [a >= 0, a <= 1]
    for objective in (
        cp.Maximize(cp.sum(a)),
        cp.Maximize(2 * c @ a),
        cp.Maximize(c @ other),
        cp.Maximize(c @ (a + other)),
    ):
        with pytest.raises(InputError, match="objective must be the product of the parameter and the variable"):
            CvxpySet(cp.Problem(objective, [*box, other >= 0]), a, c)
    with pytest.raises(UnboundedSetError, match="some variable that they reward grows forever"):
        CvxpySet(cp.Problem(cp.Maximize(c @ a + cp.sum(other)), [*box, other >= 0]), a, c)
    good = cp.Problem(cp.Maximize(c @ a), box)
    with pytest.raises(InputError, match=r"problem must be a cvxpy\.Problem; got list"):
        CvxpySet(box, a, c)
    with pytest.raises(InputError, match=r"variable must be a cvxpy\.Variable, or a linear expression .*; got param"):
        CvxpySet(good, c, a)
    with pytest.raises(InputError, match=r"same shape; got \(2,\) and \(3,\)"):
        CvxpySet(good, a, cp.Parameter(3))
    with pytest.raises(InputError, match=r"got norm2|got Pnorm"):
        CvxpySet(good, cp.norm(a), cp.Parameter())
    with pytest.raises(InputError, match="must be in the objective alone"):
        CvxpySet(cp.Problem(cp.Maximize(c @ a), [a <= c]), a, c)
    with pytest.raises(InputError, match="convex by cvxpy's rules"):
        CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) >= 1]), a, c)
    with pytest.raises(InputError, match="need values; size has none"):
        CvxpySet(cp.Problem(cp.Maximize(c @ a), [a <= cp.Parameter(name="size"), a >= 0]), a, c)


def test_failures_are_named_or_take_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    a, c = cp.Variable(2), cp.Parameter(2)
    problem = cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1])
    strict, kept = CvxpySet(problem, a, c), CvxpySet(problem, a, c, on_failure="fallback", fallback=[0.5, 0.0])
    solve = ConicProgram.argmax

    def fails(self: ConicProgram, costs: Floats) -> tuple[Floats, dict[int, str]]:
        actions, _ = solve(self, costs)
        return actions, {1: "InsufficientProgress"}

    monkeypatch.setattr(ConicProgram, "argmax", fails)
    with pytest.raises(SolverError, match="row 1 could not be solved: Clarabel ended with status InsufficientProgress"):
        strict.argmax(np.eye(2))
    with pytest.warns(FallbackWarning, match="1 of 2 rows"):
        actions = kept.argmax(np.eye(2))
    np.testing.assert_allclose(actions, np.array([[1, 0], [0.5, 0]]), atol=1e-5)


def test_a_recognised_set_takes_the_fallback_too() -> None:
    a, c = cp.Variable(2), cp.Parameter(2)
    problem = cp.Problem(cp.Maximize(c @ a), [a >= 0, cp.sum(a) <= 1])
    omega = CvxpySet(problem, a, c, on_failure="fallback", fallback=[0.5, 0.5])
    assert omega.inner is not None
    assert omega.inner.on_failure == omega.on_failure == "fallback"
    used = cp.Variable(2, boolean=True)
    lifted = CvxpySet(
        cp.Problem(cp.Maximize(c @ a), [a >= 0, a <= used]), a, c, on_failure="fallback", fallback=[0.5, 0.5]
    )
    assert lifted.fallback is not None
    np.testing.assert_array_equal(lifted.fallback, [0.5, 0.5])


def test_without_cvxpy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"pip install 'optensemble\[cvxpy\]'"):
        CvxpySet(None, None, None)
