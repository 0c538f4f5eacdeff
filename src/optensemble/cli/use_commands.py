"""Commands on a fitted ensemble: decide, audit, explain and report."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optensemble.cli.console import WRONG_USE, CommandOutput, Json, Quiet, Scheduler, Trust, Workers, trusted_types

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit
    from optensemble.jobs.audit import TableAudit
    from optensemble.jobs.saved_ensemble import SavedEnsemble
    from optensemble.tables.reading import Tables

EARNED_LESS, EARNED_MORE = 3, 4
"""Exit codes of a promise that is broken, or with ``--strict`` in doubt."""

EnsembleFile = Annotated[Path, typer.Argument(help="A fitted ensemble.", metavar="ENSEMBLE.oe")]
Files = Annotated[
    list[str], typer.Argument(help="Tables: CSV, Parquet or Arrow; patterns with * as well.", metavar="TABLE...")
]
Labels = Annotated[str | None, typer.Option(help="Columns of the labels, if other than in the job file.")]
IdColumn = Annotated[str | None, typer.Option(help="The column of ids, if other than in the job file.")]
Time = Annotated[str | None, typer.Option(help="The column of times, if other than in the job file.")]


def decide_command(
    ensemble: EnsembleFile,
    tables: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write: .parquet, .csv or .arrow.")],
    id_column: IdColumn = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Columns to copy to the decisions, separated by commas.", metavar="COLUMNS")
    ] = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide for every row of a table: action, followed member, promised payoff and its 95 % limits.

    Labels are not needed. Tables can be larger than memory. The output is written atomically. It begins with a key: the
    ids, else the times, else the numbers of the rows.

    For example:

    - `optensemble decide ensemble.oe new.parquet -o decisions.parquet`

    - `optensemble decide ensemble.oe 'day-*.csv' -o decisions.csv --id-column day --keep region,planner --workers 4`
    """
    from optensemble.distributed.cluster import open_client
    from optensemble.distributed.dask_engine import map_in_order
    from optensemble.jobs.decide import decide_table

    output = CommandOutput(as_json, quiet)
    saved, found = _open(ensemble, tables, trust, id_column=id_column, to_decide=True)
    with output.progress("deciding") as progress, open_client(scheduler, workers) as client:
        total = progress.rows = found.rows
        share = None if not total else (lambda rows: progress("deciding", rows / total))
        over = None if client is None else (lambda function, parts: map_in_order(client, function, parts))
        decisions = decide_table(saved, found, out, share, over=over, keep=keep or ())
    if not output.prints_text and decisions.unlike:  # otherwise the printed promise says so
        warnings.warn(decisions.promise.note, UserWarning, stacklevel=2)
    if decisions.unseen:
        unseen = f"{decisions.unseen:,} of {decisions.rows:,} rows are of subgroups that no row of the fit was in"
        warnings.warn(f"{unseen}: for them the promise rests on other subgroups", UserWarning, stacklevel=2)
    if decisions.nobody:
        nobody = f"in {decisions.nobody:,} of {decisions.rows:,} rows no member has an answer"
        warnings.warn(f"{nobody}: they are decided by what is known of all rows", UserWarning, stacklevel=2)
    if decisions.fallback:
        unsolved = f"{decisions.fallback:,} of {decisions.rows:,} rows could not be solved"
        warnings.warn(f"{unsolved} and took the fallback action", UserWarning, stacklevel=2)
    if not output.prints_nothing:
        from optensemble.cli.rendering import print_decisions

        print_decisions(output, decisions, out)


