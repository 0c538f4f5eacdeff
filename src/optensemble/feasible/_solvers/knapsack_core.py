"""Whole items for knapsacks of one resource, by branch and bound on the items in doubt.

Weights come as shares of the capacity, which is 1. Items that can never be taken weigh infinity.

The *price* of the capacity is the critical density, value over weight: items above it are taken at first. Any other
choice is told by the items that change sides. Its value is the bound of the linear relaxation, less what each of them
loses (the difference between its value and the price of its weight) and less the price of the room left. So no item
changes sides that loses more than a quick choice does in all; the others are the *core*. A search in depth flips them,
those nearest to the critical density first. Later items are further away from it, which bounds from below what it
costs to use the room left, or to be rid of an overload. Of items that are alike, in value and weight, the earlier ones
are taken first, so one of them flips only after those that the rule of ties prefers.

Rows whose items all have the same value are full of ties, and need no search: as many as possible are taken.

In most rows some ten choices are looked at. Rows with too many, or with choices that are neither clearly tied nor
clearly different, are left to lists of undominated states (:mod:`~optensemble.feasible._solvers.knapsack`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner, reduction
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.density import FIT, WEIGHTLESS, critical_near, weigh_above
from optensemble.feasible._solvers.scale import row_scale

_MOST_CHOICES = 400
"""A row with more choices to look at is given up: lists drop dominated states, and may be faster."""

_MOST_IN_CORE = 63
"""Items of the core, a bit for each in one integer; the sign bit would spoil comparisons."""

_HUGE = np.int64(0x7E37E43C8800759C)
"""The bits of 1e300, more than any value."""

_SAME_SHARE = 1 / 256
"""Values that differ by less than this share of the tie are tied beyond doubt, in whatever order they are summed."""


@njit(cache=True, nogil=True, error_model="numpy")
def choose_from_core(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the best items that fit; among tied choices the one with the earliest items."""
    n, d = C.shape
    value, weight, density, loss = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    as_whole = value.view(np.int64)
    candidates, buffer, price = np.empty((2, d)), np.empty((2, d)), 1.0
    core, bits, distance = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d)
    flips, stack, places = np.empty((4, d + 1)), np.empty((2, d + 1)), np.empty((2, d + 1), np.int64)
    for i in range(n):
        total, load = read_items(C[i], row_scale(C[i]), own[i] if own.shape[1] else floats, value, weight, density)
        if load <= 1.0 + FIT:
            for j in range(d):
                actions[i, j] = 1.0 if value[j] > 0.0 else 0.0
            continue
        if are_equal(value):
            take_most(value, weight, core, actions[i])
            continue
        price = critical_near(price, density, weight, candidates, buffer)
        room, tie = 1.0 + FIT - weigh_above(density, weight, price), SAME_VALUE * total
        least = quick_loss(as_whole, weight, density, price, room)
        size = find_core(value, weight, density, price, least + 3.0 * tie, tie, loss, core, distance)
        status[i] = 1
        if size <= _MOST_IN_CORE:
            sort_core(core[:size], distance, density, price, bits)
            choice = lay_out_flips(weight, density, price, loss, core[:size], distance, bits, flips)
            skip_alike(flips, size, places[1])
            winner = search(flips, bits, size, choice, price, room, least + 2.0 * tie, tie, stack, places)
            status[i] = winner < 0
            for j in range(d):
                actions[i, j] = 1.0 if density[j] > price else 0.0
            for k in range(size):
                actions[i, core[k]] = 1.0 if winner & bits[k] else 0.0


@reduction
def read_items(row, scale, shares, value, weight, density):  # type: ignore[no-untyped-def]
    """Write the items that may be taken, the others as 0; return the sums of their values and weights."""
    total = load = 0.0
    for j in range(len(row)):
        some = (row[j] > 0.0) & (shares[j] < np.inf)
        value[j], weight[j] = row[j] / scale if some else 0.0, shares[j] if some else 0.0
        density[j] = value[j] / (weight[j] if weight[j] > 0.0 else WEIGHTLESS)
        total += value[j]
        load += weight[j]
    return total, load


@inner
def are_equal(value):  # type: ignore[no-untyped-def]
    """Return whether all items that may be taken have the same value."""
    one = 0.0
    for j in range(len(value)):
        if value[j] != one and value[j] > 0.0:
            if one > 0.0:
                return False
            one = value[j]
    return True


@inner
def take_most(value, weight, order, action):  # type: ignore[no-untyped-def]
    """Take as many items as possible, and of such choices the one with the earliest items.

    The lightest are taken at first. Then each earlier item takes the place of the heaviest later one, if it fits.
    """
    count = 0
    for j in range(len(value)):
        action[j] = 0.0
        if value[j] > 0.0:
            place = count
            while place > 0 and weight[order[place - 1]] > weight[j]:
                order[place] = order[place - 1]
                place -= 1
            order[place], count = j, count + 1
    room, last = 1.0 + FIT, -1
    while last + 1 < count and weight[order[last + 1]] <= room:
        last += 1
        room -= weight[order[last]]
        action[order[last]] = 1.0
    for j in range(len(value)):
        while last >= 0 and order[last] < j:  # it is there to stay
            last -= 1
        if last >= 0 and value[j] > 0.0 and action[j] == 0.0 and weight[j] <= room + weight[order[last]]:
            action[j], action[order[last]] = 1.0, 0.0
            room += weight[order[last]] - weight[j]
            last -= 1


