"""The patch's cells on some rows: members' level sets, the forecast's own, the leading model, subgroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets, bucket, buckets_of
from optensemble._core.cell_sums import Cells as CellNumbers
from optensemble._core.lanes import LANES, load_column, store_whole
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration import events
from optensemble.multicalibration.cell_names import CellPart, Leader, subgroup_parts
from optensemble.multicalibration.events import Layout, PartNames

Counts = Indices | Floats
"""The number of rows of each cell, or the sum of their weights."""


def make_layout(outputs: MemberOutputs) -> Layout:
    """Return the cells: every member's level sets, own level sets, the leading model, subgroups."""
    # one part more than there are models: groups end with a part for what no fitting row has
    leaders = (outputs.models + 1,) if outputs.models > 1 else ()
    return events.black_box(outputs.buckets, len(outputs.actions), (*leaders, *map(len, outputs.titles)))


def part_names(outputs: MemberOutputs, members: list[str]) -> PartNames:
    """Return the names of the parts of every partition of the cells."""
    leaders = [[Leader(name, promises=True) for name in members[: outputs.models]]] if outputs.models > 1 else []
    groups: list[Sequence[CellPart]] = [*leaders, *subgroup_parts(outputs.titles)]
    return make_layout(outputs).partitions.names(outputs.buckets, groups=groups, policies=members)


def patch_groups(outputs: MemberOutputs) -> npt.NDArray[np.int32]:
    """Return the parts of the leading model, which is a subgroup as the user's are, and of these, (columns, n)."""
    leaders = outputs.leaders[None] if outputs.models > 1 else np.empty((0, outputs.count), dtype=np.int32)
    return leaders if outputs.subgroups is None else np.concatenate([leaders, outputs.subgroups])


def first_subgroup(layout: Layout, columns: int) -> int:
    """Return the number of the first cell that is a subgroup of the user's; their ``columns`` are the last events."""
    return int(layout.offsets[len(layout.events) - columns])


class Levels(NamedTuple):
    """The level sets of all coordinates, for compiled code."""

    lower: Floats
    per_unit: Floats
    number: int

    @classmethod
    def of(cls, buckets: Buckets) -> Levels:
        """Return the level sets of a bucketing."""
        return cls(buckets.lower, buckets.per_unit, buckets.count)


class RowCells:
    """The cells of some rows, a column for every event: those of members and groups are fixed, own ones are not."""

    def __init__(self, outputs: MemberOutputs, layout: Layout | None = None) -> None:
        self.layout = make_layout(outputs) if layout is None else layout
        self._levels = Levels.of(outputs.buckets)
        k, n, d = outputs.actions.shape
        self.columns = np.empty((n, len(self.layout.events)), dtype=np.int32)
        self.own = slice(k * d, (k + 1) * d)
        self._fill(outputs.actions, 0)
        fill_groups(patch_groups(outputs), 0, self.layout.offsets, self.columns, self.own.stop)

    def _fill(self, actions: Floats, first: int) -> None:
        fill_levels(actions, 0, self._levels, self.layout.offsets, self.columns, first)

    def take_up(self, actions: Floats) -> None:
        """Take up the forecast's own level sets, given the actions it induces."""
        self._fill(actions[None], self.own.start)

    def fixed_counts(self, weights: Floats | None = None) -> Counts:
        """Return how many rows each cell has, but for the forecast's own."""
        return self._count(slice(0, self.own.start), weights) + self._count(slice(self.own.stop, None), weights)

    def own_counts(self, weights: Floats | None = None) -> Counts:
        """Return how many rows each of the forecast's own cells has."""
        return self._count(self.own, weights)

    def _count(self, events: slice, weights: Floats | None) -> Counts:
        if weights is None:
            return count_rows(self.columns[:, events], self.layout.count)
        return weigh_rows(self.columns[:, events], weights, self.layout.count)


@njit(cache=True, nogil=True)
def count_rows(columns: CellNumbers, count: int) -> Indices:
    """Return how many rows each of ``count`` cells has."""
    counts = np.zeros(count, np.int64)
    for i in range(columns.shape[0]):
        for e in range(columns.shape[1]):
            counts[columns[i, e]] += 1
    return counts


@njit(cache=True, nogil=True)
def weigh_rows(columns: CellNumbers, weights: Floats, count: int) -> Floats:
    """Return the weight of the rows of each of ``count`` cells."""
    sums = np.zeros(count)
    for i in range(columns.shape[0]):
        for e in range(columns.shape[1]):
            sums[columns[i, e]] += weights[i]
    return sums


# Cells are written of as many rows as there are columns for, from one of the rows that are given on.


@njit(cache=True, nogil=True)
def fill_levels(  # type: ignore[no-untyped-def]
    actions, start, levels, offsets, columns, first
):
    """Write the cell of each coordinate of each action: its level set, counted from the coordinate's first cell.

    Members' actions (members, n, d) have columns of their own, from ``first`` on.
    """
    members, _, d = actions.shape
    lower, per_unit, count = levels
    cells = offsets[first : first + members * d].astype(np.int32)
    side_by_side = len(columns) - len(columns) % LANES if d < LANES else 0
    for i in range(0, side_by_side, LANES):  # of few coordinates too few are found at a time, row by row
        for m in range(members):
            for j in range(d):
                level = buckets_of(load_column(actions[m], start + i, j), lower[j], per_unit[j], count)
                store_whole(columns, i, first + m * d + j, cells[m * d + j], level)
    for i in range(side_by_side, len(columns)):
        for m in range(members):
            action, cell = actions[m, start + i], cells[m * d : (m + 1) * d]
            row = columns[i, first + m * d : first + (m + 1) * d]
            for j in range(d):
                row[j] = cell[j] + bucket(action[j], lower[j], per_unit[j], count)


@njit(cache=True, nogil=True)
def fill_groups(  # type: ignore[no-untyped-def]
    groups, start, offsets, columns, first
):
    """Write the cell of each row in each column of its groups (columns, n).

    Values that were learned after the layout was made belong in the last part.
    """
    for g in range(len(groups)):
        cell, last = offsets[first + g], offsets[first + g + 1] - 1
        for i in range(len(columns)):
            columns[i, first + g] = min(cell + groups[g, start + i], last)
