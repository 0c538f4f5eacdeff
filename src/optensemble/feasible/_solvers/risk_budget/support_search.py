"""The search for the best support of each row: the one that is proven, or else the best of all; compiled.

Rows that share a limit are tried side by side, each on its own first guess.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import entry, inner
from optensemble._core.lanes import (
    LANES,
    gather,
    larger,
    load,
    load_column,
    magnitudes,
    spread,
    store,
    store_column,
    where_greater,
)
from optensemble._core.scratch import scratch
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.risk_budget.support_proof import (
    BLOCKS,
    CONSTANT,
    KIND,
    leave_room,
    prove_side_by_side,
    proves,
    solve_on,
    stays_inside,
)
from optensemble.feasible._solvers.scale import LARGE, SMALL, row_scale

_HELD = 1e-9
"""A hint with this much of a coordinate holds it."""

NEGATIVE = 1e-12
"""A weight this little below zero is zero: it is rounding of the inverse."""

_KINDS, _FEW_KINDS = 4096, 16
"""Kinds of rows for which the last support is remembered, a power of two; few where most rows have a hint."""


_CHUNK = 64
"""Rows whose first guesses are tried before those that are left are solved, from which the next guesses learn."""

_ROOM = 2 * LANES * LANES
"""Numbers of the lanes of eight rows, and of their weights."""

_SEARCHED, _LEFT = -1.0, -2.0
"""In place of the coordinate that takes everything: a support is to be found, or the row is left by itself."""


class Supports(NamedTuple):
    """What all rows share, as the kernel cuts it up again."""

    number: Indices  # per set of coordinates, as the bits of a number: its support, or -1
    sizes: Indices  # per support
    order: Indices  # per support: its members, and then the other coordinates, each by their numbers
    records: Floats
    covariance: Floats
    centre: Floats
    limit: Floats  # as from own_limits, if all rows have the same


@entry
def best_on_supports(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row a coordinate that may take everything, the support that is proven, or the best of all."""
    d, count, width = C.shape[1], ints[0], BLOCKS * LANES
    number, sizes = ints[1 : 1 + (1 << d)], ints[1 + (1 << d) : 1 + (1 << d) + count]
    order = ints[1 + (1 << d) + count :].reshape(count, d)
    records, rest = floats[: count * width].reshape(count, width), floats[count * width :]
    covariance, centre, shared = rest[: d * d].reshape(d, d), rest[d * d : d * d + d], rest[d * d + d :]
    last = scratch(_KINDS, np.int16)[: _FEW_KINDS if hinted else _KINDS]
    last[:] = number[support_of(centre)]
    supports = Supports(number, sizes, order, records, covariance, centre, shared)
    c, y, best = scratch(LANES, np.float64), scratch(LANES, np.float64), scratch(LANES, np.float64)
    c[:], left, room = 0.0, scratch(_CHUNK, np.int64), RowRoom(last, c, y, best)
    eight = LanesRoom(scratch(LANES, np.int64), scratch(_ROOM, np.float64), left)
    for first in range(0, len(C), _CHUNK):
        stop = first + _CHUNK if first + _CHUNK < len(C) else len(C)
        count = prove_guesses(C, hinted, actions, own, supports, room, eight, first, stop)
        solve_left(C, hinted, actions, own, supports, room, left[:count])


class RowRoom(NamedTuple):
    """The last winner of each kind of row, which is the first guess of the next; and room for lanes of one row."""

    last: npt.NDArray[np.int16]
    c: Floats
    y: Floats
    best: Floats


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def solve_left(C, hinted, actions, own, supports, room, left):  # type: ignore[no-untyped-def]
    """Solve the rows that are left, one by one."""
    number, sizes, order, records, covariance, centre, shared = supports
    varies, c = own.shape[1] > 0, room.c[: C.shape[1]]
    for i in left:
        mine = own[i] if varies else shared
        top, low, high = read_row(C[i], c)
        size = high if high > -low else -low
        if covariance[top, top] <= mine[0] and stands_out(c, top, 3.0 * SAME_VALUE * size):
            take_everything(top, actions[i])
            continue
        kind = -1
        guess = number[support_of(actions[i])] if hinted else -1
        if guess < 0:
            kind = kind_of(c, low, high) & (len(room.last) - 1)
            guess = np.int64(room.last[kind])
        # a number that was once written out would be compiled for by itself
        winner = pursue(room.c, size, np.int64(top), guess, varies, mine, number, sizes, order, records, room.y)
        if winner < 0:
            winner = compare_all(room.c, size, varies, mine, sizes, order, records, room.y, room.best)
        if kind >= 0:
            room.last[kind] = winner
        write_support(room.y, records[winner, KIND * LANES :], actions[i])
        inside = records[winner, 10] != 0.0
        if varies:
            inside = stays_inside(records[winner], mine[0], mine[3], largest_variance(covariance))
        if not inside:
            pull_row_inside(actions[i], covariance, mine[0], mine[1], centre)


