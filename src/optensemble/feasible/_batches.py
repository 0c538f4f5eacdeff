"""Batches of rows solved by kernels on all threads, and rows of them that could not be solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import SHARED, Kernel
from optensemble._core.threads import share
from optensemble._core.validation import is_finite, require_finite

if TYPE_CHECKING:
    from optensemble.feasible._base import FeasibleSet

_CHECKED_AT_ONCE = 1 << 20
"""Numbers that a thread checks for NaN before it takes the next piece: enough to outweigh the hand-over."""


class Unsolved(Exception):  # noqa: N818  (argmax catches it: a SolverError, or the fallback, comes out)
    """Rows of a batch that could not be solved: the actions of the batch, and for each such row the reason."""

    def __init__(self, actions: Floats, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} of {len(actions)} rows")
        self.actions, self.reasons = actions, reasons


class NotFinite(Exception):  # noqa: N818  (argmax catches it: an InputError that names the rows comes out)
    """Coefficients that hold NaN or infinity."""


class CheckingKernel(Kernel):
    """A kernel that raises :class:`NotFinite` before it reads NaN or infinity.

    Looking at rows just before they are solved, when they come into the processor's cache for that anyway, takes a
    fraction of the time of looking at the whole batch first.
    """

    __slots__ = ()

    def __call__(
        self, coefficients: Floats, hinted: bool, actions: Floats, status: Indices, own: Floats = SHARED
    ) -> None:
        """Check some rows, and solve them as the kernel does."""
        if not is_finite(coefficients):
            raise NotFinite
        super().__call__(coefficients, hinted, actions, status, own)


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


class BatchSolver:
    """Ω of one batch of rows, for many objectives: its kernel is looked up, and rows' parameters laid out, once.

    It writes what :meth:`FeasibleSet.argmax` returns, to the bit; whatever is out of the ordinary is left to that.
    """

    def __init__(self, omega: FeasibleSet, rows: int, kernel: Kernel | None = None) -> None:
        self.omega, self._kernel = omega, omega.bound_kernel if kernel is None else kernel
        self._status = np.zeros(rows, dtype=np.int64)

    def __call__(
        self, coefficients: Floats, actions: Floats, hint: Floats | None = None, rows: Indices | None = None
    ) -> None:
        """Write the best actions for all rows, or for some ``rows``, whose coefficients are given, into ``actions``."""
        if self._kernel is not None and _is_finite(coefficients):
            if hint is not None:
                actions[:] = hint
            if self._by_kernel(self._kernel, coefficients, actions, hint is not None, rows):
                return
        actions[:] = (self.omega if rows is None else self.omega.take(rows)).argmax(coefficients, hint)

    def solve_each(self, coefficients: Floats, actions: Floats) -> None:
        """Write the best actions under each of several coefficients of all rows, of shape (several, n, d)."""
        kernel, (several, n, d) = self._kernel, coefficients.shape
        if kernel is not None and not kernel.own.size and several > 1 and coefficients.flags.c_contiguous:
            together = BatchSolver(self.omega, several * n, kernel)  # they have nothing to do with each other
            together(coefficients.reshape(several * n, d), actions.reshape(several * n, d))
            return
        for here, out in zip(coefficients, actions, strict=True):
            self(here, out)

    def _by_kernel(
        self, kernel: Kernel, coefficients: Floats, actions: Floats, hinted: bool, rows: Indices | None
    ) -> bool:
        """Solve some rows by the kernel; return whether it solved all of them."""
        status, own = self._status[: len(coefficients)], kernel.own
        if rows is not None and own.size:
            own = own[rows]
        for start in range(0, len(status), kernel.rows_at_once):
            here = slice(start, start + kernel.rows_at_once)
            kernel(coefficients[here], hinted, actions[here], status[here], own[here])
        if _all_solved(status):
            return True
        status[:] = 0
        return False


@njit(cache=True, nogil=True)
def _all_solved(status: Indices) -> bool:
    """Return whether the status of all rows is 0, in a fraction of the time that numpy takes."""
    found = 0
    for each in status:
        found |= each
    return found == 0


@njit(cache=True, nogil=True)
def _is_finite(batch: Floats) -> bool:
    """Return whether all numbers are finite: what is not, times 0, is not 0. No branch, and no sum to wait for."""
    flat, found = batch.reshape(-1), True
    for at in range(len(flat)):
        found &= flat[at] * 0.0 == 0.0
    return found


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
