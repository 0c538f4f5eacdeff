"""Whole items for knapsacks, by lists of undominated states.

Weights come as shares of their capacity, so that every capacity is 1. Items that can never be taken weigh infinity.

Items are chosen as in Pisinger's "A minimal algorithm for the 0-1 knapsack problem" (1997). Each resource gets a
price, and at these prices every item either pays for its weight or does not. To take all that pay would be best, if the
capacities came at these prices; an item that changes sides loses the difference between its value and its cost. Only
items that lose less than a greedy choice does are in doubt, the *core*. They change sides one after the other, those
nearest to their cost first, in a list of all states that still can win: the room left at these prices, the value, the
load of each resource, and the items taken as bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.density import FIT, critical_density
from optensemble.feasible._solvers.scale import row_scale

MOST_STATES = 1 << 19
"""A row with more undominated states than this at a time is given up: their memory is set aside for every thread."""

MOST_STATES_IN_ALL = 1 << 22
"""A row with more states than this in total is given up: HiGHS may be faster then."""

_SAME_LOAD = 1e-14
"""Loads, as shares of the capacity, that differ less are the same: sums of them are rounded by as much."""

_SAME_SHARE = 1 / 64
"""Values that differ by less than this share of the tie are the same, so that 64 such steps stay within a tie."""

_WORD = 63
"""Items of the core in one integer, a bit for each; the sign bit would spoil comparisons."""

_STEPS = 30
"""Steps of the subgradient method; prices that are not the best cost time, and no correctness."""


def table_size(items: int, resources: int) -> int:
    """Return the number of 64-bit numbers that the states of a row may take."""
    return 2 * MOST_STATES * (3 + resources + items // _WORD)


@njit(cache=True, nogil=True, error_model="numpy")
def choose_items(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the best items that fit; among tied choices the one with the earliest items."""
    n, d = C.shape
    m = ints[0]
    weights = np.empty((d, m))
    values, costs, distances = np.empty(d), np.empty(d), np.empty(d)
    items, core = np.empty(d, np.int64), np.empty(d, np.int64)
    orders, ranks = np.empty(d, np.int64), np.empty(d, np.int64)
    price, trial, used = np.empty(m), np.empty(m), np.empty(m)
    space, ends = np.empty((3, 2, d)), np.empty((d + 1, 2))
    states, masks = np.empty((2 * MOST_STATES, 2 + m)), np.empty((2 * MOST_STATES, 1 + d // _WORD), np.int64)
    for i in range(n):
        shares = (own[i] if own.shape[1] else floats).reshape(d, m)
        scale = row_scale(C[i])
        count = 0
        for j in range(d):
            actions[i, j] = 0.0
            items[count], values[count] = j, C[i, j] / scale
            for r in range(m):
                weights[count, r] = shares[j, r]
            count += (values[count] > 0.0) & (shares[j, 0] < np.inf)
        value, weight, cost, distance = values[:count], weights[:count], costs[:count], distances[:count]
        order, rank = orders[:count], ranks[:count]
        ceiling, fits = find_prices(value, weight, price, trial, used, space)
        total = apply_prices(value, weight, price, cost, distance, order, rank)
        winner = 0
        if not fits:
            sort_by(distance, order)
            best = greedy(value, weight, cost, order, used)
            tie = SAME_VALUE * total
            winner = search_core(value, weight, cost, price, order, core, rank, ceiling, best, tie, ends, states, masks)
        status[i] = winner < 0
        for k in range(count):
            taken = masks[winner, rank[k] // _WORD] & bit(rank[k]) if rank[k] >= 0 else value[k] > cost[k]
            actions[i, items[k]] = 1.0 if taken else 0.0


@inner
def find_prices(value, weight, price, trial, used, space):  # type: ignore[no-untyped-def]
    """Find a price for each resource that makes the Lagrangian bound low; return the bound, and whether all items fit.

    With one resource the critical density is the best price. With several, one after the other is made the best for
    the others, and subgradient steps of Polyak's length go on from there. If all items fit, everything is free.
    """
    n, m = weight.shape
    most = 0.0
    for r in range(m):
        price[r] = trial[r] = 0.0
    lagrangian(value, weight, trial, used)
    for r in range(m):
        most = max(most, used[r])
    if most <= 1.0 + FIT:
        return 0.0, True
    for turn in range(m if m == 1 else 2 * m):
        r = turn % m
        for k in range(n):
            gain = value[k]
            for q in range(m):
                gain -= trial[q] * weight[k, q] if q != r else 0.0
            space[0, 0, k] = gain / weight[k, r] if weight[k, r] > 0.0 else 0.0
            space[0, 1, k] = weight[k, r]
        trial[r] = critical_density(space[0, 0], space[0, 1], n, space[1], space[2])
    bound, pace = np.inf, 0.02
    for _ in range(1 if m == 1 else _STEPS):
        now = lagrangian(value, weight, trial, used)
        if now < bound:
            bound = now
            for r in range(m):
                price[r] = trial[r]
        else:
            pace *= 0.7
        length = 1e-300
        for r in range(m):
            length += (used[r] - 1.0) ** 2
        for r in range(m):
            trial[r] = max(trial[r] + pace * bound * (used[r] - 1.0) / length, 0.0)
    return bound, False


@inner
def lagrangian(value, weight, price, used):  # type: ignore[no-untyped-def]
    """Return the price of the capacities plus what the items that pay gain; ``used`` becomes what these use."""
    n, m = weight.shape
    bound = 0.0
    for r in range(m):
        bound += price[r] * (1.0 + FIT)
        used[r] = 0.0
    for k in range(n):
        gain = value[k]
        for r in range(m):
            gain -= price[r] * weight[k, r]
        if gain > 0.0:
            bound += gain
            for r in range(m):
                used[r] += weight[k, r]
    return bound


@inner
def apply_prices(value, weight, price, cost, distance, order, rank):  # type: ignore[no-untyped-def]
    """Find the cost of each item and how far it is from its value, relative to it; return the sum of the values."""
    n, m = weight.shape
    total = 0.0
    for k in range(n):
        cost[k] = 0.0
        for r in range(m):
            cost[k] += price[r] * weight[k, r]
        distance[k] = abs(value[k] - cost[k]) / cost[k] if cost[k] > 0.0 else np.inf
        order[k], rank[k] = k, -1
        total += value[k]
    return total


@inner
def sort_by(key, order):  # type: ignore[no-untyped-def]
    """Sort items by ascending key, in place, by Shell's sort."""
    gap = 1
    while gap < len(order) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(gap, len(order)):
            j, place = order[k], k
            while place >= gap and key[order[place - gap]] > key[j]:
                order[place] = order[place - gap]
                place -= gap
            order[place] = j
        gap //= 3


@inner
def greedy(value, weight, cost, order, used):  # type: ignore[no-untyped-def]
    """Return the value of taking what fits: items that pay, the furthest from their cost first, and then the rest."""
    n, m = weight.shape
    worth = 0.0
    for r in range(m):
        used[r] = 0.0
    for turn in range(2 * n):
        k = order[n - 1 - turn if turn < n else turn - n]
        fits = (value[k] > cost[k]) == (turn < n)
        for r in range(m):
            fits &= used[r] + weight[k, r] <= 1.0 + FIT
        if fits:
            worth += value[k]
            for r in range(m):
                used[r] += weight[k, r]
    return worth


@inner
def search_core(  # type: ignore[no-untyped-def]
    value, weight, cost, price, order, core, rank, ceiling, best, tie, ends, states, masks
):
    """Return the best state, of the tied ones that with the earliest items; -1 if there are too many states."""
    size = 0
    for k in order:
        core[size] = k
        size += abs(value[k] - cost[k]) <= ceiling - best + tie
    start_state(value, weight, cost, price, core[:size], rank, states, masks)
    find_ends(value, cost, core[:size], ends)
    words = 1 + size // _WORD
    # Literals would have what follows compiled twice.
    work, count, source = np.int64(0), np.int64(1), np.int64(0)
    for place in range(size):
        k = core[place]
        if abs(value[k] - cost[k]) <= ceiling - best + tie:
            work += 2 * count
            if 2 * count > MOST_STATES or work > MOST_STATES_IN_ALL:
                return -1
            left = ends[place + 1]
            count, best = expand(
                states, masks, source, count, value[k], cost[k], weight[k], rank[k], words, left, best, tie
            )
            source = np.int64(MOST_STATES - source)
    winner = -1
    for t in range(source, source + count):
        fits = states[t, 1] >= best - tie
        for r in range(len(price)):
            fits &= states[t, 2 + r] <= 1.0 + FIT
        if fits and (winner < 0 or compare(masks, t, winner, words) > 0):
            winner = t
    return winner


@inner
def start_state(value, weight, cost, price, core, rank, states, masks):  # type: ignore[no-untyped-def]
    """Make the state where all items that pay are taken: the room left at these prices, the value, the loads, the bits.

    Items of the core are ranked by index, and the first has the highest bit.
    """
    n, m = weight.shape
    states[0, 0] = states[0, 1] = 0.0
    for r in range(m):
        states[0, 0] += price[r] * (1.0 + FIT)
        states[0, 2 + r] = 0.0
    for word in range(1 + len(core) // _WORD):
        masks[0, word] = 0
    for k in core:
        rank[k] = 0
    count = 0
    for k in range(n):
        if rank[k] == 0:
            rank[k] = count
            count += 1
        if value[k] > cost[k]:
            states[0, 0] -= cost[k]
            states[0, 1] += value[k]
            for r in range(m):
                states[0, 2 + r] += weight[k, r]
            if rank[k] >= 0:
                masks[0, rank[k] // _WORD] |= bit(rank[k])


@inner
def bit(rank):  # type: ignore[no-untyped-def]
    """Return the bit of an item of the core in its word."""
    return 1 << (_WORD - 1 - rank % _WORD)


@inner
def compare(masks, a, b, words):  # type: ignore[no-untyped-def]
    """Return a positive number if ``a`` takes the earlier items, a negative one if ``b`` does, and otherwise 0."""
    for word in range(words):
        if masks[a, word] != masks[b, word]:
            return masks[a, word] - masks[b, word]
    return 0


@inner
def find_ends(value, cost, core, ends):  # type: ignore[no-untyped-def]
    """Find the most that a unit of room gains, and the least that a lack of it costs, from each place of the core."""
    gain, loss = 0.0, 1e300
    ends[len(core), 0], ends[len(core), 1] = gain, loss
    for place in range(len(core) - 1, -1, -1):
        k = core[place]
        if value[k] <= cost[k]:
            gain = max(gain, value[k] / cost[k])
        elif cost[k] > 0.0:
            loss = min(loss, value[k] / cost[k])
        ends[place, 0], ends[place, 1] = gain, loss


@inner
def expand(states, masks, source, count, value, cost, weight, rank, words, ends, best, tie):  # type: ignore[no-untyped-def]
    """Merge the states with those where one item changes sides, by descending room, without those that cannot win.

    A state is dropped too if the one before uses no more and is worth more, or as much with earlier items. With one
    resource, where room is what is not used, that leaves no state worse than another in everything.
    """
    m, change = len(weight), -1.0 if value > cost else 1.0
    gain, loss = ends[0], ends[1]
    a = b = source
    end, first = source + count, MOST_STATES - source
    top = first
    while a < end or b < end:
        flip = b < end and (a == end or states[b, 0] - change * cost > states[a, 0])
        t, step = (b, change) if flip else (a, 0.0)
        a, b = a + (not flip), b + flip
        room, worth = states[t, 0] - step * cost, states[t, 1] + step * value
        if worth + room * (gain if room > 0.0 else loss) < best - tie:
            continue
        last = max(top - 1, first)
        fits = below = alike = True
        for r in range(m):
            load = states[t, 2 + r] + step * weight[r]
            fits &= load <= 1.0 + FIT
            below &= states[last, 2 + r] <= load + _SAME_LOAD
            alike &= load <= states[last, 2 + r] + _SAME_LOAD
            states[top, 2 + r] = load
        best = max(best, worth) if fits else best
        for word in range(words):
            masks[top, word] = masks[t, word]
        if flip:
            masks[top, rank // _WORD] ^= bit(rank)
        states[top, 0], states[top, 1] = room, worth
        if below and top > first:
            lead = worth - states[last, 1]
            if abs(lead) <= tie * _SAME_SHARE:
                lead = compare(masks, top, last, words)
            if lead <= 0.0:
                continue
            if alike:
                for r in range(2 + m):
                    states[last, r] = states[top, r]
                for word in range(words):
                    masks[last, word] = masks[top, word]
                continue
        top += 1
    return top - first, best
