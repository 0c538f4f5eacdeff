"""Fitted ensembles as files: JSON and npz, versioned, without pickle; loading runs no code of a file's choosing.

Members that are :class:`~optensemble._core.columns.Columns` are saved whole, and estimators by way of skops, where it
is installed. Functions, oracles and callable subgroups cannot be saved safely: they are given again to :func:`load`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from optensemble._core.validation import require_number
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.exceptions import FileError, InputError, OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import RowNames
from optensemble.members.from_files import printable
from optensemble.persistence.archive import LIMIT, SCHEMA_VERSION, Arrays, read_contents, write_archive
from optensemble.persistence.check import check_contents
from optensemble.persistence.contents import DECISION
from optensemble.persistence.decision_file import pack_decision, restore_decision, restore_frames
from optensemble.persistence.packing import GivenAgain, by_name
from optensemble.persistence.row_file import pack_rows, unpack_rows
from optensemble.persistence.stored_members import as_trusted, load_stored, pack_libraries, pack_stored

__all__ = ["SCHEMA_VERSION", "load", "save"]

_LONGEST_REASON = 500


def save(ensemble: Any, path: str | PathLike[str], *, keep_rows: bool = True, keep_members: bool = True) -> None:
    """Write a fitted ensemble to ``path``, whole or not at all, with rows and estimators or without."""
    document, arrays = pack_decision(ensemble) if isinstance(ensemble, DecisionEnsemble) else _pack_paper(ensemble)
    if isinstance(ensemble, DecisionEnsemble):
        document["rows"] = pack_rows(ensemble, arrays, keep=keep_rows, stacklevel=4)
    document["table"] = ensemble.table_
    all_named = set(document["columns"]) == set(document["names"])  # members that find their columns in any order
    document["labels"], document["features"] = ensemble.labels_, None if all_named else ensemble._known.features
    document["n_features"] = None if all_named else getattr(ensemble, "n_features_in_", None)
    blobs = _pack_members(ensemble, document) if keep_members else []
    write_archive(Path(path), document, arrays, blobs)


def _pack_members(ensemble: Any, document: dict[str, Any]) -> list[bytes]:
    """Return the members that are estimators, and enter them in the document; without any it stays as it is."""
    blobs = list[bytes]()
    stored = pack_stored(ensemble.members_, blobs)
    initial = pack_stored([("init", ensemble.init_)], blobs) if document.get("init") == "model" else {}
    found = {"stored": stored, "init_stored": initial.get("init"), "libraries": pack_libraries(blobs)}
    document |= {name: each for name, each in found.items() if each}
    return blobs


def load(
    path: str | PathLike[str],
    models: Any = None,
    policies: Any = None,
    feasible: FeasibleSet | None = None,
    groups: Any = None,
    limit: int = LIMIT,
    subgroups: Any = None,
    trusted: Sequence[str | type] | None = None,
) -> Any:
    """Read an ensemble that was saved; parts that could not be saved safely are given again.

    Parameters
    ----------
    path
        The file.
    models, policies
        The members, by the names they had: a dict, or pairs of name and member. A black box that began with a model
        takes it as ``models={"init": …}``. Members that are ``Columns``, and estimators that were stored, are in the
        file, and need not be given; one that is given takes the place of the stored one, which is then not loaded.
    feasible
        The feasible set, if it was one that cannot be saved (``Oracle``, ``CvxpySet``, ``PyEPOSet``, a class of yours).
    groups
        The old name of ``subgroups``; it works with a ``FutureWarning``.
    limit
        The number of bytes that the file may take up, packed and unpacked; 2 GiB unless given.
    subgroups
        The subgroups, if they were a callable.
    trusted
        Types that stored estimators may consist of, by their full names, such as ``"lightgbm.basic.Booster"``, besides
        those of scikit-learn that are known to be safe. An error lists what a file needs.

    Returns
    -------
    The ensemble, answering as it did when it was saved, with the rows of a ``DecisionEnsemble`` unless they were
    forgotten. The rows of a white box or a black box are not in the file; the record of out-of-fold payoffs is, if
    there was one: of an ensemble with ``validation=None``, after ``cross_fit()``.

    Notes
    -----
    No file can run code or reach compiled code unchecked: every value is checked before anything is made of it, and
    any fault is a :class:`~optensemble.exceptions.FileError`. Of types that are ``trusted`` this cannot be said: their
    own code runs. The checksums in a file show accidents, not intent: load an ensemble that decides about money only
    from a place where only those you trust can write.
    """
    if groups is not None:
        if subgroups is not None:
            raise InputError("groups is the old name of subgroups, and both were given. Leave groups out.")
        warnings.warn("groups= is now called subgroups=. Give subgroups= instead.", FutureWarning, stacklevel=2)
        subgroups = groups
    members = {"models": by_name(models, "models"), "policies": by_name(policies, "policies")}
    if feasible is not None and not isinstance(feasible, FeasibleSet):
        raise InputError(f"feasible must be a set from optensemble.feasible; got {type(feasible).__name__}.")
    require_number(limit, "limit", at_least=1, whole=True)
    return _load(Path(path), members, feasible, subgroups, int(limit), as_trusted(trusted))


def load_to_decide(path: Path, trusted: Sequence[str | type] | None = None) -> Any:
    """Read an ensemble without its tables and the rows of the fit, if all members are columns: none decides by them.

    The file is checked as a whole all the same.
    """
    return _load(path, {"models": {}, "policies": {}}, None, None, LIMIT, as_trusted(trusted), to_decide=True)


def _load(
    path: Path,
    members: dict[str, dict[str, Any]],
    feasible: FeasibleSet | None,
    subgroups: Any,
    limit: int,
    trusted: Any,
    *,
    to_decide: bool = False,
) -> Any:
    document, arrays, blobs = read_contents(path, limit)
    try:
        check_contents(document, arrays, limit, len(blobs))
        stored = load_stored(document, blobs, members, trusted, limit, path)
        given = GivenAgain(members, feasible, subgroups, stored)
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
    except OptEnsembleError:
        raise  # the members or the set that were given again do not fit
    except Exception as error:
        what = printable(str(error), _LONGEST_REASON).rstrip(".") or type(error).__name__
        raise FileError(f"{path} is not what this version writes: {what}. Save the ensemble again.") from error
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
