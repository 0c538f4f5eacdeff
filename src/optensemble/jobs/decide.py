"""Decisions for tables of any length, in batches: memory does not grow with the rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from optensemble._core.deferred import pd
from optensemble._core.overlap import ahead, behind
from optensemble.ensembles.base import Policy
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import FallbackWarning, InfeasibleActionError, InputError, OptEnsembleError
from optensemble.jobs.decision_columns import decision_columns, find_copied
from optensemble.jobs.row_checks import MendingTerms, count_absences, require_feasible_actions
from optensemble.jobs.rows import RowPlace, RowReader
from optensemble.jobs.saved_ensemble import SavedEnsemble
from optensemble.tables.ids import IdRegister
from optensemble.tables.kept import find_date_columns, split_kept
from optensemble.tables.reading import BATCH, ColumnSelection, NumberBatch, Tables
from optensemble.tables.writing import require_output_path, table_writer


@dataclass(frozen=True)
class DecisionSummary:
    """Summary of a table of decisions: rows, their self-assessments by the policy, and rows per followed member.

    ``unseen`` counts rows of subgroups that were not in the rows of the fit, ``beyond`` rows whose own bounds go beyond
    those of the fitting rows, and ``fallback`` rows that could not be solved and took the fallback action. ``key`` is
    the first column, which tells rows apart. ``absent`` counts rows in which each member has no value, ``nobody`` those
    in which no member has one, and ``mended`` those in which a policy was off by rounding and was moved onto the set.
    """

    rows: int
    policy: Policy = field(repr=False)
    assessed: Assessments = field(repr=False)
    followed: dict[str, int]
    unseen: int
    beyond: int = 0
    fallback: int = 0
    mended: int = 0
    nobody: int = 0
    key: str = ""
    absent: dict[str, int] = field(default_factory=dict)

    @cached_property
    def promise(self) -> Promise:
        """The promise of the mean payoff; made when it is asked for, for its interval takes a tenth of a second."""
        return self.policy.promise_of(self.assessed, self.absent)

    @property
    def unlike(self) -> bool:
        """Whether the rows are unlike the fitting rows, so that the promise may not hold."""
        return self.policy.finds_unlike(self.assessed, self.absent)


_READ_AHEAD = 3  # batches: while the first is decided, compiled code is loaded, and another core has nothing to do

Part: TypeAlias = "pd.DataFrame | NumberBatch"
"""The rows of a batch."""

Over = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Maps a function over parts, in their order: as :func:`map`, here or elsewhere."""


def decide_table(
    saved: SavedEnsemble,
    tables: Tables,
    out: Path,
    progress: Callable[[int], None] | None = None,
    batch: int = BATCH,
    over: Over | None = None,
    keep: Sequence[str] = (),
) -> DecisionSummary:
    """Decide for every row and write the decisions in the order of the rows, atomically.

    ``over`` maps the deciding over batches; by default it is done here, one after the other. ``keep`` names columns to
    copy to the decisions.
    """
    require_output_path(out, [saved.path, *tables.paths])
    roles, assessed, followed, rows = saved.roles.for_decisions(), Assessments(), Counter[int](), 0
    counts, absent = Counter[str](), Counter[str]()
    reader, copied = saved.reader(tables, roles), find_copied(saved.roles, tables, keep)
    selection = replace(reader.selection, kept=copied.read, dates=find_date_columns(tables, copied.read))
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
        table, later = stack.enter_context(table_writer(out)), stack.enter_context(behind())
        ids = None if roles.id is None else stack.enter_context(IdRegister(roles.id, str(tables)))
        grouped = ahead(_read_parts(saved, reader, tables, selection, batch), _READ_AHEAD)
        decided = (map if over is None else over)(partial(_decide_part, saved.policy, saved.features), grouped)
        if hasattr(decided, "close"):
            stack.callback(decided.close)  # batches that others still decide for, after an error
        for part, unseen, kept, answer in decided:
            if isinstance(answer, OptEnsembleError):
                with _naming_rows(saved, tables, _as_frame(part), rows):
                    raise answer
            columns = {**copied.of(part, kept, rows), **decision_columns(saved, answer)}
            later(partial(table.write, columns))
            if ids is not None:
                ids.add(part[roles.id])
            assessed += answer.assessments()
            followed.update(dict(enumerate(np.bincount(answer.chosen).tolist())))
            rows += len(part)
            counts.update(unseen=unseen, beyond=answer.beyond, fallback=answer.fallback)
            counts.update(mended=answer.mended)
            if answer.incomplete is not None:
                missing, nobody = count_absences(_as_frame(part), dict(saved.ensemble.members_))
                absent += missing
                counts.update(nobody=nobody)
            if progress is not None:
                progress(rows)
        if not rows:
            raise InputError(f"{tables} has no rows. Give a table with rows to decide for.")
        if ids is not None:
            ids.require_distinct(lambda: _id_batches(tables, str(roles.id)))
    names = saved.ensemble.names_
    by_name = {names[number]: count for number, count in followed.most_common() if count}
    return DecisionSummary(rows, saved.policy, assessed, by_name, **counts, key=copied.key, absent=dict(absent))


def _read_parts(
    saved: SavedEnsemble, reader: RowReader, tables: Tables, selection: ColumnSelection, size: int
) -> Iterator[tuple[Part, int, Any]]:
    """Read batches with their subgroups as at the fit, the number of rows of unseen ones, and columns to be copied."""
    if saved.features or saved.roles.subgroups or reader.of_set.names or saved.roles.groups is not None:
        batches: Iterator[Part] = tables.batches(selection, size)
    else:
        batches = tables.number_batches(selection, size)
    for batch in batches:
        if isinstance(batch, NumberBatch):
            yield batch, 0, {}
        else:
            part, kept = split_kept(batch, selection.kept)
            yield *saved.grouped(reader.known(part)), kept


def _as_frame(part: Part) -> pd.DataFrame:
    return part.to_pandas() if isinstance(part, NumberBatch) else part


def _decide_part(policy: Any, features: list[str], grouped: tuple[Part, int, Any]) -> tuple[Part, int, Any, Any]:
    """Decide for a batch; an error of ours is the answer, for only the caller knows which rows these are."""
    part, unseen, kept = grouped
    try:
        if isinstance(part, NumberBatch):
            return part, unseen, kept, policy.answer(part.numbers)
        return part, unseen, kept, policy.answer(part[features] if features else part)
    except OptEnsembleError as error:
        return part, unseen, kept, error


def _id_batches(tables: Tables, name: str) -> Iterator[pd.Series[Any]]:
    return (part[name] for part in tables.batches(ColumnSelection(texts=(name,))))


@contextmanager
def _naming_rows(saved: SavedEnsemble, tables: Tables, part: pd.DataFrame, start: int) -> Iterator[None]:
    """Add the rows of the batch to the message of an error."""
    try:
        yield
    except OptEnsembleError as error:
        if isinstance(error, InfeasibleActionError):
            place, mending = (
                RowPlace(str(tables), saved.roles.id, start),
                MendingTerms.of(saved.ensemble.get_params(False)),
            )
            for name, policy in saved.policies if not saved.features else ():
                require_feasible_actions(part, name, policy, saved.policy.feasible_, place, mending)
        if error.rows is not None:
            with RowPlace(str(tables), saved.roles.id, start).naming(part):
                raise error
        where = f"{tables}, in the rows from {start:,} to {start + len(part) - 1:,}"
        raise type(error)(f"{where}, numbered anew from 0: {error}") from error
