"""Sets of whole numbers whose actions are few, so that they are listed once and rows take the best of them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from optensemble.exceptions import EmptySetError, InfeasibleActionError
from optensemble.feasible import Assignment, Box, Vertices, check, mixed_integer
from optensemble.feasible.mixed_integer import MixedInteger
from tests.sample_sets import Floats, hard_rows

pytestmark = pytest.mark.slow


def tenths(matrix: Any) -> Floats:
    """Decimals; a float can hold few of them: 0.1 + 0.2 is not 0.3."""
    return np.asarray(matrix) / 10


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Constraints in tenths, given as whole numbers of tenths; many sets of theirs are empty, many have one action."""
    d = draw(st.integers(1, 5))
    lower = draw(arrays(np.int64, d, elements=st.integers(-2, 1)))
    upper = lower + draw(arrays(np.int64, d, elements=st.sampled_from([0, 1, 1, 2, 3, 5])))
    found: dict[str, Any] = {"lower": lower, "upper": upper}
    for name, most in (("ub", 3), ("eq", 1)):
        matrix = draw(arrays(np.int64, (draw(st.integers(0, most)), d), elements=st.integers(-7, 7)))
        if len(matrix):
            inside = draw(st.integers(0, 5)) * (upper - lower) // 5 + lower
            found |= {f"A_{name}": matrix, f"b_{name}": matrix @ inside + draw(st.sampled_from([0, 0, 0, 3, -1]))}
    return found


def made(problem: dict[str, Any], **arguments: Any) -> MixedInteger:
    given: dict[str, Any] = {name: tenths(value) if name[1] == "_" else value for name, value in problem.items()}
    return MixedInteger(**given, **arguments)


def by_hand(problem: dict[str, Any]) -> list[tuple[int, ...]]:
    """Every action in ascending lexicographic order, judged in whole numbers, without rounding."""
    ranges = [range(low, high + 1) for low, high in zip(problem["lower"], problem["upper"], strict=True)]
    found = []
    for point in itertools.product(*map(list, ranges)):
        below = all(problem["A_ub"] @ point <= problem["b_ub"]) if "A_ub" in problem else True
        equal = all(problem["A_eq"] @ point == problem["b_eq"]) if "A_eq" in problem else True
        found += [point] if below and equal else []
    return found


@settings(max_examples=150, deadline=None)
@given(problem=problems(), data=st.data())
def test_of_exactly_tied_actions_the_lowest_of_all_wins(problem: dict[str, Any], data: st.DataObject) -> None:
    actions = by_hand(problem)
    if not actions:
        with pytest.raises(EmptySetError, match="and the whole numbers"):
            made(problem)
        return
    omega = made(problem)
    assert omega.kernel is not None
    C = data.draw(arrays(np.int64, (6, omega.dimension), elements=st.integers(-2, 2)))
    values = np.array(actions) @ C.T
    expected = np.array(actions)[values.argmax(axis=0)]  # the first of the best
    for scale in (1.0, 0.1, 1e8, 1e300, 1e-300):
        np.testing.assert_array_equal(omega.argmax(C * scale), expected)


