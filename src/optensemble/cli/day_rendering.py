"""Output of update and refit: text for a terminal, or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from optensemble.cli.console import CommandOutput
from optensemble.cli.rendering import print_board

if TYPE_CHECKING:
    from optensemble.jobs.refit import Refit
    from optensemble.jobs.update import TableUpdate

_FORGOTTEN = "The rows are no longer in the file: a refit needs all of them again"
_NOTHING_CAME = "No rows have come since the fit: there is nothing to fit again for."


def print_update(output: CommandOutput, update: TableUpdate, out: Path | None, *, forgotten: bool) -> None:
    """Print what an update did; ``out`` is the file that was written, if one was."""
    done = update.done
    output.print_lines(
        f"{_counted(done.taken_in, 'row')} taken in{'' if done.taken_in else ': nothing is new'}.",
        *_left_out(update),
        *([f"Of the new rows: {update.outcome}."] if update.outcome else []),
        *([f"{_FORGOTTEN}."] if forgotten else []),
        f"Wrote {out}." if out is not None else "The file is as it was.",
    )
    promise = None if done.promise is None else {**vars(done.promise)}
    if promise is not None:
        promise.pop("advantage")
    output.print_json(
        {
            "ensemble": None if out is None else str(out),
            "rows": done.rows + update.unlabelled,
            "taken_in": done.taken_in,
            "skipped": done.skipped,
            "changed": done.changed,
            "unlabelled": update.unlabelled,
            "promise": promise,
            "realised": done.realised,
            "refit_due": update.refit_due,
        }
    )


def print_refit(output: CommandOutput, refit: Refit, out: Path | None) -> None:
    """Print the leaderboard of a new fit; ``out`` is the file that was written, if one was."""
    ensemble, update = refit.ensemble, refit.update
    document: dict[str, Any] = {
        "ensemble": None if out is None else str(out),
        "rows": ensemble.n_rows_,
        "new": refit.new,
        "skipped": 0 if update is None else update.done.skipped,
        "changed": 0 if update is None else update.done.changed,
        "unlabelled": 0 if update is None else update.unlabelled,
        **print_board(output, ensemble, list(ensemble.notes_)),
    }
    came = f"Fitted again on {ensemble.n_rows_:,} rows, {refit.new:,} of them new." if refit.fitted else _NOTHING_CAME
    output.print_lines(
        *(_left_out(update) if update is not None else []),
        came,
        f"Wrote {out}." if out is not None else "The file is as it was.",
    )
    output.print_json({**document, "guarantees": ensemble.guarantees_, "doubts": list(ensemble.data_warnings_)})


def _left_out(update: TableUpdate) -> list[str]:
    """Return in lines how many rows of a table were not taken in, and why."""
    done = update.done
    counts = {
        "given before, skipped": done.skipped,
        "given before with other numbers, skipped": done.changed,
        "without labels, left for later": update.unlabelled,
    }
    return [f"{_counted(count, 'row')} {what}." for what, count in counts.items() if count]


def _counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
