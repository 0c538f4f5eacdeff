"""The same bits on one thread or many: linear algebra runs on one, work is shared out in whole pieces."""

from __future__ import annotations

import os
import threading
from functools import cache
from numbers import Integral
from typing import Any

from threadpoolctl import ThreadpoolController

from optensemble.exceptions import InputError


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looking for them takes longer than most solves


class _OneBlasThread:
    """A limit that holds for the whole process: the first thread to come in sets it, the last to leave lifts it.

    If every thread set and lifted it by itself, one that leaves would lift it for those still inside, and the last
    would restore what it found when it came in: the limit.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


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
