"""Fitted ensembles as files: JSON and npz, versioned, without pickle; loading runs no code.

Models, policies, oracles and callable groups cannot be saved safely: they are given again to :func:`load`.
"""

from __future__ import annotations

from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optensemble._archive import SCHEMA_VERSION, Arrays, read, write
from optensemble._ensemble import Ensemble
from optensemble._validation import as_members
from optensemble.blackbox import BlackBoxEnsemble
from optensemble.debiasing import Patch, PatchLog
from optensemble.events import Event, Grouping, Layout
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet, from_spec, to_spec
from optensemble.whitebox import WhiteBoxEnsemble

__all__ = ["SCHEMA_VERSION", "load", "save"]

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
_SET = "feasible/"
_FRAMES = ("history_", "guarantees_", "conditional_")


def save(ensemble: Ensemble, path: str | PathLike[str]) -> None:
    """Write a fitted ensemble to ``path``, whole or not at all."""
    terms, grouping = ensemble.terms_, ensemble.grouping_
    arrays: Arrays = {"n_patches_": ensemble.n_patches_}
    document: dict[str, Any] = {
        "kind": type(ensemble).__name__,
        "names": [name for name, _ in ensemble.members_],
        "parameters": {name: _plain(getattr(terms, name)) for name in _PARAMETERS},
        "learned": {name: _plain(getattr(ensemble, name)) for name in _LEARNED},
        "feasible": _pack_set(terms.feasible, arrays),
        "groups": {"callable": callable(terms.groups), "columns": _columns(terms.groups)},
        "grouping": None if grouping is None else [list(values) for values in grouping.values],
        "logs": [_pack_log(log, arrays, f"log{number}") for number, log in enumerate(ensemble.log_)],
    }
    frames = {name: getattr(ensemble, name) for name in _FRAMES if hasattr(ensemble, name)}
    document["frames"] = {name: _pack_frame(frame, arrays, name) for name, frame in frames.items()}
    if isinstance(ensemble, BlackBoxEnsemble):
        document["conditional"] = bool(ensemble.conditional)
        document["init"] = "mean" if isinstance(ensemble.init_, np.ndarray) else "model"
        if document["init"] == "mean":
            arrays["init_"] = ensemble.init_
    write(Path(path), document, arrays)


def load(
    path: str | PathLike[str],
    models: Any = None,
    policies: Any = None,
    feasible: FeasibleSet | None = None,
    groups: Any = None,
) -> Any:
    """Read an ensemble that was saved; what could not be saved safely is given again.

    Parameters
    ----------
    path
        The file.
    models, policies
        The members, by the names they had: a dict, or pairs of name and member. A black box that began with a model
        takes it as ``models={"init": …}``.
    feasible
        The feasible set, if it was one that cannot be saved (``Oracle``, ``CvxpySet``, ``PyEPOSet``, a class of yours).
    groups
        The groups, if they were a callable.

    Returns
    -------
    The ensemble, answering as it did when it was saved.
    """
    given = {"models": _by_name(models, "models"), "policies": _by_name(policies, "policies")}
    if feasible is not None and not isinstance(feasible, FeasibleSet):
        raise InputError(f"feasible must be a set from optensemble.feasible; got {type(feasible).__name__}.")
    document, arrays = read(Path(path))
    try:
        return _restore(document, arrays, given, feasible, groups)
    except (LookupError, TypeError, AttributeError) as error:
        raise FileError(f"{path} is not what this version writes ({error!r}). Save the ensemble again.") from error


