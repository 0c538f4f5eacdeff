"""Every mistake in data that is looked for is found, and told in a sentence; honest data are left in peace."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.data_sample import DataSample, Finding, beyond_chance, times
from optensemble.evaluation.data_warnings import (
    find_data_warnings,
    find_trained_on,
    merge_findings,
)
from optensemble.exceptions import DataWarning
from tests.evaluation.data_worlds import autocorrelated, honest_world, small_world
from tests.problems import Floats

WORLD = small_world()
N = len(WORLD.labels)
SAID = WORLD.predictions["a"]
AFTERWARDS = "Look among its inputs for label columns, and for columns that are known only afterwards"


def with_model(said: Floats, world: DataSample = WORLD, **changes: Any) -> DataSample:
    """The world with another model in the place of its own; what that model decides is of no matter here."""
    return replace(world, predictions={"a": said}, **changes)


def only(sample: DataSample) -> Finding:
    (found,) = find_data_warnings(sample)
    return found


def told(sample: DataSample, kind: str, *words: str) -> None:
    found = only(sample)
    assert found.kind == kind
    assert found.member == "a"
    assert found.sentence.startswith("model 'a': ")
    for each in words:
        assert each in found.sentence


# Honest data


@pytest.mark.parametrize("seed", range(20))
def test_honest_data_are_left_in_peace(seed: int) -> None:
    assert find_data_warnings(honest_world(1000 + seed)) == []


def test_too_few_rows_say_nothing() -> None:
    few = DataSample({"a": np.ones((49, 2))}, {"a": np.ones((49, 2))}, np.ones((49, 2)), feasible.Box([0, 0], [1, 1]))
    assert find_data_warnings(few) == []


def test_a_model_that_knows_next_to_nothing_is_not_taken_for_other_units() -> None:
    """A forecast of returns is a twentieth as large as returns are."""
    rng = np.random.default_rng(0)
    signal = 0.05 * rng.normal(size=(4000, 3))
    assert find_data_warnings(with_model(signal, labels=signal + rng.normal(size=(4000, 3)), actions={})) == []


# Leaks


def test_a_model_that_knows_the_labels() -> None:
    told(with_model(WORLD.labels + 1e-3), "leak", "it explains 100 % of the labels' variance", AFTERWARDS)
    noise = 0.1 * np.random.default_rng(0).normal(size=WORLD.labels.shape)  # explains 99.3 %
    assert find_data_warnings(with_model(WORLD.labels + noise)) == []


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_policy_that_knows_the_labels(sign: float) -> None:
    best = WORLD.omega.argmax(sign * WORLD.labels)
    found = only(replace(WORLD, predictions={}, actions={"plan": best}, sign=sign))
    assert (found.kind, found.member) == ("leak", "plan")
    assert (
        "policy 'plan': it earns 100 % of what labels known beforehand would earn beyond their mean" in found.sentence
    )
    assert AFTERWARDS in found.sentence
    wrong = np.arange(N) % 20 == 0
    nearly = np.where(wrong[:, None], WORLD.actions["plan"], best)
    assert find_data_warnings(replace(WORLD, predictions={}, actions={"plan": nearly}, sign=sign)) == []


def test_a_policy_is_right_where_nothing_else_can_be_done() -> None:
    """Foresight gains nothing where one action is always best: following it is no leak."""
    labels = WORLD.labels + np.array([20.0, 0.0, 0.0])
    best = WORLD.omega.argmax(labels)
    kinds = [
        each.kind for each in find_data_warnings(replace(WORLD, labels=labels, actions={"p": best}, predictions={}))
    ]
    assert kinds == ["nothing to decide"]


# Rows a model was trained on


def test_the_first_rows_were_trained_on() -> None:
    fitted = np.where(np.arange(N)[:, None] < 0.3 * N, WORLD.labels + 0.2 * (SAID - WORLD.labels), SAID)
    told(
        with_model(fitted), "trained", "in the first 30 % of the rows are 2", "times smaller than in the others", "Fit"
    )
    exact = np.where(np.arange(N)[:, None] < 0.5 * N, WORLD.labels, SAID)
    told(with_model(exact), "trained", "in the first 50 % of the rows are almost nothing")


def test_errors_that_grow_are_the_world_s() -> None:
    growing = np.linspace(0.1, 3, N)[:, None] * np.random.default_rng(0).normal(size=WORLD.labels.shape)
    assert find_data_warnings(with_model(SAID, labels=SAID + growing)) == []


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"oob_score_": 0.5}, "but only 0.50 out of bag"),
        ({"best_score_": 0.5, "scoring": "r2"}, "but only 0.50 in its own cross-validation"),
        ({"best_score_": -3.0, "scoring": None}, "but only 0.00 in its own cross-validation"),
    ],
)
def test_records_of_models_are_read(model: dict[str, Any], words: str) -> None:
    (found,) = find_trained_on([("m", SimpleNamespace(**model))], [0.9])
    assert (found.kind, found.member) == ("trained", "m")
    assert found.sentence.startswith(f"model 'm' explains 0.90 of these labels' variance, {words}: these look like the")
    assert find_trained_on([("m", SimpleNamespace(**model))], [0.4]) == []


@pytest.mark.parametrize(
    "model", [{"best_score_": -9.0, "scoring": "neg_mean_squared_error"}, {"best_score_": {"l2": 1.0}}, {}]
)
def test_other_scores_are_not_compared(model: dict[str, Any]) -> None:
    assert find_trained_on([("m", SimpleNamespace(**model))], [0.9]) == []


def test_a_model_s_own_record_explains_a_leak() -> None:
    own = Finding("trained", "…", "a")
    others = [Finding("leak", "…", "a"), Finding("leak", "…", "b"), Finding("units", "…", "a")]
    assert merge_findings([own], others) == (own, *others[1:])


# Other rows, other columns, other signs


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_predictions_of_later_rows(lag: int) -> None:
    row = "row" if lag == 1 else "rows"
    told(with_model(np.roll(SAID, -lag, axis=0)), "shifted", f"labels of {lag} {row} later", f"shifted by {lag} {row}?")
    told(
        with_model(np.roll(SAID, lag, axis=0)), "shifted", f"labels of {lag} {row} earlier", f"shifted by {lag} {row}?"
    )


def test_to_repeat_the_labels_of_yesterday_is_a_forecast_where_labels_go_on() -> None:
    labels = autocorrelated(600, 2, 0.5, np.random.default_rng(0))
    world = DataSample({"a": np.roll(labels, 1, axis=0)}, {}, labels, feasible.Simplex(2))
    assert find_data_warnings(world) == []
    ahead = replace(world, predictions={"a": np.roll(labels, -1, axis=0) + 0.1})
    assert only(ahead).kind == "shifted"


@pytest.mark.parametrize("order", [[1, 0, 2], [1, 2, 0], [2, 1, 0]])
def test_columns_in_another_order(order: list[int]) -> None:
    moved = sum(j != k for j, k in enumerate(order))
    first = next(j for j, k in enumerate(order) if j != k)
    words = (
        f"{moved} of its 3 columns correlate better",
        f"of label 'y{first}' has 0.",
        f"with label 'y{order[first]}'",
    )
    told(with_model(SAID[:, order]), "order", *words, "Check their order")


def test_columns_that_are_all_alike_have_no_order() -> None:
    """They go with the label that has most of what they know, all of them."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=(600, 1))
    labels = level + [0.3, 1.0, 2.0] * rng.normal(size=(600, 3))
    assert find_data_warnings(with_model(np.repeat(level, 3, axis=1), labels=labels, actions={})) == []
    alike = np.repeat(level, 3, axis=1) + 1e-3 * rng.normal(size=(600, 3))
    assert find_data_warnings(with_model(level + rng.normal(size=(600, 3)), labels=alike, actions={})) == []


