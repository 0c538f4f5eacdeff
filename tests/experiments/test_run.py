"""The numbers of an experiment, recomputed from public parts: members, feasible set, estimators."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import optensemble as oe
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import Experiment
from optensemble.experiments.outcome import (
    AVERAGE_FIRST,
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    POLICIES,
    RIDGE_STACKING,
    UNCORRECTED,
    WHITE_BOX_ENSEMBLE,
)
from optensemble.experiments.run import recorded_rounds
from tests.experiments.conftest import NAMES, SMALL, Finished

pytestmark = pytest.mark.slow

Floats = npt.NDArray[np.float64]
EACH = pytest.mark.parametrize("name", NAMES)
KINDS = pytest.mark.parametrize("where", [IN_SAMPLE, FRESH])
OFFSETS = {IN_SAMPLE: 1, FRESH: 2}
"""Debiasing rows and fresh rows have seeds of their own, next to the run's."""


def rows_of(experiment: Experiment, where: str) -> tuple[Floats, Floats]:
    return experiment.draw(SMALL.rows if where == IN_SAMPLE else SMALL.fresh_rows, SMALL.seed + OFFSETS[where])


def fit(experiment: Experiment, X: Floats, Y: Floats, rounds: int) -> dict[str, Any]:
    omega = experiment.feasible
    policies = [(member, lambda X, model=model: omega.argmax(model(X))) for member, model in experiment.models]
    options: dict[str, Any] = {"alpha": 0.01, "bucket_width": 0.1, "schedule": "round-robin", "max_rounds": rounds}
    options["validation"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        white = oe.WhiteBoxEnsemble(experiment.models, omega, **options).fit(X, Y)
        return {
            WHITE_BOX_ENSEMBLE: white,
            BLACK_BOX_ENSEMBLE: oe.BlackBoxEnsemble(policies, omega, **options).fit(X, Y),
        }


@pytest.fixture(scope="session")
def fitted(experiments: dict[str, Experiment]) -> dict[str, dict[str, Any]]:
    return {
        name: fit(experiment, *rows_of(experiment, IN_SAMPLE), SMALL.rounds_of(name))
        for name, experiment in experiments.items()
    }


def earn(actions: Floats, Y: Floats) -> Floats:
    return np.asarray((actions * Y).sum(axis=1))


def ridge_by_hand(inputs: Floats, Y: Floats, new: Floats) -> Floats:
    """Ridge regression on standardised columns, with the penalty that leaving each row out in turn likes best."""
    varies = np.ptp(inputs, axis=0) > 0
    centre, scale = inputs[:, varies].mean(axis=0), inputs[:, varies].std(axis=0)
    Z, residual, n = (inputs[:, varies] - centre) / scale, Y - Y.mean(axis=0), len(Y)
    found = []
    for penalty in 10.0 ** np.arange(-1, 5.1, 0.5):
        inverse = np.linalg.inv(Z.T @ Z + penalty * np.eye(Z.shape[1]))
        slopes = inverse @ Z.T @ residual
        leverage = 1 / n + np.einsum("ij,jk,ik->i", Z, inverse, Z)
        left_out = (residual - Z @ slopes) / (1 - leverage)[:, None]
        found.append(((left_out**2).mean(), penalty, slopes))
    _, _, slopes = min(found, key=lambda entry: entry[0])
    return np.asarray(Y.mean(axis=0) + (new[:, varies] - centre) / scale @ slopes)


def best_member(experiment: Experiment) -> int:
    X, Y = rows_of(experiment, IN_SAMPLE)
    return int(np.argmax([earn(experiment.feasible.argmax(model(X)), Y).mean() for _, model in experiment.models]))


def highest_promise(experiment: Experiment, predictions: list[Floats], Y: Floats) -> tuple[Floats, Floats]:
    """Follow the member that promises most, of ties the first."""
    actions = np.stack([experiment.feasible.argmax(values) for values in predictions])
    promised = np.stack([earn(action, values) for action, values in zip(actions, predictions, strict=True)])
    top = promised.max(axis=0)
    chosen, rows = (promised >= top - 1e-9 * abs(top)).argmax(axis=0), np.arange(len(Y))
    return promised[chosen, rows], earn(actions[chosen, rows], Y)


def expected(experiment: Experiment, ensembles: dict[str, Any], where: str) -> dict[str, tuple[Floats, Floats]]:
    """For every policy but foresight what it promises and what it earns, row by row."""
    X, Y = rows_of(experiment, where)
    known, labels = rows_of(experiment, IN_SAMPLE)
    predictions = [model(X) for _, model in experiment.models]
    tables = [np.hstack([model(rows) for _, model in experiment.models]) for rows in (known, X)]
    simple = {
        BEST_INITIAL: predictions[best_member(experiment)],
        AVERAGE_FIRST: np.mean(predictions, axis=0),
        RIDGE_STACKING: ridge_by_hand(tables[0], labels, tables[1]),
    }
    found = {}
    for policy, values in simple.items():
        actions = experiment.feasible.argmax(values)
        found[policy] = (earn(actions, values), earn(actions, Y))
    found[UNCORRECTED] = highest_promise(experiment, predictions, Y)
    for policy, ensemble in ensembles.items():
        answer = ensemble.answer(X)
        found[policy] = (answer.promised, earn(answer.actions, Y))
    return found


# The table


@EACH
@KINDS
def test_promised_and_realised_payoffs(
    name: str,
    where: str,
    finished: Finished,
    experiments: dict[str, Experiment],
    fitted: dict[str, dict[str, Any]],
    honest: dict[str, oe.DecisionEnsemble],
) -> None:
    experiment, outcome = experiments[name], finished.outcome(name)
    _, Y = rows_of(experiment, where)
    most = earn(experiment.feasible.argmax(Y), Y).mean()
    rows = expected(experiment, {**fitted[name], DECISION_ENSEMBLE: honest[name]}, where)
    assert {FORESIGHT, *rows} == set(POLICIES)
    base = rows[BEST_INITIAL][1].mean()
    for policy, (promised, realised) in rows.items():
        line, gap = outcome.payoff(where, policy), promised - realised
        spread = np.sqrt(((gap - gap.mean()) ** 2).sum() / (len(gap) - 1))
        ours = [line.promised, line.realised, line.gap, line.gap_error, line.way]
        way = 100 * (realised.mean() - base) / (most - base)
        theirs = [promised.mean(), realised.mean(), gap.mean(), 1.96 * spread / len(gap) ** 0.5, way]
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9, err_msg=policy)
    foresight = outcome.payoff(where, FORESIGHT)
    assert foresight.realised == pytest.approx(most, rel=1e-12)
    assert foresight.way == 100
    assert np.isnan([foresight.promised, foresight.gap, foresight.gap_error]).all()
    assert outcome.payoff(where, BEST_INITIAL).way == 0
    assert outcome.best == experiment.models[best_member(experiment)][0]


