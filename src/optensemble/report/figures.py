"""Figures of an ensemble's report, each drawn into axes: those of the page, or a user's own.

None has a mark for each row, so the page stays small for any number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from optensemble._core.arrays import Floats
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.audit_tables import AuditSummary
from optensemble.monitoring.monitor import Monitor
from optensemble.report.blocks import Blocks
from optensemble.report.data import ReportData
from optensemble.report.drawing import BAND_OPACITY, COLOURS, MUTED, current_ink, new_figure
from optensemble.report.profile import ACTION_LEVELS, ActionProfile

REALISED_COLOUR, PROMISED_COLOUR, WARNING_COLOUR = COLOURS[0], COLOURS[3], COLOURS[2]

_WIDTH = 4.0  # inches: wider figures have type too small to read on a phone
_DOT_HEIGHT = 0.24  # inches per line
CURVE_HEIGHT = 2.8
"""The height of a figure of curves, in inches."""

_LONGEST_NAME = 22  # characters
_LEAST_EVIDENCE = 0.1  # evidence below that is none, and its logarithm has no end
_MOST_MARKS = 40
_SHORT_MARK = 0.08  # of the height of the axes
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class DotPlot:
    """A dot plot of estimates with intervals, one per line; ``marked`` ones are emphasised.

    An estimate without an interval has a hollow dot.
    """

    names: Sequence[str]
    values: Floats
    low: Floats
    high: Floats
    title: str
    marked: npt.NDArray[np.bool_]
    zero: bool = False
    colours: Sequence[str] = ()

    @property
    def height(self) -> float:
        """The height of a figure of it, in inches."""
        return 0.75 + _DOT_HEIGHT * len(self.names)

    def draw(self, axes: Axes) -> None:
        """Draw the plot, without its title; an estimate without a number leaves its line empty."""
        count = len(self.names)
        if self.zero:
            axes.axvline(0, color=current_ink(), linewidth=1)
        for place in range(count):
            self._draw_one(axes, place)
        axes.set_yticks(range(count), [axis_name(name) for name in self.names])
        axes.set_ylim(count - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        for label, marked in zip(axes.get_yticklabels(), self.marked, strict=True):
            label.set_fontweight("bold" if marked else "normal")

    def figure(self) -> Figure:
        """Return a figure of it for the page."""
        figure = new_figure(_WIDTH, self.height)
        self.draw(figure.subplots())
        _set_title(figure, self.title)
        return figure

    def _draw_one(self, axes: Axes, place: int) -> None:
        colour = self.colours[place] if self.colours else REALISED_COLOUR if self.marked[place] else MUTED
        ends = [self.low[place], self.high[place]]
        known = bool(np.isfinite(ends).all())
        if known:
            axes.plot(ends, [place, place], color=colour, linewidth=3, alpha=0.55, solid_capstyle="butt")
        fill = "full" if known else "none"  # a lone number, of which nobody can say how sure it is
        axes.plot(self.values[place], place, "o", color=colour, markersize=6, fillstyle=fill, markeredgewidth=1.4)


def promise_plot(row: AuditSummary, title: str) -> DotPlot:
    """Return the promised interval above the realised one."""
    half = row.half_width
    return DotPlot(
        ["promised", "realised"],
        np.array([row.promise, row.realised]),
        np.array([row.low, row.realised - half]),
        np.array([row.high, row.realised + half]),
        title,
        np.array([False, True]),
        colours=[PROMISED_COLOUR, REALISED_COLOUR],
    )


def lift_plot(audit: Audit, *, cost: bool = False) -> DotPlot:
    """Return the gain over each baseline, or what was saved of its cost, the strongest baseline first."""
    frame = audit.lift.sort_values("gain", kind="stable")
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    names = frame["rival"].tolist()
    title = "Saved against each baseline" if cost else "Gain over each baseline"
    return DotPlot(names, frame["gain"].to_numpy(), low, high, title, low > 0, zero=True)


def gap_plot(audit: Audit) -> DotPlot:
    """Return promised − realised where each candidate was followed."""
    frame = audit.by_choice
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    off = (low > 0) | (high < 0)
    names, colours = frame["chosen"].tolist(), [WARNING_COLOUR if each else REALISED_COLOUR for each in off]
    title = "Promised − realised, by followed candidate"
    return DotPlot(names, frame["gap"].to_numpy(), low, high, title, off, zero=True, colours=colours)


def leaderboard_plot(frame: pd.DataFrame, objective: str) -> DotPlot:
    """Return each candidate's payoff out of fold, the best first."""
    known = frame[frame["realised"].notna()]
    names = known["candidate"].tolist()
    payoff, low, high = (known[name].to_numpy() for name in ("realised", "low", "high"))
    selected = known["chosen"].to_numpy().astype(bool)
    return DotPlot(names, payoff, low, high, f"Mean {objective} of each candidate, out of fold", selected)


