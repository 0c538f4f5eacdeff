"""Portfolios under a limit of variance: the data that all rows share, and the kernel that guesses and proves.

The guess is the hint's active set, or what ``complement`` finds, or the active set at the point where the line from the
portfolio of least variance, which is the same for all rows whatever their limits, would meet the limit if no bound
stood in its way. Places whose signs are wrong are then exchanged, all at once, a few times over. A row whose active set
is not proven like this is left to ``critical_line``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, inner, make_kernel, maker
from optensemble._core.lanes import LANES
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.risk_budget.active_set import (
    CAPPED,
    CERTAIN,
    IN,
    OUT,
    PROVEN,
    PortfolioWork,
    Problem,
    repair,
)
from optensemble.feasible._solvers.risk_budget.complement import lay_out_whole, new_search, search_complement
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows, least_variance
from optensemble.feasible._solvers.risk_budget.elimination import ROOM

HELD = (3e-8, *(10.0**-k for k in range(1, 9)))
"""A hint with this much of a coordinate holds it; approximate actions may have to be read more or less closely."""

_NUDGE = 1e-8
"""Where the least variance is not unique, variances larger by this share single out one active set."""

_GUESSES = 12
"""Exchanges to try before a row is left to the critical line: rows that are proven at all seldom need as many."""

_REGULAR = 1e10
"""Systems whose condition is above this have no inverse worth the name."""

_LOOSE_LIMIT = 1e8
"""A limit this many times the least variance leaves too few digits to tell what is certain: hints are not used."""


class Packed(NamedTuple):
    """The data of a set that both kernels need, and whether the active set of least variance is known."""

    floats: list[npt.ArrayLike]
    ints: list[npt.ArrayLike]
    has_start: bool
    rows_at_once: int


class Start(NamedTuple):
    """The active set of least variance, the inverse of H on it, x and w there, and its variance."""

    state: Indices
    places: Indices
    inverse: Floats
    x: Floats
    w: Floats
    variance: float


class Model(NamedTuple):
    """What rows share whose limits differ; variances that are ``nudged`` single out one active set of least variance.

    The start counts variance in a unit of its own, and is scaled to the limit of the row. The ``whole`` is for
    ``complement``; it has no rows where its search is not for the set: it has caps or sectors, or C is near singular.
    """

    d: int
    equal: int
    plain: bool
    nudged: bool
    unit: float
    largest: float
    least: float
    covariance: Floats
    nudge: Floats
    centre: Floats
    b: Floats
    upper: Floats
    whole: Floats
    whole_variance: float


_NUMBERS = 9
"""Numbers at the head of the kernels' floats, as :func:`pack_portfolio` lists them."""


