"""The patches that moved a row: the package's own replay, looked at before every round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.multicalibration.cell_names import CellName
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import Layout, PartNames
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.multicalibration.state import Situation


class Move(NamedTuple):
    """A patch that moved the row: its round (from 1 on), the member corrected, the cell, and the correction.

    A cell is identified by the number of its log and its own; ``rows`` is the number of its fitting rows.
    """

    round: int
    member: int
    cell: tuple[int, int]
    name: CellName
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
                    inside[patch.member] = _row_cells(situation, patch.member, log.layout)
                found = np.flatnonzero(np.isin(patch.cells, inside[patch.member]))
                here += [_move(begun + number + 1, patch, c, which, log.layout, names) for c in found.tolist()]
            if here:
                replay(situation, log, number, number + 1)
                moves += here
                inside.clear()
        begun += len(log.rounds)
    return moves


def _row_cells(situation: Situation, member: int, layout: Layout) -> Indices:
    """Return the row's cell in every event family."""
    return np.asarray(situation.cells(member, layout).columns()[0])


def _move(number: int, patch: Patch, c: int, which: int, layout: Layout, names: PartNames) -> Move:
    cell = int(patch.cells[c])
    return Move(number, patch.member, (which, cell), layout.name(cell, names), int(patch.rows[c]), patch.delta[c])
