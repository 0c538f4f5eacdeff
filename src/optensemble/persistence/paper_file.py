"""The paper's ensembles, white box and black box, as the contents of a file, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from optensemble._core.columns import Columns
from optensemble.ensembles._paper import PaperEnsemble
from optensemble.ensembles.base import INIT
from optensemble.ensembles.black_box import BlackBoxEnsemble
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.ensembles.white_box import WhiteBoxEnsemble
from optensemble.evaluation.payoff_record import Record
from optensemble.exceptions import InputError
from optensemble.members.estimators import unfitted
from optensemble.members.subgroups import Grouping
from optensemble.persistence.archive import Arrays
from optensemble.persistence.contents import PAPER_FRAMES, PAPER_LEARNED
from optensemble.persistence.packing import (
    INIT_MODEL,
    GivenAgain,
    as_plain,
    match,
    pack_columns,
    pack_forecaster,
    pack_frame,
    pack_log,
    pack_mending,
    pack_own_members,
    pack_range,
    pack_rule,
    pack_set,
    unpack_forecaster,
    unpack_frame,
    unpack_log,
    unpack_mending,
    unpack_own_members,
    unpack_range,
    unpack_rule,
    unpack_set,
)

_ENTRIES_OF_THEIR_OWN = ("feasible", "subgroups")
"""Parameters that are not plain: a set is made of arrays, and subgroups may be a function, which cannot be saved."""

_PARAMETERS = tuple(field.name for field in fields(Hyperparameters) if field.name not in _ENTRIES_OF_THEIR_OWN)
"""The plain parameters of ``WhiteBoxEnsemble`` and ``BlackBoxEnsemble``."""

_PAPER_KINDS: dict[str, type[PaperEnsemble]] = {kind.__name__: kind for kind in (WhiteBoxEnsemble, BlackBoxEnsemble)}


def pack_paper(ensemble: PaperEnsemble) -> tuple[dict[str, Any], Arrays]:
    """Return the contents of the file: text and single numbers, and arrays."""
    terms, grouping = ensemble.terms_, ensemble.grouping_
    arrays: Arrays = {"n_patches_": ensemble.n_patches_, "fingerprints_": ensemble.fingerprints_}
    document: dict[str, Any] = {
        "kind": type(ensemble).__name__,
        "names": [name for name, _ in ensemble.members_],
        "columns": pack_columns(ensemble.members_),
        "parameters": {name: as_plain(getattr(terms, name)) for name in _PARAMETERS},
        "learned": {name: as_plain(getattr(ensemble, name)) for name in PAPER_LEARNED},
        "feasible": pack_set(terms.feasible, arrays),
        "groups": pack_rule(terms.subgroups),
        "grouping": None if grouping is None else [list(values) for values in grouping.values],
        **pack_own_members(ensemble),
        "seed": ensemble._seed,
        "logs": [pack_log(log, arrays, f"log{number}") for number, log in enumerate(ensemble.log_)],
    }
    frames = {name: getattr(ensemble, name) for name in PAPER_FRAMES if hasattr(ensemble, name)}
    document["frames"] = {name: pack_frame(frame, arrays, name) for name, frame in frames.items()}
    if isinstance(ensemble, BlackBoxEnsemble):
        document["conditional"] = bool(ensemble.conditional)
        document["mending"] = pack_mending(ensemble._mending)
        document["init"] = "mean" if isinstance(ensemble.init_, np.ndarray) else "model"
        document["init_columns"] = list(ensemble.init_.names) if isinstance(ensemble.init_, Columns) else None
        if document["init"] == "mean":
            arrays["init_"] = ensemble.init_
    if ensemble.has_record:
        arrays["assessed"], arrays["realised"] = ensemble.record_.assessed, ensemble.record_.realised
        document["curse"] = ensemble.record_.curse
        document["label_range"] = pack_range(ensemble.record_.labels)
    simple = ensemble._forecaster
    document["simple"] = None if simple is None else pack_forecaster(simple, arrays)
    return document, arrays


def restore_paper(document: dict[str, Any], arrays: Arrays, given: GivenAgain) -> PaperEnsemble:
    """Return the ensemble, answering as it did; the rows it was fitted on are not in the file."""
    ensemble = _make_paper(document, arrays, given)
    values = document["grouping"]
    ensemble.grouping_ = None if values is None else Grouping(tuple(tuple(column) for column in values))
    ensemble.log_ = tuple(
        unpack_log(log, arrays, f"log{number}", ensemble.feasible.dimension)
        for number, log in enumerate(document["logs"])
    )
    ensemble.n_patches_, ensemble.fingerprints_ = arrays["n_patches_"], arrays["fingerprints_"]
    ensemble._rows, ensemble._stages, ensemble._streamed = [], [], False
    ensemble._seed = document.get("seed")  # older files do not know it
    ensemble._said = {}  # of rows that are not in the file
    ensemble._doubts = ()  # they are about rows that are not in the file
    simple = document["simple"]
    ensemble._forecaster = None if simple is None else unpack_forecaster(simple, arrays)
    for name in PAPER_LEARNED:
        setattr(ensemble, name, document["learned"][name])
    for name, saved in document["frames"].items():
        setattr(ensemble, name, unpack_frame(saved, arrays, name))
    if isinstance(ensemble, BlackBoxEnsemble):
        ensemble._take_policies(ensemble.members_)
        ensemble.init_ = arrays.get("init_", ensemble.init)
    unpack_own_members(document, ensemble)
    if isinstance(ensemble, BlackBoxEnsemble) and INIT in ensemble.cross_fitted_:
        ensemble.init = unfitted(ensemble.init_)
    if "assessed" in arrays:
        pairs, sign = (arrays["assessed"], arrays["realised"]), ensemble.terms_.sign
        labels = unpack_range(document.get("label_range"))
        ensemble.record_ = Record(*pairs, sign, ensemble.time_ordered_, curse=document["curse"], labels=labels)
    return ensemble


def _make_paper(document: dict[str, Any], arrays: Arrays, given: GivenAgain) -> PaperEnsemble:
    """Return the ensemble with its members and parameters, before anything learned."""
    kind = _PAPER_KINDS[document["kind"]]
    what = "models" if kind is WhiteBoxEnsemble else "policies"
    needed: dict[str, list[str]] = {"models": [], "policies": []}
    columns: dict[str, dict[str, list[Any]]] = {"models": {}, "policies": {}}
    needed[what], columns[what] = document["names"], document["columns"]
    stored = {"models": {}, "policies": {}, what: given.stored.members}
    if document.get("init") == "model":
        needed["models"] = [INIT_MODEL]
        columns["models"] = {INIT_MODEL: document["init_columns"]} if document["init_columns"] else {}
        stored["models"] = given.stored.initial
    matched = {
        name: match(needed[name], given.members[name], columns[name], name, stored[name], given.stored.reasons)
        for name in needed
    }
    parameters = {name: document["parameters"][name] for name in _PARAMETERS}
    parameters["subgroups"] = unpack_rule(document["groups"], given.subgroups)
    if kind is BlackBoxEnsemble:
        parameters["init"] = dict(matched["models"]).get(INIT_MODEL, "mean")
        parameters["conditional"] = document["conditional"]
        parameters |= unpack_mending(document.get("mending"))
    ensemble = kind(matched[what], unpack_set(document["feasible"], arrays, given.feasible), **parameters)
    ensemble.terms_ = Hyperparameters.of(ensemble)
    try:
        ensemble.terms_.check()
    except InputError as error:
        raise LookupError(f"its parameters are invalid: {error}") from error
    ensemble.members_, ensemble.names_ = matched[what], list(document["names"])
    return ensemble
