"""The report page of an ensemble: promise, payoffs, baselines, biases and decisions on rows with known labels."""

from __future__ import annotations

from functools import partial
from typing import Any

from optensemble.ensembles.base import DECISION
from optensemble.report import figures, text
from optensemble.report.data import ReportData
from optensemble.report.html import Html, element, html_page, sortable_table
from optensemble.report.overview.page import overview_header, period_section, typical_section
from optensemble.report.overview.text import overview_title
from optensemble.report.parts import card, panels, picture
from optensemble.report.tables.audit import (
    cell_sheet,
    choice_sheet,
    conditional_sheet,
    lift_sheet,
    swap_matrix_sheet,
)
from optensemble.report.tables.decisions import block_sheet, profile_sheet
from optensemble.report.tables.fit import guarantee_sheet, leaderboard_sheet, validation_sheet

__all__ = ["ReportData", "make_report_page"]

_FOR_ALL = {
    "period": "Over the period",
    "typical": "Typical decisions",
    "technical": "In detail",
}
_TECHNICAL = {
    "baselines": "Comparison with baselines",
    "time": "Promised and realised",
    "cells": "Biases",
    "swaps": "Swaps in hindsight",
    "guarantees": "Guarantees",
    "decisions": "Decisions",
    "glossary": "Glossary",
}
_TITLES = _FOR_ALL | _TECHNICAL


def make_report_page(data: ReportData) -> str:
    """Return the page: one file that opens offline; the same data give the same bytes."""
    body = {
        "period": period_section(data),
        "typical": typical_section(data),
        "technical": _technical_summary(data),
        "baselines": _baseline_section(data),
        "time": _time_section(data),
        "cells": _bias_section(data),
        "swaps": _swap_section(data),
        "guarantees": [sortable_table(guarantee_sheet(data.ensemble.guarantees_))],
        "decisions": _decision_section(data),
        "glossary": [_glossary(data)],
    }
    sections = [element("section", element("h2", _TITLES[name], id=name), *parts) for name, parts in body.items()]
    foot = element("footer", *(element("p", line) for line in text.provenance(data)), class_="soft")
    head = element("header", *overview_header(data), _links(_FOR_ALL))
    return html_page(overview_title(data), head, *sections, foot)


def _links(titles: dict[str, str]) -> Html:
    items = [element("li", element("a", title, href=f"#{name}")) for name, title in titles.items()]
    return element("nav", element("ul", *items))


def _technical_summary(data: ReportData) -> list[Html]:
    sentences = [
        element("li", sentence, " ", element("a", "More", href=f"#{name}"))
        for name, sentence in text.section_summaries(data).items()
    ]
    promised = f"Means over all rows, with 95 % intervals: the promise above, the realised {data.objective} below."
    return [
        _links(_TECHNICAL),
        element("div", *map(card, text.key_figures(data)), class_="facts"),
        panels(
            picture("verdict", lambda: figures.draw_promise(data), data.audit.verdict, promised),
            element("div", element("h3", "In short"), element("ul", *sentences), class_="short"),
        ),
    ]


def _baseline_section(data: ReportData) -> list[Html]:
    cost, pictures, parts = data.sense == "min", [], []
    if len(data.audit.lift):
        label = f"{'Saved against' if cost else 'The gain over'} each baseline, with intervals"
        drawn = picture("lift", lambda: figures.draw_lift(data.audit, cost=cost), label, text.about_lift(data))
        pictures.append(drawn)
        summary = element("strong", text.baseline_summary(data.audit))
        table = sortable_table(lift_sheet(data.audit, cost=cost))
        parts += [element("p", summary, " ", text.about_baselines(data)), table]
    parts.append(element("h3", "The fit"))
    fit_notes = element("ul", *(element("li", sentence) for sentence in text.fit_summary(data.ensemble)))
    ensemble: Any = data.ensemble
    if ensemble.kind == DECISION:
        board, label = ensemble.leaderboard_, f"The mean {data.objective} of each candidate out of fold, with intervals"
        draw = partial(figures.draw_leaderboard, board, data.objective)
        pictures.append(picture("leaderboard", draw, label, text.ABOUT_CANDIDATE_DOTS))
        parts += [element("p", text.about_leaderboard(data)), fit_notes, sortable_table(leaderboard_sheet(board))]
    else:
        parts.append(fit_notes)
        if ensemble.terms_.validated:
            tried, label = ensemble.validation_, f"The mean {data.objective} out of fold over rounds of debiasing"
            draw = partial(figures.draw_validation, tried, data.objective)
            pictures.append(picture("validation", draw, label, text.ABOUT_VALIDATION))
            table = sortable_table(validation_sheet(tried, cost=cost))
            parts.append(_folded("Cross-validation in numbers", table))
    return [panels(*pictures), *parts]


def _time_section(data: ReportData) -> list[Html]:
    audit, label = data.audit, f"Promised minus realised {data.objective}, by followed candidate"
    return [
        element("p", text.block_summary(data.blocks, data.terms.units), " ", element("a", "Picture", href="#period")),
        panels(picture("gaps", lambda: figures.draw_gaps(audit), label, text.about_gaps(data))),
        sortable_table(choice_sheet(audit)),
        _folded("Blocks in numbers", sortable_table(block_sheet(data))),
    ]


def _bias_section(data: ReportData) -> list[Html]:
    audit, names = data.audit, data.coordinates
    parts = [element("p", element("strong", text.bias_summary(audit)), " ", text.ABOUT_CELLS)]
    if len(audit.cells):
        parts.append(sortable_table(cell_sheet(audit, names)))
    if len(audit.conditional):
        table = sortable_table(conditional_sheet(audit, names, cost=data.sense == "min"))
        parts.append(_folded("The best baseline in each cell", table))
    return parts


def _swap_section(data: ReportData) -> list[Html]:
    summary = element("strong", text.swap_summary(data))
    if len(data.audit.swap) == 1:
        return [element("p", summary)]
    missing = text.missing_swap_rows(data.audit)
    return [
        element("p", summary, " ", text.about_swaps(data)),
        sortable_table(swap_matrix_sheet(data.audit, cost=data.sense == "min")),
        *([element("p", missing, class_="soft")] if missing else []),
    ]


def _decision_section(data: ReportData) -> list[Html]:
    profile, label = data.profile, "The share of rows by level of the action, for each coordinate"
    draw = partial(figures.draw_profile, profile, data.coordinates)
    return [
        *(element("p", sentence) for sentence in text.set_summary(data)),
        panels(picture("profile", draw, label, text.profile_summary(data))),
        sortable_table(profile_sheet(data)),
    ]


def _glossary(data: ReportData) -> Html:
    terms = text.glossary(data).items()
    return element("dl", *(element("div", element("dt", term), element("dd", meaning)) for term, meaning in terms))


def _folded(title: str, *parts: Html) -> Html:
    return element("details", element("summary", title), *parts)
