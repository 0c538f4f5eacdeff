"""Names are contracts: rows and columns in another order give the same ensemble, or an error; frames give frames."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import DataWarning, InputError
from tests.problems import Floats

pytestmark = pytest.mark.filterwarnings("ignore:the rows are in time order")  # their index only names them

N, LABELS = 160, ["price_north", "price_south"]
OMEGA = feasible.Simplex(2)
KINDS = ["decision", "white box", "black box"]
of_each_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def world(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Two payoffs, and what two vendors say of them, of days whose index is not in order."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 2))
    frame = pd.DataFrame(signal + rng.normal(size=(n, 2)), columns=LABELS)
    frame[["east_north", "east_south"]] = signal * [1, 0.2]
    frame[["west_north", "west_south"]] = signal * [0.2, 1]
    return frame.set_index(pd.date_range("2024-01-01", periods=n, name="day"))


def split(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what members see, and the labels."""
    return frame.drop(columns=LABELS), frame[LABELS]


def east(X: Any) -> Floats:
    """The first two columns, whatever they are called."""
    return np.column_stack([np.asarray(column, dtype=float) for column in columns_of(X)[:2]])


def west(X: Any) -> Floats:
    return np.column_stack([np.asarray(column, dtype=float) for column in columns_of(X)[2:4]])


def columns_of(X: Any) -> list[Any]:
    if isinstance(X, pa.Table):
        return [column.to_numpy() for column in X.columns]
    return [X[name] for name in X.columns] if hasattr(X, "columns") else list(X.T)


def make(kind: str, members: Any = (("east", east), ("west", west)), **parameters: Any) -> Any:
    policies = [(name, lambda X, model=model: OMEGA.argmax(model(X))) for name, model in members]
    if kind == "decision":
        return oe.DecisionEnsemble(list(members), [("plan", policies[0][1])], OMEGA, **parameters)
    if kind == "white box":
        return oe.WhiteBoxEnsemble(list(members), OMEGA, **parameters)
    return oe.BlackBoxEnsemble(policies, OMEGA, **parameters)


@cache
def fitted(kind: str, *, named: bool = True) -> Any:
    X, Y = split(world())
    return make(kind).fit(X if named else X.to_numpy(), Y if named else Y.to_numpy())


def require_same(ours: Any, theirs: Any, X: Any = None) -> None:
    """All numbers are the same, to the last bit."""
    X = split(world(50, 1))[0] if X is None else X
    for name in ("actions", "promised", "low", "high", "chosen", "predictions"):
        np.testing.assert_array_equal(getattr(ours.answer(X), name), getattr(theirs.answer(X), name))
    np.testing.assert_array_equal(ours.record_.realised, theirs.record_.realised)
    np.testing.assert_array_equal(ours.record_.assessed, theirs.record_.assessed)
    np.testing.assert_array_equal(ours.fingerprints_, theirs.fingerprints_)


# Fits


@pytest.mark.no_cover
@of_each_kind
def test_names_are_learned(kind: str) -> None:
    named, unnamed = fitted(kind), fitted(kind, named=False)
    assert named.labels_ == LABELS
    assert named.feature_names_in_ == ["east_north", "east_south", "west_north", "west_south"]
    assert unnamed.labels_ is None
    assert not hasattr(unnamed, "feature_names_in_")
    require_same(named, unnamed, split(world(50, 1))[0].to_numpy())


@pytest.mark.no_cover
@pytest.mark.slow
@of_each_kind
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000), columns=st.permutations(LABELS))
def test_labels_in_any_order_of_rows_are_the_same_fit(kind: str, seed: int, columns: list[str]) -> None:
    X, Y = split(world())
    again = make(kind).fit(X, Y.sample(frac=1, random_state=seed))
    require_same(again, fitted(kind))
    assert again.score(X, Y[columns].sample(frac=1, random_state=seed)) == fitted(kind).score(X, Y)


