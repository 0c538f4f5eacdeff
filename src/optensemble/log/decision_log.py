"""A log: entries are appended, found again by the ids of rows, and condensed into checkpoints."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optensemble._core.validation import require_number
from optensemble.ensembles._live_log import Decided, Entry, Learned, LoggedDecision, Opened
from optensemble.ensembles._live_terms import BACKGROUND
from optensemble.exceptions import FileError, InputError, LogError, RefitWarning
from optensemble.log.database import Database, Transaction, read_among
from optensemble.log.entries import KINDS, OPENED, EntryForm
from optensemble.log.export import export_decisions
from optensemble.log.lead import Lead, describe
from optensemble.log.pruning import Pruned, prune
from optensemble.log.reading import LogCounts, count_all, label_count, latest_decisions
from optensemble.persistence.archive import LIMIT, bundle, contents_of_bytes
from optensemble.persistence.check_live import check_live
from optensemble.persistence.live_file import fits_of, pack_live
from optensemble.persistence.packing import under
from optensemble.persistence.parts import Wrong

REPLAYED = 10_000
"""Entries after which a checkpoint is due: replaying them takes some five seconds."""

_AT_CLOSE = 1_000  # entries: replaying fewer takes less time than a checkpoint
_MOST_LATEST = 1_000_000  # decisions that are read at a time: export has all
_KEPT = 2  # checkpoints: if the last one is damaged, the one before and the entries since lead to the same state


class DecisionLog:
    """The log of a LiveEnsemble.

    Attributes
    ----------
    name
        The file, or the URL without its password.
    """

    def __init__(self, database: Database, live: Any, lead: Lead | None, last: int = 0, since: int = 0) -> None:
        self._database, self._form, self._lead = database, EntryForm(live.ensemble_, live.policies_), lead
        self.name = database.name
        self._last, self._attempted, self._since, self._fits = last, last, since, live._now.fits
        self._content = b""
        self._live = weakref.ref(live)
        self._condensing: threading.Thread | None = None
        self._closed = self._told = False
        self._let_go = weakref.finalize(self, _let_go, database, lead)

    def __repr__(self) -> str:
        return f"DecisionLog({self.name})"

    # Entries

    def append(self, entry: Entry) -> None:
        """Keep an entry; once this returns, it will survive whatever becomes of the process."""
        lead = self.require_lead()
        content, seq = self._form.pack(entry), self.next
        self._attempted, self._content = seq, content
        with self._database.writing() as transaction:
            lead.renew(transaction)
            self._require_whole(transaction)
            _insert(transaction, seq, entry, content, lead.token)
        self._last = seq
        self._since += 1

    def _require_whole(self, transaction: Transaction) -> None:
        """Refuse to go on where entries are gone, as after a restore under a running process."""
        last = transaction.read("SELECT max(seq) FROM oe_entry")[0][0] or 0
        if last != self._last:
            raise LogError(
                f"{self.name} ends with entry {last:,}, and this process has written up to entry {self._last:,}. It "
                "was restored, or changed, meanwhile: resume from it."
            )

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def is_lost(self) -> bool:
        """Whether another process was found to lead by now: nothing can be written any more."""
        return self._lead is not None and self._lead.lost

    def probe(self) -> None:
        """Raise ``LogError`` if no entry could be written."""
        lead = self.require_lead()
        with self._database.writing() as transaction:
            lead.renew(transaction, always=True)

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return self._last + 1

    def arrived(self, seq: int) -> bool:
        """Return whether the entry with this number is kept, though its ``append`` was broken off."""
        if self._last >= seq or self._attempted < seq:
            return self._last >= seq
        token = self.require_lead().token
        with self._database.writing() as transaction:
            transaction.read(f"SELECT token FROM oe_lead{self._database.locking}")  # what is still under way ends first
            query = "SELECT content FROM oe_entry WHERE seq = :seq AND token = :token"
            found = transaction.read(query, seq=seq, token=token)
        if found and bytes(found[0][0] or b"") != self._content:
            raise LogError(f"{self.name} has another entry {seq:,} than this process has written. Resume from it.")
        if found:
            self._last = seq
        else:
            self._attempted = self._last
        return bool(found)

    def find(self, keys: Sequence[int]) -> Decided | None:
        """Return what was decided in rows with these keys; None if none was decided."""
        self.require_lead()
        with self._database.reading() as transaction:
            signed = np.array(keys, dtype=np.uint64).view(np.int64).tolist()
            query = "SELECT key, number, seq FROM oe_decision WHERE key IN ({values})"
            places = {key: (number, seq) for key, number, seq in read_among(transaction, query, signed)}
            if not places:
                return None
            seqs = sorted({seq for _, seq in places.values()})
            query = "SELECT seq, content FROM oe_entry WHERE seq IN ({values}) AND content IS NOT NULL"
            contents: dict[int, bytes] = dict(read_among(transaction, query, seqs))
        entries = {seq: self.entry(seq, OPENED, content) for seq, content in contents.items()}
        try:
            return _decided(signed, places, entries, self._form)
        except (ValueError, LookupError, TypeError) as error:
            raise LogError(f"{self.name} names rows that are not where they should be. Restore a backup.") from error

    def entry(self, seq: int, kind: str, content: bytes | None) -> Any:
        """Return an entry, after checks of everything."""
        return self._form.unpack(kind, content, f"{self.name}: entry {seq:,}")

    # Checkpoints

    def after_commit(self, live: Any) -> None:
        """Condense the entries so far into a checkpoint if that is due: a refit would take long to be made again."""
        if self._since >= REPLAYED or live._now.fits != self._fits:
            self.checkpoint(live)

    def checkpoint(self, live: Any) -> None:
        """Keep the state of an ensemble; one that refits in the background goes on meanwhile."""
        if live._now.running is not None or self._is_condensing:
            return
        seq, self._since, self._fits = self._last, 0, live._now.fits
        if live.refit_in != BACKGROUND:
            self._condense(live, seq)
            return
        work = threading.Thread(
            target=self._condense, args=(live._snapshot(), seq), name="optensemble log", daemon=True
        )
        work.start()
        self._condensing = work

    @property
    def _is_condensing(self) -> bool:
        return self._condensing is not None and self._condensing.is_alive()

    def _condense(self, live: Any, seq: int) -> None:
        try:
            content = pack_checkpoint(live)
        except Exception as error:  # all is in the entries, and can be replayed: no call may fail of it
            self._tell(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
            return
        try:
            with self._database.writing() as transaction:
                self.require_lead().renew(transaction)
                insert_checkpoint(transaction, seq, content)
        except LogError as error:  # all is in the entries
            if not self.is_lost:
                self._tell(str(error))

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            message = (
                f"{self.name} holds no checkpoint of the present state ({why}): resuming replays all since the last."
            )
            warnings.warn(message, RefitWarning, stacklevel=6)

    # Reading

    def latest(self, n: int) -> list[LoggedDecision]:
        """Return the latest decisions, at most ``n``, the newest first."""
        self._require_open()
        require_number(n, "n", at_least=0, whole=True)
        return latest_decisions(self._database, self._form, min(int(n), _MOST_LATEST))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all decisions with their outcomes as a table; return the number of its rows.

        The ending of the name says which kind of table: ``.parquet``, ``.csv`` or ``.arrow``.
        """
        self._require_open()
        return export_decisions(self._database, self._form, Path(path))

    def counts(self) -> LogCounts:
        """Return the numbers of entries, decisions, labels and bytes, and the first and last moment."""
        self._require_open()
        return count_all(self._database)

    @property
    def leader(self) -> str:
        """Who leads the log, in words."""
        self._require_open()
        with self._database.reading() as transaction:
            found = transaction.read("SELECT token, holder FROM oe_lead")
        return describe(found[0][1]) if found and found[0][0] else "nobody"

    # Retention

    def prune(self, keep_days: float) -> Pruned:
        """Delete what rows were decided by, and their labels, once they are older than so many days; it is counted.

        Open rows stay, and so does all that resuming needs. Ids stay known, so that none is decided twice.
        """
        lead, live = self.require_lead(), self._live()
        return prune(self._database, self._form, lead, keep_days, 0 if live is None else live._ledger.first_open)

    # The end

    def close(self, live: Any) -> None:
        """Let others lead."""
        if self._closed:
            return
        if self._condensing is not None:
            self._condensing.join()
        if self._lead is not None and self._since >= _AT_CLOSE and live._now.running is None:
            self._condense(live, self._last)
        self._closed = True
        self._let_go()

    def _require_open(self) -> None:
        if self._closed:
            raise LogError(f"{self.name} was closed. Resume from it: LiveEnsemble.resume(log).")

    def require_lead(self) -> Lead:
        """Raise ``LogError`` if the log was closed, or is only read."""
        self._require_open()
        if self._lead is None:
            raise LogError(f"{self.name} was opened to be read only. Resume from it without read_only to go on.")
        return self._lead


