"""Polytopes whose right-hand sides and bounds come from the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import optensemble as oe
from optensemble.exceptions import FallbackWarning, InputError, SolverError, UnboundedSetError
from optensemble.feasible import FeasibleSet, Knapsack, Polytope
from tests.sample_sets import Floats, battery, grid_path, hard_rows

pytestmark = pytest.mark.slow

solve: Any = linprog
ROWS = 400
"""Several sizes of a set make more than 1,000 rows for each parameter."""


def table(**parameters: Floats) -> pd.DataFrame:
    return pd.DataFrame(
        {f"{name}_{j}": column for name, values in parameters.items() for j, column in enumerate(values.T)}
    )


def columns(*names: str) -> dict[str, Any]:
    return {name: oe.Columns(f"{name}_*") for name in names}


def assert_optimal(omega: Polytope, X: pd.DataFrame, C: Floats, every: int = 1) -> None:
    """Compare values with those of SciPy's HiGHS, row by row, and some rows with the fixed set, to the bit."""
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    assert bound.violation(actions).max() <= 1e-9
    for i in range(0, len(C), every):
        spec: Any = bound.take(slice(i, i + 1)).of_row(0).spec() if i % 50 == 0 else _arguments(bound, i)
        rows = {name: spec[name] for name in ("A_ub", "b_ub", "A_eq", "b_eq")}
        scaled = C[i] / max(np.abs(C[i]).max(), 1e-300)
        best = solve(-scaled, **rows, bounds=np.column_stack([spec["lower"], spec["upper"]]))
        assert best.status == 0
        assert scaled @ actions[i] == pytest.approx(-best.fun, abs=1e-9 * (1 + abs(best.fun)))
        if i % 50 == 0:
            np.testing.assert_array_equal(bound.of_row(i).argmax(C[i : i + 1])[0], actions[i])


def _arguments(bound: FeasibleSet, row: int) -> dict[str, Any]:
    fixed: Any = bound.spec()
    spec: dict[str, Any] = fixed | {each.name: bound._of_rows(each.name)[row] for each in bound.parameters}
    d = bound.dimension
    return spec | {name: np.broadcast_to(spec[name], d) for name in ("lower", "upper")}


