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

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, make_kernel
from optensemble._core.lanes import LANES
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.risk_budget.support_proof import (
    BLOCKS,
    COLUMNS,
    CONSTANT,
    KIND,
    leave_room,
    stays_inside,
)
from optensemble.feasible._solvers.risk_budget.support_search import NEGATIVE, best_on_supports

_CONDITION = 1e12
"""Supports whose system is worse conditioned than this are left to their subsets."""

_PROVABLE = 1e8
"""Supports whose system is worse conditioned than this are not proven, but compared."""

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
    records = np.zeros((len(systems), BLOCKS * LANES))
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
    record = np.zeros((BLOCKS, LANES))
    record[CONSTANT, order] = constant
    record[KIND, order] = np.where(np.arange(d) < size, 1.0, -1.0)
    record[COLUMNS + order[:size, None], order] = np.concatenate([D, m + cross @ D]).T
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


def limit_records(records: Floats, limit: float, face: float, scale: float) -> None:
    """Write the room that a limit shared by all rows leaves each support, and whether rounding stays within it."""
    room_and_price, inside = in_python(leave_room), in_python(stays_inside)  # of a few records, sooner than compiled
    with np.errstate(over="ignore"):
        for record in records:
            record[8:10], record[10] = room_and_price(record, limit, face), inside(record, limit, face, scale)


def in_python(function: Any) -> Callable[..., Any]:
    """Return a compiled function as it was before."""
    found: Callable[..., Any] = function.py_func
    return found
