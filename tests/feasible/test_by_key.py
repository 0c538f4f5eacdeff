from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import EmptySetError, FallbackWarning, InputError, SolverError
from optensemble.feasible import Box, ByKey, FeasibleSet, Knapsack, MixedInteger, Oracle, RiskBudget, Simplex, TopK
from optensemble.feasible._batches import Unsolved
from tests.sample_sets import Floats, covariance, hard_rows

BUDGET = Knapsack([3, 4, 5], capacity=oe.Columns("budget"))


class Stubborn(FeasibleSet):
    """A set that solves no row with a negative first coefficient."""

    def __init__(self) -> None:
        self._set_bounds(-1.0, 1.0, 3)

    def _argmax(self, coefficients: Floats) -> Floats:
        failed = np.flatnonzero(coefficients[:, 0] < 0)
        if failed.size:
            raise Unsolved(np.sign(coefficients), {int(row): "it is stubborn." for row in failed})
        return np.sign(coefficients)

    def violation(self, actions: Floats) -> Floats:
        return self._outside_box(actions)

    def spec(self) -> None:
        return None


def test_every_row_is_solved_by_the_set_of_its_key() -> None:
    rng, n = np.random.default_rng(0), 1_200
    sets = {"jan": RiskBudget(covariance(3, 0), 0.3), "feb": RiskBudget(covariance(3, 1), 0.6), "mar": Simplex(3)}
    months, C = rng.choice(list(sets), n), rng.normal(size=(n, 3))
    omega = ByKey("month", sets).for_rows(pd.DataFrame({"month": months}))
    actions = omega.argmax(C)
    for month, inner in sets.items():
        np.testing.assert_array_equal(actions[months == month], inner.argmax(C[months == month]))
    assert (omega.violation(actions) <= omega.tolerance).all()
    expected = np.concatenate([sets[month].violation(action[None]) for month, action in zip(months, C, strict=True)])
    np.testing.assert_allclose(omega.violation(C), expected)


def test_sets_take_parameters_only_from_their_own_rows() -> None:
    rows = pd.DataFrame({"region": ["n", "s", "n"], "budget": [8.0, np.nan, 3.0]})
    bound = ByKey("region", {"n": BUDGET, "s": Simplex(3)}).for_rows(rows)
    actions = bound.argmax([[2.0, 5.0, 5.0]] * 3)
    np.testing.assert_allclose(actions, [[0.0, 1.0, 0.8], [0.0, 1.0, 0.0], [0.0, 0.75, 0.0]])
    with pytest.raises(InputError, match=r"sets\['n'\].capacity must be a finite number; in row 1 of 3 it is nan"):
        ByKey("region", {"n": BUDGET, "s": Simplex(3)}).for_rows(rows.assign(region="n"))


def test_bounds_are_around_all_sets() -> None:
    omega = ByKey(0, {1: Box([-1, 0], [0.5, 2]), 2: Box([0, -3], [1, 1])})
    np.testing.assert_array_equal([omega.lower, omega.upper], [[-1, -3], [1, 2]])
    assert not omega.open_bounds
    rows = pd.DataFrame({"key": [1, 2, 1], "most": [5.0, 100.0, 7.0]})
    varying = ByKey("key", {1: Box(upper=oe.Columns("most"), dimension=2), 2: Box(upper=[1, 1])})
    assert varying.open_bounds
    with pytest.raises(AttributeError, match="come from the row"):
        _ = varying.lower
    np.testing.assert_array_equal(varying.for_rows(rows).upper, [7.0, 7.0])
    np.testing.assert_array_equal(varying.for_rows(rows.iloc[1:2]).box()[1], [1.0, 1.0])
    known = varying.enveloped(np.zeros(2), np.full(2, 6.0))
    np.testing.assert_array_equal(known.for_rows(rows).beyond(), [False, False, True])


def test_keys_may_be_numbers_columns_or_a_function_of_x() -> None:
    sets = {3: Simplex(2), 12: TopK(2, 2)}
    C, expected = [[1.0, 2.0], [1.0, 2.0]], [[0.0, 1.0], [1.0, 1.0]]
    table = np.array([[0.0, 3.0], [1.0, 12.0]])
    for key in (1, oe.Columns(1), lambda X: X[:, 1]):
        np.testing.assert_array_equal(ByKey(key, sets).for_rows(table).argmax(C), expected)


