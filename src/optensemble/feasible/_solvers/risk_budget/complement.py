"""A search for the active set that works on the coordinates it leaves out: the quicker way where most are held.

Without bounds the best portfolio at a price ``1/t`` of variance is ``v + t N c``, where ``v`` has the least variance
``s`` of all weights that sum to 1, and ``[[N, v], [v', -s]]`` is the inverse of ``[[C, 1], [1', 0]]``. Coordinates that
are kept at 0 need prices ``w``, with ``a = v + N (t c + w)``; so ``w`` solves a system with ``N`` at these coordinates
alone. Two right-hand sides, ``-v`` and ``-N c``, give it for all t, and their squares the variance and its price.

What is found is a guess: it is proven, and its action computed, by ``active_set``, which sees nothing of the search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner, maker
from optensemble.feasible._solvers.risk_budget.active_set import IN, OUT, add_rows
from optensemble.feasible._solvers.risk_budget.elimination import eliminate, set_up_block

_EXCHANGES = 12
"""Exchanges to try; three or four are usual."""


class Whole(NamedTuple):
    """N, v and s; N has no rows where the search is not for the set: it has caps or sectors, or C is near singular."""

    inverse: Floats
    point: Floats
    variance: float


@maker
def unpack_whole(d, floats):  # type: ignore[no-untyped-def]
    """Cut up a ``Whole`` whose parts are laid end to end."""
    rows = d if len(floats) else 0
    return Whole(floats[: rows * d].reshape(rows, d), floats[rows * d : rows * d + rows], floats[-1] if rows else 0.0)


@inner
def search_complement(c, limit, whole, work):  # type: ignore[no-untyped-def]
    """Exchange all places whose signs are wrong, beginning with all coordinates held; return whether that has an end.

    It ends also where most coordinates are out, for ``active_set`` to go on.
    """
    d, state, direction, action, prices = len(c), work.state, work.w[0], work.w[1], work.x[0]
    for s in range(len(state)):
        state[s], work.places[s], direction[s] = IN, s, 0.0
    add_rows(direction[:d], c, whole.inverse, work.places[:d])
    gain = 0.0
    for s in range(d):
        gain += c[s] * direction[s]
    for _ in range(_EXCHANGES):
        n = list_out(state[:d], work.places)
        if 2 * n > d:
            return True
        t = price_out(gain, limit, n, whole, work)
        if t < 0.0:
            return False
        for s in range(d):
            action[s] = whole.point[s] + t * direction[s]
        add_rows(action[:d], prices, whole.inverse, work.places[:n])
        if exchange_all(action[:d], prices, state) == 0:
            return True
    return False


@inner
def list_out(state, places):  # type: ignore[no-untyped-def]
    """Write the places that are out, and count them."""
    n = 0
    for s in range(len(state)):
        if state[s] == OUT:
            places[n], n = s, n + 1
    return n


@inner
def price_out(gain, limit, n, whole, work):  # type: ignore[no-untyped-def]
    """Write the prices of the places that are out; return the t where the variance is at its limit, or -1.

    ``gain`` is ``c'Nc``.
    """
    M, places, direction, prices = work.system, work.places[:n], work.w[0], work.x[0]
    width = set_up_block(whole.inverse, places, M, 2)
    for i in range(n):
        M[i, n], M[i, n + 1] = whole.point[places[i]], direction[places[i]]
    eliminate(M, n, width)
    variance = whole.variance
    for i in range(n):
        if not M[i, i] > 1e-13 * whole.inverse[places[i], places[i]]:
            return -1.0
        variance += M[i, n] * M[i, n] / M[i, i]
        gain -= M[i, n + 1] * M[i, n + 1] / M[i, i]
    if not (gain > 0.0 and variance < limit):
        return -1.0
    t = np.sqrt((limit - variance) / gain)
    for i in range(n - 1, -1, -1):
        price = -(M[i, n] + t * M[i, n + 1])
        for j in range(i + 1, n):
            price -= M[i, j] * prices[places[j]]
        prices[places[i]] = price / M[i, i]
    return t


@inner
def exchange_all(action, prices, state):  # type: ignore[no-untyped-def]
    """Let places out whose weight is below 0, and in whose price is; return how many."""
    wrong = 0
    for s in range(len(action)):
        if state[s] == IN and action[s] < 0.0:
            state[s], wrong = OUT, wrong + 1
        elif state[s] == OUT and prices[s] < 0.0:
            state[s], wrong = IN, wrong + 1
    return wrong
