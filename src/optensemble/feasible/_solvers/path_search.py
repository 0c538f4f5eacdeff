"""The best simple path of each row on a graph with cycles: label correcting, and a search where cycles gain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner, maker
from optensemble.feasible._solvers.networks import make_room, restrict, unpack_graph
from optensemble.feasible._solvers.paths import NO_PATH, TOO_HARD, set_lengths, tie_slack

Flags = npt.NDArray[np.bool_]


class Work(NamedTuple):
    """The work arrays of one row, used again by the next."""

    length: Floats  # per arc
    raised: Floats
    promise: Floats
    distance: Floats  # per node
    penalty: Floats
    travelled: Floats
    barred: Flags
    waiting: Flags
    queue: Indices
    hops: Indices
    onward: Indices
    untried: Indices
    path: Indices
    best: Indices


@njit(cache=True, nogil=True)
def best_simple_paths(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row on any graph; ``floats`` tell which edges are closed, if any are."""
    effort, graph = ints[0], unpack_graph(ints[1:])
    nodes, arcs = len(graph.first) - 1, len(graph.head)
    work, room = make_work(nodes, arcs), make_room(nodes, arcs)
    for i in range(len(C)):
        status[i] = take_simple_path(graph, C[i], floats, effort // arcs, actions[i], work, room)


@maker
def make_work(nodes, arcs):  # type: ignore[no-untyped-def]
    """Return work arrays for graphs of so many nodes and arcs."""
    return Work(
        *(np.empty(arcs), np.empty(arcs), np.empty(arcs), np.empty(nodes), np.empty(nodes), np.empty(nodes)),
        *(np.empty(nodes, np.bool_), np.empty(nodes, np.bool_), np.empty(nodes, np.int64), np.empty(nodes, np.int64)),
        *(np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64)),
    )


@maker
def cut_work(work, nodes):  # type: ignore[no-untyped-def]
    """Return the beginning of work arrays, for a graph of fewer nodes."""
    return Work(
        *(work.length, work.raised, work.promise, work.distance[:nodes], work.penalty[:nodes], work.travelled[:nodes]),
        *(work.barred[:nodes], work.waiting[:nodes], work.queue[:nodes], work.hops[:nodes]),
        *(work.onward[:nodes], work.untried[:nodes], work.path[:nodes], work.best[:nodes]),
    )


@inner
def take_simple_path(graph, c, closed, limit, action, work, room):  # type: ignore[no-untyped-def]
    """Solve a row; return its status."""
    size, gains = set_lengths(c, closed, graph.edge, work.length)
    for a in range(len(graph.head)):
        work.raised[a] = max(work.length[a], 0.0)
    work.barred[:] = False
    find_distances(graph, graph.target, work.raised, 0.0, work)
    reachable = work.distance[graph.source]
    action[:] = 0.0
    if reachable == np.inf:
        return NO_PATH
    slack = tie_slack(size, reachable, gains)
    for a in range(len(graph.head)):
        if work.length[a] > reachable + gains + slack:
            work.length[a] = np.inf  # no best path has it, and its rounding errors would drown the others
    if gains == 0.0:
        count = first_tight_path(graph, slack, work)
    elif len(closed) > 0:  # what is cut off could have cycles that gain
        part = restrict(graph, closed, room)
        for a in range(len(graph.head)):
            if room.kept[a] >= 0:
                work.length[room.kept[a]] = work.length[a]
        return mark(part, find_path(part, slack, limit, work), action, work)
    else:
        count = find_path(graph, slack, limit, work)
    return mark(graph, count, action, work)


@inner
def find_path(graph, slack, limit, work):  # type: ignore[no-untyped-def]
    """Find the best path where some lengths are negative; return the number of its steps, or 0 if it is too hard."""
    if find_distances(graph, graph.target, work.length, slack, work):
        return first_tight_path(graph, slack, work)
    return search_paths(graph, slack, limit, work)


@inner
def mark(graph, count, action, work):  # type: ignore[no-untyped-def]
    """Write the path that was found; return the status of the row."""
    for k in range(count):
        action[graph.edge[work.best[k]]] = 1.0
    return 0 if count > 0 else TOO_HARD


@inner
def find_distances(graph, root, length, slack, work):  # type: ignore[no-untyped-def]
    """Write the distance of every node to ``root``, infinite for barred ones, and its arc onward.

    Bellman and Ford's algorithm with a queue. A label must fall by more than the slack, so that cycles of length
    zero are left alone, whatever the noise; return False if a cycle gains more than that.
    """
    nodes = len(work.queue)
    work.distance[:] = np.inf
    work.waiting[:] = False
    work.distance[root] = 0.0
    work.hops[root] = 0
    work.queue[0] = root
    at, count = 0, 1
    while count > 0:
        w = work.queue[at]
        at = at + 1 if at + 1 < nodes else 0
        count -= 1
        work.waiting[w] = False
        for k in range(graph.first_in[w], graph.first_in[w + 1]):
            a = graph.incoming[k]
            v = graph.tail[a]
            through = length[a] + work.distance[w]
            if work.barred[v] or not through < work.distance[v] - slack:
                continue
            work.distance[v] = through
            work.onward[v] = a
            work.hops[v] = work.hops[w] + 1
            if work.hops[v] >= nodes:  # so long a way meets some node twice, with a lower label the second time
                return False
            if not work.waiting[v]:
                work.waiting[v] = True
                end = at + count
                work.queue[end if end < nodes else end - nodes] = v
                count += 1
    return True


