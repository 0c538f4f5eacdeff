"""The summary of a job and its data: rows, labels, members, bounds, and whether there are enough rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
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
from optensemble.exceptions import FallbackWarning
from optensemble.feasible import FeasibleSet
from optensemble.jobs.fit import Task, shortage
from optensemble.jobs.set_columns import ParameterSummary, summarise_parameters
from optensemble.stats.sample_size import MIN_CELL

_BUCKETS = 10
_TINY = 1e-12
_TIME_OF_MIDNIGHT = " 00:00:00"

_DETECTABLE = {
    PROMISE: "if rows are independent, the mean {goal} can be promised within about ± {size}",
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
    ``members`` has a row for every member: its kind, the share of the labels' variance it explains (R²), and its
    realised payoff on these rows. ``omega`` is the set bound to the rows; ``parameters`` are those that come from them.
    """

    task: Task
    omega: FeasibleSet
    parameters: list[ParameterSummary]
    pairs: list[dict[str, Any]]
    members: pd.DataFrame
    cells: LevelSetCounts
    plan: RowPlan
    warnings: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether there are enough rows for a fit."""
        return not shortage(self.task)

    def sentences(self) -> Iterator[str]:
        """Yield the summary, one sentence per line."""
        task, rows = self.task, len(self.task.rows)
        order = "" if task.roles.time is None else f", sorted by {task.roles.time}{self._span()}"
        yield f"{rows:,} rows in {task.tables}{order}"
        low, high = task.labels.to_numpy().min(), task.labels.to_numpy().max()
        yield f"{len(task.roles.labels)} labels between {_four_digits(low)} and {_four_digits(high)}; {self._goal()}"
        yield f"decisions: {self._bounds()}"
        yield from (f"{parameter}" for parameter in self.parameters)
        if task.fallbacks.count:
            yield task.fallbacks.told(rows)
        for what, each in (("groups", task.roles.groups), ("clusters", [task.roles.clusters or ""])):
            for name in filter(None, each):
                sizes = task.table[name].value_counts()
                yield f"{what} by {name}: {len(sizes):,}, of {sizes.min():,} to {sizes.max():,} rows"
        if task.roles.id is not None:
            yield f"id: {task.roles.id}, distinct in all rows"
        yield f"cells: {self.cells}"
        yield from self._detectable()
        if self.enough:
            yield self.verdict

    def _detectable(self) -> Iterator[str]:
        """Yield what this number of rows can detect."""
        goal = "payoff" if self.task.job.sense == "max" else "cost"
        for part in self.plan.details:
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
        return shortage(self.task) or f"{len(self.task.rows):,} rows {plenty}"


def _four_digits(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def summarise_job(task: Task) -> JobSummary:
    """Compute the summary of a job and its data."""
    sign = 1.0 if task.job.sense == "max" else -1.0
    labels = task.labels.to_numpy()
    predictions = {name: member.predict(task.table) for name, member in task.models.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)  # the summary counts these rows
        omega = task.omega.for_rows(task.table)
        actions = {name: omega.argmax(sign * predicted) for name, predicted in predictions.items()}
    actions |= {name: member.decide(task.table) for name, member in task.policies.items()}
    doubts = find_data_warnings(
        DataSample(predictions, actions, labels, omega, sign, label_names=tuple(task.roles.labels))
    )
    noise, payoff_noise = _noise_levels(predictions, actions, labels)
    access = "mixed" if task.models and task.policies else "white" if task.models else "black"
    earned = {name: float((sign * omega.value(action, sign * labels)).mean()) for name, action in actions.items()}
    return JobSummary(
        task=task,
        omega=omega,
        parameters=summarise_parameters(omega, task.table),
        pairs=_label_pairs(task, omega),
        members=_member_frame(predictions, earned, labels),
        cells=_count_level_sets(actions, Buckets(omega.lower, omega.upper, _BUCKETS)),
        plan=plan(
            k=len(actions),
            d=omega.dimension,
            noise=noise,
            rows=len(labels),
            access=access,
            payoff_noise=payoff_noise,
        ),
        warnings=tuple(doubt.sentence for doubt in doubts),
    )


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


def _member_frame(predictions: dict[str, Floats], earned: dict[str, float], labels: Floats) -> pd.DataFrame:
    spread = np.square(labels - labels.mean(axis=0)).sum()
    rows = []
    for name, realised in earned.items():
        missed = np.square(labels - predictions[name]).sum() if name in predictions else np.nan
        kind = "model" if name in predictions else "policy"
        explained = 1 - missed / spread if spread > 0 else np.nan
        rows.append((name, kind, explained, realised))
    return pd.DataFrame(rows, columns=["member", "kind", "explained", "realised"])


def _noise_levels(predictions: dict[str, Floats], actions: dict[str, Floats], labels: Floats) -> tuple[float, float]:
    """Return the standard deviations of the labels and of the payoffs around their predictions."""
    expected = np.mean(list(predictions.values()), axis=0) if predictions else labels.mean(axis=0)
    missed = np.ascontiguousarray(labels - expected)
    payoff = np.mean([row_dots(action, missed).std() for action in actions.values()])
    return float(missed.std()) or _TINY, float(payoff) or _TINY


def _count_level_sets(actions: dict[str, Floats], buckets: Buckets) -> LevelSetCounts:
    levels = [level for action in actions.values() for level in buckets(np.ascontiguousarray(action)).T]
    counts = np.concatenate([np.bincount(level.astype(np.int64)) for level in levels])
    filled = counts[counts > 0]
    return LevelSetCounts(len(filled), int((filled < MIN_CELL).sum()), float(np.median(filled)))
