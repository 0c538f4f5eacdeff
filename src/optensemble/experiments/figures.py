"""The paper's figures, redrawn from a run: each has a panel for every experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from optensemble.experiments.outcome import BEST, BLACK, FORESIGHT, FRESH, HONEST, IN_SAMPLE, RIDGE, WHITE, Outcome
from optensemble.experiments.settings import DESIGNS
from optensemble.report.drawing import COLOURS, INK, MUTED, new_figure, png, style, svg

PANEL_WIDTH, PANEL_HEIGHT = 4.6, 3.1
_SMALL = (4.0, 2.8)  # a panel in a page: on a phone its type must not be too small to read


BAND = 0.2
"""How dense the colour of a band is."""


@dataclass(frozen=True)
class Stroke:
    """How a line is drawn, and what it means; around some there is a ``band``, the interval of the line."""

    label: str
    colour: str
    dashes: str = "-"
    width: float = 1.6
    band: bool = False

    def options(self) -> dict[str, Any]:
        """Return the arguments of matplotlib."""
        return {"color": self.colour, "linestyle": self.dashes, "linewidth": self.width}

    def handle(self) -> Any:
        """Return what stands in a legend."""
        line = Line2D([], [], **self.options())
        return (Patch(color=self.colour, alpha=BAND, linewidth=0), line) if self.band else line


COLOUR_OF = {WHITE: COLOURS[0], BLACK: COLOURS[1], HONEST: COLOURS[3]}
LEVELS = (
    Stroke(FORESIGHT, INK, ":"),
    Stroke(RIDGE, COLOURS[2], ":"),
    Stroke(BEST, COLOURS[4], ":"),
)
ENSEMBLES = tuple(
    Stroke(f"{name}, {what}", colour, dashes)
    for name, colour in COLOUR_OF.items()
    if name != HONEST
    for what, dashes in (("promised", "--"), ("realised", "-"))
)
ANSWER = (
    Stroke(f"{HONEST}, promised (95 %)", COLOUR_OF[HONEST], "--", band=True),
    Stroke(f"{HONEST}, realised", COLOUR_OF[HONEST], width=3.0),  # to be seen below a line on top of it
)


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name, title and caption, how a panel is drawn, and what its lines mean."""

    name: str
    title: str
    caption: str
    draw: Callable[[Axes, Outcome], None]
    strokes: tuple[Stroke, ...] = ()


def pictures(outcomes: Sequence[Outcome]) -> list[Picture]:
    """Return the figures of a run."""
    most = max(len(outcome.members) for outcome in outcomes)
    members = tuple(Stroke(f"member {i}", COLOURS[i % len(COLOURS)]) for i in range(most))
    return [
        Picture(
            "payoffs",
            "Payoff over rounds, on the rows debiased on",
            "The paper's main figure. Dashed is what an ensemble promises, solid what it earns; the closer, the more "
            "honest. Where the solid line meets foresight nothing is left to gain.",
            lambda axes, outcome: _draw_payoffs(axes, outcome, IN_SAMPLE),
            (*ENSEMBLES, *LEVELS),
        ),
        Picture(
            "payoffs_fresh",
            "The same ensembles on fresh rows, and DecisionEnsemble beside them",
            "The same corrections made on rows of the same distribution that had no part in them. The distance between "
            "dashed and solid is by how much a promise was wrong; dashed above solid is money that never came. "
            "DecisionEnsemble takes no rounds, so its lines are level; the band is the interval that it promised its "
            "payoff to lie in.",
            _draw_fresh,
            (*LEVELS, *ENSEMBLES, *ANSWER),
        ),
        Picture(
            "members",
            "What each member of white box would earn alone, on the rows debiased on",
            "Every member is corrected on its own: does it learn, and do they end apart or together?",
            lambda axes, outcome: _draw_members(axes, outcome, IN_SAMPLE),
            (*members, LEVELS[0]),
        ),
        Picture(
            "members_fresh",
            "What each member of white box would earn alone, on fresh rows",
            "The same members, with the same corrections, on the fresh rows.",
            lambda axes, outcome: _draw_members(axes, outcome, FRESH),
            (*members, LEVELS[0]),
        ),
        Picture(
            "choices",
            "Whom white box follows",
            "The share of the rows debiased on for which each member has the highest self-assessment. Of members that "
            "promise the same the first is followed, as where doing nothing is best and all promise nothing.",
            _draw_choices,
        ),
        Picture(
            "disagreement",
            "How far white box's members are apart",
            "The variance between the members' actions, averaged over coordinates, on the rows debiased on. In each "
            "round the rows are sorted, those with most disagreement on top.",
            _draw_disagreement,
        ),
    ]


