"""Members' features and labels, and textbook stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from sklearn.preprocessing import StandardScaler

from tests.problems import Floats

Rows = npt.NDArray[np.int64]


@dataclass
class World:
    """Members' features (k, n, d), and labels (n, d) that they know something of."""

    features: Floats
    labels: Floats
    prior: Floats


def make_world(seed: int, k: int = 3, n: int = 150, d: int = 4, specialised: bool = False) -> World:
    """Members that all see everything, dimly; or each its own coordinates, scaled wrongly."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, d))
    labels = 2.0 + signal + rng.normal(scale=0.5, size=(n, d))
    if specialised:
        sees = (np.arange(d) % k)[None] == np.arange(k)[:, None]
        features = np.where(sees[:, None], 0.4 * signal, rng.normal(size=(k, n, d)))
    else:
        features = signal + rng.normal(size=(k, n, d)) * rng.uniform(0.3, 1.5, size=(k, 1, 1))
    return World(features, labels, np.full(k, 1 / k))


def textbook_weights(features: Floats, labels: Floats, prior: Floats, pull: float) -> Floats:
    """Non-negative least squares on centred rows, with ``pull`` pseudo-rows that say the prior."""
    columns = (features - features.mean(axis=1, keepdims=True)).reshape(len(features), -1).T
    pseudo = np.sqrt(pull) * np.eye(len(prior))
    rows = np.vstack([columns, pseudo])
    target = np.concatenate([(labels - labels.mean(axis=0)).ravel(), pseudo @ prior])
    return np.asarray(nnls(rows, target)[0])


def textbook_pull(features: Floats) -> float:
    """A tenth of the variance over rows that a member's column has on average."""
    columns = wide(features)
    return 0.1 * float(np.mean([column.var() for column in columns.T]))


def textbook_stack(world: World, rows: Rows, pull: float) -> Callable[[Floats], Floats]:
    """Fit on some rows; predict any."""
    features, labels = world.features[:, rows], world.labels[rows]
    weights = textbook_weights(features, labels, world.prior, pull * len(rows))

    def predict(new: Floats) -> Floats:
        moved = new - features.mean(axis=1, keepdims=True)
        return np.asarray(labels.mean(axis=0) + sum(w * f for w, f in zip(weights, moved, strict=True)))

    return predict


def wide(features: Floats) -> Floats:
    return np.concatenate(list(features), axis=1)


def standardised(features: Floats) -> Floats:
    return np.asarray(StandardScaler().fit_transform(wide(features)))
