"""The best path of each row by dynamic programming, on a graph without cycles.

Paths are measured by lengths, the negated coefficients; the best path has the least sum. All solvers, those of
``path_search`` too, work backward from the target to know what lies ahead, and go forward from the source by the
lowest edge that begins a best path.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.networks import unpack_graph

TOO_HARD, NO_PATH = 1, 2
"""Why a row has no answer: its search took too many steps, or its open edges do not lead to the target."""


@njit(cache=True, nogil=True)
def best_forward_paths(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row on a graph without cycles; ``floats`` tell which edges are closed, if any are."""
    graph = unpack_graph(ints)
    distance, length = np.zeros(len(graph.first) - 1), np.empty(len(graph.head))
    for i in range(len(C)):
        status[i] = take_forward_path(graph, C[i], floats, actions[i], distance, length)


@inner
def take_forward_path(graph, c, closed, action, distance, length):  # type: ignore[no-untyped-def]
    """Solve a row on a graph whose arcs go from higher nodes to lower, the target being node 0; return its status."""
    size, gains = set_lengths(c, closed, graph.edge, length)
    distance[0] = 0.0
    for v in range(1, len(graph.first) - 1):
        least = np.inf
        for a in range(graph.first[v], graph.first[v + 1]):
            length[a] += distance[graph.head[a]]
            least = min(least, length[a])
        distance[v] = least
    action[:] = 0.0
    if distance[graph.source] == np.inf:
        return NO_PATH
    slack = tie_slack(size, distance[graph.source], gains)
    v = graph.source
    while v != graph.target:
        a = graph.first[v]
        while length[a] > distance[v] + slack:  # the length of all the way, by now
            a += 1
        action[graph.edge[a]] = 1.0
        v = graph.head[a]
    return 0


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
    if size > 1e100:
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
