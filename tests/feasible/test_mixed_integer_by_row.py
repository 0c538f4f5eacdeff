"""Whole numbers under constraints whose right-hand sides and bounds come from the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

import optensemble as oe
from optensemble.exceptions import FallbackWarning, InputError, SolverError
from optensemble.feasible import MixedInteger
from tests.sample_sets import Floats

pytestmark = pytest.mark.slow

solve: Any = milp
ROWS = 500


def table(**parameters: Floats) -> pd.DataFrame:
    return pd.DataFrame(
        {f"{name}_{j}": column for name, values in parameters.items() for j, column in enumerate(values.T)}
    )


def columns(*names: str) -> dict[str, Any]:
    return {name: oe.Columns(f"{name}_*") for name in names}


def assert_optimal(omega: MixedInteger, X: pd.DataFrame, C: Floats) -> Floats:
    """Compare values with those of SciPy's HiGHS, row by row, and some rows with the fixed set, to the bit."""
    bound = omega.for_rows(X)
    actions = bound.argmax(C)
    assert bound.violation(actions).max() <= 1e-9 * bound.extent
    (A_ub, _), (A_eq, _) = omega._ub, omega._eq
    lower, upper = bound._every_bound()
    for i, (b_ub, b_eq) in enumerate(zip(*bound._right_sides(), strict=True)):
        rows = [
            LinearConstraint(A.toarray(), low, b) for A, low, b in ((A_ub, -np.inf, b_ub), (A_eq, b_eq, b_eq)) if len(b)
        ]
        best = solve(
            -C[i],
            constraints=rows,
            bounds=Bounds(lower[i], upper[i]),
            integrality=omega.integer,
            options={"mip_rel_gap": 0.0},
        )
        assert best.status == 0
        assert C[i] @ actions[i] == pytest.approx(-best.fun, abs=1e-9 * (1 + abs(best.fun)))
        if i % 50 == 0:
            np.testing.assert_array_equal(bound.of_row(i).argmax(C[i : i + 1])[0], actions[i])
    return actions


