"""Audits of later rows, reports on them, and explanations of single rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble.ensembles.base import Answer
from optensemble.evaluation.audit import Audit
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.jobs.rows import RowPlace
from optensemble.jobs.saved_ensemble import SavedEnsemble, read_labelled
from optensemble.jobs.set_columns import summarise_parameters
from optensemble.tables.labels import column_text, value_text
from optensemble.tables.reading import Tables

if TYPE_CHECKING:
    from optensemble.explanation.explanation import Explanation
    from optensemble.report.data import ReportData


@dataclass(frozen=True)
class TableAudit:
    """Rows with labels, the ensemble's audit on them, and its answer; ``unlabelled`` rows were left out."""

    saved: SavedEnsemble
    tables: Tables
    rows: pd.DataFrame
    labels: Floats
    audit: Audit
    answer: Answer
    unlabelled: int = 0


def audit_table(saved: SavedEnsemble, tables: Tables) -> TableAudit:
    """Audit the ensemble on rows with labels."""
    roles = saved.roles
    sorted_rows, unlabelled = read_labelled(saved, tables, "an audit")
    if not len(sorted_rows):
        raise InputError(f"{tables} has no row with labels: an audit needs them. Wait until they are known.")
    rows = sorted_rows.reset_index(drop=True)
    groups = roles.groups
    if groups is not None and saved.policy._grouping_rule is not None:
        groups = None  # found as at the fit
    elif groups is not None and rows[groups].nunique() == 1:
        warnings.warn(f"all rows are of one {groups}: they are treated as independent", UserWarning, stacklevel=2)
        groups = None
    labels = np.ascontiguousarray(rows[list(roles.labels)].to_numpy())
    time_ordered = True if roles.time is not None else None
    terms = {} if roles.weight is None else {"sample_weight": roles.weight}
    with RowPlace(str(tables), roles.id).naming(sorted_rows), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # these rows are counted
        X = saved.inputs(rows)
        audit, answer = saved.policy.audit_with_answer(X, labels, time_ordered=time_ordered, groups=groups, **terms)
    if answer.fallback:
        unsolved = f"{answer.fallback:,} of {len(rows):,} rows could not be solved"
        warnings.warn(f"{unsolved} and took the fallback action", UserWarning, stacklevel=2)
    return TableAudit(saved, tables, rows, labels, audit, answer, unlabelled)


def make_report(audited: TableAudit, **terms: str | None) -> str:
    """Return the report as an HTML page; ``terms`` given here replace those of the job file."""
    from optensemble.report.page import make_report_page  # loads matplotlib, which only a report needs

    return make_report_page(table_report(audited, **terms))


def table_report(audited: TableAudit, **terms: str | None) -> ReportData:
    """Return the data of a report; ``terms`` given here replace those of the job file."""
    from optensemble.report.data import report_data

    saved, rows, roles = audited.saved, audited.rows, audited.saved.roles
    return report_data(
        saved.policy,
        audited.audit,
        audited.answer,
        saved.inputs(rows),
        audited.labels,
        when=None if roles.time is None else rows[roles.time],
        coordinates=saved.coordinates,
        source=", ".join(path.name for path in audited.tables.paths[:3]),
        terms=roles.report.replaced(**terms),
        weights=None if roles.weight is None else rows[roles.weight].to_numpy(dtype=np.float64),
        ids=None if roles.id is None else column_text(rows[roles.id]).tolist(),
        parameters=tuple(map(str, summarise_parameters(saved.policy.feasible_, rows))),
    )


def explain_row(saved: SavedEnsemble, tables: Tables, row: int | None, id_value: str | None) -> Explanation:
    """Explain one row, given by its number in the files or by its id."""
    number, found = _find_row(saved, tables, row, id_value)
    found, _ = saved.grouped(found)
    with RowPlace(str(tables), saved.roles.id, number).naming(found):
        explanation: Explanation = saved.ensemble.explain(saved.inputs(found), 0, coordinates=saved.coordinates)
    return replace(explanation, row=number)


def _find_row(saved: SavedEnsemble, tables: Tables, row: int | None, id_value: str | None) -> tuple[int, pd.DataFrame]:
    roles, start = saved.roles.for_decisions(), 0
    if row is None and id_value is None:
        raise InputError("no row to explain is given. Give --row with its number, from 0, or --id with its id.")
    if row is not None and id_value is not None:
        raise InputError("--row and --id are both given. Give one of them.")
    if id_value is not None and roles.id is None:
        raise InputError(f"{saved.path} has no id column. Name it with --id-column, or give --row.")
    reader = saved.reader(tables, roles)
    for part in tables.batches(reader.selection):
        if row is not None and row < start + len(part):
            return row, reader.known(part[row - start : row - start + 1].reset_index(drop=True))
        if id_value is not None:
            at = np.flatnonzero(column_text(part[str(roles.id)]).isin([value_text(id_value), _as_date(id_value)]))
            if at.size:
                return start + int(at[0]), reader.known(part[at[0] : at[0] + 1].reset_index(drop=True))
        start += len(part)
    what = f"no row {row}: it has {start:,}, counted from 0" if row is not None else f"no row of id {id_value!r}"
    raise InputError(f"{tables} has {what}. Check --row or --id.")


def _as_date(text: str) -> str:
    """Return a date or time as this package writes it; other text unchanged."""
    try:
        return value_text(pd.Timestamp(text))
    except ValueError:
        return text
