"""The summary of a job and its data: rows, labels, members, bounds, and whether there are enough rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
from optensemble._core.suggestions import listed
from optensemble.evaluation.data_sample import DataSample
from optensemble.evaluation.data_warnings import find_data_warnings
from optensemble.evaluation.planning import (
    BLACK_BOX_CELLS,
    COMPARISON,
    PROMISE,
    WHITE_BOX_CELLS,
    RowPlan,
    plan,
)
from optensemble.feasible import FeasibleSet
from optensemble.jobs.accuracy import Accuracy, PayoffPairs, mean_of_present
from optensemble.jobs.fit import Task, shortage
from optensemble.jobs.job_outputs import JobOutputs
from optensemble.jobs.role_warnings import find_role_warnings
from optensemble.jobs.set_columns import ParameterSummary, summarise_parameters
from optensemble.members.absence import absent_rows
from optensemble.stats.sample_size import MIN_CELL

_BUCKETS = 10
_TINY = 1e-12
_TIME_OF_MIDNIGHT = " 00:00:00"

_DETECTABLE = {
    COMPARISON: "two candidates can be told apart if their mean {goal}s differ by {size}",
    WHITE_BOX_CELLS: "a bias of {size} is detectable in level sets of the model with the best self-assessment",
    BLACK_BOX_CELLS: "a bias of {size} is detectable in level sets of any member",
}


@dataclass(frozen=True)
class LevelSetCounts:
    """Level sets of the members' actions: those with rows, those with fewer than ``MIN_CELL``, the median of rows."""

    filled: int
    below_min_cell: int
    median: float

    def __str__(self) -> str:
        few = (
            f"; {self.below_min_cell:,} have fewer than {MIN_CELL} and are not corrected" if self.below_min_cell else ""
        )
        return f"{self.filled:,} level sets of the members' actions, with a median of {self.median:,.0f} rows{few}"


