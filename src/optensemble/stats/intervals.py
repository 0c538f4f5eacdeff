"""Intervals for means of dependent rows: rows, clusters, or blocks of time are the independent units.

A mean has a cluster-robust standard error, from the sums over its units, and Student's t with as many degrees of
freedom as units carry it. Many means at once share one critical value, by a multiplier bootstrap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import cell_sums
from optensemble._core.threads import one_blas_thread
from optensemble.stats.blocks import LEVEL, left_by_centring

DRAWS = 1000
"""Of the multiplier bootstrap."""

MOST_UNITS = 2048
"""Units beyond this number share their multipliers: the time of the bootstrap then no longer grows with the rows."""

_ROUNDING = 1e-12  # relative to the largest value: a spread below this is none


class Means(NamedTuple):
    """The means of several columns over the same rows.

    ``freedom`` are the degrees of freedom of the standard ``error``; ``sums`` are the centred sums over each unit.
    """

    estimate: Floats
    error: Floats
    freedom: float
    sums: Floats
    units: Indices

    def half_width(self) -> Floats:
        """Return half the width of each column's own 95 % interval; NaN if there is but one unit."""
        from scipy.special import stdtrit  # takes a tenth of a second to load

        return self.error * float(stdtrit(max(self.freedom, 1.0), (1 + LEVEL) / 2))


def means(
    values: Floats,
    units: Indices,
    carried: npt.NDArray[np.bool_] | None = None,
    weights: Floats | None = None,
) -> Means:
    """Return the means of the columns of ``values``, whose rows belong to ``units``.

    ``carried`` marks the rows that carry the means, where values are zero by definition elsewhere: only they count for
    the degrees of freedom. Units of unequal size count for fewer: ``(Σs)²/Σs²`` units of sizes ``s``. With ``weights``,
    each row is there as often as its weight says.
    """
    largest = np.abs(values).max(axis=0)
    touched, local = np.unique(units, return_inverse=True)
    n = len(values) if weights is None else float(weights.sum())
    _, total = cell_sums(np.zeros(len(values), dtype=np.int64), _times(values, weights), 1)
    estimate = total[0] / n if n > 0 else np.full(values.shape[1], np.nan)
    centred = values - estimate
    sizes, sums = cell_sums(local.astype(np.int64), _times(centred, weights), len(touched))
    bearing = sizes if carried is None else np.bincount(local[carried], minlength=len(touched))
    if weights is not None:
        sizes = np.bincount(local, weights, minlength=len(touched))
        bearing = sizes if carried is None else np.bincount(local[carried], weights[carried], minlength=len(touched))
    freedom = float(bearing.sum() ** 2 / np.square(bearing).sum()) - 1 if bearing.any() else 0.0
    if freedom < 1e-9:  # a single unit has no spread to judge by
        return Means(estimate, np.full(len(estimate), np.nan), freedom, sums, touched)
    error = np.sqrt(np.square(sums).sum(axis=0) / left_by_centring(sizes.astype(np.float64))) / n
    error[np.abs(centred).max(axis=0) <= _ROUNDING * largest] = 0.0
    return Means(estimate, error, freedom, sums, touched)


def _times(values: Floats, weights: Floats | None) -> Floats:
    return values if weights is None else values * weights[:, None]


class Family:
    """Means whose intervals are to hold all together, with probability 95 %.

    Multipliers, one standard normal for each unit, show how large the largest ``|t|`` of the family gets by chance. How
    improbable that is for a single one is the same for all, and Student's t says where it lies for means of few units.
    """

    def __init__(self, units: Indices, seed: Iterable[int]) -> None:
        count = min(int(units.max()) + 1, MOST_UNITS)
        # single precision is plenty for a quantile of chance, and twice as quick
        self._multipliers = np.random.default_rng(list(seed)).standard_normal((count, DRAWS), dtype=np.float32)
        self._largest = np.zeros(DRAWS, dtype=np.float32)
        self.count = 0

    def add(self, found: Means) -> Means:
        """Let the means join the family; return them without their sums, which are large."""
        spread = found.error > 0
        self.count += int(spread.sum())
        if spread.any():
            self._draw(found.sums[:, spread], found.units)
        return found._replace(sums=np.empty((0, len(spread))), units=np.empty(0, dtype=np.int64))

    def _draw(self, sums: Floats, units: Indices) -> None:
        if units[-1] >= MOST_UNITS:
            units, local = np.unique(units % MOST_UNITS, return_inverse=True)
            _, sums = cell_sums(local.astype(np.int64), sums, len(units))
        size = np.sqrt(np.square(sums).sum(axis=0))
        unit = (sums / np.where(size > 0, size, 1.0)).astype(np.float32)
        with one_blas_thread():
            drawn = unit.T @ self._multipliers[units]
        np.maximum(self._largest, np.abs(drawn, out=drawn).max(axis=0), out=self._largest)

    def critical(self, freedom: Iterable[float]) -> Floats:
        """Return how many standard errors means with so much ``freedom`` may be off."""
        largest = float(np.quantile(self._largest, LEVEL, method="higher"))
        from scipy.special import ndtr, stdtrit

        alone = ndtr(-largest) if self.count else (1 - LEVEL) / 2
        return np.asarray(np.abs(stdtrit(np.maximum(list(freedom), 1.0), alone)))


