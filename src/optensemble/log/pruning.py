"""Retention: what rows were decided by, and their labels, are deleted once they are old; what is deleted is counted."""

from __future__ import annotations

import time
from dataclasses import dataclass

from optensemble._core.validation import require_number
from optensemble.log.database import Database, Transaction
from optensemble.log.entries import OPENED
from optensemble.log.lead import Lead
from optensemble.log.schema import get_meta, set_meta

_DAY = 86_400.0  # seconds


@dataclass(frozen=True)
class Pruned:
    """How much was deleted: the ``rows`` of decisions, and the ``entries`` of decisions and labels."""

    rows: int
    entries: int


# what the state before the older checkpoint came from; of decisions only those whose rows all have labels or expired
_OLD = f"""
seq < (SELECT min(seq) FROM oe_checkpoint) AND at < :before AND content IS NOT NULL
AND (kind <> '{OPENED}' OR first + rows <= :open OR rows = (
  SELECT count(*) FROM oe_label l WHERE l.number >= oe_entry.first AND l.number < oe_entry.first + oe_entry.rows
))
"""


def prune(database: Database, lead: Lead, keep_days: float, open_from: int) -> Pruned:
    """Delete the contents of entries that are older than so many days, but for those with open rows.

    Rows before the number ``open_from`` have labels, or expired.
    """
    require_number(keep_days, "keep_days", at_least=0.0)
    before = time.time() - float(keep_days) * _DAY
    with database.writing() as transaction:
        lead.renew(transaction)
        terms = {"before": before, "open": open_from}
        rows = transaction.read(f"SELECT sum(rows) FROM oe_entry WHERE {_OLD} AND kind = '{OPENED}'", **terms)[0][0]
        entries = transaction.write(f"UPDATE oe_entry SET content = NULL WHERE {_OLD}", **terms)
        pruned = Pruned(int(rows or 0), entries)
        _count(transaction, "pruned_rows", pruned.rows)
        _count(transaction, "pruned_entries", pruned.entries)
    return pruned


def _count(transaction: Transaction, name: str, more: int) -> None:
    set_meta(transaction, name, str(int(get_meta(transaction, name) or 0) + more))
