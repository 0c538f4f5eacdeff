"""retrace: what shorter fits would have been."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

import optensemble as oe
from optensemble.exceptions import InputError
from tests.ensembles.paper import (
    BOTH,
    COMMON,
    KINDS,
    NOT_CONVERGED,
    PROBLEM,
    SCHEDULES,
    SENSES,
    N,
    answers,
    assert_same,
    fitted,
    make,
)
from tests.problems import random_problem

pytestmark = pytest.mark.slow


def assert_shows(situation: Any, ensemble: Any, X: Any) -> None:
    """The situation is what the ensemble answers on the rows of X, to the last bit."""
    shown = [situation.taken(situation.actions), situation.behind(), situation.taken(situation.assessed)]
    more = [situation.predictions] if isinstance(ensemble, oe.WhiteBoxEnsemble) else []
    assert_same([*shown, situation.choice, *more], answers(ensemble, X))


@pytest.mark.no_cover
@NOT_CONVERGED
@BOTH
@SCHEDULES
@SENSES
def test_retracing_shows_what_shorter_fits_would_have_been(kind: Any, options: dict[str, Any], sense: str) -> None:
    ensemble = fitted(kind, sense=sense, subgroups=lambda X: X % 3, **options)
    last = ensemble.n_rounds_
    looks = sorted({0, 1, 2, last // 2, last - 1, last})
    order = np.random.default_rng(2).permutation(N)
    assert len(looks) > 3
    for after, situation in zip(looks, ensemble.retrace(order, looks), strict=True):
        shorter = fitted(kind, sense=sense, subgroups=lambda X: X % 3, **{**options, "max_rounds": after})
        assert shorter.n_rounds_ == after
        assert_shows(situation, shorter, order)


@pytest.mark.no_cover
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


@pytest.mark.no_cover
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
