"""The long-run variance of rows that follow each other: what dependence makes of the variance of a mean."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats

_ROUNDING = 1e-24  # of the largest square: a variance below this is none


def long_run_ratio(values: Floats) -> float:
    """Return the long-run variance of a series over its variance, at least 1 (Newey and West, 1987).

    The lags that count are weighted by Bartlett's kernel; their number, ``2·⌈4·(n/100)^(2/9)⌉``, is twice the usual
    one, for a ratio that is too small is worse here than one that is too large. Of a constant the ratio is 1.

    >>> days = np.random.default_rng(0).normal(size=200)
    >>> 0.9 < long_run_ratio(days) < 2, 3 < long_run_ratio(np.repeat(days, 5)) < 7  # five rows a day
    (True, True)
    """
    n = len(values)
    size = float(np.abs(values).max(initial=0.0))
    if n < 2 or size == 0:
        return 1.0
    centred = values / size - float((values / size).mean())
    variance = float(np.square(centred).sum())
    if variance <= _ROUNDING * n:
        return 1.0
    most = min(2 * int(np.ceil(4 * (n / 100) ** (2 / 9))), n - 1)
    shared = [float((centred[lag:] * centred[:-lag]).sum()) / variance for lag in range(1, most + 1)]
    return max(1.0, 1 + 2 * sum((1 - lag / (most + 1)) * each for lag, each in enumerate(shared, 1)))
