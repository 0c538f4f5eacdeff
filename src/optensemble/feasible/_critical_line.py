"""The best portfolio under a limit of variance, by the critical line.

For each price ``1/t`` of variance there is a best portfolio, and it is piecewise linear in t. The line rises from
t = 0, the portfolio of least variance, which is the same for all rows; or, where that fails, it falls from
t = infinity, where the largest coefficients are filled up to their caps. One coordinate or constraint is exchanged at
a time, until the variance meets the limit. What is traced is the active set alone (see ``_active_set``), from which
the action is then computed afresh. A hint's active set is tried first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._kernel import Kernel, make_kernel
from optensemble._types import Floats, Indices
from optensemble.feasible._active_set import (
    CAPPED,
    IN,
    LOOSE,
    OUT,
    PROVEN,
    Problem,
    Work,
    add_rows,
    find_products,
    inner,
    repair,
    variance_at,
)
from optensemble.feasible._base import TIE
from optensemble.feasible._cone import Rows, least_variance
from optensemble.feasible._supports import read_row

_HELD = 3e-8
"""A hint with this much of a coordinate holds it."""

_NUDGE = 1e-8
"""Where the least variance is not unique, this much more of each variance helps to find an active set."""


class Start(NamedTuple):
    """The active set of least variance, the inverse of H on it, and x and w there."""

    state: Indices
    places: Indices
    inverse: Floats
    x: Floats
    w: Floats


def line_kernel(covariance: Floats, limit: float, centre: Floats, rows: Rows) -> Kernel:
    """Return the kernel that follows the critical line; the covariance is measured in units of the limit."""
    d, m = len(covariance), len(rows.b)
    largest = float(np.diag(covariance).max())
    rho = min(1.0, largest / limit) or 1.0
    H = np.zeros((d + m, d + m))
    H[:d, :d] = covariance / limit + rho
    H[d:, :d], H[:d, d:] = rows.A, rows.A.T
    start, nudged = _find_start(H, centre, rows), H[:0]
    if not len(start.places) and m > 1:
        nudge = _NUDGE * np.diag(np.maximum(np.diag(covariance), 1e-6 * largest))
        nudged = H.copy()
        nudged[:d, :d] += nudge / limit
        start = _find_start(nudged, least_variance(covariance + nudge, rows)[0], rows)
    plain = m == 1 and bool((rows.upper >= 1.0).all())
    upper = np.concatenate([rows.upper, np.full(m, np.inf)])
    return make_kernel(
        best_portfolios,
        floats=[H, rows.b, upper, np.diag(covariance), centre, [rho, limit], start.inverse, start.x, start.w, nudged],
        ints=[m, rows.equal, plain, len(start.places), len(nudged), start.state, start.places],
        rows_at_once=min(8192, max(1, 200_000_000 // (d + m) ** 3)),
    )


def _find_start(H: Floats, centre: Floats, rows: Rows) -> Start:
    """Return the active set of least variance near an approximate one; without places if it cannot be confirmed."""
    d, N = len(centre), len(H)
    r = np.concatenate([np.zeros(d), rows.b])
    upper = np.concatenate([rows.upper, np.full(N - d, np.inf)])
    weight, equality = np.arange(N) < d, np.zeros(N, dtype=bool)
    equality[d : d + rows.equal] = True
    state = np.where(np.append(centre > _HELD, rows.b - rows.A @ centre < _HELD), IN, OUT)
    state[:d][centre > rows.upper - _HELD] = CAPPED
    for _ in range(20):
        state[equality] = IN
        places = np.flatnonzero(state == IN)
        if _condition(H[np.ix_(places, places)], int((places < d).sum())) > 1e10:
            break
        inverse = np.asarray(np.linalg.inv(H[np.ix_(places, places)]), dtype=np.float64)
        x = np.where(state == CAPPED, upper, 0.0)
        x[places] = inverse @ (r - H @ x)[places]
        w = H @ x - r
        w[places] = 0.0
        right = np.where(state == IN, np.minimum(x, upper - x), np.where(weight & (state == OUT), w, -w))
        wrong = (right < -1e-12) & ~equality
        if not wrong.any():
            return Start(state, places, inverse, x, w)
        left = np.where(weight & (x > upper / 2), CAPPED, OUT)
        state = np.where(wrong, np.where(state == IN, left, IN), state)
    return Start(state, places[:0], H[:0], np.zeros(N), np.zeros(N))


def _condition(system: Floats, free: int) -> float:
    """Return the condition of an optimality system whose coordinates and rows are scaled alike."""
    scale = np.ones(len(system))
    scale[:free] = 1.0 / np.sqrt(np.diag(system)[:free])
    norms = np.linalg.norm(system[free:] * scale, axis=1)
    if not norms.all():
        return np.inf
    scale[free:] = 1.0 / norms
    return float(np.linalg.cond(system * np.outer(scale, scale)))


@njit(cache=True, nogil=True, error_model="numpy")
def best_portfolios(C, hinted, actions, status, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row: by the hint's active set, or by the line up from the least variance, or down from the top."""
    n, d = C.shape
    m, equal, plain, n0, nudged = ints[0], ints[1], ints[2] == 1, ints[3], ints[4] > 0
    N = d + m
    H, rest = floats[: N * N].reshape(N, N), floats[N * N :]
    b, upper, rest = rest[:m], rest[m : m + N], rest[m + N :]
    variances, centre, rho, limit, rest = rest[:d], rest[d : 2 * d], rest[2 * d], rest[2 * d + 1], rest[2 * d + 2 :]
    inverse, rest = rest[: n0 * n0].reshape(n0, n0), rest[n0 * n0 :]
    start = Start(ints[5 : 5 + N], ints[5 + N :], inverse, rest[:N], rest[N : 2 * N])
    problem = Problem(d, equal, rho, H, b, upper)
    path = Problem(d, equal, rho, rest[2 * N :].reshape(N, N) if nudged else H, b, upper)
    x, w = np.zeros((2, N)), np.zeros((2, N))
    work = Work(np.empty(d), np.empty(N, np.int64), np.empty(N + 1, np.int64), x, w, np.empty(N), np.empty((N, N + 2)))
    line = Line(np.empty((N + 1, N + 1)), np.empty(N + 1), np.empty(N + 1), np.empty(N), np.arange(N + 1))
    c, ordered = np.empty(d), np.empty(d)
    for i in range(n):
        tie = read_scaled(C[i], c)
        for j in range(d):
            ordered[j] = c[j] - tie * j
        if m == 1 and is_vertex(c, ordered, tie, plain, variances, limit, problem, work, line, actions[i]):
            continue
        if tie == 1.0:
            for j in range(d):
                actions[i, j] = centre[j]
            continue
        t = -1.0
        if hinted:
            read_hint(actions[i], problem, work.state)
            t = repair(c, tie, 6, PROVEN, problem, work)
        if t < 0.0 and n0 > 0:
            trace(c, False, start_at_centre(c, start, path, work, line), path, work, line)
            t = repair(c, tie, 6, LOOSE, problem, work)
        if t < 0.0 and m == 1:
            trace(ordered, True, start_at_top(ordered, problem, work, line), problem, work, line)
            t = repair(c, tie, 6, LOOSE, problem, work)
        status[i] = t < 0.0
        if t >= 0.0:
            write(t, plain, problem, work, actions[i])


