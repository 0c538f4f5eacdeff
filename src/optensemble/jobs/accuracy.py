"""The accuracy of a promise before any fit: of the average of the models, with time order and groups allowed for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import FallbackWarning
from optensemble.jobs.roles import Roles
from optensemble.stats.sample_size import MINIMUM_ROWS

if TYPE_CHECKING:
    from optensemble.jobs.fit import Task


@dataclass(frozen=True)
class Accuracy:
    """Half the width of a promise of the mean payoff over as many new ``rows``, and what it allows for."""

    half_width: float
    rows: int
    time_ordered: bool = False
    groups: str | None = None

    def __str__(self) -> str:
        allowed = ["in time order"] if self.time_ordered else []
        allowed += [] if self.groups is None else [f"with groups by {self.groups}"]
        return f"± {self.half_width:.3g} {' and '.join(allowed) or 'if rows are independent'}"


@dataclass(frozen=True)
class PayoffPairs:
    """What the average of the models assesses, row by row, and what its policy realises.

    Policies assess nothing: of policies alone these are their mean payoffs.
    """

    assessed: Floats
    realised: Floats
    sign: float

    @classmethod
    def of(cls, task: Task) -> PayoffPairs:
        """Compute them on the rows of a task."""
        sign, labels = 1.0 if task.job.sense == "max" else -1.0, task.labels.to_numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
            omega = task.omega.for_rows(task.table)
            if not task.models:
                decided = [member.decide(task.table) for member in task.policies.values()]
                realised = sign * np.mean([omega.value(actions, sign * labels) for actions in decided], axis=0)
                return cls(np.zeros(len(labels)), realised, sign)
            average = np.mean([member.predict(task.table) for member in task.models.values()], axis=0)
            actions = omega.argmax(sign * average)
        return cls(*(sign * omega.value(actions, sign * each) for each in (average, labels)), sign)

    def accuracy(self, roles: Roles, rows: pd.DataFrame) -> Accuracy | None:
        """Return the accuracy of a promise with these roles of columns; None for too few rows."""
        n, time_ordered = len(self.realised), roles.time is not None
        if n < MINIMUM_ROWS:
            return None
        clusters = None if roles.groups is None else np.unique(rows[roles.groups], return_inverse=True)[1]
        promise = Record(self.assessed, self.realised, self.sign, time_ordered, clusters).promise(self.assessed)
        return Accuracy((promise.high - promise.low) / 2, n, time_ordered, roles.groups)
