"""The ensembles as estimators: scikit-learn's contract, and answers that agree with each other to the last bit."""

from __future__ import annotations

import warnings
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import InputError, NotConvergedWarning
from tests.problems import (
    Floats,
    Problem,
    black_box_masks,
    bucket,
    level_set_masks,
    lookup,
    random_problem,
    violation,
    white_box_masks,
)

PROBLEM = random_problem(11)
N, D = PROBLEM.Y.shape
KINDS = [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble]
BOTH = pytest.mark.parametrize("kind", KINDS)
OPTIONS: list[dict[str, Any]] = [
    {"schedule": "frozen"},
    {"schedule": "round-robin"},
    {"schedule": "joint"},
    {"schedule": "joint", "shrinkage": 2.0},
]
SCHEDULES = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
SENSES = pytest.mark.parametrize("sense", ["max", "min"])
NOT_CONVERGED = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")
COMMON: dict[str, Any] = {"alpha": 0.02, "bucket_width": 0.25, "max_rounds": 200, "validation": None}


def members(kind: type, problem: Problem) -> list[tuple[str, Any]]:
    return problem.models if kind is oe.WhiteBoxEnsemble else problem.policies


def make(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    return kind(members(kind, problem), problem.omega, **{**COMMON, **parameters})


def fitted(kind: Any, problem: Problem = PROBLEM, **parameters: Any) -> Any:
    return make(kind, problem, **parameters).fit(problem.X, problem.Y)


def answers(ensemble: Any, X: Any) -> list[Any]:
    more = [ensemble.predict_members(X)] if isinstance(ensemble, oe.WhiteBoxEnsemble) else []
    return [ensemble.decide(X), ensemble.predict(X), ensemble.self_assess(X), ensemble.choose(X), *more]


def assert_same(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_log(ours: Any, theirs: Any) -> None:
    """The same corrections, to the last bit."""
    assert len(ours.log_) == len(theirs.log_)
    for a, b in zip(ours.log_, theirs.log_, strict=True):
        assert a.layout == b.layout
        assert len(a.rounds) == len(b.rounds)
        for left, right in zip(a.rounds, b.rounds, strict=True):
            assert [patch.member for patch in left] == [patch.member for patch in right]
            for p, q in zip(left, right, strict=True):
                np.testing.assert_array_equal(p.cells, q.cells)
                np.testing.assert_array_equal(p.delta, q.delta)


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
def test_repr(kind: Any) -> None:
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
    ensemble = fitted(kind, groups=lambda X: X % 2)
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


def test_pipeline() -> None:
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


# The course of a fit


@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_history(kind: Any, options: dict[str, Any], sense: str) -> None:
    ensemble = fitted(kind, sense=sense, **options)
    history, X, Y = ensemble.history_, PROBLEM.X, PROBLEM.Y
    white = kind is oe.WhiteBoxEnsemble
    contenders = ["m0", "m1", "m2"] if white else ["m0", "m1", "m2", "own"]
    assert ensemble.names_ == contenders
    assert list(history.columns) == [
        *("promised", "realised", "worst_violation", "solves"),
        *(f"{what}_{name}" for what in ("promised", "realised", "chosen") for name in contenders),
        *(f"squared_error_{name}" for name in (contenders if white else ["own"])),
    ]
    assert history.index.name == "round"
    assert list(history.index) == list(range(ensemble.n_rounds_ + 1))
    assert ensemble.n_rounds_ > 1
    assert (history[[f"chosen_{name}" for name in contenders]].sum(axis=1) == N).all()
    for column in history.filter(like="squared_error_"):
        assert (np.diff(history[column]) <= 1e-12).all()
    assert (np.diff(history["solves"]) >= 0).all()
    assert ensemble.n_solves_ == history["solves"].iloc[-1]

    last = history.iloc[-1]
    assert last["promised"] == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    assert last["realised"] == pytest.approx((ensemble.decide(X) * Y).sum(axis=1).mean(), rel=1e-12)
    assert last["worst_violation"] == ensemble.worst_violation_
    chosen = ensemble.choose(X)
    for i, name in enumerate(contenders):
        assert last[f"chosen_{name}"] == (chosen == i).sum()
    predictions = ensemble.predict_members(X) if white else ensemble.predict(X)[None]
    for name, h in zip(contenders if white else ["own"], predictions, strict=True):
        assert last[f"squared_error_{name}"] == pytest.approx(((h - Y) ** 2).sum(axis=1).mean(), rel=1e-12)
    first = history.iloc[0]
    start = PROBLEM.P if white else [np.tile(Y.mean(axis=0), (N, 1))]
    for name, h in zip(contenders if white else ["own"], start, strict=True):
        assert first[f"squared_error_{name}"] == pytest.approx(((h - Y) ** 2).sum(axis=1).mean(), rel=1e-12)


@NOT_CONVERGED
@BOTH
@SCHEDULES
def test_the_callback_hears_of_every_round(kind: Any, options: dict[str, Any]) -> None:
    heard: list[tuple[int, float]] = []
    ensemble = make(kind, **options)
    ensemble.fit(PROBLEM.X, PROBLEM.Y, callback=lambda number, worst: heard.append((number, worst)))
    assert [number for number, _ in heard] == list(range(1, ensemble.n_rounds_ + 1))
    assert [worst for _, worst in heard] == ensemble.history_["worst_violation"].tolist()[:-1]
    assert_same_log(ensemble, fitted(kind, **options))


@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "joint"])
@pytest.mark.parametrize("seed", range(3))
def test_converges_by_default(kind: Any, schedule: str, seed: int) -> None:
    ensemble = fitted(kind, random_problem(seed), schedule=schedule, max_rounds=None)
    assert ensemble.converged_
    assert ensemble.worst_violation_ <= ensemble.alpha
    assert ensemble.stopped_ == "every cell is within alpha"
    assert ensemble.guarantees_["holds"].all()


