"""The answer: what DecisionEnsemble makes of the same models and rows, in words and as the page's last section."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.experiments import words
from optensemble.experiments.cells import interval_cell, number_cell
from optensemble.experiments.outcome import BEST, BLACK, FRESH, HONEST, RIDGE, WHITE, Outcome
from optensemble.experiments.settings import Settings
from optensemble.report.html import Cell, Column, Html, element, table

OPENING = (
    "DecisionEnsemble is made of the same models and fitted on the same rows as the two algorithms above. What it lets "
    "in, whom it follows and what it promises are judged out of fold: on rows that had no part in it. It takes no "
    "rounds, so it has no curve, and nothing is set by hand. Its lines on the rows it was fitted on are in the tables "
    "above; what counts are the fresh rows. Its promise is an interval for the average payoff there, given before any "
    "label is seen, and meant to hold 95 times in 100."
)
TRAINED = (
    "These are the members' own training rows, as was published. They fit them better than any others, which no fold "
    "can show: for such rows nothing is promised."
)
COLUMNS = (
    "Kept means that the average payoff earned lies within the promised interval. Ahead is by how much more is earned, "
    "with the 95 % interval of differences row by row. Way is the part of the way from the best initial policy to "
    "foresight."
)


def line(outcomes: Sequence[Outcome]) -> str:
    """Say in one breath what it promised, what it earned, and whether the promise was kept."""
    promised, earned = words.shares(outcomes, FRESH, HONEST)
    return (
        f"{HONEST}, made of the same models on the same rows, promised {words.percent(promised)} and earned "
        f"{words.percent(earned)} on fresh rows; the interval it promised was kept {_kept_where(outcomes)}."
    )


def found(outcomes: Sequence[Outcome]) -> str:
    """Say what it promised and earned, by how much promises were off, and how much they allowed for."""
    off = [abs(outcome.payoff(FRESH, HONEST).gap) for outcome in outcomes]
    allowed = [(outcome.judgement.high - outcome.judgement.low) / 2 for outcome in outcomes]
    return (
        f"{words.promised_and_earned(outcomes, FRESH, HONEST)}: off by {words.span(off, 2)}, where it allowed for "
        f"{words.span(allowed, 2)}. The promise was kept {_kept_where(outcomes)}."
    )


def compared(outcomes: Sequence[Outcome]) -> str:
    """Say whom it is ahead of, and where; beside ridge stacking, the best simple policy, noise decides nothing."""
    ahead: dict[str, list[str]] = {}
    for other, called in ((BEST, f"the {BEST}"), (WHITE, WHITE), (BLACK, BLACK)):
        ahead.setdefault(words.beats(outcomes, FRESH, HONEST, other), []).append(called)
    more = "; ".join(f"more than {words.listed(others)} {where}" for where, others in ahead.items())
    gains = {outcome.name: outcome.judgement.gain(RIDGE) for outcome in outcomes}
    sides = {
        "ahead": [name for name, of in gains.items() if of.gain > of.gain_error],
        "behind": [name for name, of in gains.items() if of.gain < -of.gain_error],
        "level within the noise": [name for name, of in gains.items() if abs(of.gain) <= of.gain_error],
    }
    return (
        f"It earns {more}. Beside ridge stacking of the same models it is {words.sorted_out(sides)}: the difference is "
        f"{words.span([of.gain for of in gains.values()], 3, sign='+')} a row."
    )


def reports(outcomes: Sequence[Outcome]) -> list[str]:
    """Return what the audit and the leaderboard say of each experiment."""
    return [
        f"{outcome.name}. Audit: {outcome.judgement.verdict}. Leaderboard: {outcome.judgement.finding}."
        for outcome in outcomes
    ]


def section(outcomes: Sequence[Outcome], settings: Settings) -> list[Html]:
    """Return what stands below the heading."""
    columns = [
        Column("experiment", kind="text"),
        Column("promised"),
        Column("95 % interval", kind="text"),
        Column("earned"),
        Column("kept", kind="text"),
        Column(RIDGE, "ahead of"),
        Column(BEST, "ahead of"),
        Column("way, %"),
    ]
    return [
        element("p", OPENING, *([f" {TRAINED}"] if settings.debias_on == "train" else [])),
        element("p", element("strong", found(outcomes))),
        element("p", compared(outcomes)),
        table(
            f"{HONEST} on {settings.fresh_rows:,} fresh rows: average payoff per row",
            columns,
            list(map(_row, outcomes)),
        ),
        element("p", COLUMNS, class_="soft"),
        element("ul", *(element("li", report) for report in reports(outcomes))),
    ]


def _row(outcome: Outcome) -> list[Cell]:
    payoff, judgement = outcome.payoff(FRESH, HONEST), outcome.judgement
    ridge, best = judgement.gain(RIDGE), judgement.gain(BEST)
    return [
        Cell(outcome.name),
        number_cell(payoff.promised),
        Cell(f"{words.number(judgement.low)} to {words.number(judgement.high)}", judgement.low),
        number_cell(payoff.realised),
        Cell("yes" if judgement.kept else "no"),
        interval_cell(ridge.gain, ridge.gain_error, 3, sign="+"),
        interval_cell(best.gain, best.gain_error, sign="+"),
        interval_cell(payoff.way, judgement.way_error, 1),
    ]


def _kept_where(outcomes: Sequence[Outcome]) -> str:
    names = [outcome.name for outcome in outcomes]
    return words.in_which([outcome.name for outcome in outcomes if outcome.judgement.kept], names)
