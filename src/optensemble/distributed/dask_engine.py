"""The engine on a Dask cluster: runs of blocks are mapped to workers, and their tables added up there."""

from __future__ import annotations

import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

from optensemble._core.engine import Blocks, add_blocks, aligned_runs
from optensemble._core.progress import silent

T = TypeVar("T")
State = TypeVar("State")

_REPEATS = 2  # of a pass whose workers died, beyond what Dask repeats by itself
_SENT_ALONG = 1 << 18  # bytes of state that go with every task: as one of its own it would draw them all to its worker
_ADDED_AT_ONCE = 4  # tables, a power of two: fewer tasks, of which each costs more than a small sum


@dataclass(frozen=True)
class DaskEngine:
    """Passes on the workers of a ``dask.distributed.Client``; only the total comes home.

    The state goes along with the tasks. When a worker dies, the scheduler has its blocks read again by another; when
    that fails too, the whole pass is repeated.
    """

    client: Any

    def run(
        self, function: Callable[[Any, State], T], blocks: Blocks, state: State, step: Callable[[int], None] = silent
    ) -> T:
        """Return the sum of ``function(block, state)`` over all blocks."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        for _ in range(_REPEATS):
            with suppress(KilledWorker, FutureCancelledError):
                return self._run(function, blocks, state, step)
        return self._run(function, blocks, state, step)

    def _run(self, function: Callable[[Any, State], T], blocks: Blocks, state: State, step: Callable[[int], None]) -> T:
        from dask.delayed import delayed

        sent: Any = pickle.dumps(state)
        if len(sent) > _SENT_ALONG:
            # a task of its own: sent to a worker once, and made again from here if that worker dies
            sent = delayed(_same, pure=False)(sent)
        runs = aligned_runs(blocks.count, max(len(self.client.scheduler_info()["workers"]), 1))
        tables = []
        for start, stop in runs:
            part: Any = blocks.part(start, stop)
            frames = getattr(part, "frames", [])  # partitions that Dask is to hand over
            packed = _packed(part.given([]) if frames else part)
            tables.append(delayed(_work, pure=False)(pickle.dumps(function), packed, frames, sent))
        level = tables
        while level is tables or len(level) > 1:  # the total is a task of its own, even of a single table
            groups = [level[at : at + _ADDED_AT_ONCE] for at in range(0, len(level), _ADDED_AT_ONCE)]
            level = [delayed(_add_up, pure=False)(*group) for group in groups]
        with no_advice():
            *done, total = self.client.compute([*tables, level[0]])
        try:
            self._watch(done, runs, step)
            found: T = deepcopy(total.result())  # arrays that Dask hands over are read-only
        finally:
            # what has not begun is no longer needed; to cancel tasks that others build on would break the connection
            for future in (*done, total):
                future.release()
        return found

    def _watch(self, done: list[Any], runs: list[tuple[int, int]], step: Callable[[int], None]) -> None:
        """Report runs as they end; a table that is no longer watched is kept only until it is added to others."""
        from distributed import as_completed

        sizes = {future.key: stop - start for future, (start, stop) in zip(done, runs, strict=True)}
        for future in as_completed(done):
            step(sizes[future.key])
            future.release()


def map_in_order(client: Any, function: Callable[[Any], T], parts: Iterable[Any]) -> Iterator[T]:
    """Map a function over parts on the workers of a cluster; results come in order, and few parts wait."""
    packed = client.submit(_same, _packed(function), pure=False)
    most, waiting = 2 * max(len(client.scheduler_info()["workers"]), 1), deque[Any]()
    try:
        for part in parts:
            if len(waiting) == most:
                yield waiting.popleft().result()
            with no_advice():
                waiting.append(client.submit(_call, packed, _packed(part), pure=False))
        while waiting:
            yield waiting.popleft().result()
    finally:
        client.cancel(list(waiting))


def _call(function: bytes, part: bytes) -> Any:
    return pickle.loads(function)(pickle.loads(part))


@contextmanager
def no_advice() -> Iterator[None]:
    """Keep Dask from advising against rows that are sent along with their task: here that is what is meant."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _packed(part: Any) -> bytes:
    import cloudpickle  # members may be functions of a notebook

    packed: bytes = cloudpickle.dumps(part)
    return packed


def _work(function: bytes, part: bytes, frames: list[Any], state: bytes) -> Any:
    """Add up a run of blocks on a worker.

    State and blocks come as bytes: arrays that Dask hands over itself are read-only, for which numba would compile
    everything anew.
    """
    blocks = pickle.loads(part)
    if frames:
        blocks = blocks.given(frames)
    with _one_kernel_thread():
        return add_blocks(pickle.loads(function), blocks, pickle.loads(state))


@contextmanager
def _one_kernel_thread() -> Iterator[None]:
    """Have compiled solvers of this thread use no others: a worker has as many tasks at a time as it has threads."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _same(state: bytes) -> bytes:
    return state


def _add_up(*tables: Any) -> Any:
    """Add tables up in the one tree; they are not changed, for other workers may ask for them again."""
    while len(tables) > 1:
        pairs = [tables[at : at + 2] for at in range(0, len(tables), 2)]
        tables = tuple(pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs)
    return tables[0]
