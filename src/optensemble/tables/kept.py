"""Columns that are copied from table to table: each in its own type, dates in CSV files as dates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from optensemble._core.deferred import compute, pd
from optensemble.tables.formats import CSV, ColumnSelection, column_names, format_of, naming_file, read_batches
from optensemble.tables.reading import BATCH, KEPT, Tables, require_columns


def split_kept(rows: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return rows without the columns that are only copied, and these by name."""
    if not names:
        return rows, {}
    return rows.drop(columns=[KEPT + name for name in names]), {name: rows[KEPT + name] for name in names}


def find_date_columns(tables: Tables, names: Sequence[str]) -> frozenset[str]:
    """Return the columns that hold dates such as 2026-01-31, and nothing else, in all rows of the CSV files."""
    found = list(names)
    for path in tables.paths:
        if found and format_of(path) == CSV:
            found = _date_columns(path, found)
    return frozenset(found)


def _date_columns(path: Path, names: list[str]) -> list[str]:
    filled, left = set[str](), names
    require_columns(names, column_names(path), str(path))
    with naming_file(path):
        for batch in read_batches(path, ColumnSelection(texts=tuple(names)), BATCH):
            columns = {name: batch.column(name) for name in left}
            left = [name for name, column in columns.items() if _are_dates(column)]
            filled.update(name for name in left if compute.any(compute.not_equal(columns[name], "")).as_py())
            if not left:
                break
    return [name for name in left if name in filled]


def _are_dates(column: Any) -> bool:
    """Return whether text is that of dates; empty text is a gap."""
    try:
        column.filter(compute.not_equal(column, "")).cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return True
