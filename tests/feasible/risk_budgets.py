"""Risk budgets of every kind, and independent solvers to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from optensemble.feasible.risk_budget import RiskBudget
from tests.sample_sets import Floats, covariance


def wishart(d: int, seed: int = 0) -> Floats:
    factor = np.random.default_rng(seed).normal(size=(d, d + 10))
    product: Floats = factor @ factor.T / (d + 10)
    return product


def sectors(d: int, count: int = 3) -> Floats:
    member = np.zeros((count, d))
    member[np.arange(d) % count, np.arange(d)] = 1.0
    return member


def tight(matrix: Floats, times: float = 1.7, **constraints: Any) -> RiskBudget:
    """A set whose limit is a multiple of the least variance."""
    least = RiskBudget(matrix, 1e9, **constraints).least_variance
    return RiskBudget(matrix, times * least, **constraints)


PLAIN = {
    "one": RiskBudget([[2.0]], 2.0),
    "two": RiskBudget([[4.0, 0.5], [0.5, 1.0]], 1.5),
    "four": RiskBudget(covariance(4, 1), float(np.diag(covariance(4, 1)).min() * 0.9)),
    "barely": tight(wishart(4), 1.0005),
    "loose": RiskBudget(covariance(4, 1), 100.0),
    "eight": RiskBudget(covariance(8, 2), 0.25),
    "low rank": RiskBudget(covariance(6, 3, rank=2), 0.05),
    "twins": RiskBudget(np.ones((3, 3)) + np.diag([0.0, 0.0, 1.0]), 1.2),
    "zero": RiskBudget(np.zeros((3, 3)), 0.0),
    "nine": tight(wishart(9)),
    "twelve": RiskBudget(covariance(12, 4), float(np.diag(covariance(12, 4)).min() * 0.6)),
    "large low rank": RiskBudget(covariance(12, 5, rank=3), 0.05),
    "large rank one": RiskBudget(np.outer(np.arange(-4.0, 8.0), np.arange(-4.0, 8.0)), 0.5),
    "large zero": RiskBudget(np.zeros((10, 10)), 0.0),
    "large loose": RiskBudget(covariance(12, 4), 100.0),
    "fifty": tight(wishart(50)),
}
CONSTRAINED = {
    "caps": tight(wishart(12), upper=0.2),
    "small caps": tight(wishart(4), 1.3, upper=[0.3, 0.5, 0.4, 1.0]),
    "caps low rank": RiskBudget(covariance(12, 5, rank=3), 0.05, upper=0.3),
    "sectors": tight(wishart(12), A_ub=sectors(12), b_ub=[0.4, 0.35, 0.3]),
    "small sectors": tight(wishart(5), 1.3, A_ub=sectors(5, 2), b_ub=[0.6, 0.5], upper=0.45),
    "sectors and caps": tight(wishart(15, 3), A_ub=10 * sectors(15), b_ub=[4.0, 4.0, 4.0], upper=0.15),
    "balanced": tight(wishart(10, 2), A_eq=[np.linspace(-1.0, 1.0, 10), np.linspace(-2.0, 2.0, 10)], b_eq=[0.1, 0.2]),
    "singular sectors": RiskBudget(covariance(10, 6, rank=3), 0.1, A_ub=sectors(10), b_ub=[0.5, 0.5, 0.4]),
    "fifty sectors": tight(wishart(50), A_ub=sectors(50, 5), b_ub=np.full(5, 0.3)),
}
EVERY = {**PLAIN, **CONSTRAINED}


def factor_model(dimension: int) -> Floats:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(dimension, 3))
    model: Floats = factors @ factors.T + np.diag(rng.uniform(0.2, 1.0, dimension))
    return model