def test_a_key_without_a_set_is_named_with_its_row() -> None:
    omega = ByKey("region", {"north": Simplex(3), "south": BUDGET})
    rows = pd.DataFrame({"region": ["north", "nroth", "south"], "budget": 1.0})
    with pytest.raises(
        InputError,
        match=r"key must be one of 'north', 'south'; in row 1 of 3 it is 'nroth' \(column 'region'\)\. "
        r"Did you mean 'north'\? Correct these rows",
    ):
        omega.for_rows(rows)
    with pytest.raises(InputError, match=r"in row 1 of 3 it is nan \(column 'region'\)\."):
        omega.for_rows(rows.assign(region=["north", np.nan, "south"]))
    with pytest.raises(InputError, match="key comes from the row, but X has no column 'region'"):
        omega.for_rows(rows[["budget"]])
    settled = ByKey("region", dict(omega.sets), on_failure="fallback", fallback=[0, 0, 0])
    with pytest.warns(FallbackWarning, match="1 of 3 rows have no set and take the fallback.*it is 'nroth'"):
        bound = settled.for_rows(rows)
    actions = bound.argmax(np.ones((3, 3)))
    np.testing.assert_array_equal(actions[1], 0.0)
    np.testing.assert_array_equal(actions[0], [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(bound.faulty, [False, True, False])


def test_rows_that_an_inner_set_cannot_solve() -> None:
    sets = {"a": Simplex(3), "b": Stubborn()}
    rows = pd.DataFrame({"key": ["a", "b", "b", "a"]})
    C = np.array([[-1.0, 0, 0], [1, 0, 0], [-1, 0, 0], [1, 0, 0]])
    with pytest.raises(SolverError, match=r"row 2 could not be solved: in the rows of key 'b': it is stubborn\."):
        ByKey("key", sets).for_rows(rows).argmax(C)
    omega = ByKey("key", sets, on_failure="fallback", fallback=[0, 0.5, 0])
    with pytest.warns(FallbackWarning, match="1 of 4 rows"):
        actions = omega.for_rows(rows).argmax(C)
    np.testing.assert_array_equal(actions, [[0, 1, 0], [1, 0, 0], [0, 0.5, 0], [1, 0, 0]])


def test_an_inner_set_may_have_a_fallback_of_its_own() -> None:
    inner = Knapsack([3, 4, 5], capacity=oe.Columns("budget"), on_failure="fallback", fallback=[0, 0, 0])
    message = r"1 of 2 rows take the fallback action of sets.*: .*\.capacity .*; in row 1 of 2 it is -1"
    with pytest.warns(FallbackWarning, match=message):
        bound = ByKey("key", {"a": inner, "b": Simplex(3)}).for_rows(
            pd.DataFrame({"key": ["b", "a"], "budget": [1.0, -1]})
        )
    assert not bound.faulty.any()
    np.testing.assert_array_equal(bound.argmax(np.ones((2, 3))), [[1, 0, 0], [0, 0, 0]])


def test_rows_read_by_several_sets_are_read_once() -> None:
    calls = []

    def capacity(X: pd.DataFrame) -> Floats:
        calls.append(len(X))
        return X["budget"].to_numpy()

    sets = {key: Knapsack(weights, capacity=capacity) for key, weights in (("a", [3, 4, 5]), ("b", [1, 1, 1]))}
    rows = pd.DataFrame({"key": ["a", "b"], "budget": [4.0, 2.0]})
    bound = ByKey("key", sets).for_rows(rows)
    assert calls == [2]
    assert bound.values.shape == (2, 2)
    np.testing.assert_array_equal(bound.argmax([[2.0, 5.0, 1.0]] * 2), [[0, 1, 0], [1, 1, 0]])


def test_the_argmax_is_that_of_the_sets_with_hints_and_ties() -> None:
    sets = {"a": TopK(4, 2), "b": MixedInteger(A_ub=[[1, 2, 3, 4]], b_ub=[5.0])}
    C = hard_rows(4)[:120]
    keys = np.random.default_rng(0).choice(["a", "b"], len(C))
    bound = ByKey("key", sets).for_rows(pd.DataFrame({"key": keys}))
    actions = bound.argmax(C)
    np.testing.assert_array_equal(bound.argmax(C, hint=actions[::-1]), actions)
    assert bound.of_row(0) is sets[keys[0]]


@pytest.mark.parametrize(
    ("key", "sets", "message"),
    [
        ("key", {}, "sets is empty"),
        ("key", [Simplex(3)], "sets must be a dict of feasible sets by key; got list"),
        ("key", {"a": Simplex(3), "b": Simplex(2)}, "all sets must have one dimension; got {'a': 3, 'b': 2}"),
        ("key", {1.5: Simplex(3)}, "keys of sets must be text or whole numbers; got 1.5"),
        ("key", {True: Simplex(3)}, "keys of sets must be text or whole numbers; got True"),
        ("key", {"a": 3}, "that of 'a' is int"),
        (0.5, {"a": Simplex(3)}, "key must be a column or a callable of X; got 0.5"),
    ],
)
def test_wrong_arguments_are_explained(key: object, sets: object, message: str) -> None:
    with pytest.raises((InputError, EmptySetError), match=message):
        ByKey(key, sets)  # type: ignore[arg-type]


def test_an_oracle_among_the_sets_makes_it_code() -> None:
    omega = ByKey("key", {"a": Simplex(2), "b": Oracle(lambda C: C > 0, 2)})
    assert omega.spec() is None
    assert repr(omega) == "ByKey(dimension=2, key by row)"
    with pytest.raises(InputError, match="key of this ByKey comes from the row"):
        omega.violation([[0.0, 1.0]])
