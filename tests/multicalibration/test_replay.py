"""Replays of a log: on one thread and many, with looks and without, interrupted, and of no rows or rounds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import pytest

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble.multicalibration import corrections
from optensemble.multicalibration.corrections import replay, trace, walk
from optensemble.multicalibration.events import black_box, white_box
from optensemble.multicalibration.loop import debias
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from tests.problems import Problem, random_problem

ARRAYS = ("predictions", "actions", "level", "assessed", "winner", "choice")


def begin(problem: Problem, given: int) -> Situation:
    """Return a white box, or a black box with some given policies, that take the models' actions."""
    buckets = Buckets(problem.omega.lower, problem.omega.upper, 4)
    if given == 0:
        return Situation(problem.P.copy(), problem.omega, buckets)
    actions = np.stack([problem.omega.argmax(p) for p in problem.P[:given]])
    return Situation(problem.P.mean(axis=0)[None].copy(), problem.omega, buckets, given=actions)


def learn(problem: Problem, given: int) -> PatchLog:
    """Return the log of a round-robin fit."""
    buckets = Buckets(problem.omega.lower, problem.omega.upper, 4)
    layout = black_box(buckets, given) if given else white_box(buckets, len(problem.P))
    run = debias(begin(problem, given), problem.Y, Debiasing(layout, "round-robin", alpha=0.01, max_rounds=200))
    assert len(run.log.rounds) > 10
    return run.log


def assert_same(left: Situation, right: Situation) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))
    assert left.solves == right.solves


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cut few rows into many pieces for many threads."""
    monkeypatch.setattr(corrections, "_ROWS", 16)
    monkeypatch.setattr(corrections, "_VISITS", 1)
    monkeypatch.setattr(corrections, "_VISITS_OF_A_THREAD", 1)
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


@pytest.mark.parametrize("given", [0, 2])
def test_one_thread_and_many_replay_the_same_bits(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, other = random_problem(1), random_problem(2, n=300)
    log, alone, shared = learn(problem, given), begin(other, given), begin(other, given)
    numba.set_num_threads(1)
    replay(alone, log)
    monkeypatch.setattr(numba, "get_num_threads", lambda: 4)
    replay(shared, log)
    assert_same(alone, shared)


@pytest.mark.parametrize("given", [0, 2])
def test_looks_in_between_change_nothing(given: int) -> None:
    problem, other = random_problem(1), random_problem(2, n=300)
    log, straight, looked_at = learn(problem, given), begin(other, given), begin(other, given)
    replay(straight, log)
    rounds = len(log.rounds)
    for _ in walk(looked_at, [log], [0, 0, 3, rounds // 2, rounds, rounds + 5]):
        pass
    assert_same(straight, looked_at)


def seen_by(situation: Situation, labels: Floats) -> list[float]:
    """Return what a look is to see of a situation: means of payoffs, promised and realised, and who wins."""
    own = range(situation.given, len(situation.actions))
    realised = (situation.actions * labels).sum(axis=2)
    found = [situation.taken(situation.assessed).mean(), situation.taken(realised).mean()]
    for each in own:
        found += [situation.assessed[each].mean(), realised[each].mean(), (situation.winner == each).mean()]
    return found


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("given", [0, 2])
def test_a_trace_sees_what_a_walk_shows(given: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, other = random_problem(1), random_problem(2, n=300)
    logs = [learn(problem, given), learn(random_problem(3), given)]  # as after a fit that was extended
    first, second = (len(log.rounds) for log in logs)
    looks = [0, 0, 3, first - 1, first, first, first + 1, first + second, first + second + 5]
    walked, traced, shares = begin(other, given), begin(other, given), list[float]()
    expected = [seen_by(situation, other.Y) for situation in walk(walked, logs, looks)]
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    found = trace(traced, logs, looks, other.Y, shares.append)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert_same(walked, traced)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_trace_has_the_same_bits_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, other = random_problem(1), random_problem(2, n=300)
    log, found = learn(problem, 0), list[Floats]()
    for threads in (1, 2, 5):
        monkeypatch.setattr(numba, "get_num_threads", lambda threads=threads: threads)
        found.append(trace(begin(other, 0), [log], range(0, len(log.rounds), 7), other.Y))
    np.testing.assert_array_equal(found[1:], [found[0]] * 2)


def test_a_trace_of_rounds_without_patches_sees_the_rows_as_they_are() -> None:
    problem = random_problem(1)
    situation, log = begin(problem, 0), learn(problem, 0)
    expected = seen_by(situation, problem.Y)
    np.testing.assert_allclose(trace(situation, [PatchLog(log.layout)], [0, 4], problem.Y), [expected] * 2, rtol=1e-12)
    assert trace(situation, [log], [], problem.Y).shape[0] == 0


@pytest.mark.parametrize("given", [0, 2])
def test_nothing_to_replay(given: int) -> None:
    problem = random_problem(1)
    log, untouched, same = learn(problem, given), begin(problem, given), begin(problem, given)
    replay(same, log, 3, 3)
    replay(same, PatchLog(log.layout))
    assert_same(untouched, same)
    none = Problem(problem.X[:0], problem.Y[:0], problem.P[:, :0], problem.omega)
    replay(begin(none, 0), learn(problem, 0))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("given", [0, 2])
def test_an_interrupted_replay_is_consistent(given: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Actions, assessments and choices belong together in every row, wherever it was left."""
    problem, other = random_problem(1), random_problem(2, n=300)
    log, now = learn(problem, given), begin(other, given)
    monkeypatch.setattr(numba, "get_num_threads", lambda: threads)
    made, calls, lock = corrections._Replay._make_patches, [0], threading.Lock()

    def interrupted(self: Any, span: tuple[int, int], looks: Any) -> int:
        solves = made(self, span, looks)
        with lock:
            calls[0] += 1
            if calls[0] == 4:
                raise KeyboardInterrupt
        return solves

    monkeypatch.setattr(corrections._Replay, "_make_patches", interrupted)
    before = set(threading.enumerate())  # Dask keeps threads of its own
    with pytest.raises(KeyboardInterrupt):
        replay(now, log)
    assert set(threading.enumerate()) <= before
    behind = now.predictions[0] if given else now.predictions  # the only model assesses given policies too
    np.testing.assert_allclose(now.assessed, (now.actions * behind).sum(axis=2), rtol=1e-12, atol=1e-12)
    if given:
        same = (np.abs(now.actions - now.actions[-1]) <= now.state.alike).all(axis=2)
        np.testing.assert_array_equal(now.choice, same.argmax(axis=0))
