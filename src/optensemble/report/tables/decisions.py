"""Tables of decisions and payoffs: by block, and by coordinate."""

from __future__ import annotations

import numpy as np

from optensemble._core.number_format import column_decimals, format_significant
from optensemble.report.data import ReportData
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import BLANK, count_cell, flag_cell, interval_cell, number_cell, percent_cell
from optensemble.report.text import block_name


def block_sheet(data: ReportData) -> Sheet:
    """Return promised and realised payoffs by block."""
    blocks = data.blocks
    columns = [
        Column("time" if blocks.is_time else "row numbers", kind="text"),
        Column("rows"),
        Column("promised"),
        Column("promised interval", kind="text"),
        Column("realised"),
        Column("realised 95 % interval", kind="text"),
        Column("kept", kind="text"),
    ]
    digits = column_decimals([*blocks.promised, *blocks.realised], blocks.half_width)
    low, high = blocks.realised - blocks.half_width, blocks.realised + blocks.half_width
    outside = set(blocks.outside.tolist())
    rows = [
        [
            Cell(block_name(blocks, number), number),
            count_cell(blocks.rows[number]),
            number_cell(blocks.promised[number], digits),
            interval_cell(blocks.low[number], blocks.high[number], digits),
            number_cell(blocks.realised[number], digits),
            interval_cell(low[number], high[number], digits),
            flag_cell(number not in outside, no="no") if blocks.has_intervals else BLANK,
        ]
        for number in range(len(blocks.rows))
    ]
    return Sheet(f"Mean {data.objective} of each block", columns, rows)


def profile_sheet(data: ReportData) -> Sheet:
    """Return actions, predictions and labels by coordinate."""
    profile = data.profile
    columns = [
        Column("coordinate", kind="text"),
        Column("mean", "action"),
        Column("at lower bound", "action"),
        Column("in between", "action"),
        Column("at upper bound", "action"),
        Column("bounds", "action", kind="text"),
        Column("mean predicted", "labels"),
        Column("mean realised", "labels"),
    ]
    predicted, realised = data.answer.predictions.mean(axis=0), data.labels.mean(axis=0)
    error = data.labels.std(axis=0) / np.sqrt(data.rows)
    fine, coarse = max(column_decimals(profile.mean) - 1, 0), column_decimals([*predicted, *realised], error)
    rows = [
        [
            Cell(data.coordinates[j], int(j)),
            number_cell(profile.mean[place], fine),
            percent_cell(profile.shares[place, 0]),
            percent_cell(profile.shares[place, 1:-1].sum()),
            percent_cell(profile.shares[place, -1]),
            Cell(_bounds_text(profile.lower[place], profile.upper[place]), profile.lower[place]),
            number_cell(predicted[j], coarse),
            number_cell(realised[j], coarse),
        ]
        for place, j in enumerate(profile.shown)
    ]
    return Sheet("Actions, predictions and labels by coordinate", columns, rows)


def _bounds_text(lower: float, upper: float) -> str:
    return f"{format_significant(lower)} to {format_significant(upper)}"
