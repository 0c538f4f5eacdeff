"""Simple paths through a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import SHARED, Kernel, make_kernel
from optensemble.exceptions import EmptySetError, InfeasibleActionError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._binding import name_broken_bounds, name_fractions
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._edges import as_name, find_node, number_nodes, read_numbered
from optensemble.feasible._flags import as_flags, flag_faults
from optensemble.feasible._nearest_whole import nearest_of_zeros_and_ones
from optensemble.feasible._row_parameters import RowParameter, from_rows, row_parameters
from optensemble.feasible._solvers.networks import pack_graph, pack_network, packed_edges
from optensemble.feasible._solvers.path_checks import are_paths, nodes_on_path, usable_edges
from optensemble.feasible._solvers.path_search import best_simple_paths
from optensemble.feasible._solvers.paths import NO_PATH, best_forward_paths
from optensemble.feasible._solvers.paths_by_row import best_paths_by_row

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

    A closed edge is never used, and its coefficient ignored; edges that closings alone cut off count for the tolerance
    of ties still. A row whose open edges do not lead from its source to its target cannot be solved.

    Parameters
    ----------
    edges
        Pairs ``(tail, head)`` of nodes, which may be numbers, strings or tuples: a list, an array of shape
        (edges, 2), or a networkx graph, whose edges count in the order of ``list(graph.edges)``. Parallel edges are
        fine, each with a coordinate of its own.
    source, target
        The nodes where paths begin and end; by row as ``Columns``, or a callable of X, that give nodes.
    directed
        Whether edges are used from tail to head only. An undirected networkx graph is never directed.
    on_failure, fallback
        What to do with a row that cannot be solved: "raise" an error, or take the "fallback" action and warn.
    closed
        Edges that may not be used: a 1, or True, for each of them and a 0 for the others, or by row.
    nodes
        The nodes by their numbers from 0, where the edges are pairs of such numbers: as ``spec`` has them.

    Attributes
    ----------
    nodes
        The nodes, in the order in which the edges name them.
    edges
        The edges as numbers of nodes, of shape (edges, 2).
    source, target, directed
        As given; None for ends that come from the row.
    closed
        Zeros and ones, one for each edge; None if no edge is closed, or if they come from the row.

    Examples
    --------
    >>> roads = ShortestPath([("home", "hill"), ("home", "lake"), ("hill", "work"), ("lake", "work")], "home", "work")
    >>> costs = np.array([[3.0, 1.0, 1.0, 2.0]])
    >>> action = roads.argmax(-costs)
    >>> action
    array([[0., 1., 0., 1.]])
    >>> roads.path(action[0])
    ['home', 'lake', 'work']

    Every trip has its own ends, and finds other roads closed:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> edges = [("home", "hill"), ("home", "lake"), ("hill", "work"), ("lake", "work")]
    >>> trips = pd.DataFrame({"from": ["home", "lake"], "c_0": [0, 1], "c_1": [1, 1], "c_2": [0, 0], "c_3": [0, 0]})
    >>> roads = ShortestPath(edges, source=Columns("from"), target="work", closed=Columns("c_*")).for_rows(trips)
    >>> actions = roads.argmax(-np.repeat(costs, 2, axis=0))
    >>> [roads.take([row]).path(action) for row, action in enumerate(actions)]
    [['home', 'hill', 'work'], ['lake', 'work']]
    """

    def __init__(
        self,
        edges: Any,
        source: Any,
        target: Any,
        directed: bool = True,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
        *,
        closed: Any = None,
        nodes: Sequence[Any] | None = None,
    ) -> None:
        if not isinstance(directed, bool | np.bool_):
            raise InputError(f"directed must be True or False; got {directed!r}.")
        if hasattr(edges, "edges") and hasattr(edges, "is_directed"):  # as networkx graphs have
            directed = bool(directed and edges.is_directed())
            edges = [edge[:2] for edge in edges.edges]
        self._numbers, self.edges = number_nodes(edges) if nodes is None else read_numbered(edges, nodes)
        self.nodes, self.directed, self.dimension = list(self._numbers), bool(directed), len(self.edges)
        self._network = pack_network(self.directed, len(self.nodes), self.edges)
        self._set_ends(*((source, target) if nodes is None else map(as_name, (source, target))))
        self.parameters += row_parameters(closed=(closed, (self.dimension,)))
        self.closed: Floats | None = None
        if closed is not None and not from_rows(closed):
            self.closed = as_flags(closed, "closed", self.dimension, "edges")
        upper = np.ones(self.dimension)
        if -1 not in self._ends:
            self._graph, self._cyclic = pack_graph(self._network, *self._ends)
            upper = self._usable()
            if not upper.any():
                raise EmptySetError(self._no_path(source, target))
        self._set_bounds(0.0, upper, self.dimension)
        self.kernel = self._make_kernel(_QUICK)
        self._set_failure(on_failure, fallback)

    def _set_ends(self, source: Any, target: Any) -> None:
        """Keep the source and the target, -1 for what comes from the row; they must be nodes, and differ."""
        given = {"source": source, "target": target}
        self.parameters = tuple(
            RowParameter.of(name, end, (), self._numbers) for name, end in given.items() if from_rows(end)
        )
        self._ends = [-1 if from_rows(end) else find_node(end, name, self._numbers) for name, end in given.items()]
        self.source, self.target = (None if from_rows(end) else end for end in given.values())
        if self._ends[0] == self._ends[1] != -1:
            raise InputError(f"the source and the target must differ; both are {source!r}.")

    def _usable(self) -> Floats:
        """Return 1 for every edge that lies on an open way, and 0 for the others."""
        if self.closed is not None:
            return np.asarray(usable_edges(self._graph, self.closed))
        usable = np.zeros(self.dimension)
        usable[packed_edges(self._graph)] = 1.0  # all that is in the graph: nothing to compile
        return usable

    def _make_kernel(self, effort: int) -> Kernel:
        """Return the kernel, for graphs with cycles one whose searches take so much effort."""
        closed = [] if self.closed is None else [self.closed]
        if not self.varies and not self._cyclic:
            return make_kernel(best_forward_paths, closed, ints=[self._graph])
        # Rows with the same ends share a graph, if they are solved together.
        most = 256 if -1 not in self._ends else 4096
        rows_at_once = min(max(_ARCS_AT_ONCE // (self._arcs * len(self.nodes)), 1), most)
        if not self.varies:
            return make_kernel(best_simple_paths, closed, [effort, self._graph], rows_at_once)
        quick = not self._cyclic if -1 not in self._ends else _has_no_cycles(self.edges, self.directed)
        rows_at_once = 8192 if quick else rows_at_once
        return make_kernel(best_paths_by_row, closed, [effort, *self._ends, self._network], rows_at_once)

    @property
    def _arcs(self) -> int:
        """The number of arcs that a path may use."""
        whole = len(self.edges) * (1 if self.directed else 2)
        return whole if -1 in self._ends else int(self._graph[4 + self._graph[0]])

    def _faults(self) -> Iterator[Fault]:
        for fault in super()._faults():
            is_end = fault.parameter in ("source", "target")
            yield fault._replace(rule="must be a node, an end of an edge") if is_end else fault
        if -1 in self._ends:
            source, target = self._row_ends().T
            ends = ("target", "source") if self._varies_in("target") else ("source", "target")
            if (same := source == target).any():
                yield Fault(ends[0], same, f"must differ from the {ends[1]}")
        if self._varies_in("closed"):
            yield from flag_faults(self._of_rows("closed"), "closed", "may not be used", "open")

    def _argmax(self, coefficients: Floats) -> Floats:
        """Search longer, for rows that the kernel gave up."""
        kernel, own = self._make_kernel(_PATIENT), self._pack() if self.varies else SHARED
        actions, status = np.empty_like(coefficients), np.zeros(len(coefficients), dtype=np.int64)
        for row in range(len(coefficients)):
            one = slice(row, row + 1)
            kernel(coefficients[one], False, actions[one], status[one], own[one])
            if status[row] and self.on_failure == "raise":
                break
        if status.any():
            failed = np.flatnonzero(status).tolist()
            raise Unsolved(actions, {row: self.take([row])._diagnosis(int(status[row])) for row in failed})
        return actions

    def _diagnosis(self, status: int) -> str:
        if status == NO_PATH:
            return self._no_path(*(self.nodes[end] for end in self._row_ends()[0]))
        return (
            "its coefficients make a cycle that gains. The best simple path is then a hard problem, and was not found "
            f"in {_PATIENT // self._arcs} steps of a search. Likely predicted costs turned negative: clip them at "
            "zero, use a graph without cycles, give on_failure='fallback' and an action as fallback=, or list the "
            "paths as Vertices."
        )

    def _no_path(self, source: Any, target: Any) -> str:
        closable = self.closed is not None or self._varies_in("closed")
        return (
            f"no path leads from the source {source!r} to the target {target!r}"
            + (" with the edges that are open. Open some, or check the edges" if closable else ". Check the edges")
            + (", and their directions (directed=False uses them both ways)." if self.directed else ".")
        )

    def _row_told(self, row: int) -> str:
        source, target = (repr(self.nodes[end]) if end >= 0 else "?" for end in self._row_ends()[row])
        shut = [f", and {int(edges.sum())} of {self.dimension} edges are closed" for edges in self._row_closed()]
        return f"This row goes from {source} to {target}{''.join(shut[row:][:1] or shut[:1])}."

    def _row_ends(self) -> Indices:
        """Return the numbers of the source and the target of each row, -1 for what is no node, of shape (rows, 2)."""
        ends = np.full((self.row_count or 1, 2), self._ends, dtype=np.int64)
        for side, name in enumerate(("source", "target")):
            if self._varies_in(name) and self.row_count is not None:
                ends[:, side] = np.nan_to_num(self._of_rows(name), nan=-1 - side)  # two unknown nodes do not agree
        return ends

    def _row_closed(self) -> Floats:
        """Return which edges are closed: a row for each row, or one for all, or none if no edge ever is."""
        if self._varies_in("closed") and self.row_count is not None:
            return np.ascontiguousarray(self._of_rows("closed"))
        return np.empty((0, self.dimension)) if self.closed is None else self.closed[None]

    def of_row(self, row: int) -> ShortestPath:
        """Return the set of one of the rows that this one is bound to, as a set of its own for all rows."""
        if not self.varies:
            return self
        source, target = (self.nodes[end] for end in self._row_ends()[row])
        closed = self._of_rows("closed")[row] if self._varies_in("closed") else self.closed
        own = {"source": source, "target": target, "closed": closed, "nodes": self.nodes}
        return ShortestPath(self.edges, directed=self.directed, **own)

    def path(self, action: npt.ArrayLike) -> list[Hashable]:
        """Return the nodes that the path of one action passes, from the source to the target.

        If the set differs between rows, it must be bound to the one row of the action: ``omega.take([row])``.
        """
        actions = self._as_batch(np.atleast_2d(np.asarray(action)), "the action")
        self._require_rows(len(actions))
        if len(actions) != 1 or not self.violation(actions)[0] <= self.tolerance:
            raise InfeasibleActionError(f"the action must be the edges of one path of this set; got {action!r}.")
        source, target = self._row_ends()[0]
        later = nodes_on_path(actions[0] > 0.5, self._network, source, target)
        return [self.nodes[node] for node in (source, *later)]

    def _project(self, actions: Floats) -> Floats:
        return nearest_of_zeros_and_ones(self, actions)

    def _broken(self, action: Floats, slack: float) -> list[str]:
        closed, used = self._row_closed(), action > 0.5
        shut = np.flatnonzero(used & (closed[0] > 0)).tolist() if len(closed) else []
        named = [f"{self.nodes[tail]!r} to {self.nodes[head]!r} is closed" for tail, head in self.edges[shut].tolist()]
        rounded = used.astype(np.float64)
        if self.violation(rounded[None])[0] > 0.0:
            source, target = (self.nodes[end] for end in self._row_ends()[0])
            return [*named, f"its edges above one half are no path from {source!r} to {target!r}"]
        return name_fractions(action, slack, "0 or 1") or name_broken_bounds(self, action, slack)

    def binding(self, action: Floats) -> list[str]:
        """Return the closed edges that the path of an action passes by."""
        closed = self._row_closed()
        if not len(closed) or self.violation(action[None])[0] > self.tolerance:
            return []
        passed = {self._numbers[node] for node in self.path(action)[:-1]}
        shut = [(int(tail), int(head)) for tail, head in self.edges[closed[0] > 0]]
        beside = [edge for edge in shut if edge[0] in passed or (edge[1] in passed and not self.directed)]
        return [f"{self.nodes[tail]!r} to {self.nodes[head]!r} is closed" for tail, head in beside]

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest difference to the path that its entries above one half make.

        Where they make none (a gap, a fork, a cycle beside the path, a closed edge) it is the largest difference that
        some path could have: 1 for rows of zeros and ones.
        """
        used = np.ascontiguousarray(actions > 0.5)
        is_path = are_paths(used, self._network, self._row_ends(), self._row_closed())
        off, on = np.abs(actions), np.abs(1.0 - actions)
        differences = np.where(is_path[:, None], np.where(used, on, off), np.maximum(on, off))
        largest: Floats = differences.max(axis=1)
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again, with numbers as the names of nodes.

        Where ends come from the row, the nodes keep their names.
        """
        by_row = -1 in self._ends
        ends = (self.source, self.target) if by_row else self._ends
        closed = self._argument("closed", None if self.closed is None else self.closed.copy())
        return {
            "edges": self.edges.copy(),
            "source": self._argument("source", ends[0]),
            "target": self._argument("target", ends[1]),
            "directed": self.directed,
            **self._failure_spec(),
            **({} if closed is None else {"closed": closed}),
            **({"nodes": list(self.nodes)} if by_row else {}),
        }


def _has_no_cycles(edges: Indices, directed: bool) -> bool:
    """Return whether no walk along the edges comes back, but for edges from a node to itself."""
    nodes = int(edges.max()) + 1
    matrix: Any = sparse.csr_array((np.ones(len(edges)), edges.T), shape=(nodes, nodes))
    return directed and connected_components(matrix, connection="strong")[0] == nodes
