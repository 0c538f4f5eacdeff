"""Sentences of an ensemble's report; every number comes from its audit."""

from __future__ import annotations

from importlib.metadata import version
from math import isfinite, isnan
from typing import Any, NamedTuple

from optensemble._core.number_format import (
    column_decimals,
    format_by_error,
    format_interval,
    format_number,
)
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.audit_tables import AuditSummary
from optensemble.evaluation.verdict import smallest_error
from optensemble.report.blocks import Blocks, moment_text
from optensemble.report.data import ReportData
from optensemble.report.phrases import KeyFigure, as_sentence, count_of, join_words
from optensemble.report.profile import MOST_COORDINATES
from optensemble.report.tables.audit import BETTER, IDENTICAL, NOT_SIGNIFICANT, WORSE, gain_result

ABOUT_CANDIDATE_DOTS = (
    "Strokes are 95 % intervals, a hollow dot has none. Green and bold is the candidate that was selected, grey are "
    "the others."
)
ABOUT_VALIDATION = "A line in a colour of its own for each shrinkage; a ring marks what was selected."
ABOUT_CELLS = (
    "A cell is a subset of the rows: where a certain candidate was followed, where an action lies in a certain range, "
    "or a named subgroup. Predictions may be wrong row by row, but within a cell they should be right on average. The "
    "bias is the mean of labels minus predictions; the violation is its size times the share of rows in the cell."
)
ABOUT_PROFILE = (
    "Colour shows how often the action on a coordinate was at its lower bound, in between, or at its upper bound: the "
    "fuller the green, the more rows, as the scale beside it says."
)

ABOUT_ROW_BOUNDS = (
    "Bounds differ from row to row: a row is at a bound if it is at its own; levels, and the bounds in the table, are "
    "those of all rows of the fit."
)


def glossary(data: ReportData) -> dict[str, str]:
    """Return the terms of the page with their meanings."""
    what, unit = data.objective, data.terms.unit
    row = "a day, an order, a customer" if unit == "row" else f"here one {unit}"
    return {
        "Row": f"One decision: {row}. Its labels become known after the decision.",
        "Coordinate": "One component of an action: an hour, an asset, an item.",
        "Member": "A model or policy that the ensemble combines.",
        "Candidate": "A policy that the ensemble may follow: a member, or a combination of members.",
        "Foresight": f"The {what} of the best action of each row, had its labels been known: no decision can beat it.",
        "Self-assessment": f"The {what} that a model predicts for its own action: predictions times action, added up.",
        "Promise": (
            f"The mean {what} that the ensemble predicts before labels are known: its self-assessment, calibrated on "
            "rows held out from it. The interval should contain the realised mean 95 times in 100."
        ),
        **_GLOSSARY,
    }


_GLOSSARY = {
    "Kept": "The realised mean lies within the promised interval.",
    "Verdict": (
        "✓, green: kept. ≈, amber: kept, but biased or too wide to be useful. ?: too few rows to tell. ✗, red: broken. "
        "–: there was no promise, or rows were fitted on."
    ),
    "Interval": (
        "A 95 % confidence interval. It allows for dependence between rows that are clustered or in time order. A "
        "difference is significant if its interval does not contain 0."
    ),
    "Simultaneous interval": "One of many intervals that all hold together 95 times in 100.",
    "Cell": (
        "A subset of the rows, by followed candidate, by level of an action or by subgroup, in which predictions "
        "should be unbiased."
    ),
    "Swap regret": (
        "The gain, of costs the saving, from replacing each followed candidate, wherever it was followed, by the best "
        "one in hindsight. Choosing in hindsight makes it positive even if no decision was wrong: look for significant "
        "swaps."
    ),
    "Out of fold": "On rows held out from fitting, each fold in turn.",
}


def cautions(data: ReportData) -> list[str]:
    """Return reasons to doubt the promise, a sentence each."""
    doubts, due = data.audit.judgement.doubts, data.ensemble.refit_due_
    note = data.ensemble.promise_of(data.assessments(), data.answer.absent).note
    said = [*(f"doubt: {doubt}" for doubt in doubts), "" if note in doubts else note]
    return [as_sentence(each) for each in (*said, f"a refit is due: {due}" if due else "") if each]


def key_figures(data: ReportData) -> list[KeyFigure]:
    """Return the promised and the realised mean, and the gain over the best member."""
    row, terms = data.audit.totals, data.terms
    means = mean_texts(row)
    interval = f"95 % interval: {means.interval}" if means.interval else "no interval"
    return [
        KeyFigure(f"Promised {data.objective}, mean", terms.amount(means.promised), interval),
        KeyFigure(f"Realised {data.objective}, mean", terms.amount(means.realised), f"over {terms.count(row.rows)}"),
        *_gain_over_best_member(data),
    ]


class MeanTexts(NamedTuple):
    """Promised and realised mean of an audit as text, to the digits that their errors leave."""

    promised: str
    interval: str
    realised: str


