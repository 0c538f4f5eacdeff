"""Sums whose bits depend neither on the order of the rows nor on the shards they come in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner


@njit(cache=True, nogil=True)
def cell_sums(cells: Indices, values: Floats, count: int) -> tuple[Indices, Floats]:
    """Count the rows of each cell and sum their ``values``, exactly but for one rounding at the end."""
    d = values.shape[1]
    counts, high, low = np.empty(count, np.int64), np.empty((count, d)), np.empty((count, d))
    sum_cells(cells, values, counts, high, low)
    return counts, high + low


@inner
def sum_cells(cells: Indices, values: Floats, counts: Indices, high: Floats, low: Floats) -> None:
    """Write the counts of cells, and the limbs of the sums of their ``values``; see :func:`add_rows`."""
    n, d = values.shape
    top = 0.0
    for i in range(n):
        largest = 0.0  # of each row by itself: they need not wait for one another
        for j in range(d):
            largest = max(largest, abs(values[i, j]))
        top = max(top, largest)
    coarse, fine = grids(top, n)
    to_coarse, to_fine = 1.0 / coarse, 1.0 / fine  # steps are powers of two: a product is exact where a quotient is
    counts[:], high[:], low[:] = 0, 0.0, 0.0
    for i in range(n):
        cell = cells[i]
        counts[cell] += 1
        for j in range(d):
            head = np.rint(values[i, j] * to_coarse) * coarse
            high[cell, j] += head
            low[cell, j] += np.rint((values[i, j] - head) * to_fine) * fine


@njit(cache=True, nogil=True)
def add_rows(
    columns: Indices, values: Floats, top: float, total: int, counts: Indices, high: Floats, low: Floats
) -> None:
    """Add some of ``total`` rows, none larger than ``top``, to the limbs of the sums of their cells, in place.

    Row ``i`` lies in each of the cells ``columns[i]``. Each value is split into two limbs on grids so coarse that no
    partial sum of a limb is ever rounded: float addition is then associative, and rows and shards agree in any order.
    The sum is ``high + low``.
    """
    coarse, fine = grids(top, total)
    n, events = columns.shape
    d = values.shape[1]
    heads, tails = np.empty(d), np.empty(d)
    for i in range(n):
        for j in range(d):
            heads[j] = np.rint(values[i, j] / coarse) * coarse
            tails[j] = np.rint((values[i, j] - heads[j]) / fine) * fine
        for e in range(events):
            cell = columns[i, e]
            counts[cell] += 1
            limb = high[cell]  # limb after limb, each an array of its own, several numbers are added at a time
            for j in range(d):
                limb[j] += heads[j]
            limb = low[cell]
            for j in range(d):
                limb[j] += tails[j]


@inner
def grids(top: float, total: int) -> tuple[float, float]:
    """Return the steps of the grids of the two limbs, for ``total`` rows, none larger than ``top``."""
    bits = 52.0 - np.ceil(np.log2(total + 1.0))
    # below the smallest normal number there is nothing left to split
    coarse = 2.0 ** max(np.ceil(np.log2(top)) - bits, -960.0) if top > 0.0 else 1.0
    return coarse, coarse * 2.0**-bits


@njit(cache=True, nogil=True)
def same_grids(top: float, other: float, total: int) -> bool:
    """Return whether ``total`` rows are summed on the same grids, none larger than ``top`` or than ``other``."""
    return bool(grids(top, total) == grids(other, total))


@njit(cache=True, nogil=True)
def gather_sums(columns: Indices, values: Floats) -> Floats:
    """Return ``Σ_e values[columns[i, e]]`` for every row, summed in the order of the columns."""
    n, events = columns.shape
    d = values.shape[1]
    sums = np.zeros((n, d))
    for i in range(n):
        row = sums[i]
        for e in range(events):
            found = values[columns[i, e]]  # as arrays of their own, rows are added several numbers at a time
            for j in range(d):
                row[j] += found[j]
    return sums


@njit(cache=True, nogil=True)
def row_dots(left: Floats, right: Floats) -> Floats:
    """Return ``left[i]·right[i]`` for every row, summed in the order of the coordinates."""
    dots = np.empty(len(left))
    _dot_rows(left, right, dots)
    return dots


def dots_of_own(left: Floats, right: Floats) -> Floats:
    """Return the same of each member's rows, (members, n, d), of shape (members, n)."""
    members, n, d = left.shape
    dots: Floats = row_dots(left.reshape(members * n, d), right.reshape(members * n, d))
    return dots.reshape(members, n)


def dots_of_each(left: Sequence[Floats] | Floats, right: Sequence[Floats]) -> Floats:
    """Return the same of each of ``left`` with each of ``right``, of shape (left, right, rows)."""
    dots = np.empty((len(left), len(right), len(left[0])))
    for here, one in zip(dots, left, strict=True):
        for out, other in zip(here, right, strict=True):
            _dot_rows(one, other, out)
    return dots


@njit(cache=True, nogil=True)
def _dot_rows(left: Floats, right: Floats, dots: Floats) -> None:
    n, d = left.shape
    # four rows at a time: a sum waits for its last addition, but not for those of other rows
    for i in range(0, n - n % 4, 4):
        first = second = third = fourth = 0.0
        for j in range(d):
            first += left[i, j] * right[i, j]
            second += left[i + 1, j] * right[i + 1, j]
            third += left[i + 2, j] * right[i + 2, j]
            fourth += left[i + 3, j] * right[i + 3, j]
        dots[i], dots[i + 1], dots[i + 2], dots[i + 3] = first, second, third, fourth
    for i in range(n - n % 4, n):
        total = 0.0
        for j in range(d):
            total += left[i, j] * right[i, j]
        dots[i] = total


@njit(cache=True, nogil=True)
def take_rows(values: Floats, rows: Indices) -> Floats:
    """Return ``values[:, rows]`` of shape (members, rows, d), each member's rows after the other's."""
    members, d = values.shape[0], values.shape[2]
    taken = np.empty((members, len(rows), d))
    for m in range(members):
        for i in range(len(rows)):
            for j in range(d):
                taken[m, i, j] = values[m, rows[i], j]
    return taken


def exact_mean(values: Floats) -> Floats:
    """Return the mean row, the same whatever the order of the rows."""
    _, sums = cell_sums(np.zeros(len(values), dtype=np.int64), values, 1)
    return np.asarray(sums[0] / len(values))
