"""A network, and in it the graph of all ways from a source to a target, also with some edges closed.

A graph is laid out by compiled code, which the sets of all rows and the kernels of rows with ends of their own share:
the same ends give the same graph, with nodes and arcs in the same order, and hence the same paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Indices
from optensemble._core.kernel import inner, maker


class Network(NamedTuple):
    """All arcs between numbered nodes. An edge has one arc, or two, there and back, if it is not directed."""

    directed: bool
    tail: Indices  # per arc, in the order of the edges; of two arcs of an edge, the one from tail to head comes first
    head: Indices
    first: Indices  # per node, where its arcs begin in the list of outgoing ones; one entry more than nodes
    outgoing: Indices
    first_in: Indices
    incoming: Indices


class Graph(NamedTuple):
    """The ways from a source to a target; the arcs that leave a node come one after the other, by their edges."""

    directed: bool  # if not, an edge has two arcs, but for those back into the source or out of the target
    source: int
    target: int
    first: Indices  # per node, its first arc; one entry more than nodes
    tail: Indices  # per arc: where it begins, where it ends, and its edge, the coordinate of the action
    head: Indices
    edge: Indices
    first_in: Indices  # per node, where its incoming arcs begin in the list of those
    incoming: Indices


class Room(NamedTuple):
    """Arrays to lay out a graph in, and to work with meanwhile."""

    first: Indices
    tail: Indices
    head: Indices
    edge: Indices
    first_in: Indices
    incoming: Indices
    place: Indices  # per node, its number in the graph, or -1
    queue: Indices
    from_source: npt.NDArray[np.bool_]  # per node, whether a way leads there
    to_target: npt.NDArray[np.bool_]
    kept: Indices  # per arc, its number in the graph, or -1
    left: Indices  # per node of the graph: arcs that lead to nodes without a new number, and the new number
    fresh: Indices


def pack_network(directed: bool, nodes: int, edges: Indices) -> Indices:
    """Lay out a network as :func:`unpack_network` reads it."""
    tail, head = edges.T if directed else np.stack([edges, edges[:, ::-1]], axis=1).reshape(-1, 2).T
    first, first_in = (np.searchsorted(np.sort(ends), np.arange(nodes + 1)) for ends in (tail, head))
    outgoing, incoming = np.argsort(tail, kind="stable"), np.argsort(head, kind="stable")
    return np.concatenate([[nodes, directed], first, tail, head, outgoing, first_in, incoming]).astype(np.int64)


@maker
def unpack_network(ints):  # type: ignore[no-untyped-def]
    """Cut a packed network up again."""
    nodes = ints[0]
    arcs = ints[2 + nodes]
    at = 3 + nodes
    return Network(
        ints[1] != 0,
        ints[at : at + arcs],
        ints[at + arcs : at + 2 * arcs],
        ints[2:at],
        ints[at + 2 * arcs : at + 3 * arcs],
        ints[at + 3 * arcs : at + 3 * arcs + nodes + 1],
        ints[at + 3 * arcs + nodes + 1 :],
    )


@njit(cache=True, nogil=True)
def pack_graph(network_ints, source, target):  # type: ignore[no-untyped-def]
    """Return the graph of two ends as :func:`unpack_graph` reads it, and whether it has cycles."""
    network = unpack_network(network_ints)
    room = make_room(len(network.first) - 1, len(network.tail))
    graph, cyclic = lay_out(network, source, target, room)
    nodes = len(graph.first) - 1
    numbers = np.array([nodes, np.int64(graph.directed), graph.source, graph.target])
    parts = (numbers, graph.first, graph.tail, graph.head, graph.edge, graph.first_in, graph.incoming)
    return np.concatenate(parts), cyclic


@maker
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


def packed_edges(ints: Indices) -> Indices:
    """Return the edges of the arcs of a packed graph."""
    nodes, arcs = int(ints[0]), int(ints[4 + ints[0]])
    return ints[5 + nodes + 2 * arcs : 5 + nodes + 3 * arcs]


@maker
def make_room(nodes, arcs):  # type: ignore[no-untyped-def]
    """Return room for graphs of so many nodes and arcs."""
    return Room(
        *(np.empty(nodes + 1, np.int64), np.empty(arcs, np.int64), np.empty(arcs, np.int64), np.empty(arcs, np.int64)),
        *(np.empty(nodes + 1, np.int64), np.empty(arcs, np.int64), np.empty(nodes, np.int64)),
        *(np.empty(nodes, np.int64), np.empty(nodes, np.bool_), np.empty(nodes, np.bool_), np.empty(arcs, np.int64)),
        *(np.empty(nodes, np.int64), np.empty(nodes, np.int64)),
    )


@maker
def lay_out(network, source, target, room):  # type: ignore[no-untyped-def]
    """Return the graph of the arcs by which the target may be reached from the source, and whether it has cycles.

    Arcs into the source, out of the target and from a node to itself are left out. Without cycles, nodes are numbered
    such that arcs lead from higher to lower ones; otherwise from the target on, as the arcs name them.
    """
    find_ways(network, source, target, room)
    nodes, arcs = number_nodes(network, source, target, room)
    sort_arcs(network, nodes, room)
    cyclic = renumber_without_cycles(nodes, room)
    if not cyclic:
        sort_arcs(network, nodes, room)
    return Graph(
        network.directed,
        room.place[source],
        room.place[target],
        room.first[: nodes + 1],
        room.tail[:arcs],
        room.head[:arcs],
        room.edge[:arcs],
        room.first_in[: nodes + 1],
        room.incoming[:arcs],
    ), cyclic


@inner
def find_ways(network, source, target, room):  # type: ignore[no-untyped-def]
    """Write which nodes can be reached from the source, and from which the target can be."""
    room.from_source[:] = False
    room.to_target[:] = False
    room.from_source[source] = room.to_target[target] = True
    room.queue[0] = source
    at, end = 0, 1
    while at < end:
        v = room.queue[at]
        at += 1
        for k in range(network.first[v], network.first[v + 1]):
            w = network.head[network.outgoing[k]]
            if not room.from_source[w] and v != target:
                room.from_source[w] = True
                room.queue[end] = w
                end += 1
    room.queue[0] = target
    at, end = 0, 1
    while at < end:
        w = room.queue[at]
        at += 1
        for k in range(network.first_in[w], network.first_in[w + 1]):
            v = network.tail[network.incoming[k]]
            if not room.to_target[v] and w != source:
                room.to_target[v] = True
                room.queue[end] = v
                end += 1


@inner
def number_nodes(network, source, target, room):  # type: ignore[no-untyped-def]
    """Give the target and the tails of useful arcs numbers, in the order of these; return how many nodes and arcs."""
    room.place[:] = -1
    room.place[target] = 0
    nodes, count, sides = 1, 0, 1 if network.directed else 2
    for side in range(sides):
        for a in range(side, len(network.tail), sides):
            v, w = network.tail[a], network.head[a]
            useful = v != w and w != source and v != target and room.from_source[v] and room.to_target[w]
            room.kept[a] = 0 if useful else -1
            if useful:
                count += 1
                if room.place[v] < 0:
                    room.place[v] = nodes
                    nodes += 1
    return nodes, count


@inner
def sort_arcs(network, nodes, room):  # type: ignore[no-untyped-def]
    """Write the useful arcs by tail and edge, with nodes as they are numbered now, and the list of incoming ones."""
    sides = 1 if network.directed else 2
    room.first[: nodes + 1] = 0
    room.first_in[: nodes + 1] = 0
    for a in range(len(network.tail)):
        if room.kept[a] >= 0:
            room.first[room.place[network.tail[a]] + 1] += 1
            room.first_in[room.place[network.head[a]] + 1] += 1
    for v in range(nodes):
        room.first[v + 1] += room.first[v]
        room.first_in[v + 1] += room.first_in[v]
        room.queue[v] = room.first[v]
    for a in range(len(network.tail)):
        if room.kept[a] >= 0:
            v = room.place[network.tail[a]]
            k = room.queue[v]
            room.queue[v] += 1
            room.tail[k], room.head[k], room.edge[k] = v, room.place[network.head[a]], a // sides
    for v in range(nodes):
        room.queue[v] = room.first_in[v]
    for k in range(room.first[nodes]):
        w = room.head[k]
        room.incoming[room.queue[w]] = k
        room.queue[w] += 1


@inner
def renumber_without_cycles(nodes, room):  # type: ignore[no-untyped-def]
    """Give nodes numbers above all that their arcs lead to, first come first served; return if cycles forbid it."""
    for v in range(nodes):
        room.left[v] = room.first[v + 1] - room.first[v]
    room.queue[0] = 0  # the target: no other node lacks arcs
    at, end = 0, 1
    while at < end:
        w = room.queue[at]
        room.fresh[w] = at
        at += 1
        for k in range(room.first_in[w], room.first_in[w + 1]):
            v = room.tail[room.incoming[k]]
            room.left[v] -= 1
            if room.left[v] == 0:
                room.queue[end] = v
                end += 1
    if end < nodes:
        return True
    for u in range(len(room.place)):
        if room.place[u] >= 0:
            room.place[u] = room.fresh[room.place[u]]
    return False


@inner
def restrict(graph, closed, room):  # type: ignore[no-untyped-def]
    """Return the graph without closed edges and arcs that only these made useful; nodes keep their numbers."""
    find_open_ways(graph, closed, room)
    nodes, count = len(graph.first) - 1, 0
    for v in range(nodes):
        room.first[v] = count
        for a in range(graph.first[v], graph.first[v + 1]):
            w = graph.head[a]
            keep = room.from_source[v] and room.to_target[w] and closed[graph.edge[a]] == 0.0
            room.kept[a] = count if keep else -1
            if keep:
                room.tail[count], room.head[count], room.edge[count] = v, w, graph.edge[a]
                count += 1
    room.first[nodes], arcs, count = count, count, 0
    for w in range(nodes):
        room.first_in[w] = count
        for k in range(graph.first_in[w], graph.first_in[w + 1]):
            a = room.kept[graph.incoming[k]]
            if a >= 0:
                room.incoming[count] = a
                count += 1
    room.first_in[nodes] = count
    return Graph(
        graph.directed,
        graph.source,
        graph.target,
        room.first[: nodes + 1],
        room.tail[:arcs],
        room.head[:arcs],
        room.edge[:arcs],
        room.first_in[: nodes + 1],
        room.incoming[:arcs],
    )


@inner
def find_open_ways(graph, closed, room):  # type: ignore[no-untyped-def]
    """Write which nodes can be reached from the source by open edges, and from which the target can be."""
    room.from_source[:] = False
    room.to_target[:] = False
    room.from_source[graph.source] = room.to_target[graph.target] = True
    room.queue[0] = graph.source
    at, end = 0, 1
    while at < end:
        v = room.queue[at]
        at += 1
        for a in range(graph.first[v], graph.first[v + 1]):
            w = graph.head[a]
            if not room.from_source[w] and closed[graph.edge[a]] == 0.0:
                room.from_source[w] = True
                room.queue[end] = w
                end += 1
    room.queue[0] = graph.target
    at, end = 0, 1
    while at < end:
        w = room.queue[at]
        at += 1
        for k in range(graph.first_in[w], graph.first_in[w + 1]):
            a = graph.incoming[k]
            v = graph.tail[a]
            if not room.to_target[v] and closed[graph.edge[a]] == 0.0:
                room.to_target[v] = True
                room.queue[end] = v
                end += 1
