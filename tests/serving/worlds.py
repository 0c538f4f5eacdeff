"""A small ensemble in service, and requests to it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import optensemble as oe

D, N, M = 3, 300, 2000
LABELS = [f"y_{name}" for name in ("air", "rail", "sea")]
COLUMNS = [f"{model}_{j}" for model in ("a", "b") for j in range(D)]


@cache
def world() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and their labels."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(N + M, D))
    said = [signal + rng.normal(scale=scale, size=signal.shape) for scale in (0.3, 0.5)]
    labels = signal + rng.normal(scale=0.5, size=signal.shape)
    return pd.DataFrame(np.hstack(said), columns=COLUMNS), pd.DataFrame(labels, columns=LABELS)


@cache
def ensemble() -> oe.DecisionEnsemble:
    """Fitted on the first rows; shared, so it must not be changed."""
    X, Y = world()
    models = [(model, oe.Columns([f"{model}_{j}" for j in range(D)])) for model in ("a", "b")]
    return oe.DecisionEnsemble(models, feasible=oe.feasible.Simplex(D)).fit(X[:N], Y[:N])


def rows(*places: int) -> list[dict[str, float]]:
    """Rows after those of the fit, as JSON has them."""
    found: list[Any] = world()[0].iloc[[N + place for place in places]].to_dict("records")
    return found


def labels(*places: int) -> list[dict[str, float]]:
    """Their labels."""
    found: list[Any] = world()[1].iloc[[N + place for place in places]].to_dict("records")
    return found
