"""Sets whose parameters come from the row, each with a table of rows, for the tests that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import optensemble as oe
from optensemble.feasible import (
    Assignment,
    Box,
    ByKey,
    FeasibleSet,
    Knapsack,
    MixedInteger,
    Oracle,
    Polytope,
    Product,
    RiskBudget,
    ShortestPath,
    Simplex,
    TopK,
    Vertices,
)
from tests.sample_sets import battery, grid_path

Case = tuple[FeasibleSet, pd.DataFrame]
"""A set, and the rows that it takes its parameters from."""


def _columns(name: str, values: npt.NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(values, columns=[f"{name}_{j}" for j in range(values.shape[1])])


def _flags(rng: np.random.Generator, n: int, count: int) -> pd.DataFrame:
    """Zeros and ones, of which each row has a 1."""
    flags = rng.random((n, count)) < rng.uniform(0.0, 1.0, (n, 1))
    flags[np.arange(n), rng.integers(0, count, n)] = True
    return _columns("open", flags.astype(float))


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


def _risk(d: int) -> npt.NDArray[np.float64]:
    """A covariance of few factors; the last two coordinates are alike."""
    factors = np.random.default_rng(d).normal(size=(d, 3))
    factors[-1] = factors[-2]
    return np.asarray(factors @ factors.T + np.diag(np.arange(1, d + 1) % 3 + 0.5), dtype=np.float64)


def _limits(omega: RiskBudget, rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Limits from the least variance, exactly, to ones that bind nowhere."""
    return omega.least_variance * rng.choice([1.0, 1.0 + 1e-12, 1.001, 1.5, 3.0, 50.0, rng.uniform(1, 3)], n)


def _risk_limit(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"risk": _limits(RiskBudget(_risk(6), 1e9), rng, n)})
    return RiskBudget(_risk(6), limit=oe.Columns("risk")), X


def _risk_limit_and_sectors(rng: np.random.Generator, n: int) -> Case:
    rows: dict[str, Any] = {"upper": 0.3, "A_ub": [[1.0] * 5 + [0.0] * 7], "b_ub": [0.6]}
    X = pd.DataFrame({"risk": _limits(RiskBudget(_risk(12), 1e9, **rows), rng, n)})
    return RiskBudget(_risk(12), limit=oe.Columns("risk"), **rows), X


def _risk_caps(rng: np.random.Generator, n: int) -> Case:
    caps = np.where(rng.uniform(size=(n, 1)) < 0.3, 1.0, rng.choice([0.15, 0.3, 0.5, 2.0], (n, 10)) + 0.0)
    return RiskBudget(_risk(10), limit=1.2, upper=oe.Columns("cap_*")), _columns("cap", caps)


def _risk_caps_and_cash(rng: np.random.Generator, n: int) -> Case:
    caps = rng.uniform(0.1, 0.6, (n, 11))
    caps[:, 0] = rng.choice([0.1, 0.4, 1.0], n)
    risk = np.pad(_risk(10), ((1, 0), (1, 0)))
    X = _columns("cap", caps).assign(risk=rng.choice([0.8, 1.0, 2.0, 9.0], n))
    sectors: dict[str, Any] = {"A_ub": [[0.0] + [1.0] * 5 + [0.0] * 5], "b_ub": [0.7]} if rng.uniform() < 0.5 else {}
    return RiskBudget(risk, limit=oe.Columns("risk"), upper=oe.Columns("cap_*"), **sectors), X


def _risk_limit_and_cap(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"risk": rng.choice([1.0, 1.3, 2.0, 9.0], n), "cap": rng.choice([0.4, 0.6, 1.0], n)})
    return RiskBudget(_risk(6), limit=oe.Columns("risk"), upper=oe.Columns("cap")), X


def _simplex(rng: np.random.Generator, n: int) -> Case:
    X = _flags(rng, n, 5).assign(amount=rng.choice([0.0, 1.0, 0.3, 7.5], n))
    return Simplex(5, available=oe.Columns("open_*"), total=oe.Columns("amount")), X


def _simplex_of_available(rng: np.random.Generator, n: int) -> Case:
    return Simplex(4, available=oe.Columns("open_*"), total=2.0), _flags(rng, n, 4)


