"""A member made of several estimators, one for each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats


class PerLabel:
    """Estimators of one output each, side by side: together a model of all labels.

    Parameters
    ----------
    models
        One fitted estimator for each label, in the order of the labels.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X, Y = np.zeros((3, 1)), np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    >>> PerLabel([DummyRegressor().fit(X, Y[:, j]) for j in range(2)]).predict(X[:1])
    array([[ 2., 20.]])
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = list(models)

    def predict(self, X: Any) -> Floats:
        """Return the prediction of every label, of shape (n, d)."""
        said = [np.asarray(model.predict(X), dtype=np.float64) for model in self.models]
        return np.stack([each.reshape(len(each)) for each in said], axis=1)

    def __repr__(self) -> str:
        return f"PerLabel({self.models!r})"
