"""BlackBoxEnsemble.extend: further policies and rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import optensemble as oe
from tests.ensembles.paper import COMMON, NOT_CONVERGED, PROBLEM, SCHEDULES, N, answers, assert_same, fitted
from tests.problems import black_box_masks, bucket, level_set_masks, random_problem, violation

pytestmark = pytest.mark.slow


@pytest.mark.no_cover
@NOT_CONVERGED
@SCHEDULES
@pytest.mark.parametrize("what", ["policies", "rows", "both"])
def test_an_extension_continues_the_fit_with_all_policies_and_rows(what: str, options: dict[str, Any]) -> None:
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


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
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
    ensemble = oe.BlackBoxEnsemble(problem.policies, problem.omega, subgroups=lambda X: X // 30, **COMMON)
    ensemble.fit(problem.X[:60], problem.Y[:60])
    assert ensemble.grouping_ is not None
    assert ensemble.grouping_.sizes == (3,)  # one more for the unknown
    start = ensemble.predict(problem.X)
    ensemble.extend(X=problem.X[60:], Y=problem.Y[60:] + 1)
    assert ensemble.grouping_.sizes == (4,)
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
