"""The report page of an ensemble: promise, payoffs, baselines, biases and decisions on rows with known labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from optensemble._core.number_format import format_percent
from optensemble.ensembles.base import DECISION
from optensemble.report import figures, text
from optensemble.report.data import ReportData
from optensemble.report.drawing import inline_svg, style
from optensemble.report.html import Html, bar_element, element, html_page, sortable_table
from optensemble.report.phrases import as_sentence
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

_TITLES = {
    "baselines": "Comparison with baselines",
    "time": "Promised and realised",
    "cells": "Biases",
    "swaps": "Swaps in hindsight",
    "guarantees": "Guarantees",
    "decisions": "Decisions",
    "glossary": "Glossary",
}
_STATUS_MARKS = {text.STATUS_KEPT: "✓", text.STATUS_BROKEN: "✗", text.STATUS_OPEN: "–"}


def make_report_page(data: ReportData) -> str:
    """Return the page: one file that opens offline; the same data give the same bytes."""
    body = {
        "baselines": _baseline_section(data),
        "time": _time_section(data),
        "cells": _bias_section(data),
        "swaps": _swap_section(data),
        "guarantees": [sortable_table(guarantee_sheet(data.ensemble.guarantees_))],
        "decisions": _decision_section(data),
        "glossary": [_glossary()],
    }
    sections = [element("section", element("h2", _TITLES[name], id=name), *parts) for name, parts in body.items()]
    foot = element("footer", *(element("p", line) for line in text.provenance(data)), class_="soft")
    title = f"Ensemble report: {text.report_title(data)}"
    return html_page(title, element("header", *_report_header(data)), *sections, foot)


def _report_header(data: ReportData) -> list[Html]:
    status, verdict = text.promise_status(data), data.audit.verdict
    mark = element("span", _STATUS_MARKS[status], aria_hidden="true")
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in _TITLES.items()]
    sentences = [
        element("li", sentence, " ", element("a", "More", href=f"#{name}"))
        for name, sentence in text.section_summaries(data).items()
    ]
    return [
        element("p", text.report_subject(data), class_="soft"),
        element("h1", mark, f" {text.report_title(data)}", class_=status),
        element("p", as_sentence(verdict), class_="lead"),
        *(element("p", caution, class_="caution") for caution in text.cautions(data)),
        element("div", *map(_card, text.key_figures(data)), class_="facts"),
        _panels(
            _picture("verdict", lambda: figures.draw_promise(data), verdict),
            element("div", element("h2", "In short"), element("ul", *sentences), class_="short"),
        ),
        element("nav", element("ul", *links)),
    ]


def _card(figure: text.KeyFigure) -> Html:
    return element(
        "section",
        element("h2", figure.title),
        element("p", figure.number, class_="big"),
        element("p", figure.explanation, class_="soft"),
        class_="card",
    )


def _baseline_section(data: ReportData) -> list[Html]:
    pictures, parts = [], []
    if len(data.audit.lift):
        label = "The gain over each baseline, with intervals"
        pictures.append(_picture("lift", lambda: figures.draw_lift(data.audit), label))
        summary = element("strong", text.baseline_summary(data.audit))
        parts += [element("p", summary, " ", text.about_baselines(data)), sortable_table(lift_sheet(data.audit))]
    parts.append(element("h3", "The fit"))
    fit_notes = element("ul", *(element("li", sentence) for sentence in text.fit_summary(data.ensemble)))
    ensemble: Any = data.ensemble
    if ensemble.kind == DECISION:
        board, label = ensemble.leaderboard_, f"The mean {data.objective} of each candidate out of fold, with intervals"
        pictures.append(_picture("leaderboard", lambda: figures.draw_leaderboard(board, data.objective), label))
        parts += [element("p", text.ABOUT_LEADERBOARD), fit_notes, sortable_table(leaderboard_sheet(board))]
    else:
        parts.append(fit_notes)
        if ensemble.terms_.validated:
            tried, label = ensemble.validation_, f"The mean {data.objective} out of fold over rounds of debiasing"
            pictures.append(_picture("validation", lambda: figures.draw_validation(tried, data.objective), label))
            parts.append(_folded("Cross-validation in numbers", sortable_table(validation_sheet(tried))))
    return [_panels(*pictures), *parts]


def _time_section(data: ReportData) -> list[Html]:
    blocks, audit, summary = data.blocks, data.audit, text.block_summary(data.blocks)
    label = f"Promised minus realised {data.objective}, by followed candidate"
    return [
        element("p", summary),
        _panels(
            _picture("blocks", lambda: figures.draw_blocks(blocks, data.objective), summary),
            _picture("gaps", lambda: figures.draw_gaps(audit), label),
        ),
        sortable_table(choice_sheet(audit)),
        _folded("Blocks in numbers", sortable_table(block_sheet(data))),
    ]


def _bias_section(data: ReportData) -> list[Html]:
    audit, names = data.audit, data.coordinates
    parts = [element("p", element("strong", text.bias_summary(audit)), " ", text.ABOUT_CELLS)]
    if len(audit.cells):
        parts.append(sortable_table(cell_sheet(audit, names)))
    if len(audit.conditional):
        parts.append(_folded("The best baseline in each cell", sortable_table(conditional_sheet(audit, names))))
    return parts


def _swap_section(data: ReportData) -> list[Html]:
    summary = element("strong", text.swap_summary(data))
    if len(data.audit.swap) == 1:
        return [element("p", summary)]
    missing = text.missing_swap_rows(data.audit)
    return [
        element("p", summary, " ", text.ABOUT_SWAPS),
        sortable_table(swap_matrix_sheet(data.audit)),
        *([element("p", missing, class_="soft")] if missing else []),
    ]


def _decision_section(data: ReportData) -> list[Html]:
    profile = data.profile
    return [
        *(element("p", sentence) for sentence in text.set_summary(data)),
        element("p", text.profile_summary(data)),
        _panels(
            _picture("profile", lambda: figures.draw_profile(profile, data.coordinates), text.ABOUT_PROFILE),
            _followed_bars(data),
        ),
        sortable_table(profile_sheet(data)),
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
    return element("div", element("h3", "Candidates followed, share of rows"), *bars, rest, class_="followed")


def _glossary() -> Html:
    terms = text.GLOSSARY.items()
    return element("dl", *(element("div", element("dt", term), element("dd", meaning)) for term, meaning in terms))


def _folded(title: str, *parts: Html) -> Html:
    return element("details", element("summary", title), *parts)


def _picture(name: str, draw: Callable[[], Figure], label: str) -> Html:
    with style():
        return element("figure", Html(inline_svg(draw(), name, label)), id=f"figure-{name}")


def _panels(*parts: Any) -> Html:
    return element("div", *parts, class_="panels")