def whole(picture: Picture, outcomes: Sequence[Outcome]) -> Figure:
    """Draw all experiments side by side, two in a row, with one legend."""
    columns = min(2, len(outcomes))
    rows = -(-len(outcomes) // columns)
    legend, labels = [stroke.handle() for stroke in picture.strokes], [stroke.label for stroke in picture.strokes]
    lines = -(-len(legend) // (2 * columns))
    figure = new_figure(PANEL_WIDTH * columns, PANEL_HEIGHT * rows + 0.22 * lines + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(outcomes) :]:
        axes.remove()
    for axes, outcome in zip(grid.flat, outcomes, strict=False):
        _draw(picture, axes, outcome)
    figure.suptitle(picture.title, color=INK, fontsize=11, fontweight="bold")
    if legend:
        figure.legend(legend, labels, loc="outside lower center", ncols=min(2 * columns, len(legend)))
    return figure


def panel(picture: Picture, outcome: Outcome) -> Figure:
    """Draw one experiment alone, for a page that puts panels where there is room."""
    figure = new_figure(*_SMALL)
    _draw(picture, figure.subplots(), outcome)
    return figure


def _draw(picture: Picture, axes: Axes, outcome: Outcome) -> None:
    picture.draw(axes, outcome)
    axes.set_title(f"{outcome.name}: {DESIGNS[outcome.name]}")


def draw_files(outcomes: Sequence[Outcome]) -> Iterator[tuple[float, str, bytes]]:
    """Draw every figure; yield what share is done, a file's name and its content."""
    drawn = pictures(outcomes)
    for number, picture in enumerate(drawn):
        with style():
            figure = whole(picture, outcomes)
            files = {f"{picture.name}.png": png(figure), f"{picture.name}.svg": svg(figure)}
        for name, content in files.items():
            yield (number + 1) / len(drawn), name, content


def _draw_payoffs(axes: Axes, outcome: Outcome, where: str) -> None:
    curves = outcome.curves[where]
    for stroke in LEVELS:
        axes.axhline(outcome.payoff(where, stroke.label).realised, **stroke.options())
    for stroke in ENSEMBLES:
        axes.plot(curves["round"], curves[stroke.label], **stroke.options())
    levels = [outcome.payoff(kind, stroke.label).realised for kind in outcome.curves for stroke in LEVELS]
    _share_range(axes, outcome, [stroke.label for stroke in ENSEMBLES], [*levels, *_levels_of_answer(outcome)])
    _label(axes, outcome, "payoff")


def _draw_fresh(axes: Axes, outcome: Outcome) -> None:
    """Draw the answer first, so that lines it coincides with lie on top of it."""
    promised, realised, low, high = _levels_of_answer(outcome)
    axes.axhspan(low, high, color=COLOUR_OF[HONEST], alpha=BAND, linewidth=0)
    for stroke, level in zip(ANSWER, (promised, realised), strict=True):
        axes.axhline(level, **stroke.options())
    _draw_payoffs(axes, outcome, FRESH)


def _levels_of_answer(outcome: Outcome) -> list[float]:
    line, judgement = outcome.payoff(FRESH, HONEST), outcome.judgement
    return [line.promised, line.realised, judgement.low, judgement.high]


def _draw_members(axes: Axes, outcome: Outcome, where: str) -> None:
    curves = outcome.curves[where]
    axes.axhline(outcome.payoff(where, FORESIGHT).realised, **LEVELS[0].options())
    for i, member in enumerate(outcome.members):
        axes.plot(curves["round"], curves[f"{member}, realised"], color=COLOURS[i % len(COLOURS)], linewidth=1.2)
    levels = [outcome.payoff(kind, FORESIGHT).realised for kind in outcome.curves]
    _share_range(axes, outcome, [f"{member}, realised" for member in outcome.members], levels)
    _label(axes, outcome, "payoff")


def _share_range(axes: Axes, outcome: Outcome, columns: list[str], levels: list[float]) -> None:
    """Give a panel the same range on the rows debiased on and on fresh ones: they are read side by side."""
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
    _label(axes, outcome, "")


def _label(axes: Axes, outcome: Outcome, what: str) -> None:
    axes.set_xlim(0, outcome.curves[IN_SAMPLE]["round"].iloc[-1])
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("rounds of debiasing")
    axes.set_ylabel(what)
