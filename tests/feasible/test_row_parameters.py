"""Arguments of sets that come from the row: columns, callables, numbers between them, labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble.exceptions import InputError
from optensemble.feasible._row_parameters import RowParameter, from_rows, row_parameters

X = pd.DataFrame({"a": [1.0, 2.0], "b_0": [3.0, 4.0], "b_1": [5.0, 6.0], "city": ["Rome", "Oslo"], "month": [1, 2]})


def read(value: Any, shape: tuple[int, ...], **codes: Any) -> Any:
    return RowParameter.of("room", value, shape, codes.get("codes")).read(X, 2)


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        (oe.Columns("a"), (), [[1], [2]]),
        (oe.Columns("b_*"), (2,), [[3, 5], [4, 6]]),
        (oe.Columns("a"), (3,), [[1, 1, 1], [2, 2, 2]]),
        ([oe.Columns("a"), 0.5], (2,), [[1, 0.5], [2, 0.5]]),
        ([0.5, oe.Columns("b_*")], (3,), [[0.5, 3, 5], [0.5, 4, 6]]),
        ([[1, 2], oe.Columns("b_*")], (2, 2), [[1, 2, 3, 5], [1, 2, 4, 6]]),
        (lambda X: 2 * X["a"], (), [[2], [4]]),
        (lambda X: X[["a", "b_0"]], (2,), [[1, 3], [2, 4]]),
        ([lambda X: X["a"].to_numpy(), np.array([7.0])], (2,), [[1, 7], [2, 7]]),
    ],
)
def test_numbers_are_read_in_order(value: Any, shape: tuple[int, ...], expected: Any) -> None:
    assert from_rows(value)
    np.testing.assert_array_equal(read(value, shape), expected)


@pytest.mark.parametrize("value", [1.0, [1.0, 2.0], np.ones(3), None, "text"])
def test_numbers_alone_do_not_come_from_the_row(value: Any) -> None:
    assert not from_rows(value)
    assert row_parameters(room=(value, (3,))) == ()


def test_labels_become_their_numbers_and_unknown_ones_nan() -> None:
    found = read(oe.Columns("city"), (), codes={"Oslo": 3, "Bern": 4})
    np.testing.assert_array_equal(found, [[np.nan], [3]])
    np.testing.assert_array_equal(read(oe.Columns("month"), (), codes={1: 10, 2: 20}), [[10], [20]])
    np.testing.assert_array_equal(read(lambda X: X["city"], (), codes={"Rome": 0, "Oslo": 1}), [[0], [1]])
    parameter = RowParameter.of("source", oe.Columns("city"), (), {"Oslo": 3})
    assert parameter.raw(X, 0, 0) == "'Rome'"
    assert parameter.titles(X) == ["column 'city'"]


@pytest.mark.parametrize(
    ("value", "shape", "words"),
    [
        (oe.Columns(["b_0", "b_1"]), (3,), r"room needs 3 numbers in each row; Columns\(\['b_0', 'b_1'\]\) gives 2"),
        (oe.Columns("b_*"), (), r"room needs 1 number in each row; Columns\(\['b_\*'\]\) gives 2. Name one column"),
        (oe.Columns("c"), (), "room comes from the row, but X has no column 'c'"),
        (oe.Columns("city"), (), "room comes from the row, but column 'city' of X must be numeric"),
        (lambda X: np.ones(3), (), r"room\(X\) must return one row for each of the 2 rows of X; got shape \(3,\)"),
        (lambda X: X["city"], (), r"room\(X\) must be numeric"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(value, shape)


def test_an_error_of_a_function_says_whose_it_was() -> None:
    def fails(X: Any) -> Any:
        raise ArithmeticError("no room")

    with pytest.raises(ArithmeticError) as caught:
        read(fails, ())
    assert caught.value.__notes__ == ["This came from the function given as room."]


def test_the_columns_that_are_needed_are_known_unless_a_function_reads_them() -> None:
    assert RowParameter.of("room", [oe.Columns("a"), 1.0, oe.Columns("b_*")], (4,)).columns == ("a", "b_*")
    assert RowParameter.of("room", [oe.Columns("a"), lambda X: X["b_0"]], (2,)).columns is None
