"""A fitted ensemble in a file, together with which columns of a table it goes by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError
from optensemble.jobs.patterns import align, coordinates, is_pattern
from optensemble.jobs.roles import Roles, require_own_name
from optensemble.jobs.rows import as_groups
from optensemble.members.columns import Columns
from optensemble.persistence.files import load
from optensemble.tables.labels import as_text
from optensemble.tables.reading import Tables, require_columns


@dataclass(frozen=True)
class Saved:
    """An ensemble, and the columns it needs."""

    path: Path
    ensemble: Any
    roles: Roles

    @property
    def policy(self) -> Policy:
        """The ensemble as what it is."""
        policy: Policy = self.ensemble
        return policy

    @property
    def known_groups(self) -> dict[str, dict[str, Any]]:
        """The values of every column of groups that were there at the fit, by their text."""
        grouping = self.policy.known_subgroups
        if grouping is None:
            return {}
        pairs = zip(self.roles.groups, grouping.values, strict=True)
        return {name: {as_text(value): value for value in values} for name, values in pairs}

    def grouped(self, rows: pd.DataFrame, roles: Roles) -> tuple[pd.DataFrame, int]:
        """Return rows with groups as the ensemble knows them, and how many rows are of a group that it does not."""
        rows, unseen = as_groups(rows, roles), np.zeros(len(rows), dtype=bool)
        for name, known in self.known_groups.items():
            unseen |= ~rows[name].isin(known)
            rows = rows.assign(**{name: [known.get(text, text) for text in rows[name]]})
        return rows, int(unseen.sum())

    @property
    def policies(self) -> list[tuple[str, Any]]:
        """The members of which only actions are known."""
        return self.policy.policy_members

    @property
    def numbers(self) -> list[str]:
        """The columns of its members."""
        return [name for member in members(self.ensemble) for name in member.names]


def members(ensemble: Any) -> list[Any]:
    """Return the members, and the model that a black box began with."""
    begun = getattr(ensemble, "init_", None)
    return [member for _, member in ensemble.members_] + ([begun] if isinstance(begun, Columns) else [])


def open_saved(
    path: Path, tables: Tables, *, labels: str | None = None, id_column: str | None = None, time: str | None = None
) -> Saved:
    """Load an ensemble to be used on a table; columns given here go before those it remembers."""
    if path.suffix == ".toml":
        raise InputError(f"{path} is a job file. `optensemble fit {path}` makes an ensemble of it: name that.")
    try:
        ensemble = load(path)
    except InputError as error:
        raise InputError(
            f"{path}: {error} The command line knows members only as columns of a table: use this ensemble from Python."
        ) from error
    if any(isinstance(member.names[0], int) for member in members(ensemble)):
        raise InputError(f"{path}: its members are numbered columns of an array, not of a table. Use it from Python.")
    roles = Roles.of_plain(ensemble.table_) if ensemble.table_ else _unnamed(ensemble)
    if labels is not None:
        roles = replace(roles, labels=_labels(labels, roles, tables))
    roles = replace(roles, id=id_column or roles.id, time=time or roles.time)
    require_own_name(roles)
    return Saved(path, ensemble, roles)


def _labels(given: str, roles: Roles, tables: Tables) -> tuple[str, ...]:
    """Return label columns in the order of the ensemble's coordinates: by a pattern, or one by one with commas."""
    if is_pattern(given):
        return tuple(align(given, roles.coordinates, tables.columns, f"--labels, in {tables}"))
    names = tuple(name.strip() for name in given.split(","))
    require_columns(names, tables.columns, f"--labels: {tables}")
    if len(names) != len(roles.coordinates):
        needed = len(roles.coordinates)
        raise InputError(
            f"--labels names {len(names)} of the columns of {tables}; {needed} are needed. Put commas between them."
        )
    return names


def _unnamed(ensemble: Any) -> Roles:
    """Return what is known of the columns of an ensemble that was fitted in Python."""
    groups = getattr(ensemble, "subgroups", None) or getattr(ensemble, "groups", None) or ()
    names = coordinates([str(name) for name in members(ensemble)[0].names])
    return Roles((), tuple(names), groups=(groups,) if isinstance(groups, str) else tuple(groups))
