from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import pytest
from sample_sets import Floats, grid_path, hard_rows
from scipy import sparse
from scipy.optimize import linprog

from optensemble.exceptions import EmptySetError, InputError, SolverError, UnboundedSetError
from optensemble.feasible import Polytope, _highs

PAPER: dict[str, Any] = {"A_ub": [[1, 1, 0, 0], [0, 1, 1, 0]], "b_ub": [0.5, 0.6]}


solve: Any = linprog


def assert_optimal(omega: Polytope, C: Floats) -> None:
    """Compare values with SciPy's, on coefficients scaled to 1 so that huge and tiny rows count alike."""
    spec: Any = omega.spec()
    bounds = np.column_stack([spec.pop("lower"), spec.pop("upper")])
    spec.pop("dimension")
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    for c, action in zip(C, actions, strict=True):
        scaled = c / np.abs(c).max() if c.any() else c
        value = -solve(-scaled, bounds=bounds, **spec).fun
        assert scaled @ action == pytest.approx(value, abs=1e-9 * (1 + abs(value)))


@pytest.mark.parametrize("seed", range(6))
def test_random_sets_agree_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 6)), int(rng.integers(0, 5))
    centre = rng.uniform(0.2, 0.8, size=d)
    A_ub, A_eq = rng.normal(size=(m, d)), rng.normal(size=(min(d - 1, 1), d))
    omega = Polytope(
        A_ub,
        A_ub @ centre + 0.1,
        A_eq,
        A_eq @ centre,
        lower=-1.0,
        upper=rng.uniform(1, 3, size=d),
        dimension=d,
    )
    assert omega.vertices is not None
    assert_optimal(omega, hard_rows(d, n=10, seed=seed))


@pytest.mark.parametrize("seed", range(3))
def test_large_sets_agree_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A_ub = rng.uniform(size=(12, 15)) * 10.0 ** rng.integers(-3, 4, size=(12, 1))
    omega = Polytope(A_ub, A_ub.sum(axis=1) / 4)
    assert omega.vertices is None
    assert_optimal(omega, hard_rows(15, n=10, seed=seed))


def test_the_simplex_method_and_the_vertices_agree() -> None:
    omega = Polytope(**PAPER)
    listed = omega.argmax(C := np.random.default_rng(0).normal(size=(500, 4)))
    omega.kernel = None
    np.testing.assert_allclose(omega.argmax(C), listed, atol=1e-12)


def test_the_grid_path_is_solved_in_the_same_bits_in_any_order() -> None:
    A, b = grid_path()
    omega = Polytope(A_eq=A, b_eq=b)
    rng = np.random.default_rng(1)
    C = np.concatenate([rng.integers(-3, 4, size=(600, 40)), np.zeros((5, 40)), rng.normal(size=(100, 40))])
    actions = omega.argmax(C)
    for _ in range(2):
        order = rng.permutation(len(C))
        np.testing.assert_array_equal(Polytope(A_eq=A, b_eq=b).argmax(C[order]), actions[order])
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C[:200]]), actions[:200])
    assert set(np.unique(actions)) == {0.0, 1.0}
    assert_optimal(omega, C[::20])


def test_scale_does_not_change_an_action() -> None:
    A, b = grid_path()
    for omega in (Polytope(A_eq=A, b_eq=b), Polytope(**PAPER)):
        C = np.random.default_rng(2).normal(size=(50, omega.dimension))
        for scale in (2.0**27, 2.0**-27):
            np.testing.assert_array_equal(omega.argmax(C * scale), omega.argmax(C))


def test_vertices_are_sorted_and_distinct() -> None:
    vertices = Polytope(**PAPER).vertices
    assert vertices is not None
    assert [tuple(v) for v in vertices] == sorted({tuple(v) for v in vertices})
    assert len(vertices) == 12


def test_ties_go_to_the_lowest_vertex() -> None:
    omega = Polytope(**PAPER)
    np.testing.assert_array_equal(omega.argmax(np.zeros((1, 4))), np.zeros((1, 4)))
    np.testing.assert_array_equal(omega.argmax([[1.0, 1.0, 0.0, 0.0]]), [[0.0, 0.5, 0.0, 0.0]])
    np.testing.assert_array_equal(omega.argmax([[1.0 + 1e-15, 1.0, 0.0, 0.0]]), [[0.0, 0.5, 0.0, 0.0]])


def test_redundant_and_degenerate_rows_do_no_harm() -> None:
    A_eq = [[1, 1, 1], [2, 2, 2], [0, 0, 0]]
    omega = Polytope([[1, 0, 0], [2, 0, 0], [1, 1, 1]], [0.5, 1.0, 1.0], A_eq, [1, 2, 0])
    assert omega.vertices is not None
    np.testing.assert_allclose(omega.vertices, np.array([[0, 0, 1], [0, 1, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]]))
    assert_optimal(omega, hard_rows(3, n=10))


