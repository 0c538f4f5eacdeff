from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError
from optensemble.feasible import Oracle
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
