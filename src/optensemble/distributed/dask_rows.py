"""Rows that are a Dask frame: its partitions are read where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from optensemble.distributed.dask_engine import no_advice
from optensemble.exceptions import InputError
from optensemble.members.alignment import RowNames
from optensemble.members.sources import Piece, RowSource
from optensemble.members.validation import take_rows
from optensemble.tables.rows import expand_names


class DaskRows(RowSource):
    """The rows of a Dask frame, in the order of its partitions.

    Parameters
    ----------
    frame
        A Dask frame. It is computed anew in every pass: ``persist`` it if it is dear to compute and fits in the
        workers' memory.
    labels
        The names of the columns of labels, or patterns.
    """

    def __init__(self, frame: Any, labels: Any) -> None:
        if not hasattr(frame, "to_delayed") or not hasattr(frame, "columns"):
            raise InputError(f"a Dask frame is needed; got {type(frame).__name__}. Use dask.dataframe.")
        names = [str(name) for name in frame.columns]
        if not isinstance(labels, str) and not (
            isinstance(labels, (list, tuple)) and all(isinstance(name, str) for name in labels)
        ):
            raise InputError(
                "the labels of a Dask frame are columns of it: give their names as the second argument, or a pattern "
                f'such as "y_*"; got {type(labels).__name__}.'
            )
        self.labels = expand_names(labels, names, "labels")
        self._columns = [name for name in names if name not in self.labels]
        self._partitions = frame[[*self._columns, *self.labels]].to_delayed()
        with no_advice():
            sizes = frame[self.labels[:1]].map_partitions(len).compute()
        self._ends = [0, *accumulate(int(size) for size in sizes)]

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._ends[-1]

    @property
    def names(self) -> RowNames:
        """The names of the labels, and of the columns of X."""
        return RowNames(self.labels, self._columns)

    def only(self, columns: Sequence[str]) -> RowSource:
        """Return the same rows with no more than these columns."""
        fewer = object.__new__(DaskRows)
        kept = [name for name in self._columns if name in set(columns)]
        fewer.__dict__ = {**self.__dict__, "_columns": kept}
        return fewer

    def part(self, start: int, stop: int) -> PartitionRows:
        """Return what a worker needs: the partitions that hold these rows, and where these begin."""
        held = [at for at in range(len(self._partitions)) if self._ends[at] < stop and start < self._ends[at + 1]]
        frames = [self._partitions[at] for at in held]
        return PartitionRows(self._ends[held[0]], self._columns, self.labels, frames, stop)

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Compute partitions one after the other, in this process."""
        yield from self.part(start, stop).read(start, stop)

    def __str__(self) -> str:
        return "the Dask frame"


@dataclass(frozen=True)
class PartitionRows(RowSource):
    """Partitions in a row, the first of which begins with row number ``first``."""

    first: int
    columns: list[str]
    labels: list[str]
    frames: list[Any]
    last: int

    def given(self, frames: list[Any]) -> RowSource:
        """Return the same with these partitions."""
        return replace(self, frames=frames)

    @property
    def row_count(self) -> int:
        """The number of the last row, and one."""
        return self.last

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Return the rows of one partition after the other."""
        here = self.first
        for partition in self.frames:  # computed already on a worker, but not in this process
            frame = partition.compute(scheduler="synchronous") if hasattr(partition, "compute") else partition
            low, high = max(start - here, 0), min(stop - here, len(frame))
            if low < high:
                rows = take_rows(frame, low, high)
                yield Piece(rows[self.columns].reset_index(drop=True), rows[self.labels].to_numpy())
            here += len(frame)

    def __str__(self) -> str:
        return "the Dask frame"
