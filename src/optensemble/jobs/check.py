"""What was understood of a job: rows, labels, members, bounds, and whether there are enough rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
from optensemble.evaluation.planning import RowPlan, plan
from optensemble.jobs.data_warnings import doubts
from optensemble.jobs.fit import Task, shortage
from optensemble.stats.sample_size import MIN_CELL

_BUCKETS = 10
_TINY = 1e-12
_MIDNIGHT = " 00:00:00"

_SHOWN = {
    "promise of the mean": "if rows are independent, the mean {goal} can be promised within about ± {size}",
    "two candidates compared": "two candidates can be told apart if their mean {goal}s differ by {size}",
    "white box cells": "a bias of {size} is detectable in level sets of the model with the best self-assessment",
    "black box cells": "a bias of {size} is detectable in level sets of any member",
}


@dataclass(frozen=True)
class Cells:
    """How the rows fall into the level sets of the members' actions."""

    filled: int
    thin: int
    median: float


@dataclass(frozen=True)
class Understood:
    """A job in plain words and numbers.

    ``pairs`` has, for every label, the column of each member that goes with it, and the bounds of its coordinate.
    ``members`` has a row for every member: what it is, how much of the labels' variance it explains, and what it earns
    on these rows.
    """

    task: Task
    pairs: list[dict[str, Any]]
    members: pd.DataFrame
    cells: Cells
    plan: RowPlan
    doubts: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """Whether a fit is possible at all."""
        return not shortage(self.task)

    def sentences(self) -> Iterator[str]:
        """Say it all, a sentence a line."""
        task, rows = self.task, len(self.task.rows)
        order = "" if task.roles.time is None else f", in the order of {task.roles.time}{self._span()}"
        yield f"{rows:,} rows in {task.tables}{order}"
        low, high = task.labels.to_numpy().min(), task.labels.to_numpy().max()
        yield f"{len(task.roles.labels)} labels between {_short(low)} and {_short(high)}; {self._goal()}"
        yield f"decisions: {self._bounds()}"
        for what, each in (("groups", task.roles.groups), ("clusters", [task.roles.clusters or ""])):
            for name in filter(None, each):
                sizes = task.rows[name].value_counts()
                yield f"{what} by {name}: {len(sizes):,}, of {sizes.min():,} to {sizes.max():,} rows"
        if task.roles.id is not None:
            yield f"id: {task.roles.id}, distinct in all rows"
        cells = self.cells
        thin = f"; the {cells.thin:,} with fewer than {MIN_CELL} are not corrected on their own" if cells.thin else ""
        size = f"half of them of {cells.median:,.0f} rows or more{thin}"
        yield f"cells: the members' actions make {cells.filled:,} level sets, {size}"
        yield from self._seen()
        if self.enough:
            yield self.verdict

    def _seen(self) -> Iterator[str]:
        """Say what so many rows can show."""
        goal = "payoff" if self.task.job.sense == "max" else "cost"
        parts = self.plan.parts[["part", "enough", "needed", "detects"]]
        for part, enough, needed, detects in parts.itertuples(index=False):
            yield _SHOWN[part].format(goal=goal, size=f"{detects:.3g}")
            if "cells" in part and not enough:
                yield f"{needed:,} rows would fill these level sets with {MIN_CELL} rows each"

    def _span(self) -> str:
        times = self.task.rows[str(self.task.roles.time)]
        first, last = (str(times.iloc[end]) for end in (0, -1))
        days = first.endswith(_MIDNIGHT) and last.endswith(_MIDNIGHT)
        return (
            f", {first.removesuffix(_MIDNIGHT)} to {last.removesuffix(_MIDNIGHT)}" if days else f", {first} to {last}"
        )

    def _goal(self) -> str:
        return "the payoff is maximised" if self.task.job.sense == "max" else "the cost is minimised"

    def _bounds(self) -> str:
        omega = self.task.omega
        same = len(np.unique(omega.lower)) == 1 and len(np.unique(omega.upper)) == 1
        each = (
            f"each between {_short(omega.lower[0])} and {_short(omega.upper[0])}"
            if same
            else "each within bounds of its own"
        )
        return f"{type(omega).__name__}, {omega.dimension} coordinates, {each}"

    @property
    def verdict(self) -> str:
        """Whether there are enough rows, in a sentence."""
        plenty = "are enough to fit: what they cannot show is left out, and intervals are as wide as need be"
        return shortage(self.task) or f"{len(self.task.rows):,} rows {plenty}"


def _short(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def understand(task: Task) -> Understood:
    """Look at everything that a fit will look at."""
    sign = 1.0 if task.job.sense == "max" else -1.0
    labels, omega = task.labels.to_numpy(), task.omega
    predictions = {name: member.predict(task.rows) for name, member in task.models.items()}
    actions = {name: omega.argmax(sign * said) for name, said in predictions.items()}
    actions |= {name: member.decide(task.rows) for name, member in task.policies.items()}
    noise, payoff_noise = _noise(predictions, actions, labels)
    access = "mixed" if task.models and task.policies else "white" if task.models else "black"
    return Understood(
        task=task,
        pairs=_pairs(task),
        members=_members(predictions, actions, labels),
        cells=_cells(actions, Buckets(omega.lower, omega.upper, _BUCKETS)),
        plan=plan(
            k=len(actions),
            d=omega.dimension,
            noise=noise,
            rows=len(labels),
            access=access,
            payoff_noise=payoff_noise,
        ),
        doubts=tuple(doubts(predictions, actions, labels, omega)),
    )


def _pairs(task: Task) -> list[dict[str, Any]]:
    members, omega = {**task.models, **task.policies}, task.omega
    return [
        {
            "label": label,
            "columns": {name: member.names[j] for name, member in members.items()},
            "lower": float(omega.lower[j]),
            "upper": float(omega.upper[j]),
        }
        for j, label in enumerate(task.roles.labels)
    ]


def _members(predictions: dict[str, Floats], actions: dict[str, Floats], labels: Floats) -> pd.DataFrame:
    spread = np.square(labels - labels.mean(axis=0)).sum()
    rows = []
    for name, action in actions.items():
        missed = np.square(labels - predictions[name]).sum() if name in predictions else np.nan
        kind = "model" if name in predictions else "policy"
        explained = 1 - missed / spread if spread > 0 else np.nan
        rows.append((name, kind, explained, float(row_dots(action, labels).mean())))
    return pd.DataFrame(rows, columns=["member", "kind", "explained", "realised"])


def _noise(predictions: dict[str, Floats], actions: dict[str, Floats], labels: Floats) -> tuple[float, float]:
    """Return how far labels are from predictions, and payoffs from what was to be expected of them."""
    expected = np.mean(list(predictions.values()), axis=0) if predictions else labels.mean(axis=0)
    missed = np.ascontiguousarray(labels - expected)
    payoff = np.mean([row_dots(action, missed).std() for action in actions.values()])
    return float(missed.std()) or _TINY, float(payoff) or _TINY


def _cells(actions: dict[str, Floats], buckets: Buckets) -> Cells:
    levels = [level for action in actions.values() for level in buckets(np.ascontiguousarray(action)).T]
    counts = np.concatenate([np.bincount(level.astype(np.int64)) for level in levels])
    filled = counts[counts > 0]
    return Cells(len(filled), int((filled < MIN_CELL).sum()), float(np.median(filled)))
