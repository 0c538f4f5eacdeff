"""Covariances as users give them: a matrix, or a factor model of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats
from optensemble.exceptions import InputError

_ASYMMETRY = 1e-9
"""Rounding of a covariance, relative to its largest entry: in its symmetry, and in its eigenvalues below 0."""


def read_risk(
    covariance: npt.ArrayLike | None, factors: npt.ArrayLike | None, specific: npt.ArrayLike | None
) -> tuple[tuple[Floats, Floats] | None, Floats]:
    """Return the factor form, if that is given, and the covariance."""
    if (covariance is None) == (factors is None) or (factors is None) != (specific is None):
        raise InputError(
            "the risk must be given once: either the covariance, or factors= and specific= together (specific=0.0 if "
            "there is no specific risk)."
        )
    if covariance is not None:
        return None, as_covariance(covariance)
    F = as_floats(factors, "the factors", ndim=2)
    D = as_floats(specific, "the specific variances")
    if not len(F) or D.shape not in ((), (len(F),)) or (D < 0).any():
        raise InputError(
            f"factors must have a row for each coordinate, and specific must be a number or one for each, none of them "
            f"negative; got arrays of shape {F.shape} and {D.shape}, the least specific variance being "
            f"{D.min(initial=np.inf):.3g}."
        )
    return (F, D), as_covariance(F @ F.T + np.diag(np.broadcast_to(D, len(F))))


def as_covariance(value: npt.ArrayLike, name: str = "the covariance") -> Floats:
    """Return a symmetric and positive semidefinite matrix, or raise ``InputError``."""
    matrix = as_floats(value, name)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError(
            f"{name} must be a square matrix; got an array of shape {matrix.shape}. Where it differs "
            "between rows, give a set for each: feasible.ByKey."
        )
    size = float(np.abs(matrix).max())
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > _ASYMMETRY * size:
        raise InputError(
            f"{name} must be symmetric; entries across the diagonal differ by up to {skew:.3g}. If "
            "that is rounding, give (C + C.T) / 2."
        )
    symmetric: Floats = (matrix + matrix.T) / 2 + 0.0  # negative zero is zero, to a solver of eigenvalues too
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if smallest < -_ASYMMETRY * size:
        raise InputError(
            f"{name} must be positive semidefinite; its smallest eigenvalue is {smallest:.3g}. Clip "
            "negative eigenvalues to zero, or shrink the matrix toward its diagonal."
        )
    return symmetric
