"""Rows in files: a source of labelled rows that is read block by block, however large the files are."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from optensemble._core.engine import BLOCK_ROWS
from optensemble._core.suggestions import listed
from optensemble.exceptions import InputError
from optensemble.members.alignment import RowNames
from optensemble.members.sources import Piece, RowSource
from optensemble.tables.formats import PARQUET, format_of, naming_file
from optensemble.tables.patterns import is_pattern, split, stars
from optensemble.tables.reading import find_tables, require_columns

__all__ = ["Rows"]


@dataclass(frozen=True)
class _File:
    """A Parquet file, and the numbers of its row groups' last rows, counted over all files."""

    path: Path
    ends: tuple[int, ...]


class Rows(RowSource):
    """Labelled rows in Parquet files, which are read as they are needed and need not fit in memory.

    Parameters
    ----------
    paths
        A file or a pattern (``"part-*.parquet"``), or a list of these. Files form one table, in this order.
    labels
        The columns of the labels, in the order of the feasible set's coordinates: names, or patterns such as ``"y_*"``,
        whose matches are in the order of their numbers, or else in that of the file.
    columns
        The columns that members see; by default all but the labels. Members see them as a pandas frame.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile
    >>> import optensemble as oe
    >>> folder = tempfile.mkdtemp()
    >>> signal = np.random.default_rng(0).normal(size=(500, 2))
    >>> table = pd.DataFrame(np.hstack([signal, signal + 1.0]), columns=["a_0", "a_1", "y_0", "y_1"])
    >>> table.to_parquet(f"{folder}/part-0.parquet")
    >>> rows = oe.Rows(f"{folder}/part-*.parquet", labels="y_*")
    >>> rows.row_count
    500
    >>> ensemble = oe.DecisionEnsemble([("a", oe.Columns(["a_0", "a_1"]))], feasible=oe.feasible.Simplex(2)).fit(rows)
    >>> ensemble.n_rows_
    500
    """

    def __init__(
        self,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        labels: str | Sequence[str],
        columns: Sequence[str] | None = None,
    ) -> None:
        given = [paths] if isinstance(paths, (str, PathLike)) else paths
        if not isinstance(given, (list, tuple)) or not all(isinstance(path, (str, PathLike)) for path in given):
            raise InputError(f"Rows needs the path of a file, a pattern, or a list of these; got {paths!r}.")
        self.paths = find_tables([fspath(path) for path in given]).paths
        for path in self.paths:
            if format_of(path) != PARQUET:
                raise InputError(
                    f"Rows reads Parquet files, of which any part can be read by itself; got {path}. "
                    "Convert it, or use the command line, which reads other formats too."
                )
        names = self._schema.names
        self.labels = expand_names(labels, names, "labels")
        others = [name for name in names if name not in self.labels]
        self.columns = others if columns is None else expand_names(list(columns), names, "columns")

    @cached_property
    def _schema(self) -> Any:
        with naming_file(self.paths[0]):
            return pq.read_schema(self.paths[0])

    @cached_property
    def _files(self) -> list[_File]:
        found, start = [], 0
        for path in self.paths:
            with naming_file(path):
                metadata = pq.read_metadata(path)
            stored = metadata.schema.to_arrow_schema().names
            require_columns([*self.labels, *self.columns], stored, str(path))
            twice = [name for name in [*self.labels, *self.columns] if stored.count(name) > 1]
            if twice:
                raise InputError(f"{path} has the column {twice[0]!r} more than once. Rename all but one.")
            ends = _group_ends(metadata, start)
            found.append(_File(path, ends))
            start = ends[-1] if ends else start
        return found

    def _as_first(self, batch: Any, path: Path) -> Any:
        """Return a batch with the types of the first file: numbers as its numbers, text as its text."""
        for number, name in enumerate(batch.schema.names):
            here, first = batch.schema.types[number], self._schema.field(name).type
            if here == first:
                continue
            try:
                if not any(is_kind(here) and is_kind(first) for is_kind in (_is_numeric, _is_text)):
                    raise pa.ArrowInvalid("of another kind")
                batch = batch.set_column(number, name, batch.column(number).cast(first))
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"the column {name!r} holds {here} in {path}, but {first} in {self.paths[0]}. Write all files with "
                    "the same types."
                ) from error
        return batch

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return max((file.ends[-1] for file in self._files if file.ends), default=0)

    @property
    def names(self) -> RowNames:
        """The names of the labels, and of the columns of X."""
        return RowNames(self.labels, self.columns)

    def only(self, columns: Sequence[str]) -> Rows:
        """Return the same rows with no more than these columns."""
        require_columns(columns, self._schema.names, str(self))
        fewer = object.__new__(Rows)
        fewer.__dict__ = {**self.__dict__, "columns": [name for name in self.columns if name in set(columns)]}
        return fewer

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read the rows from number ``start`` to before ``stop``, a block at a time."""
        waiting, first = list[Any](), start
        for batch in self._batches(start, stop):
            while batch.num_rows:
                room = (first // BLOCK_ROWS + 1) * BLOCK_ROWS - first - sum(each.num_rows for each in waiting)
                waiting.append(batch.slice(0, room))
                batch = batch.slice(min(room, batch.num_rows))
                if waiting[-1].num_rows == room:
                    yield self._piece(waiting)
                    waiting, first = [], (first // BLOCK_ROWS + 1) * BLOCK_ROWS
        if waiting:
            yield self._piece(waiting)

    def _piece(self, batches: list[Any]) -> Piece:
        table = pa.Table.from_batches(batches)
        labels = table.select(self.labels).to_pandas(use_threads=False).to_numpy()
        return Piece(table.select(self.columns).to_pandas(split_blocks=True, use_threads=False), labels)

    def _batches(self, start: int, stop: int) -> Iterator[Any]:
        names, begin = list(dict.fromkeys([*self.columns, *self.labels])), 0
        for file in self._files:
            if not file.ends:
                continue
            last = file.ends[-1]
            if begin < stop and start < last:
                first_group = bisect.bisect_right(file.ends, start)
                last_group = bisect.bisect_left(file.ends, min(stop, last))
                here = file.ends[first_group - 1] if first_group else begin
                groups = list(range(first_group, last_group + 1))
                with naming_file(file.path), pq.ParquetFile(file.path, pre_buffer=False) as opened:
                    if _group_ends(opened.metadata, begin) != file.ends:
                        raise InputError(f"{file.path} was changed during the fit. Fit again, and leave it as it is.")
                    size = min(BLOCK_ROWS, stop - start)
                    for batch in opened.iter_batches(size, row_groups=groups, columns=names, use_threads=False):
                        skip = max(start - here, 0)
                        if skip < batch.num_rows:
                            taken = batch.slice(skip, min(stop - here, batch.num_rows) - skip)
                            yield self._as_first(taken, file.path)
                        here += batch.num_rows
                        if here >= stop:
                            break
            begin = last

    def place(self, row: int) -> str:
        """Return where a row is: in which file, and which row of it."""
        begin = 0
        for file in self._files:
            if file.ends and row < file.ends[-1]:
                return f"row {row - begin} of {file.path} (counted from 0)"
            begin = file.ends[-1] if file.ends else begin
        return super().place(row)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    def __repr__(self) -> str:
        return f"Rows({self!s}, {self.row_count:,} rows, labels={self.labels!r})"


def _is_numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _group_ends(metadata: Any, start: int) -> tuple[int, ...]:
    """Return the numbers of the row groups' last rows, and one, where the file begins with row ``start``."""
    sizes = (metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
    return tuple(accumulate(sizes, initial=start))[1:]


def expand_names(given: str | Sequence[str], names: Sequence[str], what: str) -> list[str]:
    """Return the columns that names and patterns stand for; numbers in place of a star are sorted, as in job files."""
    found = list[str]()
    for each in [given] if isinstance(given, str) else given:
        if each in names or not is_pattern(each):
            require_columns([each], names, f"{what}: the table")
            found.append(each)
        else:
            before, after = split(each, what)
            found += [before + star + after for star in stars(each, names, what)]
    if not found and what == "labels":
        raise InputError(f"labels names no column. Name the columns of the labels; there are {listed(names)}.")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InputError(f"{what} names the column {twice!r} twice. Name it once.")
    return found
