from __future__ import annotations

import copy
import itertools
import pickle
import signal
import subprocess
import sys
import time
from typing import Any

import highspy
import numba
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from optensemble.exceptions import EmptySetError, FallbackWarning, InputError, SolverError, UnboundedSetError
from optensemble.feasible import mixed_integer
from optensemble.feasible.mixed_integer import MixedInteger
from tests.interrupts import heed_interrupts
from tests.sample_sets import Floats, hard_rows

pytestmark = pytest.mark.slow

A_PACK = np.array([[3, 7, 2, 9, 4, 6, 1], [5, 1, 8, 2, 6, 3, 7]])
B_PACK = np.array([15, 16])
PACK = MixedInteger(A_ub=A_PACK, b_ub=B_PACK)
GRID = MixedInteger(A_eq=[[1, 2, 3]], b_eq=[7], lower=[-3, -2, 0], upper=[4, 5, 3])
MIXED = MixedInteger(  # three open/closed sites, what each ships, and a demand that must be met
    A_ub=[[-5, 0, 0, 1, 0, 0], [0, -4, 0, 0, 1, 0], [0, 0, -3, 0, 0, 1], [1, 1, 1, 0, 0, 0]],
    b_ub=[0, 0, 0, 2],
    A_eq=[[0, 0, 0, 1, 1, 1]],
    b_eq=[6.5],
    upper=[1, 1, 1, 5, 4, 3],
    integer=[0, 1, 2],
)
A_MANY = np.random.default_rng(0).integers(1, 9, size=(3, 20))
MANY = MixedInteger(A_ub=A_MANY, b_ub=A_MANY.sum(axis=1) // 3)  # too many actions to list
SETS = {"pack": PACK, "grid": GRID, "mixed": MIXED, "many": MANY}


def points(omega: MixedInteger) -> Floats:
    """Every point of a set of whole numbers."""
    ranges = [np.arange(low, high + 1) for low, high in zip(omega.lower, omega.upper, strict=True)]
    grid: Floats = np.array(list(itertools.product(*ranges)), dtype=float)
    inside: Floats = grid[omega.violation(grid) == 0]
    return inside


def scaled(C: Floats) -> Floats:
    size = np.abs(C).max(axis=1, keepdims=True)
    return np.asarray(C / np.where(size > 0, size, 1.0))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["pack", "grid"])
def test_actions_are_optimal_among_all_listed_points(name: str) -> None:
    omega = SETS[name]
    C = np.concatenate([hard_rows(omega.dimension, n=40, seed=seed) for seed in (1, 2)])
    best = (scaled(C) @ points(omega).T).max(axis=1)
    for argmax in (omega.argmax, omega._argmax):  # from the list, and by HiGHS
        actions = argmax(C)
        np.testing.assert_allclose((scaled(C) * actions).sum(axis=1), best, rtol=0, atol=1e-10)
        assert omega.violation(actions).max() == 0
        np.testing.assert_array_equal(actions, np.rint(actions))
        assert not np.signbit(actions[actions == 0]).any()


def test_continuous_coordinates_are_solved_for_every_choice_of_sites() -> None:
    C = hard_rows(6, n=15, seed=3)
    actions = MIXED.argmax(C)
    assert MIXED.violation(actions).max() <= 1e-9
    np.testing.assert_array_equal(actions[:, :3], np.rint(actions[:, :3]))
    best = np.full(len(C), -np.inf)
    for sites in [(1, 1, 0), (1, 0, 1), (0, 1, 1)]:
        if (capacity := np.multiply(sites, [5, 4, 3])).sum() < 6.5:
            continue
        for i, c in enumerate(scaled(C)):
            bounds = [(0, top) for top in capacity]
            shipped = linprog(-c[3:], A_eq=np.ones((1, 3)), b_eq=[6.5], bounds=bounds)
            best[i] = max(best[i], np.dot(c[:3], sites) - shipped.fun)
    np.testing.assert_allclose((scaled(C) * actions).sum(axis=1), best, rtol=0, atol=1e-9)


@pytest.mark.no_cover
def test_random_sets_agree_with_scipy() -> None:
    rng = np.random.default_rng(4)
    for seed in range(4):
        d, whole = 8, rng.random(8) < 0.6
        A, b = rng.normal(size=(4, d)), rng.uniform(0.5, 3.0, size=4)
        omega = MixedInteger(A_ub=A, b_ub=b, lower=-1.5, upper=2.5, integer=whole)
        C = scaled(hard_rows(d, n=5, seed=seed))
        actions = omega.argmax(C)
        assert (actions @ A.T <= b + 1e-8).all()
        np.testing.assert_array_equal(actions[:, whole], np.rint(actions[:, whole]))
        for c, action in zip(C, actions, strict=True):
            theirs: Any = milp(
                -c,
                constraints=LinearConstraint(A, ub=b),
                integrality=whole.astype(int),
                bounds=Bounds(-1.5, 2.5),
                options={"mip_rel_gap": 0},
            )
            assert c @ action >= -theirs.fun - 1e-9 * (1 + abs(theirs.fun))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", sorted(SETS))
