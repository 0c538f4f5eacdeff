"""Words and numbers at the top of a report: verdict, totals, who decides, typical decisions."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import pandas as pd

from optensemble._core.number_format import (
    NO_NUMBER,
    column_decimals,
    format_interval,
    format_number,
    format_percent,
)
from optensemble.report.blocks import moment_text
from optensemble.report.data import ReportData
from optensemble.report.figures import axis_name
from optensemble.report.overview.figures import MOST_COLUMNS, draws_graph, shown_lines
from optensemble.report.overview.totals import PeriodTotals
from optensemble.report.overview.typical import TypicalDecision
from optensemble.report.phrases import KeyFigure
from optensemble.report.terms import ReportTerms
from optensemble.report.text import mean_texts

_SPACE = "\N{NO-BREAK SPACE}"
_LONGEST_SOURCE = 60  # characters of the name of a table in a title


def overview_title(data: ReportData) -> str:
    """Return the title as given, or else one made of the name of the table."""
    source = axis_name(data.source, _LONGEST_SOURCE)
    return data.terms.title.strip() or (f"Report on {source}" if source else "Report")


def overview_subject(data: ReportData, totals: PeriodTotals) -> str:
    """Return what the report is about: the rows, their time, and who decided."""
    blocks = data.blocks
    span = ""
    if blocks.is_time:
        time = "" if isinstance(blocks.start, pd.DatetimeIndex) else "time "
        span = f", {time}{moment_text(blocks.start[0])} to {moment_text(blocks.end[-1])}"
    net = f"; every {data.objective} {'includes' if totals.cost else 'is net of'} the known cost of acting"
    costs = net if data.ensemble.feasible_.has_cost else ""
    return f"{counted(data, totals)}{span}, decided by {type(data.ensemble).__name__}{costs}"


def period_figures(data: ReportData, totals: PeriodTotals) -> list[KeyFigure]:
    """Return what was promised, what it came to, and the share of foresight."""
    terms, decimals = data.terms, total_decimals(data, totals)
    limits = format_interval(totals.low, totals.high, decimals)
    promised = "Promised cost" if totals.cost else "Promised"
    realised = "Actual cost" if totals.cost else "Earned"
    interval = "no interval" if limits == NO_NUMBER else f"95{_SPACE}%: {terms.amount(limits)}"
    return [
        KeyFigure(promised, _amount(totals.promised, decimals, terms), interval),
        KeyFigure(realised, _amount(totals.realised, decimals, terms), _per_unit(data)),
        foresight_figure(totals, terms, decimals),
    ]


def foresight_figure(totals: PeriodTotals, terms: ReportTerms, decimals: int) -> KeyFigure:
    """Return the share of foresight, of costs what they are above it; the difference where there is no share."""
    if totals.foresight is None or totals.behind is None:
        return KeyFigure("Share of foresight", NO_NUMBER, "the best decisions in hindsight could not be computed")
    best = _amount(totals.foresight, decimals, terms)
    if totals.share is None:
        brought = "cost" if totals.cost else "earned" if totals.foresight >= 0 else "come to"
        why = f"with all known beforehand it would have {brought} {best}: there is no share of that"
        return KeyFigure("Behind foresight", _amount(totals.behind, decimals, terms), why)
    if totals.cost:
        above = totals.realised / totals.foresight - 1
        shown = format_percent(above) if above >= 0 else format_percent(0.0)
        return KeyFigure("Above foresight", shown, f"more than {best}, the cost with all known beforehand")
    return KeyFigure("Share of foresight", format_percent(totals.share), f"of {best}, with all known beforehand")


def _per_unit(data: ReportData) -> str:
    row, terms = data.audit.totals, data.terms
    return f"{terms.amount(mean_texts(row).realised)} per {terms.unit}"


def total_decimals(data: ReportData, totals: PeriodTotals) -> int:
    """Return the decimals of totals: as many as the errors of promise and mean leave."""
    errors = [(totals.high - totals.low) / 2, data.audit.totals.half_width * totals.weight]
    known = [totals.promised, totals.realised, *([] if totals.foresight is None else [totals.foresight])]
    return column_decimals(known, errors)


def totals_sentence(data: ReportData, totals: PeriodTotals) -> str:
    """Return the totals in a sentence, for the command line."""
    promised, realised, foresight = period_figures(data, totals)
    verb = "came to" if totals.cost else "earned"
    share = {
        "Share of foresight": f", {foresight.number} of what foresight would have earned",
        "Above foresight": f", {foresight.number} above the cost with foresight",
        "Behind foresight": f", {foresight.number} behind foresight",
    }[foresight.title]
    said = f"promised {promised.number}, {verb} {realised.number}{'' if totals.foresight is None else share}"
    return f"over {counted(data, totals)}: {said}"


def counted(data: ReportData, totals: PeriodTotals) -> str:
    """Return the number of rows, and what they count for where they have weights."""
    rows = data.terms.count(totals.rows)
    return rows if data.weights is None else f"{rows}, which count for {totals.weight:,.6g}"


def typical_title(decision: TypicalDecision, terms: ReportTerms) -> str:
    """Return the heading of a typical decision.

    >>> from types import SimpleNamespace
    >>> typical_title(SimpleNamespace(kind="good", name="2024-03-01"), ReportTerms(unit="day"))
    'A good day: 2024-03-01'
    """
    article = "An" if decision.kind.startswith("o") else "A"
    return f"{article} {decision.kind} {terms.unit}: {decision.name}"


def typical_facts(decision: TypicalDecision, data: ReportData) -> list[tuple[str, str]]:
    """Return what was promised, what it came to, what foresight would have brought, and who was followed."""
    terms, cost = data.terms, data.sense == "min"
    half = (decision.high - decision.low) / 2
    # what a row brought is known, however wide its limits: a digit more than they leave
    decimals = column_decimals([decision.promised, decision.realised], [half / 10])
    limits = format_interval(decision.low, decision.high, decimals)
    between = "" if limits == NO_NUMBER else f" (95{_SPACE}%: {limits})"
    facts = [
        ("promised", _amount(decision.promised, decimals, terms) + between),
        ("cost" if cost else "earned", _amount(decision.realised, decimals, terms)),
    ]
    if decision.foresight is not None:
        facts.append(("with foresight", _amount(decision.foresight, decimals, terms)))
    return [*facts, ("followed", decision.followed)]


def about_typical(data: ReportData) -> str:
    """Return how typical decisions are picked."""
    what, units = data.objective, data.terms.units
    return (
        f"From the worst {what} to the best, the {units} a quarter, half and three quarters of the way (of equals, the "
        "first)."
    )


def about_picture(data: ReportData, decisions: Sequence[TypicalDecision]) -> str:
    """Return what the pictures of typical decisions show."""
    if any(draws_graph(decision) for decision in decisions):
        closed = any(graph.closed is not None for decision in decisions if (graph := decision.path_set) is not None)
        return f"Thick and blue is the path taken, thin and grey what else there is{'; dotted is closed' * closed}."
    if any(decision.is_share for decision in decisions):
        return "Bars are shares of the whole."
    lines = max(len(shown_lines(decision)) for decision in decisions)
    some = len(data.coordinates) > MOST_COLUMNS and lines < len(data.coordinates)
    return f"Bars are actions{f', the largest of {len(data.coordinates):,} coordinates' if some else ''}."


def about_trend(data: ReportData) -> str:
    """Return what the lines and colours of the trend mean."""
    band = ", with its 95 % interval as a band" if data.blocks.has_intervals else ""
    out = " An orange dot is a block outside its interval." if data.blocks.outside.size else ""
    sure = data.blocks.half_width
    lone = "" if np.isfinite(sure).all() else " Hollow dots have no interval."
    return f"Dashed and violet: promised{band}. Green: realised, with 95 % intervals as strokes.{out}{lone}"


def _amount(value: float, decimals: int, terms: ReportTerms) -> str:
    return terms.amount(format_number(value, decimals)) if isfinite(value) else NO_NUMBER
