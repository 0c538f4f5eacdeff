"""Rows in memory, such as those of a request, as a table that is validated as files are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from optensemble.tables.arrow_bytes import ArrowSource, read_arrow, refusing
from optensemble.tables.formats import ColumnSelection
from optensemble.tables.reading import Batch, RowTables
from optensemble.tables.records import Record, RecordSource
from optensemble.tables.validation import Source

REQUEST = "the request"
"""The name of what was sent, in errors."""

MOST_BYTES, MOST_ROWS = 1 << 28, 1 << 20
"""What Arrow data may come to once it is unpacked, unless a limit is given."""


@dataclass(frozen=True, eq=False)
class MemoryTables(RowTables):
    """A table in memory, with the interface of :class:`~optensemble.tables.reading.Tables`, and no paths."""

    source: Source
    row_count: int
    paths: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return str(self.source)

    @property
    def sources(self) -> Sequence[Source]:
        """The one source."""
        return [self.source]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.row_count

    def values(self, name: str) -> list[Any]:
        """Return the values of a column that is there, as Python has them; None where one is missing."""
        if isinstance(self.source, RecordSource):
            return [record.get(name) for record in self.source.records]
        with refusing(f"{self}: column {name!r} has values that cannot be read"):
            parts = self.source.record_batches(ColumnSelection(texts=(name,)), max(self.row_count, 1))
            return [value for part in parts for value in part.column(0).to_pylist()]

    def _batches(self, selection: ColumnSelection, size: int, made: Callable[..., Batch]) -> Iterator[Batch]:
        with refusing(f"{self} has values that cannot be read"):
            yield from super()._batches(selection, size, made)

    @classmethod
    def of_records(cls, records: Sequence[Record], name: str = REQUEST) -> Self:
        """Return rows as JSON has them, each an object of values by the names of columns.

        A name that a row lacks is a missing value, as null and NaN are. Columns that are not read may hold anything.

        >>> rows = MemoryTables.of_records([{"a": 1, "day": "monday"}, {"a": 2.5, "day": 7}])
        >>> rows.read(ColumnSelection(("a",), ("day",))).values.tolist()
        [[1.0, 'monday'], [2.5, '7']]
        """
        return cls(RecordSource(records, name), len(records))

    @classmethod
    def of_table(cls, table: pa.Table, name: str = REQUEST, *, most_bytes: int = MOST_BYTES) -> Self:
        """Return a valid Arrow table as a table."""
        return cls(ArrowSource(table, name, most_bytes), table.num_rows)

    @classmethod
    def of_arrow(
        cls, data: Any, name: str = REQUEST, *, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS
    ) -> Self:
        """Return the bytes of an Arrow stream or file as a table.

        They are validated as a whole; ``most_bytes`` and ``most_rows`` are what they may come to once unpacked.

        >>> table, sink = pa.table({"a": [1, 2]}), pa.BufferOutputStream()
        >>> with pa.ipc.new_stream(sink, table.schema) as stream:
        ...     stream.write_table(table)
        >>> MemoryTables.of_arrow(sink.getvalue()).rows
        2
        """
        return cls.of_table(read_arrow(data, name, most_bytes, most_rows), name, most_bytes=most_bytes)
