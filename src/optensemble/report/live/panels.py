"""Panels about a LiveEnsemble, each drawn into axes: payoffs, weights, promises, and the evidence against them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from optensemble._core.arrays import Floats
from optensemble.ensembles._live_findings import LiveFindings
from optensemble.monitoring.monitor import Monitor
from optensemble.report.drawing import BAND_OPACITY, COLOURS, MUTED, current_ink
from optensemble.report.figures import PROMISED_COLOUR, REALISED_COLOUR, draw_evidence, draw_marks, whole_rows

POLICY_COLOURS = COLOURS[1], COLOURS[2], COLOURS[4]
"""The colours of the policies, in the order of their weights."""

WEIGHT_OPACITY = 0.75
"""The opacity of the areas of weights."""

ROWS = "labelled rows"
"""What the horizontal axis counts."""

EVIDENCE_TITLE, WEIGHTS_TITLE = "Evidence against the promises of the fits", "Weights of the policies"

_LATEST = 16  # moving means are over one row in so many
_SETTLED = 10  # means so far may leave the panel in the first one row in so many: they are of few rows

Legend = tuple[list[Any], list[str]]
"""What a legend lists: handles, and their names."""


@dataclass(frozen=True, eq=False)
class LiveSeries:
    """What the panels show, as of one moment: the attributes of a LiveEnsemble of these names."""

    history: pd.DataFrame
    refits: pd.DataFrame
    policies: tuple[str, ...]
    monitor: Monitor | None
    rows: int
    cost: bool

    @classmethod
    def of(cls, live: LiveFindings) -> Self:
        """Return what is to be shown of an ensemble; it does not change when that goes on."""
        monitor, cost = None if live.monitor is None else live.monitor.copy(), live.ensemble_.sense == "min"
        return cls(live.history_, live.refits_, live.policies_, monitor, live.rows_, cost)

    @property
    def window(self) -> int:
        """The number of spans that moving means are over."""
        return max(len(self.history) // _LATEST, 1)

    @property
    def payoffs_title(self) -> str:
        """The title above payoffs."""
        return f"Mean {'cost' if self.cost else 'payoff'} so far"

    @property
    def promises_title(self) -> str:
        """The title above promises, with the rows that means are over."""
        rows = 0 if self.history.empty else self.window * int(self.history["rows"].iloc[0])
        return "Promised and realised" + (f", mean of the last {rows:,} rows" if rows > 1 else "")


def draw_payoffs(axes: Axes, series: LiveSeries) -> Legend:
    """Draw the mean over all rows so far: at the end lines are as far apart as the certificate says, per row."""
    history, names = series.history, zip(series.policies, POLICY_COLOURS, strict=False)
    earned = "paid" if series.cost else "earned"
    columns = {"earned": (earned, current_ink()), "foresight": ("with foresight", MUTED)}
    columns |= {name: (name, colour) for name, colour in names}
    at, counted = _places(history), history["counted"].cumsum().to_numpy()
    drawn = []
    for column, (label, colour) in columns.items():
        mean = _ratio(history[column].cumsum().to_numpy(), counted)
        front: dict[str, Any] = {"linewidth": 2.2, "zorder": 4} if column == "earned" else {}
        axes.plot(at, mean, color=colour, label=label, **front)
        drawn.append(mean[at >= at[-1] / _SETTLED])
    _limit(axes, np.array(drawn))
    lines = sorted(axes.lines, key=lambda line: -float(np.ravel(line.get_ydata())[-1]))  # in the order of their ends
    return list(lines), [str(line.get_label()) for line in lines]


def draw_weights(axes: Axes, series: LiveSeries) -> Legend:
    """Draw the weights of the policies above each other, the last one on top."""
    shares = [series.history[f"weight_{name}"].to_numpy() for name in series.policies]
    looks: dict[str, Any] = {"colors": POLICY_COLOURS, "alpha": WEIGHT_OPACITY, "linewidth": 0}
    axes.stackplot(_places(series.history), shares, labels=series.policies, **looks)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    handles, labels = axes.get_legend_handles_labels()
    return list(reversed(handles)), list(reversed(labels))


def draw_promises(axes: Axes, series: LiveSeries) -> Legend:
    """Draw moving means, and the correction as a band beside the promise that it is part of."""
    history, window = series.history, series.window
    at, counted = _places(history), _latest(history["counted"], window)
    promised, realised = (_ratio(_latest(history[name], window), counted) for name in ("promised", "earned"))
    correction = history["correction"].to_numpy()
    band: dict[str, Any] = {"color": PROMISED_COLOUR, "alpha": BAND_OPACITY, "linewidth": 0}
    axes.plot(at, realised, color=REALISED_COLOUR, label="realised")
    axes.plot(at, promised, color=PROMISED_COLOUR, linestyle="--", label="promised")
    axes.fill_between(at, promised - correction, promised, label="tracked correction", **band)
    settled = at >= min(window * int(history["rows"].iloc[0]), at[-1])
    _limit(axes, np.stack([promised, realised, promised - correction])[:, settled])
    return axes.get_legend_handles_labels()


def draw_monitor(axes: Axes, series: LiveSeries) -> Legend:
    """Draw the evidence of the monitor; say so where there is none."""
    monitor = series.monitor
    if monitor is None:
        say(axes, "no monitor: the fit left no record out of fold to judge by")
        return [], []
    if not monitor.rows:
        say(axes, "the monitor has not seen any rows yet")
        return [], []
    draw_evidence(axes, monitor, restart="first row of a new fit")
    axes.set_ylabel("")
    axes.set_xlabel(f"rows seen by the monitor ({monitor.rows:,} of {series.rows:,})")
    axes.set_xlim(0, max(monitor.rows - 1, 1))
    return axes.get_legend_handles_labels()


def draw_refits(axes: Axes, series: LiveSeries) -> None:
    """Mark the refits, those that failed by a dotted line; number the rows."""
    refits = series.refits
    failed = refits["failed"].to_numpy(bool)
    draw_marks(axes, refits.loc[~failed, "labels"], label="refit")
    draw_marks(axes, refits.loc[failed, "labels"], label="failed refit", linestyle=":")
    axes.set_xlim(0, max(series.rows - 1, 1))
    whole_rows(axes)


def say(axes: Axes, what: str) -> None:
    """Write in place of a drawing what there is none of."""
    axes.text(0.5, 0.5, what, transform=axes.transAxes, ha="center", va="center", color=current_ink())
    axes.set_xticks([])
    axes.set_yticks([])


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
