"""The page a run leaves: what was promised and what was earned, in and out of sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from optensemble.experiments import answer, words
from optensemble.experiments.cells import count_cell, number_cell
from optensemble.experiments.figures import BAND, COLOUR_OF, Picture, Stroke, panel, pictures
from optensemble.experiments.outcome import (
    BEST,
    BLACK,
    FRESH,
    IN_SAMPLE,
    POLICIES,
    WHITE,
    Outcome,
)
from optensemble.experiments.settings import Settings
from optensemble.report.drawing import INK, inline_svg, style
from optensemble.report.html import Cell, Column, Html, element, page, table

TITLE = "Model ensembling for constrained optimisation, reproduced"

_DASHES = {"-": "none", "--": "6 3", ":": "2 2.5"}


def make_page(outcomes: Sequence[Outcome], settings: Settings, document: dict[str, Any]) -> str:
    """Return the page; ``document`` is what ``results.json`` holds."""
    drawn = {picture.name: _figure(picture, outcomes) for picture in pictures(outcomes)}
    return page(
        TITLE,
        element("header", *_summary(outcomes, settings)),
        element("h2", "Payoff over rounds", id="rounds"),
        drawn["payoffs"],
        drawn["payoffs_fresh"],
        element("h2", "The numbers", id="numbers"),
        element("p", words.GAP),
        *(part for outcome in outcomes for part in _numbers(outcome, settings)),
        element("h2", "Inside white box", id="members"),
        *(drawn[name] for name in ("members", "members_fresh", "choices", "disagreement")),
        element("h2", "How long it took", id="speed"),
        *_speed(outcomes),
        element("h2", "How it was made, and how to run it again", id="again"),
        *_again(outcomes, settings, document),
        element("h2", "The answer", id="answer"),
        *answer.section(outcomes, settings),
    )


def _summary(outcomes: Sequence[Outcome], settings: Settings) -> list[Html]:
    links = {
        "rounds": "Payoff over rounds",
        "numbers": "The numbers",
        "members": "Inside white box",
        "speed": "How long it took",
        "again": "Run it again",
        "answer": "The answer",
    }
    return [
        element("h1", TITLE),
        element("p", words.OPENING, class_="lead"),
        element("p", words.KEY),
        element("p", element("strong", words.headline(outcomes))),
        element(
            "p", element("strong", answer.line(outcomes)), " ", element("a", "More at the end", href="#answer"), "."
        ),
        element("div", *(_card(outcomes, settings, name) for name in COLOUR_OF), class_="cards"),
        element("p", words.BARS, class_="soft"),
        element("h2", f"On the {settings.rows:,} rows they were debiased on"),
        element("ul", *(element("li", sentence) for sentence in words.in_sample(outcomes))),
        element("h2", f"On {settings.fresh_rows:,} fresh rows of the same distribution"),
        element("ul", *(element("li", sentence) for sentence in words.fresh(outcomes))),
        _at_a_glance(outcomes),
        element("p", words.convergence(outcomes, settings)),
        element("p", words.speed(outcomes)),
        element(
            "nav",
            element("ul", *(element("li", element("a", text, href=f"#{key}")) for key, text in links.items())),
        ),
    ]


def _card(outcomes: Sequence[Outcome], settings: Settings, name: str) -> Html:
    """Show what an ensemble promised and earned: on the rows debiased on, and on fresh ones."""
    parts, colour = [element("h2", words.title(name))], COLOUR_OF[name]
    where = _headings(settings)
    top = max(*(share for kind in where for each in COLOUR_OF for share in words.shares(outcomes, kind, each)), 100)
    for kind, heading in where.items():
        parts.append(element("h3", heading))
        for what, share in zip(("promised", "earned"), words.shares(outcomes, kind, name), strict=True):
            look = {"fill": colour} if what == "earned" else {"fill": "none", "stroke": colour, "stroke_width": "1.5"}
            width = f"{max(100 * share / top, 0):.1f}"
            drawn = element("rect", x="1", y="1", width=width, height="8", **look)
            picture = element("svg", drawn, viewBox="0 0 102 10", preserveAspectRatio="none", aria_hidden="true")
            parts.append(
                element("div", element("span", what), picture, element("b", words.percent(share)), class_="bar")
            )
    return element("section", *parts, class_="card")


def _headings(settings: Settings) -> dict[str, str]:
    return {IN_SAMPLE: f"{settings.rows:,} rows debiased on", FRESH: f"{settings.fresh_rows:,} fresh rows"}


def _at_a_glance(outcomes: Sequence[Outcome]) -> Html:
    columns = [
        Column("experiment", kind="text"),
        Column("ensemble", kind="text"),
        Column("promised", "rows debiased on"),
        Column("earned", "rows debiased on"),
        Column("promised", "fresh rows"),
        Column("earned", "fresh rows"),
        Column("on fresh rows it promised", kind="text"),
    ]
    rows = [
        [
            Cell(outcome.name),
            Cell(name),
            *(
                number_cell(outcome.payoff(where, name)[what])
                for where in (IN_SAMPLE, FRESH)
                for what in ("promised", "realised")
            ),
            Cell(words.verdict(outcome, name), outcome.payoff(FRESH, name).gap),
        ]
        for outcome in outcomes
        for name in (WHITE, BLACK)
    ]
    return table("At a glance: average payoff per row, promised and earned", columns, rows)


def _figure(picture: Picture, outcomes: Sequence[Outcome]) -> Html:
    with style():
        panels = [
            inline_svg(panel(picture, outcome), f"{picture.name}-{outcome.name}", f"{picture.title}: {outcome.name}")
            for outcome in outcomes
        ]
    legend = [element("li", _swatch(stroke), stroke.label) for stroke in picture.strokes]
    return element(
        "figure",
        element("h3", picture.title),
        element("ul", *legend, class_="legend") if legend else Html(""),
        element("div", *map(Html, panels), class_="panels"),
        element("figcaption", picture.caption),
        id=f"figure-{picture.name}",
    )


def _swatch(stroke: Stroke) -> Html:
    colour = "currentColor" if stroke.colour == INK else stroke.colour
    line = element(
        "line",
        x1="0",
        y1="4",
        x2="26",
        y2="4",
        stroke=colour,
        stroke_width=f"{1.25 * stroke.width:g}",
        stroke_dasharray=_DASHES[stroke.dashes],
    )
    band = element("rect", width="26", height="8", fill=colour, fill_opacity=str(BAND)) if stroke.band else Html("")
    return element("svg", band, line, viewBox="0 0 26 8", aria_hidden="true")


def _numbers(outcome: Outcome, settings: Settings) -> list[Html]:
    where = _headings(settings)
    columns = [
        Column("policy", kind="text"),
        *(Column(what, group) for group in where.values() for what in ("promised", "realised", "gap", "way, %")),
        *(Column(what, "cost") for what in ("rounds", "row-solves", "seconds")),
    ]
    return [
        element("h3", f"Experiment {outcome.name}"),
        element("p", f"{outcome.note.capitalize()}. {_verdicts(outcome)}"),
        table(
            f"Experiment {outcome.name}: average payoff per row",
            columns,
            [_policy_row(outcome, policy) for policy in POLICIES],
        ),
    ]


def _verdicts(outcome: Outcome) -> str:
    return f"On fresh rows {'; '.join(f'{name} promised {words.verdict(outcome, name)}' for name in (WHITE, BLACK))}."


def _policy_row(outcome: Outcome, policy: str) -> list[Cell]:
    cells = [Cell(f"{policy} ({outcome.best})" if policy == BEST else policy, POLICIES.index(policy))]
    for where in (IN_SAMPLE, FRESH):
        line = outcome.payoff(where, policy)
        error = f" ± {line.gap_error:.2f}" if where == FRESH and not pd.isna(line.gap) else ""
        cells += [
            number_cell(line.promised),
            number_cell(line.realised),
            number_cell(line.gap, sign="+", after=error),
            number_cell(line.way, 0),
        ]
    cost = outcome.cost(policy)
    if cost is None:
        return [*cells, number_cell(None), number_cell(None), number_cell(None)]
    return [*cells, count_cell(cost.rounds), count_cell(cost.row_solves), number_cell(cost.seconds, 3)]


def _speed(outcomes: Sequence[Outcome]) -> list[Html]:
    columns = [
        Column("experiment", kind="text"),
        Column("algorithm", kind="text"),
        Column("paper, minutes"),
        Column("here, seconds"),
        Column("rounds"),
        Column("row-solves done"),
        Column("row-solves avoided"),
        Column("stopped because", kind="prose"),
    ]
    rows = []
    for outcome in outcomes:
        for name in (WHITE, BLACK):
            cost = outcome.cost(name)
            paper = words.PAPER_MINUTES[name] if outcome.name == "A" else None
            counts = [count_cell(cost[what]) for what in ("rounds", "row_solves", "avoided")]
            numbers = [number_cell(paper, 1), number_cell(cost.seconds), *counts]
            rows.append([Cell(outcome.name), Cell(name), *numbers, Cell(cost.stopped)])
    return [element("p", words.EFFICIENCY), table("Debiasing: time and row-solves", columns, rows)]


def _again(outcomes: Sequence[Outcome], settings: Settings, document: dict[str, Any]) -> list[Html]:
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    beside = (
        "Beside this page are results.json with every number of its tables, a file for each experiment with its curves "
        "too, and each figure as PNG and SVG."
    )
    return [
        element("ul", *(element("li", fact) for fact in words.facts(outcomes, settings))),
        element("p", "Run it again:"),
        element("pre", element("code", words.command(settings, [outcome.name for outcome in outcomes]))),
        element("p", f"{beside} Made with {versions}.", class_="soft"),
    ]