def mean_texts(row: AuditSummary) -> MeanTexts:
    """Return the means of an audit as text; one place, so that they are the same wherever they stand."""
    shown = [row.promise, row.low, row.high, row.realised, row.half_width, smallest_error(row)]
    promise, low, high, realised, half, _ = format_by_error(shown)
    limited = isfinite(row.low) or isfinite(row.high)
    error = "" if isnan(row.half_width) else f" ± {half}"
    return MeanTexts(promise, f"{low} to {high}" if limited else "", realised + error)


def _gain_over_best_member(data: ReportData) -> list[KeyFigure]:
    """Return the gain over what there would be without an ensemble; nothing if no member was compared."""
    names: list[str] = [name for name, _ in data.ensemble.members_]
    members = data.audit.lift[data.audit.lift["rival"].isin(names)]
    if members.empty:
        return []
    best: Any = members.sort_values("gain", kind="stable").iloc[0]
    digits = column_decimals([best["gain"]], [(best["high"] - best["low"]) / 2])
    title, against = ("Saved", "against") if data.sense == "min" else ("Gain", "over")
    member = f"{best['rival']}, the best of {count_of(len(members), 'member')} in hindsight"
    if best["gain"] == best["low"] == best["high"] == 0:
        return [KeyFigure(title, data.terms.amount("0"), f"identical to {member}")]
    interval = format_interval(best["low"], best["high"], digits, "+")
    gain = data.terms.amount(format_number(best["gain"], digits, "+"))
    explained = f"per {data.terms.unit} {against} {member} (95 % interval: {interval})"
    return [KeyFigure(title, gain, explained)]


def section_summaries(data: ReportData) -> dict[str, str]:
    """Return a sentence for each section that has one."""
    audit = data.audit
    return {
        **({"baselines": baseline_summary(audit)} if len(audit.lift) else {}),
        "time": block_summary(data.blocks, data.terms.units),
        "cells": bias_summary(audit),
        "swaps": swap_summary(data),
    }


def baseline_summary(audit: Audit) -> str:
    """Return how the ensemble compares with its baselines."""
    results = [gain_result(low, high) for low, high in zip(audit.lift["low"], audit.lift["high"], strict=True)]
    phrases = {
        BETTER: "significantly better than {}",
        WORSE: "significantly worse than {}",
        NOT_SIGNIFICANT: "not significantly different from {}",
        IDENTICAL: "identical to {}",
    }
    number = count_of(len(results), "baseline")
    if len(set(results)) == 1 < len(results):
        return f"The ensemble is {phrases[results[0]].format(f'all {number}')}."
    shown = [phrase.format(results.count(result)) for result, phrase in phrases.items() if result in results]
    return f"Of {number}, the ensemble is {join_words(shown)}."


def about_baselines(data: ReportData) -> str:
    """Return what baselines are, and which of them decides and so is not among them."""
    alone = (
        f"{data.decides_alone} decides in every row, and is not compared with itself. " if data.decides_alone else ""
    )
    positive = (
        "What was saved is positive where the ensemble cost less."
        if data.sense == "min"
        else "A gain is positive where the ensemble is better."
    )
    return (
        f"{alone}Baselines are the members on their own and simple combinations of them: their average, a stack, a "
        f"ridge regression, and the mean label. {positive}"
    )


def about_lift(data: ReportData) -> str:
    """Return what the dots of the comparison with baselines mean."""
    better = "cost significantly less" if data.sense == "min" else "is significantly better"
    return f"Strokes are 95 % intervals. Green and bold: the ensemble {better}; grey: not significantly."


def about_leaderboard(data: ReportData) -> str:
    """Return how the final policy was selected."""
    return (
        f"The final policy was selected before any row of this report was seen, by the {data.objective} of each "
        "candidate on rows held out from it in turn."
    )


def about_gaps(data: ReportData) -> str:
    """Return what the dots of promised − realised mean."""
    gaps = data.audit.by_choice
    few = gaps["low"].isna().any()
    one = "of a single row or of few" if (gaps["rows"] == 1).any() else "of few rows"
    hollow = f" A hollow dot is a mean {one}, without an interval." if few else ""
    return f"Strokes are 95 % intervals. Green: in line with the promise; orange and bold: significantly off.{hollow}"


def about_swaps(data: ReportData) -> str:
    """Return how to read the table of swaps and its colours."""
    orange, blue = ("would have saved", "cost more") if data.sense == "min" else ("would have gained", "lost")
    return (
        "Each row of the table is a candidate that was followed, each column a candidate that could have been followed "
        f"there instead. Orange {orange}, blue {blue}: the stronger the colour, the more."
    )


def block_summary(blocks: Blocks, units: str = "rows") -> str:
    """Return how many blocks lie outside their promised intervals; ``units`` is the word for rows."""
    low, high = blocks.rows.min(), blocks.rows.max()
    size = f"{low:,}" if low == high else f"{low:,} or {high:,}"
    what = f"{count_of(len(blocks.rows), 'block')} of {size} {units} in {'time' if blocks.is_time else 'row'} order"
    if not blocks.has_intervals:
        return f"{what}; no interval was promised."
    out = len(blocks.outside)
    lie = "none lies outside its" if not out else "1 lies outside its" if out == 1 else f"{out} lie outside their"
    return f"{what}: {lie} promised interval{'s' if out > 1 else ''} (1 in 20 is expected by chance)."


