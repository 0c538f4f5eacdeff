"""Sets and coefficients that several tests share."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optensemble.feasible import Box, FeasibleSet, Oracle, Polytope, RiskBudget, Simplex, Vertices

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
    small, large = covariance(4, seed=1), covariance(12, seed=2)
    rng = np.random.default_rng(3)
    return {
        "box": Box(lower=[-1.0, 0.0, 2.0], upper=[1.0, 0.5, 2.0]),
        "simplex": Simplex(5),
        "vertices": Vertices(rng.integers(0, 3, size=(40, 6))),
        "polytope": Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6]),
        "grid": Polytope(A_eq=A, b_eq=b),
        "risk": RiskBudget(small, float(np.diag(small).min() * 0.9)),
        "singular risk": RiskBudget(covariance(6, seed=4, rank=2), 0.05),
        "large risk": RiskBudget(large, float(np.diag(large).min() * 0.6)),
        "oracle": Oracle(top_one, dimension=3),
    }
