"""Rows known again: a hash of what members said of a row and of its label."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError

_FEW_VALUES = 50


def fingerprints(*arrays: Floats) -> npt.NDArray[np.uint64]:
    """Return a hash of every row over all arrays, of shape (n,): the same for the same numbers, anywhere, at any time.

    Parameters
    ----------
    arrays
        Each of shape (n,) or (n, ...).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    >>> first, second, third = fingerprints(rows)
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    n = {len(array) for array in arrays}
    if len(n) != 1:
        raise InputError(f"fingerprints need arrays of the same number of rows; got {sorted(n) or 'none'}.")
    # adding 0 makes -0.0 the 0.0 that it equals
    columns = [array.reshape(len(array), prod(array.shape[1:])).T + 0.0 for array in arrays]
    state = np.full(n.pop(), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in np.concatenate(columns):
        state = _mixed((state ^ column.view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15))
    return state


def marks(*arrays: Floats) -> npt.NDArray[np.uint64]:
    """Return fingerprints to know rows again by; none where values are so few that rows are alike by chance."""
    labels_first = (column for array in reversed(arrays) for column in array.T)
    many = any(len(np.unique(column)) > _FEW_VALUES for column in labels_first)
    return fingerprints(*arrays) if many else np.empty(0, dtype=np.uint64)


def count_seen(rows: npt.NDArray[np.uint64], fitted: npt.NDArray[np.uint64]) -> int:
    """Return how many rows are among those fitted on.

    >>> old = np.arange(100, dtype=np.uint64)
    >>> count_seen(old[:20], old), count_seen(old[:20] + np.uint64(100), old)
    (20, 0)
    """
    return int(np.isin(rows, fitted).sum())


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Let every bit depend on every other (the finaliser of SplitMix64)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
