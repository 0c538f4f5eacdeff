"""A LiveEnsemble that decides and learns from tables: of files on the command line, of requests in a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from optensemble._core.deferred import pd
from optensemble.ensembles._live_answer import LiveAnswer
from optensemble.ensembles.live import LiveEnsemble
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.jobs.ensemble_columns import find_label_columns, roles_of
from optensemble.jobs.live_rows import LabelledRows, LiveColumns, LiveRows, as_live_rows, ids_beside, read_labels
from optensemble.jobs.roles import Roles, require_own_name
from optensemble.jobs.rows import RowPlace, RowReader
from optensemble.jobs.saved_ensemble import require_table_members
from optensemble.tables.reading import BATCH, RowTables

_READERS = 16  # tables of different columns: requests mostly have the same


@dataclass(frozen=True)
class Observed:
    """What became of the rows of a table: ``learned`` from, ``known`` with the same labels, and ``unlabelled``."""

    rows: int
    learned: int
    known: int
    unlabelled: int


@dataclass(frozen=True, eq=False)
class LiveTable:
    """A LiveEnsemble, and the roles of the columns that it needs."""

    live: LiveEnsemble
    roles: Roles
    _readers: dict[Any, RowReader] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        live: LiveEnsemble,
        tables: RowTables | None = None,
        *,
        id_column: str | None = None,
        labels: str | None = None,
    ) -> Self:
        """Return a LiveEnsemble with the roles that columns had in its fit; those given here replace them.

        ``tables`` tell what the patterns of an ensemble from Python stand for.
        """
        require_table_members(live.ensemble_, "this LiveEnsemble")
        return cls(live, with_roles(live.ensemble_, tables, id_column=id_column, labels=labels))

    @cached_property
    def columns(self) -> LiveColumns:
        """What is read of a table, and as what."""
        return LiveColumns.of(self.live, self.roles)

    @property
    def columns_needed(self) -> list[str]:
        """The columns that rows to decide need, beside their ids; patterns where only a table tells."""
        return self.columns.needed

    @property
    def label_columns(self) -> list[str]:
        """The columns of labels, in the order of the coordinates; empty if they are not known."""
        return list(self.roles.labels)

    @property
    def coordinates(self) -> list[str]:
        """The names of the coordinates of an action."""
        return list(self.roles.coordinates)

    def decide(self, tables: RowTables, ids: Sequence[Any] | None = None) -> LiveAnswer:
        """Decide every row of a table, in one call; the ids are those given, or else in its id column.

        Ids are text: 7, 7.0 and "7" are one id.
        """
        given = ids_beside(self.columns, tables, ids)
        parts = [each for each in self.read(tables, given) if len(each.ids)]
        if not parts:
            raise InputError(f"{tables} has no rows. Give a table with rows.")
        rows = parts[0] if len(parts) == 1 else _joined(parts)
        return self.answer(rows, tables)

    def read(
        self,
        tables: RowTables,
        ids: list[str] | None = None,
        size: int = BATCH,
        kept: Sequence[str] = (),
        dates: frozenset[str] = frozenset(),
    ) -> Iterator[LiveRows]:
        """Iterate over the rows to decide, in batches; of ids given beside the table, there is one for each row.

        Columns to be ``kept`` are copied as they are; ``dates`` are those of them that CSV files have as dates.
        """
        columns, reader = self.columns, self._reader(tables, with_ids=ids is None)
        selection = replace(reader.selection, kept=tuple(kept), dates=dates) if kept or dates else reader.selection
        start = 0
        for part in tables.number_batches(selection, size):
            named = None if ids is None else ids[start : start + len(part)]
            yield as_live_rows(columns, reader, part, named, kept)
            start += len(part)

    def answer(self, rows: LiveRows, tables: RowTables, start: int = 0) -> LiveAnswer:
        """Decide rows that were read; the first of them has the number ``start`` in its table."""
        try:
            return self.live.answer(rows.X, ids=rows.ids)
        except OptEnsembleError as error:
            with RowPlace(str(tables), "id", start).naming(pd.DataFrame({"id": rows.ids})):
                raise error

    def observe(self, tables: RowTables, ids: Sequence[Any] | None = None) -> Observed:
        """Learn from the rows of a table that have labels; the ids are those given, or else in its id column."""
        columns = self.columns
        given = read_labels(columns, tables, ids_beside(columns, tables, ids))
        rows = len(given.ids)
        learned = self._learn(given, tables) if rows else 0
        return Observed(rows + given.unlabelled, learned, rows - learned, given.unlabelled)

    def _learn(self, given: LabelledRows, tables: RowTables) -> int:
        """Learn from labels, and return of how many rows they were new."""
        live = self.live
        with live._lock:  # what others learn meanwhile is not counted
            before = live.rows_
            try:
                live.observe(given.ids, given.labels, sample_weight=given.weights, groups=given.groups)
            except OptEnsembleError as error:
                rows = pd.DataFrame({"id": given.ids}, index=given.numbers)
                with RowPlace(str(tables), "id").naming(rows):
                    raise error
            return live.rows_ - before

    def _reader(self, tables: RowTables, *, with_ids: bool) -> RowReader:
        """Return how the rows of a table are read, found once for tables of the same columns."""
        if tables.paths:
            return self.columns.decision_reader(tables, with_ids=with_ids)
        key = tuple(tables.columns), with_ids
        found = self._readers.get(key)
        if found is None:
            if len(self._readers) >= _READERS:
                self._readers.clear()
            found = self._readers[key] = self.columns.decision_reader(tables, with_ids=with_ids)
        return found


def with_roles(
    ensemble: Any, tables: RowTables | None = None, *, id_column: str | None = None, labels: str | None = None
) -> Roles:
    """Return the roles of columns of an ensemble; those given here replace its own."""
    roles = roles_of(ensemble, tables)
    if labels is not None:
        roles = replace(roles, labels=find_label_columns(labels, roles, tables))
    roles = replace(roles, id=id_column or roles.id)
    require_own_name(roles)
    return roles


def _joined(parts: list[LiveRows]) -> LiveRows:
    X = pd.concat([part.X for part in parts], ignore_index=True)
    return LiveRows(X, [each for part in parts for each in part.ids], sum(part.unseen for part in parts), {})
