"""Figures of experiments in a page: panels that the page arranges by its width, a legend, and a caption."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.experiments.figures import Drawn, ExperimentFigure, LineStyle, draw_panel
from optensemble.report.drawing import BAND_OPACITY, INK, inline_svg, style
from optensemble.report.html import Html, element

_SVG_DASHES = {"-": "none", "--": "6 3", ":": "2 2.5"}
_SVG_MARKERS = {"o": "M 11,4 a 2,2 0 1 0 4,0 a 2,2 0 1 0 -4,0", "x": "M 11,2 l 4,4 m 0,-4 l -4,4"}


def figure_element(figure: ExperimentFigure[Drawn], outcomes: Sequence[Drawn]) -> Html:
    """Return a figure with its legend and caption, and a panel for each experiment."""
    with style():
        panels = [
            inline_svg(draw_panel(figure, outcome), f"{figure.name}-{outcome.name}", f"{figure.title}: {outcome.name}")
            for outcome in outcomes
        ]
    legend = [element("li", _line_sample(line), line.label) for line in figure.lines]
    return element(
        "figure",
        element("h3", figure.title),
        element("ul", *legend, class_="legend") if legend else Html(""),
        element("div", *map(Html, panels), class_="panels"),
        element("figcaption", figure.caption),
        id=f"figure-{figure.name}",
    )


def _line_sample(look: LineStyle) -> Html:
    colour = "currentColor" if look.colour == INK else look.colour
    line = element(
        "line",
        x1="0",
        y1="4",
        x2="26",
        y2="4",
        stroke=colour,
        stroke_width=f"{1.25 * look.width:g}",
        stroke_dasharray=_SVG_DASHES[look.dashes],
    )
    opacity = str(BAND_OPACITY)
    band = element("rect", width="26", height="8", fill=colour, fill_opacity=opacity) if look.band else Html("")
    marker = element("path", d=_SVG_MARKERS[look.marker], stroke=colour, fill=colour) if look.marker else Html("")
    return element("svg", band, line, marker, viewBox="0 0 26 8", aria_hidden="true")
