"""The paper's two ensembles as estimators: scikit-learn's contract."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import NotConvergedWarning
from tests.ensembles.paper import BOTH, PROBLEM, SENSES, D, N, answers, assert_same, assert_same_log, fitted, make
from tests.problems import Floats, lookup, random_problem

# Parameters


class Untouchable:
    """Whatever is done with it fails."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = object.__hash__


@BOTH
def test_init_stores_and_nothing_else(kind: Any) -> None:
    first = "models" if kind is oe.WhiteBoxEnsemble else "policies"
    names = list(kind(None, None).get_params())
    assert first in names
    values = {name: Untouchable() for name in names}
    ensemble = kind(**values)
    assert vars(ensemble).keys() == values.keys()
    assert all(getattr(ensemble, name) is value for name, value in values.items())


@BOTH
def test_get_and_set_params(kind: Any) -> None:
    ensemble = make(kind)
    parameters = ensemble.get_params()
    assert parameters["feasible"] is PROBLEM.omega
    assert parameters["alpha"] == 0.02
    assert ensemble.set_params(alpha=0.5, schedule="joint") is ensemble
    assert (ensemble.alpha, ensemble.schedule) == (0.5, "joint")
    assert ensemble.get_params() == {**parameters, "alpha": 0.5, "schedule": "joint"}
    with pytest.raises(ValueError, match="alhpa"):
        ensemble.set_params(alhpa=1)


@BOTH
def test_fit_leaves_parameters_alone(kind: Any) -> None:
    ensemble = make(kind)
    before = dict(vars(ensemble))
    ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert all(getattr(ensemble, name) is value for name, value in before.items())


@BOTH
def test_clone_keeps_the_members_and_is_unfitted(kind: Any) -> None:
    ensemble = fitted(kind)
    copy = clone(ensemble)
    assert type(copy) is kind
    assert copy is not ensemble
    assert not [name for name in vars(copy) if name.endswith("_")]
    ours, theirs = copy.get_params(), ensemble.get_params()
    assert ours.keys() == theirs.keys()
    assert all(ours[name] is theirs[name] for name in theirs)
    with pytest.raises(SklearnNotFittedError):
        copy.decide(PROBLEM.X)
    assert_same(answers(copy.fit(PROBLEM.X, PROBLEM.Y), PROBLEM.X), answers(ensemble, PROBLEM.X))


def test_clone_keeps_fitted_models_fitted() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 3))
    model = LinearRegression().fit(X, Y)
    copy = clone(oe.WhiteBoxEnsemble([("a", model)], feasible.Simplex(3), validation=None))
    assert copy.models[0][1] is model
    assert hasattr(model, "coef_")
    inner = oe.WhiteBoxEnsemble([("a", model)], feasible.Simplex(3), validation=None).fit(X, Y)
    outer = clone(oe.BlackBoxEnsemble([("inner", inner)], feasible.Simplex(3), validation=None)).fit(X, Y)
    assert outer.policies[0][1] is inner
    assert outer.names_ == ["inner", "own"]


@BOTH
def test_repr_shows_the_parameters(kind: Any) -> None:
    for ensemble in (make(kind), fitted(kind)):
        text = repr(ensemble)
        assert text.startswith(f"{kind.__name__}(alpha=0.02")
        assert "Polytope(dimension=3)" in text
        assert kind.__name__ in ensemble._repr_html_()


@BOTH
def test_check_is_fitted(kind: Any) -> None:
    ensemble = make(kind)
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(ensemble)
    check_is_fitted(ensemble.fit(PROBLEM.X, PROBLEM.Y))


@BOTH
def test_fit_returns_self_and_learns_attributes_that_end_in_underscore(kind: Any) -> None:
    ensemble = make(kind)
    parameters = set(vars(ensemble))
    assert ensemble.fit(PROBLEM.X, PROBLEM.Y) is ensemble
    learned = set(vars(ensemble)) - parameters
    assert all(name.endswith("_") or name.startswith("_") for name in learned)
    documented = {"converged_", "stopped_", "worst_violation_", "n_rounds_", "n_patches_", "n_solves_", "history_"}
    assert documented | {"names_", "guarantees_", "log_"} <= learned