def test_the_other_sign() -> None:
    told(
        with_model(5 - SAID + 5),
        "sign",
        "go against the labels, with a correlation of −0.8",
        "a cost given for a payoff?",
    )


# Units


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1000.0, "about 1,000 times as large"), (0.001, "about 1,000 times as small"), (25.0, "about 25 times as large")],
)
def test_other_units(factor: float, words: str) -> None:
    told(with_model(factor * SAID), "units", f"its predictions are {words} as the labels. Check units")


def test_other_units_of_some_labels() -> None:
    told(with_model(SAID * [1, 100, 1]), "units", "of label 'y1' are about 100 times as large as the labels")
    told(with_model(SAID * [1, 0.01, 0.01]), "units", "of label 'y1' and 1 more are about 100 times as small")


def test_a_ratio_is_told_as_a_power_of_ten_where_it_is_near_one() -> None:
    assert times(850.0) == "about 1,000 times"
    assert times(50.0) == "about 50 times"


@pytest.mark.parametrize("function", ["exp", "expm1"])
def test_logarithms(function: str) -> None:
    labels = np.exp(WORLD.labels) if function == "exp" else np.maximum(np.expm1(WORLD.labels - 3), 0)
    said = SAID if function == "exp" else np.maximum(SAID - 3, 0)
    told(with_model(said, labels=labels, actions={}), "logarithm", "labels' logarithm", f"hand on {function}()")


