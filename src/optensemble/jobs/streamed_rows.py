"""Rows that do not fit in memory: validated piece by piece, and read from their files whenever they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.hashing import Hashes, hash_labels
from optensemble.exceptions import InputError
from optensemble.jobs.row_checks import RowChecks, RowCounts
from optensemble.jobs.rows import RowPlace, RowReader, row_ids
from optensemble.members.alignment import RowNames
from optensemble.members.sources import Piece, RowSource
from optensemble.stats.row_design import EXACT_ROWS
from optensemble.tables.formats import stored_row_count
from optensemble.tables.ids import IdRegister
from optensemble.tables.reading import ColumnSelection, Tables
from optensemble.tables.times import as_times

FEW_GROUPS = 30
"""Of so many groups, and more, it does not matter how many there are."""


class JobRows(RowSource):
    """The rows of a job as they are in its files, validated whenever they are read; they need not fit in memory."""

    def __init__(self, tables: Tables, reader: RowReader, rows: int, keys: Hashes | None = None) -> None:
        self._tables, self._reader, self._rows, self._keys = tables, reader, rows, keys

    @property
    def keys(self) -> Hashes | None:
        """A hash of the id of every row that has labels, unless rows are very many."""
        return self._keys

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._rows

    def __len__(self) -> int:
        return self._rows

    @property
    def names(self) -> RowNames:
        """The names of the labels; members are columns of the table, whatever its order."""
        return RowNames(self._reader.roles.labels)

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read rows; files that end before them are not opened."""
        labels, first = list(self._reader.roles.labels), 0
        for path in self._tables.paths:
            stored = stored_row_count(path)
            if stored is not None and first + stored <= start:
                first += stored
                continue
            for part in Tables((path,)).batches(self._reader.selection):
                low, high = max(start - first, 0), min(stop - first, len(part))
                first += len(part)
                if low < high:
                    rows = self._reader.known(part.iloc[low:high].reset_index(drop=True))
                    yield Piece(rows, rows[labels].to_numpy())
                if first >= stop:
                    return

    def __str__(self) -> str:
        return str(self._tables)


def stream_rows(tables: Tables, reader: RowReader, checks: RowChecks) -> tuple[JobRows, RowCounts]:
    """Validate all rows, piece by piece: numbers, distinct ids, ascending times, sets, decisions of policies.

    Rows without labels are counted, but are among the rows: whoever reads them leaves them out.
    """
    roles, rows, last, name, counts = reader.roles, 0, None, str(tables), RowCounts()
    groups, keys = set[str](), list[Hashes]()
    with ExitStack() as stack:
        ids = None if roles.id is None else stack.enter_context(IdRegister(roles.id, name))
        for part in map(reader.known, tables.batches(reader.selection)):
            labelled, found = checks(part, RowPlace(name, roles.id, rows))
            counts += found
            if roles.groups is not None and len(groups) < FEW_GROUPS:
                groups.update(labelled[roles.groups].unique()[:FEW_GROUPS])
            if ids is not None:
                ids.add(part[roles.id])
            if roles.time is not None:
                last = _require_ascending(as_times(part[roles.time], name), last, name, rows)
            rows += len(part)
            if rows <= EXACT_ROWS and (known := row_ids(labelled, roles, name)) is not None:
                keys.append(hash_labels(known.tolist()))
        if ids is not None:
            alone = ColumnSelection(texts=(str(roles.id),))
            ids.require_distinct(lambda: (part[roles.id] for part in tables.batches(alone)))
    found_keys = np.concatenate(keys) if keys and rows <= EXACT_ROWS else None
    return JobRows(tables, reader, rows, found_keys), replace(counts, groups=len(groups))


def _require_ascending(times: pd.Series[Any], last: Any, table: str, start: int) -> Any:
    """Refuse rows that are not in time order: a table that does not fit in memory is not sorted here."""
    whole = times if last is None else pd.concat([pd.Series([last]), times], ignore_index=True)
    values = whole.to_numpy()
    back = np.flatnonzero(values[1:] < values[:-1])
    if back.size:
        row = start + int(back[0]) + (1 if last is None else 0)
        raise InputError(
            f"{table}: the time in row {row:,}, counted from 0, is before that of the row above it. A table that is "
            "larger than memory must be in time order: sort it, or allow more --memory."
        )
    return whole.iloc[-1]
