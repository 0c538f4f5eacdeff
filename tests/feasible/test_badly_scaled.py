"""Sets whose coefficients and ranges differ by many orders of magnitude."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
import pytest
from scipy.optimize import nnls

from optensemble.exceptions import EmptySetError, InputError, SolverError, UnboundedSetError
from optensemble.feasible import FeasibleSet, Knapsack, MixedInteger, Polytope
from tests.sample_sets import Floats

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

OUTSIDE = 1e-8
"""How far actions may miss a row, of a size near 1 beside ranges of 1; and how far rows may move to explain them."""


@pytest.fixture(autouse=True)
def few_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """List the vertices of the smallest sets alone, which is faster, and leaves more to the simplex method."""
    monkeypatch.setattr("optensemble.feasible._solvers.enumeration.MOST_CANDIDATES", 1000)


def magnitudes(rng: np.random.Generator, *shape: int) -> Floats:
    signs: Floats = rng.choice([-1.0, 1.0], size=shape)
    return signs * 10.0 ** rng.uniform(-8, 8, size=shape)


def random_bounds(rng: np.random.Generator, d: int) -> tuple[Floats, Floats]:
    width = [
        np.ones(d),
        rng.uniform(0.5, 4.0, size=d),
        10.0 ** rng.uniform(-6, 6, size=d),
        np.full(d, 10.0 ** rng.uniform(-6, 6)),
    ][rng.integers(4)]
    lower = np.where(rng.random(d) < 0.5, 0.0, -width * rng.random(d))
    return lower, lower + width


def badly_scaled(seed: int) -> tuple[dict[str, Any], Floats]:
    """Return a set and a point inside it: in the middle, or at some bounds, or where all constraints are tight."""
    rng = np.random.default_rng([1, seed])
    d, m = int(rng.integers(2, 13)), int(rng.integers(1, 13))
    equal = int(rng.integers(0, min(d - 1, m) + 1)) if seed % 2 else 0
    A = magnitudes(rng, m, d)
    if seed % 4 == 2:
        A = rng.normal(size=(m, d)) * np.abs(magnitudes(rng, m, 1)) * np.abs(magnitudes(rng, 1, d))
    if seed % 5 == 0:
        A *= rng.random((m, d)) < 0.6
    lower, upper = random_bounds(rng, d)
    share = rng.random(d)
    if seed % 3 == 1:
        share = np.where(rng.random(d) < 0.5, rng.integers(0, 2, size=d), share)
    point = np.clip(lower + (upper - lower) * share, lower, upper)
    room = rng.random(m) * (rng.random(m) < 0.7) * (seed % 3 < 2)
    b = A @ point + np.where(np.arange(m) < equal, 0.0, room * (np.abs(A) @ (upper - lower)))
    rows = {"A_eq": A[:equal], "b_eq": b[:equal], "A_ub": A[equal:], "b_ub": b[equal:]}
    return {**rows, "lower": lower, "upper": upper}, point


def equilibrated(arguments: dict[str, Any]) -> tuple[Floats, Floats, int]:
    """Return all rows (inequalities first), their right-hand sides, and how many are inequalities, with ranges of 1."""
    A = np.concatenate([arguments["A_ub"], arguments["A_eq"]])
    b = np.concatenate([arguments["b_ub"], arguments["b_eq"]]) - A @ arguments["lower"]
    A = A * (arguments["upper"] - arguments["lower"])
    size = np.abs(A).max(axis=1)
    size[size == 0] = 1.0
    return A / size[:, None], b / size, len(arguments["b_ub"])


def best_value(arguments: dict[str, Any], c: Floats, relaxed: float) -> float | None:
    """Return HiGHS's best value with all rows relaxed (or tightened), if it can be found."""
    A, b, count = equilibrated(arguments)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in {
        "output_flag": False,
        "small_matrix_value": 1e-12,
        "primal_feasibility_tolerance": 1e-9,
    }.items():
        solver.setOptionValue(name, value)
    for cost in c:
        solver.addCol(-cost, 0.0, 1.0, 0, np.empty(0, dtype=np.int32), np.empty(0))
    for i, (row, right) in enumerate(zip(A, b, strict=True)):
        columns = np.flatnonzero(row).astype(np.int32)
        low = -highspy.kHighsInf if i < count else right - relaxed
        solver.addRow(low, right + relaxed, len(columns), columns, row[columns])
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return -float(solver.getInfo().objective_function_value)


