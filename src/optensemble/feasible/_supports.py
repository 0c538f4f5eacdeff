"""A linear objective on the simplex under a quadratic limit, in closed form over all supports.

On the support S the best point of ``sum(a) = 1, a'Ca <= limit`` is ``m + s D c``, where the inverse of the
optimality system ``[[C_S, 1], [1', 0]]`` is ``[[D, m], [m', -v]]``: ``m`` is the point of least variance
``v``, and ``s = sqrt((limit - v) / c'Dc)``. This form serves singular covariances too: an optimal action of
smallest support always has an invertible system.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._types import Floats
from optensemble.feasible._base import TIE
from optensemble.feasible._vertex_kernel import row_scale

_CONDITION = 1e12
"""Supports whose system is worse conditioned than this are left to their subsets."""

NEGATIVE = 1e-12
"""A weight this little below zero is zero."""


@dataclass(frozen=True)
class Supports:
    """Everything about the supports that does not depend on the coefficients, padded to the dimension."""

    sizes: npt.NDArray[np.int64]
    members: npt.NDArray[np.int64]
    centres: Floats
    directions: Floats
    slacks: Floats
    """The root of ``limit - v``."""


def list_supports(covariance: Floats, limit: float, slack: float) -> Supports:
    """Return the supports that hold an action within the limit: by size, and then in lexicographic order."""
    d = len(covariance)
    scale = float(np.diag(covariance).max()) or 1.0
    found = []
    for size in range(1, d + 1):
        for members in combinations(range(d), size):
            system = _inverse(covariance[np.ix_(members, members)] / scale)
            if system is None or -system[-1, -1] * scale > limit + slack:
                continue
            found.append((members, system))
    table = Supports(
        np.array([len(members) for members, _ in found], dtype=np.int64),
        np.zeros((len(found), d), dtype=np.int64),
        np.zeros((len(found), d)),
        np.zeros((len(found), d, d)),
        np.zeros(len(found)),
    )
    for row, (members, system) in enumerate(found):
        size = len(members)
        table.members[row, :size] = members
        table.centres[row, :size] = system[:size, -1]
        table.directions[row, :size, :size] = system[:size, :size] / scale
        table.slacks[row] = np.sqrt(max(limit + system[-1, -1] * scale, 0.0))
    return table


def _inverse(covariance: Floats) -> Floats | None:
    size = len(covariance)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = covariance
    system[-1, -1] = 0.0
    singular = np.linalg.svd(system, compute_uv=False)
    if singular[-1] * _CONDITION <= singular[0]:
        return None
    return np.asarray(np.linalg.inv(system), dtype=np.float64)


def least_variance(covariance: Floats) -> tuple[Floats, float]:
    """Return the action of least variance on the simplex, and its variance."""
    table = list_supports(covariance, np.inf, 0.0)
    best, least = np.zeros(len(covariance)), np.inf
    for size, members, centre in zip(table.sizes, table.members, table.centres, strict=True):
        if centre[:size].min() < -NEGATIVE:
            continue
        action = np.zeros(len(covariance))
        action[members[:size]] = np.maximum(centre[:size], 0.0)
        action /= action.sum()
        variance = float(action @ covariance @ action)
        if variance < least:
            best, least = action, variance
    return best, least


@njit(cache=True, nogil=True, error_model="numpy")
def best_on_supports(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Take for each row the best feasible candidate; a later one must win by more than the tie."""
    n, d = C.shape
    count = len(ints) // (1 + d)
    sizes, members = ints[:count], ints[count:].reshape(count, d)
    centres, rest = floats[: count * d].reshape(count, d), floats[count * d :]
    directions, rest = rest[: count * d * d].reshape(count, d, d), rest[count * d * d :]
    slacks, rest = rest[:count], rest[count:]
    covariance, centre, limit, slack = rest[: d * d].reshape(d, d), rest[d * d : d * d + d], rest[-2], rest[-1]
    tie, negative = TIE, NEGATIVE
    actions[:] = 0.0
    c, trial, best = np.empty(d), np.empty(d), np.empty(d)
    for i in range(n):
        scale = row_scale(C[i])
        largest, size = C[i, 0] / scale, 0.0
        for j in range(d):
            c[j] = C[i, j] / scale
            largest, size = max(largest, c[j]), max(size, abs(c[j]))
        # Differences to the largest coefficient lose nothing on the simplex, and keep their digits.
        for j in range(d):
            c[j] -= largest
        to_beat, winner = -np.inf, -1
        for t in range(len(sizes)):
            value = candidate(c, t, sizes, members, centres, directions, slacks, to_beat, tie * size, negative, trial)
            if value > to_beat:
                to_beat, winner = value + tie * size, t
                for k in range(sizes[t]):
                    best[k] = trial[k]
        total = 0.0
        for k in range(sizes[winner]):
            total += best[k]
        for k in range(sizes[winner]):
            actions[i, members[winner, k]] = best[k] / total
    pull_inside(actions, covariance, limit, slack, centre)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def candidate(  # type: ignore[no-untyped-def]
    c, t, sizes, members, centres, directions, slacks, to_beat, flat, negative, out
):
    """Write the best point of support ``t`` into ``out`` and return its value; -inf if it cannot win."""
    size, first = sizes[t], c[members[t, 0]]
    low = high = first
    for k in range(1, size):
        low, high = min(low, c[members[t, k]]), max(high, c[members[t, k]])
    if high <= to_beat:
        return -np.inf
    value, curvature = first, 0.0
    # On a tied support every point is as good; the direction of the noise must not choose.
    if high - low > flat:
        for k in range(size):
            gain = 0.0
            for q in range(1, size):
                gain += directions[t, k, q] * (c[members[t, q]] - first)
            out[k] = gain
            curvature += gain * (c[members[t, k]] - first)
            value += centres[t, k] * (c[members[t, k]] - first)
    root = np.sqrt(max(curvature, 0.0))
    value += slacks[t] * root
    if value <= to_beat:
        return -np.inf
    step = slacks[t] / root if root > 0.0 else 0.0
    for k in range(size):
        weight = centres[t, k] + (step * out[k] if root > 0.0 else 0.0)
        if weight < -negative:
            return -np.inf
        out[k] = max(weight, 0.0)
    return value


@njit(cache=True, nogil=True)
def pull_inside(actions, covariance, limit, slack, centre):  # type: ignore[no-untyped-def]
    """Move rows beyond the limit and its slack toward the centre, no further than needed."""
    n, d = actions.shape
    for i in range(n):
        variance = bilinear(covariance, actions[i], actions[i])
        if variance <= limit + slack:
            continue
        least = bilinear(covariance, centre, centre)
        cross = bilinear(covariance, centre, actions[i])
        square = variance - 2.0 * cross + least
        half = cross - least
        # Along centre + t (action - centre) the variance is least + 2 t half + t^2 square.
        root = np.sqrt(max(half * half + square * (limit - least), 0.0))
        t = min(max((root - half) / square, 0.0), 1.0) if square > 0.0 else 0.0
        for j in range(d):
            actions[i, j] = centre[j] + t * (actions[i, j] - centre[j])


@njit(cache=True, nogil=True)
def bilinear(covariance, a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(a)):
        row = 0.0
        for k in range(len(b)):
            row += covariance[j, k] * b[k]
        total += a[j] * row
    return total
