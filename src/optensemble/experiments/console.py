"""Terminal output of a run: progress bars, then tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from optensemble._core.number_format import NO_NUMBER
from optensemble.experiments import text
from optensemble.experiments.decision_section import decision_summary
from optensemble.experiments.outcome import FRESH, IN_SAMPLE, POLICIES, Outcome, PolicyPayoff
from optensemble.experiments.reproduce import ON_DISK, Reproduction, TellProgress, expected_seconds
from optensemble.experiments.settings import Settings


@contextmanager
def show_progress(console: Console, settings: Settings, names: Sequence[str]) -> Iterator[TellProgress]:
    """Show a bar for each experiment and one for the whole run, with the time left; nothing outside a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    bars = Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal)
    with bars:
        yield _ProgressBars(bars, settings, names).tell


class _ProgressBars:
    """Progress bars whose unit is the expected second of work."""

    def __init__(self, bars: Progress, settings: Settings, names: Sequence[str]) -> None:
        self._bars, self._settings, self._names = bars, settings, list(names)
        self._expected = expected_seconds(settings, names)
        self._done: dict[tuple[str | None, str], float] = {}
        self._tasks = {name: bars.add_task(f"{name}: waits", total=1, start=False) for name in names}
        self._everything = bars.add_task("everything", total=1)
        self._set_totals()

    def tell(self, name: str | None, phase: str, share: float) -> None:
        """Update the bars: a share of a phase is done."""
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
            self._bars.update(self._tasks[name], completed=_seconds_of(self._done, name))

    def _leave_out(self, name: str) -> None:
        """Drop the expected work of an experiment loaded from disk, which would distort the time left."""
        self._names.remove(name)
        self._expected = expected_seconds(self._settings, self._names)
        self._bars.update(self._tasks[name], completed=self._bars.tasks[self._tasks[name]].total)
        self._set_totals()

    def _set_totals(self) -> None:
        self._bars.update(self._everything, total=sum(self._expected.values()))
        for name in self._names:
            self._bars.update(self._tasks[name], total=_seconds_of(self._expected, name))


def _seconds_of(seconds: dict[tuple[str | None, str], float], name: str | None) -> float:
    return sum(each for (owner, _), each in seconds.items() if owner == name)


def print_results(console: Console, result: Reproduction, settings: Settings) -> None:
    """Print promised and realised payoffs, running time, and the path of the page."""
    width = console.width
    for outcome in result.outcomes:
        table, boundless = _payoff_table(outcome, settings), console.options.update(width=1000)
        # a narrow terminal must not cut digits
        console.width = max(width, console.measure(table, options=boundless).maximum)
        console.print(table, "")
    console.width = width
    outcomes = result.outcomes
    payoffs = text.normalised_summary(outcomes), decision_summary(outcomes)
    console.print(*payoffs, text.convergence_summary(outcomes, settings), text.speed_summary(outcomes), sep="\n")
    console.print(f"\nThe page: {result.page}", markup=False, highlight=False, soft_wrap=True)


def _payoff_table(outcome: Outcome, settings: Settings) -> Table:
    title = (
        f"Experiment {outcome.name}, {outcome.note}: {settings.rows:,} rows in sample, {settings.fresh_rows:,} fresh"
    )
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("payoff per row", no_wrap=True)
    for where in ("in sample", "fresh"):
        for measure in ("promised", "realised", "gap"):
            table.add_column(f"{measure}\n{where}", justify="right", no_wrap=True)
    for policy in POLICIES:
        payoffs = [outcome.payoff(where, policy) for where in (IN_SAMPLE, FRESH)]
        table.add_row(policy, *(measure for payoff in payoffs for measure in _payoff_texts(payoff)))
    return table


def _payoff_texts(payoff: PolicyPayoff) -> list[str]:
    texts = [
        text.format_payoff(payoff.promised),
        text.format_payoff(payoff.realised),
        text.format_payoff(payoff.gap, sign="+"),
    ]
    return ["" if shown == NO_NUMBER else shown for shown in texts]