def assert_best(arguments: dict[str, Any], C: Floats, actions: Floats) -> None:
    """Actions are inside, and best: the coefficients lie in the cone of the constraints that hold with equality.

    And no better than HiGHS's with a little more room, nor worse than its with a little less.
    """
    A, b, count = equilibrated(arguments)
    width = arguments["upper"] - arguments["lower"]
    for c, action in zip(C * width, actions, strict=True):
        z, scaled = (action - arguments["lower"]) / width, c / np.abs(c).max()
        excess = A @ z - b
        assert max(excess[:count].max(initial=0.0), np.abs(excess[count:]).max(initial=0.0)) <= OUTSIDE
        assert (action >= arguments["lower"]).all()
        assert (action <= arguments["upper"]).all()
        above, below = excess >= -OUTSIDE, (excess <= OUTSIDE) & (np.arange(len(b)) >= count)
        sides = np.eye(len(z))[z >= 1 - OUTSIDE], -np.eye(len(z))[z <= OUTSIDE]
        cone = np.concatenate([A[above], -A[below], *sides])
        size = np.linalg.norm(cone, axis=1)
        assert nnls((cone[size > 0] / size[size > 0, None]).T, scaled, maxiter=1000)[1] <= 1e-3
        most = best_value(arguments, scaled, OUTSIDE)
        least = best_value(arguments, scaled, -OUTSIDE) if count == len(b) else None
        assert most is None or scaled @ z <= most + 1e-6
        assert least is None or scaled @ z >= least - 1e-6


