"""The page of a run: promised and realised payoffs, in sample and on fresh rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan
from typing import Any

from optensemble.experiments import text
from optensemble.experiments.decision_section import decision_section, decision_summary
from optensemble.experiments.figure_html import figure_element
from optensemble.experiments.figures import COLOUR_OF, experiment_figures
from optensemble.experiments.learning_curve.points import LearningCurve
from optensemble.experiments.learning_curve.section import curve_section
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    DECISION_ENSEMBLE,
    FRESH,
    IN_SAMPLE,
    PAPER_ENSEMBLES,
    POLICIES,
    Outcome,
    PolicyPayoff,
)
from optensemble.experiments.settings import CurveSettings, Settings
from optensemble.experiments.text import PAYOFF_DECIMALS
from optensemble.report.html import Cell, Column, Html, Sheet, bar_element, element, html_page, sortable_table
from optensemble.report.numbers import BLANK, count_cell, estimate_cell, number_cell
from optensemble.report.phrases import capitalise

PAGE_TITLE = "Model ensembling for constrained optimisation, reproduced"

_HEADINGS = {
    "rounds": "Payoff over rounds",
    "numbers": "Payoffs and costs",
    "members": "Inside white box",
    "speed": "Running time",
    "curve": "From few rows to many",
    "again": "Method, and how to repeat the run",
    "decision": f"{DECISION_ENSEMBLE} on the same models",
}


def make_experiment_page(
    outcomes: Sequence[Outcome],
    settings: Settings,
    document: dict[str, Any],
    curves: Sequence[LearningCurve] = (),
    how: CurveSettings | None = None,
) -> str:
    """Return the page; ``document`` is the content of ``results.json``, ``how`` are the settings of learning curves."""
    drawn = {figure.name: figure_element(figure, outcomes) for figure in experiment_figures(outcomes)}
    sections = {
        "rounds": [drawn["payoffs"], drawn["payoffs_fresh"]],
        "numbers": [
            element("p", text.ABOUT_COLUMNS),
            *(part for outcome in outcomes for part in _payoff_section(outcome, settings)),
        ],
        "members": [drawn[name] for name in ("members", "members_fresh", "choices", "disagreement")],
        "speed": [element("p", text.ABOUT_SPEED), sortable_table(_speed_sheet(outcomes))],
        **({} if how is None else {"curve": curve_section(curves, settings, how)}),
        "again": _method_section(outcomes, settings, document, how),
        "decision": decision_section(outcomes, settings),
    }
    body = [part for name, parts in sections.items() for part in (element("h2", _HEADINGS[name], id=name), *parts)]
    return html_page(PAGE_TITLE, element("header", *_page_header(outcomes, settings, list(sections))), *body)


def _page_header(outcomes: Sequence[Outcome], settings: Settings, sections: Sequence[str]) -> list[Html]:
    more = element("a", "More", href="#decision")
    links = [element("li", element("a", _HEADINGS[name], href=f"#{name}")) for name in sections]
    return [
        element("h1", PAGE_TITLE),
        element("p", text.ABOUT_PAGE, class_="lead"),
        element("p", element("strong", decision_summary(outcomes)), " ", more),
        element("div", *(_payoff_card(outcomes, settings, name) for name in COLOUR_OF), class_="cards"),
        element("p", text.ABOUT_BARS, class_="soft"),
        element("h2", "The paper and its experiments"),
        element("p", text.ABOUT_PAPER),
        element("p", text.ABOUT_EXPERIMENTS),
        element("p", element("strong", text.normalised_summary(outcomes))),
        element("h2", f"In sample: the {settings.rows:,} rows debiased on"),
        element("ul", *(element("li", sentence) for sentence in text.in_sample_sentences(outcomes))),
        element("h2", f"Out of sample: {settings.fresh_rows:,} fresh rows of the same distribution"),
        element("ul", *(element("li", sentence) for sentence in text.fresh_sentences(outcomes))),
        sortable_table(_overview_sheet(outcomes)),
        element("p", text.convergence_summary(outcomes, settings)),
        element("p", text.speed_summary(outcomes)),
        element("nav", element("ul", *links)),
    ]


def _payoff_card(outcomes: Sequence[Outcome], settings: Settings, name: str) -> Html:
    """Return a card with bars for the normalised payoffs promised and realised, in sample and on fresh rows."""
    parts, colour, kinds = [element("h2", capitalise(name))], COLOUR_OF[name], _row_kinds(settings)
    top = max(*(way for kind in kinds for each in COLOUR_OF for way in text.mean_ways(outcomes, kind, each)), 100)
    looks = {"promised": {"fill": "none", "stroke": colour, "stroke_width": "1.5"}, "realised": {"fill": colour}}
    for kind, heading in kinds.items():
        parts.append(element("h3", heading))
        ways = text.mean_ways(outcomes, kind, name)
        for (measure, look), way in zip(looks.items(), ways, strict=True):
            parts.append(bar_element(measure, max(100 * way / top, 0), text.format_whole_percent(way), **look))
    return element("section", *parts, class_="card")


def _row_kinds(settings: Settings) -> dict[str, str]:
    return {IN_SAMPLE: f"in sample, {settings.rows:,} rows", FRESH: f"{settings.fresh_rows:,} fresh rows"}


def _overview_sheet(outcomes: Sequence[Outcome]) -> Sheet:
    columns = [
        Column("experiment", kind="text"),
        Column("ensemble", kind="text"),
        Column("promised", "in sample"),
        Column("realised", "in sample"),
        Column("promised", "fresh rows"),
        Column("realised", "fresh rows"),
        Column("promise was", "fresh rows", kind="text"),
    ]
    rows = [
        [
            Cell(outcome.name),
            Cell(name),
            *(
                number_cell(payoff, PAYOFF_DECIMALS)
                for line in (outcome.payoff(IN_SAMPLE, name), outcome.payoff(FRESH, name))
                for payoff in (line.promised, line.realised)
            ),
            Cell(text.promise_error(outcome, name), outcome.payoff(FRESH, name).gap),
        ]
        for outcome in outcomes
        for name in PAPER_ENSEMBLES
    ]
    return Sheet("Overview: mean payoff per row, promised and realised", columns, rows)


def _payoff_section(outcome: Outcome, settings: Settings) -> list[Html]:
    measures = ("promised", "realised", "gap", "norm %")
    columns = [
        Column("policy", kind="text"),
        *(Column(measure, kind) for kind in _row_kinds(settings).values() for measure in measures),
        *(Column(measure, "cost") for measure in ("rounds", "row-solves", "seconds")),
    ]
    errors = [f"the promise of {name} was {text.promise_error(outcome, name)}" for name in PAPER_ENSEMBLES]
    caption = f"Experiment {outcome.name}: mean payoff per row"
    return [
        element("h3", f"Experiment {outcome.name}"),
        element("p", f"{capitalise(outcome.note)}. On fresh rows {'; '.join(errors)}."),
        sortable_table(Sheet(caption, columns, [_policy_row(outcome, policy) for policy in POLICIES])),
    ]


def _policy_row(outcome: Outcome, policy: str) -> list[Cell]:
    name = f"{policy} ({outcome.best})" if policy == BEST_INITIAL else policy
    cells = [
        Cell(name, POLICIES.index(policy)),
        *_payoff_cells(outcome.payoff(IN_SAMPLE, policy)),
        *_payoff_cells(outcome.payoff(FRESH, policy)),
    ]
    if not outcome.has_cost(policy):
        return [*cells, BLANK, BLANK, BLANK]
    cost = outcome.cost(policy)
    return [*cells, count_cell(cost.rounds), count_cell(cost.row_solves), number_cell(cost.seconds, 3)]


def _payoff_cells(payoff: PolicyPayoff) -> list[Cell]:
    gap = number_cell(payoff.gap, PAYOFF_DECIMALS, sign="+")
    if payoff.where == FRESH and not isnan(payoff.gap):  # in sample the gap is no estimate of anything
        gap = estimate_cell(payoff.gap, payoff.gap_error, PAYOFF_DECIMALS, sign="+")
    return [
        number_cell(payoff.promised, PAYOFF_DECIMALS),
        number_cell(payoff.realised, PAYOFF_DECIMALS),
        gap,
        number_cell(payoff.way, 0),
    ]


def _speed_sheet(outcomes: Sequence[Outcome]) -> Sheet:
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
        for name in PAPER_ENSEMBLES:
            cost = outcome.cost(name)
            paper = text.PAPER_MINUTES[name] if outcome.name == "A" else nan
            counts = [count_cell(count) for count in (cost.rounds, cost.row_solves, cost.avoided)]
            numbers = [number_cell(paper, 1), number_cell(cost.seconds, 2), *counts]
            rows.append([Cell(outcome.name), Cell(name), *numbers, Cell(cost.stopped or "")])
    return Sheet("Debiasing: time and row-solves", columns, rows)


def _method_section(
    outcomes: Sequence[Outcome], settings: Settings, document: dict[str, Any], how: CurveSettings | None
) -> list[Html]:
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    files = (
        "In the folder of this page are results.json with every number of its tables, a file for each experiment that "
        "also has its curves, and each figure as PNG and SVG."
    )
    return [
        element("ul", *(element("li", fact) for fact in text.run_facts(outcomes, settings))),
        element("p", "The command that repeats the run:"),
        element("pre", element("code", text.repeat_command(settings, [outcome.name for outcome in outcomes], how))),
        element("p", f"{files} Made with {versions}.", class_="soft"),
    ]