@BOTH
@SCHEDULES
@pytest.mark.parametrize("most", [0, 1, 2])
def test_too_few_rounds_are_announced(kind: Any, options: dict[str, Any], most: int) -> None:
    ensemble = make(kind, max_rounds=most, alpha=0.001, **options)
    with pytest.warns(
        NotConvergedWarning, match=rf"did not converge: max_rounds={most} reached.*Allow more rounds, or"
    ):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    assert issubclass(NotConvergedWarning, ConvergenceWarning)
    assert ensemble.n_rounds_ == most
    assert not ensemble.converged_
    assert f"the worst violation left is {ensemble.worst_violation_:.3g}, above alpha=0.001" in ensemble.stopped_
    assert ensemble.worst_violation_ > 0.001


@pytest.mark.parametrize("kind", [oe.WhiteBoxEnsemble, oe.BlackBoxEnsemble])
def test_the_warning_points_at_the_call_of_fit(kind: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(kind, max_rounds=1, alpha=0.001).fit(PROBLEM.X, PROBLEM.Y)
    assert [warning.filename for warning in caught] == [__file__]


def test_models_fitted_on_their_own_training_rows_are_noticed() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 3)), rng.normal(size=(80, 3))
    forest = RandomForestRegressor(20, oob_score=True, random_state=0).fit(X, Y)
    ensemble = oe.WhiteBoxEnsemble([("forest", forest)], feasible.Simplex(3), alpha=0.2, validation=None)
    with pytest.warns(
        UserWarning, match=r"model 'forest' explains .* look like the rows it was trained on. Fit the ens"
    ):
        ensemble.fit(X, Y)
    ensemble.fit(rng.normal(size=(80, 3)), Y)  # without a warning


@BOTH
def test_declared_and_estimated_bound(kind: Any) -> None:
    estimated, declared = fitted(kind), fitted(kind, M=100)
    assert estimated.M is None
    assert np.abs(PROBLEM.Y).max() == estimated.M_
    assert declared.M_ == 100.0
    assert_same_log(estimated, declared)
    lemma = "Lemma 7" if kind is oe.WhiteBoxEnsemble else "Lemma 3"
    bounds = [one.guarantees_.set_index("lemma").loc[lemma, "bound"] for one in (estimated, declared)]
    assert np.all(np.asarray(bounds[1]) > np.asarray(bounds[0]))
    assert fitted(kind, M=float(np.abs(PROBLEM.Y).max())).M_ == estimated.M_


# Answers