class Line(NamedTuple):
    """Where the line is: the inverse of H on the active set, by positions in ``places``, and scratch."""

    inverse: Floats
    direction: Floats
    change: Floats
    spread: Floats
    positions: Indices


@inner
def read_scaled(row, c):  # type: ignore[no-untyped-def]
    """Write coefficients between -1 and 0; return what is tied in these units, or 1 if all are (and made 0)."""
    size, top = read_row(row, c)
    largest = lowest = c[top]
    for j in range(len(c)):
        lowest = min(lowest, c[j])
    spread = largest - lowest
    flat = spread <= TIE * size
    for j in range(len(c)):
        c[j] = 0.0 if flat else (c[j] - largest) / spread
    return 1.0 if flat else TIE * size / spread


@inner
def is_vertex(c, ordered, tie, plain, variances, limit, problem, work, line, action):  # type: ignore[no-untyped-def]
    """Say whether the limit lets the largest coefficients take all they can, and write that action."""
    d = problem.d
    if plain:
        for j in range(d):
            if c[j] >= -tie and variances[j] <= limit:
                for k in range(d):
                    action[k] = 1.0 if k == j else 0.0
                return True
        return False
    start_at_top(ordered, problem, work, line)
    if variance_at(0.0, problem, work.x, work.w) > 1.0:
        return False
    for k in range(d):
        action[k] = work.x[0, k]
    return True


