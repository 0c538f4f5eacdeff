"""Work in batches, side by side: the next batch is made, and the last one put away, while this one is worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
_END: Any = object()


def ahead(items: Iterator[Item], count: int = 1) -> Iterator[Item]:
    """Go through items, of which the next few are made by another thread meanwhile; errors come in their place.

    >>> list(ahead(iter("abc"))), list(ahead(iter("abc"), 2))
    (['a', 'b', 'c'], ['a', 'b', 'c'])
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        following = deque(pool.submit(next, items, _END) for _ in range(count))
        try:
            while (item := following.popleft().result()) is not _END:
                following.append(pool.submit(next, items, _END))
                yield item
        finally:
            for waiting in following:
                waiting.cancel()  # after an error, or if no more are wanted


@contextmanager
def behind() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Have work done by another thread, one piece at a time in order; the next piece waits for the one before.

    An error is raised where the next piece is handed over, or at the end.

    >>> found = []
    >>> with behind() as later:
    ...     later(lambda: found.append("first"))
    ...     later(lambda: found.append("second"))
    >>> found
    ['first', 'second']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="behind") as pool:
        handed = list[Future[None]]()

        def later(work: Callable[[], None]) -> None:
            if handed:
                handed.pop().result()
            handed.append(pool.submit(work))

        yield later
        for last in handed:
            last.result()
