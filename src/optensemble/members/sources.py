"""Sources of labelled rows that are read piece by piece: files, clusters, or anything else that knows how many it has.

A source hands out rows by number, in pieces of any size; blocks are made of them here, so that what is learned does not
depend on how they are stored.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.engine import BLOCK_ROWS
from optensemble._core.hashing import Hashes, hash_labels
from optensemble.exceptions import FallbackWarning, InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import RowNames
from optensemble.members.blocks import Block, enough_rows
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.outputs import MemberOutputs
from optensemble.members.query import MemberQuery
from optensemble.members.subgroups import Values, subgroup_values
from optensemble.members.validation import (
    as_labels,
    as_weights,
    join_rows,
    row_count,
    row_labels,
    take_rows,
)
from optensemble.stats.row_design import ClusterTable, RowDesign

T = TypeVar("T")


class Piece(NamedTuple):
    """Some rows as a source hands them out: what members speak of, and the labels."""

    X: Any
    labels: Any


class RowSource(ABC):
    """Labelled rows, read piece by piece."""

    @property
    @abstractmethod
    def row_count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read the rows from number ``start`` to before ``stop``, in order, in pieces of any size."""

    def part(self, start: int, stop: int) -> RowSource:
        """Return what a worker needs to read these rows: something that can be pickled."""
        return self

    def only(self, columns: Sequence[str]) -> RowSource:
        """Return the same rows with no more than these columns and the labels, if that spares reading."""
        return self

    def given(self, frames: list[Any]) -> RowSource:
        """Return the same source with what it needs elsewhere; most need nothing."""
        return self

    @property
    def names(self) -> RowNames:
        """The names of the labels, and of the columns of X, where they are known."""
        return RowNames()

    @property
    def keys(self) -> Hashes | None:
        """A hash of the id of every row that has labels, where ids are known."""
        return None

    def place(self, row: int) -> str:
        """Return where a row is, in words."""
        return f"row {row} of {self} (counted from 0)"

    def __str__(self) -> str:
        return type(self).__name__


class Scratch(Protocol):
    """A place to keep the outputs of members on blocks of rows between passes."""

    def load(self, number: int) -> dict[str, Any] | None:
        """Return the arrays kept for a block; None if there are none."""

    def keep(self, number: int, arrays: dict[str, Any]) -> None:
        """Keep arrays for a block."""


@dataclass(frozen=True)
class BatchRows(RowSource):
    """Rows in memory as a source."""

    batch: LabelledBatch

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return row_count(self.batch.X)

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Return the rows."""
        yield Piece(take_rows(self.batch.X, start, stop), take_rows(self.batch.labels, start, stop))

    def part(self, start: int, stop: int) -> RowSource:
        """Return these rows alone."""
        batch = self.batch._replace(X=take_rows(self.batch.X, start, stop), labels=self.batch.labels[start:stop])
        return ShiftedRows(BatchRows(batch), start)

    def __str__(self) -> str:
        return "X"


@dataclass(frozen=True)
class ShiftedRows(RowSource):
    """Rows whose numbers begin with ``first``."""

    rows: RowSource
    first: int

    @property
    def row_count(self) -> int:
        """The number of the last row, and one."""
        return self.first + self.rows.row_count

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read rows by their shifted numbers."""
        yield from self.rows.read(start - self.first, stop - self.first)

    def __str__(self) -> str:
        return str(self.rows)


@dataclass(frozen=True)
class JoinedRows(RowSource):
    """Several sources, one after the other."""

    sources: tuple[RowSource, ...]

    @property
    def row_count(self) -> int:
        """The number of rows of all."""
        return sum(source.row_count for source in self.sources)

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read from one source after the other."""
        first = 0
        for source in self.sources:
            last = first + source.row_count
            if first < stop and start < last:
                yield from source.read(max(start - first, 0), min(stop, last) - first)
            first = last

    def only(self, columns: Sequence[str]) -> RowSource:
        """Return the same rows with no more than these columns."""
        return JoinedRows(tuple(source.only(columns) for source in self.sources))

    @property
    def names(self) -> RowNames:
        """The names of the first source's labels and columns."""
        return self.sources[0].names

    def place(self, row: int) -> str:
        """Return where a row is in its source."""
        for source in self.sources:
            if row < source.row_count:
                return source.place(row)
            row -= source.row_count
        return super().place(row)

    def __str__(self) -> str:
        return f"{self.sources[0]} and {len(self.sources) - 1} more"


