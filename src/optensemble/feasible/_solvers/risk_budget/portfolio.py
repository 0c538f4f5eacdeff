"""Portfolios under a limit of variance: the data that all rows share, and the kernel that guesses and proves.

The guess is the hint's active set, or the one at the point where the line from the portfolio of least variance, which
is the same for all rows, would meet the limit if no bound stood in its way. Places whose signs are wrong are then
exchanged, all at once, a few times over. A row whose active set is not proven like this is left to ``critical_line``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, inner, make_kernel, maker
from optensemble._core.tolerances import SAME_VALUE
from optensemble.feasible._solvers.risk_budget.active_set import (
    CAPPED,
    CERTAIN,
    IN,
    NEVER,
    OUT,
    PROVEN,
    PortfolioWork,
    Problem,
    repair,
)
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows, least_variance

HELD = (3e-8, *(10.0**-k for k in range(1, 9)))
"""A hint with this much of a coordinate holds it; approximate actions may have to be read more or less closely."""

_NUDGE = 1e-8
"""Where the least variance is not unique, variances larger by this share single out one active set."""

_GUESSES = 12
"""Exchanges to try before a row is left to the critical line: rows that are proven at all seldom need as many."""

_LOOSE_LIMIT = 1e8
"""A limit this many times the least variance leaves too few digits to tell what is certain: hints are not used."""


class Packed(NamedTuple):
    """The data of a set that both kernels need, and whether the active set of least variance is known."""

    floats: list[npt.ArrayLike]
    ints: list[npt.ArrayLike]
    has_start: bool
    rows_at_once: int


class Start(NamedTuple):
    """The active set of least variance, the inverse of H on it (padded), x and w there, and its variance."""

    state: Indices
    places: Indices
    inverse: Floats
    x: Floats
    w: Floats
    variance: float


def pack_portfolio(covariance: Floats, limit: float, centre: Floats, rows: PortfolioRows) -> Packed:
    """Lay out a set for :func:`unpack_portfolio`; the covariance is measured in units of the limit."""
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
    # Weights that sum to one need no cap of one, and guesses do better without it.
    upper = np.where(rows.upper < 1.0, rows.upper, np.inf)
    needed = CERTAIN if limit < _LOOSE_LIMIT * (centre @ covariance @ centre) else NEVER
    numbers = np.array([rho, limit, start.x[:d] @ covariance @ start.x[:d] / limit, HELD[0], needed])
    table = np.zeros((6, d + m))
    table[1], vectors = np.inf, (rows.b, upper, np.diag(covariance), centre, start.x, start.w)
    for row, vector in zip(table, vectors, strict=True):
        row[: len(vector)] = vector
    inverse = np.zeros((len(start.places), d + m))
    inverse[:, : len(start.places)] = start.inverse[:, : len(start.places)]
    return Packed(
        [numbers, H, table, inverse, nudged],
        [m, rows.equal, plain, len(start.places), len(nudged), start.state, start.places],
        len(start.places) > 0,
        min(8192, max(1, 200_000_000 // (d + m) ** 3)),
    )


def guess_kernel(packed: Packed) -> Kernel:
    """Return the kernel that guesses and proves."""
    return make_kernel(prove_guesses, packed.floats, packed.ints, packed.rows_at_once)


def polishing(line: Kernel, held: float) -> Kernel:
    """Return the line's kernel for hints that come from the row alone: read at a threshold, a proof is enough."""
    floats = line.floats.copy()
    floats[3:5] = held, PROVEN
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
    """Cut up the arrays of :func:`pack_portfolio`: the problem, the start, and the data that vertices need."""
    m, equal, plain, n0 = ints[0], ints[1], ints[2] == 1, ints[3]
    N = d + m
    table = floats[5:].reshape((len(floats) - 5) // N, N)
    start = Start(ints[5 : 5 + N], ints[5 + N :], table[N + 6 : N + 6 + n0], table[N + 4], table[N + 5], floats[2])
    problem = Problem(d, equal, floats[0], table[:N], table[N][:m], table[N + 1])
    return problem, start, table[N + 2], table[N + 3], floats[1], plain


@njit(cache=True, nogil=True, error_model="numpy")
def prove_guesses(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Solve rows whose active set is proven, from the hint or from the least variance; the others get status 1."""
    n, d = C.shape
    problem, start, variances, centre, limit, plain = unpack_portfolio(d, floats, ints)
    work, c = new_portfolio_work(d, len(problem.H)), np.empty(d)
    for i in range(n):
        tie = read_scaled(C[i], c)
        if plain and takes_all(c, tie, variances, limit, actions[i]):
            continue
        if tie == 1.0:
            status[i] = not plain and len(problem.b) == 1  # caps: the first coefficients may be filled up
            for j in range(d):
                actions[i, j] = centre[j]
            continue
        t, guess = -1.0, 0 if hinted and floats[4] < NEVER else 1
        while t < 0.0 and guess < 2:
            if guess == 0:
                read_hint(actions[i], floats[3], problem, work.state)
            else:
                go_straight(c, start, problem, work)
            t = repair(c, tie, _GUESSES, CERTAIN if guess == 0 else PROVEN, problem, work)
            guess += 1
        status[i] = t < 0.0
        if t >= 0.0:
            write_portfolio(t, plain, problem, work, actions[i])


@maker
def new_portfolio_work(d, N):  # type: ignore[no-untyped-def]
    """Return the work arrays of one row."""
    state, places = np.empty(N, np.int64), np.empty(N + 1, np.int64)
    x, w = np.empty((2, N)), np.empty((2, N))
    return PortfolioWork(np.empty(d), state, places, x, w, np.empty(N), np.empty((N, N + 2)))


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
def takes_all(c, tie, variances, limit, action):  # type: ignore[no-untyped-def]
    """Return whether the limit lets a largest coefficient take everything; the first one that may does."""
    for j in range(len(c)):
        if c[j] >= -tie and variances[j] <= limit:
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
    d, n, direction = problem.d, len(start.places), work.margins
    gain = 0.0
    for i in range(n):
        direction[i] = 0.0
        for j in range(n):
            s = start.places[j]
            direction[i] += start.inverse[i, j] * (c[s] if s < d else 0.0)
        s = start.places[i]
        gain += direction[i] * c[s] if s < d else 0.0
    t = np.sqrt(max(1.0 - start.variance, 0.0) / gain) if gain > 0.0 else 0.0
    for s in range(len(work.state)):
        work.state[s] = start.state[s]
    for i in range(n):
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
