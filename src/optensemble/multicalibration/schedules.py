"""Schedules: the cells that a round patches, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.multicalibration.cell_tables import CellTable, Correction, tabulate
from optensemble.multicalibration.compiled_rounds import RoundsDone, Runner, new_diary, run_rounds
from optensemble.multicalibration.corrections import correct
from optensemble.multicalibration.events import Cells, Layout
from optensemble.multicalibration.history import Recorder
from optensemble.multicalibration.least_squares import least_squares
from optensemble.multicalibration.patches import Patch
from optensemble.multicalibration.state import Situation
from optensemble.multicalibration.update import update


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
    ``drop`` is what Lemma 1 says the patches take off the squared error, summed over members; ``last`` ends the loop.
    """

    patches: list[tuple[Patch, ...]]
    entries: list[Floats]
    made: Indices
    drop: float
    last: bool = False


Schedule = Callable[[int], Rounds | None]
"""Makes at least one round and at most the given number, or returns None where nothing is left to do."""


def _frozen(situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder) -> Schedule:
    """Run Algorithm 1 in every round, as Algorithms 2 and 3 are printed."""
    return partial(_correct_all, situation, labels, how, recorder, partial(update, alpha=how.alpha))


def _joint(situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder) -> Schedule:
    """Go in every round to where Algorithm 1 would end if alpha were 0."""
    return partial(_correct_all, situation, labels, how, recorder, partial(least_squares, shrinkage=how.shrinkage))


Solve = Callable[[Cells, Floats, CellTable], Correction]


def _correct_all(
    situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder, solve: Solve, most: int
) -> Rounds | None:
    """Correct in one round every member that violates, each on its own frozen cells."""
    patches, made = [], np.zeros(len(situation.predictions), dtype=np.int64)
    worst, drop = 0.0, 0.0
    for member, predictions in enumerate(situation.predictions):
        cells, residual = situation.cells(member, how.layout), labels - predictions
        table = tabulate(cells, residual, how.min_cell)
        violation = table.largest / len(labels)
        worst = max(worst, violation)
        if violation > how.alpha:
            correction = solve(cells, residual, table)
            patched = np.flatnonzero(correction.delta.any(axis=1))
            patches.append(Patch(member, table.kept[patched], correction.delta[patched], table.counts[patched]))
            made[member], drop = correction.patches, drop + correction.drop
    if not patches:
        return None
    entry = recorder.entry(worst)
    for member, rows in correct(situation, how.layout, tuple(patches)):
        recorder.refresh(member, rows)
    return Rounds([tuple(patches)], [entry], made, drop)


class _RoundRobin:
    """Visit in a round one (model, bucket, coordinate) and patch all cells there, whatever their violation.

    The order of the published experiments. It ends when a full cycle saw no violation above α. Rounds are made many at
    once by compiled code; a round whose rows that code leaves unsolved is closed here.
    """

    def __init__(self, situation: Situation, labels: Floats, how: Debiasing, recorder: Recorder) -> None:
        layout = how.layout
        self._situation, self._recorder = situation, recorder
        self._cycle = np.array(layout.visits(len(situation.predictions)), dtype=np.int64)
        self._visited = np.empty(len(labels), dtype=np.int64)
        self._run = partial(
            Runner(run_rounds, situation.omega.kernel),
            *(situation.state, layout.plan, self._visited, self._cycle),
            *(labels, how.alpha, how.min_cell, recorder.tally),
        )
        self._diary = new_diary(layout, recorder.columns, labels.shape[1])
        self._began, self._done = 0, RoundsDone(0, situation.solves, 0, 0)

    def __call__(self, most: int) -> Rounds:
        if self._done.left:
            return self._close()
        self._began += self._done.rounds
        now = self._began, self._situation.solves, self._done.quiet
        self._done = self._run(*now, self._diary.first(most))
        self._situation.solves = self._done.solves
        whole = self._done.rounds - (self._done.left > 0)
        return self._read(0, whole) if whole else self._close()

    def _close(self) -> Rounds:
        """Solve the rows that the last round in the diary still waits for."""
        number, rows = self._done.rounds - 1, self._visited[: self._done.left]
        member = int(self._cycle[(self._began + number) % len(self._cycle), 0])
        self._situation.resolve(member, rows)
        self._recorder.refresh(member, rows)
        self._done = self._done._replace(left=0)
        return self._read(number, number + 1)

    def _read(self, start: int, stop: int) -> Rounds:
        """Copy rounds out of the diary, which is overwritten later."""
        diary, before = self._diary, int(self._diary.length[:start].sum())
        after = before + int(diary.length[start:stop].sum())
        cells, delta = diary.cells[before:after].copy(), diary.delta[before:after].copy()
        counts = diary.counts[before:after].copy()
        members = self._cycle[np.arange(self._began + start, self._began + stop) % len(self._cycle), 0]
        patches, begin = list[tuple[Patch, ...]](), 0
        for member, length in zip(members.tolist(), diary.length[start:stop].tolist(), strict=True):
            end = begin + length
            here = slice(begin, end)
            patches.append((Patch(member, cells[here], delta[here], counts[here]),) if length else ())
            begin = end
        made = np.zeros(len(self._situation.predictions), dtype=np.int64)
        np.add.at(made, members, diary.made[start:stop])
        entries = list(diary.entries[start:stop].copy())
        last = self._done.quiet == len(self._cycle) and not self._done.left
        return Rounds(patches, entries, made, float(diary.drop[start:stop].sum()), last)


SCHEDULES: dict[str, Callable[[Situation, Floats, Debiasing, Recorder], Schedule]] = {
    "frozen": _frozen,
    "joint": _joint,
    "round-robin": _RoundRobin,
}
"""The schedules by name."""