@dataclass(frozen=True)
class RawBlock:
    """A block of rows before members are asked."""

    start: int
    pieces: list[Piece]
    source: RowSource

    def each(self, function: Callable[[Piece], T]) -> list[T]:
        """Apply a function to every piece; what it raises names the rows as their source does."""
        found, start = list[T](), self.start
        for piece in self.pieces:
            with _naming_rows(self.source, start, row_count(piece.X)):
                found.append(function(piece))
            start += row_count(piece.X)
        return found

    def groups(self, rule: Any) -> Hashes | None:
        """Return the hash of every row's group; None without a rule."""
        if rule is None:
            return None
        return np.concatenate(self.each(lambda piece: hash_labels(row_labels(rule, piece.X, row_count(piece.X)))))

    def weights(self, rule: Any) -> Floats | None:
        """Return the weight of every row; None without a rule."""
        if rule is None:
            return None
        return np.concatenate(self.each(lambda piece: as_weights(rule, piece.X, row_count(piece.X))))


@contextmanager
def _naming_rows(source: RowSource, start: int, count: int) -> Iterator[None]:
    """Let errors name rows by where they are in their source, not by their number in a piece of it."""
    try:
        yield
    except OptEnsembleError as error:
        if error.rows is None:
            error.add_note(f"This came of {count:,} rows, the first of which is {source.place(start)}.")
            raise
        named, first, found = error.rows
        others = f" and {found - 1} more rows soon after" if found > 1 else ""
        raise type(error)(str(error).replace(named, f"{source.place(start + first)}{others}")) from error
    except Exception as error:
        error.add_note(f"This came of {count:,} rows, the first of which is {source.place(start)}.")
        raise


@dataclass(frozen=True)
class RawBlocks:
    """The rows of a source in blocks, before members are asked."""

    source: RowSource

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.source.row_count // BLOCK_ROWS)

    def part(self, start: int, stop: int) -> RawRun:
        """Return the blocks from ``start`` to before ``stop``."""
        first, last = start * BLOCK_ROWS, min(stop * BLOCK_ROWS, self.source.row_count)
        return RawRun(self.source.part(first, last), first, last)


@dataclass(frozen=True)
class RawRun:
    """A run of blocks of a source."""

    source: RowSource
    first: int
    last: int

    @property
    def frames(self) -> list[Any]:
        """What the source must be given before it is read elsewhere: partitions of a cluster."""
        return getattr(self.source, "frames", [])

    def given(self, frames: list[Any]) -> Self:
        """Return the same with these partitions."""
        return replace(self, source=self.source.given(frames))

    def __iter__(self) -> Iterator[RawBlock]:
        pieces, start, filled = list[Piece](), self.first, 0
        for piece in self.source.read(self.first, self.last):
            size, taken = row_count(piece.X), 0
            while taken < size:
                room = min(start + BLOCK_ROWS, self.last) - start - filled
                more = min(room, size - taken)
                whole = more == size
                X = piece.X if whole else take_rows(piece.X, taken, taken + more)
                pieces.append(Piece(X, piece.labels if whole else take_rows(piece.labels, taken, taken + more)))
                taken, filled = taken + more, filled + more
                if more == room:
                    yield RawBlock(start, joined_pieces(pieces), self.source)
                    pieces, start, filled = [], start + filled, 0
        if start < self.last:
            raise InputError(
                f"{self.source} has {start + filled:,} rows where it said {self.last:,}. Do not change it during a fit."
            )


def joined_pieces(pieces: list[Piece]) -> list[Piece]:
    """Put pieces together that are of one kind, so that members see as many rows at once however they are stored."""
    if len(pieces) == 1:
        return pieces
    joined = join_rows([piece.X for piece in pieces])
    if joined is None:
        return pieces
    return [Piece(joined, np.concatenate([np.asarray(piece.labels) for piece in pieces]))]


@dataclass(frozen=True)
class SourceBlocks:
    """The rows of a source in blocks, with what members say of them: asked whenever a block is read."""

    source: RowSource
    query: MemberQuery
    groups: Any = None
    scratch: Scratch | None = None
    weights: Any = None

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self.source.row_count

    @property
    def count(self) -> int:
        """The number of blocks."""
        return RawBlocks(self.source).count

    @property
    def first(self) -> Block:
        """The first rows: as many as are needed, or if members are asked only once all of the first block."""
        members = len(self.query.models) + len(self.query.policies)
        most = BLOCK_ROWS if self.scratch is not None else enough_rows(members * self.query.omega.dimension)
        stop = min(most, self.row_count)
        return next(iter(SourceRun(RawRun(self.source.part(0, stop), 0, stop), replace(self, source=NO_ROWS))))

    def with_absences(self, members: Sequence[int], names: Sequence[str]) -> Self:
        """Return the same where the absence of some members is an event."""
        return replace(self, query=replace(self.query, absences=tuple(members)))

    def arranged(self, design: RowDesign) -> Self:
        """Return the same: rows are cut into chunks whenever they are read."""
        return self

    def part(self, start: int, stop: int) -> SourceRun:
        """Return the blocks from ``start`` to before ``stop``."""
        return SourceRun(RawBlocks(self.source).part(start, stop), replace(self, source=NO_ROWS))


