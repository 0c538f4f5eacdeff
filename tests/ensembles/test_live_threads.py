"""Linear algebra runs on one thread wherever bits could tell how many there are: a refit may be under way or not."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import optensemble as oe
from optensemble import feasible
from tests.ensembles.decision import D, N, problem
from tests.ensembles.live import Diary, told
from tests.ensembles.test_live_refits import BIG, Switch
from tests.problems import Floats

X, Y = problem().X, problem().Y


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


class Looking:
    """A member, and a set, that write down how many threads linear algebra has while they are asked for few rows here.

    Not in the thread of a refit.
    """

    def __init__(self) -> None:
        self.seen, self._here = list[set[int]](), threading.get_ident()

    def _look(self, rows: Any) -> None:
        if len(rows) < BIG and threading.get_ident() == self._here:
            self.seen.append(blas_threads())

    def member(self, model: Any) -> Any:
        def say(X: Any) -> Floats:
            self._look(X)
            found: Floats = model(X)
            return found

        return say

    def argmax(self, C: Floats) -> Floats:
        self._look(C)
        return np.asarray((C.max(axis=1, keepdims=True) == C) * 1.0)

    @property
    def most(self) -> int:
        assert self.seen
        return max((most for each in self.seen for most in each), default=1)

    def asked(self) -> int:
        """How many threads there were at most since the last time."""
        most = self.most
        self.seen.clear()
        return most


def of_looking_members(looking: Looking, switch: Switch) -> oe.DecisionEnsemble:
    models = [("m0", looking.member(problem().models[0][1])), *switch.models[1:]]
    return oe.DecisionEnsemble(models, feasible=problem().omega).fit(X[:N], Y[:N])


def test_members_are_asked_on_one_thread_whether_or_not_a_refit_is_under_way() -> None:
    looking, switch = Looking(), Switch()
    diary = Diary(oe.LiveEnsemble(of_looking_members(looking, switch), refit=60, refit_in="thread"))
    with threadpool_limits(2, user_api="blas"):
        looking.seen.clear()
        diary.decide(range(N, N + 60))
        assert looking.asked() == 1  # none was due yet
        with switch.closed():
            diary.observe(range(N, N + 60))
            diary.decide(range(N + 60, N + 65))
            assert looking.asked() == 1  # it is made
            assert diary.live.refits_.empty
        running = diary.live._now.running
        assert running is not None
        running.wait()
        diary.decide(range(N + 65, N + 75))
        assert looking.asked() == 1  # it has been made
        diary.decide(range(N + 75, N + 85))
        assert looking.asked() == 1  # it decides
        assert len(diary.swaps) == 1


def test_whether_a_refit_has_ended_changes_no_bit_of_linear_algebra() -> None:
    """A member whose sums depend on the number of threads, where any do."""
    wide = np.random.default_rng(0).normal(size=(600, 600))

    def member(X: Any) -> Floats:
        rows = np.resize(problem().P[1][X], (len(X), 600))
        return np.asarray(((rows @ wide) @ wide[:, :D]) * 1e-4)

    heard = list[list[Any]]()
    for ended in (True, False):
        switch = Switch()
        ensemble = oe.DecisionEnsemble([("wide", member), *switch.models[1:]], feasible=problem().omega)
        diary = Diary(oe.LiveEnsemble(ensemble.fit(X[:N], Y[:N]), refit=60, refit_in="thread"))
        diary.decide(range(N, N + 60))
        with switch.closed():
            diary.observe(range(N, N + 60))
            if ended:
                switch.gate.set()
                running = diary.live._now.running
                assert running is not None
                running.wait()
            heard.append(told(diary.decide(range(N + 60, N + 70))))
    assert heard[0] == heard[1]


@pytest.mark.parametrize("refit_in", ["call", "thread"])
def test_solves_of_the_stack_and_of_foresight_are_on_one_thread(refit_in: str) -> None:
    looking = Looking()
    omega = feasible.Oracle(looking.argmax, D, convex=True)
    ensemble = oe.DecisionEnsemble(problem().models, feasible=omega).fit(X[:N], Y[:N])
    followed = oe.LiveEnsemble(ensemble, refit=1000, refit_in=refit_in)
    with threadpool_limits(2, user_api="blas"):
        looking.seen.clear()
        followed.answer(X[N : N + 20])
        assert looking.asked() == 1
        followed.observe(range(20), Y[N : N + 20])
        assert looking.asked() == 1
