"""Rows as an ensemble needs them: validated, groups as text, in time order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.columns import Columns
from optensemble._core.suggestions import listed
from optensemble.exceptions import InfeasibleActionError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import Roles
from optensemble.members.sources import Piece, RowSource
from optensemble.members.validation import as_actions
from optensemble.tables.formats import stored_row_count
from optensemble.tables.ids import IdRegister
from optensemble.tables.labels import column_text
from optensemble.tables.reading import ColumnSelection, Tables
from optensemble.tables.times import as_times, in_order


def read_rows(tables: Tables, roles: Roles, numbers: list[str]) -> pd.DataFrame:
    """Read all rows in the order of the files: numbers validated, ids distinct, groups as text."""
    rows = tables.read(needed_columns(roles, numbers))
    if roles.id is not None:
        with IdRegister(roles.id, str(tables)) as ids:
            ids.add(rows[roles.id])
            ids.require_distinct(lambda: iter([rows[roles.id]]))
    return with_text_groups(rows, roles)


def in_time_order(rows: pd.DataFrame, roles: Roles, table: str) -> pd.DataFrame:
    """Return rows in time order, if there is a column of times."""
    if roles.time is None:
        return rows
    times = as_times(rows[roles.time], table)
    return rows.assign(**{roles.time: times}).iloc[in_order(times)].reset_index(drop=True)


def require_feasible_actions(
    rows: pd.DataFrame, name: str, policy: Columns, omega: FeasibleSet, table: str, start: int = 0
) -> None:
    """Raise ``InputError`` on infeasible decisions of a policy; ``start`` is the number of the first row."""
    actions = policy.decide(rows)
    try:
        as_actions(actions, name, len(rows), omega)
    except InfeasibleActionError as error:
        beyond = omega.violation(actions)
        row, columns = int(np.argmax(beyond)), listed([str(each) for each in policy.names], 3)
        raise InputError(
            f"{table}: the decision of policy {name!r} in row {start + row}, counted from 0, is outside the feasible "
            f"set by {beyond[row]:.3g}. Check [feasible] and the columns {columns}; if they are predictions, list "
            "them in [models]."
        ) from error


class JobRows(RowSource):
    """The rows of a job as they are in its files, validated whenever they are read; they need not fit in memory."""

    def __init__(self, tables: Tables, roles: Roles, numbers: list[str], rows: int) -> None:
        self._tables, self._roles, self._numbers, self._rows = tables, roles, numbers, rows

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._rows

    def __len__(self) -> int:
        return self._rows

    def read(self, start: int, stop: int) -> Iterator[Piece]:
        """Read rows; files that end before them are not opened."""
        labels, first = list(self._roles.labels), 0
        for path in self._tables.paths:
            stored = stored_row_count(path)
            if stored is not None and first + stored <= start:
                first += stored
                continue
            for part in Tables((path,)).batches(needed_columns(self._roles, self._numbers)):
                low, high = max(start - first, 0), min(stop - first, len(part))
                first += len(part)
                if low < high:
                    rows = with_text_groups(part.iloc[low:high].reset_index(drop=True), self._roles)
                    yield Piece(rows, rows[labels].to_numpy())
                if first >= stop:
                    return

    def __str__(self) -> str:
        return str(self._tables)


def stream_rows(
    tables: Tables, roles: Roles, numbers: list[str], policies: dict[str, Columns], omega: FeasibleSet
) -> JobRows:
    """Validate all rows, piece by piece: numbers, distinct ids, ascending times, feasible decisions of policies."""
    rows, last = 0, None
    with ExitStack() as stack:
        ids = None if roles.id is None else stack.enter_context(IdRegister(roles.id, str(tables)))
        for part in tables.batches(needed_columns(roles, numbers)):
            for name, policy in policies.items():
                require_feasible_actions(part, name, policy, omega, str(tables), rows)
            if ids is not None:
                ids.add(part[roles.id])
            if roles.time is not None:
                last = _require_ascending(as_times(part[roles.time], str(tables)), last, str(tables), rows)
            rows += len(part)
        if ids is not None:
            ids.require_distinct(lambda: (part[roles.id] for part in tables.batches(needed_columns(roles, []))))
    return JobRows(tables, roles, numbers, rows)


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


def needed_columns(roles: Roles, numbers: list[str]) -> ColumnSelection:
    """Return the columns to read, as numbers or as text."""
    texts = [roles.id, *roles.groups, roles.clusters, roles.time]
    return ColumnSelection(tuple(numbers), tuple(name for name in texts if name is not None))


def with_text_groups(rows: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Return rows with group labels as text, the same for 1 and 1.0."""
    names = [*roles.groups, *([roles.clusters] if roles.clusters is not None else [])]
    return rows.assign(**{name: column_text(rows[name]) for name in names})
