"""Rows as an ensemble needs them: validated, groups and subgroups as text, in time order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from optensemble._core.deferred import pd
from optensemble.ensembles.base import DECISION
from optensemble.exceptions import OptEnsembleError
from optensemble.jobs.roles import Roles
from optensemble.jobs.set_columns import NO_COLUMNS, ReadColumns
from optensemble.tables.ids import IdRegister
from optensemble.tables.labels import column_text, value_text
from optensemble.tables.reading import ColumnSelection, Tables
from optensemble.tables.times import as_times, in_order


@dataclass(frozen=True)
class RowReader:
    """How rows of a table are read: which columns, as numbers or as text, and the labels that texts stand for.

    Attributes
    ----------
    roles
        The roles of columns.
    members
        The columns of numbers: of members, and of labels if they are needed.
    of_set
        The columns that parameters of the feasible set come from; what is missing there, the set itself reports.
    optional
        The columns of numbers that may be missing in some rows.
    texts
        Further columns that are no numbers.
    """

    roles: Roles
    members: tuple[str, ...]
    of_set: ReadColumns = NO_COLUMNS
    optional: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()

    @property
    def selection(self) -> ColumnSelection:
        """The columns to read, as numbers or as text."""
        texts = [self.roles.id, *self.roles.subgroups, self.roles.groups, self.roles.time]
        named = tuple(dict.fromkeys(name for name in (*texts, *self.texts) if name is not None))
        numbers = self.members if self.roles.weight is None else (*self.members, self.roles.weight)
        of_set, gaps = self.of_set, frozenset(self.of_set.names) - {*numbers, *named}
        return ColumnSelection((*numbers, *of_set.numbers), (*named, *of_set.texts), gaps, self.optional)

    def known(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with group labels as text, the same for 1 and 1.0, and the set's labels as it knows them."""
        roles = self.roles
        names = [*roles.subgroups, *([roles.groups] if roles.groups is not None else [])]
        found = {name: column_text(rows[name]) for name in names}
        for name, labels in self.of_set.labels:
            found[name] = _as_labels(found.get(name, rows[name]), labels)
        return rows.assign(**found) if found else rows

    def read(self, tables: Tables) -> pd.DataFrame:
        """Read all rows in the order of the files: numbers validated, ids distinct, groups as text."""
        rows, name = tables.read(self.selection), self.roles.id
        if name is not None:
            with IdRegister(name, str(tables)) as ids:
                ids.add(rows[name])
                ids.require_distinct(lambda: iter([rows[name]]))
        return self.known(rows)


def optional_columns(roles: Roles, members: Sequence[str], kind: str) -> frozenset[str]:
    """Return the columns of numbers that may be missing: members of a decision ensemble, labels that may be dropped."""
    labels = roles.labels if roles.missing_labels == "drop" else ()
    return frozenset([*(members if kind == DECISION else ()), *labels])


def _as_labels(column: pd.Series[Any], labels: dict[str, Any]) -> pd.Series[Any]:
    """Return the labels whose texts a column has; what is not one of them stays as it is, to be reported."""
    known = {value: labels.get(value_text(value), value) for value in column.unique()}
    return column.map(known).astype(object)


def in_time_order(rows: pd.DataFrame, roles: Roles, table: str) -> pd.DataFrame:
    """Return rows in time order, if there is a column of times; their index keeps the numbers they had."""
    if roles.time is None:
        return rows
    times = as_times(rows[roles.time], table)
    return rows.assign(**{roles.time: times}).iloc[in_order(times)]


def row_ids(rows: pd.DataFrame, roles: Roles, table: str) -> npt.NDArray[Any] | None:
    """Return the text by which each row is known again: of its id, or else of its time; None without either."""
    if roles.id is not None:
        return column_text(rows[roles.id]).to_numpy()
    return None if roles.time is None else column_text(as_times(rows[roles.time], table)).to_numpy()


@dataclass(frozen=True)
class RowPlace:
    """Where rows are: in which table, from which number on, and the column that has their ids.

    The index of a frame of rows has their numbers from there on, in whatever order they are.
    """

    table: str
    id: str | None = None
    start: int = 0

    @contextmanager
    def naming(self, rows: pd.DataFrame) -> Iterator[None]:
        """Let errors name rows by their number in the table, and by their id."""
        try:
            yield
        except OptEnsembleError as error:
            if error.rows is None:
                raise type(error)(f"{self.table}: {error}") from error
            named, first, count = error.rows
            others = f" and {count - 1:,} more row{'s' if count > 2 else ''} soon after" if count > 1 else ""
            said = str(error).replace(named, f"{self(rows, first)}{others}", 1)
            raise type(error)(f"{self.table}: {said}") from error

    def __call__(self, rows: pd.DataFrame, row: int) -> str:
        """Return the name of a row: its number, counted from 0, and its id."""
        id_ = "" if self.id is None else f", {self.id} {value_text(rows[self.id].iloc[row])!r}"
        return f"row {self.number(rows, row):,} (counted from 0{id_})"

    def number(self, rows: pd.DataFrame, row: int) -> int:
        """Return the number of a row in the table."""
        return self.start + int(rows.index[row])
