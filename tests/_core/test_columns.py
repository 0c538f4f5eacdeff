"""Columns: a table of ready predictions or actions is as good as the model that made it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import optensemble as oe
from optensemble._core.columns import Columns
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.members.validation import as_predictions
from tests.problems import random_problem

FRAMES = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
VALUES = np.random.default_rng(0).normal(size=(5, 4))
NAMES = ["price_0", "price_1", "price_2", "day"]


@FRAMES
def test_named_columns_of_a_frame_come_in_the_order_of_the_names(frame: Callable[..., Any]) -> None:
    X = frame(dict(zip(NAMES, VALUES.T, strict=True)))
    for ask in (Columns(["price_2", "price_0"]), Columns(["price_2", "price_0"]).predict, Columns(NAMES[2::-2]).decide):
        read = ask(X)
        assert read.dtype == np.float64
        assert np.array_equal(read, VALUES[:, [2, 0]])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), st.booleans())
def test_numbered_columns_of_an_array(numbers: list[int], as_list: bool) -> None:
    X = VALUES.tolist() if as_list else VALUES
    assert np.array_equal(Columns(np.array(numbers))(X), VALUES[:, numbers])


def test_what_is_read_is_no_window_into_the_table() -> None:
    X = VALUES.copy()
    Columns([0, 1])(X)[:] = 0.0
    assert np.array_equal(X, VALUES)


@FRAMES
def test_whole_numbers_truth_values_and_decimals_are_numbers_too(frame: Callable[..., Any]) -> None:
    X = frame({"whole": [1, 2], "truth": [True, False], "exact": [Decimal("0.5"), Decimal("1.5")]})
    assert np.array_equal(Columns(["whole", "truth", "exact"])(X), [[1.0, 1.0, 0.5], [2.0, 0.0, 1.5]])


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}),
        pd.DataFrame({"a": pd.Series([1, None], dtype=object)}),
        pd.DataFrame({"a": [1.0, np.nan]}),
        pl.DataFrame({"a": [1, None]}),
        pl.DataFrame({"a": [Decimal(1), None]}),
    ],
)
def test_a_missing_value_is_nan_and_the_ensemble_says_which_row_has_it(X: Any) -> None:
    assert np.array_equal(Columns(["a"])(X), [[1.0], [np.nan]], equal_nan=True)
    with pytest.raises(InputError, match=r"predictions of model 'vendor' must be finite.*row 1 of 2"):
        as_predictions(Columns(["a"])(X), "vendor", 2, 1)


@FRAMES
def test_a_missing_column_is_named_with_the_closest(frame: Callable[..., Any]) -> None:
    X = frame(dict(zip(NAMES, VALUES.T, strict=True)))
    with pytest.raises(InputError, match=r"no column 'prise_1'. Did you mean 'price_1'\?"):
        Columns(["price_0", "prise_1"])(X)
    with pytest.raises(InputError, match=r"no column 'zzz' \(nor 'yyy'\). Its columns are 'price_0', 'price_1'"):
        Columns(["zzz", "yyy"])(X)


def test_a_wide_frame_is_not_listed_whole() -> None:
    X = pd.DataFrame(np.zeros((2, 30)), columns=[f"c{i:02d}" for i in range(30)])
    with pytest.raises(InputError, match=r"'c07' and 22 more\.$"):
        Columns(["elsewhere"])(X)


@FRAMES
def test_text_is_refused_even_where_it_looks_like_numbers(frame: Callable[..., Any]) -> None:
    X = frame({"a": [1.0, 2.0], "b": ["1", "2"]})
    with pytest.raises(InputError, match="column 'b' of X must be numeric; got String"):
        Columns(["a", "b"])(X)


@pytest.mark.parametrize(
    "column",
    [pd.to_datetime(["2020-01-01", "2021-01-01"]), pd.Categorical([1, 2]), pd.Series(["1", 2], dtype=object)],
)
def test_dates_categories_and_mixtures_are_refused(column: Any) -> None:
    with pytest.raises(InputError, match="column 'a' of X must be numeric"):
        Columns(["a"])(pd.DataFrame({"a": column}))


def test_text_in_an_array_is_refused() -> None:
    with pytest.raises(InputError, match="column 1 of X must be numeric"):
        Columns([0, 1])(np.array([[1.0, "2"], [3.0, "4"]], dtype=object))
    assert np.array_equal(Columns([0])(np.array([[1.0, "2"], [3.0, "4"]], dtype=object)), [[1.0], [3.0]])


def test_numbers_for_a_frame_and_names_for_an_array_are_refused() -> None:
    with pytest.raises(InputError, match=r"are numbers, but X is a frame.*Name its columns"):
        Columns([0, 1])(pd.DataFrame(VALUES))
    with pytest.raises(InputError, match=r"are names, but X is an array of shape \(5, 4\)"):
        Columns(["price_0"])(VALUES)


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((2, 2, 2)), pl.DataFrame({"a": [1.0]}).lazy()])
def test_an_object_that_is_not_a_table_is_refused(X: Any) -> None:
    with pytest.raises(InputError, match="X must be a frame or an array of two dimensions"):
        Columns([0])(X)


def test_a_number_beyond_the_last_column_is_refused() -> None:
    with pytest.raises(InputError, match="no column 4: it has 4, numbered from 0"):
        Columns([0, 4])(VALUES)


def test_a_frame_with_two_columns_of_one_name_is_refused() -> None:
    with pytest.raises(InputError, match="distinct names"):
        Columns(["a"])(pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "all text, or all whole numbers"),
        (["a", 1], "all text, or all whole numbers"),
        ([0, -1], "all text, or all whole numbers"),
        ([0.5], "all text, or all whole numbers"),
        ([True], "all text, or all whole numbers"),
        (0.5, "must be a list of columns; got 0.5"),
        (["a", "b", "a"], "'a' 2 times"),
        ([3, 3, 3], "3 3 times"),
    ],
)
def test_invalid_names_of_columns_are_refused(names: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Columns(names)


def test_equal_names_make_equal_columns_that_can_be_copied() -> None:
    columns = Columns(["a", "b"])
    assert columns.names == ("a", "b")
    assert repr(columns) == "Columns(['a', 'b'])"
    assert eval(repr(columns)) == columns
    assert len({columns, Columns(("a", "b")), Columns(("b", "a"))}) == 2
    assert pickle.loads(pickle.dumps(columns)) == clone(columns, safe=False) == columns


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
def test_an_ensemble_of_columns_is_the_ensemble_of_the_models_that_made_them() -> None:
    problem = random_problem(3, n=120)
    table = pl.DataFrame({f"m{i}_{j}": problem.P[i, :, j] for i in range(3) for j in range(3)})
    members = [(f"m{i}", Columns([f"m{i}_{j}" for j in range(3)])) for i in range(3)]
    terms: dict[str, Any] = {"alpha": 0.05, "bucket_width": 0.25}
    ours = oe.WhiteBoxEnsemble(members, problem.omega, **terms).fit(table, problem.Y)
    theirs = oe.WhiteBoxEnsemble(problem.models, problem.omega, **terms).fit(problem.X, problem.Y)
    assert np.array_equal(ours.decide(table), theirs.decide(problem.X))
    assert clone(ours).fit(table, problem.Y).n_rounds_ == ours.n_rounds_


def test_columns_that_hold_no_feasible_actions_are_refused_as_a_policy() -> None:
    omega = oe.feasible.Simplex(2)
    X = pd.DataFrame({"a": [0.5] * 200, "b": [0.9] * 200})
    with pytest.raises(InfeasibleActionError, match="policy 'log'"):
        oe.BlackBoxEnsemble([("log", Columns(["a", "b"]))], omega).fit(X, np.zeros((200, 2)))


# Patterns


def test_a_pattern_stands_for_all_columns_that_match_it_numbers_sorted() -> None:
    frame = pd.DataFrame({"p_10": [1.0], "p_9": [2.0], "q_1": [3.0], "p_1": [4.0]})
    columns = oe.Columns("p_*")
    np.testing.assert_array_equal(columns.predict(frame), [[4.0, 2.0, 1.0]])
    np.testing.assert_array_equal(columns.predict(pl.from_pandas(frame)), [[4.0, 2.0, 1.0]])
    assert columns.found_in(frame) == ("p_1", "p_9", "p_10")
    assert columns.width is None
    assert oe.Columns(["q_1", "p_*"]).predict(frame).shape == (1, 4)


def test_words_in_place_of_the_star_keep_the_order_of_the_table() -> None:
    frame = pd.DataFrame({"p_west": [1.0], "p_east": [2.0]})
    np.testing.assert_array_equal(oe.Columns("p_*").predict(frame), [[1.0, 2.0]])


def test_a_column_whose_name_has_a_star_is_that_column() -> None:
    frame = pd.DataFrame({"p_*": [1.0], "p_1": [2.0]})
    np.testing.assert_array_equal(oe.Columns("p_*").predict(frame), [[1.0]])


def test_a_single_column_need_not_be_a_list() -> None:
    assert oe.Columns("price") == oe.Columns(["price"])
    assert oe.Columns(3) == oe.Columns([3])
    assert oe.Columns("price").width == 1


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("prise_*", r"no column matches 'prise_\*'. Did you mean 'price_\*'\?"),
        ("price*_*", "must have exactly one star. List the columns instead"),
    ],
)
def test_patterns_that_match_nothing_are_refused(names: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        oe.Columns(names).predict(pd.DataFrame({"price_0": [1.0], "price_1": [1.0]}))


def test_an_array_has_no_columns_of_a_pattern() -> None:
    with pytest.raises(InputError, match="are names, but X is an array"):
        oe.Columns("p_*").predict(np.ones((2, 2)))


def test_columns_of_a_frame_are_read_as_a_copy() -> None:
    """What is read may be filled in; the frame stays as it was."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    for names in (["a"], ["b", "a"]):
        found = Columns(names).predict(frame)
        found[:] = 0.0
        assert frame.to_numpy().tolist() == [[1.0, 3.0], [2.0, 4.0]]
        assert found.flags.c_contiguous
