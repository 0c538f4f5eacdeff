"""Policies without rounds: simple baselines, and DecisionEnsemble with its audit on fresh rows.

Rows here are the members' predictions: a *table* has a column for each member and label.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optensemble import Columns, DecisionEnsemble
from optensemble._core.arrays import Floats
from optensemble.experiments.outcome import (
    AVERAGE_FIRST,
    BEST_INITIAL,
    DECISION_ENSEMBLE,
    RIDGE_STACKING,
    DecisionAudit,
    PolicyCost,
    PolicyGain,
    half_width,
    way_error,
)
from optensemble.experiments.setup import LABELS, Predictor
from optensemble.feasible import FeasibleSet

Reply = tuple[Floats, Floats]
"""Actions and promised payoffs, per row."""

TablePolicy = Callable[[Floats], Reply]
"""From a table to a reply."""


def member_of_table(number: int) -> Predictor:
    """Return the member whose predictions are in the table."""
    return lambda table: table[:, number * LABELS : (number + 1) * LABELS]


def simple_policies(
    omega: FeasibleSet, members: int, table: Floats, Y: Floats, costs: list[PolicyCost]
) -> tuple[int, dict[str, TablePolicy]]:
    """Return the best member's index, and the policies of best member, average and ridge stacking on these rows."""
    start = time.perf_counter()
    earned = [omega.value(omega.argmax(member_of_table(number)(table)), Y).mean() for number in range(members)]
    best = int(np.argmax(earned))
    costs.append(PolicyCost(BEST_INITIAL, row_solves=members * len(Y), seconds=time.perf_counter() - start))
    return best, {
        BEST_INITIAL: _optimise(omega, member_of_table(best)),
        AVERAGE_FIRST: _optimise(omega, lambda table: table.reshape(len(table), members, LABELS).mean(axis=1)),
        RIDGE_STACKING: fit_ridge(omega, table, Y, costs),
    }


def fit_ridge(omega: FeasibleSet, table: Floats, Y: Floats, costs: list[PolicyCost]) -> TablePolicy:
    """Return the policy of a ridge regression of the labels on all predictions."""
    start = time.perf_counter()
    # of many rows the variance of a constant column may round below 0: its root is not used, and need not be told of
    with np.errstate(invalid="ignore"):
        ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-1, 5, 13))).fit(table, Y)
    costs.append(PolicyCost(RIDGE_STACKING, seconds=time.perf_counter() - start))
    return _optimise(omega, ridge.predict)


def _optimise(omega: FeasibleSet, predict: Predictor) -> TablePolicy:
    """Return the policy that takes the best action for some predictions, and promises what they make of it."""

    def policy(table: Floats) -> Reply:
        predictions = np.ascontiguousarray(predict(table))
        actions = omega.argmax(predictions)
        return actions, omega.value(actions, predictions)

    return policy


# DecisionEnsemble


def fit_decision_ensemble(
    omega: FeasibleSet, names: list[str], table: Floats, Y: Floats, costs: list[PolicyCost]
) -> DecisionEnsemble:
    """Fit a DecisionEnsemble of the members in the table, with default settings."""
    models = [(name, Columns(range(i * LABELS, (i + 1) * LABELS))) for i, name in enumerate(names)]
    start = time.perf_counter()
    ensemble = DecisionEnsemble(models=models, feasible=omega).fit(table, Y)
    costs.append(PolicyCost(DECISION_ENSEMBLE, seconds=time.perf_counter() - start))
    return ensemble


def decision_reply(ensemble: DecisionEnsemble, table: Floats) -> Reply:
    """Return its actions and the payoff it promises, per row."""
    answer = ensemble.answer(table)
    return answer.actions, answer.promised


def audit_decision(
    ensemble: DecisionEnsemble, table: Floats, labels: Floats, realised: dict[str, Floats], foresight: Floats
) -> DecisionAudit:
    """Audit the ensemble on fresh rows, and compare it row by row with every policy's ``realised`` payoffs there."""
    audit = ensemble.audit(table, labels)
    promise = audit.totals
    ours = realised[DECISION_ENSEMBLE]
    differences = {policy: ours - payoff for policy, payoff in realised.items() if policy != DECISION_ENSEMBLE}
    return DecisionAudit(
        low=float(promise.low),
        high=float(promise.high),
        kept=bool(audit.kept),
        gains=tuple(PolicyGain(policy, float(gain.mean()), half_width(gain)) for policy, gain in differences.items()),
        way_error=way_error(ours, realised[BEST_INITIAL], foresight),
        verdict=audit.verdict,
        finding=ensemble.finding_,
    )
