"""Sets with a known cost: against independent solvers row by row, what is recognised, and what is refused."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import linprog

import optensemble as oe
from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError
from optensemble.feasible import (
    Assignment,
    Box,
    ByKey,
    CvxpySet,
    FeasibleSet,
    Knapsack,
    MixedInteger,
    Oracle,
    Polytope,
    Product,
    RiskBudget,
    ShortestPath,
    Simplex,
    TopK,
    Vertices,
    WithCost,
    check,
)
from tests import sets_by_row
from tests.costs_by_row import CASES
from tests.sample_sets import Floats, covariance, hard_rows

solve_lp: Any = linprog
ROWS = 1000


def table(rng: np.random.Generator, d: int, n: int = ROWS) -> pd.DataFrame:
    """What is held, rates, prices and risk aversion of each row; many of them round numbers, so that there are ties."""
    parts = {
        "held": rng.dirichlet(np.ones(d), n).round(1),
        "rate": rng.choice([0.0, 0.1, 0.25, 2.0], (n, 1)) * rng.uniform(0.5, 1.0, (n, d)).round(1),
        "price": rng.normal(size=(n, d)).round(1),
        "gamma": rng.choice([0.0, 0.3, 1.0], (n, 1)),
    }
    return pd.concat(
        [pd.DataFrame(part, columns=[f"{name}_{j}" for j in range(part.shape[1])]) for name, part in parts.items()],
        axis=1,
    )


def by_hand(X: pd.DataFrame, actions: Floats, Q: Floats | None = None) -> Floats:
    """The cost of each action, by the definition."""
    part = {name: X.filter(regex=f"^{name}_").to_numpy() for name in ("held", "rate", "price", "gamma")}
    cost = (part["price"] * actions).sum(axis=1) + (part["rate"] * np.abs(actions - part["held"])).sum(axis=1)
    squares = 0.0 if Q is None else part["gamma"][:, 0] * np.einsum("ni,ij,nj->n", actions, Q, actions)
    return np.asarray(cost + squares)


EVERY_PART: dict[str, Any] = {"linear": oe.Columns("price_*"), "turnover": (oe.Columns("held_*"), oe.Columns("rate_*"))}


def rows_of(omega: FeasibleSet) -> dict[str, Any]:
    """The constraints of some sets, as SciPy takes them."""
    d = omega.dimension
    if isinstance(omega, Simplex):
        return {"A_eq": np.ones((1, d)), "b_eq": [1.0]}
    if isinstance(omega, Knapsack):
        return {"A_ub": omega.weights, "b_ub": omega.capacity}
    spec: Any = omega.spec()
    return {name: spec[name] for name in ("A_ub", "b_ub", "A_eq", "b_eq") if spec.get(name) is not None}


def best_by_scipy(omega: FeasibleSet, c: Floats, held: Floats, rate: Floats) -> float:
    """The best ``c·a - rate·t`` with ``t >= |a - held|``."""
    d, given = len(c), rows_of(omega)
    one = np.eye(d)
    A_ub, b_ub = np.vstack([np.hstack([one, -one]), np.hstack([-one, -one])]), np.concatenate([held, -held])
    if "A_ub" in given:
        A_ub = np.vstack([A_ub, np.pad(given["A_ub"], ((0, 0), (0, d)))])
        b_ub = np.concatenate([b_ub, given["b_ub"]])
    equal = {}
    if "A_eq" in given:
        equal = {"A_eq": np.pad(given["A_eq"], ((0, 0), (0, d))), "b_eq": given["b_eq"]}
    bounds = [*zip(omega.lower, omega.upper, strict=True), *[(0.0, None)] * d]
    found = solve_lp(np.concatenate([-c, rate]), A_ub=A_ub, b_ub=b_ub, bounds=bounds, **equal)
    return float(-found.fun)


LINEAR_SETS: dict[str, tuple[FeasibleSet, str]] = {
    "simplex": (Simplex(5), "Knapsack"),
    "knapsack": (Knapsack([1.0, 2.0, 3.0, 4.0, 0.0], capacity=3.0, upper=[1.0, 2.0, 0.5, 1.0, 1.0]), "Knapsack"),
    "two resources": (Knapsack([[1, 2, 3, 4, 1], [2, 0, 1, 1, 1]], capacity=[3.0, 1.5]), "Polytope"),
    "polytope": (Polytope(A_ub=[[1, 1, 0, -1, 1], [0, 1, 1, 1, 0]], b_ub=[0.7, 0.5], lower=-0.5), "Polytope"),
    "portfolio": (Polytope([[1] * 4 + [0] * 8], [0.5], [[1] * 12], [1], upper=0.3), "Polytope"),
    "box": (Box([-1.0, 0.0, 0.0, 0.2, 0.3], [2.0, 1.0, 0.3, 0.2, 1.0]), "by coordinate"),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", LINEAR_SETS)
def test_turnover_agrees_with_a_linear_programme_of_scipy(name: str) -> None:
    rng = np.random.default_rng(1)
    omega, recognised = LINEAR_SETS[name]
    X, C = table(rng, omega.dimension), rng.normal(size=(ROWS, omega.dimension)).round(1)
    whole = WithCost(omega, **EVERY_PART)
    assert whole.recognised == recognised
    bound = whole.for_rows(X)
    actions = bound.argmax(C)
    earned = (C * actions).sum(axis=1) - by_hand(X, actions)
    np.testing.assert_allclose(bound.value(actions, C), earned, atol=1e-12)
    held, rate, price = (X.filter(regex=f"^{part}_").to_numpy() for part in ("held", "rate", "price"))
    best = [best_by_scipy(omega, C[i] - price[i], held[i], rate[i]) for i in range(ROWS)]
    np.testing.assert_allclose(earned, best, atol=1e-9)
    assert bound.violation(actions).max() <= 1e-9


BINARY_SETS: dict[str, FeasibleSet] = {
    "top k": TopK(6, k=3),
    "at most k": TopK(6, k=3, at_most=True),
    "assignment": Assignment(2, 3),
    "path": ShortestPath([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (0, 3)], source=0, target=3),
    "whole items": Knapsack([3, 4, 5, 2, 1, 2], capacity=8, integer=True),
    "mixed integer": MixedInteger(A_ub=[[1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 1, 1]], b_ub=[1, 2]),
    "vertices": Vertices(np.eye(6)),
}


def all_binary(omega: FeasibleSet) -> Floats:
    points: Floats = np.array(list(product([0.0, 1.0], repeat=omega.dimension)))
    return points[omega.violation(points) <= 1e-9]


@pytest.mark.parametrize("name", BINARY_SETS)
def test_on_zeros_and_ones_turnover_and_squares_are_linear(name: str) -> None:
    rng = np.random.default_rng(2)
    omega, d, Q = BINARY_SETS[name], 6, np.diag([0.5, 0.0, 1.0, 0.2, 0.1, 0.3])
    X, C = table(rng, d), rng.normal(size=(ROWS, d)).round(1)
    whole = WithCost(omega, quadratic=(oe.Columns("gamma_0"), Q), **EVERY_PART)
    assert whole.recognised == "linear"
    bound, points = whole.for_rows(X), all_binary(omega)
    actions = bound.argmax(C)
    assert bound.violation(actions).max() <= 1e-9
    values = np.stack([C @ point - by_hand(X, np.tile(point, (ROWS, 1)), Q) for point in points])
    np.testing.assert_allclose(bound.value(actions, C), values.max(axis=0), atol=1e-9)


LIST: Floats = np.array([[0, 0, 0], [1, 2, 0], [0.5, 1, 1], [2, 0, 1], [1, 1, 1], [0.5, 1, 1]], dtype=np.float64)
LISTED_SETS: dict[str, FeasibleSet] = {
    "vertices": Vertices(LIST),
    "whole numbers": MixedInteger(A_ub=[[1, 1, 1]], b_ub=[4], upper=3),
}


@pytest.mark.parametrize("name", LISTED_SETS)
def test_lists_are_compared_with_every_part_of_the_cost(name: str) -> None:
    rng = np.random.default_rng(3)
    omega, Q = LISTED_SETS[name], covariance(3)
    X, C = table(rng, 3), rng.normal(size=(ROWS, 3)).round(1)
    whole = WithCost(omega, quadratic=(oe.Columns("gamma_0"), Q), **EVERY_PART)
    assert whole.recognised == "list"
    points = np.array(list(product([0.0, 1.0, 2.0, 3.0], repeat=3))) if name == "whole numbers" else LIST
    points = points[omega.violation(points) <= 1e-9]
    bound = whole.for_rows(X)
    actions = bound.argmax(C)
    values = np.stack([C @ point - by_hand(X, np.tile(point, (ROWS, 1)), Q) for point in points])
    np.testing.assert_allclose(bound.value(actions, C), values.max(axis=0), atol=1e-9)
    first = points[(values >= values.max(axis=0) - 1e-12).argmax(axis=0)]
    np.testing.assert_array_equal(actions, first)


def test_actions_between_others_are_listed_where_moving_costs() -> None:
    line = WithCost(MixedInteger(upper=4, dimension=1), turnover=(2, 1.0))
    assert line.argmax([[0.5], [1.5], [-1.5], [0.0]]).ravel().tolist() == [2.0, 4.0, 0.0, 2.0]


@pytest.mark.parametrize("by_row", [False, True])
def test_turnover_with_whole_numbers_that_are_not_listed(by_row: bool) -> None:
    rng, n = np.random.default_rng(8), 150
    X, C = table(rng, 3, n).assign(room=4.0), rng.normal(size=(n, 3)).round(1)
    room: Any = oe.Columns("room") if by_row else 4.0
    omega = WithCost(MixedInteger([[1, 2, 1]], [room], upper=2, integer=[0, 1]), **EVERY_PART)
    assert omega.recognised == ("row by row" if by_row else "MixedInteger")
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    assert bound.violation(actions).max() <= 1e-9
    held = X["held_2"].to_numpy()
    best = np.full(n, -np.inf)
    for first, second in product([0.0, 1.0, 2.0], repeat=2):
        room_left = min(4.0 - first - 2.0 * second, 2.0)
        if room_left >= 0:  # the third coordinate is best at a bound or as it is held
            for third in (np.zeros(n), np.full(n, room_left), np.clip(held, 0.0, room_left)):
                point = np.column_stack([np.full(n, first), np.full(n, second), third])
                best = np.maximum(best, (C * point).sum(axis=1) - by_hand(X, point))
    np.testing.assert_allclose((C * actions).sum(axis=1) - by_hand(X, actions), best, atol=1e-9)


CURVED = {
    "simplex": Simplex(6),
    "polytope": Polytope(A_ub=[[1, 1, 1, 0, 0, 0]], b_ub=[0.5], A_eq=[[1] * 6], b_eq=[1], upper=0.4),
    "risk budget": RiskBudget(covariance(6, seed=1), limit=0.3, upper=0.5),
    "knapsack": Knapsack([[1, 2, 3, 1, 2, 3], [1, 1, 1, 1, 1, 1]], capacity=[3.0, 2.0]),
    "box": Box(-1.0, 1.0, dimension=6),
}


def best_by_clarabel(omega: FeasibleSet, Q: Floats, c: Floats, held: Floats, rate: Floats) -> float:
    """The best ``c·a - a'Qa - rate·t`` with ``t >= |a - held|``: a programme of its own, made from nothing."""
    import clarabel

    d, given = len(c), {name: np.atleast_2d(value) for name, value in rows_of(omega).items()}
    one, none = np.eye(d), np.zeros((d, d))
    if isinstance(omega, RiskBudget):
        given = {"A_eq": np.ones((1, d)), "b_eq": np.ones((1, 1))}
    equal, b_eq = given.get("A_eq", np.empty((0, d))), given.get("b_eq", np.empty((1, 0)))[0]
    least, b_ub = given.get("A_ub", np.empty((0, d))), given.get("b_ub", np.empty((1, 0)))[0]
    actions = np.concatenate([equal, least, one, -one, one, -one])
    moves = np.concatenate([np.zeros((len(equal) + len(least), d)), none, none, -one, -one])
    right = np.concatenate([b_eq, b_ub, omega.upper, -omega.lower, held, -held])
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(least) + 4 * d)]
    if isinstance(omega, RiskBudget):
        root = np.linalg.cholesky(omega.covariance).T
        actions, moves = np.concatenate([actions, np.zeros((1, d)), -root]), np.pad(moves, ((0, d + 1), (0, 0)))
        right = np.concatenate([right, [np.sqrt(omega.limit)], np.zeros(d)])
        cones.append(clarabel.SecondOrderConeT(d + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    P = sparse.csc_matrix(np.triu(2.0 * np.block([[Q, none], [none, none]])))
    A = sparse.csc_matrix(np.hstack([actions, moves]))
    solution = clarabel.DefaultSolver(P, np.concatenate([-c, rate]), A, right, cones, settings).solve()
    return -float(solution.obj_val)


@pytest.mark.parametrize("turnover", [False, True])
@pytest.mark.parametrize("name", CURVED)
def test_squares_agree_with_another_programme_for_clarabel(name: str, turnover: bool) -> None:
    rng, omega, Q = np.random.default_rng(4), CURVED[name], covariance(6)
    X, C = table(rng, 6), rng.normal(size=(ROWS, 6)).round(2)
    parts = EVERY_PART if turnover else {"linear": oe.Columns("price_*")}
    if not turnover:
        X.loc[:, [column for column in X.columns if column.startswith("rate")]] = 0.0
    bound = WithCost(omega, quadratic=(oe.Columns("gamma_0"), Q), **parts).for_rows(X)
    actions = bound.argmax(C)
    exact = name in ("simplex", "polytope") and not turnover
    assert bound.recognised == ("mean-variance" if exact else "conic")
    held, rate, price = (X.filter(regex=f"^{part}_").to_numpy() for part in ("held", "rate", "price"))
    gamma = X["gamma_0"].to_numpy()
    best = [best_by_clarabel(omega, gamma[i] * Q, C[i] - price[i], held[i], rate[i]) for i in range(ROWS)]
    earned = (C * actions).sum(axis=1) - by_hand(X, actions, Q)
    np.testing.assert_allclose(bound.value(actions, C), earned, atol=1e-12)
    np.testing.assert_allclose(earned, best, atol=1e-9)
    assert bound.violation(actions).max() <= 1e-9


def test_squares_agree_with_cvxpy() -> None:
    cp: Any = import_module("cvxpy")

    omega, Q, held = Simplex(6), covariance(6), np.full(6, 1 / 6)
    a, c = cp.Variable(6), cp.Parameter(6)
    cost = 0.5 * cp.quad_form(a, Q) + 0.1 * cp.norm1(a - held)
    problem = cp.Problem(cp.Maximize(c @ a - cost), [a >= 0, cp.sum(a) == 1])
    C = np.random.default_rng(0).normal(size=(40, 6))
    ours = WithCost(omega, quadratic=(0.5, Q), turnover=(held, 0.1))
    actions = ours.argmax(C)
    for row, action in zip(C, actions, strict=True):
        c.value = row
        problem.solve(solver=cp.CLARABEL)
        assert ours.value(action[None], row[None])[0] >= problem.value - 1e-7
        np.testing.assert_allclose(action, a.value, atol=1e-4)


def test_a_box_with_diagonal_squares_is_solved_in_closed_form() -> None:
    rng, Q = np.random.default_rng(5), np.diag([0.5, 0.0, 2.0])
    X, C = table(rng, 3), rng.normal(size=(ROWS, 3)).round(1)
    omega = WithCost(Box(-1.0, [1.0, 2.0, 0.5]), quadratic=(oe.Columns("gamma_0"), Q), **EVERY_PART)
    assert omega.recognised == "by coordinate"
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    part = {name: X.filter(regex=f"^{name}_").to_numpy() for name in ("held", "rate", "price", "gamma")}
    for j, high in enumerate((1.0, 2.0, 0.5)):
        # every kink, bound and stationary point of one coordinate
        gain, curve = C[:, j] - part["price"][:, j], 2.0 * part["gamma"][:, 0] * Q[j, j]
        with np.errstate(divide="ignore", invalid="ignore"):
            flat = [(gain + side * part["rate"][:, j]) / curve for side in (1.0, -1.0)]
        tried = np.stack([np.full(ROWS, -1.0), np.full(ROWS, high), part["held"][:, j], *flat])
        tried = np.clip(np.where(np.isfinite(tried), tried, 0.0), -1.0, high)
        values = gain * tried - curve / 2 * tried**2 - part["rate"][:, j] * np.abs(tried - part["held"][:, j])
        a = actions[:, j]
        earned = gain * a - curve / 2 * a**2 - part["rate"][:, j] * np.abs(a - part["held"][:, j])
        np.testing.assert_allclose(earned, values.max(axis=0), atol=1e-12)


def test_a_linear_cost_is_taken_off_the_coefficients_to_the_bit() -> None:
    C, price = hard_rows(6), np.linspace(-1.0, 1.0, 6)
    for omega in (*BINARY_SETS.values(), Simplex(6), Box(dimension=6), CURVED["risk budget"], CURVED["polytope"]):
        np.testing.assert_array_equal(WithCost(omega, price).argmax(C), omega.argmax(C - price))


def test_what_stays_as_it_is_held_does_so_exactly() -> None:
    rng = np.random.default_rng(6)
    held = rng.dirichlet(np.ones(7), 50)
    for omega in (Simplex(7), Knapsack(np.ones(7), capacity=1.0), Box(dimension=7)):
        for row in held:
            stays = WithCost(omega, turnover=(row, 5.0)).argmax(rng.uniform(0.5, 1.0, (3, 7)))
            assert np.abs(stays - row).max() <= 1e-15


FIXED = {
    "linear": WithCost(Simplex(4), linear=[0.1, 0.0, -0.2, 0.3]),
    "turnover": WithCost(Simplex(4), turnover=([0.1, 0.2, 0.3, 0.4], 0.2)),
    "knapsack": WithCost(Knapsack([1, 2, 3, 4], capacity=4), turnover=(0.5, [0.1, 0.2, 0.0, 0.3])),
    "box": WithCost(Box(-1, 1, dimension=4), linear=0.1, quadratic=np.eye(4), turnover=(0.0, 0.3)),
    "list": WithCost(Vertices(hard_rows(4)[:9]), quadratic=(0.5, covariance(4)), turnover=(0.3, 0.1)),
    "squares": WithCost(Simplex(4), quadratic=(0.7, covariance(4))),
    "everything": WithCost(CURVED["polytope"], 0.1, (0.2, covariance(6)), (0.1, 0.05)),
}


@pytest.mark.parametrize("name", FIXED)
def test_the_contract_holds_with_a_cost(name: str) -> None:
    report = check(FIXED[name], rows=64)
    assert report.ok, str(report)


def test_the_scale_of_coefficients_matters() -> None:
    omega = WithCost(Simplex(2), turnover=([1.0, 0.0], 0.5))
    assert omega.argmax([[0.0, 0.9], [0.0, 1.1]]).tolist() == [[1.0, 0.0], [0.0, 1.0]]


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"linear": [1.0, 2.0]}, "linear must be a number or have one entry for each of the 3 coordinates"),
        ({"linear": np.nan}, "linear must not hold NaN|must be finite|NaN"),
        ({"turnover": 0.1}, r"turnover must be a pair, what is held and the rate: turnover=\(held, rate\)"),
        ({"turnover": (0.1, -0.1)}, "rate must not be negative; got -0.1"),
        ({"quadratic": (-1.0, np.eye(3))}, "gamma must not be negative; got -1"),
        ({"quadratic": ([1.0, 2.0, 3.0], np.eye(3))}, "gamma must be a number"),
        ({"quadratic": -np.eye(3)}, "the matrix of quadratic= must be positive semidefinite"),
        ({"quadratic": [[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, "quadratic= must be symmetric"),
        ({"quadratic": np.eye(2)}, "must have 3 rows and columns; got 2"),
        ({"quadratic": oe.Columns("q_*")}, "the matrix of quadratic= is one for all rows; gamma may come from the row"),
        ({"on_failure": "ignore", "fallback": [1, 0, 0]}, "on_failure must be 'raise' or 'fallback'"),
    ],
)
def test_costs_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WithCost(Simplex(3), **arguments)


def test_sets_that_cannot_have_a_cost_are_refused() -> None:
    with pytest.raises(InputError, match="omega must be a feasible set; got int"):
        WithCost(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"has a cost already. Give all parts of the cost to one WithCost"):
        WithCost(WithCost(Simplex(3), 1.0), 2.0)
    with pytest.raises(InputError, match=r"quadratic= is not possible on TopK.*Vertices.*Oracle"):
        WithCost(TopK(3, k=1), quadratic=covariance(3))
    with pytest.raises(
        InputError, match=r"turnover= is not possible on Product.* as a whole. Give the sets that it is"
    ):
        WithCost(Product([Simplex(2), Simplex(1)]), turnover=(0.0, 1.0))
    cp: Any = import_module("cvxpy")
    a, c = cp.Variable(3), cp.Parameter(3)
    with pytest.raises(InputError, match=r"turnover= is not possible on CvxpySet.* into the objective of its problem"):
        WithCost(CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1]), a, c), turnover=(0.0, 1.0))
    oracle = Oracle(lambda C: np.eye(3)[C.argmax(axis=1)], dimension=3)
    with pytest.raises(InputError, match="turnover= is not possible on Oracle"):
        WithCost(oracle, turnover=(0.0, 1.0))
    np.testing.assert_array_equal(WithCost(oracle, [0.0, 3.0, 0.0]).argmax([[1.0, 2.0, 0.5]]), [[1.0, 0.0, 0.0]])


