"""Rows as an ensemble needs them: validated, groups as text, in time order."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble._core.suggestions import listed
from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError, OptEnsembleError, SolverError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import Roles
from optensemble.jobs.set_columns import NO_COLUMNS, ReadColumns
from optensemble.members.alignment import RowNames
from optensemble.members.sources import Piece, RowSource
from optensemble.members.validation import as_actions
from optensemble.tables.formats import stored_row_count
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
        The columns of numbers that must be there in every row: of members, and of labels if they are needed.
    of_set
        The columns that parameters of the feasible set come from; what is missing there, the set itself reports.
    """

    roles: Roles
    members: tuple[str, ...]
    of_set: ReadColumns = NO_COLUMNS

    @property
    def selection(self) -> ColumnSelection:
        """The columns to read, as numbers or as text."""
        texts = [self.roles.id, *self.roles.groups, self.roles.clusters, self.roles.time]
        named = tuple(name for name in texts if name is not None)
        of_set, strict = self.of_set, {*self.members, *named}
        return ColumnSelection(
            (*self.members, *of_set.numbers), (*named, *of_set.texts), frozenset(of_set.names) - strict
        )

    def known(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows with group labels as text, the same for 1 and 1.0, and the set's labels as it knows them."""
        roles = self.roles
        names = [*roles.groups, *([roles.clusters] if roles.clusters is not None else [])]
        found = {name: column_text(rows[name]) for name in names}
        for name, labels in self.of_set.labels:
            found[name] = _as_labels(found.get(name, rows[name]), labels)
        return rows.assign(**found)

    def read(self, tables: Tables) -> pd.DataFrame:
        """Read all rows in the order of the files: numbers validated, ids distinct, groups as text."""
        rows, name = tables.read(self.selection), self.roles.id
        if name is not None:
            with IdRegister(name, str(tables)) as ids:
                ids.add(rows[name])
                ids.require_distinct(lambda: iter([rows[name]]))
        return self.known(rows)


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


def require_feasible_actions(
    rows: pd.DataFrame, name: str, policy: Columns, omega: FeasibleSet, table: str, start: int = 0
) -> None:
    """Raise ``InputError`` on infeasible decisions of a policy; ``start`` is the number of the first row."""
    actions, bound = policy.decide(rows), omega.for_rows(rows)
    try:
        as_actions(actions, name, len(rows), bound)
    except InfeasibleActionError as error:
        beyond = bound.violation(actions)
        row, columns = int(np.argmax(beyond)), listed([str(each) for each in policy.names], 3)
        raise InputError(
            f"{table}: the decision of policy {name!r} in row {start + row}, counted from 0, is outside the feasible "
            f"set by {beyond[row]:.3g}. Check [feasible] and the columns {columns}; if they are predictions, list "
            "them in [models]."
        ) from error


def _solved(bound: FeasibleSet, coefficients: Floats) -> Floats:
    """Return the actions of rows; one that has none is wrong input, not a failure."""
    try:
        return bound.argmax(coefficients)
    except SolverError as error:
        wrong = InputError(str(error))
        wrong.rows = error.rows
        raise wrong from error


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
        return f"row {self.start + int(rows.index[row]):,} (counted from 0{id_})"


@dataclass(frozen=True)
class Fallbacks:
    """Rows that cannot be solved and take the fallback action: how many, and the first with the reason."""

    count: int = 0
    first: str = ""

    def __add__(self, other: Fallbacks) -> Fallbacks:
        return Fallbacks(self.count + other.count, self.first or other.first)

    def told(self, rows: int) -> str:
        """Return a sentence on these among all ``rows``."""
        verb = "takes" if self.count == 1 else "take"
        unsolved = f"{self.count:,} of {rows:,} rows cannot be solved and {verb} the fallback action"
        return f"{unsolved}; the first is {self.first}"


NO_FALLBACKS = Fallbacks()


def require_sets(rows: pd.DataFrame, omega: FeasibleSet, coefficients: Floats, place: RowPlace) -> Fallbacks:
    """Raise an error that names the first row whose parameters make no set, or whose set has no action.

    If the set has a fallback for such rows, count them. One set for all rows was looked at when it was made.
    """
    if not omega.varies:
        return NO_FALLBACKS
    with place.naming(rows), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
        bound = omega.for_rows(rows)
        taken = np.flatnonzero(bound.took_fallback(_solved(bound, coefficients), coefficients))
        if not taken.size:
            return NO_FALLBACKS
        first = taken[:1]
        reasons = bound.take(first).unsolved(coefficients[first], rows.iloc[first])
    why = reasons.get(0, "a part of its set has no action.")
    return Fallbacks(len(taken), f"{place(rows, int(first[0]))}: {why}")


class JobRows(RowSource):
    """The rows of a job as they are in its files, validated whenever they are read; they need not fit in memory."""

    def __init__(self, tables: Tables, reader: RowReader, rows: int) -> None:
        self._tables, self._reader, self._rows = tables, reader, rows

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


def stream_rows(
    tables: Tables, reader: RowReader, policies: dict[str, Columns], omega: FeasibleSet, sign: float
) -> tuple[JobRows, Fallbacks]:
    """Validate all rows, piece by piece: numbers, distinct ids, ascending times, sets, decisions of policies."""
    roles, rows, last, name, fallbacks = reader.roles, 0, None, str(tables), NO_FALLBACKS
    with ExitStack() as stack:
        ids = None if roles.id is None else stack.enter_context(IdRegister(roles.id, name))
        for part in map(reader.known, tables.batches(reader.selection)):
            labels, place = part[list(roles.labels)].to_numpy(), RowPlace(name, roles.id, rows)
            fallbacks += require_sets(part, omega, sign * labels, place)
            for policy, member in policies.items():
                require_feasible_actions(part, policy, member, omega, name, rows)
            if ids is not None:
                ids.add(part[roles.id])
            if roles.time is not None:
                last = _require_ascending(as_times(part[roles.time], name), last, name, rows)
            rows += len(part)
        if ids is not None:
            alone = ColumnSelection(texts=(str(roles.id),))
            ids.require_distinct(lambda: (part[roles.id] for part in tables.batches(alone)))
    return JobRows(tables, reader, rows), fallbacks


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
