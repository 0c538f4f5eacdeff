"""Fitted ensembles as files: JSON and npz, versioned, without pickle; loading runs no code of a file's choosing.

Members that are :class:`~optensemble._core.columns.Columns` are saved whole, and estimators by way of skops, where it
is installed. Functions, oracles and callable subgroups cannot be saved safely: they are given again to :func:`load`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from optensemble._core.validation import require_number
from optensemble.ensembles.base import Policy
from optensemble.exceptions import FileError, InputError, OptEnsembleError, RefitWarning
from optensemble.feasible import FeasibleSet
from optensemble.members.from_files import printable
from optensemble.persistence.archive import (
    LIMIT,
    SCHEMA_VERSION,
    Contents,
    contents_of_bytes,
    read_contents,
    write_archive,
)
from optensemble.persistence.contents import LIVE
from optensemble.persistence.fit_file import Source, pack_fit, restore_fit
from optensemble.persistence.packing import GivenAgain, by_name
from optensemble.persistence.stored_members import as_trusted

__all__ = ["SCHEMA_VERSION", "load", "save"]

_LONGEST_REASON = 500


def save(ensemble: Any, path: str | PathLike[str], *, keep_rows: bool = True, keep_members: bool = True) -> None:
    """Write a fitted ensemble to ``path``, whole or not at all, with rows and estimators or without."""
    pack = pack_fit if isinstance(ensemble, Policy) else _pack_live
    write_archive(Path(path), *pack(ensemble, keep_rows=keep_rows, keep_members=keep_members, stacklevel=5))


def load(
    path: str | PathLike[str],
    models: Any = None,
    policies: Any = None,
    feasible: FeasibleSet | None = None,
    groups: Any = None,
    limit: int = LIMIT,
    subgroups: Any = None,
    trusted: Sequence[str | type] | None = None,
    refit: Any = None,
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
    refit
        When a ``LiveEnsemble`` refits, if that was a callable.

    Returns
    -------
    The ensemble, answering as it did when it was saved, with the rows of a ``DecisionEnsemble`` unless they were
    forgotten. The rows of a white box or a black box are not in the file; the record of out-of-fold payoffs is, if
    there was one: of an ensemble with ``validation=None``, after ``cross_fit()``. A ``LiveEnsemble`` continues bit for
    bit as if it had not been saved; if it was saved without its rows, a warning says that it will not be refitted.

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
    return _load(Path(path), members, feasible, subgroups, int(limit), as_trusted(trusted), refit=refit)


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
    trusted: frozenset[str],
    *,
    refit: Any = None,
    to_decide: bool = False,
) -> Any:
    given, source = GivenAgain(members, feasible, subgroups), Source(path, limit, trusted)
    found = _restore(read_contents(path, limit), given, source, refit=refit, to_decide=to_decide)
    return found._without_log() if hasattr(found, "_without_log") else found


def _restore(
    contents: Contents, given: GivenAgain, source: Source, *, refit: Any = None, to_decide: bool = False
) -> Any:
    try:
        if isinstance(contents.document, dict) and contents.document.get("kind") == LIVE:
            return _restore_live(contents, given, source, refit)
        return restore_fit(contents, given, source, to_decide=to_decide)
    except (OptEnsembleError, RefitWarning):
        raise  # the members or the set that were given again do not fit; or warnings are errors
    except Exception as error:
        what = printable(str(error), _LONGEST_REASON).rstrip(".") or type(error).__name__
        raise FileError(f"{source.path} is not what this version writes: {what}. Save the ensemble again.") from error


def load_bytes(content: bytes, name: Path, given: Mapping[str, Any], limit: int = LIMIT) -> Any:
    """Return an ensemble from the bytes of what would be its file; ``given`` are arguments of :func:`load`."""
    members = {what: by_name(given.get(what), what) for what in ("models", "policies")}
    again = GivenAgain(members, given.get("feasible"), given.get("subgroups"))
    source = Source(name, limit, as_trusted(given.get("trusted")))
    return _restore(contents_of_bytes(content, name, limit), again, source, refit=given.get("refit"))


def _pack_live(live: Any, **options: Any) -> Contents:
    from optensemble.persistence.live_file import pack_live  # loaded when there is one

    return pack_live(live, **options)


def _restore_live(contents: Contents, given: GivenAgain, source: Source, refit: Any) -> Any:
    from optensemble.persistence.live_file import restore_live

    return restore_live(contents, given, source, refit)