def bad_rows() -> pd.DataFrame:
    return pd.DataFrame({"held_0": [0.5, np.nan, 0.2], "held_1": [0.5, 1.0, 0.8], "fee": [0.1, 0.1, -0.2]})


def test_rows_without_a_cost_are_named() -> None:
    omega = WithCost(Simplex(2), turnover=(oe.Columns("held_*"), oe.Columns("fee")))
    with pytest.raises(InputError, match=r"held must be a finite number; in row 1 of 3 it is nan \(column 'held_0'\)"):
        omega.for_rows(bad_rows())
    with pytest.raises(InputError, match=r"rate must not be negative; in row 2 of 3 it is -0.2 \(column 'fee'\)"):
        omega.for_rows(bad_rows().fillna(0.0))
    with pytest.raises(InputError, match=r"held comes from the row, but .*no column"):
        omega.for_rows(bad_rows()[["fee"]])
    averse = WithCost(Simplex(2), quadratic=(oe.Columns("fee"), np.eye(2)))
    with pytest.raises(InputError, match=r"gamma must not be negative; in row 2 of 3 it is -0.2 \(column 'fee'\)"):
        averse.for_rows(bad_rows())
    with pytest.raises(InputError, match="from the row, which it is not bound to yet"):
        omega.cost(np.zeros((3, 2)))


