"""The plot of a LiveEnsemble: payoffs, weights, promises and the evidence against them, over the rows learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optensemble._core.arrays import Floats
from optensemble.ensembles._live_findings import LiveFindings
from optensemble.exceptions import InputError
from optensemble.report.drawing import BAND_OPACITY, COLOURS, MUTED, adopt, current_ink, readable_ink, style
from optensemble.report.figures import PROMISED_COLOUR, REALISED_COLOUR, draw_evidence, draw_marks, whole_rows

_SIZE = 7.4, 8.6  # inches
_LETTERS = 11.5  # of a title to an inch
_LATEST = 16  # moving means are over one row in so many
_SETTLED = 10  # means so far may leave the panel in the first one row in so many: they are of few rows
_POLICY_COLOURS = COLOURS[1], COLOURS[2], COLOURS[4]
_ROWS = "labelled rows"


def plot_live(live: LiveFindings, figure: Figure | None) -> Figure:
    """Draw payoffs, weights, promises and the evidence against them, each into a panel, with refits as marks."""
    history, cost = live.history_, live.ensemble_.sense == "min"
    with _panels(figure, live.finding_) as (drawn, panels):
        payoffs, weights, promises, evidence = panels
        payoffs.set_title(f"Mean {'cost' if cost else 'payoff'} so far")
        weights.set_title("Weights of the policies")
        window = max(len(history) // _LATEST, 1)
        promises.set_title(_promises_title(history, window))
        evidence.set_title("Evidence against the promises of the fits")
        if history.empty:
            for axes in (payoffs, weights, promises):
                _say(axes, "no labels have arrived yet")
        else:
            _draw_payoffs(payoffs, history, live.policies_, cost=cost)
            _draw_promises(promises, history, window)
            for axes in (payoffs, weights, promises):
                _draw_rows(axes, live)
            _draw_weights(weights, history, live.policies_)
            promises.set_xlabel(_ROWS)
        _draw_monitor(evidence, live)
        _share_rows(panels, live)
    return drawn


# Panels


def _draw_payoffs(axes: Axes, history: pd.DataFrame, policies: Sequence[str], *, cost: bool) -> None:
    """Draw the mean over all rows so far: at the end lines are as far apart as the certificate says, per row."""
    columns = {"earned": ("paid" if cost else "earned", current_ink()), "foresight": ("with foresight", MUTED)}
    columns |= {name: (name, colour) for name, colour in zip(policies, _POLICY_COLOURS, strict=False)}
    at, counted = _places(history), history["counted"].cumsum().to_numpy()
    drawn = []
    for column, (label, colour) in columns.items():
        mean = _ratio(history[column].cumsum().to_numpy(), counted)
        front: dict[str, Any] = {"linewidth": 2.2, "zorder": 4} if column == "earned" else {}
        axes.plot(at, mean, color=colour, label=label, **front)
        drawn.append(mean[at >= at[-1] / _SETTLED])
    _limit(axes, np.array(drawn))
    _name_lines(axes)


def _draw_weights(axes: Axes, history: pd.DataFrame, policies: Sequence[str]) -> None:
    shares = [history[f"weight_{name}"].to_numpy() for name in policies]
    axes.stackplot(_places(history), shares, labels=policies, colors=_POLICY_COLOURS, alpha=0.75, linewidth=0)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    _beside(axes, *(list(reversed(each)) for each in axes.get_legend_handles_labels()))


def _promises_title(history: pd.DataFrame, window: int) -> str:
    rows = 0 if history.empty else window * int(history["rows"].iloc[0])
    return "Promised and realised" + (f", mean of the last {rows:,} rows" if rows > 1 else "")


def _draw_promises(axes: Axes, history: pd.DataFrame, window: int) -> None:
    """Draw moving means, and the correction as a band beside the promise that it is part of."""
    at, counted = _places(history), _latest(history["counted"], window)
    promised, realised = (_ratio(_latest(history[name], window), counted) for name in ("promised", "earned"))
    correction = history["correction"].to_numpy()
    band: dict[str, Any] = {"color": PROMISED_COLOUR, "alpha": BAND_OPACITY, "linewidth": 0}
    axes.plot(at, realised, color=REALISED_COLOUR, label="realised")
    axes.plot(at, promised, color=PROMISED_COLOUR, linestyle="--", label="promised")
    axes.fill_between(at, promised - correction, promised, label="tracked correction", **band)
    settled = at >= min(window * int(history["rows"].iloc[0]), at[-1])
    _limit(axes, np.stack([promised, realised, promised - correction])[:, settled])
    _beside(axes, *axes.get_legend_handles_labels())


def _draw_monitor(axes: Axes, live: LiveFindings) -> None:
    monitor = live.monitor
    if monitor is None:
        _say(axes, "no monitor: the fit left no record out of fold to judge by")
    elif not monitor.rows:
        _say(axes, "the monitor has not seen any rows yet")
    else:
        draw_evidence(axes, monitor, restart="first row of a new fit")
        axes.set_ylabel("")
        axes.set_xlabel(f"rows seen by the monitor ({monitor.rows:,} of {live.rows_:,})")
        axes.set_xlim(0, max(monitor.rows - 1, 1))
        _beside(axes, *axes.get_legend_handles_labels())


def _draw_rows(axes: Axes, live: LiveFindings) -> None:
    """Mark the refits, those that failed by a dotted line; number the rows."""
    refits = live.refits_
    failed = refits["failed"].to_numpy(bool)
    draw_marks(axes, refits.loc[~failed, "labels"], label="refit")
    draw_marks(axes, refits.loc[failed, "labels"], label="failed refit", linestyle=":")
    axes.set_xlim(0, max(live.rows_ - 1, 1))
    whole_rows(axes)


def _share_rows(panels: Sequence[Axes], live: LiveFindings) -> None:
    """Share the axis of rows; the monitor's too where it has looked at all rows whose labels have come."""
    *others, last = panels
    for axes in others[1:]:
        axes.sharex(others[0])
    alike = live.monitor is not None and live.monitor.rows == live.rows_
    if alike and live.rows_:
        last.sharex(others[0])
        last.set_xlabel(_ROWS)
        others[-1].set_xlabel("")
    for axes in others[: None if alike else -1]:
        axes.tick_params(labelbottom=False)


