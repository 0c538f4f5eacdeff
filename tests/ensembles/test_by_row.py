"""Ensembles whose feasible set differs by row: fits, answers, audits, files, bad rows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.feasible import FeasibleSet
from tests.ensembles.decision import Ensemble
from tests.problems import Floats

D, ROWS = 4, 700
WEIGHTS = np.array([1.0, 2.0, 3.0, 1.5])
MODELS = [(name, oe.Columns(f"{name}_*")) for name in ("a", "b")]
NEW = slice(500, ROWS)


@cache
def table() -> tuple[pd.DataFrame, Floats]:
    """Two models that know half of the labels each, a budget, and bounds."""
    rng = np.random.default_rng(5)
    signal = rng.normal(size=(ROWS, D))
    known = np.array([[1.0, 1.0, 0.2, 0.2], [0.2, 0.2, 1.0, 1.0]])
    columns = {"a": signal * known[0], "b": signal * known[1], "most": rng.uniform(0.2, 1.0, (ROWS, D))}
    X = pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(D)})
    return X.assign(budget=rng.uniform(0, 6, ROWS)), signal + 0.5 * rng.normal(size=(ROWS, D))


def knapsack(**options: Any) -> FeasibleSet:
    return feasible.Knapsack(WEIGHTS, oe.Columns("budget"), **options)


def box() -> FeasibleSet:
    return feasible.Box(upper=oe.Columns("most_*"), dimension=D)


def make(omega: FeasibleSet, kind: str = "decision", **options: Any) -> Any:
    if kind == "decision":
        return Ensemble(MODELS, feasible=omega, **options)
    if kind == "white":
        return oe.WhiteBoxEnsemble(MODELS, omega, alpha=0.1, validation=None, **options)
    policies = [(name, lambda X, m=model: omega.for_rows(X).argmax(m.predict(X))) for name, model in MODELS]
    return oe.BlackBoxEnsemble(policies, omega, alpha=0.1, validation=None, **options)


@cache
def fitted(kind: str = "decision", which: str = "knapsack") -> Any:
    X, Y = table()
    return make({"knapsack": knapsack, "box": box}[which](), kind).fit(X[:500], Y[:500])


KINDS = pytest.mark.parametrize("kind", ["decision", "white", "black"])
SETS = pytest.mark.parametrize("which", ["knapsack", "box"])


@KINDS
@SETS
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_every_action_lies_in_the_set_of_its_row(kind: str, which: str) -> None:
    (X, Y), ensemble = table(), fitted(kind, which)
    new, actions = X[NEW], ensemble.decide(X[NEW]).to_numpy()
    assert (actions >= 0).all()
    if which == "knapsack":
        assert (actions @ WEIGHTS <= new["budget"] * (1 + 1e-9) + 1e-9).all()
    else:
        assert (actions <= new.filter(like="most_").to_numpy() + 1e-12).all()
    earned = (actions * Y[NEW]).sum(axis=1)
    np.testing.assert_allclose(ensemble.score(new, Y[NEW]), earned.mean(), rtol=1e-12)
    np.testing.assert_allclose(ensemble.earned(new, actions, Y[NEW]), earned, rtol=1e-12)
    np.testing.assert_allclose(ensemble.audit(new, Y[NEW]).totals.realised, earned.mean(), rtol=1e-12)


def test_the_promise_is_kept_and_the_budget_decides_it() -> None:
    (X, Y), ensemble = table(), fitted()
    assert ensemble.audit(X[NEW], Y[NEW]).totals.kept
    poor, rich = (X[NEW].assign(budget=budget) for budget in (0.5, 6.0))
    assert ensemble.promise(poor).mean < ensemble.promise(rich).mean
    assert (ensemble.decide(poor) @ WEIGHTS <= 0.5 + 1e-9).all()


def test_the_mean_label_is_solved_in_every_row() -> None:
    (X, Y), ensemble = table(), fitted()
    best = knapsack().for_rows(X[NEW]).argmax(np.repeat(Y[:500].mean(axis=0)[None], 200, axis=0))
    lift = ensemble.audit(X[NEW], Y[NEW]).lift.set_index("rival")
    gain = ensemble.score(X[NEW], Y[NEW]) - (best * Y[NEW]).sum(axis=1).mean()
    np.testing.assert_allclose(lift.loc["mean", "gain"], gain, rtol=1e-9)


@KINDS
@SETS
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_saved_ensemble_needs_nothing_more(kind: str, which: str, tmp_path: Path) -> None:
    (X, _), ensemble = table(), fitted(kind, which)
    ensemble.save(tmp_path / "e.oe")
    policies = dict(ensemble.policies) if kind == "black" else None
    loaded = oe.load(tmp_path / "e.oe", policies=policies)
    np.testing.assert_array_equal(loaded.decide(X[NEW]), ensemble.decide(X[NEW]))
    np.testing.assert_array_equal(loaded.feasible_.upper, ensemble.feasible_.upper)


def test_a_parameter_from_a_function_must_be_given_again(tmp_path: Path) -> None:
    X, Y = table()
    omega = feasible.Knapsack(WEIGHTS, lambda X: X["budget"])
    ensemble = make(omega).fit(X[:500], Y[:500])
    np.testing.assert_array_equal(ensemble.decide(X[NEW]), fitted().decide(X[NEW]))
    ensemble.save(tmp_path / "e.oe")
    with pytest.raises(InputError, match=r"feasible set \(Knapsack\) cannot be saved and must be given again"):
        oe.load(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", feasible=omega)
    np.testing.assert_array_equal(loaded.decide(X[NEW]), ensemble.decide(X[NEW]))


def test_frames_of_either_kind_and_arrays_give_the_same() -> None:
    X, Y = table()
    expected = fitted().decide(X[NEW])
    frame = pl.from_pandas(X)
    found = make(knapsack()).fit(frame[:500], Y[:500]).decide(frame[500:])
    np.testing.assert_array_equal(found, expected)
    numbered = [(name, oe.Columns([list(X.columns).index(f"{name}_{j}") for j in range(D)])) for name, _ in MODELS]
    omega = feasible.Knapsack(WEIGHTS, oe.Columns(list(X.columns).index("budget")))
    by_number = Ensemble(numbered, feasible=omega).fit(X[:500].to_numpy(), Y[:500])
    np.testing.assert_array_equal(by_number.decide(X[NEW].to_numpy()), expected)


def test_rows_that_differ_in_their_set_alone_are_not_the_same_rows() -> None:
    X, Y = table()
    ensemble = fitted()
    with pytest.warns(UserWarning, match="100 of these 100 rows are rows the ensemble was fitted on"):
        ensemble.audit(X[:100], Y[:100])
    assert ensemble.audit(X[:100].assign(budget=X["budget"][:100] + 1.0), Y[:100]).totals.seen == 0
    ensemble = make(knapsack()).fit(X[:400], Y[:400])
    ensemble.update(X[400:500], Y[400:500])
    with pytest.raises(InputError, match="were fitted on or given before"):
        ensemble.update(X[400:500], Y[400:500])


def test_update_and_extend_take_the_sets_of_their_rows() -> None:
    X, Y = table()
    ensemble = make(knapsack()).fit(X[:400], Y[:400])
    ensemble.update(X[400:500], Y[400:500])
    assert ensemble.n_updated_ == 100
    np.testing.assert_array_equal(ensemble.extend().decide(X[NEW]), fitted().decide(X[NEW]))


# Buckets between the envelope of all rows' bounds


@KINDS
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_the_box_is_that_of_all_fitting_rows_and_decide_counts_rows_beyond_it(kind: str) -> None:
    (X, _), ensemble = table(), fitted(kind, "box")
    np.testing.assert_array_equal(ensemble.feasible_.upper, X[:500].filter(like="most_").max())
    np.testing.assert_array_equal(ensemble.feasible_.lower, np.zeros(D))
    assert ensemble.answer(X[:500]).beyond == 0
    wider = X[:200].copy()
    wider.iloc[3:10, list(wider.columns).index("most_2")] = 7.5
    answer = ensemble.answer(wider)
    assert answer.beyond == 7
    assert answer.actions.max() <= 7.5
    assert not hasattr(box(), "upper")


# Bad rows


def broken(**values: Any) -> pd.DataFrame:
    X = table()[0].copy()
    for name, value in values.items():
        X.loc[17, name] = value
    return X


@KINDS
@pytest.mark.parametrize("value", [-3.0, np.nan, np.inf])
def test_a_row_without_a_set_is_named_with_its_column_and_value(kind: str, value: float) -> None:
    (_, Y), X = table(), broken(budget=value)
    rule = "of a knapsack must not be negative" if value < 0 else "must be a finite number"
    words = rf"capacity {rule}; in row 17 of \d+ it is {value:g} \(column 'budget'\)\. Correct these rows"
    with pytest.raises(InputError, match=words):
        make(knapsack(), kind).fit(X[:500], Y[:500])
    with pytest.raises(InputError, match=words):
        fitted(kind).decide(X)
    with pytest.raises(InputError, match=words):
        fitted(kind).audit(X, Y)


@KINDS
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_crossed_bounds_are_named(kind: str) -> None:
    words = r"upper must not be below lower; in row 17 of 700 it is -0.5 \(column 'most_1'\)"
    with pytest.raises(InputError, match=words):
        fitted(kind, "box").decide(broken(most_1=-0.5))


@KINDS
def test_a_missing_column_is_named(kind: str) -> None:
    words = r"capacity comes from the row, but X has no column 'budget'"
    with pytest.raises(InputError, match=words):
        fitted(kind).decide(table()[0].drop(columns="budget"))


@KINDS
def test_bad_rows_may_take_the_fallback_and_are_counted(kind: str) -> None:
    (_, Y), X = table(), broken(budget=np.nan)
    X.loc[:4, "budget"] = -1.0
    omega = knapsack(on_failure="fallback", fallback=np.zeros(D))
    words = r"6 of 500 rows have no set and take the fallback action: capacity must be a finite number; in row 17"
    with pytest.warns(FallbackWarning, match=words):
        ensemble = make(omega, kind).fit(X[:500], Y[:500])
    with pytest.warns(FallbackWarning, match="6 of 200 rows"):
        actions = ensemble.decide(X[:200]).to_numpy()
    assert not actions[[0, 1, 2, 3, 4, 17]].any()
    assert (actions[5:17].sum(axis=1) > 0).any()


def spent_on_the_best(C: Floats, X: pd.DataFrame) -> Floats:
    best: Floats = np.eye(D)[C.argmax(axis=1)]
    return best * np.asarray(X[["budget"]], dtype=np.float64)


@KINDS
def test_an_oracle_that_takes_the_rows_is_the_set_it_stands_for(kind: str) -> None:
    (X, Y), oracle = table(), feasible.Oracle(spent_on_the_best, D, upper=6.0, rows=True)
    simplex = feasible.Simplex(D, total=oe.Columns("budget"))
    ours, theirs = (make(omega, kind).fit(X[:500], Y[:500]) for omega in (oracle, simplex))
    np.testing.assert_array_equal((ours.decide(X[NEW]) > 0).sum(axis=1), 1)
    np.testing.assert_allclose(ours.decide(X[NEW]).sum(axis=1), X["budget"][NEW])
    if kind == "decision":  # the others have buckets, which the bounds decide
        np.testing.assert_array_equal(ours.decide(X[NEW]), theirs.decide(X[NEW]))
        np.testing.assert_allclose(ours.promise(X[NEW]).mean, theirs.promise(X[NEW]).mean)


@pytest.mark.parametrize("cut", [100, 499])
def test_an_oracle_sees_the_rows_of_every_batch(cut: int) -> None:
    X, Y = table()
    oracle = feasible.Oracle(spent_on_the_best, D, upper=6.0, rows=True)
    whole = make(oracle).fit(X[:500], Y[:500])
    pieces = make(oracle).fit(X[:cut], Y[:cut]).extend(X=X[cut:500], Y=Y[cut:500])
    np.testing.assert_array_equal(pieces.decide(X[NEW]), whole.decide(X[NEW]))


def test_an_oracle_of_rows_is_given_again(tmp_path: Path) -> None:
    (X, Y), oracle = table(), feasible.Oracle(spent_on_the_best, D, upper=6.0, rows=True)
    ensemble = make(oracle).fit(X[:500], Y[:500])
    ensemble.save(tmp_path / "e.oe")
    with pytest.raises(InputError, match=r"feasible set \(Oracle\) cannot be saved"):
        oe.load(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe", feasible=oracle)
    np.testing.assert_array_equal(loaded.decide(X[NEW]), ensemble.decide(X[NEW]))
