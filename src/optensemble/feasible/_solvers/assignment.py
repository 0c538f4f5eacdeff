"""The best assignment by shortest augmenting paths (Jonker and Volgenant), in exact integer arithmetic.

Every row of a cost matrix takes one column, and no column is taken twice; there are at least as many columns as rows.
Columns have prices ``v <= 0``, those that are free the price 0. If every row has a column of least ``cost - v``, these
prices prove the assignment the cheapest.

Forbidden pairs cost ``_FORBIDDEN``, which no path of allowed ones comes near: a row whose nearest column is beyond
``_OUT_OF_REACH`` has no column left.

Free columns belong to ``no_row``, a row of zeros below the others. Costs and prices are even, and in comparisons taken
columns cost 1 more, so that a free one comes first among equals. Loops over columns where time is spent have no
branches, so that they are vectorised.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import magnitude

_DONE = np.int64(2**62)
"""The distance of a column that is settled, above every other; costs are scaled such that none gets there."""

_FORBIDDEN = np.int64(2**61)
"""The cost of a forbidden pair. Prices and distances stay below 2**59 where pairs are forbidden."""

_OUT_OF_REACH = np.int64(2**60)
"""Distances beyond this one lead by a forbidden pair."""


def assignment_kernel(rows: int, columns: int, forbidden: Floats | None) -> Kernel:
    """Return the kernel; where there are more rows than columns, it works on the transposed matrix."""
    n, m = min(rows, columns), max(rows, columns)
    bits = min(50, 58 - n.bit_length())  # costs go up to 2**(bits + 2), prices and distances to n times that
    fewer = min(50, 55 - n.bit_length())  # costs of forbidden pairs, and distances beyond them, need room above
    rows_at_once = max(1, min(8192, 40_000_000 // (n * n * m)))
    floats = [2.0**bits, 2.0**fewer, *([] if forbidden is None else forbidden)]
    return make_kernel(best_assignments, floats, ints=[rows, columns], rows_at_once=rows_at_once)


@njit(cache=True, nogil=True)
def best_assignments(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row of C the first of the best assignments; status 1 if its forbidden pairs leave none.

    No best assignment holds a coefficient below ``-(2 n + 1)`` times the size of the largest coefficient and of those
    that any assignment takes. Where that is little beside the largest magnitude, as when pairs are forbidden at a large
    cost, the row is solved again with all below cut off there, to tell the others apart.
    """
    rows, columns = ints[0], ints[1]
    n, m = min(rows, columns), max(rows, columns)
    cost, v = np.empty((n + 1, m), np.int64), np.empty(m, np.int64)
    column, owner = np.empty(n + 1, np.int64), np.empty(m, np.int64)
    waiting, work = np.empty(n, np.int64), np.empty((4, m + 1), np.int64)
    allowed = np.empty(rows * columns)
    for r in range(len(C)):
        action, forbidden = actions[r], own[r] if own.shape[1] else floats[2:]
        any_forbidden = leave_out(forbidden, C[r], allowed)
        c = allowed if any_forbidden else C[r]
        grid = floats[1] if any_forbidden else floats[0]
        slack = np.int64(2.0 * SAME_VALUE * grid)
        size = magnitude(c)
        status[r] = 0
        while True:
            set_costs(c.reshape(rows, columns), size, grid, cost)
            if any_forbidden:
                forbid(forbidden, rows, columns, cost)
            v[:], owner[:] = 0, n
            left = auction(cost, v, column, owner, waiting, work)
            for start in waiting[:left]:
                if not augment(cost, v, column, owner, start, work):
                    status[r] = 1
                    break
            action[:] = 0.0
            if status[r] != 0:
                break
            prefer_low_columns(cost, v, column, owner, slack, work)
            taken = 0.0
            for i in range(n):
                k = i * columns + column[i] if rows <= columns else column[i] * columns + i
                action[k] = 1.0
                taken = max(taken, abs(c[k]))
            relevant = (2 * n + 1) * taken
            if relevant < 0.5 * size:
                relevant = (2 * n + 1) * max(taken, c.max())
            if not 0.0 < relevant < 0.5 * size:
                break
            size = relevant


@inner
def leave_out(forbidden, c, allowed):  # type: ignore[no-untyped-def]
    """Write the coefficients with zeros for forbidden pairs, so that these do not count; return if there are any."""
    found = 0
    for k in range(len(forbidden)):
        found += forbidden[k] != 0.0
    if found > 0:
        for k in range(len(c)):
            allowed[k] = c[k] if forbidden[k] == 0.0 else 0.0
    return found > 0


@inner
def set_costs(matrix, size, grid, cost):  # type: ignore[no-untyped-def]
    """Turn coefficients to maximise into even costs from 0 to ``4 * grid``, those below ``-size`` cut off there."""
    rows, columns = matrix.shape
    size = size if size > 0.0 else 1.0
    for i in range(rows):
        for j in range(columns):
            even = 2 * np.int64((1.0 - max(matrix[i, j] / size, -1.0)) * grid + 0.5)
            if rows <= columns:
                cost[i, j] = even
            else:
                cost[j, i] = even
    cost[-1] = 0


