"""Cells of numbers: the text shown, and the value a reader sorts by."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from optensemble.report.numbers import BLANK, count_cell, estimate_cell, interval_cell, number_cell


@pytest.mark.parametrize(
    "cell",
    [
        number_cell(np.nan, 2),
        estimate_cell(np.nan, 0.1, 2),
        count_cell(None),
        count_cell(pd.NA),
        interval_cell(-np.inf, np.inf, 2),
    ],
)
def test_what_is_missing_is_a_dash_and_sorted_last(cell: object) -> None:
    assert cell == BLANK == ("–", "", 0.0)


def test_cells_are_sorted_by_all_their_digits() -> None:
    assert number_cell(-1234.5678, 1) == ("−1,234.6", -1234.5678, 0.0)
    assert estimate_cell(0.0049, 0.0051, 2, "+") == ("0.00 ± 0.01", 0.0049, 0.0)
    assert count_cell(np.int64(12345)) == ("12,345", 12345, 0.0)
