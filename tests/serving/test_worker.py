"""Turns: order, what is done together, and those who wait too long or are too many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from optensemble.serving.refusals import Refusal
from optensemble.serving.settings import Limits
from optensemble.serving.worker import MOST_TOGETHER, Work, Worker


class Recorder:
    """Writes down what is done together; the first waits until it may go on."""

    def __init__(self) -> None:
        self.seen = list[list[Any]]()
        self.go = threading.Event()

    def __call__(self, tasks: Sequence[Any]) -> list[Any]:
        self.go.wait(10)
        self.seen.append(list(tasks))
        return [ValueError(task) if task == "bad" else f"{task}!" for task in tasks]


def in_a_loop(main: Coroutine[Any, Any, Any]) -> Any:
    """Run in a thread of its own: that of other tests in a browser has a loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, main).result()


def run(limits: Limits, works: list[Work], recorder: Recorder) -> list[Any]:
    async def main() -> list[Any]:
        worker = Worker(limits)
        worker.start()
        first = asyncio.ensure_future(worker.do(Work(recorder, "first")))
        await asyncio.sleep(0.05)
        others = [asyncio.ensure_future(worker.do(work)) for work in works]
        await asyncio.sleep(0.2)
        recorder.go.set()
        found = await asyncio.gather(first, *others, return_exceptions=True)
        assert await worker.stop(10)
        return found

    found: list[Any] = in_a_loop(main())
    return found


def test_neighbours_with_one_key_are_done_together_in_order() -> None:
    recorder = Recorder()
    keys = ["d", "d", "o", "d", None, None, "d"]
    found = run(Limits(), [Work(recorder, number, key) for number, key in enumerate(keys)], recorder)
    assert recorder.seen == [["first"], [0, 1], [2], [3], [4], [5], [6]]
    assert found == ["first!", *(f"{number}!" for number in range(7))]


def test_not_too_many_rows_together() -> None:
    recorder = Recorder()
    half = MOST_TOGETHER // 2
    run(Limits(), [Work(recorder, number, "d", half) for number in range(3)], recorder)
    assert recorder.seen == [["first"], [0, 1], [2]]


def test_an_exception_is_raised_where_it_belongs() -> None:
    recorder = Recorder()
    found = run(Limits(), [Work(recorder, task, "d") for task in ("a", "bad", "c")], recorder)
    assert found[1] == "a!"
    assert isinstance(found[2], ValueError)
    assert found[3] == "c!"


def test_work_that_fails_as_a_whole() -> None:
    def fail(_: Sequence[Any]) -> list[Any]:
        raise KeyError("all")

    recorder = Recorder()
    found = run(Limits(), [Work(fail, 1, "f"), Work(fail, 2, "f"), Work(recorder, 3)], recorder)
    assert [type(each) for each in found[1:3]] == [KeyError, KeyError]
    assert found[3] == "3!"


def test_too_many_are_refused_at_once() -> None:
    recorder = Recorder()
    found = run(Limits(most_queued=2), [Work(recorder, number) for number in range(4)], recorder)
    assert found[:3] == ["first!", "0!", "1!"]
    assert all(isinstance(each, Refusal) and each.status == 503 for each in found[3:])
    assert [each.headers for each in found[3:]] == [{"Retry-After": "1"}] * 2


def test_who_waits_too_long_is_let_go_and_nothing_is_done() -> None:
    recorder = Recorder()
    found = run(Limits(queue_seconds=0.05), [Work(recorder, "late")], recorder)
    assert found[0] == "first!"
    assert isinstance(found[1], Refusal)
    assert "nothing was done" in found[1].message
    assert recorder.seen == [["first"]]


def test_who_is_cancelled_is_done_all_the_same() -> None:
    recorder = Recorder()

    async def main() -> None:
        worker = Worker(Limits())
        worker.start()
        waiting = asyncio.ensure_future(worker.do(Work(recorder, "gone")))
        await asyncio.sleep(0.05)
        waiting.cancel()
        recorder.go.set()
        assert await worker.call(lambda: 5) == 5
        assert await worker.stop(10)
        with pytest.raises(Refusal, match="stopping"):
            await worker.do(Work(recorder, "after"))

    in_a_loop(main())
    assert recorder.seen == [["gone"]]


def test_a_worker_that_does_not_end_in_time() -> None:
    recorder = Recorder()

    async def main() -> None:
        worker = Worker(Limits())
        assert await worker.stop(1)  # it was not started
        worker = Worker(Limits())
        worker.start()
        waiting = asyncio.ensure_future(worker.do(Work(recorder, "slow")))
        await asyncio.sleep(0.05)
        assert not await worker.stop(0.05)
        recorder.go.set()
        assert await waiting == "slow!"

    in_a_loop(main())


def test_what_would_end_a_process_ends_neither_the_thread_nor_those_who_wait() -> None:
    def leave(_: Sequence[Any]) -> list[Any]:
        raise SystemExit(3)

    recorder = Recorder()
    found = run(Limits(), [Work(leave, 1), Work(recorder, 2)], recorder)
    assert str(found[1]) == "SystemExit: 3"
    assert isinstance(found[1], Exception)
    assert found[2] == "2!"
