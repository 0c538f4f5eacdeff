"""The honest front door as an estimator: its answers agree with each other, and with what is recomputed outside."""

from __future__ import annotations

import copy
import inspect
import re
import threading
import warnings
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.exceptions
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import InfeasibleActionError, InputError, NotFittedError, OptEnsembleError, RefitWarning
from optensemble.members.fingerprints import fingerprints
from optensemble.members.fit_inputs import number_repeats
from optensemble.stacking.forecaster import _map
from optensemble.stats.folds import folds
from tests.problems import Floats, Problem, lookup, random_problem
from tests.sample_sets import covariance, top_one

Ensemble = oe.DecisionEnsemble

N, D = 400, 3
ACCESS = pytest.mark.parametrize("access", ["models", "policies", "both"])
SENSES = pytest.mark.parametrize("sense", ["max", "min"])


@cache
def problem(omega: str = "simplex", n: int = 2 * N, seed: int = 0) -> Problem:
    return random_problem(seed, n=n, omega=omega)


def make(access: str = "models", given: Problem | None = None, **parameters: Any) -> Ensemble:
    """An ensemble of the members of a problem; of both, the first two are models and the last is a policy."""
    given = given or problem()
    models, policies = given.models, given.policies
    members = {"models": (models, None), "policies": (None, policies), "both": (models[:2], policies[2:])}[access]
    return Ensemble(*members, feasible=given.omega, **parameters)


OLD, NEW = slice(0, N), slice(N, 2 * N)


@cache
def fitted(access: str = "models", omega: str = "simplex", sense: str = "max", time_ordered: bool = False) -> Ensemble:
    """Fitted on the first rows. It is shared: whoever changes it makes a copy."""
    given = problem(omega)
    ensemble = make(access, given, sense=sense)
    return ensemble.fit(given.X[OLD], given.Y[OLD], time_ordered=time_ordered)


def answers(ensemble: Ensemble, X: Any) -> list[Any]:
    answer = ensemble.answer(X)
    return [answer.actions, answer.promised, answer.chosen, answer.predictions]


