"""Schedules: the cells that a round patches, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.multicalibration import cell_tables
from optensemble.multicalibration.cell_tables import CellTable, Correction, tabulate, with_overlaps
from optensemble.multicalibration.compiled_rounds import Course, Diary, RoundsDone, new_diary, run_rounds
from optensemble.multicalibration.corrections import correct
from optensemble.multicalibration.events import Cells, Layout
from optensemble.multicalibration.history import Recorder
from optensemble.multicalibration.least_squares import least_squares, least_squares_table
from optensemble.multicalibration.moves import FoundRows, SolvedRows
from optensemble.multicalibration.patches import PackedRounds, Patch, starts
from optensemble.multicalibration.runner import Runner
from optensemble.multicalibration.state import Situation
from optensemble.multicalibration.update import update, update_table


class Debiasing(NamedTuple):
    """The parameters of a debiasing, which can be done again on other rows.

    Attributes
    ----------
    layout
        The cells to be consistent on.
    schedule
        A key of :data:`SCHEDULES`.
    alpha
        The tolerance of Definition 1.
    max_rounds
        The largest number of rounds; by default Lemma 6's.
    shrinkage
        Pseudo-rows of zero residual in every cell (joint schedule).
    min_cell
        Cells of fewer rows are not patched, whatever their violation.
    """

    layout: Layout
    schedule: str
    alpha: float
    max_rounds: int | None = None
    shrinkage: float = 0.0
    min_cell: int = 1


class Rounds(NamedTuple):
    """One or several rounds made by a schedule.

    ``entries`` are their lines in the history, ``made`` counts per member the patches of a violation above α,
    ``drops`` are what Lemma 1 says each round takes off the squared error, summed over members; ``last`` ends the loop.
    """

    patches: PackedRounds
    entries: Floats
    made: Indices
    drops: Floats
    last: bool = False


Schedule = Callable[[int], Rounds | None]
"""Makes at least one round and at most the given number, or returns None where nothing is left to do."""


Solve = Callable[[Cells, Floats, CellTable], Correction]
"""Corrects one member on frozen cells, given its residuals and their table."""


SOLVES: dict[str, Callable[[Debiasing], Solve]] = {
    "frozen": lambda how: partial(update, alpha=how.alpha),
    "joint": lambda how: partial(least_squares, shrinkage=how.shrinkage),
}
"""The schedules that correct every member in every round: by Algorithm 1, or to where it would end if alpha were 0."""


TABLE_SOLVES: dict[str, Callable[[Debiasing], Callable[[CellTable, int], Correction]]] = {
    "frozen": lambda how: partial(update_table, alpha=how.alpha),
    "joint": lambda how: partial(least_squares_table, shrinkage=how.shrinkage),
}
"""The same from a table with its overlaps and the number of rows alone; by the same arithmetic."""


@dataclass
class FoundRound:
    """A round that has yet to be made: its patches, the worst violation it saw, and the rest as of :class:`Rounds`."""

    made: Indices
    patches: list[Patch] = field(default_factory=list)
    drop: float = 0.0
    worst: float = 0.0

    def add(self, member: int, table: CellTable, correction: Correction) -> None:
        """Add the correction of one member."""
        patched = np.flatnonzero(correction.delta.any(axis=1))
        self.patches.append(Patch(member, table.kept[patched], correction.delta[patched], table.counts[patched]))
        self.made[member] = correction.patches
        self.drop += correction.drop


def find_rounds(situation: Situation, labels: Floats, hows: Sequence[Debiasing]) -> list[FoundRound]:
    """Find the round that corrects every member that violates, each on its own frozen cells.

    Several debiasings, which differ in shrinkage alone, find a round each, from the same tables.
    """
    first, worst = hows[0], 0.0
    found = [FoundRound(np.zeros(len(situation.predictions), dtype=np.int64)) for _ in hows]
    for member, predictions in enumerate(situation.predictions):
        cells, residual = situation.cells(member, first.layout), labels - predictions
        table = tabulate(cells, residual, first.min_cell)
        violation = table.largest / len(labels)
        worst = max(worst, violation)
        if violation <= first.alpha:
            continue
        if len(hows) > 1 and len(table.kept) <= cell_tables.TABLE_LIMIT:
            table = with_overlaps(cells, table)
        for how, its in zip(hows, found, strict=True):
            its.add(member, table, SOLVES[how.schedule](how)(cells, residual, table))
    return [replace(its, worst=worst) for its in found]


def _correct_all(situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder) -> Schedule:
    """Make in every call one round that corrects every member that violates."""

    def go_on(most: int) -> Rounds | None:
        (found,) = find_rounds(situation, labels, [how])
        if not found.patches:
            return None
        patches, entry = tuple(found.patches), recorder.entry(found.worst)
        for member, rows in correct(situation, how.layout, patches):
            recorder.refresh(member, rows)
        return Rounds(PackedRounds.of([patches]), entry[None], found.made, np.array([found.drop]))

    return go_on


class _RoundRobin:
    """Visit in a round one (model, bucket, coordinate) and patch all cells there, whatever their violation.

    The order of the published experiments. It ends when a full cycle saw no violation above α. Rounds are made many at
    once by compiled code; a round whose rows that code leaves unsolved is closed here.
    """

    def __init__(self, situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder) -> None:
        layout, (members, n, d) = how.layout, situation.predictions.shape
        self._situation, self._recorder = situation, recorder
        self._new_diary = partial(new_diary, layout, recorder.columns, d)
        self._found = FoundRows.room(layout, n)
        self._course = Course.of(layout, members, labels, how.alpha, how.min_cell, recorder.tally)
        runner = Runner(run_rounds, situation.omega.bound_kernel)
        room = SolvedRows.room(runner.kernel, n, d)
        self._run = partial(runner, situation.state, self._found, room, self._course)
        self._diary: Diary | None = None
        self._began, self._done = 0, RoundsDone(0, 0, 0, 0, 0)

    def __call__(self, most: int) -> Rounds:
        if self._done.solved < self._done.moved:
            return self._close()
        if self._diary is None:
            self._diary = self._new_diary(most)
        self._began += self._done.rounds
        now = self._began, self._situation.solves, self._done.quiet
        self._done = RoundsDone(*self._run(*now, self._diary.first(most)))
        self._situation.solves = self._done.solves
        whole = self._done.rounds - (self._done.solved < self._done.moved)
        return self._read(self._diary, 0, whole) if whole else self._close()

    def _close(self) -> Rounds:
        """Solve the rows that the last round in the diary still waits for."""
        assert self._diary is not None
        number, rows = self._done.rounds - 1, self._found.rows[self._done.solved : self._done.moved]
        member = int(self._members(number, number + 1)[0])
        self._situation.resolve(member, rows)
        self._recorder.refresh(member, rows)
        self._done = self._done._replace(solved=0, moved=0)
        return self._read(self._diary, number, number + 1)

    def _members(self, start: int, stop: int) -> Indices:
        """Return whom the rounds of the diary correct."""
        cycle = self._course.cycle
        return np.asarray(cycle[np.arange(self._began + start, self._began + stop) % len(cycle), 0])

    def _read(self, diary: Diary, start: int, stop: int) -> Rounds:
        """Copy rounds out of the diary, which is overwritten later."""
        lengths, members = diary.length[start:stop], self._members(start, stop)
        before = int(diary.length[:start].sum())
        cells = slice(before, before + int(lengths.sum()))
        patched, made = lengths > 0, np.zeros(len(self._situation.predictions), dtype=np.int64)
        np.add.at(made, members, diary.made[start:stop])
        rounds = PackedRounds(
            first_patch=starts(patched),
            members=members[patched],
            first_cell=starts(lengths[patched]),
            cells=diary.cells[cells].copy(),
            delta=diary.delta[cells].copy(),
            rows=diary.counts[cells].copy(),
        )
        last = self._done.quiet == len(self._course.cycle) and self._done.solved == self._done.moved
        return Rounds(rounds, diary.entries[start:stop].copy(), made, diary.drop[start:stop].copy(), last)


SCHEDULES: dict[str, Callable[[Situation, Floats, Debiasing, Recorder], Schedule]] = {
    **dict.fromkeys(SOLVES, _correct_all),
    "round-robin": _RoundRobin,
}
"""The schedules by name."""