def test_a_row_depends_on_nothing_else(name: str) -> None:
    omega = SETS[name]
    assert (omega.kernel is None) == (name in ("mixed", "many"))
    C = hard_rows(omega.dimension, n=20, seed=5)[::5]
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.argmax(C[::-1])[::-1], actions)
    np.testing.assert_array_equal(np.concatenate([omega.argmax(c[None]) for c in C]), actions)
    np.testing.assert_array_equal(omega.argmax(C, hint=1e9 * C.clip(-1, 1)), actions)
    for twin in (copy.deepcopy(omega), pickle.loads(pickle.dumps(omega)), MixedInteger(**omega.spec())):
        np.testing.assert_array_equal(twin.argmax(C), actions)
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(omega.argmax(C), actions)
    finally:
        numba.set_num_threads(before)


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["grid", "mixed", "many", "tied"])
def test_noise_does_not_break_ties(name: str) -> None:
    rng = np.random.default_rng(6)
    weights = rng.integers(1, 6, size=(3, 15))
    omega = SETS.get(name) or MixedInteger(A_ub=weights, b_ub=weights.sum(axis=1) // 2.5)
    C = rng.integers(-2, 3, size=(25, omega.dimension)).astype(float)
    C = C[C.any(axis=1)]
    actions = omega.argmax(C)
    np.testing.assert_array_equal(omega.argmax(C / 3), actions)
    for noise in (1e-16, 1e-14):
        np.testing.assert_array_equal(omega.argmax(C * 0.1 * (1 + noise * rng.normal(size=C.shape))), actions)
    np.testing.assert_array_equal(omega.argmax(C * 1e300), actions)


def test_integer_says_which_coordinates_are_whole() -> None:
    C = [[1.0, 1.0], [2.0, 1.0]]
    rows: dict[str, Any] = {"A_ub": [[1, 1]], "b_ub": [1.5]}
    np.testing.assert_array_equal(MixedInteger(**rows).argmax(C).sum(axis=1), [1, 1])
    np.testing.assert_array_equal(MixedInteger(**rows, integer=False).argmax(C)[1], [1, 0.5])
    for integer in ([0], [True, False], [-2], np.array([0])):
        np.testing.assert_array_equal(MixedInteger(**rows, integer=integer).argmax(C)[1], [1, 0.5])
        assert MixedInteger(**rows, integer=integer).integer.tolist() == [True, False]
    assert not MixedInteger(**rows, integer=[]).integer.any()


def test_violation_counts_the_part_beyond_a_whole_number() -> None:
    omega = MixedInteger(A_ub=[[1, 1]], b_ub=[1.5], integer=[0])
    actions = np.array([[1.0, 0.5], [0.75, 0.5], [1.0, 1.0], [-1.0, 0.0], [0.0, 0.3]])
    np.testing.assert_allclose(omega.violation(actions), [0, 0.25, 0.5, 1, 0])


def test_bounds_are_found_and_made_whole() -> None:
    omega = MixedInteger(A_ub=sparse.csr_array([[2, 1], [-1, 0], [0, -1]]), b_ub=[7, 0, 0], lower=-np.inf, upper=np.inf)
    np.testing.assert_array_equal([omega.lower, omega.upper], [[0, 0], [3, 7]])
    np.testing.assert_array_equal(omega.argmax([[3.0, 1.0]]), [[3, 1]])
    half = MixedInteger(lower=-0.5, upper=[2.7, 2.7], integer=[0])
    np.testing.assert_array_equal([half.lower, half.upper], [[0, -0.5], [2, 2.7]])
    np.testing.assert_array_equal(MixedInteger(upper=2.5, dimension=1).argmax([[1.0], [-1.0], [0.0]])[:2], [[2], [0]])


def test_invalid_sets_say_why() -> None:
    with pytest.raises(EmptySetError, match="and the whole numbers"):
        MixedInteger(A_eq=[[2, 2]], b_eq=[1])
    with pytest.raises(EmptySetError, match="and the whole numbers"):
        MixedInteger(A_eq=[[2, 2, 0]], b_eq=[1], integer=[0, 1])
    with pytest.raises(EmptySetError, match=r"no whole number between the bounds 0.2 and 0.8 of coordinate 1"):
        MixedInteger(lower=[0, 0.2], upper=[1, 0.8])
    with pytest.raises(UnboundedSetError, match="coordinate 1"):
        MixedInteger(A_ub=[[1, 0]], b_ub=[3], upper=np.inf)
    for wrong in ([2], [0.5], [True], "all", [[0]], None, [-3]):
        with pytest.raises(InputError, match="integer must be True, a boolean mask of 2 entries"):
            MixedInteger(dimension=2, integer=wrong)
    with pytest.raises(InputError, match="b_ub is given without A_ub"):
        MixedInteger(b_ub=[1.0], dimension=2)
    with pytest.raises(InputError, match="number of coordinates is unknown"):
        MixedInteger()


def test_failures_are_named_or_take_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: dict[str, Any] = {"A_ub": [[1, 1]], "b_ub": [1], "integer": [0]}
    omega, strict = MixedInteger(**rows, on_failure="fallback", fallback=[0, 1]), MixedInteger(**rows)
    spec = omega.spec()
    assert spec["on_failure"] == "fallback"
    np.testing.assert_array_equal(spec["fallback"], [0, 1])
    run = mixed_integer._solve_cost
    monkeypatch.setattr(
        mixed_integer, "_solve_cost", lambda solver, c: "kSolveError" if c[0] == 1.0 else run(solver, c)
    )
    C = [[0.0, -1.0], [5.0, 1.0], [-1.0, -3.0]]
    with pytest.raises(SolverError, match="row 1 could not be solved: HiGHS ended with status kSolveError"):
        strict.argmax(C)
    with pytest.warns(FallbackWarning, match="1 of 3 rows could not be solved"):
        np.testing.assert_array_equal(omega.argmax(C)[1:], [[0, 1], [0, 0]])
    monkeypatch.setattr(mixed_integer, "_solve_cost", lambda solver, c: "kSolveError")
    with pytest.raises(SolverError, match="a first feasible action could not be found"):
        MixedInteger(**rows)


def test_inexact_whole_numbers_are_rounded_and_the_rest_solved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = MixedInteger(A_ub=[[-5, 1]], b_ub=[0], upper=[1, 5], integer=[0])
    action = mixed_integer._found_action

    def inexact(solver: Any) -> Floats:
        whole = len(solver.getLp().integrality_) > 0
        return np.array([1 - 1e-6, 5 - 5e-6]) if whole else action(solver)

    monkeypatch.setattr(mixed_integer, "_found_action", inexact)
    np.testing.assert_array_equal(sites.argmax([[-1.0, 1.0]]), [[1, 5]])
    monkeypatch.setattr(mixed_integer, "_found_action", lambda solver: np.array([0.4, 2.0]))
    with pytest.raises(SolverError, match="had to be rounded, and that moved it outside"):
        sites.argmax([[-1.0, 1.0]])


def test_a_users_own_highs_with_other_threads_is_no_obstacle() -> None:
    theirs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    theirs.setOptionValue("output_flag", False)
    theirs.setOptionValue("threads", 2)
    theirs.addVar(0.0, 1.0)
    theirs.run()
    np.testing.assert_array_equal(MANY.argmax(np.eye(20)[:1])[0, 0], 1)


def test_a_row_beyond_the_limit_of_nodes_has_failed() -> None:
    weights = np.random.default_rng(0).uniform(50, 100, size=(1, 60))
    omega = MixedInteger(A_ub=weights, b_ub=[0.41 * weights.sum()], node_limit=3)
    with pytest.raises(SolverError, match=r"row 1 could not be solved: .* within the limit of nodes"):
        omega.argmax([np.eye(60)[0], weights[0]])
    lenient = MixedInteger(**{**omega.spec(), "on_failure": "fallback", "fallback": np.zeros(60)})
    with pytest.warns(FallbackWarning, match="1 of 2 rows"):
        assert lenient.argmax([np.eye(60)[0], weights[0]]).sum() >= 1
    with pytest.raises(InputError, match="node_limit"):
        MixedInteger(dimension=2, node_limit=0)


MARKET_SPLIT = """
import sys
import numpy as np
from optensemble.feasible.mixed_integer import MixedInteger

W = np.random.default_rng(0).integers(0, 100, size=(5, 40)).astype(float)
rows = np.hstack([W, np.eye(5), -np.eye(5)])
upper = np.r_[np.ones(40), np.full(10, 5000.0)]
omega = MixedInteger(A_eq=rows, b_eq=np.floor(W.sum(axis=1) / 2), upper=upper, integer=range(40))
print("begun", flush=True)
try:
    omega.argmax(np.tile(np.r_[np.zeros(40), -np.ones(10)], (4, 1)))
except KeyboardInterrupt:
    print("stopped", flush=True)
    raise
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are POSIX")
def test_an_interrupt_stops_a_hard_row() -> None:
    """Market split problems of this size take hours; the first row must end at once, and the others never begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", MARKET_SPLIT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    assert output == "stopped\n"
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode != 0


def test_an_action_that_highs_took_for_optimal_at_its_tightest_tolerance() -> None:
    one = np.eye(3)
    omega = MixedInteger(
        A_ub=[[1, 2, 1, 0, 0, 0, 0, 0, 0]],
        b_ub=[4],
        A_eq=np.hstack([one, -one, -one]),
        b_eq=np.zeros(3),
        upper=[2.0, 2.0, 2.0, 0.5, 0.4, 0.1, 1.5, 1.6, 1.9],
        integer=[0, 1],
    )
    (action,) = omega.argmax([[0.0, 0.0, 0.0, 1.8, 2.8, 0.6, -2.2, -0.4, -3.0]])
    np.testing.assert_allclose(action, [0.0, 1.0, 0.1, 0.0, 0.4, 0.1, 0.0, 0.6, 0.0], atol=1e-9)
