"""Policies that take no rounds: what anyone would try first, and DecisionEnsemble, which fresh rows judge.

Here a row is what the members predict for it: a *table* has a column for each member and label.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optensemble import Columns, DecisionEnsemble
from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import row_dots
from optensemble.experiments.outcome import AVERAGE, BEST, HONEST, RIDGE, Judgement, half_width, way_error
from optensemble.experiments.setup import LABELS, Model
from optensemble.feasible import FeasibleSet

Reply = tuple[Floats, Floats]
"""Actions, and the payoff they promise, per row."""

Policy = Callable[[Floats], Reply]
"""From a table to a reply."""


def member(number: int) -> Model:
    """Return the model whose predictions stand in the table."""
    return lambda table: table[:, number * LABELS : (number + 1) * LABELS]


def simple_policies(
    omega: FeasibleSet, members: int, table: Floats, Y: Floats, costs: list[dict[str, Any]]
) -> tuple[int, dict[str, Policy]]:
    """Return the best member's number; and best member, average and ridge stacking, learned on these rows."""
    start = time.perf_counter()
    earned = [row_dots(omega.argmax(member(number)(table)), Y).mean() for number in range(members)]
    best, found = int(np.argmax(earned)), time.perf_counter()
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(table, Y)
    costs.append({"policy": BEST, "row_solves": members * len(Y), "seconds": found - start})
    costs.append({"policy": RIDGE, "seconds": time.perf_counter() - found})

    def optimise(predict: Model) -> Policy:
        def policy(table: Floats) -> Reply:
            predictions = np.ascontiguousarray(predict(table))
            actions = omega.argmax(predictions)
            return actions, row_dots(actions, predictions)

        return policy

    return best, {
        BEST: optimise(member(best)),
        AVERAGE: optimise(lambda table: table.reshape(len(table), members, LABELS).mean(axis=1)),
        RIDGE: optimise(ridge.predict),
    }


# DecisionEnsemble


def fit_honest(
    omega: FeasibleSet, names: list[str], table: Floats, Y: Floats, costs: list[dict[str, Any]]
) -> DecisionEnsemble:
    """Fit a DecisionEnsemble of the members in the table; there is nothing to set."""
    models = [(name, Columns(range(i * LABELS, (i + 1) * LABELS))) for i, name in enumerate(names)]
    start = time.perf_counter()
    ensemble = DecisionEnsemble(models=models, feasible=omega).fit(table, Y)
    costs.append({"policy": HONEST, "seconds": time.perf_counter() - start})
    return ensemble


def ask_honest(ensemble: DecisionEnsemble, table: Floats) -> Reply:
    """Return what it does, and the payoff it expects in every row."""
    answer = ensemble.answer(table)
    return answer.actions, answer.promised


def judge(
    ensemble: DecisionEnsemble, table: Floats, labels: Floats, earned: dict[str, Floats], foresight: Floats
) -> Judgement:
    """Audit the ensemble on fresh rows, and compare it row by row with what every policy ``earned`` there."""
    audit = ensemble.audit(table, labels)
    promise: Any = audit.summary.iloc[0]
    gains = {policy: earned[HONEST] - payoff for policy, payoff in earned.items() if policy != HONEST}
    return Judgement(
        low=float(promise.low),
        high=float(promise.high),
        kept=bool(audit.kept),
        gains=pd.DataFrame(
            [
                {"policy": policy, "gain": float(gain.mean()), "gain_error": half_width(gain)}
                for policy, gain in gains.items()
            ]
        ),
        way_error=way_error(earned[HONEST], earned[BEST], foresight),
        verdict=audit.verdict,
        finding=ensemble.finding_,
    )
