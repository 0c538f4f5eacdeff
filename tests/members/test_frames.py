"""Tables: copies that share nothing with what they are part of, and tables as another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from optensemble.members.frames import as_kind, copy_of
from tests.problems import Floats

NAMES = ["b", "a", "c"]


def columns() -> Floats:
    return np.random.default_rng(0).normal(size=(3, 20))


def frame_of(values: Floats) -> pd.DataFrame:
    return pd.DataFrame(values.T, columns=NAMES, copy=False)


KINDS: dict[str, Callable[[Floats], Any]] = {
    "pandas": frame_of,
    "polars": lambda values: pl.DataFrame([pl.Series(*each) for each in zip(NAMES, values, strict=True)]),
    "pyarrow": lambda values: pa.table({name: pa.array(each) for name, each in zip(NAMES, values, strict=True)}),
    "array": lambda values: values.T,
}


def numbers(table: Any) -> Floats:
    return np.asarray(
        table
        if isinstance(table, np.ndarray)
        else pd.DataFrame(table.to_pandas())
        if hasattr(table, "to_pandas")
        else table
    )


# Copies


class ArrayLike:
    def __init__(self, values: Floats) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.array(self.values, dtype=dtype)


COPIED: dict[str, Callable[[Floats], Any]] = {
    **KINDS,
    "part of a pandas frame": lambda values: frame_of(values)[3:9],
    "part of a polars frame": lambda values: KINDS["polars"](values)[3:9],
    "part of a pyarrow table": lambda values: KINDS["pyarrow"](values).slice(3, 6),
    "a pandas frame of columns": lambda values: pd.DataFrame(dict(zip(NAMES, values, strict=True)), copy=False),
    "part of an array": lambda values: values.T[3:9],
    "something like an array": lambda values: ArrayLike(values.T[3:9]),
    "a sparse matrix": lambda values: sparse.csr_array(values.T),
    "lists": lambda values: values.T.tolist(),
}


@pytest.mark.parametrize("kind", COPIED)
def test_a_copy_is_of_the_same_kind_and_does_not_change_with_the_table(kind: str) -> None:
    memory = columns()
    table = COPIED[kind](memory)
    copied = copy_of(table)
    assert type(copied) is type(table)
    before = numbers(copied.toarray() if hasattr(copied, "toarray") else copied).copy()
    np.testing.assert_array_equal(before, numbers(table.toarray() if hasattr(table, "toarray") else table))
    memory[:] = 77.0
    if kind == "a sparse matrix":
        table.data[:] = 77.0
    if kind == "lists":
        table[0][0] = 77.0
    np.testing.assert_array_equal(numbers(copied.toarray() if hasattr(copied, "toarray") else copied), before)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_copy_of_no_rows_has_the_same_columns(kind: str) -> None:
    copied = copy_of(KINDS[kind](columns()[:, :0]))
    assert list(copied.column_names if kind == "pyarrow" else copied.columns) == NAMES
    assert len(copied) == 0


def test_a_copy_of_a_frame_keeps_text_dates_and_the_index() -> None:
    frame = pd.DataFrame({"t": list("xyz"), "d": pd.date_range("2026-01-01", periods=3)}, index=list("abc"))
    pd.testing.assert_frame_equal(copy_of(frame[1:]), frame[1:])
    polars = pl.from_pandas(frame)
    assert copy_of(polars[1:]).equals(polars[1:])


# Kinds


@given(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)), st.integers(0, 5))
def test_a_table_becomes_one_of_the_kind_of_another(kind: str, like: str, rows: int) -> None:
    given_values = columns()
    table, other = KINDS[kind](given_values[:, :rows]), KINDS[like](given_values)
    found = as_kind(table, other)
    assert type(found) is type(other)
    np.testing.assert_array_equal(numbers(found).reshape(rows, 3), given_values[:, :rows].T)
    if like != "array":
        assert list(found.column_names if like == "pyarrow" else found.columns) == NAMES
    assert as_kind(table, table) is table


@pytest.mark.parametrize("like", ["polars", "pyarrow", "array"])
def test_there_and_back_it_is_the_same(like: str) -> None:
    frame = frame_of(columns())
    pd.testing.assert_frame_equal(as_kind(as_kind(frame, KINDS[like](columns())), frame), frame)


def test_what_cannot_be_another_kind_stays_as_it_is() -> None:
    frame, array = frame_of(columns()), columns().T
    narrow, text = array[:, :2], frame.assign(a="text")
    assert as_kind(narrow, frame) is narrow
    assert as_kind(text, array) is text
    assert as_kind(array[0], frame) is not None
    lists = array.tolist()
    assert as_kind(lists, frame) is lists
    assert as_kind(frame, lists) is frame
    matrix = sparse.csr_array(array)
    assert as_kind(matrix, frame) is matrix
    assert as_kind(frame, matrix) is frame


def test_types_of_columns_are_kept() -> None:
    frame = pd.DataFrame({"whole": np.arange(3, dtype=np.int64), "text": list("abc"), "real": [0.5, 1.0, 2.0]})
    for make in (pl.from_pandas, lambda each: pa.Table.from_pandas(each, preserve_index=False)):
        found = as_kind(make(frame), frame)
        assert found["whole"].tolist() == [0, 1, 2]
        assert found["text"].tolist() == list("abc")
        assert found["whole"].dtype == np.int64
