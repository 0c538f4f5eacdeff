"""Rows known by their own contents, whatever X is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from optensemble.members.row_contents import row_contents

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
