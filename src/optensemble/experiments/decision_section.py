"""DecisionEnsemble beside the paper's algorithms: its sentences, and the last section of the page."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.experiments import text
from optensemble.experiments.outcome import (
    BEST_INITIAL,
    DECISION_ENSEMBLE,
    FRESH,
    PAPER_ENSEMBLES,
    RIDGE_STACKING,
    Outcome,
)
from optensemble.experiments.settings import Settings
from optensemble.report.html import Cell, Column, Html, Sheet, element, sortable_table
from optensemble.report.numbers import estimate_cell, flag_cell, interval_cell, number_cell
from optensemble.report.phrases import join_words

ABOUT_DECISION = (
    "DecisionEnsemble combines the same models and is fitted on the same rows as the two algorithms above. The models "
    "it uses, the candidates it follows and the payoff it promises all come from evaluation out of fold. It takes no "
    "rounds, so it has no curve, and all its settings are defaults. Its payoffs in sample are in the tables above; the "
    "fresh rows are what counts. Its promise is an interval for the mean payoff there, given before any label is seen, "
    "which should contain that mean 95 times in 100."
)
ABOUT_TRAINING_ROWS = (
    "These rows are the members' own training rows, as published. Members fit them better than any other rows, which "
    "no fold can show: nothing is promised for such rows."
)
ABOUT_DECISION_COLUMNS = (
    "Kept means that the realised mean lies within the promised interval. A gain is the difference in mean payoff, "
    "with the 95 % interval of differences row by row. The normalised payoff is 0 % for the best initial policy and "
    "100 % for foresight."
)


def decision_summary(outcomes: Sequence[Outcome]) -> str:
    """Return the normalised payoffs promised and realised, and whether the promise was kept, in one sentence."""
    promised, realised = map(text.format_whole_percent, text.mean_ways(outcomes, FRESH, DECISION_ENSEMBLE))
    return (
        f"{DECISION_ENSEMBLE}, with the same models and rows, promised {promised} and realised {realised} on fresh "
        f"rows; its promised interval was kept {_where_kept(outcomes)}."
    )


def promise_sentences(outcomes: Sequence[Outcome]) -> str:
    """Return the payoffs promised and realised, the errors of promises, and the widths of their intervals."""
    errors = [abs(outcome.payoff(FRESH, DECISION_ENSEMBLE).gap) for outcome in outcomes]
    widths = [(outcome.audit.high - outcome.audit.low) / 2 for outcome in outcomes]
    payoffs = text.promised_and_realised(outcomes, FRESH, DECISION_ENSEMBLE)
    return (
        f"{payoffs}: off by {text.format_range(errors, 2)}, with promised intervals of half-width "
        f"{text.format_range(widths, 2)}. The promise was kept {_where_kept(outcomes)}."
    )


def comparison_sentences(outcomes: Sequence[Outcome]) -> str:
    """Return where it realises more than other policies, and how it compares with ridge stacking, the best of them."""
    better: dict[str, list[str]] = {}
    names = {BEST_INITIAL: f"the {BEST_INITIAL}", **{name: name for name in PAPER_ENSEMBLES}}
    for other, name in names.items():
        better.setdefault(text.where_better(outcomes, FRESH, DECISION_ENSEMBLE, other), []).append(name)
    more = "; ".join(f"more than {join_words(others)} {where}" for where, others in better.items())
    gains = {outcome.name: outcome.audit.gain_over(RIDGE_STACKING) for outcome in outcomes}
    results = {
        "significantly better": [name for name, of in gains.items() if of.gain > of.gain_error],
        "significantly worse": [name for name, of in gains.items() if of.gain < -of.gain_error],
        "statistically indistinguishable": [name for name, of in gains.items() if abs(of.gain) <= of.gain_error],
    }
    difference = text.format_range([of.gain for of in gains.values()], 3, sign="+")
    return (
        f"It realises {more}. Compared with ridge stacking of the same models it is {text.by_experiment(results)}; the "
        f"difference is {difference} per row."
    )


def audit_sentences(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the verdict of the audit and the finding of the leaderboard for each experiment."""
    return [
        f"{outcome.name}. Audit: {outcome.audit.verdict}. Leaderboard: {outcome.audit.finding}." for outcome in outcomes
    ]


def decision_section(outcomes: Sequence[Outcome], settings: Settings) -> list[Html]:
    """Return the section without its heading."""
    columns = [
        Column("experiment", kind="text"),
        Column("promised"),
        Column("promised interval", kind="text"),
        Column("realised"),
        Column("kept", kind="text"),
        Column(RIDGE_STACKING, "gain over"),
        Column(BEST_INITIAL, "gain over"),
        Column("normalised, %"),
    ]
    caption = f"{DECISION_ENSEMBLE} on {settings.fresh_rows:,} fresh rows: mean payoff per row"
    return [
        element("p", ABOUT_DECISION, *([f" {ABOUT_TRAINING_ROWS}"] if settings.debias_on == "train" else [])),
        element("p", element("strong", promise_sentences(outcomes))),
        element("p", comparison_sentences(outcomes)),
        sortable_table(Sheet(caption, columns, list(map(_experiment_row, outcomes)))),
        element("p", ABOUT_DECISION_COLUMNS, class_="soft"),
        element("ul", *(element("li", sentence) for sentence in audit_sentences(outcomes))),
    ]


def _experiment_row(outcome: Outcome) -> list[Cell]:
    payoff, audit, decimals = outcome.payoff(FRESH, DECISION_ENSEMBLE), outcome.audit, text.PAYOFF_DECIMALS
    ridge, best = audit.gain_over(RIDGE_STACKING), audit.gain_over(BEST_INITIAL)
    return [
        Cell(outcome.name),
        number_cell(payoff.promised, decimals),
        interval_cell(audit.low, audit.high, decimals),
        number_cell(payoff.realised, decimals),
        flag_cell(audit.kept, no="no"),
        estimate_cell(ridge.gain, ridge.gain_error, 3, sign="+"),  # a decimal more: the two are close
        estimate_cell(best.gain, best.gain_error, decimals, sign="+"),
        estimate_cell(payoff.way, audit.way_error, 1),
    ]


def _where_kept(outcomes: Sequence[Outcome]) -> str:
    names = [outcome.name for outcome in outcomes]
    return text.in_which([outcome.name for outcome in outcomes if outcome.audit.kept], names)
