"""Rows in clusters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Clusters = npt.NDArray[np.int64]


def some_clusters(n: int, count: int, seed: int) -> Clusters:
    """Numbers 0, 1, ..., each at least once."""
    drawn = np.random.default_rng(seed).integers(count, size=n)
    return np.unique(drawn, return_inverse=True)[1].astype(np.int64)
