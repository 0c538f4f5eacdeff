"""Notebook output of an audit, an ensemble, a promise, a plan and an explanation: short tables in its colours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from optensemble._core.number_format import format_significant
from optensemble.ensembles.base import DECISION
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.planning import RowPlan
from optensemble.evaluation.promise import Promise
from optensemble.explanation.explanation import Explanation
from optensemble.explanation.text import explanation_lines, explanation_tables
from optensemble.report.html import Cell, Column, Html, Sheet, element, plain_table
from optensemble.report.numbers import count_cell
from optensemble.report.tables.audit import (
    INTERVAL,
    SIMULTANEOUS,
    cell_sheet,
    choice_sheet,
    conditional_sheet,
    lift_sheet,
    swap_sheet,
)
from optensemble.report.tables.fit import guarantee_sheet, leaderboard_sheet, plan_sheet, validation_sheet
from optensemble.report.text import bias_summary, fit_summary

if TYPE_CHECKING:
    from optensemble.ensembles._live_findings import LiveFindings

MOST_ROWS = 10
"""Rows of a table: the rest are counted, unless they are so few that the count would take their place."""

_SPARE = 2

_ALL = 1_000_000  # rows, of tables that are cut here

_ON_THE_PAGE = ("kind", "self-assessed", "reason")  # columns of the leaderboard that would make it wider than a cell

_NOTEBOOK_CSS = """
.optensemble h4, .optensemble summary { margin: 0.9em 0 0.2em; font-weight: 600; }
.optensemble summary { cursor: pointer; }
.optensemble .scroll { overflow-x: auto; }
.optensemble table { border-collapse: collapse; margin: 0; table-layout: auto; font-variant-numeric: tabular-nums; }
.optensemble table th, .optensemble table td { padding: 0.2em 0.6em; text-align: left; white-space: nowrap; }
.optensemble table tr { border-bottom: 1px solid rgb(128 128 128 / 0.35); }
.optensemble table .number { text-align: right; }
.optensemble table .groups th { text-align: center; }
.optensemble table td.prose { white-space: normal; min-width: 22em; }
.optensemble .more { margin: 0.2em 0.6em; opacity: 0.7; }
"""


def audit_html(audit: Audit) -> str:
    """Return the verdict with its doubts, tables by candidate and baseline, and those on cells and swaps folded."""
    lines = [*(f"doubt: {doubt}" for doubt in audit.judgement.doubts), bias_summary(audit)]
    cells, cost = _titled_table if audit.biased else _folded_table, audit.sense == "min"
    return _notebook_html(
        element("p", element("strong", audit.verdict), *(part for line in lines for part in (Html("<br>"), line))),
        _titled_table(choice_sheet(audit), "by_choice"),
        _titled_table(lift_sheet(audit, cost=cost), "lift"),
        cells(cell_sheet(audit, most=MOST_ROWS), "cells"),
        _folded_table(swap_sheet(audit, most=_ALL), "swap"),
        _folded_table(conditional_sheet(audit, most=_ALL, cost=cost), "conditional"),
    )


def ensemble_html(ensemble: Any) -> str:
    """Return the result of a fit: sentences, the leaderboard or cross-validation, and the lemmas."""
    title = f"{type(ensemble).__name__}, fitted on {ensemble.n_rows_:,} rows"
    sentences = [element("li", sentence) for sentence in fit_summary(ensemble)]
    tables = []
    if ensemble.kind == DECISION:
        tables.append(_titled_table(_without(leaderboard_sheet(ensemble.leaderboard_), _ON_THE_PAGE), "leaderboard_"))
    elif ensemble.terms_.validated:
        tried = ensemble.validation_
        sheet = validation_sheet(tried[tried["chosen"] | (tried["rounds"] == 0)])
        tables.append(_titled_table(sheet, "validation_"))
    tables.append(_titled_table(guarantee_sheet(ensemble.guarantees_), "guarantees_"))
    return _notebook_html(element("p", element("strong", title)), element("ul", *sentences), *tables)


def live_html(live: LiveFindings) -> str:
    """Return the certificate of a LiveEnsemble, the monitor's word, and its refits folded."""
    lines = [f"{live.rows_:,} rows learned from, {len(live.open_):,} open, {live.expired_:,} expired"]
    lines += [] if live.monitor is None else [f"monitor: {live.monitor}"]
    headings = {"policy": "policy", "weight": "weight", "lost_per_row": "lost per row", "bound_per_row": "at most"}
    shown = live.certificate()[list(headings)].rename(columns=headings).head(len(live.policies_) if live.rows_ else 0)
    return _notebook_html(
        element("p", element("strong", live.finding_)),
        element("ul", *(element("li", line) for line in lines)),
        _titled_table(_frame_sheet("Lost to each policy", shown), "certificate()"),
        _folded_table(_frame_sheet("Refits", live.refits_), "refits_"),
    )