def _top_k(rng: np.random.Generator, n: int) -> Case:
    return TopK(12, k=oe.Columns("places")), pd.DataFrame({"places": rng.integers(1, 13, n)})


def _top_k_of_available(rng: np.random.Generator, n: int) -> Case:
    X = _flags(rng, n, 12)
    X["places"] = rng.integers(1, X.sum(axis=1) + 1)
    return TopK(12, k=oe.Columns("places"), available=oe.Columns("open_*")), X


def _top_k_at_most(rng: np.random.Generator, n: int) -> Case:
    X = _flags(rng, n, 9).assign(places=rng.integers(0, 10, n))
    return TopK(9, oe.Columns("places"), at_most=True, available=oe.Columns("open_*")), X


def _vertices(rng: np.random.Generator, n: int) -> Case:
    return Vertices(rng.integers(-1, 3, (7, 3)), available=oe.Columns("open_*")), _flags(rng, n, 7)


def _knapsack_of_two(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"budget": rng.choice([0.0, 4.0, 9.0, rng.uniform(0, 20)], n), "volume": rng.uniform(0, 10, n)})
    X = pd.concat([X, _columns("up", rng.choice([0.0, 0.5, 1.0, 3.0], (n, 6)))], axis=1)
    weights = [[3, 4, 5, 2, 1, 2], [1, 1, 4, 3, 2, 2]]
    capacity = [oe.Columns("budget"), oe.Columns("volume")]
    return Knapsack(weights, capacity=capacity, upper=oe.Columns("up_*"), dimension=6), X


def _polytope(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"room": rng.choice([0.0, 0.3, 0.5, 1.0, 3.0], n)})
    return Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[oe.Columns("room"), 0.6]), X


def _polytope_of_bounds(rng: np.random.Generator, n: int) -> Case:
    low = rng.choice([-1.0, 0.0, 0.25, rng.uniform()], (n, 5))
    high = low + rng.choice([0.0, 0.5, 1.0, 40.0, rng.uniform()], (n, 5))
    X = pd.concat([_columns("low", low), _columns("high", high)], axis=1)
    X["total"] = low.sum(axis=1) + rng.choice([0.0, 0.5, 1.0], n) * (high - low).sum(axis=1)
    A_ub = [[1, -1, 0, 2, 0], [-1, 1, 0, -2, 0]]
    omega = Polytope(A_ub, [1e3, 1e3], np.ones((1, 5)), oe.Columns("total"), oe.Columns("low_*"), oe.Columns("high_*"))
    return omega, X


def _whole_numbers(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"room": rng.choice([0.0, 3.0, 8.0, 7.5], n)})
    X = pd.concat([X, _columns("up", rng.choice([0.0, 1.0, 3.0], (n, 4)))], axis=1)
    A_ub = [[3.0, 4.0, 5.0, 1.0], [1.0, -1.0, 0.0, 2.0]]
    return MixedInteger(A_ub=A_ub, b_ub=[oe.Columns("room"), 2.0], upper=oe.Columns("up_*")), X


def _some_whole_numbers(rng: np.random.Generator, n: int) -> Case:
    X = pd.DataFrame({"room": rng.choice([0.0, 3.0, 8.0, 7.5], n)})
    return MixedInteger(A_ub=[[3.0, 4.0, 5.0, 1.0]], b_ub=oe.Columns("room"), integer=[0, 1, 2]), X


def _battery(rng: np.random.Generator, n: int) -> Case:
    A, _ = battery(8)
    charge = rng.choice([0.0, 0.5, 1.0, 2.0, rng.uniform()], n)
    X = _columns("room", np.concatenate([np.tile(2.0 - charge, (8, 1)), np.tile(charge, (8, 1))]).T)
    return Polytope(A_ub=A, b_ub=oe.Columns("room_*")), X


def _grid(rng: np.random.Generator, n: int) -> Case:
    A, b = grid_path(4)
    X = pd.concat(
        [_columns("flow", rng.choice([1.0, 0.5, 0.0], (n, 1)) * b), _columns("cap", rng.uniform(0.5, 1, (n, 24)))],
        axis=1,
    )
    return Polytope(A_eq=A, b_eq=oe.Columns("flow_*"), upper=oe.Columns("cap_*")), X


