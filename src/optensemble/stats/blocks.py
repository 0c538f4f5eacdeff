"""The variance of means over blocks of time and over clusters, and the quantiles that go with it."""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from optensemble._core.arrays import Floats, Indices

LEVEL = 0.95
"""The coverage of an interval, or of all intervals of a family together."""

BLOCKS = 10
"""The number of contiguous blocks that rows in time order are cut into, to see how far the mean payoff wanders."""


def cluster_effect(centred: Floats, clusters: Indices, variance: float) -> float:
    """Return the ratio of the variance of a mean over clusters to that of independent rows."""
    sums, sizes = np.bincount(clusters, centred), np.bincount(clusters).astype(np.float64)
    left = max(left_by_centring(sizes), 1e-9)
    return float(np.square(sums).sum()) / (len(centred) * variance) / left


def left_by_centring(sizes: Floats) -> float:
    """Return the share of the variance of unit sums that is left once the common mean is taken out.

    It is ``1 − 1/G`` for ``G`` equal units, and less if some are larger and vary as much as their size.
    """
    n, squares = sizes.sum(), np.square(sizes).sum()
    return float(1 - 2 * (sizes**3).sum() / (n * squares) + squares / n**2)


def t_quantile(n: int, time_ordered: bool, clusters: Indices | None, family: int = 1) -> float:
    """Return the half-width of a 95 % interval in standard errors, or of each of a ``family`` held jointly."""
    freedom = float(n - 1)
    if clusters is not None:  # unequal clusters count for fewer
        sizes = np.bincount(clusters).astype(np.float64)
        freedom = float(sizes.sum() ** 2 / np.square(sizes).sum()) - 1
    if time_ordered:
        freedom = min(freedom, BLOCKS - 1)
    return float(-stdtrit(max(freedom, 1.0), (1 - LEVEL) / 2 / family))