def audit_command(
    ensemble: EnsembleFile,
    tables: Files,
    labels: Labels = None,
    time: Time = None,
    strict: Annotated[bool, typer.Option("--strict", metavar="", help="Let every doubt count.")] = False,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare promised with realised payoffs on rows with labels that were not in the fit.

    The exit code is 3 if less was earned than promised (a cost was higher), and 4 if more was, so that a scheduler can
    raise an alarm. With --strict a promise that is biased, too wide or cannot be judged counts as broken, too, as does
    every other doubt.

    For example:

    - `optensemble audit ensemble.oe later.parquet`

    - `optensemble audit ensemble.oe later.parquet --strict`

    - `optensemble audit ensemble.oe later.parquet --quiet || echo "look at the report"`
    """
    from optensemble.cli.rendering import print_audit

    output = CommandOutput(as_json, quiet)
    audited = _audit(output, ensemble, tables, labels, time, trust)
    print_audit(output, audited)
    raise typer.Exit(_exit_code(audited.audit, strict))


def _exit_code(audit: Audit, strict: bool) -> int:
    """Return the exit code of an audit: which way the promise is broken, or with ``strict`` is in doubt."""
    from optensemble.evaluation.verdict import Grade

    grade, verdict = audit.grade, audit.judgement
    if grade is Grade.SEEN:
        return WRONG_USE  # the warning says why
    if grade is Grade.MORE or (strict and grade is Grade.BIASED and verdict.is_better):
        return EARNED_MORE
    return EARNED_LESS if grade is Grade.LESS or (strict and not verdict.is_sound) else 0


def explain_command(
    ensemble: EnsembleFile,
    tables: Files,
    row: Annotated[int | None, typer.Option(help="The number of the row, from 0.", min=0)] = None,
    id_value: Annotated[str | None, typer.Option("--id", help="The id of the row.")] = None,
    id_column: IdColumn = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain the decision for one row: winner, margin, corrections of the prediction, and other members' actions.

    For example:

    - `optensemble explain ensemble.oe new.parquet --row 17`

    - `optensemble explain ensemble.oe new.parquet --id 2026-01-31`
    """
    from optensemble.cli.rendering import print_explanation
    from optensemble.jobs.audit import explain_row

    output = CommandOutput(as_json, quiet)
    saved, found = _open(ensemble, tables, trust, id_column=id_column)
    explanation = explain_row(saved, found, row, id_value)
    print_explanation(output, explanation, id_value, saved.coordinates)


def report_command(
    ensemble: EnsembleFile,
    tables: Files,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    unit: Annotated[str | None, typer.Option(help='The word for one row, such as "day".')] = None,
    currency: Annotated[str | None, typer.Option(help='What amounts are in, such as "€" or "minutes".')] = None,
    labels: Labels = None,
    time: Time = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a report on an ensemble and later rows: one HTML file that opens offline.

    On top is what was decided in all: promised, earned, the share of foresight and the verdict. The technical part
    follows. Title, unit and currency may stand in the section [report] of the job file instead.

    For example:

    - `optensemble report ensemble.oe later.parquet -o report.html`

    - `optensemble report ensemble.oe later.parquet --title "Battery, Leipzig" --unit day --currency €`
    """
    from optensemble._core.atomic_files import replace
    from optensemble.cli.rendering import print_report
    from optensemble.jobs.audit import table_report
    from optensemble.report.terms import ReportTerms
    from optensemble.tables.writing import require_output_path

    output = CommandOutput(as_json, quiet)
    require_output_path(out, [ensemble])
    given = {"title": title, "unit": unit, "currency": currency}
    ReportTerms().replaced(**given)  # before the work is done
    audited = _audit(output, ensemble, tables, labels, time, trust)
    require_output_path(out, list(audited.tables.paths))
    with output.progress("drawing"):
        from optensemble.report.page import make_report_page  # loads matplotlib

        data = table_report(audited, **given)
        replace(out, make_report_page(data).encode())
    print_report(output, data, out)


def _open(
    ensemble: Path, tables: list[str], trust: list[str] | None, *, to_decide: bool = False, **columns: str | None
) -> tuple[SavedEnsemble, Tables]:
    from optensemble.jobs.saved_ensemble import open_ensemble
    from optensemble.tables.reading import find_tables

    found = find_tables(tables)
    opened = open_ensemble(ensemble, found, trusted=trusted_types(trust), to_decide=to_decide, **columns)
    return opened, found


def _audit(
    output: CommandOutput,
    ensemble: Path,
    tables: list[str],
    labels: str | None,
    time: str | None,
    trust: list[str] | None,
) -> TableAudit:
    from optensemble.jobs.audit import audit_table

    with output.progress("auditing"):
        return audit_table(*_open(ensemble, tables, trust, labels=labels, time=time))
