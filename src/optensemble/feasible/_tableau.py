"""The simplex method on a dense tableau, both ways, for variables bounded on both sides.

A basis expresses m *basic* variables by k *others*, ``x_basic = T x_others``, and the others stand at a bound. The
tableau has margins. Below T: the reduced costs of the weights that break ties, those of the costs, and for each of the
others its side (1 at its lower bound, -1 at its upper bound), its lower bound and its upper bound. To the right of T:
for each basic variable its value, its lower bound and its upper bound. ``names`` tells which variables these are, the
others first.
"""

from __future__ import annotations

from numba import njit

BELOW, RIGHT = 5, 3
"""The rows and columns of the margins."""

ROUNDING = 1e-9
"""What may be owed to rounding, beside variables of a size near 1."""

_TIED = 1e-12
"""Reduced costs this close to 0, beside costs of a size near 1, are 0."""
WEIGHT = 1e-9
"""How much the weights count beside the costs until the basis is feasible, so that no step is in vain."""
_GAIN = 1e-10
"""What a tied edge must gain by the weights."""
_PIVOT = 1e-7
_OUTSIDE = 1e-11


@njit(cache=True, nogil=True, error_model="numpy")
def make_feasible(T, names, ratios, order):  # type: ignore[no-untyped-def]
    """Bring the basic variable that is furthest outside to its bound, by the others that cost least; repeat."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    trials = 100 + 10 * (m + k)
    r, excess = furthest_outside(T, m, k)
    while r >= 0 and trials > 0:
        trials -= 1
        side = 1.0 if T[r, k] < T[r, k + 1] else -1.0
        count = list_ratios(T, r, side, ratios, order)
        passed = pass_over(excess, ratios, order, count)
        # Those passed over leave some excess even at their other bounds: they go there.
        for t in range(passed):
            flip(T, order[t])
        bound = k + 1 if side > 0.0 else k + 2
        if passed < count:
            q = order[passed]
            exchange(T, names, r, q, (T[r, bound] - T[r, k]) / T[r, q], side)
        elif abs(T[r, bound] - T[r, k]) <= ROUNDING:
            T[r, bound] = T[r, k]  # rounding of the constraints keeps it outside
        else:
            trials = 0
        r, excess = furthest_outside(T, m, k)
    return r < 0


@njit(cache=True, nogil=True, error_model="numpy")
def furthest_outside(T, m, k):  # type: ignore[no-untyped-def]
    """Return the row of the basic variable that is furthest outside its bounds, or -1, and how far."""
    furthest, excess = -1, _OUTSIDE
    for i in range(m):
        outside = max(T[i, k + 1] - T[i, k], T[i, k] - T[i, k + 2])
        if outside > excess:
            furthest, excess = i, outside
    return furthest, excess


@njit(cache=True, nogil=True, error_model="numpy")
def list_ratios(T, r, side, ratios, order):  # type: ignore[no-untyped-def]
    """List the others that can bring row r toward its bound: what a unit costs, and what they gain at most; count."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    count = 0
    for j in range(k):
        slope = T[r, j] * T[m + 2, j] * side
        order[count] = j
        ratios[0, count] = abs(T[m + 1, j] + WEIGHT * T[m, j]) / slope
        ratios[1, j] = slope * (T[m + 4, j] - T[m + 3, j])
        count += slope > _PIVOT
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def pass_over(excess, ratios, order, count):  # type: ignore[no-untyped-def]
    """Return how many of least ratios gain less than the excess together; put them first, and the next one next."""
    first, end = 0, count
    while first < end:
        last = end - 1
        middle = (first + last) // 2
        pivot, chosen = ratios[0, middle], order[middle]
        ratios[0, middle], order[middle] = ratios[0, last], order[last]
        place, total = first, 0.0
        for t in range(first, last):
            # Without branches: put in front in any case, and kept there only if less.
            ratio, j = ratios[0, t], order[t]
            ratios[0, t], order[t] = ratios[0, place], order[place]
            ratios[0, place], order[place] = ratio, j
            less = ratio < pivot
            total += ratios[1, j] if less else 0.0
            place += less
        ratios[0, last], order[last] = ratios[0, place], order[place]
        ratios[0, place], order[place] = pivot, chosen
        if excess <= total:
            end = place
        elif excess <= total + ratios[1, chosen]:
            first = end = place
        else:
            excess -= total + ratios[1, chosen]
            first = place + 1
    return first


@njit(cache=True, nogil=True, error_model="numpy")
def climb(T, names, row):  # type: ignore[no-untyped-def]
    """Move along edges that gain by a row of reduced costs; by the weights only along edges that are tied."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    trials = 100 + 10 * (m + k)
    q = best_edge(T, row, m, k)
    while q >= 0 and trials > 0:
        trials -= 1
        leaving, step = first_blocked(T, q)
        if leaving < 0:
            flip(T, q)
        else:
            falls = T[leaving, q] * T[m + 2, q] < 0.0
            exchange(T, names, leaving, q, step, 1.0 if falls else -1.0)
        q = best_edge(T, row, m, k)
    return q < 0


@njit(cache=True, nogil=True, error_model="numpy")
def first_blocked(T, q):  # type: ignore[no-untyped-def]
    """Return the row that stops one of the others on its way to its other bound, or -1, and the step."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    side = T[m + 2, q]
    way, row = T[m + 4, q] - T[m + 3, q], -1
    for i in range(m):
        slope = T[i, q] * side
        room = (T[i, k + 2 if slope > 0.0 else k + 1] - T[i, k]) / slope
        if abs(slope) > _PIVOT and room < way:
            way, row = max(room, 0.0), i
    return row, side * way


@njit(cache=True, nogil=True, error_model="numpy")
def best_edge(T, row, m, k):  # type: ignore[no-untyped-def]
    """Return the one of the others that gains most, or -1."""
    best, most = -1, _GAIN if row == m else _TIED
    for j in range(k):
        if row > m or abs(T[m + 1, j]) <= _TIED:
            gain = T[row, j] * T[m + 2, j]
            if gain > most:
                best, most = j, gain
    if row == m and best >= 0:
        T[m + 1, best] = 0.0
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def flip(T, j):  # type: ignore[no-untyped-def]
    """Move one of the others from one bound to the other, and the basic variables with it."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    step = T[m + 2, j] * (T[m + 4, j] - T[m + 3, j])
    T[m + 2, j] = -T[m + 2, j]
    for i in range(m):
        T[i, k] += T[i, j] * step


@njit(cache=True, nogil=True, error_model="numpy")
def exchange(T, names, r, q, step, side):  # type: ignore[no-untyped-def]
    """Let one of the others enter the basis by a step, for a basic variable that comes to its bound on a side."""
    m, k = len(T) - BELOW, T.shape[1] - RIGHT
    for i in range(m):
        T[i, k] += T[i, q] * step
    T[r, k] = T[m + 3 if T[m + 2, q] > 0.0 else m + 4, q] + step
    T[r, k + 1], T[m + 3, q] = T[m + 3, q], T[r, k + 1]
    T[r, k + 2], T[m + 4, q] = T[m + 4, q], T[r, k + 2]
    T[m + 2, q] = side
    names[k + r], names[q] = names[q], names[k + r]
    inverse = 1.0 / T[r, q]
    for j in range(k):
        T[r, j] *= -inverse
    T[r, q] = inverse
    for i in range(m + 2):
        factor = T[i, q]
        if i != r and factor != 0.0:
            T[i, q] = 0.0
            for j in range(k):
                T[i, j] += factor * T[r, j]
