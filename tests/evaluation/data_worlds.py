"""Worlds of honest data: labels, models that know some of them, and policies that follow such models."""

from __future__ import annotations

from typing import Any

import numpy as np

from optensemble import feasible
from optensemble.evaluation.data_sample import DataSample
from tests.problems import Floats

SETS = ("simplex", "knapsack", "polytope", "top_k", "box")


def make_set(kind: str, d: int, rng: np.random.Generator) -> feasible.FeasibleSet:
    if kind == "simplex" and d > 1:
        return feasible.Simplex(d)
    if kind == "top_k" and d > 1:
        return feasible.TopK(d, max(1, d // 3))
    if kind == "knapsack":
        return feasible.Knapsack(rng.uniform(0.5, 1.5, size=d), 0.4 * d)
    if kind == "polytope":
        return feasible.Polytope(A_ub=[[1.0] * d], b_ub=[0.45 * d])
    return feasible.Box([-1.0] * d, [1.0] * d)


def autocorrelated(n: int, d: int, share: float, rng: np.random.Generator) -> Floats:
    """Series of variance 1, each value being ``share`` of the one before and news."""
    news = rng.normal(size=(n, d)) * np.sqrt(1 - share**2)
    values = np.empty((n, d))
    values[0] = rng.normal(size=d)
    for t in range(1, n):
        values[t] = share * values[t - 1] + news[t]
    return values


def honest_world(seed: int) -> DataSample:
    """A world without a mistake, of any kind: small or large, calm or not, in time order or not, costs or payoffs."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([60, 120, 400, 3000])), int(rng.integers(1, 9))
    omega, sign = make_set(str(rng.choice(SETS)), d, rng), float(rng.choice([1.0, -1.0]))
    share, common = rng.choice([0.0, 0.0, 0.3, 0.6, 0.9]), rng.choice([0.0, 0.8])
    signal = np.sqrt(1 - common) * autocorrelated(n, d, share, rng)
    signal += np.sqrt(common) * autocorrelated(n, 1, share, rng) * rng.uniform(0.3, 1.0, size=d)
    levelled = isinstance(omega, (feasible.Simplex, feasible.TopK))  # elsewhere a level would leave nothing to decide
    unit, level = 10.0 ** rng.integers(-3, 4), rng.choice([0.0, 3.0]) if levelled else 0.0
    rough = np.exp(0.7 * rng.normal(size=(n, 1))) if rng.random() < 0.5 else 1.0  # some rows are harder to foretell
    known = rng.uniform(0.05, 0.98)  # the share of variance that the best model knows
    noise = rough * np.sqrt(1 / known - 1) * autocorrelated(n, d, share, rng) * signal.std()
    labels, predictions = unit * (level + signal + noise), dict[str, Floats]()
    for i in range(int(rng.integers(1, 6))):
        blind = np.where(rng.random(d) < 0.2 * i, 0.0, 1.0)  # coordinates that a model knows nothing of, save one
        blind[i % d] = 1.0
        own = signal + rng.uniform(0.1, 0.3) * i * rng.normal(size=(n, d)) * signal.std()
        predictions[f"m{i}"] = unit * (level + blind * own)
    if share:
        predictions["naive"] = np.concatenate([labels[:1], labels[:-1]])
    actions = {name: omega.argmax(sign * said) for name, said in predictions.items()}
    for i in range(int(rng.integers(0, 3))):
        doubted = predictions["m0"] + (0.5 + i) * rng.normal(size=(n, d)) * labels.std()
        actions[f"p{i}"] = omega.argmax(sign * doubted)
    return DataSample(predictions, actions, labels, omega, sign)


def small_world(n: int = 600, d: int = 3, known: float = 0.7, **changes: Any) -> DataSample:
    """One honest model and one honest policy on a simplex; labels about 5."""
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(n, d))
    labels = 5 + signal + np.sqrt(1 / known - 1) * rng.normal(size=(n, d))
    omega = feasible.Simplex(d)
    said = 5 + signal
    plan = omega.argmax(signal + rng.normal(size=(n, d)))
    given: dict[str, Any] = {"labels": labels, "omega": omega, "label_names": [f"y{j}" for j in range(d)]}
    return DataSample({"a": said}, {"a": omega.argmax(said), "plan": plan}, **{**given, **changes})