@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
@pytest.mark.parametrize("omega", ["polytope", "vertices", "box"])
def test_answers_agree_with_each_other(kind: Any, options: dict[str, Any], sense: str, omega: str) -> None:
    problem = random_problem(13, omega=omega)
    ensemble = fitted(kind, problem, sense=sense, max_rounds=30, **options)
    sign = 1.0 if sense == "max" else -1.0
    actions, predictions, promised, chosen, *rest = answers(ensemble, problem.X)
    np.testing.assert_array_equal(actions, problem.omega.argmax(sign * predictions))
    np.testing.assert_allclose(promised, (actions * predictions).sum(axis=1), rtol=0, atol=1e-12)
    assert problem.omega.violation(actions).max() <= 1e-7
    expected = sign * (actions * problem.Y).sum(axis=1).mean()
    assert ensemble.score(problem.X, problem.Y) == pytest.approx(expected, rel=1e-12)
    if rest:
        corrected = rest[0]
        np.testing.assert_array_equal(predictions, corrected[chosen, problem.X])
        assessed = [(problem.omega.argmax(sign * h) * h).sum(axis=1) for h in corrected]
        assert (sign * promised >= (sign * np.array(assessed)).max(axis=0) - 1e-8).all()
    else:
        for i, policy in enumerate(problem.actions):
            np.testing.assert_allclose(actions[chosen == i], policy[chosen == i], rtol=0, atol=1e-9)


@NOT_CONVERGED
@BOTH
@SCHEDULES
@pytest.mark.parametrize("omega", ["polytope", "simplex", "vertices", "box", "risk"])
def test_answers_do_not_depend_on_company(kind: Any, options: dict[str, Any], omega: str) -> None:
    problem = random_problem(14, n=50, omega=omega)
    ensemble = fitted(kind, problem, groups=lambda X: X % 2, max_rounds=8, **options)
    whole = answers(ensemble, problem.X)
    order = np.random.default_rng(0).permutation(50)
    for batches in ([order], [order[:7], order[7:30], order[30:]], [problem.X[i : i + 1] for i in range(4)]):
        for batch in batches:
            for ours, theirs in zip(answers(ensemble, batch), whole, strict=True):
                np.testing.assert_array_equal(ours, theirs[:, batch] if theirs.ndim == 3 else theirs[batch])


@NOT_CONVERGED
@BOTH
@SCHEDULES
def test_replay_is_the_fit(kind: Any, options: dict[str, Any]) -> None:
    """What the loop saw last is what is answered: fitting on from the replayed predictions finds nothing to do."""
    ensemble = fitted(kind, **options)
    assert ensemble.history_["promised"].iloc[-1] == pytest.approx(ensemble.self_assess(PROBLEM.X).mean(), rel=1e-12)
    if kind is oe.WhiteBoxEnsemble:
        replayed = Problem(PROBLEM.X, PROBLEM.Y, ensemble.predict_members(PROBLEM.X), PROBLEM.omega)
        assert (
            fitted(kind, replayed, schedule="frozen", max_rounds=0, alpha=5.0).worst_violation_
            == ensemble.worst_violation_
        )
    else:
        start = lookup(ensemble.predict(PROBLEM.X))
        assert fitted(kind, init=start, max_rounds=0, alpha=5.0).worst_violation_ == ensemble.worst_violation_


@NOT_CONVERGED
@pytest.mark.skipif(numba.get_num_threads() < 2, reason="one thread only")
@BOTH
def test_answers_do_not_depend_on_threads(kind: Any) -> None:
    problem = random_problem(15, n=17_000, k=2, omega="vertices")
    before, results = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            ensemble = fitted(kind, problem, max_rounds=5)
            results.append((ensemble, answers(ensemble, problem.X)))
    finally:
        numba.set_num_threads(before)
    assert_same_log(results[0][0], results[1][0])
    assert_same(results[0][1], results[1][1])


@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_the_order_of_the_rows_does_not_matter(kind: Any, options: dict[str, Any], sense: str) -> None:
    order = np.random.default_rng(1).permutation(N)
    parameters = {"groups": lambda X: X % 3, "sense": sense, **options}
    ensemble = fitted(kind, **parameters)
    shuffled = make(kind, **parameters).fit(PROBLEM.X[order], PROBLEM.Y[order])
    assert_same_log(ensemble, shuffled)
    assert_same(answers(ensemble, PROBLEM.X), answers(shuffled, PROBLEM.X))
    assert ensemble.worst_violation_ == shuffled.worst_violation_


