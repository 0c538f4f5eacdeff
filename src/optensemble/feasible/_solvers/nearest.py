"""Nearest points of polytopes, by the dual active-set method of Goldfarb and Idnani."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner, maker

_SATISFIED = 2e-14
"""Excess over a constraint, relative to the terms that add up to it, that is rounding."""

_DEPENDENT = 1e-9
"""A unit normal no farther than this from the span of others depends on them."""


def nearest_points(
    actions: Floats, A: Floats, b: Floats, equal: int, lower: Floats, upper: Floats
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the point of ``A a <= b``, ``lower <= a <= upper`` nearest to each action, and whether it was found.

    Parameters
    ----------
    actions
        Of shape (n, d).
    A, b
        Of shape (n, m, d) and (n, m), or (1, m, d) and (1, m) where all rows share them.
    equal
        How many of the first rows of ``A`` are equalities.
    lower, upper
        Of shape (n, d), or (1, d).
    """
    size = np.sqrt((A * A).sum(axis=2))
    size = np.where(size > 0.0, size, 1.0)
    # A row of b may be one for all while A differs between rows, and the other way round.
    right = np.ascontiguousarray(b / size)
    found, solved = np.empty_like(actions), np.zeros(len(actions), dtype=np.bool_)
    low, high = (np.ascontiguousarray(side, dtype=np.float64) for side in (lower, upper))
    matrix = np.ascontiguousarray(A / size[:, :, None])
    _nearest_points(np.ascontiguousarray(actions), matrix, right, equal, low, high, found, solved)
    return found + 0.0, solved


@njit(cache=True, nogil=True)
def _nearest_points(actions, A, b, equal, lower, upper, found, solved):  # type: ignore[no-untyped-def]
    n, d = actions.shape
    span, triangle = np.empty((d, d)), np.empty((d, d))
    for i in range(n):
        solved[i] = nearest_point(
            actions[i],
            A[i if len(A) > 1 else 0],
            b[i if len(b) > 1 else 0],
            equal,
            lower[i if len(lower) > 1 else 0],
            upper[i if len(upper) > 1 else 0],
            found[i],
            span,
            triangle,
        )


@maker
def nearest_point(action, A, b, equal, lower, upper, x, span, triangle):  # type: ignore[no-untyped-def]
    """Write the nearest point to ``x``; return whether it was found.

    Constraints are numbered: rows of A, then upper bounds, then lower bounds. Active ones have an orthonormal basis of
    their normals, the first columns of ``span``, a ``triangle`` that makes the normals of it, and prices.
    """
    m, d = A.shape
    active, price, change = np.empty(d, np.int64), np.zeros(d + 1), np.zeros(d)
    is_active, sign = np.zeros(m + 2 * d, np.bool_), np.ones(m + 2 * d)
    normal, step = np.empty(d), np.empty(d)
    x[:] = action
    count, left = 0, 100 + 20 * (m + 2 * d)
    chosen = 0
    while left > 0:
        left -= 1
        if chosen < equal:
            p = chosen
            chosen += 1
            excess, _ = excess_of(p, A, b, lower, upper, x)
            sign[p] = 1.0 if excess >= 0.0 else -1.0
        else:
            p = most_exceeded(A, b, lower, upper, x, is_active, equal)
            if p < 0:
                finish(x, lower, upper, active[:count], m)
                return True
        price[count] = 0.0
        normal_of(p, A, sign[p], normal)
        while True:
            left -= 1
            if left <= 0:
                return False
            excess, rounding = excess_of(p, A, b, lower, upper, x)
            excess *= sign[p]
            length = resolve(normal, span, triangle, count, step, change)
            far = excess / (length * length) if length > _DEPENDENT else np.inf
            if p < equal and length <= _DEPENDENT:
                if excess > 1e-9 + 1e3 * rounding:
                    return False
                break  # an equality that others imply
            blocking, near = -1, np.inf
            for k in range(count):
                if active[k] >= equal and change[k] > 0.0 and price[k] / change[k] < near:
                    blocking, near = k, price[k] / change[k]
            t = min(near, far)
            if t == np.inf:
                return False
            for k in range(count):
                price[k] -= t * change[k]
            price[count] += t
            if length > _DEPENDENT:
                for j in range(d):
                    x[j] -= t * step[j]
            if far <= near:
                active[count], is_active[p] = p, True
                for k in range(count):
                    triangle[k, count] = change_of(span, k, normal)
                triangle[count, count] = length
                for j in range(d):
                    span[j, count] = step[j] / length
                count += 1
                break
            is_active[active[blocking]] = False
            for k in range(blocking, count):
                price[k] = price[k + 1]
                if k + 1 < count:
                    active[k] = active[k + 1]
            count -= 1
            span_again(A, sign, active[:count], blocking, span, triangle, normal)
            normal_of(p, A, sign[p], normal)
    return False


