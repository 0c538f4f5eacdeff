"""What every round found: summaries of the situation, never copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._exact import row_dots
from optensemble.events import Rows, Situation

Floats = npt.NDArray[np.float64]


class Entry(NamedTuple):
    """The state that a round found.

    Attributes
    ----------
    promised, realised
        Mean payoff of the ensemble as it assesses itself, and as the labels have it.
    promised_by, realised_by, chosen
        The same for each contender, and on how many rows it was followed.
    squared_error
        ``E‖h − y‖²`` of each model.
    violation
        The worst violation the round saw.
    solves
        Rows handed to the solver so far.
    """

    promised: float
    realised: float
    promised_by: Floats
    realised_by: Floats
    chosen: npt.NDArray[np.int64]
    squared_error: Floats
    violation: float
    solves: int


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

    def entry(self, violation: float) -> Entry:
        """Write down the state as it is now."""
        situation = self._situation
        return Entry(
            promised=float(situation.taken(situation.assessed).mean()),
            realised=float(situation.taken(self._realised).mean()),
            promised_by=self._promised_by.copy(),
            realised_by=self._realised_by.copy(),
            chosen=np.bincount(situation.choice, minlength=len(situation.actions)),
            squared_error=self.squared_error.copy(),
            violation=violation,
            solves=situation.solves,
        )

    def _error_of(self, member: int) -> float:
        difference = self._labels - self._situation.predictions[member]
        return float(np.square(difference, out=difference).sum()) / len(difference)


def history_frame(entries: Sequence[Entry], contenders: Sequence[str], members: Sequence[str]) -> pd.DataFrame:
    """Return one row per round, of the state the round found; the last row is the state in the end."""
    columns: dict[str, object] = {
        "promised": [entry.promised for entry in entries],
        "realised": [entry.realised for entry in entries],
        "worst_violation": [entry.violation for entry in entries],
        "solves": [entry.solves for entry in entries],
    }
    for c, name in enumerate(contenders):
        columns[f"promised_{name}"] = [entry.promised_by[c] for entry in entries]
        columns[f"realised_{name}"] = [entry.realised_by[c] for entry in entries]
        columns[f"chosen_{name}"] = [entry.chosen[c] for entry in entries]
    for m, name in enumerate(members):
        columns[f"squared_error_{name}"] = [entry.squared_error[m] for entry in entries]
    return pd.DataFrame(columns).rename_axis("round")