@NOT_CONVERGED
@BOTH
@SCHEDULES
def test_a_cost_is_a_negative_payoff(kind: Any, options: dict[str, Any]) -> None:
    mirrored = Problem(PROBLEM.X, -PROBLEM.Y, -PROBLEM.P, PROBLEM.omega)
    policies = {} if kind is oe.WhiteBoxEnsemble else {"policies": mirrored.policies}
    cost = make(kind, sense="min", **options).set_params(**policies).fit(PROBLEM.X, PROBLEM.Y)
    payoff = fitted(kind, mirrored, **options)
    assert cost.n_rounds_ == payoff.n_rounds_ > 1
    np.testing.assert_array_equal(cost.decide(PROBLEM.X), payoff.decide(PROBLEM.X))
    np.testing.assert_array_equal(cost.predict(PROBLEM.X), -payoff.predict(PROBLEM.X))
    np.testing.assert_array_equal(cost.self_assess(PROBLEM.X), -payoff.self_assess(PROBLEM.X))
    np.testing.assert_array_equal(cost.choose(PROBLEM.X), payoff.choose(PROBLEM.X))
    assert cost.score(PROBLEM.X, PROBLEM.Y) == payoff.score(PROBLEM.X, -PROBLEM.Y)
    assert cost.worst_violation_ == payoff.worst_violation_
    for column in ("promised", "realised"):
        np.testing.assert_array_equal(cost.history_[column], -payoff.history_[column])
    pd.testing.assert_frame_equal(cost.guarantees_, payoff.guarantees_)


def test_consistency_by_the_definition() -> None:
    white, black = fitted(oe.WhiteBoxEnsemble), fitted(oe.BlackBoxEnsemble)
    worst = max(
        violation(mask, PROBLEM.Y - h)
        for h, masks in zip(white.predict_members(PROBLEM.X), white_box_masks(white, PROBLEM, 4), strict=True)
        for mask in masks
    )
    assert worst == pytest.approx(white.worst_violation_, abs=1e-12)
    residual = PROBLEM.Y - black.predict(PROBLEM.X)
    worst = max(violation(mask, residual) for mask in black_box_masks(black, PROBLEM, 4))
    assert worst == pytest.approx(black.worst_violation_, abs=1e-12)


def test_parameters_set_after_fit_wait_for_the_next_fit() -> None:
    for kind in KINDS:
        ensemble = fitted(kind)
        before = answers(ensemble, PROBLEM.X)
        assert_same(answers(ensemble.set_params(bucket_width=0.5), PROBLEM.X), before)


# Extending a black box


@NOT_CONVERGED
@SCHEDULES
@pytest.mark.parametrize("what", ["policies", "rows", "both"])
def test_extend(what: str, options: dict[str, Any]) -> None:
    problem = random_problem(16, n=90, k=3)
    old = slice(None) if what == "policies" else slice(0, 60)
    known = problem.policies if what == "rows" else problem.policies[:2]
    ensemble = oe.BlackBoxEnsemble(known, problem.omega, **{**COMMON, "max_rounds": 80, **options})
    ensemble.fit(problem.X[old], problem.Y[old])
    log, start, initial = ensemble.log_, ensemble.predict(problem.X), ensemble.init_
    more: dict[str, Any] = {}
    if what != "rows":
        more["policies"] = problem.policies[2:]
    if what != "policies":
        more |= {"X": problem.X[60:], "Y": problem.Y[60:]}
    first: list[float] = []
    assert ensemble.extend(**more, callback=lambda number, worst: first.append(worst)) is ensemble
    assert ensemble.names_ == ["m0", "m1", "m2", "own"]
    assert [name for name, _ in ensemble.policies] == ["m0", "m1", "m2"]
    assert ensemble.n_rows_ == 90

    # it went on from where it was
    assert len(ensemble.log_) == 2
    assert ensemble.log_[0] is log[0]
    assert len(first) == ensemble.n_rounds_ == len(ensemble.log_[1].rounds)
    np.testing.assert_array_equal(ensemble.init_, initial)
    before = ((start - problem.Y) ** 2).sum(axis=1).mean()
    assert ensemble.history_["squared_error_own"].iloc[0] == pytest.approx(before, rel=1e-12)

    # and is consistent on all rows and all policies' cells
    masks = black_box_masks(ensemble, problem, 4)
    worst = max(violation(mask, problem.Y - ensemble.predict(problem.X)) for mask in masks)
    assert worst == pytest.approx(ensemble.worst_violation_, abs=1e-12)
    assert worst <= ensemble.alpha or options["schedule"] == "round-robin"
    last = ensemble.history_.iloc[-1]
    assert last["promised"] == pytest.approx(ensemble.self_assess(problem.X).mean(), rel=1e-12)
    assert last["realised"] == pytest.approx((ensemble.decide(problem.X) * problem.Y).sum(axis=1).mean(), rel=1e-12)
    order = np.random.default_rng(0).permutation(90)
    np.testing.assert_array_equal(ensemble.predict(order), ensemble.predict(problem.X)[order])


