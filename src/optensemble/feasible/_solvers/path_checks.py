"""Which edges lie on a path, and whether used edges make one."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner
from optensemble.feasible._solvers.networks import make_room, restrict, unpack_graph, unpack_network


@njit(cache=True, nogil=True)
def usable_edges(graph_ints, closed):  # type: ignore[no-untyped-def]
    """Return 1 for every edge that lies on an open way, and 0 for the others."""
    graph, usable = unpack_graph(graph_ints), np.zeros(len(closed))
    if len(graph.tail) > 0:
        mark_usable(graph, closed, make_room(len(graph.first) - 1, len(graph.tail)), usable)
    return usable


@inner
def mark_usable(graph, closed, room, usable):  # type: ignore[no-untyped-def]
    """Write 1 for every edge that lies on an open way."""
    for j in restrict(graph, closed, room).edge:
        usable[j] = 1.0


@njit(cache=True, nogil=True)
def are_paths(used, network_ints, ends, closed):  # type: ignore[no-untyped-def]
    """Return for each row whether the used edges make a path between its ends, and none is closed.

    ``ends`` and ``closed`` have one row for all or one for each; ``closed`` may have none.
    """
    network = unpack_network(network_ints)
    path, found = np.empty(len(network.first) - 1, np.int64), np.zeros(len(used), np.bool_)
    for i in range(len(used)):
        source, target = ends[i if len(ends) > 1 else 0]
        found[i] = follow(network, source, target, used[i], path) > 0
        if len(closed) > 0:
            shut = closed[i if len(closed) > 1 else 0]
            for j in range(used.shape[1]):
                found[i] &= not used[i, j] or shut[j] == 0.0
    return found


@njit(cache=True, nogil=True)
def nodes_on_path(used, network_ints, source, target):  # type: ignore[no-untyped-def]
    """Return the nodes of the path that the used edges make, but for the source."""
    network = unpack_network(network_ints)
    path = np.empty(len(network.first) - 1, np.int64)
    return network.head[path[: follow(network, source, target, used, path)]]


@inner
def follow(network, source, target, used, path):  # type: ignore[no-untyped-def]
    """Write the arcs of the path that the used edges make; return their number, or 0 if they do not make one path."""
    v, count, last, sides = source, 0, -1, 1 if network.directed else 2
    while v != target:
        chosen = -1
        for k in range(network.first[v], network.first[v + 1]):
            edge = network.outgoing[k] // sides
            if used[edge] and edge != last:
                if chosen >= 0:
                    return 0
                chosen = network.outgoing[k]
        if chosen < 0 or count == len(path):
            return 0
        path[count] = chosen
        count += 1
        last, v = chosen // sides, network.head[chosen]
    return count if count == used.sum() else 0
