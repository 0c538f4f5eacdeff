"""Portfolios nearest to given weights."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.feasible._solvers.nearest import nearest_points
from optensemble.feasible._solvers.risk_budget.cone import portfolio_solver, root_of

_LEAST_UNIT = 1e-9
"""The least distance that lengths are measured in: below it they are rounding."""


_WAY = {
    **{f"tol_{name}": 1e-9 for name in ("gap_abs", "gap_rel", "feas")},
    **{f"reduced_tol_{name}": 1e-7 for name in ("gap_abs", "gap_rel", "feas")},
}
"""Tolerances are shares of a distance that is small itself; tighter ones are often not met, if the limit is tight."""


class NearestPortfolios:
    """Weights from 0 to their caps that sum to 1, within linear constraints and a limit of variance.

    Weights that are beyond the limit after all else has been mended are left to Clarabel: the sum of squares is least
    within a cone.
    """

    def __init__(self, covariance: Floats, ub: tuple[Floats, Floats], eq: tuple[Floats, Floats]) -> None:
        d = len(covariance)
        self.covariance, self.equal = covariance, 1 + len(eq[1])
        self.A = np.concatenate([np.ones((1, d)), eq[0], ub[0]])
        self.b = np.concatenate([np.ones(1), eq[1], ub[1]])

    def __call__(self, actions: Floats, upper: Floats, limit: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Return the nearest portfolios without the limit, those with it, and which rows have the first.

        What Clarabel leaves beyond the limit, or away from the nearest, is for the caller to see.
        """
        found, known = self._within_rows(actions, upper)
        within, beyond = found.copy(), np.flatnonzero(known & (self.variances(found) > limit))
        if beyond.size:
            caps = np.broadcast_to(upper, actions.shape)[beyond]
            near = self._within_limit(actions[beyond], found[beyond], caps, limit[beyond])
            mended, good = self._within_rows(near, caps)
            within[beyond] = np.where(good[:, None], mended, found[beyond])
        return found, within, known

    def variances(self, actions: Floats) -> Floats:
        """Return the variance of each row; without BLAS, whose last bits may differ from batch to batch."""
        return np.array([((self.covariance * a).sum(axis=1) * a).sum() for a in actions])

    def _within_rows(self, actions: Floats, upper: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
        return nearest_points(actions, self.A[None], self.b[None], self.equal, np.zeros((1, len(self.A[0]))), upper)

    def _within_limit(self, actions: Floats, near: Floats, upper: Floats, limit: Floats) -> Floats:
        """Return the nearest portfolios as Clarabel finds them, measured from the actions in units of the distance.

        Its status says little: it often stops for want of progress where it has arrived. Rows that are not finite stay
        ``near`` as they were.
        """
        root = root_of(self.covariance)
        solver, found, largest = self._build(root), near.copy(), float(np.sqrt(np.diag(self.covariance).max()))
        for row, (action, caps) in enumerate(zip(actions, upper, strict=True)):
            deviation, most = float(np.linalg.norm(root @ near[row])), float(np.sqrt(limit[row]))
            unit = max(float(np.abs(near[row] - action).max()), (deviation - most) / (largest or 1.0), _LEAST_UNIT)
            sides = self.b - self.A @ action, caps - action, action, [most], root @ action
            solver.update(b=np.concatenate(sides) / unit)
            x = action + unit * np.array(solver.solve().x)
            found[row] = x if np.isfinite(x).all() else near[row]
        return found

    def _build(self, root: Floats) -> Any:
        d = len(self.covariance)
        matrix = np.concatenate([self.A, np.eye(d), -np.eye(d), np.zeros((1, d)), -root])
        linear = len(self.A) + 2 * d
        cones = [
            clarabel.ZeroConeT(self.equal),
            clarabel.NonnegativeConeT(linear - self.equal),
            clarabel.SecondOrderConeT(1 + len(root)),
        ]
        return portfolio_solver(np.eye(d), np.zeros(d), matrix, np.ones(len(matrix)), cones, _WAY)
