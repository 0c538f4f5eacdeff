"""Points of a learning curve: what a policy, fitted on so many rows, promises and realises on fresh rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan

from optensemble.experiments.outcome import (
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    RIDGE_STACKING,
    WHITE_BOX_ENSEMBLE,
)

STACKING, JOINT, ROUND_ROBIN = "stacking", "joint", "round-robin"
STAGES = (STACKING, JOINT, ROUND_ROBIN)
"""What is fitted one after the other: policies without rounds, and the paper's algorithms by schedule."""

METHODS = (
    (WHITE_BOX_ENSEMBLE, JOINT),
    (WHITE_BOX_ENSEMBLE, ROUND_ROBIN),
    (BLACK_BOX_ENSEMBLE, JOINT),
    (BLACK_BOX_ENSEMBLE, ROUND_ROBIN),
    (RIDGE_STACKING, STACKING),
    (DECISION_ENSEMBLE, STACKING),
)
"""The policies that promise something, and the stages they are fitted in."""

TRUE_SHARE, TRUE_ERRORS = 0.01, 2.0
"""A promise is true if it is off by no more than this share of foresight's payoff, or this many standard errors."""


@dataclass(frozen=True)
class CurvePoint:
    """Mean payoffs per row on the fresh rows of a policy fitted on ``rows`` rows; what does not apply is NaN or None.

    Attributes
    ----------
    rows, policy, stage
        What was fitted, and on how many rows.
    promised, realised, realised_error
        The policy's own forecast of its mean payoff on the fresh rows, what it realised there, and its standard error.
    gap_error
        The standard error of promised − realised, from differences row by row.
    low, high
        The 95 % interval that DecisionEnsemble promised.
    gap_bound, regret, regret_bound
        Of the paper's algorithms, the bound of |promised − realised| (Lemma 7; of black box Corollary 1); what the best
        swap of corrected models (Lemma 9), or the best given policy (Lemma 4), would have realised beyond them on the
        fresh rows; and the bound of that.
    rounds, converged, worst_violation
        How their fit ended.
    fit_seconds, evaluation_seconds
        How long the fit took, and how long everything on the fresh rows.
    """

    rows: int
    policy: str
    stage: str
    promised: float
    realised: float
    realised_error: float
    gap_error: float
    low: float = nan
    high: float = nan
    gap_bound: float = nan
    regret: float = nan
    regret_bound: float = nan
    rounds: int | None = None
    converged: bool | None = None
    worst_violation: float = nan
    fit_seconds: float = 0.0
    evaluation_seconds: float = 0.0

    @property
    def gap(self) -> float:
        """Promised − realised."""
        return self.promised - self.realised

    @property
    def within_gap_bound(self) -> bool:
        """Whether the promise is as close to what was realised as the paper's guarantee has it in sample."""
        return abs(self.gap) <= self.gap_bound

    @property
    def within_regret_bound(self) -> bool:
        """Whether the regret is as small as the paper's guarantee has it in sample."""
        return self.regret <= self.regret_bound

    @property
    def interval_kept(self) -> bool:
        """Whether the realised payoff lies in the promised interval."""
        return self.low <= self.realised <= self.high


@dataclass(frozen=True)
class LearningCurve:
    """All points of one experiment."""

    name: str
    points: tuple[CurvePoint, ...] = ()

    def plus(self, points: Iterable[CurvePoint]) -> LearningCurve:
        """Return the curve with more points."""
        return replace(self, points=(*self.points, *points))

    def only(self, sizes: Sequence[int]) -> LearningCurve:
        """Return the points of some numbers of rows."""
        return replace(self, points=tuple(point for point in self.points if point.rows in sizes))

    def at(self, stage: str, rows: int) -> list[CurvePoint]:
        """Return the points of a stage with so many rows; none if it was not run."""
        return [point for point in self.points if (point.stage, point.rows) == (stage, rows)]

    def line(self, policy: str, stage: str) -> list[CurvePoint]:
        """Return the points of a policy, by the number of rows."""
        found = [point for point in self.points if (point.policy, point.stage) == (policy, stage)]
        return sorted(found, key=lambda point: point.rows)

    @property
    def foresight(self) -> float:
        """What foresight realises on the fresh rows."""
        return next(point.realised for point in self.points if point.policy == FORESIGHT)

    @property
    def sizes(self) -> list[int]:
        """The numbers of rows, ascending."""
        return sorted({point.rows for point in self.points})

    def is_true(self, point: CurvePoint) -> bool:
        """Return whether a promise is true, by :data:`TRUE_SHARE` and :data:`TRUE_ERRORS`."""
        return abs(point.gap) <= max(TRUE_SHARE * abs(self.foresight), TRUE_ERRORS * point.gap_error)


def first_size(line: Sequence[CurvePoint], holds: Callable[[CurvePoint], bool]) -> int | None:
    """Return the number of rows from which on something holds, up to the last; None if it does not hold there."""
    first = None
    for point in reversed(line):
        if not holds(point):
            break
        first = point.rows
    return first
