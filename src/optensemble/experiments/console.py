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
from optensemble.experiments.learning_curve.points import METHODS, CurvePoint, LearningCurve
from optensemble.experiments.learning_curve.text import TRUE_PROMISE, method_name, summary_lines
from optensemble.experiments.outcome import FRESH, IN_SAMPLE, POLICIES, Outcome, PolicyPayoff
from optensemble.experiments.reproduce import (
    ON_DISK,
    ExpectedSeconds,
    Reproduction,
    TellProgress,
    expected_curve_seconds,
    expected_seconds,
)
from optensemble.experiments.settings import CurveSettings, Settings

_BAR_WIDTH = 24  # characters: all of the line fits on a terminal of 80
_LONGEST_PHASE = len("A: round-robin 1,000,000")


@contextmanager
def show_progress(
    console: Console, settings: Settings, names: Sequence[str], learning_curve: CurveSettings | None = None
) -> Iterator[TellProgress]:
    """Show one bar for the whole run, with its percentage and the time left; nothing outside a terminal."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(bar_width=_BAR_WIDTH), TaskProgressColumn()),
        *(TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        curves = {} if learning_curve is None else expected_curve_seconds(names, learning_curve)
        yield _ProgressBar(shown, settings, names, curves).tell


class _ProgressBar:
    """A progress bar whose unit is the expected second of work."""

    def __init__(self, shown: Progress, settings: Settings, names: Sequence[str], curves: ExpectedSeconds) -> None:
        self._shown, self._settings, self._names, self._curves = shown, settings, list(names), curves
        self._expected = expected_seconds(settings, names) | curves
        self._done: dict[tuple[str | None, str], float] = {}
        self._share = 0.0
        self._task = shown.add_task("begins", total=1.0)

    def tell(self, name: str | None, phase: str, share: float) -> None:
        """Update the bar: a share of a phase is done."""
        if name is not None and phase == ON_DISK:  # its expected work would distort the time left
            self._names.remove(name)
            self._expected = expected_seconds(self._settings, self._names) | self._curves
        if (name, phase) in self._expected:
            self._done[name, phase] = share * self._expected[name, phase]
        self._share = max(self._share, sum(self._done.values()) / sum(self._expected.values()))
        said = phase if name is None else f"{name}: {phase}"
        self._shown.update(self._task, description=said.ljust(_LONGEST_PHASE), completed=self._share)


def print_results(
    console: Console, result: Reproduction, settings: Settings, learning_curve: CurveSettings | None = None
) -> None:
    """Print promised and realised payoffs, running time, and the path of the page."""
    outcomes = result.outcomes
    for outcome in outcomes:
        _print_whole(console, _payoff_table(outcome, settings))
    payoffs = text.normalised_summary(outcomes), decision_summary(outcomes)
    console.print(*payoffs, text.convergence_summary(outcomes, settings), text.speed_summary(outcomes), sep="\n")
    if learning_curve is not None:
        console.print()
        for curve in result.curves:
            _print_whole(console, _curve_table(curve))
        console.print(*summary_lines(result.curves, learning_curve), f"{TRUE_PROMISE}.", sep="\n")
    console.print(f"\nThe page: {result.page}", markup=False, highlight=False, soft_wrap=True)


def _print_whole(console: Console, table: Table) -> None:
    """Print a table as wide as it is: a narrow terminal must not cut digits."""
    width, boundless = console.width, console.options.update(width=1000)
    console.width = max(width, console.measure(table, options=boundless).maximum)
    console.print(table, "")
    console.width = width


def _curve_table(curve: LearningCurve) -> Table:
    title = (
        f"Experiment {curve.name} by debiasing rows: promised → realised on fresh rows; foresight realises "
        f"{text.format_payoff(curve.foresight)}"
    )
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("payoff per row", no_wrap=True)
    for size in curve.sizes:
        table.add_column(f"{size:,}", justify="right", no_wrap=True)
    for method in METHODS:
        points = {point.rows: point for point in curve.line(*method)}
        table.add_row(method_name(*method), *(_point_text(points.get(size)) for size in curve.sizes))
    return table


def _point_text(point: CurvePoint | None) -> str:
    if point is None:
        return "left out"
    return f"{text.format_payoff(point.promised)} → {text.format_payoff(point.realised)}"


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
