"""One table as arrays and in files: members, groups, and what must be the same of all of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import optensemble as oe
from optensemble import feasible
from tests.ensembles.decision import Ensemble
from tests.ensembles.test_decision_many_rows import same_bits
from tests.problems import Floats

__all__ = ["BY_ROW", "GAPS", "LABELS", "ROWS", "D", "Ensemble", "gappy", "labels", "make", "same_bits", "same_file"]
__all__ += ["world", "write"]

ROWS, D = 70_000, 3
LABELS = [f"y_{j}" for j in range(D)]


@cache
def world(n: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Two models, a planner, groups and regions; the first payoff is lower where the first model expects much."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, D))
    said = signal + np.array([0.5, 0.8])[:, None, None] * rng.normal(size=(2, n, D))
    payoffs = signal + 0.7 * rng.normal(size=(n, D))
    payoffs[:, 0] -= 0.7 * (said[0, :, 0] > said[0, :, 1])
    planned = np.eye(D)[(signal + rng.normal(size=(n, D))).argmax(axis=1)]
    columns = {"a": said[0], "b": said[1], "plan": planned, "y": payoffs}
    frame = pd.DataFrame({f"{name}_{j}": values[:, j] for name, values in columns.items() for j in range(D)})
    frame = frame.assign(group=[f"g{i // 9}" for i in range(n)], region=np.where(signal[:, 0] > 0, "east", "west"))
    return frame.assign(budget=rng.uniform(0, 4, n), **{f"most_{j}": rng.uniform(0, 2, n) for j in range(D)})


@cache
def gappy(n: int = ROWS) -> pd.DataFrame:
    """The same rows with weights; the first model joins late, members lack rows at random, and so do labels."""
    rng, frame = np.random.default_rng(1), world(n).copy()
    gone = {"a": np.arange(n) < 0.3 * n, "b": rng.random(n) < 0.2, "plan": rng.random(n) < 0.1}
    for name, rows in gone.items():
        frame.loc[rows, [f"{name}_{j}" for j in range(D)]] = np.nan
    frame.loc[rng.random(n) < 0.01, "y_1"] = np.nan
    return frame.assign(weight=rng.integers(0, 4, n).astype(np.float64))


GAPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "models that are absent": ({}, {"missing_labels": "drop"}),
    "members that are absent, in time order": ({"access": "both"}, {"missing_labels": "drop", "time_ordered": True}),
    "weights": ({}, {"missing_labels": "drop", "sample_weight": "weight"}),
    "weights in groups": ({"subgroups": "region"}, {"sample_weight": "weight", "groups": "group"}),
}
"""Parameters and options of fits on rows with gaps and weights."""


def labels(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[LABELS]


def make(access: str = "models", **parameters: Any) -> Ensemble:
    a, b, plan = ((name, oe.Columns([f"{name}_{j}" for j in range(D)])) for name in ("a", "b", "plan"))
    members = {"models": ([a, b], None), "policies": (None, [plan]), "both": ([a, b], [plan])}[access]
    return Ensemble(*members, **{"feasible": feasible.Simplex(D), "context": None, **parameters})


def spent_on_the_best(C: Floats, X: Any) -> Floats:
    """All of the row's budget for the largest coefficient."""
    best: Floats = np.eye(C.shape[1])[C.argmax(axis=1)]
    return best * np.asarray(X["budget"], dtype=np.float64)[:, None]


def within_budget(actions: Floats, X: Any) -> Any:
    return actions.sum(axis=1) <= np.asarray(X["budget"], dtype=np.float64) * (1 + 1e-9)


BAG = feasible.Knapsack([1.0, 2.0, 3.0], oe.Columns("budget"))
ORACLE = feasible.Oracle(spent_on_the_best, D, upper=4.0, contains=within_budget, rows=True)
SIDES = feasible.Product([feasible.Box(upper=oe.Columns("most_0"), dimension=1), feasible.Simplex(2)])

BY_ROW: dict[str, feasible.FeasibleSet] = {
    "a knapsack by row": feasible.Knapsack([1.0, 2.0, 3.0], oe.Columns("budget")),
    "a box by row": feasible.Box(upper=oe.Columns([f"most_{j}" for j in range(D)])),
    "a knapsack of limits by row": feasible.Knapsack([1.0, 2.0, 3.0], oe.Columns("budget"), upper=oe.Columns("most_*")),
    "a product by row": SIDES,
    "an oracle of the rows": ORACLE,
    "sets by key": feasible.ByKey("region", {"east": BAG, "west": feasible.Product([SIDES])}),
    "oracles by key": feasible.ByKey("region", {"east": ORACLE, "west": BAG}),
}
"""Sets that differ by row of the world."""

GAPS["weights, and a set by row"] = ({"feasible": BY_ROW["a knapsack by row"]}, {"sample_weight": "weight"})


def write(frame: pd.DataFrame, folder: Path, cuts: list[int], group: int) -> str:
    """Write a frame as files that are cut at these rows, with row groups of this size; return their pattern."""
    folder.mkdir(exist_ok=True)
    ends = [0, *cuts, len(frame)]
    for number in range(len(ends) - 1):
        part = pa.Table.from_pandas(frame[ends[number] : ends[number + 1]], preserve_index=False)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=group)
    return str(folder / "part-*.parquet")


def same_file(left: Ensemble, right: Ensemble, folder: Path) -> None:
    """All that was learned is the same, and the files are too."""
    same_bits(left, right)
    left.save(folder / "left.oe", keep_rows=False)
    right.save(folder / "right.oe", keep_rows=False)
    assert (folder / "left.oe").read_bytes() == (folder / "right.oe").read_bytes()
