"""Symmetric systems by elimination, four rows and eight columns at a time.

An entry loses the multiples of four pivots' rows at a time, in the order of the pivots: the bits of a solution depend
on the system alone. Its size is filled up to a multiple of four, by rows and columns after the others, of which nothing
gets into these: they may hold anything.
"""

from __future__ import annotations

from optensemble._core.kernel import inner
from optensemble._core.lanes import LANES, add_multiple, load_row, spread, store_row

ROOM = 3 + LANES
"""Columns that a system needs beside its own, for what fills it up and two right-hand sides; and 3 rows."""


@inner
def eliminate(M, size):  # type: ignore[no-untyped-def]
    """Make a system of this size, a multiple of four, triangular; two right-hand sides are the columns after it.

    Only the upper half of it, with all of the four by four blocks on the diagonal, is read, and the upper half meant.
    The lower half of the rows of ``M`` is room for the factors.
    """
    half = len(M) // 2
    for i in range(0, size, 4):
        for column in range(i, size + 2, LANES):
            subtract_earlier(M, half, i, column)
        eliminate_four(M, half, i, size)


@inner
def subtract_earlier(M, half, i, column):  # type: ignore[no-untyped-def]
    """Subtract the multiples of all earlier rows from eight columns of four rows, from i on."""
    first, second = load_row(M, i, column), load_row(M, i + 1, column)
    third, fourth = load_row(M, i + 2, column), load_row(M, i + 3, column)
    for p in range(0, i, 4):
        a, b = load_row(M, p, column), load_row(M, p + 1, column)
        c, d = load_row(M, p + 2, column), load_row(M, p + 3, column)
        first = first - weigh_four(M, half + p, i, a, b, c, d)
        second = second - weigh_four(M, half + p, i + 1, a, b, c, d)
        third = third - weigh_four(M, half + p, i + 2, a, b, c, d)
        fourth = fourth - weigh_four(M, half + p, i + 3, a, b, c, d)
    store_row(M, i, column, first)
    store_row(M, i + 1, column, second)
    store_row(M, i + 2, column, third)
    store_row(M, i + 3, column, fourth)


@inner
def weigh_four(M, r, j, a, b, c, d):  # type: ignore[no-untyped-def]
    """Return the sum of four rows, each times its factor for row j; the factors are in the rows of M from r on."""
    upper = add_multiple(spread(M[r, j]) * a, M[r + 1, j], b)
    return upper + add_multiple(spread(M[r + 2, j]) * c, M[r + 3, j], d)


@inner
def eliminate_four(M, half, i, size):  # type: ignore[no-untyped-def]
    """Eliminate below the diagonal of four rows, from i on, and write their factors."""
    for r in range(i, i + 4):
        pivot = spread(M[r, r])
        for column in range(i, size, LANES):
            store_row(M, half + r, column, load_row(M, r, column) / pivot)
        for j in range(r + 1, i + 4):
            factor = -M[half + r, j]
            for column in range(i, size + 2, LANES):
                store_row(M, j, column, add_multiple(load_row(M, j, column), factor, load_row(M, r, column)))


@inner
def substitute_back(M, known, n):  # type: ignore[no-untyped-def]
    """Write the two solutions of a system that is triangular."""
    side = n + -n % 4
    for i in range(n - 1, -1, -1):
        p, q = M[i, side], M[i, side + 1]
        for j in range(i + 1, n):
            p -= M[i, j] * known[0, j]
            q -= M[i, j] * known[1, j]
        known[0, i], known[1, i] = p / M[i, i], q / M[i, i]
