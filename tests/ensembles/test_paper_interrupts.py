"""An interrupted fit of the paper's two ensembles keeps whole rounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import optensemble as oe
from optensemble import feasible
from tests.ensembles.paper_inputs import BOTH, PROBLEM, D, answers, make, same
from tests.problems import Floats

pytestmark = pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning")


def assert_fitted_as_far_as_it_came(ensemble: Any, rounds: int) -> None:
    X, Y = PROBLEM.X, PROBLEM.Y
    assert ensemble.n_rounds_ == len(ensemble.log_[-1].rounds) == rounds
    assert len(ensemble.history_) == rounds + 1
    last = ensemble.history_.iloc[-1]
    assert last["promised"] == pytest.approx(ensemble.self_assess(X).mean(), rel=1e-12)
    realised = (ensemble.decide(X) * Y).sum(axis=1).mean()
    assert last["realised"] == pytest.approx(realised, rel=1e-12)
    assert last["worst_violation"] == ensemble.worst_violation_
    assert not ensemble.converged_
    assert f"interrupted after {rounds} rounds; the worst violation left is" in ensemble.stopped_


def interrupt_after(rounds: int) -> Callable[[int, float], None]:
    def callback(number: int, violation: float) -> None:
        if number == rounds:
            raise KeyboardInterrupt

    return callback


SLOW: dict[str, Any] = {"alpha": 1e-4, "bucket_width": 0.1}


@pytest.mark.no_cover
@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_an_interrupt_between_rounds_keeps_them(kind: Any, schedule: str, rounds: int) -> None:
    ensemble = make(kind, schedule=schedule, **SLOW)
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y, callback=interrupt_after(rounds))
    assert_fitted_as_far_as_it_came(ensemble, rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.NotConvergedWarning)
        whole = make(kind, schedule=schedule, max_rounds=rounds, **SLOW).fit(PROBLEM.X, PROBLEM.Y)
    assert same(answers(ensemble, PROBLEM.X), answers(whole, PROBLEM.X))


@BOTH
@pytest.mark.parametrize("schedule", ["frozen", "round-robin", "joint"])
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_an_interrupt_inside_a_round_keeps_whole_rounds(kind: Any, schedule: str, calls: int) -> None:
    left = [calls + (3 if kind is oe.WhiteBoxEnsemble else 1)]  # after those that come before the first round

    def oracle(C: Floats) -> Floats:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return np.asarray(PROBLEM.omega.argmax(C))

    ensemble = make(kind, feasible=feasible.Oracle(oracle, D), schedule=schedule, **SLOW)
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y)
    one_call_per_round = kind is oe.BlackBoxEnsemble or schedule == "round-robin"
    assert ensemble.n_rounds_ >= calls - 1 if one_call_per_round else ensemble.n_rounds_ < calls
    assert_fitted_as_far_as_it_came(ensemble, ensemble.n_rounds_)


def test_an_interrupt_before_the_first_round_keeps_the_earlier_fit() -> None:
    interrupting = [False]

    def model(X: Any) -> Floats:
        if interrupting[0]:
            raise KeyboardInterrupt
        return np.asarray(PROBLEM.P[0][X])

    ensemble = make(oe.WhiteBoxEnsemble, members=[("a", model)]).fit(PROBLEM.X, PROBLEM.Y)
    before = answers(ensemble, PROBLEM.X)
    interrupting[0] = True
    with pytest.raises(KeyboardInterrupt):
        ensemble.fit(PROBLEM.X, PROBLEM.Y * 2)
    interrupting[0] = False
    assert same(answers(ensemble, PROBLEM.X), before)


def test_an_interrupted_extension_keeps_whole_rounds() -> None:
    ensemble = make(oe.BlackBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    ensemble.set_params(alpha=1e-4)
    with pytest.raises(KeyboardInterrupt):
        ensemble.extend(policies=[("new", PROBLEM.policies[1][1])], callback=interrupt_after(2))
    assert len(ensemble.log_) == 2
    assert ensemble.names_[-2:] == ["new", "own"]
    assert_fitted_as_far_as_it_came(ensemble, 2)


def test_another_error_in_the_callback_loses_nothing() -> None:
    def callback(number: int, violation: float) -> None:
        raise RuntimeError("the progress bar broke")

    ensemble = make(oe.WhiteBoxEnsemble).fit(PROBLEM.X, PROBLEM.Y)
    before = answers(ensemble, PROBLEM.X)
    with pytest.raises(RuntimeError, match="progress bar broke"):
        ensemble.fit(PROBLEM.X, PROBLEM.Y * 2, callback=callback)
    assert same(answers(ensemble, PROBLEM.X), before)