def draw_promise(data: ReportData) -> Figure:
    """Draw the promised interval above the realised one."""
    return promise_plot(data.audit.totals, f"Promised and realised {data.objective}").figure()


def draw_lift(audit: Audit, *, cost: bool = False) -> Figure:
    """Draw the gain over each baseline, or what was saved of its cost, the strongest baseline first."""
    return lift_plot(audit, cost=cost).figure()


def draw_leaderboard(frame: pd.DataFrame, objective: str) -> Figure:
    """Draw each candidate's payoff out of fold, the best first."""
    return leaderboard_plot(frame, objective).figure()


def draw_gaps(audit: Audit) -> Figure:
    """Draw promised − realised where each candidate was followed."""
    return gap_plot(audit).figure()


def draw_validation(frame: pd.DataFrame, objective: str) -> Figure:
    """Draw the payoff out of fold over rounds of debiasing, a line for each shrinkage."""
    figure = new_figure(_WIDTH, CURVE_HEIGHT)
    draw_curves(figure.subplots(), frame)
    _set_title(figure, validation_title(objective))
    figure.legend(loc="outside lower left", ncols=4)
    return figure


def validation_title(objective: str) -> str:
    """Return the title of the curves of cross-validation."""
    return f"Mean {objective} out of fold, by shrinkage"


def draw_curves(axes: Axes, frame: pd.DataFrame) -> None:
    """Draw the curves of cross-validation, without title and legend."""
    start = frame[frame["rounds"] == 0]
    for number, (shrinkage, of) in enumerate(frame[frame["rounds"] > 0].groupby("shrinkage")):
        line = pd.concat([start, of])
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(line["rounds"], line["realised"], color=colour, marker="o", markersize=3, label=f"{shrinkage:,g}")
    chosen = frame[frame["chosen"]]
    ring: dict[str, Any] = {"color": current_ink(), "markersize": 8, "fillstyle": "none"}
    axes.plot(chosen["rounds"], chosen["realised"], "o", label="selected", **ring)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("rounds of debiasing")


def draw_evidence(axes: Axes, monitor: Monitor, *, restart: str = "restart") -> None:
    """Draw the evidence of a monitor on a logarithmic scale, without title and legend."""
    frame, verb = monitor.evidence, "earned" if monitor.sense == "max" else "cost"
    at, threshold = frame["first"] + frame["rows"] - 1, monitor.threshold
    low, high = np.log10([_LEAST_EVIDENCE, threshold**2])  # how far beyond an alarm it is does not matter
    height = float((np.log10(threshold) - low) / (high - low))  # marks leave the room of the legend free
    draw_marks(axes, monitor.restarts, label=restart, height=height)
    colours = {"less": PROMISED_COLOUR, "more": REALISED_COLOUR}
    for name in monitor.directions:
        axes.plot(at, 10.0 ** frame[name], color=colours[name], label=f"{verb} {name} than promised")
    axes.axhline(threshold, color=current_ink(), linestyle="--", linewidth=1, label="threshold")
    alarms = monitor.alarms[["row", "onset"]].drop_duplicates()
    if len(alarms):
        rows = alarms["row"].to_numpy(np.int64)
        dots: dict[str, Any] = {"color": WARNING_COLOUR, "markersize": 6, "zorder": 5}
        axes.plot(rows, np.full(len(rows), threshold), "o", label="alarm", **dots)
        dotted: dict[str, Any] = {"color": WARNING_COLOUR, "linestyle": ":", "linewidth": 1.4}
        draw_marks(axes, alarms["onset"], label="its onset", height=height, **dotted)
    axes.set_yscale("log")
    axes.set_ylim(10.0**low, 10.0**high)
    axes.yaxis.set_major_formatter(FuncFormatter(_power_of_ten))
    axes.yaxis.set_minor_locator(NullLocator())
    whole_rows(axes)
    axes.set_xlabel("rows observed")
    axes.set_ylabel("evidence")


