"""Tables of a live page: the certificate, alarms, open rows, refits and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.number_format import column_decimals, format_number
from optensemble.ensembles._live_log import LoggedDecision
from optensemble.monitoring.monitor import Monitor
from optensemble.report.figures import axis_name
from optensemble.report.html import Cell, Column, Html, Sheet, element
from optensemble.report.live.data import LivePageData
from optensemble.report.live.text import action_text, why_text
from optensemble.report.numbers import (
    BLANK,
    count_cell,
    flag_cell,
    interval_cell,
    number_cell,
    percent_cell,
    significant_cell,
)
from optensemble.report.phrases import count_of
from optensemble.report.tables.audit import SIGNIFICANT_MARK

MOST_LISTED = 20
"""Rows of a table: the latest refits and alarms."""

_MOST_COORDINATES = 4  # of an action, in a table
_MOST_UNFOLDED = 400
_LONGEST_ID = 60  # characters


def certificate_sheet(data: LivePageData) -> Sheet:
    """Return what was lost to each policy, and at most could have been."""
    gain = "paid beyond it" if data.cost else "lost to it"
    columns = [
        Column("policy", kind="text"),
        Column("weight"),
        Column(gain, "in all"),
        Column("at most", "in all"),
        Column(gain, f"per {data.terms.unit}"),
        Column("at most", f"per {data.terms.unit}"),
    ]
    frame = data.certificate
    totals, means = (column_decimals([*frame[lost], *frame[bound]], frame[bound] / 10) for lost, bound in _PAIRS)
    rows = [
        [
            Cell(str(row["policy"])),
            percent_cell(row["weight"]),
            number_cell(row["lost"], totals, "+"),
            number_cell(row["bound"], totals),
            number_cell(row["lost_per_row"], means, "+"),
            number_cell(row["bound_per_row"], means),
        ]
        for row in _records(frame)
    ]
    better = "less is paid" if data.cost else "more is earned"
    return Sheet(f"Against each policy, had it been followed alone; below 0, {better} than by it", columns, rows)


_PAIRS = ("lost", "bound"), ("lost_per_row", "bound_per_row")


def alarm_sheet(monitor: Monitor) -> Sheet:
    """Return the alarms, the latest first."""
    columns = [
        Column("alarm at row"),
        Column("since about row"),
        Column("direction", kind="text"),
        Column("kind", kind="text"),
        Column("evidence"),
        Column("stands", kind="text"),
    ]
    frame, standing = monitor.alarms, {(alarm.row, alarm.kind, alarm.direction) for alarm in monitor.standing}
    verb = "earned" if monitor.sense == "max" else "cost"
    rows = [
        [
            count_cell(row["row"]),
            count_cell(row["onset"]),
            Cell(f"{verb} {row['direction']} than promised"),
            Cell(row["kind"]),
            significant_cell(row["evidence"], 2),
            flag_cell((row["row"], row["kind"], row["direction"]) in standing),
        ]
        for row in _records(frame.tail(MOST_LISTED)[::-1])
    ]
    return Sheet(_latest("alarm", len(frame)), columns, rows)


def open_sheet(data: LivePageData) -> Sheet:
    """Return the oldest open rows."""
    columns = [
        Column("id", kind="text"),
        Column("number"),
        Column("decided since"),
        Column("promised"),
    ]
    decimals = column_decimals([row.promised for row in data.oldest])
    rows = [
        [
            id_cell(row.id),
            count_cell(row.number),
            count_cell(data.decided - 1 - row.number),
            number_cell(row.promised, decimals),
        ]
        for row in data.oldest
    ]
    count = f"The {len(rows)} oldest of {data.open:,}" if len(rows) < data.open else "All"
    return Sheet(f"{count} open {data.terms.units}", columns, rows)


def refit_sheet(data: LivePageData) -> Sheet:
    """Return the refits, the latest first."""
    columns = [
        Column("number"),
        Column("labels", "due after"),
        Column("decisions", "due after"),
        Column("why", kind="text"),
        Column("rows"),
        Column("decides from"),
        Column("outcome", kind="prose"),
    ]
    frame = data.series.refits.assign(number=range(1, len(data.series.refits) + 1))
    rows = [
        [
            count_cell(row["number"]),
            count_cell(row["labels"]),
            count_cell(row["decided"]),
            Cell(row["why"]),
            count_cell(row["rows"]),
            BLANK if row["failed"] or pd.isna(row["taken_up"]) else count_cell(int(row["taken_up"])),
            Cell(str(row["outcome"]) if row["failed"] else "took over", heat=0.5 if row["failed"] else 0.0),
        ]
        for row in _records(frame.tail(MOST_LISTED)[::-1])
    ]
    return Sheet(_latest("refit", len(frame)), columns, rows)


def decision_sheet(data: LivePageData) -> Sheet:
    """Return the latest decisions, with why they were made and what came of them."""
    columns = [
        Column("id", kind="text"),
        Column("decided, UTC", kind="text"),
        Column("action", kind="prose"),
        Column("promised"),
        Column("95 % interval", kind="text"),
        Column("cost" if data.cost else "realised"),
        Column("why", kind="prose"),
    ]
    known = [each.promised for each in data.decisions]
    known += [each.realised for each in data.decisions if each.realised is not None]
    decimals = column_decimals(known, [(each.high - each.low) / 20 for each in data.decisions])
    rows = [
        [
            id_cell(each.id),
            time_cell(each.at),
            action_cell(each, data.coordinates),
            number_cell(each.promised, decimals),
            interval_cell(each.low, each.high, decimals),
            _realised_cell(each, decimals),
            Cell(why_text(each, data.policies, mixes=data.mixes)),
        ]
        for each in data.decisions
    ]
    count = f"The latest {len(rows)} of {count_of(data.decided, 'decision')}"
    return Sheet(f"{count}, the newest first; {SIGNIFICANT_MARK} is outside the interval", columns, rows)


def id_cell(value: Any) -> Cell:
    """Return an id, whatever it is."""
    return Cell(axis_name(str(value), _LONGEST_ID), str(value))


def time_cell(at: datetime) -> Cell:
    """Return a moment, to the second."""
    return Cell(time_element(at), at.isoformat())


def time_element(at: datetime) -> Html:
    """Return a moment in UTC, for readers and for programs."""
    return element("time", f"{at:%Y-%m-%d %H:%M:%S}", datetime=at.isoformat(timespec="milliseconds"))


def action_cell(decision: LoggedDecision, names: Sequence[str]) -> Cell:
    """Return the largest coordinates of an action, all of which can be unfolded."""
    action = decision.action
    short, least = action_text(action, names, _MOST_COORDINATES), float(action[0])
    others = int(np.count_nonzero(action)) - _MOST_COORDINATES
    if others <= 0:
        return Cell(short, least)
    over = others + _MOST_COORDINATES - _MOST_UNFOLDED
    more = f", and {over:,} smaller ones" if over > 0 else ""
    summary = element("summary", f"{short} and {others:,} more")
    return Cell(element("details", summary, f"{action_text(action, names, _MOST_UNFOLDED)}{more}"), least)


def _realised_cell(decision: LoggedDecision, decimals: int) -> Cell:
    """Return what a decision came to, if that is known, marked if it lies outside its interval."""
    if decision.realised is None:
        return BLANK
    out = SIGNIFICANT_MARK if not decision.low <= decision.realised <= decision.high else ""
    return Cell(format_number(decision.realised, decimals) + out, decision.realised)


def _latest(noun: str, count: int) -> str:
    every = count_of(count, noun)
    return f"{f'The latest {MOST_LISTED} of {count:,} {noun}s' if count > MOST_LISTED else every}, the latest first"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in frame.to_dict("records")
    ]
    return found