@inner
def first_tight_path(graph, slack, work):  # type: ignore[no-untyped-def]
    """Go depth first from the source by arcs that begin a shortest way, the lowest edge first; return the steps.

    A node is entered once at most: cycles of length zero are left out, and dead ends behind them are left again.
    """
    v, count = graph.source, 0
    for u in range(len(work.untried)):
        work.untried[u] = graph.first[u]
    work.barred[v] = True
    while v != graph.target:
        a = work.untried[v]
        if a == graph.first[v + 1]:
            count -= 1
            v = graph.tail[work.best[count]]
            continue
        work.untried[v] += 1
        w = graph.head[a]
        if not work.barred[w] and work.length[a] + work.distance[w] <= work.distance[v] + slack:
            work.barred[w] = True
            work.best[count] = a
            count += 1
            v = w
    return count


@inner
def search_paths(graph, slack, limit, work):  # type: ignore[no-untyped-def]
    """Go through simple paths depth first, the lowest edge first, but for those that cannot become the best.

    Return the number of steps of the best path, or 0 if ``limit`` partial paths were not enough.
    """
    if graph.directed:
        penalise_nodes(graph, slack, work)
    else:
        penalise_edges(graph, work)
    v, depth, count = graph.source, 0, 0
    work.barred[v] = True
    work.travelled[0] = 0.0
    known = look_ahead(graph, v, 0.0, slack, work)  # the length of some path, maybe not met yet
    best = np.inf  # the length of the best path met
    while True:
        a = work.untried[v]
        if a == graph.first[v + 1]:
            if depth == 0:
                return count
            work.barred[v] = False
            depth -= 1
            v = graph.tail[work.path[depth]]
            continue
        work.untried[v] += 1
        if work.promise[a] > min(known + slack, best - slack):
            continue
        work.path[depth] = a
        travelled = work.travelled[depth] + work.length[a]
        if graph.head[a] == graph.target:
            best, count = travelled, depth + 1
            known = min(known, best)
            for k in range(count):
                work.best[k] = work.path[k]
            continue
        if limit == 0:
            return 0
        limit -= 1
        depth += 1
        v = graph.head[a]
        work.barred[v] = True
        work.travelled[depth] = travelled
        known = min(known, look_ahead(graph, v, travelled, slack, work))


@inner
def penalise_nodes(graph, slack, work):  # type: ignore[no-untyped-def]
    """Find a penalty for leaving each node, as low as possible, such that no cycle gains any more.

    A simple path leaves a node once at most. So its length with penalties, less the penalties of all nodes that it
    might still pass, is a bound on its length.
    """
    nodes = len(work.queue)
    for v in range(nodes):
        work.penalty[v] = 0.0
        for a in range(graph.first[v], graph.first[v + 1]):
            work.penalty[v] = max(work.penalty[v], -work.length[a])
    for a in range(len(graph.tail)):
        work.raised[a] = work.length[a] + work.penalty[graph.tail[a]]
    for v in range(nodes):
        if work.penalty[v] == 0.0:
            continue
        find_distances(graph, v, work.raised, slack, work)
        cycle = np.inf
        for a in range(graph.first[v], graph.first[v + 1]):
            cycle = min(cycle, work.raised[a] + work.distance[graph.head[a]])
        waived = min(work.penalty[v], max(cycle - nodes * slack, 0.0))
        work.penalty[v] -= waived
        for a in range(graph.first[v], graph.first[v + 1]):
            work.raised[a] -= waived


@inner
def penalise_edges(graph, work):  # type: ignore[no-untyped-def]
    """Do likewise for undirected edges, each used once at most; its penalty is kept with one of its ends."""
    work.penalty[:] = 0.0
    for a in range(len(graph.tail)):
        v, w = graph.tail[a], graph.head[a]
        work.raised[a] = max(work.length[a], 0.0)
        if work.length[a] < 0.0 and (v > w or v == graph.source or w == graph.target):
            work.penalty[v] -= work.length[a]


@inner
def look_ahead(graph, v, travelled, slack, work):  # type: ignore[no-untyped-def]
    """Find a lower bound of the paths that leave ``v`` by each of its arcs; return the length of one path."""
    find_distances(graph, graph.target, work.raised, slack, work)
    penalties = 0.0
    for u in range(len(work.queue)):
        if work.distance[u] < np.inf:
            penalties += work.penalty[u]
    work.untried[v] = graph.first[v]
    best, least = -1, np.inf
    for a in range(graph.first[v], graph.first[v + 1]):
        w = graph.head[a]
        work.promise[a] = travelled + work.length[a] + work.distance[w]
        if w != graph.target:
            work.promise[a] -= penalties
        if work.promise[a] < least:
            best, least = a, work.promise[a]
    if best < 0:
        return np.inf
    total = travelled + work.length[best]
    u = graph.head[best]
    while u != graph.target:
        total += work.length[work.onward[u]]
        u = graph.head[work.onward[u]]
    return total
