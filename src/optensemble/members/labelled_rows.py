"""The rows of a source that have all their labels: the others are left out, and rows are numbered anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.engine import BLOCK_ROWS, Engine
from optensemble._core.sums import Sums
from optensemble.members.alignment import RowNames
from optensemble.members.sources import Piece, RawBlock, RawBlocks, RowSource
from optensemble.members.validation import as_labels, pick_rows, row_count


@dataclass(frozen=True)
class LabelledRows(RowSource):
    """The rows of a source that have all of ``dimension`` labels.

    ``before`` is the number of such rows before each block of the source, and at the end of all.
    """

    source: RowSource
    dimension: int
    before: Indices

    @property
    def row_count(self) -> int:
        """The number of rows with labels."""
        return int(self.before[-1])

    @property
    def names(self) -> RowNames:
        """The names of the source."""
        return self.source.names

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read blocks of the source, and leave rows without labels out."""
        here = int(self.before[self._blocks(start, stop)[0]])
        for piece in self.source.read(*self._rows_of_source(start, stop)):
            labels = _labels_of(piece, self.dimension)
            kept = _labelled(labels)
            rows = kept[max(start - here, 0) : max(stop - here, 0)]
            here += len(kept)
            if len(rows):
                yield Piece(piece.X if len(rows) == len(labels) else pick_rows(piece.X, rows), labels[rows])

    def part(self, start: int, stop: int) -> RowSource:
        """Return what a worker needs: the blocks of the source that hold these rows."""
        return replace(self, source=self.source.part(*self._rows_of_source(start, stop)))

    def only(self, columns: Sequence[str]) -> RowSource:
        """Return the same rows with no more than these columns."""
        return replace(self, source=self.source.only(columns))

    @property
    def frames(self) -> list[Any]:
        """What the source must be given before it is read elsewhere."""
        return getattr(self.source, "frames", [])

    def given(self, frames: list[Any]) -> RowSource:
        """Return the same with these partitions."""
        return replace(self, source=self.source.given(frames))

    def place(self, row: int) -> str:
        """Return where a row is in the source."""
        first, last = self._rows_of_source(row, row + 1)
        left = row - int(self.before[first // BLOCK_ROWS])
        for piece in self.source.read(first, last):
            labels = _labels_of(piece, self.dimension)
            kept = _labelled(labels)
            if left < len(kept):
                return self.source.place(first + int(kept[left]))
            first, left = first + len(labels), left - len(kept)
        return super().place(row)

    def _blocks(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first block of the source that holds some of these rows, and the one after the last."""
        first = int(np.searchsorted(self.before, start, side="right")) - 1
        return first, max(int(np.searchsorted(self.before, stop)), first + 1)

    def _rows_of_source(self, start: int, stop: int) -> tuple[int, int]:
        first, last = self._blocks(start, stop)
        return first * BLOCK_ROWS, min(last * BLOCK_ROWS, self.source.row_count)

    def __str__(self) -> str:
        return str(self.source)


def _labels_of(piece: Piece, dimension: int) -> Floats:
    return as_labels(piece.labels, row_count(piece.X), dimension, None, gaps=True)


def _labelled(labels: Floats) -> Indices:
    return np.flatnonzero(~np.isnan(labels).any(axis=1))


@dataclass(frozen=True)
class LabelCounts(Sums):
    """The number of rows with labels in each block of a source."""

    counts: Indices


class LabelledPass(NamedTuple):
    """The number of labels of a row, and of blocks of a source."""

    dimension: int
    blocks: int


def count_labelled(block: RawBlock, state: LabelledPass) -> LabelCounts:
    """Count the rows that have all their labels."""
    counts = np.zeros(state.blocks, dtype=np.int64)
    found = block.each(lambda piece: len(_labelled(_labels_of(piece, state.dimension))))
    counts[block.start // BLOCK_ROWS] = sum(found)
    return LabelCounts(counts)


def with_labels(source: RowSource, dimension: int, engine: Engine, step: Callable[[int], None]) -> RowSource:
    """Return the rows of a source that have all their labels; itself if all have."""
    blocks = RawBlocks(source)
    found: LabelCounts = engine.run(count_labelled, blocks, LabelledPass(dimension, blocks.count), step)
    before = np.concatenate([[0], np.cumsum(found.counts)])
    return source if before[-1] == source.row_count else LabelledRows(source, dimension, before)