def coefficients(arguments: dict[str, Any], seed: int, n: int = 2) -> Floats:
    """Every other set has coefficients in the units of its coordinates."""
    width = arguments["upper"] - arguments["lower"]
    return np.asarray(np.random.default_rng([2, seed]).normal(size=(n, len(width))) / width ** (seed // 2 % 2))


@pytest.mark.parametrize("block", range(12))
def test_sets_with_a_point_inside_are_solved(block: int) -> None:
    for seed in range(50 * block, 50 * (block + 1)):
        arguments, _ = badly_scaled(seed)
        C = coefficients(arguments, seed)
        assert_best(arguments, C, Polytope(**arguments).argmax(C))


@pytest.mark.parametrize("block", range(3))
def test_highs_solves_them_too(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_DENSE", -1)
    for seed in range(50 * block, 50 * (block + 1)):
        arguments, _ = badly_scaled(seed)
        omega = Polytope(**arguments)
        assert omega.kernel is None
        C = coefficients(arguments, seed)
        assert_best(arguments, C, omega.argmax(C))


def contradicted(arguments: dict[str, Any], point: Floats, seed: int, gap: float) -> dict[str, Any]:
    """Let a row be at most what it is at the point, and, multiplied, at least a share of its size more than that."""
    rng = np.random.default_rng([3, seed])
    width = arguments["upper"] - arguments["lower"]
    row = magnitudes(rng, len(width)) if seed % 2 else rng.normal(size=len(width)) / width
    value, more = row @ point, gap * np.abs(row * width).max()
    A_ub = np.concatenate([arguments["A_ub"], [128 * row], [-3 * row]])
    b_ub = np.concatenate([arguments["b_ub"], [128 * value], [-3 * (value + more)]])
    return {**arguments, "A_ub": A_ub, "b_ub": b_ub}


def test_sets_that_are_empty_are_still_called_empty() -> None:
    for seed in range(300):
        with pytest.raises(EmptySetError, match="no action satisfies all constraints"):
            Polytope(**contradicted(*badly_scaled(seed), seed, gap=0.01))


def test_a_set_that_may_be_empty_by_rounding_raises_an_error_that_says_so() -> None:
    message = r"in doubt whether any action.*badly scaled.*misses one by 1.0e-08.*Choose units"
    with pytest.raises(SolverError, match=message):
        Polytope([[1, 1], [-1, -1]], [1, -1 - 2e-8])
    with pytest.raises(SolverError, match=message):
        MixedInteger([[1, 1], [-1, -1]], [1, -1 - 2e-8], integer=[0])
    rounding = Polytope([[1, 1], [-1, -1]], [1, -1 - 1e-9])
    assert rounding.violation(rounding.argmax([[1.0, 0.0]]))[0] <= 2e-9


@pytest.mark.parametrize("size", [1e20, 1e100, 1e300])
def test_numbers_that_highs_takes_for_infinity_are_refused(size: float) -> None:
    rows: dict[str, Any] = {"A_ub": [[-1.0, -1.0]], "b_ub": [0.0], "integer": [True, False]}
    for low, high in ((size, 2 * size), (-2 * size, -size)):
        with pytest.raises((SolverError, EmptySetError), match=r"HiGHS does not take|no action"):
            MixedInteger(**rows, lower=[0.0, low], upper=[1.0, high])
        with pytest.raises(InputError, match=r"bounds of whole numbers must be at most 9.*e\+15.*coordinate 0 are"):
            MixedInteger(**rows, lower=[low, 0.0], upper=[high, 1.0])


def test_small_coefficients_bound_wide_coordinates() -> None:
    omega = Polytope([[1.0, 1e-10], [1e-9, 1e9]], [1.0, 1e14], upper=np.inf)
    np.testing.assert_allclose(omega.upper, [1.0, 1e5])
    tiny = Polytope(A_eq=[[1e12, 1.0]], b_eq=[1.0], upper=np.inf)
    np.testing.assert_allclose(tiny.upper, [1e-12, 1.0])
    np.testing.assert_allclose(tiny.argmax([[2e12, 1.0], [5e11, 1.0]]), [[1e-12, 0.0], [0.0, 1.0]], atol=1e-24)
    with pytest.raises(UnboundedSetError, match="coordinate 1 has no upper bound"):
        Polytope([[1e10, -1e-10]], [1.0], upper=[1.0, np.inf])


@pytest.mark.parametrize("width", [10.0**-k for k in range(1, 14)])
def test_ranges_far_smaller_than_their_bounds(width: float) -> None:
    """Constraints that meet at a corner of a tiny box: what they leave is known to few digits, but there is some."""
    for seed in range(20):
        rng = np.random.default_rng([6, seed])
        d, m = int(rng.integers(2, 6)), int(rng.integers(1, 4))
        upper = rng.uniform(0.2, 2.0, size=d)
        A, sides = rng.normal(size=(m, d)), rng.random(d) < 0.5
        lower = upper - width
        b = A @ np.where(sides, lower, upper)
        both: list[dict[str, Any]] = [{"A_ub": A, "b_ub": b}, {"A_eq": A[: d - 1], "b_eq": b[: d - 1]}]
        for rows in both:
            omega = Polytope(**rows, lower=lower, upper=upper)
            rounding = 1e-14 if width > 1e-12 else 1e-9  # ranges of 1e-12 may be rounding themselves
            assert omega.violation(omega.argmax(rng.normal(size=(3, d)))).max() <= max(omega.tolerance, rounding)


@pytest.mark.parametrize("offset", [0.0, 7.0, 1e3, 1e5, 1e9, -1e9])
def test_bounds_far_from_zero(offset: float) -> None:
    omega = Polytope(A_ub=[[1.0]], b_ub=[offset + 0.5], lower=offset, upper=offset + 1.0)
    np.testing.assert_array_equal(omega.argmax([[1.0], [-1.0]]), [[offset + 0.5], [offset]])
    for d in (4, 20):
        rows = np.concatenate([np.eye(d), np.ones((1, d))])
        right = np.append(np.full(d, offset + 0.75), d * offset + 2.0)
        wide = Polytope(A_ub=rows, b_ub=right, lower=offset, upper=offset + 1.0)
        actions = wide.argmax(np.random.default_rng(0).normal(size=(10, d)))
        assert wide.violation(actions).max() <= max(wide.tolerance, 1e-15 * d * abs(offset))


def test_a_fixed_coordinate_does_not_set_the_scale_of_a_row() -> None:
    small = Polytope(A_ub=[[-1.0, 1e4]], b_ub=[-5e-7], lower=0, upper=[1e-6, 0.0])
    np.testing.assert_allclose(small.argmax([[-1.0, 0.0]]), [[5e-7, 0.0]], atol=1e-13)
    rng, d = np.random.default_rng(0), 16
    A, b, upper = np.zeros((7, d + 1)), np.zeros(7), np.ones(d + 1)
    A[:5, :d] = rng.random((5, d))
    b[:5], upper[d] = 0.3 * A[:5].sum(axis=1), 0.0
    A[5, [0, d]], b[5] = [-1e-6, 1e8], -0.5e-6  # the first is at least a half, twice over
    A[6, 0], b[6] = -1.0, -0.5
    actions = Polytope(A_ub=A, b_ub=b, upper=upper).argmax(np.append([-1.0], np.ones(d))[None])
    assert actions[0, 0] == pytest.approx(0.5, abs=1e-9)


def test_vertices_that_need_a_small_pivot_are_listed() -> None:
    omega = Polytope(A_ub=[[1.0, 5e-11], [-1.0, 0.0]], b_ub=[0.5, -0.5 + 2.5e-8], lower=0, upper=[1, 1000.0])
    assert omega.vertices is not None
    assert omega.argmax([[0.0, 1.0]])[0, 1] == pytest.approx(500.0, rel=1e-5)


def test_equalities_that_leave_one_action_have_its_size_for_extent() -> None:
    """Bounds that they imply differ by rounding, which must not become the measure of what is small."""
    for seed in range(600):
        rng = np.random.default_rng(seed)
        A, b = np.round(rng.normal(size=(4, 4)), 1), np.round(rng.normal(size=4), 1)
        if abs(np.linalg.det(A)) < 0.05:
            continue
        omega = Polytope(A_eq=A, b_eq=b, lower=-np.inf, upper=np.inf)
        assert omega.extent >= 0.9 * np.abs(np.linalg.solve(A, b)).max()
        Polytope(**omega.spec() | {"on_failure": "fallback", "fallback": omega.argmax(np.ones((1, 4)))[0]})


@pytest.mark.parametrize("tableau", [0, 150_000])
def test_an_action_does_not_depend_on_the_other_rows(tableau: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optensemble.feasible.polytope._MOST_TABLEAU", tableau)
    for seed in range(0, 60, 3):
        arguments, _ = badly_scaled(seed)
        omega, C = Polytope(**arguments), coefficients(arguments, seed, n=8)
        actions = omega.argmax(C)
        np.testing.assert_array_equal(omega.argmax(C[::-1], hint=actions)[::-1], actions)
        np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C]), actions)
        np.testing.assert_array_equal(Polytope(**omega.spec()).argmax(C * 2.0**20), actions)


def badly_scaled_counts(seed: int) -> tuple[dict[str, Any], Floats]:
    """Return a set in which all or half of the coordinates are whole numbers, and a point inside it."""
    rng = np.random.default_rng([4, seed])
    d, m = int(rng.integers(2, 9)), int(rng.integers(1, 7))
    equal = int(rng.integers(0, min(3, m) + 1)) if seed % 3 == 0 else 0
    integer = rng.random(d) < 0.5 if seed % 2 else np.ones(d, dtype=np.bool_)
    upper = np.where(integer, rng.integers(1, 6, size=d), 10.0 ** rng.uniform(-4, 4, size=d))
    point = np.where(integer, np.floor(rng.random(d) * (upper + 1)), rng.random(d) * upper)
    A = magnitudes(rng, m, d)
    room = np.where(np.arange(m) < equal, 0.0, rng.random(m) * (rng.random(m) < 0.5) * (np.abs(A) @ upper))
    b = A @ point + room
    rows = {"A_eq": A[:equal], "b_eq": b[:equal], "A_ub": A[equal:], "b_ub": b[equal:]}
    return {**rows, "lower": np.zeros(d), "upper": upper, "integer": integer}, point


def test_whole_numbers_with_a_point_inside_are_solved() -> None:
    for seed in range(150):
        arguments, _ = badly_scaled_counts(seed)
        omega: FeasibleSet = MixedInteger(**arguments, node_limit=1000)
        actions = omega.argmax(coefficients(arguments, seed))
        assert omega.violation(actions).max() <= OUTSIDE * omega.extent


def test_whole_numbers_that_are_empty_are_still_called_empty() -> None:
    for seed in range(60):
        arguments, point = badly_scaled_counts(seed)
        with pytest.raises(EmptySetError, match="and the whole numbers"):
            MixedInteger(**contradicted(arguments, point, seed, gap=0.01))


def test_knapsacks_of_several_resources_are_solved() -> None:
    for seed in range(60):
        rng = np.random.default_rng([5, seed])
        d, resources = int(rng.integers(2, 12)), int(rng.integers(2, 5))
        weights = np.abs(magnitudes(rng, resources, d))
        capacity = weights.sum(axis=1) * rng.uniform(0.05, 1.0, size=resources)
        no_rows = {"A_eq": np.empty((0, d)), "b_eq": np.empty(0)}
        arguments = {**no_rows, "A_ub": weights, "b_ub": capacity, "lower": np.zeros(d), "upper": np.ones(d)}
        C = coefficients(arguments, seed)
        assert_best(arguments, C, Knapsack(weights, capacity).argmax(C))
