"""The same bits on one thread or many: linear algebra runs on one, work is shared out in whole pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from numbers import Integral

from threadpoolctl import ThreadpoolController

from optensemble.exceptions import InputError


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looking for them takes longer than most solves


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra on one thread, whose sums are always in the same order."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


def thread_count(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` asks for, in scikit-learn's way: None is 1, -1 is all, -2 all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InputError(f"n_jobs must be a positive whole number, -1 for all cores, or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max((os.cpu_count() or 1) + 1 + int(n_jobs), 1)
