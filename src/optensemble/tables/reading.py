"""Reading: CSV, Parquet or Arrow files as one validated table, whole or in batches."""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.csv as csv

from optensemble._core.deferred import pd
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import FileError, InputError
from optensemble.tables.formats import (
    CSV,
    ColumnSelection,
    column_names,
    format_of,
    line_of,
    naming_file,
    read_batches,
    stored_row_count,
)
from optensemble.tables.validation import KEPT, SHOWN, NumberBatch, Source, are_plain, number_batch, validated

__all__ = ["BATCH", "KEPT", "ColumnSelection", "NumberBatch", "RowTables", "Tables", "find_tables", "is_number"]

BATCH = 1 << 16
"""Rows per batch."""

Batch = TypeVar("Batch")


class RowTables(ABC):
    """Rows from sources that form one table, in this order; its text names it in errors."""

    paths: tuple[Path, ...]

    @property
    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """The sources."""

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """Number of rows; None unless every source declares it."""

    @property
    def columns(self) -> list[str]:
        """Column names of the first source; the others must have the selected ones."""
        return self.sources[0].columns

    def read(self, selection: ColumnSelection) -> pd.DataFrame:
        """Read the selected columns of all rows."""
        parts = list(self.batches(selection))
        if not parts:
            raise InputError(f"{self} has no rows. Give a table with rows.")
        return pd.concat(parts, ignore_index=True)

    def batches(self, selection: ColumnSelection, size: int = BATCH) -> Iterator[pd.DataFrame]:
        """Read the selected columns in batches of at most ``size`` rows."""
        return self._batches(selection, size, validated)

    def number_batches(self, selection: ColumnSelection, size: int = BATCH) -> Iterator[pd.DataFrame | NumberBatch]:
        """Read the same, without pandas the batches that are numbers only, and whole numbers in place of text."""
        return self._batches(selection, size, number_batch if are_plain(selection) else validated)

    def _batches(self, selection: ColumnSelection, size: int, made: Callable[..., Batch]) -> Iterator[Batch]:
        for source in self.sources:
            names, start = source.columns, 0
            require_columns(selection.names, names, str(source))
            if len(set(names)) < len(names):
                _require_once(selection.names, names, source)
            for batch in source.record_batches(selection, size):
                if batch.num_rows:
                    yield made(batch, selection, source, start)
                    start += batch.num_rows


def _require_once(selected: Sequence[str], names: Sequence[str], source: Source) -> None:
    twice = [name for name in selected if names.count(name) > 1]
    if twice:
        raise InputError(f"{source} has the column {twice[0]!r} {names.count(twice[0])} times. Rename all but one.")


@dataclass(frozen=True)
class FileSource(Source):
    """A file with rows."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return column_names(self.path)

    def record_batches(self, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
        """Read the selected columns in batches of at most ``size`` rows, as they are."""
        with naming_file(self.path):
            try:
                yield from read_batches(self.path, selection, size)
            except pa.ArrowInvalid as error:
                if format_of(self.path) == CSV and selection.numbers:
                    _raise_on_text(self, selection)
                raise error

    def location(self, row: int) -> str:
        """Return where a row is, in words."""
        return f"line {line_of(self.path, row)}" if format_of(self.path) == CSV else super().location(row)


@dataclass(frozen=True)
class Tables(RowTables):
    """Files that form one table, in this order."""

    paths: tuple[Path, ...]

    def __str__(self) -> str:
        first = self.paths[0]
        return str(first) if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def sources(self) -> Sequence[Source]:
        """The files."""
        return [FileSource(path) for path in self.paths]

    @property
    def rows(self) -> int | None:
        """Number of rows; None unless every file declares it."""
        totals = [stored_row_count(path) for path in self.paths]
        return None if None in totals else sum(total for total in totals if total is not None)

    def bytes(self, columns: int) -> int:
        """Return about how much memory some columns of numbers take: by the number of rows, or else by the files."""
        return 8 * columns * self.rows if self.rows is not None else sum(path.stat().st_size for path in self.paths)


def find_tables(given: Sequence[str], folder: Path = Path()) -> Tables:
    """Find files by name or by pattern (``*``), in the order given; the matches of a pattern are sorted by name."""
    paths: list[Path] = []
    for name in given:
        here = folder / Path(name).expanduser()
        if here.exists() or not glob.has_magic(name):
            found = [here]
        else:
            found = [folder / each for each in sorted(glob.glob(name, root_dir=folder, recursive=True))]
        if not found:
            raise FileError(f"no file matches {here}. Check the path.")
        paths += found
    if not paths:
        raise InputError("no file with rows was named. Name at least one.")
    for path in paths:
        format_of(path)
        if path.is_dir():
            raise FileError(f"{path} is a folder. Name the files in it, for example {path}/*.parquet.")
        if not path.exists():
            raise FileError(f"there is no file {path}. Check the path; it may have been moved or deleted.")
    return Tables(tuple({path.resolve(): path for path in paths}.values()))


def _raise_on_text(source: FileSource, selection: ColumnSelection) -> None:
    """Raise ``InputError`` that names the first non-numeric value; the columns are read again as text."""
    start, missing = 0, set(csv.ConvertOptions().null_values)
    for batch in read_batches(source.path, ColumnSelection(texts=tuple(selection.names)), BATCH):
        for name in selection.numbers:
            for row, value in enumerate(batch.column(name).to_pylist()):
                if value not in missing and not is_number(value):
                    comma = " Write decimals with a point." if is_number(value.replace(",", ".")) else ""
                    place = source.location(start + row)
                    raise InputError(
                        f"{source}: column {name!r} has {value[:SHOWN]!r} in {place}, which is not a "
                        f"number.{comma or ' Correct it, remove the row, or remove the column from the job.'}"
                    )
        start += batch.num_rows


def is_number(text: str) -> bool:
    """Return whether text is a number as files write it.

    >>> is_number("1e3"), is_number("1_000"), is_number("one")
    (True, False, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def require_columns(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raise ``InputError`` on the first missing column, with the closest name."""
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns) or f" It has {listed(columns)}."
            raise InputError(f"{where} has no column {name!r}.{hint}")
