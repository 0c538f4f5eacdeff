"""Rows in: CSV, Parquet or Arrow files as one table, whole or batch by batch; what is wrong is not let through."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from optensemble._core.arrays import Floats
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import FileError, InputError
from optensemble.tables.formats import CSV, Wanted, batches, column_names, errors_named, format_of, line_of, row_total

__all__ = ["BATCH", "Tables", "Wanted", "find_tables", "is_number"]

_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
_KEPT = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string, pa.types.is_large_string)

BATCH = 1 << 16
"""Rows that are looked at together."""


@dataclass(frozen=True)
class Tables:
    """Files that together are one table, in this order."""

    paths: tuple[Path, ...]

    def __str__(self) -> str:
        first = self.paths[0]
        return str(first) if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the first file; the others must have those that are needed."""
        return column_names(self.paths[0])

    @property
    def rows(self) -> int | None:
        """How many rows there are, if the files say so."""
        totals = [row_total(path) for path in self.paths]
        return None if None in totals else sum(total for total in totals if total is not None)

    def read(self, wanted: Wanted) -> pd.DataFrame:
        """Read the wanted columns of all rows."""
        parts = list(self.batches(wanted))
        if not parts:
            raise InputError(f"{self} has no rows. Give a table with rows.")
        return pd.concat(parts, ignore_index=True)

    def batches(self, wanted: Wanted, size: int = BATCH) -> Iterator[pd.DataFrame]:
        """Read the wanted columns, so many rows at a time."""
        for path in self.paths:
            names, start = column_names(path), 0
            require_columns(wanted.names, names, str(path))
            twice = [name for name in wanted.names if names.count(name) > 1]
            if twice:
                raise InputError(
                    f"{path} has the column {twice[0]!r} {names.count(twice[0])} times. Rename all but one."
                )
            for batch in self._read(path, wanted, size):
                if batch.num_rows:
                    yield _checked(batch, wanted, path, start)
                    start += batch.num_rows

    def _read(self, path: Path, wanted: Wanted, size: int) -> Iterator[pa.RecordBatch]:
        with errors_named(path):
            try:
                yield from batches(path, wanted, size)
            except pa.ArrowInvalid as error:
                if format_of(path) == CSV and wanted.numbers:
                    _find_text(path, wanted)
                raise error


def find_tables(given: Sequence[str], folder: Path = Path()) -> Tables:
    """Find files by name or by pattern (``*``), in the order given, those of a pattern by name."""
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


def _where(path: Path, row: int) -> str:
    """Say where a row is, so that it can be found."""
    return f"line {line_of(path, row)}" if format_of(path) == CSV else f"row {row} (counted from 0)"


def _checked(batch: pa.RecordBatch, wanted: Wanted, path: Path, start: int) -> pd.DataFrame:
    numbers = set(wanted.numbers)
    read = {name: _numbers if name in numbers else _values for name in wanted.names}
    return pd.DataFrame({name: of(_decoded(batch.column(name)), name, path, start) for name, of in read.items()})


def _numbers(column: pa.Array, name: str, path: Path, start: int) -> Any:
    if not any(is_kind(column.type) for is_kind in _NUMERIC):
        shown = "" if not len(column) else f", such as {str(column[0].as_py())[:40]!r}"
        raise InputError(
            f"{path}: column {name!r} must hold numbers; it holds {column.type}{shown}. Convert it, or take it out of "
            "the job."
        )
    _require_values(column, name, path, start)
    numbers: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        found = f"column {name!r} has an infinite value ({numbers[row]}) in {_where(path, start + row)}"
        raise InputError(f"{path}: {found}. Put a number there, or remove the row.")
    return numbers


def _values(column: pa.Array, name: str, path: Path, start: int) -> Any:
    """Return whole numbers, dates and times as they are, and all else as text."""
    if not any(is_kind(column.type) for is_kind in _KEPT):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException as error:
            raise InputError(
                f"{path}: column {name!r} must hold text, whole numbers or dates; it holds {column.type}. Convert it."
            ) from error
    _require_values(column, name, path, start)
    return column.to_pandas()


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _require_values(column: pa.Array, name: str, path: Path, start: int) -> None:
    """Refuse missing values, and text that is empty."""
    missing = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing |= pc.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(missing)
    if rows.size:
        more = f" and {rows.size - 1} more rows soon after" if rows.size > 1 else ""
        raise InputError(
            f"{path}: column {name!r} has no value in {_where(path, start + int(rows[0]))}{more}. "
            "Fill it in, or remove the row."
        )


def _find_text(path: Path, wanted: Wanted) -> None:
    """Say which number of a CSV file is none: its columns are read again as text."""
    start, missing = 0, set(csv.ConvertOptions().null_values)
    for batch in batches(path, Wanted(texts=tuple(wanted.names)), BATCH):
        for name in wanted.numbers:
            for row, value in enumerate(batch.column(name).to_pylist()):
                if value not in missing and not is_number(value):
                    comma = " Write decimals with a point." if is_number(value.replace(",", ".")) else ""
                    raise InputError(
                        f"{path}: column {name!r} has {value[:40]!r} in {_where(path, start + row)}, which is no "
                        f"number.{comma or ' Correct it, remove the row, or take the column out of the job.'}"
                    )
        start += batch.num_rows


def is_number(text: str) -> bool:
    """Say whether text is a number, as files write numbers.

    >>> is_number("1e3"), is_number("1_000"), is_number("one")
    (True, False, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def require_columns(names: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Refuse columns that are not there, and name the closest."""
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns) or f" It has {listed(columns)}."
            raise InputError(f"{where} has no column {name!r}.{hint}")
