"""Options that the commands of an ensemble in service share: its log, and members that are Python functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from optensemble.cli.console import CommandInterrupted

Log = Annotated[
    str,
    typer.Option(help="The log: a file, or postgresql://USER@HOST/DATABASE.", metavar="LOG", show_default=False),
]

Members = Annotated[
    str | None,
    typer.Option(
        help="Members that are Python functions: module:dict, where dict has them by name, or a job file that says so "
        "in [live]. The module may be in the current folder, or that of the job file.",
        metavar="MODULE:DICT",
    ),
]

IdColumn = Annotated[str | None, typer.Option(help="The column of ids, if other than in the log.", metavar="COLUMN")]


@contextmanager
def telling(left: str) -> Iterator[None]:
    """Say what an interrupted command leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        raise CommandInterrupted(f"Interrupted. {left}") from None
