"""From a log to the ensemble that it is of: the latest checkpoint, and the entries since."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from optensemble.ensembles._live_log import Entry, replay
from optensemble.exceptions import FileError, LogError
from optensemble.log.database import Database, Transaction, open_database
from optensemble.log.decision_log import DecisionLog
from optensemble.log.entries import EntryForm, require_next
from optensemble.log.lead import Lead
from optensemble.log.schema import migrate, require_log
from optensemble.persistence.files import load_bytes

_AT_A_TIME = 500  # entries


def resume_log(
    where: str | PathLike[str], given: Mapping[str, Any], *, refit_in: str | None, read_only: bool, wait: float
) -> Any:
    """Return the ensemble as of the last entry; it leads the log unless it only reads."""
    database = open_database(where)
    lead = None if read_only else Lead(database)
    try:
        require_log(database, current=read_only)
        if lead is not None:
            lead.take(wait)
            migrate(database)
        live, at = _rebuild(database, given)
        if refit_in is not None:
            live.refit_in = refit_in
        live._keep(DecisionLog(database, live, lead, at.seq, at.seq - at.checkpoint))
        if lead is not None:
            live._go_on(at.last)
    except BaseException:
        if lead is not None:
            lead.release()
        database.close()
        raise
    return live


class _Place(NamedTuple):
    """Where the log ends: the number of its last entry and of the checkpoint before, and the last entry itself."""

    seq: int
    checkpoint: int
    last: Entry | None


def _rebuild(database: Database, given: Mapping[str, Any]) -> tuple[Any, _Place]:
    with database.reading() as transaction:
        seq, live = _latest_checkpoint(transaction, database, given)
        live._logged = True  # refits that are made again use one thread, as they did
        form = EntryForm(live.ensemble_, live.policies_)
        checkpoint, last = seq, _entry_at(transaction, form, database.name, seq)
        for number, kind, content in _entries_after(transaction, seq):
            where = f"{database.name}: entry {number:,}"
            if number != seq + 1:
                raise LogError(
                    f"{database.name} lacks the entries from {seq + 1:,} to {number - 1:,}. Restore a backup."
                )
            last = form.unpack(kind, content, where)
            _replay(live, last, where)
            seq = number
    return live, _Place(seq, checkpoint, last)


def _replay(live: Any, entry: Entry, where: str) -> None:
    try:
        require_next(live, entry)
        replay(live, entry)
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise LogError(f"{where} does not follow from those before ({error}). Restore a backup.") from error


def _latest_checkpoint(transaction: Transaction, database: Database, given: Mapping[str, Any]) -> tuple[int, Any]:
    """Return the latest checkpoint that can be read, and its number: entries since lead to the same state from each."""
    found = [seq for (seq,) in transaction.read("SELECT seq FROM oe_checkpoint ORDER BY seq DESC")]
    if not found:
        raise LogError(f"{database.name} has no checkpoint to begin with. Restore a backup.")
    for seq in found:
        content = transaction.read("SELECT content FROM oe_checkpoint WHERE seq = :seq", seq=seq)[0][0]
        try:
            return seq, load_bytes(bytes(content), Path(f"checkpoint {seq}"), given)
        except FileError as error:
            if seq == found[-1]:
                raise LogError(f"{database.name}: {error} Or restore a backup of the log.") from error
            warnings.warn(f"{database.name}: {error} The checkpoint before it is used.", UserWarning, stacklevel=5)
    raise AssertionError


def _entry_at(transaction: Transaction, form: EntryForm, name: str, seq: int) -> Entry | None:
    """Return the entry that a checkpoint ends with, if there is one that was not pruned."""
    found = transaction.read("SELECT kind, content FROM oe_entry WHERE seq = :seq AND content IS NOT NULL", seq=seq)
    if not found:
        return None
    kind, content = found[0]
    return form.unpack(kind, content, f"{name}: entry {seq:,}")


def _entries_after(transaction: Transaction, seq: int) -> Iterator[tuple[int, str, bytes | None]]:
    while True:
        query = "SELECT seq, kind, content FROM oe_entry WHERE seq > :seq ORDER BY seq"
        rows = transaction.read(f"{query} LIMIT {_AT_A_TIME}", seq=seq)
        for number, kind, content in rows:
            yield number, kind, content
            seq = number
        if not rows:
            return