@pytest.mark.no_cover
@of_each_kind
def test_shuffled_labels_are_the_same_fit(kind: str) -> None:
    X, Y = split(world())
    require_same(make(kind).fit(X, Y.sample(frac=1, random_state=3)), fitted(kind))


@of_each_kind
def test_rows_of_other_names_are_refused(kind: str) -> None:
    X, Y = split(world())
    with pytest.raises(InputError, match=r"rows of Y and of X have different indexes: .* in Y, and .* in X"):
        make(kind).fit(X, Y.set_index(pd.date_range("2023", periods=N, freq="h")))


@of_each_kind
def test_rows_in_time_order_are_sorted_by_their_index(kind: str) -> None:
    X, Y = split(world())
    shuffled = X.sample(frac=1, random_state=5)
    expected = make(kind).fit(X, Y, time_ordered=True)
    found = make(kind).fit(shuffled, Y, time_ordered=True)
    require_same(found, expected)
    later, labels = split(world(60, 1))
    order = np.random.default_rng(0).permutation(60)
    audit, answer = found.audit_with_answer(later.iloc[order], labels)
    assert str(audit) == str(expected.audit(later, labels))
    np.testing.assert_array_equal(answer.actions, expected.answer(later).actions[order])
    pd.testing.assert_frame_equal(found.decide(later.iloc[order]), expected.decide(later).iloc[order])
    assert found.decide(later.iloc[order]).index.equals(later.index[order])


