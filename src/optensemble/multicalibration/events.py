"""From predictions and actions to cells: level sets, leaders, subgroups.

Every event of the paper is built from *partitions* of the rows: the buckets of one coordinate of one policy
(Definition 2), the model with the highest self-assessment (Definition 6), a user's subgroups. An *event family* is the
product of one or more partitions, and a *cell* is one element of it. White box and black box differ only in the
families they hand to the loop (:func:`white_box`, :func:`black_box`).

Sizes come from definitions, never from data, so that rows not yet seen land in cells that exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices, Rows
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import gather_sums
from optensemble.multicalibration.cell_names import CellName, CellPart, level_sets


@dataclass(frozen=True)
class Partitions:
    """All partitions of the rows and their numbering: own level sets, leaders, subgroups, policies' level sets.

    Attributes
    ----------
    levels
        The number of buckets of each coordinate.
    leaders
        The number of contenders that can lead.
    groups
        The number of parts of each column of subgroups; the last is for values that no fitting row has.
    policies
        The number of given policies.
    """

    levels: tuple[int, ...]
    leaders: int
    groups: tuple[int, ...] = ()
    policies: int = 0

    @property
    def own(self) -> range:
        """The level sets of the model's own action, by coordinate."""
        return range(len(self.levels))

    @property
    def leader(self) -> int:
        """The model with the highest self-assessment."""
        return len(self.levels)

    @property
    def subgroups(self) -> range:
        """The columns of subgroups."""
        return range(self.leader + 1, self.leader + 1 + len(self.groups))

    @property
    def given(self) -> range:
        """The level sets of given policies: policy by policy, coordinate by coordinate."""
        return range(self.subgroups.stop, self.subgroups.stop + self.policies * len(self.levels))

    def turn(self, partition: int) -> int:
        """Return the place of a level set in a round-robin cycle: its coordinate."""
        return partition if partition < self.leader else (partition - self.given.start) % len(self.levels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of parts of every partition."""
        return (*self.levels, self.leaders, *self.groups, *self.levels * self.policies)

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], groups: int, dimension: int) -> Partitions:
        """Return the partitions of these sizes, with ``groups`` columns of subgroups among them."""
        levels, given = tuple(sizes[:dimension]), len(sizes) - dimension - 1 - groups
        known = tuple(sizes[dimension + 1 : dimension + 1 + groups])
        return cls(levels, sizes[dimension], known, given // max(dimension, 1))

    def names(
        self,
        buckets: Buckets,
        leaders: Sequence[CellPart] = (),
        groups: Sequence[Sequence[CellPart]] = (),
        policies: Sequence[str] = (),
    ) -> PartNames:
        """Return the names of the parts of every partition, given those of leaders, subgroups and policies."""
        given = chain.from_iterable(level_sets(buckets, policy) for policy in policies)
        return [*level_sets(buckets, own=self.policies > 0), leaders, *groups, *given]


PartNames = Sequence[Sequence[CellPart]]
"""The names of the parts of every partition, by its number."""


class Event(NamedTuple):
    """A family of disjoint events: the product of ``partitions``; a round-robin cycle sees it at its ``turn``."""

    turn: int
    partitions: tuple[int, ...]


class Visit(NamedTuple):
    """What one round of the round-robin schedule looks at: one part of an event's first partition."""

    member: int
    event: int
    part: int


class Plan(NamedTuple):
    """A layout as arrays, for compiled code: the partitions of each event, padded with -1, and their numbering."""

    partitions: Indices
    sizes: Indices
    offsets: Indices
    leader: int
    first_given: int


@dataclass(frozen=True)
class Layout:
    """The cells, before any row is seen; every cell has a number."""

    partitions: Partitions
    events: tuple[Event, ...]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of parts of every partition."""
        return self.partitions.sizes

    @cached_property
    def offsets(self) -> Indices:
        """The number of each event's first cell, and at the end the number of all cells."""
        counts = [int(np.prod([self.sizes[p] for p in event.partitions])) for event in self.events]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def plan(self) -> Plan:
        """The same, for compiled code."""
        most = max(len(event.partitions) for event in self.events)
        padded = [(*event.partitions, *[-1] * (most - len(event.partitions))) for event in self.events]
        return Plan(
            np.array(padded, dtype=np.int64),
            np.array(self.sizes, dtype=np.int64),
            self.offsets,
            self.partitions.leader,
            self.partitions.given.start,
        )

    @property
    def count(self) -> int:
        """The number of cells."""
        return int(self.offsets[-1])

    @cached_property
    def fixed(self) -> list[int]:
        """The events that no correction moves: of given policies and subgroups alone."""
        still = {*self.partitions.subgroups, *self.partitions.given}
        return [number for number, event in enumerate(self.events) if still.issuperset(event.partitions)]

    @cached_property
    def in_fixed(self) -> npt.NDArray[np.bool_]:
        """Whether each cell is of a fixed event."""
        return np.repeat(np.isin(np.arange(len(self.events)), self.fixed), np.diff(self.offsets))

    def visits(self, members: int) -> list[Visit]:
        """Return one cycle of the round-robin schedule: the coordinate slowest, then the bucket, then the model."""
        keys = [
            (event.turn, part, e, member)
            for e, event in enumerate(self.events)
            # values that no fitting row has make a part that no round can correct
            for part in range(self.sizes[event.partitions[0]] - (event.partitions[0] in self.partitions.subgroups))
            for member in range(members)
        ]
        return [Visit(member, e, part) for _, part, e, member in sorted(keys)]

    def name(self, cell: int, names: PartNames) -> CellName:
        """Return the name of a cell: its parts, the last first, so that the leader comes before the action.

        >>> from optensemble.multicalibration.cell_names import Leader
        >>> buckets = Buckets(np.zeros(1), np.ones(1), 2)
        >>> layout = white_box(buckets, 2)
        >>> names = layout.partitions.names(buckets, [Leader("ours"), Leader("theirs")])
        >>> str(layout.name(3, names))
        'theirs followed, action[0] in [0.5, 1]'
        """
        event = int(np.searchsorted(self.offsets, cell, side="right")) - 1
        partitions = self.events[event].partitions
        parts = np.unravel_index(cell - int(self.offsets[event]), [self.sizes[p] for p in partitions])
        found = [names[partition][int(part)] for partition, part in zip(partitions, parts, strict=True)]
        return CellName(tuple(reversed(found)))


FixedOverlaps = dict[tuple[Layout, bytes], Floats]
"""Overlaps of cells of fixed events, by the layout and the numbers of the cells."""


@dataclass(frozen=True)
class Cells:
    """A layout on rows: ``parts[p][i]`` is the part of partition ``p`` that row ``i`` belongs to.

    ``counted`` holds overlaps of cells of fixed events on these rows, once they are counted.
    """

    layout: Layout
    parts: Sequence[npt.NDArray[np.integer[Any]]]
    counted: FixedOverlaps | None = None

    def column(self, event: int, rows: Rows = slice(None)) -> Indices:
        """Return the cell of each row in one event family; the cells of a column are disjoint."""
        first, *others = self.layout.events[event].partitions
        cell = self.parts[first][rows].astype(np.int64)
        for partition in others:
            cell *= self.layout.sizes[partition]
            cell += self.parts[partition][rows]
        cell += self.layout.offsets[event]
        return cell

    def columns(self, rows: Rows = slice(None)) -> Indices:
        """Return the cells of each row, of shape (rows, events)."""
        return np.stack([self.column(event, rows) for event in range(len(self.layout.events))], axis=1)

    def spread(self, delta: Floats, rows: Rows = slice(None)) -> Floats:
        """Return ``Z δ``: for each row the sum of ``delta`` over its cells, in the order of the events."""
        return np.asarray(gather_sums(self.columns(rows), delta))


def white_box(buckets: Buckets, members: int, groups: tuple[int, ...] = ()) -> Layout:
    """Algorithm 2: the level sets of a model's own action, crossed with the leader."""
    parts = Partitions(buckets.sizes, members, groups)
    levels = [Event(parts.turn(own), (own, parts.leader)) for own in parts.own]
    return Layout(parts, (*levels, *_subgroup_events(parts)))


def black_box(buckets: Buckets, policies: int, groups: tuple[int, ...] = (), *, conditional: bool = False) -> Layout:
    """Algorithm 3: the level sets of every given policy and of the model's own action.

    With ``conditional``, also the product of each two of these level sets, and of each subgroup with each of them:
    what comparing payoffs *on* a level set or a subgroup needs.
    """
    return _black_box(buckets.sizes, policies, groups, conditional)


@lru_cache(maxsize=16)
def _black_box(sizes: tuple[int, ...], policies: int, groups: tuple[int, ...], conditional: bool) -> Layout:
    parts = Partitions(sizes, policies + 1, groups, policies)
    levels = [*parts.given, *parts.own]
    events = [Event(parts.turn(level), (level,)) for level in levels] + _subgroup_events(parts)
    if conditional:
        last = parts.leader + 1
        events += [Event(last, pair) for pair in combinations(levels, 2)]
        events += [Event(last, (group, level)) for group in parts.subgroups for level in levels]
    return Layout(parts, tuple(events))


def _subgroup_events(parts: Partitions) -> list[Event]:
    return [Event(parts.leader, (group,)) for group in parts.subgroups]
