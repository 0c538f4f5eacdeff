"""Commands that look at an ensemble in service: status and report. Its log is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from optensemble.cli.console import CommandOutput, Json, Quiet, Trust, trusted_types
from optensemble.cli.day_commands import REFIT_DUE
from optensemble.cli.live_options import Log, Members
from optensemble.cli.use_commands import EARNED_LESS

ALARM = EARNED_LESS
"""The exit code while an alarm stands."""


def status_command(
    log: Log, members: Members = None, trust: Trust = None, as_json: Json = False, quiet: Quiet = False
) -> None:
    """Tell how it goes: rows, promised and earned so far, the certificate, weights, the monitor, refits, the log.

    The log is only read, so that this works while a server leads it. The exit code is 3 while an alarm stands, else 5
    if a refit is due, so that a scheduler can act on it.

    For example:

    - `optensemble live status --log decisions.db`

    - `optensemble live status --log decisions.db --quiet || echo "look at the report"`
    """
    from optensemble.cli.live_rendering import print_status
    from optensemble.jobs.live_start import resume_live

    output = CommandOutput(as_json, quiet)
    with resume_live(log, members, trusted_types(trust), read_only=True) as live:
        print_status(output, live)
        alarms = () if live.monitor is None else live.monitor.standing
        due = live.refit_due_
    if alarms:
        raise typer.Exit(ALARM)
    if due:
        raise typer.Exit(REFIT_DUE)


def report_command(
    log: Log,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("live.html"),
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    unit: Annotated[str | None, typer.Option(help='The word for one row, such as "day".')] = None,
    currency: Annotated[str | None, typer.Option(help='What amounts are in, such as "€" or "minutes".')] = None,
    members: Members = None,
    trust: Trust = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page on an ensemble in service: one HTML file that opens offline. The log is only read.

    For example:

    - `optensemble live report --log decisions.db -o page.html --title "Battery, Leipzig" --unit day --currency €`
    """
    from optensemble._core.atomic_files import replace
    from optensemble.cli.live_rendering import print_page
    from optensemble.jobs.live_report import live_page_data
    from optensemble.jobs.live_start import resume_live
    from optensemble.tables.writing import require_output_path

    output = CommandOutput(as_json, quiet)
    require_output_path(out, [] if "://" in log else [Path(log)])
    with resume_live(log, members, trusted_types(trust), read_only=True) as live:
        data = live_page_data(live, title=title, unit=unit, currency=currency)
    with output.progress("drawing"):
        from optensemble.report.live_page import make_live_page  # loads matplotlib

        replace(out, make_live_page(data).encode())
    print_page(output, data, out)
