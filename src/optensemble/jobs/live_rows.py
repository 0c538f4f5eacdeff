"""Rows for a LiveEnsemble, from files or requests: which columns it needs, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble.ensembles.base import DECISION
from optensemble.ensembles.live import LiveEnsemble
from optensemble.exceptions import InputError
from optensemble.jobs.ensemble_columns import EnsembleColumns, text_columns
from optensemble.jobs.rows import RowReader
from optensemble.members.absence import absent_rows
from optensemble.tables.formats import ColumnSelection
from optensemble.tables.in_memory import MemoryTables
from optensemble.tables.kept import split_kept
from optensemble.tables.labels import column_text, value_text
from optensemble.tables.reading import NumberBatch, RowTables, require_columns

_NO_IDS = "rows have no ids, and labels that come later could not be told which decision they belong to"


class LiveRows(NamedTuple):
    """Rows to decide: X, their ids, how many are of subgroups that no row of the fit was in, and columns to copy."""

    X: pd.DataFrame
    ids: list[str]
    unseen: int
    kept: dict[str, Any]


class LabelledRows(NamedTuple):
    """Rows with labels, by their numbers in the table, and the number of rows that have none."""

    numbers: Indices
    labels: Floats
    unlabelled: int
    ids: list[str]
    weights: Floats | None
    groups: list[str] | None


@dataclass(frozen=True)
class LiveColumns(EnsembleColumns):
    """A LiveEnsemble with the roles of columns: members and groups as in the fit that it goes on from."""

    live: LiveEnsemble

    def __str__(self) -> str:
        return "the LiveEnsemble"

    @classmethod
    def of(cls, live: LiveEnsemble, roles: Any) -> LiveColumns:
        """Return the columns of a LiveEnsemble."""
        return cls(live.ensemble_, roles, live)

    @cached_property
    def text_features(self) -> list[str]:
        """The columns of X that were no numbers at the fit; none where the rows of the fit are not known."""
        rows = self.live._now.rows  # a file has the rows of the fit there, and later ones may have taken their place
        first: list[Any] = [*rows.first, *rows.pieces, *self.live.ensemble_._kept_rows]
        return text_columns(first[0].X if first else None)

    @property
    def grouping(self) -> str | None:
        """The column in which a refit finds the groups of rows; None if there is none."""
        rule = self.live._groups_rule
        return rule if self.live._learns and isinstance(rule, str) else None

    @cached_property
    def context(self) -> list[str]:
        """The columns that a forecast looks at, now or after a refit."""
        if self.policy.kind != DECISION:
            return []
        fits: list[Any] = [self.live.ensemble_, self.live.refitted_]
        if self.live._learns:
            return list(dict.fromkeys(name for fit in fits for name in fit._context_columns))
        return list(dict.fromkeys(name for fit in fits if fit._context is not None for name in fit._context.columns))

    def _context(self, tables: RowTables) -> list[str]:
        require_columns(self.context, tables.columns, f"the context of {self}: {tables}")
        return self.context

    def decision_reader(self, tables: RowTables, *, with_ids: bool) -> RowReader:
        """Return how rows to decide are read; ``with_ids`` if the table has their ids."""
        roles = replace(self.roles.for_decisions(), groups=self.grouping)
        return self.reader(tables, roles if with_ids else replace(roles, id=None))

    @property
    def needed(self) -> list[str]:
        """The columns that a decision needs, as far as they can be told without a table; the id is not among them."""
        of_set = [str(name) for each in self.policy.feasible_.parameters for name in each.columns or ()]
        grouping = [] if self.grouping is None else [self.grouping]
        return list(
            dict.fromkeys([*self.numbers, *self.features, *self.context, *of_set, *self.roles.subgroups, *grouping])
        )


def as_live_rows(
    columns: LiveColumns,
    reader: RowReader,
    part: pd.DataFrame | NumberBatch,
    ids: list[str] | None,
    copied: Sequence[str] = (),
) -> LiveRows:
    """Return rows that were read, with their ids or those given, as a LiveEnsemble decides them.

    The id is no part of X: a row is the same whether its id came in a column or beside it.
    """
    rows, kept = split_kept(part.to_pandas() if isinstance(part, NumberBatch) else part, copied)
    known, unseen = columns.grouped(reader.known(rows))
    name = reader.roles.id
    if ids is None:
        ids = column_text(rows[name]).tolist()
    if columns.features:
        return LiveRows(known[columns.features], ids, unseen, kept)
    other = {*reader.members, *reader.of_set.names, *reader.texts, *reader.roles.subgroups, reader.roles.groups}
    return LiveRows(known if name is None or name in other else known.drop(columns=[name]), ids, unseen, kept)


def read_labels(columns: LiveColumns, tables: RowTables, ids: list[str] | None) -> LabelledRows:
    """Return the rows of a table that have labels; those that lack some are left for later.

    Ids that are not given beside the table are in its column.
    """
    roles, names = columns.roles, require_labels(columns, tables)
    group = roles.groups if are_groups_needed(columns.live) else None
    for what, name in (("weight", roles.weight), ("groups", group)):
        if name is not None:
            require_columns([name], tables.columns, f"the {what} of rows: {tables}")
    numbers = [*names, *([] if roles.weight is None else [roles.weight])]
    texts = [name for name in (roles.id if ids is None else None, group) if name is not None]
    rows = tables.read(ColumnSelection(tuple(numbers), tuple(texts), optional=frozenset(names)))
    labels = rows[list(names)].to_numpy()
    here = np.flatnonzero(~absent_rows(labels))
    found = rows.iloc[here]
    return LabelledRows(
        numbers=here,
        labels=labels[here],
        unlabelled=len(rows) - len(here),
        ids=column_text(found[roles.id]).tolist() if ids is None else [ids[row] for row in here.tolist()],
        weights=None if roles.weight is None else found[roles.weight].to_numpy(),
        groups=None if group is None else column_text(found[group]).tolist(),
    )


def are_groups_needed(live: LiveEnsemble) -> bool:
    """Return whether labels come with the groups of their rows: the fit had groups that were not found in X."""
    fit: Any = live.ensemble_
    return bool(live._learns and fit.kind == DECISION and live._groups_rule is None and fit._groups is not None)


def require_labels(columns: LiveColumns, tables: RowTables) -> tuple[str, ...]:
    """Return the columns of labels, or say which are missing, or that none is known."""
    roles = columns.roles
    if not roles.labels:
        raise InputError(f"it is not known which columns of {tables} hold labels. Name them: --labels 'y_*'.")
    missing = [name for name in roles.labels if name not in tables.columns]
    if missing:
        hint = ", or name their columns with --labels" if tables.paths else ""
        raise InputError(f"{tables} has no column {missing[0]!r}: labels are to be learned from. Add them{hint}.")
    return roles.labels


def ids_beside(columns: LiveColumns, tables: RowTables, ids: Sequence[Any] | None) -> list[str] | None:
    """Return the ids of rows as text; None if they are in the id column of files, which are read in batches."""
    name = columns.roles.id
    if ids is not None:
        return as_texts(ids, tables.rows, tables)
    if name is None:
        how = "Name their column: --id-column COLUMN" if tables.paths else "Give an id for each row"
        raise InputError(f"{tables}: {_NO_IDS}. {how}.")
    if name not in tables.columns:
        how = "Add it, or name another: --id-column COLUMN" if tables.paths else "Add it, or give ids beside the rows"
        raise InputError(f"{tables} has no column {name!r}, which is to hold the ids of rows. {how}.")
    return as_texts(tables.values(name), tables.rows, tables) if isinstance(tables, MemoryTables) else None


def as_texts(ids: Sequence[Any], rows: int | None, tables: RowTables) -> list[str]:
    """Return ids as text: 7, 7.0 and "7" are one id, in every format."""
    if isinstance(ids, str | bytes) or (rows is not None and len(ids) != rows):
        got = "one text" if isinstance(ids, str | bytes) else f"{len(ids):,} ids"
        raise InputError(f"{tables}: each of the {rows:,} rows must have an id; got {got}. Give a list of ids.")
    found = list[str]()
    for row, value in enumerate(ids):
        if value is None or value != value or value == "" or isinstance(value, dict | list | tuple):
            raise InputError(
                f"{tables}: the id of row {row} (counted from 0) must be text or a number; got "
                f"{'none' if value is None or value != value or value == '' else type(value).__name__}. Give it one."
            )
        found.append(value_text(value))
    return found
