"""A polytope without equalities: bounded variables, and rows of bounded variables that depend on them.

It is laid out by compiled code, which the simplex method calls for every row of a batch where right-hand sides or
bounds come from the row, and which a fixed set calls once: so both have the same form, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner

_REDUNDANT = 1e-10
"""Equalities whose entries are all below this share of the largest repeat those solved before."""

_EQUALITY = 1e-12
"""A row whose range is no wider is an equality."""

_CONTRADICTION = 1e-11
"""Sides of a range that cross by more, or a redundant equality that others miss by more, may leave no action."""

_CANCELLED = 1e-13
"""Entries no larger, beside ranges of 1, are what elimination leaves of zeros."""

_PARALLEL_DIGITS = 12
"""Rows that agree in this many digits, once scaled, are multiples of each other."""

_DIGITS = 1e-6
"""The least size of a row beside its shift: rounding, 1e-16 of the shift, then stays below 1e-10 of the row."""

_IDLE, _USED, _TIGHT = 0, 1, 2
"""Kinds of inequalities: implied by the bounds, needed, and equalities in disguise."""


@dataclass(frozen=True)
class StandardForm:
    """``y = matrix x`` with ``lower <= (x, y) <= upper``; every coordinate that can move is one of these variables.

    Variables are scaled to ranges between 1 and 2 by powers of two, and rows to a size near 1.
    """

    matrix: Floats
    lower: Floats
    upper: Floats
    variables: Indices
    """For each coordinate its variable, or -1 where it is fixed."""
    bases: Floats
    units: Floats
    """A coordinate is ``bases + units * variable``."""
    sound: bool
    """Whether nothing that was left out contradicts the rest."""


class Rows(NamedTuple):
    """Inequalities, then equalities, and which inequalities are multiples of one row."""

    matrix: Floats
    inequalities: int
    leads: Indices
    """For each inequality the first one that is a multiple of it."""
    ratios: Floats
    """What each must be multiplied by to be that one; 0 for a row of zeros."""


def dense_rows(A_ub: Floats, A_eq: Floats) -> Rows:
    """Return constraints with what the standard form needs to know of them whatever their right-hand sides are."""
    return Rows(np.ascontiguousarray(np.concatenate([A_ub, A_eq])), len(A_ub), *find_parallel(A_ub))


def find_parallel(matrix: Floats) -> tuple[Indices, Floats]:
    """Return for each row the first one that is a multiple of it, and the multiple; 0 for rows of zeros."""
    leads, ratios = np.arange(len(matrix)), np.zeros(len(matrix))
    if not matrix.size:
        return leads, ratios
    lead = np.take_along_axis(matrix, np.abs(matrix).argmax(axis=1)[:, None], axis=1)[:, 0]
    used = np.flatnonzero(lead)
    keys = np.round(matrix[used] / lead[used, None], _PARALLEL_DIGITS) + 0.0
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    leads[used] = used[first][group.ravel()]
    ratios[used] = lead[leads[used]] / lead[used]
    return leads, ratios


def standard_form(rows: Rows, right: Floats, lower: Floats, upper: Floats) -> StandardForm:
    """Measure coordinates from their lower bounds, and let the equalities express some of them by the others."""
    sound, matrix, bounds, variables, coordinates = _lay_out_once(*rows, right, lower, upper)
    return StandardForm(matrix, bounds[0], bounds[1], variables, coordinates[0], coordinates[1], sound)


@njit(cache=True, nogil=True, error_model="numpy")
def _lay_out_once(matrix, p, leads, ratios, right, lower, upper):  # type: ignore[no-untyped-def]
    """Lay out the form of one set in arrays of its own."""
    total, d = matrix.shape
    measured, sizes, limits, marks = (
        np.empty((total, d)),
        np.empty((4, total)),
        np.empty((3, total)),
        np.empty(total, np.int64),
    )
    coordinates, width = np.empty((4, d)), np.empty(d)
    variables, columns, work = np.empty(d, np.int64), np.empty((2, d), np.int64), np.empty(total * (d + 1))
    measure(matrix, lower, upper, measured, sizes, coordinates, width)
    e, n, f, sound = fill(measured, p, leads, ratios, right, sizes, limits, marks, coordinates, columns[0], work)
    block = work[: (e + n) * (f + 1)].reshape(e + n, f + 1)
    s, consistent = eliminate(block, e, columns[1])
    m, k = s + n, f - s
    form, bounds = np.empty((m, k)), np.empty((2, k + m))
    assemble(block, e, s, marks, columns, width, limits, coordinates, variables, form, bounds)
    return sound and consistent, form, bounds, variables, coordinates


@inner
def measure(matrix, lower, upper, measured, sizes, coordinates, width):  # type: ignore[no-untyped-def]
    """Measure coordinates from lower bounds in units of their ranges, and rows in units that bring them near 1.

    ``sizes`` becomes for each row its factor, its value at the lower bounds, and the least and the most it can add.
    """
    units = coordinates[1]
    for j in range(len(lower)):
        coordinates[2, j], coordinates[3, j] = lower[j], upper[j]
        units[j] = power_of_two(upper[j] - lower[j])
        width[j] = (upper[j] - lower[j]) / units[j] if units[j] > 0.0 else 0.0
    for i in range(len(matrix)):
        size = shift = rounded = below = above = 0.0
        for j in range(len(lower)):
            part = matrix[i, j] * lower[j]
            size, rounded = max(size, abs(matrix[i, j]) * units[j]), max(rounded, abs(part))
            shift += part
        size = max(size, (_DIGITS if size > 0.0 else 1.0) * rounded)
        factor = math.ldexp(1.0, -int(np.rint(math.log2(size)))) if size > 0.0 else 1.0
        for j in range(len(lower)):
            measured[i, j] = matrix[i, j] * units[j] * factor
            reach = measured[i, j] * width[j]
            below, above = below + min(reach, 0.0), above + max(reach, 0.0)
        sizes[0, i], sizes[1, i], sizes[2, i], sizes[3, i] = factor, shift, below, above


@inner
def power_of_two(size):  # type: ignore[no-untyped-def]
    """Return the power of two at or just below a size; 0 for 0."""
    return math.ldexp(1.0, math.frexp(size)[1] - 1) if size > 0.0 else 0.0


@inner
def fill(measured, p, leads, ratios, right, sizes, limits, marks, coordinates, free, work):  # type: ignore[no-untyped-def]
    """Write equalities, then inequalities that the bounds do not imply, one after the other, right-hand sides last.

    Return their numbers, the number of coordinates that can move, and whether all ranges are ranges. ``marks`` become
    the numbers of the inequalities, ``limits`` the right-hand sides of all rows and the least and the most they may be.
    """
    units, f = coordinates[1], 0
    for j in range(len(units)):
        coordinates[0, j], free[f] = coordinates[2, j], j
        f += units[j] > 0.0
    sound = limit(p, leads, ratios, right, sizes, limits)
    at = np.int64(0)
    for i in range(p):
        marks[i] = kind_of(limits[1:, i], sizes[2, i], sizes[3, i]) if leads[i] == i else _IDLE
    for i in range(p, len(measured)):
        at = write_row(measured[i], limits[0, i], free, f, work, at)
    for i in range(p):
        if marks[i] == _TIGHT:
            at = write_row(measured[i], limits[1, i], free, f, work, at)
    e, n = at // (f + 1), 0
    for i in range(p):
        if marks[i] == _USED:
            at = write_row(measured[i], 0.0, free, f, work, at)
            marks[n] = i
            n += 1
    return e, n, f, sound


@inner
def limit(p, leads, ratios, right, sizes, limits):  # type: ignore[no-untyped-def]
    """Find the range of every inequality, with those that are multiples of it; return whether no sides cross."""
    sound = True
    for i in range(len(right)):
        limits[0, i], limits[1, i], limits[2, i] = (right[i] - sizes[1, i]) * sizes[0, i], -np.inf, np.inf
    for i in range(p):
        lead = leads[i]
        side = (right[i] - sizes[1, i]) * sizes[0, lead] * (ratios[i] if ratios[i] != 0.0 else 1.0)
        if ratios[i] < 0.0:
            limits[1, lead] = max(limits[1, lead], side)
        else:
            limits[2, lead] = min(limits[2, lead], side)
    for i in range(p):
        sound = sound and not limits[1, i] - limits[2, i] > _CONTRADICTION
    return sound


@inner
def kind_of(limits, below, above):  # type: ignore[no-untyped-def]
    """Return the kind of an inequality, and make the sides of its range infinite that the bounds imply."""
    if limits[0] <= below:
        limits[0] = -np.inf
    if limits[1] >= above:
        limits[1] = np.inf
    if limits[1] - limits[0] <= _EQUALITY:
        return _TIGHT
    return _USED if limits[0] > -np.inf or limits[1] < np.inf else _IDLE


@inner
def write_row(row, right, free, f, work, at):  # type: ignore[no-untyped-def]
    """Write the entries of a row that can move, and its right-hand side; return where the next one begins."""
    for j in range(f):
        work[at + j] = row[free[j]]
    work[at + f] = right
    return at + f + 1


@inner
def eliminate(work, e, solved):  # type: ignore[no-untyped-def]
    """Solve equalities for a coordinate each, and take these out of all other rows; return how many, and if all hold.

    Pivots are the largest left; equality number i is then the one for coordinate ``solved[i]``, and redundant
    equalities come after those solved. Where all pivots are 1 or -1, as in networks, the arithmetic is exact.
    """
    total, f = work.shape[0], work.shape[1] - 1
    s = np.int64(0)  # a literal would have the functions it is given to compiled twice
    size = largest_entry(work, s, e, f)[0]
    while s < e:
        most, row, column = largest_entry(work, s, e, f)
        if most <= _REDUNDANT * size:
            break
        swap_down(work, s, row)
        pivot = work[s, column]
        for j in range(f + 1):
            work[s, j] /= pivot
        for i in range(total):
            factor = work[i, column]
            if i != s and factor != 0.0:
                for j in range(f + 1):
                    work[i, j] -= factor * work[s, j]
                work[i, column] = 0.0
        solved[s] = column
        s += 1
    consistent = True
    for i in range(s, e):
        consistent = consistent and abs(work[i, f]) <= _CONTRADICTION
    return s, consistent


@inner
def largest_entry(work, start, stop, f):  # type: ignore[no-untyped-def]
    """Return the largest entry of some rows, and the first place that has it."""
    most, row, column = 0.0, start, 0
    for i in range(start, stop):
        for j in range(f):
            if abs(work[i, j]) > most:
                most, row, column = abs(work[i, j]), i, j
    return most, row, column


@inner
def swap_down(work, s, row):  # type: ignore[no-untyped-def]
    """Bring a row to place s, and move those between down by one: the others keep their order."""
    for i in range(row, s, -1):
        for j in range(work.shape[1]):
            work[i, j], work[i - 1, j] = work[i - 1, j], work[i, j]


@inner
def assemble(block, e, s, marks, columns, width, limits, coordinates, variables, form, bounds):  # type: ignore[no-untyped-def]
    """Write the form: rows of the coordinates solved for, then those of inequalities."""
    free, solved = columns[0], columns[1]
    (m, k), f = form.shape, block.shape[1] - 1
    variables[:] = -1
    for i in range(s):
        variables[free[solved[i]]] = k + i
    kept = 0
    for j in range(f):
        if variables[free[j]] < 0:
            variables[free[j]] = kept
            bounds[0, kept], bounds[1, kept] = 0.0, width[free[j]]
            for i in range(m):
                value = -block[i, j] if i < s else block[e + i - s, j]
                form[i, kept] = value if abs(value) > _CANCELLED else 0.0
            kept += 1
    for i in range(s):
        j, shift = free[solved[i]], block[i, f]
        bound_row(form[i], bounds, k + i, -shift, width[j] - shift)
        coordinates[0, j] += coordinates[1, j] * shift
    for i in range(s, m):
        shift, row = -block[e + i - s, f], marks[i - s]
        bound_row(form[i], bounds, k + i, limits[1, row] - shift, limits[2, row] - shift)
        scale_row(form[i], bounds[:, k + i])


@inner
def make_ready(measured, units, width, ready, reaches):  # type: ignore[no-untyped-def]
    """Write the rows of inequalities as :func:`assemble` would if there is no equality: they are then those of any row.

    ``reaches`` become the least and the most that each can be, and the factor that it is scaled by.
    """
    for i in range(len(measured)):
        below = above = size = 0.0
        kept = 0
        for j in range(len(units)):
            value = measured[i, j] if abs(measured[i, j]) > _CANCELLED else 0.0
            if units[j] > 0.0:
                reach = value * width[j]
                below, above, size = below + min(reach, 0.0), above + max(reach, 0.0), max(size, abs(value))
                ready[i, kept] = value
                kept += 1
        factor = 1.0 / power_of_two(size) if size > 0.0 else 1.0
        for j in range(kept):
            ready[i, j] *= factor
        reaches[0, i], reaches[1, i], reaches[2, i] = below, above, factor


@inner
def put_together(ready, reaches, marks, free, width, limits, variables, form, bounds):  # type: ignore[no-untyped-def]
    """Write the form of a set without equalities from rows that are ready: the same as :func:`assemble` would."""
    m, f = form.shape
    variables[:] = -1
    for j in range(f):
        variables[free[j]] = j
        bounds[0, j], bounds[1, j] = 0.0, width[free[j]]
    for i in range(m):
        row, v = marks[i], f + i
        for j in range(f):
            form[i, j] = ready[row, j]
        factor = reaches[2, row]
        bounds[0, v] = max(limits[1, row] + 0.0, reaches[0, row] - 1.0) * factor
        bounds[1, v] = min(limits[2, row] + 0.0, reaches[1, row] + 1.0) * factor


@inner
def bound_row(row, bounds, v, least, most):  # type: ignore[no-untyped-def]
    """Write the bounds of a row; those that its variables cannot reach, 1 beyond what they can."""
    below = above = 0.0
    for j in range(len(row)):
        reach = row[j] * bounds[1, j]
        below, above = below + min(reach, 0.0), above + max(reach, 0.0)
    bounds[0, v], bounds[1, v] = max(least, below - 1.0), min(most, above + 1.0)


@inner
def scale_row(row, limits):  # type: ignore[no-untyped-def]
    """Scale a row of an inequality, which may take any unit, to a size near 1; rows of coordinates keep theirs."""
    size = 0.0
    for j in range(len(row)):
        size = max(size, abs(row[j]))
    factor = 1.0 / power_of_two(size) if size > 0.0 else 1.0
    for j in range(len(row)):
        row[j] *= factor
    limits[0] *= factor
    limits[1] *= factor
