"""Simple paths through a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, make_kernel
from optensemble.exceptions import EmptySetError, InfeasibleActionError, InputError
from optensemble.feasible._base import FeasibleSet, Unsolved, checks_actions
from optensemble.feasible._solvers.path_search import best_simple_paths
from optensemble.feasible._solvers.paths import best_forward_paths, follow_edges, pack_graph, unpack_graph

_QUICK = 20_000
"""Arcs that a search among other rows of a batch may look at, roughly: a hard row must not hold up the others."""

_PATIENT = 100_000_000
"""Arcs that the search of a hard row by itself may look at, roughly: half a second."""

_ARCS_AT_ONCE = 5_000_000
"""Arcs that a batch with cycles may look at, roughly, before it can be interrupted."""


@final
class ShortestPath(FeasibleSet):
    """The edges of one simple path from a source to a target: ``a[j]`` is 1 if the path uses edge ``j``, else 0.

    Like every set it maximises ``c·a``. A shortest path is wanted where the coefficients are negated costs, which is
    how an ensemble with ``sense="min"`` hands them over; in what follows an edge's length is its negated coefficient.

    Edges that lie on no way from the source to the target, edges back into the source or out of the target, and
    self-loops are never used, and their coefficients ignored. If what is left has no cycles, dynamic programming
    finds the best path, whatever the signs. Otherwise the algorithm of Bellman and Ford does, provided that no cycle
    has a negative length; an undirected edge of negative length is such a cycle, there and back. A row with a negative
    cycle is a hard problem: it is solved by branch and bound over simple paths, which takes microseconds where few
    lengths are negative, milliseconds for lengths of any sign on some 25 nodes, and is given up (a ``SolverError``,
    unless ``on_failure="fallback"``) after about half a second.

    Ties are broken along the path: from the source on it takes, at each node, the first edge in the order given with
    which a best path goes on. Lengths to the target are tied within 1e-12 of the row's largest coefficient, or of the
    most that the lengths along a best path can amount to if that is less: a prohibitive length does not blur the rest.

    Parameters
    ----------
    edges
        Pairs ``(tail, head)`` of nodes, which may be numbers, strings or tuples: a list, an array of shape
        (edges, 2), or a networkx graph, whose edges count in the order of ``list(graph.edges)``. Parallel edges are
        fine, each with a coordinate of its own.
    source, target
        The nodes where paths begin and end.
    directed
        Whether edges are used from tail to head only. An undirected networkx graph is never directed.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    nodes
        The nodes, in the order in which the edges name them.
    edges
        The edges as numbers of nodes, of shape (edges, 2).
    source, target, directed
        As given.

    Examples
    --------
    >>> roads = ShortestPath([("home", "hill"), ("home", "lake"), ("hill", "work"), ("lake", "work")], "home", "work")
    >>> costs = np.array([[3.0, 1.0, 1.0, 2.0]])
    >>> action = roads.argmax(-costs)
    >>> action
    array([[0., 1., 0., 1.]])
    >>> roads.path(action[0])
    ['home', 'lake', 'work']
    """

    def __init__(
        self,
        edges: Any,
        source: Hashable,
        target: Hashable,
        directed: bool = True,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        if not isinstance(directed, bool | np.bool_):
            raise InputError(f"directed must be True or False; got {directed!r}.")
        if hasattr(edges, "edges") and hasattr(edges, "is_directed"):  # as networkx graphs have
            directed = bool(directed and edges.is_directed())
            edges = [edge[:2] for edge in edges.edges]
        numbers, self.edges = _number_nodes(edges)
        self.nodes = list(numbers)
        self._ends = _find_node(source, "source", numbers), _find_node(target, "target", numbers)
        if self._ends[0] == self._ends[1]:
            raise InputError(f"the source and the target must differ; both are {source!r}.")
        self.source, self.target, self.directed = source, target, bool(directed)
        tail, head, edge = _useful_arcs(self.edges, *self._ends, self.directed)
        if not edge.size:
            raise EmptySetError(
                f"no path leads from the source {source!r} to the target {target!r}. Check the edges"
                + (", and their directions (directed=False uses them both ways)." if directed else ".")
            )
        self._set_bounds(0.0, np.isin(np.arange(len(self.edges)), edge).astype(float), len(self.edges))
        self._order, cyclic = _order_nodes(tail, head, self._ends[1])
        self._graph = pack_graph(self.directed, self._order, *self._ends, tail, head, edge)
        self._arcs = edge.size
        self.kernel = self._search(_QUICK) if cyclic else make_kernel(best_forward_paths, ints=[self._graph])
        self._set_failure(on_failure, fallback)

    def _search(self, effort: int) -> Kernel:
        """Return the kernel for graphs with cycles."""
        rows_at_once = min(max(_ARCS_AT_ONCE // (self._arcs * len(self._order)), 1), 256)
        limit = [effort // self._arcs]
        return make_kernel(best_simple_paths, ints=[limit, self._graph], rows_at_once=rows_at_once)

    def _argmax(self, coefficients: Floats) -> Floats:
        """Search longer, for rows that the kernel gave up."""
        kernel = self._search(_PATIENT)
        actions, status = np.empty_like(coefficients), np.zeros(len(coefficients), dtype=np.int64)
        for row in range(len(coefficients)):
            one = slice(row, row + 1)
            kernel(coefficients[one], False, actions[one], status[one])
            if status[row] and self.on_failure == "raise":
                break
        if status.any():
            raise Unsolved(actions, {int(row): self._diagnosis(1) for row in np.flatnonzero(status)})
        return actions

    def _diagnosis(self, status: int) -> str:
        return (
            "its coefficients make a cycle that gains. The best simple path is then a hard problem, and was not found "
            f"in {_PATIENT // self._arcs} steps of a search. Likely predicted costs turned negative: clip them at "
            "zero, use a graph without cycles, give on_failure='fallback' and an action as fallback=, or list the "
            "paths as Vertices."
        )

    def path(self, action: npt.ArrayLike) -> list[Hashable]:
        """Return the nodes that the path of one action passes, from the source to the target."""
        actions = self._as_batch(np.atleast_2d(np.asarray(action)), "the action")
        arcs = np.empty(len(self._order), dtype=np.int64)
        if len(actions) != 1 or self.violation(actions)[0] > self.tolerance:
            raise InfeasibleActionError(f"the action must be the edges of one path of this set; got {action!r}.")
        count = follow_edges(actions[0] > 0.5, self._graph, arcs)
        heads = unpack_graph(self._graph).head[arcs[:count]]
        return [self.source, *(self.nodes[self._order[node]] for node in heads)]

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest difference to the path that its entries above one half make.

        Where they make none (a gap, a fork, a cycle beside the path) it is the largest difference that some path
        could have: 1 for rows of zeros and ones.
        """
        arcs = np.empty(len(self._order), dtype=np.int64)
        used = np.ascontiguousarray(actions > 0.5)
        is_path = np.array([follow_edges(row, self._graph, arcs) > 0 for row in used], dtype=bool)
        off, on = np.abs(actions), np.abs(1.0 - actions)
        differences = np.where(is_path[:, None], np.where(used, on, off), np.maximum(on, off))
        largest: Floats = differences.max(axis=1)
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again, with numbers as the names of nodes."""
        return {
            "edges": self.edges.copy(),
            "source": self._ends[0],
            "target": self._ends[1],
            "directed": self.directed,
            **self._failure_spec(),
        }


def _number_nodes(edges: Any) -> tuple[dict[Hashable, int], Indices]:
    """Return the number of every node, in the order in which the edges name them, and the edges in these numbers."""
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


def _require_name(node: Any, what: str) -> None:
    try:
        hash(node)
        usable = node == node
    except TypeError:
        usable = False
    if not usable:
        raise InputError(f"{what} must be a number, a string or a tuple of such; got {node!r}.")


def _find_node(node: Hashable, name: str, numbers: dict[Hashable, int]) -> int:
    _require_name(node, f"the {name}")
    if node not in numbers:
        first = ", ".join(repr(known) for known in list(numbers)[:5])
        raise InputError(f"the {name} {node!r} is no end of an edge. The {len(numbers)} nodes begin with {first}.")
    return numbers[node]


def _useful_arcs(edges: Indices, source: int, target: int, directed: bool) -> tuple[Indices, Indices, Indices]:
    """Return tail, head and edge of every arc by which the target may be reached from the source."""
    tail, head = edges.T if directed else np.concatenate([edges, edges[:, ::-1]]).T
    edge = np.arange(len(tail)) % len(edges)
    useful = (tail != head) & (head != source) & (tail != target)
    nodes = int(edges.max()) + 1
    matrix = sparse.csr_array((np.ones(useful.sum()), (tail[useful], head[useful])), shape=(nodes, nodes))
    for ends, start, graph in ((tail, source, matrix), (head, target, matrix.T)):
        useful &= np.isin(ends, breadth_first_order(graph, start, return_predecessors=False))
    return tail[useful], head[useful], edge[useful]


def _order_nodes(tail: Indices, head: Indices, target: int) -> tuple[list[int], bool]:
    """Return the nodes, each after those that its arcs lead to, and whether cycles make that impossible."""
    onward: dict[int, list[int]] = {target: []}
    for v, w in zip(tail.tolist(), head.tolist(), strict=True):
        onward.setdefault(v, []).append(w)
    try:
        return list(TopologicalSorter(onward).static_order()), False
    except CycleError:
        return list(onward), True
