"""A legend beneath a picture: samples of its lines, areas and marks, with their names in the page's own type."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.lines import Line2D

from optensemble.report.drawing import INK
from optensemble.report.html import Html, element
from optensemble.report.live.panels import Legend

_DASHES = {"-": "none", "--": "6 3", ":": "2 2.5", "None": "none"}


def legend_element(axes: Axes, legend: Legend) -> Html:
    """Return what lines and areas are called, in the order of ``legend``; then the marks that it leaves out."""
    handles, labels = legend
    every = zip(*axes.get_legend_handles_labels(), strict=True)
    named = [*zip(handles, labels, strict=True), *((each, label) for each, label in every if label not in labels)]
    items = [element("li", _sample(handle), label) for handle, label in named]
    return element("ul", *items, class_="legend")


def _sample(handle: Any) -> Html:
    """Return how a line, a mark or an area looks."""
    if isinstance(handle, Line2D):
        mark, dashes = handle.get_marker() == "o", str(handle.get_linestyle())
        shape = element("circle", cx="13", cy="4", r="3.4", fill=_colour(handle.get_color())) if mark else Html("")
        line = Html("") if dashes == "None" else _line(_colour(handle.get_color()), dashes, handle.get_linewidth())
        return _framed(line, shape)
    if isinstance(handle, LineCollection):
        styles: Any = handle.get_linestyle()  # of each line, as an offset and a pattern
        ((_, pattern),) = styles
        dotted = pattern is not None
        looks = {"x1": "13", "x2": "13", "y1": "0", "y2": "8", "stroke_dasharray": _DASHES[":" if dotted else "-"]}
        return _framed(element("line", stroke=_colour(handle.get_edgecolor()[0]), stroke_width="1.4", **looks))
    colour = handle.get_facecolor()[0]
    area = {"width": "26", "height": "8", "fill": _colour(colour), "fill_opacity": f"{to_rgba(colour)[3]:g}"}
    return _framed(element("rect", **area))


def _line(colour: str, dashes: str, width: float) -> Html:
    ends = {"x1": "0", "y1": "4", "x2": "26", "y2": "4"}
    return element("line", stroke=colour, stroke_width=f"{1.25 * width:g}", stroke_dasharray=_DASHES[dashes], **ends)


def _framed(*shapes: Html) -> Html:
    return element("svg", *shapes, viewBox="0 0 26 8", aria_hidden="true")


def _colour(given: Any) -> str:
    """Return a colour; that of text is the page's own."""
    found = to_hex(given)
    return "currentColor" if found == INK else found
