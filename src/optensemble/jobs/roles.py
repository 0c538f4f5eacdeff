"""Roles of a table's columns: the names and patterns of the job file, resolved in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from optensemble._core.columns import Columns
from optensemble.exceptions import InputError
from optensemble.jobs.job import MISSING_LABELS, Job, Names
from optensemble.report.terms import DEFAULT_TERMS, ReportTerms
from optensemble.tables.patterns import align, coordinates, is_pattern, left_to, split, stars
from optensemble.tables.reading import require_columns

FOLLOWED, PROMISED, LOW, HIGH = WRITTEN = ("followed", "promised", "low", "high")
"""Columns of a table of decisions beside the key, columns that are copied, and the actions."""

_NOW = {"clusters": "groups", "groups": "subgroups"}


@dataclass(frozen=True)
class Roles:
    """Roles of columns, saved with the ensemble.

    ``coordinates`` are the names of the labels without their common beginning; they name the actions.
    ``missing_labels`` says what to do with rows that lack labels. ``report`` are the terms of reports.
    """

    labels: tuple[str, ...]
    coordinates: tuple[str, ...]
    id: str | None = None
    time: str | None = None
    groups: str | None = None
    subgroups: tuple[str, ...] = ()
    weight: str | None = None
    missing_labels: str = MISSING_LABELS[0]
    report: ReportTerms = DEFAULT_TERMS

    def for_decisions(self) -> Self:
        """Return the roles that new rows need: without labels, time, groups and weights."""
        return replace(self, labels=(), time=None, groups=None, weight=None)

    def as_plain(self) -> dict[str, Any]:
        """Return the roles in JSON types; terms of reports only where there are some, which older versions lack."""
        columns = {name: value for name, value in vars(self).items() if name != "report"}
        terms = {"report": self.report.as_plain()} if self.report.as_plain() else {}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in columns.items()} | terms

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the roles from JSON types; in older files groups were called clusters, and subgroups groups."""
        if "subgroups" not in plain:
            plain = {_NOW.get(name, name): value for name, value in plain.items()}
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        return cls(**known | {"report": ReportTerms(**known.get("report", {}))})


def find_roles(job: Job, columns: Sequence[str], table: str) -> Roles:
    """Resolve labels and single columns in a table."""
    own = left_to(job.labels, job.patterns, columns) if isinstance(job.labels, str) else columns
    labels, names = find_labels(job.labels, own, f"{job.path}: [data] labels", table)
    named = (job.id, job.time, job.groups, job.subgroups, job.weight, job.missing_labels)
    roles = Roles(labels, names, *named, job.report)
    for what in ("id", "time", "groups", "weight"):
        if getattr(roles, what) is not None:
            require_columns([getattr(roles, what)], columns, f"[data] {what} of {job.path}: {table}")
    require_columns(roles.subgroups, columns, f"[data] subgroups of {job.path}: {table}")
    single = {"id": job.id, "time": job.time, "groups": job.groups, "weight": job.weight}
    for what, name in [*single.items(), *(("subgroups", name) for name in job.subgroups)]:
        require_no_label([name], labels, f"{job.path}: [data] {what}")
    require_own_name(roles, f"{job.path}: ")
    return roles


def find_context(job: Job, roles: Roles, columns: Sequence[str], table: str) -> tuple[str, ...]:
    """Resolve the columns that a forecast may look at; labels, ids, times, groups and weights are none of them."""
    if not job.context:
        return ()
    where = f"{job.path}: [data] context"
    own = left_to(job.context, job.patterns, columns) if isinstance(job.context, str) else columns
    found, _ = find_labels(job.context, own, where, table)
    require_no_label(found, roles.labels, where)
    for what in ("id", "time", "groups", "weight"):
        if getattr(roles, what) in found:
            raise InputError(f"{where} has {getattr(roles, what)!r}, which is the {what} of rows. List the others.")
    return found


def decided_columns(roles: Roles) -> list[str]:
    """Return the names of the columns of the decisions beside the key and those that are copied."""
    return [*(f"action_{name}" for name in roles.coordinates), *WRITTEN]


def require_own_name(roles: Roles, where: str = "") -> None:
    """Raise ``InputError`` if the id column has the name of another column of the decisions."""
    if roles.id in decided_columns(roles):
        raise InputError(f"{where}the id column {roles.id!r} has the name of a column of the decisions. Rename it.")


def require_no_label(names: Sequence[Any], labels: Sequence[str], where: str) -> None:
    """Raise ``InputError`` on a label in another role: labels are unknown at the time of a decision."""
    for name in names:
        if name in labels:
            raise InputError(
                f"{where} is {name!r}, which is a label: labels are unknown at the time of a decision. Remove it there."
            )


def find_labels(
    given: Names, columns: Sequence[str], where: str, table: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the label columns and the names of the coordinates."""
    if isinstance(given, str) and is_pattern(given):
        before, after = split(given, where)
        found = stars(given, columns, f"{where}, in {table}")
        return tuple(before + star + after for star in found), tuple(found)
    names = (given,) if isinstance(given, str) else given
    require_columns(names, columns, f"{where}: {table}")
    return tuple(names), tuple(coordinates(names))


def find_members(job: Job, roles: Roles, columns: Sequence[str], table: str) -> dict[str, dict[str, Columns]]:
    """Resolve the columns of models and policies, each in the order of the labels."""
    return {
        what: {
            name: _find_member(given, roles, columns, f"{job.path}: [{what}] {name}", table)
            for name, given in each.items()
        }
        for what, each in (("models", job.models), ("policies", job.policies))
    }


def _find_member(given: Names, roles: Roles, columns: Sequence[str], where: str, table: str) -> Columns:
    names = _aligned(given, roles, columns, f"{where}, in {table}") if isinstance(given, str) else list(given)
    require_columns(names, columns, f"{where}: {table}")
    require_no_label(names, roles.labels, where)
    if len(names) != len(roles.labels):
        raise InputError(
            f"{where} names {len(names)} columns, but there are {len(roles.labels)} labels. Give one for each, in "
            "their order."
        )
    return Columns(names)


def _aligned(pattern: str, roles: Roles, columns: Sequence[str], where: str) -> list[str]:
    found = stars(pattern, columns, where)
    alone = len(found) == 1 and len(roles.labels) == 1 and roles.coordinates == roles.labels
    return align(pattern, found if alone else roles.coordinates, columns, where)  # a single label has no star
