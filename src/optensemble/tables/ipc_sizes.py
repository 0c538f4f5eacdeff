"""Sizes that the messages of an Arrow stream declare, read from their metadata before anything is unpacked.

The metadata of a message is a flatbuffer. Of it only what is needed here is read, each offset checked:
``Message.header`` is a ``RecordBatch``, or a ``DictionaryBatch`` that has one; ``RecordBatch`` has its number of rows,
the places of its buffers in the body, and whether these are compressed. A compressed buffer begins with its length.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

_HEADER_TYPE, _HEADER = 1, 2  # fields of a Message
_DATA = 1  # field of a DictionaryBatch
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3  # fields of a RecordBatch
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3  # types of a header
_BUFFER_SIZE = 16  # bytes: offset and length
_UNPACKED = -1  # in place of a length: this buffer is as it is


@dataclass(frozen=True)
class DeclaredSize:
    """What messages declare: rows, and bytes of all buffers once they are unpacked."""

    rows: int = 0
    bytes: int = 0


def declared_size(data: pa.Buffer) -> DeclaredSize:
    """Return what an Arrow stream declares of its rows and bytes.

    Raises
    ------
    An error of pyarrow, ``struct.error`` or ``ValueError`` if it is no such stream.
    """
    rows = size = 0
    reader = ipc.MessageReader.open_stream(data)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return DeclaredSize(rows, size)
        batch, has_rows = _record_batch(message)
        if batch is not None:
            rows += _long(batch, _LENGTH) if has_rows else 0
            size += _unpacked_bytes(batch, message.body)


@dataclass(frozen=True)
class _Table:
    """A table of a flatbuffer, at a place in it."""

    data: bytes
    at: int

    def place(self, field: int) -> int | None:
        """Return where a field is; None if it has its default."""
        vtable = self.at - _read(self.data, "<i", self.at)
        if 4 + 2 * field >= _read(self.data, "<H", vtable):
            return None
        offset = _read(self.data, "<H", vtable + 4 + 2 * field)
        return self.at + offset if offset else None

    def target(self, field: int) -> int | None:
        """Return where a field points to."""
        place = self.place(field)
        return None if place is None else place + _read(self.data, "<I", place)


def _read(data: bytes, kind: str, at: int) -> int:
    if at < 0:
        raise ValueError("an offset points before the message")
    found: int = struct.unpack_from(kind, data, at)[0]
    return found


def _record_batch(message: Any) -> tuple[_Table | None, bool]:
    """Return the record batch of a message, and whether its rows are rows of the table; None of another message."""
    data = message.metadata.to_pybytes()
    root = _Table(data, _read(data, "<I", 0))
    kind, header = root.place(_HEADER_TYPE), root.target(_HEADER)
    found = 0 if kind is None else data[kind]
    if header is None or found not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return None, False
    if found == _RECORD_BATCH:
        return _Table(data, header), True
    inner = _Table(data, header).target(_DATA)
    return (None if inner is None else _Table(data, inner)), False


def _long(table: _Table, field: int) -> int:
    place = table.place(field)
    return 0 if place is None else _read(table.data, "<q", place)


def _unpacked_bytes(batch: _Table, body: pa.Buffer | None) -> int:
    """Return how many bytes the buffers of a record batch take once they are unpacked."""
    held = 0 if body is None else body.size
    first = batch.target(_BUFFERS)
    if body is None or first is None or batch.place(_COMPRESSION) is None:
        return held
    total = 0
    for number in range(_read(batch.data, "<I", first)):
        offset, length = struct.unpack_from("<qq", batch.data, first + 4 + _BUFFER_SIZE * number)
        if length <= 0:
            continue
        if not 0 <= offset <= offset + length <= held or length < 8:
            raise ValueError("a buffer lies outside of its message")
        declared = int.from_bytes(body.slice(offset, 8).to_pybytes(), "little", signed=True)
        total += length if declared == _UNPACKED else declared
        if declared < _UNPACKED:
            raise ValueError("a buffer declares a negative length")
    return total