@inner
def read_hint(action, problem, state):  # type: ignore[no-untyped-def]
    """Read the active set off an action."""
    d = problem.d
    for s in range(d):
        state[s] = OUT if action[s] <= _HELD else (CAPPED if action[s] >= problem.upper[s] - _HELD else IN)
    for s in range(d, len(state)):
        left = problem.b[s - d]
        for j in range(d):
            left -= problem.H[s, j] * action[j]
        state[s] = IN if s < d + problem.equal or left <= _HELD else OUT


@inner
def start_at_top(c, problem, work, line):  # type: ignore[no-untyped-def]
    """Fill the largest coefficients up to their caps; the last one is free. Return the size of the active set."""
    d, H, state, x = problem.d, problem.H, work.state, work.x
    for s in range(len(state)):
        state[s] = OUT
        x[0, s] = x[1, s] = 0.0
    left = problem.b[0]
    while True:
        best = -1
        for j in range(d):
            if state[j] == OUT and (best < 0 or c[j] > c[best]):
                best = j
        if problem.upper[best] >= left - 1e-15:
            break
        state[best], x[0, best] = CAPPED, problem.upper[best]
        left -= problem.upper[best]
    state[best] = state[d] = IN
    work.places[0], work.places[1] = best, d
    line.inverse[0, 0], line.inverse[0, 1], line.inverse[1, 0], line.inverse[1, 1] = 0.0, 1.0, 1.0, -H[best, best]
    x[0, best], x[1, d] = min(left, problem.upper[best]), c[best]
    for s in range(d):
        x[0, d] -= H[best, s] * x[0, s]
    find_products(problem, state, work.places[:2], x, work.w)
    for s in range(d):
        work.w[1, s] -= c[s]
    return 2


@inner
def start_at_centre(c, start, problem, work, line):  # type: ignore[no-untyped-def]
    """Begin at the portfolio of least variance. Return the size of the active set."""
    d, x, w, n = problem.d, work.x, work.w, len(start.inverse)
    for s in range(len(work.state)):
        work.state[s] = start.state[s]
        x[0, s], x[1, s] = start.x[s], 0.0
        w[0, s], w[1, s] = start.w[s], (-c[s] if s < d else 0.0)
    for i in range(n):
        s = start.places[i]
        work.places[i] = s
        line.change[i] = c[s] if s < d else 0.0
        line.direction[i] = 0.0
        for j in range(n):
            line.inverse[i, j] = start.inverse[i, j]
    add_rows(line.direction[:n], line.change, start.inverse, line.positions[:n])
    for i in range(n):
        x[1, work.places[i]] = line.direction[i]
    add_rows(w[1], x[1], problem.H, work.places[:n])
    return n


