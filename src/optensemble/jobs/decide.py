"""Decisions for tables of any length: batch by batch, so that memory does not grow with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble.ensembles.base import Answer
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError, OptEnsembleError
from optensemble.jobs.roles import FOLLOWED, HIGH, LOW, PROMISED
from optensemble.jobs.rows import require_allowed, wanted
from optensemble.jobs.saved_ensemble import Saved
from optensemble.tables.ids import Ids
from optensemble.tables.reading import BATCH, Tables, Wanted
from optensemble.tables.writing import new_table, require_place


@dataclass(frozen=True)
class Decisions:
    """What was written: how many rows, the promise of their mean payoff, and on how many each one is followed.

    ``unseen`` rows are of a group that no row fitted on was of.
    """

    rows: int
    promise: Promise
    followed: dict[str, int]
    unseen: int


def decide(
    saved: Saved, tables: Tables, out: Path, tell: Callable[[int], None] | None = None, batch: int = BATCH
) -> Decisions:
    """Decide for every row and write a row for each, in their order; the table is written whole or not at all."""
    require_place(out, [saved.path, *tables.paths])
    roles, assessed, followed, rows, unseen = saved.roles.to_decide(), Assessments(), Counter[int](), 0, 0
    needed = wanted(roles, saved.numbers)
    with ExitStack() as stack:
        table = stack.enter_context(new_table(out))
        ids = None if roles.id is None else stack.enter_context(Ids(roles.id, str(tables)))
        for part in tables.batches(needed, batch):
            part, strange = saved.grouped(part, roles)
            with _rows_named(saved, tables, part, rows):
                answer = saved.policy.answer(part)
            table.write(_columns(saved, part, answer))
            if ids is not None:
                ids.add(part[roles.id])
            assessed += Assessments.of(answer.assessed)
            followed.update(dict(enumerate(np.bincount(answer.chosen).tolist())))
            rows += len(part)
            unseen += strange
            if tell is not None:
                tell(rows)
        if not rows:
            raise InputError(f"{tables} has no rows. Give a table with rows to decide for.")
        if ids is not None:
            ids.require_distinct(lambda: _ids(tables, str(roles.id)))
    names = saved.ensemble.names_
    counts = {names[number]: count for number, count in followed.most_common() if count}
    return Decisions(rows, saved.policy.promise_of(assessed), counts, unseen)


def _columns(saved: Saved, part: pd.DataFrame, answer: Answer) -> dict[str, Any]:
    """Return the rows to write: id, actions, whom it follows, and what it promises of each."""
    roles, columns = saved.roles, dict[str, Any]()
    if roles.id is not None:
        columns[roles.id] = part[roles.id]
    columns |= {f"action_{name}": answer.actions[:, j] for j, name in enumerate(roles.coordinates)}
    names = np.array(saved.ensemble.names_, dtype=object)
    record = getattr(saved.ensemble, "record_", None)  # without validation an ensemble's own assessment boasts
    promised = answer.promised if record is None else record.correct(answer.assessed)
    columns |= {FOLLOWED: names[answer.chosen], PROMISED: promised, LOW: _known(answer.low), HIGH: _known(answer.high)}
    return columns


def _known(limits: Floats) -> Floats:
    """Return limits, with no value where there are none."""
    return np.where(np.isfinite(limits), limits, np.nan)


def _ids(tables: Tables, name: str) -> Iterator[pd.Series[Any]]:
    return (part[name] for part in tables.batches(Wanted(texts=(name,))))


@contextmanager
def _rows_named(saved: Saved, tables: Tables, part: pd.DataFrame, start: int) -> Iterator[None]:
    """Say in an error which rows were looked at."""
    try:
        yield
    except OptEnsembleError as error:
        for name, policy in saved.policies:
            require_allowed(part, name, policy, saved.ensemble.feasible, str(tables), start)
        where = f"{tables}, in the rows from {start:,} to {start + len(part) - 1:,}"
        raise type(error)(f"{where}, numbered anew from 0: {error}") from error
