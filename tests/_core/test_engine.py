"""The engine: one tree of sums however blocks are cut and whoever computes them; failures leave nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import sleep
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble._core.engine import Local, Tree, add_blocks, aligned_runs
from optensemble._core.sums import EACH, LARGEST, Sums


@dataclass(frozen=True)
class Sum:
    """A sum in symbols: it remembers what was added to what."""

    parts: Any

    def __add__(self, other: Sum) -> Sum:
        return Sum((self.parts, other.parts))


def symbol(block: int, _: object = None) -> Sum:
    return Sum(block)


@dataclass(frozen=True)
class Numbers:
    """Blocks that are their own numbers; ``read`` lists those that were asked for."""

    count: int
    read: list[int] = field(default_factory=list)

    def part(self, start: int, stop: int) -> Iterator[int]:
        for number in range(start, stop):
            self.read.append(number)
            yield number


def one_by_one(count: int) -> Any:
    tree = Tree()
    for number in range(count):
        tree.add(Sum(number))
    return tree.total().parts


def textbook_tree(start: int, stop: int) -> Any:
    """The largest power of two below the number of leaves is on the left."""
    count = stop - start
    if count == 1:
        return start
    left = 1
    while 2 * left < count:
        left *= 2
    return (textbook_tree(start, start + left), textbook_tree(start + left, stop))


# The tree


@given(st.integers(1, 300))
def test_the_tree_is_that_of_powers_of_two(count: int) -> None:
    assert one_by_one(count) == textbook_tree(0, count)


@given(count=st.integers(1, 300), power=st.integers(0, 9))
def test_runs_of_any_power_of_two_add_up_in_the_same_tree(count: int, power: int) -> None:
    length, tree = 2**power, Tree()
    for start in range(0, count, length):
        tree.add(add_blocks(symbol, range(start, min(start + length, count)), None))
    assert tree.total().parts == one_by_one(count)


@given(count=st.integers(1, 2000), workers=st.integers(1, 40))
def test_aligned_runs_cover_all_blocks_once_in_runs_of_a_power_of_two(count: int, workers: int) -> None:
    runs = aligned_runs(count, workers)
    assert [number for start, stop in runs for number in range(start, stop)] == list(range(count))
    length = runs[0][1] - runs[0][0]
    if len(runs) > 1:
        assert length & (length - 1) == 0
        assert {stop - start for start, stop in runs[:-1]} == {length}
        assert 0 < runs[-1][1] - runs[-1][0] <= length
    # several runs for each worker, but no more than needed, or as many as there are blocks
    assert len(runs) >= min(count, 4 * workers)
    assert len(runs) < 8 * workers + 1 or length == 1


@given(count=st.integers(1, 400), workers=st.integers(1, 12))
def test_sums_of_aligned_runs_add_up_in_the_same_tree(count: int, workers: int) -> None:
    tree = Tree()
    for start, stop in aligned_runs(count, workers):
        tree.add(add_blocks(symbol, range(start, stop), None))
    assert tree.total().parts == one_by_one(count)


# The engine of one process


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 64])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_matter_nor_who_is_done_first(count: int, threads: int) -> None:
    def slow_at_first(block: int, state: float) -> Sum:
        sleep(state if block % 3 == 0 else 0.0)
        return Sum(block)

    blocks, steps = Numbers(count), list[int]()
    found = Local(threads).run(slow_at_first, blocks, 0.002, steps.append)
    assert found.parts == one_by_one(count)
    assert sum(steps) == count
    assert blocks.read == list(range(count))


def test_no_more_blocks_are_held_than_there_are_threads() -> None:
    blocks, ahead, done = Numbers(30), list[int](), list[int]()

    def work(block: int, _: object) -> Sum:
        ahead.append(len(blocks.read) - len(done))
        return Sum(block)

    Local(3).run(work, blocks, None, lambda steps: done.extend([0] * steps))
    assert max(ahead) <= 3 + 1  # and one that has been read


def test_steps_are_counted_by_the_calling_thread() -> None:
    callers = set[int]()
    Local(2).run(symbol, Numbers(10), None, lambda _: callers.add(threading.get_ident()))
    assert callers == {threading.get_ident()}


# Failures


class Enough(BaseException):
    """Not even an Exception, as an interrupt is not."""


def failing_pass(error: BaseException) -> tuple[Callable[[int, object], Sum], Callable[[int], None]]:
    def work(block: int, _: object) -> Sum:
        if block == 5:
            raise error
        return Sum(block)

    return work, lambda steps: None


def failing_step(error: BaseException) -> tuple[Callable[[int, object], Sum], Callable[[int], None]]:
    done = list[int]()

    def step(steps: int) -> None:
        done.append(steps)
        if len(done) == 5:
            raise error

    return symbol, step


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("error", [ValueError("wrong"), KeyboardInterrupt(), Enough()], ids=type)
@pytest.mark.parametrize("make", [failing_pass, failing_step])
def test_a_failure_is_told_and_leaves_no_thread_and_no_work_behind(
    make: Callable[[BaseException], tuple[Any, Any]], error: BaseException, threads: int
) -> None:
    before, blocks = set(threading.enumerate()), Numbers(200)
    with pytest.raises(type(error)) as caught:
        Local(threads).run(*((work := make(error))[0], blocks, None), work[1])
    assert caught.value is error
    assert set(threading.enumerate()) == before
    assert len(blocks.read) < 20


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_that_cannot_be_read_end_the_pass(threads: int) -> None:
    class Torn(Numbers):
        def part(self, start: int, stop: int) -> Iterator[int]:
            yield from range(3)
            raise OSError("torn")

    before = set(threading.enumerate())
    with pytest.raises(OSError, match="torn"):
        Local(threads).run(symbol, Torn(10), None)
    assert set(threading.enumerate()) == before


def test_work_that_has_not_begun_when_a_step_raises_is_left_alone() -> None:
    begun, gate = list[int](), threading.Event()

    def work(block: int, _: object) -> Sum:
        begun.append(block)
        if block:
            gate.wait(10)
        return Sum(block)

    def step(_: int) -> None:
        gate.set()
        raise Enough

    with pytest.raises(Enough):
        Local(2).run(work, Numbers(50), None, step)
    assert len(begun) < 5


# Tables that add up


@dataclass(frozen=True)
class Inner(Sums):
    rows: int


@dataclass(frozen=True)
class Table(Sums):
    rows: int
    highest: float = field(metadata=LARGEST)
    inner: tuple[Inner, ...] = field(metadata=EACH)
    maybe: float | None = None


def test_tables_are_added_field_by_field() -> None:
    left, right = Table(1, 2.0, (Inner(1), Inner(2)), 1.0), Table(10, 1.0, (Inner(10), Inner(20)), 2.0)
    assert left + right == Table(11, 2.0, (Inner(11), Inner(22)), 3.0)
    assert Table(1, 2.0, ()) + Table(1, 3.0, ()) == Table(2, 3.0, (), None)
    with pytest.raises(ValueError, match="zip"):
        Table(1, 2.0, (Inner(1),)) + Table(1, 3.0, ())