@dataclass(frozen=True)
class SourceRun:
    """A run of blocks of a source, with how members are asked."""

    raw: RawRun
    how: SourceBlocks

    @property
    def frames(self) -> list[Any]:
        """What the source must be given before it is read elsewhere."""
        return self.raw.frames

    def given(self, frames: list[Any]) -> Self:
        """Return the same with these partitions."""
        return replace(self, raw=self.raw.given(frames))

    def __iter__(self) -> Iterator[Block]:
        query = self.how.query
        for raw in self.raw:
            labels = raw.each(self._labels)
            outputs = self._outputs(raw)
            signed, weights = query.sign * np.concatenate(labels), raw.weights(self.how.weights)
            yield Block(raw.start, outputs, signed, raw.groups(self.how.groups), weights=weights)

    def _labels(self, piece: Piece) -> Floats:
        return as_labels(piece.labels, row_count(piece.X), self.how.query.omega.dimension, None)

    def _outputs(self, raw: RawBlock) -> MemberOutputs:
        query, scratch, number = self.how.query, self.how.scratch, raw.start // BLOCK_ROWS
        scratch = scratch if len(raw.pieces) == 1 else None  # pieces of different kinds are asked one by one
        kept = None if scratch is None else scratch.load(number)
        if kept is not None:
            return query.kept(raw.pieces[0].X, **kept)
        outputs = MemberOutputs.joined(raw.each(lambda piece: query(piece.X)))
        if scratch is not None:
            scratch.keep(number, outputs.arrays)
        return outputs


@dataclass(frozen=True)
class _NoRows(RowSource):
    """A source without rows."""

    @property
    def row_count(self) -> int:
        """None."""
        return 0

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read nothing."""
        yield from ()


NO_ROWS = _NoRows()


@dataclass(frozen=True)
class Survey:
    """What must be known of all rows before anything is learned.

    Their clusters, the values of subgroups, and the box around the actions where bounds come from the row.
    """

    clusters: ClusterTable | None
    values: Values | None
    box: tuple[Floats, Floats] | None = None

    def __add__(self, other: Self) -> Self:
        """Return the survey of the rows of both."""
        clusters = None if self.clusters is None or other.clusters is None else self.clusters + other.clusters
        values = None
        if self.values is not None and other.values is not None:
            values = tuple(left | right for left, right in zip(self.values, other.values, strict=True))
        return replace(self, clusters=clusters, values=values, box=_around([self.box, other.box]))


def _around(boxes: Sequence[tuple[Floats, Floats] | None]) -> tuple[Floats, Floats] | None:
    """Return the smallest box around others."""
    known = [box for box in boxes if box is not None]
    if not known:
        return None
    lower, upper = zip(*known, strict=True)
    return np.min(lower, axis=0), np.max(upper, axis=0)


def around_rows(omega: FeasibleSet, tables: Sequence[Any]) -> FeasibleSet:
    """Return a set with the box around the actions of all rows, whose parameters must make one each."""
    if not omega.varies:
        return omega
    with warnings.catch_warnings():  # rows that take the fallback are told of when members are asked
        warnings.simplefilter("ignore", FallbackWarning)
        box = _around([omega.for_rows(X).box() for X in tables])
    return omega if box is None else omega.enveloped(*box)


class SurveyPass(NamedTuple):
    """How groups of rows that belong together, subgroups, bounds of actions, and weights are found in X."""

    groups: Any
    subgroups: Any
    omega: FeasibleSet | None = None
    weights: Any = None


def survey_rows(block: RawBlock, state: SurveyPass) -> Survey:
    """Pass 0, where there are groups or subgroups: find the clusters of rows and the values of subgroups."""
    ids, values = block.groups(state.groups), None
    if state.subgroups is not None:
        found = block.each(lambda piece: subgroup_values(state.subgroups, piece.X))
        values = tuple(frozenset().union(*column) for column in zip(*found, strict=True))
    box = None
    omega = state.omega
    if omega is not None and omega.open_bounds:
        box = _around(block.each(lambda piece: omega.for_rows(piece.X).box()))
    clusters = None if ids is None else ClusterTable.of(ids, block.start, block.weights(state.weights))
    return Survey(clusters, values, box)


def as_source(batches: Iterable[LabelledBatch]) -> RowSource:
    """Return batches, of which some are sources, as one source."""
    found = tuple(batch.X if isinstance(batch.X, RowSource) else BatchRows(batch) for batch in batches)
    return found[0] if len(found) == 1 else JoinedRows(found)
