"""The best path of each row by dynamic programming, on a graph without cycles.

Paths are measured by lengths, the negated coefficients; the best path has the least sum. All solvers, those of
``path_search`` too, work backward from the target to know what lies ahead, and go forward from the source by the
lowest edge that begins a best path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner, maker
from optensemble._core.lanes import (
    LANES,
    all_greater,
    larger,
    load,
    load_column,
    load_square,
    magnitudes,
    smaller,
    spread,
    store,
    store_column,
    store_square,
    where_greater,
)
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.networks import unpack_graph
from optensemble.feasible._solvers.scale import LARGE

TOO_HARD, NO_PATH = 1, 2
"""Why a row has no answer: its search took too many steps, or its open edges do not lead to the target."""


class ForwardWork(NamedTuple):
    """The work arrays of as many rows as are solved at a time, used again by the next."""

    length: Floats  # lanes per arc: of all the way that begins with it
    distance: Floats  # lanes per node: of the best way to the target
    taken: Floats  # lanes per node: 1 if the path comes by
    gain: Floats  # lanes per edge: its coefficient
    used: Floats  # lanes per edge: 1 if the path has it
    coefficients: Floats  # of rows that are copied
    actions: Floats
    status: Indices


@maker
def make_forward_work(nodes, arcs, edges):  # type: ignore[no-untyped-def]
    """Return work arrays for graphs of so many nodes, arcs and edges."""
    return ForwardWork(
        np.empty(arcs * LANES),
        np.empty(nodes * LANES),
        np.empty(nodes * LANES),
        np.empty(edges * LANES),
        np.empty(edges * LANES),
        np.empty((LANES, edges)),
        np.empty((LANES, edges)),
        np.empty(LANES, np.int64),
    )


@njit(cache=True, nogil=True)
def best_forward_paths(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row on a graph without cycles; ``floats`` tell which edges are closed, if any are."""
    graph = unpack_graph(ints)
    work = make_forward_work(len(graph.first) - 1, len(graph.head), C.shape[1])
    whole = len(C) - len(C) % LANES if len(floats) == 0 else 0
    for i in range(0, whole, LANES):
        take_forward_paths(graph, C, i, actions, status, work)
    rest = np.empty(len(C) - whole, np.int64)
    for k in range(len(rest)):
        rest[k] = whole + k
    take_copied_rows(graph, rest, C, own, 0, floats, actions, status, work)


@inner
def take_copied_rows(graph, rows, C, own, start, floats, actions, status, work):  # type: ignore[no-untyped-def]
    """Solve some rows in copies; the flags of closed edges are their own, if they have any, or those of all rows."""
    for begin in range(0, len(rows), LANES):
        for lane in range(LANES):
            i = rows[min(begin + lane, len(rows) - 1)]
            closed = own[i, start:] if own.shape[1] > start else floats
            copy_open(C[i], closed, work.coefficients[lane])
        first = begin - begin  # a literal 0 would be compiled apart
        take_forward_paths(graph, work.coefficients, first, work.actions, work.status, work)
        for lane in range(min(LANES, len(rows) - begin)):
            i = rows[begin + lane]
            status[i] = work.status[lane]
            for j in range(actions.shape[1]):
                actions[i, j] = work.actions[lane, j]


@inner
def copy_open(c, closed, copy):  # type: ignore[no-untyped-def]
    """Copy the coefficients of a row; those of closed edges become infinite lengths."""
    for j in range(len(c)):
        copy[j] = c[j]
    for j in range(len(closed)):
        copy[j] = c[j] if closed[j] == 0.0 else -np.inf


@inner
def take_forward_paths(graph, C, first, actions, status, work):  # type: ignore[no-untyped-def]
    """Solve rows from the first on, on a graph whose arcs go from higher nodes to lower, the target being node 0."""
    read_rows(C, first, work.gain)
    size, gains = measure_ways(graph, spread(1.0), work)
    if not all_greater(spread(LARGE), size):  # sums could be infinite
        scale = where_greater(size, spread(LARGE), spread(2.0**-100), spread(1.0))
        size, gains = measure_ways(graph, scale, work)
    reachable = load(work.distance, graph.source)
    slack = spread(SAME_VALUE) * smaller(size, reachable + spread(2.0) * gains)  # as in tie_slack
    walk_ahead(graph, slack, work)
    write_rows(work.used, actions, first)
    for lane in range(LANES):
        status[first + lane] = NO_PATH if work.distance[graph.source * LANES + lane] == np.inf else 0


