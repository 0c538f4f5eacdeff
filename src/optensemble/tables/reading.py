"""Reading: CSV, Parquet or Arrow files as one validated table, whole or in batches."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as csv

from optensemble._core.arrays import Floats
from optensemble._core.deferred import compute, pd
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import FileError, InputError
from optensemble.members.number_table import NumberTable
from optensemble.tables.arrow_columns import as_numpy
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

__all__ = ["BATCH", "ColumnSelection", "Tables", "find_tables", "is_number"]

_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
_KEPT = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string, pa.types.is_large_string)

BATCH = 1 << 16
"""Rows per batch."""

KEPT = "kept: "
"""Begins the names of columns that are read to be copied: the same columns may be read as numbers or text too."""


@dataclass(frozen=True, eq=False)
class NumberBatch:
    """Rows that were read without pandas: numbers, and columns of whole numbers that are read as text otherwise."""

    numbers: NumberTable
    texts: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.texts[name]

    def to_pandas(self) -> pd.DataFrame:
        """Return the same as a pandas frame."""
        return self.numbers.to_pandas().assign(**self.texts)


Batch = TypeVar("Batch")


@dataclass(frozen=True)
class Tables:
    """Files that form one table, in this order."""

    paths: tuple[Path, ...]

    def __str__(self) -> str:
        first = self.paths[0]
        return str(first) if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"

    @property
    def columns(self) -> list[str]:
        """Column names of the first file; the other files must have the selected ones."""
        return column_names(self.paths[0])

    @property
    def rows(self) -> int | None:
        """Number of rows; None unless every file declares it."""
        totals = [stored_row_count(path) for path in self.paths]
        return None if None in totals else sum(total for total in totals if total is not None)

    def bytes(self, columns: int) -> int:
        """Return about how much memory some columns of numbers take: by the number of rows, or else by the files."""
        return 8 * columns * self.rows if self.rows is not None else sum(path.stat().st_size for path in self.paths)

    def read(self, selection: ColumnSelection) -> pd.DataFrame:
        """Read the selected columns of all rows."""
        parts = list(self.batches(selection))
        if not parts:
            raise InputError(f"{self} has no rows. Give a table with rows.")
        return pd.concat(parts, ignore_index=True)

    def batches(self, selection: ColumnSelection, size: int = BATCH) -> Iterator[pd.DataFrame]:
        """Read the selected columns in batches of at most ``size`` rows."""
        return self._batches(selection, size, _validated)

    def _batches(self, selection: ColumnSelection, size: int, made: Callable[..., Batch]) -> Iterator[Batch]:
        for path in self.paths:
            names, start = column_names(path), 0
            require_columns(selection.names, names, str(path))
            twice = [name for name in selection.names if names.count(name) > 1]
            if twice:
                raise InputError(
                    f"{path} has the column {twice[0]!r} {names.count(twice[0])} times. Rename all but one."
                )
            for batch in self._read_file(path, selection, size):
                if batch.num_rows:
                    yield made(batch, selection, path, start)
                    start += batch.num_rows

    def number_batches(self, selection: ColumnSelection, size: int = BATCH) -> Iterator[pd.DataFrame | NumberBatch]:
        """Read the same, without pandas the batches that are numbers only, and whole numbers in place of text."""
        return self._batches(selection, size, _number_batch if _are_plain(selection) else _validated)

    def _read_file(self, path: Path, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
        with naming_file(path):
            try:
                yield from read_batches(path, selection, size)
            except pa.ArrowInvalid as error:
                if format_of(path) == CSV and selection.numbers:
                    _raise_on_text(path, selection)
                raise error


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


def _location(path: Path, row: int) -> str:
    """Return where a row is in its file, in words."""
    return f"line {line_of(path, row)}" if format_of(path) == CSV else f"row {row} (counted from 0)"


def _validated(batch: pa.RecordBatch, selection: ColumnSelection, path: Path, start: int) -> pd.DataFrame:
    found, numbers = dict[str, Any](), set(selection.numbers)
    for name in dict.fromkeys([*selection.numbers, *selection.texts]):
        decoded, optional = _decoded(batch.column(name)), name in selection.optional
        column = (_require_numbers if name in numbers else _as_text)(decoded, name, path)
        if name not in selection.gaps and not optional:
            _require_values(column, name, path, start)
        found[name] = _as_floats(column) if name in numbers else column.to_pandas()
        if name not in selection.gaps and name in numbers:
            _require_finite(found[name], name, path, start)
    for name in selection.kept:  # in their types: pandas has no dates, and no whole numbers with gaps
        found[KEPT + name] = pd.arrays.ArrowExtensionArray(pa.chunked_array([_decoded(batch.column(name))]))
    return pd.DataFrame(found)


def _are_plain(selection: ColumnSelection) -> bool:
    """Return whether nothing but numbers that may be missing is read as numbers, and nothing to be copied."""
    return selection.optional.issuperset(selection.numbers) and not (selection.gaps or selection.kept)


def _number_batch(
    batch: pa.RecordBatch, selection: ColumnSelection, path: Path, start: int
) -> pd.DataFrame | NumberBatch:
    """Return a batch as numbers; where it has gaps, text or other types, as a validated frame."""
    names, texts = tuple(dict.fromkeys(selection.numbers)), dict[str, npt.NDArray[Any]]()
    columns = np.empty((len(names), batch.num_rows))
    for number, name in enumerate(names):
        found = as_numpy(batch.column(name))
        if found is None:
            return _validated(batch, selection, path, start)
        columns[number] = found
        _require_finite(columns[number], name, path, start)
    for name in selection.texts:
        found = None if name in names else as_numpy(batch.column(name))
        if found is None or found.dtype.kind not in "iu":
            return _validated(batch, selection, path, start)
        texts[name] = found
    return NumberBatch(NumberTable(names, columns), texts)


def _require_numbers(column: pa.Array, name: str, path: Path) -> pa.Array:
    if not any(is_kind(column.type) for is_kind in (*_NUMERIC, pa.types.is_null)):
        shown = "" if not len(column) else f", such as {str(column[0].as_py())[:40]!r}"
        raise InputError(
            f"{path}: column {name!r} must hold numbers; it holds {column.type}{shown}. Convert it, or remove it "
            "from the job."
        )
    return column


def _as_floats(column: pa.Array) -> Floats:
    """Return numbers; NaN where there is no value."""
    numbers: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _require_finite(numbers: Floats, name: str, path: Path, start: int) -> None:
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        found = f"column {name!r} has an infinite value ({numbers[row]}) in {_location(path, start + row)}"
        raise InputError(f"{path}: {found}. Put a number there, or remove the row.")


def _as_text(column: pa.Array, name: str, path: Path) -> pa.Array:
    """Return whole numbers, dates and times unchanged, and everything else as text."""
    if any(is_kind(column.type) for is_kind in _KEPT):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise InputError(
            f"{path}: column {name!r} must hold text, whole numbers or dates; it holds {column.type}. Convert it."
        ) from error


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _require_values(column: pa.Array, name: str, path: Path, start: int) -> None:
    """Raise ``InputError`` on missing values and empty text."""
    missing = compute.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing |= compute.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(missing)
    if rows.size:
        more = f" and {rows.size - 1} more rows soon after" if rows.size > 1 else ""
        raise InputError(
            f"{path}: column {name!r} has no value in {_location(path, start + int(rows[0]))}{more}. "
            "Fill it in, or remove the row."
        )


def _raise_on_text(path: Path, selection: ColumnSelection) -> None:
    """Raise ``InputError`` that names the first non-numeric value; the columns are read again as text."""
    start, missing = 0, set(csv.ConvertOptions().null_values)
    for batch in read_batches(path, ColumnSelection(texts=tuple(selection.names)), BATCH):
        for name in selection.numbers:
            for row, value in enumerate(batch.column(name).to_pylist()):
                if value not in missing and not is_number(value):
                    comma = " Write decimals with a point." if is_number(value.replace(",", ".")) else ""
                    raise InputError(
                        f"{path}: column {name!r} has {value[:40]!r} in {_location(path, start + row)}, which is not a "
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
