"""Rows in blocks: what members say of them, their labels, and what they depend on; the unit of every pass of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.engine import BLOCK_ROWS
from optensemble._core.hashing import Hashes
from optensemble._core.progress import Progress, Stage, silent
from optensemble.members.absence import join_absent
from optensemble.members.fingerprints import fingerprints
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.outputs import MemberOutputs
from optensemble.members.query import MemberQuery
from optensemble.members.validation import take_rows
from optensemble.stats.blocks import RowUnits
from optensemble.stats.row_design import RowDesign

CHUNK_ROWS = 1 << 13
CHUNK_NUMBERS = 1 << 17
"""The most rows, and numbers of one member, that are worked on at once: few enough for the cache."""

_FIRST_ROWS = 1 << 13  # for a centre near the mean: a hundredth of a standard deviation will do


def enough_rows(numbers: int) -> int:
    """Return how many rows show what members' outputs are like, which are so many ``numbers`` to a row."""
    return min(max(_FIRST_ROWS, numbers), BLOCK_ROWS)


@dataclass(frozen=True)
class Chunk:
    """Some rows of a block, those of each fold next to each other.

    Attributes
    ----------
    outputs, labels
        What members say of the rows, and their labels, in the sense of maximising.
    rows
        The numbers of the rows.
    ends
        Where each fold ends and the next begins: the rows of fold ``f`` are ``slice(ends[f], ends[f + 1])``.
    units
        The units of dependent rows.
    weights
        How many rows each row counts for; None where each is one.
    """

    outputs: MemberOutputs
    labels: Floats
    rows: Indices
    ends: Indices
    units: RowUnits
    weights: Floats | None = None

    @property
    def folds(self) -> list[slice]:
        """The rows of each fold."""
        return [slice(start, stop) for start, stop in zip(self.ends[:-1], self.ends[1:], strict=True)]

    @cached_property
    def fold(self) -> Indices:
        """The fold of every row."""
        return np.repeat(np.arange(len(self.ends) - 1), np.diff(self.ends))


class Cut(NamedTuple):
    """The rows of a chunk, counted from its block's first, ordered by fold; where folds end; the rows' units."""

    order: Indices
    ends: Indices
    units: RowUnits