@inner
def read_rows(C, first, block):  # type: ignore[no-untyped-def]
    """Write rows from the first on as lanes."""
    whole = C.shape[1] - C.shape[1] % LANES
    for j in range(0, whole, LANES):
        load_square(C, first, j, block)
    for j in range(whole, C.shape[1]):
        store(block, j, load_column(C, first, j))


@inner
def write_rows(block, actions, first):  # type: ignore[no-untyped-def]
    """Write lanes into rows from the first on."""
    whole = actions.shape[1] - actions.shape[1] % LANES
    for j in range(0, whole, LANES):
        store_square(actions, first, j, block)
    for j in range(whole, actions.shape[1]):
        store_column(actions, first, j, load(block, j))


@inner
def measure_ways(graph, scale, work):  # type: ignore[no-untyped-def]
    """Write the lengths of ways from each arc and node on; return the largest size of a length, and the sum of gains.

    Infinite lengths, of closed edges, do not count.
    """
    nothing, infinite = spread(0.0), spread(np.inf)
    size = gains = nothing
    store(work.distance, 0, nothing)
    for v in range(1, len(graph.first) - 1):
        least = infinite
        for a in range(graph.first[v], graph.first[v + 1]):
            gain = scale * load(work.gain, graph.edge[a])
            size = larger(size, where_greater(infinite, magnitudes(gain), magnitudes(gain), nothing))
            gains = gains + larger(gain, nothing)
            length = load(work.distance, graph.head[a]) - gain
            store(work.length, a, length)
            least = smaller(least, length)
        store(work.distance, v, least)
    return size, gains


@inner
def walk_ahead(graph, slack, work):  # type: ignore[no-untyped-def]
    """Write the paths, from the source on by the first arc with which a best way goes on.

    All nodes are looked at in all rows; only those that the path of a row comes by take an arc in it.
    """
    nothing = spread(0.0)
    for v in range(graph.source):
        store(work.taken, v, nothing)
    edges = len(work.used) // LANES
    for j in range(edges if len(graph.edge) < edges else 0):  # edges without an arc
        store(work.used, j, nothing)
    reachable = load(work.distance, graph.source)
    store(work.taken, graph.source, where_greater(spread(np.inf), reachable, spread(1.0), nothing))
    for v in range(graph.source, 0, -1):
        waiting, limit = load(work.taken, v), load(work.distance, v) + slack
        for a in range(graph.first[v], graph.first[v + 1]):
            arc = where_greater(load(work.length, a), limit, nothing, waiting)
            waiting = waiting - arc
            store(work.taken, graph.head[a], load(work.taken, graph.head[a]) + arc)
            store(work.used, graph.edge[a], arc)


@inner
def set_lengths(c, closed, edge, length):  # type: ignore[no-untyped-def]
    """Write the lengths of arcs, infinite where closed; return the largest size of the others, and the sum of gains.

    All are scaled by a power of two if sums could be infinite.
    """
    size, gains = 0.0, 0.0
    if len(closed) > 0:
        for a in range(len(edge)):
            j = edge[a]
            gain = c[j] if closed[j] == 0.0 else 0.0
            length[a] = -gain if closed[j] == 0.0 else np.inf
            size = max(size, abs(gain))
            gains += max(gain, 0.0)
    else:
        for a in range(len(edge)):
            gain = c[edge[a]]
            length[a] = -gain
            size = max(size, abs(gain))
            gains += max(gain, 0.0)
    if size > LARGE:
        size, gains = 2.0**-100 * size, 0.0
        for a in range(len(edge)):
            length[a] *= 2.0**-100
            gains += max(-length[a], 0.0)
    return size, gains


@inner
def tie_slack(size, reachable, gains):  # type: ignore[no-untyped-def]
    """Return the difference within which lengths are tied, given that some path is not longer than ``reachable``.

    A best path gains at most all gains, so that its lengths add up to ``reachable + 2 * gains`` at most in absolute
    value. Edges longer than that have no part in it, and must not make the others look small.
    """
    return SAME_VALUE * min(size, reachable + 2.0 * gains)