# Values


def test_a_model_that_says_the_same_in_all_rows() -> None:
    told(with_model(np.full_like(SAID, 5.0)), "constant", "says the same in all rows")
    told(with_model(np.full_like(SAID, 0.1) + SAID[0]), "constant", "says the same in all rows")


def test_a_policy_that_does_nothing() -> None:
    omega = feasible.Knapsack([1.0, 1.0, 1.0], 1.5)
    idle = {"a": omega.argmax(SAID - 5), "plan": np.zeros_like(SAID)}
    found = only(replace(WORLD, omega=omega, actions=idle))
    assert (found.kind, found.member) == ("idle", "plan")
    assert "does nothing, its actions are 0 in all rows" in found.sentence
    steady = idle | {"plan": np.broadcast_to([0.0, 0.0, 1.0], SAID.shape)}
    assert find_data_warnings(replace(WORLD, omega=omega, actions=steady)) == []


@pytest.mark.parametrize(
    ("value", "shown"), [(-999.0, "−999"), (9999.0, "9999"), (1e20, "1e+20"), (-12345.0, "−12345")]
)
def test_codes_for_missing_values(value: float, shown: str) -> None:
    rare = np.arange(N) % 200 == 7
    words = f"label 'y1' is {shown} in 3 of 600 rows, far from all others"
    told(
        with_model(np.where(rare[:, None] & np.eye(3, dtype=bool)[1], value, SAID)),
        "missing",
        f"its prediction of {words}",
    )
    labels = np.where(rare[:, None] & np.eye(3, dtype=bool)[1], value, WORLD.labels)
    found = only(replace(WORLD, labels=labels, actions={"plan": WORLD.actions["plan"]}, predictions={}))
    assert (found.kind, found.member) == ("missing", None)
    assert found.sentence.startswith(words)


def test_zero_for_a_missing_value() -> None:
    rare = np.arange(N)[:, None] % 20 == 0
    words = "of label 'y1' is 0 in 30 of 600 rows, in which that label is "
    told(with_model(np.where(rare & [False, True, False], 0.0, SAID)), "missing", words, "give NaN")
    night = np.where(rare, 0.0, WORLD.labels)  # a zero that came true
    assert find_data_warnings(with_model(np.where(rare, 0.0, SAID), labels=night, actions={})) == []
    about_zero = replace(WORLD, labels=WORLD.labels - 5, actions={})
    assert find_data_warnings(with_model(np.where(rare, 0.0, SAID - 5), about_zero)) == []


def test_rare_events_are_no_codes() -> None:
    labels = np.where(np.arange(N)[:, None] % 150 == 3, 1.0, 0.0) * [1, 2, 3]
    assert find_data_warnings(replace(WORLD, predictions={}, actions={}, labels=labels)) == []


def test_copies() -> None:
    copied = {"a": SAID, "b": SAID * (1 + 1e-12)}
    found = only(replace(WORLD, predictions=copied, actions=dict(WORLD.actions)))
    assert found == Finding(
        "copy", "model 'b' predicts the same as 'a' in all rows. Look whether one of them was given twice", "b"
    )
    found = only(replace(WORLD, actions={**WORLD.actions, "again": WORLD.actions["plan"]}))
    assert found.sentence.startswith("policy 'again' decides the same as 'plan' in all rows")


def test_labels_that_are_constant_or_there_twice() -> None:
    constant, twice = WORLD.labels * [1, 0, 1], WORLD.labels[:, [0, 1, 0]]
    assert only(replace(WORLD, labels=constant)).sentence.startswith("label 'y1' is the same in all 600 rows, 0.")
    found = [each for each in find_data_warnings(replace(WORLD, labels=twice)) if each.member is None]
    assert [each.kind for each in found] == ["same labels"]
    assert found[0].sentence.startswith("label 'y0' and label 'y2' are equal in all 600 rows")


