"""What an audit found, as tables: the same in a page and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from optensemble.evaluation.audit import Audit
from optensemble.report.cell_words import cell_words
from optensemble.report.html import Cell, Column
from optensemble.report.numbers import (
    NOTHING,
    count_cell,
    decimals,
    flag_cell,
    interval_cell,
    number,
    number_cell,
    percent_cell,
)

INTERVAL = "95 % interval"

SIGNIFICANT = "*"
"""Beside what is not by chance."""


class Sheet(NamedTuple):
    """A table before it is HTML."""

    caption: str
    columns: list[Column]
    rows: list[list[Cell]]


Record = dict[Any, Any]


def lift(audit: Audit) -> Sheet:
    """Compare the ensemble with each rival, the strongest first."""
    columns = [
        Column("rival", kind="text"),
        Column("realised"),
        Column("gain of the ensemble"),
        Column(INTERVAL, kind="text"),
        Column("so it is", kind="text"),
    ]
    frame = audit.lift.sort_values("gain", kind="stable")
    digits = decimals(frame["gain"], (frame["high"] - frame["low"]) / 2)
    rows = [
        [
            Cell(row["rival"]),
            number_cell(row["realised"], digits),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
            Cell(side(row["low"], row["high"])),
        ]
        for row in records(frame)
    ]
    return Sheet("The ensemble against each rival on these rows: a gain is for the better", columns, rows)


def side(low: float, high: float) -> str:
    """Say on which side of nothing an interval lies."""
    if low == high == 0:
        return "the same"
    return "ahead" if low > 0 else "behind" if high < 0 else "level within the noise"


def by_choice(audit: Audit) -> Sheet:
    """Compare promised and realised where each one was followed."""
    columns = [
        Column("followed", kind="text"),
        Column("rows"),
        Column("share"),
        Column("promised"),
        Column("realised"),
        Column("promised − realised"),
        Column(INTERVAL, kind="text"),
        Column("note", kind="text"),
    ]
    frame, total = audit.by_choice, int(audit.summary["rows"].iloc[0])
    digits = decimals([*frame["promised"], *frame["realised"]], (frame["high"] - frame["low"]) / 2)
    rows = [
        [
            Cell(row["chosen"]),
            count_cell(row["rows"]),
            percent_cell(row["rows"] / total),
            number_cell(row["promised"], digits),
            number_cell(row["realised"], digits),
            number_cell(row["gap"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
            Cell(row["note"]),
        ]
        for row in records(frame)
    ]
    return Sheet("Promised and realised, by whom was followed", columns, rows)


def cells(audit: Audit, coordinates: Sequence[str] | None = None, most: int = 15) -> Sheet:
    """Show the worst cells, the most striking first."""
    columns = [
        Column("cell: rows where", kind="prose"),
        Column("coordinate", kind="text"),
        Column("rows"),
        Column("bias"),
        Column("all intervals at once", kind="text"),
        Column("violation"),
        Column("beyond chance", kind="text"),
    ]
    frame = audit.cells.head(most)
    digits = decimals(frame["bias"], frame["detectable"])
    rows = [
        [
            Cell(cell_words(row["cell"], coordinates)),
            Cell(_name(coordinates, row["coordinate"]), int(row["coordinate"])),
            count_cell(row["rows"]),
            number_cell(row["bias"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
            number_cell(row["violation"], digits),
            flag_cell(row["significant"]),
        ]
        for row in records(frame)
    ]
    shown = f"The {len(frame)} worst" if len(frame) < audit.tested else "All"
    return Sheet(f"{shown} of {audit.tested:,} pairs of cell and coordinate: labels less predictions", columns, rows)


def conditional(audit: Audit, coordinates: Sequence[str] | None = None, most: int = 10) -> Sheet:
    """Compare the ensemble with the best rival on each cell, the clearest loss first."""
    columns = [
        Column("cell: rows where", kind="prose"),
        Column("rows"),
        Column("realised"),
        Column("best rival there", kind="text"),
        Column("its payoff"),
        Column("gain of the ensemble"),
        Column("all intervals at once", kind="text"),
    ]
    frame = audit.conditional.head(most)
    digits = decimals(frame["gain"], (frame["high"] - frame["low"]) / 2)
    rows = [
        [
            Cell(cell_words(row["cell"], coordinates)),
            count_cell(row["rows"]),
            number_cell(row["realised"], digits),
            Cell(row["rival"]),
            number_cell(row["rival_realised"], digits),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
        ]
        for row in records(frame)
    ]
    return Sheet("Against the best rival on each cell, the clearest loss first", columns, rows)


def swaps(audit: Audit, most: int = 10) -> Sheet:
    """List the swaps that would have gained, the largest first."""
    columns = [
        Column("followed", kind="text"),
        Column("instead", kind="text"),
        Column("rows"),
        Column("gain over all rows"),
        Column("all intervals at once", kind="text"),
    ]
    gained = audit.swap[audit.swap["gain"] > 0].sort_values("gain", ascending=False, kind="stable")
    digits = decimals(gained["gain"], (gained["high"] - gained["low"]) / 2)
    rows = [
        [
            Cell(row["chosen"]),
            Cell(row["instead"]),
            count_cell(row["rows"]),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
        ]
        for row in records(gained.head(most))
    ]
    return Sheet("Swaps that would have gained", columns, rows)


def swap_matrix(audit: Audit) -> Sheet:
    """Show what following another would have gained: hot where it would, cold where it would have lost."""
    names = audit.swap_matrix.columns.tolist()
    followed = audit.swap[audit.swap["rows"] > 0]
    digits = decimals(followed["gain"], (followed["high"] - followed["low"]) / 2)
    largest = float(followed["gain"].abs().max()) or 1.0
    rows = [
        [
            Cell(str(name)),
            count_cell(of["rows"].iloc[0]),
            *(_swap_cell(row, digits, largest) for row in records(of)),
        ]
        for name, of in followed.groupby("chosen", sort=False)
    ]
    columns = [
        Column("followed", kind="text"),
        Column("rows"),
        *(Column(name, "gain if it had followed instead") for name in names),
    ]
    return Sheet(f"Gains in hindsight, averaged over all rows; {SIGNIFICANT} is beyond chance", columns, rows)


def _swap_cell(row: Record, digits: int, largest: float) -> Cell:
    if row["chosen"] == row["instead"]:
        return Cell(NOTHING, 0.0)
    star = SIGNIFICANT if row["low"] > 0 or row["high"] < 0 else ""
    return Cell(number(row["gain"], digits, "+") + star, float(row["gain"]), row["gain"] / largest)


def records(frame: pd.DataFrame) -> list[Record]:
    """Return the rows of a frame."""
    return frame.to_dict("records")


def _name(coordinates: Sequence[str] | None, number: int) -> str:
    return str(number) if coordinates is None else coordinates[number]
