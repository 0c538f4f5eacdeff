"""Fitting: from a job to an ensemble."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import pandas as pd

from optensemble._core.columns import Columns
from optensemble._core.progress import Progress
from optensemble.ensembles.base import BLACK_BOX, DECISION, WHITE_BOX, Policy
from optensemble.exceptions import FallbackWarning, InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.job import Job
from optensemble.jobs.roles import Roles, find_members, find_roles
from optensemble.jobs.rows import (
    NO_FALLBACKS,
    Fallbacks,
    JobRows,
    RowPlace,
    RowReader,
    in_time_order,
    require_feasible_actions,
    require_sets,
    stream_rows,
)
from optensemble.jobs.set_columns import ReadColumns, SetTable, summarise_parameters
from optensemble.jobs.sets import make_set
from optensemble.stats.sample_size import MINIMUM_ROWS
from optensemble.tables.reading import Tables, find_tables


@dataclass(frozen=True)
class Task:
    """A job with its data, validated: everything that a fit needs.

    ``rows`` holds the columns of members and labels, ids, times and groups, in time order if there are times. Rows that
    would take more than the memory allowed are read from their files when they are needed. ``fallbacks`` are rows that
    take the fallback action of the set.
    """

    job: Job
    tables: Tables
    roles: Roles
    models: dict[str, Columns]
    policies: dict[str, Columns]
    omega: FeasibleSet
    rows: pd.DataFrame | JobRows
    fallbacks: Fallbacks = NO_FALLBACKS

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
    reader = RowReader(roles, (*used, *roles.labels), ReadColumns.of(omega, columns, name))
    models, policies, sign = members["models"], members["policies"], 1.0 if job.sense == "max" else -1.0
    rows: pd.DataFrame | JobRows
    if memory is not None and job.kind == DECISION and _COPIES * tables.bytes(len(reader.selection.numbers)) > memory:
        rows, fallbacks = stream_rows(tables, reader, policies, omega, sign)
    else:
        read = reader.read(tables)
        labels = read[list(roles.labels)].to_numpy()
        try:
            fallbacks = require_sets(read, omega, sign * labels, RowPlace(name, roles.id))
        except InputError as error:  # the ranges of all rows may show what is wrong with one
            ranges = "; ".join(str(each) for each in summarise_parameters(omega, read))
            raise InputError(f"{error} In all {len(read):,} rows: {ranges}.") from error
        for policy, member in policies.items():
            require_feasible_actions(read, policy, member, omega, name)
        rows = in_time_order(read, roles, name).reset_index(drop=True)
    task = Task(job, tables, roles, models, policies, omega, rows, fallbacks)
    _require_options(task)
    return task


def fit_job(task: Task, progress: Progress | None = None, n_jobs: int | None = None, engine: Any = None) -> Policy:
    """Fit the ensemble of a job; it keeps the roles of the columns."""
    if shortage(task):
        raise InputError(shortage(task))
    if not task.fallbacks.count:
        return _fit(task, progress, n_jobs, engine)
    warnings.warn(f"{task.tables}: {task.fallbacks.told(len(task.rows))}", FallbackWarning, stacklevel=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # one for each pass over the same rows
        return _fit(task, progress, n_jobs, engine)


def _fit(task: Task, progress: Progress | None, n_jobs: int | None, engine: Any) -> Policy:
    seed = task.job.ensemble.get("seed")
    terms = {"time_ordered": task.roles.time is not None, "random_state": seed}
    ensemble: Any
    if task.job.kind == DECISION:
        labels = None if isinstance(task.rows, JobRows) else task.labels
        ensemble = _decision_ensemble(task).fit(
            task.rows, labels, groups=task.roles.clusters, n_jobs=n_jobs, progress=progress, engine=engine, **terms
        )
    else:
        X, Y = task.table, task.labels
        ensemble = _paper_ensemble(task).fit(X, Y, progress=progress, **terms)
        if len(X) >= MINIMUM_ROWS:
            ensemble.cross_fit(progress=progress)  # the record that goes into the file; a validated fit has left it
    ensemble.table_ = task.roles.as_plain()
    return ensemble  # type: ignore[no-any-return]


def _decision_ensemble(task: Task) -> Any:
    from optensemble.ensembles.decision import DecisionEnsemble

    return DecisionEnsemble(
        models=list(task.models.items()) or None,
        policies=list(task.policies.items()) or None,
        feasible=task.omega,
        sense=task.job.sense,
        subgroups=list(task.roles.groups) or None,
    )


def _paper_ensemble(task: Task) -> Any:
    options = {name: value for name, value in task.job.ensemble.items() if name not in ("kind", "seed")}
    if options.get("validation") == "none":
        options["validation"] = None
    options["subgroups"] = list(task.roles.groups) or None
    if task.job.kind == WHITE_BOX:
        from optensemble.ensembles.white_box import WhiteBoxEnsemble

        return WhiteBoxEnsemble(list(task.models.items()), task.omega, **options)
    from optensemble.ensembles.black_box import BlackBoxEnsemble

    init = next(iter(task.models.values()), "mean")
    return BlackBoxEnsemble(list(task.policies.items()), task.omega, init=init, **options)


def shortage(task: Task) -> str:
    """Return a sentence on too few rows for a fit; empty if there are enough."""
    rows = len(task.rows)
    least = 2 if task.job.kind != DECISION and _paper_ensemble(task).validation is None else MINIMUM_ROWS
    return f"{task.tables} has {rows:,} rows; a fit needs at least {least}. Give more rows." if rows < least else ""


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
    if job.kind != DECISION and job.clusters is not None:
        raise InputError(f'{job.path}: clusters are for kind = "decision"; got kind = {job.kind!r}. Remove them.')
