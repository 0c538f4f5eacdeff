from __future__ import annotations

import copy
import pickle
from itertools import combinations, permutations
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.optimize import linprog

from optensemble._core.kernel import Kernel
from optensemble.exceptions import (
    EmptySetError,
    FallbackWarning,
    InfeasibleActionError,
    InputError,
    SolverError,
    UnboundedSetError,
)
from optensemble.feasible._solvers import highs as _highs
from optensemble.feasible._solvers.standard_form import StandardForm, dense_rows, standard_form
from optensemble.feasible.polytope import Polytope
from tests.sample_sets import Floats, grid_path, hard_rows

pytestmark = pytest.mark.slow

PAPER: dict[str, Any] = {"A_ub": [[1, 1, 0, 0], [0, 1, 1, 0]], "b_ub": [0.5, 0.6]}


solve: Any = linprog


def battery(hours: int = 24, capacity: float = 4.0, efficiency: float = 0.95) -> dict[str, Any]:
    """Charge and discharge for each hour; the state of charge starts half full and stays within the capacity."""
    hourly = np.tril(np.ones((hours, hours)))
    charge = np.hstack([efficiency * hourly, -hourly / efficiency])
    return {"A_ub": np.vstack([charge, -charge]), "b_ub": np.full(2 * hours, capacity / 2)}


def transport(n: int = 5) -> dict[str, Any]:
    """Doubly stochastic matrices: every vertex is degenerate, and one equality is redundant."""
    A = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return {"A_eq": A, "b_eq": np.ones(2 * n)}


def cross(d: int = 7) -> dict[str, Any]:
    """``sum |a_j| <= 1``: many more inequalities at a vertex than coordinates."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1).T
    return {"A_ub": signs, "b_ub": np.ones(len(signs)), "lower": -3.0, "upper": 3.0}


def knapsack(d: int = 48, seed: int = 1) -> dict[str, Any]:
    A_ub = np.random.default_rng(seed).uniform(0.2, 1.0, size=(2, d))
    return {"A_ub": A_ub, "b_ub": A_ub.sum(axis=1) / 2}


def counts(d: int = 20, seed: int = 2) -> dict[str, Any]:
    """Small whole numbers: ties and degenerate vertices that are not whole."""
    A_ub = np.random.default_rng(seed).integers(0, 4, size=(8, d)).astype(np.float64)
    return {"A_ub": A_ub, "b_ub": np.full(8, 7.0)}


def grid() -> dict[str, Any]:
    A, b = grid_path()
    return {"A_eq": A, "b_eq": b}


LARGE: dict[str, dict[str, Any]] = {
    "battery": battery(),
    "counts": counts(),
    "cross": cross(),
    "grid": grid(),
    "knapsack": knapsack(),
    "transport": transport(),
}
SETS = {name: Polytope(**arguments) for name, arguments in LARGE.items()}


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small sets be solved by the simplex method too."""
    monkeypatch.setattr("optensemble.feasible._solvers.enumeration.MOST_CANDIDATES", 0)


def constraints(omega: Polytope) -> dict[str, Any]:
    """Return the arguments of ``linprog``."""
    spec: Any = omega.spec()
    bounds = np.column_stack([spec["lower"], spec["upper"]])
    return {"bounds": bounds, **{name: spec[name] for name in ("A_ub", "b_ub", "A_eq", "b_eq")}}


def assert_optimal(omega: Polytope, C: Floats) -> None:
    """Compare values with SciPy's, on coefficients scaled to 1 so that huge and tiny rows count alike."""
    arguments = constraints(omega)
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9 * omega.extent
    for c, action in zip(C, actions, strict=True):
        scaled = c / np.abs(c).max() if c.any() else c
        value = -solve(-scaled, **arguments).fun
        assert scaled @ action == pytest.approx(value, abs=1e-9 * (omega.extent + abs(value)))


def kernel_answers(omega: Polytope, C: Floats) -> Floats:
    """Return the kernel's own answers; fail if it gives up a row."""
    assert omega.kernel is not None
    actions, status = np.empty_like(C), np.zeros(len(C), dtype=np.int64)
    omega.kernel(C, False, actions, status)
    assert not status.any()
    return actions


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


