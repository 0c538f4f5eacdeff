"""The accuracy of a promise before any fit: of the average of the models, with time order and groups allowed for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats, Indices
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.exceptions import FallbackWarning
from optensemble.jobs.roles import Roles
from optensemble.members.absence import absent_rows, mean_present, mean_rows_present
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

    Policies assess nothing: of policies alone these are their mean payoffs. In rows in which some have no value it is
    the average of the others; ``rows`` are those in which any has one.
    """

    assessed: Floats
    realised: Floats
    rows: Indices
    sign: float

    @classmethod
    def of(cls, task: Task) -> PayoffPairs:
        """Compute them on the rows of a task."""
        sign, labels = 1.0 if task.job.sense == "max" else -1.0, task.labels.to_numpy()
        members = task.models or task.policies
        outputs = [member.predict(task.table) for member in members.values()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
            omega = task.omega.for_rows(task.table)
            if not task.models:
                payoffs = [sign * omega.value(actions, sign * labels) for actions in outputs]
                realised, rows = mean_of_present(payoffs)
                return cls(np.zeros(len(rows)), realised, rows, sign)
            average, rows = mean_of_present(outputs)
            omega, labels = (omega, labels) if len(rows) == len(labels) else (omega.take(rows), labels[rows])
            actions = omega.argmax(sign * average)
        assessed, realised = (sign * omega.value(actions, sign * each) for each in (average, labels))
        return cls(assessed, realised, rows, sign)

    def accuracy(self, roles: Roles, rows: pd.DataFrame) -> Accuracy | None:
        """Return the accuracy of a promise with these roles of columns; None for too few rows."""
        n, time_ordered = len(self.realised), roles.time is not None
        if n < MINIMUM_ROWS:
            return None
        rows = rows.iloc[self.rows]
        clusters = None if roles.groups is None else np.unique(rows[roles.groups], return_inverse=True)[1]
        weights = None if roles.weight is None else rows[roles.weight].to_numpy() / rows[roles.weight].mean()
        record = Record(self.assessed, self.realised, self.sign, time_ordered, clusters, weights=weights)
        promise = record.promise(Assessments.of(self.assessed, weights))
        return Accuracy((promise.high - promise.low) / 2, n, time_ordered, roles.groups)


def mean_of_present(outputs: list[Floats]) -> tuple[Floats, Indices]:
    """Return the mean over members that have a value, and the rows in which any has."""
    single = outputs[0].ndim == 1
    missing = np.array([np.isnan(each) if single else absent_rows(each) for each in outputs])
    rows, mean = np.flatnonzero(~missing.all(axis=0)), mean_rows_present if single else mean_present
    return mean(np.nan_to_num(np.array(outputs)), missing)[rows], rows
