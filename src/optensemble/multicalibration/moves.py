"""Compiled moves of a round: the rows of cells, corrections of their predictions, and new actions by a set's kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import Kernel, entry, inner
from optensemble._core.lanes import BITS, bits_within, lowest_bit
from optensemble.multicalibration.events import Layout, Plan
from optensemble.multicalibration.state import State, take_up_own

Span = tuple[int, int]
"""The first of consecutive rows, and the first after them."""

_LARGEST = 2**62
"""No part has a larger number."""

BLOCK = 512
"""Rows that are shifted in all events before the next: their predictions stay in the cache."""


class FoundRows(NamedTuple):
    """Room for some rows and their cells in an event.

    In between, ``hit`` says of no row of a block that it was shifted, and ``patch_of`` of no cell that it is patched.
    """

    rows: Indices
    cell: Indices
    hit: npt.NDArray[np.bool_]
    patch_of: Indices

    @classmethod
    def room(cls, layout: Layout, most: int = BLOCK) -> FoundRows:
        """Return room for ``most`` rows in the cells of a layout; a block of them is enough to be shifted."""
        rows, cell = (np.empty(most, dtype=np.int64) for _ in range(2))
        return cls(rows, cell, np.zeros(BLOCK, dtype=np.bool_), np.full(layout.count, -1, dtype=np.int64))


class SolvedRows(NamedTuple):
    """Room for what a kernel is given, and for the rows that it leaves."""

    coefficients: Floats
    actions: Floats
    status: Indices
    own: Floats
    left: Indices

    @classmethod
    def room(cls, kernel: Kernel, n: int, d: int) -> SolvedRows:
        """Return room for as many of ``n`` rows as a kernel is given at once."""
        most = min(n, kernel.rows_at_once)
        coefficients, actions = (np.empty((most, d)) for _ in range(2))
        status, left = (np.empty(most, dtype=np.int64) for _ in range(2))
        return cls(coefficients, actions, status, np.empty((most, kernel.own.shape[1])), left)


# The rows of cells


@inner
def find_rows(state: State, plan: Plan, member: int, event: int, part: int, span: Span, found: FoundRows) -> int:
    """Find those of a span of rows that lie in one part of an event's first partition; in any if ``part`` is -1.

    Their cells are numbered from 0 on within the event; see :meth:`Situation.parts`. They are counted.
    """
    partitions, rows, cell = plan.partitions[event], found.rows, found.cell
    first, size = partitions[0], plan.sizes[partitions[0]]
    if first == plan.leader:
        count = pick(state.winner, size, part, span, rows, cell)
    elif plan.leader < first < plan.first_given:
        count = pick(state.groups[first - plan.leader - 1], size, part, span, rows, cell)
    else:
        contender, coordinate = level_set(state, plan, member, first)
        count = pick(state.level[contender, coordinate], size, part, span, rows, cell)
    for partition in partitions[1:]:
        if partition < 0:
            break
        size = plan.sizes[partition]
        if partition == plan.leader:
            split(state.winner, size, rows[:count], cell)
        elif plan.leader < partition < plan.first_given:
            split(state.groups[partition - plan.leader - 1], size, rows[:count], cell)
        else:
            contender, coordinate = level_set(state, plan, member, partition)
            split(state.level[contender, coordinate], size, rows[:count], cell)
    return int(count)


@inner
def level_set(state: State, plan: Plan, member: int, partition: int) -> tuple[int, int]:
    """Return whose action a partition buckets, the member's own or a given policy's, and which coordinate of it."""
    given, d = len(state.actions) - len(state.predictions), state.level.shape[1]
    if partition < plan.leader:
        return given + member, partition
    return (partition - plan.first_given) // d, (partition - plan.first_given) % d


@inner
def pick(parts: npt.NDArray[np.integer[Any]], size: int, part: int, span: Span, rows: Indices, cell: Indices) -> int:
    """Pick the rows of a part, or all; a value that came after the layout was made is in the last part."""
    first, last = span
    if part < 0:
        for row in range(first, last):
            rows[row - first], cell[row - first] = row, min(int(parts[row]), size - 1)
        return last - first
    count, whole, highest = 0, last - (last - first) % BITS, _LARGEST if part == size - 1 else part
    for start in range(first, whole, BITS):
        bits = bits_within(parts, start, part, highest)
        while bits > 0:
            rows[count], count = start + lowest_bit(bits), count + 1
            bits &= bits - np.uint64(1)
    for row in range(whole, last):
        rows[count] = row  # without a branch, which would be mispredicted often
        count += part <= parts[row] <= highest
    cell[:count] = part
    return count


@inner
def split(parts: npt.NDArray[np.integer[Any]], size: int, rows: Indices, cell: Indices) -> None:
    """Split the cells of rows further by a partition."""
    for i in range(len(rows)):
        cell[i] = cell[i] * size + min(int(parts[rows[i]]), size - 1)


# Corrections


@entry
def shift(
    state: State,
    plan: Plan,
    member: int,
    cells: Indices,
    delta: Floats,
    span: Span,
    found: FoundRows,
    moved: Indices,
) -> int:
    """Add ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``, event by event.

    ``cells`` ascend. Rows of the span that lie in a patched cell are written to ``moved``, in order, and counted.
    """
    if len(cells) == 0:
        return 0
    predictions, patch_of, count = state.predictions[member], found.patch_of, 0
    begin, end = event_of(plan, cells[0]), event_of(plan, cells[-1]) + 1
    for c in range(len(cells)):
        patch_of[cells[c]] = c
    alone = end == begin + 1
    part = common_part(plan, begin, cells) if alone else -1
    for first in range(span[0], span[1], BLOCK):
        last = min(first + BLOCK, span[1])
        for event in range(begin, end):
            several = find_rows(state, plan, member, event, part, (first, last), found)
            patch_in = patch_of[plan.offsets[event] :]
            for i in range(several):
                patch, row = patch_in[found.cell[i]], found.rows[i]
                if patch >= 0:
                    for j in range(predictions.shape[1]):
                        predictions[row, j] += delta[patch, j]
                    if alone:  # a row lies in one cell of an event
                        moved[count], count = row, count + 1
                    else:
                        found.hit[row - first] = True
        count = count if alone else collect(found.hit, first, last, moved, count)
    for c in range(len(cells)):
        patch_of[cells[c]] = -1
    return count


@inner
def event_of(plan: Plan, cell: int) -> int:
    """Return the event that a cell belongs to."""
    event = 0
    while plan.offsets[event + 1] <= cell:
        event += 1
    return event


@inner
def common_part(plan: Plan, event: int, cells: Indices) -> int:
    """Return the part of the event's first partition that all of its cells given lie in; -1 if there is none."""
    first = plan.offsets[event]
    width = (plan.offsets[event + 1] - first) // plan.sizes[plan.partitions[event, 0]]
    part = (cells[0] - first) // width
    return part if part == (cells[-1] - first) // width else -1


