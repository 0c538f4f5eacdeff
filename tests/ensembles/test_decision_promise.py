"""DecisionEnsemble.promise: self-assessments corrected by the out-of-fold record."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.evaluation.payoff_record import Record
from tests.ensembles.decision import ACCESS, NEW, OLD, SENSES, N, fitted, make, member_actions, payoff, problem
from tests.problems import Floats

# Self-assessment and promise


def believed(record: Record, assessed: Floats) -> Floats:
    """Least squares of what was realised on what was assessed, with a level for every fold; less what flatters."""
    assert record.folds is not None
    assert not record.time_ordered
    design = np.column_stack([record.assessed, record.folds[:, None] == np.unique(record.folds)])
    slope = max(float(np.linalg.lstsq(design, record.realised, rcond=None)[0][0]), 0.0)
    level = record.realised.mean() - record.sign * record.curse
    return np.asarray(level + slope * (assessed - record.assessed.mean()))


@ACCESS
@SENSES
def test_promises_are_self_assessments_corrected_by_the_record(access: str, sense: str) -> None:
    ensemble, X = fitted(access, sense=sense), problem().X[NEW]
    raw = payoff(ensemble.decide(X), ensemble.predict(X))
    np.testing.assert_allclose(ensemble.self_assess(X), believed(ensemble.record_, raw), rtol=1e-8, atol=1e-8)
    promise = ensemble.promise(X)
    assert promise.mean == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    assert promise.low < promise.mean < promise.high
    assert promise.rely_on == (promise.low if sense == "max" else promise.high)
    assert promise.rows == N


@ACCESS
@SENSES
def test_the_record_is_of_the_rows_fitted_on(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    assert len(ensemble.record_.realised) == N == ensemble.n_rows_
    board = ensemble.leaderboard_.set_index("candidate")
    assert ensemble.record_.realised.mean() == pytest.approx(board.loc[ensemble.winner_, "realised"], rel=1e-9)
    assert ensemble.record_.assessed.mean() == pytest.approx(board.loc[ensemble.winner_, "promised"], rel=1e-9)
    members = np.mean([payoff(member_actions(access, sense, m), Y) for m in range(3)], axis=0)
    advantage = ensemble.record_.realised - members
    np.testing.assert_allclose(ensemble.advantage_.realised, advantage, atol=1e-12)


@ACCESS
def test_the_advantage_is_promised_beyond_the_mean_member(access: str) -> None:
    ensemble, X = fitted(access), problem().X[NEW]
    forecast = ensemble.predict(X)
    members = np.mean([payoff(member_actions(access, "max", m, NEW), forecast) for m in range(3)], axis=0)
    beyond = payoff(ensemble.decide(X), forecast) - members
    advantage = ensemble.promise(X).advantage
    assert advantage is not None
    assert advantage.mean == pytest.approx(believed(ensemble.advantage_, beyond).mean(), rel=1e-8)


def test_a_promise_made_on_independent_rows_is_kept() -> None:
    for access in ("models", "policies", "both"):
        ensemble = fitted(access)
        promise = ensemble.promise(problem().X[NEW])
        earned = payoff(ensemble.decide(problem().X[NEW]), problem().Y[NEW]).mean()
        assert promise.low <= earned <= promise.high


@SENSES
def test_the_score_is_better_when_greater(sense: str) -> None:
    ensemble, X, Y = fitted(sense=sense), problem().X[NEW], problem().Y[NEW]
    earned = payoff(ensemble.decide(X), Y).mean()
    assert ensemble.score(X, Y) == pytest.approx(earned if sense == "max" else -earned, rel=1e-12)


# Trends


@pytest.mark.parametrize("m", [2, 100, N])
def test_self_assessments_use_the_last_level_and_a_promise_adds_half_the_trend(m: int) -> None:
    X, Y = problem().X, problem().Y + np.linspace(0, 6, 2 * N)[:, None]
    ensemble, new = make().fit(X[OLD], Y[OLD], time_ordered=True), X[N : N + m]
    promise, assessed = ensemble.promise(new), ensemble.self_assess(new).mean()
    assert promise.note.startswith("the level has been rising steadily, which may go on or stop")
    rise = ensemble.record_.trend[0]
    assert rise == pytest.approx(6 / (2 * N), rel=0.2)
    # it stops with the last row fitted on, or goes on to the middle of the new ones
    assert promise.mean == pytest.approx(assessed + rise * m / 4, rel=1e-9)
    earned = payoff(ensemble.decide(new), Y[N : N + m]).mean()
    assert promise.low <= earned <= promise.high