def same(left: list[Any], right: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


def forecasts(ensemble: Ensemble, X: Any) -> dict[str, Floats]:
    view = ensemble._view(X)
    return ensemble.decider_.forecaster(view, ensemble._set, ensemble._buckets)


def specialists(n: int, seed: int = 0) -> tuple[Floats, Floats, list[tuple[str, Any]]]:
    """Each model sees its own feature, and makes too little of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    models = [(f"sees {j}", lambda X, j=j: 0.4 * X * np.eye(3)[j]) for j in range(3)]
    return X, X + 0.5 * rng.normal(size=(n, 3)), models


# scikit-learn's contract


def test_init_stores_and_fit_learns() -> None:
    models, omega = problem().models, problem().omega
    ensemble = Ensemble(models=models, feasible=omega)
    stored = {"models": models, "policies": None, "feasible": omega, "sense": "max", "subgroups": None}
    assert ensemble.get_params() == stored
    before = set(vars(ensemble))
    assert ensemble.fit(problem().X, problem().Y) is ensemble
    assert ensemble.models is models
    learned = set(vars(ensemble)) - before
    assert all(name.endswith("_") or name.startswith("_") for name in learned)
    assert ensemble.set_params(sense="min") is ensemble
    assert ensemble.sense == "min"


def test_a_clone_shares_members_and_has_learned_nothing() -> None:
    ensemble = fitted()
    copied = clone(ensemble)
    assert copied.models is ensemble.models
    assert copied.feasible is ensemble.feasible
    assert not hasattr(copied, "decider_")
    check_is_fitted(ensemble)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(copied)


def test_parameters_that_are_set_later_wait_for_the_next_fit() -> None:
    ensemble, X = copy.copy(fitted()), problem().X[NEW]
    before = answers(ensemble, X)
    ensemble.set_params(sense="min", models=[], feasible=feasible.Simplex(9))
    assert same(answers(ensemble, X), before)


def test_every_public_method_asks_to_be_fitted_first() -> None:
    X, Y = problem().X, problem().Y
    arguments: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("answer", "decide", "predict", "self_assess", "choose", "promise", "explain"), (X,)),
        **dict.fromkeys(("score", "audit", "update"), (X, Y)),
        "extend": (),
        "save": ("nowhere.oe",),
    }
    ours = {
        name
        for name, value in inspect.getmembers(Ensemble, inspect.isfunction)
        if not name.startswith("_") and value.__module__.startswith("optensemble")
    }
    assert ours == {*arguments, "fit"}
    for method, given in arguments.items():
        with pytest.raises(NotFittedError, match=r"this DecisionEnsemble is not fitted yet. Call fit\(X, Y\) first"):
            getattr(make(), method)(*given)


def test_it_can_be_cross_validated() -> None:
    X, Y = problem().X, problem().Y
    scores = cross_val_score(make(), X, Y, cv=3)
    assert len(scores) == 3
    assert min(scores) > 0


# X of any kind


def test_arrays_and_frames_of_either_kind_give_the_same() -> None:
    X, Y = np.random.default_rng(0).normal(size=(2, 200, 3))
    Y = Y + X
    names = ["a", "b", "c"]
    by_number = [("all", oe.Columns([0, 1, 2])), ("turned", oe.Columns([2, 0, 1]))]
    by_name = [("all", oe.Columns(names)), ("turned", oe.Columns(["c", "a", "b"]))]
    expected = answers(Ensemble(by_number, feasible=feasible.Simplex(3)).fit(X, Y), X)
    for frame, labels in (
        (pd.DataFrame(X, columns=names, index=np.arange(200)[::-1]), pd.DataFrame(Y)),
        (pl.DataFrame(X, schema=names), pl.DataFrame(Y)),
        (pl.DataFrame(X, schema=names), Y.tolist()),
    ):
        assert same(answers(Ensemble(by_name, feasible=feasible.Simplex(3)).fit(frame, labels), frame), expected)
    as_dict = Ensemble(dict(by_number), feasible=feasible.Simplex(3)).fit(X, Y)
    assert same(answers(as_dict, X), expected)


# Whom it follows


@ACCESS
def test_names_are_members_and_then_forecasts(access: str) -> None:
    ensemble = fitted(access)
    assert ensemble.names_[:3] == ["m0", "m1", "m2"]
    made = ensemble.names_[3:]
    assert made == [n for n in ("average", "stack", "refined", "patched", "ridge", "mean") if n in made]
    assert {"stack", "ridge", "mean"} <= set(made)
    assert ("average" in made) == (access != "policies")
    assert ensemble.n_models_ == {"models": 3, "policies": 0, "both": 2}[access]


@ACCESS
@SENSES
@pytest.mark.parametrize("omega", ["simplex", "polytope"])
def test_the_action_taken_is_that_of_whom_it_follows(access: str, sense: str, omega: str) -> None:
    ensemble, given = fitted(access, omega, sense), problem(omega)
    X, sign = given.X[NEW], 1.0 if sense == "max" else -1.0
    said = forecasts(ensemble, X)
    models = {"models": 3, "policies": 0, "both": 2}[access]
    members = [given.omega.argmax(sign * given.P[m][X]) if m < models else given.actions[m][X] for m in range(3)]
    arms = [*members, *(given.omega.argmax(np.ascontiguousarray(said[name])) for name in ensemble.decider_.forecasts)]
    chosen = ensemble.choose(X)
    np.testing.assert_array_equal(ensemble.decide(X), np.stack(arms)[chosen, np.arange(N)])
    assert chosen.min() >= 0
    assert chosen.max() < len(ensemble.names_)


@ACCESS
def test_a_single_row_is_decided_as_in_company(access: str) -> None:
    ensemble, X = fitted(access, "polytope"), problem("polytope").X[NEW][:40]
    actions, promised, chosen, predictions = answers(ensemble, X)
    for i in range(40):
        alone = answers(ensemble, X[i : i + 1])
        np.testing.assert_array_equal(alone[0][0], actions[i])
        assert alone[2][0] == chosen[i]
        np.testing.assert_allclose(alone[1][0], promised[i], rtol=1e-12)
        np.testing.assert_allclose(alone[3][0], predictions[i], rtol=1e-9, atol=1e-12)


def test_no_rows_give_no_decisions() -> None:
    ensemble, none = fitted(), problem().X[:0]
    assert ensemble.decide(none).shape == ensemble.predict(none).shape == (0, D)
    assert ensemble.choose(none).shape == ensemble.self_assess(none).shape == (0,)
    with pytest.raises(InputError, match="at least 1 row is needed; got 0"):
        ensemble.promise(none)


def test_answers_are_the_callers_to_change() -> None:
    ensemble, X = fitted("policies"), problem().X[NEW]
    before = answers(ensemble, X)
    table = problem().actions.copy()
    for array in answers(ensemble, X):
        array[...] = 0
    assert same(answers(ensemble, X), before)
    np.testing.assert_array_equal(problem().actions, table)


# What it says of itself


def believed(record: Record, assessed: Floats) -> Floats:
    """Least squares of what was realised on what was assessed, with a level for every fold; less what flatters."""
    assert record.folds is not None
    assert not record.time_ordered
    design = np.column_stack([record.assessed, record.folds[:, None] == np.unique(record.folds)])
    slope = max(float(np.linalg.lstsq(design, record.realised, rcond=None)[0][0]), 0.0)
    level = record.realised.mean() - record.sign * record.curse
    return np.asarray(level + slope * (assessed - record.assessed.mean()))


@ACCESS
@SENSES
def test_promises_are_self_assessments_corrected_by_the_record(access: str, sense: str) -> None:
    ensemble, X = fitted(access, sense=sense), problem().X[NEW]
    raw = payoff(ensemble.decide(X), ensemble.predict(X))
    np.testing.assert_allclose(ensemble.self_assess(X), believed(ensemble.record_, raw), rtol=1e-8, atol=1e-8)
    promise = ensemble.promise(X)
    assert promise.mean == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    assert promise.low < promise.mean < promise.high
    assert promise.rely_on == (promise.low if sense == "max" else promise.high)
    assert promise.rows == N


@ACCESS
@SENSES
def test_the_record_is_of_the_rows_fitted_on(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    assert len(ensemble.record_.realised) == N == ensemble.n_rows_
    board = ensemble.leaderboard_.set_index("candidate")
    assert ensemble.record_.realised.mean() == pytest.approx(board.loc[ensemble.winner_, "realised"], rel=1e-9)
    assert ensemble.record_.assessed.mean() == pytest.approx(board.loc[ensemble.winner_, "promised"], rel=1e-9)
    members = np.mean([payoff(member_actions(access, sense, m), Y) for m in range(3)], axis=0)
    advantage = ensemble.record_.realised - members
    np.testing.assert_allclose(ensemble.advantage_.realised, advantage, atol=1e-12)


def member_actions(access: str, sense: str, m: int, rows: slice = OLD) -> Floats:
    given, models = problem(), {"models": 3, "policies": 0, "both": 2}[access]
    sign = -1.0 if sense == "min" and m < models else 1.0
    return given.omega.argmax(sign * given.P[m][rows])


@ACCESS
def test_the_advantage_is_promised_beyond_the_mean_member(access: str) -> None:
    ensemble, X = fitted(access), problem().X[NEW]
    forecast = ensemble.predict(X)
    members = np.mean([payoff(member_actions(access, "max", m, NEW), forecast) for m in range(3)], axis=0)
    beyond = payoff(ensemble.decide(X), forecast) - members
    advantage = ensemble.promise(X).advantage
    assert advantage is not None
    assert advantage.mean == pytest.approx(believed(ensemble.advantage_, beyond).mean(), rel=1e-8)


def test_a_promise_made_on_independent_rows_is_kept() -> None:
    for access in ("models", "policies", "both"):
        ensemble = fitted(access)
        promise = ensemble.promise(problem().X[NEW])
        earned = payoff(ensemble.decide(problem().X[NEW]), problem().Y[NEW]).mean()
        assert promise.low <= earned <= promise.high


@SENSES
def test_the_score_is_better_when_greater(sense: str) -> None:
    ensemble, X, Y = fitted(sense=sense), problem().X[NEW], problem().Y[NEW]
    earned = payoff(ensemble.decide(X), Y).mean()
    assert ensemble.score(X, Y) == pytest.approx(earned if sense == "max" else -earned, rel=1e-12)


# Senses


@ACCESS
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("time_ordered", [True, False])
def test_costs_are_the_mirror_of_payoffs(access: str, seed: int, time_ordered: bool) -> None:
    given = random_problem(seed, n=300, omega="polytope")
    X, rows = given.X, slice(0, 200)
    earning = make(access, given).fit(X[rows], given.Y[rows], time_ordered=time_ordered)
    negated = [(name, lambda X, m=model: -m(X)) for name, model in given.models]
    members = {"models": (negated, None), "policies": (None, given.policies), "both": (negated[:2], given.policies[2:])}
    costing = Ensemble(*members[access], feasible=given.omega, sense="min")
    costing.fit(X[rows], -given.Y[rows], time_ordered=time_ordered)
    np.testing.assert_array_equal(costing.decide(X), earning.decide(X))
    np.testing.assert_array_equal(costing.choose(X), earning.choose(X))
    np.testing.assert_array_equal(costing.predict(X), -earning.predict(X))
    np.testing.assert_array_equal(costing.self_assess(X), -earning.self_assess(X))
    payoffs, costs = earning.promise(X[200:]), costing.promise(X[200:])
    assert (costs.mean, costs.low, costs.high, costs.rely_on) == (
        *(-payoffs.mean, -payoffs.high, -payoffs.low),
        -payoffs.rely_on,
    )
    assert costing.winner_ == earning.winner_
    left, right = (each.leaderboard_.set_index("candidate") for each in (costing, earning))
    assert left.index.tolist() == right.index.tolist()
    for column, mirror in {"realised": "realised", "low": "high", "difference_low": "difference_high"}.items():
        np.testing.assert_array_equal(left[column], -right[mirror])
    np.testing.assert_array_equal(left["detectable"], right["detectable"])
    assert costing.score(X, -given.Y) == earning.score(X, given.Y)


# The leaderboard


@ACCESS
@SENSES
def test_the_leaderboard_tells_what_members_earned(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    board = ensemble.leaderboard_.set_index("candidate")
    best = ensemble.record_.realised
    quantile = stats.t.ppf(0.975, N - 1)
    for m, name in enumerate(["m0", "m1", "m2"]):
        earned = payoff(member_actions(access, sense, m), Y)
        row, half = board.loc[name], quantile * stats.sem(earned)
        assert row["realised"] == pytest.approx(earned.mean(), rel=1e-9)
        assert (row["low"], row["high"]) == pytest.approx((earned.mean() - half, earned.mean() + half), rel=1e-9)
        gain, error = earned - best, stats.sem(earned - best)
        assert row["difference"] == pytest.approx(gain.mean(), rel=1e-9)
        assert row["difference_low"] == pytest.approx(gain.mean() - quantile * error, rel=1e-9)
        assert row["difference_high"] == pytest.approx(gain.mean() + quantile * error, rel=1e-9)
    assert board["chosen"].sum() == 1
    assert board.index[board["chosen"]].tolist() == [ensemble.winner_]
    assert set(board.index[board["kind"] != "left out"]) == {*ensemble.names_, "ensemble"}
    assert (board["why"].str.len() > 0).all()


@ACCESS
def test_shares_of_rows_on_which_each_is_followed_add_up(access: str) -> None:
    ensemble = fitted(access)
    board = ensemble.leaderboard_.set_index("candidate")["followed"]
    assert board[ensemble.names_].sum() == pytest.approx(1.0)
    assert board["ensemble"] == float(ensemble.winner_ == "ensemble")


def test_the_mean_label_decides_for_the_baseline_of_that_name() -> None:
    ensemble, Y = fitted(), problem().Y[OLD]
    np.testing.assert_allclose(forecasts(ensemble, problem().X[NEW])["mean"][0], Y.mean(axis=0))
    row = ensemble.leaderboard_.set_index("candidate").loc["mean"]
    assert row["kind"] == "baseline"
    earned = np.concatenate([Y[test, Y[train].mean(axis=0).argmax()] for train, test in folds(N, random_state=0)])
    assert row["realised"] == pytest.approx(earned.mean(), rel=1e-9)


@pytest.mark.parametrize("name", ["ridge", "ensemble", "average", "mean", "stack"])
def test_a_member_may_have_any_name(name: str) -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    (_, first), *others = problem().models
    ensemble = Ensemble([(name, first), *others], feasible=problem().omega).fit(X, Y)
    assert same(answers(ensemble, X), answers(fitted(), X))
    assert ensemble.names_[0] == name
    board = ensemble.leaderboard_
    assert board["candidate"].is_unique
    assert f"{name} of all" in set(board["candidate"])
    assert board.set_index("candidate").loc[name, "kind"] == "model"
    assert board.loc[board["chosen"], "candidate"].tolist() == [ensemble.winner_]


@pytest.mark.parametrize(
    ("names", "given_way"),
    [
        (("ridge", "ridge of all"), ["ridge of all of all"]),
        (("refined", "patched"), ["refined of all", "patched of all"]),
        (("ensemble", "mean"), ["ensemble of all", "mean of all"]),
    ],
)
def test_no_two_lines_of_the_leaderboard_have_the_same_name(names: tuple[str, str], given_way: list[str]) -> None:
    models = list(zip(names, [model for _, model in problem().models], strict=False))
    ensemble = Ensemble(models, feasible=problem().omega).fit(problem().X[OLD], problem().Y[OLD])
    listed = ensemble.leaderboard_["candidate"]
    assert listed.is_unique
    assert {*names, *given_way} <= set(listed)
    assert len(set(ensemble.names_)) == len(ensemble.names_)
    left_out = ensemble.leaderboard_.query("kind == 'left out'")
    assert [f"{name} was left out: {why}" for name, why in left_out[["candidate", "why"]].to_numpy()] == [
        note for note in ensemble.notes_ if " was left out: " in note
    ]


def test_a_simple_thing_that_is_better_plays_instead() -> None:
    """Labels are the first member's words and nothing else: nobody can do better."""
    given = problem()
    exact = Problem(given.X, given.P[0], given.P, given.omega)
    ensemble = make("policies", exact).fit(exact.X[OLD], exact.Y[OLD])
    board = ensemble.leaderboard_.set_index("candidate")
    assert ensemble.winner_ in ("m0", "ensemble")
    np.testing.assert_array_equal(ensemble.decide(exact.X[NEW]), exact.actions[0][NEW])
    assert board.loc["m0", "difference"] == pytest.approx(0, abs=1e-12)


def test_where_a_member_wins_it_decides_everywhere() -> None:
    """Two policies that are right in turns, by a rule that no linear blend of actions can see; one of them mostly."""
    rng = np.random.default_rng(3)
    actions = np.eye(3)[rng.integers(3, size=(4, 400))]
    Y = 0.3 * rng.normal(size=(400, 3)) + 2.0 * actions[0]
    Y += rng.normal(size=(400, 1)) * 3
    policies = [(f"p{i}", lookup(a)) for i, a in enumerate(actions)]
    ensemble = Ensemble(policies=policies, feasible=feasible.Simplex(3)).fit(np.arange(400), Y)
    assert payoff(ensemble.decide(np.arange(400)), Y).mean() == pytest.approx(payoff(actions[0], Y).mean(), rel=0.02)
    if ensemble.winner_ != "ensemble":
        assert set(ensemble.choose(np.arange(400))) == {ensemble.names_.index(ensemble.winner_)}


@ACCESS
@SENSES
def test_guarantees_are_observed_out_of_fold_and_promised_to_nobody(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    table = ensemble.guarantees_
    assert not table["guaranteed"].any()
    assert "patched" not in ensemble.names_
    assert np.isinf(table["bound"]).all()  # without a patch nothing bounds anything
    assert table["holds"].all()
    board = ensemble.leaderboard_.set_index("candidate")
    own = [name for name in ("stack", "refined") if name in ensemble.names_][-1]
    leads = table[table["lemma"] == "Lemma 4"].set_index("quantity")
    for m, name in enumerate(["m0", "m1", "m2"]):
        behind = payoff(member_actions(access, sense, m), Y).mean() - board.loc[own, "realised"]
        title = f"payoff of {name} − of {own}" if sense == "max" else f"cost of {own} − of {name}"
        row = leads.loc[title]
        assert row["observed"] == pytest.approx(behind if sense == "max" else -behind, abs=1e-9)
        assert row["low"] <= row["observed"] <= row["high"]
    gap = table.set_index("lemma").loc["Corollary 1"]
    boast = board["promised"] - board["realised"]
    assert gap["quantity"] == f"promised − realised of {own}"
    assert gap["observed"] == pytest.approx(boast[own], abs=1e-9)
    assert gap["low"] <= gap["observed"] <= gap["high"]


def test_a_patch_is_bounded_by_how_consistent_it_is() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(2000, 3))
    X = np.concatenate(signal + 0.5 * rng.normal(size=(2, 2000, 3)), axis=1)
    Y = signal + 0.5 * rng.normal(size=(2000, 3))
    Y[:, 0] -= 2.0 * (X[:, 3:].argmax(axis=1) == 0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    table = ensemble.guarantees_.set_index("lemma")
    assert "patched" in ensemble.names_
    consistency = table.loc["Definition 1"]
    assert 0 <= consistency["low"] <= consistency["observed"] <= consistency["high"]
    assert table.loc["Corollary 1", "quantity"] == "promised − realised of patched"
    rest = table.loc[["Corollary 1", "Lemma 4"]]
    assert np.isfinite(rest["bound"]).all()
    assert (rest["bound"] > consistency["high"]).all()
    assert rest["holds"].all()


# Rows that belong together


def grouped_frame() -> tuple[pd.DataFrame, Floats, list[tuple[str, Any]]]:
    given = problem()
    frame = pd.DataFrame({"row": given.X[OLD], "day": [f"day {i // 7}" for i in range(N)]})
    models = [(name, lambda X, m=model: m(X["row"].to_numpy())) for name, model in given.models]
    return frame, given.Y[OLD], models


def test_groups_may_be_given_as_labels_a_column_or_a_function() -> None:
    frame, Y, models = grouped_frame()
    by_column = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups="day")
    days = frame["day"]
    for groups in (days, days.tolist(), days.to_numpy(), np.arange(N) // 7, lambda X: X["day"]):
        ensemble = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups=groups)
        assert same(answers(ensemble, frame), answers(by_column, frame))
        np.testing.assert_array_equal(ensemble.record_.realised, by_column.record_.realised)
        assert ensemble.record_.clusters is not None
        np.testing.assert_array_equal(ensemble.record_.clusters, np.arange(N) // 7)
    assert not np.array_equal(by_column.record_.realised, fitted().record_.realised)


def test_an_audit_goes_by_the_groups_that_the_fit_found_in_x() -> None:
    frame, Y, models = grouped_frame()
    new = pd.DataFrame({"row": problem().X[NEW], "day": [f"day {i // 9}" for i in range(N)]})
    ensemble = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups="day")
    found, told, alone = (
        ensemble.audit(new, problem().Y[NEW], groups=groups).summary["half_width"].iloc[0]
        for groups in (None, np.arange(N) // 9, np.arange(N))
    )
    assert found == told != alone


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("told", [True, False])
def test_rows_given_several_times_promise_no_more(copies: int, told: bool) -> None:
    X, Y = problem().X[:200], problem().Y[:200]
    many, labels = np.repeat(X, copies), np.repeat(Y, copies, axis=0)
    once, often = make().fit(X, Y), make().fit(many, labels, groups=many if told else None)
    apart = make().fit(many, labels, groups=np.arange(len(many)))  # as if they were different
    new = np.tile(problem().X[NEW], 20)
    widths = [each.promise(new).high - each.promise(new).low for each in (once, often, apart)]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert widths[2] < 0.85 * widths[0]


def test_rows_that_are_there_twice_do_not_judge_each_other() -> None:
    rng = np.random.default_rng(0)
    distinct, labels = rng.normal(size=(60, 30)), rng.normal(size=(60, 3))
    rows = np.concatenate([np.arange(60), rng.integers(60, size=140)])
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(distinct[rows], labels[rows])
    clusters, folds = ensemble.record_.clusters, ensemble.record_.folds
    assert clusters is not None
    assert folds is not None
    np.testing.assert_array_equal(clusters[:, None] == clusters, rows[:, None] == rows)
    for row in range(60):
        assert len(set(folds[rows == row].tolist())) == 1
    assert fitted().record_.clusters is None


@hypothesis.given(copies=st.lists(st.integers(1, 25), min_size=1, max_size=30), seed=st.integers(0, 20))
def test_rows_are_numbered_by_what_they_are_copies_of_unless_there_are_very_many(copies: list[int], seed: int) -> None:
    which = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(copies)), copies))
    found = number_repeats(fingerprints(which.astype(float)))
    together = (which[:, None] == which) & (np.array(copies)[which] <= 20) | np.eye(len(which), dtype=bool)
    if together.sum() == len(which):
        assert found is None
    else:
        assert found is not None
        np.testing.assert_array_equal(found[:, None] == found, together)
        assert sorted(set(found.tolist())) == list(range(found.max() + 1))


