"""The pictures of an ensemble's report. None has a mark for each row: a page stays small however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optensemble._core.arrays import Floats
from optensemble.evaluation.audit import Audit
from optensemble.report.data import LEVELS, Blocks, Judged, Profile
from optensemble.report.drawing import COLOURS, INK, MUTED, new_figure

EARNED, PROMISED = COLOURS[0], COLOURS[3]

_WIDTH = 4.0  # inches: on a phone its type must not be too small to read
_LINE = 0.24
_LONGEST = 22  # characters of a name
_BAND = 0.2


@dataclass(frozen=True)
class Dots:
    """Numbers with their intervals, one below the other; ``marked`` are those that stand out."""

    names: Sequence[str]
    values: Floats
    low: Floats
    high: Floats
    title: str
    marked: npt.NDArray[np.bool_]
    zero: bool = False
    colours: Sequence[str] = ()

    def draw(self) -> Figure:
        """Draw a line for each; what has no number is left out."""
        count = len(self.names)
        figure = new_figure(_WIDTH, 0.75 + _LINE * count)
        axes = figure.subplots()
        if self.zero:
            axes.axvline(0, color=INK, linewidth=1)
        for place in range(count):
            self._draw_one(axes, place)
        axes.set_yticks(range(count), [short(name) for name in self.names])
        axes.set_ylim(count - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        _set_title(figure, self.title)
        for label, marked in zip(axes.get_yticklabels(), self.marked, strict=True):
            label.set_fontweight("bold" if marked else "normal")
        return figure

    def _draw_one(self, axes: Axes, place: int) -> None:
        colour = self.colours[place] if self.colours else EARNED if self.marked[place] else MUTED
        ends = [self.low[place], self.high[place]]
        if np.isfinite(ends).all():
            axes.plot(ends, [place, place], color=colour, linewidth=3, alpha=0.55, solid_capstyle="butt")
        axes.plot(self.values[place], place, marker="o", color=colour, markersize=6, linestyle="none")


def draw_verdict(judged: Judged) -> Figure:
    """Draw what was promised above what came of it."""
    row = judged.audit.summary.iloc[0]
    half = row["half_width"]
    names = ["promised", "earned"] if judged.sense == "max" else ["promised", "cost"]
    return Dots(
        names,
        np.array([row["promise"], row["realised"]]),
        np.array([row["low"], row["realised"] - half]),
        np.array([row["high"], row["realised"] + half]),
        f"Promise and {judged.what}",
        np.array([False, True]),
        colours=[PROMISED, EARNED],
    ).draw()


def draw_lift(audit: Audit) -> Figure:
    """Draw the gain over each rival, the strongest first."""
    frame = audit.lift.sort_values("gain", kind="stable")
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    names = frame["rival"].tolist()
    return Dots(names, frame["gain"].to_numpy(), low, high, "Gain over each rival", low > 0, zero=True).draw()


def draw_leaderboard(frame: pd.DataFrame, what: str) -> Figure:
    """Draw every candidate's payoff out of fold, the best first."""
    known = frame[frame["realised"].notna()]
    names = known["candidate"].tolist()
    payoff, low, high = (known[name].to_numpy() for name in ("realised", "low", "high"))
    decides = known["chosen"].to_numpy().astype(bool)
    return Dots(names, payoff, low, high, f"Mean {what} of each candidate, out of fold", decides).draw()


def draw_validation(frame: pd.DataFrame, what: str) -> Figure:
    """Draw how far it paid to correct: what was realised over rounds, for each shrinkage."""
    figure = new_figure(_WIDTH, 2.8)
    axes = figure.subplots()
    start = frame[frame["rounds"] == 0]
    for number, (shrinkage, of) in enumerate(frame[frame["rounds"] > 0].groupby("shrinkage")):
        line = pd.concat([start, of])
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(line["rounds"], line["realised"], color=colour, marker="o", markersize=3, label=f"{shrinkage:,g}")
    chosen = frame[frame["chosen"]]
    axes.plot(chosen["rounds"], chosen["realised"], "o", color=INK, markersize=8, fillstyle="none", label="chosen")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("rounds")
    _set_title(figure, f"Mean {what} out of fold, by shrinkage")
    figure.legend(loc="outside lower left", ncols=4)
    return figure


