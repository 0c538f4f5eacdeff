"""Batches of rows solved by kernels on all threads, and rows of them that could not be solved."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache

import numba
import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import SHARED, Kernel
from optensemble._core.validation import is_finite, require_finite

_CHECKED_AT_ONCE = 1 << 20
"""Numbers that a thread checks for NaN before it takes the next piece: enough to outweigh the hand-over."""


class Unsolved(Exception):  # noqa: N818  (argmax catches it: a SolverError, or the fallback, comes out)
    """Rows of a batch that could not be solved: the actions of the batch, and for each such row the reason."""

    def __init__(self, actions: Floats, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} of {len(actions)} rows")
        self.actions, self.reasons = actions, reasons


def try_again(solve: Callable[[Floats], Floats], coefficients: Floats, actions: Floats, failed: Indices) -> None:
    """Solve the rows that a kernel gave up by other means, and write their actions among the others."""
    try:
        actions[failed] = solve(coefficients[failed])
    except Unsolved as unsolved:
        actions[failed] = unsolved.actions
        raise Unsolved(actions, {int(failed[row]): why for row, why in unsolved.reasons.items()}) from unsolved


def run_kernel(
    kernel: Kernel, coefficients: Floats, hint: Floats | None = None, own: Callable[[slice], Floats] | None = None
) -> tuple[Floats, Indices]:
    """Solve a batch by a kernel on all threads; return the actions and the status of each row.

    ``own`` returns the parameters of some rows, where rows have their own.
    """
    coefficients = np.require(coefficients, np.float64, ["C", "W"])  # read-only arrays would compile again
    actions, status = np.empty_like(coefficients), np.zeros(len(coefficients), dtype=np.int64)

    def solve(start: int) -> None:
        rows = slice(start, start + kernel.rows_at_once)
        if hint is not None:
            actions[rows] = hint[rows]
        parameters = SHARED if own is None else own(rows)
        kernel(coefficients[rows], hint is not None, actions[rows], status[rows], parameters)

    share(solve, range(0, len(coefficients), kernel.rows_at_once))
    return actions, status


def refuse_nan(batch: Floats, name: str) -> None:
    """Raise ``InputError`` on NaN and infinity; large batches are checked on all threads."""
    rows, found = _CHECKED_AT_ONCE // batch.shape[1] + 1, list[int]()
    if len(batch) <= rows:
        require_finite(batch, name)
        return

    def look(start: int) -> None:
        if not is_finite(batch[start : start + rows]):
            found.append(start)

    share(look, range(0, len(batch), rows))
    if found:
        require_finite(batch, name)


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
