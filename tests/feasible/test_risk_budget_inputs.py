"""RiskBudget: bad input, rows that cannot be solved, and violation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import (
    EmptySetError,
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)
from optensemble.feasible._solvers.risk_budget.cone import WAYS, ConeProgram
from optensemble.feasible.risk_budget import RiskBudget
from tests.feasible.risk_budgets import PLAIN, sectors
from tests.sample_sets import Floats


class Stuck:
    """A solver that never gets anywhere."""

    x, z = (1.0,) * 12, (0.0,) * 50
    status = "MaxIterations"

    def update(self, q: Floats) -> None:
        pass

    def solve(self) -> Stuck:
        return self


def stuck(**arguments: Any) -> RiskBudget:
    omega = RiskBudget(PLAIN["twelve"].covariance, PLAIN["twelve"].limit, **arguments)
    assert isinstance(omega._program, ConeProgram)
    omega.kernel = omega._packed = None
    omega._program._local.solvers = {way: (Stuck(), np.eye(12)) for way in range(len(WAYS))}
    return omega


def test_an_unsolved_row_is_named() -> None:
    C = np.random.default_rng(0).normal(size=(2, 12))
    with pytest.raises(
        SolverError, match=r"row 0 could not be solved: Clarabel ended with status MaxIterations.*likely"
    ):
        stuck().argmax(C)


def test_an_unsolved_row_may_take_the_fallback() -> None:
    centre = PLAIN["twelve"]._centre
    omega = stuck(on_failure="fallback", fallback=centre)
    with pytest.warns(FallbackWarning, match="2 of 2 rows could not be solved"):
        actions = omega.argmax(np.random.default_rng(0).normal(size=(2, 12)))
    np.testing.assert_array_equal(actions, [centre, centre])
    assert omega.spec()["on_failure"] == "fallback"
    with pytest.raises(InfeasibleActionError, match="inside the set"):
        stuck(on_failure="fallback", fallback=np.eye(12)[np.diag(omega.covariance).argmax()])


def test_violation_names_the_worst() -> None:
    omega = RiskBudget(np.eye(2), 0.5)
    np.testing.assert_allclose(
        omega.violation(np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.4], [1.1, -0.1]])), [0.0, 1.0, 0.1, 1.44]
    )
    capped = RiskBudget(np.eye(2), 1.0, upper=0.7, A_ub=[[10.0, 0.0]], b_ub=[6.0], A_eq=[[0.0, 2.0]], b_eq=[1.0])
    np.testing.assert_allclose(capped.violation(np.array([[0.5, 0.5], [0.9, 0.1]])), [0.0, 0.4])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": [1.0, 2.0], "limit": 1.0}, "square matrix"),
        ({"covariance": np.ones((2, 3)), "limit": 1.0}, "square matrix"),
        ({"covariance": np.empty((0, 0)), "limit": 1.0}, "square matrix"),
        ({"covariance": np.ones((5, 2, 2)), "limit": 1.0}, "give a set for each: feasible.ByKey"),
        ({"covariance": [[1.0, 0.3], [0.2, 1.0]], "limit": 1.0}, "symmetric; .* differ by up to 0.1"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]], "limit": 1.0}, "smallest eigenvalue is -1"),
        ({"covariance": np.eye(2), "limit": np.nan}, "limit must be finite"),
        ({"covariance": np.eye(2), "limit": [1.0, 2.0]}, "limit must have 0 dimension"),
        ({"covariance": np.eye(2)}, "limit= is missing"),
        ({"limit": 1.0}, "given once"),
        ({"covariance": np.eye(2), "limit": 1.0, "factors": np.ones((2, 1)), "specific": 0.1}, "given once"),
        ({"limit": 1.0, "factors": np.ones((2, 1))}, "factors= and specific= together"),
        ({"covariance": np.eye(2), "limit": 1.0, "specific": 0.1}, "given once"),
        ({"limit": 1.0, "factors": np.ones(2), "specific": 0.1}, "factors must have 2 dimension"),
        ({"limit": 1.0, "factors": np.ones((2, 1)), "specific": [0.1] * 3}, r"shape \(2, 1\) and \(3,\)"),
        ({"limit": 1.0, "factors": np.ones((2, 1)), "specific": -0.1}, "least specific variance being -0.1"),
        ({"covariance": np.eye(2), "limit": 1.0, "upper": [0.5] * 3}, "upper must be a number or have one entry"),
        ({"covariance": np.eye(2), "limit": 1.0, "upper": "much"}, "upper must be numeric"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[1.0, 0.0]]}, "A_ub and b_ub go together"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_eq": [[1.0]], "b_eq": [1.0]}, "A_eq must have 2 columns"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[1.0, 0.0]], "b_ub": [1.0, 2.0]}, "one entry for each"),
        ({"covariance": np.eye(2), "limit": 1.0, "A_ub": [[np.nan, 0.0]], "b_ub": [1.0]}, "A_ub must be finite"),
        ({"covariance": np.eye(2), "limit": 1.0, "on_failure": "ignore"}, "on_failure must be"),
    ],
)
def test_input_errors_say_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RiskBudget(**arguments)


@pytest.mark.parametrize("d", [4, 10])
def test_an_empty_set_says_the_least_attainable_variance(d: int) -> None:
    with pytest.raises(EmptySetError, match=f"the least attainable variance is {1 / d:.6g}"):
        RiskBudget(np.eye(d), 0.99 / d)
    with pytest.raises(EmptySetError, match="Raise limit="):
        RiskBudget(np.eye(d), -1.0)


def test_contradictions_are_refused_with_numbers() -> None:
    with pytest.raises(EmptySetError, match=r"caps upper= to only 0.8. Raise upper="):
        RiskBudget(np.eye(4), 1.0, upper=0.2)
    with pytest.raises(EmptySetError, match=r"missed by at least 0.05"):
        RiskBudget(np.eye(4), 1.0, A_ub=sectors(4, 2), b_ub=[0.5, 0.4])
    with pytest.raises(EmptySetError, match="coordinate 1 has lower bound 0 above its upper bound -1"):
        RiskBudget(np.eye(2), 1.0, upper=[1.0, -1.0])
    with pytest.raises(UnboundedSetError, match="coordinate 0"):
        RiskBudget(np.eye(2), 1.0, upper=np.inf)
    # The sectors force a portfolio of more variance than the least of all.
    with pytest.raises(EmptySetError, match=r"the least attainable variance is 0.58"):
        RiskBudget(np.eye(2), 0.55, A_eq=[[1.0, 0.0]], b_eq=[0.3])
