"""Compiled code that is given a set's kernel, and how long it may take before Python looks at the keyboard again."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

import numpy as np
from numba import njit, typeof

from optensemble._core.kernel import FUNCTION, Kernel, make_kernel

VISITS_AT_ONCE = 1 << 24
"""Rows visited between two looks at the keyboard, at most."""

_SHORT = 0.05
"""Seconds; after a call that took less, the next may solve four times as many rows."""


class Runner:
    """Calls compiled code with a kernel as function pointer: compiled like this, numba can cache it.

    Without a kernel, all rows are left to the caller: they are solved ``by_hand``.
    """

    def __init__(self, function: Any, kernel: Kernel | None) -> None:
        self._function, self.by_hand = function, kernel is None
        self.kernel = make_kernel(give_up) if kernel is None else kernel
        self._compiled: Any = None
        self._most_solves = self.kernel.rows_at_once

    def __call__(self, *arguments: Any) -> tuple[int, ...]:
        """Run rounds; the types of the arguments must be the same every time."""
        function, floats, ints, _, own = self.kernel
        given = (floats, ints, own, self._most_solves, *arguments)
        if self._compiled is None:
            self._compiled = _entry_point(self._function, given)
        begun = time.perf_counter()
        done: tuple[int, ...] = self._compiled(function, *given)
        if time.perf_counter() - begun < _SHORT:
            self._most_solves = min(4 * self._most_solves, VISITS_AT_ONCE)
        return done


_ENTRY_POINTS = dict[tuple[Any, Hashable], Any]()
"""Compiled code by its function and the kinds of its arguments: asking numba takes longer than a round of few rows."""


def _entry_point(function: Any, arguments: tuple[Any, ...]) -> Any:
    name = function, _kind(arguments)
    if name not in _ENTRY_POINTS:
        signature = (FUNCTION, *map(typeof, arguments))
        function.compile(signature)
        _ENTRY_POINTS[name] = function.overloads[signature].entry_point
    return _ENTRY_POINTS[name]


def _kind(value: Any) -> Any:
    """Return what numba's type of a value hangs on: dtype, dimensions and layout of arrays, the class of others."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return type(value), *map(_kind, value)
    kind: Any = type(value)
    return (kind, value.bit_length() // 32) if kind is int else kind


@njit(cache=True, nogil=True)
def give_up(C, hinted, actions, status, own, floats, ints):  # type: ignore[no-untyped-def]
    """Stand in for the kernel of a set that has none."""
    status[:] = 1