def coefficients(rng: np.random.Generator, d: int, n: int = ROWS) -> Floats:
    return np.concatenate([rng.normal(size=(n // 2, d)), rng.integers(-2, 3, size=(n - n // 2, d))])


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [4, 9])
def test_right_hand_sides_of_inequalities(d: int) -> None:
    rng = np.random.default_rng(d)
    A = rng.integers(-2, 6, size=(3, d)).astype(np.float64)
    X = table(b_ub=rng.choice([0.0, 2.0, 5.0, 7.5, 20.0], size=(ROWS, 3)))
    assert_optimal(MixedInteger(A_ub=A, **columns("b_ub")), X, coefficients(rng, d))


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [4, 9])
def test_right_hand_sides_of_equalities(d: int) -> None:
    rng = np.random.default_rng(d)
    A = rng.integers(0, 4, size=(2, d)).astype(np.float64)
    X = table(b_eq=rng.integers(0, 3, size=(ROWS, d)) @ A.T)
    assert_optimal(MixedInteger(A_eq=A, **columns("b_eq"), upper=2.0), X, coefficients(rng, d))


@pytest.mark.no_cover
@pytest.mark.parametrize("d", [4, 7])
def test_bounds(d: int) -> None:
    rng = np.random.default_rng(d)
    lower = rng.choice([0.0, -1.0, -0.5], size=(ROWS, d))
    X = table(lower=lower, upper=lower + rng.choice([1.0, 2.0, 2.5], size=(ROWS, d)))
    omega = MixedInteger(A_ub=rng.integers(0, 4, size=(2, d)), b_ub=[5.0, 6.0], **columns("lower", "upper"))
    assert_optimal(omega, X, coefficients(rng, d))


@pytest.mark.no_cover
def test_some_whole_numbers_are_left_to_highs() -> None:
    rng, d, n = np.random.default_rng(0), 8, 150
    A = rng.uniform(0.2, 3.0, size=(2, d))
    X = table(b_ub=rng.uniform(1.0, 8.0, size=(n, 2)), upper=rng.choice([1.0, 2.0, 0.0], size=(n, d)))
    omega = MixedInteger(A_ub=A, **columns("b_ub", "upper"), integer=[0, 2, 4, 6])
    assert omega.for_rows(X)._shared_list() is None
    assert_optimal(omega, X, coefficients(rng, d, n))


def test_sets_too_large_for_one_list_are_listed_or_solved_row_by_row() -> None:
    rng, d, n = np.random.default_rng(1), 20, 40
    A = rng.integers(1, 5, size=(1, d)).astype(np.float64)
    X = table(b_ub=np.where(rng.random((n, 1)) < 0.5, 3.0, 25.0))
    omega = MixedInteger(A_ub=A, **columns("b_ub"))
    bound = omega.for_rows(X)
    assert bound._shared_list() is None
    alone = [bound.of_row(i) for i in range(n)]
    assert {isinstance(one, MixedInteger) and one.points is None for one in alone} == {True, False}
    C = coefficients(rng, d, n)
    actions = assert_optimal(omega, X, C)
    np.testing.assert_array_equal(np.concatenate([one.argmax(C[i : i + 1]) for i, one in enumerate(alone)]), actions)


def test_actions_that_are_nearly_tied_are_those_of_the_row_alone() -> None:
    C = np.array([[1.0, 1e-13], [1.0, -1e-13], [0.0, 1.0], [1.0, 5e-13]]).repeat(3, axis=0)
    X = table(b_ub=np.tile([[2.0], [3.0], [1.5]], (4, 1)))
    bound = MixedInteger(A_ub=[[0.0, 1.0]], **columns("b_ub"), upper=3.0).for_rows(X)
    alone = np.concatenate([bound.of_row(i).argmax(C[i : i + 1]) for i in range(len(C))])
    np.testing.assert_array_equal(bound.argmax(C), alone)


@pytest.mark.parametrize("integer", [True, [0]])
def test_a_row_without_an_action_is_named(integer: Any) -> None:
    X = pd.DataFrame({"room": [4.0, -3.0, 3.0]})
    rows: dict[str, Any] = {"A_ub": [[3.0, 4.0]], "b_ub": oe.Columns("room"), "integer": integer}
    message = r"row 1 could not be solved: no action satisfies all constraints.*b_ub = -3 \(column 'room'\)"
    with pytest.raises(SolverError, match=message):
        MixedInteger(**rows).for_rows(X).argmax(np.ones((3, 2)))
    omega = MixedInteger(**rows, on_failure="fallback", fallback=[0.0, 1.0]).for_rows(X)
    with pytest.warns(FallbackWarning, match="1 of 3 rows could not be solved"):
        np.testing.assert_array_equal(omega.argmax(np.ones((3, 2)))[1], [0.0, 1.0])


def test_rows_that_make_no_set_are_refused() -> None:
    A = np.ones((1, 2))
    with pytest.raises(InputError, match=r"b_ub must be a finite number; in row 1 of 2 it is nan \(column 'room'\)"):
        MixedInteger(A_ub=A, b_ub=oe.Columns("room")).for_rows(pd.DataFrame({"room": [1.0, np.nan]}))
    omega = MixedInteger(A_ub=A, b_ub=[1.0], lower=0.2, **columns("upper"))
    with pytest.raises(InputError, match=r"upper must leave a whole number between the bounds.*it is 0.8 \(column"):
        omega.for_rows(table(upper=np.array([[1.0, 1.5], [1.0, 0.8]])))
    with pytest.raises(InputError, match=r"upper must not be below lower; in row 0 of 1 it is 0.1 \(column"):
        omega.for_rows(table(upper=np.array([[1.0, 0.1]])))
    with pytest.raises(InputError, match=r"upper of whole numbers must be at most 9.*in row 0 of 1 it is 1e\+17"):
        omega.for_rows(table(upper=np.array([[1.0, 1e17]])))
