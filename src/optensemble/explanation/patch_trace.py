"""Which corrections moved a row: the package's own replay, looked at before every round.

Cells are named by the parts they are made of, as audits name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.loop import Patch, PatchLog, replay
from optensemble.multicalibration.state import Situation

PartNames = Sequence[Sequence[str]]
"""The names of the parts of every partition, in the order of ``Situation.parts``."""


class Move(NamedTuple):
    """A patch that moved the row: in which round (from 1 on), whose prediction, on which cell, and by how much.

    A cell is known by the number of its log and its own; ``rows`` is how many fitting rows it had.
    """

    round: int
    member: int
    cell: tuple[int, int]
    name: str
    rows: int
    delta: Floats


def trace(situation: Situation, logs: Sequence[PatchLog], names: PartNames) -> list[Move]:
    """Make the corrections of logs on a situation of one row, in place, and note which patches moved it.

    Rounds that patch none of the row's cells would change nothing, and are passed over.
    """
    moves, begun = list[Move](), 0
    for which, log in enumerate(logs):
        inside: dict[int, Indices] = {}
        for number, patches in enumerate(log.rounds):
            here = []
            for patch in patches:
                if patch.member not in inside:
                    inside[patch.member] = _cells(situation, patch.member, log.layout)
                found = np.flatnonzero(np.isin(patch.cells, inside[patch.member]))
                here += [_move(begun + number + 1, patch, c, which, log.layout, names) for c in found.tolist()]
            if here:
                replay(situation, log, number, number + 1)
                moves += here
                inside.clear()
        begun += len(log.rounds)
    return moves


def _cells(situation: Situation, member: int, layout: Layout) -> Indices:
    """Return the row's cell in every event family."""
    cells = situation.cells(member, layout)
    return np.array([cells.column(event)[0] for event in range(len(layout.events))])


def _move(number: int, patch: Patch, c: int, which: int, layout: Layout, names: PartNames) -> Move:
    cell = int(patch.cells[c])
    return Move(number, patch.member, (which, cell), cell_name(layout, cell, names), int(patch.rows[c]), patch.delta[c])


def cell_name(layout: Layout, cell: int, names: PartNames) -> str:
    """Name a cell by its parts, the last first: who is followed comes before what is done.

    >>> from optensemble.multicalibration.events import white_box
    >>> buckets = Buckets(np.zeros(1), np.ones(1), 2)
    >>> names = [*level_names(buckets, ["action[0]"]), ["ours followed", "theirs followed"]]
    >>> cell_name(white_box(buckets, 2), 3, names)
    'theirs followed, action[0] in [0.5, 1]'
    """
    event = int(np.searchsorted(layout.offsets, cell, side="right")) - 1
    partitions = layout.events[event].partitions
    parts = np.unravel_index(cell - int(layout.offsets[event]), [layout.sizes[p] for p in partitions])
    found = [names[partition][int(part)] for partition, part in zip(partitions, parts, strict=True)]
    return ", ".join(reversed(found))


def level_names(buckets: Buckets, coordinates: Sequence[str]) -> list[list[str]]:
    """Name the level sets of an action, whose coordinates have these names."""
    return [[f"{name} {bucket}" for bucket in buckets.names(j)] for j, name in enumerate(coordinates)]
