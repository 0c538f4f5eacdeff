"""A cost of moving away from what is held, in sets of whole numbers that are too many to list."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible._solvers.known_cost.lifted import Parts, bound_to, numbered
from optensemble.feasible.mixed_integer import MixedInteger


class LiftedMixedInteger:
    """Coordinates and their parts, up to what is held and beyond, as a :class:`MixedInteger` with bounds by row."""

    name = "MixedInteger"

    def __init__(self, omega: MixedInteger) -> None:
        d, one = omega.dimension, sparse.eye_array(omega.dimension)
        (A_ub, b_ub), (A_eq, b_eq) = omega._ub, omega._eq
        rest = sparse.csr_array((len(b_ub), 2 * d)), sparse.csr_array((len(b_eq), 2 * d))
        lower, upper = numbered(3 * d, 3 * d)
        self.lifted = MixedInteger(
            A_ub=sparse.hstack([A_ub, rest[0]]) if len(b_ub) else None,
            b_ub=b_ub if len(b_ub) else None,
            A_eq=sparse.vstack([sparse.hstack([A_eq, rest[1]]), sparse.hstack([one, -one, -one])]),
            b_eq=np.concatenate([b_eq, np.zeros(d)]),
            lower=lower,
            upper=upper,
            integer=np.concatenate([omega.integer, np.zeros(2 * d, dtype=np.bool_)]),
            node_limit=omega.node_limit,
        )

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        d, parts = omega.dimension, Parts(omega.lower, omega.upper, charges, len(C))
        lower, upper = np.hstack([parts.lower, parts.least]), np.hstack([parts.upper, parts.most])
        gains = np.pad(parts.gains(C), ((0, 0), (d, 0)))
        try:
            found = bound_to(self.lifted, lower=lower, upper=upper)._solve_batch(gains, None)
        except Unsolved as unsolved:
            raise Unsolved(unsolved.actions[:, :d], unsolved.reasons) from unsolved
        return np.ascontiguousarray(found[:, :d])