def test_of_no_rows_none_are_there_twice() -> None:
    assert number_repeats(np.empty(0, dtype=np.uint64)) is None


def nights(n: int, seed: int, blurred: bool) -> tuple[Floats, Floats]:
    """Two forecasts of what three panels yield, side by side, and what they yield; nothing by night.

    Blurred by next to nothing, so that no two rows are the same, it is the same world.
    """
    rng = np.random.default_rng(seed)
    day = rng.uniform(size=(n, 1)) < 0.6
    yields = rng.normal(2.0, 1.0, size=(n, 3))
    X = np.concatenate([(yields + rng.normal(size=(n, 3))) * day for _ in range(2)], axis=1)
    return X + 1e-9 * rng.normal(size=X.shape) * blurred, (yields + rng.normal(size=(n, 3))) * day


def test_rows_that_are_alike_by_nature_are_not_taken_for_repeated_ones() -> None:
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    plain, blurred = (
        Ensemble(models, feasible=feasible.Simplex(3)).fit(*nights(500, 0, blur)) for blur in (False, True)
    )
    X, _ = nights(500, 1, False)
    widths = [each.promise(X).high - each.promise(X).low for each in (plain, blurred)]
    assert widths[0] < 2 * widths[1]
    assert plain.finding_.startswith("nothing") == blurred.finding_.startswith("nothing")


def test_out_of_fold_means_out_of_group() -> None:
    """A memory of the rows fitted on would shine if copies of a row were on both sides of a fold."""
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(40, 30))
    X, Y = np.repeat(distinct, 5, axis=0), np.repeat(rng.normal(size=(40, 3)), 5, axis=0)
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    groups = np.repeat(np.arange(40), 5)
    naive = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    honest = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y, groups=groups)
    assert naive.record_.realised.mean() > honest.record_.realised.mean() + 0.2


@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.parametrize("count", [1, 4])
def test_too_few_groups_are_refused_in_words(count: int, time_ordered: bool) -> None:
    words = f"groups must have at least 5 different labels.*got {count}. Leave groups out if rows do not belong"
    refused(make(), problem().X[OLD], problem().Y[OLD], words, groups=np.arange(N) % count, time_ordered=time_ordered)


