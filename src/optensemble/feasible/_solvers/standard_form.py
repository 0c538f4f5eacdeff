"""A polytope without equalities: bounded variables, and rows of bounded variables that depend on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.feasible._solvers.constraints import power_of_two

_REDUNDANT = 1e-10
"""Equalities whose entries are all below this share of the largest repeat those solved before."""

_EQUALITY = 1e-12
"""A row whose range is no wider is an equality."""

_CANCELLED = 1e-13
"""Entries no larger, beside ranges of 1, are what elimination leaves of zeros."""

_PARALLEL_DIGITS = 12
"""Rows that agree in this many digits, once scaled, are multiples of each other."""


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


def standard_form(A_ub: Floats, b_ub: Floats, A_eq: Floats, b_eq: Floats, lower: Floats, upper: Floats) -> StandardForm:
    """Measure coordinates from their lower bounds, and let the equalities express some of them by the others."""
    d = len(lower)
    units = power_of_two(upper - lower)
    free = np.flatnonzero(upper > lower)
    rows, least, most = merge_parallel(A_ub[:, free] * units[free], b_ub - A_ub @ lower)
    width = (upper - lower)[free] / units[free]
    least, most = _without_idle(rows, least, most, width)
    tight = most - least <= _EQUALITY
    used = ~tight & (np.isfinite(least) | np.isfinite(most))
    equalities = np.column_stack([A_eq[:, free] * units[free], b_eq - A_eq @ lower])
    equalities = np.concatenate([equalities, np.column_stack([rows[tight], least[tight]])])
    solved, dependent, used_rows = eliminate_equalities(equalities, np.column_stack([rows[used], np.zeros(used.sum())]))
    kept = np.setdiff1d(np.arange(len(free)), solved)

    matrix = np.concatenate([-dependent[:, kept], used_rows[:, kept]])
    shift = np.concatenate([dependent[:, -1], -used_rows[:, -1]])
    matrix[np.abs(matrix) <= _CANCELLED] = 0.0
    reach = np.minimum(matrix, 0.0) @ width[kept] - 1.0, np.maximum(matrix, 0.0) @ width[kept] + 1.0
    row_lower = np.maximum(np.concatenate([np.zeros(len(solved)), least[used]]) - shift, reach[0])
    row_upper = np.minimum(np.concatenate([width[solved], most[used]]) - shift, reach[1])
    # Rows of inequalities may take any unit; those of coordinates keep theirs.
    factor = np.ones(len(matrix))
    factor[len(solved) :] = 1.0 / power_of_two(np.abs(matrix[len(solved) :]).max(axis=1, initial=0.0))
    variables = np.full(d, -1)
    variables[free[kept]] = np.arange(len(kept))
    variables[free[solved]] = len(kept) + np.arange(len(solved))
    bases = lower.copy()
    bases[free[solved]] += units[free[solved]] * shift[: len(solved)]
    return StandardForm(
        matrix * factor[:, None],
        np.concatenate([np.zeros(len(kept)), row_lower * factor]),
        np.concatenate([width[kept], row_upper * factor]),
        variables,
        bases,
        units,
    )


def merge_parallel(matrix: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Return one range ``least <= row a <= most`` for all inequalities that are multiples of one row."""
    if not matrix.size:
        return matrix[:0], right[:0], right[:0]
    lead = np.take_along_axis(matrix, np.abs(matrix).argmax(axis=1)[:, None], axis=1)[:, 0]
    used = lead != 0
    matrix, right, lead = matrix[used], right[used], lead[used]
    keys = np.round(matrix / lead[:, None], _PARALLEL_DIGITS) + 0.0
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    ratio = lead[first][group.ravel()] / lead
    least, most = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    np.minimum.at(most, group.ravel()[ratio > 0], (right * ratio)[ratio > 0])
    np.maximum.at(least, group.ravel()[ratio < 0], (right * ratio)[ratio < 0])
    order = np.argsort(first)
    return matrix[first[order]], least[order], most[order]


def _without_idle(rows: Floats, least: Floats, most: Floats, width: Floats) -> tuple[Floats, Floats]:
    """Make the sides of ranges infinite that the bounds of the coordinates imply."""
    reach = np.minimum(rows, 0.0) @ width, np.maximum(rows, 0.0) @ width
    return np.where(least <= reach[0], -np.inf, least), np.where(most >= reach[1], np.inf, most)


def eliminate_equalities(equalities: Floats, rows: Floats) -> tuple[Indices, Floats, Floats]:
    """Solve equalities (right-hand sides last) for a coordinate each, and take these out of all other rows.

    Return the coordinates, an equality for each, and the rows. Pivots are the largest left, and redundant equalities
    drop out. Where all pivots are 1 or -1, as in networks, the arithmetic is exact.
    """
    work = np.concatenate([equalities, rows])
    size = np.abs(equalities[:, :-1]).max(initial=0.0)
    left, pivots, solved = list(range(len(equalities))), [], []
    while left:
        block = np.abs(work[left, :-1])
        at, column = divmod(int(block.argmax()), block.shape[1]) if block.size else (0, 0)
        if not block.size or block[at, column] <= _REDUNDANT * size:
            break
        row = left.pop(at)
        work[row] /= work[row, column]
        others = np.setdiff1d(np.flatnonzero(work[:, column]), row)
        work[others] -= np.outer(work[others, column], work[row])
        work[others, column] = 0.0
        pivots.append(row)
        solved.append(column)
    return np.array(solved, dtype=np.int64), work[pivots], work[len(equalities) :]