def test_all_three_solvers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    C = np.random.default_rng(0).normal(size=(500, 4))
    listed = Polytope(**PAPER).argmax(C)
    monkeypatch.setattr("optensemble.feasible._solvers.enumeration.MOST_CANDIDATES", 0)
    by_simplex = Polytope(**PAPER)
    assert by_simplex.vertices is None
    np.testing.assert_allclose(kernel_answers(by_simplex, C), listed, atol=1e-15)
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_TABLEAU", 0)
    by_highs = Polytope(**PAPER)
    assert by_highs.kernel is None
    np.testing.assert_allclose(by_highs.argmax(C), listed, atol=1e-12)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(LARGE))
def test_the_simplex_method_agrees_with_scipy(name: str) -> None:
    omega = SETS[name]
    assert omega.vertices is None
    C = hard_rows(omega.dimension, n=25, seed=4)
    kernel_answers(omega, C)
    assert_optimal(omega, C)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_an_action_does_not_depend_on_the_other_rows(name: str) -> None:
    omega = SETS[name]
    rng = np.random.default_rng(5)
    whole = rng.integers(-3, 4, size=(300, omega.dimension)).astype(np.float64)
    C = np.concatenate([hard_rows(omega.dimension, n=50), whole, whole / 3])
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.argmax(C[::-1])[::-1], actions)
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C]), actions)
    for hint in (actions, actions[::-1], 1e9 * rng.normal(size=C.shape), np.zeros_like(C)):
        np.testing.assert_array_equal(omega.argmax(C, hint=hint), actions)
    for twin in (Polytope(**LARGE[name]), copy.deepcopy(omega), pickle.loads(pickle.dumps(omega))):
        np.testing.assert_array_equal(twin.argmax(C), actions)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_ties_are_not_broken_by_rounding(name: str) -> None:
    omega = SETS[name]
    rng = np.random.default_rng(6)
    whole = rng.integers(-3, 4, size=(2000, omega.dimension)).astype(np.float64)
    actions = kernel_answers(omega, whole)
    for same in (whole / 3, whole / 7, whole * 0.1, whole + 1e-16 * rng.normal(size=whole.shape)):
        np.testing.assert_allclose(kernel_answers(omega, same), actions, atol=1e-12)


@pytest.mark.parametrize("name", sorted(LARGE))
def test_tied_actions_have_the_least_weight(name: str) -> None:
    omega = SETS[name]
    d = omega.dimension
    C = np.random.default_rng(7).integers(-2, 3, size=(25, d)).astype(np.float64)
    C[0], C[1] = 0.0, 1.0
    weights = np.exp(-2 * np.arange(d) / d)
    for c, action in zip(C, omega.argmax(C), strict=True):
        face = constraints(omega)
        rows = [] if face["A_ub"] is None else [face["A_ub"]]
        right = [] if face["b_ub"] is None else [face["b_ub"]]
        face["A_ub"], face["b_ub"] = np.vstack([*rows, -c]), np.concatenate([*right, [1e-10 - c @ action]])
        assert weights @ action <= solve(weights, **face).fun + 1e-6


@pytest.mark.no_cover
@pytest.mark.usefixtures("unlisted")
@pytest.mark.parametrize("seed", range(60))
def test_sets_of_many_kinds_agree_with_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 15)), int(rng.integers(0, 10))
    e = int(rng.integers(0, min(d, 4)))
    A_ub = rng.normal(size=(m, d)) if seed % 2 else rng.integers(-2, 3, size=(m, d)).astype(np.float64)
    A_eq = rng.integers(-1, 2, size=(e, d)).astype(np.float64)
    lower = rng.choice([0.0, -1.0, 0.5, -3.3], size=d)
    upper = lower + rng.choice([1.0, 1.0, 2.5, 0.0, 0.01, 50.0], size=d)
    centre = lower + (upper - lower) * rng.choice([0.0, 0.3, 0.5, 1.0], size=d)
    slack = rng.choice([0.0, 0.1, 1.0], size=m)
    if seed % 3 == 0:  # ranges, and here and there an equality in disguise
        A_ub, slack = np.concatenate([A_ub, -A_ub]), np.concatenate([slack, slack])
    omega = Polytope(A_ub, A_ub @ centre + slack, A_eq, A_eq @ centre, lower, upper)
    assert omega.vertices is None
    C = hard_rows(d, n=5, seed=seed)
    kernel_answers(omega, C)
    assert_optimal(omega, C)


