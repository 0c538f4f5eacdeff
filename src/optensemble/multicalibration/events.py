"""From predictions and actions to cells: bucketing, level sets, winners, groups.

Every event of the paper is built from *partitions* of the rows: the buckets of one coordinate of one policy
(Definition 2), who has the highest self-assessment (Definition 6), a user's groups. An *event family* is the
product of one or more partitions, and a *cell* is one element of it. White box and black box differ only in the
families they hand to the loop (:func:`white_box`, :func:`black_box`).

Sizes come from definitions, never from data, so that rows not yet seen land in cells that exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Indices, Rows
from optensemble._core.buckets import Buckets


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
    """A layout as arrays: the partitions of each event, padded with -1; sizes, offsets, and how many group columns."""

    partitions: Indices
    sizes: Indices
    offsets: Indices
    groups: int


@dataclass(frozen=True)
class Layout:
    """Which cells there are, before any row is seen; every cell has a number.

    ``groups`` are the partitions whose last part is for values that no fitting row has.
    """

    sizes: tuple[int, ...]
    events: tuple[Event, ...]
    groups: tuple[int, ...] = ()

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
            np.array(padded, dtype=np.int64), np.array(self.sizes, dtype=np.int64), self.offsets, len(self.groups)
        )

    @property
    def count(self) -> int:
        """How many cells there are."""
        return int(self.offsets[-1])

    def visits(self, members: int) -> list[Visit]:
        """Return one cycle of the round-robin schedule: the coordinate slowest, then the bucket, then the model."""
        keys = [
            (event.turn, part, e, member)
            for e, event in enumerate(self.events)
            for part in range(self.sizes[event.partitions[0]] - (event.partitions[0] in self.groups))
            for member in range(members)
        ]
        return [Visit(member, e, part) for _, part, e, member in sorted(keys)]


@dataclass(frozen=True)
class Cells:
    """A layout on rows: ``parts[p][i]`` is the part of partition ``p`` that row ``i`` belongs to."""

    layout: Layout
    parts: Sequence[npt.NDArray[np.integer[Any]]]

    def column(self, event: int, rows: Rows = slice(None)) -> Indices:
        """Return the cell of each row in one event family; the cells of a column are disjoint."""
        first, *others = self.layout.events[event].partitions
        cell = self.parts[first][rows].astype(np.int64)
        for partition in others:
            cell *= self.layout.sizes[partition]
            cell += self.parts[partition][rows]
        cell += self.layout.offsets[event]
        return cell


def white_box(buckets: Buckets, members: int, groups: tuple[int, ...] = ()) -> Layout:
    """Algorithm 2: the level sets of a model's own action, crossed with who has the highest self-assessment."""
    d = len(buckets.sizes)
    return Layout(
        sizes=(*buckets.sizes, members, *groups),
        events=(*(Event(j, (j, d)) for j in range(d)), *_group_events(d, groups)),
        groups=tuple(range(d + 1, d + 1 + len(groups))),
    )


def black_box(buckets: Buckets, policies: int, groups: tuple[int, ...] = (), *, conditional: bool = False) -> Layout:
    """Algorithm 3: the level sets of every given policy and of the model's own action.

    With ``conditional``, also the product of each two of these level sets, and of each group with each of them:
    what comparing payoffs *on* a level set or a group needs.
    """
    d, g = len(buckets.sizes), len(groups)
    own = range(d)
    given = range(d + 1 + g, d + 1 + g + policies * d)
    events = [Event((p - given.start) % d, (p,)) for p in given] + [Event(j, (j,)) for j in own]
    events += _group_events(d, groups)
    if conditional:
        levels = [*given, *own]
        events += [Event(d + 1, pair) for pair in combinations(levels, 2)]
        events += [Event(d + 1, (d + 1 + c, level)) for c in range(g) for level in levels]
    return Layout(
        sizes=(*buckets.sizes, policies + 1, *groups, *buckets.sizes * policies),
        events=tuple(events),
        groups=tuple(range(d + 1, d + 1 + g)),
    )


def _group_events(d: int, groups: tuple[int, ...]) -> list[Event]:
    return [Event(d, (d + 1 + c,)) for c in range(len(groups))]
