"""Monitors of ensembles: their scale comes from an out-of-fold record, and they watch one fit at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.evaluation.payoff_record import Record
from optensemble.monitoring.monitor import LARGEST_VALUE, Monitor, Seen

_SURE = 1.96  # standard errors: one honest promise in twenty is further off
_TOLERANCE = 0.1  # standard deviations, as by default: hardly anyone acts on less


class Scale(NamedTuple):
    """What the errors of a promise are measured by, as a :class:`Monitor` takes it.

    ``tolerance`` allows for the error of the promise itself: a mean over few rows is off by more than a tenth of a
    standard deviation though nothing has changed.
    """

    sigma: float
    half_width: float
    long_run: float
    tolerance: float


def monitor_of(record: Record, sense: str, *, horizon: int = 5000, false_alarms: float = 0.05) -> Monitor:
    """Return a monitor of promises that rest on a record."""
    scale = scale_of(record)._asdict()
    return Monitor(**scale, horizon=horizon, false_alarms=false_alarms, sense=sense)


@dataclass(frozen=True, eq=False)
class WatchedFit:
    """The fit whose promises a monitor watches: the latest of those that decided a row whose labels have arrived.

    Labels may arrive later than the next refit. If the refit itself restarted the monitor, it would never see a row.

    Attributes
    ----------
    number
        How many fits were made before it.
    weighing
        That of its record; see :class:`Calibration`.
    later
        The scales and weighings of later fits, by their numbers.
    """

    number: int
    weighing: float
    later: dict[int, tuple[Scale, float]] = field(default_factory=dict)

    @classmethod
    def first(cls, record: Record | None) -> Self:
        """Return the first fit, with its record if it has one."""
        return cls(0, 0.0 if record is None else record.weighing)

    def followed_by(self, number: int, record: Record | None) -> Self:
        """Return the same with a later fit; without a record it is measured as the one before."""
        added = {} if record is None else {number: (scale_of(record), record.weighing)}
        return replace(self, later=self.later | added)

    def look(
        self, monitor: Monitor, fits: Indices, promised: Floats, realised: Floats, weights: Floats | None
    ) -> tuple[Self, Seen]:
        """Return which fit is watched after further rows, and what the monitor has seen then.

        ``fits`` are the numbers of the fits that decided the rows, which ascend. With the first row of a later fit the
        monitor starts afresh; rows of earlier ones are passed over, and so are those that count for nothing.
        """
        if weights is not None:
            counted = weights > 0
            fits, promised, realised = fits[counted], promised[counted], realised[counted]
            weights = weights[counted]
        watched, watching, start = self, monitor.copy(), int(np.searchsorted(fits, self.number))
        while start < len(fits):
            number, stop = int(fits[start]), int(np.searchsorted(fits, fits[start], "right"))
            if number > watched.number:
                scale, weighing = watched.later.get(number, (None, watched.weighing))
                watching.restart(**{} if scale is None else scale._asdict())
                watched = type(self)(number, weighing, {at: each for at, each in watched.later.items() if at > number})
            rows = slice(start, stop)
            counts = None if weights is None else weights[rows]
            watching.observe(*(weighed(each[rows], counts, watched.weighing) for each in (promised, realised)))
            start = stop
        return watched, watching._seen


def tell(monitor: Monitor) -> str:
    """Return why a refit is due, if an alarm stands: the strongest one, with rows numbered since the fit."""
    if not monitor.standing:
        return ""
    told = monitor.standing[0].sentence(monitor.sense, of="of those that came after the fit", doubt=monitor.doubt)
    return f"rows have {told}"


def scale_of(record: Record) -> Scale:
    """Return the scale that follows from a record; where few clusters leave the width open, it is a large number."""
    long_run = record.long_run
    tolerance = max(_TOLERANCE, _SURE * sqrt(long_run / record.effective))
    scale = record.deviation, record.own_half_width, long_run, tolerance
    return Scale(*(min(each, LARGEST_VALUE) for each in scale))


def weighed(values: Floats, weights: Floats | None, weighing: float) -> Floats:
    """Return payoffs as a monitor sees them: those of rows that count, by their weights where the record has weights.

    The mean that is promised is then a weighted one; ``weighing`` is that of :class:`Calibration`.
    """
    if weights is None:
        return values * weighing if weighing else values
    counted = weights > 0
    return values[counted] * (weights[counted] * weighing) if weighing else values[counted]
