"""Results of commands as text, tables and JSON."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optensemble._core.number_format import NO_NUMBER, column_decimals, with_minus
from optensemble.cli.console import CommandOutput
from optensemble.ensembles.base import DECISION
from optensemble.exceptions import DataWarning
from optensemble.jobs.row_checks import RowCounts
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import number_cell
from optensemble.report.phrases import as_sentence
from optensemble.report.tables.audit import cell_sheet, choice_sheet, lift_sheet
from optensemble.report.tables.fit import leaderboard_sheet, validation_sheet

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit
    from optensemble.explanation.explanation import Explanation
    from optensemble.jobs.audit import TableAudit
    from optensemble.jobs.check import JobSummary
    from optensemble.jobs.decide import DecisionSummary
    from optensemble.jobs.fit import Task
    from optensemble.report.data import ReportData

_MOST_LABELS = 12
_MOST_SETTINGS = 8
_MOST_CELLS = 5
_BEYOND = "have bounds beyond those of the fitting rows; actions out there count as in the outermost level set"
_LEADERBOARD = (0, 1, 2, 3, 5, 6, 7, 8)  # all but what each assesses itself at, and the reason


def print_job_summary(output: CommandOutput, summary: JobSummary) -> None:
    """Print the summary of a job."""
    output.print_table(_label_sheet(summary))
    output.print_table(_member_sheet(summary))
    output.print_lines(*summary.sentences())
    for warning in summary.warnings:
        warnings.warn(warning, DataWarning, stacklevel=2)
    cells = summary.cells
    output.print_json(
        {
            "job": str(summary.task.job.path),
            "rows": summary.task.row_count,
            **_counts(summary.task),
            "columns": summary.pairs,
            "parameters": [vars(parameter) for parameter in summary.parameters],
            "fallback": summary.task.fallbacks.count,
            "first_fallback": summary.task.fallbacks.first or None,
            "members": summary.members,
            "cells": {"filled": cells.filled, "thin": cells.below_min_cell, "median": cells.median},
            "plan": summary.plan.parts,
            "accuracy": None if summary.accuracy is None else vars(summary.accuracy),
            "doubts": summary.warnings,
            "enough": summary.enough,
        }
    )


def _counts(task: Task) -> dict[str, Any]:
    """Return what was counted in the rows of a job."""
    counts = task.counts
    weighted = {} if task.roles.weight is None else {"effective_rows": counts.effective}
    named = ("unlabelled", "nobody", "mended")
    return {**{name: getattr(counts, name) for name in named}, "absent": dict(counts.absent), **weighted}


def _label_sheet(summary: JobSummary) -> Sheet:
    """Return the columns of the members by label."""
    members = list(summary.pairs[0]["columns"])
    columns = [Column("label", kind="text"), *(Column(name, kind="text") for name in members)]
    columns += [Column("lower"), Column("upper")]
    rows = [
        [
            Cell(pair["label"]),
            *map(Cell, pair["columns"].values()),
            *(Cell(f"{pair[end]:g}".replace("-", "−")) for end in ("lower", "upper")),
        ]
        for pair in summary.pairs[:_MOST_LABELS]
    ]
    more = len(summary.pairs) - len(rows)
    rows += [[Cell(f"and {more} more"), *[Cell("")] * (len(columns) - 1)]] if more > 0 else []
    return Sheet("Columns by coordinate of the decision, and its bounds", columns, rows)


def _member_sheet(summary: JobSummary) -> Sheet:
    digits = column_decimals(summary.members["realised"])
    goal = "payoff" if summary.task.job.sense == "max" else "cost"
    texts = [Column("member", kind="text"), Column("kind", kind="text")]
    rows = [
        [
            Cell(row["member"]),
            Cell(row["kind"]),
            _r_squared_cell(row["explained"]),
            number_cell(row["realised"], digits),
        ]
        for row in summary.members.to_dict("records")
    ]
    return Sheet("Members on these rows", [*texts, Column("R²"), Column(goal)], rows)


def _r_squared_cell(share: float) -> Cell:
    return Cell(NO_NUMBER if isnan(share) else with_minus(f"{100 * share:.0f} %"))


def print_fit(output: CommandOutput, ensemble: Any, task: Task, out: Path) -> None:
    """Print the leaderboard out of fold and its result."""
    document: dict[str, Any] = {"ensemble": str(out), "kind": type(ensemble).__name__, "rows": task.row_count}
    document |= _counts(task)
    if ensemble.kind == DECISION:
        document |= print_board(output, ensemble, _fit_notes(ensemble, task))
    elif ensemble.terms_.validated:
        settings = ensemble.validation_
        best = settings["gain"].nlargest(_MOST_SETTINGS)
        output.print_table(validation_sheet(settings[settings["chosen"] | settings["gain"].isin(best)]))
        document["validation"] = ensemble.validation_
    output.print_json({**document, "guarantees": ensemble.guarantees_, "doubts": list(ensemble.data_warnings_)})
    output.print_lines(f"Wrote {out}.")


def print_board(output: CommandOutput, ensemble: Any, notes: list[str]) -> dict[str, Any]:
    """Print the leaderboard and its result, and return them for JSON."""
    board = ensemble.leaderboard_
    output.print_table(leaderboard_sheet(board[board["kind"] != "left out"]), _LEADERBOARD)
    why = board.loc[board["chosen"].astype(bool), "why"].iloc[0]
    output.print_lines(f"{ensemble.winner_} decides: it {why}", ensemble.finding_, *notes)
    return {
        "winner": ensemble.winner_,
        "finding": ensemble.finding_,
        "leaderboard": board,
        "notes": ensemble.notes_,
    }


def _fit_notes(ensemble: Any, task: Task) -> list[str]:
    """Return what was counted in the rows, and the notes of the ensemble, which may count the same."""
    streamed = not hasattr(task.rows, "columns")  # their unlabelled rows the ensemble has left out, and counted
    counted = replace(task.counts, unlabelled=0) if streamed else task.counts
    return list(dict.fromkeys([*counted.sentences(task.row_count), *ensemble.notes_]))


def print_decisions(output: CommandOutput, decisions: DecisionSummary, out: Path) -> None:
    """Print the summary of a table of decisions."""
    followed = ", ".join(f"{name} on {count:,}" for name, count in decisions.followed.items())
    rows = "row" if decisions.rows == 1 else "rows"
    output.print_lines(
        f"{decisions.rows:,} {rows} decided, following {followed}.",
        f"Promised: {decisions.promise}.",
        *([f"{decisions.beyond:,} of {decisions.rows:,} rows {_BEYOND}."] if decisions.beyond else []),
        *(
            f"{each}."
            for each in RowCounts(absent=Counter(decisions.absent), mended=decisions.mended).sentences(decisions.rows)
        ),
        f"Wrote {out}.",
    )
    promise = {name: value for name, value in vars(decisions.promise).items() if name != "advantage"}
    output.print_json(
        {
            "decisions": str(out),
            "key": decisions.key,
            "rows": decisions.rows,
            "followed": decisions.followed,
            "unseen": decisions.unseen,
            "beyond": decisions.beyond,
            "fallback": decisions.fallback,
            "absent": decisions.absent,
            "nobody": decisions.nobody,
            "mended": decisions.mended,
            "promise": promise,
        }
    )


def print_audit(output: CommandOutput, audited: TableAudit) -> None:
    """Print promised and realised payoffs."""
    audit, answer, coordinates = audited.audit, audited.answer, audited.saved.coordinates
    counts = RowCounts(unlabelled=audited.unlabelled, absent=Counter(answer.absent), mended=answer.mended)
    doubts = [f"doubt: {doubt}" for doubt in audit.judgement.doubts]
    output.print_lines(audit.verdict, *doubts, *counts.sentences(len(audited.rows)), "")
    output.print_table(choice_sheet(audit))
    output.print_table(lift_sheet(audit, cost=audit.sense == "min"))
    if audit.biased:
        verb = "is" if audit.biased == 1 else "are"
        pairs = f"{audit.biased:,} of {audit.tested:,} pairs of cell and coordinate"
        output.print_lines(f"{pairs} {verb} significantly biased")
        output.print_table(cell_sheet(audit, coordinates, most=_MOST_CELLS))
    else:
        output.print_lines(*str(audit).splitlines()[1:2])
    summary = audit.summary.to_dict("records")[0]
    output.print_json(
        {
            **verdict_document(audit),
            "unlabelled": audited.unlabelled,
            "absent": answer.absent,
            "mended": answer.mended,
            "coordinates": coordinates,
            "summary": summary,
            "by_choice": audit.by_choice,
            "lift": audit.lift,
            "cells": audit.cells,
            "swap": audit.swap,
            "swap_regret": audit.swap_regret,
            "conditional": audit.conditional,
        }
    )


def print_report(output: CommandOutput, data: ReportData, out: Path) -> None:
    """Print the verdict and the totals of a report."""
    from optensemble.report.overview.text import totals_sentence  # loads matplotlib
    from optensemble.report.overview.totals import period_totals

    totals = period_totals(data)
    output.print_lines(data.audit.verdict, as_sentence(totals_sentence(data, totals)), f"Wrote {out}.")
    output.print_json(
        {
            "report": str(out),
            **verdict_document(data.audit),
            **vars(data.terms),
            "total": {name: value for name, value in vars(totals).items() if name != "cost"} | {"share": totals.share},
        }
    )


def verdict_document(audit: Audit) -> dict[str, Any]:
    """Return the verdict for JSON: in words with the gap, its grade, the gap in numbers, and further doubts."""
    totals, verdict = audit.totals, audit.judgement
    gap = {"estimate": totals.gap, "low": totals.gap_low, "high": totals.gap_high}
    doubts = list(verdict.doubts)
    return {"verdict": verdict.sentence, "grade": verdict.grade.value, "gap": gap, "kept": audit.kept, "doubts": doubts}


def print_explanation(
    output: CommandOutput, explanation: Explanation, id_value: str | None, coordinates: Sequence[str]
) -> None:
    """Print the explanation of a row."""
    output.print_lines(*([] if id_value is None else [f"id {id_value}"]), str(explanation))
    output.print_json({"id": id_value, "coordinates": coordinates, **vars(explanation)})
