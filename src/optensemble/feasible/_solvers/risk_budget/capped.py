"""Portfolios under a limit of variance whose caps come from the row.

Caps change the portfolio of least variance, from which the other kernels set out, and finding it anew takes longer than
all the rest. Here every row sets out from the least variance without caps. That is another way to the active set than
the one that a set with just these caps takes, so what it leads to is taken only if it is *certain* (see
``active_set``), as of a hint; and only if the limit is above the least variance by more than rounding. A constraint
that others imply, or that always binds beside the caps, is never part of such an active set: it would make the
equations singular, or a margin 0. The other rows get status 1, and are left to the set with their caps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel, inner, make_kernel
from optensemble.feasible._solvers.risk_budget.active_set import (
    CERTAIN,
    IN,
    OUT,
    PROVEN,
    Problem,
    repair,
    repair_at,
    variance_at,
)
from optensemble.feasible._solvers.risk_budget.critical_line import (
    Line,
    follow_line,
    is_vertex,
    start_at_top,
    start_on,
)
from optensemble.feasible._solvers.risk_budget.portfolio import (
    Packed,
    Start,
    find_direction,
    go_straight,
    hold_at,
    new_portfolio_work,
    read_hint,
    read_scaled,
    scale_to,
    trusts_hints,
    unpack_portfolio,
    write_portfolio,
)

_GUESSES = 12
"""Exchanges to try before the row is left to the line, or to the set with its caps."""

_ROOM = 1e-8
"""A limit this much above the least variance, as a share of itself, leaves more than a face."""

_ROOM_OF_LARGEST = 1e-11
"""The same as a share of the largest variance."""


def capped_kernel(packed: Packed) -> Kernel:
    """Return the kernel for caps by row; its ``own`` is the limit, whether to leave the row alone, and the caps."""
    return make_kernel(prove_with_caps, packed.floats, packed.ints, packed.rows_at_once)


def find_attainable(kernel: Kernel, caps: Floats, enough: Floats) -> tuple[Floats, Floats]:
    """Return for each row a variance that its caps and the sectors allow, and the least; NaN where it is not known.

    The least is looked for only where the other is not below ``enough``.
    """
    found = np.empty((len(caps), 2))
    attainable_variances(np.ascontiguousarray(caps), enough, kernel.floats, kernel.ints, found)
    return found[:, 0], found[:, 1]


@njit(cache=True, nogil=True, error_model="numpy")
def prove_with_caps(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve rows whose active set is certain; the others get status 1."""
    n, d = C.shape
    model, base, start, H, nudged = unpack_portfolio(d, floats, ints)
    N, m, n0, limit = len(H), len(model.b), len(base.places), 0.0
    upper, c, ordered, until = np.full(N, np.inf), np.empty(d), np.empty(d), -1.0
    none, wanted = np.zeros(d), np.empty(N, np.int64)
    problem = Problem(d, model.equal, 0.0, H, model.b, upper)
    work = new_portfolio_work(d, N)
    line = Line(np.empty((N + 1, N + 1)), np.empty(N + 1), np.empty(N + 1), np.empty(N), np.arange(N + 1))
    for i in range(n):
        if own[i, 0] != limit:
            limit = own[i, 0]
            rho, variance = scale_to(limit, model, base, start, H, nudged)
            problem = Problem(d, model.equal, rho, H, model.b, upper)
            start = Start(base.state, base.places, start.inverse, start.x, start.w, variance)
        plain = read_caps(own[i, 2:], upper) and m == 1
        room = max(_ROOM, _ROOM_OF_LARGEST * model.largest / limit)
        tie = read_scaled(C[i], c)
        for j in range(d):
            ordered[j] = c[j] - tie * j
        status[i] = 1
        if own[i, 1] != 0.0:
            continue
        if m == 1 and is_vertex(c, ordered, tie, plain, model.covariance, limit, problem, work, line, actions[i]):
            status[i] = not variance_of(actions[i], model.covariance) < limit * (1.0 - room)
            continue
        if tie == 1.0:
            continue
        t, known = -1.0, False
        trusted = trusts_hints(limit, floats[3], model.least)
        if not trusted:  # the caps may make the least variance larger
            known = find_least(none, start, problem, work, wanted)
            trusted = known and trusts_hints(1.0, floats[3], variance_at(0.0, problem, work.x, work.w))
        if not trusted and m == 1 and shares_start(own[i, 2:], model, base):
            go_straight(c, start, problem, work)
            t = repair(c, tie, _GUESSES, PROVEN, problem, work)
        for way in range(4):  # by the hint, straight from the least variance, down the line, up the line
            if t >= 0.0 or not trusted or (way == 0 and not hinted) or (way == 1 and n0 == 0) or (way == 2 and m > 1):
                continue
            if way == 0:
                read_hint(actions[i], floats[2], problem, work.state)
            elif way == 1:
                go_straight(c, start, problem, work)
                loosen(problem, work)
            else:
                known = way == 2 or known or find_least(none, start, problem, work, wanted)
                size = start_at_top(ordered, problem, work, line) if way == 2 else -1
                size = start_on(c, wanted, problem, work, line) if way == 3 and known else size
                if size < 0:
                    continue
                follow_line(ordered if way == 2 else c, way == 2, until, size, problem, work, line)
            t = repair(c, tie, _GUESSES, CERTAIN, problem, work)
        if t >= 0.0 and has_room(t, room, problem, work):
            status[i] = 0
            write_portfolio(t, plain, problem, work, actions[i])


