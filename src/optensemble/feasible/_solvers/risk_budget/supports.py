"""A linear objective on the simplex under a quadratic limit, in closed form over all supports.

On the support S the best point of ``sum(a) = 1, a'Ca <= limit`` is ``m + s D c``, where the inverse of the
optimality system ``[[C_S, 1], [1', 0]]`` is ``[[D, m], [m', -v]]``: ``m`` is the point of least variance
``v``, and ``s = sqrt((limit - v) / c'Dc)``. This form serves singular covariances too: an optimal action of
smallest support always has an invertible system. A coordinate j outside S has the multiplier
``(C_Sj'm - v) / s + (m + D C_Sj)'c - c_j``. All of this is linear in c but for s: one small matrix for each support.

A support is *proven* where all weights and multipliers are positive by a margin. Every feasible point that lacks one
of its coordinates is then worse by at least ``min(b^2 / (8 s D), p b / (2 + 4 h))``, where ``b`` is the least weight,
``p`` the least multiplier, ``D`` the largest diagonal entry of the matrix D, and ``h^2`` that times the largest
variance. The margins keep this far above the tie and above rounding. So at most one support is proven, it is the one
that a comparison of all supports would choose, and the order in which supports are tried does not matter. Rows without
a proven support compare them all.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble._core.lanes import LANES, larger, least, load, spread, store, where_greater
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.scale import row_scale

_CONDITION = 1e12
"""Supports whose system is worse conditioned than this are left to their subsets."""

_PROVABLE = 1e8
"""Supports whose system is worse conditioned than this are not proven, but compared."""

NEGATIVE = 1e-12
"""A weight this little below zero is zero: it is rounding of the inverse."""

_HELD = 1e-9
"""A hint with this much of a coordinate holds it."""

_BLOCKS, _CONSTANT, _KIND, _COLUMNS = 4 + LANES, 2, 3, 4
"""A support's record is made of blocks of ``LANES`` numbers, one for each coordinate: as many as a set has at most.

