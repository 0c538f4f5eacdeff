"""Forecasts out of forecasts: a stack with shared weights, and a ridge on everything the members say.

Members speak through *features* of shape (k, n, d): the predictions of a model; the actions of a policy, times the
labels' standard deviations. Arrays in, arrays out; nothing here sees Ω.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.stats.sampling import Sampling

PULL = 0.1
"""Pseudo-rows, as a share of the rows, that pull the weights of a stack towards their prior."""

STRENGTHS = tuple(10.0**power for power in range(7))
"""Strengths of a ridge to choose from."""


@dataclass(frozen=True)
class Stack:
    """``level + Σ w_m·(F_m − centre_m)``: one weight for each member, shared by all coordinates."""

    weights: Floats
    centre: Floats
    level: Floats

    def __call__(self, features: Floats) -> Floats:
        """Return the stacked predictions, of shape (n, d)."""
        offset = self.level - np.tensordot(self.weights, self.centre, 1)
        return np.asarray(np.tensordot(self.weights, features, 1) + offset)

    def about(self, centre: Floats, level: Floats) -> Stack:
        """Return the same stack where features and labels were given about these middles."""
        return Stack(self.weights, self.centre + centre, self.level + level)


class StackTable(NamedTuple):
    """All that a stack needs to know of rows; the tables of parts of the rows add up.

    Features and labels are to be given about their middles, where sums of squares lose no digits. These are sums over
    the rows of the features (k, d), of the labels (d,), and over rows and coordinates of the products of features with
    each other (k, k) and with the labels (k,).
    """

    n: int
    features: Floats
    labels: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of(cls, features: Floats, labels: Floats) -> Self:
        """Sum over rows."""
        flat = features.reshape(len(features), -1)
        return cls(labels.shape[0], features.sum(axis=1), labels.sum(axis=0), flat @ flat.T, flat @ labels.ravel())

    def fit(self, prior: Floats, pull: float) -> Stack:
        """Fit non-negative weights by least squares on centred features, pulled by ``pull`` rows towards ``prior``."""
        from scipy.linalg import cholesky, solve_triangular
        from scipy.optimize import nnls

        centre, level = self.features / self.n, self.labels / self.n
        normal = self.squares - self.features @ centre.T + pull * np.eye(len(prior))
        target = self.products - self.features @ level + pull * prior
        root = cholesky(normal, lower=True)
        weights, _ = nnls(root.T, solve_triangular(root, target, lower=True))
        return Stack(weights, centre, level)


def fit_stack(features: Floats, labels: Floats, prior: Floats) -> Stack:
    """Fit a stack on all rows.

    >>> rng = np.random.default_rng(0)
    >>> good, bad = rng.normal(size=(2, 1000, 3))
    >>> fit_stack(np.stack([good, bad]), 5 + good, prior=np.array([0.5, 0.5])).weights.round(2).tolist()
    [0.98, 0.02]
    """
    middles = features.mean(axis=1), labels.mean(axis=0)
    table = StackTable.of(features - middles[0][:, None], labels - middles[1])
    return table.fit(prior, stack_pull(features) * len(labels)).about(*middles)


def stack_pull(features: Floats) -> float:
    """Return what a row's share of the pull towards the prior weighs, in the features' units.

    Where they hardly vary it is so much more than rounding that rounding is not taken for a signal.
    """
    rounding = 1e-9 * float(np.abs(features).max(initial=0.0))
    return PULL * max(float(features.var(axis=1).mean()), rounding**2, np.finfo(np.float64).tiny)


def blend_weights(forecasts: Floats, labels: Floats) -> Floats:
    """Return non-negative weights, summing to 1, of forecasts (e, n, d) of the same labels, pulled to equal ones.

    >>> rng = np.random.default_rng(0)
    >>> labels, noise = rng.normal(size=(2, 1000, 3))
    >>> blend_weights(np.stack([labels, labels + noise]), labels).round(2).tolist()
    [0.98, 0.02]
    """
    count, middle = len(forecasts), forecasts.mean(axis=0)
    apart = (forecasts - middle).reshape(count, -1)
    normal = apart @ apart.T
    normal += PULL * (np.trace(normal) / count or 1.0) * np.eye(count)
    weights = np.maximum(1 / count + np.linalg.solve(normal, apart @ (labels - middle).ravel()), 0.0)
    return np.asarray(weights / weights.sum())


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
    """All that a ridge needs to know of rows; the tables of parts of the rows add up."""

    n: int
    columns: Floats
    labels: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of(cls, rows: Floats, labels: Floats) -> Self:
        """Sum over rows."""
        return cls(len(rows), rows.sum(axis=0), labels.sum(axis=0), rows.T @ rows, rows.T @ labels)

    def path(self, middle: Floats | float = 0.0) -> RidgePath:
        """Decompose what was summed; labels may have been given about some ``middle``."""
        return RidgePath(self, middle)


class RidgePath:
    """Ridge regressions of all strengths, pulled to any coefficients, from one decomposition."""

    def __init__(self, table: RidgeTable, middle: Floats | float = 0.0) -> None:
        from scipy.linalg import eigh

        self.centre, level = table.columns / table.n, table.labels / table.n
        self.level = level + middle
        self._squares = table.squares - np.outer(table.columns, self.centre)
        self._products = table.products - np.outer(table.columns, level)
        values, self._vectors = eigh(self._squares, driver="evd")
        self._values = np.maximum(values, 0.0)

    def towards(self, start: Floats | None = None) -> Callable[[float], Floats]:
        """Return a function from a strength to how far the coefficients go from where they are pulled to, or from 0."""
        slope = self._products if start is None else self._products - self._squares @ start
        image = self._vectors.T @ slope
        return lambda strength: self._vectors @ (image / (self._values + strength)[:, None])


def _wide(features: Floats) -> Floats:
    k, n, d = features.shape
    return np.ascontiguousarray(features.transpose(1, 0, 2)).reshape(n, k * d)


Table = TypeVar("Table", StackTable, RidgeTable)


def without(tables: Sequence[Table], left_out: int | None = None) -> Table:
    """Add tables up, all or all but one."""
    kept = [table for number, table in enumerate(tables) if number != left_out]
    return type(tables[0])(*(sum(parts[1:], start=parts[0]) for parts in zip(*kept, strict=True)))


def squared_loss(labels: Floats, predictions: Floats) -> Floats:
    """Return ``‖y − h‖²`` of every row."""
    return np.asarray(np.square(labels - predictions).sum(axis=1))


@dataclass(frozen=True)
class Gate:
    """Whether something may come in: only if it lowers the out-of-fold loss by enough standard errors.

    Attributes
    ----------
    gain, error
        By how much the loss falls, and the paired standard error of that.
    needed
        How many standard errors it takes.
    """

    gain: float
    error: float
    needed: float

    @property
    def open(self) -> bool:
        """Say whether it comes in."""
        return self.gain > self.needed * self.error

    def __str__(self) -> str:
        if self.gain <= 0:
            return "the out-of-fold loss did not fall"
        ratio = self.gain / self.error if self.error > 0 else 0.0
        return f"the out-of-fold loss fell by {ratio:.1f} standard errors; more than {self.needed:g} are needed"


def judge(before: Floats, after: Floats, sampling: Sampling) -> Gate:
    """Compare two losses row by row: one standard error must be beaten; in time order, where tomorrow differs, two."""
    gain = before - after
    return Gate(float(gain.mean()), sampling.error(gain), 2.0 if sampling.time_ordered else 1.0)