def sizes(rng: np.random.Generator, *shape: int) -> Floats:
    """Generic numbers, many of them equal."""
    drawn: Floats = np.where(rng.random(shape) < 0.5, rng.uniform(0, 2, shape), rng.choice([0.0, 0.5, 1.0], shape))
    return drawn


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [4, 12, 30])
def test_right_hand_sides_of_inequalities(d: int) -> None:
    rng = np.random.default_rng(d)
    A = rng.integers(-2, 3, size=(d // 2 + 1, d)) * rng.choice([1.0, 0.3], size=(d // 2 + 1, d))
    centre = sizes(rng, ROWS, d).clip(0, 1)
    X = table(b_ub=centre @ A.T + 0.5 * sizes(rng, ROWS, len(A)))
    C = np.concatenate([rng.normal(size=(ROWS // 2, d)), rng.integers(-2, 3, size=(ROWS // 2, d))])
    assert_optimal(Polytope(A_ub=A, **columns("b_ub"), dimension=d), X, C)


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [4, 12, 30])
def test_right_hand_sides_of_equalities(d: int) -> None:
    rng = np.random.default_rng(d)
    A = rng.integers(-1, 3, size=(d // 4, d)).astype(np.float64)
    A = np.concatenate([A, 2.0 * A[:1]])  # one is redundant
    X = table(b_eq=sizes(rng, ROWS, d).clip(0, 1) @ A.T)
    C = np.concatenate([rng.normal(size=(ROWS // 2, d)), rng.integers(-2, 3, size=(ROWS // 2, d))])
    assert_optimal(Polytope(A_eq=A, **columns("b_eq"), dimension=d), X, C)


@pytest.mark.no_cover
@pytest.mark.parametrize("side", ["lower", "upper", "lower upper"])
@pytest.mark.parametrize("d", [4, 20])
def test_bounds(side: str, d: int) -> None:
    rng = np.random.default_rng(d)
    lower = -sizes(rng, ROWS, d) if "lower" in side else np.zeros((ROWS, d))
    upper = (
        lower.clip(0) + sizes(rng, ROWS, d) * rng.choice([1.0, 100.0], (ROWS, d))
        if "upper" in side
        else np.ones((ROWS, d))
    )
    A_ub, A_eq = rng.normal(size=(d // 2, d)), np.ones((1, d))
    room = np.abs(A_ub).sum(axis=1) * 150
    given = {"lower": lower, "upper": upper}
    X = table(**{name: given[name] for name in side.split()}, b_eq=(lower + 0.4 * (upper - lower)).sum(axis=1)[:, None])
    omega = Polytope(A_ub, room, A_eq, **columns("b_eq", *side.split()))
    C = np.concatenate([rng.normal(size=(ROWS // 2, d)), rng.integers(-2, 3, size=(ROWS // 2, d))])
    assert_optimal(omega, X, C)


@pytest.mark.no_cover
def test_a_battery_starts_each_day_at_its_own_charge() -> None:
    rng, (A, _) = np.random.default_rng(0), battery(24)
    charge = rng.choice([0.0, 1.0, 2.0, 0.7], size=(ROWS, 1))
    X = table(b_ub=np.hstack([np.tile(2.0 - charge, 24), np.tile(charge, 24)]))
    assert_optimal(Polytope(A_ub=A, **columns("b_ub")), X, rng.normal(size=(ROWS, 48)))


def test_flows_through_a_grid_of_their_own_capacities() -> None:
    rng, (A, b) = np.random.default_rng(1), grid_path()
    X = table(b_eq=rng.choice([0.0, 0.5, 1.0], size=(200, 1)) * b, upper=rng.uniform(0.5, 1.0, size=(200, 40)))
    assert_optimal(Polytope(A_eq=A, **columns("b_eq", "upper")), X, rng.integers(-3, 4, size=(200, 40)).astype(float))


def test_fixed_numbers_beside_columns_and_callables() -> None:
    X = pd.DataFrame({"room": [0.5, 0.25]})
    C = np.array([[1.0, 3.0, 1.0], [1.0, 3.0, 1.0]])
    A = [[1, 1, 0], [0, 1, 1]]
    expected = [[0.0, 0.5, 0.1], [0.0, 0.25, 0.35]]
    for b_ub in ([oe.Columns("room"), 0.6], lambda X: np.column_stack([X["room"], np.full(len(X), 0.6)])):
        bound = Polytope(A_ub=A, b_ub=b_ub).for_rows(X)
        np.testing.assert_allclose(bound.argmax(C), expected, atol=1e-15)
        assert bound.vertices is None


@pytest.mark.no_cover
def test_small_sets_break_ties_as_their_list_of_vertices_does() -> None:
    rng = np.random.default_rng(5)
    for seed in range(12):
        d, m = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        A = rng.integers(-2, 3, size=(m, d)).astype(np.float64)
        C = hard_rows(d, n=60, seed=seed)
        X = table(b_ub=rng.choice([0.0, 0.5, 1.0, 2.0], size=(len(C), m)))
        bound = Polytope(A_ub=A, **columns("b_ub")).for_rows(X)
        actions = bound.argmax(C)
        for i in range(seed % 4, len(C), 4):  # listing a row's vertices takes milliseconds
            fixed = bound.of_row(i)
            assert isinstance(fixed, Polytope)
            assert fixed.vertices is not None
            np.testing.assert_array_equal(fixed.argmax(C[i : i + 1])[0], actions[i])


def test_equalities_in_disguise_and_idle_rows_differ_between_rows() -> None:
    rng, d = np.random.default_rng(6), 20
    A = rng.integers(0, 3, size=(3, d)).astype(np.float64)
    most = rng.choice([3.0, 5.0, 1e3], size=(ROWS, 3))
    least = most - rng.choice([0.0, 1.0, 1e-13, 1e4], size=(ROWS, 3))
    least = np.where(most > 100, -1.0, least)
    X = table(b_ub=np.hstack([most, -least]))
    assert_optimal(
        Polytope(A_ub=np.concatenate([A, -A]), **columns("b_ub")), X, rng.integers(-2, 3, size=(ROWS, d)) / 3
    )


@pytest.mark.parametrize("d", [3, 30])
def test_a_row_without_an_action_is_named(d: int) -> None:
    X = pd.DataFrame({"room": [1.0, -3.0, 0.5]})
    omega = Polytope(A_ub=np.ones((1, d)), b_ub=oe.Columns("room"))
    message = r"row 1 could not be solved: no action satisfies all constraints.*b_ub = -3 \(column 'room'\)"
    with pytest.raises(SolverError, match=message):
        omega.for_rows(X).argmax(np.ones((3, d)))
    fallback = Polytope(A_ub=np.ones((1, d)), b_ub=oe.Columns("room"), on_failure="fallback", fallback=np.zeros(d))
    with pytest.warns(FallbackWarning, match="1 of 3 rows could not be solved and took the fallback"):
        actions = fallback.for_rows(X).argmax(np.ones((3, d)))
    np.testing.assert_allclose(actions.sum(axis=1), [1.0, 0.0, 0.5])


def test_equalities_that_contradict_each_other_and_rounding() -> None:
    A = np.concatenate([np.ones((1, 20)), np.ones((1, 20))])
    X = table(b_eq=np.array([[1.0, 1.0], [1.0, 1.0 + 1e-10], [1.0, 2.0], [1.0, 1.0 + 1e-8]]))
    omega = Polytope(A_eq=A, **columns("b_eq"), on_failure="fallback", fallback=np.full(20, 0.5))
    bound = omega.for_rows(X)
    with pytest.warns(FallbackWarning, match="2 of 4 rows"):
        actions = bound.argmax(np.ones((4, 20)))
    np.testing.assert_allclose(actions.sum(axis=1), [1, 1, 10, 10], atol=1e-9)
    with pytest.raises(SolverError, match="in doubt whether any action"):
        Polytope(A_eq=A, **columns("b_eq")).for_rows(X.iloc[3:]).argmax(np.ones((1, 20)))


def test_rows_that_make_no_set_are_refused() -> None:
    A = np.ones((1, 2))
    with pytest.raises(InputError, match=r"b_ub must be a finite number; in row 1 of 2 it is nan \(column 'room'\)"):
        Polytope(A_ub=A, b_ub=oe.Columns("room")).for_rows(pd.DataFrame({"room": [1.0, np.nan]}))
    with pytest.raises(InputError, match=r"upper must not be below lower; in row 0 of 1 it is -1 \(column 'up_1'\)"):
        Polytope(A_ub=A, b_ub=[1.0], upper=oe.Columns("up_*")).for_rows(pd.DataFrame({"up_0": [1.0], "up_1": [-1.0]}))
    with pytest.raises(InputError, match=r"b_ub comes from the row, but .*room"):
        Polytope(A_ub=A, b_ub=oe.Columns("room")).for_rows(pd.DataFrame({"place": [1.0]}))
    with pytest.raises(InputError, match=r"b_ub needs 1 number in each row; .* gives 2"):
        Polytope(A_ub=A, b_ub=[oe.Columns("room"), 0.5])
    unbounded: list[dict[str, Any]] = [{"upper": np.inf}, {"lower": -np.inf, "upper": oe.Columns("room")}]
    for bounds in unbounded:
        with pytest.raises(UnboundedSetError, match=r"must be finite where .* come from the row.*Give a finite"):
            Polytope(A_ub=A, b_ub=oe.Columns("room"), **bounds)
    with pytest.raises(
        InputError, match=r"got an array of shape \(2, 1\). If it differs between rows, give oe.Columns"
    ):
        Polytope(A_ub=A, b_ub=[[1.0], [2.0]])


def test_rows_given_up_and_large_sets_get_the_bits_of_the_fixed_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_TABLEAU", 0)
    rng, (A, _) = np.random.default_rng(2), battery(12)
    X, C = table(b_ub=rng.uniform(0.5, 1.5, size=(10, 24))), rng.normal(size=(10, 24))
    for dense in (1_000_000, 3):
        monkeypatch.setattr("optensemble.feasible.polytope._MOST_DENSE", dense)
        bound = Polytope(A_ub=A, **columns("b_ub")).for_rows(X)
        assert (bound.kernel is None) == (dense == 3)
        actions = bound.argmax(C)
        alone = np.concatenate([bound.of_row(i).argmax(C[i : i + 1]) for i in range(10)])
        np.testing.assert_array_equal(actions, alone)


def test_constraints_that_bind_are_named() -> None:
    A = [[1, 1, 0], [0, 1, 1]]
    omega = Polytope(A_ub=A, b_ub=[oe.Columns("room"), 0.6], upper=[1.0, 1.0, 1.0])
    X = pd.DataFrame({"room": [0.5], "limit_0": [1.0], "limit_1": [0.2], "limit_2": [1.0]})
    bound = omega.for_rows(X)
    action = bound.argmax([[1.0, 3.0, 1.0]])[0]
    assert bound.binding(action) == ["A_ub[0]: b_ub[0] = 0.5 (column 'room')", "A_ub[1]: b_ub[1] = 0.6", "lower[0] = 0"]
    limited = Polytope(A_ub=A, b_ub=[5.0, 5.0], upper=oe.Columns(["limit_0", "limit_1", "limit_2"])).for_rows(X)
    assert limited.binding(np.array([0.5, 0.2, 0.0])) == ["upper[1] = 0.2 (column 'limit_1')", "lower[2] = 0"]
    fixed = Polytope(A_ub=A, b_ub=[0.5, 0.6])
    assert fixed.binding(fixed.argmax([[1.0, 3.0, 1.0]])[0])[0] == "A_ub[0]: b_ub[0] = 0.5"


def test_a_knapsack_of_several_resources_takes_capacities_and_amounts_by_row() -> None:
    rng, d = np.random.default_rng(8), 12
    weights = rng.integers(0, 9, size=(2, d)).astype(np.float64)
    X = table(
        capacity=rng.choice([0.0, 5.0, 20.0, 33.3], size=(ROWS, 2)), upper=rng.choice([0.0, 0.5, 2.0], size=(ROWS, d))
    )
    C = rng.normal(size=(ROWS, d))
    bag = Knapsack(weights, dimension=d, **columns("capacity", "upper")).for_rows(X)
    actions = bag.argmax(C)
    assert bag.violation(actions).max() <= 1e-9
    values = X.to_numpy()
    for i in range(ROWS):
        bounds = np.column_stack([np.zeros(d), values[i, 2:]])
        best = solve(-C[i], A_ub=weights, b_ub=values[i, :2], bounds=bounds)
        assert C[i] @ actions[i] == pytest.approx(-best.fun, abs=1e-9)
        if i % 50 == 0:
            np.testing.assert_array_equal(bag.of_row(i).argmax(C[i : i + 1])[0], actions[i])