def grid_paths(n: int = 5) -> Floats:
    """All ways through the grid, by their turns."""
    steps = 2 * (n - 1)
    paths = []
    for right in combinations(range(steps), n - 1):
        i = j = 0
        path = np.zeros(2 * n * (n - 1))
        for step in range(steps):
            if step in right:
                path[i * (n - 1) + j] = 1.0
                j += 1
            else:
                path[n * (n - 1) + i * n + j] = 1.0
                i += 1
        paths.append(path)
    return np.array(paths)


def permutation_matrices(n: int = 5) -> Floats:
    return np.array([np.eye(n)[list(order)].ravel() for order in permutations(range(n))])


@pytest.mark.parametrize(("name", "vertices"), [("grid", grid_paths()), ("transport", permutation_matrices())])
@pytest.mark.parametrize("nearly", [1e-9, 1e-10, 2.0**-36])
def test_near_ties_are_no_ties(name: str, vertices: Floats, nearly: float) -> None:
    rng = np.random.default_rng(10)
    C = rng.integers(-1, 2, size=(3000, vertices.shape[1])) + nearly * rng.integers(-1, 2, size=(3000, 1))
    C[:, ::3] += nearly * rng.integers(-1, 2, size=C[:, ::3].shape)
    values = C @ vertices.T
    tied = values >= values.max(axis=1, keepdims=True) - nearly / 4
    weights = vertices @ np.exp(-2 * np.arange(vertices.shape[1]) / vertices.shape[1])
    expected = vertices[np.where(tied, weights, np.inf).argmin(axis=1)]
    np.testing.assert_array_equal(kernel_answers(SETS[name], C), expected)


@pytest.mark.no_cover
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(LARGE)).flatmap(
        lambda name: st.tuples(
            st.just(name),
            arrays(
                np.float64,
                (3, SETS[name].dimension),
                elements=st.one_of(
                    st.integers(-3, 3).map(float),
                    st.floats(-1e8, 1e8, allow_subnormal=False),
                    st.floats(-1e-8, 1e-8),
                    st.floats(allow_nan=False, allow_infinity=False),
                ),
            ),
        )
    )
)
def test_any_numbers_are_solved(case: tuple[str, Floats]) -> None:
    omega, C = SETS[case[0]], case[1]
    actions = omega.argmax(C)
    assert omega.violation(actions).max() <= 1e-9
    np.testing.assert_array_equal(omega.argmax(C[::-1], hint=C)[::-1], actions)
    scaled = C / np.maximum(np.abs(C).max(axis=1, keepdims=True), 1e-300)
    for c, action in zip(scaled, actions, strict=True):
        value = -solve(-c, **constraints(omega)).fun
        assert c @ action >= value - 1e-8 * (1 + abs(value))


def form_of(A_ub: Floats, b_ub: Floats, A_eq: Floats, b_eq: Floats, lower: Floats, upper: Floats) -> StandardForm:
    return standard_form(dense_rows(A_ub, A_eq), np.concatenate([b_ub, b_eq]), lower, upper)


def test_ranges_and_equalities_in_disguise_are_found() -> None:
    hours = 24
    A, b = battery(hours).values()
    form = form_of(A, b, np.empty((0, 48)), np.empty(0), np.zeros(48), np.ones(48))
    assert form.matrix.shape[0] <= hours
    rows = np.array([[1.0, 1.0, 1.0, 0.0], [-2.0, -2.0, -2.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    A_eq, b_eq = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]]), np.array([1.0, 1.0])
    right, upper = np.array([1.0, -2.0, 5.0]), np.array([1.0, 1.0, 1.0, 0.5])
    form = form_of(rows, right, A_eq, b_eq, np.zeros(4), upper)
    assert form.matrix.shape == (2, 2)


def test_rounding_does_not_make_a_constraint() -> None:
    A_eq = np.array([[0.1, 0.2, 0.3, 0.4, 0.7]])
    A_ub = np.concatenate([3 * A_eq, A_eq / 7, [[1.0, 0.0, 0.0, 0.0, 1.0]]])
    form = form_of(A_ub, np.array([1.5, 0.5 / 7, 0.5]), A_eq, np.array([0.5]), np.zeros(5), np.ones(5))
    assert not form.matrix[1:-1].any()


