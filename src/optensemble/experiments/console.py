"""A run on the terminal: a bar while it goes on, tables when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from optensemble.experiments import answer, words
from optensemble.experiments.outcome import FRESH, IN_SAMPLE, POLICIES, Outcome
from optensemble.experiments.reproduce import ON_DISK, Reproduction, Tell, expected_seconds
from optensemble.experiments.settings import Settings


@contextmanager
def progress(console: Console, settings: Settings, names: Sequence[str]) -> Iterator[Tell]:
    """Show a bar for each experiment and one for everything, with the time left; nothing where nobody looks."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    bars = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)
    with bars:
        yield _Watch(bars, settings, names).tell


class _Watch:
    """Keeps the bars up to date; their unit is the second that a piece of work was expected to take."""

    def __init__(self, bars: Progress, settings: Settings, names: Sequence[str]) -> None:
        self._bars, self._settings, self._names = bars, settings, list(names)
        self._expected = expected_seconds(settings, names)
        self._done: dict[tuple[str | None, str], float] = {}
        self._tasks = {name: bars.add_task(f"{name}: waits", total=1, start=False) for name in names}
        self._everything = bars.add_task("everything", total=1)
        self._set_totals()

    def tell(self, name: str | None, phase: str, share: float) -> None:
        """Take up that a share of a phase is done."""
        if name is None:
            self._bars.update(self._everything, description=phase)
        else:
            self._bars.start_task(self._tasks[name])
            self._bars.update(self._tasks[name], description=f"{name}: {phase}")
        if name is not None and phase == ON_DISK:
            self._leave_out(name)
        self._done[name, phase] = share * self._expected.get((name, phase), 0.0)
        self._bars.update(self._everything, completed=sum(self._done.values()))
        if name in self._names:
            self._bars.update(self._tasks[name], completed=_sum(self._done, name))

    def _leave_out(self, name: str) -> None:
        """Expect no work where there is none: it must not look like speed."""
        self._names.remove(name)
        self._expected = expected_seconds(self._settings, self._names)
        self._bars.update(self._tasks[name], completed=self._bars.tasks[self._tasks[name]].total)
        self._set_totals()

    def _set_totals(self) -> None:
        self._bars.update(self._everything, total=sum(self._expected.values()))
        for name in self._names:
            self._bars.update(self._tasks[name], total=_sum(self._expected, name))


def _sum(seconds: dict[tuple[str | None, str], float], name: str | None) -> float:
    return sum(each for (owner, _), each in seconds.items() if owner == name)


def show(console: Console, result: Reproduction, settings: Settings) -> None:
    """Print what was promised and realised, how long it took, and where the page is."""
    width = console.width
    for outcome in result.outcomes:
        table, boundless = _payoffs(outcome, settings), console.options.update(width=1000)
        console.width = max(width, console.measure(table, options=boundless).maximum)  # no room must not cost digits
        console.print(table, "")
    console.width = width
    outcomes = result.outcomes
    found = words.convergence(outcomes, settings), words.speed(outcomes)
    console.print(words.headline(outcomes), answer.line(outcomes), *found, sep="\n")
    console.print(f"\nThe page: {result.page}", markup=False, highlight=False, soft_wrap=True)


def _payoffs(outcome: Outcome, settings: Settings) -> Table:
    title = (
        f"Experiment {outcome.name}, {outcome.note}: {settings.rows:,} rows debiased on, {settings.fresh_rows:,} fresh"
    )
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("payoff per row", no_wrap=True)
    for where in (IN_SAMPLE, FRESH):
        for what in ("promised", "realised", "gap"):
            table.add_column(f"{what}\n{'fresh' if where == FRESH else ''}", justify="right", no_wrap=True)
    for policy in POLICIES:
        lines = [outcome.payoff(where, policy) for where in (IN_SAMPLE, FRESH)]
        table.add_row(policy, *(_cell(line, what) for line in lines for what in ("promised", "realised", "gap")))
    return table


def _cell(line: pd.Series[float], what: str) -> str:
    return "" if pd.isna(line[what]) else words.number(line[what], sign="+" if what == "gap" else "")
