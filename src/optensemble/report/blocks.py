"""Promised and realised payoffs by block of rows, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from optensemble._core.arrays import Floats, Indices
from optensemble.evaluation.audit_tables import within_limits
from optensemble.stats.blocks import LEVEL

if TYPE_CHECKING:
    from optensemble.report.data import ReportData

MOST_BLOCKS = 20
_FEWEST_ROWS_IN_BLOCK = 5


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
        kept = [within_limits(*each) for each in zip(self.low, self.realised, self.high, strict=True)]
        return np.flatnonzero(~np.array(kept, dtype=bool))

    @property
    def middle(self) -> pd.Index:
        """The middle of each block in time, or row number."""
        return self.start + (self.end - self.start) / 2


def summarise_blocks(data: ReportData) -> Blocks:
    """Return promised and realised means of consecutive blocks of rows."""
    parts = _split_rows(data)
    axis = time_axis(data.when)
    at = pd.Index(np.arange(1, data.rows + 1)) if axis is None else axis
    promises = [data.ensemble.promise_of(data.assessments(part)) for part in parts]
    return Blocks(
        is_time=axis is not None,
        start=at[[part[0] for part in parts]],
        end=at[[part[-1] for part in parts]],
        rows=np.array([len(part) for part in parts]),
        promised=np.array([promise.mean for promise in promises]),
        low=np.array([promise.low for promise in promises]),
        high=np.array([promise.high for promise in promises]),
        realised=np.array([_mean(data, part) for part in parts]),
        half_width=_half_widths(data, parts),
    )


def _split_rows(data: ReportData) -> list[Indices]:
    """Split the rows into blocks; one of which no row counts has no mean, and is left out."""
    parts = np.array_split(np.arange(data.rows), max(min(MOST_BLOCKS, data.rows // _FEWEST_ROWS_IN_BLOCK), 1))
    return parts if data.weights is None else [part for part in parts if data.weights[part].any()]


def _mean(data: ReportData, rows: Indices) -> float:
    return float(np.average(data.realised[rows], weights=None if data.weights is None else data.weights[rows]))


def _half_widths(data: ReportData, parts: list[Indices]) -> Floats:
    """Return half the width of the interval of each block's mean payoff.

    For independent rows it is the audit's half-width, rescaled to the rows of the block, as many as their weights come
    to. In time order the audit's interval also covers the drift between blocks, which is what the blocks are to show:
    there the variance is that *within* blocks, between at least two stretches of rows in each.
    """
    weights, length = np.ones(data.rows) if data.weights is None else data.weights, data.audit.block_length
    squares = float(np.square(weights).sum())
    sizes = np.array([weights[part].sum() ** 2 / np.square(weights[part]).sum() for part in parts])
    if length is None:
        return np.asarray(data.audit.totals.half_width * np.sqrt(weights.sum() ** 2 / squares / sizes))
    sums = []
    for part in parts:
        apart = weights[part] * (data.realised[part] - _mean(data, part))
        sums += [stretch.sum() for stretch in np.array_split(apart, max(len(part) // length, 2))]
    freedom = len(sums) - len(parts)
    variance = float(np.square(sums).sum()) / squares * len(sums) / freedom
    return np.asarray(float(student.ppf((1 + LEVEL) / 2, freedom)) * np.sqrt(variance / sizes))


def time_axis(when: pd.Series | None) -> pd.Index | None:
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


def moment_text(at: Any) -> str:
    """Return a time or number as text: a day without its hours, if it has none.

    >>> moment_text(pd.Timestamp("2024-03-01")), moment_text(pd.Timestamp("2024-03-01 22:30")), moment_text(29.5)
    ('2024-03-01', '2024-03-01 22:30', '29.5')
    """
    if isinstance(at, pd.Timestamp):
        return str(at.date()) if at == at.normalize() else at.isoformat(" ", "minutes")
    return f"{at:,.6g}" if isinstance(at, float | np.floating) else str(at)
