"""Tables of a fit and of a plan, shared by page, notebook and command line."""

from __future__ import annotations

from math import isfinite

from optensemble._core.deferred import pd
from optensemble._core.number_format import column_decimals
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import (
    BLANK,
    count_cell,
    flag_cell,
    interval_cell,
    number_cell,
    percent_cell,
    significant_cell,
)
from optensemble.report.tables.audit import INTERVAL, frame_rows

_ROUNDING_ERROR = 1e-12  # of the sums behind an observed value


def leaderboard_sheet(frame: pd.DataFrame) -> Sheet:
    """Return every candidate's payoff out of fold, and why it was selected or not."""
    columns = [
        Column("candidate", kind="text"),
        Column("kind", kind="text"),
        Column("realised", "out of fold"),
        Column(INTERVAL, "out of fold", kind="text"),
        Column("self-assessed", "out of fold"),
        Column("difference", "from the selected policy"),
        Column(INTERVAL, "from the selected policy", kind="text"),
        Column("followed"),
        Column("selected", kind="text"),
        Column("reason", kind="prose"),
    ]
    digits = column_decimals(frame["realised"], (frame["high"] - frame["low"]) / 2)
    fine = column_decimals(frame["difference"], (frame["difference_high"] - frame["difference_low"]) / 2)
    rows = [
        [
            Cell(row["candidate"]),
            Cell(row["kind"]),
            number_cell(row["realised"], digits),
            interval_cell(row["low"], row["high"], digits),
            number_cell(row["promised"], digits),
            number_cell(row["difference"], fine, "+"),
            interval_cell(row["difference_low"], row["difference_high"], fine, "+"),
            percent_cell(row["followed"]),
            flag_cell(row["chosen"]),
            Cell(row["why"]),
        ]
        for row in frame_rows(frame)
    ]
    return Sheet("Every candidate out of fold, the best first", columns, rows)


def validation_sheet(frame: pd.DataFrame, *, cost: bool = False) -> Sheet:
    """Return the settings that cross-validation tried, and the one selected."""
    what = "saved" if cost else "gain"
    columns = [
        Column("rounds"),
        Column("shrinkage"),
        Column("realised"),
        Column("self-assessed"),
        Column(what),
        Column("standard error"),
        Column("selected", kind="text"),
    ]
    digits = column_decimals([*frame["realised"], *frame["promised"]], frame["standard_error"])
    rows = [
        [
            count_cell(row["rounds"]),
            number_cell(row["shrinkage"], 0),
            number_cell(row["realised"], digits),
            number_cell(row["promised"], digits),
            number_cell(row["gain"], digits, "+"),
            number_cell(row["standard_error"], digits),
            flag_cell(row["chosen"]),
        ]
        for row in frame_rows(frame)
    ]
    return Sheet(f"Cross-validation of rounds and shrinkage; {what}: against no debiasing", columns, rows)


def guarantee_sheet(frame: pd.DataFrame) -> Sheet:
    """Return each lemma's bound beside the observed value."""
    measured = "low" in frame
    columns = [
        Column("lemma", kind="text"),
        Column("quantity", kind="prose"),
        Column("bound"),
        Column("observed"),
        *([Column(INTERVAL, kind="text")] if measured else []),
        Column("holds", kind="text"),
        Column("guaranteed", kind="text"),
    ]
    rows = []
    for row in frame_rows(frame):
        half = (row["high"] - row["low"]) / 2 if measured else 0.0
        rows.append(
            [
                Cell(row["lemma"]),
                Cell(row["quantity"]),
                _lone_cell(row["bound"], half) if (bounded := isfinite(row["bound"])) else Cell("no bound", ""),
                _lone_cell(row["observed"], half),
                *([interval_cell(row["low"], row["high"], column_decimals([row["low"]], [half]))] if measured else []),
                flag_cell(row["holds"], no="no") if bounded else BLANK,
                flag_cell(row["guaranteed"], no="observed only"),
            ]
        )
    where = "out of fold: observed, not guaranteed" if measured else "on the rows fitted on"
    return Sheet(f"The paper's lemmas {where}", columns, rows)


def _lone_cell(value: float, half: float) -> Cell:
    """Return a number with decimals of its own, unlike those above and below it; rounding errors are shown as 0."""
    value = value if abs(value) > _ROUNDING_ERROR else 0.0
    return number_cell(value, 0 if float(value).is_integer() and not half else column_decimals([value], [half]))


def plan_sheet(frame: pd.DataFrame) -> Sheet:
    """Return the rows that each part of the method needs."""
    columns = [
        Column("part", kind="text"),
        Column("cells"),
        Column("rows per cell"),
        Column("rows needed"),
        Column("enough", kind="text"),
        Column("detectable"),
        Column("quantity", kind="text"),
    ]
    rows = [
        [
            Cell(row["part"]),
            count_cell(row["cells"]),
            Cell(f"{row['rows_per_cell']:,.4g}", float(row["rows_per_cell"])),
            count_cell(row["needed"]),
            flag_cell(row["enough"], no="no"),
            significant_cell(row["detects"], 3),
            Cell(row["of"]),
        ]
        for row in frame_rows(frame)
    ]
    return Sheet("Rows that each part of the method needs", columns, rows)