# Units


def dependence(
    n: int, series: Floats, clusters: Indices | None, time_ordered: bool, weights: Floats | None = None
) -> tuple[Indices, int | None]:
    """Return the unit of each row, and how long blocks of time are, if rows are in time order.

    ``series`` (n, d) are what means are taken of: a block is as long as the most persistent of them asks for. Rows in
    time order *and* in clusters go by whichever leaves more doubt of the first of them.
    """
    length = max((block_length(column) for column in series.T), default=1) if time_ordered else None
    # whole blocks of about that length, so that none is a short rest
    blocks = None if length is None else np.arange(n) * max(n // length, 1) // n
    grouped = None if clusters is None else np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    candidates = [units for units in (blocks, grouped) if units is not None]
    if not candidates:
        return np.arange(n), length
    first = np.ascontiguousarray(series[:, :1])
    found = [means(first, units, weights=weights) for units in candidates]
    doubts = [np.nan_to_num(each.half_width()[0], nan=np.inf) for each in found]
    return candidates[int(np.argmax(doubts))], length


def block_length(series: Floats) -> int:
    """Return how many rows in time order make a block that hardly depends on the next.

    Half as much again as Politis and White (2004, corrected 2009) find best for the variance of a mean, since an
    interval suffers more from blocks that are too short; at least the cube root of ``n``, at most a tenth of ``n``.

    >>> block_length(np.zeros(1000))
    10
    """
    n = len(series)
    if n < 20:
        return 1
    wanted = max(1.5 * _politis_white(series), n ** (1 / 3) - 1e-9)
    return min(int(np.ceil(wanted)), n // 10)


def _politis_white(series: Floats) -> float:
    """Return ``(2g²n/d)^(1/3)`` of the circular block bootstrap, from autocovariances under a flat-top window."""
    n = len(series)
    quiet = max(5, int(np.ceil(np.log10(n))))
    most = min(int(np.ceil(np.sqrt(n))) + quiet, n - 1)
    covariance = _autocovariance(series, most)
    if covariance[0] <= (_ROUNDING * np.abs(series).max()) ** 2:
        return 1.0
    loud = np.abs(covariance[1:]) > 2 * np.sqrt(np.log10(n) / n) * covariance[0]
    # the lag after which `quiet` correlations in a row are within chance
    silent = [lag for lag in range(most - quiet + 1) if not loud[lag : lag + quiet].any()]
    last = silent[0] if silent else int(np.flatnonzero(loud)[-1]) + 1
    window = min(2 * max(last, 1), most)
    lags = np.arange(1, window + 1)
    flat_top = 2 * np.minimum(1.0, 2 * (1 - lags / window)) * covariance[1 : window + 1]
    variance, slope = float(covariance[0] + flat_top.sum()), float((flat_top * lags).sum())
    return float((1.5 * (slope / variance) ** 2 * n) ** (1 / 3)) if variance > 0 else 1.0


def _autocovariance(series: Floats, lags: int) -> Floats:
    from scipy.fft import irfft, next_fast_len, rfft  # only for rows in time order

    n = len(series)
    length = next_fast_len(n + lags, real=True)
    spectrum = rfft(series - series.mean(), length)
    return np.asarray(irfft(spectrum * spectrum.conj(), length)[: lags + 1] / n)


def outer_quantiles(values: Floats, weights: Floats | None, share: float) -> tuple[float, float] | None:
    """Return the ends beyond which a ``share`` of new values lies on either side; None where they are too few to tell.

    Of ``n`` values the next lies below the k-th smallest with probability ``k/(n + 1)``; weights count for rows.

    >>> outer_quantiles(np.arange(99.0), None, 0.05)
    (4.0, 94.0)
    """
    n = len(values)
    if weights is None:
        ordered = np.sort(values)
        outside = int((n + 1) * share)  # rows that may lie outside on either side
        return (float(ordered[outside - 1]), float(ordered[n - outside])) if outside else None
    order = np.argsort(values, kind="stable")
    ordered, sizes = values[order], weights[order] * (weights.sum() / np.square(weights).sum())
    allowed = (sizes.sum() + 1) * share
    low = int(np.searchsorted(np.cumsum(sizes), allowed, side="right")) - 1
    high = int(np.searchsorted(np.cumsum(sizes[::-1]), allowed, side="right")) - 1
    return (float(ordered[low]), float(ordered[n - 1 - high])) if min(low, high) >= 0 else None