def draw_marks(axes: Axes, rows: Iterable[int], *, label: str = "", height: float = 1.0, **looks: Any) -> None:
    """Mark rows by vertical lines; where they are many, by short ones: curves remain visible."""
    places = list(rows)
    if places:
        height = height if len(places) <= _MOST_MARKS else _SHORT_MARK
        lines = [[(row, 0.0), (row, height)] for row in places]
        looks = {"color": MUTED, "linewidth": 0.9, "zorder": 1.5, "label": label or "_marks", **looks}
        axes.add_collection(LineCollection(lines, transform=axes.get_xaxis_transform(), **looks), autolim=False)


def whole_rows(axes: Axes) -> None:
    """Let the horizontal axis count rows."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _power_of_ten(value: float, _: int | None) -> str:
    """Return a power of ten without math text, which the style leaves off."""
    exponent = round(float(np.log10(value)))
    return {0: "1", 1: "10"}.get(exponent, f"10{str(exponent).translate(_SUPERSCRIPTS)}")


def draw_blocks(blocks: Blocks, title: str, unit: str = "row") -> Figure:
    """Draw promised and realised payoffs by block; dots are hollow where no interval is known."""
    figure = new_figure(_WIDTH, CURVE_HEIGHT)
    axes = figure.subplots()
    at = blocks.middle.to_numpy()
    if blocks.has_intervals:
        band: dict[str, Any] = {"color": PROMISED_COLOUR, "alpha": BAND_OPACITY, "linewidth": 0}
        axes.fill_between(at, blocks.low, blocks.high, label="promised, 95 %", **band)
    axes.plot(at, blocks.promised, color=PROMISED_COLOUR, linestyle="--", label="promised")
    known = bool(np.isfinite(blocks.half_width).all())
    half, fill = (blocks.half_width, "full") if known else (np.zeros(len(at)), "none")
    axes.vlines(at, blocks.realised - half, blocks.realised + half, color=REALISED_COLOUR, alpha=0.45, linewidth=1.5)
    line: dict[str, Any] = {"color": REALISED_COLOUR, "marker": "o", "markersize": 4.5, "linewidth": 1.2}
    axes.plot(at, blocks.realised, fillstyle=fill, label="realised, 95 %" if known else "realised", **line)
    out = blocks.outside
    if out.size:
        mark: dict[str, Any] = {"color": WARNING_COLOUR, "markersize": 7, "zorder": 5, "fillstyle": fill}
        axes.plot(at[out], blocks.realised[out], "o", label="outside the interval", **mark)
    _set_time_axis(axes, blocks, unit)
    _set_title(figure, title)
    figure.legend(loc="outside lower left", ncols=2)
    return figure


def _set_time_axis(axes: Axes, blocks: Blocks, unit: str) -> None:
    if isinstance(blocks.start, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.set_xlabel("time" if blocks.is_time else axis_name(unit))


def _set_title(figure: Figure, title: str) -> None:
    """Start the title at the edge of the figure, because names beside the axis may be long."""
    figure.suptitle(title, x=0.01, horizontalalignment="left", color=current_ink(), fontsize=10, fontweight="bold")


def draw_profile(profile: ActionProfile, coordinates: Sequence[str]) -> Figure:
    """Draw the share of rows at the bounds and at each level in between, by coordinate."""
    names = [axis_name(coordinates[j]) for j in profile.shown]
    figure = new_figure(_WIDTH, 1.15 + 0.19 * len(names))
    axes = figure.subplots()
    shades = LinearSegmentedColormap.from_list("share", [(*_rgb(REALISED_COLOUR), 0.0), (*_rgb(REALISED_COLOUR), 1.0)])
    mesh = axes.pcolormesh(profile.shares, cmap=shades, vmin=0, vmax=1, edgecolors=MUTED, linewidth=0.2)
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.invert_yaxis()
    axes.set_xticks([0.5, 1 + ACTION_LEVELS / 2, ACTION_LEVELS + 1.5], ["at lower", "in between", "at upper"])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    _set_title(figure, "Share of rows by level of the action")
    for edge in (1, ACTION_LEVELS + 1):
        axes.axvline(edge, color=current_ink(), linewidth=1)
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, format="{x:.0%}", aspect=18, shrink=0.7, anchor=(0, 1))
    bar.outline.set_edgecolor(MUTED)
    return figure


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))


def axis_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name shortened to fit beside an axis, with unprintable characters replaced."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
