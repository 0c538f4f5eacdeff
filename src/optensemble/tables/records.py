"""Rows as JSON has them, as a source of a table: of these only the columns that are read become arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from optensemble.exceptions import InputError
from optensemble.tables.formats import ColumnSelection
from optensemble.tables.labels import value_text
from optensemble.tables.validation import SHOWN, Source

_MOST_NAMES = 1 << 14  # columns in all; a request of rows without a name in common would fill the memory

Record = Mapping[str, Any]
"""The values of a row by the names of columns."""


@dataclass(frozen=True, eq=False)
class RecordSource(Source):
    """Rows as JSON has them: objects of text, numbers, true, false and null by the names of columns."""

    records: Sequence[Record]
    name: str

    def __post_init__(self) -> None:
        for number, record in enumerate(self.records):
            if not isinstance(record, dict):
                raise InputError(
                    f"{self.name}: {self.location(number)} must be an object with a value for each column, such as "
                    f'{{"column": 1}}; got {shown_value(record)}.'
                )

    def __str__(self) -> str:
        return self.name

    @property
    def columns(self) -> list[str]:
        """The names in any of the rows, in the order in which they come."""
        names = dict.fromkeys(self.records[0]) if self.records else {}
        for record in self.records:
            if not names.keys() >= record.keys():
                names |= dict.fromkeys(record)
                if len(names) > _MOST_NAMES:
                    raise InputError(f"{self.name} has more than {_MOST_NAMES:,} columns. Send those that are needed.")
        return list(names)

    def record_batches(self, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
        """Read the selected columns in batches of at most ``size`` rows, in the types that they are needed in."""
        numbers = set(selection.numbers)
        for start in range(0, len(self.records), size):
            part = self.records[start : start + size]
            columns = {name: [record.get(name) for record in part] for name in selection.names}
            arrays = [
                self._numbers(name, values, start) if name in numbers else self._texts(name, values, start)
                for name, values in columns.items()
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _numbers(self, name: str, values: list[Any], start: int) -> pa.Array:
        try:
            return pa.array(values, pa.float64(), from_pandas=True)
        except (pa.ArrowException, ValueError, TypeError):  # something else, or whole numbers that are very large
            found = [self._number(name, value, start + row) for row, value in enumerate(values)]
            return pa.array(found, pa.float64(), from_pandas=True)

    def _number(self, name: str, value: Any, row: int) -> float | None:
        if value is None or isinstance(value, float):
            return value
        if not isinstance(value, int):
            raise InputError(f"{self.name}: {no_number(name, value, self.location(row))}")
        try:
            return float(value)
        except OverflowError as error:
            raise InputError(
                f"{self.name}: column {name!r} has a number in {self.location(row)} that is too large. Put another "
                "there, or null if it is missing."
            ) from error

    def _texts(self, name: str, values: list[Any], start: int) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        try:
            if kinds <= {str}:
                return pa.array(values, pa.string())
            if kinds == {int}:
                return pa.array(values, pa.int64())
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass
        return pa.array([self._text(name, value, start + row) for row, value in enumerate(values)], pa.string())

    def _text(self, name: str, value: Any, row: int) -> str | None:
        place = f"{self.name}: column {name!r} has"
        if value is None or value != value:
            return None
        if not isinstance(value, str | int | float):
            raise InputError(
                f"{place} {shown_value(value)} in {self.location(row)}; it must hold text or numbers. Put a single "
                "value there."
            )
        try:
            text = value_text(value)
            text.encode()
        except ValueError as error:  # half a character, or thousands of digits
            raise InputError(
                f"{place} text in {self.location(row)} that is not Unicode, or a number of thousands of digits. Put "
                "another value there."
            ) from error
        return text


def no_number(name: str, value: Any, place: str) -> str:
    """Return what is to be said of a value in a column of numbers that is none."""
    found = f"column {name!r} has {shown_value(value)} in {place}, which is not a number"
    return f"{found}. Put a number there, without quotes, or null if it is missing."


def shown_value(value: Any) -> str:
    """Return a value as an error shows it: short, and in characters that can be printed.

    >>> shown_value("one"), shown_value([1]), shown_value("x" * 50)[-5:]
    ("'one'", 'a list', "xxx…'")
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if not isinstance(value, str):
        return str(value) if isinstance(value, bool | float | None) else type(value).__name__
    short = value if len(value) <= SHOWN else f"{value[: SHOWN - 1]}…"
    return repr(short) if short.isprintable() else ascii(short)
