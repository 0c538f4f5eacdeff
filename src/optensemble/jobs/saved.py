"""A fitted ensemble in a file, together with which columns of a table it goes by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optensemble._policy import Policy
from optensemble.columns import Columns
from optensemble.exceptions import InputError
from optensemble.jobs.job import Names
from optensemble.jobs.roles import Roles, find_labels
from optensemble.jobs.tables import Tables
from optensemble.persistence import load


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
    def numbers(self) -> list[str]:
        """The columns of its members."""
        return [name for member in members(self.ensemble) for name in member.names]


def members(ensemble: Any) -> list[Any]:
    """Return the members, and the model that a black box began with."""
    begun = getattr(ensemble, "init_", None)
    return [member for _, member in ensemble.members_] + ([begun] if isinstance(begun, Columns) else [])


def open_saved(
    path: Path, tables: Tables, *, labels: Names | None = None, id_column: str | None = None, time: str | None = None
) -> Saved:
    """Load an ensemble to be used on a table; columns given here go before those it remembers."""
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
        found, names = find_labels(labels, tables.columns, "--labels", str(tables))
        roles = replace(roles, labels=found, coordinates=names)
    return Saved(path, ensemble, replace(roles, id=id_column or roles.id, time=time or roles.time))


def _unnamed(ensemble: Any) -> Roles:
    """Return what is known of the columns of an ensemble that was fitted in Python."""
    groups = getattr(ensemble, "subgroups", None) or getattr(ensemble, "groups", None) or ()
    names = tuple(str(j) for j in range(ensemble.feasible.dimension))
    return Roles((), names, groups=(groups,) if isinstance(groups, str) else tuple(groups))
