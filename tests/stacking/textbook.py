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
    """Fit on some rows; predict any. Features with a prior are of models, whose actions are on the simplex."""
    if not world.prior.any():
        features, labels = world.features[:, rows], world.labels[rows]
        weights, centre = textbook_weights(features, labels, world.prior, pull * len(rows)), features.mean(axis=1)
        return lambda new: np.asarray(labels.mean(axis=0) + np.tensordot(weights, new - centre[:, None], 1))
    actions = np.stack([np.eye(each.shape[1])[each.argmax(axis=1)] for each in world.features])
    return decision_stack(world.features[:, rows], world.labels[rows], actions[:, rows], pull * len(rows))[1]


def decision_weights(features: Floats, labels: Floats, actions: Floats) -> Floats:
    """Non-negative least squares of what differences between actions were worth, held to equal weights; sum 1."""
    k = len(features)
    said, truth = features - features.mean(axis=1, keepdims=True), labels - labels.mean(axis=0)
    apart = actions - actions.mean(axis=0)
    columns = np.stack([(apart * each).sum(axis=2).ravel() for each in said], axis=1)
    pseudo = np.sqrt(0.1 * np.square(columns).sum() / k or 1.0) * np.eye(k)
    goal = np.concatenate([(apart * truth).sum(axis=2).ravel(), pseudo @ np.full(k, 1 / k)])
    weights = nnls(np.vstack([columns, pseudo]), goal)[0]
    return np.asarray(weights / weights.sum()) if weights.any() else np.full(k, 1 / k)


def decision_stack(
    features: Floats, labels: Floats, actions: Floats, pull: float
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """A weighted average of models, stretched about the labels' level; what it misses is made good if not noise."""
    n, shares = len(labels), decision_weights(features, labels, actions)
    average = np.tensordot(shares, features, 1)
    moves, truth = average - average.mean(axis=0), labels - labels.mean(axis=0)
    stretch = max(float(((moves * truth).sum() + pull) / (np.square(moves).sum() + pull)), 0.0)
    bias = labels.mean(axis=0) - average.mean(axis=0)
    noise = np.square(truth - stretch * moves).sum() / (n * (n - 1))
    kept = max(1 - noise / np.square(bias).sum(), 0.0) if bias.any() else 0.0
    level = labels.mean(axis=0) - (1 - kept) * stretch * bias

    def predict(new: Floats) -> Floats:
        return np.asarray(level + stretch * (np.tensordot(shares, new, 1) - average.mean(axis=0)))

    return stretch * shares, predict


def wide(features: Floats) -> Floats:
    return np.concatenate(list(features), axis=1)


def standardised(features: Floats) -> Floats:
    return np.asarray(StandardScaler().fit_transform(wide(features)))
