"""What every round found: summaries of the situation, never copies of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from optensemble._exact import row_dots
from optensemble._types import Floats, Rows
from optensemble.situation import Situation


class Recorder:
    """Follows a situation through the rounds, updating only what moved."""

    def __init__(self, situation: Situation, labels: Floats) -> None:
        self._situation, self._labels = situation, labels
        self._realised = np.stack([row_dots(actions, labels) for actions in situation.actions])
        self._realised_by = self._realised.mean(axis=1)
        self._promised_by = situation.assessed.mean(axis=1)
        self.squared_error = np.array([self._error_of(member) for member in range(len(situation.predictions))])

    def refresh(self, member: int, rows: Rows) -> None:
        """Take up that the predictions of ``member`` have moved on ``rows``."""
        situation, own = self._situation, self._situation.given + member
        self._realised[own, rows] = row_dots(situation.actions[own, rows], self._labels[rows])
        self._realised_by[own] = self._realised[own].mean()
        assessed = slice(None) if situation.given else own
        self._promised_by[assessed] = situation.assessed[assessed].mean(axis=-1)
        self.squared_error[member] = self._error_of(member)

    def entry(self, violation: float) -> Floats:
        """Write down the state as it is now, in the order of :func:`history_frame`."""
        situation = self._situation
        promised, realised = situation.taken(situation.assessed).mean(), situation.taken(self._realised).mean()
        chosen = np.bincount(situation.choice, minlength=len(situation.actions))
        return np.concatenate(
            [
                [promised, realised, violation, situation.solves],
                self._promised_by,
                self._realised_by,
                chosen,
                self.squared_error,
            ]
        )

    def _error_of(self, member: int) -> float:
        difference = self._labels - self._situation.predictions[member]
        return float(np.square(difference, out=difference).sum()) / len(difference)


def history_frame(entries: Sequence[Floats], contenders: Sequence[str], members: Sequence[str]) -> pd.DataFrame:
    """Return one row per round, of the state the round found; the last row is the state in the end.

    ``promised`` and ``realised`` are the ensemble's mean payoff as it assesses it and as the labels have it,
    ``worst_violation`` is what the round saw (in the end, of all cells), ``solves`` counts rows handed to the solver;
    then promise, payoff and number of rows followed of each contender, and the squared error of each model.
    """
    columns = ["promised", "realised", "worst_violation", "solves"]
    columns += [f"{what}_{name}" for what in ("promised", "realised", "chosen") for name in contenders]
    columns += [f"squared_error_{name}" for name in members]
    counts = ["solves", *(f"chosen_{name}" for name in contenders)]
    frame = pd.DataFrame(np.stack(entries), columns=columns).rename_axis("round")
    return frame.astype(dict.fromkeys(counts, np.int64))
