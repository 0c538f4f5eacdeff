"""The patch's cells on some rows: members' level sets, the forecast's own, the leading model, subgroups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import bucket
from optensemble._core.cell_sums import Cells as CellNumbers
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


def patch_groups(outputs: MemberOutputs) -> npt.NDArray[np.int32] | None:
    """Return the parts of the leading model, which is a subgroup as the user's are, and of these."""
    leaders = [outputs.leaders[None]] if outputs.models > 1 else []
    found = leaders if outputs.subgroups is None else [*leaders, outputs.subgroups]
    return np.concatenate(found) if found else None


def first_subgroup(layout: Layout, columns: int) -> int:
    """Return the number of the first cell that is a subgroup of the user's; their ``columns`` are the last events."""
    return int(layout.offsets[len(layout.events) - columns])


class RowCells:
    """The cells of some rows, a column for every event: those of members and groups are fixed, own ones are not."""

    def __init__(self, outputs: MemberOutputs, layout: Layout | None = None) -> None:
        self.layout, self._buckets = make_layout(outputs) if layout is None else layout, outputs.buckets
        k, n, d = outputs.actions.shape
        self.columns = np.empty((n, len(self.layout.events)), dtype=np.int32)
        self.own = slice(k * d, (k + 1) * d)
        for member, actions in enumerate(outputs.actions):
            self._fill(actions, member * d)
        groups = patch_groups(outputs)
        if groups is not None:
            offsets = self.layout.offsets[self.own.stop :].astype(np.int32)
            last = np.diff(offsets) - 1  # where values belong that were learned after the layout was made
            self.columns[:, self.own.stop :] = np.minimum(groups.T, last) + offsets[:-1]

    def _fill(self, actions: Floats, first: int) -> None:
        offsets = self.layout.offsets[first : first + actions.shape[1]].astype(np.int32)
        levels = (self._buckets.lower, self._buckets.per_unit, self._buckets.count)
        fill_levels(actions, *levels, offsets, self.columns, first)

    def take_up(self, actions: Floats) -> None:
        """Take up the forecast's own level sets, given the actions it induces."""
        self._fill(actions, self.own.start)

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


@njit(cache=True, nogil=True)
def fill_levels(  # type: ignore[no-untyped-def]
    actions, lower, per_unit, count, offsets, columns, first
):
    """Write the cell of each coordinate of each action: its level set, counted from the coordinate's first cell.

    The coordinates have columns of their own, from ``first`` on.
    """
    n, d = actions.shape
    for i in range(n):
        row, action = columns[i, first : first + d], actions[i]
        for j in range(d):
            row[j] = offsets[j] + np.int32(bucket(action[j], lower[j], per_unit[j], count))
