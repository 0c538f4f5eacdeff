"""Tables of an audit, shared by page, notebook and command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optensemble._core.deferred import pd
from optensemble._core.number_format import NO_NUMBER, column_decimals, format_number
from optensemble.evaluation.audit import Audit
from optensemble.report.cell_text import cell_text
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import count_cell, flag_cell, interval_cell, number_cell, percent_cell

INTERVAL = "95 % interval"
SIMULTANEOUS = "simultaneous 95 % interval"
"""The heading of intervals that hold for all rows of a table together."""

SIGNIFICANT_MARK = "*"

BETTER, WORSE, NOT_SIGNIFICANT, IDENTICAL = "better", "worse", "not significant", "identical"

FrameRow = dict[Any, Any]


def lift_sheet(audit: Audit, *, cost: bool = False) -> Sheet:
    """Return the gain over each baseline, or what was saved of its cost, the strongest baseline first."""
    columns = [
        Column("baseline", kind="text"),
        Column("realised"),
        Column(gain_heading(cost)),
        Column(INTERVAL, kind="text"),
        Column("result", kind="text"),
    ]
    frame = audit.lift.sort_values("gain", kind="stable")
    digits = column_decimals(frame["gain"], (frame["high"] - frame["low"]) / 2)
    rows = [
        [
            Cell(row["rival"]),
            number_cell(row["realised"], digits),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
            Cell(gain_result(row["low"], row["high"])),
        ]
        for row in frame_rows(frame)
    ]
    better = "what was saved is positive where it cost less" if cost else "a positive gain is better"
    return Sheet(f"The ensemble against each baseline on these rows; {better}", columns, rows)


def gain_heading(cost: bool) -> str:
    """Return the heading of what the ensemble has gained, or saved of a cost."""
    return "saved by the ensemble" if cost else "gain of the ensemble"


def gain_result(low: float, high: float) -> str:
    """Return the result of a comparison from the interval of its gain.

    >>> gain_result(0.1, 0.4), gain_result(-0.1, 0.4), gain_result(0.0, 0.0)
    ('better', 'not significant', 'identical')
    """
    if low == high == 0:
        return IDENTICAL
    return BETTER if low > 0 else WORSE if high < 0 else NOT_SIGNIFICANT


def choice_sheet(audit: Audit) -> Sheet:
    """Return promised and realised payoffs where each candidate was followed."""
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
    frame, total = audit.by_choice, audit.totals.rows
    digits = column_decimals([*frame["promised"], *frame["realised"]], (frame["high"] - frame["low"]) / 2)
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
        for row in frame_rows(frame)
    ]
    return Sheet("Promised and realised, by followed candidate", columns, rows)


def cell_sheet(audit: Audit, coordinates: Sequence[str] | None = None, most: int = 15) -> Sheet:
    """Return the worst cells, the most significant first."""
    columns = [
        Column("cell: rows where", kind="prose"),
        Column("coordinate", kind="text"),
        Column("rows"),
        Column("bias"),
        Column(SIMULTANEOUS, kind="text"),
        Column("violation"),
        Column("significant", kind="text"),
    ]
    frame = audit.cells.head(most)
    digits = column_decimals(frame["bias"], frame["detectable"])
    rows = [
        [
            Cell(cell_text(name, coordinates or audit.coordinates)),
            Cell(*_coordinate_cell(audit, coordinates, row["coordinate"])),
            count_cell(row["rows"]),
            number_cell(row["bias"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
            number_cell(row["violation"], digits),
            flag_cell(row["significant"]),
        ]
        for name, row in zip(audit.cell_names[: len(frame)], frame_rows(frame), strict=True)
    ]
    shown = f"The {len(frame)} worst" if len(frame) < audit.tested else "All"
    return Sheet(f"{shown} of {audit.tested:,} pairs of cell and coordinate: labels − predictions", columns, rows)


def conditional_sheet(
    audit: Audit, coordinates: Sequence[str] | None = None, most: int = 10, *, cost: bool = False
) -> Sheet:
    """Return the gain over the best baseline in each cell, the clearest loss first."""
    columns = [
        Column("cell: rows where", kind="prose"),
        Column("rows"),
        Column("best baseline", kind="text"),
        Column("ensemble", "realised"),
        Column("baseline", "realised"),
        Column(gain_heading(cost)),
        Column(SIMULTANEOUS, kind="text"),
    ]
    frame = audit.conditional.head(most)
    digits = column_decimals(frame["gain"], (frame["high"] - frame["low"]) / 2)
    rows = [
        [
            Cell(cell_text(name, coordinates or audit.coordinates)),
            count_cell(row["rows"]),
            Cell(row["rival"]),
            number_cell(row["realised"], digits),
            number_cell(row["rival_realised"], digits),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
        ]
        for name, row in zip(audit.conditional_names[: len(frame)], frame_rows(frame), strict=True)
    ]
    return Sheet("The ensemble against the best baseline in each cell, the clearest loss first", columns, rows)


def swap_sheet(audit: Audit, most: int = 10) -> Sheet:
    """Return the swaps with a gain in hindsight, the largest first."""
    columns = [
        Column("followed", kind="text"),
        Column("instead", kind="text"),
        Column("rows"),
        Column("gain, mean of all rows"),
        Column(SIMULTANEOUS, kind="text"),
    ]
    gained = audit.swap[audit.swap["gain"] > 0].sort_values("gain", ascending=False, kind="stable")
    digits = column_decimals(gained["gain"], (gained["high"] - gained["low"]) / 2)
    rows = [
        [
            Cell(row["chosen"]),
            Cell(row["instead"]),
            count_cell(row["rows"]),
            number_cell(row["gain"], digits, "+"),
            interval_cell(row["low"], row["high"], digits, "+"),
        ]
        for row in frame_rows(gained.head(most))
    ]
    return Sheet("Swaps with a gain in hindsight", columns, rows)


def swap_matrix_sheet(audit: Audit, *, cost: bool = False) -> Sheet:
    """Return the gain of every swap, of costs the saving: hot for the better, cold for the worse."""
    names = audit.swap_matrix.columns.tolist()
    followed = audit.swap[audit.swap["rows"] > 0]
    digits = column_decimals(followed["gain"], (followed["high"] - followed["low"]) / 2)
    largest = float(followed["gain"].abs().max()) or 1.0
    rows = [
        [
            Cell(str(name)),
            count_cell(of["rows"].iloc[0]),
            *(_swap_cell(row, digits, largest) for row in frame_rows(of)),
        ]
        for name, of in followed.groupby("chosen", sort=False)
    ]
    columns = [
        Column("followed", kind="text"),
        Column("rows"),
        *(Column(name, f"{'saved' if cost else 'gain'} if followed instead") for name in names),
    ]
    what = "Saving" if cost else "Gain"
    caption = f"{what} of each swap in hindsight, mean of all rows; {SIGNIFICANT_MARK} is significant"
    return Sheet(caption, columns, rows)


def _swap_cell(row: FrameRow, digits: int, largest: float) -> Cell:
    if row["chosen"] == row["instead"]:
        return Cell(NO_NUMBER, 0.0)
    star = SIGNIFICANT_MARK if row["low"] > 0 or row["high"] < 0 else ""
    return Cell(format_number(row["gain"], digits, "+") + star, float(row["gain"]), row["gain"] / largest)


def frame_rows(frame: pd.DataFrame) -> list[FrameRow]:
    """Return the rows of a frame."""
    return frame.to_dict("records")


def _coordinate_cell(audit: Audit, coordinates: Sequence[str] | None, given: Any) -> tuple[str, int]:
    """Return the name of a coordinate, by which an audit knows it or as it is called here, and its number."""
    number = audit.coordinates.index(given) if audit.coordinates else int(given)
    names = coordinates or audit.coordinates
    return names[number] if names else str(number), number