def promise_html(promise: Promise) -> str:
    """Return the promise in a sentence, and its reservations in another."""
    said = element("strong", str(replace(promise, note="")))
    return _notebook_html(element("p", said, *([Html("<br>"), promise.note] if promise.note else [])))


def plan_html(plan: RowPlan) -> str:
    """Return the plan's sentence and its table."""
    sentence = str(plan).splitlines()[0]
    return _notebook_html(element("p", element("strong", sentence)), _table(plan_sheet(plan.parts), "parts"))


def explanation_html(explanation: Explanation) -> str:
    """Return the sentence and the head of every table."""
    first, *others = explanation_lines(explanation)
    lines = [part for line in others for part in (Html("<br>"), line)][1:]
    tables = [
        part
        for title, frame in explanation_tables(explanation).items()
        for part in (element("h4", title), _table(_frame_sheet(title, frame), "") if len(frame) else Html(""))
    ]
    return _notebook_html(element("p", element("strong", first)), element("p", *lines), *tables)


def _frame_sheet(title: str, frame: pd.DataFrame) -> Sheet:
    columns, cells = [], []
    for name, values in frame.items():
        number = pd.api.types.is_numeric_dtype(values)
        columns.append(Column(str(name), kind="number" if number else "prose" if name in ("cell", "does") else "text"))
        cells.append([_value_cell(value) for value in values.tolist()])
    return Sheet(title, columns, [list(row) for row in zip(*cells, strict=True)])


def _value_cell(value: Any) -> Cell:
    if isinstance(value, float):
        return Cell("" if pd.isna(value) else format_significant(value))
    return count_cell(value) if isinstance(value, int) else Cell(str(value))


def _titled_table(sheet: Sheet, whole: str) -> Html:
    """Return a table under its title, and nothing of an empty one; ``whole`` is the attribute that has all rows."""
    return Html(element("h4", sheet.caption) + _table(sheet, whole)) if sheet.rows else Html("")


def _folded_table(sheet: Sheet, whole: str) -> Html:
    """Return a table that its title opens."""
    return element("details", element("summary", sheet.caption), _table(sheet, whole)) if sheet.rows else Html("")


def _table(sheet: Sheet, whole: str) -> Html:
    count = len(sheet.rows) if len(sheet.rows) <= MOST_ROWS + _SPARE else MOST_ROWS
    left = len(sheet.rows) - count
    shown = _narrow(Sheet(sheet.caption, sheet.columns, sheet.rows[:count]))
    more = element("p", f"and {left:,} more{f' in {whole}' if whole else ''}", class_="more") if left > 0 else Html("")
    return Html(element("div", plain_table(shown), class_="scroll") + more)


def _narrow(sheet: Sheet) -> Sheet:
    """Return a table without columns that are empty, and with intervals on the right as the numbers they are."""
    empty = [column.heading for j, column in enumerate(sheet.columns) if not any(row[j].text for row in sheet.rows)]
    kept = _without(sheet, empty)
    columns = [
        replace(column, kind="number") if column.heading in (INTERVAL, SIMULTANEOUS) else column
        for column in kept.columns
    ]
    return replace(kept, columns=columns)


def _without(sheet: Sheet, headings: list[str] | tuple[str, ...]) -> Sheet:
    kept = [j for j, column in enumerate(sheet.columns) if column.heading not in headings]
    rows = [[row[j] for j in kept] for row in sheet.rows]
    return Sheet(sheet.caption, [sheet.columns[j] for j in kept], rows)


def _notebook_html(*parts: Html) -> str:
    return element("div", element("style", Html(_NOTEBOOK_CSS)), *parts, class_="optensemble")
