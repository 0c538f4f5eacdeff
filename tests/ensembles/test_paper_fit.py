"""A fit of the paper's two ensembles: history, callback, convergence, warnings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import NotConvergedWarning
from tests.ensembles.paper import BOTH, NOT_CONVERGED, PROBLEM, SCHEDULES, SENSES, N, assert_same_log, fitted, make
from tests.problems import random_problem


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_the_history_holds_promise_payoff_and_violation_of_every_round(
    kind: Any, options: dict[str, Any], sense: str
) -> None:
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
