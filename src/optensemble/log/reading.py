"""What is in a log: its latest decisions with their outcomes, and how much there is of everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from optensemble.ensembles._live_log import Learned, LoggedDecision, Opened
from optensemble.ensembles._live_rows import HIGH, LOW, PROMISED, RAW, ids_listed
from optensemble.log.database import Database, Transaction, read_among
from optensemble.log.entries import LEARNED, OPENED, EntryForm
from optensemble.log.schema import get_meta

_LAST = 1e11  # seconds: some three thousand years


@dataclass(frozen=True)
class LogCounts:
    """How much a log holds.

    Attributes
    ----------
    entries, decisions, labels, checkpoints
        Their numbers.
    pruned_rows, pruned_entries
        The numbers of rows and entries whose contents were deleted.
    bytes
        What it takes up on disk.
    first_at, last_at
        The moments of its first and last entry, in UTC; None if there are none.
    """

    entries: int
    decisions: int
    labels: int
    checkpoints: int
    pruned_rows: int
    pruned_entries: int
    bytes: int
    first_at: datetime | None
    last_at: datetime | None


def count_all(database: Database) -> LogCounts:
    """Return how much a log holds."""
    with database.reading() as transaction:
        checkpoints = int(transaction.read("SELECT count(*) FROM oe_checkpoint")[0][0])
        pruned = {f"pruned_{what}": int(get_meta(transaction, f"pruned_{what}") or 0) for what in ("rows", "entries")}
        ends = [transaction.read(f"SELECT seq, at FROM oe_entry ORDER BY seq {way} LIMIT 1") for way in ("", "DESC")]
        decisions, labels = _total(transaction, OPENED), label_count(transaction)
    first, last = (found[0] if found else (0, None) for found in ends)
    return LogCounts(
        entries=int(last[0]),
        decisions=decisions,
        labels=labels,
        checkpoints=checkpoints,
        **pruned,
        bytes=database.size(),
        first_at=moment(first[1]),
        last_at=moment(last[1]),
    )


def label_count(transaction: Transaction) -> int:
    """Return the number of labels in a log."""
    return _total(transaction, LEARNED)


def _total(transaction: Transaction, kind: str) -> int:
    """Return the number of rows of all entries of a kind, which the last of them knows."""
    query = f"SELECT first, rows FROM oe_entry WHERE kind = '{kind}' ORDER BY seq DESC LIMIT 1"
    return sum(int(each) for row in transaction.read(query) for each in row)


def moment(seconds: Any) -> datetime | None:
    """Return a time in UTC; None if there is none."""
    return None if seconds is None else datetime.fromtimestamp(min(max(float(seconds), 0.0), _LAST), UTC)


def latest_decisions(database: Database, form: EntryForm, n: int) -> list[LoggedDecision]:
    """Return the latest decisions, the newest first."""
    if n <= 0:
        return []
    with database.reading() as transaction:
        query = f"SELECT seq, first, rows FROM oe_entry WHERE kind = '{OPENED}' AND content IS NOT NULL"
        rows = list[tuple[int, int]]()  # entries, and numbers of rows
        for seq, first, count in transaction.read(f"{query} ORDER BY seq DESC LIMIT :most", most=n):
            rows += [(seq, number) for number in range(first + count - 1, first - 1, -1)][: n - len(rows)]
        decided = entries_of(transaction, form, database.name, OPENED, {seq for seq, _ in rows})
        labels = labels_of(transaction, [number for _, number in rows])
        learned = entries_of(transaction, form, database.name, LEARNED, {seq for seq, _ in labels.values()})
    return [as_decision(decided[seq], number, learned, labels.get(number)) for seq, number in rows]


Dated = tuple[datetime, Any]
"""An entry, and when it was made."""


def entries_of(
    transaction: Transaction, form: EntryForm, name: str, kind: str, seqs: Iterable[int]
) -> dict[int, Dated]:
    """Return entries by their numbers, but for those that were pruned."""
    query = "SELECT seq, at, content FROM oe_entry WHERE seq IN ({values}) AND content IS NOT NULL"
    return {
        seq: (moment(at) or datetime.fromtimestamp(0, UTC), form.unpack(kind, content, f"{name}: entry {seq:,}"))
        for seq, at, content in read_among(transaction, query, sorted(seqs))
    }


def labels_of(transaction: Transaction, numbers: list[int]) -> dict[int, tuple[int, int]]:
    """Return where the labels of rows are, by the rows' numbers: in which entry, and where in it."""
    query = "SELECT number, seq, place FROM oe_label WHERE number IN ({values})"
    return {number: (seq, place) for number, seq, place in read_among(transaction, query, numbers)}


def as_decision(
    decided: Dated, number: int, learned: dict[int, Dated], label: tuple[int, int] | None
) -> LoggedDecision:
    """Return the decision in the row with this number, with its outcome, if that is known."""
    at, entry = decided
    opened: Opened = entry
    rows = opened.rows
    place = number - int(rows.numbers[0])
    promises = rows.promises[place].tolist()
    outcome: dict[str, Any] = {}
    if label is not None and label[0] in learned:
        labelled_at, found = learned[label[0]]
        labels: Learned = found
        outcome = {"label": labels.given.labels[label[1]], "labelled_at": labelled_at}
        outcome["realised"] = float(labels.realised[label[1]])
    return LoggedDecision(
        id=ids_listed(np.asarray(rows.ids)[place : place + 1])[0],
        number=number,
        at=at,
        action=rows.played[place],
        **{name: promises[of] for name, of in {"promised": PROMISED, "low": LOW, "high": HIGH, "raw": RAW}.items()},
        weights=rows.weights[place],
        proposed=rows.proposed[:, place],
        fit=int(rows.fit[place]),
        **outcome,
    )
