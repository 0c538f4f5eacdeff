"""A log as a table: a row for each decision, with what was promised, who proposed it, and its outcome."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from optensemble.ensembles._live_log import LoggedDecision
from optensemble.log.database import Database, Transaction
from optensemble.log.entries import LEARNED, OPENED, EntryForm
from optensemble.log.reading import Dated, as_decision, entries_of, labels_of
from optensemble.tables.writing import require_output_path, table_writer

_AT_A_TIME = 100  # entries
_MOST_LEARNED = 1_000  # entries of labels that are kept while rows that they belong to are written


def export_decisions(database: Database, form: EntryForm, path: Path) -> int:
    """Write all decisions whose contents are in the log to a table; return their number."""
    inputs = [Path(database.name)] if "://" not in database.name else []
    require_output_path(path, inputs)
    rows = 0
    with table_writer(path) as table:
        for decisions in _all_decisions(database, form):
            table.write(_columns(form, decisions))
            rows += len(decisions)
        if not rows:
            table.write(_columns(form, []))
    return rows


def _all_decisions(database: Database, form: EntryForm) -> Iterator[list[LoggedDecision]]:
    last, learned = -1, OrderedDict[int, Dated]()
    while True:
        with database.reading() as transaction:
            query = f"SELECT seq FROM oe_entry WHERE kind = '{OPENED}' AND content IS NOT NULL AND seq > :last"
            found = transaction.read(f"{query} ORDER BY seq LIMIT {_AT_A_TIME}", last=last)
            seqs = [seq for (seq,) in found]
            decided = entries_of(transaction, form, database.name, OPENED, seqs)
            numbers = [int(number) for _, entry in decided.values() for number in entry.rows.numbers]
            labels = labels_of(transaction, numbers)
            _fetch(transaction, form, database.name, {seq for seq, _ in labels.values()}, learned)
        if not seqs:
            return
        last = seqs[-1]
        yield [
            as_decision(dated, number, learned, labels.get(number))
            for _, dated in sorted(decided.items())
            for number in dated[1].rows.numbers.tolist()
        ]
        while len(learned) > _MOST_LEARNED:
            learned.popitem(last=False)


def _fetch(
    transaction: Transaction, form: EntryForm, name: str, seqs: set[int], learned: OrderedDict[int, Dated]
) -> None:
    learned.update(entries_of(transaction, form, name, LEARNED, seqs - learned.keys()))
    for seq in seqs & learned.keys():
        learned.move_to_end(seq)


def _columns(form: EntryForm, decisions: list[LoggedDecision]) -> dict[str, Any]:
    """Return decisions as columns; ids are text, for they may be of several kinds."""
    d = form.fit.feasible_.dimension
    names = [str(name) for name in form.fit.labels_ or range(d)]
    time = pa.timestamp("us", tz="UTC")

    def numbers(values: list[Any]) -> Any:
        found = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        return np.where(np.isfinite(found), found, np.nan)

    columns: dict[str, Any] = {
        "id": pa.array([str(each.id) for each in decisions], pa.string()),
        "number": np.array([each.number for each in decisions], dtype=np.int64),
        "decided_at": pa.array([each.at for each in decisions], time),
    }
    columns |= {f"action_{name}": numbers([each.action[j] for each in decisions]) for j, name in enumerate(names)}
    for name in ("promised", "low", "high", "realised"):
        columns[name] = numbers([getattr(each, name) for each in decisions])
    for j, name in enumerate(names):
        columns[f"label_{name}"] = numbers([None if each.label is None else each.label[j] for each in decisions])
    columns["labelled_at"] = pa.array([each.labelled_at for each in decisions], time)
    columns["fit"] = np.array([each.fit for each in decisions], dtype=np.int64)
    for i, policy in enumerate(form.names):
        columns[f"weight_{policy}"] = numbers([each.weights[i] for each in decisions])
    return columns
