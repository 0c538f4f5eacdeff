"""Output of commands: text and tables, JSON, a progress bar on a terminal, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optensemble._core.progress import DECISION_STAGES, Overall

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from optensemble.report.html import Sheet

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print only warnings and errors.")]

Scheduler = Annotated[str | None, typer.Option(help="The address of a Dask scheduler, tcp://....", metavar="ADDRESS")]
Workers = Annotated[int | None, typer.Option(help="Start this number of Dask workers on this machine.", min=1)]

Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="TYPES",
        help="Types of members in the file that may be loaded, such as lightgbm.basic.Booster, separated by commas; "
        "can be repeated. They may run code: name them only if you trust the file.",
    ),
]

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
"""Exit codes."""

_WIDEST_PROSE = 60
_BAR_WIDTH = 24  # characters: all of the line fits on a terminal of 80
_SHORTEST = 0.2  # seconds: what a speed is measured over at least


def trusted_types(trust: list[str] | None) -> list[str]:
    """Return the types that --trust names, once or several times, with commas.

    >>> trusted_types(["a.B,c.D", " e.F"]), trusted_types(None)
    (['a.B', 'c.D', 'e.F'], [])
    """
    return [name.strip() for names in trust or () for name in names.split(",") if name.strip()]


class CommandInterrupted(Exception):  # noqa: N818  (it is not an error)
    """The interruption of a command; the message says what is left behind."""


def print_error(message: str) -> None:
    """Print an error to stderr, in one line."""
    typer.echo(f"optensemble: {' '.join(message.split())}", err=True)


class CommandOutput:
    """Output of a command: text, JSON or nothing."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self._json, self._quiet = as_json, quiet

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console  # takes a while to load, and who is quiet prints nothing

        return Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def prints_text(self) -> bool:
        """Whether text and tables are printed."""
        return not (self._json or self._quiet)

    @property
    def prints_nothing(self) -> bool:
        """Whether nothing is printed but warnings and errors."""
        return self._quiet and not self._json

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
    def progress(self, what: str) -> Iterator[ProgressBar]:
        """Show one bar for the whole, on a terminal: its stage, percentage, rows per second if known, and time left."""
        if self._quiet:
            yield ProgressBar(None, what)
            return
        from rich.console import Console

        console = Console(stderr=True)
        if not console.is_terminal:
            yield ProgressBar(None, what)
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
            *(TextColumn("{task.description}"), BarColumn(bar_width=_BAR_WIDTH), TaskProgressColumn()),
            *(TextColumn("{task.fields[speed]}"), TimeElapsedColumn(), TextColumn("{task.fields[left]}")),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as shown:
            bar = ProgressBar(shown, what)
            yield bar
            bar.finish()


class ProgressBar:
    """The progress bar of a command; without a terminal it shows nothing, and until a share is told it pulses.

    ``stages`` are the stages in order with about how long each takes, and ``rows`` the number of rows that a stage goes
    through, once they are known.
    """

    def __init__(self, shown: Any, what: str) -> None:
        self.rows: int | None = None
        self.stages: Mapping[str, float] = DECISION_STAGES
        self._shown, self._stage = shown, ""
        self._since = self._last = monotonic()  # the beginning of the stage, and when the last share was told
        self._whole: Overall | None = None
        self._task = None if shown is None else shown.add_task(what, total=None, speed="", left="")

    def __call__(self, stage: str, share: float) -> None:
        """Show how much of a stage is done, as a share of the whole."""
        if self._shown is None:
            return
        if self._whole is None:
            self._whole = Overall(self.stages if stage in self.stages else {stage: 1.0})
        if stage != self._stage:
            self._stage, self._since = stage, self._last
        self._last = monotonic()
        named = stage.ljust(max(map(len, self._whole.weights)))  # so that the bar stays in its place
        done, speed = self._whole(stage, share), self._speed(share)
        self._shown.update(self._task, description=named, total=1.0, completed=done, speed=speed, left="left")

    def finish(self) -> None:
        """Show that all is done, if a share was told."""
        if self._whole is not None:
            self._shown.update(self._task, completed=1.0)

    def _speed(self, share: float) -> str:
        """Return the rows of the stage per second; nothing where they are not known, or it has only begun."""
        elapsed = self._last - self._since
        return f"{share * self.rows / elapsed:,.0f} rows/s" if self.rows and elapsed > _SHORTEST else ""


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