@dataclass(frozen=True)
class Block:
    """Up to :data:`~optensemble._core.engine.BLOCK_ROWS` rows, from number ``start`` on.

    ``groups`` are the hashes of the groups of rows that belong together, if the user named any. ``cuts`` are the chunks
    it is cut into if that is settled: ``outputs`` are then in their order, but not ``labels`` and ``weights``, which
    say how many rows each row counts for.
    """

    start: int
    outputs: MemberOutputs
    labels: Floats
    groups: Hashes | None = None
    cuts: tuple[Cut, ...] | None = None
    weights: Floats | None = None

    @property
    def enough(self) -> int:
        """As many rows as show what members' outputs are like: some, and no fewer than there are numbers to a row."""
        return enough_rows(self.outputs.actions.shape[0] * self.outputs.actions.shape[2])

    @property
    def marks(self) -> Hashes:
        """A hash of what members say of each row and of its label."""
        return fingerprints(*self.outputs.known_by, self.labels)

    def chunks(self, design: RowDesign) -> Iterator[Chunk]:
        """Cut the block into chunks, whose rows are ordered by fold."""
        begin = 0
        for cut in self.cut(design) if self.cuts is None else self.cuts:
            order, ends, units = cut
            here = slice(begin, begin := begin + len(order))
            outputs = self.outputs.take(order if self.cuts is None else here)
            weights = None if self.weights is None else self.weights[order]
            yield Chunk(outputs, self.labels[order], self.start + order, ends, units, weights)

    def cut(self, design: RowDesign) -> Iterator[Cut]:
        """Return which rows each chunk has."""
        n, ids = len(self.labels), self.groups
        if design.clusters is not None and ids is None:  # rows that are there several times belong together
            ids = self.marks
        places = design(self.start, n, ids)
        step = min(CHUNK_ROWS, max(CHUNK_NUMBERS // self.labels.shape[1], 1))
        for begin in range(0, n, step):
            fold = places.fold[begin : begin + step]
            order = begin + np.argsort(fold.astype(np.int16), kind="stable")  # a radix sort
            ends = np.concatenate([[0], np.cumsum(np.bincount(fold, minlength=design.folds))])
            yield Cut(order, ends, places.units.take(order))

    def between(self, start: int, stop: int) -> Self:
        """Return the rows from number ``start`` to before ``stop``."""
        rows = slice(start - self.start, stop - self.start)
        groups, weights = (None if each is None else each[rows] for each in (self.groups, self.weights))
        taken = {"outputs": self.outputs.take(rows), "labels": self.labels[rows]}
        return replace(self, start=start, groups=groups, weights=weights, **taken)  # type: ignore[arg-type]

    def arrange(self, design: RowDesign) -> tuple[Cut, ...]:
        """Return its chunks, in whose order outputs are put, where they are."""
        cuts, begin = tuple(self.cut(design)), 0
        for order, _, _ in cuts:
            here = slice(begin, begin := begin + len(order))
            self.outputs.reorder(here, order)
        return cuts


@dataclass(frozen=True)
class ArrayBlocks:
    """Rows in memory, asked once.

    Outputs that are ``owned``, for nobody else uses them, may be put in another order; ``cuts`` are then the chunks of
    every block.
    """

    rows: Block
    owned: bool = False
    cuts: tuple[tuple[Cut, ...], ...] | None = None

    @classmethod
    def ask(
        cls,
        query: MemberQuery,
        batches: list[LabelledBatch],
        groups: Hashes | None,
        progress: Progress = silent,
        said: Mapping[str, Floats] | None = None,
    ) -> Self:
        """Ask all members about the rows of all batches, a block at a time; groups and weights must be checked.

        Members that have ``said`` something of all rows already, by name, are not asked.
        """
        n = sum(len(batch.labels) for batch in batches)
        kept = [batch.labels if query.sign > 0 else -batch.labels for batch in batches]
        labels = kept[0] if len(kept) == 1 else np.concatenate(kept)
        outputs, start, answers = query.empty(n), 0, list[MemberOutputs]()
        pieces = [(batch.X, size) for batch in batches for size in [len(batch.labels)]]
        members = len(query.models) + len(query.policies)
        steps = members * sum(-(-size // BLOCK_ROWS) for _, size in pieces)
        with Stage(progress, "asking members", steps) as step:
            for X, size in pieces:
                for first in range(0, size, BLOCK_ROWS):
                    rows = X if size <= BLOCK_ROWS else take_rows(X, first, min(first + BLOCK_ROWS, size))
                    here = slice(start + first, start + min(first + BLOCK_ROWS, size))
                    room, own = outputs.take(here), {name: each[here] for name, each in (said or {}).items()}
                    asked = query(rows, step, room, own)
                    answers.append(replace(asked, context=None))  # it is in its room
                    if room.subgroups is not None and asked.subgroups is not None:
                        room.subgroups[:] = asked.subgroups
                start += size
        weights = None
        if batches[0].weights is not None:
            weights = np.concatenate([batch.weights for batch in batches])
        absent = join_absent([asked.absent for asked in answers], [asked.count for asked in answers])
        outputs = replace(outputs, absent=absent, **MemberOutputs.beside(answers))
        return cls(Block(0, outputs, labels, groups, weights=weights), owned=True)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self.rows.labels)

    @property
    def first(self) -> Block:
        """The first block."""
        return next(iter(self.part(0, 1)))

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.row_count // BLOCK_ROWS)

    def part(self, start: int, stop: int) -> BlockRun:
        """Return the blocks from ``start`` to before ``stop``."""
        first, last = start * BLOCK_ROWS, min(stop * BLOCK_ROWS, self.row_count)
        return BlockRun(self.rows.between(first, last), None if self.cuts is None else self.cuts[start:stop])

    def with_absences(self, members: Sequence[int], names: Sequence[str]) -> Self:
        """Return the same where the absence of some members is an event."""
        return replace(self, rows=replace(self.rows, outputs=self.rows.outputs.with_absences(members, names)))

    def arranged(self, design: RowDesign) -> Self:
        """Return the same with every block cut into chunks for good, so that passes need not, if that takes no copy."""
        if not self.owned:
            return self
        cuts = tuple(block.arrange(design) for block in self.part(0, self.count))
        if self.rows.outputs.models > 1:
            _ = self.rows.outputs.leaders  # found once for all passes, and taken along
        return replace(self, cuts=cuts)


@dataclass(frozen=True)
class BlockRun:
    """A run of blocks in memory."""

    rows: Block
    cuts: tuple[tuple[Cut, ...], ...] | None = None

    def __iter__(self) -> Iterator[Block]:
        first, last = self.rows.start, self.rows.start + len(self.rows.labels)
        for number, start in enumerate(range(first, last, BLOCK_ROWS)):
            block = self.rows.between(start, min(start + BLOCK_ROWS, last))
            yield block if self.cuts is None else replace(block, cuts=self.cuts[number])
