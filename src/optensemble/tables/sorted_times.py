"""Columns of dates or times by which the rows of a table are sorted, found by looking at its first rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

from optensemble.exceptions import OptEnsembleError
from optensemble.tables.formats import ColumnSelection, naming_file, read_batches
from optensemble.tables.reading import Tables, is_number
from optensemble.tables.times import as_times

TIMES = ("date", "time", "timestamp", "datetime")
"""Names of columns of times, in lower case."""

_SEEN = 10_000
_FEWEST = 10  # of fewer rows any column may be sorted by chance
_DISTINCT = 0.5
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}\S*)?")


def find_sorted_times(tables: Tables) -> list[str]:
    """Return the columns whose first rows hold dates or times that ascend, more than half of them distinct.

    Columns that are named like a time come first. Text must follow ISO 8601; numbers are times only where the name says
    so. A table that cannot be read has none: what is wrong with it is told when all of it is read.
    """
    try:
        columns = tables.columns
        once = [name for name in columns if columns.count(name) == 1]
        first = next(_first_rows(tables, once, 1), None)
        candidates = [] if first is None else [name for name in once if _is_candidate(first[name], name)]
        return sorted((name for name in candidates if _ascends(tables, name)), key=lambda name: not _named(name))
    except OptEnsembleError:
        return []


def _first_rows(tables: Tables, names: list[str], size: int) -> Iterator[dict[str, Any]]:
    """Yield the first rows of columns as the files have them, CSV as text."""
    for path in tables.paths:
        with naming_file(path):
            for batch in read_batches(path, ColumnSelection(texts=tuple(names)), size):
                if batch.num_rows:
                    yield {name: _decoded(batch.column(name)) for name in names}


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _named(name: str) -> bool:
    return name.lower() in TIMES


def _is_candidate(column: Any, name: str) -> bool:
    kind, value = column.type, column[0].as_py()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return True
    if isinstance(value, str):
        return _ISO.fullmatch(value) is not None or (_named(name) and is_number(value))
    return _named(name) and (pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _ascends(tables: Tables, name: str) -> bool:
    parts, rows = list[Any](), 0
    for part in _first_rows(tables, [name], _SEEN):
        parts.append(part[name].slice(0, _SEEN - rows))
        rows += len(parts[-1])
        if rows == _SEEN:
            break
    if rows < _FEWEST or any(part.null_count for part in parts):
        return False
    column = pd.concat([part.to_pandas() for part in parts], ignore_index=True).rename(name)
    times = as_times(column, str(tables))  # an error of ours if these are no times
    return bool(times.is_monotonic_increasing and times.nunique() > _DISTINCT * rows)
