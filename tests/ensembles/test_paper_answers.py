"""Answers of the paper's two ensembles agree with each other to the last bit."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from tests.ensembles.paper import (
    BOTH,
    KINDS,
    NOT_CONVERGED,
    PROBLEM,
    SCHEDULES,
    SENSES,
    N,
    answers,
    assert_same,
    assert_same_log,
    fitted,
    make,
)
from tests.problems import Problem, black_box_masks, lookup, random_problem, violation, white_box_masks

pytestmark = pytest.mark.slow


@pytest.mark.no_cover
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


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@SCHEDULES
@pytest.mark.parametrize("omega", ["polytope", "simplex", "vertices", "box", "risk"])
def test_answers_do_not_depend_on_the_other_rows(kind: Any, options: dict[str, Any], omega: str) -> None:
    problem = random_problem(14, n=50, omega=omega)
    ensemble = fitted(kind, problem, subgroups=lambda X: X % 2, max_rounds=8, **options)
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


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_the_order_of_the_rows_does_not_matter(kind: Any, options: dict[str, Any], sense: str) -> None:
    order = np.random.default_rng(1).permutation(N)
    parameters = {"subgroups": lambda X: X % 3, "sense": sense, **options}
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
