"""A stack of forecasts: one non-negative weight for each member, shared by all coordinates.

Members enter as *features* of shape (k, n, d): the predictions of a model; the actions of a policy, times the labels'
standard deviations. Arrays in, arrays out; nothing here sees Ω.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.sums import Sums
from optensemble.stacking.ridge import shift

PRIOR_SHARE = 0.1
"""Pseudo-rows, as a share of the rows, that hold the weights of a stack to their prior."""


@dataclass(frozen=True)
class Stack:
    """``level + Σ w_m·(F_m − centre_m)``: one weight for each member, shared by all coordinates."""

    weights: Floats
    centre: Floats
    level: Floats

    def __call__(self, features: Floats, room: Floats | None = None) -> Floats:
        """Return the stacked predictions, of shape (n, d), in ``room`` if there is any."""
        k, n, d = features.shape
        found = np.empty((n, d)) if room is None else room
        np.dot(self.weights[None], features.reshape(k, n * d), out=found.reshape(1, n * d))
        shift(found, self.level - np.dot(self.weights[None], self.centre)[0])
        return found

    def about(self, centre: Floats, level: Floats) -> Stack:
        """Return the same stack where features and labels were given about these means."""
        return Stack(self.weights, self.centre + centre, self.level + level)


class StackTable(NamedTuple):
    """The sums over rows that a stack is fitted from; tables of disjoint rows add up.

    Features and labels are to be given about their means, where sums of squares lose no digits. These are sums over
    the rows of the features (k, d), of the labels (d,), and over rows and coordinates of the products of features with
    each other (k, k) and with the labels (k,), and of the squares of labels.
    """

    n: int
    features: Floats
    labels: Floats
    squares: Floats
    products: Floats
    label_squares: float = 0.0

    def fit(self, prior: Floats, strength: float) -> Stack:
        """Fit non-negative weights by least squares on centred features, held to ``prior`` by ``strength``."""
        centre, level = self.features / self.n, self.labels / self.n
        normal = self.squares - self.features @ centre.T + strength * np.eye(len(prior))
        target = self.products - self.features @ level + strength * prior
        return Stack(solve_non_negative(normal, target), centre, level)

    def scale(self, weights: Floats, beyond: Floats, strength: float) -> Stack:
        """Return the stack of weights that sum to 1: how far it moves and at which level is learned by least squares.

        It moves about the labels' level. What members then miss on average is made good as far as it is more than
        noise: an intercept for every label costs more than it is worth where members are right on average (the positive
        part of James and Stein's estimate). Where members say nothing, and the scale is 0, the mean label is left:
        their own level would tell of all labels that they were fitted on, those of the rows to be judged among them.

        Parameters
        ----------
        weights
            Of members.
        beyond
            By how much the point about which labels are given is beyond that of each member, (k, d).
        strength
            Holds the scale to 1.
        """
        centre, level = self.features / self.n, self.labels / self.n
        spread = float(weights @ (self.squares - self.features @ centre.T) @ weights)
        product = float(weights @ (self.products - self.features @ level))
        scale = max((product + strength) / (spread + strength), 0.0)
        varied = float(self.label_squares - self.labels @ level)
        missed = max(varied - 2 * scale * product + scale**2 * spread, 0.0)
        bias = level + weights @ (beyond - centre)
        noise, size = missed / (self.n * max(self.n - 1, 1)), float(bias @ bias)
        noisy = min(noise / size, 1.0) if size > 0 else 1.0
        return Stack(scale * weights, centre, level - noisy * scale * bias)


def solve_non_negative(normal: Floats, target: Floats) -> Floats:
    """Return the non-negative solution of least squares with these normal equations."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    root = cholesky(normal, lower=True)
    weights, _ = nnls(root.T, solve_triangular(root, target, lower=True))
    return np.asarray(weights)


def decision_weights(squares: Floats, products: Floats, rounding: float) -> Floats:
    """Return non-negative weights of models, summing to 1, by what they say of the differences between actions.

    Least squares of what differences were worth, held to equal weights. What all actions have in common does not count:
    a model that is right about what never matters, or wrong about it, is not weighted by that. Differences are between
    actions that models think well of, and so are worth less than they say: how much less is not learned here.

    Parameters
    ----------
    squares, products
        Sums of products of the models' worths with each other (k, k), and with the realised ones (k,).
    rounding
        The sum of squares that may be rounding.

    Examples
    --------
    >>> decision_weights(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.6, 0.1]), 1e-12).round(2).tolist()
    [0.81, 0.19]
    """
    count = len(products)
    pull = PRIOR_SHARE * max(float(np.trace(squares)) / count, rounding)
    weights = solve_non_negative(squares + pull * np.eye(count), products + pull / count)
    return weights / weights.sum() if weights.any() else np.full(count, 1 / count)


@dataclass(frozen=True)
class BlendSums(Sums):
    """The sums that a blend of forecasts is fitted from: products of what sets each apart from their mean.

    ``squares`` (e, e) are with each other, ``products`` (e,) with what the mean forecast misses.
    """

    squares: Floats
    products: Floats

    @classmethod
    def of(cls, forecasts: Floats, labels: Floats, weights: Floats | None = None) -> Self:
        """Sum over rows and coordinates of forecasts (e, n, d) of the same labels."""
        centre = forecasts.mean(axis=0)
        beyond = forecasts - centre
        apart = beyond.reshape(len(forecasts), -1)
        weighted = apart if weights is None else (beyond * weights[:, None]).reshape(len(forecasts), -1)
        return cls(weighted @ apart.T, weighted @ (labels - centre).ravel())

    def weights(self) -> Floats:
        """Return non-negative weights, summing to 1, held to equal ones.

        >>> rng = np.random.default_rng(0)
        >>> labels, noise = rng.normal(size=(2, 1000, 3))
        >>> BlendSums.of(np.stack([labels, labels + noise]), labels).weights().round(2).tolist()
        [0.98, 0.02]
        """
        count = len(self.products)
        normal = self.squares + PRIOR_SHARE * (np.trace(self.squares) / count or 1.0) * np.eye(count)
        weights = np.maximum(1 / count + np.linalg.solve(normal, self.products), 0.0)
        return np.asarray(weights / weights.sum())


def average_weights(members: int, models: int) -> Floats:
    """Return the weights of a stack without data: the average of the predictions of the first ``models`` members."""
    weights = np.zeros(members)
    weights[:models] = 1 / max(models, 1)
    return weights


def squared_loss(labels: Floats, predictions: Floats) -> Floats:
    """Return ``‖y − h‖²`` of every row."""
    return np.asarray(np.square(labels - predictions).sum(axis=1))
