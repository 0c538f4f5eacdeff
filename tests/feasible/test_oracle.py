from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest

from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError
from optensemble.feasible import Oracle
from optensemble.feasible.registry import to_spec
from tests.sample_sets import Floats, top_one


def sums_to_one(actions: Floats) -> npt.NDArray[np.bool_]:
    inside: npt.NDArray[np.bool_] = np.abs(actions.sum(axis=1) - 1) < 1e-9
    return inside


def test_an_oracle_returns_the_actions_of_its_function() -> None:
    omega = Oracle(top_one, dimension=2, contains=sums_to_one)
    np.testing.assert_array_equal(omega.argmax([[1, 2], [3, 0]]), [[0, 1], [1, 0]])


def test_the_function_may_scribble_on_its_copy() -> None:
    def scribble(C: Floats) -> Floats:
        C[:] = 0.5
        return C

    C = np.ones((2, 2))
    np.testing.assert_array_equal(Oracle(scribble, 2).argmax(C), np.full((2, 2), 0.5))
    np.testing.assert_array_equal(C, np.ones((2, 2)))


def test_rounding_beyond_the_bounds_is_clipped() -> None:
    assert Oracle(lambda C: C * 0 + 1 + 1e-9, 1).argmax([[1.0]])[0, 0] == 1.0


def test_violation_is_infinite_where_contains_refuses() -> None:
    omega = Oracle(top_one, dimension=2, contains=sums_to_one)
    np.testing.assert_array_equal(omega.violation(np.array([[1.0, 0.0], [0.2, 0.2]])), [0.0, np.inf])
    np.testing.assert_allclose(Oracle(top_one, 2).violation(np.array([[1.5, 0.0]])), [0.5])


def test_an_oracle_is_convex_if_the_user_says_so() -> None:
    omega = Oracle(top_one, 2, contains=sums_to_one, convex=True)
    assert omega.convex is True
    assert omega.violation(np.array([[0.3, 0.7]]))[0] == 0.0
    assert not Oracle(top_one, 2).convex
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        assert twin.convex
    assert to_spec(omega) is None
    for wrong in (1, "yes", None):
        with pytest.raises(InputError, match="convex must be one of True, False; got"):
            Oracle(top_one, 2, convex=wrong)  # type: ignore[arg-type]


def test_errors_say_what_to_do() -> None:
    C = np.ones((3, 2))
    with pytest.raises(InputError, match="function must be callable; got int"):
        Oracle(3, 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="contains must be callable"):
        Oracle(top_one, 2, contains=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"of shape \(3, 2\); got an array of shape \(2,\)"):
        Oracle(lambda C: C[0], 2).argmax(C)
    with pytest.raises(InputError, match="oracle's actions must be finite"):
        Oracle(lambda C: C * np.nan, 2).argmax(C)
    with pytest.raises(InfeasibleActionError, match="rows 0, 1, 2 of 3, by up to 2"):
        Oracle(lambda C: C * 3, 2).argmax(C)
    with pytest.raises(InfeasibleActionError, match=r"contains= refuses .* rows 0, 1, 2 of 3"):
        Oracle(lambda C: C, 2, contains=sums_to_one).argmax(C)
    with pytest.raises(InputError, match=r"boolean mask of shape \(3,\)"):
        Oracle(lambda C: C, 2, contains=lambda a: True).argmax(C)


def test_rows_that_fail_take_the_fallback() -> None:
    def by_sign(C: Floats) -> Floats:
        actions = top_one(C)
        actions[C[:, 0] == 7, 0] = np.nan
        actions[C[:, 0] == 8] = 3.0
        actions[C[:, 0] == 9] = 0.25
        return actions

    omega = Oracle(by_sign, 2, contains=sums_to_one, on_failure="fallback", fallback=[0.5, 0.5])
    C = np.array([[1.0, 2.0], [7.0, 0.0], [8.0, 0.0], [9.0, 0.0], [1.0, 0.0]])
    half = [0.5, 0.5]
    with pytest.warns(FallbackWarning, match="3 of 5 rows .* row 1 could not be solved: the oracle returned NaN"):
        np.testing.assert_array_equal(omega.argmax(C), [[0, 1], half, half, half, [1, 0]])
    with pytest.warns(FallbackWarning, match=r"1 of 1 .* the oracle left the bounds by 2"):
        np.testing.assert_array_equal(omega.argmax(C[2:3]), [half])
    with pytest.warns(FallbackWarning, match=r"1 of 1 .* contains= refuses"):
        np.testing.assert_array_equal(omega.argmax(C[3:4]), [half])
    np.testing.assert_array_equal(omega.argmax(C[[0, 4]]), [[0, 1], [1, 0]])


def test_a_fallback_does_not_hide_other_errors() -> None:
    def keep(function: Any) -> Oracle:
        return Oracle(function, 2, on_failure="fallback", fallback=[0, 0])

    C = np.ones((3, 2))
    with pytest.raises(InputError, match=r"of shape \(3, 2\); got an array of shape \(2,\)"):
        keep(lambda C: C[0]).argmax(C)
    with pytest.raises(InputError, match="must be numeric"):
        keep(lambda C: "none").argmax(C)
    with pytest.raises(ZeroDivisionError):
        keep(lambda C: 1 / 0).argmax(C)
    with pytest.raises(InfeasibleActionError, match="inside the set"):
        Oracle(top_one, 2, contains=sums_to_one, on_failure="fallback", fallback=[0.1, 0.1])


# Rows