@EACH
def test_the_table_has_every_policy_on_both_kinds_of_rows_once(name: str, finished: Finished) -> None:
    payoffs = finished.outcome(name).payoffs
    assert [(payoff.where, payoff.policy) for payoff in payoffs] == [
        (where, policy) for where in (IN_SAMPLE, FRESH) for policy in POLICIES
    ]


@EACH
@KINDS
def test_no_policy_earns_more_than_foresight(name: str, where: str, finished: Finished) -> None:
    payoffs = finished.outcome(name).payoffs
    assert all(payoff.way <= 100 for payoff in payoffs if payoff.where == where)


# The curves


@EACH
@KINDS
def test_curves_end_at_the_table(name: str, where: str, finished: Finished) -> None:
    outcome = finished.outcome(name)
    last = outcome.curves[where].iloc[-1]
    assert last["round"] == SMALL.rounds
    for ensemble in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE):
        for what in ("promised", "realised"):
            assert last[f"{ensemble}, {what}"] == pytest.approx(
                getattr(outcome.payoff(where, ensemble), what), rel=1e-12
            )


@EACH
def test_curves_on_the_rows_debiased_on_are_the_history_of_the_fit(
    name: str, finished: Finished, fitted: dict[str, dict[str, Any]]
) -> None:
    curves, members = finished.outcome(name).curves[IN_SAMPLE], finished.outcome(name).members
    np.testing.assert_array_equal(curves["round"], np.arange(SMALL.rounds_of(name) + 1))
    for ensemble, fit in fitted[name].items():
        history = fit.history_.iloc[np.minimum(curves["round"], fit.n_rounds_)]
        columns = {f"{ensemble}, {what}": history[what] for what in ("promised", "realised")}
        if ensemble == WHITE_BOX_ENSEMBLE:
            assert fit.names_ == members
            columns |= {f"{member}, realised": history[f"realised_{member}"] for member in members}
            columns |= {f"{member}, chosen": history[f"chosen_{member}"] / SMALL.rows for member in members}
        for column, values in columns.items():
            np.testing.assert_allclose(curves[column], values, rtol=1e-12, err_msg=column)


