"""The report of an ensemble in plain words; every number comes from its audit."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from math import isfinite, isnan
from typing import Any

import pandas as pd

from optensemble._core.number_format import figures
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.audit_text import outcome
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.report.data import MOST_COORDINATES, Blocks, Judged
from optensemble.report.numbers import decimals, interval, number
from optensemble.report.tables.audit import side

KEPT, BROKEN, OPEN = "kept", "broken", "open"

RIVALS = (
    "Rivals are the members as they were given, and what anyone would make of them: their average, a stack, a ridge, "
    "the mean label. A gain is what the ensemble did better, of costs too."
)
OUT_OF_FOLD = (
    "This is how it was decided who decides, before any of the rows of this report came: each candidate on rows held "
    "out from it in turn."
)
CELLS = (
    "A cell is a part of the rows: all where a certain one was followed, where an action lies within certain limits, "
    "or of a subgroup that was named. Predictions may be wrong row by row, but within a cell they should be right on "
    "average; a bias is by how much they are not (positive: labels came out higher). Violation is the bias times the "
    "share of rows in the cell."
)
SWAPS = (
    "Each line is whom it followed, each column whom it might have followed there instead. Orange would have been "
    "better, blue worse."
)
DECISIONS = (
    "Colour shows how often the action on a coordinate was at its lower bound, in between, or at its upper bound."
)

GLOSSARY = {
    "Row": "One decision: a day, an order, a customer. Labels are what came true of it.",
    "Coordinate": "One of the numbers that a decision consists of: an hour, an asset, an item.",
    "Member": "A model or a policy that the ensemble was made of.",
    "Self-assessment": "What a model expects of its own action: its predictions times its action, added up.",
    "Promise": (
        "What the ensemble says it will get on average, before labels are known. It is its self-assessment, corrected "
        "by how it did on rows held out from it. The interval is meant to hold the average 95 times in 100."
    ),
    "Kept": "The average that came true lies within the promised interval.",
    "Interval": (
        "Where the truth lies 95 times in 100, as far as these rows tell. Rows that belong together are not taken for "
        "independent. If an interval of a difference holds 0, chance alone may explain it."
    ),
    "Cell": (
        "A part of the rows, by who was followed, by what was done or by subgroup, in which predictions should be "
        "right on average."
    ),
    "Swap regret": (
        "What would have been gained by always following somebody else wherever a certain one was followed, each time "
        "the best in hindsight. Picking in hindsight makes it positive even if nothing was done wrong; look at what is "
        "beyond chance."
    ),
    "Out of fold": "On rows held out: learned without them, judged on them.",
}


def status(judged: Judged) -> str:
    """Say in a word how it went."""
    return OPEN if judged.audit.kept is None else KEPT if judged.audit.kept else BROKEN


def headline(judged: Judged) -> str:
    """Say in a few words how it went."""
    row: Any = judged.audit.summary.iloc[0]
    said = outcome(row, judged.sign)
    return _sentence(said)[:-1] if judged.audit.kept is None else f"The promise was {said}"


def opening(judged: Judged) -> str:
    """Say what this is a report of."""
    first, last = _first_and_last(judged.blocks)
    unit = "" if isinstance(judged.blocks.start, pd.DatetimeIndex) else "time "
    span = f", {unit}{first} to {last}" if judged.blocks.is_time else ""
    return f"{type(judged.ensemble).__name__} on {judged.rows:,} later {'row' if judged.rows == 1 else 'rows'}{span}"


def cautions(judged: Judged) -> list[str]:
    """Say what a reader should know before believing anything."""
    promise = judged.ensemble.promise_of(Assessments.of(judged.answer.assessed))
    due = getattr(judged.ensemble, "refit_due_", "")
    return [_sentence(said) for said in (promise.note, f"it should be fitted again: {due}" if due else "") if said]


def facts(judged: Judged) -> list[tuple[str, str, str]]:
    """Return what matters most: of each fact its title, its number, and a line that explains it."""
    row: Any = judged.audit.summary.iloc[0]
    promise, low, high, realised, half = figures(
        [row["promise"], row["low"], row["high"], row["realised"], row["half_width"]]
    )
    limited = isfinite(row["low"]) or isfinite(row["high"])
    doubt = "" if isnan(row["half_width"]) else f" ± {half}"
    cost = judged.sense == "min"
    return [
        ("Promised cost" if cost else "Promised", promise, f"95 %: {low} to {high}" if limited else "without limits"),
        ("Cost" if cost else "Earned", f"{realised}{doubt}", f"on average over {row['rows']:,} rows"),
        *_beside_best(judged),
        _bias(judged.audit),
    ]


def _beside_best(judged: Judged) -> list[tuple[str, str, str]]:
    """Compare with the best of those that were given: what there would be without an ensemble."""
    names: list[str] = [name for name, _ in getattr(judged.ensemble, "members_", [])]
    given = judged.audit.lift[judged.audit.lift["rival"].isin(names)]
    if given.empty:
        return []
    best: Any = given.sort_values("gain", kind="stable").iloc[0]
    digits = decimals([best["gain"]], [(best["high"] - best["low"]) / 2])
    said = f"{best['rival']}, the best of {_count(len(given), 'member')} in hindsight"
    if best["gain"] == best["low"] == best["high"] == 0:
        return [("Gain", "0", f"it comes to the same as {said}")]
    said = f"over {said} (95 %: {interval(best['low'], best['high'], digits, '+')})"
    return [("Gain", number(best["gain"], digits, "+"), said)]


def in_short(judged: Judged) -> dict[str, str]:
    """Return a sentence for each section that has one."""
    audit = judged.audit
    return {
        **({"rivals": rivals(audit)} if len(audit.lift) else {}),
        "time": over_time(judged.blocks),
        "cells": cells(audit),
        "swaps": swaps(judged),
    }


def _bias(audit: Audit) -> tuple[str, str, str]:
    return "Biases", f"{audit.biased:,} of {audit.tested:,}", "pairs of cell and coordinate off beyond chance"


def rivals(audit: Audit) -> str:
    """Say how many rivals it is ahead of."""
    sides = [side(low, high) for low, high in zip(audit.lift["low"], audit.lift["high"], strict=True)]
    ways = {
        "ahead": "ahead of {}",
        "behind": "behind {}",
        "level within the noise": "level with {} within the noise",
        "the same": "the same as {}",
    }
    shown = [way.format(sides.count(name)) for name, way in ways.items() if name in sides]
    return f"Of {_count(len(sides), 'rival')} the ensemble is {_listed(shown)}."


def over_time(blocks: Blocks) -> str:
    """Say how many blocks lie outside what was promised of them."""
    count, size = len(blocks.rows), _range(blocks.rows.tolist())
    what = f"{_count(count, 'block')} of {size} rows, in {'time' if blocks.is_time else 'row'} order"
    if not blocks.judged:
        return f"The rows in {what}. There are no limits to keep."
    out = len(blocks.outside)
    are = "none of them is" if not out else "1 of them is" if out == 1 else f"{out} of them are"
    return f"The rows in {what}: {are} outside the limits promised (one in twenty may be, by chance)."


def cells(audit: Audit) -> str:
    """Say how many pairs of cell and coordinate were tested, and how many are biased."""
    thin = f" {_count(audit.thin, 'cell')} had too few rows to be tested." if audit.thin else ""
    if not audit.tested:
        return f"No cell could be tested.{thin}"
    pairs = f"{audit.tested:,} pairs of cell and coordinate were tested"
    if not audit.biased:
        return f"{pairs}: no bias stands out.{thin}"
    return f"{pairs}: {audit.biased:,} {'is' if audit.biased == 1 else 'are'} biased beyond chance.{thin}"


def swaps(judged: Judged) -> str:
    """Say what the best swap would have gained, and how much of that is beyond chance."""
    audit = judged.audit
    if len(audit.swap) == 1:
        return "There is but one to follow: nothing could be swapped."
    sure = audit.swap[(audit.swap["gain"] > 0) & (audit.swap["low"] > 0)]
    digits = decimals(audit.swap["gain"], (audit.swap["high"] - audit.swap["low"]) / 2)
    verb = "saved" if judged.sense == "min" else "gained"
    said = f"The best swap would have {verb} {number(audit.swap_regret, digits)} a row, in hindsight"
    if sure.empty:
        return f"{said}; no swap is better beyond chance."
    return f"{said}; {_count(len(sure), 'swap')} {'is' if len(sure) == 1 else 'are'} better beyond chance."


def left_out_of_swaps(audit: Audit) -> str:
    """Say who is not among the lines because it was never followed."""
    never = audit.swap.loc[audit.swap["rows"] == 0, "chosen"].drop_duplicates().tolist()
    return f"Never followed, and so without a line: {', '.join(never)}." if never else ""


def decisions(judged: Judged) -> str:
    """Say which coordinates are shown."""
    d = len(judged.coordinates)
    if d <= MOST_COORDINATES:
        return DECISIONS
    return f"{DECISIONS} Of {d} coordinates the {MOST_COORDINATES} used most are shown."


def fit(ensemble: Any) -> list[str]:
    """Say what came of the fit: of a DecisionEnsemble whether anything was found, of the algorithms how it ended."""
    return [_sentence(each) for each in ensemble.outcome]


def foot(judged: Judged) -> list[str]:
    """Say where everything is from."""
    ensemble, audit = judged.ensemble, judged.audit
    ordered = f", taken in blocks of {audit.block_length:,} for intervals" if audit.block_length else ""
    members = ", ".join(name for name, _ in ensemble.members_)
    versions = ", ".join(f"{name} {version(name)}" for name in ("optensemble", "numpy", "pandas", "matplotlib"))
    goal = "a payoff, to be maximised" if judged.sense == "max" else "a cost, to be minimised"
    return [
        f"Rows: {judged.rows:,} from {judged.source}{ordered}.",
        f"Fitted on {ensemble.n_rows_:,} rows; members: {members}; {_count(len(judged.coordinates), 'coordinate')}.",
        f"Sense: {goal} ({judged.sense}).",
        f"Made with {versions}.",
    ]


def block_name(blocks: Blocks, number: int) -> str:
    """Say from when to when a block goes."""
    first, last = (_moment(at[number], blocks.is_time) for at in (blocks.start, blocks.end))
    return first if first == last else f"{first} to {last}"


def _first_and_last(blocks: Blocks) -> tuple[str, str]:
    return _moment(blocks.start[0], blocks.is_time), _moment(blocks.end[-1], blocks.is_time)


def _moment(at: Any, is_time: bool) -> str:
    if not isinstance(at, pd.Timestamp):
        return f"{at:,.6g}" if is_time else f"{at:,}"
    return str(at.date()) if at == at.normalize() else at.isoformat(" ", "minutes")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _range(sizes: list[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} or {high:,}"


def _listed(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