@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.parametrize("groups", [np.arange(N) % 5, np.arange(N) // 80], ids=["in turns", "one after the other"])
def test_five_groups_will_do(groups: Any, time_ordered: bool) -> None:
    ensemble = make().fit(problem().X[OLD], problem().Y[OLD], groups=groups, time_ordered=time_ordered)
    folds = ensemble.record_.folds
    assert folds is not None
    for label in range(5):
        assert len(set(folds[groups == label].tolist())) == 1


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(5), r"groups must hold one label for each of the 400 rows.*got an array of shape \(5,\)"),
        ([None] * N, "group labels must not be missing"),
        ("day", "groups must name a column of X"),
        (7, "groups must name a column of X"),
        (lambda X: np.zeros(3), "must return one label for each of the 400 rows"),
    ],
)
def test_groups_that_cannot_be_used(groups: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make().fit(problem().X[OLD], problem().Y[OLD], groups=groups)


# Time order


def test_rows_in_time_order_are_treated_as_such() -> None:
    ensemble = fitted(time_ordered=True)
    assert ensemble.time_ordered_ is True
    assert ensemble.promise(problem().X[NEW]).time_ordered
    assert ensemble.record_.time_ordered
    left_out = ensemble.leaderboard_.query("kind == 'left out'")["why"]
    assert len(left_out) > 0
    assert all("more than 2 are needed" in why or "no cell" in why or "did not fall" in why for why in left_out)
    wide, plain = (each.promise(problem().X[NEW]) for each in (ensemble, fitted()))
    assert wide.high - wide.low > plain.high - plain.low


@pytest.mark.parametrize("flag", [np.True_, np.False_])
def test_numpys_truth_is_as_good_as_pythons(flag: Any) -> None:
    ensemble = make().fit(problem().X[OLD], problem().Y[OLD], time_ordered=flag)
    assert ensemble.time_ordered_ is bool(flag)
    assert same(state(ensemble), state(fitted(time_ordered=bool(flag))))


def test_folds_of_rows_in_time_order_are_contiguous() -> None:
    """Neighbours are copies of each other: only contiguous folds keep them from telling of each other."""
    rng = np.random.default_rng(0)
    X, Y = np.repeat(rng.normal(size=(40, 30)), 10, axis=0), np.repeat(rng.normal(size=(40, 3)), 10, axis=0)
    models = [(f"m{j}", oe.Columns([3 * j, 3 * j + 1, 3 * j + 2])) for j in range(10)]
    shuffled = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    in_order = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y, time_ordered=True)
    assert shuffled.record_.realised.mean() > in_order.record_.realised.mean() + 0.3


# The same bits


def state(ensemble: Ensemble) -> list[Any]:
    return [
        *answers(ensemble, problem().X),
        *(ensemble.record_.assessed, ensemble.record_.realised, ensemble.record_.curse),
        *(ensemble.advantage_.assessed, ensemble.fingerprints_),
        ensemble.leaderboard_.select_dtypes("number").to_numpy(na_value=0.0),
        ensemble.guarantees_.select_dtypes("number").to_numpy(na_value=0.0),
    ]


@ACCESS
def test_the_same_rows_and_seed_give_the_same_bits_on_any_number_of_threads(access: str) -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    first = state(make(access).fit(X, Y, random_state=3))
    for n_jobs in (None, 1, 2, -1):
        assert same(state(make(access).fit(X, Y, random_state=3, n_jobs=n_jobs)), first)
    other = make(access).fit(X, Y, random_state=4)
    assert not np.array_equal(other.record_.assessed, first[4])
    assert same(state(make(access).fit(X, Y)), state(make(access).fit(X, Y, random_state=0)))


def test_fitting_again_forgets_the_first_fit() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[NEW], -Y[NEW], time_ordered=True)
    ensemble.fit(X[OLD], Y[OLD])
    assert same(state(ensemble), state(fitted()))
    assert ensemble.n_updated_ == 0


def test_fitting_leaves_labels_and_members_as_they_were() -> None:
    given = random_problem(5, n=200)
    Y, P = given.Y.copy(), given.P.copy()
    ensemble = make("both", given).fit(given.X, given.Y)
    ensemble.audit(given.X[:100], given.Y[:100] + 1)
    np.testing.assert_array_equal(given.Y, Y)
    np.testing.assert_array_equal(given.P, P)


def test_labels_may_be_changed_after_fitting() -> None:
    given = random_problem(5, n=200)
    ensemble, X, Y = make("models", given).fit(given.X, given.Y), given.X, given.Y.copy()
    before = answers(ensemble, X)
    given.Y[:] = 0
    assert same(answers(ensemble, X), before)
    ensemble.extend(models=[("more", given.models[0][1])])
    again = Ensemble([*given.models, ("more", given.models[0][1])], feasible=given.omega).fit(X, Y)
    assert same(answers(ensemble, X), answers(again, X))


# What is refused


def refused(ensemble: Ensemble, X: Any, Y: Any, words: str, error: type[Exception] = InputError, **fit: Any) -> None:
    """A first fit fails, and so does a second one after a good first, which is then as it was."""
    with pytest.raises(error, match=words) as caught:
        ensemble.fit(X, Y, **fit)
    assert isinstance(caught.value, OptEnsembleError)
    assert not hasattr(ensemble, "decider_")
    good = copy.copy(fitted())
    before = state(good)
    good.set_params(**ensemble.get_params(deep=False))
    with pytest.raises(error, match=words):
        good.fit(X, Y, **fit)
    assert same(state(good), before)


@pytest.mark.parametrize("n", [0, 1, 99])
def test_fewer_than_a_hundred_rows(n: int) -> None:
    words = rf"needs at least 100 rows to fit on; got {n}. Below that nothing can be judged out of fold.*plan\(k, d\)"
    refused(make(), problem().X[:n], problem().Y[:n], words)


def test_a_hundred_rows_are_enough() -> None:
    assert make().fit(problem().X[:100], problem().Y[:100]).n_rows_ == 100


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_labels_and_predictions_must_be_finite(value: float) -> None:
    X, Y, P = problem().X, problem().Y.copy(), problem().P[0].copy()
    Y[7, 1] = P[9, 2] = value
    refused(make(), X, Y, "labels Y must be finite; got NaN or infinity in row 7 of 800. Remove")
    broken = Ensemble([("vendor", lookup(P))], feasible=problem().omega)
    refused(broken, X, problem().Y, "predictions of model 'vendor' must be finite; got NaN or infinity in row 9 of 800")
    policy = Ensemble(policies=[("vendor", lookup(P))], feasible=problem().omega)
    refused(policy, X, problem().Y, "actions of policy 'vendor' must be finite")


def test_shapes_must_fit() -> None:
    X, Y = problem().X, problem().Y
    refused(make(), X, Y[:, :2], r"labels Y must have shape \(800, 3\).*got shape \(800, 2\)")
    refused(make(), X, Y[:-1], r"labels Y must have shape \(800, 3\).*got shape \(799, 3\)")
    narrow = Ensemble([("vendor", lambda X: np.zeros((len(X), 2)))], feasible=problem().omega)
    refused(narrow, X, Y, r"predictions of model 'vendor' must have shape \(800, 3\).*got shape \(800, 2\)")
    refused(make(), 5, Y, "X must have rows: an array, a pandas or polars frame; got int")


def test_members_must_be_named_and_there_must_be_some() -> None:
    X, Y, omega, (_, model) = problem().X, problem().Y, problem().omega, problem().models[0]
    refused(Ensemble(feasible=omega), X, Y, "no models or policies were given. Give pairs of a name and a member")
    refused(Ensemble([], [], omega), X, Y, "no models or policies were given")
    refused(Ensemble([("a", model), ("a", model)], feasible=omega), X, Y, "models must be distinct; 'a' is there 2")
    both = Ensemble([("a", model)], [("a", problem().policies[0][1])], omega)
    refused(both, X, Y, "models and policies must be distinct; 'a' is there 2 times. Rename all but one")
    refused(Ensemble([model], feasible=omega), X, Y, "models must be a list of .name, model. pairs")
    refused(Ensemble([("", model)], feasible=omega), X, Y, "must be non-empty strings; got ''")
    refused(Ensemble([("a", 5)], feasible=omega), X, Y, r"'a' must have a predict\(X\) method, or be callable; got int")
    refused(Ensemble([("a", LinearRegression)], feasible=omega), X, Y, "'a' is the class LinearRegression. Give an obj")


@pytest.mark.parametrize("models", [5, lambda X: X], ids=["a number", "a function"])
def test_members_that_are_no_list(models: Any) -> None:
    refused(Ensemble(models, feasible=problem().omega), problem().X, problem().Y, "models must be a list")


@pytest.mark.parametrize("what", ["models", "policies"])
def test_members_that_can_be_read_but_once_are_refused(what: str) -> None:
    ensemble = Ensemble(feasible=problem().omega).set_params(**{what: iter(problem().models)})
    words = f"{what} must be a list of pairs; got an iterator, which can be read but once. Make it a list"
    refused(ensemble, problem().X, problem().Y, words)
    further: dict[str, Any] = {what: iter([("more", problem().models[0][1])])}
    with pytest.raises(InputError, match=words):
        half_updated().extend(**further)


def test_a_set_in_the_place_of_policies_is_told_where_to_go() -> None:
    X, Y = problem().X, problem().Y
    words = r"policies got the feasible set Simplex\(dimension=3\). Give it as feasible="
    refused(Ensemble(problem().models, problem().omega), X, Y, words)
    refused(Ensemble(problem().omega), X, Y, "models got the feasible set")


@pytest.mark.parametrize("omega", [None, "simplex", np.eye(3)])
def test_the_feasible_set_must_be_one(omega: Any) -> None:
    refused(Ensemble(problem().models, feasible=omega), problem().X, problem().Y, "feasible must be a set from optens")


def test_a_class_is_no_set() -> None:
    words = "feasible is the class Simplex. Give an object of it, with its arguments"
    refused(Ensemble(problem().models, feasible=feasible.Simplex), problem().X, problem().Y, words)  # type: ignore[arg-type]


