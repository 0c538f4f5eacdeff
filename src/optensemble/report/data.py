"""An ensemble and the later rows it is judged on: over time, and what it decided there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble.ensembles.base import Answer, Policy
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.feasible import FeasibleSet
from optensemble.stats.blocks import LEVEL

MOST_BLOCKS = 20
_ROWS_IN_BLOCK = 5

MOST_COORDINATES = 30
"""Of more coordinates, those used most are shown."""

LEVELS = 10
"""Into so many levels the range of a coordinate is cut."""

_AT_BOUND = 1e-7  # of the range: what a solver may be off


@dataclass(frozen=True)
class Judged:
    """A fitted ensemble, and what it said and earned on rows that came later.

    Attributes
    ----------
    ensemble
        The fitted ensemble.
    audit
        Its audit on the later rows.
    answer
        What it answered of these rows.
    realised
        The payoff of each row, in the user's units, of shape (n,).
    coordinates
        The names of the coordinates of a decision.
    when
        The time of each row, datetimes or numbers, if rows are in its order.
    source
        Where the rows are from, for the foot of the page.
    labels
        What came true, of shape (n, d).
    """

    ensemble: Policy
    audit: Audit
    answer: Answer
    realised: Floats
    coordinates: list[str]
    when: pd.Series | None
    source: str
    labels: Floats

    @property
    def rows(self) -> int:
        """How many rows it is judged on."""
        return len(self.realised)

    @property
    def sense(self) -> str:
        """Whether payoffs are maximised, or costs minimised."""
        return str(self.ensemble.sense)

    @property
    def sign(self) -> float:
        """1 to maximise, -1 to minimise."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def what(self) -> str:
        """What a decision comes to."""
        return "payoff" if self.sense == "max" else "cost"

    @cached_property
    def blocks(self) -> Blocks:
        """Promised and realised over time."""
        return _blocks(self)

    @cached_property
    def profile(self) -> Profile:
        """What was decided, coordinate by coordinate."""
        omega: FeasibleSet = self.ensemble.feasible
        return _profile(self.answer.actions, omega.lower, omega.upper)


# Over time


@dataclass(frozen=True)
class Blocks:
    """Rows in their order, in blocks of about the same number: what was promised of each, and what it came to.

    ``start`` and ``end`` are the first and last time, or row number, of a block. ``low`` and ``high`` are the limits
    promised for its mean; ``half_width`` is of the interval of the realised mean.
    """

    is_time: bool
    start: pd.Index
    end: pd.Index
    rows: Indices
    promised: Floats
    low: Floats
    high: Floats
    realised: Floats
    half_width: Floats

    @property
    def judged(self) -> bool:
        """Whether there were limits to keep."""
        return bool(np.isfinite(self.low).any())

    @property
    def outside(self) -> Indices:
        """The numbers of the blocks whose payoff lies outside the limits promised for them."""
        return np.flatnonzero((self.realised < self.low) | (self.realised > self.high))

    @property
    def middle(self) -> pd.Index:
        """Where a block is drawn."""
        return self.start + (self.end - self.start) / 2


def _blocks(judged: Judged) -> Blocks:
    parts = _cut(judged.rows)
    axis = _axis(judged.when)
    at = pd.Index(np.arange(1, judged.rows + 1)) if axis is None else axis
    promises = [judged.ensemble.promise_of(Assessments.of(judged.answer.assessed[part])) for part in parts]
    return Blocks(
        is_time=axis is not None,
        start=at[[part[0] for part in parts]],
        end=at[[part[-1] for part in parts]],
        rows=np.array([len(part) for part in parts]),
        promised=np.array([promise.mean for promise in promises]),
        low=np.array([promise.low for promise in promises]),
        high=np.array([promise.high for promise in promises]),
        realised=np.array([judged.realised[part].mean() for part in parts]),
        half_width=_half_widths(judged, parts),
    )


def _cut(n: int) -> list[Indices]:
    return np.array_split(np.arange(n), max(min(MOST_BLOCKS, n // _ROWS_IN_BLOCK), 1))


def _half_widths(judged: Judged, parts: list[Indices]) -> Floats:
    """Return half the width of the interval of each block's mean payoff.

    The audit's own, of fewer rows. But if rows are in time order that holds how far the level wanders, which is what
    the blocks show: then it is by how much stretches of rows differ *within* blocks, at least two to each.
    """
    sizes, length = np.array([len(part) for part in parts]), judged.audit.block_length
    if length is None:
        return np.asarray(float(judged.audit.summary["half_width"].iloc[0]) * np.sqrt(judged.rows / sizes))
    sums = []
    for part in parts:
        apart = judged.realised[part] - judged.realised[part].mean()
        sums += [stretch.sum() for stretch in np.array_split(apart, max(len(part) // length, 2))]
    freedom = len(sums) - len(parts)
    variance = float(np.square(sums).sum()) / judged.rows * len(sums) / freedom
    return np.asarray(float(stdtrit(freedom, (1 + LEVEL) / 2)) * np.sqrt(variance / sizes))


def _axis(when: pd.Series | None) -> pd.Index | None:
    """Return times that an axis can be made of; None where they are something else, or not in order."""
    if when is None:
        return None
    axis = _numbers_or_times(when)
    if not (axis.notna().all() and axis.is_monotonic_increasing):
        return None
    return axis.tz_localize(None) if isinstance(axis, pd.DatetimeIndex) else axis


def _numbers_or_times(when: pd.Series) -> pd.Index:
    axis: pd.Index
    if pd.api.types.is_numeric_dtype(when) and not pd.api.types.is_bool_dtype(when):
        axis = pd.Index(when.to_numpy(dtype=np.float64, na_value=np.nan))
    elif pd.api.types.is_datetime64_any_dtype(when):
        axis = pd.DatetimeIndex(when)
    else:
        axis = pd.DatetimeIndex(pd.to_datetime(when, format="ISO8601", errors="coerce", utc=True))
    return axis


# Coordinate by coordinate


@dataclass(frozen=True)
class Profile:
    """What was decided of the coordinates in ``shown``: all of them, or those used most.

    ``shares`` (coordinates, 2 + levels) is the share of rows at the lower bound, at each level in between from below,
    and at the upper bound. A coordinate whose bounds are one is always at the lower.
    """

    shown: Indices
    mean: Floats
    lower: Floats
    upper: Floats
    shares: Floats


def _profile(actions: Floats, lower: Floats, upper: Floats) -> Profile:
    span = np.where(upper > lower, upper - lower, 1.0)
    used = np.abs(actions).mean(axis=0) / span
    shown = np.sort(np.argsort(-used, kind="stable")[:MOST_COORDINATES])
    taken, lower, upper, margin = actions[:, shown], lower[shown], upper[shown], _AT_BOUND * span[shown]
    places = Buckets(lower, upper, LEVELS)(taken) + 1
    places[taken >= upper - margin] = LEVELS + 1
    places[taken <= lower + margin] = 0
    shares = np.stack([np.bincount(of, minlength=LEVELS + 2) / len(of) for of in places.T])
    return Profile(shown, taken.mean(axis=0), lower, upper, shares)
