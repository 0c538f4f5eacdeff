"""Estimators that tell what they were fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tests.problems import Floats


class Remembers(BaseEstimator):  # type: ignore[misc]
    """Says, of each label, whether a row of the same first number was among those it was fitted on."""

    def __init__(self, labels: int = 2) -> None:
        self.labels = labels

    def fit(self, X: Any, Y: Any) -> Remembers:
        self.seen_ = np.asarray(X)[:, 0]
        return self

    def predict(self, X: Any) -> Floats:
        return np.repeat(np.isin(np.asarray(X)[:, 0], self.seen_)[:, None], self.labels, axis=1).astype(np.float64)


class Nearest(Remembers):
    """Says how far a row's first number is from the nearest one it was fitted on."""

    def predict(self, X: Any) -> Floats:
        apart = np.abs(np.asarray(X)[:, :1] - self.seen_[None, :]).min(axis=1)
        return np.repeat(apart[:, None], self.labels, axis=1)


class Before(Remembers):
    """Says whether a row comes after all that it was fitted on."""

    def predict(self, X: Any) -> Floats:
        return np.repeat((np.asarray(X)[:, :1] > self.seen_.max()).astype(np.float64), self.labels, axis=1)


class PlainPolicy:
    """A policy that is no estimator of scikit-learn's: decides by least squares."""

    def __init__(self, omega: Any) -> None:
        self.omega = omega

    def fit(self, X: Any, Y: Any) -> PlainPolicy:
        self.slopes_ = np.linalg.lstsq(X, Y, rcond=None)[0]
        return self

    def decide(self, X: Any) -> Floats:
        return np.asarray(self.omega.argmax(np.ascontiguousarray(X @ self.slopes_)))
