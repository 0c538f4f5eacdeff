"""Data of a report: an ensemble, its audit on rows with known labels, and summaries by block and coordinate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble.ensembles.base import DECISION, Answer, Policy
from optensemble.evaluation.audit import Audit
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.exceptions import FallbackWarning, SolverError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import align_labels
from optensemble.members.validation import as_labels
from optensemble.report.terms import DEFAULT_TERMS, ReportTerms
from optensemble.stats.blocks import LEVEL

__all__ = ["ActionProfile", "Blocks", "ReportData", "ReportTerms", "report_data"]

MOST_BLOCKS = 20
_FEWEST_ROWS_IN_BLOCK = 5

MOST_COORDINATES = 30
"""Coordinates shown at most: those used most."""

ACTION_LEVELS = 10
"""Levels between the bounds of a coordinate."""

_BOUND_TOLERANCE = 1e-7  # share of the range: solvers return a bound only up to rounding


@dataclass(frozen=True)
class ReportData:
    """A fitted ensemble with its audit, answers and payoffs on rows with known labels.

    Attributes
    ----------
    ensemble
        The fitted ensemble.
    audit
        Its audit on the rows.
    answer
        Its actions, promises and predictions for the rows.
    realised
        The payoff of each row, in the user's units, of shape (n,).
    coordinates
        The names of the coordinates of an action.
    when
        The time of each row, datetimes or numbers, if rows are in time order.
    source
        The files of the rows, for the foot of the page.
    labels
        The labels, of shape (n, d).
    omega
        The feasible set bound to the rows; by default that of the ensemble, if it is one set for all rows.
    parameters
        The parameters of the set that come from the row, a sentence each.
    terms
        The title, the word for a row, and the currency.
    weights
        The number of rows that each row counts for; None where each is one.
    foresight
        The payoff that each row would have had with its labels known beforehand; None where that cannot be solved.
    ids
        What each row is called, if it has a name: else it is known by its time or number.
    """

    ensemble: Policy
    audit: Audit
    answer: Answer
    realised: Floats
    coordinates: list[str]
    when: pd.Series | None
    source: str
    labels: Floats
    omega: FeasibleSet | None = None
    parameters: tuple[str, ...] = ()
    terms: ReportTerms = DEFAULT_TERMS
    weights: Floats | None = None
    foresight: Floats | None = None
    ids: Sequence[str] | None = None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.realised)

    @property
    def sense(self) -> str:
        """``"max"`` for payoffs, ``"min"`` for costs."""
        return str(self.ensemble.sense)

    @property
    def sign(self) -> float:
        """1 to maximise, -1 to minimise."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def objective(self) -> str:
        """The name of what is maximised or minimised."""
        return "payoff" if self.sense == "max" else "cost"

    @cached_property
    def blocks(self) -> Blocks:
        """Promised and realised payoffs by block of rows."""
        return _summarise_blocks(self)

    @cached_property
    def profile(self) -> ActionProfile:
        """The distribution of actions by coordinate."""
        known = self.ensemble.feasible_
        own = (known.lower, known.upper) if self.omega is None else self.omega.row_bounds()
        return _summarise_actions(self.answer.actions, known.lower, known.upper, own)

    @property
    def decides_alone(self) -> str:
        """The candidate that decides in every row by the fit, and so is no baseline; empty if there is none."""
        ensemble: Any = self.ensemble
        names = ensemble.names_ if ensemble.kind == DECISION else []
        return str(ensemble.winner_) if names and ensemble.winner_ in names else ""


