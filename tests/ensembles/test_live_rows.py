"""Rows that are open: copies of what was given, as the fit takes them, that are cut down as their labels come."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import optensemble as oe
from optensemble import feasible
from optensemble.members.validation import pick_rows
from tests.ensembles.decision import D, N, problem
from tests.ensembles.live import Diary, bits, cut, live
from tests.problems import Floats

FIRST, END, D2 = 300, 500, 2
NAMES = list("abcdef")


@cache
def world() -> tuple[Floats, Floats]:
    """Two members' forecasts, numbers that sets need, and labels."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(END + 100, D2))
    said = [signal + noise * rng.normal(size=signal.shape) for noise in (0.5, 0.9)]
    return np.hstack([*said, rng.uniform(0.5, 2.0, size=signal.shape)]), signal + 0.4 * rng.normal(size=signal.shape)


def on_names() -> list[tuple[str, Any]]:
    return [("a", oe.Columns(["a", "b"])), ("b", oe.Columns(["c", "d"]))]


def on_places() -> list[tuple[str, Any]]:
    return [("a", lambda X: np.asarray(X)[:, :2]), ("b", lambda X: np.asarray(X)[:, 2:4])]


def on_estimators() -> list[tuple[str, Any]]:
    return [("a", Ridge()), ("b", Ridge(100.0))]


MEMBERS: dict[str, Callable[[], list[tuple[str, Any]]]] = {
    "columns": on_names,
    "functions": on_places,
    "estimators": on_estimators,
}


