"""Numbers as table cells: the text shown, and the value a reader sorts by."""

from __future__ import annotations

from math import isnan
from typing import Any

from optensemble._core.deferred import pd
from optensemble._core.number_format import (
    NO_NUMBER,
    format_interval,
    format_number,
    format_percent,
    format_significant,
)
from optensemble.report.html import Cell

BLANK = Cell(NO_NUMBER, "")
"""A missing value: a dash, sorted last."""


def number_cell(value: float, decimals: int, sign: str = "") -> Cell:
    """Return a number with fixed decimals; blank for NaN."""
    return BLANK if isnan(value) else Cell(format_number(value, decimals, sign), float(value))


def significant_cell(value: float, digits: int) -> Cell:
    """Return a number with significant digits."""
    return Cell(format_significant(value, digits), float(value))


def estimate_cell(value: float, half_width: float, decimals: int, sign: str = "") -> Cell:
    """Return an estimate with half the width of its interval; blank for NaN.

    >>> estimate_cell(0.25, 0.125, 2, sign="+")
    Cell(text='+0.25 ± 0.12', value=0.25, heat=0.0)
    """
    cell = number_cell(value, decimals, sign)
    return cell if cell is BLANK else cell._replace(text=f"{cell.text} ± {format_number(half_width, decimals)}")


def count_cell(value: Any) -> Cell:
    """Return a whole number; blank for None and pandas' NA."""
    return BLANK if pd.isna(value) else Cell(f"{value:,}", int(value))


def percent_cell(share: float) -> Cell:
    """Return a share in percent."""
    return Cell(format_percent(share), float(share))


def interval_cell(low: float, high: float, decimals: int, sign: str = "") -> Cell:
    """Return an interval, sorted by its lower limit; blank without limits.

    >>> interval_cell(-1.0, 2.5, 1, sign="+")
    Cell(text='−1.0 to +2.5', value=-1.0, heat=0.0)
    """
    text = format_interval(low, high, decimals, sign)
    return BLANK if text == NO_NUMBER else Cell(text, float(low))


def flag_cell(value: bool, yes: str = "yes", no: str = NO_NUMBER) -> Cell:
    """Return yes or no."""
    return Cell(yes if value else no, int(value))