@inner
def largest_variance(covariance):  # type: ignore[no-untyped-def]
    """Return the largest variance of a coordinate; 1 if all are 0."""
    largest = 0.0
    for j in range(len(covariance)):
        largest = covariance[j, j] if covariance[j, j] > largest else largest
    return 1.0 if largest == 0.0 else largest


@inner
def take_everything(top, action):  # type: ignore[no-untyped-def]
    """Give everything to one coordinate."""
    for j in range(len(action)):
        action[j] = 1.0 if j == top else 0.0


# Eight rows side by side, each on its own first guess


class LanesRoom(NamedTuple):
    """Room for eight rows: where the record of each one's first guess begins, and lanes."""

    record: Indices
    lanes: Floats
    left: Indices  # rows of a chunk that are not solved


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def prove_guesses(C, hinted, actions, own, supports, room, eight, start, stop):  # type: ignore[no-untyped-def]
    """Solve rows eight at a time: what needs no search, and where the guess is proven; list and count the others.

    There is no branch on a row: it could not be predicted, and the next eight would wait for the outcome.
    """
    d, lanes, records, left = C.shape[1], eight.lanes, supports.records.reshape(-1), eight.left
    weights, nothing, one, count = lanes[d * LANES :], spread(0.0), spread(1.0), 0
    # limits of their own are left to rows by themselves, and so are the last few rows
    tried = start if own.shape[1] > 0 else stop - (stop - start) % LANES
    for first in range(start, tried, LANES):
        alone = make_guesses(C, hinted, actions, supports, room, eight, first)
        proven = prove_side_by_side(lanes, eight.record, records, d, weights)
        # what rounding may lead beyond the limit is left to rows by themselves
        proven = where_greater(gather(records, eight.record, 10), nothing, proven, nothing)
        single = where_greater(alone, spread(_SEARCHED), one, nothing)
        solved = where_greater(single, nothing, one, where_greater(alone, spread(_LEFT), proven, nothing))
        for j in range(d):
            weight = where_greater(magnitudes(alone - spread(np.float64(j))), nothing, nothing, one)
            weight = where_greater(single, nothing, weight, load(weights, j))
            store_column(actions, first, j, where_greater(solved, nothing, weight, load_column(actions, first, j)))
        store(room.best, 0, solved)
        for lane in range(LANES):
            left[count] = first + lane
            count += room.best[lane] == 0.0
    for i in range(tried, stop):
        left[count], count = i, count + 1
    return count


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def make_guesses(C, hinted, actions, supports, room, eight, first):  # type: ignore[no-untyped-def]
    """Guess the supports of eight rows; return lanes of the coordinate that takes everything.

    That is ``_SEARCHED`` of other rows, and ``_LEFT`` of those that are to be solved by themselves.
    """
    d, lanes, width, nothing = C.shape[1], eight.lanes, supports.records.shape[1], spread(0.0)
    low, high, second = spread(np.inf), spread(-np.inf), spread(-np.inf)
    top, variance = nothing, nothing
    for j in range(d):
        c = load_column(C, first, j)
        store(lanes, j, c)
        second = where_greater(c, high, high, larger(second, c))
        top = where_greater(c, high, spread(np.float64(j)), top)
        variance = where_greater(c, high, spread(supports.covariance[j, j]), variance)
        high = larger(c, high)
        low = where_greater(low, c, c, low)
    size, searched, left = larger(high, nothing - low), spread(_SEARCHED), spread(_LEFT)
    alone = where_greater(high - spread(3.0 * SAME_VALUE) * size, second, top, searched)
    alone = where_greater(variance, spread(supports.limit[0]), searched, alone)
    # products of a row of extreme size could overflow or vanish: it is solved by itself, and scaled
    alone = where_greater(size, spread(LARGE), left, alone)
    alone = where_greater(spread(SMALL), size, where_greater(size, nothing, left, alone), alone)
    # the range of such a row may be infinite, and no pattern be read off it
    store(lanes, d, where_greater(size, spread(LARGE), nothing, low))
    store(lanes, d + 1, where_greater(size, spread(LARGE), nothing, high))
    for lane in range(LANES):
        i = first + lane
        guess = supports.number[support_of(actions[i])] if hinted else -1
        if guess < 0:
            kind = kind_of(C[i], lanes[d * LANES + lane], lanes[(d + 1) * LANES + lane])
            guess = room.last[kind & (len(room.last) - 1)]
        eight.record[lane] = guess * width
    return alone


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def read_row(row, c):  # type: ignore[no-untyped-def]
    """Copy a row, divided by its size if that is extreme; return the place of its largest entry, and its range."""
    scale = row_scale(row)
    top, low, high = 0, np.inf, -np.inf
    for j in range(len(c)):
        c[j] = row[j] / scale if scale != 1.0 else row[j]
        top, high = (j, c[j]) if c[j] > high else (top, high)
        low = c[j] if c[j] < low else low
    return top, low, high


