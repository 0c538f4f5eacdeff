"""DecisionEnsemble.update: labels that come in later."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optensemble import feasible
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import InputError, RefitWarning
from optensemble.monitoring.monitor import Monitor
from tests.ensembles.decision import (
    ACCESS,
    NEW,
    OLD,
    SENSES,
    Ensemble,
    N,
    answers,
    fitted,
    grouped_frame,
    half_updated,
    make,
    payoff,
    problem,
    same,
    state,
)


@ACCESS
@SENSES
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_an_update_redoes_the_promise_and_leaves_decisions(access: str, sense: str) -> None:
    ensemble, given = copy.deepcopy(fitted(access, sense=sense)), problem()
    X, Y, later = given.X[N : N + 100], given.Y[N : N + 100], given.X[N + 100 :]
    decisions, old = ensemble.decide(later), ensemble.record_
    assessed, realised = payoff(ensemble.decide(X), ensemble.predict(X)), payoff(ensemble.decide(X), Y)
    assert ensemble.update(X, Y) is ensemble
    assert old.folds is not None
    whole = Record(
        np.concatenate([old.assessed, assessed]),
        np.concatenate([old.realised, realised]),
        old.sign,
        curse=old.curse * N / (N + 100),  # the new rows took no part in the selection
        folds=np.concatenate([old.folds, np.full(100, 10)]),  # and were judged by what all folds taught
    )
    expected, promise = whole.promise(payoff(ensemble.decide(later), ensemble.predict(later))), ensemble.promise(later)
    assert (promise.mean, promise.low, promise.high) == pytest.approx((expected.mean, expected.low, expected.high))
    np.testing.assert_array_equal(ensemble.decide(later), decisions)
    assert ensemble.n_updated_ == 100
    assert len(ensemble.advantage_.realised) == N + 100
    assert len(fitted(access, sense=sense).record_.realised) == N


@SENSES
@pytest.mark.parametrize(("shift", "way"), [(-1.2, "less"), (1.2, "more")])
def test_payoffs_that_change_ask_for_a_new_fit(shift: float, way: str, sense: str) -> None:
    ensemble = copy.deepcopy(fitted(sense=sense))
    # on the simplex a level that is added to all labels is added to the payoff
    X, Y = problem().X[N : N + 100], problem().Y[N : N + 100] + shift * ensemble.record_.deviation
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ensemble.update(X, Y)
    (warning,) = caught
    assert issubclass(warning.category, RefitWarning)
    assert str(warning.message) == f"{ensemble.refit_due_}. Call extend() to fit again with them."
    alarm = ensemble.monitor_.standing[0]
    assert (alarm.kind, alarm.direction) == ("broken", way)
    assert ensemble.refit_due_ == (
        f"rows have {'earned' if sense == 'max' else 'cost'} {way} than the promise allows for since about row "
        f"{alarm.onset} of those that came after the fit (alarm at row {alarm.row}; false alarms at most 5 % in "
        "5,000 rows)"
    )


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_the_monitor_watches_the_promise_of_the_fit() -> None:
    """The promise that is redone follows what it is to be compared with."""
    ensemble, X = half_updated(), problem().X
    Y = problem().Y + 0.3 * ensemble.record_.deviation
    expected = Monitor.of_state(*ensemble.monitor_.state())
    for start in range(N, 2 * N, 50):
        rows = slice(start, start + 50)
        realised = payoff(ensemble.decide(X[rows]), Y[rows])
        expected.observe(fitted().answer(X[rows]).promised, realised)
        ensemble.update(X[rows], Y[rows])
    assert ensemble.monitor_.rows == N
    pd.testing.assert_frame_equal(ensemble.monitor_.evidence, expected.evidence)
    assert ensemble.answer(X[NEW]).promised.mean() > fitted().answer(X[NEW]).promised.mean()


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_a_drift_that_proves_to_be_more_is_told_again() -> None:
    ensemble, X, Y = half_updated(), problem().X, problem().Y - 0.9 * fitted().record_.deviation
    ensemble.monitor_.restart(half_width=0.5 * ensemble.monitor_.sigma)
    told = list[str]()
    for start in range(N, 2 * N, 10):
        ensemble.update(X[start : start + 10], Y[start : start + 10])
        told.append(ensemble.refit_due_)
    drifted, broken = list(dict.fromkeys(filter(None, told)))
    assert drifted.startswith("rows have earned less than promised since about row ")
    assert broken.startswith("rows have earned less than the promise allows for since about row ")
    assert "promised" not in broken


def test_a_kept_promise_asks_for_nothing() -> None:
    ensemble = half_updated()
    ensemble.update(problem().X[NEW], problem().Y[NEW])
    assert ensemble.refit_due_ == ""


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_honest_promises_are_seldom_called_broken() -> None:
    """Many updates, each of which is looked at: as few alarms as told, and then some for the errors of the fits."""
    called = 0
    for seed in range(40):
        given = problem(n=400 + 2000, seed=seed)
        ensemble = make("models", given).fit(given.X[:400], given.Y[:400])
        for start in range(400, 2400, 200):
            ensemble.update(given.X[start : start + 200], given.Y[start : start + 200])
        called += "than the promise allows for" in ensemble.refit_due_
    assert called <= 3


def test_in_time_order_a_refit_is_due_after_many_rows() -> None:
    ensemble = half_updated(time_ordered=True)
    for start in range(N, N + 160, 40):
        rows = slice(start, start + 40)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ensemble.update(problem().X[rows], problem().Y[rows])
        old = start + 40 >= N + 160
        assert bool(ensemble.refit_due_) == old == bool(caught)
    assert ensemble.refit_due_ == "160 rows have come since the fit on 400"
    assert issubclass(caught[0].category, RefitWarning)
    ensemble.fit(problem().X[NEW], problem().Y[NEW], time_ordered=True)
    assert ensemble.refit_due_ == ""


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning")
def test_reasons_to_fit_again_stay_until_that_is_done() -> None:
    ensemble, X, Y = half_updated(time_ordered=True), problem().X, problem().Y
    ensemble.update(X[N : N + 100], Y[N : N + 100] + 50)
    broken = ensemble.refit_due_
    assert "rows have earned more than the promise allows for" in broken
    ensemble.update(X[N + 100 : N + 120], Y[N + 100 : N + 120] + 10)
    assert ensemble.refit_due_.startswith(broken)
    ensemble.update(X[N + 120 : N + 180], Y[N + 120 : N + 180] + 10)
    assert ensemble.refit_due_.startswith(broken)
    assert ensemble.refit_due_.count("180 rows have come since the fit on 400") == 1
    ensemble.update(X[N + 180 : N + 200], Y[N + 180 : N + 200] + 10)
    assert ensemble.refit_due_.count("rows have come since") == 1
    ensemble.extend()
    assert ensemble.refit_due_ == ""
    assert ensemble.n_updated_ == ensemble.monitor_.rows == 0
    assert ensemble.n_rows_ == N + 200


def test_rows_that_were_fitted_on_or_given_before_are_no_update() -> None:
    ensemble, X, Y = half_updated(), problem().X, problem().Y
    before = state(ensemble)
    words = "of these 100 rows were fitted on or given before. Give new ones"
    with pytest.raises(InputError, match=f"100 {words}"):
        ensemble.update(X[:100], Y[:100])
    with pytest.raises(InputError, match=f"11 {words}"):
        ensemble.update(X[N - 11 : N + 89], Y[N - 11 : N + 89])
    assert same(state(ensemble), before)
    ensemble.update(X[N - 10 : N + 90], Y[N - 10 : N + 90])  # one in ten may be alike by chance
    with pytest.raises(InputError, match=f"90 {words}"):
        ensemble.update(X[N : N + 100], Y[N : N + 100])
    ensemble.update(X[:100], Y[:100] + 0.01)  # the same X may have other labels another time
    assert ensemble.n_updated_ == 200


def test_rows_of_few_values_may_come_again() -> None:
    """Where there are few different rows, new ones are like old ones by chance."""
    rng = np.random.default_rng(0)
    X, Y = rng.integers(3, size=(400, 3)).astype(float), rng.integers(2, size=(400, 3)).astype(float)
    models = [("same", lambda X: X), ("turned", lambda X: X[:, ::-1])]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X[:200], Y[:200])
    ensemble.update(X[200:300], Y[200:300])
    assert ensemble.record_.clusters is None
    assert ensemble.audit(X[300:], Y[300:]).summary["seen"].tolist() == [0]
    ensemble.extend()
    assert ensemble.n_rows_ == 300


def test_rows_of_an_update_are_audited_by_the_promise_of_the_fit() -> None:
    """Decisions have not learned from them, but the promise has: it is that of before which is judged."""
    ensemble, X, Y = half_updated(), problem().X, problem().Y
    rows, old = slice(N, N + 150), slice(N - 100, N + 50)
    before = ensemble.audit(X[rows], Y[rows])
    ensemble.update(X[rows], Y[rows])
    after = ensemble.audit(X[rows], Y[rows])
    assert after.verdict == before.verdict
    assert after.summary["seen"].tolist() == [0]
    pd.testing.assert_frame_equal(after.summary, before.summary, rtol=1e-9)
    assert ensemble.audit(X[N + 150 :], Y[N + 150 :]).summary["promise"].tolist() != [
        ensemble._as_fitted().promise(X[N + 150 :]).mean
    ]
    with pytest.warns(UserWarning, match="100 of these 150 rows are rows the ensemble was fitted on"):
        assert ensemble.audit(X[old], Y[old]).kept is None


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_an_update_of_a_copy_leaves_the_original_as_it_was() -> None:
    original = half_updated()
    updated = copy.copy(original).update(problem().X[NEW], problem().Y[NEW])
    assert original.n_updated_ == original.monitor_.rows == 0
    assert updated.monitor_.rows == N
    original.extend(models=[("more", problem().models[0][1])])
    assert original.n_rows_ == N


def test_an_update_that_fails_changes_nothing() -> None:
    ensemble, X, Y = half_updated(), problem().X[NEW], problem().Y[NEW]
    before, monitor = state(ensemble), ensemble.monitor_
    for labels, words in ((Y[:-1], "must have shape"), (Y * np.nan, "are missing"), (Y * np.inf, "must be finite")):
        with pytest.raises(InputError, match=words):
            ensemble.update(X, labels)
    with pytest.raises(InputError, match="at least 1 row"):
        ensemble.update(X[:0], Y[:0])
    assert same(state(ensemble), before)
    assert ensemble.n_updated_ == 0
    assert ensemble.monitor_ is monitor
    assert monitor.rows == 0


def test_groups_of_new_labels_are_groups_of_the_record() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    ensemble.update(X[N : N + 90], Y[N : N + 90], groups=np.arange(90) // 9 + 1000)
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters[N:], 100 + np.arange(90) // 9)


def test_a_group_that_was_there_before_is_the_same_group() -> None:
    X, Y = problem().X, problem().Y
    ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4)
    ensemble.update(X[N : N + 90], Y[N : N + 90], groups=np.arange(90) // 9)
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters[N:], np.arange(90) // 9)


@pytest.mark.parametrize("groups", ["day", lambda X: X["day"]], ids=["a column", "a function"])
def test_groups_that_are_found_in_x_need_not_be_given_again(groups: Any) -> None:
    frame, Y, models = grouped_frame()
    ensemble = Ensemble(models, feasible=problem().omega).fit(frame[:300], Y[:300], groups=groups)
    ensemble.update(frame[300:], Y[300:])
    assert ensemble.record_.clusters is not None
    np.testing.assert_array_equal(ensemble.record_.clusters, np.arange(N) // 7)
    whole = Ensemble(models, feasible=problem().omega).fit(frame, Y, groups=groups)
    ensemble.extend()
    assert same(answers(ensemble, frame), answers(whole, frame))
    np.testing.assert_array_equal(ensemble.record_.realised, whole.record_.realised)


def test_an_update_has_groups_if_and_only_if_the_fit_had() -> None:
    X, Y = problem().X, problem().Y
    grouped, ensemble = make().fit(X[OLD], Y[OLD], groups=np.arange(N) // 4), half_updated()
    words = r"the rows fitted on had groups. Give groups= for these rows too"
    with pytest.raises(InputError, match=words):
        grouped.update(X[NEW], Y[NEW])
    with pytest.raises(InputError, match=words):
        grouped.extend(X=X[NEW], Y=Y[NEW])
    words = r"the rows fitted on had no groups. Leave groups out, or fit again with groups"
    with pytest.raises(InputError, match=words):
        ensemble.update(X[NEW], Y[NEW], groups=np.arange(N))
    with pytest.raises(InputError, match=words):
        ensemble.extend(X=X[NEW], Y=Y[NEW], groups=np.arange(N))
    assert grouped.n_updated_ == ensemble.n_updated_ == 0
