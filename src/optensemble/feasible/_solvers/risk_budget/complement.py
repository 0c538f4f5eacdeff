"""A search for the active set that works on the coordinates it leaves out: the quicker way where most are held.

Without bounds the best portfolio at a price ``1/t`` of variance is ``v + t N c``, where ``v`` has the least variance
``s`` of all weights that sum to 1, and ``[[N, v], [v', -s]]`` is the inverse of ``[[C, 1], [1', 0]]``. Coordinates that
are kept at 0 need prices ``w``, with ``a = v + N (t c + w)``; so ``w`` solves a system with ``N`` at these coordinates
alone. Two right-hand sides, ``-v`` and ``-N c``, give it for all t, and the variance and its price too. The inverse of
the system is kept, and grows as coordinates go out, which takes little time for a few. That some come back is rare, and
then it is built up afresh.

What is found is a guess: it is proven, and its action computed, by ``active_set``, which sees nothing of the search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner, maker
from optensemble._core.lanes import LANES, add_multiple, load_row, spread, store, store_row
from optensemble.feasible._solvers.risk_budget.active_set import IN, OUT

_EXCHANGES = 12
"""Exchanges to try; three or four are usual."""

_DIRECTION, _ACTION, _STEP, _FROM_POINT, _FROM_DIRECTION, _COLUMN, _PRICES = range(7)
"""Vectors of a search. Of coordinates: Nc, and the action. Of places that are out, in the order of their list: how the
others move with the one that is added, the solutions for v and Nc, a column of the system, and prices."""


class Search(NamedTuple):
    """The work arrays of a search: the places that are out, the inverse of their system, and vectors.

    The list of ``all`` rows of a matrix is for sums over them.
    """

    places: Indices
    all: Indices
    inverse: Floats
    vectors: Floats


def lay_out_whole(inverse: Floats, point: Floats) -> Floats:
    """Return N above v, in rows that zeros fill up to whole lanes."""
    d = len(point)
    whole = np.zeros((d + 1, d + -d % LANES))
    whole[:, :d] = np.vstack([inverse, point])
    return whole


@maker
def new_search(whole):  # type: ignore[no-untyped-def]
    """Return the work arrays of a search."""
    rows, width = whole.shape
    places, numbers = np.empty(rows, np.int64), np.empty(rows, np.int64)
    for i in range(rows):
        numbers[i] = i
    return Search(places, numbers, np.zeros((rows // 2 + 1, width)), np.zeros((7, width)))


@inner
def search_complement(c, limit, least, whole, search, state):  # type: ignore[no-untyped-def]
    """Exchange all places whose signs are wrong, beginning with all coordinates held; return whether that has an end.

    ``whole`` is N above v, and ``least`` is s. It ends also where most coordinates are out, for ``active_set`` to go
    on.
    """
    d, vectors, n = len(c), search.vectors, np.int64(0)  # no literal: functions would be compiled for it
    for s in range(len(state)):
        state[s] = IN
    for s in range(d):
        vectors[_PRICES, s] = c[s]
    sum_rows(vectors[_DIRECTION], vectors[_PRICES], whole, search.all, d, d)
    variance, gain = least, 0.0
    for s in range(d):
        gain += c[s] * vectors[_DIRECTION, s]
    gain_of_all = gain
    for _ in range(_EXCHANGES):
        if not (gain > 0.0 and variance < limit):
            return False
        price_out(np.sqrt((limit - variance) / gain), n, whole, search)
        kept, count = exchange_all(n, vectors, search.places, state[:d])
        if (kept and count == n) or 2 * count > d:
            return True
        if not kept:
            n, variance, gain = np.int64(0), least, gain_of_all
        while n < count:
            variance, gain = let_out(n, variance, gain, whole, search)
            n += 1
    return False


@inner
def price_out(t, n, whole, search):  # type: ignore[no-untyped-def]
    """Write the prices at t of the places that are out, and the action."""
    vectors, d = search.vectors, len(whole) - 1
    for i in range(n):
        vectors[_PRICES, i] = -(vectors[_FROM_POINT, i] + t * vectors[_FROM_DIRECTION, i])
    sum_rows(vectors[_ACTION], vectors[_PRICES], whole, search.places, n, d)
    for column in range(0, d, LANES):
        straight = add_multiple(load_row(whole, d, column), t, load_row(vectors, _DIRECTION, column))
        store_row(vectors, _ACTION, column, straight + load_row(vectors, _ACTION, column))


@inner
def exchange_all(n, vectors, places, state):  # type: ignore[no-untyped-def]
    """Let places out whose weight is below 0, and back in whose price is.

    Returns whether all n that were out are kept, at the head of the list, and how many are out now.
    """
    count = 0
    for i in range(n):
        places[count] = places[i]
        if vectors[_PRICES, i] < 0.0:
            vectors[_ACTION, places[i]] = 0.0  # it is, but for rounding
            state[places[i]] = IN
        else:
            count += 1
    kept = count == n
    for s in range(len(state)):
        if state[s] == IN and vectors[_ACTION, s] < 0.0:
            state[s] = OUT
            places[count] = s
            count += 1
    return kept, count


@inner
def let_out(n, variance, gain, whole, search):  # type: ignore[no-untyped-def]
    """Let the system of n places grow by the next of the list; return the variance and the gain, NaN if it cannot."""
    places, inverse, vectors = search.places, search.inverse, search.vectors
    s, d = places[n], len(whole) - 1
    if n % LANES == 0:  # rows get longer by eight columns
        for i in range(n):
            store_row(inverse, i, n, spread(0.0))
        for k in range(_FROM_POINT, _COLUMN):
            store_row(vectors, k, n, spread(0.0))
    for i in range(n):
        vectors[_COLUMN, i] = whole[s, places[i]]
    for column in range(0, n + 1, LANES):
        store_row(inverse, n, column, spread(0.0))
    sum_rows(vectors[_STEP], vectors[_COLUMN], inverse, search.all, n, n + 1)
    pivot, by_point, by_direction = whole[s, s], whole[d, s], vectors[_DIRECTION, s]
    for i in range(n):
        pivot -= vectors[_COLUMN, i] * vectors[_STEP, i]
        by_point -= vectors[_COLUMN, i] * vectors[_FROM_POINT, i]
        by_direction -= vectors[_COLUMN, i] * vectors[_FROM_DIRECTION, i]
    vectors[_STEP, n] = -1.0
    by_point, by_direction = by_point / pivot, by_direction / pivot
    for column in range(0, n + 1, LANES):
        step = load_row(vectors, _STEP, column)
        point, direction = load_row(vectors, _FROM_POINT, column), load_row(vectors, _FROM_DIRECTION, column)
        store_row(vectors, _FROM_POINT, column, add_multiple(point, -by_point, step))
        store_row(vectors, _FROM_DIRECTION, column, add_multiple(direction, -by_direction, step))
        for i in range(n + 1):
            old = load_row(inverse, i, column)
            store_row(inverse, i, column, add_multiple(old, vectors[_STEP, i] / pivot, step))
    if not pivot > 1e-13 * whole[s, s]:
        return np.nan, np.nan
    return variance + by_point * by_point * pivot, gain - by_direction * by_direction * pivot


@inner
def sum_rows(out, factors, matrix, rows, n, width):  # type: ignore[no-untyped-def]
    """Write the sum of n rows of a matrix, each times its factor, in as many columns as fill lanes."""
    for k in range((width + LANES - 1) // LANES):
        total = spread(0.0)
        for i in range(n):
            total = add_multiple(total, factors[i], load_row(matrix, rows[i], k * LANES))
        store(out, k, total)