How many blocks there are, and which hold the constant part, the kind of each coordinate, and from which on the columns
of the linear part. A header comes before them; :func:`_record` lists it.
"""

_KINDS, _FEW_KINDS = 4096, 16
"""Kinds of rows for which the last support is remembered, a power of two; few where most rows have a hint."""

System = tuple[tuple[int, ...], Floats, float]
"""The members of a support, the inverse of its optimality system in units of the largest variance, its condition."""


class Supports(NamedTuple):
    """What all rows share, as the kernel cuts it up again."""

    number: Indices  # per set of coordinates, as the bits of a number: its support, or -1
    sizes: Indices  # per support
    order: Indices  # per support: its members, and then the other coordinates, each by their numbers
    records: Floats
    covariance: Floats
    centre: Floats
    limit: Floats  # as from own_limits, if all rows have the same


def list_systems(covariance: Floats) -> list[System]:
    """Return the supports whose system can be inverted: by size, and then in lexicographic order."""
    d, scale = len(covariance), float(np.diag(covariance).max()) or 1.0
    found = []
    for size in range(1, d + 1):
        for members in combinations(range(d), size):
            system = np.ones((size + 1, size + 1))
            system[:size, :size] = covariance[np.ix_(members, members)] / scale
            system[-1, -1] = 0.0
            singular = np.linalg.svd(system, compute_uv=False)
            if singular[-1] * _CONDITION > singular[0]:
                inverse = np.asarray(np.linalg.inv(system), dtype=np.float64)
                found.append((members, inverse, float(singular[0] / singular[-1])))
    return found


def least_variance_on_simplex(covariance: Floats) -> tuple[Floats, float]:
    """Return the action of least variance on the simplex, and its variance."""
    best, least = np.zeros(len(covariance)), np.inf
    for members, inverse, _ in list_systems(covariance):
        weights = inverse[:-1, -1]
        if weights.min() < -NEGATIVE:
            continue
        action = np.zeros(len(covariance))
        action[list(members)] = np.maximum(weights, 0.0)
        action /= action.sum()
        variance = float(action @ covariance @ action)
        if variance < least:
            best, least = action, variance
    return best, least


def own_limits(limit: Floats, slack: Floats, least: float) -> Floats:
    """Return what the kernel needs to know of limits, a row each: the limit, its slack, the most variance, if a face.

    The slack is for a limit at the least variance alone; nothing can be proven there.
    """
    face = limit - least <= slack
    return np.column_stack([limit, slack, limit + np.where(face, slack, 1e-12 * limit), face])


def supports_kernel(covariance: Floats, centre: Floats, limit: Floats | None = None) -> Kernel:
    """Return the kernel that finds the best support of each row, for one limit (see :func:`own_limits`) or the rows'.

    Supports beyond the one limit are left out.
    """
    d, scale = len(covariance), float(np.diag(covariance).max()) or 1.0
    systems = list_systems(covariance)
    if limit is not None:
        systems = [one for one in systems if -scale * one[1][-1, -1] <= limit[2]]
    records = np.zeros((len(systems), _BLOCKS * LANES))
    order = np.zeros((len(systems), d), dtype=np.int64)
    number = np.full(2**d, -1)
    for t, (members, inverse, condition) in enumerate(systems):
        others = [j for j in range(d) if j not in members]
        order[t] = [*members, *others]
        number[sum(1 << j for j in members)] = t
        records[t] = _record(covariance, order[t], inverse, condition, scale)
    if limit is not None:
        limit_records(records, limit[0], limit[3], scale)
    sizes = [len(members) for members, _, _ in systems]
    return make_kernel(
        best_on_supports,
        floats=[records, covariance, centre, np.full(4, np.nan) if limit is None else limit],
        ints=[len(systems), number, sizes, order],
    )


def _record(
    covariance: Floats, order: npt.NDArray[np.int64], inverse: Floats, condition: float, scale: float
) -> Floats:
    """Return the numbers of one support: a header, the constant part, the kinds of coordinates, and the linear part.

    The kind is 1 of a member, -1 of another coordinate, and 0 of what only fills up the block.
    """
    d, size = len(order), len(inverse) - 1
    D, m, v = inverse[:-1, :-1] / scale, inverse[:-1, -1], -inverse[-1, -1] * scale
    cross = covariance[np.ix_(order[size:], order[:size])]
    constant = np.concatenate([m, cross @ m - v])
    record = np.zeros((_BLOCKS, LANES))
    record[_CONSTANT, order] = constant
    record[_KIND, order] = np.where(np.arange(d) < size, 1.0, -1.0)
    record[_COLUMNS + order[:size, None], order] = np.concatenate([D, m + cross @ D]).T
    widest = float(np.diag(D).max())
    rounding = 64 * np.finfo(np.float64).eps * condition
    header = [
        v,
        size > 1 and condition < _PROVABLE,
        100 * SAME_VALUE * np.sqrt(widest),  # a support whose coefficients are tied stays below
        max(1e-7, rounding),
        512 * SAME_VALUE * widest,
        64 * SAME_VALUE * (1.0 + 2.0 * np.sqrt(widest * scale)),
        max(64 * SAME_VALUE, rounding),
        rounding,
        0.0,  # of a limit that all rows share: the room it leaves, its price, and whether rounding stays within it
        0.0,
        0.0,
    ]
    flat = record.ravel()
    flat[: len(header)] = header
    return flat


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def leave_room(record, limit, face):  # type: ignore[no-untyped-def]
    """Return the root of what the limit leaves a support above its least variance, and the price of that.

    No price, no proof.
    """
    room = np.sqrt(max(limit - record[0], 0.0))
    provable = record[1] != 0.0 and face == 0.0 and 0.0 < 1e-8 * limit < room * room
    return room, (1.0 / room if provable else 0.0)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def stays_inside(record, limit, face, scale):  # type: ignore[no-untyped-def]
    """Return whether rounding cannot lead beyond the limit."""
    return face == 0.0 and limit > 0.0 and record[7] * np.sqrt(scale / limit) < 1e-9


@njit(cache=True, nogil=True, error_model="numpy")
def limit_records(records, limit, face, scale):  # type: ignore[no-untyped-def]
    """Write the room that a limit shared by all rows leaves each support, and whether rounding stays within it."""
    for t in range(len(records)):
        records[t, 8], records[t, 9] = leave_room(records[t], limit, face)
        records[t, 10] = stays_inside(records[t], limit, face, scale)


@njit(cache=True, nogil=True, error_model="numpy")
def best_on_supports(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row a coordinate that may take everything, the support that is proven, or the best of all."""
    d, count, width = C.shape[1], ints[0], _BLOCKS * LANES
    number, sizes = ints[1 : 1 + (1 << d)], ints[1 + (1 << d) : 1 + (1 << d) + count]
    order = ints[1 + (1 << d) + count :].reshape(count, d)
    records, rest = floats[: count * width].reshape(count, width), floats[count * width :]
    covariance, centre, shared = rest[: d * d].reshape(d, d), rest[d * d : d * d + d], rest[d * d + d :]
    last = np.full(_FEW_KINDS if hinted else _KINDS, np.int16(number[support_of(centre)]))
    supports = Supports(number, sizes, order, records, covariance, centre, shared)
    solve_rows(C, hinted, actions, own, supports, last, np.zeros(LANES), np.empty(LANES), np.empty(LANES))