@inner
def excess_of(p, A, b, lower, upper, x):  # type: ignore[no-untyped-def]
    """Return by how much a point exceeds a constraint, and what of it is rounding."""
    m, d = A.shape
    if p >= m + d:
        return lower[p - m - d] - x[p - m - d], 0.0
    if p >= m:
        return x[p - m] - upper[p - m], 0.0
    total, size = -b[p], abs(b[p])
    for j in range(d):
        term = A[p, j] * x[j]
        total += term
        size += abs(term)
    return total, _SATISFIED * size


@inner
def most_exceeded(A, b, lower, upper, x, is_active, equal):  # type: ignore[no-untyped-def]
    """Return the inequality that is exceeded by most, the first of ties; -1 if none is."""
    m, d = A.shape
    most, found = 0.0, -1
    for p in range(equal, m + 2 * d):
        if not is_active[p]:
            excess, rounding = excess_of(p, A, b, lower, upper, x)
            if excess > rounding and excess > most:
                most, found = excess, p
    return found


@inner
def normal_of(p, A, sign, normal):  # type: ignore[no-untyped-def]
    """Write the outward unit normal of a constraint."""
    m, d = A.shape
    if p < m:
        for j in range(d):
            normal[j] = sign * A[p, j]
        return
    for j in range(d):
        normal[j] = 0.0
    normal[(p - m) % d] = 1.0 if p < m + d else -1.0


@inner
def change_of(span, k, normal):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(normal)):
        total += span[j, k] * normal[j]
    return total


@inner
def resolve(normal, span, triangle, count, step, change):  # type: ignore[no-untyped-def]
    """Write the part of a normal that active normals do not span, and what makes the rest of them; return its length.

    The part is taken twice: once leaves what rounding adds.
    """
    d = len(normal)
    for j in range(d):
        step[j] = normal[j]
    for k in range(count):
        change[k] = 0.0
    for _ in range(2):
        for k in range(count):
            total = 0.0
            for j in range(d):
                total += span[j, k] * step[j]
            change[k] += total
            for j in range(d):
                step[j] -= total * span[j, k]
    for k in range(count - 1, -1, -1):
        for other in range(k + 1, count):
            change[k] -= triangle[k, other] * change[other]
        change[k] /= triangle[k, k]
    total = 0.0
    for j in range(d):
        total += step[j] * step[j]
    return np.sqrt(total)


@inner
def span_again(A, sign, active, start, span, triangle, normal):  # type: ignore[no-untyped-def]
    """Make the basis of active normals anew from one of them on."""
    d = len(normal)
    for k in range(start, len(active)):
        normal_of(active[k], A, sign[active[k]], normal)
        for other in range(k):
            triangle[other, k] = 0.0
        for _ in range(2):
            for other in range(k):
                total = 0.0
                for j in range(d):
                    total += span[j, other] * normal[j]
                triangle[other, k] += total
                for j in range(d):
                    normal[j] -= total * span[j, other]
        total = 0.0
        for j in range(d):
            total += normal[j] * normal[j]
        triangle[k, k] = np.sqrt(total)
        for j in range(d):
            span[j, k] = normal[j] / triangle[k, k]


@inner
def finish(x, lower, upper, active, m):  # type: ignore[no-untyped-def]
    """Put a point at its active bounds exactly, and within all others."""
    d = len(x)
    for k in range(len(active)):
        p = active[k]
        if p >= m + d:
            x[p - m - d] = lower[p - m - d]
        elif p >= m:
            x[p - m] = upper[p - m]
    for j in range(d):
        x[j] = min(max(x[j], lower[j]), upper[j])