def test_a_policy_must_stay_in_the_set() -> None:
    wild = Ensemble(policies=[("wild", lookup(problem().P[0]))], feasible=problem().omega)
    words = "policy 'wild' returned actions outside the feasible set.*if it is a model, give its policy"
    refused(wild, problem().X, problem().Y, words, InfeasibleActionError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time_ordered": "yes"}, "time_ordered must be one of True, False; got 'yes'"),
        ({"random_state": -1}, "random_state must be a whole number at least 0; got -1"),
        ({"random_state": 0.5}, "random_state must be a whole number at least 0; got 0.5"),
        ({"n_jobs": "two"}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 'two'"),
        ({"n_jobs": 1.5}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 1.5"),
        ({"n_jobs": 0}, "n_jobs must be a positive whole number, -1 for all cores, or None; got 0"),
        (
            {"progress": True},
            r"progress must be a callable progress\(stage, share\), or None; got bool. Give a function",
        ),
    ],
)
def test_options_of_fit_that_cannot_be(options: dict[str, Any], words: str) -> None:
    refused(make(), problem().X, problem().Y, words, **options)


def test_the_sense_must_be_one_of_two() -> None:
    refused(make(sense="maximize"), problem().X, problem().Y, "sense must be one of 'max', 'min'.*Did you mean 'max'")


def test_an_error_of_a_member_names_it() -> None:
    def broken(X: Any) -> Floats:
        raise RuntimeError("no licence")

    with pytest.raises(RuntimeError, match="no licence") as caught:
        Ensemble([("vendor", broken)], feasible=problem().omega).fit(problem().X, problem().Y)
    assert caught.value.__notes__ == ["This came from the member 'vendor' of the ensemble."]


def test_an_interrupt_loses_nothing() -> None:
    interrupting = [False]

    def oracle(C: Floats) -> Floats:
        if interrupting[0] and len(C) > 1:
            raise KeyboardInterrupt
        return top_one(C)

    ensemble = make().set_params(feasible=feasible.Oracle(oracle, D)).fit(problem().X[OLD], problem().Y[OLD])
    before = state(ensemble)
    interrupting[0] = True
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(problem().X[NEW], problem().Y[NEW])
    interrupting[0] = False
    assert same(state(ensemble), before)


# How far it has come

STAGES = ["asking members", "cross-fitting", "patching", "choosing", "verifying"]


def require_progress(told: list[tuple[str, float]]) -> None:
    """Stages in order, each from above 0 to 1 in shares that rise."""
    assert list(dict.fromkeys(stage for stage, _ in told)) == STAGES
    assert [stage for stage, _ in told] == sorted((stage for stage, _ in told), key=STAGES.index)
    for stage in STAGES:
        shares = [share for each, share in told if each == stage]
        assert min(shares) > 0
        assert shares[-1] == 1.0
        assert all(before < after for before, after in pairwise(shares))


@ACCESS
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_progress_is_told_stage_by_stage_and_changes_nothing(access: str, n_jobs: int) -> None:
    told: list[tuple[str, float]] = []
    threads = set()

    def progress(stage: str, share: float) -> None:
        told.append((stage, share))
        threads.add(threading.get_ident())

    ensemble = make(access).fit(problem().X[OLD], problem().Y[OLD], n_jobs=n_jobs, progress=progress)
    assert same(state(ensemble), state(fitted(access)))
    assert threads == {threading.get_ident()}
    require_progress(told)
    shares = {stage: [share for each, share in told if each == stage] for stage in STAGES}
    assert shares["asking members"] == [1 / 3, 2 / 3, 1.0]
    assert shares["cross-fitting"] == pytest.approx(np.arange(1, 11) / 10)  # ten folds


def test_progress_of_an_extension_is_over_all_rows() -> None:
    told: list[tuple[str, float]] = []
    ensemble = half_updated().update(problem().X[N : N + 100], problem().Y[N : N + 100])
    ensemble.extend(
        X=problem().X[N + 100 :], Y=problem().Y[N + 100 :], progress=lambda stage, share: told.append((stage, share))
    )
    require_progress(told)
    assert len([stage for stage, _ in told if stage == "asking members"]) == 9  # three members of three batches


class Enough(BaseException):
    """Not even an Exception, as an interrupt is not."""


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("last", STAGES)
@pytest.mark.parametrize("extending", [False, True])
def test_what_progress_raises_ends_the_fit_and_loses_nothing(last: str, n_jobs: int, extending: bool) -> None:
    def progress(stage: str, share: float) -> None:
        told.append(stage)
        if stage == last:
            raise Enough

    told: list[str] = []
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before = state(ensemble)
    further = partial(ensemble.extend, X=X, Y=Y) if extending else partial(ensemble.fit, X, Y)
    with pytest.raises(Enough):
        further(n_jobs=n_jobs, progress=progress)
    assert told.count(last) == 1
    assert told[-1] == last
    assert same(state(ensemble), before)
    assert ensemble.n_rows_ == N
    if not extending:
        assert same(state(ensemble.fit(X, Y)), state(make().fit(X, Y)))


def test_folds_that_have_not_begun_when_progress_raises_are_left_alone() -> None:
    begun, gate = [], threading.Event()

    def work(fold: int) -> int:
        begun.append(fold)
        if fold:
            gate.wait(10)
        return fold

    def step() -> None:
        gate.set()
        raise Enough

    with pytest.raises(Enough):
        _map(work, range(50), 2, step)
    assert len(begun) < 50


# Labels that come in


def half_updated(time_ordered: bool = False, access: str = "models") -> Ensemble:
    return copy.deepcopy(fitted(access, time_ordered=time_ordered))


@ACCESS
@SENSES
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_an_update_redoes_the_promise_and_leaves_decisions(access: str, sense: str) -> None:
    ensemble, given = copy.deepcopy(fitted(access, sense=sense)), problem()
    X, Y, later = given.X[N : N + 100], given.Y[N : N + 100], given.X[N + 100 :]
    decisions, old = ensemble.decide(later), ensemble.record_
    assessed, realised = payoff(ensemble.decide(X), ensemble.predict(X)), payoff(ensemble.decide(X), Y)
    assert ensemble.update(X, Y) is ensemble
    assert old.folds is not None
    whole = Record(
        np.concatenate([old.assessed, assessed]),
        np.concatenate([old.realised, realised]),
        old.sign,
        curse=old.curse * N / (N + 100),  # the new rows picked nobody
        folds=np.concatenate([old.folds, np.full(100, 10)]),  # and were judged by what all folds taught
    )
    expected, promise = whole.promise(payoff(ensemble.decide(later), ensemble.predict(later))), ensemble.promise(later)
    assert (promise.mean, promise.low, promise.high) == pytest.approx((expected.mean, expected.low, expected.high))
    np.testing.assert_array_equal(ensemble.decide(later), decisions)
    assert ensemble.n_updated_ == 100
    assert len(ensemble.advantage_.realised) == N + 100
    assert len(fitted(access, sense=sense).record_.realised) == N


@pytest.mark.parametrize(("times", "broken"), [(1.9, False), (2.1, True), (-1.9, False), (-2.1, True)])
def test_a_promise_that_is_missed_by_far_asks_for_a_new_fit(times: float, broken: bool) -> None:
    ensemble, X, Y = half_updated(), problem().X[N : N + 100], problem().Y[N : N + 100]
    promise, actions = ensemble.promise(X), ensemble.decide(X)
    half = promise.high - promise.mean
    # on the simplex a level that is added to all labels is added to the payoff
    Y = Y + promise.mean + times * half - payoff(actions, Y).mean()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble.update(X, Y)
    assert bool(ensemble.refit_due_) is bool(caught) is broken
    if broken:
        (warning,) = caught
        assert issubclass(warning.category, RefitWarning)
        assert str(warning.message) == f"{ensemble.refit_due_}. Call extend() to fit again with them."
        said = re.fullmatch(
            r"100 rows came to (\S+) on average, far from the promised (\S+) to (\S+)", ensemble.refit_due_
        )
        assert said is not None
        told = [float(number.replace("−", "-")) for number in said.groups()]
        assert told == pytest.approx([promise.mean + times * half, promise.low, promise.high], abs=0.01)


def test_a_kept_promise_asks_for_nothing() -> None:
    ensemble = half_updated()
    ensemble.update(problem().X[NEW], problem().Y[NEW])
    assert ensemble.refit_due_ == ""


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_honest_promises_are_seldom_called_broken() -> None:
    given = problem(n=200 + 6000)
    ensemble, called = make("models", given).fit(given.X[:200], given.Y[:200]), 0
    for start in range(200, 6200, 100):
        rows = slice(start, start + 100)
        called += bool(copy.deepcopy(ensemble).update(given.X[rows], given.Y[rows]).refit_due_)
    assert called <= 2


def test_in_time_order_a_fit_grows_old() -> None:
    ensemble = half_updated(time_ordered=True)
    for start in range(N, N + 160, 40):
        rows = slice(start, start + 40)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ensemble.update(problem().X[rows], problem().Y[rows])
        old = start + 40 >= N + 160
        assert bool(ensemble.refit_due_) == old == bool(caught)
    assert ensemble.refit_due_ == "160 rows have come since the fit on 400"
    assert issubclass(caught[0].category, RefitWarning)
    ensemble.fit(problem().X[NEW], problem().Y[NEW], time_ordered=True)
    assert ensemble.refit_due_ == ""


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_reasons_to_fit_again_stay_until_that_is_done() -> None:
    ensemble, X, Y = half_updated(time_ordered=True), problem().X, problem().Y
    ensemble.update(X[N : N + 100], Y[N : N + 100] + 50)
    broken = ensemble.refit_due_
    assert "far from the promised" in broken
    ensemble.update(X[N + 100 : N + 120], Y[N + 100 : N + 120] + 10)
    assert ensemble.refit_due_.startswith(broken)
    ensemble.update(X[N + 120 : N + 180], Y[N + 120 : N + 180] + 10)
    assert ensemble.refit_due_.startswith(broken)
    assert ensemble.refit_due_.count("180 rows have come since the fit on 400") == 1
    ensemble.update(X[N + 180 : N + 200], Y[N + 180 : N + 200] + 10)
    assert ensemble.refit_due_.count("rows have come since") == 1
    ensemble.extend()
    assert ensemble.refit_due_ == ""
    assert ensemble.n_updated_ == 0
    assert ensemble.n_rows_ == N + 200


def test_rows_that_were_fitted_on_or_given_before_are_no_update() -> None:
    ensemble, X, Y = half_updated(), problem().X, problem().Y
    before = state(ensemble)
    words = "of these 100 rows were fitted on or given before. Give new ones"
    with pytest.raises(InputError, match=f"100 {words}"):
        ensemble.update(X[:100], Y[:100])
    with pytest.raises(InputError, match=f"11 {words}"):
        ensemble.update(X[N - 11 : N + 89], Y[N - 11 : N + 89])
    assert same(state(ensemble), before)
    ensemble.update(X[N - 10 : N + 90], Y[N - 10 : N + 90])  # one in ten may be alike by chance
    with pytest.raises(InputError, match=f"90 {words}"):
        ensemble.update(X[N : N + 100], Y[N : N + 100])
    ensemble.update(X[:100], Y[:100] + 0.01)  # the same X may have other labels another time
    assert ensemble.n_updated_ == 200


def test_rows_of_few_values_may_come_again() -> None:
    """Where there are few different rows, new ones are like old ones by chance."""
    rng = np.random.default_rng(0)
    X, Y = rng.integers(3, size=(400, 3)).astype(float), rng.integers(2, size=(400, 3)).astype(float)
    models = [("same", lambda X: X), ("turned", lambda X: X[:, ::-1])]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X[:200], Y[:200])
    ensemble.update(X[200:300], Y[200:300])
    assert ensemble.record_.clusters is None
    assert ensemble.audit(X[300:], Y[300:]).summary["seen"].tolist() == [0]
    ensemble.extend()
    assert ensemble.n_rows_ == 300