@inner
def solve_rows(C, hinted, actions, own, supports, last, lanes, y, best):  # type: ignore[no-untyped-def]
    """Solve all rows; the last winner of each kind of row is the first guess of the next."""
    number, sizes, order, records, covariance, centre, shared = supports
    n, d = C.shape
    c, scale, varies = lanes[:d], 0.0, own.shape[1] > 0
    for j in range(d):
        scale = max(scale, covariance[j, j])
    scale = 1.0 if scale == 0.0 else scale
    for i in range(n):
        mine = own[i] if varies else shared
        top, low, high = read_row(C[i], c)
        size, kind = max(high, -low), -1
        if covariance[top, top] <= mine[0] and stands_out(c, top, 3.0 * SAME_VALUE * size):
            for j in range(d):
                actions[i, j] = 1.0 if j == top else 0.0
            continue
        held = number[support_of(actions[i])] if hinted else -1
        if held < 0:
            kind = kind_of(c, low, high) & (len(last) - 1)
        guess = held if held >= 0 else last[kind]
        winner = pursue(lanes, size, top, guess, varies, mine, number, sizes, order, records, y)
        if winner < 0:
            winner = compare_all(lanes, size, varies, mine, sizes, order, records, y, best)
        if kind >= 0:
            last[kind] = winner
        write_support(y, records[winner, _KIND * LANES :], actions[i])
        inside = stays_inside(records[winner], mine[0], mine[3], scale) if varies else records[winner, 10] != 0.0
        if not inside:
            pull_row_inside(actions[i], covariance, mine[0], mine[1], centre)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def read_row(row, c):  # type: ignore[no-untyped-def]
    """Copy a row, divided by its size if that is extreme; return the place of its largest entry, and its range."""
    scale = row_scale(row)
    top, low, high = 0, np.inf, -np.inf
    for j in range(len(c)):
        c[j] = row[j] / scale if scale != 1.0 else row[j]
        top, high = (j, c[j]) if c[j] > high else (top, high)
        low = min(low, c[j])
    return top, low, high


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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
        rival = max(rival, c[j]) if j != top else rival
    return rival < c[top] - margin


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def support_of(action):  # type: ignore[no-untyped-def]
    """Return the coordinates that an action holds, as the bits of a number."""
    bits = 0
    for j in range(len(action)):
        bits |= (action[j] > _HELD) << j
    return bits


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def solve_on(c, flat, room, record, order, size, y):  # type: ignore[no-untyped-def]
    """Write the weights of members, and the multipliers of others times ``s``, into ``y``; return ``sqrt(c'Dc)``.

    The least weight and the least such multiplier are returned too. On a tied (``flat``) support every point is as
    good; its least variance is taken, and 0 returned. All coordinates are computed at once, each in a lane.
    """
    first, nothing, infinite = c[order[0]], spread(0.0), spread(np.inf)
    kind, excess = load(record, _KIND), load(c, 0) - spread(first)
    linear = where_greater(nothing, kind, spread(first) - load(c, 0), nothing)
    for j in range(len(order)):  # columns of coordinates that are no members are zero: as many steps for any support
        # Differences within the support keep their digits; they lose nothing, because weights sum to one.
        linear = linear + load(record, _COLUMNS + j) * spread(c[j] - first)
    store(y, 0, where_greater(kind, nothing, linear * excess, nothing))
    curvature = 0.0
    for j in range(len(order)):
        curvature += y[j]
    root = 0.0 if flat or curvature <= 0.0 else np.sqrt(curvature)
    step = room / root if root > 0.0 else 0.0
    found = load(record, _CONSTANT) + spread(step) * linear
    store(y, 0, found)
    weight = least(where_greater(kind, nothing, found, infinite))
    return root, weight, least(where_greater(nothing, kind, found, infinite))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def proves(c_size, root, per_room, record, weight, multiplier):  # type: ignore[no-untyped-def]
    """Return whether the least weight and the least multiplier (times ``s``) of a support prove it."""
    price = root * per_room
    return (
        (root > record[2] * c_size)
        & (weight > record[3])
        & (price * weight * weight > record[4] * c_size)
        & (price * multiplier * weight > record[5] * c_size)
        & (price * multiplier > record[6] * c_size)
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def first_at(y, order, start, value):  # type: ignore[no-untyped-def]
    """Return the first coordinate that has a value, in the order of a support, from a place in it on."""
    place = start
    while y[order[place]] != value:
        place += 1
    return order[place]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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
            value += records[t, _CONSTANT * LANES + order[t, k]] * (c[order[t, k]] - first)
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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
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


@njit(cache=True, nogil=True)
def pull_inside(actions, covariance, limit, slack, centre):  # type: ignore[no-untyped-def]
    """Move every row beyond the limit toward the centre."""
    for i in range(len(actions)):
        pull_row_inside(actions[i], covariance, limit, slack, centre)


@njit(cache=True, nogil=True)
def bilinear(covariance, a, b):  # type: ignore[no-untyped-def]
    """Return ``a'Cb``."""
    total = 0.0
    for j in range(len(a)):
        row = 0.0
        for k in range(len(b)):
            row += covariance[j, k] * b[k]
        total += a[j] * row
    return total