@BOTH
def test_fitting_again_replaces_everything(kind: Any) -> None:
    other = random_problem(12, n=45)
    ensemble = fitted(kind, subgroups=lambda X: X % 2)
    ensemble.set_params(**make(kind, other, alpha=0.05).get_params()).fit(other.X, other.Y)
    fresh = fitted(kind, other, alpha=0.05)
    assert_same(answers(ensemble, other.X), answers(fresh, other.X))
    assert_same_log(ensemble, fresh)
    pd.testing.assert_frame_equal(ensemble.history_, fresh.history_)
    pd.testing.assert_frame_equal(ensemble.guarantees_, fresh.guarantees_)
    assert ensemble.n_rows_ == 45
    assert ensemble.grouping_ is None
    assert vars(ensemble).keys() == vars(fresh).keys()


# Model selection and pipelines


@pytest.mark.no_cover
@BOTH
@SENSES
def test_grid_search(kind: Any, sense: str) -> None:
    grid = {"alpha": [0.02, 0.2], "schedule": ["frozen", "joint"]}
    folds = KFold(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        search = GridSearchCV(make(kind, sense=sense), grid, cv=folds, error_score="raise").fit(PROBLEM.X, PROBLEM.Y)
        assert set(search.best_params_) == {"alpha", "schedule"}
        sign = 1 if sense == "max" else -1
        by_hand = []
        for parameters in search.cv_results_["params"]:
            scores = []
            for train, test in folds.split(PROBLEM.X):
                one = make(kind, sense=sense, **parameters).fit(PROBLEM.X[train], PROBLEM.Y[train])
                scores.append(sign * (one.decide(PROBLEM.X[test]) * PROBLEM.Y[test]).sum(axis=1).mean())
            by_hand.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand, rtol=1e-12)
    assert search.best_score_ == pytest.approx(max(by_hand))
    assert search.best_estimator_.n_rows_ == N
    assert search.predict(PROBLEM.X).shape == (N, D)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_greater_scores_are_better() -> None:
    """Knowing the labels scores more than knowing nothing, whether they are payoffs or costs."""
    for sense in ("max", "min"):
        scores = [
            oe.WhiteBoxEnsemble([("a", lookup(P))], PROBLEM.omega, sense=sense, alpha=5.0, validation=None)
            .fit(PROBLEM.X, PROBLEM.Y)
            .score(PROBLEM.X, PROBLEM.Y)
            for P in (PROBLEM.Y, -PROBLEM.Y)
        ]
        assert scores[0] > scores[1]


def linear_problem() -> tuple[Floats, Floats, list[tuple[str, Any]]]:
    rng = np.random.default_rng(3)
    X = rng.normal(loc=5, scale=[1, 10, 100], size=(200, 3))
    Y = (X - 5) / [1, 10, 100] + 0.3 * rng.normal(size=(200, 3))
    scaled = StandardScaler().fit_transform(X[:100])
    models = [(f"only {j}", LinearRegression().fit(scaled * (np.arange(3) == j), Y[:100])) for j in range(3)]
    return X[100:], Y[100:], models


def test_an_ensemble_works_as_the_last_step_of_a_pipeline() -> None:
    X, Y, models = linear_problem()
    ensemble = oe.WhiteBoxEnsemble(models, feasible.Simplex(3), alpha=0.05, validation=None)
    pipeline = Pipeline([("scale", StandardScaler()), ("ensemble", ensemble)]).fit(X, Y)
    by_hand = clone(ensemble).fit(StandardScaler().fit_transform(X), Y)
    np.testing.assert_array_equal(pipeline.predict(X), by_hand.predict(StandardScaler().fit_transform(X)))
    assert pipeline.score(X, Y) == by_hand.score(StandardScaler().fit_transform(X), Y)
    assert pipeline.score(X, Y) > 0.3
    check_is_fitted(pipeline)
    grid = {"ensemble__alpha": [0.02, 0.2]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_estimator_["ensemble"].models is models
    assert cross_val_score(pipeline, X, Y, cv=3, error_score="raise").shape == (3,)