def pack_portfolio(covariance: Floats, centre: Floats, rows: PortfolioRows) -> Packed:
    """Lay out a set for :func:`unpack_portfolio`, without its limit."""
    d, m = len(covariance), len(rows.b)
    largest, least = float(np.diag(covariance).max()), float(centre @ covariance @ centre)
    unit = max(least, 1e-3 * largest) or 1.0
    start, nudge = _find_start(_system(covariance, unit, largest, rows), centre, rows), np.zeros(d)
    if not len(start.places) and m > 1:
        nudge = _NUDGE * np.maximum(np.diag(covariance), 1e-6 * largest)
        near = covariance + np.diag(nudge)
        start = _find_start(_system(near, unit, largest, rows), least_variance(near, rows)[0], rows)
    plain = m == 1 and bool((rows.upper >= 1.0).all())
    # Weights that sum to one need no cap of one, and guesses do better without it.
    upper = np.where(rows.upper < 1.0, rows.upper, np.inf)
    n0, variance = len(start.places), float(start.x[:d] @ covariance @ start.x[:d])
    # The first two are the limit, and whether it leaves a face alone, as of rows with their own.
    whole, whole_variance = np.empty((0, 0)), 0.0
    if plain:
        whole, whole_variance = _invert(covariance, unit, _system(covariance, unit, largest, rows))
    numbers = [np.nan, 0.0, HELD[0], CERTAIN, least, unit, largest, variance, whole_variance]
    table = np.zeros((6, d + m))
    table[1], vectors = np.inf, (rows.b, upper, nudge, centre, start.x, start.w)
    for row, vector in zip(table, vectors, strict=True):
        row[: len(vector)] = vector
    return Packed(
        [numbers, covariance, rows.A, table, start.inverse[:n0, :n0], whole],
        [m, rows.equal, plain, n0, nudge.any(), start.state, start.places],
        n0 > 0,
        min(8192, max(1, 200_000_000 // (d + m) ** 3)),
    )


def _system(covariance: Floats, unit: float, largest: float, rows: PortfolioRows) -> Floats:
    """Return H with variances in some unit."""
    d, N = len(covariance), len(covariance) + len(rows.b)
    H = np.zeros((N, N))
    H[:d, :d] = covariance / unit + (min(1.0, largest / unit) or 1.0)
    H[d:, :d], H[:d, d:] = rows.A, rows.A.T
    return H


def _invert(covariance: Floats, unit: float, H: Floats) -> tuple[Floats, float]:
    """Return what ``complement`` needs, N above v, and s; nothing if the covariance is near singular."""
    d = len(covariance)
    if _condition(H, d) > _REGULAR:
        return np.empty((0, 0)), 0.0
    inverse = np.asarray(np.linalg.inv(H), dtype=np.float64)
    N, v = inverse[:d, :d] / unit, inverse[:d, d]
    return lay_out_whole(N, v), float(v @ covariance @ v)


def guess_kernel(packed: Packed) -> Kernel:
    """Return the kernel that guesses and proves."""
    return make_kernel(prove_guesses, packed.floats, packed.ints, packed.rows_at_once)


def with_limit(kernel: Kernel, limit: float) -> Kernel:
    """Return a kernel for rows that share a limit."""
    floats = kernel.floats.copy()
    floats[0] = limit
    return kernel._replace(floats=floats)


def polishing(line: Kernel, held: float) -> Kernel:
    """Return the line's kernel for hints that come from the row alone: read at a threshold, a proof is enough."""
    floats = line.floats.copy()
    floats[2:4] = held, PROVEN
    return line._replace(floats=floats)


def _find_start(H: Floats, centre: Floats, rows: PortfolioRows) -> Start:
    """Return the active set of least variance near an approximate one; without places if it cannot be confirmed."""
    d, N = len(centre), len(H)
    r = np.concatenate([np.zeros(d), rows.b])
    upper = np.concatenate([rows.upper, np.full(N - d, np.inf)])
    weight, equality = np.arange(N) < d, np.zeros(N, dtype=bool)
    equality[d : d + rows.equal] = True
    state = np.where(np.append(centre > HELD[0], rows.b - rows.A @ centre < HELD[0]), IN, OUT)
    state[:d][centre > rows.upper - HELD[0]] = CAPPED
    for _ in range(20):
        state[equality] = IN
        places = np.flatnonzero(state == IN)
        if _condition(H[np.ix_(places, places)], int((places < d).sum())) > _REGULAR:
            break
        inverse = np.asarray(np.linalg.inv(H[np.ix_(places, places)]), dtype=np.float64)
        x = np.where(state == CAPPED, upper, 0.0)
        x[places] = inverse @ (r - H @ x)[places]
        w = H @ x - r
        w[places] = 0.0
        right = np.where(state == IN, np.minimum(x, upper - x), np.where(weight & (state == OUT), w, -w))
        wrong = (right < -1e-12) & ~equality
        if not wrong.any():
            return Start(state, places, inverse, x, w, variance=0.0)
        left = np.where(weight & (x > upper / 2), CAPPED, OUT)
        state = np.where(wrong, np.where(state == IN, left, IN), state)
    return Start(state, places[:0], H[:0], np.zeros(N), np.zeros(N), variance=0.0)


def _condition(system: Floats, free: int) -> float:
    """Return the condition of an optimality system whose coordinates and rows are scaled alike."""
    scale = np.ones(len(system))
    scale[:free] = 1.0 / np.sqrt(np.diag(system)[:free])
    norms = np.linalg.norm(system[free:] * scale, axis=1)
    if not norms.all():
        return np.inf
    scale[free:] = 1.0 / norms
    return float(np.linalg.cond(system * np.outer(scale, scale)))


@maker
def unpack_portfolio(d, floats, ints):  # type: ignore[no-untyped-def]
    """Cut up the arrays of :func:`pack_portfolio`: the model, its start, and room for both at a limit."""
    m, n0 = ints[0], ints[3]
    N, at = d + m, _NUMBERS + d * d + m * d
    covariance, A = floats[_NUMBERS : _NUMBERS + d * d].reshape(d, d), floats[_NUMBERS + d * d : at].reshape(m, d)
    rest = at + 6 * N + n0 * n0
    whole_rows = d + 1 if len(floats) > rest else 0
    table, inverse = floats[at : at + 6 * N].reshape(6, N), floats[at + 6 * N : rest].reshape(n0, n0)
    base = Start(ints[5 : 5 + N], ints[5 + N :], inverse, table[4], table[5], floats[7])
    model = Model(
        d, ints[1], ints[2] == 1, ints[4] == 1, floats[5], floats[6], floats[4],
        covariance, table[2][:d], table[3][:d], table[0][:m], table[1],
        floats[rest:].reshape(whole_rows, -d % LANES + d), floats[8],
    )  # fmt: skip
    H, moved = np.zeros((N, N)), np.zeros((2, N))
    start = Start(base.state, base.places, np.zeros((n0, n0)), moved[0], moved[1], 0.0)
    nudged = np.zeros((N, N)) if ints[4] == 1 else H
    for k in range(m):
        for j in range(d):
            H[d + k, j] = H[j, d + k] = A[k, j]
            nudged[d + k, j] = nudged[j, d + k] = A[k, j]
    return model, base, start, H, nudged


@inner
def scale_to(limit, model, base, start, H, nudged):  # type: ignore[no-untyped-def]
    """Write H and the start with variances in units of the limit. Return the constant in H, and the start's variance.

    Another unit divides the prices of constraints, and multiplies how far coefficients move the weights. The constant
    is in the price of the first row, ``sum(a) = 1``, alone.
    """
    d, n, free = model.d, len(base.places), 0
    rho, own = min(1.0, model.largest / limit), min(1.0, model.largest / model.unit)
    rho, own = (1.0 if rho == 0.0 else rho), (1.0 if own == 0.0 else own)
    for i in range(d):
        for j in range(d):
            H[i, j] = model.covariance[i, j] / limit + rho
    if model.nudged:
        for i in range(d):
            for j in range(d):
                nudged[i, j] = H[i, j]
            nudged[i, i] += model.nudge[i] / limit
    ratio = model.unit / limit
    shift = ratio * own - rho
    for s in range(len(base.x)):
        start.x[s] = base.x[s] * (1.0 if s < d else ratio) + (shift if s == d else 0.0)
        start.w[s] = base.w[s] * (ratio if s < d else 1.0)
    for i in range(n):
        free += base.places[i] < d
    for i in range(n):
        for j in range(n):
            factor = 1.0 if (i < free) != (j < free) else (1.0 / ratio if i < free else ratio)
            start.inverse[i, j] = base.inverse[i, j] * factor + (shift if i == free and j == free else 0.0)
    return rho, base.variance / limit


@inner
def trusts_hints(limit, needed, least):  # type: ignore[no-untyped-def]
    """Return whether hints are used: a second solver's always, and a user's unless the limit is far above the least."""
    return needed < CERTAIN or limit < _LOOSE_LIMIT * least


@njit(cache=True, nogil=True, error_model="numpy")
def prove_guesses(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve rows whose active set is proven, from the hint or by a search; the others get status 1."""
    n, d = C.shape
    model, base, start, H, nudged = unpack_portfolio(d, floats, ints)
    problem = Problem(d, model.equal, 0.0, H, model.b, model.upper)
    work, search, c, limit = new_portfolio_work(d, len(H)), new_search(model.whole), np.empty(d), 0.0
    for i in range(n):
        mine = own[i] if own.shape[1] else floats
        if mine[1] != 0.0:  # a limit at the least variance leaves a face, for another solver
            status[i] = 1
            continue
        if mine[0] != limit:
            limit = mine[0]
            rho, variance = scale_to(limit, model, base, start, H, nudged)
            problem = Problem(d, model.equal, rho, H, model.b, model.upper)
            start = Start(base.state, base.places, start.inverse, start.x, start.w, variance)
        tie = read_scaled(C[i], c)
        if model.plain and takes_all(c, tie, model.covariance, limit, actions[i]):
            continue
        if tie == 1.0:
            status[i] = not model.plain and len(problem.b) == 1  # caps: the first coefficients may be filled up
            for j in range(d):
                actions[i, j] = model.centre[j]
            continue
        t, use_hint = -1.0, hinted and trusts_hints(limit, floats[3], model.least)
        for way in range(3):  # by the hint, by what is out, straight from the least variance
            if t >= 0.0 or (way == 0 and not use_hint) or (way == 1 and len(model.whole) == 0):
                continue
            if way == 0:
                read_hint(actions[i], floats[2], problem, work.state)
            elif way == 1:
                if not search_complement(c, limit, model.whole_variance, model.whole, search, work.state):
                    continue
            else:
                go_straight(c, start, problem, work)
            t = repair(c, tie, _GUESSES, CERTAIN if way == 0 else PROVEN, problem, work)
        status[i] = t < 0.0
        if t >= 0.0:
            write_portfolio(t, model.plain, problem, work, actions[i])


@maker
def new_portfolio_work(d, N):  # type: ignore[no-untyped-def]
    """Return the work arrays of one row."""
    state, places = np.empty(N, np.int64), np.empty(N + 1, np.int64)
    x, w = np.empty((2, N)), np.empty((2, N))
    return PortfolioWork(np.empty(d), state, places, x, w, np.empty(N), np.zeros((2 * N + 6, N + ROOM)))


@inner
def read_scaled(row, c):  # type: ignore[no-untyped-def]
    """Write coefficients between -1 and 0; return the width of a tie in these units, or 1 if all are tied (and 0)."""
    largest = lowest = row[0]
    for value in row:
        largest, lowest = max(largest, value), min(lowest, value)
    size = max(largest, -lowest)
    scale = size if size > 1e100 or 0.0 < size < 1e-100 else 1.0
    spread, slack = largest / scale - lowest / scale, SAME_VALUE * (size / scale)
    flat = spread <= slack
    for j in range(len(c)):
        c[j] = 0.0 if flat else (row[j] / scale - largest / scale) / spread
    return 1.0 if flat else slack / spread


@inner
def takes_all(c, tie, covariance, limit, action):  # type: ignore[no-untyped-def]
    """Return whether the limit lets a largest coefficient take everything; the first one that may does."""
    for j in range(len(c)):
        if c[j] >= -tie and covariance[j, j] <= limit:
            for k in range(len(c)):
                action[k] = 1.0 if k == j else 0.0
            return True
    return False


@inner
def read_hint(action, held, problem, state):  # type: ignore[no-untyped-def]
    """Read the active set off an action; what is at least ``held`` away from a bound is not at it."""
    d = problem.d
    for s in range(d):
        state[s] = OUT if action[s] <= held else (CAPPED if action[s] >= problem.upper[s] - held else IN)
    for s in range(d, len(state)):
        left = problem.b[s - d]
        for j in range(d):
            left -= problem.H[s, j] * action[j]
        state[s] = IN if s < d + problem.equal or left <= held else OUT


@inner
def go_straight(c, start, problem, work):  # type: ignore[no-untyped-def]
    """Go from the least variance straight to the limit, regardless of bounds, and take the active set held there."""
    gain = find_direction(c, start, problem, work)
    t = np.sqrt(max(1.0 - start.variance, 0.0) / gain) if gain > 0.0 else 0.0
    hold_at(t, start, problem, work)


@inner
def find_direction(c, start, problem, work):  # type: ignore[no-untyped-def]
    """Write the direction in which coefficients move the least variance into the margins; return their gain."""
    d, n, direction = problem.d, len(start.places), work.margins
    gain = 0.0
    for i in range(n):
        direction[i] = 0.0
        for j in range(n):
            s = start.places[j]
            direction[i] += start.inverse[i, j] * (c[s] if s < d else 0.0)
        s = start.places[i]
        gain += direction[i] * c[s] if s < d else 0.0
    return gain


@inner
def hold_at(t, start, problem, work):  # type: ignore[no-untyped-def]
    """Take the active set that is held at t on the way from the least variance, regardless of bounds."""
    d, direction = problem.d, work.margins
    for s in range(len(work.state)):
        work.state[s] = start.state[s]
    for i in range(len(start.places)):
        s = start.places[i]
        value = start.x[s] + t * direction[i]
        if value <= 0.0 and not d <= s < d + problem.equal:
            work.state[s] = OUT
        elif s < d and value >= problem.upper[s]:
            work.state[s] = CAPPED


@inner
def write_portfolio(t, plain, problem, work, action):  # type: ignore[no-untyped-def]
    """Write the action at t, within its bounds."""
    total = 0.0
    for s in range(problem.d):
        weight = work.x[0, s] + (t * work.x[1, s] if t < np.inf else 0.0)
        action[s] = min(max(weight, 0.0), problem.upper[s])
        total += action[s]
    if plain:
        for s in range(problem.d):
            action[s] /= total
