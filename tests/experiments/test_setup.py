"""The paper's experiments: data, members, problems."""

from __future__ import annotations

import numpy as np
import pytest

from optensemble.exceptions import InputError
from optensemble.experiments import make_experiment, setup
from optensemble.feasible import RiskBudget


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


@pytest.mark.parametrize(
    ("scale", "limit", "why"), [(400, 300, ""), (4000, None, "nothing is that safe"), (100, None, "everything is")]
)
def test_the_risk_limit_is_300_where_it_binds(scale: float, limit: float | None, why: str) -> None:
    covariance = scale * np.array([[1.0, 0.3], [0.3, 1.2]])
    budget, note = setup._risk_budget(covariance)
    assert why in note
    if limit is None:
        assert budget.least_variance < budget.limit < np.diag(covariance).min()
        limit = budget.limit
    assert budget.limit == limit
    assert isinstance(budget, RiskBudget)


def test_an_unknown_experiment() -> None:
    with pytest.raises(InputError, match="'A', 'B', 'C', 'D'; got 'E'"):
        make_experiment("E")
