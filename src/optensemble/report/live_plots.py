"""The plot of a LiveEnsemble: payoffs, weights, promises and the evidence against them, over the rows learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optensemble.ensembles._live_findings import LiveFindings
from optensemble.exceptions import InputError
from optensemble.report.drawing import adopt, readable_ink, style
from optensemble.report.live.panels import (
    EVIDENCE_TITLE,
    ROWS,
    WEIGHTS_TITLE,
    LiveSeries,
    draw_monitor,
    draw_payoffs,
    draw_promises,
    draw_refits,
    draw_weights,
    say,
)

_SIZE = 7.4, 8.6  # inches
_LETTERS = 11.5  # of a title to an inch


def plot_live(live: LiveFindings, figure: Figure | None) -> Figure:
    """Draw payoffs, weights, promises and the evidence against them, each into a panel, with refits as marks."""
    series = LiveSeries.of(live)
    with _panels(figure, live.finding_) as (drawn, panels):
        payoffs, weights, promises, evidence = panels
        payoffs.set_title(series.payoffs_title)
        weights.set_title(WEIGHTS_TITLE)
        promises.set_title(series.promises_title)
        evidence.set_title(EVIDENCE_TITLE)
        if series.history.empty:
            for axes in (payoffs, weights, promises):
                say(axes, "no labels have arrived yet")
        else:
            _beside(payoffs, *draw_payoffs(payoffs, series))
            _beside(promises, *draw_promises(promises, series))
            for axes in (payoffs, weights, promises):
                draw_refits(axes, series)
            _beside(weights, *draw_weights(weights, series))
            promises.set_xlabel(ROWS)
        if (legend := draw_monitor(evidence, series))[0]:
            _beside(evidence, *legend)
        _share_rows(panels, series)
    return drawn


def _share_rows(panels: Sequence[Axes], series: LiveSeries) -> None:
    """Share the axis of rows; the monitor's too where it has looked at all rows whose labels have come."""
    *others, last = panels
    for axes in others[1:]:
        axes.sharex(others[0])
    alike = series.monitor is not None and series.monitor.rows == series.rows
    if alike and series.rows:
        last.sharex(others[0])
        last.set_xlabel(ROWS)
        others[-1].set_xlabel("")
    for axes in others[: None if alike else -1]:
        axes.tick_params(labelbottom=False)


@contextmanager
def _panels(figure: Any, title: str) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield four panels in the style, of a new figure or one that was given, under a title."""
    if figure is not None and not isinstance(figure, Figure):
        raise InputError(
            f"figure must be a figure of matplotlib, or None for a new one; got {type(figure).__name__}. Give what "
            "plt.figure() returns."
        )
    if figure is not None and figure.axes:
        raise InputError(
            f"figure must be empty: four panels are drawn; got one with {len(figure.axes)} axes. Give a new one, or "
            "call figure.clear() first."
        )
    with style():
        drawn = _new_figure() if figure is None else figure
        if drawn.get_layout_engine() is None:
            drawn.set_layout_engine("constrained")  # names stand beside the panels, and would be cut off
        panels = list(drawn.subplots(4, 1))
    with style(readable_ink(panels[0])):
        for axes in panels:
            adopt(axes)
        width = int(_LETTERS * drawn.bbox.width / drawn.dpi)
        drawn.suptitle(fill(title, max(width, 20)), x=0.01, horizontalalignment="left", fontsize=10, fontweight="bold")
        yield drawn, panels


def _new_figure() -> Figure:
    from matplotlib import pyplot

    return pyplot.figure(figsize=_SIZE, layout="constrained", facecolor="white")


def _beside(axes: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    axes.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0)