def test_updates_and_groups_are_put_in_order_too() -> None:
    X, Y = split(world())
    groups = pd.Series(np.arange(N) // 4, index=X.index)
    expected = make("decision").fit(X, Y, groups=groups, time_ordered=True)
    found = make("decision").fit(X, Y, groups=groups.sample(frac=1, random_state=0), time_ordered=True)
    require_same(found, expected)
    later, labels = split(world(60, 1))
    more = pd.Series(1000 + np.arange(60) // 4, index=later.index)
    expected.update(later, labels, groups=more)
    found.update(later.sample(frac=1, random_state=1), labels[LABELS[::-1]], groups=more.sample(frac=1, random_state=2))
    require_same(found, expected)
    found.extend()
    require_same(found, expected.extend())


# Columns


@of_each_kind
def test_columns_of_labels_in_another_order(kind: str) -> None:
    (X, Y), ensemble = split(world(60, 1)), fitted(kind)
    swapped = Y[LABELS[::-1]]
    assert str(ensemble.audit(X, swapped)) == str(ensemble.audit(X, Y))
    assert ensemble.score(X, swapped) == ensemble.score(X, Y)
    actions = ensemble.decide(X)
    expected = ensemble.earned(X, actions.to_numpy(), Y.to_numpy())
    np.testing.assert_array_equal(ensemble.earned(X, actions[LABELS[::-1]][::-1], swapped), expected)
    with pytest.raises(InputError, match=r"columns of Y are 'a', 'b', but the labels are 'price_north', 'price_south'"):
        ensemble.audit(X, Y.set_axis(["a", "b"], axis=1))


@pytest.mark.no_cover
@of_each_kind
@pytest.mark.parametrize("names", [LABELS, ["north", "south"], ["east_north", "east_south"]], ids=str)
def test_members_that_return_frames_with_swapped_columns(kind: str, names: list[str]) -> None:
    def told(model: Any) -> Any:
        return lambda X: pd.DataFrame(model(X), columns=names, index=X.index)[names[::-1]][::-1]

    def policy(model: Any) -> Any:
        return told(lambda X: OMEGA.argmax(model(X)))

    ensemble = make(kind, [("east", told(east)), ("west", told(west))])
    if kind != "white box":
        policies = {"decision": [("plan", policy(east))], "black box": [("east", policy(east)), ("west", policy(west))]}
        ensemble.policies = policies[kind]
    require_same(ensemble.fit(*split(world())), fitted(kind))


def test_members_with_other_names_are_refused() -> None:
    X, Y = split(world())
    odd = [("odd", lambda X: pd.DataFrame(east(X), columns=["up", "down"], index=X.index))]
    with pytest.raises(InputError, match=r"columns of model 'odd' are 'up', 'down', but the labels are 'price_north'"):
        oe.DecisionEnsemble(odd, feasible=OMEGA).fit(X, Y)


@of_each_kind
def test_columns_of_x_in_another_order(kind: str) -> None:
    X, Y = split(world(60, 1))
    ensemble, turned = fitted(kind), X[X.columns[::-1]].assign(extra="text")
    np.testing.assert_array_equal(ensemble.decide(turned), ensemble.decide(X))
    assert ensemble.score(turned, Y) == ensemble.score(X, Y)
    np.testing.assert_array_equal(ensemble.promise(turned).mean, ensemble.promise(X).mean)
    assert str(ensemble.audit(turned, Y)) == str(ensemble.audit(X, Y))
    assert str(ensemble.explain(turned, 3)) == str(ensemble.explain(X, 3))
    assert str(ensemble.explain(pl.from_pandas(turned), 3)) == str(ensemble.explain(X, 3))


def test_columns_of_a_table() -> None:
    X, Y = split(world())
    listed = [("east", oe.Columns(["east_north", "east_south"])), ("west", oe.Columns(["west_north", "west_south"]))]
    expected = oe.WhiteBoxEnsemble(listed, OMEGA).fit(X, Y)
    table = X[X.columns[::-1]]
    patterns = [("east", oe.Columns("east_*")), ("west", oe.Columns("west_*"))]
    require_same(oe.WhiteBoxEnsemble(patterns, OMEGA).fit(table, Y), expected)
    turned = [("east", oe.Columns(["east_south", "east_north"]))]
    with pytest.raises(InputError, match=r"model 'east' are 'east_south', 'east_north', in another order than the lab"):
        oe.WhiteBoxEnsemble(turned, OMEGA).fit(X, Y)
    with pytest.raises(InputError, match=r"policy 'east' are .* in another order.*List them in the labels' order"):
        oe.BlackBoxEnsemble(turned, OMEGA).fit(X.clip(0, 0).assign(east_north=1.0), Y)


@pytest.mark.no_cover
def test_extend_takes_rows_and_columns_in_any_order() -> None:
    X, Y = split(world())
    later, labels = split(world(120, 1))
    later = later.set_index(pd.date_range("2026", periods=120))
    labels = labels.set_index(later.index)
    turned, swapped = later[later.columns[::-1]], labels[LABELS[::-1]].sample(frac=1, random_state=1)
    for kind in ("decision", "black box"):
        expected = make(kind).fit(X, Y).extend(X=later, Y=labels)
        require_same(make(kind).fit(X, Y).extend(X=turned, Y=swapped), expected)


# Frames in, frames out


@of_each_kind
def test_a_frame_is_decided_by_a_frame(kind: str) -> None:
    X, _ = split(world(20, 1))
    ensemble = fitted(kind)
    actions = ensemble.answer(X).actions
    pd.testing.assert_frame_equal(ensemble.decide(X), pd.DataFrame(actions, columns=LABELS, index=X.index))
    assert ensemble.decide(pl.from_pandas(X)).equals(pl.DataFrame(actions, schema=LABELS))
    table = ensemble.decide(pa.Table.from_pandas(X, preserve_index=False))
    assert table.equals(pa.table(dict(zip(LABELS, actions.T.copy(), strict=True))))
    np.testing.assert_array_equal(ensemble.decide(X.to_numpy()), actions)


def test_actions_are_numbered_where_labels_have_no_names() -> None:
    X, _ = split(world(20, 1))
    assert list(fitted("decision", named=False).decide(X)) == ["action_0", "action_1"]


@of_each_kind
def test_set_output(kind: str) -> None:
    X, Y = split(world())
    ensemble = make(kind).set_output(transform="pandas")
    assert ensemble.set_output() is ensemble
    ensemble.fit(X.to_numpy(), Y)
    assert list(ensemble.decide(X.to_numpy())) == LABELS
    assert isinstance(ensemble.decide(pl.from_pandas(X)), pd.DataFrame)
    assert isinstance(ensemble.set_output(transform="polars").decide(X), pl.DataFrame)
    assert isinstance(clone(ensemble).fit(X, Y).decide(X), pl.DataFrame)
    assert isinstance(ensemble.set_output(transform="numpy").decide(X), np.ndarray)
    assert isinstance(ensemble.set_output(transform="default").decide(X), pd.DataFrame)
    with pytest.raises(InputError, match=r"transform must be None or one of 'default', .*got 'panda'. Did you mean"):
        ensemble.set_output(transform="panda")


@pytest.mark.no_cover
def test_an_ensemble_is_a_policy_of_another_one() -> None:
    X, Y = split(world())
    expected = oe.BlackBoxEnsemble([("inner", lambda X: fitted("decision").answer(X).actions)], OMEGA).fit(X, Y)
    for inner in (fitted("decision"), fitted("decision", named=False)):
        found = oe.BlackBoxEnsemble([("inner", inner)], OMEGA).fit(X, Y)
        require_same(found, expected)


@pytest.mark.no_cover
@pytest.mark.parametrize("table", ["polars", "pyarrow"])
@of_each_kind
def test_tables_of_other_libraries(kind: str, table: str) -> None:
    X, Y = split(world())
    made = pl.from_pandas if table == "polars" else lambda frame: pa.Table.from_pandas(frame, preserve_index=False)
    ensemble = make(kind).fit(made(X), made(Y))
    require_same(ensemble, fitted(kind))
    assert ensemble.labels_ == LABELS
    later, labels = split(world(60, 1))
    assert str(ensemble.audit(made(later), made(labels[LABELS[::-1]]))) == str(fitted(kind).audit(later, labels))
    assert len(ensemble.answer(made(later)).to_frame()) == 60


# Answers


@of_each_kind
def test_an_answer_as_a_frame_and_in_words(kind: str) -> None:
    X, _ = split(world(20, 1))
    answer = fitted(kind).answer(X)
    frame = answer.to_frame()
    assert list(frame) == [*(f"action_{name}" for name in LABELS), "followed", "promised", "low", "high"]
    assert frame.index.equals(X.index)
    names = np.array(fitted(kind).names_, dtype=object)[answer.chosen]
    assert frame["followed"].tolist() == names.tolist() == fitted(kind).choose(X, names=True).tolist()
    np.testing.assert_array_equal(frame.iloc[:, :2], answer.actions)
    assert isinstance(fitted(kind).answer(pl.from_pandas(X)).to_frame(), pl.DataFrame)
    assert list(fitted(kind, named=False).answer(X.to_numpy()).to_frame())[:2] == ["action_0", "action_1"]
    assert str(answer).splitlines()[0] == "20 rows, 2 coordinates"
    assert f"{names[0]} in " in str(answer)
    assert len(str(answer).splitlines()) == 3
    assert "array" not in repr(answer)
    assert len(repr(answer)) < 200


def test_an_answer_for_no_rows_in_words() -> None:
    X, _ = split(world(20, 1))
    assert str(fitted("decision").answer(X[:0])) == "0 rows, 2 coordinates"


# Words


@of_each_kind
def test_explanations_and_audits_speak_of_names(kind: str) -> None:
    X, Y = split(world(120, 1))
    ensemble = fitted(kind)
    told = ensemble.explain(X, 2)
    assert list(told.steps) == ["stage", "y_price_north", "y_price_south"]
    assert " for price_" in str(told)
    assert "action[" not in str(told)
    assert " for action[" in str(fitted(kind, named=False).explain(X.to_numpy(), 2))
    audit, numbered = ensemble.audit(X, Y + 1), fitted(kind, named=False).audit(X.to_numpy(), Y.to_numpy() + 1)
    assert set(audit.cells["coordinate"]) <= set(LABELS)
    assert audit.cells["coordinate"].tolist() == [LABELS[j] for j in numbered.cells["coordinate"]]
    for ours, theirs in ((audit.cells, numbered.cells), (audit.conditional, numbered.conditional)):
        said = [cell.replace("action[0]", LABELS[0]).replace("action[1]", LABELS[1]) for cell in theirs["cell"]]
        assert ours["cell"].tolist() == said
    assert audit.biased
    assert ", price_" in str(audit).splitlines()[1]
    assert "coordinate 0" not in audit._repr_html_()
    assert "price_north" in audit._repr_html_()


def test_tables_of_a_black_box_speak_of_names() -> None:
    cells = fitted("black box").conditional_["cell"]
    assert cells.str.contains("price_").any()
    assert not cells.str.contains("action").any()
    assert "price_" in fitted("black box").guarantees_["quantity"].iloc[-1]


def test_rows_of_files_name_their_labels(tmp_path: Path) -> None:
    world().reset_index(drop=True).to_parquet(tmp_path / "rows.parquet")
    members = [("east", oe.Columns("east_*")), ("west", oe.Columns("west_*"))]
    rows = oe.Rows(tmp_path / "rows.parquet", labels=LABELS)
    ensemble = oe.DecisionEnsemble(members, feasible=OMEGA).fit(rows)
    assert ensemble.labels_ == LABELS
    turned = oe.Rows(tmp_path / "rows.parquet", labels=LABELS[::-1])
    with pytest.raises(InputError, match=r"labels of the source are 'price_south', .*fitted on 'price_north'"):
        ensemble.extend(X=turned)


@pytest.mark.parametrize("timed", ["index", "column", "polars"])
def test_a_forgotten_time_is_told(timed: str) -> None:
    n = 200
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(n, 2))
    days = pd.date_range("2024-01-01", periods=n)
    frame = pd.DataFrame({"a_0": signal[:, 0], "a_1": signal[:, 1]})
    Y = pd.DataFrame(signal + rng.normal(size=(n, 2)), columns=["y_0", "y_1"])
    X: Any = frame.set_index(days) if timed == "index" else frame.assign(day=days)
    where = "the index of X" if timed == "index" else "the column 'day' of X"
    if timed == "polars":
        X = pl.from_pandas(X)
    labels = Y.to_numpy()
    make = partial(oe.DecisionEnsemble, [("a", oe.Columns(["a_0", "a_1"]))], feasible=oe.feasible.Simplex(2))
    with pytest.warns(DataWarning, match=f"in time order by {where}, and are taken for independent. Give time_ordered"):
        made = make().fit(X, labels)
    assert made.time_ordered_ is False
    for told in ({"time_ordered": True}, {"time_ordered": False}, {"groups": np.arange(n) // 5}):
        make().fit(X, labels, **told)
    shuffled = X.sample(frac=1, random_state=0) if timed != "polars" else X.sample(fraction=1, shuffle=True, seed=0)
    make().fit(shuffled, labels)


def test_a_set_whose_columns_are_in_another_order_than_the_labels_is_refused() -> None:
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(rng.normal(size=(120, 2)), columns=["price_north", "price_south"])
    X = pd.DataFrame(rng.uniform(1, 2, size=(120, 4)), columns=["a_north", "a_south", "most_south", "most_north"])
    wrong = feasible.Box(upper=oe.Columns(["most_south", "most_north"]))
    words = (
        "upper of the feasible set comes from the columns 'most_south', 'most_north', but the labels are 'price_north'"
    )
    models = [("a", oe.Columns(["a_north", "a_south"]))]
    with pytest.raises(InputError, match=words):
        oe.DecisionEnsemble(models, feasible=wrong).fit(X, Y)
    with pytest.raises(InputError, match=words):
        oe.WhiteBoxEnsemble(models, wrong).fit(X, Y)
    right = feasible.Box(upper=oe.Columns(["most_north", "most_south"]))
    oe.DecisionEnsemble(models, feasible=right).fit(X, Y)
