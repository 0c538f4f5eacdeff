"""The optimum of a portfolio problem on a given active set, by one elimination, and the proof of it.

The problem is ``max c'a`` with ``a'Ca <= 1``, ``A a <= b`` (the first rows with equality, the very first being
``sum(a) = 1``) and ``0 <= a <= upper``. For a price ``1/t`` of variance its optimality conditions are linear: with
``H = [[C, A'], [A, 0]]``, ``r = (t c, b)`` and an *active set* that says which coordinates are free (the others rest at
0 or at their cap) and which rows bind, ``H x = r`` holds at the free coordinates and binding rows, and the residual
``w = H x - r`` elsewhere has the right sign. Both are linear in t, ``x = p + t q``, and the variance is
``p'Cp + t^2 q'Cq``, so the best t on an active set is a root in closed form.

Its bits depend on the active set and the row alone. An active set whose signs are right by a margin is *proven*: it is
the only one, however it was found. But a hint may prove one that nothing else leads to, so a hint must show more. Let
``b`` be the least weight, distance to a cap or slack of a row that does not bind, ``p`` the least price of a bound or
of a row that binds, and ``l`` the least pivot. The active set is *certain* if

- the critical line, which may end with signs wrong by 1e-11, must end with the same: the equations multiply such
  errors by at most ``1 / l``, which leaves less than ``b`` and ``p``;
- and it can be read off every action within 1e-11 of the optimum. Such an action holds at most ``1e-11 / p`` of the
  coordinates that are out, and leaves no more of the rows that bind. Less than half of a coordinate that is in can be
  missing, for curvature (``b^2`` times ``l``, the variance and its price), and for coordinates that are out, which drag
  the rest along (``p b sqrt(l)``). One of the thresholds, a power of ten each, then lies in between.

The ways without a hint, the line or else a second solver whose action is read at all thresholds, should then end at
the active set that the hint has led to; a hint that shows less is not used. This rests on two estimates, not on proofs:
that the least pivot stands for the conditioning, and that the second solver comes as near as it tries to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner
from optensemble.feasible._solvers.risk_budget.elimination import eliminate, substitute_back

OUT, IN, CAPPED = 0, 1, 2
"""Where a coordinate is (at 0, free, at its cap), and whether a row binds (IN) or not (OUT)."""

SPOILED, WRONG, LOOSE, CLEAN, PROVEN, CERTAIN = -1, 0, 1, 2, 3, 4
"""The grades of an active set, see :func:`judge_signs`."""

_CLEAN = 1e-13
"""Signs wrong by no more than this are right: it is the rounding of one elimination."""

_LOOSE = 1e-11
"""Signs wrong by no more than this are accepted where nothing better is found."""

NEAR = 1e-11
"""The second solver tries to come this near to the optimum, in units of the spread of the coefficients."""

_MISSED = 1e-9
"""A variance further from the limit than this, in units of it, was lost to rounding."""

_LOST = 1e-10
"""Equations that hold no better than this were lost to rounding; no margin of a proof is as small."""


class Problem(NamedTuple):
    """The data of all rows: ``d`` coordinates, then the rows of A, the first ``equal`` with equality.

    C holds a constant ``rho`` more than the covariance: where sum(a) = 1 that changes nothing but the multiplier of
    this row, and it makes C regular on all supports whose optimality conditions are.
    """

    d: int
    equal: int
    rho: float
    H: Floats
    b: Floats
    upper: Floats


class PortfolioWork(NamedTuple):
    """The work arrays of a row: the active set and its places, p and q in ``x``, their residuals in ``w``, scratch.

    The coefficients ``c`` count from that of the first free coordinate, which keeps the digits of small differences.
    """

    c: Floats
    state: Indices
    places: Indices
    x: Floats
    w: Floats
    margins: Floats
    system: Floats


@inner
def repair(c, tie, most, enough, problem, work):  # type: ignore[no-untyped-def]
    """Solve on the active set; where signs are wrong exchange these places, a few times. Return the best t, or -1."""
    for attempt in range(most):
        least, fixed, gain = solve_active(c, tie, problem, work)
        t = find_length(least, fixed, gain, problem, work)
        if t < 0.0:
            return -1.0
        level = judge_signs(t, least, problem, work)
        if level >= max(enough, CLEAN) or (level >= enough and attempt + 1 == most):
            return t
        if level >= CLEAN or level == SPOILED:
            return -1.0
        for s in range(len(work.state)):
            if work.margins[s] < -_CLEAN:
                flip_place(t, s, problem, work)
    return -1.0


@inner
def repair_at(t, c, tie, most, enough, problem, work):  # type: ignore[no-untyped-def]
    """Do as :func:`repair` does for a price that is given; return whether the active set is good enough."""
    for attempt in range(most):
        least = settle_at(c, tie, problem, work)
        if least <= 0.0:
            return False
        level = judge_signs(t, least, problem, work)
        if level >= max(enough, CLEAN) or (level >= enough and attempt + 1 == most):
            return True
        if level >= CLEAN or level == SPOILED:
            return False
        for s in range(len(work.state)):
            if work.margins[s] < -_CLEAN:
                flip_place(t, s, problem, work)
    return False


@inner
def find_length(least, fixed, gain, problem, work):  # type: ignore[no-untyped-def]
    """Return the best t from what :func:`solve_active` returns; complete the residuals.

    It is infinite where no price moves the action, and -1 where there is none.
    """
    d, x, w = problem.d, work.x, work.w
    variance = variance_at(0.0, problem, x, w) if least > 0.0 else np.inf
    if variance > 1.0:
        return -1.0
    t = np.inf if fixed else np.sqrt((1.0 - variance) / gain)
    if not fixed and not abs(variance_at(t, problem, x, w) - 1.0) <= _MISSED:
        return -1.0
    for s in range(d):
        w[1, s] -= work.c[s]
    return t


@inner
def settle_at(c, tie, problem, work):  # type: ignore[no-untyped-def]
    """Solve on the active set for a price that is given: write ``x`` and ``w``, and return the least pivot, or 0."""
    d, x, w = problem.d, work.x, work.w
    least, fixed, _ = solve_active(c, tie, problem, work)
    for s in range(d):
        w[1, s] -= work.c[s]
    if fixed:  # no price moves the action, and rounding must not
        for s in range(d):
            x[1, s] = 0.0
        for s in range(d, len(work.state)):
            w[1, s] = 0.0
    return least


@inner
def solve_active(c, tie, problem, work):  # type: ignore[no-untyped-def]
    """Solve on the active set: write ``x``, and ``w`` but for the coefficients.

    Returns the least pivot (0 if there is no solution), whether no price moves the action, and ``q'Cq``.
    """
    d, state, x, w = problem.d, work.state, work.x, work.w
    n = freedom = 0
    low, high = np.inf, -np.inf
    for s in range(len(state)):
        x[0, s] = problem.upper[s] if state[s] == CAPPED else 0.0
        x[1, s] = 0.0
        if state[s] == IN:
            work.places[n] = s
            n += 1
            freedom += 1 if s < d else -1
            if s < d:
                low, high = min(low, c[s]), max(high, c[s])
    for s in range(d):
        work.c[s] = c[s] - c[min(work.places[0], d - 1)]
    places, least = work.places[:n], 0.0
    if freedom >= 0:
        eliminate(work.system, set_up(work.c, problem, state, places, work.system, x))
        least = least_pivot(problem, places, work.system)
    if least <= 0.0:
        return 0.0, True, 0.0
    substitute_back(work.system, w, n)
    for i in range(n):
        x[0, places[i]], x[1, places[i]] = w[0, i], w[1, i]
    find_products(problem, state, places, x, w)
    gain = push = 0.0
    for s in range(d):
        if state[s] == IN:
            # What binding rows leave of the coefficient is Cq; q'c would add up what they take, which cancels.
            left = w[1, s]
            for k in range(d, x.shape[1]):
                left -= problem.H[s, k] * x[1, k]
            gain, push = gain + x[1, s] * left, max(push, abs(left))
    return least, freedom == 0 or high - low <= tie or push <= tie or gain <= 0.0, gain


@inner
def least_pivot(problem, places, M):  # type: ignore[no-untyped-def]
    """Return the least pivot of a triangular system, relative to its size, or 0 if there is no solution."""
    d, H, n, least = problem.d, problem.H, len(places), np.inf
    for r in range(n):
        pivot, diagonal = M[r, r], H[places[r], places[r]]
        if not (pivot > 1e-13 * diagonal if places[r] < d else pivot < 0.0):
            return 0.0
        least = min(least, pivot / diagonal) if places[r] < d else least
    for r in range(n):  # a row that depends on earlier ones has a pivot of rounding, beside what they took off
        if places[r] >= d:
            size = 0.0
            for i in range(r):
                size += M[i, r] * M[i, r] / M[i, i] if places[i] < d else 0.0
            if not -M[r, r] > 1e-10 * size:
                return 0.0
            least = min(least, -M[r, r] / size)
    return least


@inner
def set_up(c, problem, state, places, M, x):  # type: ignore[no-untyped-def]
    """Write H at the places, and two right-hand sides, into ``M``; return the column of the first."""
    d, H, n = problem.d, problem.H, len(places)
    side = n + -n % 4
    for i in range(n):
        s = places[i]
        for j in range(i - i % 4, n):
            M[i, j] = H[s, places[j]]
        M[i, side] = 0.0 if s < d else problem.b[s - d]
        M[i, side + 1] = c[s] if s < d else 0.0
    for s in range(d):
        if state[s] == CAPPED:
            for i in range(n):
                M[i, side] -= x[0, s] * H[s, places[i]]
    # A binding row times itself may be added to C: that changes no solution, and C is regular then wherever H is.
    for r in range(n):
        if places[r] > d:
            for i in range(n):
                factor = problem.rho * H[places[r], places[i]]
                if factor != 0.0:
                    for j in range(i, n):
                        M[i, j] += factor * H[places[r], places[j]]
                    M[i, side] += factor * M[r, side]
    return side


@inner
def find_products(problem, state, places, x, w):  # type: ignore[no-untyped-def]
    """Write ``H p - (0, b)`` and ``H q``: the residuals, but for the coefficients that ``H q`` lacks.

    Rows are added four at a time, as by :func:`add_rows`, to both at once, so that each is read once.
    """
    d, H, n, N = problem.d, problem.H, len(places), len(state)
    u, v, p, q = w[0], w[1], x[0], x[1]
    for s in range(N):
        u[s], v[s] = (0.0 if s < d else -problem.b[s - d]), 0.0
    for s in range(d):
        if state[s] == CAPPED:
            for k in range(N):
                u[k] += p[s] * H[s, k]
    for i in range(0, n - 3, 4):
        r0, r1 = places[i], places[i + 1]
        r2, r3 = places[i + 2], places[i + 3]
        p0, p1, q0, q1 = p[r0], p[r1], q[r0], q[r1]
        p2, p3, q2, q3 = p[r2], p[r3], q[r2], q[r3]
        for k in range(N):
            m0, m1 = H[r0, k], H[r1, k]
            m2, m3 = H[r2, k], H[r3, k]
            u[k] += (p0 * m0 + p1 * m1) + (p2 * m2 + p3 * m3)
            v[k] += (q0 * m0 + q1 * m1) + (q2 * m2 + q3 * m3)
    for i in range(n - n % 4, n):
        r0, p0, q0 = places[i], p[places[i]], q[places[i]]
        for k in range(N):
            u[k] += p0 * H[r0, k]
            v[k] += q0 * H[r0, k]


@inner
def add_rows(out, factors, matrix, rows):  # type: ignore[no-untyped-def]
    """Add some rows of a matrix, each times its factor; four at a time, in one fixed order."""
    n, width = len(rows), len(out)
    for i in range(0, n - 3, 4):
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        f0, f1, f2, f3 = factors[r0], factors[r1], factors[r2], factors[r3]
        for k in range(width):
            out[k] += (f0 * matrix[r0, k] + f1 * matrix[r1, k]) + (f2 * matrix[r2, k] + f3 * matrix[r3, k])
    for i in range(n - n % 4, n):
        r0, f0 = rows[i], factors[rows[i]]
        for k in range(width):
            out[k] += f0 * matrix[r0, k]


@inner
def variance_at(t, problem, x, w):  # type: ignore[no-untyped-def]
    """Return the variance of the action ``p + tq``, from the products."""
    d, variance = problem.d, -problem.rho
    for s in range(d):
        weight = x[0, s] + t * x[1, s]
        if weight != 0.0:
            along = w[0, s] + t * w[1, s]
            for k in range(d, x.shape[1]):
                along -= problem.H[s, k] * (x[0, k] + t * x[1, k])
            variance += weight * along
    return variance


@inner
def judge_signs(t, least, problem, work):  # type: ignore[no-untyped-def]
    """Write the margin by which the sign at each place is right (below 0 if wrong); return the active set's grade.

    SPOILED if rounding spoiled the equations, WRONG, right to LOOSE or CLEAN accuracy, PROVEN: right by margins that
    rounding cannot reach, or CERTAIN: by margins that no hint is needed to find.
    """
    d, state, x, w = problem.d, work.state, work.x, work.w
    inside = prices = bend = np.inf
    proven, freedom = least > 1e-8, 0
    slope, price = (t, 1.0 / t) if t < np.inf else (0.0, 0.0)
    for s in range(len(state)):
        held, coordinate = state[s] == IN, s < d
        value, residual = x[0, s] + slope * x[1, s], w[0, s] + slope * w[1, s]
        priced = residual if not coordinate else w[0, s] * price + w[1, s]
        if held:
            freedom += 1 if coordinate else -1
            if not abs(priced) <= _LOST:
                return SPOILED
        if d <= s < d + problem.equal:
            work.margins[s] = np.inf
            continue
        if coordinate == held:
            # A weight between its bounds, or the slack of a row that does not bind.
            margin = min(value, problem.upper[s] - value) if coordinate else -residual
            # 1e-7 is far above what rounding does to a weight; so is 1e-9, below, to a price.
            proven = proven and margin > 1e-7 and (price == 0.0 or margin * price * least > 1e-11)
            inside, bend = min(inside, margin), min(bend, margin * margin * (problem.H[s, s] if coordinate else 1.0))
        else:
            # The price of a bound, or of a row that binds.
            margin = priced if coordinate else x[0, s] * price + x[1, s]
            margin = -margin if state[s] == CAPPED else margin
            proven = proven and margin > 1e-9 + 1e-10 * price * problem.H[s, s]
            prices = min(prices, margin)
        work.margins[s] = margin
    worst = min(inside, prices)
    if worst < -_CLEAN:
        return LOOSE if worst >= -_LOOSE else WRONG
    # Where no price moves the action, a limit that it meets may bind or not.
    undecided = t == np.inf and (freedom > 0 or variance_at(0.0, problem, x, w) > 1.0 - _MISSED)
    if undecided or not proven:
        return CLEAN
    return CERTAIN if is_certain(inside, prices, price * bend, least) else PROVEN


@inner
def is_certain(inside, prices, bend, least):  # type: ignore[no-untyped-def]
    """Return whether a proven active set would be found without a hint, from its least margins and its least pivot."""
    straight = bend == 0.0 or bend * least > 8.0 * NEAR
    dragged = prices * inside * np.sqrt(min(least, 1.0)) > 30.0 * NEAR
    return straight and dragged and min(inside, prices) * least > 10.0 * _LOOSE


@inner
def flip_place(t, s, problem, work):  # type: ignore[no-untyped-def]
    """Move one place into the active set, or out of it to the bound that it crossed."""
    if work.state[s] != IN:
        work.state[s] = IN
        return
    weight = work.x[0, s] + (t * work.x[1, s] if t < np.inf else 0.0)
    work.state[s] = CAPPED if s < problem.d and weight > 0.5 * problem.upper[s] else OUT
