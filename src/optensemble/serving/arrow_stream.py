"""Arrow IPC streams as the bodies of requests and answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from optensemble.exceptions import InputError
from optensemble.serving.refusals import malformed
from optensemble.serving.settings import Limits
from optensemble.tables.in_memory import MemoryTables

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

_UNPACKED = 4
"""Times the longest body: what a stream may come to once it is unpacked."""


def read_stream(body: bytes, limits: Limits) -> MemoryTables:
    """Return the table of a stream of a stranger, every byte of which is validated."""
    try:
        return MemoryTables.of_arrow(body, most_bytes=_UNPACKED * limits.most_bytes)
    except InputError as error:
        raise malformed(str(error)) from None


def write_stream(columns: dict[str, Any]) -> bytes:
    """Return columns as a stream."""
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
