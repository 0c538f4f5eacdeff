"""The state of Algorithms 2 and 3 before any correction, as arrays that can be cut into folds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.state import Situation


@dataclass(frozen=True)
class StartingPoint:
    """Members' outputs on some rows, and the predictions to begin with.

    Attributes
    ----------
    outputs
        What the members say.
    initial
        The predictions of the only model of a black box, of shape (n, d) in the user's units; None for a white box,
        which begins with its models' own predictions.
    """

    outputs: MemberOutputs
    initial: Floats | None = None

    def take(self, rows: Indices, mean: Floats | None = None) -> StartingPoint:
        """Return a copy on some of the rows, with ``mean``, if given, as the prediction to begin with."""
        initial = None if self.initial is None else self.initial[rows]
        if mean is not None:
            initial = np.broadcast_to(mean, (len(rows), len(mean)))
        return replace(self, outputs=self.outputs.take(rows), initial=initial)

    def situation(self) -> Situation:
        """Return what the predictions induce; it owns its arrays."""
        outputs = self.outputs
        terms = (outputs.omega, outputs.buckets)
        if self.initial is None:
            own = outputs.sign * outputs.predictions
            return Situation(own, *terms, sign=outputs.sign, solved=outputs.actions, groups=outputs.subgroups)
        initial = self.initial[None].copy()
        return Situation(initial, *terms, sign=outputs.sign, given=outputs.actions, groups=outputs.subgroups)

    def resumed(self, predictions: Floats, actions: Floats, solves: int) -> Situation:
        """Return the situation once corrections have led to these predictions, and to the models' own actions."""
        outputs, given = self.outputs, None if self.initial is None else self.outputs.actions
        terms = (outputs.omega, outputs.buckets)
        situation = Situation(
            predictions, *terms, sign=outputs.sign, given=given, solved=actions, groups=outputs.subgroups
        )
        situation.solves = solves
        return situation