def _let_go(database: Database, lead: Lead | None) -> None:
    if lead is not None:
        lead.release()
    database.close()


def pack_checkpoint(live: Any) -> bytes:
    """Return the state of an ensemble as the bytes of a file; ``InputError`` if a file cannot hold it all."""
    contents = pack_live(live, keep_rows=True, keep_members=True, stacklevel=1)
    if live._learns and (why := contents.document["live"]["rows"]["why"]):
        raise InputError(why)
    content = bundle(*contents)
    try:  # what cannot be read is not kept: the checkpoint before, and the entries since, would be lost with it
        read = contents_of_bytes(content, Path("a checkpoint"))
        check_live(read.document["live"], under(read.arrays, "live"), fits_of(live), LIMIT)
    except (FileError, Wrong, LookupError) as error:
        raise InputError(f"a file cannot hold its state ({error}).") from error
    return content


def insert_checkpoint(transaction: Transaction, seq: int, content: bytes) -> None:
    """Keep a checkpoint, and the one before."""
    transaction.write("DELETE FROM oe_checkpoint WHERE seq = :seq", seq=seq)
    statement = "INSERT INTO oe_checkpoint (seq, at, content) VALUES (:seq, :at, :content)"
    transaction.write(statement, seq=seq, at=time.time(), content=content)
    kept = [seq for (seq,) in transaction.read("SELECT seq FROM oe_checkpoint ORDER BY seq DESC")][:_KEPT]
    transaction.write("DELETE FROM oe_checkpoint WHERE seq < :seq", seq=kept[-1])


