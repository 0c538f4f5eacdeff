"""Retention: what rows were decided by, and their labels, are deleted once they are old; what is deleted is counted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble._core.validation import require_number
from optensemble.log.database import Database, Transaction
from optensemble.log.entries import LEARNED, OPENED, EntryForm
from optensemble.log.lead import Lead
from optensemble.log.schema import get_meta, set_meta

_DAY = 86_400.0  # seconds


@dataclass(frozen=True)
class Pruned:
    """How much was deleted: the ``rows`` of decisions, and the ``entries`` of decisions and labels."""

    rows: int
    entries: int


# before the older checkpoint, from which the state can be made again
_OLD = "seq < (SELECT min(seq) FROM oe_checkpoint) AND at < :before AND content IS NOT NULL"

# rows that all have labels, or expired
_CLOSED = """
first + rows <= :open OR rows = (
  SELECT count(*) FROM oe_label l WHERE l.number >= oe_entry.first AND l.number < oe_entry.first + oe_entry.rows
)
"""


def prune(database: Database, form: EntryForm, lead: Lead, keep_days: float, open_from: int) -> Pruned:
    """Delete the contents of entries that are older than so many days, but for those with open rows and their labels.

    Rows before the number ``open_from`` have labels, or expired.
    """
    require_number(keep_days, "keep_days", at_least=0.0)
    before = time.time() - float(keep_days) * _DAY
    with database.writing() as transaction:
        lead.renew(transaction)
        closed = f"{_OLD} AND kind = '{OPENED}' AND ({_CLOSED})"
        terms = {"before": before, "open": open_from}
        rows = transaction.read(f"SELECT sum(rows) FROM oe_entry WHERE {closed}", **terms)[0][0]
        entries = transaction.write(f"UPDATE oe_entry SET content = NULL WHERE {closed}", **terms)
        entries += transaction.write(
            f"UPDATE oe_entry SET content = NULL WHERE {_OLD} AND kind NOT IN ('{OPENED}', '{LEARNED}')", before=before
        )
        for seq in _labels_of_pruned(transaction, form, database.name, before):
            entries += transaction.write("UPDATE oe_entry SET content = NULL WHERE seq = :seq", seq=seq)
        pruned = Pruned(int(rows or 0), entries)
        _count(transaction, "pruned_rows", pruned.rows)
        _count(transaction, "pruned_entries", pruned.entries)
    return pruned


def _labels_of_pruned(transaction: Transaction, form: EntryForm, name: str, before: float) -> list[int]:
    """Return old entries of labels that belong to no row whose decision is kept."""
    query = f"SELECT first, rows FROM oe_entry WHERE kind = '{OPENED}' AND content IS NOT NULL ORDER BY first"
    kept = np.array(transaction.read(query), dtype=np.int64).reshape(-1, 2)
    found = list[int]()
    candidates = f"SELECT seq FROM oe_entry WHERE {_OLD} AND kind = '{LEARNED}'"
    for (seq,) in transaction.read(candidates, before=before):
        content = transaction.read("SELECT content FROM oe_entry WHERE seq = :seq", seq=seq)[0][0]
        entry: Any = form.unpack(LEARNED, content, f"{name}: entry {seq:,}")
        numbers = entry.given.numbers
        at = np.searchsorted(kept[:, 0], numbers, "right") - 1
        inside = (at >= 0) & (numbers < kept[at, 0] + kept[at, 1]) if len(kept) else np.zeros(len(numbers), bool)
        if not inside.any():
            found.append(int(seq))
    return found


def _count(transaction: Transaction, name: str, more: int) -> None:
    set_meta(transaction, name, str(int(get_meta(transaction, name) or 0) + more))
