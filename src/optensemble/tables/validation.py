"""Validation of the rows of a table, the same for files and for what is in memory; errors name their places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from optensemble._core.arrays import Floats
from optensemble._core.deferred import compute, pd
from optensemble.exceptions import InputError
from optensemble.members.number_table import NumberTable
from optensemble.tables.arrow_columns import as_numpy
from optensemble.tables.formats import ColumnSelection

_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
_KEPT = (pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string, pa.types.is_large_string)

SHOWN = 40
"""Characters of a wrong value that an error shows."""

KEPT = "kept: "
"""Begins the names of columns that are read to be copied: the same columns may be read as numbers or text too."""


class Source(ABC):
    """Where rows come from: a file, or something in memory; its text names it in errors."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def record_batches(self, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
        """Read the selected columns in batches of at most ``size`` rows, as they are."""

    def location(self, row: int) -> str:
        """Return where a row is, in words."""
        return f"row {row} (counted from 0)"

    def not_numbers(self, column: pa.Array, name: str, start: int) -> str:
        """Return what is to be said of a column of another type; its first row has the number ``start``."""
        del start
        shown = "" if not len(column) else f", such as {str(column[0].as_py())[:SHOWN]!r}"
        return (
            f"column {name!r} must hold numbers; it holds {column.type}{shown}. Convert it, or remove it from the job."
        )


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
        found = self.numbers.to_pandas()
        return found.assign(**self.texts) if self.texts else found


def validated(batch: pa.RecordBatch, selection: ColumnSelection, source: Source, start: int) -> pd.DataFrame:
    """Return a batch as a frame; its first row has the number ``start`` in the source."""
    found, numbers = dict[str, Any](), set(selection.numbers)
    for name in dict.fromkeys([*selection.numbers, *selection.texts]):
        decoded, optional = _decoded(batch.column(name)), name in selection.optional
        column = _numeric(decoded, name, source, start) if name in numbers else _as_text(decoded, name, source)
        if name not in selection.gaps and not optional:
            _require_values(column, name, source, start)
        found[name] = _as_floats(column) if name in numbers else column.to_pandas()
        if name not in selection.gaps and name in numbers:
            _require_finite(found[name], name, source, start)
    for name in selection.kept:  # in their types: pandas has no dates, and no whole numbers with gaps
        found[KEPT + name] = pd.arrays.ArrowExtensionArray(pa.chunked_array([_decoded(batch.column(name))]))
    return pd.DataFrame(found)


def are_plain(selection: ColumnSelection) -> bool:
    """Return whether nothing but numbers that may be missing is read as numbers, and nothing to be copied."""
    return selection.optional.issuperset(selection.numbers) and not (selection.gaps or selection.kept)


def number_batch(
    batch: pa.RecordBatch, selection: ColumnSelection, source: Source, start: int
) -> pd.DataFrame | NumberBatch:
    """Return a batch as numbers; where it has gaps, text or other types, as a validated frame."""
    names, texts = tuple(dict.fromkeys(selection.numbers)), dict[str, npt.NDArray[Any]]()
    columns = np.empty((len(names), batch.num_rows))
    for number, name in enumerate(names):
        found = as_numpy(batch.column(name))
        if found is None:
            return validated(batch, selection, source, start)
        columns[number] = found
        _require_finite(columns[number], name, source, start)
    for name in selection.texts:
        found = None if name in names else as_numpy(batch.column(name))
        if found is None or found.dtype.kind not in "iu":
            return validated(batch, selection, source, start)
        texts[name] = found
    return NumberBatch(NumberTable(names, columns), texts)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numeric(column: pa.Array, name: str, source: Source, start: int) -> pa.Array:
    if not any(is_kind(column.type) for is_kind in _NUMERIC):
        raise InputError(f"{source}: {source.not_numbers(column, name, start)}")
    return column


def _as_floats(column: pa.Array) -> Floats:
    """Return numbers; NaN where there is no value."""
    numbers: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _require_finite(numbers: Floats, name: str, source: Source, start: int) -> None:
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        found = f"column {name!r} has an infinite value ({numbers[row]}) in {source.location(start + row)}"
        raise InputError(f"{source}: {found}. Put a number there, or remove the row.")


def _as_text(column: pa.Array, name: str, source: Source) -> pa.Array:
    """Return whole numbers, dates and times unchanged, and everything else as text."""
    if any(is_kind(column.type) for is_kind in _KEPT):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise InputError(
            f"{source}: column {name!r} must hold text, whole numbers or dates; it holds {column.type}. Convert it."
        ) from error


def _require_values(column: pa.Array, name: str, source: Source, start: int) -> None:
    """Raise ``InputError`` on missing values and empty text."""
    missing = compute.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing |= compute.equal(column.fill_null(""), "").to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(missing)
    if rows.size:
        more = f" and {rows.size - 1} more rows soon after" if rows.size > 1 else ""
        raise InputError(
            f"{source}: column {name!r} has no value in {source.location(start + int(rows[0]))}{more}. "
            "Fill it in, or remove the row."
        )
