"""The paper's experiments: data, members, problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optensemble.exceptions import InputError
from optensemble.experiments import make_experiment, setup
from optensemble.feasible import RiskBudget

pytestmark = pytest.mark.slow


def test_the_distribution_is_as_described() -> None:
    experiment = make_experiment("D", 3, training_rows=1000)
    X, Y = experiment.draw(20_000, 1)
    assert X.shape == (20_000, 20)
    assert Y.shape == (20_000, 4)
    assert set(X[:, -1]) == set(range(5))
    slopes, residual = np.linalg.lstsq(X, Y, rcond=None)[:2]
    assert ((slopes > 0) & (slopes < 1)).all()
    np.testing.assert_allclose(residual / 20_000, 0.01, rtol=0.1)
    again, _ = experiment.draw(20_000, 1)
    np.testing.assert_array_equal(again, X)
    other, _ = experiment.draw(20_000, 2)
    assert not np.isclose(other[:5], X[:5]).any(axis=1).all()


def test_members_specialise() -> None:
    by_label, by_group = make_experiment("C", 3, training_rows=2000), make_experiment("D", 3, training_rows=2000)
    X, Y = by_label.draw(2000, 9)
    mean = by_label.draw(2000, 3)[1].mean(axis=0)
    for j, (_, model) in enumerate(by_label.models):
        others = np.arange(4) != j
        np.testing.assert_allclose(model(X)[:, others], np.tile(mean[others], (2000, 1)))
        assert np.corrcoef(model(X)[:, j], Y[:, j])[0, 1] > 0.9
    for group, (_, model) in enumerate(by_group.models):
        mine = X[:, -1] == group
        np.testing.assert_allclose(model(X)[~mine], np.tile(mean, ((~mine).sum(), 1)))
        assert np.corrcoef(model(X)[mine, 0], Y[mine, 0])[0, 1] > 0.8
        assert model(X[~mine][:3]).shape == (3, 4)


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_labels_have_the_noise_that_is_asked_for(noise: float) -> None:
    X, Y = make_experiment("C", 3, training_rows=200, noise=noise).draw(20_000, 1)
    residual = Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(residual.var(axis=0), noise, rtol=0.1, atol=1e-9)


@pytest.mark.parametrize(("first", "second"), ["AC", "BD"])
def test_members_trained_before_are_reused(first: str, second: str) -> None:
    told: list[float] = []
    trained = make_experiment(first, 3, training_rows=300, tell=told.append)
    assert told == sorted(told)
    assert (len(told), told[-1]) == (len(trained.models), 1)
    told.clear()
    again = make_experiment(second, 3, training_rows=300, models=trained.models, tell=told.append)
    assert told == []
    fresh = make_experiment(second, 3, training_rows=300)
    X, _ = fresh.draw(50, 1)
    for (name, model), (other, same) in zip(again.models, fresh.models, strict=True):
        assert name == other
        np.testing.assert_array_equal(model(X), same(X))
    C = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_array_equal(again.feasible.argmax(C), fresh.feasible.argmax(C))
    assert (again.note, again.name) == (fresh.note, second)


def test_the_rows_trained_on_are_kept() -> None:
    experiment = make_experiment("A", 3, training_rows=300)
    X, Y = experiment.training
    assert (len(X), len(Y)) == (300, 300)
    fits = [np.corrcoef(model(X)[:, j], Y[:, j])[0, 1] for j, (_, model) in enumerate(experiment.models)]
    fresh, labels = experiment.draw(300, 9)
    others = [np.corrcoef(model(fresh)[:, j], labels[:, j])[0, 1] for j, (_, model) in enumerate(experiment.models)]
    assert min(fits) > 0.99 > max(others)


def test_exact_trees_predict_their_label_and_differ_from_histogram_trees() -> None:
    quick, exact = (make_experiment("C", 3, training_rows=500, trees=trees) for trees in ("histogram", "exact"))
    X, Y = exact.draw(500, 9)
    for j, ((_, ours), (_, theirs)) in enumerate(zip(exact.models, quick.models, strict=True)):
        assert np.corrcoef(ours(X)[:, j], Y[:, j])[0, 1] > 0.8
        assert not np.allclose(ours(X)[:, j], theirs(X)[:, j])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"trees": "oak"}, "'histogram', 'exact'; got 'oak'"), ({"noise": -1}, "noise must be .*got -1")],
)
def test_invalid_arguments_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_experiment("A", **wrong)


@pytest.mark.parametrize(
    ("scale", "limit", "why"),
    [
        (400, 300, ""),
        (4000, None, "no action has a risk as low as 300"),
        (100, None, "every action has a risk below 300"),
    ],
)
def test_the_risk_limit_is_300_where_it_binds(scale: float, limit: float | None, why: str) -> None:
    covariance = scale * np.array([[1.0, 0.3], [0.3, 1.2]])
    budget, note = setup._make_risk_budget(covariance)
    assert why in note
    if limit is None:
        assert budget.least_variance < budget.limit < np.diag(covariance).min()
        limit = budget.limit
    assert budget.limit == limit
    assert isinstance(budget, RiskBudget)


def test_an_unknown_experiment() -> None:
    with pytest.raises(InputError, match="'A', 'B', 'C', 'D'; got 'E'"):
        make_experiment("E")