def spend(C: Floats, X: Any) -> Floats:
    """As much as there is of the row, for each positive coefficient."""
    return (C > 0) * np.asarray(X["most"], dtype=np.float64)[:, None]


TABLE = pd.DataFrame({"most": np.arange(1.0, 9.0)}, index=list("abcdefgh"))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_the_function_is_given_the_rows(kind: str) -> None:
    table = TABLE if kind == "pandas" else pl.from_pandas(TABLE)
    omega = Oracle(spend, 2, upper=9.0, rows=True)
    assert omega.varies
    C = np.array([[1.0, -1.0]] * 8)
    bound = omega.for_rows(table)
    np.testing.assert_array_equal(bound.argmax(C)[:, 0], TABLE["most"])
    order = np.array([5, 2, 2, 7])
    np.testing.assert_array_equal(bound.take(order).argmax(C[:4])[:, 0], order + 1.0)
    np.testing.assert_array_equal(bound.take(order).take(slice(1, 3)).argmax(C[:2])[:, 0], [3.0, 3.0])
    np.testing.assert_array_equal(bound.take(order).take(order > 4).argmax(C[:2])[:, 0], [6.0, 8.0])
    assert bound.take(slice(0)).argmax(C[:0]).shape == (0, 2)
    np.testing.assert_array_equal(bound.of_row(3).argmax(C)[:, 0], 4.0)


def test_arrays_and_lists_are_tables_too() -> None:
    for X in (np.arange(4.0)[:, None], [[0.0], [1.0], [2.0], [3.0]]):
        omega = Oracle(lambda C, X: np.repeat(np.asarray(X), 2, axis=1), 2, upper=9.0, rows=True)
        np.testing.assert_array_equal(omega.for_rows(X).take([3, 1]).argmax(np.ones((2, 2))), [[3, 3], [1, 1]])


def test_rows_of_several_tables() -> None:
    seen = list[int]()

    def noted(C: Floats, X: pd.DataFrame) -> Floats:
        seen.append(len(X))
        return spend(C, X)

    omega = Oracle(noted, 2, upper=9.0, rows=True)
    parts, C = [omega.for_rows(TABLE[:3]), omega.for_rows(TABLE[3:])], np.ones((8, 2))
    joined = parts[0].joined(parts)
    np.testing.assert_array_equal(joined.argmax(C)[:, 0], TABLE["most"])
    assert seen == [3, 5]
    room = omega.unfilled(8)
    room.take(slice(3)).fill(parts[0])
    room.take(slice(3, 8)).fill(parts[1])
    order = np.random.default_rng(0).permutation(8)
    room.reorder(slice(8), order)
    np.testing.assert_array_equal(room.argmax(C)[:, 0], order + 1.0)
    again = joined.joined([joined, room])
    np.testing.assert_array_equal(again.argmax(np.ones((16, 2)))[:, 0], [*TABLE["most"], *(order + 1.0)])


@pytest.mark.parametrize("convex", [True, False])
def test_an_oracle_bound_to_rows_stays_as_convex_as_it_is(convex: bool) -> None:
    omega = Oracle(spend, 2, upper=9.0, rows=True, convex=convex)
    bound = omega.for_rows(TABLE)
    for other in (omega, bound, bound.take([1, 2]), bound.joined([bound, bound]), omega.unfilled(3), bound.of_row(3)):
        assert other.convex is convex


def test_contains_takes_the_rows_too() -> None:
    def fits(actions: Floats, X: pd.DataFrame) -> Any:
        return actions.max(axis=1) <= X["most"].to_numpy()

    bound = Oracle(spend, 2, upper=9.0, contains=fits, rows=True).for_rows(TABLE)
    np.testing.assert_array_equal(bound.violation(np.full((8, 2), 4.0)), [np.inf] * 3 + [0.0] * 5)
    greedy = Oracle(lambda C, X: np.full(C.shape, 7.5), 2, upper=9.0, contains=fits, rows=True)
    with pytest.raises(InfeasibleActionError, match=r"contains= refuses the oracle's actions in rows 0, 1, 2"):
        greedy.for_rows(TABLE).argmax(np.ones((8, 2)))
    settled = Oracle(greedy.function, 2, 0.0, 9.0, fits, "fallback", [0, 0], rows=True)
    with pytest.warns(FallbackWarning, match=r"7 of 8 rows .* contains= refuses the oracle's action\.$"):
        actions = settled.for_rows(TABLE).argmax(np.ones((8, 2)))
    np.testing.assert_array_equal(actions[:, 0], [0] * 7 + [7.5])


def test_mistakes_with_rows_are_explained() -> None:
    omega = Oracle(spend, 2, upper=9.0, rows=True)
    with pytest.raises(InputError, match="comes from the row, which it is not bound to yet"):
        omega.argmax(np.ones((1, 2)))
    with pytest.raises(InputError, match=r"takes the rows, but it is bound to none. Call omega.for_rows\(X\)"):
        omega.bind(np.empty((1, 0))).argmax(np.ones((1, 2)))
    with pytest.raises(InputError, match="rows must be"):
        Oracle(spend, 2, rows="yes")  # type: ignore[arg-type]
    one = Oracle(lambda C, X: np.ones((1, 2)), 2, rows=True)
    with pytest.raises(InputError, match="must return one action for each row"):
        one.for_rows(TABLE).argmax(np.ones((8, 2)))
    with pytest.raises(InputError, match=r"must answer each row it is given; got an array of shape \(1, 2\) for 3"):
        one.for_rows(TABLE).joined([one.for_rows(TABLE[:3]), one.for_rows(TABLE[3:])]).argmax(np.ones((8, 2)))
