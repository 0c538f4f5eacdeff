"""Decisions of a LiveEnsemble for tables of any length: each batch is in the log before it is handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from optensemble._core.deferred import pd
from optensemble.ensembles._live_answer import LiveAnswer
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.jobs.decision_columns import find_copied
from optensemble.jobs.live_rows import ids_beside
from optensemble.jobs.live_table import LiveTable
from optensemble.jobs.roles import FOLLOWED, HIGH, LOW, PROMISED
from optensemble.tables.arrow_columns import repeated_texts
from optensemble.tables.ids import IdRegister
from optensemble.tables.kept import find_date_columns
from optensemble.tables.reading import BATCH, ColumnSelection, Tables
from optensemble.tables.writing import require_output_path, table_writer

WEIGHT = "weight_"
"""Begins the names of columns of weights."""


@dataclass(frozen=True)
class LiveDecisions:
    """Summary of a table of decisions.

    Attributes
    ----------
    rows, before
        The number of rows, and of those that had been decided before.
    promised
        The mean of what was promised.
    weights
        The mean weight of each policy in what was played.
    unseen
        The number of rows of subgroups that no row of the fit was in.
    key
        The column of ids.
    """

    rows: int
    before: int
    promised: float
    weights: dict[str, float]
    unseen: int
    key: str


def decide_live_table(
    table: LiveTable,
    tables: Tables,
    out: Path,
    progress: Callable[[int], None] | None = None,
    batch: int = BATCH,
    keep: Sequence[str] = (),
) -> LiveDecisions:
    """Decide for every row and write the decisions in the order of the rows, atomically.

    A row that was decided before is written as it was decided. ``keep`` names columns to copy to the decisions.
    """
    live, columns = table.live, table.columns
    ids_beside(columns, tables, None)
    key = str(columns.roles.id)
    _require_own_key(table, key)
    require_output_path(out, list(tables.paths))
    copied = find_copied(replace(columns.roles, time=None), tables, keep)
    dates = find_date_columns(tables, copied.read)
    _require_distinct(tables, key)
    first, rows, unseen = live.decided_, 0, 0
    promised, weights = 0.0, np.zeros(len(live.policies_))
    with table_writer(out) as written:
        for part in table.read(tables, size=batch, kept=copied.read, dates=dates):
            with _telling(live.log, rows):
                answer = table.answer(part, tables, rows)
            written.write({key: part.ids, **part.kept, **answer_columns(answer, table.coordinates)})
            rows, unseen = rows + len(part.ids), unseen + part.unseen
            promised, weights = promised + float(answer.promised.sum()), weights + answer.chosen.sum(axis=0)
            if progress is not None:
                progress(rows)
        if not rows:
            raise InputError(f"{tables} has no rows. Give a table with rows to decide for.")
    by_policy = dict(zip(live.policies_, (weights / rows).tolist(), strict=True))
    return LiveDecisions(rows, rows - (live.decided_ - first), promised / rows, by_policy, unseen, key)


def answer_columns(answer: LiveAnswer, coordinates: Sequence[str]) -> dict[str, Any]:
    """Return what was decided: actions, the heaviest policy, the promised payoff, its limits, and the weights."""
    return {
        **{f"action_{name}": answer.actions[:, j] for j, name in enumerate(coordinates)},
        FOLLOWED: repeated_texts(answer.policies, answer.chosen.argmax(axis=1)),
        PROMISED: answer.promised,
        **{
            name: np.where(np.isfinite(limits), limits, np.nan)
            for name, limits in ((LOW, answer.low), (HIGH, answer.high))
        },
        **{f"{WEIGHT}{name}": answer.chosen[:, i] for i, name in enumerate(answer.policies)},
    }


def _require_own_key(table: LiveTable, key: str) -> None:
    if key in [f"{WEIGHT}{name}" for name in table.live.policies_]:
        raise InputError(f"the id column {key!r} has the name of a column of the decisions. Rename it.")


def _require_distinct(tables: Tables, key: str) -> None:
    """Raise ``InputError`` on ids that are there twice, before any row is decided."""

    def all_ids() -> Iterator[pd.Series[Any]]:
        return (part[key] for part in tables.batches(ColumnSelection(texts=(key,))))

    with IdRegister(key, str(tables)) as register:
        for ids in all_ids():
            register.add(ids)
        register.require_distinct(all_ids)


@contextmanager
def _telling(log: Any, rows: int) -> Iterator[None]:
    """Let an error say that rows before it were decided for good."""
    try:
        yield
    except OptEnsembleError as error:
        if not rows:
            raise
        kept = f"The {rows:,} rows before are decided, and in {log.name}: the same table will give the same decisions."
        raise type(error)(f"{error} {kept}") from error