def _insert(transaction: Transaction, seq: int, entry: Entry, content: bytes, token: str) -> None:
    """Insert an entry with the places of its rows."""
    numbers = _numbers(entry)
    transaction.write(
        "INSERT INTO oe_entry (seq, at, kind, token, first, rows, content)"
        " VALUES (:seq, :at, :kind, :token, :first, :rows, :content)",
        seq=seq,
        at=time.time(),
        kind=KINDS[type(entry)],
        token=token,
        first=_first(transaction, entry, numbers),
        rows=len(numbers),
        content=content,
    )
    if isinstance(entry, Opened):
        keys = entry.rows.keys.view(np.int64)
        order = np.argsort(keys)  # in the order of the table they lie nearer to each other
        ordered = {"key": keys[order].tolist(), "number": (numbers[0] + order).tolist()}
        transaction.insert("oe_decision", {**ordered, "seq": [seq] * len(keys)})
    elif isinstance(entry, Learned):
        places = range(len(numbers))
        transaction.insert("oe_label", {"number": numbers, "seq": [seq] * len(numbers), "place": places})


def _first(transaction: Transaction, entry: Entry, numbers: list[int]) -> int | None:
    """Return the number of the first row of decisions, and of labels how many came before: none is ever counted."""
    if isinstance(entry, Learned):
        return label_count(transaction)
    return numbers[0] if isinstance(entry, Opened) else None


def _numbers(entry: Entry) -> list[int]:
    """Return the numbers of the rows of an entry."""
    if isinstance(entry, Opened):
        return [int(number) for number in entry.rows.numbers.tolist()]
    return [int(number) for number in entry.given.numbers.tolist()] if isinstance(entry, Learned) else []


def _decided(
    keys: list[int], places: dict[int, tuple[int, int]], entries: dict[int, Opened], form: EntryForm
) -> Decided:
    """Return what was decided, in the order of the keys."""
    n, d = len(keys), form.fit.feasible_.dimension
    found = Decided(
        found=np.array([key in places for key in keys]),
        kept=np.zeros(n, dtype=np.bool_),
        contents=np.zeros(n),
        numbers=np.zeros(n, dtype=np.int64),
        played=np.zeros((n, d)),
        weights=np.zeros((n, form.policies)),
        promises=np.zeros((n, 5)),
    )
    for at, key in enumerate(keys):
        number, seq = places.get(key, (0, -1))
        if (entry := entries.get(seq)) is None:
            continue
        rows, place = entry.rows, number - int(entry.rows.numbers[0])
        if not 0 <= place < len(rows) or int(rows.keys.view(np.int64)[place]) != key:
            raise LookupError(f"row {number}")
        found.kept[at], found.numbers[at], found.contents[at] = True, number, entry.contents[place]
        found.played[at], found.weights[at] = rows.played[place], rows.weights[place]
        found.promises[at] = rows.promises[place]
    return found
