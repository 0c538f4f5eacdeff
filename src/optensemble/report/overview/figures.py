"""Pictures of single decisions: a bar for each coordinate, or the path on its graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optensemble._core.arrays import Floats, Indices
from optensemble._core.number_format import column_decimals, format_number, format_percent
from optensemble.feasible.shortest_path import ShortestPath
from optensemble.report.drawing import COLOURS, INK, MUTED, new_figure
from optensemble.report.figures import axis_name
from optensemble.report.overview.graph_layout import place_nodes
from optensemble.report.overview.typical import TypicalDecision

ACTION_COLOUR = COLOURS[1]

MOST_LINES = 12
"""Coordinates at most that have a line each; more stand side by side."""

MOST_COLUMNS = 60
"""Coordinates at most that stand side by side; of more, the largest have a line each."""

MOST_NODES = 150
"""Nodes at most of a graph that is drawn; of larger ones, the edges of the path have a line each."""

_WIDTH = 3.4  # inches: three side by side, with type that can be read
_HEIGHT = 2.3
_LONGEST_NODE_NAME = 10


def draws_graph(decision: TypicalDecision) -> bool:
    """Return whether a decision is drawn as a path on its graph."""
    graph = decision.path_set
    return graph is not None and len(graph.nodes) <= MOST_NODES


def draw_decision(decision: TypicalDecision, coordinates: Sequence[str]) -> Figure:
    """Draw what was decided in one row; names without what all of them begin with."""
    coordinates = short_names(coordinates)
    graph = decision.path_set
    if graph is not None and draws_graph(decision):
        return draw_path(graph, decision.action)
    if MOST_LINES < len(decision.action) <= MOST_COLUMNS and graph is None:
        return _draw_columns(decision.action, coordinates)
    return _draw_lines(decision, coordinates)


def short_names(names: Sequence[str]) -> list[str]:
    """Return names without the beginning that all of them share, up to a character that is no letter or digit.

    >>> short_names(["price_00", "price_01"]), short_names(["north", "northwest"]), short_names(["alone_1"])
    (['00', '01'], ['north', 'northwest'], ['alone_1'])
    """
    first, last = min(names), max(names)  # what these two share, all in between do
    shared = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
    cut = max((place + 1 for place, letter in enumerate(first[:shared]) if not letter.isalnum()), default=0)
    return [name[cut:] for name in names] if all(name[cut:] for name in names) else list(names)


def shown_lines(decision: TypicalDecision) -> Indices:
    """Return the coordinates that have a line each: all of them, or the largest."""
    size = np.abs(decision.action)
    if len(size) <= MOST_LINES:
        return np.arange(len(size))
    largest = np.argsort(-size, kind="stable")[:MOST_LINES]
    return np.sort(largest[size[largest] > 0])


def _draw_lines(decision: TypicalDecision, coordinates: Sequence[str]) -> Figure:
    shown = shown_lines(decision)
    values = decision.action[shown]
    figure = new_figure(_WIDTH, max(1.0, 0.45 + 0.23 * len(shown)))
    axes = figure.subplots()
    axes.barh(range(len(shown)), values, color=ACTION_COLOUR, height=0.7)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(shown)), [axis_name(coordinates[j]) for j in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xticks([])
    axes.spines[["bottom", "left"]].set_visible(False)
    _write_values(axes, values, _value_texts(decision, values))
    return figure


def _value_texts(decision: TypicalDecision, values: Floats) -> list[str]:
    if decision.is_share:
        whole = float(decision.action.sum())
        return [format_percent(max(value / whole, 0.0)) for value in values.tolist()]
    return [format_number(value, _decimals(values)) for value in values.tolist()]


def _decimals(values: Floats) -> int:
    """Return the fewest decimals that show each number to half a percent of the largest."""
    enough = column_decimals(values)
    close = 0.005 * float(np.abs(values).max(initial=0.0))
    return next((few for few in range(enough) if np.abs(values - values.round(few)).max() <= close), enough)


def _write_values(axes: Axes, values: Floats, texts: Sequence[str]) -> None:
    """Write each number at the end of its bar, with room for it."""
    low, high = min(float(values.min(initial=0.0)), 0.0), max(float(values.max(initial=0.0)), 0.0)
    room = 0.22 * ((high - low) or 1.0)
    axes.set_xlim(low - (room if low < 0 else 0.0), high + room)
    for place, (value, text) in enumerate(zip(values.tolist(), texts, strict=True)):
        side, gap = ("right", -3) if value < 0 else ("left", 3)
        axes.annotate(
            text, (value, place), xytext=(gap, 0), textcoords="offset points", ha=side, va="center", color=INK
        )


def _draw_columns(action: Floats, coordinates: Sequence[str]) -> Figure:
    figure = new_figure(_WIDTH, 2.0)
    axes = figure.subplots()
    axes.bar(range(len(action)), action, color=ACTION_COLOUR, width=0.8)
    axes.axhline(0, color=INK, linewidth=0.8)
    names = [axis_name(name) for name in coordinates]
    # as many names as have room beside each other, at six points a letter
    step = max(1, int(np.ceil(len(action) * (6.0 * max(map(len, names)) + 8) / (60 * _WIDTH))))
    shown = range(0, len(action), step)
    axes.set_xticks(list(shown), [names[j] for j in shown])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
    return figure


def draw_path(graph: ShortestPath, action: Floats) -> Figure:
    """Draw the path of an action on its graph: its edges thick, others thin, closed ones dotted."""
    places = place_nodes(graph)
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    taken = action > 0.5
    closed = np.zeros(len(action), dtype=bool) if graph.closed is None else graph.closed > 0.5
    for (tail, head), used, shut in zip(graph.edges, taken, closed, strict=True):
        ends = places[[tail, head]]
        colour, width, order = (ACTION_COLOUR, 3.5, 2) if used else (MUTED, 0.8, 1)
        line = ":" if shut and not used else "-"
        axes.plot(ends[:, 0], ends[:, 1], color=colour, linewidth=width, linestyle=line, zorder=order)
    on_path = np.unique(graph.edges[taken])
    axes.plot(*places.T, "o", color=MUTED, markersize=3, zorder=3)
    axes.plot(*places[on_path].T, "o", color=ACTION_COLOUR, markersize=5, zorder=4)
    _name_nodes(axes, graph, places, on_path)
    axes.margins(0.12)
    axes.set_axis_off()
    return figure


def _name_nodes(axes: Axes, graph: ShortestPath, places: Floats, on_path: Indices) -> None:
    """Name the nodes of the path, or its ends if they are many."""
    ends = [node for node in on_path if graph.nodes[node] in (graph.source, graph.target)]
    for node in on_path if len(on_path) <= MOST_LINES else ends:
        name = axis_name(str(graph.nodes[node]), _LONGEST_NODE_NAME)
        bold = "bold" if node in ends else "normal"
        x, y = places[node]
        axes.annotate(
            name, (x, y), xytext=(3, 5), textcoords="offset points", ha="left", color=INK, fontweight=bold, zorder=5
        )
