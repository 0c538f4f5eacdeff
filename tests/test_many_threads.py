"""Threads may share an ensemble: changes come one at a time, and questions may be asked meanwhile."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import optensemble as oe
from optensemble import feasible
from tests.problems import random_problem

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.NotConvergedWarning"),
    pytest.mark.filterwarnings("ignore::optensemble.exceptions.RefitWarning"),
]
PROBLEM = random_problem(7, n=1_700, k=2)
FITTED, BATCH = slice(0, 200), 25


def ensemble(**parameters: Any) -> oe.DecisionEnsemble:
    """Fit on the first rows; the others are for updates."""
    fitted = oe.DecisionEnsemble(PROBLEM.models, feasible=PROBLEM.omega, **parameters)
    return fitted.fit(PROBLEM.X[FITTED], PROBLEM.Y[FITTED])


def batches() -> list[slice]:
    return [slice(start, start + BATCH) for start in range(FITTED.stop, len(PROBLEM.X), BATCH)]


def on_threads(work: Callable[[Any], object], items: list[Any], threads: int = 8) -> None:
    """Start all threads at once, which makes them meet."""
    barrier = threading.Barrier(threads)

    def share(first: int) -> None:
        barrier.wait()
        for item in items[first::threads]:
            work(item)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(share, range(threads)))


def test_no_row_of_an_update_is_lost() -> None:
    shared, alone = ensemble(), ensemble()
    on_threads(lambda rows: shared.update(PROBLEM.X[rows], PROBLEM.Y[rows]), batches())
    for rows in batches():
        alone.update(PROBLEM.X[rows], PROBLEM.Y[rows])
    later = len(PROBLEM.X) - FITTED.stop
    assert shared.n_updated_ == alone.n_updated_ == later == 1_500
    assert len(shared._later) == len(batches())
    for record in ("record_", "advantage_"):
        ours, theirs = getattr(shared, record), getattr(alone, record)
        for values in ("assessed", "realised"):  # in another order, because batches came in another one
            np.testing.assert_array_equal(np.sort(getattr(ours, values)), np.sort(getattr(theirs, values)))
    np.testing.assert_array_equal(np.sort(shared.fingerprints_), np.sort(alone.fingerprints_))


@pytest.mark.parametrize("kind", ["decision", "white", "black"])
def test_questions_may_be_asked_while_it_changes(kind: str) -> None:
    """Two fits that differ in members, set and labels follow each other; every answer is one of the two, whole."""
    first, second = random_problem(1, n=120, k=2, omega="simplex"), random_problem(2, n=120, k=3, omega="box")
    made: dict[str, Callable[[], Any]] = {
        "decision": lambda: oe.DecisionEnsemble(feasible=first.omega),
        "white": lambda: oe.WhiteBoxEnsemble([], first.omega, max_rounds=3),
        "black": lambda: oe.BlackBoxEnsemble([], first.omega, max_rounds=3),
    }
    what = "policies" if kind == "black" else "models"

    def refit(shared: Any, problem: Any) -> Any:
        shared.set_params(**{what: getattr(problem, what), "feasible": problem.omega})
        return shared.fit(problem.X, problem.Y)

    wanted = [refit(made[kind](), problem).answer(first.X) for problem in (first, second)]
    shared, done, answers = refit(made[kind](), first), threading.Event(), list[Any]()

    def ask(_: int) -> None:
        while not done.is_set():
            answers.append(shared.answer(first.X))

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask, number) for number in range(2)]
        try:
            for problem in (second, first) * 3:
                refit(shared, problem)
        finally:
            done.set()
        for each in asked:
            each.result()
    for answer in answers:
        found = [np.array_equal(answer.actions, whole.actions) for whole in wanted]
        assert any(found)
        np.testing.assert_array_equal(answer.promised, wanted[found.index(True)].promised)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")  # signs are flipped
def test_a_record_is_made_once_whoever_asks_for_it() -> None:
    problem = random_problem(3, n=120)
    white, records = problem.white_box(max_rounds=2), list[Any]()
    assert not hasattr(white, "record_")
    on_threads(lambda _: records.append(white.cross_fit().record_), list(range(8)))
    promise = white.promise(problem.X)
    assert all(record is white.record_ for record in records)
    assert white.promise(problem.X) == promise
    problem.Y[:] = -problem.Y
    assert not hasattr(white.fit(problem.X, problem.Y), "record_")


def test_copies_have_locks_of_their_own_and_can_be_pickled() -> None:
    white = random_problem(3, n=30).white_box(max_rounds=2)
    with white._changing():
        assert white._changing() is white._changing()
        for twin in (copy.copy(white), copy.deepcopy(white), clone(white)):
            assert twin._changing() is not white._changing()
    columns = oe.WhiteBoxEnsemble([("a", oe.Columns([0, 1]))], feasible.Simplex(2), validation=None)
    X = np.random.default_rng(0).normal(size=(30, 2))
    twin = pickle.loads(pickle.dumps(columns.fit(X, X)))
    np.testing.assert_array_equal(twin.decide(X), columns.decide(X))
