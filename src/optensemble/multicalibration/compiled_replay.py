"""The rounds of a log on some rows, in one compiled call: rows do not depend on each other, whoever has fitted the log.

As in :mod:`optensemble.multicalibration.compiled_rounds`, rows that the kernel leaves are the caller's to solve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import entry
from optensemble.multicalibration.moves import shift, solve_rows
from optensemble.multicalibration.patches import PackedRounds
from optensemble.multicalibration.runner import VISITS_AT_ONCE


class ReplayedPatches(NamedTuple):
    """The patches of rounds, for compiled code: ``begin`` and ``end`` are those of each patch's round."""

    begin: Indices
    end: Indices
    members: Indices
    first_cell: Indices
    cells: Indices
    delta: Floats

    @classmethod
    def of(cls, rounds: PackedRounds) -> ReplayedPatches:
        """Return the patches of rounds."""
        first, lengths = rounds.first_patch, np.diff(rounds.first_patch)
        begin, end = np.repeat(first[:-1], lengths), np.repeat(first[1:], lengths)
        return cls(begin, end, rounds.members, rounds.first_cell, rounds.cells, rounds.delta)

    @property
    def most(self) -> int:
        """The largest number of patches of a round."""
        return int((self.end - self.begin).max(initial=0))


class Moved(NamedTuple):
    """The rows that each patch of a round has moved, and their number; they wait there to be solved."""

    rows: Indices
    counts: Indices


class ReplayDone(NamedTuple):
    """How far a call came: patches made, and row-solves so far.

    If fewer rows are ``solved`` than ``moved``, the last patch still waits for the actions of the others.
    """

    patches: int
    solves: int
    solved: int
    moved: int


@entry
def replay_rounds(  # type: ignore[no-untyped-def]
    kernel, floats, ints, own, most_solves, state, plan, found, room, patches, moved, span, begun, solves
):
    """Make patches on a span of rows, from patch ``begun`` on; those of a round before any row is solved again."""
    enough, visits = solves + most_solves, 0
    for number in range(begun, len(patches.members)):
        begin = patches.begin[number]
        if number == begin:
            for each in range(begin, patches.end[number]):
                cells = slice(patches.first_cell[each], patches.first_cell[each + 1])
                member, rows = patches.members[each], moved.rows[each - begin]
                count = shift(state, plan, member, patches.cells[cells], patches.delta[cells], span, found, rows)
                moved.counts[each - begin] = count
                visits += span[1] - span[0]
        count = moved.counts[number - begin]
        if count > 0:
            rows = moved.rows[number - begin, :count]
            solved = solve_rows(kernel, floats, ints, own, state, patches.members[number], rows, room)
            solves += solved
            if solved < count:
                return number + 1, solves, solved, count
        if solves > enough or visits > VISITS_AT_ONCE:
            return number + 1, solves, 0, 0
    return len(patches.members), solves, 0, 0
