"""What was found, on the terminal and for machines."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optensemble._core.number_format import NO_NUMBER, column_decimals, with_minus
from optensemble.cli.console import Speaker
from optensemble.ensembles.base import DECISION
from optensemble.report.html import Cell, Column, Sheet
from optensemble.report.numbers import number_cell
from optensemble.report.tables.audit import cell_sheet, choice_sheet, lift_sheet
from optensemble.report.tables.fit import leaderboard_sheet, validation_sheet

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit
    from optensemble.explanation.explanation import Explanation
    from optensemble.jobs.check import Understood
    from optensemble.jobs.decide import Decisions
    from optensemble.jobs.fit import Task

_MOST_LABELS = 12
_MOST_TRIED = 8
_MOST_CELLS = 5
_LEADERBOARD = (0, 1, 2, 3, 7, 8)  # candidate, kind, realised with its interval, followed, decides


def show_understood(speaker: Speaker, found: Understood) -> None:
    """Show what a job was understood as."""
    speaker.show(_pairing(found))
    speaker.show(_members(found))
    speaker.say(*found.sentences())
    for doubt in found.doubts:
        warnings.warn(doubt, UserWarning, stacklevel=2)
    speaker.tell(
        {
            "job": str(found.task.job.path),
            "rows": len(found.task.rows),
            "columns": found.pairs,
            "members": found.members,
            "cells": vars(found.cells),
            "plan": found.plan.parts,
            "doubts": found.doubts,
            "enough": found.enough,
        }
    )


def _pairing(found: Understood) -> Sheet:
    """Show which columns go with which label."""
    members = list(found.pairs[0]["columns"])
    columns = [Column("label", kind="text"), *(Column(name, kind="text") for name in members)]
    columns += [Column("lower"), Column("upper")]
    rows = [
        [
            Cell(pair["label"]),
            *map(Cell, pair["columns"].values()),
            *(Cell(f"{pair[end]:g}".replace("-", "−")) for end in ("lower", "upper")),
        ]
        for pair in found.pairs[:_MOST_LABELS]
    ]
    more = len(found.pairs) - len(rows)
    rows += [[Cell(f"and {more} more"), *[Cell("")] * (len(columns) - 1)]] if more > 0 else []
    return Sheet("Which columns go together, in the order of the decision, and its bounds", columns, rows)


def _members(found: Understood) -> Sheet:
    digits = column_decimals(found.members["realised"])
    goal = "payoff" if found.task.job.sense == "max" else "cost"
    texts = [Column("member", kind="text"), Column("kind", kind="text")]
    rows = [
        [
            Cell(row["member"]),
            Cell(row["kind"]),
            _r_squared_cell(row["explained"]),
            number_cell(row["realised"], digits),
        ]
        for row in found.members.to_dict("records")
    ]
    return Sheet("Members on these rows", [*texts, Column("R²"), Column(goal)], rows)


def _r_squared_cell(share: float) -> Cell:
    return Cell(NO_NUMBER if isnan(share) else with_minus(f"{100 * share:.0f} %"))


def show_fitted(speaker: Speaker, ensemble: Any, task: Task, out: Path) -> None:
    """Show who earns what out of fold, and what that means."""
    document: dict[str, Any] = {"ensemble": str(out), "kind": type(ensemble).__name__, "rows": len(task.rows)}
    if ensemble.kind == DECISION:
        board = ensemble.leaderboard_
        speaker.show(leaderboard_sheet(board[board["kind"] != "left out"]), _LEADERBOARD)
        why = board.loc[board["chosen"].astype(bool), "why"].iloc[0]
        speaker.say(f"{ensemble.winner_} decides: it {why}", ensemble.finding_, *ensemble.notes_)
        document |= {
            "winner": ensemble.winner_,
            "finding": ensemble.finding_,
            "leaderboard": board,
            "notes": ensemble.notes_,
        }
    elif ensemble.terms_.validated:
        tried = ensemble.validation_
        speaker.show(validation_sheet(tried[tried["chosen"] | tried["gain"].isin(tried["gain"].nlargest(_MOST_TRIED))]))
        document["validation"] = ensemble.validation_
    speaker.tell({**document, "guarantees": ensemble.guarantees_})
    speaker.say(f"Wrote {out}.")


def show_decisions(speaker: Speaker, decisions: Decisions, out: Path) -> None:
    """Show what was decided in all."""
    followed = ", ".join(f"{name} on {count:,}" for name, count in decisions.followed.items())
    rows = "row" if decisions.rows == 1 else "rows"
    speaker.say(
        f"{decisions.rows:,} {rows} decided, following {followed}.",
        f"Promised: {decisions.promise}.",
        f"Wrote {out}.",
    )
    promise = {name: value for name, value in vars(decisions.promise).items() if name != "advantage"}
    speaker.tell(
        {
            "decisions": str(out),
            "rows": decisions.rows,
            "followed": decisions.followed,
            "unseen": decisions.unseen,
            "promise": promise,
        }
    )


def show_audit(speaker: Speaker, audit: Audit, coordinates: list[str]) -> None:
    """Show what was promised and what came true."""
    speaker.say(audit.verdict, "")
    speaker.show(choice_sheet(audit))
    speaker.show(lift_sheet(audit))
    if audit.biased:
        are = "is" if audit.biased == 1 else "are"
        speaker.say(f"{audit.biased:,} of {audit.tested:,} pairs of cell and coordinate {are} significantly biased")
        speaker.show(cell_sheet(audit, coordinates, most=_MOST_CELLS))
    else:
        speaker.say(*str(audit).splitlines()[1:2])
    summary = audit.summary.to_dict("records")[0]
    speaker.tell(
        {
            "verdict": audit.verdict,
            "kept": audit.kept,
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


def show_explanation(
    speaker: Speaker, explanation: Explanation, id_value: str | None, coordinates: Sequence[str]
) -> None:
    """Show why a row is decided as it is."""
    speaker.say(*([] if id_value is None else [f"id {id_value}"]), str(explanation))
    speaker.tell({"id": id_value, "coordinates": coordinates, **vars(explanation)})
