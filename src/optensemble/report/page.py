"""The report of an ensemble on later rows: what it promised, what came of it, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from optensemble.report import figures
from optensemble.report import text as words
from optensemble.report.data import Judged
from optensemble.report.drawing import inline_svg, style
from optensemble.report.html import Html, element, page, table
from optensemble.report.numbers import percent
from optensemble.report.tables import audit as tables
from optensemble.report.tables import decisions as judged_tables
from optensemble.report.tables import fit as fit_tables
from optensemble.report.tables.audit import Sheet

__all__ = ["Judged", "make_page"]

_SECTIONS = {
    "rivals": "Who is best",
    "time": "Promised against realised",
    "cells": "Biases",
    "swaps": "Swaps in hindsight",
    "guarantees": "Guarantees",
    "decisions": "The decisions",
    "glossary": "How to read this",
}
_SIGNS = {words.KEPT: "✓", words.BROKEN: "✗", words.OPEN: "–"}


def make_page(judged: Judged) -> str:
    """Return the page: one file that opens offline; the same input gives the same bytes."""
    body = {
        "rivals": _rivals(judged),
        "time": _time(judged),
        "cells": _cells(judged),
        "swaps": _swaps(judged),
        "guarantees": _guarantees(judged),
        "decisions": _decisions(judged),
        "glossary": [_glossary()],
    }
    sections = [element("section", element("h2", _SECTIONS[name], id=name), *parts) for name, parts in body.items()]
    foot = element("footer", *(element("p", line) for line in words.foot(judged)), class_="soft")
    return page(f"Ensemble report: {words.headline(judged)}", element("header", *_head(judged)), *sections, foot)


def _head(judged: Judged) -> list[Html]:
    status = words.status(judged)
    links = [element("li", element("a", title, href=f"#{name}")) for name, title in _SECTIONS.items()]
    verdict, short = judged.audit.verdict, words.in_short(judged)
    sentences = [element("li", said, " ", element("a", "More", href=f"#{name}")) for name, said in short.items()]
    return [
        element("p", words.opening(judged), class_="soft"),
        element("h1", element("span", _SIGNS[status], aria_hidden="true"), f" {words.headline(judged)}", class_=status),
        element("p", f"{verdict[0].upper()}{verdict[1:]}.", class_="lead"),
        *(element("p", caution, class_="caution") for caution in words.cautions(judged)),
        element("div", *(_fact(*fact) for fact in words.facts(judged)), class_="facts"),
        _panels(
            _picture("verdict", lambda: figures.draw_verdict(judged), verdict),
            element("div", element("h2", "In short"), element("ul", *sentences), class_="short"),
        ),
        element("nav", element("ul", *links)),
    ]


def _fact(title: str, number: str, explained: str) -> Html:
    return element(
        "section",
        element("h2", title),
        element("p", number, class_="big"),
        element("p", explained, class_="soft"),
        class_="card",
    )


def _rivals(judged: Judged) -> list[Html]:
    audit, board = judged.audit, getattr(judged.ensemble, "leaderboard_", None)
    tried = getattr(judged.ensemble, "validation_", None)
    pictures, parts = [], []
    if len(audit.lift):
        pictures.append(_picture("lift", lambda: figures.draw_lift(audit), "The gain over each rival, with intervals"))
        parts += [element("p", element("strong", words.rivals(audit)), " ", words.RIVALS), _table(tables.lift(audit))]
    if board is not None:
        label = f"The mean {judged.what} of each candidate out of fold, with intervals"
        pictures.append(_picture("leaderboard", lambda: figures.draw_leaderboard(board, judged.what), label))
        parts += [element("h3", "When it was fitted"), element("p", words.OUT_OF_FOLD), _fit(judged)]
        parts.append(_table(fit_tables.leaderboard(board)))
    else:
        parts += [element("h3", "When it was fitted"), _fit(judged)]
    if tried is not None:
        label = f"The mean {judged.what} out of fold over rounds of correction"
        pictures.append(_picture("validation", lambda: figures.draw_validation(tried, judged.what), label))
        parts.append(_folded("All that was tried", _table(fit_tables.validation(tried))))
    return [_panels(*pictures), *parts]


def _fit(judged: Judged) -> Html:
    return element("ul", *(element("li", said) for said in words.fit(judged.ensemble)))


def _time(judged: Judged) -> list[Html]:
    blocks, audit = judged.blocks, judged.audit
    said, label = words.over_time(blocks), f"Promised less realised {judged.what}, by whom was followed"
    return [
        element("p", said),
        _panels(
            _picture("blocks", lambda: figures.draw_blocks(blocks, judged.what), said),
            _picture("gaps", lambda: figures.draw_gaps(audit), label),
        ),
        _table(tables.by_choice(audit)),
        _folded("The blocks in numbers", _table(judged_tables.block_sheet(judged))),
    ]


def _cells(judged: Judged) -> list[Html]:
    audit, names = judged.audit, judged.coordinates
    parts = [element("p", element("strong", words.cells(audit)), " ", words.CELLS)]
    if len(audit.cells):
        parts.append(_table(tables.cells(audit, names)))
    if len(audit.conditional):
        parts.append(_folded("Against the best rival on each cell", _table(tables.conditional(audit, names))))
    return parts


def _swaps(judged: Judged) -> list[Html]:
    audit, said = judged.audit, element("strong", words.swaps(judged))
    if len(audit.swap) == 1:
        return [element("p", said)]
    left_out = words.left_out_of_swaps(audit)
    return [
        element("p", said, " ", words.SWAPS),
        _table(tables.swap_matrix(audit)),
        *([element("p", left_out, class_="soft")] if left_out else []),
    ]


def _guarantees(judged: Judged) -> list[Html]:
    return [_table(fit_tables.guarantees(judged.ensemble.guarantees_))]


def _decisions(judged: Judged) -> list[Html]:
    profile = judged.profile
    return [
        element("p", words.decisions(judged)),
        _panels(
            _picture("profile", lambda: figures.draw_profile(profile, judged.coordinates), words.DECISIONS),
            _followed(judged),
        ),
        _table(judged_tables.profile_sheet(judged)),
    ]


def _followed(judged: Judged) -> Html:
    """Show how often each one was followed, the most followed first."""
    names, counts = judged.ensemble.names_, np.bincount(judged.answer.chosen, minlength=len(judged.ensemble.names_))
    bars = [_bar(names[number], counts[number] / judged.rows) for number in np.argsort(-counts, kind="stable")]
    never = [name for name, count in zip(names, counts, strict=True) if not count]
    rest = element("p", f"Never: {', '.join(never)}.", class_="soft") if never else Html("")
    followed = bars[: len(bars) - len(never)]
    return element("div", element("h3", "Who was followed, share of rows"), *followed, rest, class_="followed")


def _bar(name: str, share: float) -> Html:
    drawn = element("rect", x="1", y="1", width=f"{100 * share:.1f}", height="8", fill=figures.EARNED)
    picture = element("svg", drawn, viewBox="0 0 102 10", preserveAspectRatio="none", aria_hidden="true")
    return element("div", element("span", name), picture, element("b", percent(share)), class_="bar")


def _glossary() -> Html:
    terms = words.GLOSSARY.items()
    return element("dl", *(element("div", element("dt", term), element("dd", meaning)) for term, meaning in terms))


def _table(sheet: Sheet) -> Html:
    return table(*sheet)


def _folded(title: str, *parts: Html) -> Html:
    return element("details", element("summary", title), *parts)


def _picture(name: str, draw: Callable[[], Figure], label: str) -> Html:
    with style():
        return element("figure", Html(inline_svg(draw(), name, label)), id=f"figure-{name}")


def _panels(*parts: Any) -> Html:
    return element("div", *parts, class_="panels")
