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
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices, Rows
from optensemble._core.kernel import inner

EDGE = 1e-9
"""An action this close below the edge of a bucket, in bucket widths, belongs to the next one: solver noise."""


@dataclass(frozen=True)
class Buckets:
    """The bucketing 𝒯: ``count`` level sets of equal width between the bounds of each coordinate.

    >>> unit = Buckets(lower=np.zeros(1), upper=np.ones(1), count=10)
    >>> unit(np.array([[0.0], [0.3], [0.99], [1.0]])).ravel().tolist()
    [0, 3, 9, 9]
    """

    lower: Floats
    upper: Floats
    count: int

    def __call__(self, actions: Floats) -> npt.NDArray[np.int16]:
        """Return the bucket of every coordinate of every action; both ends of the range are inside."""
        levels: npt.NDArray[np.int16] = _buckets(actions, self.lower, self.per_unit, self.count)
        return levels

    @cached_property
    def per_unit(self) -> Floats:
        """How many buckets there are to a unit of each coordinate; none where it is fixed."""
        span = self.upper - self.lower
        return np.divide(self.count, span, out=np.zeros_like(span), where=span > 0)

    def names(self, coordinate: int) -> list[str]:
        """Say where the buckets of a coordinate are.

        >>> Buckets(lower=np.array([0.0]), upper=np.array([4.0]), count=2).names(0)
        ['in [0, 2)', 'in [2, 4]']
        >>> Buckets(lower=np.array([1000.0]), upper=np.array([1001.0]), count=2).names(0)
        ['in [1000, 1000.5)', 'in [1000.5, 1001]']
        """
        edges = np.linspace(self.lower[coordinate], self.upper[coordinate], self.sizes[coordinate] + 1).tolist()
        written = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(4, 18))
        shown = next(texts for texts in written if len(set(texts)) == len(set(edges)))
        names = [f"in [{low}, {high})" for low, high in pairwise(shown)]
        return [*names[:-1], f"{names[-1][:-1]}]"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many buckets each coordinate has: one where it is fixed."""
        return tuple(np.where(self.upper > self.lower, self.count, 1).tolist())


@inner
def bucket(coordinate: float, lower: float, per_unit: float, count: int) -> int:
    """Definition 2: the number of the level set that a coordinate of an action lies in."""
    return int(min(max(np.floor((coordinate - lower) * per_unit + EDGE), 0.0), count - 1.0))


@njit(cache=True, nogil=True)
def _buckets(actions: Floats, lower: Floats, per_unit: Floats, count: int) -> npt.NDArray[np.int16]:
    n, d = actions.shape
    levels = np.empty((n, d), np.int16)
    for i in range(n):
        for j in range(d):
            levels[i, j] = bucket(actions[i, j], lower[j], per_unit[j], count)
    return levels


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
