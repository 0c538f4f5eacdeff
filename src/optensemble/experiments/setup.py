"""Experiments A to D of the paper (Section 6): data, members and problem, with our choices where the paper has none.

======  ===============================  ==========================
name    members specialise               problem
======  ===============================  ==========================
A       by coordinate (that is, label)   simplex under a risk limit
B       by group                         simplex under a risk limit
C       by coordinate                    two linear constraints
D       by group                         two linear constraints
======  ===============================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from optensemble._core.arrays import Floats
from optensemble._core.validation import require_choice, require_number
from optensemble.exceptions import EmptySetError
from optensemble.experiments.settings import DESIGNS, NAMES, TREES
from optensemble.feasible import FeasibleSet, Polytope, RiskBudget

Predictor = Callable[[Floats], Floats]
"""From features, or a table of predictions, to predictions of all labels."""

TellShare = Callable[[float], None]
"""Takes the share of a piece of work that is done."""


FEATURES, LABELS, CATEGORIES = 19, 4, 5
RISK_LIMIT = 300.0
BOUND_01, BOUND_12 = 0.5, 0.6


def _new_trees(kind: str, **options: Any) -> Any:
    """Return gradient boosting: quick (histogram), or the paper's (exact)."""
    # takes a second to import, and is needed only to train
    from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor

    return (
        HistGradientBoostingRegressor(early_stopping=False, **options)
        if kind == "histogram"
        else GradientBoostingRegressor(**options)
    )


@dataclass(frozen=True)
class Experiment:
    """An experiment before debiasing.

    Attributes
    ----------
    models
        The members, by name, trained on rows of their own.
    feasible
        The constraints.
    draw
        ``draw(rows, seed)`` returns fresh features and labels of the same distribution.
    training
        The features and labels that the members were trained on.
    note
        The limits chosen where the paper leaves them open.
    """

    name: str
    models: list[tuple[str, Predictor]]
    feasible: FeasibleSet
    draw: Callable[[int, int], tuple[Floats, Floats]]
    training: tuple[Floats, Floats]
    note: str


def make_experiment(
    name: str,
    seed: int = 42,
    *,
    training_rows: int = 10_000,
    noise: float = 0.01,
    trees: str = "histogram",
    models: Sequence[tuple[str, Predictor]] | None = None,
    tell: TellShare = lambda share: None,
) -> Experiment:
    """Draw a distribution, train the members, and set the problem.

    Parameters
    ----------
    name
        ``"A"``, ``"B"``, ``"C"`` or ``"D"``. With the same seed all four share their data.
    seed
        Fixes the distribution, the training rows and the members.
    training_rows
        The number of rows that the members are trained on.
    noise
        The variance of the labels' noise.
    trees
        ``"histogram"`` or ``"exact"`` training of gradient boosted trees.
    models
        Members trained before with the same arguments: those of A serve C, those of B serve D.
    tell
        Called with the share of members trained.
    """
    require_choice(name, "the experiment", list(NAMES))
    require_choice(trees, "trees", list(TREES))
    require_number(noise, "noise", at_least=0)
    draw = _distribution(np.random.default_rng(seed), noise)
    X, Y = draw(training_rows, seed)
    if models is None:
        models = _TRAIN[DESIGNS[name].members](X, Y, trees, tell)
    if DESIGNS[name].limits == "linear":
        omega: FeasibleSet = Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[BOUND_01, BOUND_12])
        note = f"at most {BOUND_01:g} on labels 0 and 1, {BOUND_12:g} on labels 1 and 2"
    else:
        omega, note = _make_risk_budget(np.cov(Y.T))
    return Experiment(name, list(models), omega, draw, (X, Y), note)


def _distribution(rng: np.random.Generator, noise: float) -> Callable[[int, int], tuple[Floats, Floats]]:
    """Return a sampler: 19 normal features with random mean and covariance, one category, labels linear in all."""
    root = rng.uniform(-3, 3, size=(FEATURES, FEATURES))
    means = rng.uniform(-5, 5, size=FEATURES)
    slopes = rng.uniform(0, 1, size=(FEATURES + 1, LABELS))

    def draw(rows: int, seed: int) -> tuple[Floats, Floats]:
        fresh = np.random.default_rng([seed, rows])
        normal = fresh.normal(size=(rows, FEATURES)) @ root + means  # covariance rootᵀ·root
        X = np.column_stack([normal, fresh.integers(CATEGORIES, size=rows)])
        return X, X @ slopes + fresh.normal(scale=np.sqrt(noise), size=(rows, LABELS))

    return draw


def _make_risk_budget(covariance: Floats) -> tuple[RiskBudget, str]:
    """Return a risk limit of 300 if it separates safe from risky actions; otherwise one in between."""
    single = np.diag(covariance)
    least = _least_variance(covariance)
    if least < RISK_LIMIT < single.max():
        return RiskBudget(covariance, RISK_LIMIT), f"risk limit {RISK_LIMIT:g}"
    limit = float(least + single[single > least].min()) / 2
    why = "no action has a risk as low as" if least >= RISK_LIMIT else "every action has a risk below"
    return RiskBudget(covariance, limit), f"risk limit {limit:.4g} ({why} {RISK_LIMIT:g})"


def _least_variance(covariance: Floats) -> float:
    """Return the least ``a'Ca`` over the simplex."""
    try:
        return RiskBudget(covariance, RISK_LIMIT).least_variance
    except EmptySetError:
        return RiskBudget(covariance, float(np.diag(covariance).max())).least_variance


def _train(X: Floats, y: Floats, trees: str) -> Predictor:
    """Train gradient boosted trees on one label and return their predictor.

    On one thread: the result is the same to the last bit everywhere, and a busy machine does not slow it down.
    """
    regressor = _new_trees(trees, max_depth=6, learning_rate=0.1, random_state=0)
    with threadpool_limits(1):
        regressor.fit(X, y)

    def predict(X: Floats) -> Floats:
        with threadpool_limits(1):
            return np.asarray(regressor.predict(X))

    return predict


def _by_coordinate(X: Floats, Y: Floats, trees: str, tell: TellShare) -> list[tuple[str, Predictor]]:
    """Return members that each predict one label, and the mean of each other label."""
    mean = Y.mean(axis=0)

    def member(j: int) -> Predictor:
        known = _train(X, Y[:, j], trees)
        tell((j + 1) / LABELS)

        def predict(X: Floats) -> Floats:
            predictions = np.tile(mean, (len(X), 1))
            predictions[:, j] = known(X)
            return predictions

        return predict

    return [(f"label {j}", member(j)) for j in range(LABELS)]


def _by_group(X: Floats, Y: Floats, trees: str, tell: TellShare) -> list[tuple[str, Predictor]]:
    """Return members that each predict the rows of one category, and the mean elsewhere."""
    mean = Y.mean(axis=0)

    def member(group: int) -> Predictor:
        mine = X[:, -1] == group
        known = [_train(X[mine], Y[mine, j], trees) for j in range(LABELS)]
        tell((group + 1) / CATEGORIES)

        def predict(X: Floats) -> Floats:
            predictions = np.tile(mean, (len(X), 1))
            rows = X[:, -1] == group
            if rows.any():
                predictions[rows] = np.column_stack([label(X[rows]) for label in known])
            return predictions

        return predict

    return [(f"group {group}", member(group)) for group in range(CATEGORIES)]


_TRAIN = {"label": _by_coordinate, "group": _by_group}