def test_one_dimension_one_point_and_fixed_coordinates() -> None:
    assert_optimal(Polytope([1.0], 0.25), hard_rows(1, n=5))
    point = Polytope(A_eq=np.eye(2), b_eq=[0.25, 0.75])
    C = hard_rows(2, n=5)
    np.testing.assert_array_equal(point.argmax(C), np.tile([0.25, 0.75], (len(C), 1)))
    fixed = Polytope([[1, 1, 1]], [1.5], lower=[0, 0.5, 0], upper=[1, 0.5, 1])
    assert_optimal(fixed, hard_rows(3, n=5))


def test_no_constraints_are_a_box() -> None:
    for omega in (Polytope(dimension=2), Polytope(upper=[1, 1])):
        np.testing.assert_array_equal(omega.argmax([[1.0, -1.0]]), [[1.0, 0.0]])
        assert omega.violation(np.array([[0.5, 1.25]])) == pytest.approx([0.25])
    assert Polytope(dimension=20).vertices is None
    assert Polytope(dimension=14).vertices is None


def test_infinite_bounds_are_tightened_by_the_constraints() -> None:
    omega = Polytope([[1, 1], [-1, 1]], [3, 1], lower=[0, -1], upper=np.inf)
    np.testing.assert_array_equal([omega.lower, omega.upper], [[0, -1], [4, 2]])
    both = Polytope(np.concatenate([np.eye(2), -np.eye(2)]), [1, 2, 3, 4], lower=-np.inf, upper=np.inf)
    np.testing.assert_array_equal([both.lower, both.upper], [[-3, -4], [1, 2]])
    assert_optimal(omega, hard_rows(2, n=10))


def test_sparse_input_is_fine() -> None:
    A, b = grid_path(20)
    omega = Polytope(A_eq=sparse.csc_array(A), b_eq=b)
    dense = Polytope(A_eq=A, b_eq=b)
    C = np.random.default_rng(3).normal(size=(5, omega.dimension))
    np.testing.assert_array_equal(omega.argmax(C), dense.argmax(C))
    assert omega.violation(omega.argmax(C)).max() <= 1e-9


def test_large_constraints_are_not_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_DENSE", 3)
    assert Polytope(**PAPER).vertices is None


def test_violation_scales_rows() -> None:
    omega = Polytope([[1024.0, 0.0]], [512.0], [[0.0, 4.0]], [2.0])
    np.testing.assert_allclose(omega.violation(np.array([[0.75, 0.5], [0.5, 0.25], [0.5, 0.5]])), [0.25, 0.25, 0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give dimension="),
        ({"A_ub": [[1, 1]]}, "A_ub is given without b_ub"),
        ({"b_eq": [1], "dimension": 2}, "b_eq is given without A_eq"),
        ({"A_ub": [[1, 1]], "b_ub": [1, 2]}, r"each of the 1 rows of A_ub; got an array of shape \(2,\)"),
        ({"A_ub": [[1, 1]], "b_ub": [[1], [2]]}, "One fixed set for all rows"),
        ({"A_ub": np.ones((3, 1, 2)), "b_ub": [1]}, "a set per row is not"),
        ({"A_ub": [[1, 1]], "b_ub": [1], "A_eq": [[1, 1, 1]], "b_eq": [1]}, "A_ub has 2, A_eq has 3"),
        ({"A_ub": [[1, 1]], "b_ub": [1], "dimension": 3}, "A_ub has 2, dimension has 3"),
        ({"A_ub": [[1, 1]], "b_ub": [1], "upper": [1, 1, 1]}, "each of the 2 coordinates"),
        ({"A_ub": [[1, np.nan]], "b_ub": [1]}, "A_ub must be finite"),
        ({"A_ub": sparse.csr_array([[1, np.inf]]), "b_ub": [1]}, "entries of A_ub must be finite"),
        ({"A_ub": [["a"]], "b_ub": [1]}, "A_ub must be numeric"),
        ({"A_ub": np.empty((1, 0)), "b_ub": [1]}, "at least 1"),
    ],
)
def test_input_errors_say_what_to_do(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Polytope(**arguments)  # type: ignore[arg-type]


def test_impossible_sets_are_refused() -> None:
    with pytest.raises(EmptySetError, match="no action satisfies all constraints"):
        Polytope([[1, 1]], [-1])
    with pytest.raises(EmptySetError, match="no action satisfies all constraints"):
        Polytope(A_eq=[[1, 1], [1, 1]], b_eq=[1, 2], upper=np.inf)
    with pytest.raises(EmptySetError, match="coordinate 1 has lower bound 3"):
        Polytope(dimension=2, lower=[0, 3])
    with pytest.raises(UnboundedSetError, match="coordinate 1 has no upper bound"):
        Polytope([[1, -1]], [1], upper=[1, np.inf])
    with pytest.raises(UnboundedSetError, match="coordinate 0 has no lower bound"):
        Polytope([[1, 1]], [1], lower=[-np.inf, 0])


def test_an_unsolved_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = grid_path()
    omega = Polytope(A_eq=A, b_eq=b)
    monkeypatch.setattr(_highs, "_run", lambda solver: highspy.HighsModelStatus.kIterationLimit)
    message = "row 0 could not be solved: HiGHS ended with status kIterationLimit.*likely"
    with pytest.raises(SolverError, match=message):
        omega.argmax(np.ones((2, 40)))
