"""Names of rows and columns: aligned where that is unambiguous, otherwise refused with both lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import optensemble as oe
from optensemble.exceptions import InputError
from optensemble.members.alignment import (
    OutputNames,
    RowNames,
    align_all,
    align_labels,
    align_rows,
    column_order,
    in_fitted_order,
    label_names,
    matching,
    row_order,
    time_order,
)

TOWNS = ["north", "south", "west"]
FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame.reset_index(drop=True)),
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}
of_any_kind = pytest.mark.parametrize("kind", FRAMES)
VALUES = np.arange(12.0).reshape(4, 3)
X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]}, index=["w", "x", "y", "z"])


def labelled(columns: list[str], index: Any = None) -> pd.DataFrame:
    """Return values by their names, in any order."""
    return pd.DataFrame(VALUES, columns=TOWNS, index=index)[columns]


# Names of labels


@of_any_kind
def test_labels_of_a_frame_are_its_columns(kind: str) -> None:
    assert label_names(FRAMES[kind](labelled(TOWNS)), 3) == TOWNS


@pytest.mark.parametrize(
    "Y",
    [
        VALUES,
        VALUES.tolist(),
        pd.DataFrame(VALUES),
        pl.DataFrame(VALUES),
        pd.DataFrame(VALUES, columns=["y", "y", "z"]),
        pd.DataFrame(VALUES)[[0, 1]],
    ],
    ids=["array", "list", "numbered", "numbered by polars", "equal names", "too few"],
)
def test_labels_without_names(Y: Any) -> None:
    assert label_names(Y, 3) is None


def test_a_series_names_its_label() -> None:
    assert label_names(pd.Series([1.0], name="price"), 1) == ["price"]
    assert label_names(pl.Series("price", [1.0]), 1) == ["price"]
    assert label_names(pd.Series([1.0]), 1) is None
    assert label_names(pl.Series([1.0]), 1) is None


# Columns


@given(order=st.permutations(range(5)), before=st.sampled_from(["", "vendor_"]), after=st.sampled_from(["", "_eur"]))
def test_names_match_in_any_order_and_with_anything_in_common(order: list[int], before: str, after: str) -> None:
    labels = [f"price_{town}" for town in ("north", "south", "west", "far-east", "9")]
    names = [before + labels[at].removeprefix("price_") + after for at in order]
    assert matching(names, labels) == [order.index(at) for at in range(5)]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["north", "south"], ["north", "south", "south"]])
def test_names_that_do_not_match(names: list[str]) -> None:
    assert matching(names, TOWNS) is None


@of_any_kind
@given(columns=st.permutations(TOWNS))
def test_columns_of_labels_are_put_in_order(kind: str, columns: list[str]) -> None:
    np.testing.assert_array_equal(align_labels(FRAMES[kind](labelled(columns)), None, TOWNS), VALUES)


@of_any_kind
def test_other_columns_are_refused_with_both_lists(kind: str) -> None:
    given_columns = labelled(TOWNS).rename(columns={"west": "east"})
    with pytest.raises(InputError, match=r"columns of Y are 'north', 'south', 'east', but .* 'north', 'south', 'west'"):
        align_labels(FRAMES[kind](given_columns), None, TOWNS)


def test_columns_that_are_only_numbered_go_by_position() -> None:
    for unnamed in (pd.DataFrame(VALUES), pl.DataFrame(VALUES)):
        np.testing.assert_array_equal(align_labels(unnamed, None, TOWNS), VALUES)
        np.testing.assert_array_equal(align_labels(unnamed, None, ["y_2", "y_1", "y_0"]), VALUES)


def test_numbers_in_another_order_are_put_in_order() -> None:
    np.testing.assert_array_equal(align_labels(pd.DataFrame(VALUES)[[2, 0, 1]], None, None), VALUES)
    np.testing.assert_array_equal(align_labels(pd.DataFrame(VALUES), None, ["2", "0", "1"]), VALUES[:, [2, 0, 1]])


def test_names_mean_nothing_where_labels_have_none() -> None:
    np.testing.assert_array_equal(align_labels(labelled(["west", "south", "north"]), None, None), VALUES[:, ::-1])


def test_a_single_label_must_be_the_one_fitted_on() -> None:
    price = pd.Series([1.0, 2.0], name="price")
    np.testing.assert_array_equal(align_labels(price, None, ["price"]), [1.0, 2.0])
    np.testing.assert_array_equal(align_labels(price.rename(None), None, ["price"]), [1.0, 2.0])
    with pytest.raises(InputError, match=r"the column of Y is 'demand', but the label is 'price'. Rename"):
        align_labels(price.rename("demand"), None, ["price"])


def test_the_wrong_number_of_columns_is_left_to_who_checks_shapes() -> None:
    assert column_order(["north", "south"], TOWNS, "Y") is None


# Rows


@given(order=st.permutations(range(4)))
def test_rows_of_labels_are_put_in_the_order_of_x(order: list[int]) -> None:
    Y = labelled(TOWNS, X.index).iloc[order]
    np.testing.assert_array_equal(align_labels(Y, X, TOWNS), VALUES)
    np.testing.assert_array_equal(align_rows(Y["north"], X, "groups"), VALUES[:, 0])
    numbered = X.reset_index(drop=True)
    np.testing.assert_array_equal(align_labels(labelled(TOWNS).iloc[order], numbered, None), VALUES)


@pytest.mark.parametrize("one", [[10, 11, 12, 13], ["a", "b", "c", "d"], ["a", "a", "b", "c"]], ids=str)
def test_an_index_that_only_numbers_rows_says_nothing(one: list[Any]) -> None:
    frame, numbered = pd.DataFrame(index=one), pd.DataFrame(index=range(4))
    assert row_order(frame.index, numbered.index, "Y") is None
    assert row_order(numbered.index, frame.index, "Y") is None


def test_other_rows_are_refused_with_the_first_of_both() -> None:
    Y = labelled(TOWNS, ["w", "x", "y", "v"])
    message = r"rows of Y and of X have different indexes: 'w', 'x', 'y' and 1 more in Y, and 'w', 'x', 'y' and 1 more"
    with pytest.raises(InputError, match=message):
        align_labels(Y, X, TOWNS)
    with pytest.raises(InputError, match=r"rows of sample_weight .* '2024-01-01 00:00:00'.*Give both the same index"):
        align_rows(pd.Series(1.0, index=pd.date_range("2024", periods=4)), X, "sample_weight")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["w", "y", "z"], "X has 4 rows and Y has 3: 'x' of X is not in Y. Give both the same rows."),
        (["v", "w", "x", "y", "z"], "X has 4 rows and Y has 5: 'v' of Y is not in X."),
        (["a", "b"], "X has 4 rows and Y has 2: 'w', 'x', 'y' and 1 more of X are not in Y."),
    ],
)
def test_rows_that_are_not_in_both_are_named(rows: list[str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        row_order(X.index, pd.Index(rows), "Y")


def test_the_wrong_number_of_rows_without_names_is_left_to_who_checks_shapes() -> None:
    for other in (pd.RangeIndex(3), pd.Index(["w", "w", "x"])):
        assert row_order(X.index, other, "Y") is None


def test_labels_of_rows_that_are_there_twice_must_be_in_order() -> None:
    twice = pd.Index(["a", "b", "a"])
    assert row_order(twice, pd.Index(["a", "b", "a"]), "Y") is None
    with pytest.raises(InputError, match=r"Labels that are there several times cannot be matched"):
        row_order(twice, pd.Index(["b", "a", "a"]), "Y")


def test_rows_of_arrays_go_by_position() -> None:
    np.testing.assert_array_equal(align_labels(labelled(TOWNS, list("wxyz")), X.to_numpy(), TOWNS), VALUES)
    np.testing.assert_array_equal(align_labels(VALUES, X, TOWNS), VALUES)
    assert align_rows("column", X, "groups") == "column"
    assert align_rows(None, X, "groups") is None


def test_indexes_of_several_levels() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
    frame = pd.DataFrame({"x": range(4)}, index=index)
    np.testing.assert_array_equal(align_labels(labelled(TOWNS, index)[::-1], frame, TOWNS), VALUES)
    with pytest.raises(InputError, match=r"different indexes"):
        align_labels(labelled(TOWNS, list("abcd")), frame, TOWNS)


# Time


@pytest.mark.parametrize("periods", [False, True])
@given(order=st.permutations(range(4)))
def test_rows_with_times_are_put_in_their_order(periods: bool, order: list[int]) -> None:
    index: Any = pd.date_range("2024-01-01", periods=4)
    frame = pd.DataFrame({"a": VALUES[:, 0]}, index=index.to_period("D") if periods else index)
    groups = np.array(list("abcd"))
    found = align_all(
        frame.iloc[order], VALUES[order], {"groups": groups[order], "rule": "a"}, RowNames(), time_ordered=True
    )
    pd.testing.assert_frame_equal(found.X, frame, check_freq=False)
    np.testing.assert_array_equal(found.labels, VALUES)
    np.testing.assert_array_equal(found.others["groups"], groups)
    assert found.others["rule"] == "a"
    if order == sorted(order):
        assert found.order is None
    else:
        np.testing.assert_array_equal(np.asarray(order)[found.order], range(4))


def test_equal_times_stay_in_order_and_missing_ones_are_refused() -> None:
    days = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-02", "2024-01-01"])
    found = time_order(pd.DataFrame(index=days))
    assert found is not None
    assert found.tolist() == [1, 3, 0, 2]
    assert time_order(pd.DataFrame(index=days.sort_values())) is None
    assert time_order(X) is None
    with pytest.raises(InputError, match=r"no time in 1 of 2 rows.*Remove these rows"):
        time_order(pd.DataFrame(index=pd.DatetimeIndex(["2024-01-02", pd.NaT])))


def test_rows_stay_where_they_are_unless_they_are_in_time_order() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.to_datetime(["2024-01-02", "2024-01-01"]))
    assert align_all(frame, VALUES[:2], {}, RowNames()).X is frame


# Numbers


@of_any_kind
def test_missing_numbers_are_nan(kind: str) -> None:
    frame = pd.DataFrame({"north": pd.array([1, None], dtype="Int64"), "south": pd.array([0.5, 2.0], dtype="Float64")})
    found = align_labels(FRAMES[kind](frame), None, None)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [[1.0, 0.5], [np.nan, 2.0]])


@of_any_kind
@pytest.mark.parametrize("values", [["1.5", "2"], pd.to_datetime(["2024-01-01", "2024-01-02"])], ids=["text", "dates"])
def test_text_and_dates_are_no_numbers(kind: str, values: Any) -> None:
    frame = FRAMES[kind](pd.DataFrame({"north": [1.0, 2.0], "south": values}))
    with pytest.raises(InputError, match=r"column 'south' of the labels Y must be numeric; got .*Convert it"):
        align_labels(frame, None, None)
    with pytest.raises(InputError, match=r"column 'south' of model 'm' must be numeric"):
        OutputNames()(frame, None, None, "model 'm'")


def test_truth_values_and_categories() -> None:
    flags = pd.DataFrame({"a": [True, False], "b": pd.array([True, None], dtype="boolean")})
    np.testing.assert_array_equal(align_labels(flags, None, None), [[1.0, 1.0], [0.0, np.nan]])
    with pytest.raises(InputError, match=r"the labels Y 'a' must be numeric; got Categorical"):
        align_labels(pd.Series([1, 2], dtype="category", name="a"), None, None)


def test_single_columns_of_any_kind() -> None:
    for column in (pd.Series([1, None], dtype="Int64"), pl.Series([1, None]), pa.chunked_array([[1, None]])):
        np.testing.assert_array_equal(align_labels(column, None, None), [1.0, np.nan])


# Columns of X


@of_any_kind
def test_columns_are_handed_on_in_the_order_of_the_fit(kind: str) -> None:
    frame = FRAMES[kind](labelled(["west", "north", "south"]))
    found = in_fitted_order(frame, TOWNS)
    np.testing.assert_array_equal(align_labels(found, None, None), VALUES)
    same = FRAMES[kind](labelled(TOWNS))
    assert in_fitted_order(same, TOWNS) is same
    assert in_fitted_order(same, TOWNS[:2]) is same
    more = in_fitted_order(frame, ["north", "west"])
    np.testing.assert_array_equal(align_labels(more, None, None), VALUES[:, [0, 2, 1]])


def test_columns_stay_where_some_are_missing_or_have_no_names() -> None:
    frame = labelled(["south", "north"])
    assert in_fitted_order(frame, TOWNS) is frame
    assert in_fitted_order(VALUES, TOWNS) is VALUES
    assert in_fitted_order(frame, None) is frame


# What members say


@of_any_kind
@given(columns=st.permutations(TOWNS), before=st.sampled_from(["", "vendor_"]))
def test_outputs_are_put_in_the_order_of_the_labels(kind: str, columns: list[str], before: str) -> None:
    said = FRAMES[kind](labelled(columns).add_prefix(before))
    labels = [f"price_{town}" for town in TOWNS]
    np.testing.assert_array_equal(OutputNames(labels)(said, None, VALUES, "model 'm'"), VALUES)


def test_outputs_with_other_names_are_refused() -> None:
    with pytest.raises(InputError, match=r"columns of policy 'p' are 'a', 'b', 'c', but the labels are 'north'"):
        OutputNames(TOWNS)(pd.DataFrame(VALUES, columns=list("abc")), None, X, "policy 'p'")


@pytest.mark.parametrize("names", [None, ["column_0", "column_1", "column_2"], ["action_0", "action_1", "action_2"]])
def test_outputs_that_are_only_numbered_go_by_position(names: list[str] | None) -> None:
    said = pd.DataFrame(VALUES, columns=names)
    np.testing.assert_array_equal(OutputNames(["y_2", "y_1", "y_0"])(said, None, X, "model 'm'"), VALUES)


def test_rows_of_outputs() -> None:
    names, shuffled = OutputNames(TOWNS), X.iloc[[2, 0, 3, 1]]
    said = labelled(TOWNS, X.index)
    np.testing.assert_array_equal(names(said, None, shuffled, "m"), VALUES[[2, 0, 3, 1]])
    np.testing.assert_array_equal(names(labelled(TOWNS), None, shuffled, "m"), VALUES)
    numbered = X.reset_index(drop=True)[::-1]  # a member that numbers rows as they come must not be turned round
    np.testing.assert_array_equal(names(labelled(TOWNS), None, numbered, "m"), VALUES)
    with pytest.raises(InputError, match=r"rows of m and of X have different indexes"):
        names(labelled(TOWNS, list("abcd")), None, X, "m")


def test_a_single_column_goes_by_position() -> None:
    said = pd.Series([1.0, 2.0, 3.0, 4.0], name="prediction", index=X.index)
    np.testing.assert_array_equal(OutputNames(["price"])(said[::-1], None, X, "m"), said)


TABLE = pd.DataFrame({"vendor_south": [1.0], "vendor_north": [2.0], "p_10": [3.0], "p_9": [4.0]})


@of_any_kind
def test_a_pattern_finds_columns_in_the_order_of_the_labels(kind: str) -> None:
    table, vendor = FRAMES[kind](TABLE), oe.Columns("vendor_*")
    for labels in (["price_north", "price_south"], ["north", "south"]):
        said = OutputNames(labels)(vendor.predict(table), vendor, table, "model 'vendor'")
        np.testing.assert_array_equal(said, [[2.0, 1.0]])
    said = OutputNames(["a", "b"])(vendor.predict(table), vendor, table, "model 'vendor'")
    np.testing.assert_array_equal(said, [[1.0, 2.0]])
    numbers = oe.Columns("p_*")
    said = OutputNames(["y_10", "y_9"])(numbers.predict(table), numbers, table, "model 'p'")
    np.testing.assert_array_equal(said, [[3.0, 4.0]])


@pytest.mark.parametrize("found", [["v_north"], ["v_north", "v_west"], ["v_north", "v_south", "v_west", "v_note"]])
def test_a_pattern_must_find_a_column_for_each_label(found: list[str]) -> None:
    rows, member = pd.DataFrame(np.ones((2, len(found))), columns=found), oe.Columns("v_*")
    words = f"the columns of model 'v' are {', '.join(map(repr, found))}, found by 'v_*', but the labels are 'north'"
    with pytest.raises(InputError, match=re.escape(words)):
        OutputNames(TOWNS)(member.predict(rows), member, rows, "model 'v'")


def test_a_list_of_columns_must_be_in_the_order_of_the_labels() -> None:
    listed = oe.Columns(["vendor_south", "vendor_north"])
    with pytest.raises(
        InputError,
        match=r"model 'v' are 'vendor_south', 'vendor_north', in another order than the labels 'y_north', 'y_south'. L",
    ):
        OutputNames(["y_north", "y_south"])(listed.predict(TABLE), listed, TABLE, "model 'v'")
    for labels in (["y_south", "y_north"], ["here", "there"]):
        said = OutputNames(labels)(listed.predict(TABLE), listed, TABLE, "model 'v'")
        np.testing.assert_array_equal(said, [[1.0, 2.0]])
    numbered = oe.Columns([1, 0])
    said = OutputNames(["0", "1"])(numbered.predict(VALUES), numbered, VALUES, "model 'v'")
    np.testing.assert_array_equal(said, VALUES[:, 1::-1])


def test_members_must_agree_where_labels_have_no_names() -> None:
    names = OutputNames()
    names(labelled(TOWNS), None, X, "model 'a'")
    names(labelled(TOWNS).add_prefix("b_"), None, X, "model 'b'")
    names(pd.DataFrame(VALUES, columns=["x", "y", "z"]), None, X, "model 'c'")
    turned = oe.Columns(["vendor_south", "vendor_north"])
    two = OutputNames()
    for member, what in ((oe.Columns(["vendor_north", "vendor_south"]), "a"), (turned, "b")):  # a list is as it is
        np.testing.assert_array_equal(two(member.predict(TABLE), member, TABLE, what), member.predict(TABLE))
    two(pd.DataFrame([[1.0, 2.0]], columns=["p_north", "p_south"]), None, None, "model 'p'")
    pattern = oe.Columns("vendor_*")
    with pytest.raises(InputError, match=r"columns of model 'v' are 'vendor_south', 'vendor_north', in another order"):
        two(pattern.predict(TABLE), pattern, TABLE, "model 'v'")
    with pytest.raises(InputError, match=r"model 'd' are 'west', .* than those of model 'a', 'north', .*Give Y as"):
        names(labelled(TOWNS[::-1]), None, X, "model 'd'")
