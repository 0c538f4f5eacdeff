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

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, make_kernel
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

_HEADER = 11
"""Numbers at the head of a support's record, as :func:`_record` lists them."""

_KINDS, _FEW_KINDS = 1024, 16
"""Kinds of rows for which the last support is remembered, a power of two; few where most rows have a hint."""

System = tuple[tuple[int, ...], Floats, float]
"""The members of a support, the inverse of its optimality system in units of the largest variance, its condition."""


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
    records = np.zeros((len(systems), _HEADER + d + d * d))
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
        best_of_four if d == 4 else best_on_supports,
        floats=[records, covariance, centre, np.full(4, np.nan) if limit is None else limit],
        ints=[len(systems), number, sizes, order],
    )


def _record(
    covariance: Floats, order: npt.NDArray[np.int64], inverse: Floats, condition: float, scale: float
) -> Floats:
    """Return the numbers of one support: a header, the constant part, and the columns of the linear part."""
    d, size = len(order), len(inverse) - 1
    D, m, v = inverse[:-1, :-1] / scale, inverse[:-1, -1], -inverse[-1, -1] * scale
    cross = covariance[np.ix_(order[size:], order[:size])]
    constant = np.concatenate([m, cross @ m - v])
    columns = np.zeros((d, d))
    columns[:size] = np.concatenate([D, m + cross @ D]).T
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
    return np.concatenate([header, constant, columns.ravel()])


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
    solve_each(C.shape[1], C, hinted, actions, own, floats, ints)


@njit(cache=True, nogil=True, error_model="numpy")
def best_of_four(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Take the same in four dimensions: loops whose length is known are unrolled."""
    solve_each(4, C, hinted, actions, own, floats, ints)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def solve_each(d, C, hinted, actions, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve the rows one after the other."""
    n = len(C)
    count, width = ints[0], _HEADER + d + d * d
    number, sizes = ints[1 : 1 + (1 << d)], ints[1 + (1 << d) : 1 + (1 << d) + count]
    order = ints[1 + (1 << d) + count :].reshape(count, d)
    records, rest = floats[: count * width].reshape(count, width), floats[count * width :]
    covariance, centre = rest[: d * d].reshape(d, d), rest[d * d : d * d + d]
    c, y, best, scale, varies = np.empty(d), np.empty(d), np.empty(d), 0.0, own.shape[1] > 0
    last = np.full(_FEW_KINDS if hinted else _KINDS, number[support_of(centre)])
    for j in range(d):
        scale = max(scale, covariance[j, j])
    scale = 1.0 if scale == 0.0 else scale
    for i in range(n):
        mine = own[i] if varies else rest[d * d + d :]
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
        winner = pursue(c, size, top, guess, varies, mine, number, sizes, order, records, y)
        if winner < 0:
            winner = compare_all(c, size, varies, mine, sizes, order, records, y, best)
        if kind >= 0:
            last[kind] = winner
        write_support(y, order[winner], sizes[winner], actions[i])
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

    The pattern is the quarter of the row's range that each entry is in.
    """
    code, per_unit = 0, 3.999 / (high - low) if high - low > 1e-290 else 0.0
    for j in range(len(c)):
        code = code << 2 | int((c[j] - low) * per_unit)
    return (code ^ code >> 10) & (_KINDS - 1)


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
    """Write the weights of members, then the multipliers of others times ``s``, into ``y``; return ``sqrt(c'Dc)``.

    On a tied (``flat``) support every point is as good; its least variance is taken, and 0 returned.
    """
    d, first = len(c), c[order[0]]
    for k in range(d):
        y[k] = 0.0
    for k in range(size, d):
        y[k] = first - c[order[k]]
    at = _HEADER + d
    for q in range(1, size):
        at += d
        # Differences within the support keep their digits; they lose nothing, because weights sum to one.
        excess = c[order[q]] - first
        for k in range(d):
            y[k] += record[at + k] * excess
    curvature = 0.0
    for k in range(1, size):
        curvature += y[k] * (c[order[k]] - first)
    root = 0.0 if flat or curvature <= 0.0 else np.sqrt(curvature)
    step = room / root if root > 0.0 else 0.0
    for k in range(d):
        y[k] = record[_HEADER + k] + step * y[k]
    return root


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
def least_from(y, start, stop):  # type: ignore[no-untyped-def]
    """Return the least entry between two places; infinity if there is none."""
    least = np.inf
    for k in range(start, stop):
        least = min(least, y[k])
    return least


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def first_at(y, start, value):  # type: ignore[no-untyped-def]
    """Return the first place of a value, from a place on."""
    place = start
    while y[place] != value:
        place += 1
    return place


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def pursue(c, c_size, top, start, varies, mine, number, sizes, order, records, y):  # type: ignore[no-untyped-def]
    """Exchange one coordinate after the other until a support is proven; return it, or -1 if none is."""
    d, t = len(c), start
    for _ in range(3 * d):
        if t < 0 or (varies and records[t, 0] > mine[2]):
            return -1
        size, moved = sizes[t], top
        if size > 1:
            room, price = leave_room(records[t], mine[0], mine[3]) if varies else (records[t, 8], records[t, 9])
            root = solve_on(c, False, room, records[t], order[t], size, y)
            weight, multiplier = least_from(y, 0, size), least_from(y, size, d)
            if proves(c_size, root, price, records[t], weight, multiplier):
                return t
            if weight >= 0.0 and multiplier >= 0.0:
                return -1
            moved = order[t, first_at(y, 0, weight) if weight < 0.0 else first_at(y, size, multiplier)]
        bits = 1 << moved
        for k in range(size):
            bits ^= 1 << order[t, k]
        t = number[bits]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def compare_all(c, c_size, varies, mine, sizes, order, records, y, best):  # type: ignore[no-untyped-def]
    """Return the support that is proven, or else the best; a later one must win by more than the tie."""
    d, to_beat, winner, settled = len(c), -np.inf, 0, False
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
        root = solve_on(c, high - low <= SAME_VALUE * c_size, room, records[t], order[t], size, y)
        weight, multiplier = least_from(y, 0, size), least_from(y, size, d)
        if proves(c_size, root, price, records[t], weight, multiplier):
            return t
        value = first + room * root
        for k in range(1, size):
            value += records[t, _HEADER + k] * (c[order[t, k]] - first)
        if weight >= -NEGATIVE and value > to_beat:
            to_beat, winner, settled = value + SAME_VALUE * c_size, t, size == 1 or price > 0.0
            for k in range(size):
                best[k] = y[k]
    for k in range(sizes[winner]):
        y[k] = best[k]
    return winner


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def write_support(y, order, size, action):  # type: ignore[no-untyped-def]
    """Give the weights of a support to its members, so that they sum to one."""
    total = 0.0
    for k in range(size):
        total += max(y[k], 0.0)
    for k in range(len(action)):
        action[order[k]] = max(y[k], 0.0) / total if k < size else 0.0


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
