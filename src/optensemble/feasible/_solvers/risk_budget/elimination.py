"""Symmetric systems by elimination, in loops that are vectorised.

An entry loses the multiples of four pivots' rows at a time, in the order of the pivots, whatever the blocks that rows
are worked on in: the bits of a solution depend on the system alone. Loops run over slices, whose indices numba knows
not to be negative; otherwise they would not be vectorised.
"""

from __future__ import annotations

from optensemble._core.kernel import inner

_BLOCK = 16
"""Rows that are worked on together, a multiple of four: they stay in the nearest cache while all pivots pass by."""


@inner
def set_up_block(matrix, places, M, sides):  # type: ignore[no-untyped-def]
    """Write what :func:`eliminate` reads of a matrix at some places; return the width of the system.

    There is room for as many right-hand sides, zeros for now, and for what makes the width a multiple of four.
    """
    n = len(places)
    width = (n + sides + 3) // 4 * 4
    for i in range(n):
        first = i - i % _BLOCK
        row, system, columns = matrix[places[i]], M[i, first:], places[first:]
        for j in range(len(columns)):
            system[j] = row[columns[j]]
        for j in range(n, width):
            M[i, j] = 0.0
    return width


@inner
def eliminate(M, n, width):  # type: ignore[no-untyped-def]
    """Make a system triangular. Only the upper half of its n columns is read and meant, the rest is changed too.

    The lower half of the rows of ``M`` is room for the factors.
    """
    factors = M[len(M) // 2 :]
    for block in range(0, n, _BLOCK):
        stop = min(block + _BLOCK, n)
        for i in range(0, block, 8):
            subtract_eight(M, factors, i, block, stop, width)
        for i in range(block, stop, 4):
            if i + 4 > n:
                finish(M, i, n, width)
                continue
            eliminate_four(M, i, width)
            for r in range(i, i + 4):
                divide(M[r, i + 4 : n], M[r, r], factors[r, i + 4 : n])
            subtract_four(M, factors, i, stop, width)


@inner
def eliminate_four(M, i, width):  # type: ignore[no-untyped-def]
    """Eliminate below the diagonal of four rows."""
    row0, row1, row2, row3 = M[i, i:width], M[i + 1, i:width], M[i + 2, i:width], M[i + 3, i:width]
    f1, f2, f3 = row0[1] / row0[0], row0[2] / row0[0], row0[3] / row0[0]
    pivot = row1[1] - f1 * row0[1]
    g2, g3 = (row1[2] - f1 * row0[2]) / pivot, (row1[3] - f1 * row0[3]) / pivot
    pivot = (row2[2] - f2 * row0[2]) - g2 * (row1[2] - f1 * row0[2])
    h3 = ((row2[3] - f2 * row0[3]) - g2 * (row1[3] - f1 * row0[3])) / pivot
    for k in range(len(row0)):
        second = row1[k] - f1 * row0[k]
        third = (row2[k] - f2 * row0[k]) - g2 * second
        row1[k], row2[k] = second, third
        row3[k] = ((row3[k] - f3 * row0[k]) - g3 * second) - h3 * third


@inner
def finish(M, i, n, width):  # type: ignore[no-untyped-def]
    """Eliminate below the diagonal of the last rows, fewer than four."""
    for r in range(i, n):
        for j in range(r + 1, n):
            factor = M[r, j] / M[r, r]
            for k in range(j, width):
                M[j, k] -= factor * M[r, k]


@inner
def divide(row, by, out):  # type: ignore[no-untyped-def]
    """Write a row divided by a number."""
    for k in range(len(row)):
        out[k] = row[k] / by


@inner
def subtract_four(M, factors, i, stop, width):  # type: ignore[no-untyped-def]
    """Eliminate four columns, from i on, in the other rows of their block."""
    row0, row1, row2, row3 = M[i, i:width], M[i + 1, i:width], M[i + 2, i:width], M[i + 3, i:width]
    for j in range(i + 4, stop):
        f0, f1, f2, f3 = factors[i, j], factors[i + 1, j], factors[i + 2, j], factors[i + 3, j]
        row = M[j, i:width]
        for k in range(len(row)):
            row[k] -= (f0 * row0[k] + f1 * row1[k]) + (f2 * row2[k] + f3 * row3[k])


@inner
def subtract_eight(M, factors, i, block, stop, width):  # type: ignore[no-untyped-def]
    """Eliminate eight columns, from i on, in the rows of a later block: its rows are read and written half as often."""
    row0, row1, row2, row3 = M[i, block:width], M[i + 1, block:width], M[i + 2, block:width], M[i + 3, block:width]
    i4, i5, i6, i7 = i + 4, i + 5, i + 6, i + 7
    row4, row5, row6, row7 = M[i4, block:width], M[i5, block:width], M[i6, block:width], M[i7, block:width]
    for j in range(block, stop):
        f0, f1, f2, f3 = factors[i, j], factors[i + 1, j], factors[i + 2, j], factors[i + 3, j]
        f4, f5, f6, f7 = factors[i4, j], factors[i5, j], factors[i6, j], factors[i7, j]
        row = M[j, block:width]
        for k in range(len(row)):
            less = row[k] - ((f0 * row0[k] + f1 * row1[k]) + (f2 * row2[k] + f3 * row3[k]))
            row[k] = less - ((f4 * row4[k] + f5 * row5[k]) + (f6 * row6[k] + f7 * row7[k]))


@inner
def substitute_back(M, known, n):  # type: ignore[no-untyped-def]
    """Write the two solutions of a system that is triangular."""
    for i in range(n - 1, -1, -1):
        row, first, second = M[i, i + 1 : n], known[0, i + 1 : n], known[1, i + 1 : n]
        p, q = M[i, n], M[i, n + 1]
        for j in range(len(row)):
            p -= row[j] * first[j]
            q -= row[j] * second[j]
        known[0, i], known[1, i] = p / M[i, i], q / M[i, i]