@inner
def trace(c, down, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Follow the line from t = infinity ``down``, or from 0 up, until the variance is 1 or rounding stops it."""
    d, state, x, w = problem.d, work.state, work.x, work.w
    t = np.inf if down else 0.0
    for _ in range(20 + 4 * len(state)):
        t, place, bound = next_event(down, t, problem, work)
        variance, gain = -problem.rho, 0.0
        for s in range(d):
            if state[s] == CAPPED:
                variance += problem.upper[s] * w[0, s]
            gain += x[1, s] * c[s]
        for s in range(d, len(state)):
            variance -= x[0, s] * problem.b[s - d]
        reached = variance + t * t * gain if gain > 0.0 else variance
        if place < 0 or (reached <= 1.0 if down else reached >= 1.0):
            return
        n = leave(place, bound, n, problem, work, line) if state[place] == IN else enter(place, n, problem, work, line)
        if n < 0:
            return


@inner
def next_event(down, t, problem, work):  # type: ignore[no-untyped-def]
    """Return the next t at which a sign turns wrong, the place of that sign, and the bound met there."""
    d, state, x, w = problem.d, work.state, work.x, work.w
    freedom, fastest = 0, 0.0
    for s in range(len(state)):
        if state[s] == IN:
            freedom += 1 if s < d else -1
            fastest = max(fastest, abs(x[1, s])) if s < d else fastest
    sign = 1.0 if down else -1.0
    following, place, bound = 0.0 if down else np.inf, -1, 0.0
    for s in range(len(state)):
        if d <= s < d + problem.equal:
            continue
        # What binding rows keep in place moves by rounding alone.
        still = 1e-15 if (s < d) != (state[s] == IN) else (1e-10 * fastest if freedom > 0 else np.inf)
        if state[s] == IN:
            p, q = x[0, s], x[1, s] * sign
        elif state[s] == OUT and s < d:
            p, q = w[0, s], w[1, s] * sign
        else:
            p, q = -w[0, s], -w[1, s] * sign
        # The sign p + tq >= 0 turns wrong at -p/q, if it does so in this direction at all.
        if q > still and (-p > following * q if down else p < following * q):
            following, place, bound = -p * sign / q, s, 0.0
        if s < d and state[s] == IN:
            p, q = problem.upper[s] - p, -q
            if q > still and (-p > following * q if down else p < following * q):
                following, place, bound = -p * sign / q, s, problem.upper[s]
    return (min(following, t) if down else max(following, t)), place, bound


@inner
def enter(s, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Let a place enter the active set, so that its residual vanishes. Return the size, or -1 if H were singular."""
    H, u, inverse = problem.H, line.direction, line.inverse
    for i in range(n):
        u[i], line.change[i] = 0.0, -H[s, work.places[i]]
    add_rows(u[:n], line.change, inverse, line.positions[:n])
    pivot = size = H[s, s]
    for i in range(n):
        pivot -= line.change[i] * u[i]
        size = max(size, abs(line.change[i] * u[i]))
    if not abs(pivot) > 1e-12 * size:
        return -1
    work.places[n], u[n] = s, 1.0
    for i in range(n + 1):
        inverse[n, i] = inverse[i, n] = 0.0
    move(-work.w[0, s] / pivot, -work.w[1, s] / pivot, 1.0 / pivot, n + 1, problem, work, line)
    work.state[s] = IN
    work.w[0, s] = work.w[1, s] = 0.0
    return n + 1


@inner
def leave(s, bound, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Let a place leave the active set for a bound. Return the size, or -1 if H would be singular."""
    inverse, places, x = line.inverse, work.places, work.x
    at = 0
    while places[at] != s:
        at += 1
    pivot = inverse[at, at]
    if pivot == 0.0:
        return -1
    for j in range(n):
        line.direction[j] = inverse[at, j] / pivot
    move(bound - x[0, s], -x[1, s], -pivot, n, problem, work, line)
    work.state[s] = CAPPED if s < problem.d and bound > 0.0 else OUT
    x[0, s], x[1, s] = bound, 0.0
    places[at] = places[n - 1]
    for i in range(n):
        inverse[at, i] = inverse[n - 1, i]
    for i in range(n):
        inverse[i, at] = inverse[i, n - 1]
    return n - 1


@inner
def move(by_p, by_q, curvature, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Move x along the direction, w with it, and change the inverse by a multiple of the direction's square."""
    u, change, x, w = line.direction, line.change, work.x, work.w
    N = len(work.state)
    for i in range(n):
        s = work.places[i]
        x[0, s] += by_p * u[i]
        x[1, s] += by_q * u[i]
        line.spread[s] = u[i]
    for s in range(N):
        change[s] = 0.0
    add_rows(change[:N], line.spread, problem.H, work.places[:n])
    for s in range(N):
        w[0, s] += by_p * change[s]
        w[1, s] += by_q * change[s]
    for i in range(n):
        factor = curvature * u[i]
        for j in range(n):
            line.inverse[i, j] += factor * u[j]


@inner
def write(t, plain, problem, work, action):  # type: ignore[no-untyped-def]
    """Write the action at t, within its bounds."""
    total = 0.0
    for s in range(problem.d):
        weight = work.x[0, s] + (t * work.x[1, s] if t < np.inf else 0.0)
        action[s] = min(max(weight, 0.0), problem.upper[s])
        total += action[s]
    if plain:
        for s in range(problem.d):
            action[s] /= total