def draw_gaps(audit: Audit) -> Figure:
    """Draw by how much the promise was too high where each one was followed."""
    frame = audit.by_choice
    low, high = frame["low"].to_numpy(), frame["high"].to_numpy()
    off = (low > 0) | (high < 0)
    names, colours = frame["chosen"].tolist(), [COLOURS[2] if each else EARNED for each in off]
    title = "Promised − realised, by whom was followed"
    return Dots(names, frame["gap"].to_numpy(), low, high, title, off, zero=True, colours=colours).draw()


def draw_blocks(blocks: Blocks, what: str) -> Figure:
    """Draw what was promised and realised over time."""
    figure = new_figure(_WIDTH, 2.8)
    axes = figure.subplots()
    at = blocks.middle.to_numpy()
    if blocks.judged:
        axes.fill_between(at, blocks.low, blocks.high, color=PROMISED, alpha=_BAND, linewidth=0, label="promised, 95 %")
    axes.plot(at, blocks.promised, color=PROMISED, linestyle="--", label="promised")
    half = np.nan_to_num(blocks.half_width)
    axes.vlines(at, blocks.realised - half, blocks.realised + half, color=EARNED, alpha=0.45, linewidth=1.5)
    axes.plot(at, blocks.realised, color=EARNED, marker="o", markersize=4.5, linewidth=1.2, label="realised, 95 %")
    out = blocks.outside
    if out.size:
        axes.plot(
            at[out], blocks.realised[out], "o", color=COLOURS[2], markersize=7, zorder=5, label="outside the limits"
        )
    _set_time(axes, blocks)
    _set_title(figure, f"Mean {what}, block by block")
    figure.legend(loc="outside lower left", ncols=2)
    return figure


def _set_time(axes: Axes, blocks: Blocks) -> None:
    if isinstance(blocks.start, pd.DatetimeIndex):
        locator = AutoDateLocator(minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.set_xlabel("time" if blocks.is_time else "row")


def _set_title(figure: Figure, title: str) -> None:
    """Begin at the edge: names beside an axis may be long."""
    figure.suptitle(title, x=0.01, horizontalalignment="left", color=INK, fontsize=10, fontweight="bold")


def draw_profile(profile: Profile, coordinates: Sequence[str]) -> Figure:
    """Draw how often each coordinate was at its bounds, and where in between."""
    names = [short(coordinates[j]) for j in profile.shown]
    figure = new_figure(_WIDTH, 1.15 + 0.19 * len(names))
    axes = figure.subplots()
    shades = LinearSegmentedColormap.from_list("share", [(*_rgb(EARNED), 0.0), (*_rgb(EARNED), 1.0)])
    mesh = axes.pcolormesh(profile.shares, cmap=shades, vmin=0, vmax=1, edgecolors=MUTED, linewidth=0.2)
    axes.set_yticks(np.arange(len(names)) + 0.5, names)
    axes.invert_yaxis()
    axes.set_xticks([0.5, 1 + LEVELS / 2, LEVELS + 1.5], ["at lower", "in between", "at upper"])
    axes.tick_params(length=0)
    axes.grid(visible=False)
    _set_title(figure, "Where actions lie: share of rows")
    for edge in (1, LEVELS + 1):
        axes.axvline(edge, color=INK, linewidth=1)
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, format="{x:.0%}", aspect=18, shrink=0.7, anchor=(0, 1))
    bar.outline.set_edgecolor(MUTED)
    return figure


def _rgb(colour: str) -> tuple[float, ...]:
    return tuple(int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))


def short(name: str) -> str:
    """Return a name that fits beside an axis, without what cannot be printed."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"
