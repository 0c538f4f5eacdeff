"""Assignments with forbidden pairs, one list of them for all rows or one for each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment

import optensemble as oe
from optensemble.exceptions import EmptySetError, FallbackWarning, InfeasibleActionError, InputError, SolverError
from optensemble.feasible import Assignment
from tests.feasible.test_assignment import all_assignments, scaled
from tests.sample_sets import Floats, hard_rows


def forbid(rng: np.random.Generator, n: int, rows: int, columns: int, share: float = 0.4) -> Floats:
    """Random pairs, such that in each of n rows at least one assignment is left."""
    forbidden = rng.random((n, rows, columns)) < rng.uniform(0.0, 2 * share, (n, 1, 1))
    small, large = min(rows, columns), max(rows, columns)
    for matrix in forbidden:
        taken = rng.permutation(large)[:small]
        left = (np.arange(small), taken) if rows <= columns else (taken, np.arange(small))
        matrix[left] = False
    return forbidden.reshape(n, -1).astype(float)


def as_table(forbidden: Floats) -> pd.DataFrame:
    return pd.DataFrame(forbidden, columns=[f"off_{k}" for k in range(forbidden.shape[1])])


def by_row(rows: int, columns: int, forbidden: Floats) -> Assignment:
    bound = Assignment(rows, columns, forbidden=oe.Columns("off_*")).for_rows(as_table(forbidden))
    assert isinstance(bound, Assignment)
    return bound


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (2, 2), (3, 5), (5, 3), (4, 4)])
def test_it_is_the_first_of_the_best_allowed_ones_by_brute_force(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows + 10 * columns)
    C = np.concatenate([hard_rows(rows * columns, seed=seed) for seed in range(6)])
    forbidden = forbid(rng, len(C), rows, columns)
    C[::3] += np.where(rng.random(C[::3].shape) < 0.1, 1e200, 0.0) * forbidden[::3]  # what is forbidden does not count
    omega, every = by_row(rows, columns, forbidden), all_assignments(rows, columns)
    actions = omega.argmax(C)
    values = np.where(forbidden @ every.T > 0, -np.inf, scaled(np.where(forbidden > 0, 0.0, C)) @ every.T)
    first = np.argmax(values >= values.max(axis=1, keepdims=True) - 1e-12, axis=1)
    assert len(C) >= 1000
    np.testing.assert_array_equal(actions, every[first])
    np.testing.assert_array_equal(omega.violation(actions), 0.0)


@pytest.mark.parametrize(("rows", "columns", "n"), [(10, 10, 1000), (10, 15, 500), (15, 10, 500), (40, 40, 60)])
def test_it_is_as_good_as_scipy(rows: int, columns: int, n: int) -> None:
    rng = np.random.default_rng(rows)
    C, forbidden = rng.normal(size=(n, rows * columns)), forbid(rng, n, rows, columns)
    actions = by_row(rows, columns, forbidden).argmax(C)
    assert not (actions * forbidden).any()
    for c, out, action in zip(C, forbidden, actions, strict=True):
        matrix = np.where(out > 0, -np.inf, c).reshape(rows, columns)
        best = matrix[linear_sum_assignment(matrix, maximize=True)].sum()
        np.testing.assert_allclose(c @ action, best, rtol=1e-9)


def test_whether_an_assignment_is_left_is_found_out_exactly() -> None:
    rng = np.random.default_rng(3)
    forbidden = (rng.random((1500, 16)) < rng.uniform(0.2, 0.9, (1500, 1))).astype(float)
    left = (forbidden @ all_assignments(4, 4).T == 0).any(axis=1)
    fallback = np.eye(4).ravel()
    omega = Assignment(4, forbidden=oe.Columns("off_*"), on_failure="fallback", fallback=fallback)
    with pytest.warns(FallbackWarning, match=f"{(~left).sum()} of 1500 rows could not be solved"):
        actions = omega.for_rows(as_table(forbidden)).argmax(rng.normal(size=(1500, 16)))
    np.testing.assert_array_equal(actions[~left], np.broadcast_to(fallback, ((~left).sum(), 16)))
    assert not (actions * forbidden)[left].any()
    assert 300 < left.sum() < 1200


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (3, 6), (12, 12), (40, 41)])
def test_ties_go_the_same_way_by_row_as_fixed_and_do_not_depend_on_noise(rows: int, columns: int) -> None:
    rng = np.random.default_rng(5)
    whole = rng.integers(-2, 3, size=(60, rows * columns)).astype(float)
    forbidden = forbid(rng, 60, rows, columns)
    omega = by_row(rows, columns, forbidden)
    exact = omega.argmax(whole)
    np.testing.assert_array_equal(omega.argmax(whole / 3.0), exact)
    np.testing.assert_array_equal(omega.argmax(whole + 1e-15 * rng.normal(size=whole.shape)), exact)
    fixed = [
        Assignment(rows, columns, forbidden=out).argmax(c[None])[0] for out, c in zip(forbidden, whole, strict=True)
    ]
    np.testing.assert_array_equal(exact, fixed)


def test_nothing_forbidden_is_as_if_nothing_had_been_said() -> None:
    for rows, columns in ((5, 5), (3, 6), (6, 3), (1, 1)):
        C = hard_rows(rows * columns)
        expected = Assignment(rows, columns).argmax(C)
        np.testing.assert_array_equal(
            Assignment(rows, columns, forbidden=np.zeros((rows, columns))).argmax(C), expected
        )
        np.testing.assert_array_equal(by_row(rows, columns, np.zeros_like(C)).argmax(C), expected)


def test_columns_callables_and_mixed_lists_say_the_same() -> None:
    rng = np.random.default_rng(6)
    forbidden = forbid(rng, 50, 3, 3)
    forbidden[:, 0] = 0.0
    forbidden[:, [4, 8]] = 0.0
    C, X = rng.normal(size=(50, 9)), as_table(forbidden)
    expected = by_row(3, 3, forbidden).argmax(C)
    mixed = [0, oe.Columns([f"off_{k}" for k in range(1, 8)]), False]
    for given in (lambda X: X.to_numpy() > 0, mixed):
        np.testing.assert_array_equal(Assignment(3, forbidden=given).for_rows(X).argmax(C), expected)
    booleans = Assignment(3, forbidden=oe.Columns("off_*")).for_rows(X.astype(bool))
    np.testing.assert_array_equal(booleans.argmax(C), expected)


def test_violation_counts_what_is_forbidden() -> None:
    omega = Assignment(2, forbidden=[[True, False], [False, False]])
    actions = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    np.testing.assert_array_equal(omega.violation(actions), [1.0, 0.0])
    np.testing.assert_array_equal(
        by_row(2, 2, np.array([[1.0, 0, 0, 0], [0, 0, 0, 0]])).violation(actions[[0, 0]]), [1, 0]
    )
    assert omega.binding(actions[1]) == ["row 0 may not have column 0"]
    assert Assignment(2).binding(actions[0]) == []


def test_a_spec_makes_the_same_set() -> None:
    fallback = np.array([0.0, 1, 1, 0])
    omega = Assignment(2, forbidden=[[1, 0], [0, 0]], on_failure="fallback", fallback=fallback)
    assert sorted(omega.spec()) == ["columns", "fallback", "forbidden", "on_failure", "rows"]
    np.testing.assert_array_equal(Assignment(**omega.spec()).argmax([[9.0, 0, 0, 0]]), [fallback])
    assert Assignment(2, forbidden=oe.Columns("off_*")).spec()["forbidden"] == oe.Columns("off_*")


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="a 0 or a 1 for each of the 4 pairs of a row and a column; got 3 numbers"):
        Assignment(2, forbidden=[0, 1, 0])
    with pytest.raises(InputError, match=r"got 0\.5\. If it differs between rows, give oe\.Columns"):
        Assignment(2, forbidden=[0, 0.5, 0, 0])
    with pytest.raises(EmptySetError, match=r"Forbid fewer pairs. 2 of 4 pairs are forbidden, all of row 0 among them"):
        Assignment(2, forbidden=[1, 1, 0, 0])
    with pytest.raises(EmptySetError, match="all of column 1 among them"):
        Assignment(3, 2, forbidden=[0, 1, 0, 1, 0, 1])
    with pytest.raises(EmptySetError, match=r"4 of 9 pairs are forbidden.$"):
        Assignment(3, forbidden=[1, 1, 0, 1, 1, 0, 0, 0, 0])
    with pytest.raises(InfeasibleActionError, match="inside the set; it is outside by 1"):
        Assignment(2, forbidden=[1, 0, 0, 0], on_failure="fallback", fallback=[1, 0, 0, 1])
    with pytest.raises(InputError, match=r"forbidden needs 4 numbers in each row; .* gives 2"):
        Assignment(2, forbidden=oe.Columns(["a", "b"]))


def test_bad_rows_are_named() -> None:
    omega, X = Assignment(2, forbidden=oe.Columns("off_*")), as_table(np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"X has no column"):
        Assignment(2, forbidden=oe.Columns(["off_0", "off_1", "off_2", "gone"])).for_rows(X)
    with pytest.raises(
        InputError, match=r"forbidden must be a finite number; in row 1 of 3 it is nan \(column 'off_2'\)"
    ):
        omega.for_rows(X.assign(off_2=[0, np.nan, 0]))
    words = r"forbidden must be 1 \(may not be assigned\) or 0 \(may be\); in row 2 of 3 it is 0.5 \(column 'off_3'\)"
    with pytest.raises(InputError, match=words):
        omega.for_rows(X.assign(off_3=[0, 1, 0.5]))
    words = (
        r"row 1 could not be solved: no assignment is left .* 2 of 4 pairs are forbidden, all of column 0 among them"
    )
    with pytest.raises(SolverError, match=words):
        omega.for_rows(X.assign(off_0=[0, 1, 0], off_2=[0, 1, 0])).argmax(np.zeros((3, 4)))
    lenient = Assignment(2, forbidden=oe.Columns("off_*"), on_failure="fallback", fallback=np.zeros(4))
    with pytest.warns(FallbackWarning, match=r"1 of 3 rows have no set and take the fallback action"):
        bad = lenient.for_rows(X.assign(off_0=[0, 1, 0], off_2=[0, 1, 0], off_3=[0, 0, np.nan]))
    with pytest.warns(FallbackWarning, match="1 of 3 rows could not be solved and took the fallback action"):
        np.testing.assert_array_equal(bad.argmax(np.zeros((3, 4))), [[1, 0, 0, 1], [0] * 4, [0] * 4])