def _restore(
    document: dict[str, Any],
    arrays: Arrays,
    given: dict[str, dict[str, Any]],
    feasible: FeasibleSet | None,
    groups: Any,
) -> Ensemble:
    kind = _KINDS[document["kind"]]
    what = "models" if kind is WhiteBoxEnsemble else "policies"
    needed: dict[str, list[str]] = {"models": [], "policies": []}
    needed[what] = document["names"]
    if document.get("init") == "model":
        needed["models"] = ["init"]
    matched = {name: _match(needed[name], given[name], name) for name in needed}
    parameters = {name: document["parameters"][name] for name in _PARAMETERS}
    parameters["groups"] = _groups(document["groups"], groups)
    if kind is BlackBoxEnsemble:
        parameters["init"] = dict(matched["models"]).get("init", "mean")
        parameters["conditional"] = document["conditional"]
    ensemble = kind(matched[what], _unpack_set(document["feasible"], arrays, feasible), **parameters)
    ensemble._take_terms()
    ensemble.members_, ensemble.names_ = matched[what], list(document["names"])
    values = document["grouping"]
    ensemble.grouping_ = None if values is None else Grouping(tuple(tuple(column) for column in values))
    ensemble.log_ = tuple(_unpack_log(log, arrays, f"log{number}") for number, log in enumerate(document["logs"]))
    ensemble.n_patches_ = arrays["n_patches_"]
    for name in _LEARNED:
        setattr(ensemble, name, document["learned"][name])
    for name, saved in document["frames"].items():
        setattr(ensemble, name, _unpack_frame(saved, arrays, name))
    if isinstance(ensemble, BlackBoxEnsemble):
        ensemble._take_policies(ensemble.members_)
        ensemble.init_ = arrays.get("init_", ensemble.init)
        ensemble._rows = []
    return ensemble


def _by_name(members: Any, what: str) -> dict[str, Any]:
    return {} if members is None or members == {} else dict(as_members(members, what))


def _match(names: list[str], given: dict[str, Any], what: str) -> list[tuple[str, Any]]:
    """Match what was given again with the names in the file."""
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given]
    if unknown:
        close = get_close_matches(unknown[0], missing or names, n=1)
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
    if given is not None and (callable(given) or _columns(given) != saved["columns"]):
        raise InputError(f"the ensemble was fitted with groups={saved['columns']!r}; got {given!r}. Leave groups= out.")
    return saved["columns"]


# Parts: feasible sets, logs, frames


def _pack_set(omega: FeasibleSet, arrays: Arrays) -> dict[str, Any]:
    arrays["lower"], arrays["upper"] = omega.lower, omega.upper
    spec = to_spec(omega)
    plain = _pack_spec(spec or {}, arrays, _SET)
    return {"kind": type(omega).__name__, "saved": spec is not None, "arguments": plain}


def _pack_spec(spec: dict[str, Any], arrays: Arrays, prefix: str) -> dict[str, Any]:
    """Put a set's arrays among the others under their names, and return the rest; so for each block of a product."""
    plain: dict[str, Any] = {}
    for name, value in spec.items():
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        elif name == "blocks":
            plain[name] = [
                {"kind": block["kind"], "spec": _pack_spec(block["spec"], arrays, f"{prefix}{number}/")}
                for number, block in enumerate(value)
            ]
        else:
            plain[name] = _plain(value)
    return plain


def _unpack_spec(plain: dict[str, Any], arrays: Arrays, prefix: str) -> dict[str, Any]:
    names = (name.removeprefix(prefix) for name in arrays if name.startswith(prefix))
    spec = {**plain, **{name: arrays[prefix + name] for name in names if "/" not in name}}
    if "blocks" in spec:
        spec["blocks"] = [
            {"kind": block["kind"], "spec": _unpack_spec(block["spec"], arrays, f"{prefix}{number}/")}
            for number, block in enumerate(spec["blocks"])
        ]
    return spec


def _unpack_set(saved: dict[str, Any], arrays: Arrays, given: FeasibleSet | None) -> FeasibleSet:
    if given is None and not saved["saved"]:
        raise InputError(
            f"the feasible set ({saved['kind']}) cannot be saved and must be given again: load(path, feasible=…)."
        )
    omega = _saved_set(saved, arrays) if given is None else given
    lower, upper = arrays["lower"], arrays["upper"]
    if not (np.array_equal(omega.lower, lower) and np.array_equal(omega.upper, upper)):
        raise InputError(
            f"the feasible set given has bounds {omega.lower.tolist()} to {omega.upper.tolist()}, but the ensemble was "
            f"fitted with {lower.tolist()} to {upper.tolist()}. Give the same set again."
        )
    return omega


def _saved_set(saved: dict[str, Any], arrays: Arrays) -> FeasibleSet:
    try:
        return from_spec(saved["kind"], _unpack_spec(saved["arguments"], arrays, _SET))
    except OptEnsembleError as error:
        raise LookupError(f"its feasible set cannot be made: {error}") from error


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
