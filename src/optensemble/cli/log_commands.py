"""Commands on a log: export and prune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import CommandOutput, Json, Quiet, Trust, trusted_types
from optensemble.cli.live_options import Log, Members
from optensemble.cli.program import Command

log_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Read the log of an ensemble in service as a table, or delete what is old.",
)


@log_app.command("export", cls=Command)
def export_command(
    log: Log,
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write: .parquet, .csv or .arrow.")],
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write every decision as a row of a table: when, what was promised, and what it came to, once that is known.

    The log is only read, so that this works while a server leads it.

    For example:

    - `optensemble log export --log decisions.db -o decisions.parquet`
    """
    from optensemble.cli.live_rendering import print_exported
    from optensemble.jobs.live_start import resume_live

    output = CommandOutput(as_json, quiet)
    with (
        resume_live(log, members, trusted_types(trust), read_only=True) as live,
        output.progress("exporting"),
    ):
        rows = live.log.export(out)
        print_exported(output, live.log.name, rows, out)


@log_app.command("prune", cls=Command)
def prune_command(
    log: Log,
    keep_days: Annotated[
        float, typer.Option(help="Delete what is older than so many days.", min=0.0, show_default=False)
    ],
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Delete old decisions with what they were decided by, and their labels; what is deleted is counted.

    Open rows stay, and so does what deciding and learning go on from. Ids stay known: none is decided twice.

    For example:

    - `optensemble log prune --log decisions.db --keep-days 90`
    """
    from optensemble.cli.live_rendering import print_pruned
    from optensemble.jobs.live_start import resume_live

    output = CommandOutput(as_json, quiet)
    with (
        resume_live(log, members, trusted_types(trust), refit_in="asked") as live,
        output.progress("pruning"),
    ):
        print_pruned(output, live.log.name, live.log.prune(keep_days), keep_days)
