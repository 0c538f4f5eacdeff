"""What is common to all commands: how they are found, how errors are told, and what exit codes mean."""

from __future__ import annotations

import io
import json
import signal
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

import optensemble
from optensemble.cli.console import FAILED, INTERRUPTED, WRONG_USE, Interrupted, complain
from optensemble.cli.job_commands import check, fit, init
from optensemble.cli.program import exit_quickly, is_program, start_quickly
from optensemble.cli.reproduce import reproduce
from optensemble.cli.use_commands import audit, decide, explain, report
from optensemble.exceptions import FeasibleSetError, InputError, OptEnsembleError

TERMINATED = 128 + signal.SIGTERM
_NOTHING_WRITTEN = "Interrupted. Nothing was written."

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="One policy from several models or policies under constraints, and a payoff forecast to be believed.\n\n"
    "A job file says once what is decided and by whom it may be decided: `init` writes one, `check` says what it "
    "understands, `fit` makes an ensemble, `decide`, `audit`, `explain` and `report` use it.\n\n"
    "Exit codes: 0 done, 1 failed, 2 wrong use, 3 promise refuted (`audit`), 130 interrupted.",
)
for command in (init, check, fit, decide, audit, explain, report, reproduce):
    app.command()(command)


def main() -> None:
    """Run the command line; an error is one line on stderr, and the exit code says what kind it was.

    0 done, 1 failed, 2 wrong use, 3 a promise refuted, 130 interrupted.
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
    """Run a command and leave with its exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # leaving cleans up
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console without ± or − shows something else, and goes on
    warnings.showwarning = _warn  # type: ignore[assignment]  # where a warning comes from is nobody's business here
    try:
        code = app(standalone_mode=False)
    except OptEnsembleError as error:
        _fail(str(error), WRONG_USE if isinstance(error, (InputError, FeasibleSetError)) else FAILED)
    except Interrupted as error:
        _fail(str(error), INTERRUPTED)
    except BrokenPipeError:  # who reads has seen enough
        sys.stderr.close()
        sys.exit(FAILED)
    except OSError as error:
        _fail(f"cannot write the output: {error.strerror or error}. Make room, and try again.", FAILED)
    except Exception as error:
        # typer has moved click's exceptions: what makes them is that they know how to be shown
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            _fail_use(error)
        if type(error).__name__ == "Abort":
            _fail(_NOTHING_WRITTEN, INTERRUPTED)
        raise
    if code == INTERRUPTED:
        _fail(_NOTHING_WRITTEN, INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": " ".join(message.split()), "exit_code": code}, ensure_ascii=False))
    complain(message)
    sys.exit(code)


def _fail_use(error: Any) -> None:
    """Tell wrong use of a command in a line; a command without arguments tells its help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "optensemble"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(WRONG_USE)
    said = error.format_message()
    stop = "" if said.endswith((".", "?")) else "."
    _fail(f"{said}{stop} `{command} --help` shows how it is used.", WRONG_USE)


def _warn(message: Warning | str, *_: Any) -> None:
    complain(f"warning: {message}")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"optensemble {optensemble.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None: ...
