"""A LiveEnsemble begun with an ensemble in a file, or resumed from its log, with members that are Python functions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.ensembles.live import LiveEnsemble
from optensemble.exceptions import InputError
from optensemble.jobs.job import read_job
from optensemble.jobs.live_table import with_roles
from optensemble.jobs.saved_ensemble import load_ensemble, untrusted
from optensemble.persistence.packing import AnyMembers
from optensemble.persistence.stored_members import UntrustedTypesError

_AGAIN = "must be given again"  # what a file cannot hold
_GIVE = "members that are Python functions come from a module: --members module:dict, where dict has them by name"


def start_live(
    path: Path,
    log: str,
    *,
    members: str | None = None,
    trusted: Sequence[str] = (),
    id_column: str | None = None,
    labels: str | None = None,
    **terms: Any,
) -> LiveEnsemble:
    """Begin a log with the ensemble in a file; columns given here are remembered with it.

    ``terms`` are arguments of :class:`~optensemble.LiveEnsemble`.
    """
    ensemble = load_ensemble(path, trusted, members=import_members(members) or {})
    roles = with_roles(ensemble, id_column=id_column, labels=labels)
    if id_column is not None or labels is not None:
        ensemble.table_ = roles.as_plain()
    return LiveEnsemble(ensemble, log=log, **terms)


def resume_live(log: str, members: str | None = None, trusted: Sequence[str] = (), **terms: Any) -> LiveEnsemble:
    """Resume from a log; ``terms`` are those of :meth:`~optensemble.LiveEnsemble.resume`."""
    given = AnyMembers(import_members(members) or {})
    try:
        live = LiveEnsemble.resume(log, models=given, policies=given, trusted=trusted, **terms)
    except UntrustedTypesError as error:
        raise untrusted("the log", error) from error
    except InputError as error:
        if _AGAIN in str(error):
            raise InputError(f"{error} On the command line {_GIVE}.") from error
        raise
    try:
        given.require_members(live.ensemble_)
    except InputError:
        live.close()
        raise
    return live


def import_members(place: str | None) -> Mapping[str, Any] | None:
    """Return the members in a dict of a module, ``module:dict``, or in the one that a job file names.

    The current folder may have the module, or that of the job file.
    """
    if place is None:
        return None
    folder = Path.cwd()
    if place.endswith(".toml"):
        place, folder = _of_job(Path(place))
    module, _, name = place.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise InputError(f"--members must be module:dict, such as models:members; got {place!r}.")
    with _importable(folder):
        found = _imported(module, folder)
    for part in name.split("."):
        if not hasattr(found, part):
            names = [each for each in vars(found) if not each.startswith("_")] if hasattr(found, "__dict__") else []
            hint = did_you_mean(part, names) or " Check --members."
            raise InputError(f"--members {place}: {module} has no {name!r}.{hint}")
        found = getattr(found, part)
    return _checked(found, place)


def _of_job(path: Path) -> tuple[str, Path]:
    """Return what a job file says of members, and its folder."""
    job = read_job(path)
    if job.members is None:
        raise InputError(f'{path} does not say where members are. Add [live] members = "module:dict".')
    return job.members, job.folder.resolve()


def _imported(module: str, folder: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise InputError(
                f"--members: there is no module {error.name!r}, neither installed nor in {folder}. Check the name, "
                "or change to its folder."
            ) from error
        raise InputError(f"--members: {module} cannot be imported: {error}. Install what it needs.") from error
    except Exception as error:  # the module is the user's own code
        what = f"{type(error).__name__}: {error}".rstrip(". ")
        raise InputError(f"--members: {module} cannot be imported: {what}. Correct the module.") from error


def _checked(found: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InputError(
            f"--members {place} must be a dict of members by name, such as {{'forecast': predict}}; got "
            f"{type(found).__name__}."
        )
    for name, member in found.items():
        if not isinstance(name, str):
            raise InputError(f"--members {place} must have names as keys; got {name!r}. Use the names of the fit.")
        if not (callable(member) or hasattr(member, "predict") or hasattr(member, "decide")):
            raise InputError(
                f"--members {place}: {name!r} must be a function of the rows, or have predict or decide; got "
                f"{type(member).__name__}. The names are {listed(list(map(str, found)))}."
            )
    return found


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let modules in a folder be imported, as with ``python -m``."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
