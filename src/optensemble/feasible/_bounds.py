"""Bounds and dimensions as users give them, and the sizes beside which numbers are small."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._row_parameters import RowParameter, from_rows

FEASIBILITY = 1e-7
"""Excess over a constraint, as a share of the set's extent, that still counts as inside: what solvers leave."""

FIXED = 1e-12
"""A range this small beside its bounds may be rounding, as of bounds that the constraints imply."""


def as_dimension(value: Any) -> int:
    """Return a number of coordinates as a positive int, or raise ``InputError``."""
    try:
        dimension = operator.index(value)
    except TypeError as error:
        raise InputError(f"dimension must be a positive integer; got {value!r}.") from error
    if dimension < 1:
        raise InputError(f"dimension must be at least 1; got {dimension}.")
    return dimension


def bound_length(lower: Any, upper: Any) -> int | None:
    """Return the length of the bounds that are arrays; None if both are numbers."""
    lengths = list[int]()
    for name, bound in (("lower", lower), ("upper", upper)):
        if from_rows(bound):
            known = RowParameter.unshaped(name, bound).known_size
            lengths += [known] if known is not None and known > 1 else []
        elif np.ndim(bound) == 1:
            lengths.append(len(np.asarray(bound)))
    return max(lengths, default=None)


def as_bounds(lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int) -> tuple[Floats, Floats]:
    """Return both bounds as arrays of the given length, possibly infinite, with ``lower <= upper``."""
    low, high = as_bound(lower, "lower", dimension), as_bound(upper, "upper", dimension)
    crossed = np.flatnonzero(low > high)
    if crossed.size:
        j = crossed[0]
        raise EmptySetError(
            f"no action is feasible: coordinate {j} has lower bound {low[j]:g} above its upper bound "
            f"{high[j]:g}. Check lower= and upper= (upper is 1 unless given)."
        )
    return low, high


def as_bound(value: npt.ArrayLike, name: str, dimension: int) -> Floats:
    try:
        bound = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numeric; got {value!r}.") from error
    if bound.shape not in ((), (dimension,)):
        raise InputError(
            f"{name} must be a number or have one entry for each of the {dimension} coordinates; "
            f"got an array of shape {bound.shape}. If it differs between rows, give oe.Columns."
        )
    if np.isnan(bound).any():
        raise InputError(f"{name} must not hold NaN. Use -inf or inf where only the constraints bound a coordinate.")
    return np.broadcast_to(bound + 0.0, (dimension,)).copy()  # negative zero is zero
