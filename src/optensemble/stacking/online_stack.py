"""A stack that learns row by row and forgets: ridge regression on what members say, robust to single extreme labels.

``ȳ + (a − ā) + Σ w_j·(f_j − f̄_j)``, with ``a`` the mean of the models and ``f`` that mean and what sets each member
apart from it; means and weights are exponentially weighted, and weights are shared by all coordinates. Without models
there is no ``a``, and ``f`` are the policies' actions, in units of the labels. ``f − f̄`` is cut off where it is far
beyond its usual size, so that a single absurd forecast neither decides nor teaches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner
from optensemble.members.outputs import MemberOutputs

MEMORY = 100.0
"""Rows after which a row counts for a third: long enough to learn weights, short enough to follow a break."""

_RIDGE = 20.0  # rows: what holds the weights to 0, which is the mean of the models
_CLIP = 4.0  # mean absolute deviations: a label further off counts as if it were there (a price spike)
_FAR = 5.0  # times what sets features apart: a coordinate further off counts as if it were there (an absurd forecast)
_UNCLIPPED = 20  # rows: before, nothing is known of deviations
_DEVIATIONS = 200.0  # rows: the memory of their size
_LARGER = 1.1  # clipped deviations are smaller than deviations are
_SOLVED_TOGETHER = 16  # rows that come together share weights: a solve takes longer than all else


def stack_features(outputs: MemberOutputs, scale: Floats) -> Floats:
    """Return what is regressed on, of shape (n, features, d), NaN where a member is absent."""
    models, absent = outputs.models, outputs.absent
    found = np.empty((outputs.count, len(outputs.actions) + (models > 0), outputs.actions.shape[2]))
    if models:
        found[:, 0] = outputs.average
        set_apart(outputs.predictions, found)
    own = found[:, models > 0 :].transpose(1, 0, 2)
    if len(own) > models:
        own[models:] = outputs.actions[models:] * scale
    if absent is not None:
        own[absent] = np.nan
        if models:
            found[absent[:models].all(axis=0), 0] = np.nan
    return found


@njit(cache=True, nogil=True)
def set_apart(predictions, features):  # type: ignore[no-untyped-def]
    """Write what sets each model apart from their mean, the first feature, into the next ones."""
    models, n, d = predictions.shape
    for i in range(n):
        for m in range(models):
            for j in range(d):
                features[i, m + 1, j] = predictions[m, i, j] - features[i, 0, j]


@dataclass(frozen=True, eq=False)
class OnlineStack:
    """A stack as it stands after some rows.

    Attributes
    ----------
    weights
        Of the features, beyond the mean of the models.
    products, targets
        The sums that weights are solved from, of shape (features, features) and (features,).
    level, centre
        The means of labels (d,) and of features (features, d).
    deviation
        The mean absolute deviation of each label from its forecast.
    seen
        The number of rows in which each feature was there, and last that of all rows, each as often as it counts.
    size
        The mean square of a feature about its mean, summed over coordinates: the unit of the ridge.
    models
        Whether the first feature is the mean of models.
    """

    weights: Floats
    products: Floats
    targets: Floats
    level: Floats
    centre: Floats
    deviation: Floats
    seen: Floats
    size: Floats
    models: bool

    @classmethod
    def begin(cls, features: int, d: int, *, models: bool) -> Self:
        """Return a stack that has seen no row: the mean of the models, where there are any."""
        return cls(
            weights=np.zeros(features),
            products=np.zeros((features, features)),
            targets=np.zeros(features),
            level=np.zeros(d),
            centre=np.zeros((features, d)),
            deviation=np.zeros(d),
            seen=np.zeros(features + 1),
            size=np.zeros(1),
            models=models,
        )

    @property
    def begun(self) -> bool:
        """Whether it has seen a row."""
        return bool(self.seen[-1] > 0)

    def __call__(self, features: Floats) -> Floats:
        """Return the forecast of some rows, of shape (n, d)."""
        if not self.begun:
            return np.nan_to_num(features[:, 0]) if self.models else np.zeros((len(features), len(self.level)))
        found = np.empty((len(features), len(self.level)))
        limit = farthest(self.seen[-1], self.size[0])
        learned = self.weights, self.level, self.centre, self.seen
        forecast(np.ascontiguousarray(features), *learned, limit, self.models, found)
        return found

    def learn(self, features: Floats, labels: Floats, counts: Floats) -> Self:
        """Return the stack after further rows, each of which counts for a number of rows."""
        arrays = {each.name: getattr(self, each.name).copy() for each in fields(self) if each.name != "models"}
        follow(np.ascontiguousarray(features), np.ascontiguousarray(labels), counts, self.models, *arrays.values())
        return replace(self, **arrays)


@njit(cache=True, nogil=True)
def forecast(  # type: ignore[no-untyped-def]
    features, weights, level, centre, seen, limit, models, found
):
    """Write the forecast of every row; a feature that is not there counts as its mean.

    Nothing is made of a feature that never was there; a mean of the models that never was is the forecast's level.
    """
    n, count, d = features.shape
    for i in range(n):
        for j in range(d):
            first = models and seen[0] == 0.0 and features[i, 0, j] == features[i, 0, j]
            found[i, j] = features[i, 0, j] if first else level[j]
            for f in range(count):
                apart = features[i, f, j] - centre[f, j]
                if seen[f] > 0.0 and apart == apart:
                    apart = min(max(apart, -limit), limit)
                    found[i, j] += (weights[f] + (1.0 if models and f == 0 else 0.0)) * apart


@njit(cache=True, nogil=True)
def farthest(seen: float, size: float) -> float:
    """Return how far from its mean a coordinate of a feature may be."""
    return _FAR * math.sqrt(size) if seen >= _UNCLIPPED and size > 0.0 else math.inf


@inner
def step(seen: float, counts: float) -> float:
    """Return how far a mean of so many rows goes towards one that counts for a number of them."""
    return min(max(counts / MEMORY, counts / (seen + counts)), 1.0)


@njit(cache=True, nogil=True)
def follow(  # type: ignore[no-untyped-def]
    features, labels, counts, models, weights, products, targets, level, centre, deviation, seen, size
):
    """Add rows to a stack, in place; its weights are solved for again after some rows, and at the end."""
    n, count, d = features.shape
    keep, told = 1.0 - 1.0 / MEMORY, np.empty((1, d))
    apart, left = np.empty((count, d)), np.empty(d)
    for i in range(n):
        if counts[i] == 0.0:
            continue
        rows = seen[count]
        limit = farthest(rows, size[0])
        forecast(features[i : i + 1], weights, level, centre, seen, limit, models, told)
        for j in range(d):
            if rows == 0.0:
                told[0, j] = features[i, 0, j] if models and features[i, 0, j] == features[i, 0, j] else labels[i, j]
            missed = labels[i, j] - told[0, j]
            if rows >= _UNCLIPPED and deviation[j] > 0.0:
                missed = min(max(missed, -_CLIP * deviation[j]), _CLIP * deviation[j])
            if rows < _UNCLIPPED:
                deviation[j] += (abs(missed) - deviation[j]) * (counts[i] / (rows + counts[i]))
            else:
                deviation[j] += (_LARGER * abs(missed) - deviation[j]) * min(counts[i] / _DEVIATIONS, 1.0)
            left[j] = told[0, j] + missed - level[j]
        products *= keep ** counts[i]
        targets *= keep ** counts[i]
        squares = 0.0
        for f in range(count):
            there = features[i, f, 0] == features[i, f, 0]
            gain = step(seen[f], counts[i])
            for j in range(d):
                further = features[i, f, j] - centre[f, j] if there else 0.0
                apart[f, j] = min(max(further, -limit), limit) if seen[f] > 0.0 else 0.0  # its first row is its mean
                squares += apart[f, j] ** 2
                centre[f, j] += (apart[f, j] if seen[f] > 0.0 else further) * gain
            seen[f] += counts[i] * there
        gain = step(rows, counts[i])
        for j in range(d):
            beyond = left[j] - (apart[0, j] if models else 0.0)
            if rows == 0.0:
                beyond = 0.0  # there is no level yet to be apart from
            for f in range(count):
                targets[f] += counts[i] * apart[f, j] * beyond
                for g in range(count):
                    products[f, g] += counts[i] * apart[f, j] * apart[g, j]
            level[j] += left[j] * gain
        size[0] += (squares / count - size[0]) * (gain if size[0] > 0.0 else 1.0)
        seen[count] = rows + counts[i]
        if (i + 1) % _SOLVED_TOGETHER == 0:
            solve_weights(products, targets, size[0], weights)
    solve_weights(products, targets, size[0], weights)


@njit(cache=True, nogil=True)
def solve_weights(products: Floats, targets: Floats, size: float, weights: Floats) -> None:
    """Write the weights that follow from the sums, by Cholesky's factors: a ridge keeps the matrix definite."""
    count = len(targets)
    if size <= 0.0:
        return
    root = products.copy()
    for f in range(count):
        root[f, f] += _RIDGE * size
        for g in range(f + 1):
            found = root[f, g]
            for e in range(g):
                found -= root[f, e] * root[g, e]
            root[f, g] = np.sqrt(max(found, 1e-12 * size)) if f == g else found / root[g, g]
    for f in range(count):
        found = targets[f]
        for e in range(f):
            found -= root[f, e] * weights[e]
        weights[f] = found / root[f, f]
    for f in range(count - 1, -1, -1):
        found = weights[f]
        for e in range(f + 1, count):
            found -= root[e, f] * weights[e]
        weights[f] = found / root[f, f]