@inner
def find_least(none, start, problem, work, wanted):  # type: ignore[no-untyped-def]
    """Write the active set of the least variance under the row's caps; return whether it is proven."""
    if len(start.places) == 0:
        return False
    find_direction(none, start, problem, work)
    hold_at(0.0, start, problem, work)
    loosen(problem, work)
    if not repair_at(1.0, none, 0.0, 3 * _GUESSES, PROVEN, problem, work):
        return False
    for s in range(len(wanted)):
        wanted[s] = work.state[s]
    return True


@inner
def loosen(problem, work):  # type: ignore[no-untyped-def]
    """Free all coordinates at 0 if caps have left fewer coordinates free than rows bind."""
    d, state, freedom = problem.d, work.state, 0
    for s in range(len(state)):
        freedom += (1 if s < d else -1) if state[s] == IN else 0
    for s in range(d):
        if freedom < 0 and state[s] == OUT:
            state[s] = IN


@inner
def shares_start(caps, model, base):  # type: ignore[no-untyped-def]
    """Return whether the set with these caps sets out from the same place, to the bit, as rows without caps.

    It does where the caps are above the portfolio of least variance, and that has so little variance, as with cash,
    that the largest variance makes the unit.
    """
    inside = len(base.places) > 0 and model.least < 5e-4 * model.largest and not model.nudged
    for j in range(len(caps)):
        inside = inside and (caps[j] >= 1.0 or base.x[j] <= caps[j] - 1e-6)
    return inside


@inner
def read_caps(caps, upper):  # type: ignore[no-untyped-def]
    """Write caps, infinity for those that weights which sum to 1 do not need; return whether none is needed."""
    needed = 0
    for j in range(len(caps)):
        upper[j] = caps[j] if caps[j] < 1.0 else np.inf
        needed += caps[j] < 1.0
    return needed == 0


@inner
def has_room(t, room, problem, work):  # type: ignore[no-untyped-def]
    """Return whether the variance can be less than the limit by some room, on the way from an action back to t = 0."""
    d, state, x, w = problem.d, work.state, work.x, work.w
    least = variance_at(0.0, problem, x, w)
    if t == np.inf:
        return least < 1.0 - room
    back = 1.0  # the share of the way that no bound and no row stands in
    for s in range(len(state)):
        if (s < d) == (state[s] == IN) and not d <= s < d + problem.equal:
            value, move = (x[0, s] + t * x[1, s], t * x[1, s]) if s < d else (-w[0, s] - t * w[1, s], -t * w[1, s])
            if move > 0.0:
                back = min(back, value / move)
            if s < d and move < 0.0:
                back = min(back, (problem.upper[s] - value) / -move)
    return (1.0 - least) * (1.0 - (1.0 - back) * (1.0 - back)) > room


@njit(cache=True, nogil=True, error_model="numpy")
def attainable_variances(caps, enough, floats, ints, found):  # type: ignore[no-untyped-def]
    """Write for each row a variance that is attainable, and the least one where it is not plain to see."""
    n, d = caps.shape
    model, base, start, H, nudged = unpack_portfolio(d, floats, ints)
    rho, variance = scale_to(model.unit, model, base, start, H, nudged)
    start = Start(base.state, base.places, start.inverse, start.x, start.w, variance)
    upper, c, action, wanted = np.full(len(H), np.inf), np.zeros(d), np.empty(d), np.empty(len(H), np.int64)
    problem, work = Problem(d, model.equal, rho, H, model.b, upper), new_portfolio_work(d, len(H))
    for i in range(n):
        read_caps(caps[i], upper)
        share_what_is_cut(model.centre, caps[i], action)
        found[i, 0] = variance_of(action, model.covariance) if keeps_rows(action, problem) else np.nan
        found[i, 1] = np.nan
        if not found[i, 0] < enough[i] and find_least(c, start, problem, work, wanted):
            write_portfolio(1.0, False, problem, work, action)
            found[i, 1] = variance_of(action, model.covariance)


@inner
def share_what_is_cut(centre, caps, action):  # type: ignore[no-untyped-def]
    """Write weights cut to their caps; what is cut off goes to the others, in proportion to their room."""
    left = 1.0
    room = 0.0
    for j in range(len(caps)):
        action[j] = min(centre[j], caps[j])
        left -= action[j]
        room += min(caps[j], 1.0) - action[j]
    for j in range(len(caps)):
        action[j] += max(left, 0.0) * (min(caps[j], 1.0) - action[j]) / room if room > 0.0 else 0.0


@inner
def keeps_rows(action, problem):  # type: ignore[no-untyped-def]
    """Return whether an action satisfies the rows."""
    d = problem.d
    for k in range(len(problem.b)):
        left = problem.b[k]
        for j in range(d):
            left -= problem.H[d + k, j] * action[j]
        if left < -1e-12 or (k < problem.equal and left > 1e-12):
            return False
    return True


@inner
def variance_of(action, covariance):  # type: ignore[no-untyped-def]
    """Return the variance of an action."""
    variance = 0.0
    for i in range(len(action)):
        if action[i] != 0.0:
            along = 0.0
            for j in range(len(action)):
                along += covariance[i, j] * action[j]
            variance += action[i] * along
    return variance
