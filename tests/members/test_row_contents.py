"""Rows known by their own contents, whatever X is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from optensemble.members import row_contents as _row_contents
from optensemble.members.row_contents import row_contents
from tests.problems import Floats

NUMBERS = np.array([[1.0, 2.0], [3.0, np.nan], [1.0, 2.0], [2.0, 1.0]])
FRAME = pd.DataFrame(
    {"day": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-01", "2026-01-03"]), "kind": list("abac")}
)

KINDS: dict[str, Any] = {
    "numbers": NUMBERS,
    "single precision": NUMBERS.astype(np.float32),
    "a frame": pd.DataFrame(NUMBERS),
    "polars": pl.DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}),
    "dates and text": FRAME,
    "categories": FRAME.assign(kind=FRAME["kind"].astype("category")),
    "objects": FRAME.to_numpy(dtype=object),
    "sparse": sparse.csr_matrix(np.nan_to_num(NUMBERS)),
    "texts": ["one", "two", "one", "three"],
    "lists of different lengths": [[1, 2], [1], [1, 2], [2]],
    "pictures": np.arange(4)[[0, 1, 0, 2]][:, None, None] * np.ones((4, 2, 2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_rows_have_equal_numbers_and_others_have_others(kind: str) -> None:
    found = row_contents(KINDS[kind])[:, 0]
    assert found[0] == found[2]
    assert len(np.unique(found)) == 3


def test_the_kind_of_table_does_not_matter_to_numbers() -> None:
    expected = row_contents(NUMBERS)
    for kind in ("single precision", "a frame", "polars"):
        assert np.array_equal(row_contents(KINDS[kind]), expected)
    assert row_contents(NUMBERS[:0]).shape == (0, 1)


def test_a_row_is_the_same_whatever_is_beside_it() -> None:
    """A column with a gap is kept as objects, and without it as numbers."""
    for frame in (
        pd.DataFrame({"a": pd.array([True, False, None], dtype="boolean")}),
        pd.DataFrame({"a": pd.array([1, 2, None], dtype="Int64")}),
        pl.DataFrame({"a": [True, False, None]}),
        pl.DataFrame({"a": ["x", "y", None]}),
        np.array([[1.5], [True], ["x"]], dtype=object),
    ):
        found = row_contents(frame)
        assert len(np.unique(found)) == 3
        assert np.array_equal(row_contents(frame[:2]), found[:2])
    assert row_contents(np.array([[1.5]], dtype=object)) == row_contents(np.array([[1.5]]))


def test_large_whole_numbers_are_told_apart() -> None:
    large = np.array([[2**60], [2**60 + 1], [-(2**60) - 1]])
    found = row_contents(large)
    assert len(np.unique(found)) == 3
    assert np.array_equal(row_contents(large.astype(object)), found)
    assert row_contents(np.array([[2.0**60]])) == found[0]


def test_rows_are_written_out_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = np.random.default_rng(0).integers(3, size=(50, 2000)).astype(float)
    kinds: list[Any] = [sparse.csr_matrix(dense), dense, pd.DataFrame(dense), dense.tolist()]
    whole = [row_contents(X) for X in kinds]
    columns, seen = _row_contents._columns, list[int]()

    def watched(X: Any) -> list[Floats]:
        seen.append(X.shape[0])
        return columns(X)

    monkeypatch.setattr(_row_contents, "_AT_ONCE", 7000)
    monkeypatch.setattr(_row_contents, "_columns", watched)
    for X, expected in zip(kinds, whole, strict=True):
        assert np.array_equal(row_contents(X), expected)
    assert max(seen) == 3
