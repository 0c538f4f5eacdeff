"""What came true: an audit of later rows, a report of it, and the reasons behind one row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import row_dots
from optensemble.ensembles.base import Answer
from optensemble.evaluation.audit import Audit
from optensemble.exceptions import InputError
from optensemble.jobs.rows import ordered, read_rows, wanted
from optensemble.jobs.saved_ensemble import Saved
from optensemble.tables.labels import as_text, as_texts
from optensemble.tables.reading import Tables

if TYPE_CHECKING:
    from optensemble.explanation.explanation import Explanation


@dataclass(frozen=True)
class Later:
    """Rows of known labels, the ensemble's audit on them, and its answer."""

    saved: Saved
    tables: Tables
    rows: pd.DataFrame
    labels: Floats
    audit: Audit
    answer: Answer


def judge(saved: Saved, tables: Tables) -> Later:
    """Audit the ensemble on rows whose labels are known."""
    roles = saved.roles
    if not roles.labels:
        raise InputError(
            f"{saved.path} does not say which columns are labels. Give --labels, for example --labels 'y_*'."
        )
    missing = [name for name in roles.labels if name not in tables.columns]
    if missing:
        raise InputError(
            f"{tables} has no column {missing[0]!r}: to say what came true, the labels are needed. Add them, or name "
            "the columns that hold them by --labels."
        )
    rows, _ = saved.grouped(read_rows(tables, roles, [*saved.numbers, *roles.labels]), roles)
    rows = ordered(rows, roles, str(tables))
    clusters = roles.clusters
    if clusters is not None and rows[clusters].nunique() == 1:
        warnings.warn(
            f"all rows are of one {clusters}: they are judged as if they were independent", UserWarning, stacklevel=2
        )
        clusters = None
    labels = np.ascontiguousarray(rows[list(roles.labels)].to_numpy())
    time_ordered = True if roles.time is not None else None
    try:
        audit, answer = saved.policy.audit_with_answer(rows, labels, time_ordered=time_ordered, groups=clusters)
    except InputError as error:
        raise InputError(f"{tables}: {error}") from error
    return Later(saved, tables, rows, labels, audit, answer)


def make_report(later: Later) -> str:
    """Return the page about it."""
    from optensemble.report.data import ReportData
    from optensemble.report.page import make_report_page  # draws, which only a report needs

    saved, rows = later.saved, later.rows
    return make_report_page(
        ReportData(
            ensemble=saved.policy,
            audit=later.audit,
            answer=later.answer,
            realised=row_dots(later.answer.actions, later.labels),
            coordinates=list(saved.roles.coordinates),
            when=None if saved.roles.time is None else rows[saved.roles.time],
            source=", ".join(path.name for path in later.tables.paths[:3]),
            labels=later.labels,
        )
    )


def explain(saved: Saved, tables: Tables, row: int | None, id_value: str | None) -> Explanation:
    """Explain one row, found by its number in the files or by its id."""
    number, found = _find(saved, tables, row, id_value)
    found, _ = saved.grouped(found, saved.roles.to_decide())
    explanation: Explanation = saved.ensemble.explain(found, 0, coordinates=list(saved.roles.coordinates))
    return replace(explanation, row=number)


def _find(saved: Saved, tables: Tables, row: int | None, id_value: str | None) -> tuple[int, pd.DataFrame]:
    roles, start = saved.roles.to_decide(), 0
    if (row is None) == (id_value is None):
        both = "not both" if row is not None else "counted from 0"
        raise InputError(f"say which row to explain: --row with its number, or --id with its id, {both}.")
    if id_value is not None and roles.id is None:
        raise InputError(f"{saved.path} knows no id column. Name it with --id-column, or give --row.")
    for part in tables.batches(wanted(roles, saved.numbers)):
        if row is not None and row < start + len(part):
            return row, part[row - start : row - start + 1].reset_index(drop=True)
        if id_value is not None:
            at = np.flatnonzero(as_texts(part[str(roles.id)]).isin([as_text(id_value), _as_date(id_value)]))
            if at.size:
                return start + int(at[0]), part[at[0] : at[0] + 1].reset_index(drop=True)
        start += len(part)
    what = f"no row {row}: it has {start:,}, counted from 0" if row is not None else f"no row of id {id_value!r}"
    raise InputError(f"{tables} has {what}. Check --row or --id.")


def _as_date(text: str) -> str:
    """Return how a date or time is written here, however it was written there."""
    try:
        return as_text(pd.Timestamp(text))
    except ValueError:
        return text
