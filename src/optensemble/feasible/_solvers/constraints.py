"""Linear constraints as users give them: validation, and scaling of rows and columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats, require_finite
from optensemble.exceptions import InputError
from optensemble.feasible._bounds import FIXED, as_dimension, bound_length
from optensemble.feasible._row_parameters import from_rows

Sparse = Any
"""A SciPy sparse array by rows."""

_MODERATE = 2.0**10
"""Ranges within this factor of 1 are left alone: beside them, tolerances mean what they say."""

_NARROW = 2.0**-3
"""They are scaled nevertheless if all are below this: actions could be outside by too much of the extent."""

_OFFSET = 8.0
"""Bounds up to this many ranges from 0 are left alone: beyond, rounding is that of the bounds, not of the range."""

_DIGITS = 1e-6
"""The least size of a row beside its shift: rounding, 1e-16 of the shift, then stays below 1e-10 of the row."""

_FIXED_MATRIX = "Matrices are the same in all rows; right-hand sides and bounds may come from the row."
_COLUMNS = "If it differs between rows, give oe.Columns."


def as_matrix(value: Any, name: str) -> Sparse | None:
    """Return a matrix by rows, sparse, or None if there is none."""
    if value is None:
        return None
    if sparse.issparse(value):
        sparse_value: Any = value
        matrix: Sparse = sparse.csr_array(sparse_value).astype(np.float64)
        require_finite(matrix.data, f"the stored entries of {name}")
        return matrix
    dense = as_floats(value, name)
    if dense.ndim not in (1, 2):
        raise InputError(
            f"{name} must have shape (constraints, dimension); got an array of shape {dense.shape}. {_FIXED_MATRIX}"
        )
    return sparse.csr_array(np.atleast_2d(dense))


def find_dimension(
    A_ub: Sparse | None,
    A_eq: Sparse | None,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    dimension: int | None,
) -> int:
    """Return the number of coordinates, on which constraints, bounds and ``dimension`` must agree."""
    told = {f"A_{name}": matrix.shape[1] for name, matrix in (("ub", A_ub), ("eq", A_eq)) if matrix is not None}
    if dimension is not None:
        told["dimension"] = as_dimension(dimension)
    length = bound_length(lower, upper)
    if not told and length is not None:
        told["the bounds"] = length
    if not told:
        raise InputError(
            "the number of coordinates is unknown: there are no constraints, and the bounds are numbers. "
            "Give dimension=, or constraints."
        )
    if len(set(told.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in told.items())
        raise InputError(
            f"the constraints disagree on the number of coordinates: {counts}. Give each one column per coordinate."
        )
    return as_dimension(next(iter(told.values())))


def as_rows(matrix: Sparse | None, right: Any, name: str, dimension: int) -> tuple[Sparse, Floats]:
    """Return a matrix with its right-hand sides, both empty if none are given; NaN if they come from the row."""
    if (matrix is None) != (right is None):
        missing, present = (f"A_{name}", f"b_{name}") if matrix is None else (f"b_{name}", f"A_{name}")
        raise InputError(f"{present} is given without {missing}. Give both, or neither.")
    if matrix is None or right is None:
        return sparse.csr_array((0, dimension), dtype=np.float64), np.empty(0)
    if from_rows(right):
        return matrix, np.full(matrix.shape[0], np.nan)
    vector = np.atleast_1d(as_floats(right, f"b_{name}"))
    if vector.shape != (matrix.shape[0],):
        per_row = f" {_COLUMNS}" if vector.ndim > 1 else ""
        raise InputError(
            f"b_{name} must have one entry for each of the {matrix.shape[0]} rows of A_{name}; got an array "
            f"of shape {vector.shape}.{per_row}"
        )
    return matrix, vector + 0.0  # negative zero is zero


def scaled(matrix: Sparse, right: Floats) -> tuple[Sparse, Floats]:
    """Scale rows to a size near 1 by powers of two, which lose no bits."""
    if not len(right):
        return matrix, right
    return _divided(matrix, right, _largest(abs(matrix), axis=1))


def _divided(matrix: Sparse, right: Floats, size: Floats) -> tuple[Sparse, Floats]:
    """Divide rows by the power of two nearest to their size."""
    factor = np.exp2(-np.round(np.log2(np.where(size > 0, size, 1.0))))
    return sparse.csr_array(matrix.multiply(factor[:, None])), right * factor


class Equilibrated(NamedTuple):
    """Constraints on z, in rows of a size near 1, where an action is ``base + unit * z`` from ``least`` to ``most``."""

    A_ub: Sparse
    b_ub: Floats
    A_eq: Sparse
    b_eq: Floats
    lower: Floats
    upper: Floats
    base: Floats
    unit: Floats
    least: Floats
    most: Floats

    def restore(self, points: Floats) -> Floats:
        """Return actions in the units they were given in; where z stands at a bound, so does the action, exactly."""
        actions = np.where(points <= self.lower, self.least, self.base + self.unit * points)
        return np.where(points >= self.upper, self.most, actions)

    def excess(self, actions: Floats) -> Floats:
        """Return by how much each action misses a row of a size near 1, at most; 0 where it misses none."""
        points = (actions - self.base) / self.unit
        outside = points @ self.A_ub.T - self.b_ub, np.abs(points @ self.A_eq.T - self.b_eq)
        largest: Floats = np.concatenate(outside, axis=1).max(axis=1, initial=0.0)
        return largest


def equilibrate(ub: tuple[Sparse, Floats], eq: tuple[Sparse, Floats], lower: Floats, upper: Floats) -> Equilibrated:
    """Scale rows, and columns too where bounds are far from 0 and 1, by powers of two.

    Columns then are measured from a bound, in units of their range; where that is infinite, in those that bring the
    largest coefficient near 1. Fixed coordinates move to the right-hand side: they must not set the scale of a row.
    """
    moves = lower < upper
    base = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper, 0.0))
    unit = _column_units(ub, eq, lower, upper)
    if _is_moderate(base[moves], unit[moves]):
        base, unit = np.where(moves, 0.0, base), np.ones_like(unit)
    sides = (_measured(*side, base, np.where(moves, unit, 0.0)) for side in (ub, eq))
    (A_ub, b_ub), (A_eq, b_eq) = sides
    return Equilibrated(A_ub, b_ub, A_eq, b_eq, (lower - base) / unit, (upper - base) / unit, base, unit, lower, upper)


def _is_moderate(base: Floats, unit: Floats) -> bool:
    """Return whether coordinates have ranges near 1 and bounds near 0: then tolerances mean what they say."""
    if not len(unit):
        return True
    near_one = unit.min() >= 1.0 / _MODERATE and _NARROW <= unit.max() <= _MODERATE
    return bool(near_one and (np.abs(base) <= _OFFSET * unit).all())


def _measured(matrix: Sparse, right: Floats, base: Floats, unit: Floats) -> tuple[Sparse, Floats]:
    """Measure columns from a base in units, and scale rows to a size near 1, as far as their rounding allows."""
    if not len(right):
        return matrix, right
    shifted, moving = (sparse.csr_array(matrix.multiply(factor)) for factor in (base, unit))
    moving.eliminate_zeros()
    size, rounded = _largest(abs(moving), axis=1), _largest(abs(shifted), axis=1)
    size = np.maximum(size, np.where(size > 0.0, _DIGITS, 1.0) * rounded)
    return _divided(moving, right - matrix @ base, size)


def _column_units(ub: tuple[Sparse, Floats], eq: tuple[Sparse, Floats], lower: Floats, upper: Floats) -> Floats:
    """Return the ranges, as powers of two; 1 for coordinates that are fixed."""
    width, no_row = upper - lower, sparse.csr_array((1, len(lower)))  # a sparse matrix without rows has no maximum
    fixed = np.isfinite(width) & (width <= FIXED * np.maximum(np.abs(lower), np.abs(upper)))
    largest = _largest(abs(sparse.csr_array(sparse.vstack([scaled(*ub)[0], scaled(*eq)[0], no_row]))), axis=0)
    return power_of_two(np.where(fixed, 1.0, np.where(np.isfinite(width), width, 1.0 / power_of_two(largest))))


def _largest(matrix: Sparse, axis: int) -> Floats:
    largest: Floats = matrix.max(axis=axis).toarray().ravel()
    return largest


def power_of_two(size: Floats) -> Floats:
    """Return the power of two at or just below each size; 1 for a size of 0."""
    powers: Floats = np.exp2(np.floor(np.log2(np.where(size > 0, size, 1.0))))
    return powers


def rows_spec(ub: tuple[Sparse, Floats], eq: tuple[Sparse, Floats]) -> dict[str, Any]:
    """Return inequalities and equalities as arguments that make them again."""
    arguments: dict[str, Any] = {}
    for name, (matrix, right) in (("ub", ub), ("eq", eq)):
        arguments[f"A_{name}"] = matrix.toarray() if len(right) else None
        arguments[f"b_{name}"] = right.copy() if len(right) else None
    return arguments