def test_rows_of_an_update_are_seen_by_an_audit() -> None:
    ensemble, X, Y = half_updated(), problem().X, problem().Y
    rows = slice(N + 100, N + 300)
    assert ensemble.audit(X[rows], Y[rows]).summary["seen"].tolist() == [0]
    ensemble.update(X[N : N + 150], Y[N : N + 150])
    with pytest.warns(UserWarning, match="50 of these 200 rows are rows the ensemble was fitted on"):
        found = ensemble.audit(X[rows], Y[rows])
    assert found.summary["seen"].tolist() == [50]
    assert found.kept is None


def test_an_update_of_a_copy_leaves_the_original_as_it_was() -> None:
    original = half_updated()
    copy.copy(original).update(problem().X[NEW], problem().Y[NEW])
    assert original.n_updated_ == 0
    original.extend(models=[("more", problem().models[0][1])])
    assert original.n_rows_ == N


def test_an_update_that_fails_changes_nothing() -> None:
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before = state(ensemble)
    for labels, words in ((Y[:-1], "must have shape"), (Y * np.nan, "must be finite")):
        with pytest.raises(InputError, match=words):
            ensemble.update(X, labels)
    with pytest.raises(InputError, match="at least 1 row"):
        ensemble.update(X[:0], Y[:0])
    assert same(state(ensemble), before)
    assert ensemble.n_updated_ == 0


def test_groups_of_new_labels_are_groups_of_the_record() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    ensemble.update(X[N : N + 90], Y[N : N + 90], groups=np.arange(90) // 9 + 1000)
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters[N:], 100 + np.arange(90) // 9)


def test_a_group_that_was_there_before_is_the_same_group() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    ensemble.update(X[N : N + 90], Y[N : N + 90], groups=np.arange(90) // 9)
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters[N:], np.arange(90) // 9)


@pytest.mark.parametrize("groups", ["day", lambda X: X["day"]], ids=["a column", "a function"])
def test_groups_that_are_found_in_x_need_not_be_given_again(groups: Any) -> None:
    frame, Y, models = grouped_frame()
    ensemble = Ensemble(models, feasible=problem().omega).fit(frame[:300], Y[:300], groups=groups)
    ensemble.update(frame[300:], Y[300:])
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters, np.arange(N) // 7)
    whole = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups=groups)
    ensemble.extend()
    assert same(answers(ensemble, frame), answers(whole, frame))
    np.testing.assert_array_equal(ensemble.record_.realised, whole.record_.realised)


def test_an_update_has_groups_if_and_only_if_the_fit_had() -> None:
    X, Y = problem().X, problem().Y
    grouped, ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4), half_updated()
    words = r"the rows fitted on had groups. Give groups= for these rows too"
    with pytest.raises(InputError, match=words):
        grouped.update(X[NEW], Y[NEW])
    with pytest.raises(InputError, match=words):
        grouped.extend(X=X[NEW], Y=Y[NEW])
    words = r"the rows fitted on had no groups. Leave groups out, or fit again with groups"
    with pytest.raises(InputError, match=words):
        ensemble.update(X[NEW], Y[NEW], groups=np.arange(N))
    with pytest.raises(InputError, match=words):
        ensemble.extend(X=X[NEW], Y=Y[NEW], groups=np.arange(N))
    assert grouped.n_updated_ == ensemble.n_updated_ == 0


# Extending


def test_further_members_are_as_if_they_had_been_there() -> None:
    given = problem()
    X, Y = given.X[OLD], given.Y[OLD]
    ensemble = Ensemble(given.models[:1], given.policies[1:2], given.omega).fit(X, Y)
    assert ensemble.extend(models=given.models[2:], policies=[("extra", given.policies[0][1])]) is ensemble
    whole = Ensemble(
        [given.models[0], given.models[2]], [given.policies[1], ("extra", given.policies[0][1])], given.omega
    ).fit(X, Y)
    assert same(state(ensemble), state(whole))
    assert ensemble.names_[:4] == ["m0", "m2", "m1", "extra"]
    assert [name for name, _ in ensemble.get_params()["models"]] == ["m0", "m2"]


def test_further_rows_are_as_if_they_had_been_there() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make("both").fit(X[:150], Y[:150]).extend(X=X[150:250], Y=Y[150:250]).extend(X=X[250:N], Y=Y[250:N])
    assert same(state(ensemble), state(fitted("both")))


def test_further_rows_and_members_at_once_keep_time_order() -> None:
    given = problem()
    ensemble = Ensemble(given.models[:2], feasible=given.omega).fit(given.X[:200], given.Y[:200], time_ordered=True)
    ensemble.extend(models=given.models[2:], X=given.X[200:N], Y=given.Y[200:N])
    assert same(state(ensemble), state(fitted(time_ordered=True)))


def test_further_rows_of_known_groups_join_them() -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    groups = np.arange(N) % 50
    ensemble = make().fit(X[:200], Y[:200], groups=groups[:200]).extend(X=X[200:], Y=Y[200:], groups=groups[200:])
    assert same(state(ensemble), state(make().fit(X, Y, groups=groups)))


@SENSES
@pytest.mark.parametrize("time_ordered", [True, False])
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_rows_of_updates_are_fitted_on_by_an_extension_without_more(sense: str, time_ordered: bool) -> None:
    X, Y = problem().X, problem().Y
    ensemble = make("both", sense=sense).fit(X[:200], Y[:200], time_ordered=time_ordered)
    ensemble.update(X[200:280], Y[200:280]).update(X[280:300], Y[280:300])
    assert ensemble.extend() is ensemble
    assert same(state(ensemble), state(make("both", sense=sense).fit(X[:300], Y[:300], time_ordered=time_ordered)))
    ensemble.update(X[300:350], Y[300:350]).extend(X=X[350:N], Y=Y[350:N])
    assert same(state(ensemble), state(fitted("both", sense=sense, time_ordered=time_ordered)))


def test_an_extension_goes_on_with_the_seed_of_the_fit() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[:200], Y[:200], random_state=5).extend(X=X[200:N], Y=Y[200:N])
    assert same(state(ensemble), state(make().fit(X[OLD], Y[OLD], random_state=5)))
    other = make().fit(X[:200], Y[:200], random_state=5).extend(X=X[200:N], Y=Y[200:N], random_state=6)
    assert same(state(other), state(make().fit(X[OLD], Y[OLD], random_state=6)))


def test_rows_that_are_no_longer_what_they_were_are_not_fitted_on_again() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 200, 3))
    ensemble = Ensemble([("all", lambda X: X)], feasible=feasible.Simplex(3)).fit(X, X + Y)
    before = answers(ensemble, X[:50].copy())
    kept, X[100, 1] = X.copy(), 7.0
    more = [("more", lambda X: X[:, ::-1])]
    with pytest.raises(
        InputError, match=r"X was changed since the fit, or a member answers otherwise. Fit again on all"
    ):
        ensemble.extend(models=more)
    assert same(answers(ensemble, kept[:50]), before)
    X[:] = kept
    assert ensemble.extend(models=more).names_[:2] == ["all", "more"]