@inner
def kind_of(c, low, high):  # type: ignore[no-untyped-def]
    """Return a number below ``_KINDS`` that rows of the same pattern share; they often hold the same support.

    The pattern is the eighth of the row's range that each entry is in.
    """
    code, per_unit = 0, 7.999 / (high - low) if high - low > 1e-290 else 0.0
    for j in range(len(c)):
        code = code << 3 | int((c[j] - low) * per_unit)
    return (code ^ code >> 12) & (_KINDS - 1)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def stands_out(c, top, margin):  # type: ignore[no-untyped-def]
    """Return whether one coefficient is larger than all others by more than the margin."""
    rival = -np.inf
    for j in range(len(c)):
        rival = c[j] if c[j] > rival and j != top else rival
    return rival < c[top] - margin


@inner
def support_of(action):  # type: ignore[no-untyped-def]
    """Return the coordinates that an action holds, as the bits of a number."""
    bits = 0
    for j in range(len(action)):
        bits |= (action[j] > _HELD) << j
    return bits


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def first_at(y, order, start, value):  # type: ignore[no-untyped-def]
    """Return the first coordinate that has a value, in the order of a support, from a place in it on."""
    place = start
    while y[order[place]] != value:
        place += 1
    return order[place]


@inner
def pursue(c, c_size, top, start, varies, mine, number, sizes, order, records, y):  # type: ignore[no-untyped-def]
    """Exchange one coordinate after the other until a support is proven; return it, or -1 if none is."""
    t = start
    for _ in range(3 * order.shape[1]):
        if t < 0 or (varies and records[t, 0] > mine[2]):
            return -1
        size, moved = sizes[t], top
        if size > 1:
            room, price = leave_room(records[t], mine[0], mine[3]) if varies else (records[t, 8], records[t, 9])
            root, weight, multiplier = solve_on(c, False, room, records[t], order[t], size, y)
            if proves(c_size, root, price, records[t], weight, multiplier):
                return t
            if weight >= 0.0 and multiplier >= 0.0:
                return -1
            out, value = (0, weight) if weight < 0.0 else (size, multiplier)
            moved = first_at(y, order[t], out, value)
        bits = 1 << moved
        for k in range(size):
            bits ^= 1 << order[t, k]
        t = number[bits]
    return -1


@inner
def compare_all(c, c_size, varies, mine, sizes, order, records, y, best):  # type: ignore[no-untyped-def]
    """Return the support that is proven, or else the best; a later one must win by more than the tie."""
    to_beat, winner, settled = -np.inf, 0, False
    for t in range(len(sizes)):
        if varies and records[t, 0] > mine[2]:
            continue
        size, first = sizes[t], c[order[t, 0]]
        low = high = first
        for k in range(1, size):
            low, high = min(low, c[order[t, k]]), max(high, c[order[t, k]])
        if high <= to_beat and settled:
            continue
        room, price = leave_room(records[t], mine[0], mine[3]) if varies else (records[t, 8], records[t, 9])
        flat = high - low <= SAME_VALUE * c_size
        root, weight, multiplier = solve_on(c, flat, room, records[t], order[t], size, y)
        if proves(c_size, root, price, records[t], weight, multiplier):
            return t
        value = first + room * root
        for k in range(1, size):
            value += records[t, CONSTANT * LANES + order[t, k]] * (c[order[t, k]] - first)
        if weight >= -NEGATIVE and value > to_beat:
            to_beat, winner, settled = value + SAME_VALUE * c_size, t, size == 1 or price > 0.0
            store(best, 0, load(y, 0))
    store(y, 0, load(best, 0))
    return winner


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_support(y, kind, action):  # type: ignore[no-untyped-def]
    """Give the weights of a support to its members, whose kind is 1, so that they sum to one; ``y`` is used up."""
    total, weights = 0.0, larger(load(y, 0), spread(0.0))
    weights = where_greater(load(kind, 0), spread(0.0), weights, spread(0.0))
    store(y, 0, weights)
    for j in range(len(action)):
        total += y[j]
    store(y, 0, weights / spread(total))
    for j in range(len(action)):
        action[j] = y[j]


@inner
def pull_row_inside(action, covariance, limit, slack, centre):  # type: ignore[no-untyped-def]
    """Move an action beyond the limit and its slack toward the centre, no further than needed."""
    variance = bilinear(covariance, action, action)
    if variance <= limit + slack:
        return
    least = bilinear(covariance, centre, centre)
    cross = bilinear(covariance, centre, action)
    square = variance - 2.0 * cross + least
    half = cross - least
    # Along centre + t (action - centre) the variance is least + 2 t half + t^2 square.
    root = np.sqrt(max(half * half + square * (limit - least), 0.0))
    t = min(max((root - half) / square, 0.0), 1.0) if square > 0.0 else 0.0
    for j in range(len(action)):
        action[j] = centre[j] + t * (action[j] - centre[j])


@entry
def pull_inside(actions, covariance, limit, slack, centre):  # type: ignore[no-untyped-def]
    """Move every row beyond the limit toward the centre."""
    for i in range(len(actions)):
        pull_row_inside(actions[i], covariance, limit, slack, centre)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def bilinear(covariance, a, b):  # type: ignore[no-untyped-def]
    """Return ``a'Cb``."""
    total = 0.0
    for j in range(len(a)):
        row = 0.0
        for k in range(len(b)):
            row += covariance[j, k] * b[k]
        total += a[j] * row
    return total
