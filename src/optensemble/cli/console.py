"""How commands speak: words and tables for people, JSON for machines, bars on a terminal, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from optensemble.report.html import Sheet

Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print nothing but warnings and errors.")]

_WIDEST_PROSE = 60


FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Interrupted(Exception):  # noqa: N818  (it is not an error)
    """A command was interrupted, and says what it leaves."""


def complain(message: str) -> None:
    """Tell an error, in one line."""
    typer.echo(f"optensemble: {' '.join(message.split())}", err=True)


class Speaker:
    """Says what a command found, in the way that was asked for."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        from rich.console import Console

        self._json, self._quiet = as_json, quiet
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    @property
    def speaks(self) -> bool:
        """Whether words and tables are wanted."""
        return not (self._json or self._quiet)

    def say(self, *lines: str) -> None:
        """Print lines."""
        if self.speaks:
            for line in lines:
                self._console.print(line)

    def show(self, sheet: Sheet, only: Sequence[int] | None = None) -> None:
        """Print a table, or some of its columns; no lack of room costs it digits."""
        if self.speaks:
            table = as_table(sheet, only)
            width, boundless = self._console.width, self._console.options.update(width=1000)
            self._console.width = max(width, self._console.measure(table, options=boundless).maximum)
            self._console.print(table)
            self._console.width = width
            self.say("")

    def tell(self, document: dict[str, Any]) -> None:
        """Print what machines read."""
        if self._json:
            typer.echo(json.dumps(plain(document), ensure_ascii=False, indent=2))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[str, float], None]]:
        """Show a bar for every stage while work goes on, where somebody looks."""
        from rich.console import Console

        console = Console(stderr=True)
        if self._quiet or not console.is_terminal:
            yield lambda stage, share: None
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bars:
            tasks = {what: bars.add_task(what, total=None)}

            def tell(stage: str, share: float) -> None:
                if stage not in tasks:
                    tasks[stage] = bars.add_task(stage, total=1.0)
                bars.update(tasks[stage], completed=share)

            yield tell


def as_table(sheet: Sheet, only: Sequence[int] | None = None) -> Table:
    """Return a table for a terminal, of all columns or of those numbered."""
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


def plain(value: Any) -> Any:
    """Return a value as JSON has it: frames are lists of rows, and what is no number is null.

    >>> import numpy as np, pandas as pd
    >>> plain({"a": np.float64("nan"), "b": pd.DataFrame({"x": [1]})})
    {'a': None, 'b': [{'x': 1}]}
    """
    import numpy as np
    import pandas as pd

    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
