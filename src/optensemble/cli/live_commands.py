"""Commands that put an ensemble into service and go on with it: start, decide, observe and refit, all on its log."""

from __future__ import annotations

import shlex
import warnings
from pathlib import Path
from typing import Annotated, Literal

import typer

from optensemble.cli.console import FAILED, CommandOutput, Json, Quiet, Trust, trusted_types
from optensemble.cli.day_commands import REFIT_DUE
from optensemble.cli.live_options import IdColumn, Log, Members, telling
from optensemble.cli.live_views import report_command, status_command
from optensemble.cli.program import Command
from optensemble.cli.use_commands import EnsembleFile, Files
from optensemble.exceptions import InputError, RefitWarning

Play = Literal["auto", "mixture", "heaviest"]


def start_command(
    ensemble: EnsembleFile,
    log: Log,
    refit: Annotated[
        str, typer.Option(help="When to refit: auto, never, or after so many labels.", metavar="auto|never|N")
    ] = "auto",
    play: Annotated[
        Play, typer.Option(help="Play the mixture of the policies, the heaviest one, or what the set allows.")
    ] = "auto",
    window: Annotated[int | None, typer.Option(help="The number of rows to refit on at most.", min=1)] = None,
    expire_after: Annotated[
        int | None, typer.Option(help="Expire an open row after so many further decisions.", min=1)
    ] = None,
    horizon: Annotated[int, typer.Option(help="Rows that --false-alarms is about.", min=1)] = 5000,
    false_alarms: Annotated[
        float, typer.Option(help="The probability that the monitor raises a false alarm within --horizon rows.")
    ] = 0.05,
    id_column: Annotated[
        str | None, typer.Option(help="The column of ids, if other than in the job file; it is remembered.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Columns of the labels, if other than in the job file; they are remembered.")
    ] = None,
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Begin a log: from now on the ensemble decides and learns by it. The file of the ensemble is not needed again.

    For example:

    - `optensemble live start ensemble.oe --log decisions.db`

    - `optensemble live start ensemble.oe --log postgresql://oe@db/decisions --refit 200 --id-column order`
    """
    from optensemble.cli.live_rendering import print_started
    from optensemble.jobs.live_start import start_live
    from optensemble.jobs.live_table import LiveTable

    output = CommandOutput(as_json, quiet)
    with output.progress("starting"), telling("The log was not begun."):
        terms = {"window": window, "expire_after": expire_after, "horizon": horizon, "false_alarms": false_alarms}
        live = start_live(
            ensemble,
            log,
            members=members,
            trusted=trusted_types(trust),
            id_column=id_column,
            labels=labels,
            refit=_as_refit(refit),
            play=play,
            refit_in="asked",
            **terms,
        )
    with live:
        print_started(output, LiveTable.of(live))


def _as_refit(text: str) -> str | int:
    """Return when to refit, as LiveEnsemble takes it."""
    if text in ("auto", "never"):
        return text
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise InputError(f"--refit must be auto, never or a number of labels, such as 200; got {text!r}.")


def decide_command(
    tables: Files,
    log: Log,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write: .parquet, .csv or .arrow.")],
    id_column: IdColumn = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Columns to copy to the decisions, separated by commas.", metavar="COLUMNS")
    ] = None,
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide for every row of a table: action, weights of the policies, promised payoff and its 95 % limits.

    Each decision is in the log before it is written. A row is decided once: the same table again gives the same
    decisions, also after a crash. Labels are not needed.

    For example:

    - `optensemble live decide new.parquet --log decisions.db -o decisions.parquet`

    - `optensemble live decide 'day-*.csv' --log decisions.db -o decisions.csv --keep region`
    """
    from optensemble.cli.live_rendering import print_decided
    from optensemble.jobs.live_decide import decide_live_table
    from optensemble.jobs.live_start import resume_live
    from optensemble.jobs.live_table import LiveTable
    from optensemble.tables.reading import find_tables

    output, found = CommandOutput(as_json, quiet), find_tables(tables)
    left = "Rows that were decided are in the log: the same command gives their decisions again."
    with telling(left), resume_live(log, members, trusted_types(trust), refit_in="asked") as live:
        opened = LiveTable.of(live, found, id_column=id_column)
        with output.progress("deciding") as progress:
            total = progress.rows = found.rows
            share = None if not total else (lambda rows: progress("deciding", rows / total))
            decisions = decide_live_table(opened, found, out, share, keep=keep or ())
        print_decided(output, live, decisions, out)


def observe_command(
    tables: Files,
    log: Log,
    id_column: IdColumn = None,
    labels: Annotated[
        str | None, typer.Option(help="Columns of the labels, if other than in the log.", metavar="COLUMNS")
    ] = None,
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Learn from the labels of rows decided before: in any order, however late; rows are found by their ids.

    Rows without labels are left for later, and labels given before are skipped: the same table may be given again, and
    after a crash it should be. The exit code is 5 if a refit is due.

    For example:

    - `optensemble live observe labelled.parquet --log decisions.db`

    - `optensemble live observe day.csv --log log.db -q; test $? -ne 5 || optensemble live refit --log log.db`
    """
    from optensemble.cli.live_rendering import print_observed
    from optensemble.jobs.live_start import resume_live
    from optensemble.jobs.live_table import LiveTable
    from optensemble.tables.reading import find_tables

    output, found = CommandOutput(as_json, quiet), find_tables(tables)
    left = "The same command goes on: no label is learned twice."
    with telling(left), resume_live(log, members, trusted_types(trust), refit_in="asked") as live:
        with output.progress("learning"):
            observed = LiveTable.of(live, found, id_column=id_column, labels=labels).observe(found)
        print_observed(output, live, observed)
        due = live.refit_due_
    if due:
        how = f"optensemble live refit --log {_named(live.log.name)}"
        warnings.warn(f"a refit is due: {due}. Run: {how}", UserWarning, stacklevel=2)
        raise typer.Exit(REFIT_DUE)


def refit_command(
    log: Log, members: Members = None, trust: Trust = None, as_json: Json = False, quiet: Quiet = False
) -> None:
    """Fit again on the rows of the fit and those whose labels have come since; the new fit decides from now on.

    Without new labels nothing is done.

    For example:

    - `optensemble live refit --log decisions.db`
    """
    from optensemble.cli.live_rendering import print_live_refit
    from optensemble.jobs.live_start import resume_live

    output = CommandOutput(as_json, quiet)
    left = "The fit before stays in force."
    with telling(left), resume_live(log, members, trusted_types(trust), refit_in="asked") as live:
        before = len(live.refits_)
        with output.progress("fitting again"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RefitWarning)  # what is printed says so
            live.refit_now()
        print_live_refit(output, live, made=len(live.refits_) > before)
        failed = len(live.refits_) > before and bool(live.refits_["failed"].iloc[-1])
    if failed:
        raise typer.Exit(FAILED)


def _named(log: str) -> str:
    """Return a log as it can be typed again; a URL may have a password, which its name has not.

    >>> _named("my log.db"), _named("postgresql://me:***@db/x")
    ("'my log.db'", 'LOG')
    """
    return "LOG" if "://" in log else shlex.quote(log)


live_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Put an ensemble into service: it decides, learns from labels as they come, refits, and watches its promise."
    "\n\n"
    "Its log keeps every decision before it is handed out, and every label; each command goes on from there. One "
    "process leads a log at a time; `status`, `report` and `log export` read it meanwhile.",
)
live_app.command("start", cls=Command)(start_command)
live_app.command("decide", cls=Command)(decide_command)
live_app.command("observe", cls=Command)(observe_command)
live_app.command("refit", cls=Command)(refit_command)
live_app.command("status", cls=Command)(status_command)
live_app.command("report", cls=Command)(report_command)
