"""A fitted ensemble of any kind as the contents of a file, and back."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.members.alignment import RowNames
from optensemble.persistence.archive import Arrays, Contents
from optensemble.persistence.check import check_contents
from optensemble.persistence.contents import DECISION
from optensemble.persistence.decision_file import pack_decision, restore_decision, restore_frames
from optensemble.persistence.packing import INIT_MODEL, GivenAgain
from optensemble.persistence.row_file import pack_rows, unpack_rows
from optensemble.persistence.stored_members import load_stored, pack_libraries, pack_stored


@dataclass(frozen=True)
class Source:
    """Where contents come from, the bytes that may be made of them, and the types that are trusted."""

    path: Path
    limit: int
    trusted: frozenset[str]


def pack_fit(
    ensemble: Any, *, keep_rows: bool, keep_members: bool, stacklevel: int, without: Collection[str] = ()
) -> Contents:
    """Return the contents of a file, with rows and estimators or not; those of members ``without`` are elsewhere."""
    document, arrays = pack_decision(ensemble) if isinstance(ensemble, DecisionEnsemble) else _pack_paper(ensemble)
    if isinstance(ensemble, DecisionEnsemble):
        document["rows"] = pack_rows(ensemble, arrays, keep=keep_rows, stacklevel=stacklevel)
    document["table"] = ensemble.table_
    all_named = set(document["columns"]) == set(document["names"])  # members that find their columns in any order
    document["labels"], document["features"] = ensemble.labels_, None if all_named else ensemble._known.features
    document["n_features"] = None if all_named else getattr(ensemble, "n_features_in_", None)
    blobs = _pack_members(ensemble, document, without) if keep_members else []
    return Contents(document, arrays, blobs)


def _pack_members(ensemble: Any, document: dict[str, Any], without: Collection[str]) -> list[bytes]:
    """Return the members that are estimators, and enter them in the document; without any it stays as it is."""
    blobs = list[bytes]()
    stored = pack_stored([each for each in ensemble.members_ if each[0] not in without], blobs)
    begins = document.get("init") == "model" and INIT_MODEL not in without
    initial = pack_stored([(INIT_MODEL, ensemble.init_)], blobs) if begins else {}
    found = {"stored": stored, "init_stored": initial.get(INIT_MODEL), "libraries": pack_libraries(blobs)}
    document |= {name: each for name, each in found.items() if each}
    return blobs


def restore_fit(contents: Contents, given: GivenAgain, source: Source, *, to_decide: bool = False) -> Any:
    """Return the ensemble, after checks of everything; ``to_decide`` without what no decision goes by."""
    document, arrays, blobs = contents
    check_contents(document, arrays, source.limit, len(blobs))
    stored = load_stored(document, blobs, given.members, source.trusted, source.limit, source.path)
    given = replace(given, stored=stored)
    whole = not to_decide or set(document["columns"]) != set(document["names"])
    decides = document["kind"] == DECISION
    ensemble: Any = (restore_decision if decides else _restore_paper)(document, arrays, given)
    if decides and whole:
        restore_frames(document, arrays, ensemble)
    if document.get("table"):
        ensemble.table_ = document["table"]
    ensemble._learn_names(names := _saved_names(document))
    if (count := document.get("n_features")) is not None:  # older files do not know it
        ensemble.n_features_in_ = count
    if decides and whole:
        unpack_rows(document.get("rows"), ensemble, arrays, names)
    return ensemble


def _pack_paper(ensemble: Any) -> tuple[dict[str, Any], Arrays]:
    from optensemble.persistence.paper_file import pack_paper  # white and black boxes are loaded when there is one

    return pack_paper(ensemble)


def _restore_paper(document: dict[str, Any], arrays: Arrays, given: GivenAgain) -> Any:
    from optensemble.persistence.paper_file import restore_paper

    return restore_paper(document, arrays, given)


def _saved_names(document: dict[str, Any]) -> RowNames:
    """Return the names that the fit has learned; older files have at most those of the job file's labels."""
    labels = document.get("labels") or (document.get("table") or {}).get("labels")
    distinct = labels is not None and 0 < len(set(labels)) == len(labels)
    return RowNames(labels if distinct else None, document.get("features"))
