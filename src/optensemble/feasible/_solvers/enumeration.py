"""All vertices of a small polytope."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np

from optensemble._core.arrays import Floats

MOST_CANDIDATES = 50_000
"""Choices of free coordinates and bounds to try: vertices are listed once, and that must not take for ever."""

MOST_VERTICES = 256
"""Beyond this, a row by the simplex method costs less than looking at every vertex."""

_MISSED_ROW = 1e-9
"""A candidate that misses a row of a size near 1 by no more is a vertex."""

_SNAP = 1e-12
"""A coordinate this close to a bound, relative to its size, is on it."""

_VERTEX_DIGITS = 9
"""Vertices that agree in this many digits of the ranges are one, found by several choices."""

_SINGULAR = 1e-10
"""A singular value below this share of the largest is 0: such a system has no one solution."""

_LEAST_SIZE = 1e-300
"""In place of 0, so that a matrix of zeros is singular too."""


def enumerate_vertices(
    A_ub: Floats, b_ub: Floats, A_eq: Floats, b_eq: Floats, lower: Floats, upper: Floats
) -> Floats | None:
    """Return the vertices in ascending lexicographic order, or None where they are too many.

    At a vertex some coordinates stand at a bound, and the others solve the equalities together with as many
    inequalities as it takes: all such choices are tried. Rows of the constraints are expected to be scaled to
    a size near 1.
    """
    d = len(lower)
    independent = _independent_rows(A_eq)
    rank = len(independent)
    if _count_candidates(d, len(b_ub), rank) > MOST_CANDIDATES:
        return None
    found = [np.empty((0, d))]
    for active in range(min(len(b_ub), d - rank) + 1):
        for rows in combinations(range(len(b_ub)), active):
            matrix = np.concatenate([A_eq[independent], A_ub[list(rows)]])
            right = np.concatenate([b_eq[independent], b_ub[list(rows)]])
            points = snap(_basic_points(matrix, right, lower, upper), lower, upper)
            excess = np.concatenate([points @ A_ub.T - b_ub, np.abs(points @ A_eq.T - b_eq)], axis=1)
            inside = (excess <= _MISSED_ROW * (1 + np.abs(np.concatenate([b_ub, b_eq])))).all(axis=1)
            found.append(points[inside & ((points >= lower) & (points <= upper)).all(axis=1)])
    vertices = _distinct(np.concatenate(found), lower, upper)
    return vertices if 0 < len(vertices) <= MOST_VERTICES else None


def is_small(inequalities: int, A_eq: Floats) -> bool:
    """Return whether the vertices are few enough to look for them, whatever the right-hand sides and bounds are."""
    return _count_candidates(A_eq.shape[1], inequalities, len(_independent_rows(A_eq))) <= MOST_CANDIDATES


def snap(points: Floats, lower: Floats, upper: Floats) -> Floats:
    """Put coordinates that miss a bound by rounding onto it."""
    reach = _SNAP * np.maximum(1.0, np.maximum(np.abs(lower), np.abs(upper)))
    snapped = np.where(np.abs(points - lower) <= reach, lower, points)
    return np.where(np.abs(points - upper) <= reach, upper, snapped)


def _count_candidates(dimension: int, inequalities: int, rank: int) -> int:
    """Count the candidates: choices of inequalities, of free coordinates, and of bounds for the others."""
    return sum(
        comb(inequalities, active) * comb(dimension, rank + active) * 2 ** (dimension - rank - active)
        for active in range(min(inequalities, dimension - rank) + 1)
    )


def _independent_rows(matrix: Floats) -> list[int]:
    """Return rows that span all rows, so that redundant equalities do not make every system singular."""
    if not len(matrix):
        return []
    from scipy.linalg import qr  # takes a tenth of a second to load, and most sets have no equalities

    _, triangle, order = qr(matrix.T, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return sorted(int(row) for row in order[: int((size > _SINGULAR * max(size[0], _LEAST_SIZE)).sum())])


def _basic_points(matrix: Floats, right: Floats, lower: Floats, upper: Floats) -> Floats:
    """Solve the rows for every choice of free coordinates, with the others at each combination of bounds."""
    count, d = matrix.shape
    corners = np.array(list(product((False, True), repeat=d - count)), dtype=np.bool_)
    found = []
    for free in combinations(range(d), count):
        fixed = np.setdiff1d(np.arange(d), free)
        points = np.empty((len(corners), d))
        points[:, fixed] = np.where(corners, upper[fixed], lower[fixed])
        if count:
            block, beside = matrix[:, list(free)], right[:, None] - matrix[:, fixed] @ points[:, fixed].T
            by_row = by_column = np.ones(count)
            if _is_singular(block):
                by_row, by_column = _sizes(block)
                block = block / by_column / by_row[:, None]
                if _is_singular(block):
                    continue
            points[:, list(free)] = np.linalg.solve(block, beside / by_row[:, None]).T / by_column
        found.append(points)
    return np.concatenate(found) if found else np.empty((0, d))


def _is_singular(block: Floats) -> bool:
    values = np.linalg.svd(block, compute_uv=False)
    return bool(values[-1] <= _SINGULAR * max(values[0], _LEAST_SIZE))


def _sizes(block: Floats) -> tuple[Floats, Floats]:
    """Return divisors that bring rows and columns to a size near 1: a badly scaled system need not be singular."""
    by_column = np.abs(block).max(axis=0)
    by_column[by_column == 0.0] = 1.0
    by_row = np.abs(block / by_column).max(axis=1)
    by_row[by_row == 0.0] = 1.0
    return by_row, by_column


def _distinct(points: Floats, lower: Floats, upper: Floats) -> Floats:
    """Sort, and keep one of each group that agrees to nine digits of its coordinates' ranges."""
    width = np.where(upper > lower, upper - lower, 1.0)
    keys = np.round((points - lower) / width, _VERTEX_DIGITS) + 0.0
    _, first = np.unique(keys, axis=0, return_index=True)
    return points[first] + 0.0