# Numbers


def _places(history: pd.DataFrame) -> Floats:
    """Return the last row of each span."""
    places: Floats = (history["first"] + history["rows"] - 1).to_numpy(np.float64)
    return places


def _latest(column: pd.Series, window: int) -> Floats:
    """Return sums over the last spans."""
    sums: Floats = column.rolling(window, min_periods=1).sum().to_numpy(np.float64)
    return sums


def _ratio(sums: Floats, counted: Floats) -> Floats:
    """Return means; rows that count for nothing have none."""
    means = np.full(len(sums), np.nan)
    np.divide(sums, counted, out=means, where=counted > 0)
    return means


def _limit(axes: Axes, shown: Floats) -> None:
    """Set the limits of the vertical axis to these values, with a margin."""
    shown = shown[np.isfinite(shown)]
    if len(shown) and np.ptp(shown) > 0:
        margin = 0.08 * np.ptp(shown)
        axes.set_ylim(shown.min() - margin, shown.max() + margin)


# Axes


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


def _say(axes: Axes, what: str) -> None:
    """Write in place of a drawing what there is none of."""
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", va="center", color=current_ink())
    axes.set_xticks([])
    axes.set_yticks([])


def _name_lines(axes: Axes) -> None:
    """Name lines beside their ends, in the order in which these lie."""
    lines = sorted(axes.lines, key=lambda line: -float(np.ravel(line.get_ydata())[-1]))
    _beside(axes, lines, [str(line.get_label()) for line in lines])


def _beside(axes: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    axes.legend(handles, labels, loc="center left", bbox_to_anchor=(1.01, 0.5), borderaxespad=0)
