"""Numbers as cells of a table: what is shown, and what it is sorted by."""

from __future__ import annotations

from typing import Any

import pandas as pd

from optensemble.experiments import words
from optensemble.report.html import Cell


def number_cell(value: Any, digits: int = 2, sign: str = "", after: str = "") -> Cell:
    """Return a number; a dash, sorted last, if there is none."""
    return _blank(value) or Cell(words.number(value, digits, sign) + after, float(value))


def interval_cell(value: Any, error: float, digits: int = 2, sign: str = "") -> Cell:
    """Return a number with half of its interval."""
    return number_cell(value, digits, sign, after=f" ± {error:.{digits}f}")


def count_cell(value: Any) -> Cell:
    """Return a whole number; a dash, sorted last, if there is none."""
    return _blank(value) or Cell(f"{value:,}", int(value))


def _blank(value: Any) -> Cell | None:
    return Cell("–", "") if value is None or pd.isna(value) else None
