"""Actions of policies that are off by rounding: moved and counted, or refused with rows and constraints named."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.mending import Mending, Tally
from optensemble.members.query import MemberQuery
from optensemble.members.validation import as_actions
from tests.problems import Floats

OMEGA = feasible.Simplex(3)
INSIDE = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.25, 0.25, 0.5]])


def shifted(*by: float) -> Floats:
    """The actions with their first coordinates moved."""
    return np.asarray(INSIDE + np.array(by)[:, None] * [1.0, 0.0, 0.0], dtype=np.float64)


def test_actions_within_the_sets_own_tolerance_keep_their_bits() -> None:
    given = shifted(0.0, -0.9e-7, 0.9e-7)
    for how in (Mending(), Mending("raise"), Mending(tolerance=0.1), Mending(tolerance=0.0)):
        actions, moved = as_actions(given, "p", 3, OMEGA, how)
        assert np.array_equal(actions, given)
        assert len(moved.rows) == 0


def test_actions_off_by_rounding_are_moved_and_counted() -> None:
    given = shifted(0.0, 2e-7, -9e-7)
    actions, moved = as_actions(given, "p", 3, OMEGA)
    assert moved.rows.tolist() == [1, 2]
    assert moved.most == pytest.approx(np.abs(actions - given).max())
    assert np.array_equal(actions[0], given[0])
    assert (OMEGA.violation(actions) <= 1e-15).all()
    assert np.array_equal(given, shifted(0.0, 2e-7, -9e-7))  # the user's array is not touched


def test_a_tolerance_is_in_the_units_of_the_set() -> None:
    given = shifted(0.0, 0.003, -0.001)
    actions, moved = as_actions(given, "p", 3, OMEGA, Mending(tolerance=0.005))
    assert moved.rows.tolist() == [1, 2]
    assert actions.sum(axis=1) == pytest.approx(np.ones(3), abs=1e-15)
    with pytest.raises(InfeasibleActionError, match=r"in row 1 of 3, by up to 0\.003"):
        as_actions(given, "p", 3, OMEGA, Mending(tolerance=0.002))


def test_the_error_names_rows_constraints_and_what_to_do() -> None:
    bag = feasible.Knapsack([1.0, 1.0, 1.0], 1.2)
    given = np.array([[0.5, 0.5, 0.2], [1.0, 0.203, 0.0], [1.0, 1.0, 0.0]])
    with pytest.raises(InfeasibleActionError) as caught:
        as_actions(given, "planner", 3, bag)
    assert caught.value.rows == ("rows 1, 2 of 3", 1, 2)
    told = str(caught.value)
    assert "policy 'planner' returned actions outside the feasible set in rows 1, 2 of 3, by up to 0.667" in told
    assert "in the first of them: capacity: 1.203 > 1.2." in told
    assert "a larger tolerance= (now 1e-06) moves them onto the set" in told
    assert "if it is a model, give its policy" in told


def test_what_is_off_by_more_than_the_set_is_wide_is_no_rounding() -> None:
    with pytest.raises(InfeasibleActionError, match="more than the whole extent of the set: check units") as caught:
        as_actions(100 * np.eye(3), "planner", 3, OMEGA)
    assert "tolerance" not in str(caught.value)


def test_raise_moves_nothing_and_says_what_would() -> None:
    given = shifted(0.0, 0.0, 5e-7)
    with pytest.raises(
        InfeasibleActionError, match=r"row 2 of 3.*there: sums to 1\.0000005, must be 1\. on_infeasible='project' mends"
    ):
        as_actions(given, "p", 3, OMEGA, Mending("raise"))
    with pytest.raises(InfeasibleActionError, match=r"on_infeasible='project' with a larger tolerance="):
        as_actions(shifted(0.0, 0.0, 0.1), "p", 3, OMEGA, Mending("raise"))


class _Own(FeasibleSet):
    """A set of a user's own, without a projection."""

    def __init__(self) -> None:
        self._set_bounds(0.0, 1.0, 3)

    def _argmax(self, coefficients: Floats) -> Floats:
        return OMEGA.argmax(coefficients)

    def violation(self, actions: Floats) -> Floats:
        return OMEGA.violation(actions)

    def spec(self) -> None:
        return None


def test_a_set_without_a_projection_accepts_next_to_nothing_as_it_is() -> None:
    given = shifted(0.0, 0.0, 5e-7)
    actions, moved = as_actions(given, "p", 3, _Own())
    assert np.array_equal(actions, given)
    assert len(moved.rows) == 0
    with pytest.raises(InfeasibleActionError, match=r"outside by 0\.001\. This set cannot move actions onto itself"):
        as_actions(shifted(0.0, 0.0, 0.001), "p", 3, _Own(), Mending(tolerance=0.01))


@pytest.mark.parametrize(
    ("mending", "words"),
    [
        (Mending("repair"), "on_infeasible must be one of 'project', 'raise'; got 'repair'"),
        (Mending(tolerance=-1.0), "tolerance must be a finite number at least 0; got -1"),
        (Mending(tolerance=np.inf), "tolerance must be a finite number at least 0"),
        (Mending(tolerance="wide"), "tolerance must be a finite number"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused(mending: Mending, words: str) -> None:
    with pytest.raises(InputError, match=words):
        mending.check()


def _query(mending: Mending) -> MemberQuery:
    policies = [("a", lambda X: X), ("b", lambda X: np.where(X[:, :1] > 0.5, [1.0, 0.0, 0.0], X))]
    return MemberQuery([], policies, OMEGA, Buckets(OMEGA.lower, OMEGA.upper, 10), 1.0, None, mending)


def test_a_query_counts_what_it_mends_over_all_batches() -> None:
    query = _query(Mending(tolerance=0.01))
    outputs = query(shifted(0.002, 0.003, 0.0))
    assert OMEGA.violation(outputs.actions.reshape(-1, 3)).max() <= 1e-15
    query(shifted(0.0, 0.0, 0.004))
    tally = query.tally
    assert (tally.asked, tally.moved) == ({"a": 6, "b": 6}, {"a": 3, "b": 2})
    assert tally.rows == 3  # rows in which any was moved
    first, second = tally.notes()
    assert first.startswith("policy 'a' was moved onto the feasible set in 3 of 6 rows, by at most 0.0")
    assert second.startswith("policy 'b' was moved onto the feasible set in 2 of 6 rows")
    assert "in some rows" in tally.notes(once=False)[0]
    assert pickle.loads(pickle.dumps(query.tally)).moved == tally.moved
    assert Tally().notes() == []


def test_queries_count_for_themselves() -> None:
    first, second = _query(Mending(tolerance=0.01)), _query(Mending(tolerance=0.01))
    first(shifted(0.002, 0.0, 0.0))
    assert (first.tally.rows, second.tally.rows) == (1, 0)
