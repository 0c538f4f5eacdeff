"""The top of a report page: title, verdict and totals; then the period and typical decisions."""

from __future__ import annotations

from functools import partial

import numpy as np

from optensemble._core.number_format import format_percent
from optensemble.report import figures
from optensemble.report.data import ReportData
from optensemble.report.html import Html, bar_element, element
from optensemble.report.overview.figures import draw_decision
from optensemble.report.overview.text import (
    about_picture,
    about_trend,
    about_typical,
    overview_subject,
    overview_title,
    period_figures,
    typical_facts,
    typical_title,
)
from optensemble.report.overview.totals import period_totals
from optensemble.report.overview.typical import TypicalDecision, typical_decisions
from optensemble.report.overview.verdict import headline, mark_of, status_of
from optensemble.report.parts import card, panels, picture
from optensemble.report.phrases import as_sentence
from optensemble.report.text import block_summary, cautions


def overview_header(data: ReportData) -> list[Html]:
    """Return what is read without scrolling: title, verdict, promised, realised and the share of foresight."""
    totals, verdict = period_totals(data), data.audit.judgement
    mark = element("span", mark_of(verdict), aria_hidden="true")
    return [
        element("h1", overview_title(data)),
        element("p", overview_subject(data, totals), class_="soft subject"),
        element("p", mark, f" {headline(verdict)}", class_=f"verdict {status_of(verdict)}"),
        element("p", as_sentence(verdict.sentence), class_="lead"),
        element("div", *map(card, period_figures(data, totals)), class_="facts top"),
        *(element("p", caution, class_="caution") for caution in cautions(data)),
    ]


def period_section(data: ReportData) -> list[Html]:
    """Return the trend over the period, and who decides how often."""
    summary = block_summary(data.blocks, data.terms.units)
    unit = data.terms.unit
    title = data.terms.titled(f"{data.objective.capitalize()} per {unit}")
    trend = partial(figures.draw_blocks, data.blocks, title, unit)
    return [
        element("p", summary),
        panels(
            picture("blocks", trend, summary, about_trend(data)),
            _followed_bars(data),
        ),
    ]


def _followed_bars(data: ReportData) -> Html:
    """Return a bar for each followed candidate, the most followed first."""
    names, counts = data.ensemble.names_, np.bincount(data.answer.chosen, minlength=len(data.ensemble.names_))
    bars = [
        bar_element(names[i], 100 * share, format_percent(share), fill=figures.REALISED_COLOUR)
        for i in np.argsort(-counts, kind="stable")
        if (share := counts[i] / data.rows)
    ]
    never = [name for name, count in zip(names, counts, strict=True) if not count]
    rest = element("p", f"Never followed: {', '.join(never)}.", class_="soft") if never else Html("")
    title = f"Who decides: candidates followed, share of {data.terms.units}"
    return element("div", element("h3", title), *bars, rest, class_="followed")


def typical_section(data: ReportData) -> list[Html]:
    """Return the decisions at the quartiles, drawn, with what they promised and brought."""
    found = typical_decisions(data)
    drawn = [_typical(decision, data) for decision in found]
    return [element("p", about_typical(data), " ", about_picture(data, found)), panels(*drawn, kind="panels three")]


def _typical(decision: TypicalDecision, data: ReportData) -> Html:
    title = typical_title(decision, data.terms)
    facts = [element("div", element("dt", name), element("dd", value)) for name, value in typical_facts(decision, data)]
    name = f"typical-{decision.kind}"
    drawn = picture(name, lambda: draw_decision(decision, data.coordinates), f"The decision of {title}")
    return element("article", element("h3", title), drawn, element("dl", *facts, class_="facts-list"), class_="typical")