@inner
def forbid(forbidden, rows, columns, cost):  # type: ignore[no-untyped-def]
    """Give forbidden pairs a cost beyond all others."""
    for i in range(rows):
        for j in range(columns):
            if forbidden[i * columns + j] != 0.0:
                if rows <= columns:
                    cost[i, j] = _FORBIDDEN
                else:
                    cost[j, i] = _FORBIDDEN


@inner
def auction(cost, v, column, owner, waiting, work):  # type: ignore[no-untyped-def]
    """Let each row bid for its best column up to where the second best is as good; return how many rows still wait.

    The number of bids is bounded, because rows that outbid each other by little could go on for very long; augmenting
    paths do the rest.
    """
    n, m, no_row = len(waiting), len(v), len(waiting)
    h = work[0, :m]
    for i in range(n):
        waiting[i] = n - 1 - i
    left, bids = n, 0
    while left > 0 and bids < 2 * n:
        bids += 1
        i = waiting[left - 1]
        for j in range(m):
            h[j] = cost[i, j] - v[j] + (owner[j] != no_row)
        best = smallest(h)
        if best >= _OUT_OF_REACH:  # the row may have no column: the search for an augmenting path will tell
            break
        j = index(h, best)
        h[j] = _DONE
        second = smallest(h)
        if second < _OUT_OF_REACH:  # otherwise this is the row's only column, and no price is too high
            v[j] -= (second | 1) - (best | 1)
        if owner[j] == no_row:
            left -= 1
        else:
            waiting[left - 1] = owner[j]
        column[i], owner[j] = j, i
    return left


@inner
def augment(cost, v, column, owner, start, work):  # type: ignore[no-untyped-def]
    """Find a column for one more row, by the shortest path of rows that move on from theirs (Dijkstra).

    Return whether there is one: forbidden pairs may leave none.
    """
    m, no_row = len(v), len(cost) - 1
    distance, unseen, mover, price = work[0, :m], work[1, :m], work[2, :m], work[3, :m]
    for k in range(m):
        price[k] = v[k] - (owner[k] != no_row)
        distance[k] = unseen[k] = cost[start, k] - price[k]
        mover[k] = start
    while True:
        least = smallest(unseen)
        if least >= _OUT_OF_REACH:
            return False
        j = index(unseen, least)
        i = owner[j]
        if i == no_row:
            break
        unseen[j] = _DONE
        base = least - (cost[i, j] - price[j])
        for k in range(m):
            by_i = base + cost[i, k] - price[k]
            nearer = by_i < distance[k]
            distance[k] = by_i if nearer else distance[k]
            unseen[k] = by_i if nearer else unseen[k]
            mover[k] = i if nearer else mover[k]
    for k in range(m):
        v[k] += distance[k] - 1 - least if unseen[k] == _DONE else 0
    while i != start:
        i = owner[j] = mover[j]
        column[i], j = j, column[i]
    return True


@inner
def prefer_low_columns(cost, v, column, owner, slack, work):  # type: ignore[no-untyped-def]
    """Let each row in turn have the lowest column that any of the best assignments gives it, those before unchanged.

    The best assignments are those that give each row, ``no_row`` too, columns of least ``cost - v``, up to the slack.
    ``cost`` is overwritten: columns not above 0 are good enough.
    """
    m, no_row = len(v), len(cost) - 1
    seen, origin, queue, takers = work[0], work[1], work[2], work[3]
    takers[:] = 0
    for i in range(no_row + 1):
        seen[i] = -1
        most = slack + (cost[i, column[i]] - v[column[i]] if i < no_row else 0)
        for j in range(m):
            cost[i, j] -= v[j] + most
            takers[j] += cost[i, j] <= 0
    for i in range(no_row):
        seen[i] = no_row
        old = column[i]
        for j in range(old if takers[old] > 1 else 0):
            if cost[i, j] <= 0 and seen[owner[j]] < i and comes_free(j, old, i, cost, owner, seen, origin, queue):
                k = old
                while k != j:
                    owner[k] = owner[origin[k]]
                    column[owner[k]] = k
                    k = origin[k]
                column[i], owner[j] = j, i
                break


@inner
def comes_free(first, target, i, cost, owner, seen, origin, queue):  # type: ignore[no-untyped-def]
    """Whether the first column comes free if its owner moves on, the owner of the next too, until one takes the target.

    ``origin`` tells the way. Rows already ``seen`` in vain for row i, and those before it, do not move.
    """
    queue[0], seen[owner[first]], origin[target] = first, i, first
    if cost[owner[first], target] <= 0:
        return True
    head, tail = 0, 1
    while head < tail:
        j = queue[head]
        head += 1
        for k in range(len(owner)):
            if cost[owner[j], k] <= 0 and seen[owner[k]] < i:
                origin[k], seen[owner[k]], queue[tail] = j, i, k
                tail += 1
                if cost[owner[k], target] <= 0:
                    origin[target] = k
                    return True
    return False


@inner
def smallest(x):  # type: ignore[no-untyped-def]
    """Return the least of some integers."""
    least = x[0]
    for j in range(len(x)):
        least = min(least, x[j])
    return least


@inner
def index(x, value):  # type: ignore[no-untyped-def]
    """Return where a value, which must be there, comes first."""
    j = 0
    while x[j] != value:
        j += 1
    return j