def test_bad_rows_take_the_fallback() -> None:
    omega = WithCost(
        Knapsack([1.0, 1.0], capacity=oe.Columns("room")),
        turnover=(oe.Columns("held_*"), oe.Columns("fee")),
        on_failure="fallback",
        fallback=[0.0, 0.0],
    )
    X = bad_rows().assign(room=[1.0, 1.0, 1.0]).iloc[[0, 1, 2, 0]].assign(room=[1.0, 1.0, 1.0, -1.0])
    with pytest.warns(FallbackWarning, match="3 of 4 rows have no set and take the fallback action: held must"):
        actions = omega.for_rows(X).argmax(np.ones((4, 2)))
    np.testing.assert_array_equal(actions, [[0.5, 0.5], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    with pytest.warns(FallbackWarning):
        costs = omega.for_rows(X).cost(actions)
    np.testing.assert_allclose(costs, [0.0, 0.0, 0.0, 0.1])  # unknown in two rows, and known where the set is at fault
    with pytest.raises(InfeasibleActionError, match="the fallback action must lie inside the set"):
        WithCost(Simplex(2), 1.0, on_failure="fallback", fallback=[1.0, 1.0])


def test_a_set_passes_on_what_it_does_with_bad_rows() -> None:
    bag = Knapsack([1.0, 1.0], capacity=oe.Columns("room"), on_failure="fallback", fallback=[0.0, 0.0])
    omega = WithCost(bag, 0.5)
    assert omega.on_failure == "fallback"
    with pytest.warns(FallbackWarning, match=r"omega.capacity of a knapsack must not be negative"):
        actions = omega.for_rows(pd.DataFrame({"room": [1.0, -1.0]})).argmax([[0.6, 0.4], [1.0, 1.0]])
    np.testing.assert_array_equal(actions, [[1.0, 0.0], [0.0, 0.0]])


def test_costs_of_parts_add_up() -> None:
    moving, fixed = WithCost(Simplex(2), turnover=([1.0, 0.0], 0.5)), WithCost(Box(dimension=1), 0.25)
    omega = Product([moving, TopK(2, k=1), fixed])
    actions = omega.argmax([[0.0, 2.0, 1.0, 0.0, 1.0], [0.0, 0.5, 0.0, 1.0, 0.1]])
    np.testing.assert_array_equal(actions, [[0, 1, 1, 0, 1], [1, 0, 0, 1, 0]])
    np.testing.assert_allclose(omega.cost(actions), [1.25, 0.0])
    by_key = ByKey("where", {"here": moving, "there": Simplex(2)})
    assert by_key.has_cost
    bound = by_key.for_rows(pd.DataFrame({"where": ["there", "here"]}))
    np.testing.assert_array_equal(bound.argmax([[0.0, 0.1], [0.0, 0.1]]), [[0, 1], [1, 0]])
    np.testing.assert_allclose(bound.cost(np.array([[0.0, 1.0], [0.0, 1.0]])), [0.0, 1.0])


def test_the_rows_of_an_oracle_come_with_its_cost() -> None:
    last = Oracle(lambda C, X: np.eye(2)[np.where(X["shut"] == 1, 1, C.argmax(axis=1))], dimension=2, rows=True)
    X = pd.DataFrame({"shut": [0, 1, 0], "fee": [0.0, 0.0, 9.0]})
    bound = WithCost(last, [oe.Columns("fee"), 0.0]).for_rows(X)
    actions = bound.argmax(np.tile([2.0, 1.0], (3, 1)))
    np.testing.assert_array_equal(actions, [[1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(bound.take([2]).argmax([[2.0, 1.0]]), [[0, 1]])


def test_constraints_that_bind_are_those_of_the_set() -> None:
    X = pd.DataFrame({"room": [0.5]})
    omega = WithCost(Polytope([[1, 1]], [oe.Columns("room")]), turnover=(0.1, 0.2)).for_rows(X)
    (action,) = omega.argmax([[1.0, 0.5]])
    assert omega.binding(action)[0] == "A_ub[0]: b_ub[0] = 0.5 (column 'room')"


@pytest.mark.parametrize("name", sorted(set(CASES) - set(sets_by_row.CASES)))
def test_no_rows_are_fine(name: str) -> None:
    omega, X = CASES[name](np.random.default_rng(0), 3)
    nothing = np.empty((0, omega.dimension))
    assert omega.for_rows(X).take(slice(0, 0)).argmax(nothing).shape == nothing.shape
    assert omega.for_rows(X[:0]).cost(nothing).shape == (0,)


def test_words() -> None:
    omega = WithCost(Simplex(3), 1.0, np.eye(3), (oe.Columns(["a", "b", "c"]), 0.1))
    assert repr(omega) == "WithCost(Simplex(dimension=3), linear, quadratic, turnover by row)"
    assert omega.has_cost
    fixed = WithCost(Simplex(3), 1.0)
    assert fixed.violation([[1.0, 0.0, 0.5]]).tolist() == [0.5]
    assert (fixed.lower.tolist(), fixed.upper.tolist()) == ([0.0] * 3, [1.0] * 3)
