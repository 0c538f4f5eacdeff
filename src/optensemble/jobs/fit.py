"""From a job to a fitted ensemble."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from optensemble.ensembles.base import Policy
from optensemble.ensembles.black_box import BlackBoxEnsemble
from optensemble.ensembles.decision import DecisionEnsemble
from optensemble.ensembles.white_box import WhiteBoxEnsemble
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.job import BLACK_BOX, DECISION, WHITE_BOX, Job
from optensemble.jobs.roles import Roles, find_members, find_roles
from optensemble.jobs.rows import ordered, read_rows, require_allowed
from optensemble.jobs.sets import make_set
from optensemble.members.columns import Columns
from optensemble.stats.sample_size import MINIMUM_ROWS
from optensemble.tables.reading import Tables, find_tables

Tell = Callable[[str, float], None]
"""Called with a stage of the work and the share of it that is done."""


@dataclass(frozen=True)
class Task:
    """A job with its data: everything that a fit needs, checked.

    ``rows`` holds the columns of members, labels and the rest, in the order of time if there is one.
    """

    job: Job
    tables: Tables
    roles: Roles
    models: dict[str, Columns]
    policies: dict[str, Columns]
    omega: FeasibleSet
    rows: pd.DataFrame

    @property
    def labels(self) -> pd.DataFrame:
        """What came true."""
        return self.rows[list(self.roles.labels)]


def prepare(job: Job) -> Task:
    """Find files and columns, make the set, read the rows."""
    tables = find_tables(job.fit, job.folder)
    columns, name = tables.columns, str(tables)
    roles = find_roles(job, columns, name)
    members = find_members(job, roles, columns, name)
    omega = make_set(job.feasible, len(roles.labels), job.folder, f"{job.path}: [feasible]")
    _require_members(job)
    used = [str(name) for each in members.values() for member in each.values() for name in member.names]
    rows = read_rows(tables, roles, [*used, *roles.labels])
    for policy, member in members["policies"].items():
        require_allowed(rows, policy, member, omega, name)
    task = Task(job, tables, roles, members["models"], members["policies"], omega, ordered(rows, roles, name))
    _require_options(task)
    return task


def fit(task: Task, tell: Tell | None = None, n_jobs: int | None = None) -> Policy:
    """Fit the ensemble that the job asks for; it remembers which columns play which part."""
    if shortage(task):
        raise InputError(shortage(task))
    X, Y, seed = task.rows, task.labels.to_numpy(), task.job.ensemble.get("seed")
    terms = {"time_ordered": task.roles.time is not None, "random_state": seed}
    ensemble: Any
    if task.job.kind == DECISION:
        ensemble = _decision(task).fit(X, Y, groups=task.roles.clusters, n_jobs=n_jobs, progress=tell, **terms)
    else:
        ensemble = _box(task).fit(X, Y, **terms)
        if len(X) >= MINIMUM_ROWS:
            ensemble.cross_fit()  # the record that goes into the file; a validated fit has left it
    ensemble.table_ = task.roles.as_plain()
    return ensemble  # type: ignore[no-any-return]


def _decision(task: Task) -> Any:
    return DecisionEnsemble(
        models=list(task.models.items()) or None,
        policies=list(task.policies.items()) or None,
        feasible=task.omega,
        sense=task.job.sense,
        subgroups=list(task.roles.groups) or None,
    )


def _box(task: Task) -> Any:
    options = {name: value for name, value in task.job.ensemble.items() if name not in ("kind", "seed")}
    if options.get("validation") == "none":
        options["validation"] = None
    options["subgroups"] = list(task.roles.groups) or None
    if task.job.kind == WHITE_BOX:
        return WhiteBoxEnsemble(list(task.models.items()), task.omega, **options)
    init = next(iter(task.models.values()), "mean")
    return BlackBoxEnsemble(list(task.policies.items()), task.omega, init=init, **options)


def shortage(task: Task) -> str:
    """Say that there are too few rows to fit; nothing if there are enough."""
    rows = len(task.rows)
    least = 2 if task.job.kind != DECISION and _box(task).validation is None else MINIMUM_ROWS
    return f"{task.tables} has {rows:,} rows; a fit needs at least {least}. Give more rows." if rows < least else ""


def _require_options(task: Task) -> None:
    """Refuse options that no fit would take."""
    if task.job.kind != DECISION:
        try:
            _box(task)._check_parameters()
        except InputError as error:
            raise InputError(f"{task.job.path}: [ensemble] {error}") from error


def _require_members(job: Job) -> None:
    """Refuse members that the kind of ensemble has no use for."""
    if job.kind == WHITE_BOX and (job.policies or not job.models):
        raise InputError(f'{job.path}: a white_box takes [models] and no [policies]. Take kind = "decision" for both.')
    if job.kind == BLACK_BOX and (len(job.models) > 1 or not job.policies):
        raise InputError(
            f'{job.path}: a black_box takes [policies], and at most one model to begin with. Take kind = "decision".'
        )
    if job.kind != DECISION and job.clusters is not None:
        raise InputError(f'{job.path}: clusters are for kind = "decision"; got kind = {job.kind!r}. Leave them out.')
