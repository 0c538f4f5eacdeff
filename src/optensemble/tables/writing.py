"""Writing: a table is written to a temporary file and moved into place when complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from optensemble._core.atomic_files import whole
from optensemble._core.deferred import compute
from optensemble.exceptions import InputError
from optensemble.tables.arrow_columns import as_arrow, as_numpy, is_convertible
from optensemble.tables.formats import ARROW, PARQUET, format_of

_SAMPLE = 1 << 12  # rows that tell whether values repeat


def require_output_path(out: Path, inputs: list[Path]) -> None:
    """Validate an output path before any work is done: in an existing folder, and not one of the inputs."""
    if out.is_dir() or not out.parent.is_dir():
        what = "is a folder" if out.is_dir() else f"would be in the folder {out.parent}, which does not exist"
        raise InputError(f"{out} {what}. Give -o the name of a file in a folder that exists.")
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"{out} is an input, and would be overwritten. Give -o another name.")


class TableWriter:
    """Writer of a table in batches; the first batch fixes the columns and their types."""

    def __init__(self, file: Path, kind: str, stack: ExitStack) -> None:
        self._file, self._kind, self._stack = file, kind, stack
        self._writer: Any = None
        self._schema: Any = None

    def write(self, columns: dict[str, Any]) -> None:
        """Append a batch of rows."""
        batch = pa.table({name: _arrow_array(values) for name, values in columns.items()})
        if self._writer is None:
            sink = self._stack.enter_context(pa.OSFile(str(self._file), "wb"))
            self._schema = batch.schema
            self._writer = self._stack.enter_context(self._open_writer(sink, batch))
        self._writer.write_table(self._as_first(batch))

    def _as_first(self, batch: pa.Table) -> pa.Table:
        """Return a batch in the types of the first batch."""
        if batch.schema == self._schema:
            return batch
        try:
            return batch.cast(self._schema)
        except pa.ArrowException as error:
            pairs = zip(self._schema, batch.schema, strict=True)
            old, new = next((old, new) for old, new in pairs if old.type != new.type)
            raise InputError(
                f"column {old.name!r} holds {old.type} in some rows and {new.type} in others. Give files of one kind."
            ) from error

    def _open_writer(self, sink: Any, first: pa.Table) -> Any:
        schema = first.schema
        if self._kind == PARQUET:
            repeating = [name for name in schema.names if _repeats(first.column(name))]
            return pq.ParquetWriter(sink, schema, use_dictionary=repeating)
        if self._kind == ARROW:
            return ipc.new_file(sink, schema)
        for field in schema:
            _require_in_csv(field)
        return pc.CSVWriter(sink, schema)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary is worth while: of numbers that are all different it is larger, and takes longer."""
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return True
    sample = column.slice(0, _SAMPLE)
    numbers = as_numpy(sample.chunk(0)) if sample.num_chunks == 1 else None
    distinct = int(compute.count_distinct(sample).as_py()) if numbers is None else len(np.unique(numbers))
    return 2 * distinct <= len(sample)


def _require_in_csv(field: pa.Field) -> None:
    """Raise ``InputError`` on a type that has no text, such as that of lists."""
    try:
        pc.CSVWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"column {field.name!r} holds {field.type}, which a CSV file cannot. Leave it out, or write .parquet."
        ) from error


def _arrow_array(values: Any) -> pa.Array:
    if is_convertible(values):
        return as_arrow(values)
    array = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=True)
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


@contextmanager
def table_writer(path: Path) -> Iterator[TableWriter]:
    """Open a writer; after an error, an interrupt or a full disk the file is as it was before."""
    kind = format_of(path)
    if path.suffix == ".gz":
        raise InputError(
            f"{path}: tables cannot be written with gzip compression. Write .csv, or .parquet, which is smaller."
        )
    with whole(path) as file, ExitStack() as stack:
        yield TableWriter(file, kind, stack)
