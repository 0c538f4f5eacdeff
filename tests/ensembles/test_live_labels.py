"""Labels find their rows: by ids of every kind, by the index of a frame, and their columns by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import DataWarning, InputError
from optensemble.monitoring.monitor import Monitor
from tests.ensembles import test_weights as weighted
from tests.ensembles.decision import N, problem
from tests.ensembles.live import LABELS, bits, fitted_on_columns, live, named, table
from tests.problems import random_problem

X, Y = problem().X, problem().Y
SIZE = 12
SHUFFLED = np.random.default_rng(3).permutation(SIZE)


# Ids


TOO_LARGE: dict[str, Any] = {
    "an array": np.array([1, 2**63], dtype=np.uint64),
    "the largest": np.array([2**64 - 1, 5], dtype=np.uint64),
    "a number of numpy": [np.uint64(2**63), 1],
    "a column": pd.Series([2**64 - 1, 1], dtype="uint64"),
    "in a tuple": [("a", np.uint64(2**64 - 1)), ("a", 1)],
}
SPANS: dict[str, Any] = {
    "an array": np.array([1, 2], dtype="timedelta64[D]"),
    "a gap": np.array([1, "NaT"], dtype="timedelta64[ns]"),
    "of numpy": [np.timedelta64(1, "D"), np.timedelta64(2, "D")],
    "of pandas": [pd.Timedelta("1D"), pd.Timedelta("2D")],
    "a column": pd.Series(pd.to_timedelta(["1D", "2D"])),
    "an index": pd.to_timedelta(["1D", "2D"]),
    "in a tuple": [("a", np.timedelta64(1, "D")), ("a", 1)],
}


@pytest.mark.parametrize(
    "given", [*TOO_LARGE.values(), *SPANS.values()], ids=[*TOO_LARGE, *(f"{k}: span" for k in SPANS)]
)
def test_ids_that_would_be_taken_for_others_are_refused(given: Any) -> None:
    """Numbers beyond 64 bits with a sign, and lengths of time, which have a unit."""
    followed = live(refit="never")
    before = bits(followed)
    with pytest.raises(InputError, match="ids must be strings, numbers, timestamps or tuples of these"):
        followed.answer(X[:2], ids=given)
    assert bits(followed) == before
    followed.answer(X[:2], ids=[1, -1])
    with pytest.raises(InputError, match="ids must be strings, numbers, timestamps or tuples of these"):
        followed.observe(given, Y[:2])
    assert followed.rows_ == 0


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("listed", [False, True])
def test_numbers_without_a_sign_are_numbers(kind: Any, listed: bool) -> None:
    ids = np.array([3, 7, 200], dtype=kind)
    for ours, theirs in ((ids, [3, 7, 200]), ([3, 7, 200], ids)):
        followed = live(refit="never")
        followed.answer(X[:3], ids=list(ours) if listed else ours)
        followed.observe(list(theirs) if listed else theirs, Y[:3])
        assert followed.rows_ == 3


def test_the_largest_number_with_a_sign_is_an_id_whatever_its_type() -> None:
    followed = live(refit="never")
    followed.answer(X[:2], ids=np.array([2**63 - 1, 0], dtype=np.uint64))
    followed.observe([0, 2**63 - 1], Y[:2])
    assert followed.rows_ == 2


# The index of labels


IDS: dict[str, Callable[[], pd.Index]] = {
    "text": lambda: pd.Index([f"order {at}" for at in range(SIZE)]),
    "numbers": lambda: pd.Index(np.arange(500, 500 + SIZE)),
    "a range": lambda: pd.RangeIndex(500, 500 + SIZE),
    "times": lambda: pd.date_range("2026-01-01", periods=SIZE, freq="7min"),
    "times with a zone": lambda: pd.date_range("2026-01-01", periods=SIZE, freq="h", tz="Europe/Berlin"),
    "tuples": lambda: pd.MultiIndex.from_tuples([(f"shop {at % 3}", at) for at in range(SIZE)]),
    "tuples with times": lambda: pd.MultiIndex.from_product(
        [["a", "b"], pd.date_range("2026-01-01", periods=SIZE // 2, freq="D")]
    ),
    "days": lambda: pd.Index([pd.Timestamp("2026-01-01").date() + pd.Timedelta(days=at) for at in range(SIZE)]),
}


def answered(ids: Any, **terms: Any) -> oe.LiveEnsemble:
    """Rows with ids whose labels have names."""
    followed = oe.LiveEnsemble(fitted_on_columns(), **{"refit": "never", **terms})
    followed.answer(table(slice(N, N + SIZE)), ids=ids)
    return followed


def labels() -> pd.DataFrame:
    return named(slice(N, N + SIZE))


@pytest.mark.parametrize("name", IDS)
def test_labels_are_put_in_the_order_of_ids_where_their_index_holds_these(name: str) -> None:
    index = IDS[name]()
    given = labels().set_axis(index).iloc[SHUFFLED]
    plain, found, same = (answered(list(index)) for _ in range(3))
    plain.observe(list(index), Y[N : N + SIZE])
    found.observe(list(index), given)
    same.observe(given.index, given)
    assert bits(found) == bits(same) == bits(plain)


@pytest.mark.parametrize("name", ["text", "times", "tuples"])
def test_labels_as_a_series_are_put_in_the_order_of_ids(name: str) -> None:
    given = random_problem(1, n=400, d=1, k=2, omega="box")
    fit = oe.DecisionEnsemble(given.models, feasible=given.omega).fit(
        given.X[:300], pd.Series(given.Y[:300, 0], name="y")
    )
    index, rows = IDS[name](), slice(300, 300 + SIZE)
    ours, theirs = (oe.LiveEnsemble(fit, refit="never") for _ in range(2))
    for each in (ours, theirs):
        each.answer(given.X[rows], ids=list(index))
    ours.observe(list(index), pd.Series(given.Y[rows, 0], index=index, name="y").iloc[SHUFFLED])
    theirs.observe(list(index), given.Y[rows])
    assert bits(ours) == bits(theirs)


@settings(max_examples=20)
@having(st.permutations(range(SIZE)), st.permutations(range(SIZE)), st.sampled_from(sorted(IDS)))
def test_ids_and_labels_may_be_in_any_two_orders(one: list[int], other: list[int], name: str) -> None:
    index = IDS[name]()
    ours, theirs = (answered(list(index)) for _ in range(2))
    ours.observe([index[at] for at in one], labels().set_axis(index).iloc[other])
    theirs.observe(list(index), labels())
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("name", ["text", "times", "times with a zone", "tuples", "days"])
def test_an_index_that_holds_some_of_the_ids_and_not_others_is_refused(name: str) -> None:
    index = IDS[name]()
    followed = answered(list(index))
    before = bits(followed)
    with pytest.raises(InputError, match=r"index of Y holds ids of these rows, but not .*\. Give"):
        followed.observe(list(index[:5]), labels().set_axis(index)[3:8])
    assert bits(followed) == before


def test_an_index_that_holds_an_id_several_times_is_refused() -> None:
    index = IDS["text"]()
    followed = answered(list(index))
    with pytest.raises(InputError, match="holds ids of these rows, but not 'order 2'"):
        followed.observe(list(index[:3]), labels().set_axis(index).iloc[[0, 1, 1]])
    with pytest.raises(InputError, match="holds ids of these rows, some of them several times"):
        followed.observe(list(index[[0, 1, 1]]), labels().set_axis(index).iloc[[0, 1, 1]])
    assert followed.rows_ == 0


OTHER_INDEXES: dict[str, pd.Index] = {
    "a default one": pd.RangeIndex(SIZE),
    "other numbers": pd.Index(np.arange(9000, 9000 + SIZE)[::-1]),
    "some of the numbers": pd.Index(np.arange(505, 505 + SIZE)),
    "other text": pd.Index([f"line {at}" for at in range(SIZE)]),
    "other times": pd.date_range("1999-01-01", periods=SIZE),
    "no ids at all": pd.interval_range(0, SIZE),
}


@pytest.mark.parametrize("name", OTHER_INDEXES)
def test_labels_go_by_position_where_their_index_has_nothing_to_do_with_ids(name: str) -> None:
    ids = IDS["numbers"]()
    ours, theirs = (answered(ids) for _ in range(2))
    ours.observe(ids, labels().set_axis(OTHER_INDEXES[name]))
    theirs.observe(ids, Y[N : N + SIZE])
    assert bits(ours) == bits(theirs)


def test_an_index_that_only_numbers_labels_says_nothing_of_ids_that_are_numbers() -> None:
    ours, theirs = (answered(range(SIZE)) for _ in range(2))
    ids = SHUFFLED.tolist()
    ours.observe(ids, labels().iloc[SHUFFLED].reset_index(drop=True))
    theirs.observe(ids, Y[N : N + SIZE][SHUFFLED])
    assert bits(ours) == bits(theirs)


def test_frames_without_an_index_go_by_position() -> None:
    ids = [f"order {at}" for at in SHUFFLED]
    ours, theirs = (answered([f"order {at}" for at in range(SIZE)]) for _ in range(2))
    ours.observe(ids, pl.from_pandas(labels().iloc[SHUFFLED].reset_index(drop=True)))
    theirs.observe(ids, Y[N : N + SIZE][SHUFFLED])
    assert bits(ours) == bits(theirs)


@pytest.mark.parametrize("of", ["ids", "default"])
def test_weights_and_groups_with_an_index_are_those_of_the_labels(of: str) -> None:
    """Whichever order each of them is in; then all go where the labels go."""
    frame, Y = weighted.world()
    ids = frame["id"].to_numpy() // 7
    fit = weighted.make().fit(frame[:300], Y[:300], groups=ids[:300], sample_weight=frame["weight"].to_numpy()[:300])
    rows, rng = slice(300, 400), np.random.default_rng(0)
    names = [f"row {at}" for at in range(100)]
    index = pd.Index(names) if of == "ids" else pd.RangeIndex(100)
    given: list[Any] = [pd.DataFrame(Y[rows]), frame["weight"][rows], pd.Series(ids[rows])]
    first, weight, groups = (each.set_axis(index).iloc[rng.permutation(100)] for each in given)
    if of == "default":
        first = first.sort_index()
    ours, theirs = (oe.LiveEnsemble(fit, refit=100) for _ in range(2))
    for each in (ours, theirs):
        each.answer(frame[rows], ids=names)
    ours.observe(names, first, sample_weight=weight, groups=groups)
    theirs.observe(names, Y[rows], sample_weight=frame["weight"].to_numpy()[rows], groups=ids[rows])
    assert len(theirs.refits_) == 1
    assert bits(ours) == bits(theirs)
    later = frame[500:].reset_index(drop=True)
    np.testing.assert_array_equal(ours.refitted_.answer(later).promised, theirs.refitted_.answer(later).promised)


@pytest.mark.parametrize("what", ["sample_weight", "groups"])
def test_weights_and_groups_of_other_rows_than_the_labels_are_refused(what: str) -> None:
    frame, Y = weighted.world()
    fit = weighted.make().fit(frame[:300], Y[:300], groups=frame["id"].to_numpy()[:300])
    followed = oe.LiveEnsemble(fit)
    names = pd.Index(list("abc"))
    followed.answer(frame[300:303], ids=names)
    before = bits(followed)
    given: dict[str, Any] = {"groups": np.arange(3), what: pd.Series([1.0, 2.0, 3.0], index=list("abd"))}
    with pytest.raises(InputError, match=rf"rows of {what} and of Y have different indexes: .*'d'"):
        followed.observe(names, pd.DataFrame(Y[300:303], index=names), **given)
    assert bits(followed) == before


def test_a_monitor_refuses_promises_and_payoffs_of_different_rows() -> None:
    monitor = Monitor(1.0)
    promised = pd.Series(np.arange(3.0), index=list("abc"))
    for other in (list("abd"), list("cba")):
        with pytest.raises(InputError, match=r"promised.*realised.*index|index.*promised.*realised"):
            monitor.observe(promised, pd.Series(np.arange(3.0), index=other))
    assert monitor.rows == 0
    assert monitor.observe(promised, promised.copy()).rows == 3
    assert monitor.observe(promised, np.arange(3.0)).rows == 6


# Columns


def test_a_frame_that_lacks_a_labels_column_or_has_another_is_told_by_its_name() -> None:
    followed = answered(range(SIZE))
    before = bits(followed)
    for given, words in (
        (labels().drop(columns="rail"), r"Y has no column 'rail'\. It needs one for each label: 'air', 'rail', 'sea'"),
        (labels().assign(road=1.0), r"Y has the column 'road', which is no label\. Select the labels: 'air', 'rail'"),
        (labels().assign(day="Monday"), r"Y has the column 'day', which is no label"),
        (pl.from_pandas(labels().drop(columns="sea")), r"Y has no column 'sea'"),
        (labels()[["air"]], r"Y has no column 'rail', 'sea'|Y has no column 'rail' and 'sea'"),
    ):
        with pytest.raises(InputError, match=words):
            followed.observe(range(SIZE), given)
        assert bits(followed) == before
    followed.observe(range(SIZE), labels()[LABELS[::-1]])
    assert followed.rows_ == SIZE


@pytest.mark.parametrize(
    "given", [None, 3.0, {"air": [1.0]}, "air", (each for each in [1.0])], ids=lambda each: type(each).__name__
)
def test_labels_without_rows_are_refused_by_their_name(given: Any) -> None:
    followed = answered(range(SIZE))
    with pytest.raises(InputError, match=r"^Y must have rows"):
        followed.observe([0], given)
    assert followed.rows_ == 0


# Labels in other units


def huge(rows: slice, at: int) -> Any:
    found = Y[rows].copy()
    found[at, 1] = 1e3 * np.abs(Y).max()
    return found


def test_the_warning_of_other_units_names_the_id() -> None:
    followed = live(refit="never")
    followed.answer(X[N : N + 5], ids=[f"order {at}" for at in "abcde"])
    with pytest.warns(DataWarning, match=r"a label of row 'order d' is .* in absolute value") as caught:
        followed.observe([f"order {at}" for at in "edcba"], huge(slice(N, N + 5), 1))
    assert caught[0].filename == __file__


def test_labels_that_are_refused_or_known_are_not_doubted() -> None:
    """Nothing is learned from them."""
    followed = live(refit="never")
    followed.answer(X[N : N + 10])
    followed.observe(range(3), Y[N : N + 3])
    large = huge(slice(N + 3, N + 6), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids, given, words in (
            ([3, 4, 77], large, "of no open row: 77"),
            ([3, 3, 4], large, "ids must be distinct"),
            ([0, 1, 2], large, "already have different labels"),
        ):
            with pytest.raises(InputError, match=words):
                followed.observe(ids, given)
    with pytest.warns(DataWarning, match="a label of row 4 is"):
        followed.observe([3, 4, 5], large)
    before = bits(followed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        followed.observe([3, 4, 5], large)
        followed.observe([4, 3, 5, 6], np.vstack([large[[1, 0, 2]], Y[[N + 6]]]))
    assert followed.rows_ == 7
    assert bits(followed) != before


def test_a_label_of_a_row_that_lacks_others_is_not_doubted() -> None:
    """It stays open."""
    followed = live(refit="never")
    followed.answer(X[N : N + 3])
    large = huge(slice(N, N + 3), 1)
    large[1, 0] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        followed.observe(range(3), large, missing_labels="drop")
    assert followed.open_["id"].tolist() == [1]


def test_labels_of_sets_with_one_label_are_found_by_name_too() -> None:
    given = random_problem(1, n=400, d=1, k=2, omega="box")
    fit = oe.DecisionEnsemble(given.models, feasible=feasible.Box(0.0, 1.0, dimension=1))
    fit.fit(given.X[:300], pd.DataFrame(given.Y[:300], columns=["price"]))
    followed = oe.LiveEnsemble(fit, refit="never")
    followed.answer(given.X[300:310])
    with pytest.raises(InputError, match="'cost'"):
        followed.observe(range(10), pd.DataFrame(given.Y[300:310], columns=["cost"]))
    followed.observe(range(10), pd.DataFrame(given.Y[300:310], columns=["price"]))
    assert followed.rows_ == 10
