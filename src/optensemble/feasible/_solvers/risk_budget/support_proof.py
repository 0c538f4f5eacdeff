"""What the record of a support says of a row, or of eight rows side by side: weights, multipliers, a proof of both.

The mathematics is that of :mod:`optensemble.feasible._solvers.risk_budget.supports`, which writes the records.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.kernel import inner
from optensemble._core.lanes import (
    LANES,
    gather,
    larger,
    least,
    load,
    magnitudes,
    roots,
    smaller,
    spread,
    store,
    where_greater,
)

BLOCKS, CONSTANT, KIND, COLUMNS = 4 + LANES, 2, 3, 4
"""A support's record is made of blocks of ``LANES`` numbers, one for each coordinate: as many as a set has at most.

How many blocks there are, and which hold the constant part, the kind of each coordinate, and from which on the columns
of the linear part. A header comes before them; the function that makes records lists it.
"""


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


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def solve_on(c, flat, room, record, order, size, y):  # type: ignore[no-untyped-def]
    """Write the weights of members, and the multipliers of others times ``s``, into ``y``; return ``sqrt(c'Dc)``.

    The least weight and the least such multiplier are returned too. On a tied (``flat``) support every point is as
    good; its least variance is taken, and 0 returned. All coordinates are computed at once, each in a lane.
    """
    first, nothing, infinite = c[order[0]], spread(0.0), spread(np.inf)
    kind, excess = load(record, KIND), load(c, 0) - spread(first)
    linear = where_greater(nothing, kind, spread(first) - load(c, 0), nothing)
    for j in range(len(order)):  # columns of coordinates that are no members are zero: as many steps for any support
        # Differences within the support keep their digits; they lose nothing, because weights sum to one.
        linear = linear + load(record, COLUMNS + j) * spread(c[j] - first)
    store(y, 0, where_greater(kind, nothing, linear * excess, nothing))
    curvature = 0.0
    for j in range(len(order)):
        curvature += y[j]
    root = 0.0 if flat or curvature <= 0.0 else np.sqrt(curvature)
    step = room / root if root > 0.0 else 0.0
    found = load(record, CONSTANT) + spread(step) * linear
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


@inner
def prove_side_by_side(columns, begin, records, d, weights):  # type: ignore[no-untyped-def]
    """Write the weights of eight rows, each on a support of its own; return lanes of 1 where that is proven, else of 0.

    ``columns`` are the rows, as the lanes of their coordinates; the record of each row's support begins at ``begin``
    among the ``records``. Each row goes through the operations of :func:`solve_on`, :func:`proves` and, at the end,
    those that make weights sum to one, in their order: to the bit.
    """
    nothing, infinite, one = spread(0.0), spread(np.inf), spread(1.0)
    first = largest = curvature = nothing
    for j in range(d - 1, -1, -1):
        first = where_greater(gather(records, begin, KIND * LANES + j), nothing, load(columns, j), first)
        largest = larger(largest, magnitudes(load(columns, j)))
    for i in range(d):
        kind, excess = gather(records, begin, KIND * LANES + i), load(columns, i) - first
        linear = where_greater(nothing, kind, first - load(columns, i), nothing)
        for j in range(d):
            linear = linear + gather(records, begin, (COLUMNS + j) * LANES + i) * (load(columns, j) - first)
        store(weights, i, linear)
        curvature = curvature + where_greater(kind, nothing, linear * excess, nothing)
    root = where_greater(curvature, nothing, roots(curvature), nothing)
    step = where_greater(root, nothing, gather(records, begin, 8) / root, nothing)
    weight, multiplier, whole = infinite, infinite, nothing
    for i in range(d):
        kind = gather(records, begin, KIND * LANES + i)
        found = gather(records, begin, CONSTANT * LANES + i) + step * load(weights, i)
        weight = smaller(where_greater(kind, nothing, found, infinite), weight)
        multiplier = smaller(where_greater(nothing, kind, found, infinite), multiplier)
        found = where_greater(kind, nothing, larger(found, nothing), nothing)
        whole = whole + found
        store(weights, i, found)
    for i in range(d):
        store(weights, i, load(weights, i) / whole)
    price = root * gather(records, begin, 9)
    proven = where_greater(root, gather(records, begin, 2) * largest, one, nothing)
    proven = where_greater(weight, gather(records, begin, 3), proven, nothing)
    proven = where_greater(price * weight * weight, gather(records, begin, 4) * largest, proven, nothing)
    proven = where_greater(price * multiplier * weight, gather(records, begin, 5) * largest, proven, nothing)
    return where_greater(price * multiplier, gather(records, begin, 6) * largest, proven, nothing)
