"""Places for the nodes of a graph: by their names where these are coordinates, else in layers from a root."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible.shortest_path import ShortestPath


def place_nodes(graph: ShortestPath) -> Floats:
    """Return a place (x, y) for each node: where its name says, or by its distance from the source, on the left."""
    found = named_places(graph.nodes)
    if found is not None:
        return found
    root = graph.nodes.index(graph.source) if graph.source in graph.nodes else 0
    return layered_places(len(graph.nodes), graph.edges, root)


def named_places(nodes: Sequence[Any]) -> Floats | None:
    """Return the places that names tell, pairs of numbers or names such as B3; None if some tell none.

    >>> named_places(["A1", "B2"]).tolist(), named_places([(0, 1), (2, 3)]).tolist(), named_places(["home", "B2"])
    ([[0.0, -1.0], [1.0, -2.0]], [[1.0, -0.0], [3.0, -2.0]], None)
    """
    found = [_place_of_name(node) for node in nodes]
    places = [place for place in found if place is not None]
    return np.array(places, dtype=np.float64) if len(set(places)) == len(nodes) else None


def _place_of_name(node: Any) -> tuple[float, float] | None:
    if isinstance(node, tuple) and len(node) == 2 and all(isinstance(part, int | float) for part in node):
        return float(node[1]), -float(node[0])  # as rows and columns of a matrix
    crossing = re.fullmatch(r"([A-Z])(\d{1,3})", str(node))
    return None if crossing is None else (float(ord(crossing[1]) - ord("A")), -float(crossing[2]))


def layered_places(count: int, edges: Indices, root: int = 0) -> Floats:
    """Return places in layers: by the number of edges to the root, and within a layer near the neighbours before.

    >>> layered_places(4, np.array([[0, 1], [0, 2], [1, 3], [2, 3]])).tolist()
    [[0.0, 0.0], [1.0, 0.5], [1.0, -0.5], [2.0, 0.0]]
    """
    layers, height = _layers(count, edges, root), np.zeros(count)
    before = list[int]()
    for layer in range(int(layers.max(initial=0)) + 1):
        here = np.flatnonzero(layers == layer).tolist()
        centre = {node: _mean_height(node, before, edges, height) for node in here}
        here.sort(key=lambda node: (-centre[node], node))
        for place, node in enumerate(here):
            height[node] = (len(here) - 1) / 2 - place
        before = here
    return np.column_stack([layers, height])


def _mean_height(node: int, before: Sequence[int], edges: Indices, height: Floats) -> float:
    ends = np.concatenate([edges[edges[:, 0] == node, 1], edges[edges[:, 1] == node, 0]])
    known = height[ends[np.isin(ends, before)]]
    return float(known.mean()) if known.size else 0.0


def _layers(count: int, edges: Indices, root: int) -> Floats:
    """Return the number of edges from the root to each node; those out of reach come last."""
    layers = np.full(count, np.nan)
    layers[root] = 0
    for layer in range(count):
        reached = layers == layer
        touched = np.concatenate([edges[reached[edges[:, 0]], 1], edges[reached[edges[:, 1]], 0]])
        new = touched[np.isnan(layers[touched])]
        if not new.size:
            break
        layers[new] = layer + 1
    return np.where(np.isnan(layers), np.nanmax(layers) + 1, layers)
