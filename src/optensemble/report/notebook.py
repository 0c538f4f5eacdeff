"""Notebook output of an audit, a fitted ensemble and a plan: the tables of the page, in the notebook's colours."""

from __future__ import annotations

from typing import Any

from optensemble.ensembles.base import DECISION
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.planning import RowPlan
from optensemble.evaluation.promise import Promise
from optensemble.report.html import Html, Sheet, element, plain_table
from optensemble.report.tables.audit import cell_sheet, choice_sheet, conditional_sheet, lift_sheet, swap_sheet
from optensemble.report.tables.fit import guarantee_sheet, leaderboard_sheet, plan_sheet, validation_sheet
from optensemble.report.text import bias_summary, fit_summary

_MOST_ROWS = 10

_NOTEBOOK_CSS = """
.optensemble h4 { margin: 0.9em 0 0.2em; font-weight: 600; }
.optensemble > div { overflow-x: auto; }
.optensemble table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.optensemble th, .optensemble td { padding: 0.2em 0.6em; text-align: left; white-space: nowrap; }
.optensemble tr { border-bottom: 1px solid rgb(128 128 128 / 0.35); }
.optensemble .number { text-align: right; }
.optensemble td.prose { white-space: normal; min-width: 14em; }
"""


def audit_html(audit: Audit) -> str:
    """Return the verdict, and the head of every table that has rows."""
    sheets = [
        choice_sheet(audit),
        lift_sheet(audit),
        cell_sheet(audit, most=_MOST_ROWS),
        swap_sheet(audit, most=_MOST_ROWS),
        conditional_sheet(audit, most=_MOST_ROWS),
    ]
    summary = element("p", element("strong", audit.verdict), Html("<br>"), bias_summary(audit))
    return _notebook_html(summary, *map(_titled_table, sheets))


def ensemble_html(ensemble: Any) -> str:
    """Return the result of a fit: sentences, the leaderboard or cross-validation, and the lemmas."""
    title = f"{type(ensemble).__name__}, fitted on {ensemble.n_rows_:,} rows"
    sentences = [element("li", sentence) for sentence in fit_summary(ensemble)]
    sheets = []
    if ensemble.kind == DECISION:
        sheets.append(leaderboard_sheet(ensemble.leaderboard_))
    elif ensemble.terms_.validated:
        tried = ensemble.validation_
        sheets.append(validation_sheet(tried[tried["chosen"] | (tried["rounds"] == 0)]))
    sheets.append(guarantee_sheet(ensemble.guarantees_))
    tables = map(_titled_table, sheets)
    return _notebook_html(element("p", element("strong", title)), element("ul", *sentences), *tables)


def promise_html(promise: Promise) -> str:
    """Return the promise in a sentence."""
    return _notebook_html(element("p", str(promise)))


def plan_html(plan: RowPlan) -> str:
    """Return the plan's sentence and its table."""
    sentence = str(plan).splitlines()[0]
    return _notebook_html(element("p", element("strong", sentence)), _scrolling_table(plan_sheet(plan.parts)))


def _titled_table(sheet: Sheet) -> Html:
    if not sheet.rows:
        return Html("")
    return Html(element("h4", sheet.caption) + _scrolling_table(sheet))


def _scrolling_table(sheet: Sheet) -> Html:
    return element("div", plain_table(sheet))


def _notebook_html(*parts: Html) -> str:
    return element("div", element("style", Html(_NOTEBOOK_CSS)), *parts, class_="optensemble")
