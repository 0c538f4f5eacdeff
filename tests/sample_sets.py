"""Sets and coefficients that several tests share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optensemble.feasible import (
    Assignment,
    Box,
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

Floats = npt.NDArray[np.float64]


def grid_path(n: int = 5) -> tuple[Floats, Floats]:
    """Flow through an n x n grid from one corner to the other; one conservation row is redundant."""
    edges = [((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1)]
    edges += [((i, j), (i + 1, j)) for i in range(n - 1) for j in range(n)]
    A = np.zeros((n * n, len(edges)))
    for column, (start, end) in enumerate(edges):
        A[start[0] * n + start[1], column] = 1.0
        A[end[0] * n + end[1], column] = -1.0
    b = np.zeros(n * n)
    b[0], b[-1] = 1.0, -1.0
    return A, b


def battery(hours: int = 6, capacity: float = 2.0, efficiency: float = 0.9) -> tuple[Floats, Floats]:
    """Charging, then discharging, of every hour, with the state of charge between empty and full."""
    below = np.tril(np.ones((hours, hours)))
    charge = np.hstack([efficiency * below, -below / efficiency])
    return np.vstack([charge, -charge]), np.full(2 * hours, capacity / 2)


def covariance(dimension: int, seed: int = 0, rank: int | None = None) -> Floats:
    factor = np.random.default_rng(seed).normal(size=(dimension, rank or dimension))
    product: Floats = factor @ factor.T / dimension
    return product


def hard_rows(dimension: int, n: int = 60, seed: int = 0) -> Floats:
    """Generic, integer (many ties), zero, constant, huge and tiny coefficients."""
    rng = np.random.default_rng(seed)
    generic = rng.normal(size=(n, dimension))
    return np.concatenate(
        [
            generic,
            rng.integers(-2, 3, size=(n, dimension)).astype(float),
            np.zeros((1, dimension)),
            np.ones((1, dimension)),
            -np.ones((1, dimension)),
            np.full((1, dimension), 0.1) + 1e-17 * rng.normal(size=(1, dimension)),
            generic[:20] * 1e8,
            generic[:20] * 1e-8,
            generic[:2] * 1e300,
            generic[:2] * 1e-300,
        ]
    )


def top_one(C: Floats) -> Floats:
    actions: Floats = np.eye(C.shape[1])[C.argmax(axis=1)]
    return actions


def every_set() -> dict[str, FeasibleSet]:
    A, b = grid_path()
    A_battery, b_battery = battery()
    small, large = covariance(4, seed=1), covariance(12, seed=2)
    rng = np.random.default_rng(3)
    weights = rng.integers(1, 9, size=(2, 7)).astype(float)
    both_ways = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (2, 3), (3, 1), (1, 3)]
    return {
        "box": Box(lower=[-1.0, 0.0, 2.0], upper=[1.0, 0.5, 2.0]),
        "simplex": Simplex(5),
        "simplex of some": Simplex(5, available=[1, 0, 1, 1, 0], total=3.5),
        "vertices": Vertices(rng.integers(0, 3, size=(40, 6))),
        "vertices of some": Vertices(rng.integers(0, 3, size=(9, 6)), available=[1, 0, 0, 1, 1, 0, 1, 0, 1]),
        "polytope": Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6]),
        "grid": Polytope(A_eq=A, b_eq=b),
        "battery": Polytope(A_ub=A_battery, b_ub=b_battery),
        "risk": RiskBudget(small, float(np.diag(small).min() * 0.9)),
        "singular risk": RiskBudget(covariance(6, seed=4, rank=2), 0.05),
        "large risk": RiskBudget(large, float(np.diag(large).min() * 0.6)),
        "large singular risk": RiskBudget(covariance(12, seed=5, rank=3), 0.05),
        "capped risk": RiskBudget(large, float(np.diag(large).min() * 0.6), upper=0.4),
        "sectors": RiskBudget(large, float(np.diag(large).min()), A_ub=np.kron(np.eye(3), np.ones(4)), b_ub=[0.5] * 3),
        "fractions": Knapsack(weights[0], 12.0),
        "fractions of two": Knapsack(weights, [12.0, 15.0]),
        "knapsack": Knapsack(weights[0], 12.0, integer=True),
        "knapsack of two": Knapsack(weights, [12.0, 15.0], integer=True),
        "top k": TopK(6, 2),
        "at most k": TopK(6, 2, at_most=True),
        "top k of some": TopK(6, 2, available=[0, 1, 1, 0, 1, 1]),
        "assignment": Assignment(3, 4),
        "path": ShortestPath([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 2)], 0, 3),
        "path both ways": ShortestPath(both_ways, 0, 3),
        "path undirected": ShortestPath([(0, 1), (1, 2), (0, 2), (2, 3), (1, 3)], 0, 3, directed=False),
        "whole numbers": MixedInteger(A_ub=[[3.0, 4.0, 5.0, 1.0]], b_ub=[8.0], integer=[0, 1, 2]),
        "product": Product([TopK(3, 1), Knapsack([1.0, 2.0], 2.0), Box(upper=[2.0])]),
        "oracle": Oracle(top_one, dimension=3),
    }
