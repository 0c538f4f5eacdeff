"""Fitting: from a job to an ensemble."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from optensemble._core.columns import Columns
from optensemble._core.progress import Progress
from optensemble.ensembles.base import BLACK_BOX, DECISION, WHITE_BOX, Policy
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.job import Job
from optensemble.jobs.role_warnings import find_role_warnings
from optensemble.jobs.roles import Roles, find_context, find_members, find_roles
from optensemble.jobs.row_checks import Fallbacks, MendingTerms, RowChecks, RowCounts
from optensemble.jobs.rows import RowPlace, RowReader, in_time_order, optional_columns, row_ids
from optensemble.jobs.set_columns import ReadColumns, SetTable
from optensemble.jobs.sets import make_set
from optensemble.jobs.streamed_rows import JobRows, stream_rows
from optensemble.stats.row_design import EXACT_ROWS
from optensemble.stats.sample_size import MINIMUM_ROWS
from optensemble.tables.reading import Tables, find_tables


@dataclass(frozen=True)
class Task:
    """A job with its data, validated: everything that a fit needs.

    ``rows`` holds the columns of members and labels, ids, times and groups, in time order if there are times. Rows that
    would take more than the memory allowed are read from their files when they are needed. ``counts`` are what was
    counted in them. ``context`` are columns that a forecast may look at.
    """

    job: Job
    tables: Tables
    roles: Roles
    models: dict[str, Columns]
    policies: dict[str, Columns]
    omega: FeasibleSet
    rows: pd.DataFrame | JobRows
    counts: RowCounts
    context: tuple[str, ...] = ()

    @property
    def fallbacks(self) -> Fallbacks:
        """The rows that take the fallback action of the set."""
        return self.counts.fallbacks

    @property
    def row_count(self) -> int:
        """The number of rows with labels."""
        return len(self.rows) - (self.counts.unlabelled if isinstance(self.rows, JobRows) else 0)

    @property
    def table(self) -> pd.DataFrame:
        """The rows as a frame in memory."""
        if isinstance(self.rows, JobRows):
            raise InputError(f"{self.tables} is larger than the memory allowed. Allow more.")
        return self.rows

    @property
    def labels(self) -> pd.DataFrame:
        """The realised outcomes."""
        return self.table[list(self.roles.labels)]


_COPIES = 6
"""The memory of a fit, in that of the columns it reads: the rows, predictions and actions, and what is made of them."""


def prepare(job: Job, memory: float | None = None) -> Task:
    """Find files and columns, make the feasible set, read the rows; only look through them if they need more memory."""
    tables = find_tables(job.fit, job.folder)
    columns, name = tables.columns, str(tables)
    roles = find_roles(job, columns, name)
    members = find_members(job, roles, columns, name)
    table = SetTable(columns, name, roles.labels, roles.coordinates)
    omega = make_set(job.feasible, len(roles.labels), job.folder, f"{job.path}: [feasible]", table)
    _require_members(job)
    used = [str(name) for each in members.values() for member in each.values() for name in member.names]
    of_set, context = ReadColumns.of(omega, columns, name), find_context(job, roles, columns, name)
    numbers = dict.fromkeys([*used, *roles.labels, *context])
    reader = RowReader(roles, tuple(numbers), of_set, optional_columns(roles, used, job.kind) | frozenset(context))
    models, policies, sign = members["models"], members["policies"], 1.0 if job.sense == "max" else -1.0
    checks = RowChecks(roles, models, policies, omega, sign, MendingTerms.of(job.ensemble))
    rows: pd.DataFrame | JobRows
    if memory is not None and job.kind == DECISION and _COPIES * tables.bytes(len(reader.selection.numbers)) > memory:
        rows, counts = stream_rows(tables, reader, checks)
    else:
        labelled, counts = checks(reader.read(tables), RowPlace(name, roles.id), ranges=True)
        rows = in_time_order(labelled, roles, name).reset_index(drop=True)
        counts = replace(counts, groups=0 if roles.groups is None else rows[roles.groups].nunique())
    if not len(rows) - (counts.unlabelled if isinstance(rows, JobRows) else 0):
        raise InputError(f"{name} has no row with labels. Give rows whose labels are known, or check [data] labels.")
    task = Task(job, tables, roles, models, policies, omega, rows, counts, context)
    _require_options(task)
    return task


def fit_job(task: Task, progress: Progress | None = None, n_jobs: int | None = None, engine: Any = None) -> Policy:
    """Fit the ensemble of a job; it keeps the roles of the columns."""
    if shortage(task):
        raise InputError(shortage(task))
    for warning in find_role_warnings(task):
        warnings.warn(warning, UserWarning, stacklevel=2)
    if not task.fallbacks.count:
        return _fit(task, progress, n_jobs, engine)
    warnings.warn(f"{task.tables}: {task.fallbacks.told(task.row_count)}", FallbackWarning, stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # one for each pass over the same rows
        return _fit(task, progress, n_jobs, engine)


def _fit(task: Task, progress: Progress | None, n_jobs: int | None, engine: Any) -> Policy:
    seed = task.job.ensemble.get("seed")
    terms: dict[str, Any] = {"time_ordered": task.roles.time is not None, "random_state": seed}
    ensemble: Any
    if task.job.kind == DECISION:
        labels = None if isinstance(task.rows, JobRows) else task.labels
        terms |= _row_terms(task)
        ensemble = _decision_ensemble(task).fit(
            task.rows, labels, groups=task.roles.groups, n_jobs=n_jobs, progress=progress, engine=engine, **terms
        )
    else:
        X, Y = task.table, task.labels
        ensemble = _paper_ensemble(task).fit(X, Y, progress=progress, **terms)
        if len(X) >= MINIMUM_ROWS:
            ensemble.cross_fit(progress=progress)  # the record that goes into the file; a validated fit has left it
    ensemble.table_ = task.roles.as_plain()
    return ensemble  # type: ignore[no-any-return]


def _row_terms(task: Task) -> dict[str, Any]:
    """Return the arguments of ``fit`` on weights, on ids, and on rows without labels that a source still has."""
    terms: dict[str, Any] = {} if task.roles.weight is None else {"sample_weight": task.roles.weight}
    if not isinstance(task.rows, JobRows) and len(task.rows) <= EXACT_ROWS:
        ids = row_ids(task.rows, task.roles, str(task.tables))
        terms |= {} if ids is None else {"ids": ids}
    left_out = isinstance(task.rows, JobRows) and task.counts.unlabelled
    return {**terms, "missing_labels": "drop"} if left_out else terms


def _decision_ensemble(task: Task) -> Any:
    from optensemble.ensembles.decision import DecisionEnsemble

    return DecisionEnsemble(
        models=list(task.models.items()) or None,
        policies=list(task.policies.items()) or None,
        feasible=task.omega,
        sense=task.job.sense,
        subgroups=list(task.roles.subgroups) or None,
        context=list(task.context) or None,
        **MendingTerms.of(task.job.ensemble).given,
    )


def _paper_ensemble(task: Task) -> Any:
    options = {name: value for name, value in task.job.ensemble.items() if name not in ("kind", "seed")}
    if options.get("validation") == "none":
        options["validation"] = None
    options["subgroups"] = list(task.roles.subgroups) or None
    if task.job.kind == WHITE_BOX:
        from optensemble.ensembles.white_box import WhiteBoxEnsemble

        return WhiteBoxEnsemble(list(task.models.items()), task.omega, **options)
    from optensemble.ensembles.black_box import BlackBoxEnsemble

    init = next(iter(task.models.values()), "mean")
    return BlackBoxEnsemble(list(task.policies.items()), task.omega, init=init, **options)


def shortage(task: Task) -> str:
    """Return a sentence on too few rows for a fit; empty if there are enough."""
    rows = task.row_count
    least = 2 if task.job.kind != DECISION and _paper_ensemble(task).validation is None else MINIMUM_ROWS
    what = "rows with labels" if task.counts.unlabelled else "rows"
    return f"{task.tables} has {rows:,} {what}; a fit needs at least {least}. Give more rows." if rows < least else ""


def _require_options(task: Task) -> None:
    """Validate the options of the ensemble."""
    if task.job.kind != DECISION:
        try:
            _paper_ensemble(task)._check_parameters()
        except InputError as error:
            raise InputError(f"{task.job.path}: [ensemble] {error}") from error


def _require_members(job: Job) -> None:
    """Raise ``InputError`` on members that the kind of ensemble does not take."""
    if job.kind == WHITE_BOX and (job.policies or not job.models):
        raise InputError(f'{job.path}: a white_box takes [models] and no [policies]. Set kind = "decision" for both.')
    if job.kind == BLACK_BOX and (len(job.models) > 1 or not job.policies):
        raise InputError(
            f'{job.path}: a black_box takes [policies], and at most one model to start from. Set kind = "decision".'
        )
    if job.kind != DECISION and job.weight is not None:
        raise InputError(
            f'{job.path}: weights are for kind = "decision"; got kind = {job.kind!r}. Remove weight from [data].'
        )
    if job.kind != DECISION and job.context:
        raise InputError(
            f'{job.path}: a context is for kind = "decision"; got kind = {job.kind!r}. Remove it from [data].'
        )
    if job.kind != DECISION and job.groups is not None:
        raise InputError(
            f'{job.path}: groups, rows that belong together, are for kind = "decision"; got kind = {job.kind!r}. '
            "Remove them, or list the column under subgroups if forecasts are to be unbiased in its values."
        )
