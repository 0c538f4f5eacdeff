"""A ridge on everything the members say, for every penalty from one decomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.stacking.stack import Stack

RIDGE_PENALTIES = tuple(10.0**power for power in range(7))
"""The penalties to choose from."""


@dataclass(frozen=True)
class Ridge:
    """A linear map from everything the members say of a row, standardised, to all coordinates."""

    mean: Floats
    scale: Floats
    coefficients: Floats
    level: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return its predictions, of shape (n, d)."""
        return (_wide(features) - self.mean) / self.scale @ self.coefficients + self.level


class Design:
    """Everything the members say of the fitting rows, as standardised columns; no more columns than rows.

    A ridge does not mind a rotation: where there are more columns than rows, their span will do.
    """

    def __init__(self, features: Floats) -> None:
        wide = _wide(features)
        spread = wide.std(axis=0)
        self.mean, self.scale = wide.mean(axis=0), np.where(spread > 1e-9 * spread.max(initial=0.0), spread, 1.0)
        self.rows = (wide - self.mean) / self.scale
        self.span: Floats | None = None
        n, p = wide.shape
        if n < p:
            from scipy.linalg import eigh

            values, vectors = eigh(self.rows @ self.rows.T, driver="evd")
            kept = values > n * np.finfo(np.float64).eps * values[-1]
            self.span = self.rows.T @ (vectors[:, kept] / np.sqrt(values[kept]))
            self.rows = vectors[:, kept] * np.sqrt(values[kept])

    def coefficients(self, stack: Stack) -> Floats:
        """Return a stack as coefficients of the columns, of shape (columns, d)."""
        (k, d), scale = stack.centre.shape, self.scale.reshape(stack.centre.shape)
        matrix = (stack.weights[:, None, None] * scale[:, :, None] * np.eye(d)).reshape(k * d, d)
        return matrix if self.span is None else self.span.T @ matrix

    def ridge(self, coefficients: Floats, centre: Floats, level: Floats) -> Ridge:
        """Return a regression on the columns as one on what members say."""
        whole = coefficients if self.span is None else self.span @ coefficients
        return Ridge(self.mean, self.scale, whole, level - centre @ coefficients)


class RidgeTable(NamedTuple):
    """The sums over rows that a ridge is fitted from; tables of disjoint rows add up."""

    n: int
    columns: Floats
    labels: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of(cls, rows: Floats, labels: Floats) -> Self:
        """Sum over rows."""
        return cls(len(rows), rows.sum(axis=0), labels.sum(axis=0), rows.T @ rows, rows.T @ labels)

    def path(self, mean: Floats | float = 0.0) -> RidgePath:
        """Decompose the sums; labels may have been given about some ``mean``."""
        return RidgePath(self, mean)


class RidgePath:
    """Ridge regressions of all penalties, about any coefficients, from one decomposition."""

    def __init__(self, table: RidgeTable, mean: Floats | float = 0.0) -> None:
        from scipy.linalg import eigh

        self.centre, level = table.columns / table.n, table.labels / table.n
        self.level = level + mean
        self._squares = table.squares - np.outer(table.columns, self.centre)
        self._products = table.products - np.outer(table.columns, level)
        values, self._vectors = eigh(self._squares, driver="evd")
        self._values = np.maximum(values, 0.0)

    def towards(self, start: Floats | None = None) -> Callable[[float], Floats]:
        """Return a function from a penalty to the coefficients, as differences from ``start`` or from 0."""
        slope = self._products if start is None else self._products - self._squares @ start
        image = self._vectors.T @ slope
        return lambda penalty: self._vectors @ (image / (self._values + penalty)[:, None])


def _wide(features: Floats) -> Floats:
    k, n, d = features.shape
    return np.ascontiguousarray(features.transpose(1, 0, 2)).reshape(n, k * d)
