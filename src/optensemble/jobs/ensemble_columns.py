"""An ensemble with the roles of the columns that it needs: which of a table are read, and as what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble._core.columns import Columns
from optensemble._core.deferred import is_pandas_frame, pd
from optensemble.ensembles.base import BLACK_BOX, DECISION, Policy
from optensemble.exceptions import InputError
from optensemble.jobs.roles import Roles
from optensemble.jobs.rows import RowReader, optional_columns
from optensemble.jobs.set_columns import ReadColumns, expanded, require_parameters
from optensemble.tables.labels import value_text
from optensemble.tables.patterns import align, coordinates, is_pattern, split
from optensemble.tables.reading import RowTables, require_columns


@dataclass(frozen=True)
class EnsembleColumns:
    """An ensemble, and the roles of the columns that it needs."""

    ensemble: Any
    roles: Roles

    def __str__(self) -> str:
        return "the ensemble"

    def reader(self, tables: RowTables, roles: Roles) -> RowReader:
        """Return how rows of tables are read: the columns of members and labels, and those the set depends on."""
        columns, omega = tables.columns, self.policy.feasible_
        require_parameters(omega, columns, str(tables))
        texts = tuple(name for name in self.features if name in roles.subgroups or name in self.text_features)
        features, context = [name for name in self.features if name not in texts], self._context(tables)
        members = tuple(dict.fromkeys([*expanded(self.numbers, columns, str(tables)), *features]))
        numbers = tuple(dict.fromkeys([*members, *roles.labels, *context]))
        optional = optional_columns(roles, members, self.policy.kind) | frozenset(context)
        return RowReader(roles, numbers, ReadColumns.of(omega, columns, str(tables)), optional, texts)

    def _context(self, tables: RowTables) -> list[str]:
        """Return the columns that a forecast looks at, and those that a refit might if the table has them."""
        if self.policy.kind != DECISION:
            return []
        decides = self.ensemble._context
        needed = [] if decides is None else list(decides.columns)
        require_columns(needed, tables.columns, f"the context of {self}: {tables}")
        return [*needed, *(name for name in self.ensemble._context_columns if name in tables.columns)]

    @property
    def features(self) -> list[str]:
        """The columns of X, which members that are estimators see; none where all members are columns."""
        return feature_names(self.ensemble)

    @property
    def text_features(self) -> list[str]:
        """The columns of X that were no numbers at the fit; none where the rows of the fit are not known."""
        rows = self.ensemble._rows if self.policy.kind == DECISION else []  # a white or black box from a file has none
        return text_columns(rows[0].X if rows else None)

    def inputs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows as the ensemble was fitted on: estimators refuse columns that they do not know."""
        return rows[self.features] if self.features else rows

    @property
    def policy(self) -> Policy:
        """The ensemble, typed."""
        policy: Policy = self.ensemble
        return policy

    @property
    def coordinates(self) -> list[str]:
        """The names of the coordinates of an action: those of the labels, where they are known."""
        return list(self.policy.labels_ or self.roles.labels or self.roles.coordinates)

    @property
    def known_subgroups(self) -> dict[str, dict[str, Any]]:
        """Values of each column of subgroups at the fit, by their text."""
        grouping = self.policy.known_subgroups
        if grouping is None:
            return {}
        pairs = zip(self.roles.subgroups, grouping.values, strict=True)
        return {name: {value_text(value): value for value in values} for name, values in pairs}

    def grouped(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
        """Return rows with subgroups as at the fit, and the number of rows of unseen ones."""
        unseen = np.zeros(len(rows), dtype=bool)
        for name, known in self.known_subgroups.items():
            unseen |= ~rows[name].isin(known)
            rows = rows.assign(**{name: [known.get(text, text) for text in rows[name]]})
        return rows, int(unseen.sum())

    @property
    def policies(self) -> list[tuple[str, Any]]:
        """The members that are policies."""
        return self.policy.policy_members

    @property
    def numbers(self) -> list[str]:
        """The columns and patterns of the members."""
        return [str(name) for member in column_members(self.ensemble) for name in member.names]


def column_members(ensemble: Any) -> list[Columns]:
    """Return the members that are columns, and so may be the initial model of a black box."""
    return [member for member in _all_members(ensemble) if isinstance(member, Columns)]


def _all_members(ensemble: Any) -> list[Any]:
    initial = ensemble.init_ if ensemble.kind == BLACK_BOX else None
    return [*(member for _, member in ensemble.members_), *([] if isinstance(initial, np.ndarray) else [initial])]


def feature_names(ensemble: Any) -> list[str]:
    """Return the columns of the X of the fit, where some member is an estimator."""
    others = [each for each in _all_members(ensemble) if each is not None and not isinstance(each, Columns)]
    return list(ensemble._known.features or ()) if others else []


def text_columns(X: Any) -> list[str]:
    """Return the columns of rows of a fit that are no numbers; none of what is no pandas frame."""
    if not is_pandas_frame(X):
        return []
    return [str(name) for name in X.select_dtypes(exclude=["number", "bool"])]


# Roles


def roles_of(ensemble: Any, tables: RowTables | None) -> Roles:
    """Return the roles of columns that an ensemble was fitted with, and of one from Python those that can be told."""
    return Roles.of_plain(ensemble.table_) if ensemble.table_ else _default_roles(ensemble, tables)


def _default_roles(ensemble: Any, tables: RowTables | None) -> Roles:
    """Return the roles of columns for an ensemble that was fitted in Python."""
    subgroups, labels = ensemble.subgroups or (), tuple(ensemble.labels_ or ())
    members = column_members(ensemble)
    numbered = [str(number) for number in range(ensemble.feasible_.dimension)]
    named = labels or (_member_names(members[0], tables) if members else ()) or numbered
    columns = (subgroups,) if isinstance(subgroups, str) else tuple(subgroups) if not callable(subgroups) else ()
    return Roles(labels, tuple(coordinates(named)), subgroups=columns)


def _member_names(member: Columns, tables: RowTables | None) -> Sequence[str]:
    """Return the columns of a member; none if only a table tells which these are."""
    if tables is not None:
        return expanded(member.names, tables.columns, str(tables))
    names = [str(name) for name in member.names]
    return [] if any(map(is_pattern, names)) else names


def find_label_columns(given: str, roles: Roles, tables: RowTables | None) -> tuple[str, ...]:
    """Return label columns in the order of the coordinates, from a pattern or a list with commas.

    Without a table they are those that it should have.
    """
    where = "" if tables is None else f", in {tables}"
    if is_pattern(given):
        if tables is not None:
            return tuple(align(given, roles.coordinates, tables.columns, f"--labels{where}"))
        before, after = split(given, "--labels")
        return tuple(before + name + after for name in roles.coordinates)
    names = tuple(name.strip() for name in given.split(","))
    if tables is not None:
        require_columns(names, tables.columns, f"--labels: {tables}")
    if len(names) != len(roles.coordinates):
        of = "" if tables is None else f" of {tables}"
        needed = len(roles.coordinates)
        raise InputError(f"--labels names {len(names)} columns{of}; {needed} are needed. Separate them by commas.")
    return names