def report_data(
    ensemble: Policy,
    audit: Audit,
    answer: Answer,
    X: Any,
    Y: Any,
    *,
    when: pd.Series | None = None,
    coordinates: Sequence[str] | None = None,
    source: str = "",
    terms: ReportTerms = DEFAULT_TERMS,
    weights: Floats | None = None,
    ids: Sequence[str] | None = None,
    parameters: tuple[str, ...] = (),
) -> ReportData:
    """Return the data of a report on rows with known labels.

    Parameters
    ----------
    ensemble
        The fitted ensemble.
    audit, answer
        Its audit on these rows, and the answer that it judges, as ``audit_with_answer`` returns them.
    X, Y
        The rows and their labels; rows without labels, which the audit leaves out, are not among them.
    when, weights, ids
        For each row its time, the number of rows that it counts for, and its name, where it has them.
    coordinates
        The names of the coordinates of an action; by default those of the labels, or numbers.
    source
        The files of the rows.
    terms
        The title, the word for a row, and the currency.
    parameters
        The parameters of the feasible set that come from the row, a sentence each.
    """
    labels = as_labels(align_labels(Y, X, ensemble.labels_), len(answer.actions), ensemble.feasible_.dimension, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # the audit has told of these rows
        omega = ensemble.feasible_.for_rows(X)
        realised = ensemble.earned(X, answer.actions, Y)
        foresight = _foresight(omega, labels, 1.0 if ensemble.sense == "max" else -1.0)
    names = coordinates or ensemble.labels_ or [f"coordinate {j}" for j in range(labels.shape[1])]
    return ReportData(
        ensemble=ensemble,
        audit=audit,
        answer=answer,
        realised=realised,
        coordinates=[str(name) for name in names],
        when=when,
        source=source,
        labels=labels,
        omega=omega,
        parameters=parameters,
        terms=terms,
        weights=weights,
        foresight=foresight,
        ids=ids,
    )


def _foresight(omega: FeasibleSet, labels: Floats, sign: float) -> Floats | None:
    """Return the payoff of the best action of each row, its labels known; None if a row cannot be solved."""
    try:
        best = omega.argmax(sign * labels)
    except SolverError:  # predictions were solved, but labels may be a harder problem
        return None
    return np.asarray(sign * omega.value(best, sign * labels))


# By block


@dataclass(frozen=True)
class Blocks:
    """Promised and realised mean payoffs of consecutive blocks of rows of about equal size.

    ``start`` and ``end`` are the first and last time, or row number, of a block. ``low`` and ``high`` are the promised
    interval of its mean; ``half_width`` is half the width of the interval of the realised mean.
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
    def has_intervals(self) -> bool:
        """Whether intervals were promised."""
        return bool(np.isfinite(self.low).any())

    @property
    def outside(self) -> Indices:
        """The indices of blocks whose realised mean lies outside the promised interval."""
        return np.flatnonzero((self.realised < self.low) | (self.realised > self.high))

    @property
    def middle(self) -> pd.Index:
        """The middle of each block in time, or row number."""
        return self.start + (self.end - self.start) / 2


def _summarise_blocks(data: ReportData) -> Blocks:
    parts = _split_rows(data.rows)
    axis = _axis(data.when)
    at = pd.Index(np.arange(1, data.rows + 1)) if axis is None else axis
    promises = [data.ensemble.promise_of(Assessments.of(data.answer.assessed[part])) for part in parts]
    return Blocks(
        is_time=axis is not None,
        start=at[[part[0] for part in parts]],
        end=at[[part[-1] for part in parts]],
        rows=np.array([len(part) for part in parts]),
        promised=np.array([promise.mean for promise in promises]),
        low=np.array([promise.low for promise in promises]),
        high=np.array([promise.high for promise in promises]),
        realised=np.array([data.realised[part].mean() for part in parts]),
        half_width=_half_widths(data, parts),
    )


def _split_rows(n: int) -> list[Indices]:
    return np.array_split(np.arange(n), max(min(MOST_BLOCKS, n // _FEWEST_ROWS_IN_BLOCK), 1))


def _half_widths(data: ReportData, parts: list[Indices]) -> Floats:
    """Return half the width of the interval of each block's mean payoff.

    For independent rows it is the audit's half-width, rescaled to the rows of the block. In time order the audit's
    interval also covers the drift between blocks, which is what the blocks are to show: there the variance is that
    *within* blocks, between at least two stretches of rows in each.
    """
    sizes, length = np.array([len(part) for part in parts]), data.audit.block_length
    if length is None:
        return np.asarray(data.audit.totals.half_width * np.sqrt(data.rows / sizes))
    sums = []
    for part in parts:
        apart = data.realised[part] - data.realised[part].mean()
        sums += [stretch.sum() for stretch in np.array_split(apart, max(len(part) // length, 2))]
    freedom = len(sums) - len(parts)
    variance = float(np.square(sums).sum()) / data.rows * len(sums) / freedom
    return np.asarray(float(student.ppf((1 + LEVEL) / 2, freedom)) * np.sqrt(variance / sizes))


def _axis(when: pd.Series | None) -> pd.Index | None:
    """Return times for an axis; None if they are no times, missing, or not in order."""
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


# By coordinate


@dataclass(frozen=True)
class ActionProfile:
    """The distribution of actions on the coordinates in ``shown``: all of them, or those used most.

    ``shares`` (coordinates, 2 + levels) is the share of rows at the lower bound, at each level in between in ascending
    order, and at the upper bound. A coordinate with equal bounds is always at the lower. Where bounds come from the
    row, ``lower`` and ``upper`` are those of all fitting rows, and a row is at a bound if it is at its own.
    """

    shown: Indices
    mean: Floats
    lower: Floats
    upper: Floats
    shares: Floats


def _summarise_actions(actions: Floats, lower: Floats, upper: Floats, own: tuple[Floats, Floats]) -> ActionProfile:
    span = np.where(upper > lower, upper - lower, 1.0)
    used = np.abs(actions).mean(axis=0) / span
    shown = np.sort(np.argsort(-used, kind="stable")[:MOST_COORDINATES])
    taken, lower, upper, margin = actions[:, shown], lower[shown], upper[shown], _BOUND_TOLERANCE * span[shown]
    least, most = (np.broadcast_to(side, actions.shape)[:, shown] for side in own)
    places = Buckets(lower, upper, ACTION_LEVELS)(np.ascontiguousarray(taken)) + 1
    places[taken >= most - margin] = ACTION_LEVELS + 1
    places[taken <= least + margin] = 0
    shares = np.stack([np.bincount(of, minlength=ACTION_LEVELS + 2) / len(of) for of in places.T])
    return ActionProfile(shown, taken.mean(axis=0), lower, upper, shares)
