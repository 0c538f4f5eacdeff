"""Fitted ensembles as files: JSON and npz, versioned, without pickle; loading runs no code.

Models, policies, oracles and callable groups cannot be saved safely: they are given again to :func:`load`. Members that
are :class:`~optensemble.members.columns.Columns` are saved whole.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from optensemble._core.validation import require_number
from optensemble.ensembles._paper import PaperEnsemble
from optensemble.ensembles.black_box import BlackBoxEnsemble
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.ensembles.white_box import WhiteBoxEnsemble
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.members.columns import Columns
from optensemble.members.subgroups import Grouping
from optensemble.persistence import decision_file as _decision_file
from optensemble.persistence.archive import LIMIT, SCHEMA_VERSION, Arrays, read, write
from optensemble.persistence.check import check
from optensemble.persistence.packing import (
    as_plain,
    by_name,
    match,
    pack_forecaster,
    pack_frame,
    pack_log,
    pack_set,
    unpack_forecaster,
    unpack_frame,
    unpack_log,
    unpack_set,
)

__all__ = ["SCHEMA_VERSION", "load", "save"]

_KINDS: dict[str, type[PaperEnsemble]] = {kind.__name__: kind for kind in (WhiteBoxEnsemble, BlackBoxEnsemble)}
_PARAMETERS = ("sense", "alpha", "bucket_width", "schedule", "max_rounds", "shrinkage", "min_cell", "M", "validation")
_LEARNED = (
    "time_ordered_",
    "schedule_",
    "shrinkage_",
    "min_cell_",
    "M_",
    "n_rows_",
    "n_rounds_",
    "n_solves_",
    "n_thin_",
    "converged_",
    "stopped_",
    "worst_violation_",
)
_FRAMES = ("history_", "guarantees_", "conditional_", "validation_")
_INIT = "init"
_NO_GROUPS = {"callable": False, "columns": None}


def save(ensemble: Any, path: str | PathLike[str]) -> None:
    """Write a fitted ensemble to ``path``, whole or not at all."""
    pack = _decision_file.pack if isinstance(ensemble, DecisionEnsemble) else _pack
    document, arrays = pack(ensemble)
    document["table"] = ensemble.table_
    write(Path(path), document, arrays)


def _pack(ensemble: PaperEnsemble) -> tuple[dict[str, Any], Arrays]:
    terms, grouping = ensemble.terms_, ensemble.grouping_
    arrays: Arrays = {"n_patches_": ensemble.n_patches_, "fingerprints_": ensemble.fingerprints_}
    document: dict[str, Any] = {
        "kind": type(ensemble).__name__,
        "names": [name for name, _ in ensemble.members_],
        "columns": {name: list(member.names) for name, member in ensemble.members_ if isinstance(member, Columns)},
        "parameters": {name: as_plain(getattr(terms, name)) for name in _PARAMETERS},
        "learned": {name: as_plain(getattr(ensemble, name)) for name in _LEARNED},
        "feasible": pack_set(terms.feasible, arrays),
        "groups": {"callable": callable(terms.subgroups), "columns": _columns(terms.subgroups)},
        "grouping": None if grouping is None else [list(values) for values in grouping.values],
        "logs": [pack_log(log, arrays, f"log{number}") for number, log in enumerate(ensemble.log_)],
    }
    frames = {name: getattr(ensemble, name) for name in _FRAMES if hasattr(ensemble, name)}
    document["frames"] = {name: pack_frame(frame, arrays, name) for name, frame in frames.items()}
    if isinstance(ensemble, BlackBoxEnsemble):
        document["conditional"] = bool(ensemble.conditional)
        document["init"] = "mean" if isinstance(ensemble.init_, np.ndarray) else "model"
        document["init_columns"] = list(ensemble.init_.names) if isinstance(ensemble.init_, Columns) else None
        if document["init"] == "mean":
            arrays["init_"] = ensemble.init_
    if hasattr(ensemble, "record_"):
        arrays["assessed"], arrays["realised"] = ensemble.record_.assessed, ensemble.record_.realised
        document["curse"] = ensemble.record_.curse
    simple = ensemble._forecaster
    document["simple"] = None if simple is None else pack_forecaster(simple, arrays)
    return document, arrays


def load(
    path: str | PathLike[str],
    models: Any = None,
    policies: Any = None,
    feasible: FeasibleSet | None = None,
    groups: Any = None,
    limit: int = LIMIT,
) -> Any:
    """Read an ensemble that was saved; what could not be saved safely is given again.

    Parameters
    ----------
    path
        The file.
    models, policies
        The members, by the names they had: a dict, or pairs of name and member. A black box that began with a model
        takes it as ``models={"init": …}``. Members that are ``Columns`` are in the file, and need not be given.
    feasible
        The feasible set, if it was one that cannot be saved (``Oracle``, ``CvxpySet``, ``PyEPOSet``, a class of yours).
    groups
        The groups, or the subgroups of a ``DecisionEnsemble``, if they were a callable.
    limit
        How many bytes the file may take up, packed and unpacked; 2 GiB unless given.

    Returns
    -------
    The ensemble, answering as it did when it was saved. The rows it was fitted on are not in the file; the record of
    what it was worth out of fold is, if there was one: of an ensemble with ``validation=None``, once it was asked for
    a promise.

    Notes
    -----
    No file can run code or reach compiled code unchecked: everything it says is checked before anything is made of it,
    and whatever is wrong is a :class:`~optensemble.exceptions.FileError`. The checksums in it show accidents, not
    intent: load what decides about money only from where only those you trust can write.
    """
    given = {"models": by_name(models, "models"), "policies": by_name(policies, "policies")}
    if feasible is not None and not isinstance(feasible, FeasibleSet):
        raise InputError(f"feasible must be a set from optensemble.feasible; got {type(feasible).__name__}.")
    require_number(limit, "limit", at_least=1, whole=True)
    document, arrays = read(Path(path), int(limit))
    try:
        check(document, arrays, int(limit))
        if document["kind"] == _decision_file.KIND:
            rule = _groups(document.get("subgroups") or _NO_GROUPS, groups, "subgroups")
            ensemble: Any = _decision_file.restore(document, arrays, given, feasible, rule)
        else:
            ensemble = _restore(document, arrays, given, feasible, groups)
        if document.get("table"):
            ensemble.table_ = document["table"]
    except OptEnsembleError:
        raise  # what was given again does not fit
    except Exception as error:
        what = str(error).rstrip(".") or type(error).__name__
        raise FileError(f"{path} is not what this version writes: {what}. Save the ensemble again.") from error
    return ensemble


def _restore(
    document: dict[str, Any],
    arrays: Arrays,
    given: dict[str, dict[str, Any]],
    feasible: FeasibleSet | None,
    groups: Any,
) -> PaperEnsemble:
    kind = _KINDS[document["kind"]]
    what = "models" if kind is WhiteBoxEnsemble else "policies"
    needed: dict[str, list[str]] = {"models": [], "policies": []}
    saved: dict[str, dict[str, list[Any]]] = {"models": {}, "policies": {}}
    needed[what], saved[what] = document["names"], document["columns"]
    if document.get("init") == "model":
        needed["models"] = [_INIT]
        saved["models"] = {_INIT: document["init_columns"]} if document["init_columns"] else {}
    matched = {name: match(needed[name], given[name], saved[name], name) for name in needed}
    parameters = {name: document["parameters"][name] for name in _PARAMETERS}
    parameters["subgroups"] = _groups(document["groups"], groups)
    if kind is BlackBoxEnsemble:
        parameters["init"] = dict(matched["models"]).get(_INIT, "mean")
        parameters["conditional"] = document["conditional"]
    ensemble = kind(matched[what], unpack_set(document["feasible"], arrays, feasible), **parameters)
    ensemble.terms_ = Hyperparameters.of(ensemble)
    try:
        ensemble.terms_.check()
    except InputError as error:
        raise LookupError(f"its parameters cannot be: {error}") from error
    ensemble.members_, ensemble.names_ = matched[what], list(document["names"])
    values = document["grouping"]
    ensemble.grouping_ = None if values is None else Grouping(tuple(tuple(column) for column in values))
    ensemble.log_ = tuple(
        unpack_log(log, arrays, f"log{number}", ensemble.feasible.dimension)
        for number, log in enumerate(document["logs"])
    )
    ensemble.n_patches_, ensemble.fingerprints_ = arrays["n_patches_"], arrays["fingerprints_"]
    ensemble._rows, ensemble._stages, ensemble._seed = [], [], None
    simple = document["simple"]
    ensemble._forecaster = None if simple is None else unpack_forecaster(simple, arrays)
    for name in _LEARNED:
        setattr(ensemble, name, document["learned"][name])
    for name, saved in document["frames"].items():
        setattr(ensemble, name, unpack_frame(saved, arrays, name))
    if isinstance(ensemble, BlackBoxEnsemble):
        ensemble._take_policies(ensemble.members_)
        ensemble.init_ = arrays.get("init_", ensemble.init)
    if "assessed" in arrays:
        pairs, sign = (arrays["assessed"], arrays["realised"]), ensemble.terms_.sign
        ensemble.record_ = Record(*pairs, sign, ensemble.time_ordered_, curse=document["curse"])
    return ensemble


def _columns(groups: Any) -> Any:
    return None if callable(groups) else as_plain(groups)


def _groups(saved: dict[str, Any], given: Any, what: str = "groups") -> Any:
    if saved["callable"]:
        if not callable(given):
            raise InputError(f"the {what} were a callable and must be given again: load(path, groups=…).")
        return given
    if given is not None and (callable(given) or _columns(given) != saved["columns"]):
        raise InputError(f"the ensemble was fitted with {what}={saved['columns']!r}; got {given!r}. Leave groups= out.")
    return saved["columns"]
