"""Errors of promises that are right on average: of mean 0 and standard deviation 1, independent or not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from tests.problems import Floats

Errors = Callable[[np.random.Generator, int], Floats]

_BEFORE = 100  # rows until a series has forgotten where it began


def _rare_gains(rng: np.random.Generator, n: int, share: float = 0.02) -> Floats:
    large = np.sqrt((1 - share) / share)
    return np.asarray(np.where(rng.random(n) < share, large, -1 / large))


def very_rare_gains(rng: np.random.Generator, n: int) -> Floats:
    """Gains of 19 standard deviations in one row of 500: half of all records of a few hundred rows have none."""
    return np.asarray(0.5 * rng.normal(size=n) + np.sqrt(0.75) * _rare_gains(rng, n, 0.002))


def autoregressive(rng: np.random.Generator, n: int, share: float = 0.6) -> Floats:
    """A series that keeps a share of itself from row to row."""
    noise = np.sqrt(1 - share**2) * rng.normal(size=n + _BEFORE)
    return np.asarray(lfilter([1.0], [1.0, -share], noise), np.float64)[_BEFORE:]


INDEPENDENT: dict[str, Errors] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t, 3 degrees of freedom": lambda rng, n: rng.standard_t(3, size=n) / np.sqrt(3),
    "exponential, large losses": lambda rng, n: 1 - rng.exponential(size=n),
    "exponential, large gains": lambda rng, n: rng.exponential(size=n) - 1,
    "2 % losses of 7 sd": lambda rng, n: -_rare_gains(rng, n),
    "2 % gains of 7 sd": _rare_gains,
}
"""Distributions of independent errors."""
