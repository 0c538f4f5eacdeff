"""Terminal output of a run: a progress bar, then tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from optensemble._core.number_format import NO_NUMBER
from optensemble.experiments import text
from optensemble.experiments.decision_section import decision_summary
from optensemble.experiments.outcome import FRESH, IN_SAMPLE, POLICIES, Outcome, PolicyPayoff
from optensemble.experiments.reproduce import ON_DISK, Reproduction, TellProgress, expected_seconds
from optensemble.experiments.settings import Settings

_BAR_WIDTH = 24  # characters: all of the line fits on a terminal of 80
_LONGEST_PHASE = len("A: replay on fresh rows")


@contextmanager
def show_progress(console: Console, settings: Settings, names: Sequence[str]) -> Iterator[TellProgress]:
    """Show one bar for the whole run, with its percentage and the time left; nothing outside a terminal."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(bar_width=_BAR_WIDTH), TaskProgressColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        yield _ProgressBar(shown, settings, names).tell


class _ProgressBar:
    """A progress bar whose unit is the expected second of work."""

    def __init__(self, shown: Progress, settings: Settings, names: Sequence[str]) -> None:
        self._shown, self._settings, self._names = shown, settings, list(names)
        self._expected = expected_seconds(settings, names)
        self._done: dict[tuple[str | None, str], float] = {}
        self._share = 0.0
        self._task = shown.add_task("begins", total=1.0)

    def tell(self, name: str | None, phase: str, share: float) -> None:
        """Update the bar: a share of a phase is done."""
        if name is not None and phase == ON_DISK:  # its expected work would distort the time left
            self._names.remove(name)
            self._expected = expected_seconds(self._settings, self._names)
        if (name, phase) in self._expected:
            self._done[name, phase] = share * self._expected[name, phase]
        self._share = max(self._share, sum(self._done.values()) / sum(self._expected.values()))
        said = phase if name is None else f"{name}: {phase}"
        self._shown.update(self._task, description=said.ljust(_LONGEST_PHASE), completed=self._share)


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
