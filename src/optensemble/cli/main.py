"""The entry point: commands, errors and exit codes."""

from __future__ import annotations

import io
import json
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

import optensemble
from optensemble.cli.console import FAILED, INTERRUPTED, WRONG_USE, CommandInterrupted, print_error
from optensemble.cli.day_commands import refit_command, update_command
from optensemble.cli.job_commands import check_command, fit_command, init_command
from optensemble.cli.live_commands import live_app
from optensemble.cli.log_commands import log_app
from optensemble.cli.program import Command, exit_quickly, is_program, start_quickly
from optensemble.cli.reproduce import reproduce_command
from optensemble.cli.serve_command import serve_command
from optensemble.cli.use_commands import audit_command, decide_command, explain_command, report_command
from optensemble.exceptions import FeasibleSetError, InputError, OptEnsembleError

TERMINATED = 128 + signal.SIGTERM
_NOTHING_WRITTEN = "Interrupted. Nothing was written."

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="One policy from several models or policies under constraints, with a calibrated payoff forecast.\n\n"
    "A job file describes the data, the members and the feasible set: `init` writes one, `check` summarises it, `fit` "
    "makes an ensemble; `decide`, `audit`, `explain` and `report` use the ensemble; `update` and `refit` "
    "go on with it. `live` puts it into service, with a log that `log` reads, and `serve` over HTTP.\n\n"
    "Exit codes: 0 success, 1 failure, 2 wrong use, 3 less earned than promised (`audit`) or an alarm (`live status`), "
    "4 more earned than promised (`audit`), 5 refit due (`update`, `live observe`, `live status`), 130 interrupted.",
)
app.command("init", cls=Command)(init_command)
app.command("check", cls=Command)(check_command)
app.command("fit", cls=Command)(fit_command)
app.command("decide", cls=Command)(decide_command)
app.command("audit", cls=Command)(audit_command)
app.command("update", cls=Command)(update_command)
app.command("refit", cls=Command)(refit_command)
app.command("explain", cls=Command)(explain_command)
app.command("report", cls=Command)(report_command)
app.add_typer(live_app, name="live")
app.command("serve", cls=Command)(serve_command)
app.add_typer(log_app, name="log")
app.command("reproduce", cls=Command)(reproduce_command)


def main() -> None:
    """Run the command line; an error is one line on stderr, and the exit code its kind.

    0 success, 1 failure, 2 wrong use, 3 less earned than promised or an alarm, 4 more, 5 refit due, 130 interrupted.
    """
    program = is_program()
    if program:
        start_quickly()
    try:
        _run()
    except SystemExit as done:
        if not program:
            raise
        code = done.code if isinstance(done.code, int) else 0
    exit_quickly(code, FAILED)


def _run() -> NoReturn:
    """Run a command and exit with its code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # SystemExit runs the clean-up of ``with`` blocks
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console without ± or − prints a substitute
    warnings.showwarning = _warn  # type: ignore[assignment]  # without the line of code it comes from
    interrupts = list[int]()
    try:
        with _collect_interrupts(interrupts):
            code = app(standalone_mode=False)
    except CommandInterrupted as error:
        _fail(str(error), INTERRUPTED)
    except Exception as error:
        if interrupts:
            _fail(_NOTHING_WRITTEN, INTERRUPTED)
        _fail_for(error)
    if code == INTERRUPTED:
        _fail(_NOTHING_WRITTEN, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _collect_interrupts(received: list[int]) -> Iterator[None]:
    """Note each Ctrl-C: compiled code, such as that of a module being loaded, can turn its exception into another."""
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    if before is signal.default_int_handler:  # it is ignored in the background of a shell
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fail_for(error: Exception) -> NoReturn:
    """Exit with the message of an error and the code of its kind; raise it again if it is of none."""
    if isinstance(error, OptEnsembleError):
        _fail(str(error), WRONG_USE if isinstance(error, (InputError, FeasibleSetError)) else FAILED)
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
        sys.stderr.close()
        sys.exit(FAILED)
    if isinstance(error, OSError):
        _fail(f"cannot write the output: {error.strerror or error}. Make room, and try again.", FAILED)
    # versions of typer differ in where click's exceptions are; their methods are the same
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        _fail_use(error)
    if type(error).__name__ == "Abort":
        _fail(_NOTHING_WRITTEN, INTERRUPTED)
    raise error


def _fail(message: str, code: int) -> NoReturn:
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": " ".join(message.split()), "exit_code": code}, ensure_ascii=False))
    print_error(message)
    sys.exit(code)


def _fail_use(error: Any) -> None:
    """Print wrong use of a command in a line; without arguments, its help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "optensemble"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(WRONG_USE)
    message = error.format_message()
    if getattr(error, "option_name", None) == "--example":
        from optensemble.jobs.examples import EXAMPLES

        message = f"{message.rstrip('.')}: {', '.join(EXAMPLES)}"
    stop = "" if message.endswith((".", "?")) else "."
    _fail(f"{message}{stop} See `{command} --help`.", WRONG_USE)


def _warn(message: Warning | str, *_: Any) -> None:
    print_error(f"warning: {message}")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"optensemble {optensemble.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None: ...
