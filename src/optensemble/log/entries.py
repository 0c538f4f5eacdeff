"""Entries of a log as bytes, and back: checked as a file is, for what they hold goes through compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble.ensembles._live_log import Due, Entry, Learned, Opened, TakenUp
from optensemble.ensembles._live_refits import Arrived
from optensemble.ensembles._live_rows import OpenRows
from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError, LogError
from optensemble.log.packing import pack, unpack
from optensemble.log.rows import check_rows, pack_rows, unpack_rows
from optensemble.members.validation import row_count
from optensemble.persistence.archive import LIMIT, Arrays
from optensemble.persistence.check_common import SavedFile
from optensemble.persistence.check_live import OPEN, check_open_rows
from optensemble.persistence.check_rows import check_column, check_memory
from optensemble.persistence.live_file import pack_ids, unpack_open_rows
from optensemble.persistence.parts import MOST_COUNTED, Part, Shelf, Wrong, require_plain
from optensemble.persistence.row_file import NotKeptError, pack_column, unpack_column

OPENED, LEARNED, DUE, TAKEN_UP = "opened", "learned", "due", "taken up"
KINDS: dict[type, str] = {Opened: OPENED, Learned: LEARNED, Due: DUE, TakenUp: TAKEN_UP}
"""What entries are called in a log."""

_MOST_LETTERS = 10_000


@dataclass(frozen=True, eq=False)
class EntryForm:
    """How entries are written and read: by the fit that a log began with, and the names of the policies."""

    fit: Policy
    names: tuple[str, ...]

    @property
    def policies(self) -> int:
        """The number of policies."""
        return len(self.names)

    def pack(self, entry: Entry) -> bytes:
        """Return an entry as bytes."""
        arrays = Arrays()
        if isinstance(entry, Opened):
            document = _pack_opened(self.fit, entry, arrays)
        elif isinstance(entry, Learned):
            document = _pack_learned(entry, arrays)
        elif isinstance(entry, Due):
            document = {"why": entry.why, "due_at": entry.due_at}
        else:
            document = {"failed": entry.failed}
        try:  # what could not be read again is not kept
            self._check(KINDS[type(entry)], document, arrays, written=True)
            return pack(document, arrays)
        except (Wrong, ValueError, LookupError, TypeError) as error:
            raise InputError(f"a log cannot hold this: {str(error).rstrip('.')}. Give other rows or labels.") from error

    def unpack(self, kind: str, content: bytes | None, where: str) -> Entry:
        """Return an entry, after checks of everything; ``where`` it lies is for errors."""
        try:
            if content is None:
                raise ValueError("it was pruned")
            document, arrays = unpack(bytes(content))
            require_plain(document)
            self._check(kind, document, arrays)
            return self._read(kind, document, arrays)
        except (Wrong, ValueError, LookupError, TypeError, RecursionError, MemoryError) as error:
            raise LogError(f"{where} is damaged ({error}). Restore the log from a backup.") from error

    def _check(self, kind: str, document: Any, arrays: Arrays, *, written: bool = False) -> None:
        """Raise :class:`Wrong` unless an entry of this kind could have been written."""
        omega = self.fit.feasible_
        file = SavedFile(Part(document, "entry"), Shelf(arrays | {"lower": omega.lower, "upper": omega.upper}), LIMIT)
        root = file.root
        if kind == OPENED:
            self._check_opened(file, None if written else root["ids"])
        elif kind == LEARNED:
            _check_learned(file)
        elif kind == DUE:
            root["due_at"].whole()
            _require_text(root["why"])
        elif kind == TAKEN_UP:
            _require_text(root["failed"])
        else:
            raise ValueError(f"it is of kind {kind!r:.40}")

    def _check_opened(self, file: SavedFile, ids: Part | None) -> None:
        root, fit = file.root, self.fit
        n = len(file.shelf.wholes("open/numbers", None))
        if not n:
            raise Wrong("open/numbers", "have rows", n)
        check_memory(file)
        check_open_rows(file, ids, fit, self.policies, n, decided=MOST_COUNTED, fits=MOST_COUNTED)
        file.shelf.take("contents", "f", n)
        if (x := root.get("x")) is not None:
            check_rows(file, x, "open/x", n)
        root.require(x is not None or not fit.feasible_.needs_table, "have the rows of X")

    def _read(self, kind: str, document: Any, arrays: Arrays) -> Entry:
        if kind == OPENED:
            n, x = len(arrays["open/numbers"]), document["x"]
            X = None if x is None else unpack_rows(x, arrays, "open/x")
            return Opened(unpack_open_rows(document["ids"], arrays, slice(0, n), X, self.fit), arrays["contents"])
        if kind == LEARNED:
            groups = document["groups"]
            known = None if groups is None else unpack_column(groups, arrays, "groups")
            given = Arrived(arrays["numbers"], None, arrays["labels"], arrays.get("weights"), known)
            return Learned(given, arrays["realised"])
        return Due(document["why"], document["due_at"]) if kind == DUE else TakenUp(document["failed"])


def _pack_opened(fit: Policy, entry: Opened, arrays: Arrays) -> dict[str, Any]:
    rows = entry.rows
    for name in OPEN:
        arrays[f"open/{name}"] = getattr(rows, name)
    if fit.feasible_.varies:
        arrays["open/values"] = rows.omega.values
    arrays["contents"] = entry.contents
    ids = pack_ids([rows.ids], arrays)
    try:
        x = None if rows.X is None else pack_rows(rows.X, arrays, "open/x")
    except NotKeptError as error:
        raise InputError(
            f"{error}, which a log cannot hold. Give X as an array of numbers, or as a pandas frame of numbers, text "
            "and dates."
        ) from error
    return {"ids": ids, "x": x}


def _pack_learned(entry: Learned, arrays: Arrays) -> dict[str, Any]:
    given = entry.given
    arrays |= {"numbers": given.numbers, "labels": given.labels, "realised": entry.realised}
    if given.weights is not None:
        arrays["weights"] = given.weights
    groups = given.groups
    try:
        return {"groups": None if groups is None else pack_column(groups, arrays, "groups", "the groups")}
    except NotKeptError as error:
        raise InputError(f"{error}, which a log cannot hold. Give groups of text or whole numbers.") from error


def _check_learned(file: SavedFile) -> None:
    shelf = file.shelf
    numbers = shelf.wholes("numbers", None)
    n = len(numbers)
    if not n or (np.diff(numbers) <= 0).any():
        raise Wrong("numbers", "ascend", numbers)
    shelf.floats("labels", n, file.d)
    shelf.floats("realised", n)
    if "weights" in shelf and shelf.floats("weights", n).min() < 0:
        raise Wrong("weights", "be at least 0", shelf.floats("weights", n))
    if (groups := file.root.get("groups")) is not None:
        check_column(file, groups, "groups", n)


def _require_text(part: Part) -> None:
    part.require(len(part.text()) <= _MOST_LETTERS, f"have at most {_MOST_LETTERS:,} letters")


def require_next(live: Any, entry: Entry) -> None:
    """Raise ``ValueError`` unless an entry can follow what an ensemble knows: compiled code goes by row numbers."""
    ledger = live._ledger
    if isinstance(entry, Opened):
        rows: OpenRows = entry.rows
        keys = rows.keys.tolist()
        if rows.numbers[0] != ledger.decided or rows.numbers[-1] != ledger.decided + len(rows) - 1:
            raise ValueError(f"its rows are not those after row {ledger.decided:,}")
        if not (ledger.places.keys().isdisjoint(keys) and ledger.closed.keys().isdisjoint(keys)):
            raise ValueError("it has ids that were given before")
        if int(rows.fit.max()) > live._now.fits:
            raise ValueError("its rows were decided by a fit that is not there")
        if rows.X is None and live._learns:
            raise ValueError("it lacks the rows of X")
        if rows.X is not None and row_count(rows.X) != len(rows):
            raise ValueError("it has other rows of X")
    elif isinstance(entry, Learned):
        if not ledger.are_open(entry.given.numbers):
            raise ValueError("its rows are not open")
    elif isinstance(entry, Due) == (live._now.running is not None):
        raise ValueError("it is of a refit that was not begun, or begun twice")
