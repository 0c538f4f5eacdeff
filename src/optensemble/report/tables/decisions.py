"""What an ensemble did on later rows, as tables: block by block, and coordinate by coordinate."""

from __future__ import annotations

import numpy as np

from optensemble.report import text as words
from optensemble.report.data import Judged
from optensemble.report.html import Cell, Column
from optensemble.report.numbers import (
    NOTHING,
    count_cell,
    decimals,
    flag_cell,
    interval_cell,
    number_cell,
    percent_cell,
)
from optensemble.report.tables.audit import INTERVAL, Sheet


def block_sheet(judged: Judged) -> Sheet:
    """Show promised and realised, block by block."""
    blocks = judged.blocks
    columns = [
        Column("time" if blocks.is_time else "rows from", kind="text"),
        Column("rows"),
        Column("promised"),
        Column("promised, 95 %", kind="text"),
        Column("realised"),
        Column(INTERVAL, kind="text"),
        Column("within", kind="text"),
    ]
    digits = decimals([*blocks.promised, *blocks.realised], blocks.half_width)
    low, high = blocks.realised - blocks.half_width, blocks.realised + blocks.half_width
    outside = set(blocks.outside.tolist())
    rows = [
        [
            Cell(words.block_name(blocks, number), number),
            count_cell(blocks.rows[number]),
            number_cell(blocks.promised[number], digits),
            interval_cell(blocks.low[number], blocks.high[number], digits),
            number_cell(blocks.realised[number], digits),
            interval_cell(low[number], high[number], digits),
            flag_cell(number not in outside, no="no") if blocks.judged else Cell(NOTHING, ""),
        ]
        for number in range(len(blocks.rows))
    ]
    return Sheet(f"Mean {judged.what} of each block", columns, rows)


def profile_sheet(judged: Judged) -> Sheet:
    """Show what was done, predicted and realised, coordinate by coordinate."""
    profile = judged.profile
    columns = [
        Column("coordinate", kind="text"),
        Column("mean", "action"),
        Column("at lower", "action"),
        Column("in between", "action"),
        Column("at upper", "action"),
        Column("bounds", "action", kind="text"),
        Column("mean predicted", "labels"),
        Column("mean realised", "labels"),
    ]
    predicted, realised = judged.answer.predictions.mean(axis=0), judged.labels.mean(axis=0)
    error = judged.labels.std(axis=0) / np.sqrt(judged.rows)
    fine, coarse = max(decimals(profile.mean) - 1, 0), decimals([*predicted, *realised], error)
    rows = [
        [
            Cell(judged.coordinates[j], int(j)),
            number_cell(profile.mean[place], fine),
            percent_cell(profile.shares[place, 0]),
            percent_cell(profile.shares[place, 1:-1].sum()),
            percent_cell(profile.shares[place, -1]),
            Cell(f"{profile.lower[place]:.4g} to {profile.upper[place]:.4g}".replace("-", "−"), profile.lower[place]),
            number_cell(predicted[j], coarse),
            number_cell(realised[j], coarse),
        ]
        for place, j in enumerate(profile.shown)
    ]
    return Sheet("Every coordinate: what was done, what was predicted, what came true", columns, rows)
