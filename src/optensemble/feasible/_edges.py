"""Edges as users give them: pairs of named nodes, and the numbers of these."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from optensemble._core.arrays import Indices
from optensemble.exceptions import EmptySetError, InputError


def number_nodes(edges: Any) -> tuple[dict[Hashable, int], Indices]:
    """Return the number of every node, in the order in which the edges name them, and the edges in these numbers.

    >>> number_nodes([("home", "lake"), ("lake", "work")])[0]
    {'home': 0, 'lake': 1, 'work': 2}
    """
    pairs = edges.tolist() if isinstance(edges, np.ndarray) else list(edges) if isinstance(edges, Iterable) else None
    if pairs is None or isinstance(edges, str):
        raise InputError(f"edges must be a list of pairs, an array of shape (edges, 2) or a graph; got {edges!r}.")
    if not pairs:
        raise EmptySetError("the list of edges is empty. Give at least one edge, as a pair (tail, head).")
    numbers: dict[Hashable, int] = {}
    ends = np.empty((len(pairs), 2), dtype=np.int64)
    for j, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise InputError(f"every edge must be a pair (tail, head); edge {j} is {pair!r}.")
        for end, node in enumerate(pair):
            _require_name(node, f"a node of edge {j}")
            ends[j, end] = numbers.setdefault(node, len(numbers))
    return numbers, ends


def read_numbered(edges: Any, nodes: Any) -> tuple[dict[Hashable, int], Indices]:
    """Return the same of edges that are pairs of numbers of the given nodes."""
    names = [as_name(node) for node in nodes] if isinstance(nodes, (list, tuple)) else []
    for node in names:
        _require_name(node, "a node")
    numbers, (_, ends) = {node: number for number, node in enumerate(names)}, number_nodes(edges)
    if len(numbers) < len(names):
        raise InputError("nodes must be distinct; some is given twice.")
    pairs = np.asarray(edges)
    if pairs.dtype.kind not in "iu" or pairs.shape != ends.shape or pairs.min() < 0 or pairs.max() >= len(numbers):
        raise InputError(f"edges must be pairs of numbers of the {len(numbers)} nodes, from 0, if nodes are given.")
    return numbers, pairs.astype(np.int64)


def find_node(node: Any, name: str, numbers: Mapping[Hashable, int]) -> int:
    """Return the number of the source or the target."""
    _require_name(node, f"the {name}")
    if node not in numbers:
        first = ", ".join(repr(known) for known in list(numbers)[:5])
        raise InputError(f"the {name} {node!r} is no end of an edge. The {len(numbers)} nodes begin with {first}.")
    return numbers[node]


def is_plain(node: Any) -> bool:
    """Return whether the name of a node, or another label, can be saved: numbers, text, and tuples of these."""
    return all(map(is_plain, node)) if isinstance(node, tuple) else isinstance(node, (str, int, float, np.number))


def as_name(node: Any) -> Any:
    """Return the name of a node that may come from a file, where tuples are lists."""
    return tuple(map(as_name, node)) if isinstance(node, list) else node


def _require_name(node: Any, what: str) -> None:
    try:
        hash(node)
        usable = node == node
    except TypeError:
        usable = False
    if not usable:
        raise InputError(f"{what} must be a number, a string or a tuple of such; got {node!r}.")
