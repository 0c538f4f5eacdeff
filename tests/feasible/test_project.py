"""Actions that are off by rounding, moved onto each set: feasible, near, unchanged where feasible, row by row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError, SolverError
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
    PyEPOSet,
    RiskBudget,
    ShortestPath,
    Simplex,
    TopK,
    Vertices,
    WithCost,
)
from tests.sample_sets import battery, every_set, top_one
from tests.sets_by_row import CASES

cp: Any = pytest.importorskip("cvxpy")

Floats = npt.NDArray[np.float64]

_ROWS = 24
_REFUSED = ("oracle", "oracle inside others")
"""Oracles by row whose contains= allows for no rounding."""

_FARTHER = {"risk limit": 200.0, "risk limit and sectors": 200.0}
"""Limits of the least variance leave one portfolio: its distance goes with the root of what is beyond the limit."""


def _bound(omega: FeasibleSet, X: Any) -> FeasibleSet:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return omega.for_rows(X)


def _cases() -> dict[str, FeasibleSet]:
    by_row = {name: _bound(*make(np.random.default_rng(7), _ROWS)) for name, make in CASES.items()}
    return every_set() | {f"{name} by row": omega for name, omega in by_row.items() if name not in _REFUSED}


_SETS = _cases()


def _is_listed(omega: FeasibleSet) -> bool:
    """Return whether actions are whole, so that no mean of two of them need be one."""
    if isinstance(omega, Product):
        return any(map(_is_listed, omega.blocks))
    if isinstance(omega, ByKey):
        return True
    kinds = (Vertices, TopK, Assignment, ShortestPath, MixedInteger, Oracle)
    return isinstance(omega, kinds) or (isinstance(omega, Knapsack) and omega.integer)


def _inside(omega: FeasibleSet, seed: int) -> Floats:
    """Return actions of a set: the best for random coefficients; of convex sets means of these too."""
    rng = np.random.default_rng(seed)
    best = [omega.argmax(rng.normal(size=(_ROWS, omega.dimension))) for _ in range(3)]
    if _is_listed(omega):
        return best[0]
    shares = rng.dirichlet(np.ones(3), size=_ROWS)
    shares[::2] = [1.0, 0.0, 0.0]
    return np.asarray(np.einsum("nk,knd->nd", shares, np.array(best)), dtype=np.float64)


@pytest.mark.no_cover
@pytest.mark.parametrize("size", [1e-4, 1e-3])
@pytest.mark.parametrize("name", _SETS)
def test_perturbed_actions_are_moved_onto_the_set_and_not_far(name: str, size: float) -> None:
    omega, rng = _SETS[name], np.random.default_rng(1)
    given = _inside(omega, 2) + size * omega.extent * rng.uniform(-1, 1, (_ROWS, omega.dimension))
    violation = omega.violation(given)
    moved = omega.project(given)
    assert (omega.violation(moved) <= omega.tolerance).all()
    kept = violation <= omega.tolerance
    assert np.array_equal(moved[kept], given[kept])
    distance = np.sqrt(np.square(moved - given).sum(axis=1))
    most = _FARTHER.get(name.removesuffix(" by row"), 6.0)
    assert (distance[~kept] <= most * violation[~kept]).all()
    # It was moved from an action of the set: the nearest is no farther than that, by the number of coordinates.
    assert (distance <= 1.01 * size * omega.extent * np.sqrt(omega.dimension)).all()


@pytest.mark.parametrize("name", _SETS)
def test_actions_of_the_set_are_unchanged_and_rows_do_not_matter_to_each_other(name: str) -> None:
    omega, rng = _SETS[name], np.random.default_rng(3)
    inside = _inside(omega, 4)
    assert np.array_equal(omega.project(inside), inside)
    given = inside + 1e-3 * omega.extent * rng.uniform(-1, 1, inside.shape)
    together = omega.project(given)
    assert np.array_equal(together, omega.project(given))
    for row in range(0, _ROWS, 5):
        assert np.array_equal(omega.take([row]).project(given[row : row + 1])[0], together[row])


def _nearest(action: Floats, constraints: Any, size: float) -> Floats:
    """Return the nearest action by another formulation; what is small is measured in a unit of its size."""
    moved = cp.Variable(len(action))
    x: Any = action + size * moved
    cp.Problem(cp.Minimize(cp.sum_squares(moved)), constraints(x)).solve(solver=cp.CLARABEL)
    return np.asarray(x.value, dtype=np.float64)


A_BATTERY, B_BATTERY = battery()
RISK = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.3
WEIGHTS = np.array([[3.0, 4.0, 5.0, 2.0], [1.0, 4.0, 1.0, 2.0]])

CONVEX: dict[str, tuple[FeasibleSet, Any]] = {
    "box": (Box([-1.0, 0.0], [1.0, 0.5]), lambda x: [x >= [-1.0, 0.0], x <= [1.0, 0.5]]),
    "simplex": (Simplex(5, total=2.0), lambda x: [x >= 0, cp.sum(x) == 2.0]),
    "some": (Simplex(4, available=[1, 0, 1, 1]), lambda x: [x >= 0, cp.sum(x) == 1.0, x[1] == 0]),
    "battery": (Polytope(A_BATTERY, B_BATTERY), lambda x: [A_BATTERY @ x <= B_BATTERY, x >= 0, x <= 1]),
    "equal": (
        Polytope([[1, 2, 0, -1]], [1.0], [[1, 1, 1, 1], [1, 0, 0, -1]], [1.5, 0.25]),
        lambda x: [x >= 0, x <= 1, cp.sum(x) == 1.5, x[0] - x[3] == 0.25, x[0] + 2 * x[1] - x[3] <= 1],
    ),
    "fractions": (Knapsack(WEIGHTS[0], 6.0), lambda x: [x >= 0, x <= 1, WEIGHTS[0] @ x <= 6.0]),
    "two": (Knapsack(WEIGHTS, [6.0, 3.0]), lambda x: [x >= 0, x <= 1, WEIGHTS @ x <= [6.0, 3.0]]),
    "risk": (
        RiskBudget(RISK, 0.9),
        lambda x: [x >= 0, cp.sum(x) == 1, cp.quad_form(x, RISK) <= 0.9],
    ),
    "caps": (
        RiskBudget(RISK, 1.0, upper=0.5, A_ub=[[1, 1, 0, 0]], b_ub=[0.7]),
        lambda x: [x >= 0, x <= 0.5, cp.sum(x) == 1, cp.quad_form(x, RISK) <= 1.0, x[0] + x[1] <= 0.7],
    ),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CONVEX)
def test_of_convex_sets_the_nearest_action_is_taken(name: str) -> None:
    omega, constraints = CONVEX[name]
    rng = np.random.default_rng(5)
    best = omega.argmax(rng.normal(size=(12, omega.dimension)))
    for size in (1e-3, 0.3):  # also far from the set
        given = best + size * rng.uniform(-1, 1, best.shape)
        moved = omega.project(given)
        for row in np.flatnonzero(omega.violation(given) > 1e-6):
            expected = _nearest(given[row], constraints, size)
            assert moved[row] == pytest.approx(expected, abs=3e-3 * size)


@pytest.mark.parametrize(
    "omega",
    [
        TopK(6, 2),
        TopK(6, 2, at_most=True),
        Assignment(2, 3, forbidden=[0, 1, 0, 0, 0, 0]),
        Knapsack([3, 4, 5, 2, 1, 2], 7.0, integer=True),
        ShortestPath([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 2)], 0, 3),
        MixedInteger([[3, 4, 5, 2, 1, 2]], [7.0]),
        Vertices(np.random.default_rng(0).integers(0, 3, (20, 6)), available=np.arange(20) % 3 > 0),
    ],
    ids=lambda omega: type(omega).__name__,
)
def test_of_whole_actions_the_nearest_is_taken(omega: FeasibleSet) -> None:
    every = np.unique(omega.argmax(np.random.default_rng(1).normal(size=(3000, 6))), axis=0)
    given = every[np.arange(30) % len(every)] + 0.4 * np.random.default_rng(2).uniform(-1, 1, (30, 6))
    moved = omega.project(given)
    assert (omega.violation(moved) == 0.0).all()
    reached = np.square(given[:, None] - every).sum(axis=2).min(axis=1)  # argmax does not reach all of them
    assert (np.square(moved - given).sum(axis=1) <= reached + 1e-12).all()


def test_zeros_and_ones_that_rounding_does_not_give_are_the_argmax() -> None:
    given = np.array([[0.9, 0.8, 0.7, 0.1]])
    assert TopK(4, 2).project(given).tolist() == [[1, 1, 0, 0]]
    assert Knapsack([1, 1, 1, 1], 2.0, integer=True).project(given).tolist() == [[1, 1, 0, 0]]
    assert MixedInteger([[1, 1, 1, 1]], [2.0]).project(given).sum() == 2.0


def test_whole_numbers_beside_others_are_rounded_and_the_others_nearest() -> None:
    omega = MixedInteger([[1.0, 1.0, 1.0]], [2.0], upper=3.0, integer=[0])
    assert omega.project([[1.001, 0.7, 0.302]]) == pytest.approx(np.array([[1.0, 0.699, 0.301]]))
    # Rounded to 2, nothing would be left for the equality of the other two.
    tight = MixedInteger(A_eq=[[1.0, 1.0, 1.0]], b_eq=[2.0], lower=[0.0, 0.2, 0.2], upper=3.0, integer=[0])
    moved = tight.project([[1.6, 0.2, 0.2]])
    assert tight.violation(moved)[0] <= tight.tolerance
    assert moved[0, 0] == 1.0


def test_polytopes_too_large_to_be_made_dense_are_left_to_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    omega = Polytope(A_BATTERY, B_BATTERY)
    given = omega.argmax(np.random.default_rng(0).normal(size=(5, 12))) + 1e-3
    monkeypatch.setattr("optensemble.feasible._linear._MOST_DENSE", 0)
    moved = omega.project(given)
    assert (omega.violation(moved) <= 1e-9).all()
    assert (np.abs(moved - given).max(axis=1) <= 3 * omega.violation(given)).all()


def test_products_move_only_the_block_that_is_outside() -> None:
    omega = Product([Simplex(3), Box(upper=[1000.0])])
    given = np.array([[0.3, 0.3, 0.402, 999.0], [0.3, 0.3, 0.4, 1000.5], [0.3, 0.3, 0.40005, 3.0]])
    moved = omega.project(given)
    assert moved[0, 3] == 999.0
    assert moved[0, :3].sum() == pytest.approx(1.0)
    assert moved[1].tolist() == [0.3, 0.3, 0.4, 1000.0]
    assert moved[2].tolist() == given[2].tolist()  # inside by the tolerance of the whole


def test_costs_do_not_move_anything() -> None:
    omega = WithCost(Simplex(3), turnover=([0.2, 0.5, 0.3], 0.1))
    given = np.array([[0.2, 0.5, 0.301]])
    assert np.array_equal(omega.project(given), Simplex(3).project(given))
    assert omega.violated(given[0]) == ["sums to 1.001, must be 1"]


def _cvxpy_sets() -> dict[str, FeasibleSet]:
    a, c = cp.Variable(3), cp.Parameter(3)
    ball = CvxpySet(cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= 1, a >= 0]), a, c)
    linear = CvxpySet(cp.Problem(cp.Maximize(c @ a), [a >= 0, cp.sum(a) <= 1]), a, c)
    charge, discharge = cp.Variable(3, nonneg=True), cp.Variable(3, nonneg=True)
    stored = cp.cumsum(0.9 * charge - discharge)
    limits = [stored >= 0, stored <= 2, charge <= 1, discharge <= 1]
    earned = c @ (discharge - charge) - 0.1 * cp.sum(charge + discharge)
    lifted = CvxpySet(cp.Problem(cp.Maximize(earned), limits), discharge - charge, c)
    return {"conic": ball, "Polytope": linear, "lifted": lifted}


@pytest.mark.parametrize("name", ["conic", "Polytope", "lifted"])
def test_sets_of_cvxpy_move_actions_by_their_solvers(name: str) -> None:
    omega = _cvxpy_sets()[name]
    rng = np.random.default_rng(0)
    given = omega.argmax(rng.normal(size=(6, 3))) + 1e-3 * rng.uniform(-1, 1, (6, 3))
    moved, violation = omega.project(given), omega.violation(given)
    assert (omega.violation(moved) <= omega.tolerance).all()
    assert (np.abs(moved - given).max(axis=1) <= 4 * violation + 1e-6).all()
    assert np.array_equal(omega.project(given[2:3])[0], moved[2])
    if name == "conic":
        expected = _nearest(given[0], lambda x: [cp.norm(x) <= 1, x >= 0], 1e-3)
        assert moved[0] == pytest.approx(expected, abs=1e-6)


def test_cvxpy_sets_by_row_move_actions_onto_the_set_of_the_row() -> None:
    a, c, radius = cp.Variable(3), cp.Parameter(3), cp.Parameter(nonneg=True)
    problem = cp.Problem(cp.Maximize(c @ a), [cp.norm(a) <= radius, a >= 0, a <= 2])
    X = pd.DataFrame({"r": [0.5, 1.0, 1.5]})
    omega = CvxpySet(problem, a, c, rows={radius: "r"}).for_rows(X)
    given = omega.argmax(np.ones((3, 3))) * 1.001
    moved = omega.project(given)
    assert np.linalg.norm(moved, axis=1) == pytest.approx(X["r"].to_numpy(), abs=1e-6)


def test_oracles_are_clipped_unless_contains_refuses() -> None:
    omega = Oracle(top_one, 3)
    assert omega.project([[1.001, -0.002, 0.0]]).tolist() == [[1.0, 0.0, 0.0]]
    whole = Oracle(top_one, 3, contains=lambda actions: (actions == np.rint(actions)).all(axis=1))
    with pytest.raises(InputError, match=r"contains= refuses actions in row 0 of 1 .* Project the actions yourself"):
        whole.project([[0.999, 0.0, 0.0]])
    assert whole.violated([0.999, 0.0, 0.0]) == ["contains= refuses it"]


class _Cheapest:
    num_cost, modelSense = 3, 1  # noqa: N815

    def setObj(self, c: Floats) -> None:  # noqa: N802
        self.best = int(np.argmin(c))

    def solve(self) -> tuple[Floats, None]:
        return np.eye(3)[self.best], None


def test_models_of_pyepo_are_clipped() -> None:
    omega = PyEPOSet(_Cheapest())
    assert omega.project([[1.001, -0.002, 0.0]]).tolist() == [[1.0, 0.0, 0.0]]
    assert omega.violated([1.001, 0.0, 0.0]) == ["upper[0]: 1.001 > 1"]


class _Halves(FeasibleSet):
    """A set of a user's own, without a projection."""

    def __init__(self) -> None:
        self._set_bounds(0.0, 1.0, 2)

    def _argmax(self, coefficients: Floats) -> Floats:
        return np.full_like(coefficients, 0.5)

    def violation(self, actions: npt.ArrayLike) -> Floats:
        return np.asarray(np.abs(np.asarray(actions) - 0.5).max(axis=1), dtype=np.float64)

    def spec(self) -> None:
        return None


