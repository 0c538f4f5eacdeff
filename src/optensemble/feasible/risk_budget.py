"""One unit to share out under a cap on its variance."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from optensemble._kernel import make_kernel
from optensemble._types import Floats
from optensemble._validation import as_floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible import _cone, _supports
from optensemble.feasible._base import TIE, FeasibleSet
from optensemble.feasible._highs import LinearProgram

_CLOSED_FORM = 8
"""Up to this dimension all supports (255 of them) are tried in closed form."""


@final
class RiskBudget(FeasibleSet):
    """Portfolio weights under a risk cap: ``a >= 0, sum(a) = 1, a'Ca <= limit``.

    Up to 8 coordinates the action is the best of a closed form over all supports. Candidates are tried in a
    fixed order: single coordinates first, then supports by size and in lexicographic order; a later one must
    beat the earlier ones by more than 1e-12 of the row's largest coefficient, so that ties go to the first.

    Beyond, Clarabel finds the support, at a tolerance of 1e-12, and the closed form on that support gives the
    action. Where rounding keeps its optimality from being confirmed, Clarabel's own action is taken if its
    gap and residuals are below 1e-9 ("Solved" or "AlmostSolved"); any other row is a ``SolverError``. If a
    tied largest coefficient may take everything, the lowest index does; a row of equal coefficients otherwise
    gets the portfolio of least variance. Where the limit is the least attainable variance (within 1e-9 of
    itself, or 1e-12 of the largest variance) the portfolios of that variance are left, a polytope for HiGHS.

    Parameters
    ----------
    covariance
        Symmetric and positive semidefinite, of shape (dimension, dimension); it may be singular.
    limit
        The largest variance allowed.

    Examples
    --------
    >>> RiskBudget([[4.0, 0.0], [0.0, 1.0]], limit=2.0).argmax([[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([[0.69, 0.31],
           [0.  , 1.  ]])
    """

    def __init__(self, covariance: npt.ArrayLike, limit: float) -> None:
        self.covariance = _as_covariance(covariance)
        self.limit = float(as_floats(limit, "limit", ndim=0))
        self._set_bounds(0.0, 1.0, len(self.covariance))
        small = self.dimension <= _CLOSED_FORM
        largest = float(np.diag(self.covariance).max())
        self._slack = max(1e-9 * self.limit, 1e-12 * largest)
        least = _supports.least_variance if small else _cone.least_variance
        self._program: _cone.ConeProgram | LinearProgram
        self._centre, self.least_variance = least(self.covariance)
        if self.least_variance > self.limit + self._slack:
            raise EmptySetError(
                f"no portfolio has a variance of at most {self.limit:.6g}; the least attainable variance is "
                f"{self.least_variance:.6g}. Raise limit= to at least that."
            )
        if small:
            table = _supports.list_supports(self.covariance, self.limit, self._slack)
            self.kernel = make_kernel(
                _supports.best_on_supports,
                floats=[
                    table.centres,
                    table.directions,
                    table.slacks,
                    self.covariance,
                    self._centre,
                    [self.limit, self._slack],
                ],
                ints=[table.sizes, table.members],
            )
        elif self.limit - self.least_variance > self._slack:
            self._program = _cone.ConeProgram(self.covariance, self.limit)
        else:
            self._program = _cone.least_variance_face(self.covariance, self._centre)

    def _argmax(self, coefficients: Floats) -> Floats:
        actions = self._by_solver(coefficients)
        _supports.pull_inside(actions, self.covariance, self.limit, self._slack, self._centre)
        return actions

    def _by_solver(self, coefficients: Floats) -> Floats:
        size = np.abs(coefficients).max(axis=1, keepdims=True)
        scaled = coefficients / np.where(size > 0, size, 1.0)
        scaled -= scaled.max(axis=1, keepdims=True)
        actions = np.tile(self._centre, (len(coefficients), 1))
        alone = (scaled >= -TIE) & (np.diag(self.covariance) <= self.limit)
        single = alone.any(axis=1)
        actions[single] = np.eye(self.dimension)[alone[single].argmax(axis=1)]
        spread = -scaled.min(axis=1, keepdims=True)
        rows = np.flatnonzero(~single & (spread[:, 0] > TIE))
        if rows.size:
            found = np.maximum(self._program.argmax(scaled[rows] / spread[rows], rows), 0.0)
            actions[rows] = found / found.sum(axis=1, keepdims=True)
        return actions

    def violation(self, actions: Floats) -> Floats:
        """Return for each row the largest of its negative weight, error in the sum, and risk excess.

        The risk excess is ``a'Ca - limit`` relative to the limit (or to the largest variance, times 1e-3, if
        that is more).
        """
        variance = np.einsum("ij,ij->i", actions @ self.covariance, actions)
        excess = np.maximum(variance - self.limit, 0.0) / (1e9 * self._slack or 1.0)
        total = np.abs(actions.sum(axis=1) - 1.0)
        largest: Floats = np.maximum(np.maximum(excess, total), self._outside_box(actions))
        return largest

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"covariance": self.covariance.copy(), "limit": self.limit}


def _as_covariance(value: npt.ArrayLike) -> Floats:
    matrix = as_floats(value, "the covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError(
            f"the covariance must be a square matrix; got an array of shape {matrix.shape}. One fixed set "
            "for all rows is supported."
        )
    size = float(np.abs(matrix).max())
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > 1e-9 * size:
        raise InputError(
            f"the covariance must be symmetric; entries across the diagonal differ by up to {skew:.3g}. If "
            "that is rounding, give (C + C.T) / 2."
        )
    symmetric: Floats = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if smallest < -1e-9 * size:
        raise InputError(
            f"the covariance must be positive semidefinite; its smallest eigenvalue is {smallest:.3g}. Clip "
            "negative eigenvalues to zero, or shrink the matrix toward its diagonal."
        )
    return symmetric
