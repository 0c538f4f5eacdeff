"""Many rounds of the round-robin schedule in one compiled call.

Ω comes in as an argument, its ``Kernel``. Rows that the kernel cannot or should not solve, all of them where a set has
none, are left to the caller, who solves them, closes the round, and calls again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import sum_cells
from optensemble._core.kernel import entry, inner
from optensemble.multicalibration.events import Layout, Plan
from optensemble.multicalibration.history import VIOLATION, Tally, record, refresh
from optensemble.multicalibration.moves import find_rows, solve_rows
from optensemble.multicalibration.runner import VISITS_AT_ONCE
from optensemble.multicalibration.state import compare_given

_NUMBERS = 1 << 18
"""Numbers that a diary holds, about."""


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


def new_diary(layout: Layout, columns: int, d: int, most: int) -> Diary:
    """Return an empty diary for rounds on the cells of a layout, ``most`` of them or a good number, each a line.

    An entry has ``columns`` numbers.
    """
    width = _widest(layout)
    rounds = min(max(_NUMBERS // (columns + width * (d + 2)), 1), most)
    return Diary(
        entries=np.empty((rounds, columns)),
        made=np.empty(rounds, dtype=np.int64),
        drop=np.empty(rounds),
        length=np.empty(rounds, dtype=np.int64),
        cells=np.empty(rounds * width, dtype=np.int64),
        delta=np.empty((rounds * width, d)),
        counts=np.empty(rounds * width, dtype=np.int64),
    )


def _widest(layout: Layout) -> int:
    """Return the largest number of cells that a round looks at."""
    counts = np.diff(layout.offsets)
    return max(int(n) // layout.sizes[e.partitions[0]] for n, e in zip(counts, layout.events, strict=True))


class CellSums(NamedTuple):
    """Room for the residuals of a round's rows, the counts of its cells, the limbs of their sums, and their patches.

    ``patch_of`` is -1 for a cell that is left as it is.
    """

    residual: Floats
    counts: Indices
    high: Floats
    low: Floats
    patch_of: Indices


class Course(NamedTuple):
    """What all rounds of a schedule have in common: the cells, the order of visits, the rows, and what is followed."""

    plan: Plan
    cycle: Indices
    labels: Floats
    alpha: float
    min_cell: int
    tally: Tally
    sums: CellSums

    @classmethod
    def of(cls, layout: Layout, members: int, labels: Floats, alpha: float, min_cell: int, tally: Tally) -> Course:
        """Return the course of rounds on the cells of a layout."""
        width, d = _widest(layout), labels.shape[1]
        counts, patch_of = (np.empty(width, dtype=np.int64) for _ in range(2))
        sums = CellSums(np.empty_like(labels), counts, np.empty((width, d)), np.empty((width, d)), patch_of)
        cycle = np.array(layout.visits(members), dtype=np.int64)
        return cls(layout.plan, cycle, labels, float(alpha), int(min_cell), tally, sums)


class RoundsDone(NamedTuple):
    """How far a call came: rounds written down, row-solves so far, and quiet rounds in a row.

    If fewer rows are ``solved`` than ``moved``, the last round written down still waits for the actions of the others.
    """

    rounds: int
    solves: int
    quiet: int
    solved: int
    moved: int


@entry
def run_rounds(  # type: ignore[no-untyped-def]
    kernel, floats, ints, own, most_solves, state, found, room, course, begun, solves, quiet, diary
):
    """Visit one (model, bucket, coordinate) after the other, and patch all cells there, whatever their violation.

    Only cells of fewer than ``min_cell`` rows are left as they are.
    """
    cycle, labels, tally = course.cycle, course.labels, course.tally
    n, enough, written, moved = len(labels), solves + most_solves, 0, 1
    for number in range(len(diary.entries)):
        turn = (begun + number) % len(cycle)
        member, event, part = cycle[turn, 0], cycle[turn, 1], cycle[turn, 2]
        visited = find_rows(state, course.plan, member, event, part, (0, n), found)
        width = look(state, course, member, event, part, found.rows[:visited], found.cell)
        worst, length = write_down(course, event, part, width, number, written, diary)
        if moved > 0:
            record(tally, state, worst, solves, diary.entries[number])
        else:
            repeat_line(diary.entries, number, worst)
        delta = diary.delta[written : written + length]
        moved = move(state.predictions[member], delta, course.sums.patch_of, visited, found)
        written += length
        quiet = 0 if diary.made[number] > 0 else quiet + 1
        if moved > 0:
            solved = solve_rows(kernel, floats, ints, own, state, member, found.rows[:moved], room)
            compare_given(state, found.rows[:solved])
            refresh(tally, state, labels, member, found.rows[:solved])
            solves += solved
            if solved < moved:
                return number + 1, solves, quiet, solved, moved
        if quiet == len(cycle) or solves > enough or (number + 1) * n > VISITS_AT_ONCE:
            return number + 1, solves, quiet, 0, 0
    return len(diary.entries), solves, quiet, 0, 0


@inner
def look(state, course, member, event, part, rows, cell):  # type: ignore[no-untyped-def]
    """Sum the residuals of rows over the cells of a part of the event's first partition; return their number.

    All rows lie in that part, whose cells are numbered from 0 on afterwards.
    """
    plan, sums, labels, predictions = course.plan, course.sums, course.labels, state.predictions[member]
    residual, count = sums.residual, len(rows)
    width = (plan.offsets[event + 1] - plan.offsets[event]) // plan.sizes[plan.partitions[event, 0]]
    for i in range(count):
        cell[i] -= part * width
        row = rows[i]
        for j in range(residual.shape[1]):
            residual[i, j] = labels[row, j] - predictions[row, j]
    sum_cells(cell[:count], residual[:count], sums.counts[:width], sums.high[:width], sums.low[:width])
    return width


@inner
def write_down(course, event, part, width, number, written, diary):  # type: ignore[no-untyped-def]
    """Write the round's patches to the diary; return the worst violation seen and how many cells are patched."""
    sums, n, first = course.sums, len(course.labels), course.plan.offsets[event] + part * width
    worst, made, drop, length = 0.0, 0, 0.0, 0
    for cell in range(width):
        count = sums.counts[cell]
        sums.patch_of[cell] = -1
        if count < course.min_cell:
            continue
        violation = 0.0
        for j in range(sums.high.shape[1]):
            total = sums.high[cell, j] + sums.low[cell, j]
            delta = total / count
            diary.delta[written + length, j] = delta
            drop += count * delta**2
            violation = max(violation, abs(total) / n)
        diary.cells[written + length], diary.counts[written + length] = first + cell, count
        sums.patch_of[cell] = length
        worst, made, length = max(worst, violation), made + (violation > course.alpha), length + 1
    diary.made[number], diary.drop[number], diary.length[number] = made, drop / n, length
    return worst, length


@inner
def repeat_line(entries, number, worst):  # type: ignore[no-untyped-def]
    """Write the line of a round that found everything as the round before it did."""
    for k in range(entries.shape[1]):
        entries[number, k] = entries[number - 1, k]
    entries[number, VIOLATION] = worst


@inner
def move(predictions, delta, patch_of, visited, found):  # type: ignore[no-untyped-def]
    """Correct the predictions of the rows of patched cells; these rows are the first afterwards, and are counted."""
    rows, cell, moved = found.rows, found.cell, 0
    for i in range(visited):
        patch, row = patch_of[cell[i]], rows[i]
        if patch >= 0:
            for j in range(predictions.shape[1]):
                predictions[row, j] += delta[patch, j]
            rows[moved], moved = row, moved + 1
    return moved
