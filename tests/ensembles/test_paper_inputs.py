"""Bad labels, rows, members and sets given to the paper's two ensembles: a clear error, and nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import EmptySetError, InfeasibleActionError, InputError, UnboundedSetError
from tests.ensembles.paper_inputs import BOTH, PROBLEM, D, N, answers, make, members, refused, same, with_value
from tests.problems import Floats, lookup

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


# Labels


@BOTH
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_labels_must_be_finite(kind: Any, value: float) -> None:
    Y = with_value(PROBLEM.Y, [3, 17], value)
    refused(make(kind), PROBLEM.X, Y, f"labels Y must be finite; got NaN or infinity in rows 3, 17 of {N}. Remove")


@BOTH
def test_weights_are_refused_with_advice(kind: Any) -> None:
    with pytest.raises(InputError, match=r"take no sample_weight.*use DecisionEnsemble"):
        make(kind).fit(PROBLEM.X, PROBLEM.Y, sample_weight=np.ones(N))


@BOTH
def test_rows_without_labels_are_refused_or_dropped(kind: Any) -> None:
    Y = with_value(PROBLEM.Y, [3, 17], np.nan)
    refused(make(kind), PROBLEM.X, Y, f"labels Y are missing in rows 3, 17 of {N}. Fill them in, or .*'drop'")
    kept = np.setdiff1d(np.arange(N), [3, 17])
    dropped = make(kind).fit(PROBLEM.X, Y, missing_labels="drop")
    alone = make(kind).fit(PROBLEM.X[kept], PROBLEM.Y[kept])
    np.testing.assert_array_equal(dropped.predict(PROBLEM.X), alone.predict(PROBLEM.X))


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize(
    "shape", [lambda Y: Y[:, :2], lambda Y: Y[:-1], lambda Y: Y[:, 0], lambda Y: Y[None], lambda Y: Y.T]
)
def test_labels_must_have_a_row_per_row_and_a_column_per_coordinate(kind: Any, shape: Callable[[Floats], Any]) -> None:
    Y = shape(PROBLEM.Y)
    got = str(Y.shape).replace("(", r"\(").replace(")", r"\)")
    refused(make(kind), PROBLEM.X, Y, rf"labels Y must have shape \({N}, {D}\).*got shape {got}")


@BOTH
@pytest.mark.parametrize("Y", [[["high", "low", "low"]] * N, [[1.0, 2.0], [3.0]], object()])
def test_labels_must_be_numbers(kind: Any, Y: Any) -> None:
    refused(make(kind), PROBLEM.X, Y, "labels Y must be numeric; got (list|object).*Give an array of numbers")


@BOTH
def test_labels_beyond_the_declared_bound(kind: Any) -> None:
    beyond = int(np.abs(PROBLEM.Y).max(axis=1).argmax())
    bound = float(np.sort(np.abs(PROBLEM.Y).max(axis=1))[-2])
    refused(
        make(kind, M=bound), PROBLEM.X, PROBLEM.Y, rf"at most M={bound:g}.*got .* \(row {beyond}\). Declare a larger M"
    )


@BOTH
@pytest.mark.parametrize("M", [0, -1.0, np.nan, "big"])
def test_a_declared_bound_must_be_positive(kind: Any, M: Any) -> None:
    refused(make(kind, M=M), PROBLEM.X, PROBLEM.Y, f"M must be a finite number greater than 0; got {M!r}")


def test_score_checks_labels_too() -> None:
    ensemble = make(oe.WhiteBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    with pytest.raises(InputError, match="labels Y must have shape"):
        ensemble.score(PROBLEM.X, PROBLEM.Y[:-1])
    with pytest.raises(InputError, match="row 5 of"):
        ensemble.score(PROBLEM.X, with_value(PROBLEM.Y, [5], np.nan))


# X


@BOTH
@pytest.mark.parametrize("X", [5, None, "abc", {"a": [1, 2]}, np.array(3.0), iter([1, 2]), pl.LazyFrame({"a": [1, 2]})])
def test_x_must_have_rows(kind: Any, X: Any) -> None:
    refused(make(kind), X, PROBLEM.Y, f"X must have rows: an array, a pandas or polars frame; got {type(X).__name__}")


@BOTH
@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows(kind: Any, n: int) -> None:
    refused(make(kind), PROBLEM.X[:n], PROBLEM.Y[:n], f"at least 2 rows are needed; got {n}. Give more rows")


@BOTH
def test_no_rows_have_no_score(kind: Any) -> None:
    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    with pytest.raises(InputError, match="at least 1 row is needed; got 0"):
        ensemble.score(PROBLEM.X[:0], PROBLEM.Y[:0])


@BOTH
def test_labels_whose_squares_overflow(kind: Any) -> None:
    refused(make(kind), PROBLEM.X, 1e200 * PROBLEM.Y, "the labels Y must be at most 1e.100 in size.*Rescale the data")


@BOTH
def test_an_error_of_a_member_names_it(kind: Any) -> None:
    def broken(X: Any) -> Floats:
        raise RuntimeError("no licence")

    with pytest.raises(RuntimeError, match="no licence") as caught:
        make(kind, members=[("vendor", broken)]).fit(PROBLEM.X, PROBLEM.Y)
    assert caught.value.__notes__ == ["This came from the member 'vendor' of the ensemble."]


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e12])
def test_what_is_small_depends_on_the_range(scale: float) -> None:
    omega = feasible.Box(np.zeros(3), np.full(3, scale))
    inside = omega.argmax(PROBLEM.P[0])
    oe.BlackBoxEnsemble([("rounded", lambda X: inside[X] * (1 + 1e-15))], omega, alpha=0.1, validation=None).fit(
        PROBLEM.X, PROBLEM.Y
    )
    twice = oe.BlackBoxEnsemble([("twice", lambda X: 2 * inside[X])], omega, alpha=0.1, validation=None)
    with pytest.raises(InfeasibleActionError, match=r"outside the feasible set.*if it is a model, give its policy"):
        twice.fit(PROBLEM.X, PROBLEM.Y)


@BOTH
def test_a_class_is_not_a_member(kind: Any) -> None:
    words = "'a' is the class DecisionTreeRegressor. Give an object of it"
    refused(make(kind, members=[("a", DecisionTreeRegressor)]), PROBLEM.X, PROBLEM.Y, words)


def test_members_that_were_trained_on_these_rows_are_noticed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    Y = X[:, :2] + rng.normal(size=(300, 2))
    forest = RandomForestRegressor(50, oob_score=True, random_state=0).fit(X[:150], Y[:150])
    ensemble = oe.WhiteBoxEnsemble([("forest", forest)], oe.feasible.Simplex(2), validation=None)
    with pytest.warns(UserWarning, match="'forest' explains 0.* look like the rows it was trained on. Fit.*other rows"):
        ensemble.fit(X[:150], Y[:150])
    ensemble.fit(X[150:], Y[150:])  # on other rows it has nothing to say


@BOTH
def test_no_rows_give_no_decisions(kind: Any) -> None:
    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    assert ensemble.decide(PROBLEM.X[:0]).shape == (0, D)
    assert ensemble.self_assess(PROBLEM.X[:0]).shape == ensemble.choose(PROBLEM.X[:0]).shape == (0,)


# Members


@pytest.mark.no_cover
@BOTH
def test_members_must_be_pairs(kind: Any) -> None:
    what, one = ("models", "model") if kind is oe.WhiteBoxEnsemble else ("policies", "policy")
    for wrong in (5, "ab", [("a",)], [members(kind)[0][1]], None):
        ensemble = kind(wrong, PROBLEM.omega, validation=None)
        refused(ensemble, PROBLEM.X, PROBLEM.Y, rf"{what} must be a list of \(name, {one}\) pairs; got")
    nothing: list[Any] = [[], {}, ()]
    for empty in nothing:
        refused(make(kind, members=empty), PROBLEM.X, PROBLEM.Y, rf"{what} is empty. Give at least one \(name, {one}\)")


@BOTH
def test_names_must_be_distinct_strings(kind: Any) -> None:
    member = members(kind)[0][1]
    twice = make(kind, members=[("a", member), ("b", member), ("a", member)])
    refused(twice, PROBLEM.X, PROBLEM.Y, r"must be distinct; 'a' is there 2 times\. Rename all but one")
    for name in (1, None, "", b"a"):
        wrong = make(kind, members=[(name, member)])
        refused(wrong, PROBLEM.X, PROBLEM.Y, f"must be non-empty strings; got {name!r}")


@BOTH
@pytest.mark.parametrize("member", [5, None, "model", np.zeros((N, D))])
def test_a_member_must_answer(kind: Any, member: Any) -> None:
    method = "predict" if kind is oe.WhiteBoxEnsemble else "decide"
    words = rf"'a' must have a {method}\(X\) method, or be callable; got {type(member).__name__}"
    refused(make(kind, members=[("a", member)]), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda table: table[:-1], rf"must have shape \({N}, {D}\): one row for each.*got shape \({N - 1}, {D}\)"),
        (lambda table: table[:, :2], rf"must have shape \({N}, {D}\): one row for each.*got shape \({N}, 2\)"),
        (lambda table: table[:, 0], rf"must have shape \({N}, {D}\): one row for each.*got shape \({N},\)"),
        (lambda table: with_value(table, [4], np.nan), f"must be finite; got NaN or infinity in row 4 of {N}. Remove"),
        (lambda table: with_value(table, [4, 5], np.inf), f"must be finite; got NaN or infinity in rows 4, 5 of {N}"),
        (lambda table: table.astype(str) + "?", "must be numeric; got ndarray"),
        (lambda table: None, "must be numeric; got NoneType"),
        (lambda table: table + 1j, "must be numeric; got ndarray.*Give an array of numbers"),
        (lambda table: table.astype(str), "must be numeric; got ndarray"),
        (lambda table: np.ma.masked_greater(table, np.sort(table[:, 0])[-2]), "must be finite; got NaN or infinity in"),
    ],
)
def test_what_a_member_answers_is_checked(kind: Any, answer: Callable[[Floats], Any], words: str) -> None:
    (good, member), *_ = members(kind)
    wrong = [(good, member), ("culprit", lambda X: answer(member(X)))]
    title = "predictions of model" if kind is oe.WhiteBoxEnsemble else "actions of policy"
    refused(make(kind, members=wrong), PROBLEM.X, PROBLEM.Y, f"the {title} 'culprit' {words}")


@BOTH
def test_members_are_checked_when_deciding_too(kind: Any) -> None:
    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.members_[1] = ("m1", lambda X: np.full((len(X), D), np.nan))
    with pytest.raises(InputError, match=r"'m1' must be finite; got NaN or infinity in rows 0, 1, 2, 3, 4 and 35 more"):
        ensemble.decide(PROBLEM.X)


@BOTH
def test_an_error_inside_a_member_comes_through(kind: Any) -> None:
    def broken(X: Any) -> Floats:
        raise LookupError("no such customer")

    ensemble = make(kind).fit(PROBLEM.X, PROBLEM.Y)
    before = answers(ensemble, PROBLEM.X)
    ensemble.set_params(**{"models" if kind is oe.WhiteBoxEnsemble else "policies": [("broken", broken)]})
    with pytest.raises(LookupError, match="no such customer"):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert same(answers(ensemble, PROBLEM.X), before)


def test_a_policy_must_stay_in_the_set() -> None:
    actions = PROBLEM.actions[0].copy()
    actions[[2, 9]] = 0.9
    wrong = make(oe.BlackBoxEnsemble, members=[*PROBLEM.policies, ("greedy", lookup(actions))])
    words = (
        rf"policy 'greedy' returned actions outside the feasible set in rows 2, 9 of {N}, by up to .*Polytope.*or pro"
    )
    refused(wrong, PROBLEM.X, PROBLEM.Y, words, InfeasibleActionError)


def test_a_policy_may_round() -> None:
    rounded = [("rounded", lookup(PROBLEM.actions[0].round(7)))]
    assert make(oe.BlackBoxEnsemble, members=rounded).fit(PROBLEM.X, PROBLEM.Y).names_ == ["rounded", "own"]


# The feasible set


def test_empty_sets() -> None:
    with pytest.raises(EmptySetError, match=r"no action satisfies all constraints.*Check the signs"):
        feasible.Polytope(A_ub=[[1.0, 1.0]], b_ub=[-1.0])
    with pytest.raises(EmptySetError, match=r"coordinate 1 has lower bound 2 above its upper bound 1. Check"):
        feasible.Box([0, 2], [1, 1])
    with pytest.raises(EmptySetError, match=r"list of vertices is empty. Give at least one action"):
        feasible.Vertices(np.empty((0, 3)))
    with pytest.raises(EmptySetError, match=r"variance of at most 0.1; the least attainable variance is 0.5. Raise"):
        feasible.RiskBudget(np.eye(2), 0.1)


def test_unbounded_sets() -> None:
    with pytest.raises(UnboundedSetError, match=r"coordinate 1 has no upper bound.*Give a finite upper="):
        feasible.Polytope(A_ub=[[1.0, 0.0]], b_ub=[1.0], upper=np.inf)
    with pytest.raises(UnboundedSetError, match=r"coordinate 0 lies in \[-inf, 1\]. Give finite lower="):
        feasible.Box(-np.inf, 1.0, dimension=2)
    with pytest.raises(UnboundedSetError, match="must be bounded"):
        feasible.Oracle(lambda C: C, 2, upper=np.inf)


@BOTH
@pytest.mark.parametrize("wrong", ["simplex", None, [feasible.Simplex(3)], lambda C: C])
def test_the_set_must_be_a_feasible_set(kind: Any, wrong: Any) -> None:
    words = f"feasible must be a set from optensemble.feasible; got {type(wrong).__name__}. Wrap a function.*Oracle"
    refused(make(kind, feasible=wrong), PROBLEM.X, PROBLEM.Y, words)


@BOTH
def test_the_set_must_not_be_a_class(kind: Any) -> None:
    words = "feasible is the class Simplex. Give an object of it, with its arguments"
    refused(make(kind, feasible=feasible.Simplex), PROBLEM.X, PROBLEM.Y, words)


@BOTH
def test_an_oracle_must_stay_in_its_bounds(kind: Any) -> None:
    calls: list[int] = []
    good = 4 if kind is oe.WhiteBoxEnsemble else 2

    def drifting(C: Floats) -> Floats:
        """Right on the first calls, and outside the bounds in the course of the fit."""
        calls.append(len(C))
        return np.where(C > 0, 1.0 + (len(calls) > good), 0.0)

    ensemble = make(kind, feasible=feasible.Oracle(drifting, D), alpha=0.001)
    with pytest.raises(InfeasibleActionError, match=r"the oracle left the bounds in rows? .*, by up to 1\. Correct"):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert len(calls) == good + 1
    assert not hasattr(ensemble, "log_")


def test_an_oracle_that_fails_later_loses_nothing() -> None:
    limit = [10_000]

    def oracle(C: Floats) -> Floats:
        limit[0] -= 1
        return np.where(C > 0, 1.0, 0.0) if limit[0] > 0 else np.full(C.shape, 2.0)

    ensemble = make(oe.WhiteBoxEnsemble, feasible=feasible.Oracle(oracle, D), alpha=0.001, max_rounds=20)
    before = answers(ensemble.fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X)
    limit[0] = 6
    with pytest.raises(InfeasibleActionError, match="left the bounds"):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    limit[0] = 10_000
    assert same(answers(ensemble, PROBLEM.X), before)


def test_an_oracle_must_return_what_contains_allows() -> None:
    oracle = feasible.Oracle(lambda C: np.where(C > 0, 1.0, 0.0), D, contains=lambda A: A.sum(axis=1) <= 1)
    words = f"contains= refuses the oracle's actions in rows? .* of {N}. Correct the oracle, or allow"
    refused(make(oe.WhiteBoxEnsemble, feasible=oracle), PROBLEM.X, PROBLEM.Y, words, InfeasibleActionError)


def test_an_oracle_of_another_shape() -> None:
    oracle = feasible.Oracle(lambda C: np.zeros(D), D)
    words = rf"oracle must return one action for each row, of shape \({N}, {D}\); got.*whole batch, not row by row"
    refused(make(oe.WhiteBoxEnsemble, feasible=oracle), PROBLEM.X, PROBLEM.Y, words)