def test_a_set_without_a_projection_says_so() -> None:
    omega = _Halves()
    assert not omega.can_project
    assert not Product([Simplex(2), omega]).can_project
    assert omega.project([[0.5, 0.5]]).tolist() == [[0.5, 0.5]]
    with pytest.raises(InputError, match=r"_Halves cannot move actions onto itself.*Project the actions yourself"):
        omega.project([[0.5, 0.6]])
    assert omega.violated([0.5, 0.6]) == ["outside by 0.1"]


class _Stubborn(_Halves):
    def _project(self, actions: Floats) -> Floats:
        return actions + 1.0


def test_a_projection_that_misses_the_set_is_an_error_that_names_the_row() -> None:
    with pytest.raises(SolverError, match=r"row 1 could not be moved onto the set.*outside by 1\.1") as caught:
        _Stubborn().project([[0.5, 0.5], [0.5, 0.6]])
    assert caught.value.rows == ("row 1", 1, 1)


def test_input_is_checked() -> None:
    with pytest.raises(InputError, match="finite"):
        Simplex(2).project([[np.nan, 1.0]])
    with pytest.raises(InputError, match="2 columns"):
        Simplex(2).project([[1.0, 0.0, 0.0]])
    bag = Knapsack([3, 4], capacity=oe.Columns("budget"))
    with pytest.raises(InputError, match=r"Call omega\.for_rows"):
        bag.project([[1.0, 0.0]])


