"""What a fit and a plan know, as tables: the same in a page and in a notebook."""

from __future__ import annotations

import pandas as pd

from optensemble.report.html import Cell, Column
from optensemble.report.numbers import (
    count_cell,
    decimals,
    flag_cell,
    interval_cell,
    number_cell,
    percent_cell,
)
from optensemble.report.tables.audit import INTERVAL, Sheet, records

_ROUNDING = 1e-12


def leaderboard(frame: pd.DataFrame) -> Sheet:
    """Show every candidate's payoff out of fold, and why it decides or does not."""
    columns = [
        Column("candidate", kind="text"),
        Column("kind", kind="text"),
        Column("realised", "out of fold"),
        Column(INTERVAL, "out of fold", kind="text"),
        Column("promised", "out of fold"),
        Column("difference", "to who decides"),
        Column(INTERVAL, "to who decides", kind="text"),
        Column("followed"),
        Column("decides", kind="text"),
        Column("why", kind="prose"),
    ]
    digits = decimals(frame["realised"], (frame["high"] - frame["low"]) / 2)
    fine = decimals(frame["difference"], (frame["difference_high"] - frame["difference_low"]) / 2)
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
        for row in records(frame)
    ]
    return Sheet("Every candidate on rows that it was not fitted on, the best first", columns, rows)


def validation(frame: pd.DataFrame) -> Sheet:
    """Show what cross-validation tried, and what it chose."""
    columns = [
        Column("rounds"),
        Column("shrinkage"),
        Column("realised"),
        Column("promised"),
        Column("gain"),
        Column("± standard error"),
        Column("chosen", kind="text"),
    ]
    digits = decimals([*frame["realised"], *frame["promised"]], frame["standard_error"])
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
        for row in records(frame)
    ]
    return Sheet(
        "How far to correct, tried out of fold: a gain is over no correction, and for the better", columns, rows
    )


def guarantees(frame: pd.DataFrame) -> Sheet:
    """Show each lemma's bound beside what was observed."""
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
    for row in records(frame):
        half = (row["high"] - row["low"]) / 2 if measured else 0.0
        rows.append(
            [
                Cell(row["lemma"]),
                Cell(row["quantity"]),
                Cell("none", "") if row["bound"] == float("inf") else _alone(row["bound"], half),
                _alone(row["observed"], half),
                *([interval_cell(row["low"], row["high"], decimals([row["low"]], [half]))] if measured else []),
                flag_cell(row["holds"], no="no"),
                flag_cell(row["guaranteed"], no="observed only"),
            ]
        )
    where = "out of fold, where nothing is guaranteed and all is observed" if measured else "on the rows fitted on"
    return Sheet(f"The paper's lemmas {where}", columns, rows)


def _alone(value: float, half: float) -> Cell:
    """Return a number that has nothing in common with those above and below it; what is rounding is nothing."""
    value = value if abs(value) > _ROUNDING else 0.0
    return number_cell(value, 0 if float(value).is_integer() and not half else decimals([value], [half]))


def plan(frame: pd.DataFrame) -> Sheet:
    """Show how many rows each part needs."""
    columns = [
        Column("part", kind="text"),
        Column("cells"),
        Column("rows per cell"),
        Column("rows needed"),
        Column("enough", kind="text"),
        Column("can be seen"),
        Column("of", kind="text"),
    ]
    rows = [
        [
            Cell(row["part"]),
            count_cell(row["cells"]),
            Cell(f"{row['rows_per_cell']:,.4g}", float(row["rows_per_cell"])),
            count_cell(row["needed"]),
            flag_cell(row["enough"], no="no"),
            Cell(f"{row['detects']:.3g}", float(row["detects"])),
            Cell(row["of"]),
        ]
        for row in records(frame)
    ]
    return Sheet("Rows that each part needs", columns, rows)
