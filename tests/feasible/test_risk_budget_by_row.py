"""Risk budgets whose limits and caps come from the row, against Clarabel row by row, and rows without a portfolio."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import sparse

import optensemble as oe
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.feasible import RiskBudget

Floats = npt.NDArray[np.float64]
SECTORS: dict[str, Any] = {"A_ub": [[1.0] * 4 + [0.0] * 8, [0.0] * 4 + [1.0] * 4 + [0.0] * 4], "b_ub": [0.5, 0.4]}


def covariance_of(d: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(d, 3)) * 0.1
    return np.asarray(factors @ factors.T + np.diag(rng.uniform(0.005, 0.05, d)), dtype=np.float64)


def best_value(c: Floats, C: Floats, limit: float, upper: Floats, A: Floats, b: Floats) -> float:
    """The optimum of one row by Clarabel, from nothing."""
    d, root = len(c), np.linalg.cholesky(C / limit).T
    matrix = np.concatenate([np.ones((1, d)), A, np.eye(d), -np.eye(d), np.zeros((1, d)), -root])
    right = np.concatenate([[1.0], b, upper, np.zeros(d), [1.0], np.zeros(d)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(b) + 2 * d), clarabel.SecondOrderConeT(d + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("gap_abs", "gap_rel", "feas"):
        setattr(settings, f"tol_{name}", 1e-11)
    flat = sparse.csc_matrix((d, d))
    solver = clarabel.DefaultSolver(flat, -c, sparse.csc_matrix(matrix), right, cones, settings)
    return -float(solver.solve().obj_val)


@pytest.mark.no_cover
@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "by_row", "rows"),
    [
        (6, "limit", {}),
        (12, "limit", {}),
        (12, "limit", {"upper": 0.25, **SECTORS}),
        (12, "upper", {}),
        (12, "limit upper", SECTORS),
        (5, "limit upper", {}),
    ],
)
def test_rows_agree_with_clarabel_on_each_of_them(d: int, by_row: str, rows: dict[str, Any]) -> None:
    n, rng, C = 1000, np.random.default_rng(d), covariance_of(d)
    coefficients = rng.normal(size=(n, d))
    caps = rng.choice([0.3, 0.4, 0.5, 1.0], (n, d)) if "upper" in by_row else np.full((n, d), rows.get("upper", 1.0))
    if "upper" in by_row and d == 12:
        caps = caps[rng.integers(0, 30, n)]
    tight = dict(rows) | {"upper": 0.3 if "upper" in by_row else rows.get("upper", 1.0)}
    least = RiskBudget(C, 1e9, **tight).least_variance
    limits = least * rng.uniform(1.01, 4.0, n) if "limit" in by_row else np.full(n, 1.5 * least)
    X = pd.DataFrame(caps, columns=[f"cap_{j}" for j in range(d)]).assign(risk=limits)
    omega = RiskBudget(
        C,
        oe.Columns("risk") if "limit" in by_row else limits[0],
        **rows | ({"upper": oe.Columns([f"cap_{j}" for j in range(d)])} if "upper" in by_row else {}),
    )
    bound = omega.for_rows(X)
    actions = bound.argmax(coefficients)
    assert (bound.violation(actions) <= 1e-9).all()
    A, b = np.array(rows.get("A_ub", np.empty((0, d)))), np.array(rows.get("b_ub", []))
    best = [best_value(*row, A, b) for row in zip(coefficients, [C] * n, limits, caps, strict=True)]
    np.testing.assert_allclose((actions * coefficients).sum(axis=1), best, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("d", [6, 20])
def test_a_limit_below_the_least_variance_is_named(d: int) -> None:
    C = covariance_of(d)
    least = RiskBudget(C, 1.0).least_variance
    X = pd.DataFrame({"risk": [2 * least, least, least / 2, np.nan, -1.0]})
    omega = RiskBudget(C, oe.Columns("risk"))
    message = f"limit must be at least {least:.6g}, the least attainable variance; in row 2 of 3 it is {least / 2:g} "
    with pytest.raises(InputError, match=message + r"\(column 'risk'\)"):
        omega.for_rows(X[:3])
    with pytest.raises(InputError, match=r"limit must be a finite number; in row 3 of 5 it is nan \(column 'risk'\)"):
        omega.for_rows(X)
    with pytest.raises(InputError, match=r"in row 0 of 1 it is -1 \(column 'risk'\)"):
        omega.for_rows(X[4:])
    with pytest.raises(InputError, match="limit comes from the row, but"):
        omega.for_rows(pd.DataFrame({"other": [1.0]}))
    equal = np.full(d, 1.0 / d)
    careful = RiskBudget(C, oe.Columns("risk"), on_failure="fallback", fallback=equal)
    coefficients = np.random.default_rng(0).normal(size=(5, d))
    with pytest.warns(FallbackWarning, match="3 of 5 rows"):
        actions = careful.for_rows(X).argmax(coefficients)
    np.testing.assert_array_equal(actions[2:], np.tile(equal, (3, 1)))
    np.testing.assert_array_equal(actions[:2], omega.for_rows(X[:2]).argmax(coefficients[:2]))


def test_caps_without_a_portfolio_are_named() -> None:
    C = covariance_of(4)
    columns = oe.Columns([f"cap_{j}" for j in range(4)])

    def rows(*caps: list[float]) -> pd.DataFrame:
        return pd.DataFrame(caps, columns=[f"cap_{j}" for j in range(4)])

    omega = RiskBudget(C, 1.0, upper=columns)
    with pytest.raises(
        InputError, match=r"upper must sum to at least 1, as the weights do \(the sum is 0.8 in row 1\)"
    ):
        omega.for_rows(rows([0.5] * 4, [0.2] * 4))
    with pytest.raises(InputError, match=r"upper must not be below lower; in row 0 of 1 it is -1 \(column 'cap_2'\)"):
        omega.for_rows(rows([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(InputError, match=r"upper must be a finite number; in row 0 of 1 it is inf \(column 'cap_3'\)"):
        omega.for_rows(rows([1.0, 1.0, 1.0, np.inf]))
    worst = int(np.diag(C).argmax())
    alone = [float(j == worst) for j in range(4)]
    tight = RiskBudget(C, C[worst, worst] / 2, upper=columns)
    with pytest.raises(InputError, match=r"upper must leave a variance of at most .*attainable is .* in row 1\)"):
        tight.for_rows(rows([1.0] * 4, alone))
    both = RiskBudget(C, oe.Columns("risk"), upper=columns)
    with pytest.raises(
        InputError, match=r"limit must be at least the least attainable variance, .* in row 1; in row 1 of 2"
    ):
        both.for_rows(rows([1.0] * 4, alone).assign(risk=C[worst, worst] / 2))
    halves: dict[str, Any] = {"A_ub": [[1.0, 1.0, 0.0, 0.0]], "b_ub": [0.5]}
    sectors = RiskBudget(C, 1.0, upper=columns, **halves)
    with pytest.raises(InputError, match=r"upper must leave a portfolio that satisfies A_ub, .* in row 1 of 2"):
        sectors.for_rows(rows([1.0] * 4, [0.7, 0.7, 0.1, 0.1]))


def test_a_bound_set_takes_as_many_columns_as_there_are_coordinates() -> None:
    with pytest.raises(InputError, match="upper needs 4 numbers in each row"):
        RiskBudget(covariance_of(4), 1.0, upper=oe.Columns(["a", "b"]))
    with pytest.raises(InputError, match="limit needs 1 number"):
        RiskBudget(covariance_of(4), oe.Columns(["a", "b"]))


def test_what_binds_is_told_in_words() -> None:
    C = np.diag([0.04, 0.01, 0.01, 0.01])
    omega = RiskBudget(C, oe.Columns("risk"), upper=[0.3, 1.0, 1.0, 1.0], A_ub=[[0.0, 2.0, 2.0, 0.0]], b_ub=[1.2])
    X = pd.DataFrame({"risk": [0.02, 1.0]})
    bound = omega.for_rows(X)
    actions = bound.argmax([[4.0, 0.0, 0.0, 1.0], [2.0, 1.5, 1.0, 0.0]])  # no ties: processors break them otherwise
    told = [bound.take([i]).binding(actions[i]) for i in range(2)]
    assert told == [["upper[0] = 0.3"], ["upper[0] = 0.3", "A_ub[0]: b_ub[0] = 1.2"]]
    tight = omega.for_rows(pd.DataFrame({"risk": [0.0045]}))
    assert tight.binding(tight.argmax([[4.0, 0.0, 0.0, 0.0]])[0]) == ["limit = 0.0045 (column 'risk')"]
    capped = RiskBudget(C, 1.0, upper=oe.Columns("cap")).for_rows(pd.DataFrame({"cap": [0.4]}))
    bound_by = capped.binding(capped.argmax([[3.0, 2.0, 1.0, 0.0]])[0])
    assert bound_by == ["upper[0] = 0.4 (column 'cap')", "upper[1] = 0.4 (column 'cap')"]
    fixed = RiskBudget(C, 0.02)
    assert fixed.binding(fixed.argmax([[1.0, 0.0, 0.0, 0.0]])[0]) == ["limit = 0.02"]


def test_a_negative_zero_and_a_callable_are_read_as_numbers() -> None:
    C = np.diag([0.0, 1.0, 2.0])
    bound = RiskBudget(C, lambda X: X["risk"]).for_rows(pd.DataFrame({"risk": [-0.0, 0.5]}))
    np.testing.assert_array_equal(bound.argmax([[0.0, 1.0, 2.0]] * 2)[0], [1.0, 0.0, 0.0])
    assert "limit by row" in repr(bound)