class Tensor:
    """An array of another library: it can be indexed and read, and has no copy()."""

    def __init__(self, values: Floats) -> None:
        self.values, self.shape, self.ndim = values, values.shape, values.ndim

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Tensor:
        return Tensor(self.values[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        found = np.asarray(self.values, dtype=dtype)
        return found.copy() if copy else found


KINDS: dict[str, Callable[[Floats], Any]] = {
    "array": lambda columns: columns.T,
    "array-like": lambda columns: Tensor(columns.T),
    "pandas": lambda columns: pd.DataFrame(columns.T, columns=NAMES, copy=False),
    "pandas, by columns": lambda columns: pd.DataFrame(dict(zip(NAMES, columns, strict=True)), copy=False),
    "pandas, with an index": lambda columns: pd.DataFrame(
        columns.T, columns=NAMES, index=[f"row {at}" for at in range(columns.shape[1])], copy=False
    ),
    "polars": lambda columns: pl.DataFrame([pl.Series(*each) for each in zip(NAMES, columns, strict=True)]),
    "pyarrow": lambda columns: pa.table({name: pa.array(each) for name, each in zip(NAMES, columns, strict=True)}),
}
"""Tables that are made of an array of columns, and share its memory where they can."""


def taken(X: Any, rows: slice) -> Any:
    return X.slice(rows.start, rows.stop - rows.start) if isinstance(X, pa.Table) else X[rows]


def ensemble(
    members: list[tuple[str, Any]], X: Any, omega: feasible.FeasibleSet | None = None, **terms: Any
) -> oe.DecisionEnsemble:
    found = oe.DecisionEnsemble(members, feasible=omega or feasible.Simplex(D2), context=None, **terms)
    return found.fit(taken(X, slice(0, FIRST)), world()[1][:FIRST])


def played(fit: Any, make: Callable[[Floats], Any], *, again: bool, **terms: Any) -> oe.LiveEnsemble:
    """Rows in tables whose memory is their own, or used ``again`` by the next one; labels come two batches late."""
    (X, Y), followed, size = world(), oe.LiveEnsemble(fit, **terms), 20
    shared = np.empty((len(NAMES), size))
    for start in range(FIRST, END, size):
        room = shared if again else np.empty_like(shared)
        room[:] = X[start : start + size].T
        followed.answer(make(room), ids=range(start, start + size))
        if (late := start - 2 * size) >= FIRST:
            followed.observe(range(late, late + size), Y[late : late + size])
    return followed


# Copies


FITTED_ON = [
    *((kind, members) for kind in KINDS if not kind.startswith("array") for members in MEMBERS),
    *(("array", "functions"), ("array", "estimators"), ("array-like", "functions")),
]


@pytest.mark.parametrize(("kind", "members"), FITTED_ON)
def test_what_becomes_of_the_memory_of_a_table_does_not_matter(kind: str, members: str) -> None:
    make = KINDS[kind]
    fit = ensemble(MEMBERS[members](), make(np.ascontiguousarray(world()[0].T)))
    ours, theirs = (played(fit, make, again=again, refit=60) for again in (True, False))
    assert theirs.refits_["outcome"].tolist() == ["360 rows", "420 rows"]
    assert bits(ours) == bits(theirs)


def at_most(C: Floats, X: Any) -> Floats:
    return np.asarray((C > 0) * np.asarray(X)[:, 4:6])


LIMITS = oe.Columns(["e", "f"])
SETS: dict[str, feasible.FeasibleSet] = {
    "a box": feasible.Box(0.0, LIMITS, dimension=D2),
    "an oracle": feasible.Oracle(at_most, D2, 0.0, 3.0, rows=True, convex=True),
    "costs": feasible.WithCost(feasible.Simplex(D2), linear=LIMITS),
    "costs by a function": feasible.WithCost(feasible.Simplex(D2), linear=lambda X: np.asarray(X)[:, 4:6]),
    "costs of an oracle": feasible.WithCost(
        feasible.Oracle(at_most, D2, 0.0, 3.0, rows=True, convex=True), linear=LIMITS
    ),
}


@pytest.mark.parametrize("refit", ["never", 60])
@pytest.mark.parametrize("name", SETS)
def test_sets_of_open_rows_are_those_of_when_they_were_decided(name: str, refit: Any) -> None:
    """Foresight, payoffs and refits, though the memory of their tables is used again before labels come."""
    for make in (KINDS["pandas"], KINDS["pandas, by columns"]):
        fit = ensemble(on_names(), make(np.ascontiguousarray(world()[0].T)), SETS[name])
        ours, theirs = (played(fit, make, again=again, refit=refit) for again in (True, False))
        assert len(theirs.refits_) == (0 if refit == "never" else 2)
        assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("refit", ["never", 60])
def test_an_oracle_of_rows_in_arrays_keeps_them(refit: Any) -> None:
    make = KINDS["array"]
    fit = ensemble(on_places(), make(np.ascontiguousarray(world()[0].T)), SETS["an oracle"])
    ours, theirs = (played(fit, make, again=again, refit=refit) for again in (True, False))
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("omega", [None, "an oracle"])
@pytest.mark.parametrize("members", ["columns", "estimators"])
@pytest.mark.parametrize("kind", ["pandas", "pandas, by columns", "pandas, with an index"])
def test_rows_of_a_frame_share_no_memory_with_it(kind: str, members: str, omega: str | None) -> None:
    frame = KINDS[kind](np.ascontiguousarray(world()[0].T))
    fit = ensemble(MEMBERS[members](), frame, None if omega is None else SETS[omega])
    followed = oe.LiveEnsemble(fit)
    followed.answer(frame[FIRST : FIRST + 10])
    (batch,) = followed._ledger.batches
    assert len(batch.rows.X) == 10
    for name in batch.rows.X.columns:
        assert not np.shares_memory(batch.rows.X[name].to_numpy(), frame[name].to_numpy())


@pytest.mark.parametrize("omega", [None, "an oracle"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_rows_of_a_large_table_do_not_keep_it(kind: str, omega: str | None) -> None:
    make, X = KINDS[kind], np.ascontiguousarray(world()[0].T)
    members = on_places() if kind.startswith("array") else on_names()
    followed = oe.LiveEnsemble(ensemble(members, make(X), None if omega is None else SETS[omega]))
    columns = X.copy()
    gone, table = weakref.ref(columns), make(columns)
    followed.answer(taken(table, slice(FIRST, FIRST + 10)))
    del columns, table
    gc.collect()
    assert gone() is None
    followed.observe(range(10), world()[1][FIRST : FIRST + 10])


@pytest.mark.parametrize("kind", ["array", "pandas"])
@pytest.mark.parametrize("name", ["an oracle", "costs of an oracle"])
def test_one_open_row_of_a_large_batch_does_not_keep_the_others(name: str, kind: str) -> None:
    make, (X, Y) = KINDS[kind], world()
    members, omega = (on_names(), SETS[name]) if kind == "pandas" else (on_places(), SETS["an oracle"])
    fit = ensemble(members, make(np.ascontiguousarray(X.T)), omega)
    ours, theirs = (oe.LiveEnsemble(fit, refit="never") for _ in range(2))
    for each in (ours, theirs):
        each.answer(make(np.ascontiguousarray(X[FIRST:END].T)))
    gone = weakref.ref(ours._ledger.batches[0].rows.X)
    ours.observe(range(1, END - FIRST), Y[FIRST + 1 : END])
    gc.collect()
    assert gone() is None
    ours.observe([0], Y[[FIRST]])
    theirs.observe(range(END - FIRST), Y[FIRST:END])
    for column in ("foresight", "earned"):
        assert ours.history_[column].sum() == pytest.approx(theirs.history_[column].sum(), rel=1e-12)


# The columns and the kind of table that the fit takes


CHANGED: dict[str, Callable[[pd.DataFrame], Any]] = {
    "in another order": lambda frame: frame[list("fedcba")],
    "with an extra column": lambda frame: frame.assign(more="text"),
    "with an extra column before": lambda frame: frame.assign(more=1.0)[["more", *NAMES]],
    "with an index": lambda frame: frame.set_axis([f"row {at}" for at in frame.index]),
    "polars": pl.from_pandas,
    "polars, in another order": lambda frame: pl.from_pandas(frame[list("fedcba")]),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "array": lambda frame: frame.to_numpy(),
}
BY_NAME: list[tuple[str, Any]] = [("a", lambda X: X[["a", "b"]]), ("b", lambda X: X[["c", "d"]])]


def by_batches(fit: Any, convert: Callable[[pd.DataFrame], Any], frame: pd.DataFrame) -> oe.LiveEnsemble:
    """A live ensemble that is fitted again while every other batch is of another kind; warnings are errors."""
    followed, Y = oe.LiveEnsemble(fit, refit=60), world()[1]
    for at, start in enumerate(range(FIRST, END, 20)):
        rows = frame[start : start + 20].reset_index(drop=True)
        followed.answer(convert(rows) if at % 2 else rows, ids=range(start, start + 20))
        followed.observe(range(start, start + 20), Y[start : start + 20])
    return followed


DIFFERENT = [
    (change, members)
    for change in CHANGED
    for members in ("columns", "estimators", "by name")
    if members == "estimators" or (change != "array" and (members == "columns" or change[0] != "p"))
]


@pytest.mark.parametrize("box", ["decision", "white"])
@pytest.mark.parametrize(("change", "members"), DIFFERENT)
def test_tables_that_differ_from_those_of_the_fit_are_fitted_on_like_these(change: str, members: str, box: str) -> None:
    X, Y = world()
    frame = pd.DataFrame(X, columns=NAMES)
    models, omega = (BY_NAME if members == "by name" else MEMBERS[members]()), feasible.Simplex(D2)
    fit: Any
    if box == "decision":
        fit = oe.DecisionEnsemble(models, feasible=omega, context=None)
    else:
        fit = oe.WhiteBoxEnsemble(models, omega, validation=None, alpha=0.1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # scikit-learn, of arrays
        fit = fit.fit(frame[:FIRST], Y[:FIRST])
        ours, theirs = by_batches(fit, CHANGED[change], frame), by_batches(fit, lambda rows: rows, frame)
    assert theirs.refits_["outcome"].tolist() == ["360 rows", "420 rows", "480 rows"]
    assert ours.refits_["outcome"].tolist() == theirs.refits_["outcome"].tolist()
    later = frame[END:]
    np.testing.assert_allclose(ours.refitted_.answer(later).promised, theirs.refitted_.answer(later).promised)
    np.testing.assert_allclose(ours.history_["earned"].sum(), theirs.history_["earned"].sum())


def test_frames_after_a_fit_on_arrays_are_fitted_on() -> None:
    X, Y = world()
    fit = ensemble(on_places(), X)
    ours, theirs = (oe.LiveEnsemble(fit, refit=60) for _ in range(2))
    for start in range(FIRST, END, 20):
        rows = slice(start, start + 20)
        ours.answer(pd.DataFrame(X[rows], columns=NAMES), ids=range(start, start + 20))
        theirs.answer(X[rows], ids=range(start, start + 20))
        for each in (ours, theirs):
            each.observe(range(start, start + 20), Y[rows])
    assert len(theirs.refits_) == 3
    assert bits(ours) == bits(theirs)


# Labels one by one


def test_single_labels_of_a_large_batch_copy_nothing_until_most_have_come() -> None:
    followed = live(refit="never")
    followed.answer(problem().X[N : N + 100])
    whole = followed._ledger.batches[0].rows
    order = np.random.default_rng(0).permutation(100).tolist()
    for number, row in enumerate(order, start=1):
        followed.observe([row], problem().Y[[N + row]])
        left = sorted(order[number:])
        assert followed.open_["id"].tolist() == followed.open_["number"].tolist() == left
        if number <= 50:
            assert followed._ledger.batches[0].rows is whole
        elif left:
            (batch,) = followed._ledger.batches
            assert batch.rows is not whole
            assert len(batch.rows) <= 2 * batch.open == 2 * len(left)
            assert set(left) <= set(batch.rows.ids.tolist())
    assert followed._ledger.batches == []


def test_once_most_labels_have_come_a_batch_holds_the_open_rows_alone() -> None:
    followed = live(refit=1000)
    followed.answer(problem().X[N : N + 100])
    followed.observe(range(0, 100, 2), problem().Y[N : N + 100 : 2])
    assert len(followed._ledger.batches[0].rows) == 100
    followed.observe([1], problem().Y[[N + 1]])
    (batch,) = followed._ledger.batches
    assert batch.rows.ids.tolist() == list(range(3, 100, 2))
    assert len(batch.rows.X) == len(batch.rows.played) == batch.open == 49
    assert batch.still.all()


@settings(max_examples=25)
@having(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.sampled_from([None, 20, 75]),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_open_rows_are_those_that_are_left_in_whatever_order_labels_come(
    batches: list[int], expire_after: int | None, most: int, seed: int
) -> None:
    rng, diary = np.random.default_rng(seed), Diary(live(refit="never", expire_after=expire_after))
    waiting, gone, promised = list[int](), 0, dict[int, float]()
    for size in batches:
        start = N + len(diary.decided)
        now = list(range(start, start + min(size, expire_after or size)))
        promised |= dict(zip(now, diary.decide(now).promised.tolist(), strict=True))
        old = [row for row in waiting if expire_after is not None and now[-1] - row >= expire_after]
        gone += len(old)
        waiting = [row for row in [*waiting, *now] if row not in set(old)]
        for _ in range(int(rng.integers(0, 12))):
            here = rng.permutation(waiting)[: rng.integers(1, most + 1)].tolist()
            if here:
                diary.observe(here)
            waiting = [row for row in waiting if row not in set(here)]
            shown = diary.live.open_
            assert shown["id"].tolist() == waiting
            assert shown["number"].tolist() == [row - N for row in waiting]
            assert shown["age"].tolist() == [now[-1] - row for row in waiting]
            assert shown["promised"].tolist() == [promised[row] for row in waiting]
        assert diary.live.expired_ == gone
        assert diary.live.certificate()["open"].tolist() == [len(waiting)] * 2
    if diary.learned:
        diary.check()


def test_labels_that_come_one_by_one_lead_to_the_same_refit() -> None:
    rows = list(range(N, N + 120))
    order = np.random.default_rng(1).permutation(rows).tolist()
    single, whole = Diary(live(refit=120)), Diary(live(refit=120))
    for each in (single, whole):
        each.decide(rows)
    for row in order:
        single.observe([row])
    for part in cut(order, 40):
        whole.observe(part)
    later = pick_rows(problem().X, np.arange(2 * N - 50, 2 * N))
    assert single.live.refits_["rows"].tolist() == whole.live.refits_["rows"].tolist() == [N + 120]
    np.testing.assert_array_equal(single.live.refitted_.decide(later), whole.live.refitted_.decide(later))
    assert single.live.refitted_.decide(later).shape == (50, D)
    single.check()