@EACH
def test_curves_on_fresh_rows_are_what_shorter_fits_answer_there(
    name: str, finished: Finished, experiments: dict[str, Experiment]
) -> None:
    experiment, outcome = experiments[name], finished.outcome(name)
    X, Y = rows_of(experiment, FRESH)
    for rounds in (0, 40):
        at = outcome.curves[FRESH].set_index("round").loc[rounds]
        for ensemble, fit_ in fit(experiment, *rows_of(experiment, IN_SAMPLE), rounds).items():
            answer = fit_.answer(X)
            assert at[f"{ensemble}, promised"] == pytest.approx(answer.promised.mean(), rel=1e-12)
            assert at[f"{ensemble}, realised"] == pytest.approx(earn(answer.actions, Y).mean(), rel=1e-12)
            if ensemble == WHITE_BOX_ENSEMBLE:
                for i, values in enumerate(fit_.predict_members(X)):
                    alone = earn(experiment.feasible.argmax(values), Y).mean()
                    assert at[f"{outcome.members[i]}, realised"] == pytest.approx(alone, rel=1e-12)
                    assert at[f"{outcome.members[i]}, chosen"] == pytest.approx((answer.chosen == i).mean(), rel=1e-12)


@EACH
def test_disagreement_is_the_variance_between_members_actions(
    name: str, finished: Finished, experiments: dict[str, Experiment], fitted: dict[str, dict[str, Any]]
) -> None:
    experiment, shown = experiments[name], finished.outcome(name).disagreement
    X, _ = rows_of(experiment, IN_SAMPLE)
    assert shown.shape == (SMALL.rounds_of(name) + 1, SMALL.rows)
    for look, values in (
        (0, [model(X) for _, model in experiment.models]),
        (-1, fitted[name][WHITE_BOX_ENSEMBLE].predict_members(X)),
    ):
        actions = np.stack([experiment.feasible.argmax(each) for each in values])
        variance = (actions**2).mean(axis=0) - actions.mean(axis=0) ** 2
        np.testing.assert_allclose(shown[look], sorted(variance.mean(axis=1)), atol=1e-6)
    assert shown[0].max() > 0.01


@pytest.mark.parametrize("rounds", [1, 7, 250, 251, 5000, 8000])
def test_looks_are_even_and_reach_from_none_to_all_rounds(rounds: int) -> None:
    seen = recorded_rounds(rounds)
    assert (seen[0], seen[-1], len(seen)) == (0, rounds, min(rounds, 250) + 1)
    assert set(np.diff(seen)) <= {rounds // 250, rounds // 250 + 1}


# The costs


@EACH
def test_rounds_and_solves_reported_are_those_of_the_fits(
    name: str, finished: Finished, fitted: dict[str, dict[str, Any]]
) -> None:
    outcome = finished.outcome(name)
    for ensemble, fit in fitted[name].items():
        cost, models = outcome.cost(ensemble), len(outcome.members) if ensemble == WHITE_BOX_ENSEMBLE else 1
        assert cost.rounds == fit.n_rounds_ == len(fit.history_) - 1
        assert cost.row_solves == fit.n_solves_ == fit.history_["solves"].iloc[-1]
        assert cost.avoided is not None
        assert cost.avoided + fit.n_solves_ == models * SMALL.rows * fit.n_rounds_
        assert cost.avoided > 0
        assert (cost.converged, cost.stopped) == (fit.converged_, fit.stopped_)
        assert cost.seconds > 0
    assert outcome.cost(BEST_INITIAL).row_solves == len(outcome.members) * SMALL.rows
    assert outcome.cost(RIDGE_STACKING).row_solves is None
    cost = outcome.cost(DECISION_ENSEMBLE)
    assert cost.seconds > 0
    assert (cost.rounds, cost.row_solves, cost.avoided, cost.stopped) == (None, None, None, None)  # it takes no rounds
    assert not outcome.has_cost(FORESIGHT)
    assert not outcome.has_cost(AVERAGE_FIRST)
