"""The best path of each row by dynamic programming, on a graph without cycles.

Paths are measured by lengths, the negated coefficients; the best path has the least sum. All solvers, those of
``path_search`` too, work backward from the target to know what lies ahead, and go forward from the source by the
lowest edge that begins a best path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Indices
from optensemble._core.tolerances import SAME_VALUE


class Graph(NamedTuple):
    """A directed graph; the arcs that leave a node come one after the other, in the order of their edges."""

    directed: bool  # if not, an edge has two arcs, but for those back into the source or out of the target
    source: int
    target: int
    first: Indices  # per node, its first arc; one entry more than nodes
    tail: Indices  # per arc: where it begins, where it ends, and its edge, the coordinate of the action
    head: Indices
    edge: Indices
    first_in: Indices  # per node, where its incoming arcs begin in the list of those
    incoming: Indices


def pack_graph(
    directed: bool, order: list[int], source: int, target: int, tail: Indices, head: Indices, edge: Indices
) -> Indices:
    """Lay out a graph as :func:`unpack_graph` reads it, with nodes numbered in the given order."""
    place = np.zeros(max(order) + 1, dtype=np.int64)
    place[order] = np.arange(len(order))
    arcs = np.lexsort((edge, place[tail]))
    tail, head = place[tail[arcs]], place[head[arcs]]
    first, first_in = (np.searchsorted(np.sort(ends), np.arange(len(order) + 1)) for ends in (tail, head))
    numbers = [len(order), int(directed), place[source], place[target]]
    return np.concatenate([numbers, first, tail, head, edge[arcs], first_in, np.argsort(head, kind="stable")])


@njit(cache=True, nogil=True)
def unpack_graph(ints):  # type: ignore[no-untyped-def]
    """Cut a packed graph up again."""
    nodes = ints[0]
    arcs = ints[4 + nodes]
    at = 5 + nodes
    return Graph(
        ints[1] != 0,
        ints[2],
        ints[3],
        ints[4:at],
        ints[at : at + arcs],
        ints[at + arcs : at + 2 * arcs],
        ints[at + 2 * arcs : at + 3 * arcs],
        ints[at + 3 * arcs : at + 3 * arcs + nodes + 1],
        ints[at + 3 * arcs + nodes + 1 :],
    )


@njit(cache=True, nogil=True)
def measure_lengths(c, edge):  # type: ignore[no-untyped-def]
    """Return a power of two that keeps sums finite; and the largest size, and the sum of gains, of scaled lengths."""
    size = 0.0
    for a in range(len(edge)):
        size = max(size, abs(c[edge[a]]))
    scale = 2.0**-100 if size > 1e100 else 1.0
    gains = 0.0
    for a in range(len(edge)):
        gains += max(scale * c[edge[a]], 0.0)
    return scale, scale * size, gains


@njit(cache=True, nogil=True)
def tie_slack(size, reachable, gains):  # type: ignore[no-untyped-def]
    """Return the difference within which lengths are tied, given that some path is not longer than ``reachable``.

    A best path gains at most all gains, so that its lengths add up to ``reachable + 2 * gains`` at most in absolute
    value. Edges longer than that have no part in it, and must not make the others look small.
    """
    return SAME_VALUE * min(size, reachable + 2.0 * gains)


@njit(cache=True, nogil=True)
def best_forward_paths(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row on a graph without cycles, whose arcs go from higher nodes to lower; the target is node 0."""
    graph = unpack_graph(ints)
    nodes = len(graph.first) - 1
    distance, through = np.zeros(nodes), np.empty(len(graph.head))
    for i in range(len(C)):
        scale, size, gains = measure_lengths(C[i], graph.edge)
        for v in range(1, nodes):
            least = np.inf
            for a in range(graph.first[v], graph.first[v + 1]):
                through[a] = distance[graph.head[a]] - scale * C[i, graph.edge[a]]
                least = min(least, through[a])
            distance[v] = least
        slack = tie_slack(size, distance[graph.source], gains)
        actions[i] = 0.0
        status[i] = 0
        v = graph.source
        while v != graph.target:
            a = graph.first[v]
            while through[a] > distance[v] + slack:
                a += 1
            actions[i, graph.edge[a]] = 1.0
            v = graph.head[a]


@njit(cache=True, nogil=True)
def follow_edges(used, ints, path):  # type: ignore[no-untyped-def]
    """Write the arcs of the path that the used edges make; return their number, or 0 if they do not make one path."""
    graph = unpack_graph(ints)
    v, count, last = graph.source, 0, -1
    while v != graph.target:
        chosen = -1
        for a in range(graph.first[v], graph.first[v + 1]):
            if used[graph.edge[a]] and graph.edge[a] != last:
                if chosen >= 0:
                    return 0
                chosen = a
        if chosen < 0 or count == len(path):
            return 0
        path[count] = chosen
        count += 1
        last, v = graph.edge[chosen], graph.head[chosen]
    return count if count == used.sum() else 0
