"""A run on the terminal: a bar while it goes on, tables when it is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from optensemble.experiments import words
from optensemble.experiments.outcome import FRESH, IN_SAMPLE, POLICIES, Outcome, Settings
from optensemble.experiments.reproduce import ON_DISK, Reproduction, Tell, expected_seconds


@contextmanager
def progress(console: Console, settings: Settings, names: Sequence[str]) -> Iterator[Tell]:
    """Show a bar for each experiment and one for everything, with the time left; nothing where nobody looks."""
    expected = expected_seconds(settings, names)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    bars = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)
    with bars:
        totals = {name: sum(seconds for (owner, _), seconds in expected.items() if owner == name) for name in names}
        tasks = {name: bars.add_task(f"{name}: waits", total=total, start=False) for name, total in totals.items()}
        everything = bars.add_task("everything", total=sum(expected.values()))
        done: dict[tuple[str | None, str], float] = {}

        def tell(name: str | None, phase: str, share: float) -> None:
            if name is not None and phase == ON_DISK:  # work that is not there must not look like speed
                bars.update(tasks[name], completed=totals[name], description=f"{name}: {phase}")
                for key in [key for key in expected if key[0] == name]:
                    del expected[key]
                bars.update(everything, total=sum(expected.values()))
                return
            done[name, phase] = share * expected.get((name, phase), 0.0)
            bars.update(everything, completed=sum(done.values()), description=phase if name is None else "everything")
            if name is not None:
                bars.start_task(tasks[name])
                so_far = sum(seconds for (owner, _), seconds in done.items() if owner == name)
                bars.update(tasks[name], completed=so_far, description=f"{name}: {phase}")

        yield tell


def show(console: Console, result: Reproduction, settings: Settings) -> None:
    """Print what was promised and realised, how long it took, and where the page is."""
    for outcome in result.outcomes:
        console.print(_payoffs(outcome, settings), "")
    console.print(words.headline(result.outcomes), words.speed(result.outcomes), f"\nThe page: {result.page}", sep="\n")


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
    return "" if pd.isna(line[what]) else f"{line[what]:{'+' if what == 'gap' else ''}.2f}"
