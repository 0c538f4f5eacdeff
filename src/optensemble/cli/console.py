"""Output of commands: text and tables, JSON, progress bars on a terminal, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from optensemble.report.html import Sheet

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only warnings and errors.")]

Scheduler = Annotated[str | None, typer.Option(help="The address of a Dask scheduler, tcp://....", metavar="ADDRESS")]
Workers = Annotated[int | None, typer.Option(help="Start this number of Dask workers on this machine.", min=1)]

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes."""

_WIDEST_PROSE = 60


class CommandInterrupted(Exception):  # noqa: N818  (it is not an error)
    """The interruption of a command; the message says what is left behind."""


def print_error(message: str) -> None:
    """Print an error to stderr, in one line."""
    typer.echo(f"optensemble: {' '.join(message.split())}", err=True)


class CommandOutput:
    """Output of a command: text, JSON or nothing."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        from rich.console import Console

        self._json, self._quiet = as_json, quiet
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def prints_text(self) -> bool:
        """Whether text and tables are printed."""
        return not (self._json or self._quiet)

    def print_lines(self, *lines: str) -> None:
        """Print lines."""
        if self.prints_text:
            for line in lines:
                self._console.print(line)

    def print_table(self, sheet: Sheet, only: Sequence[int] | None = None) -> None:
        """Print a table, or some of its columns, as wide as its numbers need."""
        if self.prints_text:
            table = terminal_table(sheet, only)
            width, boundless = self._console.width, self._console.options.update(width=1000)
            self._console.width = max(width, self._console.measure(table, options=boundless).maximum)
            self._console.print(table)
            self._console.width = width
            self.print_lines("")

    def print_json(self, document: dict[str, Any]) -> None:
        """Print the JSON object."""
        if self._json:
            typer.echo(json.dumps(json_value(document), ensure_ascii=False, indent=2))

    @contextmanager
    def progress(self, what: str) -> Iterator[ProgressBars]:
        """Show a progress bar for every stage, on a terminal: with the time left, and rows per second if known."""
        from rich.console import Console

        console = Console(stderr=True)
        if self._quiet or not console.is_terminal:
            yield ProgressBars(None, what)
            return
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            *(TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()),
            *(TextColumn("{task.fields[speed]}"), TimeElapsedColumn(), TimeRemainingColumn(elapsed_when_finished=True)),
        )
        with Progress(*columns, console=console, transient=True) as bars:
            yield ProgressBars(bars, what)


class ProgressBars:
    """Progress bars, one for each stage; without a terminal they show nothing.

    ``rows`` is the number of rows that a stage goes through, once it is known.
    """

    def __init__(self, bars: Any, what: str) -> None:
        self.rows: int | None = None
        self._bars = bars
        self._tasks = {} if bars is None else {what: bars.add_task(what, total=None, speed="")}

    def __call__(self, stage: str, share: float) -> None:
        """Show how much of a stage is done."""
        if self._bars is None:
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=1.0, speed="")
        task = self._tasks[stage]
        elapsed = self._bars.tasks[task].elapsed
        speed = f"{share * self.rows / elapsed:,.0f} rows/s" if self.rows and elapsed else ""
        self._bars.update(task, completed=share, speed=speed)


def terminal_table(sheet: Sheet, only: Sequence[int] | None = None) -> Table:
    """Return a table for the terminal, with all columns or those in ``only``."""
    from rich.table import Table

    table = Table(title=sheet.caption, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    shown = range(len(sheet.columns)) if only is None else only
    for number in shown:
        column = sheet.columns[number]
        side, prose = ("right" if column.kind == "number" else "left"), column.kind == "prose"
        widest = _WIDEST_PROSE if prose else None
        table.add_column(column.heading, justify=side, no_wrap=not prose, max_width=widest)  # type: ignore[arg-type]
    for row in sheet.rows:
        table.add_row(*(row[number].text for number in shown))
    return table


def json_value(value: Any) -> Any:
    """Return a value in JSON types: frames are lists of rows, NaN and infinity are null.

    >>> import numpy as np, pandas as pd
    >>> json_value({"a": np.float64("nan"), "b": pd.DataFrame({"x": [1]})})
    {'a': None, 'b': [{'x': 1}]}
    """
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return [json_value(row) for row in value.to_dict("records")]
    if isinstance(value, dict):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(each) for each in value]
    if isinstance(value, np.ndarray):
        return json_value(value.tolist())
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