def test_an_extension_that_fails_changes_nothing() -> None:
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before, parameters, member = state(ensemble), ensemble.get_params(), problem().models[0][1]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "extend got nothing to go on with. Give models=, policies=, or X= and Y="),
        ({"X": X}, "extend needs X and Y together; got only one of them"),
        ({"Y": Y}, "extend needs X and Y together; got only one of them"),
        ({"models": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("m0", member)]}, "must be distinct; 'm0' is there 2 times"),
        ({"policies": [("new", lookup(problem().P[0]))]}, "policy 'new' returned actions outside"),
        ({"X": X, "Y": Y[:-1]}, "labels Y must have shape"),
        ({"X": X, "Y": Y, "groups": np.arange(N)}, "the rows fitted on had no groups. Leave groups out"),
    ]
    for arguments, words in wrong:
        with pytest.raises((InputError, InfeasibleActionError), match=words):
            ensemble.extend(**arguments)
    assert same(state(ensemble), before)
    assert ensemble.get_params() == parameters


# Auditing


@ACCESS
@SENSES
def test_an_audit_compares_promise_and_payoff_on_new_rows(access: str, sense: str) -> None:
    ensemble, X, Y = fitted(access, sense=sense), problem().X[NEW], problem().Y[NEW]
    audit = ensemble.audit(X, Y)
    row, promise = audit.summary.iloc[0], ensemble.promise(X)
    earned = payoff(ensemble.decide(X), Y)
    assert (row["rows"], row["seen"]) == (N, 0)
    assert (row["promise"], row["low"], row["high"]) == (promise.mean, promise.low, promise.high)
    assert row["promised"] == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    assert row["realised"] == pytest.approx(earned.mean(), rel=1e-12)
    assert audit.kept == (promise.low <= earned.mean() <= promise.high)
    assert audit.verdict.startswith("promised ")
    sign = 1.0 if sense == "max" else -1.0
    gains = audit.lift.set_index("rival")["gain"]
    for m in range(3):
        lead = sign * (earned - payoff(member_actions(access, sense, m, NEW), Y)).mean()
        assert gains[f"m{m}"] == pytest.approx(lead, rel=1e-9)
    assert {"stack", "ridge", "mean"} <= set(gains.index)
    assert not {"refined", "patched"} & set(gains.index)


def test_an_audit_on_rows_fitted_on_proves_nothing() -> None:
    ensemble, X, Y = fitted("both"), problem().X, problem().Y
    with pytest.warns(UserWarning, match=r"400 of these 400 rows are rows the ensemble was fitted on.*proves nothing"):
        ensemble.audit(X[OLD], Y[OLD])
    with pytest.warns(UserWarning, match="100 of these 200 rows"):
        audit = ensemble.audit(X[N - 100 : N + 100], Y[N - 100 : N + 100])
    assert audit.summary["seen"].tolist() == [100]


def test_an_audit_knows_of_groups_and_time() -> None:
    ensemble, X, Y = fitted(time_ordered=True), problem().X[NEW], problem().Y[NEW]
    assert ensemble.audit(X, Y).block_length is not None
    assert ensemble.audit(X, Y, time_ordered=False).block_length is None
    grouped, plain = (ensemble.audit(X, Y, time_ordered=False, groups=g) for g in (np.arange(N) // 20, None))
    assert grouped.summary["half_width"].iloc[0] != plain.summary["half_width"].iloc[0]
    with pytest.raises(InputError, match="time_ordered must be one of None, True, False; got 'no'"):
        ensemble.audit(X, Y, time_ordered="no")  # type: ignore[arg-type]


# Sets


SETS: dict[str, feasible.FeasibleSet] = {
    "vertices": feasible.Vertices(np.random.default_rng(0).uniform(-1, 2, size=(9, 4))),
    "polytope": feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6]),
    "fractions": feasible.Knapsack([3.0, 2.0, 5.0, 1.0], 6.0),
    "knapsack": feasible.Knapsack([3.0, 2.0, 5.0, 1.0], 6.0, integer=True),
    "simplex": feasible.Simplex(4),
    "top k": feasible.TopK(4, 2),
    "risk": feasible.RiskBudget(covariance(4, seed=1), float(np.diag(covariance(4, seed=1)).min() * 0.9)),
    "oracle": feasible.Oracle(top_one, 4),
    "box": feasible.Box([-5.0, 0.0, 2.0, 0.0], [5.0, 100.0, 2.0, 1e-3]),
}


@pytest.mark.parametrize("name", SETS)
@ACCESS
def test_it_works_with_every_kind_of_set(name: str, access: str) -> None:
    omega, given = SETS[name], random_problem(2, n=500, d=4)
    given.omega = omega
    ensemble = make(access, given).fit(given.X[:250], given.Y[:250])
    X, Y = given.X[250:], given.Y[250:]
    actions = ensemble.decide(X)
    assert omega.violation(actions).max() <= 1e-6 * omega.extent
    promise, earned = ensemble.promise(X), payoff(actions, Y)
    mean = payoff(omega.argmax(np.broadcast_to(given.Y[:250].mean(axis=0), Y.shape).copy()), Y)
    assert earned.mean() > mean.mean() - 2 * stats.sem(earned - mean)
    assert promise.low - 2 * stats.sem(earned) < earned.mean() < promise.high + 2 * stats.sem(earned)


# What is unusual


def quiet(models: list[tuple[str, Any]], X: Any, Y: Any, omega: feasible.FeasibleSet) -> Ensemble:
    """Fit, and ask everything that can be asked."""
    ensemble = Ensemble(models, feasible=omega).fit(X, Y)
    promise = ensemble.promise(X)
    assert np.isfinite([promise.mean, promise.low, promise.high]).all()
    assert np.isfinite(ensemble.predict(X)).all()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rows the ensemble was fitted on")
        assert ensemble.audit(X, Y).verdict
    return ensemble


def test_labels_that_never_vary_are_promised_exactly() -> None:
    Y = np.broadcast_to([1.0, 3.0, 2.0], (N, 3))
    ensemble = quiet(problem().models, problem().X[OLD], Y, feasible.Simplex(3))
    promise = ensemble.promise(problem().X[NEW])
    assert (promise.low, promise.mean, promise.high) == pytest.approx((3.0, 3.0, 3.0))
    np.testing.assert_array_equal(ensemble.decide(problem().X[NEW]), np.broadcast_to([0.0, 1.0, 0.0], (N, 3)))


@pytest.mark.parametrize("access", ["models", "policies"])
def test_one_member(access: str) -> None:
    given = random_problem(1, n=600, k=1, omega="simplex")
    models = given.models if access == "models" else None
    policies = given.policies if access == "policies" else None
    ensemble = Ensemble(models, policies, given.omega).fit(given.X[:300], given.Y[:300])
    own = payoff(given.actions[0][300:], given.Y[300:])
    earned = payoff(ensemble.decide(given.X[300:]), given.Y[300:])
    assert earned.mean() > own.mean() - 2 * max(stats.sem(earned - own), 1e-12)


def test_identical_members_are_one() -> None:
    given = problem()
    twins = [(f"twin {i}", given.models[0][1]) for i in range(3)]
    ensemble = quiet(twins, given.X[OLD], given.Y[OLD], given.omega)
    alone = Ensemble(twins[:1], feasible=given.omega).fit(given.X[OLD], given.Y[OLD])
    agree = (ensemble.decide(given.X[NEW]) == alone.decide(given.X[NEW])).all(axis=1)
    assert agree.mean() > 0.95


def test_predictions_of_nothing_but_zero() -> None:
    zeros = [(f"zero {i}", lambda X: np.zeros((len(X), 3))) for i in range(2)]
    Y = problem().Y[OLD] + [0.0, 1.0, 0.0]
    ensemble = quiet(zeros, problem().X[OLD], Y, feasible.Simplex(3))
    np.testing.assert_array_equal(ensemble.decide(problem().X[NEW])[:, 1], 1.0)


@pytest.mark.parametrize("level", [0.1, 5.7])
def test_predictions_of_nothing_but_a_constant(level: float) -> None:
    rng = np.random.default_rng(0)
    for n in (100, 137, 400):
        Y = 1.0 + rng.normal(size=(n, 1))
        ensemble = quiet([("flat", lambda X: np.full((len(X), 1), level))], Y, Y, feasible.Box([0.0], [1.0]))
        np.testing.assert_allclose(ensemble.predict(Y), Y.mean(), rtol=1e-6)


def test_labels_and_predictions_far_from_zero() -> None:
    given = problem()
    far = [(name, lambda X, m=model: m(X) + 1e9) for name, model in given.models]
    ensemble = Ensemble(far, feasible=given.omega).fit(given.X[OLD], given.Y[OLD] + 1e9)
    agree = (ensemble.decide(given.X[NEW]) == fitted().decide(given.X[NEW])).all(axis=1)
    assert agree.mean() > 0.99


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_decisions_do_not_depend_on_units(scale: float) -> None:
    given = problem()
    scaled = [(name, lambda X, m=model: scale * m(X)) for name, model in given.models]
    ensemble = Ensemble(scaled, feasible=given.omega).fit(given.X[OLD], scale * given.Y[OLD])
    np.testing.assert_array_equal(ensemble.decide(given.X[NEW]), fitted().decide(given.X[NEW]))
    np.testing.assert_allclose(ensemble.self_assess(given.X[NEW]), scale * fitted().self_assess(given.X[NEW]))


