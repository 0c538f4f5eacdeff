"""Many rounds in one compiled call: those of the round-robin schedule, and those of any log that is replayed.

Ω comes in as an argument, its ``Kernel``. Rows that the kernel cannot or should not solve,
all of them where a set has none, are left to the caller, who solves them, closes the round, and calls again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, typeof

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import cell_sums
from optensemble._core.kernel import FUNCTION, Kernel, inner, make_kernel, maker
from optensemble.multicalibration.events import Layout, Plan
from optensemble.multicalibration.history import record, refresh
from optensemble.multicalibration.state import State, find_cells, take_up

_ROUNDS = 512
"""Rounds between two looks at the keyboard, at most."""

_WORK_AT_ONCE = 1 << 24
"""Rows visited between two looks at the keyboard, at most."""

_BLOCK = 512
"""Rows that are shifted in all events before the next: their predictions stay in the cache."""


class Diary(NamedTuple):
    """What each round of a call found and did: a line each; the patched cells of all rounds follow one another.

    ``counts`` are the rows of these cells.
    """

    entries: Floats
    made: Indices
    drop: Floats
    length: Indices
    cells: Indices
    delta: Floats
    counts: Indices

    def first(self, most: int) -> Diary:
        """Return the same diary with at most ``most`` lines."""
        lines = (self.entries[:most], self.made[:most], self.drop[:most], self.length[:most])
        return Diary(*lines, self.cells, self.delta, self.counts)


def new_diary(layout: Layout, columns: int, d: int) -> Diary:
    """Return an empty diary for rounds on the cells of a layout, with room for entries of ``columns`` numbers."""
    counts = np.diff(layout.offsets)
    room = _ROUNDS * max(int(n) // layout.sizes[e.partitions[0]] for n, e in zip(counts, layout.events, strict=True))
    return Diary(
        entries=np.empty((_ROUNDS, columns)),
        made=np.empty(_ROUNDS, dtype=np.int64),
        drop=np.empty(_ROUNDS),
        length=np.empty(_ROUNDS, dtype=np.int64),
        cells=np.empty(room, dtype=np.int64),
        delta=np.empty((room, d)),
        counts=np.empty(room, dtype=np.int64),
    )


class RoundsDone(NamedTuple):
    """How far a call came: rounds written down, row-solves so far, quiet rounds in a row, rows left to the caller.

    If rows are left, the last round written down still waits for their actions.
    """

    rounds: int
    solves: int
    quiet: int
    left: int


class Runner:
    """Calls compiled code with a kernel as function pointer: compiled like this, numba can cache it."""

    def __init__(self, function: Any, kernel: Kernel | None) -> None:
        self._function, self._kernel = function, make_kernel(give_up) if kernel is None else kernel
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> RoundsDone:
        """Run rounds; the types of the arguments must be the same every time."""
        function, *data = self._kernel
        if self._compiled is None:
            self._compiled = _entry_point(self._function, (*data, *arguments))
        return RoundsDone(*self._compiled(function, *data, *arguments))


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


@njit(cache=True, nogil=True)
def shift(state: State, plan: Plan, member: int, cells: Indices, delta: Floats, moved: Indices) -> int:
    """Add ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``, event by event.

    ``cells`` ascend. Rows that lie in a patched cell are written to ``moved``, in order, and counted.
    """
    predictions = state.predictions[member]
    n, d = predictions.shape
    hit, cell_of = np.zeros(n, np.bool_), np.empty(min(n, _BLOCK), np.int64)
    if len(cells) == 0:
        return 0
    begin = np.searchsorted(plan.offsets, cells[0], side="right") - 1
    end = np.searchsorted(plan.offsets, cells[-1], side="right")
    patch_of = np.full(plan.offsets[end] - plan.offsets[begin], -1)
    patch_of[cells - plan.offsets[begin]] = np.arange(len(cells))
    for first in range(0, n, _BLOCK):
        here = cell_of[: n - first]
        for event in range(begin, end):
            find_cells(state, plan, member, event, first, here)
            patch_in = patch_of[plan.offsets[event] - plan.offsets[begin] :]
            for i in range(len(here)):
                patch, row = patch_in[here[i]], first + i
                if patch >= 0:
                    hit[row] = True
                    for j in range(d):
                        predictions[row, j] += delta[patch, j]
    count = 0
    for row in range(n):
        moved[count] = row
        count += hit[row]
    return count


@njit(cache=True, nogil=True)
def run_rounds(  # type: ignore[no-untyped-def]
    kernel,
    floats,
    ints,
    rows_at_once,
    own,
    state,
    plan,
    rows,
    cycle,
    labels,
    alpha,
    min_cell,
    tally,
    time,
    solves,
    quiet,
    diary,
):
    """Visit one (model, bucket, coordinate) after the other, and patch all cells there, whatever their violation.

    Only cells of fewer than ``min_cell`` rows are left as they are.
    """
    n, d = labels.shape
    residual, cell, work = np.empty((n, d)), np.empty(n, np.int64), new_work(min(n, rows_at_once), d, own.shape[1])
    written = solved = 0
    for number in range(len(diary.entries)):
        member, event, part = cycle[(time + number) % len(cycle)]
        width, count = look(state, plan, labels, member, event, part, cell, residual)
        counts, sums = cell_sums(cell[:count], residual[:count], width)
        first = plan.offsets[event] + part * width
        worst, length = write_down(diary, number, written, counts, sums, first, n, alpha, min_cell)
        record(tally, state, worst, solves, diary.entries[number])
        cells, delta = diary.cells[written : written + length], diary.delta[written : written + length]
        count = shift(state, plan, member, cells, delta, rows)  # rows of cells below min_cell do not move
        written += length
        quiet = 0 if diary.made[number] > 0 else quiet + 1
        if not solve_rows(kernel, floats, ints, rows_at_once, own, state, member, rows[:count], work):
            return number + 1, solves, quiet, count
        refresh(tally, state, labels, member, rows[:count])
        solves, solved = solves + count, solved + count
        if quiet == len(cycle) or solved > rows_at_once or (number + 1) * n > _WORK_AT_ONCE:
            return number + 1, solves, quiet, 0
    return len(diary.entries), solves, quiet, 0


@njit(cache=True, nogil=True)
def replay_rounds(  # type: ignore[no-untyped-def]
    kernel, floats, ints, rows_at_once, own, state, plan, rows, members, lengths, cells, delta, begun, solves
):
    """Make the patches of rounds that have one patch each, from round ``begun`` on."""
    work, solved = new_work(min(len(rows), rows_at_once), delta.shape[1], own.shape[1]), 0
    first = lengths[:begun].sum()
    for number in range(begun, len(members)):
        last = first + lengths[number]
        count = shift(state, plan, members[number], cells[first:last], delta[first:last], rows)
        first = last
        if not solve_rows(kernel, floats, ints, rows_at_once, own, state, members[number], rows[:count], work):
            return number + 1, solves, 0, count
        solves, solved = solves + count, solved + count
        if solved > rows_at_once or (number + 1 - begun) * len(rows) > _WORK_AT_ONCE:
            return number + 1, solves, 0, 0
    return len(members), solves, 0, 0


@maker
def new_work(n, d, parameters):  # type: ignore[no-untyped-def]
    """Return room for the coefficients, actions, status and own parameters of rows to be solved."""
    return np.empty((n, d)), np.empty((n, d)), np.empty(n, np.int64), np.empty((n, parameters))


@maker
def solve_rows(kernel, floats, ints, rows_at_once, own, state, member, rows, work):  # type: ignore[no-untyped-def]
    """Solve some rows again, hinting at their actions so far, and take that up; return False if some are not solved."""
    before, predictions = state.actions[len(state.actions) - len(state.predictions) + member], state.predictions[member]
    count, (coefficients, actions, status, parameters) = len(rows), work
    if count > rows_at_once:
        return False
    for i in range(count):
        status[i] = 0
        for j in range(coefficients.shape[1]):
            coefficients[i, j] = state.sign * predictions[rows[i], j]
            actions[i, j] = before[rows[i], j]
        for j in range(parameters.shape[1]):
            parameters[i, j] = own[rows[i], j]
    kernel(coefficients[:count], True, actions[:count], status[:count], parameters[:count], floats, ints)
    if status[:count].any():
        return False
    take_up(state, member, rows, actions)
    return True


@inner
def look(  # type: ignore[no-untyped-def]
    state, plan, labels, member, event, part, cell, residual
):
    """Find the rows in one part of an event's first partition: their cell within it, and their residual."""
    n, d = labels.shape
    predictions = state.predictions[member]
    width = (plan.offsets[event + 1] - plan.offsets[event]) // plan.sizes[plan.partitions[event, 0]]
    find_cells(state, plan, member, event, 0, cell)
    count = 0
    for row in range(n):
        local = cell[row] - part * width
        if 0 <= local < width:
            cell[count] = local
            for j in range(d):
                residual[count, j] = labels[row, j] - predictions[row, j]
            count += 1
    return width, count


@inner
def write_down(diary, number, written, counts, sums, first, n, alpha, min_cell):  # type: ignore[no-untyped-def]
    """Write the round's patches to the diary; return the worst violation seen and how many cells are patched."""
    worst, made, drop, length = 0.0, 0, 0.0, 0
    for cell in range(len(counts)):
        if counts[cell] < min_cell:
            continue
        violation = 0.0
        for j in range(sums.shape[1]):
            delta = sums[cell, j] / counts[cell]
            diary.delta[written + length, j] = delta
            drop += counts[cell] * delta**2
            violation = max(violation, abs(sums[cell, j]) / n)
        diary.cells[written + length], diary.counts[written + length] = first + cell, counts[cell]
        worst, made, length = max(worst, violation), made + (violation > alpha), length + 1
    diary.made[number], diary.drop[number], diary.length[number] = made, drop / n, length
    return worst, length