def test_errors_far_larger_than_the_labels_spread() -> None:
    told(with_model(SAID + 20), "errors", "times the labels' variance. Check columns, levels and outliers")


# Decisions and sets


def test_predictions_that_are_decisions() -> None:
    told(with_model(WORLD.actions["plan"]), "decisions", "feasible decisions in every row", "among the policies")


def test_predictions_within_wide_bounds_are_no_decisions() -> None:
    wide = feasible.Box([-100.0] * 3, [100.0] * 3)
    assert find_data_warnings(replace(WORLD, omega=wide)) == []


def test_a_set_without_constraints() -> None:
    found = only(replace(WORLD, omega=feasible.Polytope(lower=[-9, -9, -9], upper=[1, 1, 1])))
    assert "no constraint beside its bounds" in found.sentence


def test_nothing_to_decide() -> None:
    same = {name: np.broadcast_to([0.0, 1.0, 0.0], SAID.shape) for name in ("a", "plan")}
    assert "every member decides the same in all rows" in only(replace(WORLD, actions=same)).sentence


# Rows without an answer, and many rows


def test_rows_without_an_answer_are_left_out() -> None:
    gap = np.arange(N) % 3 == 0
    said = np.where(gap[:, None], np.nan, SAID)
    assert find_data_warnings(with_model(said, absent={"a": gap})) == []
    leaked = np.where(gap[:, None], np.nan, WORLD.labels)
    told(with_model(leaked, absent={"a": gap}), "leak")


def test_of_many_rows_the_first_are_looked_at() -> None:
    long = small_world(n=1 << 17, d=2)
    assert len(long.first().labels) == 1 << 16
    late = np.where(np.arange(1 << 17)[:, None] < 1 << 16, long.predictions["a"], 0.0)
    assert find_data_warnings(replace(long, predictions={"a": late})) == []


def test_standard_errors_allow_for_neighbours_that_go_together() -> None:
    rng = np.random.default_rng(0)
    alone, together = rng.normal(size=10_000), np.repeat(rng.normal(size=100), 100)
    assert abs(beyond_chance(alone + 0.1)) > 5
    assert abs(beyond_chance(together + 0.1)) < 4


# In fits


def fit(kind: Any, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    Y = pd.DataFrame(X + rng.normal(size=(400, 3)), columns=["north", "east", "south"])
    shifted = lambda X: X[:, [1, 0, 2]]  # noqa: E731
    if kind is oe.DecisionEnsemble:
        ensemble = kind([("a", lambda X: 0.5 * X), ("b", shifted)], feasible=feasible.Simplex(3), **options)
    elif kind is oe.WhiteBoxEnsemble:
        ensemble = kind([("a", lambda X: 0.5 * X), ("b", shifted)], feasible.Simplex(3), **options)
    else:
        follow = feasible.Simplex(3).argmax
        ensemble = kind([("a", lambda X: follow(X[:, ::-1]))], feasible.Simplex(3), init=shifted, **options)
    return ensemble, X, Y


@pytest.mark.parametrize("kind", [oe.DecisionEnsemble, oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_fits_warn_once_at_the_user_s_call(kind: Any, sense: str) -> None:
    ensemble, X, Y = fit(kind, sense=sense)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble.fit(X, Y)
    (warning,) = caught
    assert issubclass(warning.category, DataWarning)
    assert warning.filename == __file__
    assert ensemble.data_warnings_ == [str(warning.message)]
    assert "2 of its 3 columns correlate better" in str(warning.message)
    assert "label 'north'" in str(warning.message)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_what_was_told_is_not_told_again() -> None:
    ensemble, X, Y = fit(oe.DecisionEnsemble)
    with pytest.warns(DataWarning, match="model 'b'"):
        ensemble.fit(X[:200], Y[:200])
    ensemble.update(X[200:], Y[200:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble.extend()
    assert len(ensemble.data_warnings_) == 1
    with pytest.warns(DataWarning, match="model 'c': it says the same") as caught:
        ensemble.extend(models=[("c", lambda X: 0 * X)])
    assert len(caught) == 1
    with pytest.warns(DataWarning) as caught:
        ensemble.fit(X, Y)
    assert len(caught) == len(ensemble.data_warnings_) == 2