def test_extending_takes_fewer_patches_than_starting_over() -> None:
    problem = random_problem(17, n=400, k=3)
    parameters: dict[str, Any] = {"alpha": 0.01, "bucket_width": 0.25, "validation": None}
    whole = problem.black_box(**parameters)
    ensemble = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, **parameters).fit(problem.X, problem.Y)
    ensemble.extend(policies=problem.policies[2:])
    assert ensemble.converged_
    assert 0 < ensemble.n_patches_.sum() < whole.n_patches_.sum()


def test_extending_by_what_is_there_already_changes_nothing() -> None:
    ensemble = fitted(oe.BlackBoxEnsemble)
    before = answers(ensemble, PROBLEM.X)
    ensemble.extend(policies=[("again", PROBLEM.policies[0][1])])
    ensemble.extend(X=PROBLEM.X, Y=PROBLEM.Y)
    assert [len(log.rounds) for log in ensemble.log_[1:]] == [0, 0]
    assert_same(answers(ensemble, PROBLEM.X)[:3], before[:3])
    assert ensemble.n_rows_ == 2 * N


def test_extending_by_rows_of_a_new_group() -> None:
    problem = random_problem(18, n=90)
    ensemble = oe.BlackBoxEnsemble(problem.policies, problem.omega, groups=lambda X: X // 30, **COMMON)
    ensemble.fit(problem.X[:60], problem.Y[:60])
    assert ensemble._group_sizes == (3,)  # one more for the unknown
    start = ensemble.predict(problem.X)
    ensemble.extend(X=problem.X[60:], Y=problem.Y[60:] + 1)
    assert ensemble._group_sizes == (4,)
    assert ensemble.converged_
    labels = np.concatenate([problem.Y[:60], problem.Y[60:] + 1])
    assert ensemble.history_["squared_error_own"].iloc[0] == pytest.approx(((start - labels) ** 2).sum(axis=1).mean())
    residual = labels - ensemble.predict(problem.X)
    for group in range(3):
        assert violation(np.equal(problem.X // 30, group), residual) <= ensemble.alpha


def test_extending_conditionally() -> None:
    problem = random_problem(19, n=80, k=2)
    count = 2
    ensemble = oe.BlackBoxEnsemble(
        problem.policies[:1], problem.omega, conditional=True, alpha=0.03, bucket_width=0.5, validation=None
    )
    ensemble.fit(problem.X, problem.Y).extend(policies=problem.policies[1:])
    assert ensemble.converged_
    residual = problem.Y - ensemble.predict(problem.X)
    levels = [*problem.actions, ensemble.decide(problem.X)]
    assert bucket(levels[0], problem.omega, count).max() == 1
    masks = [mask for actions in levels for mask in level_set_masks(actions, problem.omega, count)]
    assert max(violation(a & b, residual) for a in masks for b in masks) <= 0.03


def test_refitting_forgets_extensions() -> None:
    problem = random_problem(16, n=90, k=3)
    ensemble = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, **COMMON).fit(problem.X[:60], problem.Y[:60])
    ensemble.extend(policies=problem.policies[2:], X=problem.X[60:], Y=problem.Y[60:])
    ensemble.fit(problem.X, problem.Y)
    fresh = problem.black_box(**COMMON)
    assert len(ensemble.log_) == 1
    assert_same(answers(ensemble, problem.X), answers(fresh, problem.X))


def test_labels_changed_after_fit_do_not_change_an_extension() -> None:
    results = []
    for spoil in (False, True):
        Y = PROBLEM.Y.copy()
        ensemble = oe.BlackBoxEnsemble(PROBLEM.policies[:2], PROBLEM.omega, **COMMON).fit(PROBLEM.X, Y)
        if spoil:
            Y[:] = 0.0
        results.append(answers(ensemble.extend(policies=PROBLEM.policies[2:]), PROBLEM.X))
    assert_same(*results)


# Retracing


def assert_shows(situation: Any, ensemble: Any, X: Any) -> None:
    """The situation is what the ensemble answers on the rows of X, to the last bit."""
    shown = [situation.taken(situation.actions), situation.behind(), situation.taken(situation.assessed)]
    more = [situation.predictions] if isinstance(ensemble, oe.WhiteBoxEnsemble) else []
    assert_same([*shown, situation.choice, *more], answers(ensemble, X))


@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_retracing_shows_what_shorter_fits_would_have_been(kind: Any, options: dict[str, Any], sense: str) -> None:
    ensemble = fitted(kind, sense=sense, groups=lambda X: X % 3, **options)
    last = ensemble.n_rounds_
    looks = sorted({0, 1, 2, last // 2, last - 1, last})
    order = np.random.default_rng(2).permutation(N)
    assert len(looks) > 3
    for after, situation in zip(looks, ensemble.retrace(order, looks), strict=True):
        shorter = fitted(kind, sense=sense, groups=lambda X: X % 3, **{**options, "max_rounds": after})
        assert shorter.n_rounds_ == after
        assert_shows(situation, shorter, order)


@NOT_CONVERGED
@BOTH
@SCHEDULES
def test_retracing_beyond_the_end_shows_the_end_on_rows_never_seen_too(kind: Any, options: dict[str, Any]) -> None:
    ensemble = make(kind, **options).fit(PROBLEM.X[:40], PROBLEM.Y[:40])
    fresh, last = PROBLEM.X[40:], ensemble.n_rounds_
    seen = 0
    for situation in ensemble.retrace(fresh, [last, last, last + 1, 10**9]):
        assert_shows(situation, ensemble, fresh)
        seen += 1
    assert seen == 4


@NOT_CONVERGED
@SCHEDULES
def test_retracing_goes_through_an_extension_too(options: dict[str, Any]) -> None:
    problem, parameters = random_problem(16, n=90, k=3), {**COMMON, "max_rounds": 12, **options}

    def before() -> oe.BlackBoxEnsemble:
        known = oe.BlackBoxEnsemble(problem.policies[:2], problem.omega, **parameters)
        return known.fit(problem.X[:60], problem.Y[:60])

    def extended(rounds: int) -> oe.BlackBoxEnsemble:
        more: dict[str, Any] = {"policies": problem.policies[2:], "X": problem.X[60:], "Y": problem.Y[60:]}
        ensemble = before()
        ensemble.max_rounds = rounds
        return ensemble.extend(**more)

    whole, first = extended(12), before().n_rounds_
    assert [len(log.rounds) for log in whole.log_] == [first, whole.n_rounds_]
    assert min(first, whole.n_rounds_) > 1
    looks = [first, first + 1, first + whole.n_rounds_, 10**6]
    for after, situation in zip(looks, whole.retrace(problem.X, looks), strict=True):
        assert_shows(situation, extended(min(after - first, whole.n_rounds_)), problem.X)
    (situation,) = whole.retrace(problem.X, [first])
    np.testing.assert_array_equal(situation.behind(), before().predict(problem.X))
    (situation,) = whole.retrace(problem.X, [0])
    np.testing.assert_allclose(situation.behind(), np.tile(problem.Y[:60].mean(axis=0), (90, 1)), rtol=1e-12)


@BOTH
def test_an_ensemble_that_is_not_fitted_has_nothing_to_retrace(kind: Any) -> None:
    with pytest.raises(SklearnNotFittedError, match=r"is not fitted yet. Call fit\(X, Y\) first"):
        make(kind).retrace(PROBLEM.X, [0])


def test_retracing_leaves_the_ensemble_as_it_was() -> None:
    for kind in KINDS:
        ensemble = fitted(kind)
        before, rounds = answers(ensemble, PROBLEM.X), [len(log.rounds) for log in ensemble.log_]
        for situation in ensemble.retrace(PROBLEM.X, [0, 1, ensemble.n_rounds_]):
            situation.predictions[:] += 1  # whatever is done with it
        assert_same(answers(ensemble, PROBLEM.X), before)
        assert [len(log.rounds) for log in ensemble.log_] == rounds


@pytest.mark.parametrize("rounds", [[20, 10, 20], [-1]])
def test_rounds_to_look_at_must_ascend(rounds: list[int]) -> None:
    with pytest.raises(InputError, match=r"rounds must be at least 0 and ascend; got \[.*\]."):
        fitted(oe.WhiteBoxEnsemble).retrace(PROBLEM.X, rounds)
