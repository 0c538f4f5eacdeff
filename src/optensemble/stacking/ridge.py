"""A ridge on everything the members say, for every penalty from one decomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats

RIDGE_PENALTIES = tuple(10.0**power for power in range(7))
"""The penalties to choose from."""


@dataclass(frozen=True)
class Ridge:
    """A linear map from everything the members say of a row, standardised, to all coordinates."""

    mean: Floats
    scale: Floats
    coefficients: Floats
    level: Floats

    def __call__(self, features: Floats, room: Floats | None = None) -> Floats:
        """Return its predictions, of shape (n, d), in ``room`` if there is any."""
        # Folded into the coefficients, standardisation would cost nothing, and move the last bit of every forecast.
        found = np.matmul(standardised(features, self.mean, self.scale), self.coefficients, out=room)
        shift(found, self.level)
        return found


class RidgeTable(NamedTuple):
    """The sums over rows that a ridge is fitted from; tables of disjoint rows add up."""

    n: int
    columns: Floats
    labels: Floats
    squares: Floats
    products: Floats


class RidgePath:
    """Ridge regressions of all penalties, about any coefficients, from one decomposition."""

    def __init__(self, table: RidgeTable) -> None:
        from scipy.linalg import eigh

        self.centre, self.level = table.columns / table.n, table.labels / table.n
        self._squares = table.squares - np.outer(table.columns, self.centre)
        self._products = table.products - np.outer(table.columns, self.level)
        values, self._vectors = eigh(self._squares, driver="evd")
        self._values = np.maximum(values, 0.0)

    def towards(self, start: Floats | None = None) -> Callable[[float], Floats]:
        """Return a function from a penalty to the coefficients, as differences from ``start`` or from 0."""
        slope = self._products if start is None else self._products - self._squares @ start
        image = self._vectors.T @ slope
        return lambda penalty: self._vectors @ (image / (self._values + penalty)[:, None])


@njit(cache=True, nogil=True)
def shift(values: Floats, by: Floats) -> None:
    """Add a row to every row of ``values``, in place: numpy is slow at that if rows are short."""
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            values[i, j] += by[j]


@njit(cache=True, nogil=True, error_model="numpy")
def standardised(features: Floats, mean: Floats, scale: Floats) -> Floats:
    """Return everything that members say of each row, (k, n, d), as one line of shape (k·d,), standardised."""
    k, n, d = features.shape
    wide = np.empty((n, k * d))
    for i in range(n):
        row = wide[i]
        for m in range(k):
            for j in range(d):
                row[m * d + j] = features[m, i, j]
        for j in range(k * d):  # a line at once: d numbers would be too few to divide several at a time
            row[j] = (row[j] - mean[j]) / scale[j]
    return wide
