"""Boxes, simplices, the best k and lists of actions whose parameters come from the row, against other solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

import optensemble as oe
from optensemble.exceptions import EmptySetError, FallbackWarning, InfeasibleActionError, InputError
from optensemble.feasible import Box, FeasibleSet, Simplex, TopK, Vertices
from tests.sample_sets import Floats

ROWS = 1_000


def flags(rng: np.random.Generator, n: int, count: int) -> Floats:
    """Zeros and ones, of which each row has a 1."""
    found = rng.random((n, count)) < rng.uniform(0.1, 1.0, (n, 1))
    found[np.arange(n), rng.integers(0, count, n)] = True
    return found.astype(float)


def table(**columns: npt.ArrayLike) -> pd.DataFrame:
    """Columns by name; those of a matrix are numbered."""
    found = dict[str, Floats]()
    for name, values in columns.items():
        array = np.asarray(values)
        found |= {name: array} if array.ndim == 1 else {f"{name}_{j}": array[:, j] for j in range(array.shape[1])}
    return pd.DataFrame(found)


def sides(lower: Floats, upper: Floats) -> list[tuple[float, float]]:
    """Bounds as scipy takes them."""
    return list(zip(lower.tolist(), upper.tolist(), strict=True))


def require_optimal(omega: FeasibleSet, actions: Floats, C: Floats, best: Floats) -> None:
    values = (actions * C).sum(axis=1)
    np.testing.assert_allclose(values, best, rtol=1e-9, atol=1e-9)
    assert omega.violation(actions).max() <= 1e-9


@pytest.mark.no_cover
def test_boxes_against_highs() -> None:
    rng = np.random.default_rng(0)
    lower, width = rng.normal(size=(ROWS, 4)), rng.exponential(size=(ROWS, 4))
    C, rows = rng.normal(size=(ROWS, 4)), table(least=lower, most=lower + width)
    omega = Box(oe.Columns("least_*"), oe.Columns("most_*"), dimension=4).for_rows(rows)
    best = np.array(
        [c @ linprog(-c, bounds=sides(*of_row)).x for c, *of_row in zip(C, lower, lower + width, strict=True)]
    )
    require_optimal(omega, omega.argmax(C), C, best)
    np.testing.assert_allclose(omega.violation(lower - 0.5), 0.5)


@pytest.mark.no_cover
def test_simplices_against_highs() -> None:
    rng = np.random.default_rng(1)
    available, total, C = flags(rng, ROWS, 5), rng.exponential(size=ROWS), rng.normal(size=(ROWS, 5))
    rows = table(open=available, amount=total)
    omega = Simplex(5, available=oe.Columns("open_*"), total=oe.Columns("amount")).for_rows(rows)
    best = np.empty(ROWS)
    for i in range(ROWS):
        within = sides(np.zeros(5), np.where(available[i], np.inf, 0.0))
        best[i] = C[i] @ linprog(-C[i], A_eq=np.ones((1, 5)), b_eq=[total[i]], bounds=within).x
    require_optimal(omega, omega.argmax(C), C, best)
    np.testing.assert_array_equal(omega.upper, total.max())
    assert (omega.violation(np.ones((ROWS, 5)))[available.sum(axis=1) < 5] >= 1.0).all()


@pytest.mark.no_cover
@pytest.mark.parametrize("at_most", [False, True])
def test_the_best_k_against_highs(at_most: bool) -> None:
    rng = np.random.default_rng(2)
    available, C = flags(rng, ROWS, 7), rng.normal(size=(ROWS, 7))
    k = rng.integers(0, 8, ROWS) if at_most else rng.integers(1, available.sum(axis=1) + 1)
    rows = table(here=available, places=k)
    omega = TopK(7, oe.Columns("places"), at_most, available=oe.Columns("here_*")).for_rows(rows)
    best = np.empty(ROWS)
    for i in range(ROWS):
        least = 0 if at_most else k[i]
        places = LinearConstraint(np.ones((1, 7)), least, k[i])
        found = milp(-C[i], integrality=np.ones(7, dtype=int), bounds=Bounds(0, available[i]), constraints=places)
        best[i] = C[i] @ found.x
    require_optimal(omega, omega.argmax(C), C, best)
    assert (omega.violation(1.0 - available)[(available == 0).any(axis=1)] >= 1.0).all()


def test_lists_of_actions_against_brute_force() -> None:
    rng = np.random.default_rng(3)
    vertices, available, C = rng.normal(size=(9, 4)), flags(rng, ROWS, 9), rng.normal(size=(ROWS, 4))
    omega = Vertices(vertices, available=oe.Columns("runs_*")).for_rows(table(runs=available))
    values = np.where(available == 1, C @ vertices.T, -np.inf)
    require_optimal(omega, omega.argmax(C), C, values.max(axis=1))
    distance = np.abs(C[:, None] - vertices).max(axis=2)
    distance = np.where(available == 1, distance, np.inf).min(axis=1)
    np.testing.assert_allclose(omega.violation(C), distance)


def test_fixed_masks_are_those_of_the_shorter_list() -> None:
    rng = np.random.default_rng(4)
    C = rng.integers(-2, 3, (300, 4)).astype(float)
    mask = np.array([True, False, True, True])
    some = np.zeros((300, 4))
    some[:, mask] = Simplex(3).argmax(C[:, mask])
    np.testing.assert_array_equal(Simplex(4, available=mask).argmax(C), some)
    np.testing.assert_array_equal(Simplex(4, available=mask, total=2.5).argmax(C), 2.5 * some)
    for at_most in (False, True):
        some[:, mask] = TopK(3, 2, at_most).argmax(C[:, mask])
        np.testing.assert_array_equal(TopK(4, 2, at_most, available=mask).argmax(C), some)
    np.testing.assert_array_equal(TopK(4, 0, at_most=True).argmax(C), 0.0)
    listed = rng.integers(-1, 2, (4, 4)).astype(float)
    np.testing.assert_array_equal(Vertices(listed, available=mask).argmax(C), Vertices(listed[mask]).argmax(C))
    assert Vertices(listed, available=[1, 0, 0, 0]).violation(listed[1:2])[0] == np.abs(listed[0] - listed[1]).max()


def test_parameters_may_be_callables_of_x() -> None:
    X = np.array([[1.0, 0.0, 2.0], [1.0, 1.0, 3.0]])
    omega = Simplex(2, available=lambda X: X[:, :2], total=lambda X: X[:, 2])
    np.testing.assert_array_equal(omega.for_rows(X).argmax([[1.0, 2.0]] * 2), [[2.0, 0.0], [0.0, 3.0]])
    assert omega.for_rows(X).of_row(1).spec()["total"] == 3.0  # type: ignore[index]


HERE, PLACES = oe.Columns(["here_0", "here_1", "here_2"]), oe.Columns("places")
NOBODY: dict[str, float] = {"here_0": 0, "here_1": 0, "here_2": 0}
FINE = {"here_0": [1.0, 1.0], "here_1": [1.0, 1.0], "here_2": [0.0, 1.0], "places": [1.0, 2.0]}
BAD: list[tuple[FeasibleSet, dict[str, float], str]] = [
    (
        Box(upper=HERE),
        {"here_1": np.nan},
        r"upper must be a finite number; in row 1 of 2 it is nan \(column",
    ),
    (Box(upper=HERE), {"here_1": -1}, r"upper must not be below lower; in row 1 of 2 it is -1 \(column 'here_1'\)"),
    (Box(HERE, 1.0), {"here_0": 2}, r"lower must not be above upper; in row 1 of 2 it is 2 \(column 'here_0'\)"),
    (
        Simplex(3, available=HERE),
        {"here_0": 0.5},
        r"available must be 1 \(may get something\) or 0 \(may not\)",
    ),
    (Simplex(3, available=HERE), {"here_0": np.nan}, "available must be a finite number; in row 1"),
    (Simplex(3, available=HERE), NOBODY, "available must be 1 for at least one coordinate"),
    (
        Simplex(3, total=PLACES),
        {"places": -2},
        r"total must not be negative; in row 1 of 2 it is -2 \(column",
    ),
    (Simplex(3, total=PLACES), {"places": np.inf}, "total must be a finite number; in row 1 of 2 it is inf"),
    (TopK(3, PLACES), {"places": 1.5}, r"k must be a whole number from 1 to 3; in row 1 of 2 it is 1.5 \(column"),
    (TopK(3, PLACES), {"places": 0}, "k must be a whole number from 1 to 3; in row 1 of 2 it is 0"),
    (TopK(3, PLACES, at_most=True), {"places": -1}, "k must be a whole number from 0 to 3; in row 1 of 2 it is -1"),
    (TopK(3, PLACES), {"places": 4}, "k must be a whole number from 1 to 3; in row 1 of 2 it is 4"),
    (TopK(3, PLACES), {"places": np.nan}, "k must be a finite number; in row 1"),
    (
        TopK(3, 2, available=HERE),
        {"here_0": 0, "here_1": 0},
        "available leaves fewer available than k; in row 1",
    ),
    (TopK(3, PLACES, available=HERE), {"here_0": 0, "here_1": 0}, r"fewer available than k; .* 0 \(column 'here_0'\)"),
    (
        TopK(3, PLACES, available=[1, 1, 0]),
        {"places": 3},
        "k must not be more than are available; in row 1 of 2",
    ),
    (TopK(3, 1, available=HERE), {"here_2": 2}, r"available must be 1 \(may be taken\) or 0 \(may not\); .* it is 2"),
    (Vertices(np.eye(3), available=HERE), {"here_2": 2}, r"available must be 1 \(may be taken\) or 0"),
    (Vertices(np.eye(3), available=HERE), NOBODY, "available must be 1 for at least one vertex"),
]


@pytest.mark.parametrize(("omega", "wrong", "message"), BAD, ids=[f"{omega!r} {wrong}" for omega, wrong, _ in BAD])
def test_bad_rows_are_named_or_take_the_fallback(omega: Any, wrong: dict[str, float], message: str) -> None:
    rows = pd.DataFrame(FINE)
    omega.for_rows(rows)
    for column, value in wrong.items():
        rows.loc[1, column] = value
    with pytest.raises(InputError, match=message):
        omega.for_rows(rows)
    settled = type(omega)(**omega.spec() | {"on_failure": "fallback", "fallback": [0, 0.5, 0]})
    with pytest.warns(FallbackWarning, match="1 of 2 rows have no set and take the fallback action"):
        bound = settled.for_rows(rows)
    actions = bound.argmax(np.ones((2, 3)))
    np.testing.assert_array_equal(actions[1], [0, 0.5, 0])
    np.testing.assert_array_equal(actions[:1], bound.take(slice(1)).argmax(np.ones((1, 3))))
    with pytest.raises(InputError, match="has no column"):
        omega.for_rows(rows[[]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Simplex(3, available=[0, 0, 0]), "no coordinate is available"),
        (lambda: Simplex(3, available=[1, 1]), "a 0 or a 1 for each of the 3 coordinates; got 2 numbers"),
        (lambda: Simplex(3, total=-1), "total must be"),
        (lambda: TopK(3, 2, available=[1, 0, 0]), "fewer are available than k: 1 of k = 2"),
        (lambda: TopK(3, 0), "k must be"),
        (lambda: TopK(3, 1, available=[1, 0, 3]), "a 0 or a 1 for each of the 3 coordinates; got 3"),
        (lambda: Vertices(np.eye(3), available=[0, 0, 0]), "no vertex is available"),
        (lambda: Box(upper=[1, 2], on_failure="fallback", fallback=[0, 3]), "the fallback action must lie inside"),
        (lambda: TopK(3, oe.Columns(["a", "b"])), "k needs 1 number in each row"),
    ],
)
def test_wrong_arguments_are_explained(make: Any, message: str) -> None:
    with pytest.raises((InputError, EmptySetError, InfeasibleActionError), match=message):
        make()


def test_fixed_sets_are_saved_as_before() -> None:
    assert Simplex(3).spec() == {"dimension": 3}
    assert TopK(3, 2).spec() == {"dimension": 3, "k": 2, "at_most": False}
    assert set(Box(upper=[1, 2]).spec()) == {"lower", "upper", "dimension"}
    assert set(Vertices(np.eye(2)).spec()) == {"array", "lower", "upper"}
    assert Simplex(3, total=oe.Columns("a")).spec() == {"dimension": 3, "total": oe.Columns("a")}
