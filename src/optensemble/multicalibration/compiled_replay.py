"""The rounds of a log on some rows, in one compiled call: rows do not depend on each other, whoever has fitted the log.

On the way it may look at what the rounds have come to so far. As in
:mod:`optensemble.multicalibration.compiled_rounds`, rows that the kernel leaves are the caller's to solve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import entry, inner
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


class Looks(NamedTuple):
    """When a replay looks at its rows, and what it sees of them.

    ``after`` are the numbers of patches made before each look, ascending; ``seen`` (looks, columns) are sums over rows:
    the payoff of the winner's action as it is assessed and as ``labels`` have it, then both of every model's action,
    model by model, and in how many rows it is the winner.
    """

    after: Indices
    labels: Floats
    seen: Floats

    @classmethod
    def at(cls, after: Indices, labels: Floats, members: int) -> Looks:
        """Return looks that have not been taken yet."""
        return cls(after, labels, np.zeros((len(after), 2 + 3 * members)))


class ReplayDone(NamedTuple):
    """How far a call came: patches made, row-solves so far, and looks taken.

    If fewer rows are ``solved`` than ``moved``, the last patch still waits for the actions of the others.
    """

    patches: int
    solves: int
    looks: int
    solved: int
    moved: int


@entry
def replay_rounds(  # type: ignore[no-untyped-def]
    kernel, floats, ints, own, most_solves, state, plan, found, room, patches, moved, looks, span, begun, solves, looked
):
    """Make patches on a span of rows, from patch ``begun`` on; those of a round before any row is solved again."""
    enough, visits = solves + most_solves, 0
    for number in range(begun, len(patches.members)):
        begin = patches.begin[number]
        if number == begin:
            looked = look_at(state, span, number, looked, looks)
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
                return number + 1, solves, looked, solved, count
        if solves > enough or visits > VISITS_AT_ONCE:
            return number + 1, solves, looked, 0, 0
    looked = look_at(state, span, len(patches.members), looked, looks)
    return len(patches.members), solves, looked, 0, 0


@inner
def look_at(state, span, made, looked, looks):  # type: ignore[no-untyped-def]
    """Take the looks that come after so many patches, from look ``looked`` on; return how many are taken by then."""
    while looked < len(looks.after) and looks.after[looked] == made:
        see_rows(state, span, looks.labels, looks.seen[looked])
        looked += 1
    return looked


@inner
def see_rows(state, span, labels, seen):  # type: ignore[no-untyped-def]
    """Add up what a look sees of the rows of a span; see :class:`Looks`."""
    first, d = len(state.actions) - len(state.predictions), labels.shape[1]
    for contender in range(first, len(state.actions)):
        actions, assessed, cost = state.actions[contender], state.assessed[contender], state.cost[contender]
        promised = realised = promised_taken = realised_taken = 0.0
        taken = 0
        for row in range(span[0], span[1]):
            earned = 0.0
            for j in range(d):
                earned += actions[row, j] * labels[row, j]
            earned -= cost[row] if len(cost) else 0.0
            promised, realised = promised + assessed[row], realised + earned
            wins = state.winner[row] == contender
            promised_taken += assessed[row] if wins else 0.0
            realised_taken += earned if wins else 0.0
            taken += wins
        own = 2 + 3 * (contender - first)
        seen[0], seen[1] = seen[0] + promised_taken, seen[1] + realised_taken
        seen[own], seen[own + 1], seen[own + 2] = promised, realised, taken