def halves(scale: float) -> Ensemble:
    """Two models that see one part of the signal each, in some units."""
    X, noise = np.random.default_rng(0).normal(size=(2, N, 3))
    models = [("a", lambda X: scale * X * [1, 0, 0]), ("b", lambda X: scale * X * [0, 1, 1])]
    return Ensemble(models, feasible=feasible.Simplex(3)).fit(X, scale * (X + noise))


@pytest.mark.parametrize("scale", [1e-58, 1e58])
def test_what_comes_in_does_not_depend_on_units(scale: float) -> None:
    plain, scaled = halves(1.0), halves(scale)
    assert scaled.names_ == plain.names_
    assert scaled.notes_ == plain.notes_
    assert scaled.winner_ == plain.winner_


@pytest.mark.parametrize("scale", [1e61, 1e90, 1e-61, 1e-90])
def test_labels_too_large_or_too_small_for_squares_of_squares_are_refused(scale: float) -> None:
    Y = scale * problem().Y
    words = rf"the labels go up to {np.abs(Y).max():.3g}, which squares of squares cannot hold. Scale them"
    refused(make(), problem().X, Y, re.escape(words))


def test_labels_that_are_all_zero_are_not_too_small() -> None:
    ensemble = quiet(problem().models, problem().X[OLD], np.zeros((N, 3)), feasible.Simplex(3))
    assert ensemble.promise(problem().X[NEW]).mean == 0


@pytest.mark.parametrize("flat", [True, False])
def test_one_coordinate(flat: bool) -> None:
    given = random_problem(3, d=1, n=400, omega="box")
    models = [(name, lambda X, m=model: m(X)[:, 0] if flat else m(X)) for name, model in given.models]
    ensemble = quiet(models, given.X, given.Y[:, 0] if flat else given.Y, given.omega)
    assert ensemble.decide(given.X).shape == ensemble.predict(given.X).shape == (400, 1)
    assert same(answers(ensemble, given.X), answers(make("models", given).fit(given.X, given.Y), given.X))


def test_more_predictions_than_rows() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(240, 60))
    P = signal + rng.normal(size=(3, 240, 60))
    models = [(f"m{i}", lookup(p)) for i, p in enumerate(P)]
    omega = feasible.TopK(60, 5)
    ensemble = Ensemble(models, feasible=omega).fit(np.arange(120), signal[:120] + rng.normal(size=(120, 60)))
    rows = np.arange(120, 240)
    earned = payoff(ensemble.decide(rows), signal[120:])
    best = max(payoff(omega.argmax(p[120:]), signal[120:]).mean() for p in P)
    assert earned.mean() > best


def test_specialists_are_refined_into_more_than_any_of_them() -> None:
    X, Y, models = specialists(1200)
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X[:600], Y[:600])
    assert "refined" in ensemble.names_
    earned = payoff(ensemble.decide(X[600:]), Y[600:]).mean()
    alone = [payoff(feasible.Simplex(3).argmax(model(X[600:])), Y[600:]).mean() for _, model in models]
    assert earned > max(alone)
    assert not any(note.startswith("refined was left out") for note in ensemble.notes_)
    singles = np.concatenate([ensemble.predict(X[i : i + 1]) for i in range(600, 650)])
    np.testing.assert_allclose(singles, ensemble.predict(X[600:650]), rtol=1e-9, atol=1e-12)


def test_a_copy_is_a_whole_ensemble() -> None:
    copied = copy.deepcopy(fitted("both"))
    assert same(answers(copied, problem().X), answers(fitted("both"), problem().X))


def test_a_set_that_one_action_makes_up() -> None:
    omega = feasible.Vertices([[0.2, 0.3, 0.4]])
    ensemble = Ensemble(problem().models, feasible=omega).fit(problem().X[OLD], problem().Y[OLD])
    assert (ensemble.decide(problem().X[NEW]) == [0.2, 0.3, 0.4]).all()
    assert ensemble.finding_.startswith("nothing beats deciding by the mean label")


# Files


def loaded(ensemble: Ensemble, path: Path, **given: Any) -> Any:
    ensemble.save(path / "ensemble.oe")
    return oe.load(path / "ensemble.oe", **given)


@ACCESS
@SENSES
@pytest.mark.parametrize("omega", ["simplex", "polytope", "vertices"])
def test_a_loaded_ensemble_answers_to_the_last_bit(access: str, sense: str, omega: str, tmp_path: Path) -> None:
    ensemble = fitted(access, omega, sense)
    again = loaded(ensemble, tmp_path, models=ensemble.models, policies=ensemble.policies)
    assert same(state(again), state(ensemble))
    assert again.promise(problem(omega).X[NEW]) == ensemble.promise(problem(omega).X[NEW])
    for name in ("names_", "winner_", "finding_", "notes_", "n_rows_", "n_updated_", "refit_due_", "time_ordered_"):
        assert getattr(again, name) == getattr(ensemble, name), name
    pd.testing.assert_frame_equal(again.leaderboard_, ensemble.leaderboard_)
    pd.testing.assert_frame_equal(again.guarantees_, ensemble.guarantees_)
    audits = [each.audit(problem(omega).X[NEW], problem(omega).Y[NEW]) for each in (again, ensemble)]
    assert audits[0].verdict == audits[1].verdict


def test_columns_and_corrections_are_in_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(4000, 3))
    X = np.concatenate(signal + 0.5 * rng.normal(size=(2, 4000, 3)), axis=1)
    Y = signal + 0.5 * rng.normal(size=(4000, 3))
    Y[:, 0] -= 1.5 * (X[:, 3:].argmax(axis=1) == 0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    assert {"refined", "patched"} <= set(ensemble.names_)
    assert same(answers(loaded(ensemble, tmp_path), X), answers(ensemble, X))


def test_a_loaded_ensemble_is_updated_as_the_saved_one(tmp_path: Path) -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    again = loaded(ensemble, tmp_path, models=ensemble.models)
    for each in (ensemble, again):
        each.update(X[NEW], Y[NEW], groups=np.arange(N) // 4 + N)
    assert same(state(again), state(ensemble))
    assert again.promise(X[NEW]) == ensemble.promise(X[NEW])


def test_a_loaded_ensemble_has_no_rows_to_extend(tmp_path: Path) -> None:
    X, Y = problem().X, problem().Y
    again = loaded(fitted(), tmp_path, models=problem().models)
    with pytest.raises(InputError, match=r"rows this ensemble was fitted on are not in its file. Give X= and Y= too"):
        again.extend(models=[("more", problem().models[0][1])])
    with pytest.warns(UserWarning, match="it is fitted on the new rows alone"):
        again.extend(X=X[NEW], Y=Y[NEW])
    assert same(state(again), state(make().fit(X[NEW], Y[NEW])))


def test_a_loaded_ensemble_that_is_due_is_fitted_again_on_all_rows(tmp_path: Path) -> None:
    """The rows fitted on are not in its file: extend() would have only those that came since."""
    X, Y = problem().X, problem().Y
    again = loaded(fitted(), tmp_path, models=problem().models)
    with pytest.warns(RefitWarning, match=r"far from the promised .*\. Fit again, on all rows\.$"):
        again.update(X[NEW], Y[NEW] + 50)
    with pytest.warns(UserWarning, match="it is fitted on the new rows alone"):
        again.extend()
    assert same(state(again), state(make().fit(X[NEW], Y[NEW] + 50)))


@pytest.mark.parametrize("time_ordered", [True, False])
def test_folds_and_seed_are_in_the_file(time_ordered: bool, tmp_path: Path) -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], time_ordered=time_ordered, random_state=9)
    again = loaded(ensemble, tmp_path, models=problem().models)
    np.testing.assert_array_equal(again.record_.folds, ensemble.record_.folds)
    with pytest.warns(UserWarning, match="it is fitted on the new rows alone"):
        again.extend(X=X[NEW], Y=Y[NEW])
    assert same(state(again), state(make().fit(X[NEW], Y[NEW], time_ordered=time_ordered, random_state=9)))


def test_members_that_are_not_in_the_file_must_be_given(tmp_path: Path) -> None:
    fitted("both").save(tmp_path / "ensemble.oe")
    with pytest.raises(OptEnsembleError, match="m0"):
        oe.load(tmp_path / "ensemble.oe")
    with pytest.raises(OptEnsembleError, match="m2"):
        oe.load(tmp_path / "ensemble.oe", models=problem().models[:2])


# A level that moves


@pytest.mark.parametrize("m", [1, 100, N])
def test_self_assessments_are_at_the_last_level_and_a_promise_half_a_trend_beyond(m: int) -> None:
    X, Y = problem().X, problem().Y + np.linspace(0, 6, 2 * N)[:, None]
    ensemble, new = make().fit(X[OLD], Y[OLD], time_ordered=True), X[N : N + m]
    promise, assessed = ensemble.promise(new), ensemble.self_assess(new).mean()
    assert promise.note.startswith("the level has been rising steadily, which may go on or stop")
    rise = ensemble.record_.trend[0]
    assert rise == pytest.approx(6 / (2 * N), rel=0.2)
    # it stops with the last row fitted on, or goes on to the middle of the new ones
    assert promise.mean == pytest.approx(assessed + rise * m / 4, rel=1e-9)
    earned = payoff(ensemble.decide(new), Y[N : N + m]).mean()
    assert promise.low <= earned <= promise.high
