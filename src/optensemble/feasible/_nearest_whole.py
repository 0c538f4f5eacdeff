"""The nearest actions of sets of zeros and ones."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import SolverError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._batches import Unsolved
from optensemble.feasible._binding import BINDS


def nearest_of_zeros_and_ones(omega: FeasibleSet, actions: Floats) -> Floats:
    """Return the nearest action of a set whose actions are zeros and ones.

    Rounded actions that are in the set are the nearest. Otherwise ``|v - a|^2`` is, up to what does not depend on the
    action v, ``v·(1 - 2a)``: the nearest is an argmax.
    """
    found = np.clip(np.rint(actions), 0.0, 1.0)
    others = np.flatnonzero(omega.violation(found) > BINDS)
    if others.size:
        try:
            found[others] = omega.take(others)._solve_batch(2.0 * actions[others] - 1.0, None)
        except Unsolved as unsolved:
            row, why = min(unsolved.reasons.items())
            raise SolverError(f"row {int(others[row])} could not be moved onto the set: {why}") from unsolved
    return found
