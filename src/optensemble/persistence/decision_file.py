"""A ``DecisionEnsemble`` as the contents of a file, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from optensemble._core.hashing import hash_labels
from optensemble.ensembles._watch import monitor_of
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.evaluation.payoff_record import Calibration, Record
from optensemble.evaluation.payoff_totals import PairTotals
from optensemble.evaluation.possible_payoffs import NOTHING_KNOWN
from optensemble.members.context import Context
from optensemble.members.subgroups import Grouping, Subgroups
from optensemble.persistence.archive import Arrays
from optensemble.persistence.contents import DECISION_FRAMES, DECISION_LEARNED
from optensemble.persistence.monitor_part import pack_monitor, unpack_monitor
from optensemble.persistence.packing import (
    GivenAgain,
    as_plain,
    match,
    pack_columns,
    pack_fields,
    pack_forecaster,
    pack_frame,
    pack_mending,
    pack_own_members,
    pack_range,
    pack_rule,
    pack_set,
    unpack_fields,
    unpack_forecaster,
    unpack_frame,
    unpack_mending,
    unpack_own_members,
    unpack_range,
    unpack_rule,
    unpack_set,
)
from optensemble.stacking.arm_choice import Choice
from optensemble.stacking.final_policy import FinalPolicy
from optensemble.stats.row_design import KnownClusters

_NO_SUBGROUPS = pack_rule(None)

MONITOR = "monitor"
"""The key of the monitor's arrays."""


def pack_decision(ensemble: DecisionEnsemble) -> tuple[dict[str, Any], Arrays]:
    """Return the contents of the file: text and single numbers, and arrays."""
    decider, record = ensemble.decider_, ensemble.record_
    arrays: Arrays = {
        "fingerprints_": ensemble.fingerprints_,
        "assessed": record.assessed,
        "realised": record.realised,
        "advantage_assessed": ensemble.advantage_.assessed,
        "advantage_realised": ensemble.advantage_.realised,
    }
    for name in ("clusters", "folds", "weights", "incomplete"):
        if getattr(record, name) is not None:
            arrays[name] = getattr(record, name)
    if ensemble._groups is not None:
        arrays["group_ids"] = ensemble._groups.ids
    _pack_totals(ensemble, arrays)
    pack_fields(decider.choice, arrays, "choice")
    document = {
        "kind": DecisionEnsemble.__name__,
        "names": [name for name, _ in ensemble.members_],
        "columns": pack_columns(ensemble.members_),
        "sense": ensemble._sense,
        "feasible": pack_set(ensemble._set, arrays),
        "learned": {name: as_plain(getattr(ensemble, name)) for name in DECISION_LEARNED},
        "decider": {"forecasts": list(decider.forecasts), "winner": decider.winner},
        "forecaster": pack_forecaster(decider.forecaster, arrays),
        "curse": record.curse,
        "unit": record.unit,
        "label_range": pack_range(record.labels),
        "absences": list(ensemble._absences),
        "on_error": ensemble.on_error,
        "groups": None if ensemble._groups is None else {"pooled": ensemble._groups.pooled},
        "subgroups": _pack_subgroups(ensemble._subgroups),
        "seed": ensemble._seed,
        "mending": pack_mending(ensemble._mending),
        **pack_own_members(ensemble),
        "context": _pack_context(ensemble, arrays),
        "watched": [float(each) for each in ensemble._watched],
        "monitor": pack_monitor(ensemble.monitor_, arrays, MONITOR),
        "frames": {name: pack_frame(getattr(ensemble, name), arrays, name) for name in DECISION_FRAMES},
    }
    return document, arrays


def _pack_subgroups(subgroups: Subgroups | None) -> dict[str, Any] | None:
    if subgroups is None:
        return None
    return {**pack_rule(subgroups.rule), "values": [list(known) for known in subgroups.grouping.values]}


def _pack_context(ensemble: DecisionEnsemble, arrays: Arrays) -> dict[str, Any]:
    """Return the context as it was given and the columns that were found; those that decide have a value to fill in."""
    if ensemble._context is not None:
        arrays["context/fill"] = ensemble._context.fill
    decides = None if ensemble._context is None else list(ensemble._context.columns)
    return {"given": as_plain(ensemble.context), "columns": list(ensemble._context_columns), "decides": decides}


def _unpack_context(saved: dict[str, Any] | None, ensemble: DecisionEnsemble, arrays: Arrays) -> None:
    """Restore the context; older files have none."""
    if saved is None:
        ensemble.context = None
        return
    ensemble.context, ensemble._context_columns = saved["given"], tuple(saved["columns"])
    if saved["decides"] is not None:
        ensemble._context = Context(tuple(saved["decides"]), arrays["context/fill"])


def _unpack_monitor(document: dict[str, Any], ensemble: DecisionEnsemble, arrays: Arrays) -> None:
    """Restore the monitor; of an older file it is new, and watches the promise of the fit as far as that is known."""
    if document.get("monitor") is not None:
        ensemble._watched = Calibration(*document["watched"])
        ensemble.monitor_ = unpack_monitor(document["monitor"], arrays, MONITOR)
        return
    record = ensemble.record_
    if record.totals is None and 0 < ensemble.n_rows_ < len(record) == ensemble.n_rows_ + ensemble.n_updated_:
        record = record.first(ensemble.n_rows_)
    ensemble._watched, ensemble.monitor_ = record.calibration, monitor_of(record, ensemble._sense)