def largest_first(C: npt.NDArray[np.float64], X: pd.DataFrame) -> npt.NDArray[np.float64]:
    """All that there is of the row for the largest coefficient."""
    first: npt.NDArray[np.float64] = np.eye(C.shape[1])[C.argmax(axis=1)]
    return first * np.asarray(X["amount"], dtype=np.float64)[:, None]


def _oracle(rng: np.random.Generator, n: int) -> Case:
    omega = Oracle(largest_first, 4, upper=9.0, contains=within_amount, rows=True)
    return omega, pd.DataFrame({"amount": rng.uniform(0, 9, n)})


def within_amount(actions: npt.NDArray[np.float64], X: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether all that there is is used, and no more."""
    return np.asarray((actions >= 0).all(axis=1) & (np.abs(actions.sum(axis=1) - np.asarray(X["amount"])) < 1e-12))


def _oracle_inside(rng: np.random.Generator, n: int) -> Case:
    (oracle, amount), (keyed, X) = _oracle(rng, n), _by_key(rng, n)
    sides = Product([Box(upper=[2.0]), Oracle(largest_first, 3, upper=9.0, contains=within_amount, rows=True)])
    chosen = ByKey("which", {"oracle": oracle, "keyed": keyed, "sides": sides})
    return chosen, pd.concat([X, amount], axis=1).assign(which=rng.choice(["oracle", "keyed", "sides"], n))


STREETS = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (2, 3), (3, 1), (1, 3), (3, 2), (0, 3), (1, 1), (2, 3)]
"""Edges both ways, some twice, such that from everywhere a way leads everywhere, also without some of them."""


def _path(rng: np.random.Generator, n: int) -> Case:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 2), (3, 4), (2, 4), (1, 4), (3, 4)]
    closed = _columns("closed", rng.integers(0, 2, (n, 10)).astype(float)).assign(closed_0=0.0, closed_8=0.0)
    return ShortestPath(edges, 0, oe.Columns("to"), closed=oe.Columns("closed_*")), closed.assign(
        to=rng.choice([1, 4], n)
    )


def _path_both_ways(rng: np.random.Generator, n: int) -> Case:
    ends = np.array([rng.permutation(4)[:2] for _ in range(n)])
    X = pd.DataFrame({"from": ends[:, 0], "to": ends[:, 1]})
    return ShortestPath(STREETS, oe.Columns("from"), oe.Columns("to"), closed=np.arange(13) % 5 == 3), X


def _path_undirected(rng: np.random.Generator, n: int) -> Case:
    names = np.array(["hill", "lake", "home", "work"])
    edges = [(names[tail], names[head]) for tail, head in STREETS]
    closed = _columns("closed", (rng.random((n, 13)) < 0.4).astype(float)).assign(closed_0=0, closed_2=0, closed_6=0)
    X = closed.assign(**{"from": names[rng.integers(0, 3, n)]})
    return ShortestPath(edges, oe.Columns("from"), "work", False, closed=oe.Columns("closed_*")), X


CASES: dict[str, Callable[[np.random.Generator, int], Case]] = {
    "assignment": _assignment,
    "box": _box,
    "by key": _by_key,
    "by key of numbers": _by_key_of_numbers,
    "knapsack": _knapsack,
    "knapsack of weights": _knapsack_of_weights,
    "knapsack of whole items": _knapsack_of_whole_items,
    "oracle": _oracle,
    "oracle inside others": _oracle_inside,
    "path": _path,
    "path both ways": _path_both_ways,
    "path undirected": _path_undirected,
    "product": _product,
    "risk limit": _risk_limit,
    "risk limit and sectors": _risk_limit_and_sectors,
    "risk caps": _risk_caps,
    "risk limit and cap": _risk_limit_and_cap,
    "risk caps and cash": _risk_caps_and_cash,
    "simplex": _simplex,
    "simplex of available": _simplex_of_available,
    "top k": _top_k,
    "top k at most": _top_k_at_most,
    "top k of available": _top_k_of_available,
    "vertices": _vertices,
    "knapsack of two resources": _knapsack_of_two,
    "polytope": _polytope,
    "polytope of bounds": _polytope_of_bounds,
    "whole numbers": _whole_numbers,
    "some whole numbers": _some_whole_numbers,
    "battery": _battery,
    "grid": _grid,
}
