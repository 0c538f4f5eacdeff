"""A fitted ensemble in a file, with the roles of the columns that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from optensemble._core.columns import Columns
from optensemble._core.deferred import is_pandas_frame, pd
from optensemble.ensembles.base import BLACK_BOX, DECISION, Policy
from optensemble.exceptions import InputError
from optensemble.jobs.roles import Roles, require_own_name
from optensemble.jobs.rows import RowReader, in_time_order, optional_columns
from optensemble.jobs.set_columns import ReadColumns, expanded, require_parameters
from optensemble.members.absence import absent_rows
from optensemble.persistence.files import load, load_to_decide
from optensemble.persistence.stored_members import UntrustedTypesError
from optensemble.tables.labels import value_text
from optensemble.tables.patterns import align, coordinates, is_pattern
from optensemble.tables.reading import Tables, require_columns


@dataclass(frozen=True)
class SavedEnsemble:
    """An ensemble, and the roles of the columns that it needs."""

    path: Path
    ensemble: Any
    roles: Roles

    def reader(self, tables: Tables, roles: Roles) -> RowReader:
        """Return how rows of tables are read: the columns of members and labels, and those the set depends on."""
        columns, omega = tables.columns, self.policy.feasible_
        require_parameters(omega, columns, str(tables))
        texts = tuple(name for name in self.features if name in roles.subgroups or name in text_features(self.ensemble))
        features, context = [name for name in self.features if name not in texts], self._context(tables)
        members = tuple(dict.fromkeys([*expanded(self.numbers, columns, str(tables)), *features]))
        numbers = tuple(dict.fromkeys([*members, *roles.labels, *context]))
        optional = optional_columns(roles, members, self.policy.kind) | frozenset(context)
        return RowReader(roles, numbers, ReadColumns.of(omega, columns, str(tables)), optional, texts)

    def _context(self, tables: Tables) -> list[str]:
        """Return the columns that a forecast looks at, and those that a refit might if the table has them."""
        if self.policy.kind != DECISION:
            return []
        decides = self.ensemble._context
        needed = [] if decides is None else list(decides.columns)
        require_columns(needed, tables.columns, f"the context of {self.path}: {tables}")
        return [*needed, *(name for name in self.ensemble._context_columns if name in tables.columns)]

    @property
    def features(self) -> list[str]:
        """The columns of X, which members that are estimators see; none where all members are columns."""
        return feature_names(self.ensemble)

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


def text_features(ensemble: Any) -> list[str]:
    """Return the columns of X that were no numbers at the fit; none where the rows of the fit are not known."""
    rows = ensemble._rows if ensemble.kind == DECISION else []  # a white or black box from a file has none
    X = rows[0].X if rows else None
    if not is_pandas_frame(X):
        return []
    return [str(name) for name in X.select_dtypes(exclude=["number", "bool"])]


def open_ensemble(
    path: Path,
    tables: Tables,
    *,
    labels: str | None = None,
    id_column: str | None = None,
    time: str | None = None,
    trusted: Sequence[str] = (),
    to_decide: bool = False,
) -> SavedEnsemble:
    """Load an ensemble for a table; columns given here replace those of the job file.

    It need not be whole if it is only ``to_decide``.
    """
    ensemble = load_ensemble(path, trusted, to_decide=to_decide)
    roles = Roles.of_plain(ensemble.table_) if ensemble.table_ else _default_roles(ensemble, tables)
    if labels is not None:
        roles = replace(roles, labels=_find_label_columns(labels, roles, tables))
    roles = replace(roles, id=id_column or roles.id, time=time or roles.time)
    require_own_name(roles)
    return SavedEnsemble(path, ensemble, roles)


def load_ensemble(path: Path, trusted: Sequence[str] = (), *, to_decide: bool = False) -> Any:
    """Load an ensemble whose members are columns of a table, or estimators of ``trusted`` types that see its rows."""
    if path.suffix == ".toml":
        raise InputError(f"{path} is a job file. `optensemble fit {path}` makes an ensemble from it: name that.")
    try:
        ensemble = load_to_decide(path, trusted) if to_decide else load(path, trusted=trusted)
    except UntrustedTypesError as error:
        raise InputError(
            f"{path} holds types that are not trusted: {', '.join(error.types)}. Loading them may run their code, and "
            f"hand unchecked numbers to compiled code. If you trust the file, add --trust {','.join(error.types)}"
        ) from error
    except InputError as error:
        raise InputError(
            f"{path}: {error} On the command line members are columns of a table, or estimators in the file: "
            "use this ensemble from Python."
        ) from error
    if not isinstance(ensemble, Policy):
        raise InputError(
            f"{path} holds a LiveEnsemble, which goes on learning while it decides; commands take an ensemble as it "
            "was fitted. Use it from Python: its refitted_ is such an ensemble, which can be saved by itself."
        )
    if len(column_members(ensemble)) < len(ensemble.members_) and not feature_names(ensemble):
        raise InputError(f"{path}: its members were fitted on an array, without names of columns. Use it from Python.")
    if any(isinstance(member.names[0], int) for member in column_members(ensemble)):
        raise InputError(f"{path}: its members are numbered columns of an array, not of a table. Use it from Python.")
    parameters = ensemble.feasible_.parameters
    if any(isinstance(name, int) for parameter in parameters for name in parameter.columns or ()):
        raise InputError(
            f"{path}: {parameters[0].name} of its feasible set comes from numbered columns of an array, not of a "
            "table. Use it from Python."
        )
    return ensemble


def read_labelled(saved: SavedEnsemble, tables: Tables, what: str) -> tuple[pd.DataFrame, int]:
    """Return the rows that have labels, in time order, and the number of those that have none; ``what`` needs them."""
    roles = saved.roles
    if not roles.labels:
        raise InputError(f"{saved.path} does not name the label columns. Give --labels, for example --labels 'y_*'.")
    missing = [name for name in roles.labels if name not in tables.columns]
    if missing:
        raise InputError(
            f"{tables} has no column {missing[0]!r}: {what} needs the labels. Add them, or name their "
            "columns with --labels."
        )
    if roles.weight is not None:
        require_columns([roles.weight], tables.columns, f"[data] weight of the job: {tables}")
    read, _ = saved.grouped(saved.reader(tables, roles).read(tables))
    labelled = read[~absent_rows(read[list(roles.labels)].to_numpy())]
    return (in_time_order(labelled, roles, str(tables)) if len(labelled) else labelled), len(read) - len(labelled)


def _find_label_columns(given: str, roles: Roles, tables: Tables) -> tuple[str, ...]:
    """Return label columns in the order of the coordinates, from a pattern or a list with commas."""
    if is_pattern(given):
        return tuple(align(given, roles.coordinates, tables.columns, f"--labels, in {tables}"))
    names = tuple(name.strip() for name in given.split(","))
    require_columns(names, tables.columns, f"--labels: {tables}")
    if len(names) != len(roles.coordinates):
        needed = len(roles.coordinates)
        raise InputError(
            f"--labels names {len(names)} columns of {tables}; {needed} are needed. Separate them by commas."
        )
    return names


def _default_roles(ensemble: Any, tables: Tables) -> Roles:
    """Return the roles of columns for an ensemble that was fitted in Python."""
    subgroups, labels = ensemble.subgroups or (), tuple(ensemble.labels_ or ())
    members = column_members(ensemble)
    numbered = [str(number) for number in range(ensemble.feasible_.dimension)]
    named = labels or (expanded(members[0].names, tables.columns, str(tables)) if members else numbered)
    columns = (subgroups,) if isinstance(subgroups, str) else tuple(subgroups)
    return Roles(labels, tuple(coordinates(named)), subgroups=columns)
