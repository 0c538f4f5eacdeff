"""What looks wrong about data that could be right: told, and left to who knows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.feasible import FeasibleSet

_SUSPICIOUS = 0.2
"""By so much a column must go better with another label than with its own."""

_OUT_OF_SCALE = 10
_FAR = 10.0  # variances
_SLACK = 1e-6


def doubts(
    predictions: dict[str, Floats], actions: dict[str, Floats], labels: Floats, omega: FeasibleSet
) -> Iterator[str]:
    """Say what looks wrong: predictions, the set, or both."""
    for name, said in predictions.items():
        yield from (f"model {name}: {doubt}" for doubt in _of_model(said, labels, omega))
    spec = omega.spec() or {}
    linear = "A_ub" in spec and "covariance" not in spec
    if linear and spec["A_ub"] is None and spec["A_eq"] is None:
        yield "[feasible] has no constraint beside its bounds: every decision between them is allowed. Is that meant?"
    if all(np.ptp(action, axis=0).max() == 0 for action in actions.values()):
        yield "every member decides the same in all rows: nothing is left to decide. Check [feasible] and the sense"


def _of_model(said: Floats, labels: Floats, omega: FeasibleSet) -> Iterator[str]:
    if np.ptp(said, axis=0).max() > 0 and (omega.violation(np.ascontiguousarray(said)) <= _SLACK * omega.extent).all():
        yield "its columns are allowed decisions in every row. If they are decisions, they belong to [policies]"
        return
    size, true = (float(np.sqrt(np.square(each).mean())) for each in (said, labels))
    if size > _OUT_OF_SCALE * true or _OUT_OF_SCALE * size < true:
        way = "large" if size > true else "small"
        yield f"its predictions are more than {_OUT_OF_SCALE} times as {way} as the labels. Check units and outliers"
    elif np.square(said - labels).mean() > _FAR * max(float(labels.var(axis=0).mean()), np.finfo(float).tiny):
        yield "its predictions miss the labels by far more than these vary. Check columns and outliers"
    elif labels.shape[1] > 1:
        table = _correlations(said, labels)
        own, best = np.diag(table), table.max(axis=1)
        if (best - own > _SUSPICIOUS).mean() > 0.5:
            yield "most of its columns go better with other labels than their own. Check their order"


def _correlations(said: Floats, labels: Floats) -> Floats:
    """Return how predictions of each label go with every label."""
    left, right = (each - each.mean(axis=0) for each in (said, labels))
    with np.errstate(divide="ignore", invalid="ignore"):
        table = left.T @ right / np.outer(np.sqrt(np.square(left).sum(axis=0)), np.sqrt(np.square(right).sum(axis=0)))
    return np.asarray(np.nan_to_num(table))
