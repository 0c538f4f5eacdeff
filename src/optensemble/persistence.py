"""Fitted ensembles as files: one zip of JSON and npz, versioned, without pickle; loading runs no code.

::

    manifest.json    format, schema_version, SHA-256 of the other two
    ensemble.json    kind, parameters, names, feasible set, layouts, scalars
    arrays.npz       everything numerical

Models, policies, oracles and callable groups cannot be saved safely: they are given again to :func:`load`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._ensemble import Ensemble
from optensemble.blackbox import BlackBoxEnsemble
from optensemble.debiasing import Patch, PatchLog
from optensemble.events import Event, Grouping, Layout
from optensemble.exceptions import FileError, InputError
from optensemble.feasible import FeasibleSet, from_spec
from optensemble.whitebox import WhiteBoxEnsemble

__all__ = ["SCHEMA_VERSION", "load", "save"]

SCHEMA_VERSION = 1
_FORMAT = "optensemble"
_MANIFEST, _DOCUMENT, _ARRAYS = "manifest.json", "ensemble.json", "arrays.npz"
_KINDS: dict[str, type[Ensemble]] = {kind.__name__: kind for kind in (WhiteBoxEnsemble, BlackBoxEnsemble)}
_PARAMETERS = ("sense", "alpha", "bucket_width", "schedule", "max_rounds", "shrinkage", "M", "validation")
_LEARNED = (
    "time_ordered_",
    "M_",
    "n_rows_",
    "n_rounds_",
    "n_solves_",
    "converged_",
    "stopped_",
    "worst_violation_",
)
_FRAMES = ("history_", "guarantees_", "conditional_")

Arrays = dict[str, npt.NDArray[Any]]


def save(ensemble: Ensemble, path: str | PathLike[str]) -> None:
    """Write a fitted ensemble to ``path``, whole or not at all."""
    arrays: Arrays = {"n_patches_": ensemble.n_patches_}
    document: dict[str, Any] = {
        "kind": type(ensemble).__name__,
        "names": [name for name, _ in ensemble.members_],
        "parameters": {name: _plain(getattr(ensemble, name)) for name in _PARAMETERS},
        "learned": {name: _plain(getattr(ensemble, name)) for name in _LEARNED},
        "feasible": _pack_set(ensemble.feasible, arrays),
        "groups": {"callable": callable(ensemble.groups), "columns": _columns(ensemble.groups)},
        "grouping": None if ensemble.grouping_ is None else [list(v) for v in ensemble.grouping_.values],
        "logs": [_pack_log(log, arrays, f"log{number}") for number, log in enumerate(ensemble.log_)],
        "frames": {
            name: _pack_frame(getattr(ensemble, name), arrays, name) for name in _FRAMES if hasattr(ensemble, name)
        },
    }
    if isinstance(ensemble, BlackBoxEnsemble):
        document["conditional"] = bool(ensemble.conditional)
        document["init"] = "model" if ensemble.initial_ is None else "mean"
        if ensemble.initial_ is not None:
            arrays["initial_"] = ensemble.initial_
    _write(Path(path), _bundle(document, arrays))


def load(
    path: str | PathLike[str],
    models: Mapping[str, Any] | None = None,
    policies: Mapping[str, Any] | None = None,
    feasible: FeasibleSet | None = None,
    groups: Any = None,
) -> Any:
    """Read an ensemble that was saved; what could not be saved safely is given again.

    Parameters
    ----------
    path
        The file.
    models, policies
        The members, by the names they had. A black box that began with a model takes it as ``models={"init": …}``.
    feasible
        The feasible set, if it was one that cannot be saved (an ``Oracle``, or a class of your own).
    groups
        The groups, if they were a callable.

    Returns
    -------
    The ensemble, answering as it did when it was saved.
    """
    document, arrays = _read(Path(path))
    try:
        ensemble = _restore(document, arrays, models or {}, policies or {}, feasible, groups)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FileError(f"{path} is not what this version writes ({error!r}). Save the ensemble again.") from error
    return ensemble


def _restore(
    document: dict[str, Any],
    arrays: Arrays,
    models: Mapping[str, Any],
    policies: Mapping[str, Any],
    feasible: FeasibleSet | None,
    groups: Any,
) -> Ensemble:
    kind = _KINDS[document["kind"]]
    white = kind is WhiteBoxEnsemble
    begins_with_model = document.get("init") == "model"
    members = _members(document["names"], models if white else policies, "models" if white else "policies")
    extra: dict[str, Any] = {}
    if white:
        _members([], policies, "policies")
    else:
        given = _members(["init"] if begins_with_model else [], models, "models")
        extra = {"init": given[0][1] if given else "mean", "conditional": document["conditional"]}
    ensemble = kind(
        members,
        _unpack_set(document["feasible"], arrays, feasible),
        groups=_groups(document["groups"], groups),
        **extra,
        **{name: document["parameters"][name] for name in _PARAMETERS},
    )
    learned: dict[str, Any] = {name: document["learned"][name] for name in _LEARNED}
    learned["members_"], learned["names_"] = members, [*document["names"], *([] if white else ["own"])]
    learned["n_patches_"] = arrays["n_patches_"]
    values = document["grouping"]
    learned["grouping_"] = None if values is None else Grouping(tuple(tuple(column) for column in values))
    learned["log_"] = tuple(_unpack_log(log, arrays, f"log{number}") for number, log in enumerate(document["logs"]))
    learned |= {name: _unpack_frame(columns, arrays, name) for name, columns in document["frames"].items()}
    if not white:
        learned["initial_"], learned["_rows"] = arrays.get("initial_"), []
    ensemble.__dict__.update(learned)
    return ensemble


def _members(names: list[str], given: Mapping[str, Any], what: str) -> list[tuple[str, Any]]:
    """Match what was given again with the names in the file."""
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if unknown:
        close = get_close_matches(str(unknown[0]), missing or names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Leave it out."
        known = f"those saved are {', '.join(map(repr, names))}" if names else f"the file needs no {what}"
        raise InputError(f"{what} has {unknown[0]!r}, but {known}. {hint}")
    if missing:
        again = ", ".join(f"{name!r}: …" for name in missing)
        raise InputError(f"{what} cannot be saved safely and must be given again: load(path, {what}={{{again}}}).")
    return [(name, given[name]) for name in names]


def _columns(groups: Any) -> Any:
    return None if callable(groups) else _plain(groups)


def _groups(saved: dict[str, Any], given: Any) -> Any:
    if saved["callable"]:
        if not callable(given):
            raise InputError("the groups were a callable and must be given again: load(path, groups=…).")
        return given
    if given is not None and _columns(given) != saved["columns"]:
        raise InputError(f"the ensemble was fitted with groups={saved['columns']!r}; got {given!r}. Leave groups= out.")
    return saved["columns"]


# Parts: feasible sets, logs, frames


def _pack_set(feasible: FeasibleSet, arrays: Arrays) -> dict[str, Any]:
    spec = feasible.spec()
    arrays["lower"], arrays["upper"] = feasible.lower, feasible.upper
    plain: dict[str, Any] = {}
    for name, value in (spec or {}).items():
        if isinstance(value, np.ndarray):
            arrays[f"feasible/{name}"] = value
        else:
            plain[name] = _plain(value)
    return {"kind": type(feasible).__name__, "saved": spec is not None, "arguments": plain}


def _unpack_set(saved: dict[str, Any], arrays: Arrays, given: FeasibleSet | None) -> FeasibleSet:
    if given is None and not saved["saved"]:
        raise InputError(
            f"the feasible set ({saved['kind']}) cannot be saved and must be given again: load(path, feasible=…)."
        )
    prefix = "feasible/"
    stored = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
    omega = from_spec(saved["kind"], {**saved["arguments"], **stored}) if given is None else given
    lower, upper = arrays["lower"], arrays["upper"]
    if not (np.array_equal(omega.lower, lower) and np.array_equal(omega.upper, upper)):
        raise InputError(
            f"the feasible set given has bounds {omega.lower.tolist()} to {omega.upper.tolist()}, but the ensemble was "
            f"fitted with {lower.tolist()} to {upper.tolist()}. Give the same set again."
        )
    return omega


def _pack_log(log: PatchLog, arrays: Arrays, key: str) -> dict[str, Any]:
    """Lay all patches end to end."""
    patches = [(number, patch) for number, patches in enumerate(log.rounds) for patch in patches]
    d = patches[0][1].delta.shape[1] if patches else 0
    arrays[f"{key}/round"] = np.array([number for number, _ in patches], dtype=np.int64)
    arrays[f"{key}/member"] = np.array([patch.member for _, patch in patches], dtype=np.int64)
    arrays[f"{key}/length"] = np.array([len(patch.cells) for _, patch in patches], dtype=np.int64)
    arrays[f"{key}/cells"] = np.concatenate([np.zeros(0, np.int64), *(patch.cells for _, patch in patches)])
    arrays[f"{key}/delta"] = np.concatenate([np.zeros((0, d)), *(patch.delta for _, patch in patches)])
    events = [[event.turn, list(event.partitions)] for event in log.layout.events]
    layout = {"sizes": list(log.layout.sizes), "events": events, "groups": list(log.layout.groups)}
    return {"rounds": len(log.rounds), "layout": layout}


def _unpack_log(saved: dict[str, Any], arrays: Arrays, key: str) -> PatchLog:
    sizes, events, groups = (saved["layout"][name] for name in ("sizes", "events", "groups"))
    layout = Layout(tuple(sizes), tuple(Event(turn, tuple(parts)) for turn, parts in events), tuple(groups))
    rounds: list[list[Patch]] = [[] for _ in range(saved["rounds"])]
    ends = np.cumsum(arrays[f"{key}/length"])
    cells, delta = np.split(arrays[f"{key}/cells"], ends)[:-1], np.split(arrays[f"{key}/delta"], ends)[:-1]
    for i, number in enumerate(arrays[f"{key}/round"]):
        rounds[number].append(Patch(int(arrays[f"{key}/member"][i]), cells[i], delta[i]))
    return PatchLog(layout, [tuple(patches) for patches in rounds])


def _pack_frame(frame: pd.DataFrame, arrays: Arrays, key: str) -> dict[str, Any]:
    for number, name in enumerate(frame.columns):
        column = frame[name]
        numeric = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
        arrays[f"{key}/{number}"] = column.to_numpy() if numeric else column.to_numpy(dtype=np.str_)
    return {"columns": list(frame.columns), "index": frame.index.name}


def _unpack_frame(saved: dict[str, Any], arrays: Arrays, key: str) -> pd.DataFrame:
    columns = {name: arrays[f"{key}/{number}"] for number, name in enumerate(saved["columns"])}
    plain = {name: column.tolist() if column.dtype.kind == "U" else column for name, column in columns.items()}
    return pd.DataFrame(plain).rename_axis(saved["index"])


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: numpy scalars become Python's; a list of columns stays one."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


# The file


def _bundle(document: dict[str, Any], arrays: Arrays) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **cast("Any", arrays))
    parts = {_DOCUMENT: json.dumps(document, ensure_ascii=False).encode(), _ARRAYS: packed.getvalue()}
    manifest = {
        "format": _FORMAT,
        "schema_version": SCHEMA_VERSION,
        "sha256": {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()},
    }
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest))
        for name, part in parts.items():
            archive.writestr(name, part)
    return whole.getvalue()


def _write(path: Path, content: bytes) -> None:
    """Write beside the target, then move into its place: a reader finds the old file or the new one, whole."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(
            f"cannot write {path}: {error.strerror or error}. Choose a folder that can be written to."
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileError(f"cannot write {path}: {error.strerror or error}. Nothing was written.") from error
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Check format, version and integrity, in this order, before anything is looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in (_MANIFEST, _DOCUMENT, _ARRAYS)}
        manifest = json.loads(parts[_MANIFEST])
        version, expected = manifest["schema_version"], manifest["sha256"]
        ours = manifest["format"] == _FORMAT
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}. Check the path.") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}. Give a file that save() wrote.") from error
    except (zipfile.BadZipFile, EOFError, KeyError, TypeError, ValueError, NotImplementedError) as error:
        raise FileError(
            f"{path} is not a whole optensemble file: truncated, altered, or something else ({error}). "
            "Take another copy, or save the ensemble again."
        ) from error
    if not ours:
        raise FileError(f"{path} is not an optensemble file. Check the path.")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise FileError(
            f"{path} has schema version {version!r}, and this optensemble reads up to {SCHEMA_VERSION}. "
            "Update optensemble to read it."
        )
    for name in (_DOCUMENT, _ARRAYS):
        if hashlib.sha256(parts[name]).hexdigest() != expected.get(name):
            raise FileError(
                f"{path} was altered after it was saved ({name} does not match its checksum). "
                "Take another copy, or save the ensemble again."
            )
    with np.load(io.BytesIO(parts[_ARRAYS]), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(parts[_DOCUMENT]), arrays
