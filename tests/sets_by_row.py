"""Sets whose parameters come from the row, each with a table of rows, for the tests that all of them share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd

import optensemble as oe
from optensemble.feasible import Assignment, Box, ByKey, FeasibleSet, Knapsack, Product, Simplex, TopK

Case = tuple[FeasibleSet, pd.DataFrame]
"""A set, and the rows that it takes its parameters from."""


def _columns(name: str, values: npt.NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(values, columns=[f"{name}_{j}" for j in range(values.shape[1])])


def _box(rng: np.random.Generator, n: int) -> Case:
    return Box(lower=-1.0, upper=oe.Columns("free_*"), dimension=4), _columns(
        "free", rng.integers(-1, 3, (n, 4)).astype(float)
    )


def _knapsack(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"budget": rng.choice([0.0, 2.5, 7.0, 50.0], n) * rng.choice([1.0, rng.uniform()], n)})
    return Knapsack([3, 4, 5, 2, 0, 2], capacity=oe.Columns("budget")), X


def _knapsack_of_budget(rng: np.random.Generator, n: int) -> Case:
    return Knapsack([3, 4, 5, 2], capacity=oe.Columns("budget")), _knapsack(rng, n)[1]


def _knapsack_of_weights(rng: np.random.Generator, n: int) -> Case:
    X = pd.concat(
        [_columns("w", rng.integers(0, 4, (n, 5)).astype(float)), _columns("up", rng.uniform(0, 2, (n, 5)))], axis=1
    )
    return Knapsack(oe.Columns("w_*"), capacity=3.0, upper=oe.Columns("up_*"), dimension=5), X


def _knapsack_of_whole_items(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"budget": rng.uniform(0, 15, n), "volume": rng.uniform(0, 10, n)})
    weights = [[3, 4, 5, 2, 1, 2], [1, 1, 4, 3, 2, 2]]
    return Knapsack(weights, capacity=[oe.Columns("budget"), oe.Columns("volume")], integer=True), X


def _assignment(rng: np.random.Generator, n: int) -> Case:
    forbidden = (rng.random((n, 3, 4)) < rng.uniform(0.0, 0.8, (n, 1, 1))).astype(float)
    forbidden[:, range(3), rng.permutation(4)[:3]] = 0.0
    return Assignment(3, 4, forbidden=oe.Columns("off_*")), _columns("off", forbidden.reshape(n, 12))


def _product(rng: np.random.Generator, n: int) -> Case:
    (box, free), (bag, budget) = _box(rng, n), _knapsack(rng, n)
    return Product([box, Simplex(2), Product([bag])]), pd.concat([free, budget], axis=1)


def _by_key(rng: np.random.Generator, n: int) -> Case:
    (box, free), (bag, budget) = _box(rng, n), _knapsack_of_budget(rng, n)
    X = pd.concat([free, budget, pd.DataFrame({"region": rng.choice(["north", "south", "east"], n)})], axis=1)
    return ByKey("region", {"north": box, "south": bag, "east": TopK(4, 2)}), X


def _by_key_of_numbers(rng: np.random.Generator, n: int) -> Case:
    omega, X = _by_key(rng, n)
    X["month"] = rng.choice([1, 12], n)
    return ByKey("month", {1: omega, 12: Product([Box(upper=[2.0]), Simplex(3)])}), X


CASES: dict[str, Callable[[np.random.Generator, int], Case]] = {
    "assignment": _assignment,
    "box": _box,
    "by key": _by_key,
    "by key of numbers": _by_key_of_numbers,
    "knapsack": _knapsack,
    "knapsack of weights": _knapsack_of_weights,
    "knapsack of whole items": _knapsack_of_whole_items,
    "product": _product,
}
