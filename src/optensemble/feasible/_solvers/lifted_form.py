"""Linear constraints on more coordinates than the action, in a form that a polytope can take."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.feasible._solvers.affine import Affine
from optensemble.feasible._solvers.cvxpy_program import Program
from optensemble.feasible._solvers.implied_bounds import Bounds


@dataclass(frozen=True)
class Lifted:
    """``A_ub y <= b_ub``, ``A_eq y = b_eq`` and bounds, at a cost of ``y'Py / 2 + linear·y + offset``.

    The action comes first in ``y``. Sides and costs have a constant, and a slope by each parameter of a row, in each of
    their rows.
    """

    A_ub: Floats
    b_ub: Floats
    A_eq: Floats
    b_eq: Floats
    bounds: Bounds
    whole: npt.NDArray[np.bool_]
    dimension: int
    P: Floats
    linear: Floats
    map: Floats
    origin: Affine
    """The programme's own coordinates: ``x = map y + origin``."""
    program: Program
    curved: npt.NDArray[np.bool_]
    """Coordinates in constraints that are left out here: curved ones, and those with parameters in their matrix."""
    costless: bool = dataclasses.field(default=False, kw_only=True)
    """Whether the cost is left out here."""
    bounded: bool
    """Whether all coordinates have finite bounds, or would have them by linear programmes."""

    @property
    def others(self) -> int:
        """The number of coordinates that are not the action's."""
        return len(self.whole) - self.dimension

    @property
    def complete(self) -> bool:
        """Whether nothing is left out, so that it describes the set and its cost."""
        return self.bounded and not self.curved.any() and not self.program.P.entries.varies

    @property
    def has_cost(self) -> bool:
        """Whether acting costs something that is known."""
        return self.program.has_cost and not self.costless

    def offsets(self, values: Floats) -> Floats:
        """Return the part of the cost that is the same for all actions, for each row of parameters."""
        x, q = self.origin.at(values), self.program.q.at(values)
        offset = self.program.offset.at(values)[:, 0]
        P = self.program.P.fixed.tocoo()
        for j in np.flatnonzero(self.origin.terms.any(axis=1)):
            offset = offset + q[:, j] * x[:, j]
        for i, j, entry in zip(P.row, P.col, P.data, strict=True):
            offset = offset + 0.5 * entry * (x[:, i] * x[:, j])
        return np.asarray(offset, dtype=np.float64)