@inner
def quick_loss(value, weight, density, price, room):  # type: ignore[no-untyped-def]
    """Return the least that a quick choice loses of the bound, for values seen as integers.

    Quick choices take one more item that fits, or a critical one in exchange for one that is taken, or all critical
    ones that fit. Positive floats are in the order of their bits as integers, and extrema of integers are vectorised.
    """
    critical = 0.0
    for j in range(len(value)):
        critical = weight[j] if density[j] == price else critical
    most, least = np.int64(0), _HUGE
    for j in range(len(value)):
        most = max(most, value[j] if (density[j] <= price) & (weight[j] <= room) else np.int64(0))
        least = min(least, value[j] if (density[j] > price) & (weight[j] >= critical - room) else _HUGE)
    added, exchanged = np.int64(most).view(np.float64), np.int64(least).view(np.float64)
    left = room
    if critical <= room:  # there are several critical ones
        for j in range(len(value)):
            left -= weight[j] if (density[j] == price) & (weight[j] <= left) else 0.0
    return min(price * room - added, exchanged + price * (room - critical), price * left)


@inner
def find_core(value, weight, density, price, most, tie, loss, core, distance):  # type: ignore[no-untyped-def]
    """Write the items that do not lose too much if they change sides, what they lose, and their distances.

    Return how many they are; too many, if some are worth no more than a tie, for these make no clear difference.
    """
    for j in range(len(loss)):
        loss[j] = abs(value[j] - price * weight[j])
    size = vague = 0
    for j in range(len(loss)):
        core[size], distance[size] = j, abs(density[j] - price)
        doubtful = (loss[j] <= most) & (value[j] > 0.0)
        size += doubtful
        vague += doubtful & (value[j] <= tie)
    return size if vague == 0 else _MOST_IN_CORE + 1


@inner
def sort_core(core, distance, density, price, bits):  # type: ignore[no-untyped-def]
    """Sort the core by distance; before that, the first item gets the highest bit.

    Of items as far away, the later of those taken, and the earlier of the others, come first: they flip first.
    """
    for k in range(len(core)):
        item, far, place, taken = core[k], distance[k], k, density[core[k]] > price
        while place > 0 and (distance[place - 1] > far or (taken and distance[place - 1] == far)):
            core[place], distance[place], bits[place] = core[place - 1], distance[place - 1], bits[place - 1]
            place -= 1
        core[place], distance[place], bits[place] = item, far, 1 << (_MOST_IN_CORE - 1 - k)


@inner
def lay_out_flips(weight, density, price, loss, core, distance, bits, flips):  # type: ignore[no-untyped-def]
    """Write for each place of the core what a flip loses and how it changes the room; return the items taken as bits.

    After that, what a unit of room, and one of overload, costs at least from there on.
    """
    room, overload, taken = price, 1e300, np.int64(0)
    flips[2, len(core)], flips[3, len(core)] = room, overload
    for k in range(len(core) - 1, -1, -1):
        j = core[k]
        if density[j] > price:
            overload, taken = distance[k], taken | bits[k]
        else:
            room = distance[k]
        flips[0, k], flips[1, k] = loss[j], weight[j] if density[j] > price else -weight[j]
        flips[2, k], flips[3, k] = room, overload
    return taken


@inner
def skip_alike(flips, size, after):  # type: ignore[no-untyped-def]
    """Write for each place of the core the next one whose item is not alike."""
    for k in range(size - 1, -1, -1):
        alike = k + 1 < size and flips[0, k] == flips[0, k + 1] and flips[1, k] == flips[1, k + 1]
        after[k] = after[k + 1] if alike else k + 1


@inner
def search(flips, bits, size, choice, price, room, best, tie, stack, places):  # type: ignore[no-untyped-def]
    """Return the choice that loses least, of tied ones that with the earliest items; -1 if that is not clear."""
    lost, depth, place, winner, clear = 0.0, 0, 0, np.int64(-1), True
    for _ in range(_MOST_CHOICES):
        if room >= 0.0:
            loss = lost + price * room
            if loss < best - tie:
                best, winner, clear = loss, choice, True
            elif loss <= best + tie:
                winner, clear = max(winner, choice), clear and abs(loss - best) <= tie * _SAME_SHARE
        place = next_flip(flips, place, size, lost, room, best + tie)
        while place == size:
            if depth == 0:
                return winner if clear else np.int64(-1)
            depth -= 1
            lost, room, place = stack[0, depth], stack[1, depth], places[0, depth]
            choice ^= bits[place]
            place = next_flip(flips, places[1, place], size, lost, room, best + tie)
        stack[0, depth], stack[1, depth], places[0, depth] = lost, room, place
        depth += 1
        lost, room, choice = lost + flips[0, place], room + flips[1, place], choice ^ bits[place]
        place += 1
    return np.int64(-1)


@inner
def next_flip(flips, place, size, lost, room, most):  # type: ignore[no-untyped-def]
    """Return the first place from here on whose flip may still lead to a loss that is not too much; or the size."""
    while place < size:
        loss, left = lost + flips[0, place], room + flips[1, place]
        if loss + max(left * flips[2, place + 1], -left * flips[3, place + 1]) <= most:
            return place
        place += 1
    return size
