"""Rows observed after a promise, with something to find in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.promise import Promise
from optensemble.multicalibration.cell_names import CellName, Subgroup

Floats = npt.NDArray[np.float64]
N, K, D = 400, 3, 2


def promise(mean: float, low: float, high: float, rows: int = N) -> Promise:
    return Promise(mean, low, high, rows, low)


def cell_names(*titles: str) -> list[CellName]:
    return [CellName((Subgroup(title),)) for title in titles]


def observe(seed: int = 0, n: int = N, **changes: Any) -> AuditInputs:
    """Make up an ensemble of three arms and two rivals, on cells of two partitions."""
    rng = np.random.default_rng(seed)
    arms = 2 + rng.normal(size=(K, n))
    chosen = rng.choice(K, size=n, p=[0.7, 0.25, 0.05])
    realised = arms[chosen, np.arange(n)]
    observed = AuditInputs(
        promised=2.1 + 0.5 * rng.normal(size=n),
        realised=realised,
        interval=promise(2.1, 1.9, 2.3, n),
        names=["a", "b", "c"],
        chosen=chosen,
        arms=arms,
        rivals={"average": arms.mean(axis=0), "ridge": realised + rng.normal(0.1, 0.3, size=n)},
        residuals=rng.normal(size=(n, D)) * [1.0, 3.0],
        partitions=[
            (cell_names("low", "middle", "high"), rng.integers(3, size=n)),
            (cell_names("left", "right", "nowhere"), rng.integers(2, size=n)),
        ],
    )
    return replace(observed, **changes)


def student(values: Floats) -> tuple[float, float]:
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    return float(low), float(high)
