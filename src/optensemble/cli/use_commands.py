"""The commands that use a fitted ensemble: decide, audit, explain and report."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optensemble.cli.console import WRONG_USE, Json, Quiet, Speaker

if TYPE_CHECKING:
    from optensemble.jobs.audit import Later
    from optensemble.jobs.saved_ensemble import Saved
    from optensemble.tables.reading import Tables

REFUTED = 3

EnsembleFile = Annotated[Path, typer.Argument(help="A fitted ensemble.", metavar="ENSEMBLE.oe")]
Files = Annotated[list[str], typer.Argument(help="Tables: CSV, Parquet or Arrow; globs are fine.", metavar="TABLE...")]
Labels = Annotated[str | None, typer.Option(help="Columns of the labels, if not as in the job file.")]
IdColumn = Annotated[str | None, typer.Option(help="The column of ids, if not as in the job file.")]
Time = Annotated[str | None, typer.Option(help="The column of times, if not as in the job file.")]


def decide(
    ensemble: EnsembleFile,
    tables: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write: .parquet, .csv or .arrow.")],
    id_column: IdColumn = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide for every row of a table: the action, whom it follows, the promised payoff and its 95 % limits.

    Labels are not needed. Tables larger than memory are fine. The output is written whole or not at all.

    For example:

    - `optensemble decide ensemble.oe new.parquet -o decisions.parquet`

    - `optensemble decide ensemble.oe 'day-*.csv' -o decisions.csv --id-column day`
    """
    from optensemble.cli.rendering import show_decisions
    from optensemble.jobs import decide as deciding

    speaker = Speaker(as_json, quiet)
    saved, found = _open(ensemble, tables, None, id_column, None)
    with speaker.progress("deciding") as tell:
        total = found.rows
        share = None if not total else (lambda rows: tell("rows", rows / total))
        decisions = deciding.decide(saved, found, out, share)
    if decisions.promise.unlike and not speaker.speaks:  # otherwise it is said with the promise
        warnings.warn(decisions.promise.note, UserWarning, stacklevel=2)
    if decisions.unseen:
        told = f"{decisions.unseen:,} of {decisions.rows:,} rows are of a group that no row fitted on was of"
        warnings.warn(f"{told}: for them the promise rests on other groups", UserWarning, stacklevel=2)
    show_decisions(speaker, decisions, out)


def audit(
    ensemble: EnsembleFile,
    tables: Files,
    labels: Labels = None,
    time: Time = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare what was promised with what came true, on rows of known labels that were not fitted on.

    The exit code is 3 if the promise is refuted at 95 %, so that a scheduler can alarm.

    For example:

    - `optensemble audit ensemble.oe later.parquet`

    - `optensemble audit ensemble.oe later.parquet --quiet || echo "look at the report"`
    """
    from optensemble.cli.rendering import show_audit
    from optensemble.evaluation.audit_inputs import SEEN

    speaker = Speaker(as_json, quiet)
    later = _judge(speaker, ensemble, tables, labels, time)
    show_audit(speaker, later.audit, list(later.saved.roles.coordinates))
    if later.audit.kept is False:
        raise typer.Exit(REFUTED)
    if later.audit.totals.seen > SEEN * len(later.rows):
        raise typer.Exit(WRONG_USE)  # the warning says why


def explain(
    ensemble: EnsembleFile,
    tables: Files,
    row: Annotated[int | None, typer.Option(help="Which row, counted from 0.", min=0)] = None,
    id_value: Annotated[str | None, typer.Option("--id", help="Which row, by its id.")] = None,
    id_column: IdColumn = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Say why a row is decided as it is: who won, by what margin, what moved the prediction, what others would do.

    For example:

    - `optensemble explain ensemble.oe new.parquet --row 17`

    - `optensemble explain ensemble.oe new.parquet --id 2026-01-31`
    """
    from optensemble.cli.rendering import show_explanation
    from optensemble.jobs import audit as judging

    speaker = Speaker(as_json, quiet)
    saved, found = _open(ensemble, tables, None, id_column, None)
    explanation = judging.explain(saved, found, row, id_value)
    show_explanation(speaker, explanation, id_value, saved.roles.coordinates)


def report(
    ensemble: EnsembleFile,
    tables: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    labels: Labels = None,
    time: Time = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page about an ensemble on later rows: one file that opens offline.

    For example:

    - `optensemble report ensemble.oe later.parquet -o report.html`
    """
    from optensemble._core.atomic_files import replace
    from optensemble.jobs.audit import make_report
    from optensemble.tables.writing import require_place

    speaker = Speaker(as_json, quiet)
    require_place(out, [ensemble])
    later = _judge(speaker, ensemble, tables, labels, time)
    require_place(out, list(later.tables.paths))
    with speaker.progress("drawing"):
        replace(out, make_report(later).encode())
    speaker.say(later.audit.verdict, f"The page: {out}")
    speaker.tell({"report": str(out), "verdict": later.audit.verdict, "kept": later.audit.kept})


def _open(
    ensemble: Path, tables: list[str], labels: str | None, id_column: str | None, time: str | None
) -> tuple[Saved, Tables]:
    from optensemble.jobs.saved_ensemble import open_saved
    from optensemble.tables.reading import find_tables

    found = find_tables(tables)
    return open_saved(ensemble, found, labels=labels, id_column=id_column, time=time), found


def _judge(speaker: Speaker, ensemble: Path, tables: list[str], labels: str | None, time: str | None) -> Later:
    from optensemble.jobs.audit import judge

    with speaker.progress("auditing"):
        return judge(*_open(ensemble, tables, labels, None, time))
