"""Batches that are made ahead and put away behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from optensemble._core.overlap import ahead, behind


def test_items_come_in_order_and_the_next_is_made_meanwhile() -> None:
    made, next_made = list[int](), threading.Event()

    def items() -> Iterator[int]:
        for item in range(3):
            made.append(item)
            if item == 1:
                next_made.set()
            yield item

    rows = ahead(items())
    assert next(rows) == 0
    assert next_made.wait(10)  # nobody has asked for it yet
    assert list(rows) == [1, 2]
    assert made == [0, 1, 2]


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 0
        raise ValueError("the second batch")

    rows = ahead(items())
    assert next(rows) == 0
    with pytest.raises(ValueError, match="the second batch"):
        next(rows)


def test_work_is_done_in_order_and_before_the_end() -> None:
    done = list[int]()
    with behind() as later:
        for number in range(20):
            later(partial(done.append, number))
    assert done == list(range(20))


def fail() -> None:
    raise OSError("the disk is full")


def do(*pieces: Callable[[], None]) -> None:
    """Have pieces of work done."""
    with behind() as later:
        for piece in pieces:
            later(piece)


@pytest.mark.parametrize("further", [0, 2])
def test_an_error_of_work_is_raised_at_the_next_piece_or_at_the_end(further: int) -> None:
    done = list[int]()
    with pytest.raises(OSError, match="the disk is full"):
        do(fail, *[lambda: done.append(1)] * further)
    assert done == []


def test_an_error_of_the_caller_is_not_hidden_by_one_of_work() -> None:
    def interrupted() -> None:
        with behind() as later:
            later(fail)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
