"""The best path of each row between ends of its own, or past edges that are closed in it alone."""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import maker
from optensemble.feasible._solvers.networks import lay_out, make_room, unpack_network
from optensemble.feasible._solvers.path_search import cut_work, make_work, take_simple_path
from optensemble.feasible._solvers.paths import NO_PATH, make_forward_work, take_copied_rows


@njit(cache=True, nogil=True)
def best_paths_by_row(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row between its ends; rows between the same ends come one after the other, and share a graph.

    ``ints`` hold the effort of a search, the source and the target, or -1 for what each row begins with, and the
    network. The rest of a row tells which edges are closed in it; if there is none, ``floats`` tell that of all rows.
    """
    effort, source, target, network = ints[0], ints[1], ints[2], unpack_network(ints[3:])
    nodes, arcs = len(network.first) - 1, len(network.tail)
    room, smaller, work = make_room(nodes, arcs), make_room(nodes, arcs), make_work(nodes, arcs)
    side_by_side = make_forward_work(nodes, arcs, C.shape[1])
    ends, start = read_ends(own, source, target, nodes)
    order = group_rows(ends, nodes * nodes)
    begin = 0
    while begin < len(C):
        known = ends[order[begin]]
        end = begin + 1
        while end < len(C) and ends[order[end]] == known:
            end += 1
        rows = order[begin:end]
        begin = end
        graph, cyclic = lay_out(network, max(known, 0) // nodes, max(known, 0) % nodes, room)
        if known < 0 or len(graph.tail) == 0:
            for i in rows:
                actions[i], status[i] = 0.0, NO_PATH
        elif cyclic:
            part, limit = cut_work(work, len(graph.first) - 1), effort // len(graph.tail)
            for i in rows:
                closed = own[i, start:] if own.shape[1] > start else floats
                status[i] = take_simple_path(graph, C[i], closed, limit, actions[i], part, smaller)
        else:
            take_copied_rows(graph, rows, C, own, start, floats, actions, status, side_by_side)


@maker
def group_rows(ends, most):  # type: ignore[no-untyped-def]
    """Return the numbers of rows, those with the same ends, which are below ``most``, one after the other."""
    if most > len(ends):
        return np.argsort(ends)
    place, order = np.zeros(most + 2, np.int64), np.empty(len(ends), np.int64)
    for end in ends:
        place[end + 2] += 1
    for k in range(most + 1):
        place[k + 1] += place[k]
    for i in range(len(ends)):
        order[place[ends[i] + 1]] = i
        place[ends[i] + 1] += 1
    return order


@maker
def read_ends(own, source, target, nodes):  # type: ignore[no-untyped-def]
    """Return for each row one number for its source and target, -1 if they are none; and how many columns they take."""
    start = np.int64(source < 0) + np.int64(target < 0)
    ends = np.full(len(own), source * nodes + target)
    if start == 0:
        return ends, start
    for i in range(len(own)):
        tail = own[i, 0] if source < 0 else float(source)
        head = own[i, start - 1] if target < 0 else float(target)
        inside = 0.0 <= tail < nodes and 0.0 <= head < nodes and tail != head
        ends[i] = np.int64(tail) * nodes + np.int64(head) if inside else -1
    return ends, start
