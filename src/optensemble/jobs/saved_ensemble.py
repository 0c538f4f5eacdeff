"""A fitted ensemble in a file, with the roles of the columns that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optensemble._core.deferred import pd
from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError
from optensemble.jobs.ensemble_columns import (
    EnsembleColumns,
    column_members,
    feature_names,
    find_label_columns,
    roles_of,
)
from optensemble.jobs.roles import require_own_name
from optensemble.jobs.rows import in_time_order
from optensemble.members.absence import absent_rows
from optensemble.persistence.files import load, load_to_decide
from optensemble.persistence.packing import AnyMembers
from optensemble.persistence.stored_members import UntrustedTypesError
from optensemble.tables.reading import Tables, require_columns


@dataclass(frozen=True)
class SavedEnsemble(EnsembleColumns):
    """An ensemble in a file, and the roles of the columns that it needs."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


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
    roles = roles_of(ensemble, tables)
    if labels is not None:
        roles = replace(roles, labels=find_label_columns(labels, roles, tables))
    roles = replace(roles, id=id_column or roles.id, time=time or roles.time)
    require_own_name(roles)
    return SavedEnsemble(ensemble, roles, path)


def load_ensemble(
    path: Path, trusted: Sequence[str] = (), *, to_decide: bool = False, members: Mapping[str, Any] | None = None
) -> Any:
    """Load an ensemble whose members are columns of a table, or estimators of ``trusted`` types that see its rows.

    ``members`` are those that are functions, by their names.
    """
    if path.suffix == ".toml":
        raise InputError(f"{path} is a job file. `optensemble fit {path}` makes an ensemble from it: name that.")
    try:
        ensemble = load_to_decide(path, trusted) if to_decide else _load(path, trusted, members or {})
    except UntrustedTypesError as error:
        raise untrusted(path, error) from error
    except InputError as error:
        how = "use this ensemble from Python" if members is None else "or functions of a module, --members module:dict"
        raise InputError(
            f"{path}: {error} On the command line members are columns of a table, or estimators in the file: {how}."
        ) from error
    if not isinstance(ensemble, Policy):
        raise InputError(
            f"{path} holds a LiveEnsemble, which goes on learning while it decides; commands take an ensemble as it "
            "was fitted. Use it from Python: its refitted_ is such an ensemble, which can be saved by itself."
        )
    require_table_members(ensemble, path)
    return ensemble


def untrusted(what: Path | str, error: UntrustedTypesError) -> InputError:
    """Return the error of a file with types that are not trusted, as the command line tells it."""
    return InputError(
        f"{what} holds types that are not trusted: {', '.join(error.types)}. Loading them may run their code, and hand "
        f"unchecked numbers to compiled code. If you trust the file, add --trust {','.join(error.types)}"
    )


def _load(path: Path, trusted: Sequence[str], members: Mapping[str, Any]) -> Any:
    given = AnyMembers(members)
    ensemble = load(path, models=given, policies=given, trusted=trusted)
    if isinstance(ensemble, Policy):
        given.require_members(ensemble)
    return ensemble


def require_table_members(ensemble: Any, path: Path | str) -> None:
    """Raise ``InputError`` if an ensemble's members or parameters need an array without names of columns."""
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
