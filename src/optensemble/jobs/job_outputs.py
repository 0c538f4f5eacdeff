"""What the members of a job say of its rows, some of which may lack values of some members."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import FallbackWarning
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import absent_rows

if TYPE_CHECKING:
    from optensemble.jobs.fit import Task


@dataclass(frozen=True)
class JobOutputs:
    """Predictions of models, and actions of all members; NaN in rows in which a member has no answer.

    The set ``omega`` is bound to the rows, and ``sign`` is -1 for costs.
    """

    omega: FeasibleSet
    sign: float
    labels: Floats
    predictions: dict[str, Floats]
    actions: dict[str, Floats]

    @classmethod
    def of(cls, task: Task) -> JobOutputs:
        """Ask the members, and solve for the actions of models."""
        sign = 1.0 if task.job.sense == "max" else -1.0
        predictions = {name: member.predict(task.table) for name, member in task.models.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
            omega = task.omega.for_rows(task.table)
            actions = {name: _solved(omega, sign * predicted) for name, predicted in predictions.items()}
        actions |= {name: member.decide(task.table) for name, member in task.policies.items()}
        return cls(omega, sign, task.labels.to_numpy(), predictions, actions)

    @cached_property
    def present(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Whether each member has an answer, row by row."""
        return {name: ~absent_rows(actions) for name, actions in self.actions.items()}

    def take(self, rows: npt.NDArray[np.bool_]) -> JobOutputs:
        """Return the same of some rows."""
        if rows.all():
            return self
        parts = ({name: each[rows] for name, each in said.items()} for said in (self.predictions, self.actions))
        return JobOutputs(self.omega.take(np.flatnonzero(rows)), self.sign, self.labels[rows], *parts)

    @property
    def complete(self) -> JobOutputs:
        """The same of the rows in which every member has an answer."""
        return self.take(np.all(list(self.present.values()), axis=0))

    def realised(self, name: str) -> float:
        """Return the mean payoff of a member, in the rows in which it has an answer."""
        there = self.take(self.present[name])
        return float((self.sign * there.omega.value(there.actions[name], self.sign * there.labels)).mean())

    def explained(self, name: str) -> float:
        """Return the share of the labels' variance that a model explains (R²), where it has an answer."""
        there = self.take(self.present[name])
        missed = np.square(there.labels - there.predictions[name]).sum()
        spread = np.square(there.labels - there.labels.mean(axis=0)).sum()
        return float(1 - missed / spread) if spread > 0 else np.nan


def _solved(omega: FeasibleSet, coefficients: Floats) -> Floats:
    """Return the best actions, NaN in rows without coefficients."""
    missing = absent_rows(coefficients)
    if not missing.any():
        return omega.argmax(coefficients)
    rows, actions = np.flatnonzero(~missing), np.full_like(coefficients, np.nan)
    if rows.size:
        actions[rows] = omega.take(rows).argmax(np.ascontiguousarray(coefficients[rows]))
    return actions
