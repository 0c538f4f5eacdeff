"""Warnings about roles of columns: groups that look like subgroups, and times that no role names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from optensemble.jobs.accuracy import PayoffPairs
from optensemble.jobs.streamed_rows import FEW_GROUPS, JobRows
from optensemble.tables.sorted_times import find_sorted_times

if TYPE_CHECKING:
    from optensemble.jobs.fit import Task

_MANY_ROWS = 50
"""Rows per group, on average, from which on a few groups look like subgroups."""


def find_role_warnings(task: Task, pairs: PayoffPairs | None = None) -> Iterator[str]:
    """Yield a sentence for each doubtful role; ``pairs``, if they are known already, tell what a time would change."""
    yield from _group_warnings(task)
    if task.roles.time is None and task.roles.groups is None:
        yield from _time_warnings(task, pairs)


def _group_warnings(task: Task) -> Iterator[str]:
    name, count, rows = task.roles.groups, task.counts.groups, task.row_count
    if name is not None and count < FEW_GROUPS and rows >= _MANY_ROWS * count:
        values = f"{count:,} value{'s' if count > 1 else ''}, with {rows / count:,.0f} rows each on average"
        yield (
            f"{task.job.path}: [data] groups = {name!r} has {values}: rows of one value are taken to belong together, "
            "which widens intervals. If forecasts are to be unbiased in each of its values, name it under subgroups"
        )


def _time_warnings(task: Task, pairs: PayoffPairs | None) -> Iterator[str]:
    for name in find_sorted_times(task.tables)[:1]:
        yield (
            f"{task.tables} is sorted by {name!r}, but [data] of {task.job.path} names no time: its rows are taken "
            f"to be independent. With time = {name!r}, folds are contiguous and policies are judged on later rows"
            f"{_change(task, name, pairs)}"
        )


def _change(task: Task, name: str, pairs: PayoffPairs | None) -> str:
    """Return how the accuracy of a promise would change; nothing for too few rows, or for more than fit in memory."""
    if isinstance(task.rows, JobRows):
        return ""
    pairs, goal = PayoffPairs.of(task) if pairs is None else pairs, "payoff" if task.job.sense == "max" else "cost"
    now, then = (pairs.accuracy(replace(task.roles, time=time), task.rows) for time in (None, name))
    if now is None or then is None:
        return ""
    sizes = f"± {now.half_width:.3g} as independent rows, about ± {then.half_width:.3g} in time order"
    return f"; the mean {goal} of as many new rows can be promised within {sizes}"
