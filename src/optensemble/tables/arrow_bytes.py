"""Arrow data in memory as a source of a table: bytes that may come from anywhere, and are validated as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from optensemble._core.deferred import compute
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.tables.formats import ColumnSelection
from optensemble.tables.ipc_sizes import declared_size
from optensemble.tables.records import no_number
from optensemble.tables.validation import SHOWN, Source

_MAGIC = b"ARROW1\0\0"  # a file is this, a stream, and an index that is not needed
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_SINGLE = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null),
    *(pa.types.is_date, pa.types.is_timestamp, *_TEXTS),
)
_LONGEST_REASON = 200


@dataclass(frozen=True, eq=False)
class ArrowSource(Source):
    """A valid Arrow table, of which no more than so many bytes are made when it is read."""

    table: pa.Table
    name: str
    most_bytes: int

    def __str__(self) -> str:
        return self.name

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    def record_batches(self, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
        """Read the selected columns in batches of at most ``size`` rows."""
        names = self.table.column_names
        chosen = self.table.select([names.index(name) for name in selection.names])
        total = 0
        for name in selection.names:
            total += self._plain_bytes(chosen.column(name), name)
            if total > self.most_bytes:
                raise InputError(
                    f"{self.name} comes to more than {self.most_bytes:,} bytes with the text of column {name!r}. Send "
                    "fewer rows at once."
                )
        yield from chosen.to_batches(max_chunksize=size)

    def _plain_bytes(self, column: pa.ChunkedArray, name: str) -> int:
        """Return about how many bytes a column takes as plain values; refuse what is no column of single values."""
        kind = column.type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not any(is_kind(inner) for is_kind in _SINGLE):
            raise InputError(
                f"{self.name}: column {name!r} holds {str(kind)[:SHOWN]}; it must hold numbers, text, dates or times. "
                "Convert it."
            )
        if kind == inner or not any(is_text(inner) for is_text in _TEXTS):
            return 8 * len(column) if kind != inner else int(column.nbytes)
        return sum(_decoded_bytes(chunk) for chunk in column.chunks)

    def not_numbers(self, column: pa.Array, name: str, start: int) -> str:
        """Name the first text that is no number."""
        if not any(is_text(column.type) for is_text in _TEXTS) or column.null_count == len(column):
            return f"column {name!r} must hold numbers; it holds {column.type}. Convert it."
        row = int(compute.index(column.is_valid(), True).as_py())
        return no_number(name, column[row].as_py(), self.location(start + row))


def _decoded_bytes(column: pa.DictionaryArray) -> int:
    """Return how many bytes the text of a column takes if each row has its own: one long text may stand in all."""
    sizes = compute.take(compute.binary_length(column.dictionary), column.indices)
    return int(compute.sum(sizes.cast(pa.int64())).as_py() or 0)


def read_arrow(data: Any, name: str, most_bytes: int, most_rows: int) -> pa.Table:
    """Return the table in the bytes of an Arrow stream or file; refuse what is none, and what is too large."""
    with refusing(f"{name} is not a complete Arrow stream or file"):
        stream = _as_stream(data)
        declared = declared_size(stream)
        for what, found, most in (("rows", declared.rows, most_rows), ("bytes", declared.bytes, most_bytes)):
            if found > most:
                unpacked = " once it is unpacked" if what == "bytes" else ""
                raise InputError(f"{name} has {found:,} {what}{unpacked}; at most {most:,} are taken. Send fewer rows.")
        table = _valid_table(stream)
        table.column_names  # noqa: B018  (names that are no text are found out here)
        return table


def _as_stream(data: Any) -> pa.Buffer:
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    if buffer.size >= len(_MAGIC) and buffer.slice(0, len(_MAGIC)).to_pybytes() == _MAGIC:
        return buffer.slice(len(_MAGIC))
    return buffer


def _valid_table(stream: pa.Buffer) -> pa.Table:
    batches = list[pa.RecordBatch]()
    with ipc.open_stream(stream, options=ipc.IpcReadOptions(use_threads=False)) as reader:
        for batch in reader:
            batch.validate(full=True)
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn every error about data of strangers into an ``InputError`` that begins with ``what`` is wrong."""
    try:
        yield
    except (OptEnsembleError, MemoryError):
        raise
    except Exception as error:  # each type has a reader of its own, and these raise errors of many kinds
        text = " ".join(str(error).split())[:_LONGEST_REASON]
        reason = (text if text.isprintable() else ascii(text)).rstrip(". ") or type(error).__name__
        raise InputError(f"{what}: {reason}. Send it again.") from error
