"""Which sets are convex: mixtures of their actions are actions, worth at least what is mixed; of the others, not so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble.feasible import (
    Box,
    ByKey,
    FeasibleSet,
    MixedInteger,
    Oracle,
    Polytope,
    Product,
    Simplex,
    TopK,
    Vertices,
    WithCost,
)
from tests.costs_by_row import CASES
from tests.sample_sets import Floats, covariance, every_set, top_one

ROWS, MIXED = 40, 4
"""Rows, and how many actions are mixed in each."""

CONVEX = {
    *("box", "simplex", "simplex of some", "polytope", "grid", "battery", "fractions", "fractions of two"),
    *("risk", "singular risk", "large risk", "large singular risk", "capped risk", "sectors"),
    *("no whole numbers", "convex oracle", "product of convex sets"),
    *("moving", "squares", "squares and moving", "risk at a cost", "oracle at a cost", "product with costs"),
}
CONVEX_BY_ROW = {
    *("box", "knapsack", "knapsack of weights", "knapsack of two resources", "simplex", "simplex of available"),
    *("polytope", "polytope of bounds", "battery", "grid", "product"),
    *("risk limit", "risk limit and sectors", "risk caps", "risk limit and cap", "risk caps and cash"),
    *("box with cost", "knapsack with cost", "simplex with cost", "simplex with flags and cost", "squares by clarabel"),
    *("mean-variance at a cost", "polytope with cost", "two resources with cost", "risk with cost"),
    *("product with costs",),
}
UNKNOWN = {"oracle", "oracle by row"}
"""Functions whose mixtures are inside as far as they tell: nothing is known but bounds, or they are convex unsaid."""


def largest_share(C: Floats) -> Floats:
    """All of it for the largest coefficient, and nothing where none is positive."""
    actions: Floats = top_one(C) * (C.max(axis=1, keepdims=True) > 0)
    return actions


def fixed_sets() -> dict[str, FeasibleSet]:
    held = [0.2, 0.5, 0.3]
    sets = every_set()
    return sets | {
        "no whole numbers": MixedInteger([[3.0, 4.0, 5.0]], [8.0], integer=[]),
        "convex oracle": Oracle(largest_share, 3, contains=lambda a: a.sum(axis=1) <= 1 + 1e-9, convex=True),
        "product of convex sets": Product([Simplex(3), sets["risk"], Box(upper=[2.0])]),
        "moving": WithCost(Simplex(3), turnover=(held, 0.4)),
        "squares": WithCost(Box(-1.0, 2.0, 3), quadratic=(0.7, np.diag([1.0, 0.0, 2.0]))),
        "squares and moving": WithCost(Simplex(3), 0.1, (0.7, covariance(3)), (held, 0.2)),
        "risk at a cost": WithCost(sets["risk"], turnover=(0.25, [0.1, 0.0, 0.5, 0.3])),
        "oracle at a cost": WithCost(Oracle(largest_share, 3, convex=True), linear=[0.3, -0.2, 0.1]),
        "product with costs": Product([Simplex(2), WithCost(Box(dimension=2), quadratic=np.eye(2))]),
        "list at a cost": WithCost(Vertices([[0, 0], [1, 0], [0, 1]]), quadratic=np.eye(2)),
        "product with a list": Product([Simplex(2), Vertices([[0.0], [1.0]])]),
    }


FIXED = fixed_sets()
NAMES = [*sorted(FIXED), *(f"{name} by row" for name in sorted(CASES))]
EXPECTED = CONVEX | {f"{name} by row" for name in CONVEX_BY_ROW}
SLOW = {name for name in NAMES if "whole" in name}
"""HiGHS takes milliseconds for every row."""


def make(name: str) -> FeasibleSet:
    """A set, bound to rows if it differs between them."""
    if name in FIXED:
        return FIXED[name]
    omega, X = CASES[name.removesuffix(" by row")](np.random.default_rng(1), ROWS)
    return omega.for_rows(X)


def mixtures(omega: FeasibleSet, seed: int = 2) -> tuple[Floats, Floats, Floats]:
    """Actions to mix, of shape (mixed, rows, d), each the best under coefficients of its own; weights; and mixtures.

    Half of the coefficients are small whole numbers: where costs and ties decide.
    """
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(MIXED, ROWS, omega.dimension))
    C[::2] = rng.integers(-2, 3, C[::2].shape)
    actions = np.array([omega.argmax(coefficients) for coefficients in C])
    weights = rng.dirichlet(np.full(MIXED, 0.7), ROWS).T[:, :, None]
    weights[:, :5] = 1.0 / MIXED
    return actions, weights, (weights * actions).sum(axis=0)


def marked(names: list[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.mark.parametrize("name", marked([name for name in NAMES if name in EXPECTED]))
def test_mixtures_of_actions_of_a_convex_set_are_actions(name: str) -> None:
    omega = make(name)
    assert omega.convex
    *_, mixed = mixtures(omega)
    assert (omega.violation(mixed) <= omega.tolerance).all()


@pytest.mark.parametrize("name", marked([name for name in NAMES if name in EXPECTED]))
def test_a_mixture_is_worth_at_least_what_is_mixed(name: str) -> None:
    omega = make(name)
    actions, weights, mixed = mixtures(omega)
    C = np.random.default_rng(3).normal(size=mixed.shape)
    values = np.array([omega.value(each, C) for each in actions])
    gain = omega.value(mixed, C) - (weights[:, :, 0] * values).sum(axis=0)
    slack = 1e-12 * (1.0 + np.abs(values).max(axis=0) + np.abs(C) @ np.abs(actions).max(axis=(0, 1)))
    assert (gain >= -slack).all()
    assert bool((gain > slack).any()) == (omega.has_cost and name != "oracle at a cost")  # that cost is linear


@pytest.mark.parametrize("name", marked([name for name in NAMES if name not in EXPECTED | UNKNOWN]))
def test_some_mixture_of_actions_of_another_set_is_outside(name: str) -> None:
    omega = make(name)
    assert not omega.convex
    *_, mixed = mixtures(omega)
    assert (omega.violation(mixed) > 0.01).any()


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_a_function_is_not_known_to_be_convex(name: str) -> None:
    omega = make(name)
    assert not omega.convex
    *_, mixed = mixtures(omega)
    assert (omega.violation(mixed) <= omega.tolerance).all()


@pytest.mark.parametrize("name", sorted(CASES))
def test_rows_do_not_matter(name: str) -> None:
    omega, X = CASES[name](np.random.default_rng(1), 6)
    assert omega.convex is (name in CONVEX_BY_ROW)
    bound = omega.for_rows(X)
    room = omega.unfilled(6)
    room.fill(bound)
    room.reorder(slice(6), np.arange(6)[::-1])
    parts = [bound.take([0, 2]), bound.take(slice(3, 5)), bound.take(np.arange(6) == 1)]
    joined = parts[0].joined(parts)
    assert joined.row_count == 5
    assert {each.convex for each in (bound, room, *parts, joined)} == {omega.convex}
    if not isinstance(omega, ByKey):  # of which a row has one set
        assert bound.of_row(3).convex is omega.convex


def test_one_of_several_sets_is_convex_if_all_of_them_are() -> None:
    assert ByKey("kind", {"shares": Simplex(3), "box": Box(dimension=3)}).convex
    assert not ByKey("kind", {"shares": Simplex(3), "slate": TopK(3, 2)}).convex


def test_whole_coordinates_are_not_convex_however_few() -> None:
    rows: dict[str, Any] = {"A_ub": [[3.0, 4.0, 5.0]], "b_ub": [8.0]}
    assert Polytope(**rows).convex is True
    assert MixedInteger(**rows, integer=[]).convex is True
    assert MixedInteger(**rows, integer=[1]).convex is False


def test_a_set_of_the_user_is_not_known_to_be_convex_unless_it_says_so() -> None:
    class Ball(FeasibleSet):
        def __init__(self) -> None:
            self._set_bounds(-1.0, 1.0, 2)

        def _argmax(self, coefficients: Floats) -> Floats:
            size = np.linalg.norm(coefficients, axis=1, keepdims=True)
            return np.asarray(coefficients / np.where(size > 0, size, 1.0), dtype=np.float64)

        def violation(self, actions: Floats) -> Floats:
            return np.asarray(np.maximum(np.linalg.norm(actions, axis=1) - 1.0, 0.0), dtype=np.float64)

        def spec(self) -> None:
            return None

    class ConvexBall(Ball):
        convex = True

    assert not Ball().convex
    assert not Product([Simplex(2), Ball()]).convex
    for omega in (ConvexBall(), Product([Simplex(2), ConvexBall()])):
        assert omega.convex
        *_, mixed = mixtures(omega)
        assert (omega.violation(mixed) <= omega.tolerance).all()


# Problems of cvxpy

PROBLEMS = {
    "of linear constraints": ("Polytope", True),
    "with other variables": ("Polytope", True),
    "of risk": ("RiskBudget", True),
    "of a ball": ("conic", True),
    "at a cost": ("WithCost", True),
    "at a cost of other variables": ("Polytope", True),
    "at a curved cost": ("conic", True),
    "of whole numbers": ("MixedInteger", False),
    "with a switch": ("MixedInteger", False),
    "with a row's limit": ("Polytope", True),
    "with a row's limit and a switch": ("MixedInteger", False),
}


def read(kind: str) -> FeasibleSet:
    """A cvxpy problem of this kind as a set, bound to rows if it has a parameter of theirs."""
    cp = pytest.importorskip("cvxpy")
    from optensemble.feasible import CvxpySet

    a, c, room, other = cp.Variable(3), cp.Parameter(3), cp.Parameter(nonneg=True), cp.Variable(3)
    switch, cost, rows = cp.Variable(3, boolean=True), 0.0, None
    limits = [a >= 0, a <= 1, cp.sum(a) <= 1.5]
    match kind:
        case "with other variables":
            limits += [other >= a, other <= 1, cp.sum(other) <= 1.2]
        case "of risk":
            limits = [a >= 0, cp.sum(a) == 1, cp.quad_form(a, covariance(3)) <= np.diag(covariance(3)).min()]
        case "of a ball":
            limits += [cp.norm(a) <= 1.1]
        case "at a cost":
            cost = 0.3 * cp.norm1(a - 0.4)
        case "at a cost of other variables":
            limits, cost = [*limits, other >= a, cp.sum(other) >= 1, other <= 2], other @ [0.3, 0.1, 0.2]
        case "at a curved cost":
            limits, cost = [*limits, cp.norm(a) <= 1.1], cp.sum_squares(a - 0.3)
        case "of whole numbers":
            a = cp.Variable(3, integer=True)
            limits = [a >= 0, a <= 2, cp.sum(a) <= 3]
        case "with a switch":
            limits += [a <= switch, cp.sum(switch) <= 2]
        case "with a row's limit":
            limits, rows = [*limits, cp.sum(a[:2]) <= room], {room: "room"}
        case "with a row's limit and a switch":
            limits, rows = [*limits, a <= switch, cp.sum(switch) <= 2, cp.sum(a[:2]) <= room], {room: "room"}
    problem = cp.Problem(cp.Maximize(c @ a - cost), limits)
    return CvxpySet(problem, a, c, rows=rows).for_rows(pd.DataFrame({"room": np.linspace(0.5, 1.5, ROWS)}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROBLEMS)
def test_problems_of_cvxpy_are_convex_unless_something_is_whole(kind: str) -> None:
    omega: Any = read(kind)
    assert (omega.recognised, omega.convex) == PROBLEMS[kind]
    actions, weights, mixed = mixtures(omega)
    assert omega.of_row(0).convex is omega.convex
    if not omega.convex:
        assert (omega.violation(mixed) > 0.01).any()
        return
    assert (omega.violation(mixed) <= omega.tolerance).all()
    C = np.random.default_rng(3).normal(size=mixed.shape)
    values = np.array([omega.value(each, C) for each in actions])
    gain = omega.value(mixed, C) - (weights[:, :, 0] * values).sum(axis=0)
    assert (gain >= -1e-7).all()  # the cost of other variables is a solver's
