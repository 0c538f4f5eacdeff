"""What a notebook shows of an audit, a fitted ensemble or a plan: the tables of the page, in the notebook's colours."""

from __future__ import annotations

from typing import Any

from optensemble.ensembles.base import DECISION
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.planning import RowPlan
from optensemble.report import text as words
from optensemble.report.html import Html, element, plain_table
from optensemble.report.tables import audit as tables
from optensemble.report.tables import fit as fit_tables
from optensemble.report.tables.audit import Sheet

_MOST = 10

_STYLE = """
.optensemble h4 { margin: 0.9em 0 0.2em; font-weight: 600; }
.optensemble > div { overflow-x: auto; }
.optensemble table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.optensemble th, .optensemble td { padding: 0.2em 0.6em; text-align: left; white-space: nowrap; }
.optensemble tr { border-bottom: 1px solid rgb(128 128 128 / 0.35); }
.optensemble .number { text-align: right; }
.optensemble td.prose { white-space: normal; min-width: 14em; }
"""


def show_audit(audit: Audit) -> str:
    """Return the verdict, and the head of every table that has rows."""
    sheets = [
        tables.by_choice(audit),
        tables.lift(audit),
        tables.cells(audit, most=_MOST),
        tables.swaps(audit, most=_MOST),
        tables.conditional(audit, most=_MOST),
    ]
    found = element("p", element("strong", audit.verdict), Html("<br>"), words.cells(audit))
    return _shown(found, *map(_sheet, sheets))


def show_ensemble(ensemble: Any) -> str:
    """Return what came of the fit: in words, then who is best, and what the lemmas say."""
    title = f"{type(ensemble).__name__}, fitted on {ensemble.n_rows_:,} rows"
    said = [element("li", sentence) for sentence in words.fit(ensemble)]
    sheets = []
    if ensemble.kind == DECISION:
        sheets.append(fit_tables.leaderboard(ensemble.leaderboard_))
    elif ensemble.terms_.validated:
        tried = ensemble.validation_
        sheets.append(fit_tables.validation(tried[tried["chosen"] | (tried["rounds"] == 0)]))
    sheets.append(fit_tables.guarantees(ensemble.guarantees_))
    return _shown(element("p", element("strong", title)), element("ul", *said), *map(_sheet, sheets))


def show_plan(plan: RowPlan) -> str:
    """Return the plan's sentence and its table."""
    return _shown(element("p", element("strong", str(plan).splitlines()[0])), _table(fit_tables.plan(plan.parts)))


def _sheet(sheet: Sheet) -> Html:
    if not sheet.rows:
        return Html("")
    return Html(element("h4", sheet.caption) + _table(sheet))


def _table(sheet: Sheet) -> Html:
    return element("div", plain_table(sheet.columns, sheet.rows))


def _shown(*parts: Html) -> str:
    return element("div", element("style", Html(_STYLE)), *parts, class_="optensemble")
