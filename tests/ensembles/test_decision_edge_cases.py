"""Unusual labels, predictions and members of a DecisionEnsemble."""

from __future__ import annotations

import copy
import re
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from optensemble import feasible
from tests.ensembles.decision import NEW, OLD, Ensemble, N, answers, fitted, make, payoff, problem, refused, same
from tests.problems import Floats, lookup, random_problem


def specialists(n: int, seed: int = 0) -> tuple[Floats, Floats, list[tuple[str, Any]]]:
    """Each model sees its own feature, and makes too little of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    models = [(f"sees {j}", lambda X, j=j: 0.4 * X * np.eye(3)[j]) for j in range(3)]
    return X, X + 0.5 * rng.normal(size=(n, 3)), models


def quiet(models: list[tuple[str, Any]], X: Any, Y: Any, omega: feasible.FeasibleSet) -> Ensemble:
    """Fit, and ask everything that can be asked."""
    ensemble = Ensemble(models, feasible=omega, context=None).fit(X, Y)
    promise = ensemble.promise(X)
    assert np.isfinite([promise.mean, promise.low, promise.high]).all()
    assert np.isfinite(ensemble.predict(X)).all()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*rows the ensemble was fitted on")
        assert ensemble.audit(X, Y).verdict
    return ensemble


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_labels_that_never_vary_are_promised_exactly() -> None:
    Y = np.broadcast_to([1.0, 3.0, 2.0], (N, 3))
    ensemble = quiet(problem().models, problem().X[OLD], Y, feasible.Simplex(3))
    promise = ensemble.promise(problem().X[NEW])
    assert (promise.low, promise.mean, promise.high) == pytest.approx((3.0, 3.0, 3.0))
    np.testing.assert_array_equal(ensemble.decide(problem().X[NEW]), np.broadcast_to([0.0, 1.0, 0.0], (N, 3)))


@pytest.mark.parametrize("access", ["models", "policies"])
def test_one_member(access: str) -> None:
    given = random_problem(1, n=600, k=1, omega="simplex")
    models = given.models if access == "models" else None
    policies = given.policies if access == "policies" else None
    ensemble = Ensemble(models, policies, given.omega).fit(given.X[:300], given.Y[:300])
    own = payoff(given.actions[0][300:], given.Y[300:])
    earned = payoff(ensemble.decide(given.X[300:]), given.Y[300:])
    assert earned.mean() > own.mean() - 2 * max(stats.sem(earned - own), 1e-12)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_identical_members_count_as_one() -> None:
    given = problem()
    twins = [(f"twin {i}", given.models[0][1]) for i in range(3)]
    ensemble = quiet(twins, given.X[OLD], given.Y[OLD], given.omega)
    alone = Ensemble(twins[:1], feasible=given.omega).fit(given.X[OLD], given.Y[OLD])
    agree = (ensemble.decide(given.X[NEW]) == alone.decide(given.X[NEW])).all(axis=1)
    assert agree.mean() > 0.95


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_predictions_of_nothing_but_zero() -> None:
    zeros = [(f"zero {i}", lambda X: np.zeros((len(X), 3))) for i in range(2)]
    Y = problem().Y[OLD] + [0.0, 1.0, 0.0]
    ensemble = quiet(zeros, problem().X[OLD], Y, feasible.Simplex(3))
    np.testing.assert_array_equal(ensemble.decide(problem().X[NEW])[:, 1], 1.0)


@pytest.mark.parametrize("level", [0.1, 5.7])
@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_predictions_of_nothing_but_a_constant(level: float) -> None:
    rng = np.random.default_rng(0)
    for n in (100, 137, 400):
        Y = 1.0 + rng.normal(size=(n, 1))
        ensemble = quiet([("flat", lambda X: np.full((len(X), 1), level))], Y, Y, feasible.Box([0.0], [1.0]))
        # as far from the constant as is more than noise
        expected = level + (1 - Y.var(ddof=1) / n / (Y.mean() - level) ** 2) * (Y.mean() - level)
        np.testing.assert_allclose(ensemble.predict(Y), expected, rtol=1e-6)


def test_labels_and_predictions_far_from_zero() -> None:
    given = problem()
    far = [(name, lambda X, m=model: m(X) + 1e9) for name, model in given.models]
    ensemble = Ensemble(far, feasible=given.omega).fit(given.X[OLD], given.Y[OLD] + 1e9)
    agree = (ensemble.decide(given.X[NEW]) == fitted().decide(given.X[NEW])).all(axis=1)
    assert agree.mean() > 0.99


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e9])
def test_decisions_do_not_depend_on_units(scale: float) -> None:
    given = problem()
    scaled = [(name, lambda X, m=model: scale * m(X)) for name, model in given.models]
    ensemble = Ensemble(scaled, feasible=given.omega).fit(given.X[OLD], scale * given.Y[OLD])
    np.testing.assert_array_equal(ensemble.decide(given.X[NEW]), fitted().decide(given.X[NEW]))
    np.testing.assert_allclose(ensemble.self_assess(given.X[NEW]), scale * fitted().self_assess(given.X[NEW]))


def halves(scale: float) -> Ensemble:
    """Two models that see one part of the signal each, in some units."""
    X, noise = np.random.default_rng(0).normal(size=(2, N, 3))
    models = [("a", lambda X: scale * X * [1, 0, 0]), ("b", lambda X: scale * X * [0, 1, 1])]
    return Ensemble(models, feasible=feasible.Simplex(3)).fit(X, scale * (X + noise))


@pytest.mark.parametrize("scale", [1e-58, 1e58])
def test_which_refinements_are_used_does_not_depend_on_units(scale: float) -> None:
    plain, scaled = halves(1.0), halves(scale)
    assert scaled.names_ == plain.names_
    assert scaled.notes_ == plain.notes_
    assert scaled.winner_ == plain.winner_


@pytest.mark.parametrize("scale", [1e61, 1e90, 1e-61, 1e-90])
def test_labels_too_large_or_too_small_for_squares_of_squares_are_refused(scale: float) -> None:
    Y = scale * problem().Y
    words = rf"the labels go up to {np.abs(Y).max():.3g}, which squares of squares cannot hold. Scale them"
    refused(make(), problem().X, Y, re.escape(words))


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_labels_that_are_all_zero_are_not_too_small() -> None:
    ensemble = quiet(problem().models, problem().X[OLD], np.zeros((N, 3)), feasible.Simplex(3))
    assert ensemble.promise(problem().X[NEW]).mean == 0


@pytest.mark.parametrize("flat", [True, False])
def test_one_coordinate(flat: bool) -> None:
    given = random_problem(3, d=1, n=400, omega="box")
    models = [(name, lambda X, m=model: m(X)[:, 0] if flat else m(X)) for name, model in given.models]
    ensemble = quiet(models, given.X, given.Y[:, 0] if flat else given.Y, given.omega)
    assert ensemble.decide(given.X).shape == ensemble.predict(given.X).shape == (400, 1)
    assert same(answers(ensemble, given.X), answers(make("models", given).fit(given.X, given.Y), given.X))


def test_more_predictions_than_rows() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(240, 60))
    P = signal + rng.normal(size=(3, 240, 60))
    models = [(f"m{i}", lookup(p)) for i, p in enumerate(P)]
    omega = feasible.TopK(60, 5)
    ensemble = Ensemble(models, feasible=omega).fit(np.arange(120), signal[:120] + rng.normal(size=(120, 60)))
    rows = np.arange(120, 240)
    earned = payoff(ensemble.decide(rows), signal[120:])
    best = max(payoff(omega.argmax(p[120:]), signal[120:]).mean() for p in P)
    assert earned.mean() > best


@pytest.mark.filterwarnings("ignore:model 'm1' predicts the same")
@pytest.mark.parametrize("members", [1, 2])
def test_a_model_alone_or_twice_is_refined_by_squared_error(members: int) -> None:
    """Actions that never differ say nothing of what sets them apart."""
    rng = np.random.default_rng(0)
    said = rng.normal(size=(600, 3))
    labels = said * [3.0, 0.2, 1.0] + 0.3 * rng.normal(size=said.shape)
    models = [(f"m{number}", lambda X: X) for number in range(members)]
    omega = feasible.Simplex(3)
    ensemble = Ensemble(models, feasible=omega, context=None).fit(said[:400], labels[:400])
    assert "refined" in ensemble.names_
    assert ensemble.score(said[400:], labels[400:]) > payoff(omega.argmax(said[400:]), labels[400:]).mean() + 0.1


def test_specialists_are_refined_into_more_than_any_of_them() -> None:
    X, Y, models = specialists(1200)
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X[:600], Y[:600], random_state=4)
    assert "refined" in ensemble.names_
    earned = payoff(ensemble.decide(X[600:]), Y[600:]).mean()
    alone = [payoff(feasible.Simplex(3).argmax(model(X[600:])), Y[600:]).mean() for _, model in models]
    assert earned > max(alone)
    assert not any(note.startswith("refined was left out") for note in ensemble.notes_)
    singles = np.concatenate([ensemble.predict(X[i : i + 1]) for i in range(600, 650)])
    np.testing.assert_allclose(singles, ensemble.predict(X[600:650]), rtol=1e-9, atol=1e-12)


def test_a_copy_is_a_whole_ensemble() -> None:
    copied = copy.deepcopy(fitted("both"))
    assert same(answers(copied, problem().X), answers(fitted("both"), problem().X))


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_set_of_a_single_action_works() -> None:
    omega = feasible.Vertices([[0.2, 0.3, 0.4]])
    ensemble = Ensemble(problem().models, feasible=omega).fit(problem().X[OLD], problem().Y[OLD])
    assert (ensemble.decide(problem().X[NEW]) == [0.2, 0.3, 0.4]).all()
    assert ensemble.finding_ == "ensemble does not beat deciding by the mean label: it earns the same out of fold"