def bias_summary(audit: Audit) -> str:
    """Return how many pairs of cell and coordinate were tested, and how many are significantly biased."""
    small = f" {count_of(audit.thin, 'cell')} had too few rows to be tested." if audit.thin else ""
    if not audit.tested:
        return f"No cell could be tested.{small}"
    pairs = f"{count_of(audit.tested, 'pair')} of cell and coordinate {'was' if audit.tested == 1 else 'were'} tested"
    if not audit.biased:
        return f"{pairs}: no bias is significant.{small}"
    biased = "1 has a significant bias" if audit.biased == 1 else f"{audit.biased:,} have a significant bias"
    return f"{pairs}: {biased}.{small}"


def swap_summary(data: ReportData) -> str:
    """Return the gain of the best swap, and how many swaps are significant."""
    audit = data.audit
    if len(audit.swap) == 1:
        return "There is only one candidate: nothing can be swapped."
    significant = audit.swap[(audit.swap["gain"] > 0) & (audit.swap["low"] > 0)]
    digits = column_decimals(audit.swap["gain"], (audit.swap["high"] - audit.swap["low"]) / 2)
    verb = "saved" if data.sense == "min" else "gained"
    size = data.terms.amount(format_number(audit.swap_regret, digits))
    said = f"In hindsight, the best swap would have {verb} {size} per {data.terms.unit}"
    if significant.empty:
        return f"{said}; no swap is significantly better."
    are = "is" if len(significant) == 1 else "are"
    return f"{said}; {count_of(len(significant), 'swap')} {are} significantly better."


def missing_swap_rows(audit: Audit) -> str:
    """Return which candidates have no row in the table of swaps; nothing if all have."""
    never = audit.swap.loc[audit.swap["rows"] == 0, "chosen"].drop_duplicates().tolist()
    return f"Never followed, and therefore without a row: {', '.join(never)}." if never else ""


def profile_summary(data: ReportData) -> str:
    """Return what the colours mean, and which coordinates are shown."""
    d, about = len(data.coordinates), ABOUT_PROFILE
    if data.omega is not None and data.omega.open_bounds:
        about = f"{ABOUT_PROFILE} {ABOUT_ROW_BOUNDS}"
    return (
        about if d <= MOST_COORDINATES else f"{about} Of {d} coordinates, the {MOST_COORDINATES} used most are shown."
    )


def set_summary(data: ReportData) -> list[str]:
    """Return what the feasible set takes from the row, and rows that are out of the ordinary, a sentence each."""
    answer, rows = data.answer, f"of {count_of(data.rows, 'row')}"
    beyond, fallback = answer.beyond, answer.fallback
    said = [f"The feasible set differs from row to row: {'; '.join(data.parameters)}."] if data.parameters else []
    if beyond:
        said.append(f"{beyond:,} {rows} {'has' if beyond == 1 else 'have'} bounds beyond those of all fitting rows.")
    if fallback:
        verb = "takes" if fallback == 1 else "take"
        said.append(f"{fallback:,} {rows} cannot be solved and {verb} the fallback action.")
    return said


def fit_summary(ensemble: Any) -> list[str]:
    """Return the result of the fit: the finding and notes of a DecisionEnsemble, or how debiasing ended."""
    return [as_sentence(each) for each in ensemble.outcome]


def provenance(data: ReportData) -> list[str]:
    """Return the source of rows, ensemble and page."""
    ensemble, audit = data.ensemble, data.audit
    dependent = f"; intervals from blocks of {audit.block_length:,} rows" if audit.block_length else ""
    members = ", ".join(name for name, _ in ensemble.members_)
    versions = ", ".join(f"{name} {version(name)}" for name in ("optensemble", "numpy", "pandas", "matplotlib"))
    goal = "maximise the payoff" if data.sense == "max" else "minimise the cost"
    net = ", net of the known cost of acting" if ensemble.feasible_.has_cost else ""
    return [
        f"Rows: {data.rows:,} from {data.source}{dependent}.",
        f"Fitted on {ensemble.n_rows_:,} rows; members: {members}; {count_of(len(data.coordinates), 'coordinate')}.",
        f"Objective: {goal}{net} ({data.sense}).",
        f"Made with {versions}.",
    ]


def block_name(blocks: Blocks, number: int) -> str:
    """Return the first and last time, or row number, of a block."""
    first, last = (_place(at[number], blocks.is_time) for at in (blocks.start, blocks.end))
    return first if first == last else f"{first} to {last}"


def _first_and_last(blocks: Blocks) -> tuple[str, str]:
    return _place(blocks.start[0], blocks.is_time), _place(blocks.end[-1], blocks.is_time)


def _place(at: Any, is_time: bool) -> str:
    return moment_text(at) if is_time else f"{at:,}"