def restore_decision(document: dict[str, Any], arrays: Arrays, given: GivenAgain) -> DecisionEnsemble:
    """Return the ensemble, answering as it did, before it has its tables and rows."""
    rule = unpack_rule(document.get("subgroups") or _NO_SUBGROUPS, given.subgroups)
    models, policies = _match_members(document, given)
    omega = unpack_set(document["feasible"], arrays, given.feasible)
    mending = unpack_mending(document.get("mending"))
    ensemble = DecisionEnsemble(models or None, policies or None, omega, document["sense"], rule, **mending)
    ensemble._take_terms(omega)
    ensemble.on_error = document.get("on_error", "raise")  # older files know of no absent members
    ensemble._absences = tuple(document.get("absences", ()))
    known = (document.get("subgroups") or {}).get("values")  # older files have none
    grouping = None if known is None else Grouping(tuple(tuple(values) for values in known))
    ensemble._subgroups = None if grouping is None else Subgroups(rule, grouping)
    ensemble.members_, ensemble._rows, ensemble._later = [*models, *policies], [], []
    ensemble._doubts = ()  # told when it was fitted
    ensemble._groups, ensemble._seed = _known_groups(document["groups"], arrays), document["seed"]
    for name in DECISION_LEARNED:
        setattr(ensemble, name, document["learned"][name])
    forecaster = unpack_forecaster(document["forecaster"], arrays)
    decider = document["decider"]
    choice = unpack_fields(Choice, arrays, "choice")
    names = tuple(decider["forecasts"])
    ensemble.decider_ = FinalPolicy(len(ensemble.members_), names, forecaster, choice, decider["winner"])
    ensemble.record_ = Record(
        arrays["assessed"],
        arrays["realised"],
        ensemble._sign,
        ensemble.time_ordered_,
        arrays.get("clusters"),
        document["curse"],
        arrays.get("folds"),
        arrays.get("record_rows"),
        _unpack_totals(arrays, "record"),
        arrays.get("weights"),
        document.get("unit", 1.0),
        arrays.get("incomplete"),
        unpack_range(document.get("label_range")),
    )
    ensemble.advantage_ = replace(
        ensemble.record_,
        assessed=arrays["advantage_assessed"],
        realised=arrays["advantage_realised"],
        totals=_unpack_totals(arrays, "advantage"),
        labels=NOTHING_KNOWN,
    )
    ensemble.fingerprints_ = arrays["fingerprints_"]
    _unpack_monitor(document, ensemble, arrays)
    unpack_own_members(document, ensemble)
    _unpack_context(document.get("context"), ensemble, arrays)
    return ensemble


def restore_frames(document: dict[str, Any], arrays: Arrays, ensemble: DecisionEnsemble) -> None:
    """Give an ensemble its tables."""
    for name in DECISION_FRAMES:
        setattr(ensemble, name, unpack_frame(document["frames"][name], arrays, name))


def _known_groups(saved: Any, arrays: Arrays) -> KnownClusters | None:
    """Return the groups known so far; older files list the label of every row."""
    if saved is None:
        return None
    if isinstance(saved, dict):
        return KnownClusters(arrays["group_ids"], saved["pooled"])
    # labels of several columns are tuples, for which JSON has lists
    labels = dict.fromkeys(tuple(label) if isinstance(label, list) else label for label in saved)
    return KnownClusters(hash_labels(list(labels)), pooled=False)


_TOTALS = ("folds", "bins", "clusters")


def _pack_totals(ensemble: DecisionEnsemble, arrays: Arrays) -> None:
    """Add the totals of records of very many rows."""
    for name, record in (("record", ensemble.record_), ("advantage", ensemble.advantage_)):
        if record.totals is None or record.rows is None:
            continue
        arrays["record_rows"] = record.rows
        totals = record.totals
        squares = [] if totals.weight_squares is None else [totals.weight_squares]
        arrays[f"{name}/limits"] = np.array([totals.centre, totals.low, totals.high, *squares])
        for part in _TOTALS:
            if getattr(record.totals, part) is not None:
                arrays[f"{name}/{part}"] = getattr(record.totals, part)


def _unpack_totals(arrays: Arrays, name: str) -> PairTotals | None:
    if f"{name}/limits" not in arrays:
        return None
    centre, low, high, *squares = arrays[f"{name}/limits"].tolist()
    bins, clusters = (arrays.get(f"{name}/{part}") for part in ("bins", "clusters"))
    return PairTotals(centre, arrays[f"{name}/folds"], bins, clusters, low, high, *squares)


def _match_members(document: dict[str, Any], given: GivenAgain) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    count, names, columns = document["learned"]["n_models_"], document["names"], document["columns"]
    stored = given.stored
    matched = [
        match(
            part,
            given.members[what],
            {name: columns[name] for name in part if name in columns},
            what,
            {name: stored.members[name] for name in part if name in stored.members},
            stored.reasons,
        )
        for part, what in ((names[:count], "models"), (names[count:], "policies"))
    ]
    return matched[0], matched[1]