@settings(max_examples=40, deadline=None)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_highs_finds_no_better_action_and_no_action_where_there_is_none(problem: dict[str, Any], seed: int) -> None:
    if not by_hand(problem):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mixed_integer, "list_points", lambda *_: None)
            with pytest.raises(EmptySetError, match="and the whole numbers"):
                made(problem)
        return
    omega = made(problem)
    C = np.random.default_rng(seed).normal(size=(4, omega.dimension))
    mine, theirs = omega.argmax(C), omega._argmax(C)
    np.testing.assert_allclose((C * mine).sum(axis=1), (C * theirs).sum(axis=1), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(mine, theirs)


@pytest.mark.no_cover
@settings(max_examples=100, deadline=None)
@given(problem=problems(), data=st.data())
def test_the_list_is_of_actions_and_its_tie_rule_is_kept_with_rounding(
    problem: dict[str, Any], data: st.DataObject
) -> None:
    actions = by_hand(problem)
    if not actions:
        return
    omega = made(problem)
    listed = omega.points
    assert listed is not None
    assert set(map(tuple, listed)) <= set(actions)
    assert [tuple(point) for point in listed] == sorted(map(tuple, listed))
    numbers = st.one_of(st.integers(-2, 2).map(float), st.floats(-3e-12, 3e-12), st.floats(-5, 5))
    C: Floats = data.draw(arrays(np.float64, (4, omega.dimension), elements=numbers))
    np.testing.assert_array_equal(omega.argmax(C), Vertices(listed, omega.lower, omega.upper).argmax(C))
    for c, action in zip(C, omega.argmax(C), strict=True):
        exact = [
            sum((Fraction(x) * Fraction(a) for x, a in zip(c, point, strict=True)), Fraction()) for point in listed
        ]
        best = max(range(len(exact)), key=exact.__getitem__)
        tolerance = Fraction(1e-12) * Fraction(float(np.abs(c * listed[best]).sum()))
        chosen = [tuple(point) for point in listed].index(tuple(action))
        assert exact[chosen] >= exact[best] - 2 * tolerance
        assert all(value < exact[best] - tolerance / 2 for value in exact[:chosen])
        whole = [sum(Fraction(x) * a for x, a in zip(c, point, strict=True)) for point in actions]
        assert max(whole) == exact[best]  # nothing better was left out of the list


def test_actions_between_two_others_are_left_out() -> None:
    omega = MixedInteger(lower=-2, upper=[3, 4, 7])
    assert omega.points is not None
    corners = np.array(list(itertools.product([-2, 3], [-2, 4], [-2, 7])))
    np.testing.assert_array_equal(omega.points, corners)
    C = hard_rows(3)
    np.testing.assert_array_equal(omega.argmax(C), Box(lower=omega.lower, upper=omega.upper).argmax(C))
    sloped = MixedInteger(A_ub=[[1, 1]], b_ub=[4], upper=5)
    np.testing.assert_array_equal(sloped.points, [[0, 0], [0, 4], [1, 3], [2, 2], [3, 1], [4, 0]])
    gaps = MixedInteger(A_eq=[[3, 2]], b_eq=[12], upper=6)
    np.testing.assert_array_equal(gaps.points, [[0, 6], [2, 3], [4, 0]])


@pytest.mark.parametrize("most", [1, 100])
def test_rounding_is_inside_and_what_is_more_is_outside(most: int) -> None:
    for excess, expected in ((1e-12, 2 * most), (1e-7, 2 * most - 1)):
        omega = MixedInteger(A_ub=[[1, 1]], b_ub=[2 * most - excess], upper=most)
        np.testing.assert_array_equal(omega.argmax([[1.0, 1.0]]).sum(), expected)
        np.testing.assert_array_equal(omega._argmax(np.ones((1, 2))).sum(), expected)
        level: dict[str, Any] = {"A_eq": [[1, 1]], "b_eq": [most - excess], "upper": most}
        if excess < 1e-9:
            assert MixedInteger(**level).argmax([[1.0, 1.0]]).sum() == most
        else:
            with pytest.raises(EmptySetError, match="and the whole numbers"):
                MixedInteger(**level)


def test_fixed_coordinates_stay_where_they_are_whole_or_not() -> None:
    lower, upper = np.array([1.0, -2.0, 0.25, 0.0]), np.array([1.0, 3.0, 0.25, 2.0])
    omega = MixedInteger(A_ub=[[1, 1, 4, 1]], b_ub=[5.0], lower=lower, upper=upper, integer=[0, 1, 3])
    assert omega.points is not None
    np.testing.assert_array_equal(omega.points[:, [0, 2]], np.tile([1, 0.25], (len(omega.points), 1)))
    np.testing.assert_array_equal(
        omega.argmax([[9.0, 1.0, 9.0, 2.0], [-9.0, 2.0, -9.0, 1.0], [0.0, -1.0, 0.0, -1.0]]),
        [[1, 1, 0.25, 2], [1, 3, 0.25, 0], [1, -2, 0.25, 0]],
    )
    with pytest.raises(EmptySetError, match="and the whole numbers"):
        MixedInteger(A_ub=[[1, 1]], b_ub=[2], lower=[2, 1], upper=[2, 1])


def test_one_action_is_enough() -> None:
    alone = MixedInteger(A_eq=[[1, 1, 1]], b_eq=[9], lower=-2, upper=3)
    np.testing.assert_array_equal(alone.points, [[3, 3, 3]])
    np.testing.assert_array_equal(alone.argmax(hard_rows(3)), np.full((len(hard_rows(3)), 3), 3))
    np.testing.assert_array_equal(MixedInteger(lower=2, upper=2, dimension=2).argmax([[-1.0, 0.0]]), [[2, 2]])


def test_constraints_that_leave_few_actions_of_very_many_are_listed() -> None:
    pairs = MixedInteger(A_ub=np.ones((1, 40)), b_ub=[2])
    assert pairs.points is not None
    assert len(pairs.points) == 1 + 40 + 40 * 39 // 2
    C = np.random.default_rng(0).normal(size=(50, 40))
    expected = (np.sort(C, axis=1)[:, [-2]] <= C).astype(float)
    np.testing.assert_array_equal(pairs.argmax(C), expected)
    rows, columns = np.kron(np.eye(4), np.ones(4)), np.kron(np.ones(4), np.eye(4))
    crew = MixedInteger(A_eq=np.vstack([rows, columns]), b_eq=np.ones(8))
    assert crew.points is not None
    assert len(crew.points) == 24
    C = np.random.default_rng(1).normal(size=(50, 16))
    np.testing.assert_array_equal(crew.argmax(C), Assignment(4, 4).argmax(C))


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("too many at a time", {"dimension": 17}),
        ("too long a range", {"upper": 1e12, "A_ub": [[1, 1]], "b_ub": [3]}),
        ("too many numbers in all", {"A_ub": np.ones((1, 300)), "b_ub": [1]}),
        ("too long a list", {"dimension": 15}),
        ("too many fixed", {"lower": np.r_[np.ones(2000), np.zeros(13)], "upper": np.ones(2013)}),
        ("not whole", {"dimension": 2, "integer": [0]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_sets_are_left_to_highs(what: str, arguments: dict[str, Any]) -> None:
    omega = MixedInteger(**arguments)
    assert omega.points is None
    assert omega.kernel is None
    C = np.random.default_rng(2).normal(size=(2, omega.dimension))
    actions = omega.argmax(C)
    assert omega.violation(actions).max() == 0
    if not omega._ub[1].size:
        np.testing.assert_array_equal(actions, np.where(C > 0, omega.upper, omega.lower))


def test_the_contract_is_kept() -> None:
    weights = np.random.default_rng(3).integers(1, 9, size=(2, 7))
    for omega in (
        MixedInteger(A_ub=weights, b_ub=[12, 15], node_limit=1, on_failure="fallback", fallback=np.zeros(7)),
        MixedInteger(A_ub=[[2, -1, 3]], b_ub=[4.5], A_eq=[[1, 1, 1]], b_eq=[2], lower=-2, upper=3),
    ):
        assert omega.kernel is not None
        report = check(omega)
        assert report.ok, str(report)
        again = MixedInteger(**omega.spec())
        np.testing.assert_array_equal(again.points, omega.points)
        assert again.node_limit == omega.node_limit
        assert again.on_failure == omega.on_failure
    with pytest.raises(InfeasibleActionError, match="fallback action must lie inside"):
        MixedInteger(A_ub=[[1, 1]], b_ub=[1], on_failure="fallback", fallback=[1, 1])


def test_the_list_is_a_copy() -> None:
    omega = MixedInteger(dimension=2)
    listed = omega.points
    assert listed is not None
    listed[:] = 7
    np.testing.assert_array_equal(omega.points, [[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(omega.argmax([[1.0, -1.0]]), [[1, 0]])


def test_whole_numbers_in_other_variables_do_not_mislead_a_problem_in_cvxpy() -> None:
    cp = pytest.importorskip("cvxpy")
    from optensemble.feasible import CvxpySet

    a, used, c = cp.Variable(2, integer=True), cp.Variable(2, boolean=True), cp.Parameter(2)
    limits = [a >= 0, a <= 3 * used, cp.sum(used) <= 1]  # units of one of two goods
    omega = CvxpySet(cp.Problem(cp.Maximize(c @ a), limits), a, c)
    np.testing.assert_array_equal(
        omega.argmax([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]), [[0, 3], [3, 0], [0, 3], [0, 0]]
    )
