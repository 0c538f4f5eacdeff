"""Warnings about suspicious data: unusual scales, columns out of order, sets without constraints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.feasible import FeasibleSet

_SUSPICIOUS = 0.2
"""Least difference of correlations at which a column seems to belong to another label."""

_OUT_OF_SCALE = 10
_FAR = 10.0  # variances
_SLACK = 1e-6


def find_data_warnings(
    predictions: dict[str, Floats], actions: dict[str, Floats], labels: Floats, omega: FeasibleSet
) -> Iterator[str]:
    """Yield a sentence for each suspicious property of the predictions and the set, which is bound to the rows."""
    for name, predicted in predictions.items():
        yield from (f"model {name}: {warning}" for warning in _model_warnings(predicted, labels, omega))
    spec = omega.spec() or {}
    linear = "A_ub" in spec and "covariance" not in spec
    if linear and spec["A_ub"] is None and spec["A_eq"] is None:
        yield "[feasible] has no constraint beside its bounds: every decision between them is feasible. Is that right?"
    if all(np.ptp(action, axis=0).max() == 0 for action in actions.values()):
        yield "every member decides the same in all rows: there is nothing to decide. Check [feasible] and the sense"


def _model_warnings(predicted: Floats, labels: Floats, omega: FeasibleSet) -> Iterator[str]:
    if (
        np.ptp(predicted, axis=0).max() > 0
        and (omega.violation(np.ascontiguousarray(predicted)) <= _SLACK * omega.extent).all()
    ):
        yield "its columns are feasible decisions in every row. If they are decisions, list them in [policies]"
        return
    size, true = (float(np.sqrt(np.square(each).mean())) for each in (predicted, labels))
    if size > _OUT_OF_SCALE * true or _OUT_OF_SCALE * size < true:
        way = "large" if size > true else "small"
        yield f"its predictions are more than {_OUT_OF_SCALE} times as {way} as the labels. Check units and outliers"
    elif np.square(predicted - labels).mean() > _FAR * max(float(labels.var(axis=0).mean()), np.finfo(float).tiny):
        yield "its errors are far larger than the spread of the labels. Check columns and outliers"
    elif labels.shape[1] > 1:
        table = _correlations(predicted, labels)
        own, best = np.diag(table), table.max(axis=1)
        if (best - own > _SUSPICIOUS).mean() > 0.5:
            yield "most of its columns correlate better with other labels than with their own. Check their order"


def _correlations(predicted: Floats, labels: Floats) -> Floats:
    """Return the correlations of the predictions of each label with every label."""
    left, right = (each - each.mean(axis=0) for each in (predicted, labels))
    with np.errstate(divide="ignore", invalid="ignore"):
        table = left.T @ right / np.outer(np.sqrt(np.square(left).sum(axis=0)), np.sqrt(np.square(right).sum(axis=0)))
    return np.asarray(np.nan_to_num(table))
