"""The engine: a pass maps a function over blocks of rows and adds up the tables it returns.

Blocks are cut by the number of the row, and tables are added in one binary tree over the numbers of the blocks. So the
bits do not depend on who computes which blocks: one thread or many, one machine or several, arrays or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from optensemble._core.memory import reused_memory
from optensemble._core.progress import silent
from optensemble._core.threads import one_blas_thread

BLOCK_ROWS = 1 << 16
"""The rows of a block."""

_RUNS_PER_WORKER = 4  # so that none waits long for the last

T = TypeVar("T")
State = TypeVar("State")


class Blocks(Protocol):
    """Rows in blocks, by number: block ``b`` holds the rows from ``b·BLOCK_ROWS`` on."""

    @property
    def count(self) -> int:
        """The number of blocks."""

    def part(self, start: int, stop: int) -> Iterable[Any]:
        """Return the blocks from ``start`` to before ``stop``: something that can be pickled, and is read when used."""


class Engine(Protocol):
    """Whatever runs a pass."""

    def run(
        self, function: Callable[[Any, State], T], blocks: Blocks, state: State, step: Callable[[int], None] = silent
    ) -> T:
        """Return the sum of ``function(block, state)`` over all blocks; ``step`` is told how many more are done."""


class Tree:
    """Tables added in the order of a binary counter: the same tree however the blocks are cut into aligned runs.

    >>> tree = Tree()
    >>> for word in "abcde":
    ...     tree.add(f"({word})")
    >>> tree.total()
    '(a)(b)(c)(d)(e)'
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Any]] = []

    def add(self, table: Any) -> None:
        """Add the table of the next block, or of the next run of blocks."""
        level = 0
        while self._waiting and self._waiting[-1][0] == level:
            earlier = self._waiting.pop()[1]
            earlier += table  # in place where tables can: nothing else holds them
            table, level = earlier, level + 1
        self._waiting.append((level, table))

    def total(self) -> Any:
        """Return the sum of all tables."""
        *others, (_, total) = self._waiting
        for _, table in reversed(others):
            table += total
            total = table
        return total


def add_blocks(
    function: Callable[[Any, State], T], blocks: Iterable[Any], state: State, step: Callable[[int], None] = silent
) -> T:
    """Return the sum of ``function(block, state)`` over a run of blocks; the work of one worker.

    Memory is kept for the worker's next run.
    """
    tree = Tree()
    with one_blas_thread(), reused_memory(give_back=False):
        for block in blocks:
            tree.add(function(block, state))
            step(1)
    total: T = tree.total()
    return total


def aligned_runs(count: int, workers: int) -> list[tuple[int, int]]:
    """Cut blocks into runs of a power of two, several for each worker; sums of these runs add up in the same tree.

    >>> aligned_runs(10, 1)
    [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]
    """
    length = 1
    while count >= 2 * length * workers * _RUNS_PER_WORKER:
        length *= 2
    return [(start, min(start + length, count)) for start in range(0, count, length)]


@dataclass(frozen=True)
class Local:
    """The engine of one process: block after block, or several at a time on threads."""

    threads: int = 1

    def run(
        self, function: Callable[[Any, State], T], blocks: Blocks, state: State, step: Callable[[int], None] = silent
    ) -> T:
        """Return the sum of ``function(block, state)`` over all blocks."""
        with reused_memory():
            if self.threads == 1 or blocks.count == 1:
                return add_blocks(function, blocks.part(0, blocks.count), state, step)
            tree = Tree()
            for table in self._mapped(lambda block: add_blocks(function, [block], state), blocks, step):
                tree.add(table)
            total: T = tree.total()
            return total

    def _mapped(self, function: Callable[[Any], T], blocks: Blocks, step: Callable[[int], None]) -> Iterator[T]:
        """Read on one thread, compute on several, no more blocks at a time than there are threads."""
        with ThreadPoolExecutor(self.threads) as pool:
            waiting: list[Any] = []
            try:
                for block in blocks.part(0, blocks.count):
                    if len(waiting) == self.threads:
                        yield waiting.pop(0).result()
                        step(1)
                    waiting.append(pool.submit(function, block))
                for future in waiting:
                    yield future.result()
                    step(1)
            except BaseException:
                pool.shutdown(cancel_futures=True)  # what has not begun is no longer needed
                raise
