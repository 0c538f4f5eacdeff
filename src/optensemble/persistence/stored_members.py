"""Members that are estimators, as parts of a file, and back: what is stored, must be trusted, or is missing.

An entry of the document describes one member::

    {"kind": "estimator", "blobs": [0], "trust": []}               one estimator
    {"kind": "per_label", "blobs": [1, 2, 3], "trust": ["a.B"]}    a list of them, one for each label
    {"kind": "missing", "why": "…"}                                not in the file, and the reason
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from optensemble._core.suggestions import listed
from optensemble.ensembles.base import Policy
from optensemble.exceptions import FileError, InputError
from optensemble.members.estimators import parts_of
from optensemble.members.from_files import note_stored, printable
from optensemble.members.per_label import PerLabel
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.estimator_blobs import dump_estimator, has_skops, library_versions, load_estimator
from optensemble.persistence.estimator_types import require_name
from optensemble.persistence.parts import Part

ESTIMATOR, PER_LABEL, MISSING = "estimator", "per_label", "missing"

_NO_SKOPS = "skops was not installed when the file was saved"
_NO_SKOPS_NOW = "skops is not installed here: pip install 'optensemble[skops]'"
_LONGEST_REASON = 200
_LONGEST_VERSION = 40

Entry = dict[str, Any]


class UntrustedTypesError(InputError):
    """Stored members of types that are not trusted; ``types`` lists them."""

    def __init__(self, message: str, types: list[str]) -> None:
        super().__init__(message)
        self.types = types


# Packing


def pack_stored(members: Iterable[tuple[str, Any]], blobs: list[bytes]) -> dict[str, Entry]:
    """Add the members that are estimators to the blobs, and return an entry for each of them; others have none."""
    found = {name: _estimators(member) for name, member in members}
    return {name: _pack_entry(*parts, blobs) for name, parts in found.items() if parts is not None}


def _estimators(member: Any) -> tuple[str, list[Any]] | None:
    """Return the kind of a member, and the estimators it consists of; None if it is something else.

    An ensemble of ours is: its own file is checked, and what skops would make of it is not.
    """
    several = parts_of(member)
    if not several or any(not hasattr(each, "get_params") or isinstance(each, type | Policy) for each in several):
        return None
    return (PER_LABEL if isinstance(member, PerLabel) else ESTIMATOR), several


def _from_estimators(kind: str, estimators: list[Any]) -> Any:
    """Return the member again."""
    return PerLabel(estimators) if kind == PER_LABEL else estimators[0]


def _pack_entry(kind: str, estimators: Sequence[Any], blobs: list[bytes]) -> Entry:
    if not has_skops():
        return {"kind": MISSING, "why": _NO_SKOPS}
    try:
        dumped = [dump_estimator(each) for each in estimators]
    except Exception as error:  # skops and the estimators raise many kinds; the member is then given again
        why = f"skops cannot store it ({type(error).__name__}: {error})"
        return {"kind": MISSING, "why": printable(why, _LONGEST_REASON)}
    first = len(blobs)
    blobs += [blob for blob, _ in dumped]
    trust = sorted({name for _, types in dumped for name in types})
    return {"kind": kind, "blobs": list(range(first, len(blobs))), "trust": trust}


def pack_libraries(blobs: list[bytes]) -> dict[str, str] | None:
    """Return the versions of the libraries that stored members are of; None without such members."""
    return library_versions() if blobs else None


def check_stored(file: SavedFile, count: int) -> None:
    """Check the entries of stored members, each of which has its own blobs."""
    root, used = file.root, list[int]()
    if (stored := root.get("stored")) is not None:
        known = isinstance(stored.value, dict) and set(stored.value) <= set(file.names)
        stored.require(known, "belong to members")
        for name in stored.value:
            used += _check_entry(stored[name], file.d)
    if (initial := root.get("init_stored")) is not None:
        used += _check_entry(initial, file.d)
    root.require(sorted(used) == list(range(count)), f"have a member for each of {count} parts")
    if (libraries := root.get("libraries")) is not None:
        for name in ("scikit-learn", "skops"):
            version = libraries[name].text()
            libraries[name].require(version == printable(version, _LONGEST_VERSION), "be a version")


def _check_entry(entry: Part, d: int) -> list[int]:
    if (kind := entry["kind"].choice([ESTIMATOR, PER_LABEL, MISSING])) == MISSING:
        why = entry["why"].text()
        entry["why"].require(why == printable(why, _LONGEST_REASON), f"be a line of at most {_LONGEST_REASON} letters")
        return []
    for name in entry["trust"].texts():
        require_name(name)
    numbers = [number.whole() for number in entry["blobs"]]
    entry["blobs"].require(len(numbers) == (d if kind == PER_LABEL else 1), "have a part for each estimator")
    return numbers


# Unpacking


@dataclass
class StoredMembers:
    """Members as they were stored, by name, the initial model of a black box, and why others are missing."""

    members: dict[str, Any] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def load_stored(
    document: dict[str, Any],
    blobs: list[bytes],
    given: dict[str, dict[str, Any]],
    trusted: frozenset[str],
    limit: int,
    path: str | PathLike[str],
) -> StoredMembers:
    """Load the members that are not given again; refuse types that are not trusted, all of them at once."""
    found, asked = StoredMembers(), dict[str, set[str]]()
    initial = {"init": entry} if (entry := document.get("init_stored")) else {}
    again = {**given["models"], **given["policies"]}
    for entries, members, known in (
        (document.get("stored") or {}, found.members, again),
        (initial, found.initial, given["models"]),
    ):
        for name, entry in entries.items():
            if name in known:
                continue
            if entry["kind"] == MISSING or not has_skops():
                found.reasons[name] = entry.get("why", _NO_SKOPS_NOW)
                continue
            parts, types = _load_entry(name, entry, blobs, trusted, limit)
            if types:
                asked[name] = types
            members[name] = _from_estimators(entry["kind"], parts)
            note_stored(members[name])
    if asked:
        raise _untrusted(path, asked, initial)
    if found.members or found.initial:
        _warn_of_version(path, document.get("libraries") or {})
    return found


def _load_entry(
    name: str, entry: Entry, blobs: list[bytes], trusted: frozenset[str], limit: int
) -> tuple[list[Any], set[str]]:
    try:
        loaded = [load_estimator(blobs[number], trusted, limit) for number in entry["blobs"]]
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"the member {name!r} cannot be loaded here: {error}. Install what it is of, or give it again to load."
        ) from error
    except FileError as error:
        raise FileError(f"member {name!r} {error}") from error
    except Exception as error:  # load says which file it is
        raise ValueError(f"the member {name!r} cannot be loaded: {str(error) or type(error).__name__}") from error
    types = set[str]().union(*(types for _, types in loaded))
    return [estimator for estimator, _ in loaded], types | (set(entry["trust"]) - trusted if types else set())


def _untrusted(path: str | PathLike[str], asked: dict[str, set[str]], initial: dict[str, Any]) -> UntrustedTypesError:
    types = sorted(set[str]().union(*asked.values()))
    quoted, name = ", ".join(f'"{each}"' for each in types), next(iter(asked))
    what = "models" if name in initial else "models or policies"
    return UntrustedTypesError(
        f"{path} holds types that are not trusted, in {listed(list(asked))}: {', '.join(types)}. Loading them may run "
        f"their code, and hand unchecked numbers to compiled code. If you trust the file: load(path, "
        f"trusted=[{quoted}]). Or give the member again, among {what}: {{{json.dumps(name)}: …}}.",
        types,
    )


def _warn_of_version(path: str | PathLike[str], saved: dict[str, str]) -> None:
    """Warn if scikit-learn is of another version, in its first two numbers, than the one that members are of."""
    was, now = saved.get("scikit-learn", ""), library_versions()["scikit-learn"]
    if was.split(".")[:2] != now.split(".")[:2]:
        warnings.warn(
            f"{path}: its members are of scikit-learn {was}, and this is {now}: predictions may differ. Fit them "
            f"again, or install scikit-learn {was}.",
            UserWarning,
            stacklevel=6,
        )


def as_trusted(trusted: Any) -> frozenset[str]:
    """Return the names of the types that whoever loads a file trusts."""
    if trusted is None:
        return frozenset()
    names = [trusted] if isinstance(trusted, str) else trusted
    named: list[Any] = list(names) if isinstance(names, Iterable) else [None]
    found: list[Any] = [f"{each.__module__}.{each.__qualname__}" if isinstance(each, type) else each for each in named]
    if not all(isinstance(each, str) and "." in each for each in found):
        raise InputError(
            f"trusted must list types by their full names, such as ['lightgbm.basic.Booster']; got {trusted!r}."
        )
    return frozenset(found)
