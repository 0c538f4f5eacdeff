"""File formats of tables: CSV, Parquet and Arrow, read in batches."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from optensemble.exceptions import FileError, InputError

PARQUET, ARROW, CSV = "Parquet", "Arrow", "CSV"

_ENDINGS = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".arrow": ARROW,
    ".feather": ARROW,
    ".ipc": ARROW,
    ".csv": CSV,
    ".tsv": CSV,
    ".txt": CSV,
}
_PAGE = 1 << 16  # bytes per read: a row group need not fit in memory
_BLOCK = 1 << 22  # bytes of a CSV file per batch


def format_of(path: Path) -> str:
    """Return the format of a file, by the ending of its name."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending == ".oe":
        raise InputError(f"{path} is an ensemble, not a table. Name the ensemble first, then the tables.")
    if ending not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        raise InputError(f"{path}: the ending {ending!r} is not that of a known table. Save it as one of {known}.")
    return _ENDINGS[ending]


@dataclass(frozen=True)
class ColumnSelection:
    """Columns to read: numbers, and others, which keep their text; ``gaps`` are those of them that may lack values.

    Numbers that are ``optional`` may be missing, and are NaN then, but not infinite. Columns that are ``kept`` are read
    to be copied, as they are: CSV files have text, and ``dates``.
    """

    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    gaps: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()
    dates: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """All selected columns, each once."""
        return list(dict.fromkeys([*self.numbers, *self.texts, *self.kept]))


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn errors while reading a file into a ``FileError`` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}. Check the path; it may have been moved or deleted.") from error
    except (UnicodeDecodeError, pa.ArrowInvalid) as error:
        if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error):
            raise FileError(f"{path} is not text in UTF-8. Save it as UTF-8.") from error
        raise FileError(
            f"{path} is not a complete {format_of(path)} file: {_one_line(error)}. Write it again."
        ) from error
    except (pa.ArrowException, OSError, EOFError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or _one_line(error)
        raise FileError(f"cannot read {path}: {reason}. Check the file.") from error


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200].rstrip(". ")


def column_names(path: Path) -> list[str]:
    """Return the names of a file's columns."""
    with naming_file(path):
        if not path.stat().st_size:
            raise FileError(f"{path} is empty: it has no header. Give a table with rows.")
        match format_of(path):
            case "Parquet":
                names = pq.read_schema(path).names
            case "Arrow":
                with _open_arrow(path) as reader:
                    names = reader.schema.names
            case _:
                names = _header(path)[0]
    return list(names)


def stored_row_count(path: Path) -> int | None:
    """Return the number of rows that a file declares; None where its format declares none."""
    if format_of(path) != PARQUET:
        return None
    with naming_file(path):
        return int(pq.read_metadata(path).num_rows)


def read_batches(path: Path, selection: ColumnSelection, size: int) -> Iterator[pa.RecordBatch]:
    """Read the selected columns in batches of at most ``size`` rows; memory does not grow with the file."""
    match format_of(path):
        case "Parquet":
            with pq.ParquetFile(path, buffer_size=_PAGE, pre_buffer=False) as file:
                yield from file.iter_batches(size, columns=selection.names)
        case "Arrow":
            with _open_arrow(path, selection.names) as reader:
                for batch in _arrow_batches(reader):
                    yield from _slices(batch.select(selection.names), size)
        case _:
            for batch in _open_csv(path, selection):
                yield from _slices(batch, size)


def _slices(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


@contextmanager
def _open_arrow(path: Path, only: list[str] | None = None) -> Iterator[Any]:
    """Open an Arrow file or stream, whose names end alike; all columns, or only some."""
    with pa.OSFile(str(path)) as file:
        open_any = ipc.open_file if file.read(6) == b"ARROW1" else ipc.open_stream
        file.seek(0)
        reader = open_any(file)
        if only is not None:
            options = ipc.IpcReadOptions(included_fields=[reader.schema.get_field_index(name) for name in only])
            file.seek(0)
            reader = open_any(file, options=options)
        yield reader


def _arrow_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, ipc.RecordBatchFileReader):
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
    else:
        yield from reader


def _open_csv(path: Path, selection: ColumnSelection) -> Any:
    _, delimiter = _header(path)
    types = {name: pa.date32() if name in selection.dates else pa.string() for name in selection.kept}
    types |= {**dict.fromkeys(selection.texts, pa.string()), **dict.fromkeys(selection.numbers, pa.float64())}
    zipped = path.name.lower().endswith(".gz")
    return pc.open_csv(
        pa.input_stream(str(path), compression="gzip" if zipped else None),
        read_options=pc.ReadOptions(block_size=_BLOCK, use_threads=False),
        parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pc.ConvertOptions(include_columns=selection.names, column_types=types),
    )


def _header(path: Path) -> tuple[list[str], str]:
    """Return the column names and the delimiter of a CSV file, from its first line."""
    with path.open("rb") as file:
        line = (gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file).readline()
    header = line.decode("utf-8-sig").rstrip("\r\n")
    delimiter = max(",;\t|", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    return names, delimiter if len(names) > 1 else ","


def line_of(path: Path, row: int) -> int:
    """Return the line of a CSV file where a row begins; lines count from 1, rows from 0 after the header."""
    _, delimiter = _header(path)
    opened = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader, begins, seen = csv.reader(file, delimiter=delimiter), 1, -1
        for cells in reader:
            seen += bool(cells)  # a blank line is not a row
            if seen == row + 1:
                break
            begins = reader.line_num + 1
    return begins