@inner
def collect(hit: npt.NDArray[np.bool_], first: int, last: int, moved: Indices, count: int) -> int:
    """Append the rows that were hit, and forget them."""
    for row in range(first, last):
        if hit[row - first]:
            moved[count], count, hit[row - first] = row, count + 1, False
    return count


# New actions


@inner
def solve_rows(kernel, floats, ints, own, state, member, rows, room):  # type: ignore[no-untyped-def]
    """Solve rows again, hinting at their actions so far, and take that up; return how many are solved.

    Those come first among ``rows`` afterwards. Of more rows than the kernel takes at once none is solved: the caller
    shares them out. Given policies are the caller's to compare with the new actions.
    """
    count = len(rows)
    if count > len(room.status):
        return 0
    before, predictions = state.actions[len(state.actions) - len(state.predictions) + member], state.predictions[member]
    coefficients, actions, status, parameters = room.coefficients, room.actions, room.status, room.own
    status[:count] = 0
    for i in range(count):
        row = rows[i]  # read once: as far as the compiler can tell, what is written might change it
        for j in range(coefficients.shape[1]):
            coefficients[i, j] = state.sign * predictions[row, j]
        for j in range(coefficients.shape[1]):
            actions[i, j] = before[row, j]
        for j in range(parameters.shape[1]):
            parameters[i, j] = own[row, j]
    kernel(coefficients[:count], True, actions[:count], status[:count], parameters[:count], floats, ints)
    solved = put_solved_first(rows, room)
    take_up_own(state, member, rows[:solved], actions)
    return solved


@inner
def put_solved_first(rows, room):  # type: ignore[no-untyped-def]
    """Move the rows that the kernel has solved to the front, with their actions, and count them."""
    status, actions, left = room.status, room.actions, room.left
    solved = unsolved = 0
    for i in range(len(rows)):
        if status[i] != 0:
            left[unsolved], unsolved = rows[i], unsolved + 1
            continue
        if unsolved > 0:
            rows[solved] = rows[i]
            for j in range(actions.shape[1]):
                actions[solved, j] = actions[i, j]
        solved += 1
    for i in range(unsolved):
        rows[solved + i] = left[i]
    return solved