def test_rows_without_a_set_are_left_alone() -> None:
    bag = Knapsack([3.0, 4.0], capacity=oe.Columns("budget"), on_failure="fallback", fallback=[0.0, 0.0])
    omega = _bound(bag, pd.DataFrame({"budget": [-1.0, 3.0]}))
    moved = omega.project([[0.5, 0.5], [1.01, 0.0]])
    assert moved.tolist() == [[0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("omega", "action", "words"),
    [
        (Simplex(2), [0.5, 0.51], ["sums to 1.01, must be 1"]),
        (Simplex(2), [1.01, -0.01], ["upper[0]: 1.01 > 1", "lower[1]: -0.01 < 0"]),
        (Simplex(2, available=[1, 0]), [0.9, 0.1], ["available[1] = 0, and takes 0.1"]),
        (Knapsack([1.0, 1.0], 1.2), [1.0, 0.203], ["capacity: 1.203 > 1.2"]),
        (Knapsack([[1.0, 1.0], [2.0, 0.0]], [1.2, 3.0]), [1.0, 0.203], ["capacity[0]: 1.203 > 1.2"]),
        (Knapsack([1.0, 1.0], 2.0, integer=True), [0.9, 1.0], ["coordinate 0 is 0.9, must be a whole number"]),
        (TopK(3, 1), [1.0, 1.0, 0.0], ["sums to 2, must be 1"]),
        (TopK(3, 1, at_most=True), [1.0, 1.0, 0.0], ["sums to 2, must be at most 1"]),
        (TopK(3, 1), [0.9, 0.1, 0.0], ["coordinate 0 is 0.9, must be 0 or 1", "coordinate 1 is 0.1, must be 0 or 1"]),
        (Polytope([[1, 1]], [0.5]), [0.3, 0.3], ["A_ub[0]: 0.6 > 0.5"]),
        (Polytope(A_eq=[[1, 1]], b_eq=[0.5]), [0.3, 0.3], ["A_eq[0] comes to 0.6, must be 0.5"]),
        (MixedInteger([[1, 1]], [1]), [1.0, 0.5], ["A_ub[0]: 1.5 > 1", "coordinate 1 is 0.5, must be a whole number"]),
        (
            Vertices([[0, 0], [1, 1]]),
            [0.9, 1.0],
            ["the nearest action that may be taken, vertices[1], is 0.1 away in a "],
        ),
        (RiskBudget(np.eye(2), 0.6), [1.0, 0.0], ["limit: variance: 1 > 0.6"]),
        (RiskBudget(np.eye(2), 0.9, upper=0.6), [0.7, 0.31], ["sums to 1.01, must be 1", "upper[0]: 0.7 > 0.6"]),
        (RiskBudget(np.eye(2), 2.0, A_ub=[[1, 0]], b_ub=[0.5]), [0.6, 0.4], ["A_ub[0]: 0.6 > 0.5"]),
        (RiskBudget(np.eye(2), 2.0, A_eq=[[1, 0]], b_eq=[0.5]), [0.6, 0.4], ["A_eq[0] comes to 0.6, must be 0.5"]),
        (Assignment(2, 2, forbidden=[1, 0, 0, 0]), [1, 0, 0, 1], ["row 0 may not have column 0, and has 1 of it"]),
        (Assignment(1, 2), [1, 1], ["row 0 sums to 2, must be 1"]),
        (ShortestPath([("a", "b")], "a", "b"), [0.9], ["coordinate 0 is 0.9, must be 0 or 1"]),
        (
            ShortestPath([("a", "b"), ("a", "b")], "a", "b"),
            [1, 1],
            ["its edges above one half are no path from 'a' to "],
        ),
        (
            ShortestPath([("a", "b"), ("a", "b")], "a", "b", closed=[1, 0]),
            [1, 0],
            ["'a' to 'b' is closed", "its edges above one half are no path from 'a' to 'b'"],
        ),
        (
            Product([Box(dimension=1), Simplex(1)]),
            [1.5, 1.1],
            ["blocks[0]: upper[0]: 1.5 > 1", "blocks[1]: sums to 1.1"],
        ),
        (Product([_Halves()]), [0.5, 0.75], ["blocks[0]: outside by 0.25"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, FeasibleSet) else "",
)
def test_violated_constraints_are_named(omega: FeasibleSet, action: list[float], words: list[str]) -> None:
    found = omega.violated(action)
    for told, word in zip(found, words, strict=False):
        assert told.startswith(word)
    assert len(found) >= len(words)


def test_violated_constraints_of_a_row_name_its_column() -> None:
    bag = Knapsack([1.0, 1.0], capacity=oe.Columns("budget"), upper=oe.Columns(["up_0", "up_1"]))
    omega = bag.for_rows(pd.DataFrame({"budget": [1.2, 9.0], "up_0": [1.0, 1.0], "up_1": [1.0, 0.5]}))
    assert omega.take([0]).violated([1.0, 0.203]) == ["capacity: 1.203 > 1.2 (column 'budget')"]
    assert omega.take([1]).violated([1.0, 0.75]) == ["upper[1]: 0.75 > 0.5 (column 'up_1')"]
    with pytest.raises(InputError, match="one row for each of the 2 rows"):
        omega.violated([1.0, 0.0])
    room = Polytope([[1, 1]], [oe.Columns("room")]).for_rows(pd.DataFrame({"room": [0.5]}))
    assert room.violated([0.5, 0.25]) == ["A_ub[0]: 0.75 > 0.5 (column 'room')"]
    assert room.violated([0.25, 0.25]) == []
