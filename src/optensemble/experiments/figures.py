"""The paper's figures, drawn from a run, with a panel for each experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from optensemble.experiments.outcome import (
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
    Outcome,
)
from optensemble.experiments.settings import DESIGNS
from optensemble.report.drawing import BAND_OPACITY, COLOURS, INK, MUTED, new_figure, png, style, svg

PANEL_WIDTH, PANEL_HEIGHT = 4.6, 3.1
_MARKER_SIZE = 3.5  # points
_PAGE_PANEL = (4.0, 2.8)  # inches: wider panels have type too small to read on a phone


@dataclass(frozen=True)
class LineStyle:
    """Look and label of a line; ``band`` is whether its interval is drawn around it, ``marker`` marks its points."""

    label: str
    colour: str
    dashes: str = "-"
    width: float = 1.6
    band: bool = False
    marker: str = ""

    def options(self) -> dict[str, Any]:
        """Return the arguments for matplotlib."""
        marked = {"marker": self.marker, "markersize": _MARKER_SIZE} if self.marker else {}
        return {"color": self.colour, "linestyle": self.dashes, "linewidth": self.width, **marked}

    def handle(self) -> Any:
        """Return the handle for a legend."""
        line = Line2D([], [], **self.options())
        return (Patch(color=self.colour, alpha=BAND_OPACITY, linewidth=0), line) if self.band else line


COLOUR_OF = {WHITE_BOX_ENSEMBLE: COLOURS[0], BLACK_BOX_ENSEMBLE: COLOURS[1], DECISION_ENSEMBLE: COLOURS[3]}
REFERENCE_LINES = (
    LineStyle(FORESIGHT, INK, ":"),
    LineStyle(RIDGE_STACKING, COLOURS[2], ":"),
    LineStyle(BEST_INITIAL, COLOURS[4], ":"),
)
ENSEMBLE_LINES = tuple(
    LineStyle(f"{name}, {what}", colour, dashes)
    for name, colour in COLOUR_OF.items()
    if name != DECISION_ENSEMBLE
    for what, dashes in (("promised", "--"), ("realised", "-"))
)
DECISION_LINES = (
    LineStyle(f"{DECISION_ENSEMBLE}, promised (95 %)", COLOUR_OF[DECISION_ENSEMBLE], "--", band=True),
    # wide, to be seen below a line that coincides with it
    LineStyle(f"{DECISION_ENSEMBLE}, realised", COLOUR_OF[DECISION_ENSEMBLE], width=3.0),
)


class Drawable(Protocol):
    """What a panel shows: something about one experiment."""

    @property
    def name(self) -> str:
        """The name of the experiment."""


Drawn = TypeVar("Drawn", bound=Drawable)


@dataclass(frozen=True)
class ExperimentFigure(Generic[Drawn]):
    """A figure: its file name, title and caption, the function that draws a panel, and its legend."""

    name: str
    title: str
    caption: str
    draw: Callable[[Axes, Drawn], None]
    lines: tuple[LineStyle, ...] = ()
    legend_columns: int = 4


def experiment_figures(outcomes: Sequence[Outcome]) -> list[ExperimentFigure[Outcome]]:
    """Return the figures of a run."""
    most = max(len(outcome.members) for outcome in outcomes)
    members = tuple(LineStyle(f"member {i}", COLOURS[i % len(COLOURS)]) for i in range(most))
    return [
        ExperimentFigure(
            "payoffs",
            "Payoff over rounds, in sample",
            "The paper's main figure. Dashed lines are promised, solid lines realised payoffs: the closer they are, "
            "the more accurate the promise. Where a solid line meets foresight, nothing is left to gain.",
            lambda axes, outcome: _draw_payoffs(axes, outcome, IN_SAMPLE),
            (*ENSEMBLE_LINES, *REFERENCE_LINES),
        ),
        ExperimentFigure(
            "payoffs_fresh",
            "Payoff over rounds, on fresh rows, with DecisionEnsemble",
            "The same corrections, applied to rows of the same distribution that had no part in them. The distance "
            "between dashed and solid is the error of the promise; dashed above solid is payoff that was promised but "
            "not realised. DecisionEnsemble takes no rounds, so its lines are level; the band is its promised "
            "interval.",
            _draw_fresh,
            (*REFERENCE_LINES, *ENSEMBLE_LINES, *DECISION_LINES),
        ),
        ExperimentFigure(
            "members",
            "Payoff of each white-box member alone, in sample",
            "Each member is corrected separately: the lines show whether members improve, and whether they become "
            "alike.",
            lambda axes, outcome: _draw_members(axes, outcome, IN_SAMPLE),
            (*members, REFERENCE_LINES[0]),
        ),
        ExperimentFigure(
            "members_fresh",
            "Payoff of each white-box member alone, on fresh rows",
            "The same members with the same corrections, on the fresh rows.",
            lambda axes, outcome: _draw_members(axes, outcome, FRESH),
            (*members, REFERENCE_LINES[0]),
        ),
        ExperimentFigure(
            "choices",
            "Members that white box follows",
            "The share of in-sample rows for which each member has the highest self-assessment. Ties go to the first "
            "member, for example where every member would do nothing.",
            _draw_choices,
        ),
        ExperimentFigure(
            "disagreement",
            "Disagreement between white-box members",
            "The variance between the members' actions, averaged over coordinates, in sample. In each round the rows "
            "are sorted, with the largest disagreement on top.",
            _draw_disagreement,
        ),
    ]


def draw_grid(picture: ExperimentFigure[Drawn], outcomes: Sequence[Drawn]) -> Figure:
    """Draw all experiments, two side by side, with one legend."""
    columns = min(2, len(outcomes))
    rows = -(-len(outcomes) // columns)
    legend, labels = [line.handle() for line in picture.lines], [line.label for line in picture.lines]
    beside = min(2 * columns, picture.legend_columns)
    lines = -(-len(legend) // beside)
    figure = new_figure(PANEL_WIDTH * columns, PANEL_HEIGHT * rows + 0.22 * lines + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(outcomes) :]:
        axes.remove()
    for axes, outcome in zip(grid.flat, outcomes, strict=False):
        _draw_titled(picture, axes, outcome)
    figure.suptitle(picture.title, color=INK, fontsize=11, fontweight="bold")
    if legend:
        figure.legend(legend, labels, loc="outside lower center", ncols=min(beside, len(legend)))
    return figure


def draw_panel(picture: ExperimentFigure[Drawn], outcome: Drawn) -> Figure:
    """Draw one experiment alone, for a page that arranges panels by its width."""
    figure = new_figure(*_PAGE_PANEL)
    _draw_titled(picture, figure.subplots(), outcome)
    return figure


def _draw_titled(picture: ExperimentFigure[Drawn], axes: Axes, outcome: Drawn) -> None:
    picture.draw(axes, outcome)
    axes.set_title(f"{outcome.name}: {DESIGNS[outcome.name]}")


def draw_files(outcomes: Sequence[Outcome]) -> Iterator[tuple[float, str, bytes]]:
    """Draw every figure; yield the share done, a file name and its content."""
    drawn = experiment_figures(outcomes)
    for number, picture in enumerate(drawn):
        for name, content in figure_files(picture, outcomes).items():
            yield (number + 1) / len(drawn), name, content


def figure_files(picture: ExperimentFigure[Drawn], outcomes: Sequence[Drawn]) -> dict[str, bytes]:
    """Draw a figure, and return its files."""
    with style():
        figure = draw_grid(picture, outcomes)
        return {f"{picture.name}.png": png(figure), f"{picture.name}.svg": svg(figure)}


def _draw_payoffs(axes: Axes, outcome: Outcome, where: str) -> None:
    curves = outcome.curves[where]
    for line in REFERENCE_LINES:
        axes.axhline(outcome.payoff(where, line.label).realised, **line.options())
    for line in ENSEMBLE_LINES:
        axes.plot(curves["round"], curves[line.label], **line.options())
    levels = [outcome.payoff(kind, line.label).realised for kind in outcome.curves for line in REFERENCE_LINES]
    _share_range(axes, outcome, [line.label for line in ENSEMBLE_LINES], [*levels, *_decision_levels(outcome)])
    _label_axes(axes, outcome, "payoff")


def _draw_fresh(axes: Axes, outcome: Outcome) -> None:
    """Draw DecisionEnsemble first, so that lines that coincide with it lie on top."""
    promised, realised, low, high = _decision_levels(outcome)
    axes.axhspan(low, high, color=COLOUR_OF[DECISION_ENSEMBLE], alpha=BAND_OPACITY, linewidth=0)
    for line, level in zip(DECISION_LINES, (promised, realised), strict=True):
        axes.axhline(level, **line.options())
    _draw_payoffs(axes, outcome, FRESH)


def _decision_levels(outcome: Outcome) -> list[float]:
    payoff, audit = outcome.payoff(FRESH, DECISION_ENSEMBLE), outcome.audit
    return [payoff.promised, payoff.realised, audit.low, audit.high]


def _draw_members(axes: Axes, outcome: Outcome, where: str) -> None:
    curves = outcome.curves[where]
    axes.axhline(outcome.payoff(where, FORESIGHT).realised, **REFERENCE_LINES[0].options())
    for i, member in enumerate(outcome.members):
        axes.plot(curves["round"], curves[f"{member}, realised"], color=COLOURS[i % len(COLOURS)], linewidth=1.2)
    levels = [outcome.payoff(kind, FORESIGHT).realised for kind in outcome.curves]
    _share_range(axes, outcome, [f"{member}, realised" for member in outcome.members], levels)
    _label_axes(axes, outcome, "payoff")


def _share_range(axes: Axes, outcome: Outcome, columns: list[str], levels: list[float]) -> None:
    """Give a panel the same range in sample and on fresh rows, because they are compared."""
    values = np.concatenate([levels, *(curves[columns].to_numpy().ravel() for curves in outcome.curves.values())])
    margin = 0.05 * (values.max() - values.min())
    axes.set_ylim(values.min() - margin, values.max() + margin)


def _draw_choices(axes: Axes, outcome: Outcome) -> None:
    curves = outcome.curves[IN_SAMPLE]
    shares = curves[[f"{member}, chosen" for member in outcome.members]].to_numpy().T
    _draw_heatmap(axes, outcome, shares, "share of rows", vmin=0, vmax=1)
    axes.set_yticks(np.arange(len(outcome.members)) + 0.5, outcome.members)


def _draw_disagreement(axes: Axes, outcome: Outcome) -> None:
    _draw_heatmap(axes, outcome, outcome.disagreement.T, "variance", norm=PowerNorm(0.5, vmin=0))
    axes.set_yticks([])
    axes.set_ylabel("rows, sorted")


def _draw_heatmap(axes: Axes, outcome: Outcome, values: Any, what: str, **options: Any) -> None:
    last = outcome.curves[IN_SAMPLE]["round"].iloc[-1]
    extent = (0, last, 0, len(values))
    image = axes.imshow(
        values, origin="lower", aspect="auto", extent=extent, interpolation="nearest", cmap="viridis", **options
    )
    bar = axes.figure.colorbar(image, ax=axes, label=what, pad=0.02)
    bar.outline.set_edgecolor(MUTED)
    axes.grid(visible=False)
    _label_axes(axes, outcome, "")


def _label_axes(axes: Axes, outcome: Outcome, what: str) -> None:
    axes.set_xlim(0, outcome.curves[IN_SAMPLE]["round"].iloc[-1])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("rounds of debiasing")
    axes.set_ylabel(what)