def test_the_standard_form_is_the_same_set() -> None:
    rng = np.random.default_rng(8)
    A_ub, A_eq = rng.normal(size=(4, 6)), rng.normal(size=(2, 6))
    lower, upper = rng.normal(size=6), rng.normal(size=6) + 5.0
    upper[2] = lower[2]
    centre = (lower + upper) / 2
    form = form_of(A_ub, A_ub @ centre + 0.1, A_eq, A_eq @ centre, lower, upper)
    k = form.matrix.shape[1]
    moving = form.variables >= 0
    for x in rng.uniform(form.lower[:k], form.upper[:k], size=(50, k)):
        variables = np.concatenate([x, form.matrix @ x])
        action = np.where(moving, form.bases + form.units * variables[form.variables], lower)
        np.testing.assert_allclose(A_eq @ action, A_eq @ centre, atol=1e-12)
        inside = bool(((variables >= form.lower) & (variables <= form.upper)).all())
        assert inside == bool(
            (A_ub @ action <= A_ub @ centre + 0.1).all()
            and (action >= lower - 1e-12).all()
            and (action <= upper + 1e-12).all()
        )


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
    for d in (9, 20):
        corner = Polytope(dimension=d, lower=-1.0)
        assert corner.vertices is None
        C = hard_rows(d, n=5)
        np.testing.assert_array_equal(corner.argmax(C)[C != 0], np.sign(C[C != 0]))
    still = Polytope(dimension=20, lower=0.5, upper=0.5)
    np.testing.assert_array_equal(still.argmax(np.ones((2, 20))), np.full((2, 20), 0.5))


def test_infinite_bounds_are_tightened_by_the_constraints() -> None:
    omega = Polytope([[1, 1], [-1, 1]], [3, 1], lower=[0, -1], upper=np.inf)
    np.testing.assert_array_equal([omega.lower, omega.upper], [[0, -1], [4, 2]])
    both = Polytope(np.concatenate([np.eye(2), -np.eye(2)]), [1, 2, 3, 4], lower=-np.inf, upper=np.inf)
    np.testing.assert_array_equal([both.lower, both.upper], [[-3, -4], [1, 2]])
    assert_optimal(omega, hard_rows(2, n=10))


@pytest.mark.no_cover
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
        ({"A_ub": [[1, 1]], "b_ub": [[1], [2]]}, r"If it differs between rows, give oe\.Columns"),
        ({"A_ub": np.ones((3, 1, 2)), "b_ub": [1]}, "Matrices are the same in all rows"),
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


def stubborn(
    C: Floats, hinted: bool, actions: Floats, status: Floats, own: Floats, floats: Floats, ints: Floats
) -> None:
    """Give up every other row, as a kernel does."""
    actions[:], status[::2] = 0.25, 1


def test_rows_given_up_are_solved_by_highs() -> None:
    omega = Polytope(**battery())
    C = np.random.default_rng(9).normal(size=(6, 48))
    expected = omega.argmax(C)
    omega.kernel = Kernel(stubborn, np.empty(0), np.empty(0, dtype=np.int64))
    actions = omega.argmax(C)
    np.testing.assert_allclose(actions[::2], expected[::2], atol=1e-9)
    np.testing.assert_array_equal(actions[1::2], 0.25)


def unsolvable(monkeypatch: pytest.MonkeyPatch, **failure: Any) -> Polytope:
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_TABLEAU", 0)
    omega = Polytope(**grid(), **failure)
    monkeypatch.setattr(_highs, "_run_highs", lambda solver: highspy.HighsModelStatus.kIterationLimit)
    return omega


def test_an_unsolved_row_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    message = "row 0 could not be solved: HiGHS ended with status kIterationLimit.*likely"
    with pytest.raises(SolverError, match=message):
        unsolvable(monkeypatch).argmax(np.ones((2, 40)))


def test_an_unsolved_row_may_take_a_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    path = SETS["grid"].argmax(np.ones((1, 40)))[0]
    omega = unsolvable(monkeypatch, on_failure="fallback", fallback=path)
    with pytest.warns(FallbackWarning, match="2 of 2 rows could not be solved and took the fallback action; row 0"):
        actions = omega.argmax(np.ones((2, 40)))
    np.testing.assert_array_equal(actions, [path, path])
    spec = omega.spec()
    assert spec["on_failure"] == "fallback"
    np.testing.assert_array_equal(spec["fallback"], path)


def test_a_bad_fallback_is_refused() -> None:
    with pytest.raises(InfeasibleActionError, match="inside the set"):
        Polytope(**PAPER, on_failure="fallback", fallback=np.ones(4))
    with pytest.raises(InputError, match="do not go together"):
        Polytope(**PAPER, on_failure="fallback")