@dataclass(frozen=True)
class JobSummary:
    """Summary of a job and its data.

    ``pairs`` has, for every label, the matching column of each member and the bounds of its coordinate.
    ``members`` has a row for every member: its kind, the share of the labels' variance it explains (R²), its realised
    payoff, both on the rows in which it has an answer, and the number of the others. ``omega`` is the set bound to the
    rows; ``parameters`` are those that come from them. ``accuracy`` is that of a promise, if there are enough rows for
    one.
    """

    task: Task
    omega: FeasibleSet
    parameters: list[ParameterSummary]
    pairs: list[dict[str, Any]]
    members: pd.DataFrame
    cells: LevelSetCounts
    plan: RowPlan
    accuracy: Accuracy | None
    warnings: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether there are enough rows for a fit."""
        return not shortage(self.task)

    def sentences(self) -> Iterator[str]:
        """Yield the summary, one sentence per line."""
        task, rows = self.task, self.task.row_count
        order = "" if task.roles.time is None else f", sorted by {task.roles.time}{self._span()}"
        yield f"{rows:,} rows in {task.tables}{order}"
        yield from task.counts.sentences(rows)
        if task.roles.weight is not None:
            yield f"weights by {task.roles.weight}: the rows count as {task.counts.effective:,.1f} of equal weight"
        low, high = task.labels.to_numpy().min(), task.labels.to_numpy().max()
        yield f"{len(task.roles.labels)} labels between {_four_digits(low)} and {_four_digits(high)}; {self._goal()}"
        yield f"decisions: {self._bounds()}"
        yield from (f"{parameter}" for parameter in self.parameters)
        if task.fallbacks.count:
            yield task.fallbacks.told(rows)
        for what, each in (("subgroups", task.roles.subgroups), ("groups", [task.roles.groups or ""])):
            for name in filter(None, each):
                sizes = task.table[name].value_counts()
                yield f"{what} by {name}: {len(sizes):,}, of {sizes.min():,} to {sizes.max():,} rows"
        if task.context:
            yield f"context: {len(task.context):,} columns, {listed(task.context, 3)}"
        if task.roles.id is not None:
            yield f"id: {task.roles.id}, distinct in all rows"
        yield f"cells: {self.cells}"
        yield from self._detectable()
        if self.enough:
            yield self.verdict

    def _detectable(self) -> Iterator[str]:
        """Yield what this number of rows can detect."""
        goal = "payoff" if self.task.job.sense == "max" else "cost"
        if self.accuracy is not None:
            yield f"the mean {goal} of as many new rows can be promised within about {self.accuracy}"
        for part in self.plan.details:
            if part.name == PROMISE:  # of independent rows
                continue
            yield _DETECTABLE[part.name].format(goal=goal, size=f"{part.detects(self.plan.rows):.3g}")
            if part.cells > 1 and self.plan.rows < part.needed:
                yield f"{part.needed:,} rows would fill these level sets with {MIN_CELL} rows each"

    def _span(self) -> str:
        times = self.task.table[str(self.task.roles.time)]
        ends = [str(times.iloc[end]) for end in (0, -1)]
        if all(end.endswith(_TIME_OF_MIDNIGHT) for end in ends):
            ends = [end.removesuffix(_TIME_OF_MIDNIGHT) for end in ends]
        return f", {ends[0]} to {ends[1]}"

    def _goal(self) -> str:
        net = ", net of the known cost of acting" if self.omega.has_cost else ""
        return f"{self._sense()}{net}"

    def _sense(self) -> str:
        return "the payoff is maximised" if self.task.job.sense == "max" else "the cost is minimised"

    def _bounds(self) -> str:
        omega = self.omega
        same = len(np.unique(omega.lower)) == 1 and len(np.unique(omega.upper)) == 1
        each = (
            f"each between {_four_digits(omega.lower[0])} and {_four_digits(omega.upper[0])}"
            if same
            else "each within its own bounds"
        )
        over = " over all rows" if omega.open_bounds else ""
        return f"{type(omega).__name__}, {omega.dimension} coordinates, {each}{over}"

    @property
    def verdict(self) -> str:
        """A sentence on whether there are enough rows."""
        plenty = "are enough for a fit; effects that they cannot detect are left out"
        return shortage(self.task) or f"{self.task.row_count:,} rows {plenty}"


def _four_digits(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def summarise_job(task: Task) -> JobSummary:
    """Compute the summary of a job and its data."""
    outputs, pairs = JobOutputs.of(task), PayoffPairs.of(task)
    omega, actions, complete = outputs.omega, outputs.actions, outputs.complete
    noise, payoff_noise = _noise_levels(outputs)
    access = "mixed" if task.models and task.policies else "white" if task.models else "black"
    return JobSummary(
        task=task,
        omega=omega,
        parameters=summarise_parameters(omega, task.table),
        pairs=_label_pairs(task, omega),
        members=_member_frame(outputs),
        cells=_count_level_sets(outputs, Buckets(omega.lower, omega.upper, _BUCKETS)),
        plan=plan(
            k=len(actions),
            d=omega.dimension,
            noise=noise,
            rows=len(outputs.labels),
            access=access,
            payoff_noise=payoff_noise,
        ),
        accuracy=pairs.accuracy(task.roles, task.table),
        warnings=(*_data_warnings(complete, task.roles.labels), *find_role_warnings(task, pairs)),
    )


def _data_warnings(complete: JobOutputs, labels: Sequence[str]) -> Iterator[str]:
    """Yield what is suspicious in the rows in which every member has an answer."""
    rows = (complete.predictions, complete.actions, complete.labels, complete.omega, complete.sign)
    if len(complete.labels):
        yield from (doubt.sentence for doubt in find_data_warnings(DataSample(*rows, label_names=labels)))


def _label_pairs(task: Task, omega: FeasibleSet) -> list[dict[str, Any]]:
    members = {**task.models, **task.policies}
    return [
        {
            "label": label,
            "columns": {name: member.names[j] for name, member in members.items()},
            "lower": float(omega.lower[j]),
            "upper": float(omega.upper[j]),
        }
        for j, label in enumerate(task.roles.labels)
    ]


def _member_frame(outputs: JobOutputs) -> pd.DataFrame:
    rows = []
    for name, present in outputs.present.items():
        model, there = name in outputs.predictions, bool(present.any())
        explained = outputs.explained(name) if model and there else np.nan
        realised = outputs.realised(name) if there else np.nan
        rows.append((name, "model" if model else "policy", explained, realised, int((~present).sum())))
    return pd.DataFrame(rows, columns=["member", "kind", "explained", "realised", "absent"])


def _noise_levels(outputs: JobOutputs) -> tuple[float, float]:
    """Return the standard deviations of the labels and of the payoffs around their predictions."""
    predictions, labels = list(outputs.predictions.values()), outputs.labels
    expected, rows = mean_of_present(predictions) if predictions else (labels.mean(axis=0), np.arange(len(labels)))
    missed = np.full_like(labels, np.nan)
    missed[rows] = labels[rows] - expected
    known = ~absent_rows(missed)
    noise = float(missed[known].std()) if known.any() else 0.0
    spreads = [
        row_dots(np.ascontiguousarray(action[there]), np.ascontiguousarray(missed[there])).std()
        for name, action in outputs.actions.items()
        if (there := known & outputs.present[name]).any()
    ]
    return noise or _TINY, float(np.mean(spreads) if spreads else 0.0) or _TINY


def _count_level_sets(outputs: JobOutputs, buckets: Buckets) -> LevelSetCounts:
    there = (action[outputs.present[name]] for name, action in outputs.actions.items())
    levels = [level for action in there for level in buckets(np.ascontiguousarray(action)).T]
    counts = np.concatenate([np.bincount(level.astype(np.int64)) for level in levels])
    filled = counts[counts > 0]
    return LevelSetCounts(len(filled), int((filled < MIN_CELL).sum()), float(np.median(filled)) if filled.size else 0.0)
