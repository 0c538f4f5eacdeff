"""The cost of cross-fitting: a fit of DecisionEnsemble beside the fits of its members alone.

    python benchmarks/cross_fitting.py

Five members on 4,000 rows are cross-fitted on five folds, and fitted again on all rows: six fits of each. What the
ensemble takes beyond the time of these fits, and of asking them about the rows of their folds, is its own. Both are
measured in one run, each the best of a few. The script fails if its own time is more than a fifth of the members'.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor

import optensemble as oe
from optensemble import feasible

ROWS, FEATURES, LABELS, FOLDS = 4000, 10, 8, 5
MOST = 0.2
REPETITIONS = 2


def make_members() -> list[tuple[str, Any]]:
    """Return five members that are not fitted yet."""
    return [
        ("forest", RandomForestRegressor(100, min_samples_leaf=3, random_state=0)),
        ("trees", ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0)),
        ("boosting", HistGradientBoostingRegressor(max_iter=50, random_state=0)),
        ("ridge", RidgeCV()),
        ("neighbours", KNeighborsRegressor(20)),
    ]


def best_of(work: Callable[[], Any]) -> float:
    """Return the seconds that some work takes, the best of a few times."""
    found = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    """Measure both, and print the ratio."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    Y = np.sin(X @ rng.normal(size=(FEATURES, LABELS)) / 2) + 0.5 * rng.normal(size=(ROWS, LABELS))
    omega = feasible.Knapsack(rng.uniform(1, 3, LABELS), 6.0)

    def members_alone() -> None:
        for _, member in make_members():
            each = MultiOutputRegressor(member) if isinstance(member, HistGradientBoostingRegressor) else member
            for train, test in KFold(FOLDS).split(X):
                clone(each).fit(X[train], Y[train]).predict(X[test])
            clone(each).fit(X, Y)

    def ensemble() -> None:
        oe.DecisionEnsemble(make_members(), feasible=omega, cv=FOLDS).fit(X, Y)

    few = slice(0, 200)
    quick = oe.DecisionEnsemble([("ridge", RidgeCV())], feasible=omega)
    quick.fit(X[few], Y[few])  # compiles, or loads what was compiled
    alone, whole = best_of(members_alone), best_of(ensemble)
    share = whole / alone - 1
    print(f"{ROWS:,} rows, {LABELS} labels, five members, {FOLDS} folds; seconds, the best of {REPETITIONS}")
    print(f"  members alone      {alone:8.2f}")
    print(f"  DecisionEnsemble   {whole:8.2f}")
    print(f"  its own            {100 * share:7.1f} % of the members' (at most {100 * MOST:.0f} %)")
    sys.exit(0 if share <= MOST else 1)


if __name__ == "__main__":
    main()
