"""DecisionEnsemble.decide: every action is that of the candidate followed, in either sense, in every set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from optensemble import feasible
from optensemble.exceptions import InputError
from tests.ensembles.decision import (
    ACCESS,
    NEW,
    SENSES,
    D,
    Ensemble,
    N,
    answers,
    fitted,
    forecasts,
    make,
    payoff,
    problem,
    same,
)
from tests.problems import random_problem
from tests.sample_sets import covariance, top_one

# Candidates followed


@ACCESS
def test_names_are_members_and_then_forecasts(access: str) -> None:
    ensemble = fitted(access)
    assert ensemble.names_[:3] == ["m0", "m1", "m2"]
    made = ensemble.names_[3:]
    assert made == [n for n in ("average", "stack", "refined", "patched", "ridge", "mean") if n in made]
    assert {"stack", "ridge", "mean"} <= set(made)
    assert ("average" in made) == (access != "policies")
    assert ensemble.n_models_ == {"models": 3, "policies": 0, "both": 2}[access]


@ACCESS
@SENSES
@pytest.mark.parametrize("omega", ["simplex", "polytope"])
def test_the_action_is_that_of_the_candidate_followed(access: str, sense: str, omega: str) -> None:
    ensemble, given = fitted(access, omega, sense), problem(omega)
    X, sign = given.X[NEW], 1.0 if sense == "max" else -1.0
    said = forecasts(ensemble, X)
    models = {"models": 3, "policies": 0, "both": 2}[access]
    members = [given.omega.argmax(sign * given.P[m][X]) if m < models else given.actions[m][X] for m in range(3)]
    arms = [*members, *(given.omega.argmax(np.ascontiguousarray(said[name])) for name in ensemble.decider_.forecasts)]
    chosen = ensemble.choose(X)
    np.testing.assert_array_equal(ensemble.decide(X), np.stack(arms)[chosen, np.arange(N)])
    assert chosen.min() >= 0
    assert chosen.max() < len(ensemble.names_)


@ACCESS
def test_a_row_is_decided_alone_as_in_a_batch(access: str) -> None:
    ensemble, X = fitted(access, "polytope"), problem("polytope").X[NEW][:40]
    actions, promised, chosen, predictions = answers(ensemble, X)
    for i in range(40):
        alone = answers(ensemble, X[i : i + 1])
        np.testing.assert_array_equal(alone[0][0], actions[i])
        assert alone[2][0] == chosen[i]
        np.testing.assert_allclose(alone[1][0], promised[i], rtol=1e-12)
        np.testing.assert_allclose(alone[3][0], predictions[i], rtol=1e-9, atol=1e-12)


def test_no_rows_give_no_decisions() -> None:
    ensemble, none = fitted(), problem().X[:0]
    assert ensemble.decide(none).shape == ensemble.predict(none).shape == (0, D)
    assert ensemble.choose(none).shape == ensemble.self_assess(none).shape == (0,)
    with pytest.raises(InputError, match="at least 1 row is needed; got 0"):
        ensemble.promise(none)


def test_arrays_returned_can_be_changed_without_effect() -> None:
    ensemble, X = fitted("policies"), problem().X[NEW]
    before = answers(ensemble, X)
    table = problem().actions.copy()
    for array in answers(ensemble, X):
        array[...] = 0
    assert same(answers(ensemble, X), before)
    np.testing.assert_array_equal(problem().actions, table)


# Senses


@pytest.mark.no_cover
@ACCESS
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("time_ordered", [True, False])
def test_costs_are_the_mirror_of_payoffs(access: str, seed: int, time_ordered: bool) -> None:
    given = random_problem(seed, n=300, omega="polytope")
    X, rows = given.X, slice(0, 200)
    earning = make(access, given).fit(X[rows], given.Y[rows], time_ordered=time_ordered)
    negated = [(name, lambda X, m=model: -m(X)) for name, model in given.models]
    members = {"models": (negated, None), "policies": (None, given.policies), "both": (negated[:2], given.policies[2:])}
    costing = Ensemble(*members[access], feasible=given.omega, sense="min")
    costing.fit(X[rows], -given.Y[rows], time_ordered=time_ordered)
    np.testing.assert_array_equal(costing.decide(X), earning.decide(X))
    np.testing.assert_array_equal(costing.choose(X), earning.choose(X))
    np.testing.assert_array_equal(costing.predict(X), -earning.predict(X))
    np.testing.assert_array_equal(costing.self_assess(X), -earning.self_assess(X))
    payoffs, costs = earning.promise(X[200:]), costing.promise(X[200:])
    assert (costs.mean, costs.low, costs.high, costs.rely_on) == (
        *(-payoffs.mean, -payoffs.high, -payoffs.low),
        -payoffs.rely_on,
    )
    assert costing.winner_ == earning.winner_
    left, right = (each.leaderboard_.set_index("candidate") for each in (costing, earning))
    assert left.index.tolist() == right.index.tolist()
    for column, mirror in {"realised": "realised", "low": "high", "difference_low": "difference_high"}.items():
        np.testing.assert_array_equal(left[column], -right[mirror])
    np.testing.assert_array_equal(left["detectable"], right["detectable"])
    assert costing.score(X, -given.Y) == earning.score(X, given.Y)


# Sets


SETS: dict[str, feasible.FeasibleSet] = {
    "vertices": feasible.Vertices(np.random.default_rng(0).uniform(-1, 2, size=(9, 4))),
    "polytope": feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6]),
    "fractions": feasible.Knapsack([3.0, 2.0, 5.0, 1.0], 6.0),
    "knapsack": feasible.Knapsack([3.0, 2.0, 5.0, 1.0], 6.0, integer=True),
    "simplex": feasible.Simplex(4),
    "top k": feasible.TopK(4, 2),
    "risk": feasible.RiskBudget(covariance(4, seed=1), float(np.diag(covariance(4, seed=1)).min() * 0.9)),
    "oracle": feasible.Oracle(top_one, 4),
    "box": feasible.Box([-5.0, 0.0, 2.0, 0.0], [5.0, 100.0, 2.0, 1e-3]),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", SETS)
@ACCESS
def test_it_works_with_every_kind_of_set(name: str, access: str) -> None:
    omega, given = SETS[name], random_problem(2, n=500, d=4)
    given.omega = omega
    ensemble = make(access, given).fit(given.X[:250], given.Y[:250])
    X, Y = given.X[250:], given.Y[250:]
    actions = ensemble.decide(X)
    assert omega.violation(actions).max() <= 1e-6 * omega.extent
    promise, earned = ensemble.promise(X), payoff(actions, Y)
    mean = payoff(omega.argmax(np.broadcast_to(given.Y[:250].mean(axis=0), Y.shape).copy()), Y)
    assert earned.mean() > mean.mean() - 2 * stats.sem(earned - mean)
    assert promise.low - 2 * stats.sem(earned) < earned.mean() < promise.high + 2 * stats.sem(earned)
