"""The command that serves a LiveEnsemble over HTTP."""

from __future__ import annotations

import os
import warnings
from typing import Annotated, Any

import typer

from optensemble.cli.console import FAILED, Quiet, Trust, print_error, trusted_types
from optensemble.cli.live_options import Log, Members
from optensemble.exceptions import FileError, InputError

_EXTRA = ("starlette", "uvicorn", "httptools", "orjson")

Host = Annotated[str, typer.Option(help="The address to listen on; others than this machine's need a token.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 for any that is free.", min=0, max=65535)]
AllowHost = Annotated[
    list[str] | None,
    typer.Option("--allow-host", help="A further name that it is asked by; can be repeated.", metavar="NAME"),
]
TokenEnv = Annotated[
    str, typer.Option(help="The environment variable with the token that callers must send.", metavar="VARIABLE")
]
MostBytes = Annotated[int, typer.Option(help="The longest body of a request, in bytes.", min=1000, metavar="BYTES")]
MostRows = Annotated[int, typer.Option(help="The most rows of a request.", min=1, metavar="ROWS")]
KeepDays = Annotated[
    float | None, typer.Option(help="Delete older decisions from the log once a day.", min=0, metavar="DAYS")
]
Grace = Annotated[float, typer.Option(help="The time to finish requests when it is stopped.", min=1, metavar="SECONDS")]
Wait = Annotated[
    float, typer.Option(help="The time to wait for another process to let go of the log.", min=0, metavar="SECONDS")
]
LogFormat = Annotated[str, typer.Option(help="The form of the lines on stderr, one a request: text or json.")]


def serve_command(
    log: Log,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allow_host: AllowHost = None,
    token_env: TokenEnv = "OPTENSEMBLE_TOKEN",
    id_column: Annotated[str | None, typer.Option(help="The column of rows that has their ids.")] = None,
    labels: Annotated[str | None, typer.Option(help="The names of the labels, separated by commas.")] = None,
    most_bytes: MostBytes = 16_000_000,
    most_rows: MostRows = 10_000,
    keep_days: KeepDays = None,
    grace: Grace = 30.0,
    wait: Wait = 60.0,
    log_format: LogFormat = "text",
    members: Members = None,
    trust: Trust = None,
    quiet: Quiet = False,
) -> None:
    """Serve a LiveEnsemble over HTTP: rows in, decisions out, labels in, and a page that shows how it does.

    It goes on from the log, also after a crash, and keeps every decision there before it is handed out. POST /decide
    and /observe take JSON or Arrow; GET /openapi.json describes everything, and GET / is the page. SIGTERM stops it
    once all requests under way are answered.

    For example:

    - `optensemble serve --log decisions.db`

    - `OPTENSEMBLE_TOKEN=... optensemble serve --log postgresql://db/decisions --host 0.0.0.0 --port 80`
    """
    _require_extra()
    from optensemble.serving.access_log import FORMATS
    from optensemble.serving.run import Address, serve
    from optensemble.serving.settings import Limits, Settings, hosts_for, require_token

    if log_format not in FORMATS:
        raise InputError(f"--log-format must be one of {', '.join(FORMATS)}; got {log_format!r}.")
    token = require_token(os.environ.get(token_env), token_env, host)
    if allow_host and token is None:
        warnings.warn(
            f"--allow-host means that others ask by way of a proxy, and there is no token: whoever reaches the proxy "
            f"decides and labels. Set {token_env}.",
            UserWarning,
            stacklevel=2,
        )
    settings = Settings(
        token=token,
        hosts=hosts_for(host, tuple(allow_host or ())),
        limits=Limits(most_bytes=most_bytes, most_rows=most_rows),
        access_log="" if quiet else log_format,
    )

    def opening() -> Any:
        from optensemble.jobs.live_start import resume_live
        from optensemble.jobs.live_table import LiveTable

        live = resume_live(log, members, trusted_types(trust), refit_in="background", wait=wait)
        try:
            return LiveTable.of(live, id_column=id_column, labels=labels)
        except BaseException:
            live.close()
            raise

    _log_to_stderr(quiet)
    finished = serve(
        opening,
        Address(host, port),
        settings,
        grace=grace,
        keep_days=keep_days,
        on_listening=None if quiet else lambda url: print_error(f"listening on {url}"),
    )
    if not finished:
        print_error(f"not all requests were finished within {grace:g} seconds; what was answered is in the log.")
        raise typer.Exit(FAILED)


def _require_extra() -> None:
    from importlib.util import find_spec

    lacking = [name for name in _EXTRA if find_spec(name) is None]
    if lacking:
        raise FileError(f"the server needs {', '.join(lacking)}. Install it with: pip install 'optensemble[serve]'")


def _log_to_stderr(quiet: bool) -> None:
    """Let the server's messages be lines like all others: errors always, and what it does unless it is quiet."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1] is not None:
                import traceback

                typer.echo("".join(traceback.format_exception(record.exc_info[1])), err=True)
            print_error(record.getMessage())

    for name in ("optensemble.serving", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Lines()], False
        logger.setLevel(logging.WARNING if quiet or name != "optensemble.serving" else logging.INFO)
    warnings.simplefilter("default")  # each once, wherever it comes from
