"""Whatever is wrong with the input: a clear error, and nothing lost. Whatever is unusual about it: it works."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.exceptions
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import (
    EmptySetError,
    InfeasibleActionError,
    InputError,
    NotFittedError,
    OptEnsembleError,
    UnboundedSetError,
)
from tests.problems import Floats, Problem, lookup, random_problem

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")

PROBLEM = random_problem(0, n=40)
N, D = PROBLEM.Y.shape
BOTH = pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
QUICK: dict[str, Any] = {"alpha": 0.05, "bucket_width": 0.25, "validation": None}


def members(kind: type, problem: Problem = PROBLEM) -> list[tuple[str, Any]]:
    return problem.models if kind is oe.WhiteBoxEnsemble else problem.policies


def make(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    given = parameters.pop("members", None)
    omega = parameters.pop("feasible", problem.omega)
    return kind(members(kind, problem) if given is None else given, omega, **{**QUICK, **parameters})


def answers(ensemble: Any, X: Any) -> list[Any]:
    return [ensemble.decide(X), ensemble.predict(X), ensemble.self_assess(X), ensemble.choose(X), ensemble.n_rounds_]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def refused(ensemble: Any, X: Any, Y: Any, words: str, error: type[Exception] = InputError) -> None:
    """The first fit fails, and so does a second one after a good first, which is then as it was."""
    with pytest.raises(error, match=words) as caught:
        ensemble.fit(X, Y)
    assert isinstance(caught.value, OptEnsembleError)
    assert not hasattr(ensemble, "log_")
    good = make(type(ensemble)).fit(PROBLEM.X, PROBLEM.Y)
    before, parameters = answers(good, PROBLEM.X), good.get_params()
    good.set_params(**ensemble.get_params(deep=False))
    with pytest.raises(error, match=words):
        good.fit(X, Y)
    good.set_params(**parameters)
    assert same(answers(good, PROBLEM.X), before)


def with_value(values: Floats, rows: list[int], value: float) -> Floats:
    changed = values.copy()
    changed[rows, 1] = value
    return changed


# Labels


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_labels_must_be_finite(kind: Any, value: float) -> None:
    Y = with_value(PROBLEM.Y, [3, 17], value)
    refused(make(kind), PROBLEM.X, Y, f"labels Y must be finite; got NaN or infinity in rows 3, 17 of {N}. Remove")


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


@pytest.mark.parametrize("schedule", ["frozen", "joint", "round-robin"])
@pytest.mark.parametrize(("scale", "offset", "alpha"), [(1e16, 0.0, 0.01), (1.0, 0.0, 1e-17), (1.0, 1e8, 1e-9)])
def test_alpha_must_be_resolvable(schedule: str, scale: float, offset: float, alpha: float) -> None:
    problem = Problem(PROBLEM.X, scale * PROBLEM.Y + offset, scale * PROBLEM.P + offset, PROBLEM.omega)
    with pytest.raises(InputError, match=r"below what float64 can tell apart.*Take alpha of at least"):
        problem.white_box(alpha=alpha, schedule=schedule)


@pytest.mark.parametrize("schedule", ["frozen", "joint"])
def test_the_smallest_alpha_allowed_can_be_reached(schedule: str) -> None:
    largest = max(np.abs(PROBLEM.Y).max(), np.abs(PROBLEM.P).max())
    ensemble = PROBLEM.white_box(alpha=1024.01 * np.finfo(float).eps * largest, schedule=schedule)
    assert ensemble.converged_


def test_an_alpha_that_nothing_can_exceed_is_noticed() -> None:
    small = Problem(PROBLEM.X, 1e-8 * PROBLEM.Y, 1e-8 * PROBLEM.P, PROBLEM.omega)
    for fit in (small.white_box, small.black_box):
        with pytest.warns(UserWarning, match="nothing was corrected. Alpha is in the units of the labels"):
            fit()


@BOTH
@pytest.mark.parametrize("alpha", [1e300, 1e-160])
def test_extreme_alphas_do_not_overflow(kind: Any, alpha: float) -> None:
    with pytest.raises((InputError, UserWarning), match="alpha"):
        make(kind, alpha=alpha).fit(PROBLEM.X, PROBLEM.Y)


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


def test_init_may_not_be_an_array() -> None:
    with pytest.raises(InputError, match="init must be 'mean' or a model of the labels"):
        make(oe.BlackBoxEnsemble, init=PROBLEM.Y).fit(PROBLEM.X, PROBLEM.Y)


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


@pytest.mark.parametrize(
    ("name", "value"), [("sense", "min"), ("bucket_width", 0.5), ("feasible", feasible.Simplex(3))]
)
def test_extend_keeps_to_the_terms_of_the_fit(name: str, value: Any) -> None:
    ensemble = make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.set_params(**{name: value})
    with pytest.raises(InputError, match=f"{name} was .* at the fit and is .* now. Set it back, or fit again"):
        ensemble.extend(X=PROBLEM.X, Y=PROBLEM.Y)


@BOTH
def test_a_class_is_not_a_member(kind: Any) -> None:
    words = "'a' is the class DecisionTreeRegressor. Give an object of it, fitted"
    refused(make(kind, members=[("a", DecisionTreeRegressor)]), PROBLEM.X, PROBLEM.Y, words)


def test_dates_are_the_same_group_in_any_unit() -> None:
    days = np.datetime64("2024-01-01") + PROBLEM.X % 3
    frames = [pd.DataFrame({"row": PROBLEM.X, "day": days.astype(f"datetime64[{unit}]")}) for unit in ("ns", "s")]
    members = on_rows(oe.WhiteBoxEnsemble, column)
    ensemble = make(oe.WhiteBoxEnsemble, members=members, groups="day").fit(frames[0], PROBLEM.Y)
    np.testing.assert_array_equal(ensemble.predict(frames[1]), ensemble.predict(frames[0]))


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


# Parameters


@BOTH
@pytest.mark.parametrize("alpha", [0, -0.1, np.nan, np.inf, "0.1", None, True, [0.1]])
def test_alpha(kind: Any, alpha: Any) -> None:
    words = "alpha must be a finite number greater than 0; got " + repr(alpha).replace("[", r"\[")
    refused(make(kind, alpha=alpha), PROBLEM.X, PROBLEM.Y, words)


@BOTH
@pytest.mark.parametrize("width", [0, -0.1, 1.5, np.nan, "wide", None])
def test_bucket_width_is_a_share(kind: Any, width: Any) -> None:
    words = rf"bucket_width must lie in \(0, 1\]; got {width!r}. It is a share.*0.1 makes 10 buckets"
    refused(make(kind, bucket_width=width), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.parametrize(
    ("width", "count", "plural"),
    [(0.3, 3, "s"), (0.333333, 3, "s"), (0.45, 2, "s"), (0.7, 1, ""), (0.15, 7, "s"), (1e-6, 10_000, "s")],
)
def test_bucket_width_must_divide_one_and_the_hint_does(width: float, count: int, plural: str) -> None:
    words = f"bucket_width must divide 1.*got {width!r}. Take 1/{count} for {count} bucket{plural}\\."
    refused(make(oe.WhiteBoxEnsemble, bucket_width=width), PROBLEM.X, PROBLEM.Y, words)
    assert make(oe.WhiteBoxEnsemble, bucket_width=1 / count, max_rounds=1).fit(PROBLEM.X, PROBLEM.Y).n_rounds_ == 1


@BOTH
@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("schedule", "frozzen", "schedule must be one of 'frozen'.*got 'frozzen'. Did you mean 'frozen'?"),
        ("schedule", "round_robin", "got 'round_robin'. Did you mean 'round-robin'?"),
        ("schedule", 3, "schedule must be one of 'frozen', 'joint', 'round-robin', None; got 3"),
        ("sense", "maximum", "sense must be one of 'max', 'min'; got 'maximum'. Did you mean 'max'?"),
        ("sense", "minimize", "sense must be one of 'max', 'min'; got 'minimize'. Did you mean 'min'?"),
        ("sense", 1, "sense must be one of 'max', 'min'; got 1"),
        ("validation", "auto", "validation must be one of 'cv', None; got 'auto'"),
        ("validation", 0.2, "validation must be one of 'cv', None; got 0.2"),
        ("shrinkage", 1.0, r"shrinkage is for schedule='joint'; got schedule='frozen'\. Leave it at 0"),
        ("shrinkage", -1.0, "shrinkage must be a finite number at least 0; got -1"),
        ("shrinkage", np.nan, "shrinkage must be a finite number at least 0; got nan"),
        ("shrinkage", "much", "shrinkage must be a finite number at least 0; got 'much'"),
        ("max_rounds", -1, "max_rounds must be a whole number at least 0; got -1"),
        ("max_rounds", 2.5, "max_rounds must be a whole number at least 0; got 2.5"),
        ("schedule", np.array(["frozen"]), "schedule must be one of 'frozen', 'joint', 'round-robin', None; got"),
        ("min_cell", 0, "min_cell must be a whole number at least 1; got 0"),
        ("min_cell", 7.5, "min_cell must be a whole number at least 1; got 7.5"),
        ("min_cell", "fifty", "min_cell must be a whole number at least 1; got 'fifty'"),
        ("bucket_width", True, "bucket_width must lie in"),
        ("max_rounds", "many", "max_rounds must be a whole number at least 0; got 'many'"),
    ],
)
def test_parameters(kind: Any, parameter: str, value: Any, words: str) -> None:
    refused(make(kind, **{parameter: value}), PROBLEM.X, PROBLEM.Y, words)


@pytest.mark.parametrize("schedule", ["frozen", "round-robin"])
def test_shrinkage_belongs_to_joint(schedule: str) -> None:
    wrong = make(oe.WhiteBoxEnsemble, schedule=schedule, shrinkage=2.0)
    refused(wrong, PROBLEM.X, PROBLEM.Y, f"shrinkage is for schedule='joint'; got schedule='{schedule}'")


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("maen", "init must be 'mean' or a model of the labels, with predict.X. or callable; got 'maen'"),
        (None, r"'init' must have a predict\(X\) method, or be callable; got NoneType"),
        (
            lambda X: np.zeros((len(X), D + 1)),
            rf"model 'init' must have shape \({N}, {D}\).*got shape \({N}, {D + 1}\)",
        ),
        (lambda X: with_value(np.zeros((len(X), D)), [6], np.nan), "model 'init' must be finite.*row 6 of"),
    ],
)
def test_init(init: Any, words: str) -> None:
    refused(make(oe.BlackBoxEnsemble, init=init), PROBLEM.X, PROBLEM.Y, words)


# Groups

REGION = np.array(["north", "south", "west"])[np.arange(N) % 3]
NUMBER = np.arange(N) % 3
PANDAS = pd.DataFrame({"row": PROBLEM.X, "region": REGION, "number": NUMBER})
POLARS = pl.DataFrame({"row": PROBLEM.X, "region": REGION, "number": NUMBER})


def on_rows(kind: Any, row: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    """Members that look up the row numbers that ``row`` finds in X."""
    return [(name, lambda X, member=member: member(row(X))) for name, member in members(kind)]


def column(X: Any) -> Any:
    return X["row"].to_numpy()


@BOTH
def test_groups_in_every_form_are_the_same(kind: Any) -> None:
    array = np.column_stack([PROBLEM.X, NUMBER])
    given: list[tuple[Any, Any, Callable[[Any], Any]]] = [
        (PANDAS, "region", column),
        (PANDAS, ["region"], column),
        (PANDAS, "number", column),
        (PANDAS.assign(region=PANDAS["region"].astype("category")), "region", column),
        (PANDAS.assign(region=PANDAS["region"].astype("string")), "region", column),
        (POLARS, "region", column),
        (POLARS, ["number"], column),
        (array, 1, lambda X: X[:, 0]),
        (array, -1, lambda X: X[:, 0]),
        (array, np.int64(1), lambda X: X[:, 0]),
        (PROBLEM.X, lambda X: X % 3, lambda X: X),
        (PROBLEM.X, lambda X: [f"part {x % 3}" for x in X], lambda X: X),
    ]
    plain = make(kind, alpha=0.01).fit(PROBLEM.X, PROBLEM.Y)
    results = [
        answers(make(kind, members=on_rows(kind, row), groups=groups, alpha=0.01).fit(X, PROBLEM.Y), X)
        for X, groups, row in given
    ]
    assert all(same(result, results[0]) for result in results)
    assert not same(results[0], answers(plain, PROBLEM.X))


@BOTH
def test_several_group_columns(kind: Any) -> None:
    frame = PANDAS.assign(half=PROBLEM.X < N // 2)
    array = np.column_stack([PROBLEM.X, NUMBER, PROBLEM.X < N // 2])
    by_name = make(kind, members=on_rows(kind, column), groups=["number", "half"]).fit(frame, PROBLEM.Y)
    by_index = make(kind, members=on_rows(kind, lambda X: X[:, 0]), groups=(1, 2)).fit(array, PROBLEM.Y)
    by_call = make(kind, groups=lambda X: array[X, 1:]).fit(PROBLEM.X, PROBLEM.Y)
    assert same(answers(by_name, frame), answers(by_index, array))
    assert same(answers(by_name, frame), answers(by_call, PROBLEM.X))
    residuals = PROBLEM.Y - (
        by_name.predict_members(frame) if kind is oe.WhiteBoxEnsemble else [by_name.predict(frame)]
    )
    for part in (NUMBER == 0, NUMBER == 1, NUMBER == 2, PROBLEM.X < N // 2, PROBLEM.X >= N // 2):
        assert np.abs(residuals[:, part].sum(axis=1)).max() / N <= by_name.alpha


@BOTH
def test_rows_of_an_unknown_group_are_answered(kind: Any) -> None:
    ensemble = make(kind, members=on_rows(kind, column), groups="region").fit(PANDAS, PROBLEM.Y)
    assert ensemble.decide(PANDAS.assign(region="east")).shape == (N, D)


@BOTH
@pytest.mark.parametrize("frame", [PANDAS, POLARS])
def test_a_group_column_that_is_not_there(kind: Any, frame: Any) -> None:
    of = on_rows(kind, column)
    words = "X has no column 'regoin' to take groups from. Did you mean 'region'?"
    refused(make(kind, members=of, groups="regoin"), frame, PROBLEM.Y, words)
    words = "X has no column 'colour' to take groups from. Its columns are 'row', 'region', 'number'"
    refused(make(kind, members=of, groups=["region", "colour"]), frame, PROBLEM.Y, words)
    ensemble = make(kind, members=of, groups="region").fit(frame, PROBLEM.Y)
    with pytest.raises(InputError, match="X has no column 'region' to take groups from"):
        ensemble.decide(frame[["row"]])


@BOTH
@pytest.mark.parametrize("groups", ["region", 7, -3, 0.5])
def test_a_group_column_that_an_array_does_not_have(kind: Any, groups: Any) -> None:
    array = np.column_stack([PROBLEM.X, NUMBER])
    words = rf"groups must name a column of X, be the number of one, or be callable; got {groups!r}.*\({N}, 2\)"
    refused(make(kind, members=on_rows(kind, lambda X: X[:, 0]), groups=groups), array, PROBLEM.Y, words)


@BOTH
@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        ([None, "a"] * (N // 2), "rows 0, 2, 4, 6, 8 and 15 more of"),
        ([*["a"] * (N - 1), None], f"row {N - 1} of"),
        (np.where(np.arange(N) == 2, np.nan, 1.0), "row 2 of"),
        (pd.array([1, pd.NA] * (N // 2), dtype="Int64"), "rows 1, 3, 5"),
        (pd.Categorical(["a", None] * (N // 2)), "rows 1, 3, 5"),
        (pd.to_datetime(["2024-01-01", "NaT"] * (N // 2)), "rows 1, 3, 5"),
        (pd.array(["a", None] * (N // 2), dtype="string"), "rows 1, 3, 5"),
    ],
)
def test_missing_group_labels(kind: Any, labels: Any, rows: str) -> None:
    frame = pd.DataFrame({"row": PROBLEM.X, "region": labels})
    words = f"group labels must not be missing; they are in {rows}.*label of their own"
    refused(make(kind, members=on_rows(kind, column), groups="region"), frame, PROBLEM.Y, words)


@BOTH
def test_groups_of_another_length(kind: Any) -> None:
    words = rf"groups\(X\) must return one label for each of the {N} rows; got an array of shape \(3,\)"
    refused(make(kind, groups=lambda X: X[:3]), PROBLEM.X, PROBLEM.Y, words)
    refused(make(kind, groups=lambda X: "all"), PROBLEM.X, PROBLEM.Y, r"got an array of shape \(\)")


def test_more_groups_than_sixteen_bits_count() -> None:
    n = 2**15 + 1
    one = make(oe.WhiteBoxEnsemble, members=[("zero", lambda X: np.zeros((len(X), D)))], groups=lambda X: X)
    assert one.fit(np.arange(n), np.ones((n, D))).n_rows_ == n


# Use before fit


PUBLIC = {
    "answer": (PROBLEM.X,),
    "decide": (PROBLEM.X,),
    "predict": (PROBLEM.X,),
    "self_assess": (PROBLEM.X,),
    "choose": (PROBLEM.X,),
    "explain": (PROBLEM.X,),
    "score": (PROBLEM.X, PROBLEM.Y),
    "save": ("nowhere.oe",),
    "retrace": (PROBLEM.X, [0]),
}


@BOTH
def test_use_before_fit(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    more = {"predict_members": (PROBLEM.X,)} if kind is oe.WhiteBoxEnsemble else {"extend": ()}
    for method, arguments in {**PUBLIC, **more}.items():
        words = rf"this {kind.__name__} is not fitted yet. Call fit\(X, Y\) first"
        with pytest.raises(NotFittedError, match=words) as caught:
            getattr(make(kind), method)(*arguments)
        assert isinstance(caught.value, sklearn.exceptions.NotFittedError)
    assert not list(tmp_path.iterdir())


@BOTH
def test_every_public_method_of_ours_is_checked_before_fit(kind: Any) -> None:
    ours = {
        name
        for base in kind.__mro__
        if base.__module__.startswith("optensemble")
        for name, value in vars(base).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    known = {*PUBLIC, "fit", "predict_members" if kind is oe.WhiteBoxEnsemble else "extend"}
    assert ours - known <= {"promise", "audit"}, "add the new methods to PUBLIC"


# Extending


def test_a_failed_extension_loses_nothing() -> None:
    ensemble = make(oe.BlackBoxEnsemble, M=10.0).fit(PROBLEM.X, PROBLEM.Y)
    before, names, parameters = answers(ensemble, PROBLEM.X), ensemble.names_, ensemble.get_params()
    member, X, Y = PROBLEM.policies[0][1], PROBLEM.X, PROBLEM.Y
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "extend got nothing to go on with. Give policies=, or X= and Y=, or all three"),
        ({"X": X}, "extend needs X and Y together; got only one"),
        ({"Y": Y}, "extend needs X and Y together; got only one"),
        ({"policies": [("new", member)], "X": X}, "extend needs X and Y together"),
        ({"policies": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("new", member), ("new", member)]}, "must be distinct; 'new' is there 2 times"),
        ({"policies": [("own", member)]}, "a policy cannot be named 'own'.*Give it another name"),
        ({"policies": []}, "policies is empty"),
        ({"policies": [("new", 5)]}, "'new' must have a decide"),
        ({"policies": [("new", lambda X: np.full((len(X), D), 5.0))]}, "policy 'new' returned actions outside"),
        ({"X": X, "Y": Y[:-1]}, "labels Y must have shape"),
        ({"X": X, "Y": Y * np.nan}, "labels Y must be finite"),
        ({"X": X, "Y": Y + 20}, "labels must be at most M=10"),
        ({"X": 5, "Y": Y}, "X must have rows"),
    ]
    for arguments, words in wrong:
        with pytest.raises(OptEnsembleError, match=words):
            ensemble.extend(**arguments)
        assert same(answers(ensemble, PROBLEM.X), before)
        assert ensemble.names_ == names
        assert ensemble.get_params() == parameters
        assert len(ensemble.log_) == 1
    assert ensemble.extend(policies=[("new", member)]).names_ == ["m0", "m1", "m2", "new", "own"]


def test_no_policy_may_be_named_own() -> None:
    wrong = make(oe.BlackBoxEnsemble, members=[("own", PROBLEM.policies[0][1])])
    refused(wrong, PROBLEM.X, PROBLEM.Y, "a policy cannot be named 'own': that is the ensemble's own. Give it another")


def test_extending_a_loaded_ensemble_needs_rows(tmp_path: Path) -> None:
    make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y).save(tmp_path / "black.oe")
    loaded = oe.load(tmp_path / "black.oe", policies=dict(PROBLEM.policies))
    before = answers(loaded, PROBLEM.X)
    new = [("new", PROBLEM.policies[0][1])]
    with pytest.raises(InputError, match=r"rows this ensemble was fitted on are not in its file. Give X= and Y= too"):
        loaded.extend(policies=new)
    with pytest.warns(UserWarning, match="goes on with the new rows alone"), pytest.raises(OptEnsembleError):
        loaded.extend(policies=[("new", 5)], X=PROBLEM.X, Y=PROBLEM.Y)
    assert same(answers(loaded, PROBLEM.X), before)
    with pytest.warns(UserWarning, match="goes on with the new rows alone"):
        loaded.extend(policies=new, X=PROBLEM.X[:20], Y=PROBLEM.Y[:20])
    assert loaded.n_rows_ == 20
    assert loaded.converged_


# Unusual, and fine


@BOTH
def test_one_coordinate_with_one_dimensional_labels(kind: Any) -> None:
    problem = random_problem(3, d=1, omega="box")
    flat = [(name, lambda X, member=member: member(X)[:, 0]) for name, member in members(kind, problem)]
    ensemble = make(kind, problem, members=flat).fit(problem.X, problem.Y[:, 0])
    other = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.decide(problem.X).shape == (60, 1)
    assert same(answers(ensemble, problem.X), answers(other, problem.X))
    assert ensemble.score(problem.X, problem.Y[:, 0]) == other.score(problem.X, problem.Y)


@BOTH
def test_a_fixed_coordinate(kind: Any) -> None:
    problem = random_problem(4)
    problem.omega = feasible.Box([0.0, 0.5, -1.0], [1.0, 0.5, 1.0])
    ensemble = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.converged_
    assert (ensemble.decide(problem.X)[:, 1] == 0.5).all()


@BOTH
def test_a_single_action(kind: Any) -> None:
    problem = random_problem(5)
    problem.omega = feasible.Vertices([[0.2, 0.3, 0.4]])
    ensemble = make(kind, problem).fit(problem.X, problem.Y)
    assert ensemble.converged_
    assert (ensemble.decide(problem.X) == [0.2, 0.3, 0.4]).all()


@BOTH
def test_frames_lists_and_dicts(kind: Any) -> None:
    expected = answers(make(kind).fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X)
    labels = [f"y{j}" for j in range(D)]
    for X, Y in (
        (PANDAS, pd.DataFrame(PROBLEM.Y, columns=labels)),
        (PANDAS.set_index("region", drop=False), PROBLEM.Y.tolist()),
        (POLARS, pl.DataFrame(PROBLEM.Y, schema=labels)),
        (POLARS, np.asfortranarray(PROBLEM.Y)),
    ):
        assert same(answers(make(kind, members=on_rows(kind, column)).fit(X, Y), X), expected)
    as_dict = make(kind, members=dict(members(kind))).fit(PROBLEM.X, PROBLEM.Y)
    assert as_dict.names_[:3] == ["m0", "m1", "m2"]
    assert same(answers(as_dict, PROBLEM.X), expected)
    in_frames = [(name, lambda X, m=member: pd.DataFrame(m(X))) for name, member in members(kind)]
    assert same(answers(make(kind, members=in_frames).fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X), expected)


# Interrupts


def assert_fitted_as_far_as_it_came(ensemble: Any, rounds: int) -> None:
    X, Y = PROBLEM.X, PROBLEM.Y
    assert ensemble.n_rounds_ == len(ensemble.log_[-1].rounds) == rounds
    assert len(ensemble.history_) == rounds + 1
    last = ensemble.history_.iloc[-1]
    assert last["promised"] == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    realised = (ensemble.decide(X) * Y).sum(axis=1).mean()
    assert last["realised"] == pytest.approx(realised, rel=1e-12)
    assert last["worst_violation"] == ensemble.worst_violation_
    assert not ensemble.converged_
    assert f"interrupted after {rounds} rounds; the worst violation left is" in ensemble.stopped_


def interrupt_after(rounds: int) -> Callable[[int, float], None]:
    def callback(number: int, violation: float) -> None:
        if number == rounds:
            raise KeyboardInterrupt

    return callback


SLOW: dict[str, Any] = {"alpha": 1e-4, "bucket_width": 0.1}


@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_an_interrupt_between_rounds_keeps_them(kind: Any, schedule: str, rounds: int) -> None:
    ensemble = make(kind, schedule=schedule, **SLOW)
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y, callback=interrupt_after(rounds))
    assert_fitted_as_far_as_it_came(ensemble, rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.NotConvergedWarning)
        whole = make(kind, schedule=schedule, max_rounds=rounds, **SLOW).fit(PROBLEM.X, PROBLEM.Y)
    assert same(answers(ensemble, PROBLEM.X), answers(whole, PROBLEM.X))


@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_an_interrupt_inside_a_round_keeps_whole_rounds(kind: Any, schedule: str, calls: int) -> None:
    left = [calls + (3 if kind is oe.WhiteBoxEnsemble else 1)]  # after those that come before the first round

    def oracle(C: Floats) -> Floats:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return np.asarray(PROBLEM.omega.argmax(C))

    ensemble = make(kind, feasible=feasible.Oracle(oracle, D), schedule=schedule, **SLOW)
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    one_call_per_round = kind is oe.BlackBoxEnsemble or schedule == "round-robin"
    assert ensemble.n_rounds_ >= calls - 1 if one_call_per_round else ensemble.n_rounds_ < calls
    assert_fitted_as_far_as_it_came(ensemble, ensemble.n_rounds_)


def test_an_interrupt_before_the_first_round_keeps_the_earlier_fit() -> None:
    interrupting = [False]

    def model(X: Any) -> Floats:
        if interrupting[0]:
            raise KeyboardInterrupt
        return np.asarray(PROBLEM.P[0][X])

    ensemble = make(oe.WhiteBoxEnsemble, members=[("a", model)]).fit(PROBLEM.X, PROBLEM.Y)
    before = answers(ensemble, PROBLEM.X)
    interrupting[0] = True
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y * 2)
    interrupting[0] = False
    assert same(answers(ensemble, PROBLEM.X), before)


def test_an_interrupted_extension_keeps_whole_rounds() -> None:
    ensemble = make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.set_params(alpha=1e-4)
    with pytest.raises(KeyboardInterrupt):
        ensemble.extend(policies=[("new", PROBLEM.policies[1][1])], callback=interrupt_after(2))
    assert len(ensemble.log_) == 2
    assert ensemble.names_[-2:] == ["new", "own"]
    assert_fitted_as_far_as_it_came(ensemble, 2)


def test_another_error_in_the_callback_loses_nothing() -> None:
    def callback(number: int, violation: float) -> None:
        raise RuntimeError("the progress bar broke")

    ensemble = make(oe.WhiteBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    before = answers(ensemble, PROBLEM.X)
    with pytest.raises(RuntimeError, match="progress bar broke"):
        ensemble.fit(PROBLEM.X, PROBLEM.Y * 2, callback=callback)
    assert same(answers(ensemble, PROBLEM.X), before)
