"""The best portfolio under a limit of variance, by the critical line.

For each price ``1/t`` of variance there is a best portfolio, and it is piecewise linear in t. The line rises from
t = 0, the portfolio of least variance, which is the same for all rows; or, where that fails, it falls from
t = infinity, where the largest coefficients are filled up to their caps. One coordinate or constraint is exchanged at
a time, until the variance meets the limit. What is traced is the active set alone (see ``active_set``), from which
the action is then computed afresh. A hint's active set is tried first, and taken if it is certain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble.feasible._solvers.risk_budget.active_set import (
    CAPPED,
    IN,
    LOOSE,
    OUT,
    Problem,
    add_rows,
    find_length,
    find_products,
    repair,
    solve_active,
    variance_at,
)
from optensemble.feasible._solvers.risk_budget.portfolio import (
    Packed,
    Start,
    new_portfolio_work,
    read_hint,
    read_scaled,
    scale_to,
    takes_all,
    trusts_hints,
    unpack_portfolio,
    write_portfolio,
)


def line_kernel(packed: Packed) -> Kernel:
    """Return the kernel that follows the critical line."""
    return make_kernel(best_portfolios, packed.floats, packed.ints, packed.rows_at_once)


@njit(cache=True, nogil=True, error_model="numpy")
def best_portfolios(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve each row: by the hint's active set, or by the line up from the least variance, or down from the top."""
    n, d = C.shape
    model, base, start, H, nudged = unpack_portfolio(d, floats, ints)
    N, m, n0, plain = len(H), len(model.b), len(base.places), model.plain
    problem = path = Problem(d, model.equal, 0.0, H, model.b, model.upper)
    work = new_portfolio_work(d, N)
    line = Line(np.empty((N + 1, N + 1)), np.empty(N + 1), np.empty(N + 1), np.empty(N), np.arange(N + 1))
    c, ordered, limit, until = np.empty(d), np.empty(d), 0.0, -1.0
    for i in range(n):
        mine = own[i] if own.shape[1] else floats
        if mine[1] != 0.0:
            status[i] = 1
            continue
        if mine[0] != limit:
            limit = mine[0]
            rho, variance = scale_to(limit, model, base, start, H, nudged)
            problem = Problem(d, model.equal, rho, H, model.b, model.upper)
            path = Problem(d, model.equal, rho, nudged, model.b, model.upper)
            start = Start(base.state, base.places, start.inverse, start.x, start.w, variance)
        tie = read_scaled(C[i], c)
        for j in range(d):
            ordered[j] = c[j] - tie * j
        if m == 1 and is_vertex(c, ordered, tie, plain, model.covariance, limit, problem, work, line, actions[i]):
            continue
        if tie == 1.0:
            for j in range(d):
                actions[i, j] = model.centre[j]
            continue
        t, use_hint = -1.0, hinted and trusts_hints(limit, floats[3], model.least)
        for way in range(3):  # by the hint, up from the least variance, down from the top
            if t >= 0.0 or (way == 0 and not use_hint) or (way == 1 and n0 == 0) or (way == 2 and m > 1):
                continue
            down = way == 2
            if way == 0:
                read_hint(actions[i], floats[2], problem, work.state)
            else:
                size = (
                    start_at_top(ordered, problem, work, line) if down else start_at_centre(c, start, path, work, line)
                )
                follow_line(ordered if down else c, down, until, size, problem if down else path, work, line)
            t = repair(c, tie, 6, int(floats[3]) if way == 0 else LOOSE, problem, work)
        status[i] = t < 0.0
        if t >= 0.0:
            write_portfolio(t, plain, problem, work, actions[i])


class Line(NamedTuple):
    """The state of the line: the inverse of H on the active set, by positions in ``places``, and scratch."""

    inverse: Floats
    direction: Floats
    change: Floats
    spread: Floats
    positions: Indices


@inner
def is_vertex(c, ordered, tie, plain, covariance, limit, problem, work, line, action):  # type: ignore[no-untyped-def]
    """Return whether the limit lets the largest coefficients take all they can; write that action if so."""
    if plain:
        return takes_all(c, tie, covariance, limit, action)
    start_at_top(ordered, problem, work, line)
    if variance_at(0.0, problem, work.x, work.w) > 1.0:
        return False
    least, fixed, gain = solve_active(c, tie, problem, work)
    if find_length(least, fixed, gain, problem, work) < 0.0:
        return False
    write_portfolio(np.inf, False, problem, work, action)
    return True


@inner
def start_at_top(c, problem, work, line):  # type: ignore[no-untyped-def]
    """Fill the largest coefficients up to their caps; the last one is free. Return the size of the active set."""
    d, state, x = problem.d, work.state, work.x
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
    begin_with(best, min(left, problem.upper[best]), c, problem, work, line)
    return 2


@inner
def start_on(c, wanted, problem, work, line):  # type: ignore[no-untyped-def]
    """Begin on an active set, whatever its signs. Return its size, or -1 if H is singular on a part of it."""
    d, state, x = problem.d, work.state, work.x
    first, left = -1, problem.b[0]
    for s in range(len(state)):
        state[s] = CAPPED if wanted[s] == CAPPED else OUT
        x[0, s], x[1, s] = (problem.upper[s] if wanted[s] == CAPPED else 0.0), 0.0
        left -= x[0, s]
        first = s if first < 0 and wanted[s] == IN else first
    if first < 0 or first >= d:
        return -1
    begin_with(first, left, c, problem, work, line)
    n = 2
    for s in range(len(state)):
        if wanted[s] == IN and state[s] != IN and n > 0:
            n = enter(s, n, problem, work, line)
    return n


@inner
def begin_with(s, weight, c, problem, work, line):  # type: ignore[no-untyped-def]
    """Let one coordinate be free, with this weight, beside those at their caps."""
    d, H, x = problem.d, problem.H, work.x
    work.state[s] = work.state[d] = IN
    work.places[0], work.places[1] = s, d
    line.inverse[0, 0], line.inverse[0, 1], line.inverse[1, 0], line.inverse[1, 1] = 0.0, 1.0, 1.0, -H[s, s]
    x[0, s], x[1, d] = weight, c[s]
    for j in range(d):
        x[0, d] -= H[s, j] * x[0, j]
    find_products(problem, work.state, work.places[:2], x, work.w)
    for j in range(d):
        work.w[1, j] -= c[j]


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
def follow_line(c, down, until, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Follow the line from t = infinity ``down``, or from 0 up, until the variance is 1 or rounding stops it.

    If ``until`` is not negative, it is the t to go to, whatever the variance.
    """
    d, state, x, w = problem.d, work.state, work.x, work.w
    t = np.inf if down else 0.0
    for _ in range(20 + 4 * len(state)):
        t, place, bound = next_event(down, t, problem, work)
        if until >= 0.0:
            if place < 0 or (t <= until if down else t >= until):
                return
            n = exchange(place, bound, n, problem, work, line)
            if n < 0:
                return
            continue
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
        n = exchange(place, bound, n, problem, work, line)
        if n < 0:
            return


@inner
def exchange(place, bound, n, problem, work, line):  # type: ignore[no-untyped-def]
    """Let a place leave the active set for a bound, or enter it. Return the size, or -1 where that cannot be."""
    if work.state[place] == IN:
        return leave(place, bound, n, problem, work, line)
    return enter(place, n, problem, work, line)


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
