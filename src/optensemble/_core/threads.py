"""The same bits on one thread or many: linear algebra runs on one, work is shared out in whole pieces."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from numbers import Integral
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

from optensemble.exceptions import InputError


@cache
def _libraries() -> list[Any]:
    """Return the libraries of linear algebra; looking for them takes longer than most solves.

    scipy brings a library of its own, which is found only once it is loaded: without a limit, its sums would depend on
    the number of cores.
    """
    import scipy.linalg  # noqa: F401

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


class _OneBlasThread:
    """A limit for everyone inside: the first to come in sets it, the last to leave lifts it.

    Most libraries have one limit for the whole process. If every thread set and lifted it by itself, one that leaves
    would lift it for those still inside, and the last would leave behind what it had found: the limit. A library on
    OpenMP has a limit for each thread, which sets and lifts its own.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._before: list[tuple[Any, int]] = []
        self._own = threading.local()

    def __enter__(self) -> None:
        stack = getattr(self._own, "stack", None)
        if stack:  # this thread is inside already, and so is the limit
            stack.append(None)
            return
        with self._lock:
            found = [(library, library.num_threads) for library in _libraries()]
            self._own.stack = [found]
            if self._inside == 0:
                self._before = found
            self._inside += 1
            _set_threads([(library, 1) for library, _ in found])

    def __exit__(self, *error: object) -> None:
        found = self._own.stack.pop()
        if found is None:
            return
        with self._lock:
            self._inside -= 1
            own = [(library, before) for library, before in found if _has_limit_of_its_own(library)]
            shared = [] if self._inside else self._before
            _set_threads([*shared, *own])


def _has_limit_of_its_own(library: Any) -> bool:
    """Return whether every thread that calls a library has a limit of its own."""
    return getattr(library, "threading_layer", None) == "openmp"


def _set_threads(limits: list[tuple[Any, int]]) -> None:
    for library, threads in limits:
        library.set_num_threads(threads)
        # from 3.8 on threadpoolctl lets only the thread that set a limit change it, and the last to leave must
        getattr(library, "clear_controlling_thread", bool)()


_ONE_BLAS_THREAD = _OneBlasThread()


def one_blas_thread() -> _OneBlasThread:
    """Keep linear algebra on one thread, whose sums are always in the same order; for use in a ``with``."""
    return _ONE_BLAS_THREAD


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` asks for, in scikit-learn's way: None is 1, -1 is all, -2 all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InputError(f"n_jobs must be a positive whole number, -1 for all cores, or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + int(n_jobs), 1)


def share(work: Callable[[int], None], pieces: Sequence[int]) -> None:
    """Do pieces of work that release the GIL on all threads; an interrupt ends after the pieces that have begun."""
    if len(pieces) == 1:
        work(pieces[0])
        return
    todo = iter(pieces)

    def work_on() -> None:
        for piece in todo:
            work(piece)

    others = min(numba.get_num_threads(), len(pieces)) - 1
    helpers = [_helpers(os.getpid()).submit(work_on) for _ in range(others)]
    try:
        work_on()
    finally:
        deque(todo, maxlen=0)  # empties the iterator: no thread finds another piece
        wait(helpers)
    for helper in helpers:
        helper.result()


@cache
def _helpers(process: int) -> ThreadPoolExecutor:
    """Return the pool of helping threads; a forked process makes its own, for threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="optensemble")
