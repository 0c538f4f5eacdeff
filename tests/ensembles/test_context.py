"""The context correction: let in where columns of X tell of the stack's errors, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import optensemble as oe
import optensemble.stacking.context as context_module
from optensemble import feasible
from optensemble.exceptions import DataWarning, FileError, InputError
from optensemble.members.context import Context
from optensemble.stacking.context import CONTEXT_ROWS, FEWEST_ROWS, LABEL_NUMBERS, SEEN_NUMBERS, context_rows
from optensemble.stacking.forest import MOST_LABELS, Forest
from tests.fuzz_files import Content
from tests.problems import Floats

D = 3
OMEGA = feasible.Simplex(D)


def world(n: int = 800, told: float = 1.5, seed: int = 0) -> tuple[pd.DataFrame, Floats]:
    """Members know one part of the labels; the other is a function of two columns, as large as ``told``."""
    rng = np.random.default_rng(seed)
    signal, x = rng.normal(size=(n, D)), rng.uniform(-1, 1, size=(n, 2))
    hidden = told * np.stack([x[:, 0] * x[:, 1] * 3, np.sin(3 * x[:, 0]), np.abs(x[:, 1])], axis=1)
    Y = signal + hidden + 0.5 * rng.normal(size=(n, D))
    table = pd.DataFrame(x, columns=["x_0", "x_1"])
    for name, scale in (("a", 0.5), ("b", 0.8)):
        table[[f"{name}_{j}" for j in range(D)]] = signal + scale * rng.normal(size=(n, D))
    return table, Y


def make(**parameters: Any) -> oe.DecisionEnsemble:
    return oe.DecisionEnsemble([("a", oe.Columns("a_*")), ("b", oe.Columns("b_*"))], feasible=OMEGA, **parameters)


X, Y = world(1600)
FIT, NEW = slice(0, 800), slice(800, 1600)


def test_it_is_let_in_where_it_tells_something() -> None:
    aware, plain = (make(context=context).fit(X[FIT], Y[FIT]) for context in ("auto", None))
    assert "context" in aware.names_
    assert "refined" not in aware.names_  # of two corrections of the stack one is kept
    assert "context" not in plain.names_
    assert aware.score(X[NEW], Y[NEW]) > plain.score(X[NEW], Y[NEW]) + 0.1
    promise = aware.promise(X[NEW])
    assert promise.low < aware.score(X[NEW], Y[NEW]) < promise.high
    told = aware.explain(X[NEW], row=3)
    assert "context" in str(told)


def test_it_is_left_out_where_it_tells_nothing() -> None:
    noise, labels = world(400, told=0.0)
    ensemble = make().fit(noise, labels)
    assert "context" not in ensemble.names_
    why = ensemble.leaderboard_.set_index("candidate").loc["context", "why"]
    assert why == "the out-of-fold loss did not fall"
    plain = make(context="off").fit(noise, labels)
    assert np.array_equal(ensemble.decide(noise), plain.decide(noise))


def test_in_time_order_there_is_none() -> None:
    ensemble = make(context=["x_0", "x_1"]).fit(X[FIT], Y[FIT], time_ordered=True)
    assert "context" not in [*ensemble.leaderboard_["candidate"]]


def test_columns_may_be_named() -> None:
    for context in (["x_0", "x_1"], "x_*"):
        assert np.array_equal(make(context=context).fit(X[FIT], Y[FIT]).decide(X[NEW]), fitted().decide(X[NEW]))
    with pytest.raises(InputError, match=r"X has no column 'z'."):
        make(context=["z"]).fit(X[FIT], Y[FIT])


def fitted() -> oe.DecisionEnsemble:
    return make().fit(X[FIT], Y[FIT])


def test_columns_of_members_labels_and_roles_are_no_context() -> None:
    roles = X[FIT].assign(weight=1.0, group=np.arange(800) // 2, y_0=Y[FIT, 0], text="a")
    labels = pd.DataFrame(Y[FIT], columns=["y_0", "y_1", "y_2"], index=roles.index)
    roles["id"] = np.arange(800)
    ensemble = make().fit(roles, labels, sample_weight="weight", groups="group", ids="id")
    assert ensemble._context_columns == ("x_0", "x_1")
    table = roles[["x_0", "x_1", "id", "weight", "group"]].to_numpy()
    same = oe.DecisionEnsemble([("a", lambda X: X[:, [0, 1, 0]])], feasible=OMEGA)
    same.fit(table, Y[FIT], ids=2, sample_weight=np.int64(3), groups=-1)
    assert same._context_columns == (0, 1)


def test_arrays_have_a_context_too() -> None:
    functions = [("a", lambda X: X[:, 2:5]), ("b", lambda X: X[:, 5:8])]
    ensemble = oe.DecisionEnsemble(functions, feasible=OMEGA).fit(X[FIT].to_numpy(), Y[FIT])
    assert "context" in ensemble.names_
    assert ensemble._context_columns == tuple(range(8))


def test_a_label_is_no_context_and_told_if_it_is_named() -> None:
    leaking = X[FIT].assign(later=2 * Y[FIT, 1] + 1)
    assert make().fit(leaking, Y[FIT])._context_columns == ("x_0", "x_1")
    with pytest.warns(DataWarning, match="column 'later' of the context explains 100 % of a label's variance"):
        make(context=["later"]).fit(leaking, Y[FIT])


def test_missing_and_infinite_values_are_taken_for_medians_and_large_numbers() -> None:
    gaps = X.copy()
    gaps.loc[::7, "x_0"] = np.nan
    gaps.loc[1::97, "x_1"] = np.inf
    ensemble = make().fit(gaps[FIT], Y[FIT])
    assert "context" in ensemble.names_
    assert np.isfinite(ensemble.predict(gaps[NEW])).all()
    filled = gaps[NEW].fillna({"x_0": gaps.loc[FIT.start : FIT.stop - 1, "x_0"].median()})
    assert np.array_equal(ensemble.decide(gaps[NEW]), ensemble.decide(filled))


def test_a_column_of_infinite_values_of_both_signs_has_a_median() -> None:
    column = np.repeat([np.inf, -np.inf], 50)[:, None]
    found = Context.learn([0], column)
    assert found is not None
    assert np.isfinite(found(np.array([[np.nan], [np.inf]]))).all()


def test_it_goes_on_with_an_extension_and_into_a_file(tmp_path: Any) -> None:
    ensemble = fitted()
    ensemble.save(tmp_path / "e.oe")
    loaded = oe.load(tmp_path / "e.oe")
    assert np.array_equal(loaded.predict(X[NEW]), ensemble.predict(X[NEW]))
    assert loaded.context == "auto"
    for each in (ensemble, loaded):
        each.extend(X=X[NEW], Y=Y[NEW])
    assert np.array_equal(loaded.predict(X), ensemble.predict(X))
    assert np.array_equal(loaded.predict(X), make().fit(X, Y).predict(X))


def test_files_and_threads_give_the_same_bits(tmp_path: Any) -> None:
    table = X[FIT].assign(**{f"y_{j}": Y[FIT, j] for j in range(D)})
    table.to_parquet(tmp_path / "rows.parquet")
    rows = oe.Rows(tmp_path / "rows.parquet", labels="y_*")
    assert "context" not in make().fit(rows).names_  # of files only columns that are named
    ensemble = make(context="x_*").fit(rows)
    assert "context" in ensemble.names_
    assert np.array_equal(ensemble.predict(X[NEW]), fitted().predict(X[NEW]))
    assert np.array_equal(make().fit(X[FIT], Y[FIT], n_jobs=2).predict(X[NEW]), fitted().predict(X[NEW]))


def test_weights_and_absent_members_go_with_it() -> None:
    weights = np.random.default_rng(0).integers(1, 3, 800)
    gaps = X[FIT].copy()
    gaps.loc[::5, ["b_0", "b_1", "b_2"]] = np.nan
    ensemble = make().fit(gaps, Y[FIT], sample_weight=weights)
    assert "context" in ensemble.names_
    assert ensemble.score(X[NEW], Y[NEW]) > make(context=None).fit(gaps, Y[FIT], sample_weight=weights).score(
        X[NEW], Y[NEW]
    )


# What it costs


def test_few_columns_and_labels_are_looked_at_in_the_same_rows_as_ever() -> None:
    assert {context_rows(p, d) for p in (1, 20) for d in (1, 10)} == {CONTEXT_ROWS}


@settings(max_examples=200)
@given(st.integers(1, 5000), st.integers(1, 5000))
def test_what_trees_look_at_is_bounded_however_many_columns_and_labels_there_are(p: int, d: int) -> None:
    rows = context_rows(p, d)
    assert rows <= CONTEXT_ROWS
    if rows > FEWEST_ROWS:
        assert rows * (p + min(d, MOST_LABELS)) <= SEEN_NUMBERS
        assert rows * d <= LABEL_NUMBERS
    assert rows >= context_rows(p + 1, d)
    assert rows >= context_rows(p, d + 1)


def test_forests_are_grown_on_no_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_module, "SEEN_NUMBERS", 400 * (2 + D))
    grown = list[int]()

    def grow(columns: Floats, *others: Any, **options: Any) -> Forest:
        grown.append(len(columns))
        return known(columns, *others, **options)

    known = Forest.grow
    monkeypatch.setattr(Forest, "grow", grow)
    ensemble = fitted()
    assert max(grown) == grown[-1] == 400
    assert sum(grown[:-1]) == 400 * (len(grown) - 2)  # each without a fold
    other = make().fit(X[:300], Y[:300], n_jobs=2)
    other.extend(X=X[300:800], Y=Y[300:800])
    assert np.array_equal(other.predict(X[NEW]), ensemble.predict(X[NEW]))


# A stranger's file


def _entry(name: str, value: Any) -> Any:
    def change(content: Content) -> None:
        content.arrays[name] = content.arrays[name].copy()
        content.arrays[name].flat[0] = value

    return change


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (_entry("forest/feature", 10**6), "forest/feature"),
        (_entry("forest/feature", -2), "forest/feature"),
        (_entry("forest/left", 0), "forest/left must lead from every root to a leaf"),
        (_entry("forest/right", 10**9), "forest/right"),
        (_entry("forest/roots", -1), "forest/roots"),
        (_entry("forest/threshold", np.nan), "forest/threshold"),
        (_entry("forest/values", np.inf), "forest/values"),
        (_entry("context/fill", np.nan), "context/fill"),
        (lambda content: content.document["context"].update(decides=["x_0"]), "context/fill"),
        (lambda content: content.document["context"].update(columns=["x_0", "x_0"]), "context.columns"),
        (lambda content: content.document.update(cross_fitted=["nobody"]), "cross_fitted"),
        (lambda content: content.document.update(cv=1), "cv"),
    ],
)
def test_trees_that_would_lead_astray_are_refused(change: Any, part: str, tmp_path: Any) -> None:
    fitted().save(tmp_path / "e.oe", keep_rows=False)
    content = Content.of(tmp_path / "e.oe")
    change(content)
    content.write(tmp_path / "wrong.oe")
    with pytest.raises(FileError, match=part):
        oe.load(tmp_path / "wrong.oe")
