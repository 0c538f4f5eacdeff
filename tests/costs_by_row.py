"""Sets with a known cost whose parameters come from the row, beside those without one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

import optensemble as oe
from optensemble.feasible import Knapsack, MixedInteger, Polytope, Product, RiskBudget, Simplex, Vertices, WithCost
from tests import sets_by_row
from tests.sets_by_row import Case, _box, _columns, _knapsack, _knapsack_of_whole_items, _simplex, _vertices

__all__ = ["CASES", "Case"]


def _moving(rng: np.random.Generator, n: int, d: int) -> pd.DataFrame:
    """What is held, and a rate."""
    held = rng.dirichlet(np.ones(d), n).round(1)
    return _columns("held", held).assign(fee=rng.choice([0.0, 0.5, 1.0], n), gamma=rng.choice([0.0, 0.5], n))


_TURNOVER = (oe.Columns("held_*"), oe.Columns("fee"))


def _cost_on_simplex(rng: np.random.Generator, n: int) -> Case:
    return WithCost(Simplex(5), turnover=_TURNOVER), _moving(rng, n, 5)


def _cost_on_knapsack(rng: np.random.Generator, n: int) -> Case:
    bag, budget = _knapsack(rng, n)
    return WithCost(bag, 0.5, turnover=_TURNOVER), pd.concat([budget, _moving(rng, n, 6)], axis=1)


def _cost_on_box(rng: np.random.Generator, n: int) -> Case:
    box, free = _box(rng, n)
    squares = np.diag([0.0, 1.0, 2.0, 0.5])
    omega = WithCost(box, quadratic=(oe.Columns("gamma"), squares), turnover=_TURNOVER)
    return omega, pd.concat([free, _moving(rng, n, 4)], axis=1)


def _cost_on_whole_items(rng: np.random.Generator, n: int) -> Case:
    bag, room = _knapsack_of_whole_items(rng, n)
    omega = WithCost(bag, oe.Columns("fee"), turnover=([oe.Columns("held_0"), 0, 1, 1, 0, 0], oe.Columns("fee")))
    return omega, pd.concat([room, _moving(rng, n, 1)], axis=1)


def _cost_on_list(rng: np.random.Generator, n: int) -> Case:
    listed = Vertices(rng.integers(0, 3, (12, 4)))
    squares = (oe.Columns("gamma"), np.eye(4) + 0.5)
    return WithCost(listed, quadratic=squares, turnover=_TURNOVER), _moving(rng, n, 4)


def _cost_by_clarabel(rng: np.random.Generator, n: int) -> Case:
    squares = (oe.Columns("gamma"), np.eye(4) + 0.5)
    return WithCost(Simplex(4), quadratic=squares, turnover=_TURNOVER), _moving(rng, n, 4)


def _mean_variance(rng: np.random.Generator, n: int) -> Case:
    sectors = Polytope(A_ub=[[1, 1, 0, 0, 0]], b_ub=[0.5], A_eq=[[1] * 5], b_eq=[1], upper=0.6)
    X = _moving(rng, n, 1)
    return WithCost(sectors, oe.Columns("fee"), (oe.Columns("gamma"), np.eye(5) + 0.5)), X


def _cost_on_polytope(rng: np.random.Generator, n: int) -> Case:
    X = _moving(rng, n, 6).assign(room=rng.choice([0.3, 0.6, 2.0], n), most=rng.choice([0.4, 1.0], n))
    rows = [[1, 1, 1, 0, 0, 0], [0, 0, 1, 2, -1, 1]]
    omega = Polytope(rows, [oe.Columns("room"), 0.5], [[1] * 6], [1], upper=oe.Columns("most"))
    return WithCost(omega, turnover=_TURNOVER), X


def _cost_on_two_resources(rng: np.random.Generator, n: int) -> Case:
    X = _moving(rng, n, 5).assign(room=rng.choice([0.0, 1.5, 3.0], n))
    bag = Knapsack([[1, 2, 3, 4, 1], [2, 0, 1, 1, 1]], capacity=[oe.Columns("room"), 1.5])
    return WithCost(bag, turnover=_TURNOVER), X


def _cost_on_risk(rng: np.random.Generator, n: int) -> Case:
    X = _moving(rng, n, 4).assign(risk=rng.uniform(0.8, 2.0, n))
    omega = RiskBudget(np.diag([1.0, 2.0, 3.0, 4.0]), limit=oe.Columns("risk"))
    return WithCost(omega, turnover=_TURNOVER), X


def _cost_on_whole_numbers(rng: np.random.Generator, n: int) -> Case:
    X = _moving(rng, n, 3).assign(room=rng.choice([1.0, 2.5, 4.0], n), most=rng.choice([1.0, 2.0], n))
    omega = MixedInteger([[1, 2, 1]], oe.Columns("room"), upper=oe.Columns("most"), integer=[0, 1])
    return WithCost(omega, turnover=_TURNOVER), X


def _cost_on_available(rng: np.random.Generator, n: int) -> Case:
    simplex, X = _simplex(rng, n)
    return WithCost(simplex, turnover=_TURNOVER), pd.concat([X, _moving(rng, n, 5)], axis=1)


def _cost_on_listed_available(rng: np.random.Generator, n: int) -> Case:
    listed, X = _vertices(rng, n)
    return WithCost(listed, turnover=_TURNOVER), pd.concat([X, _moving(rng, n, 3)], axis=1)


def _costs_in_product(rng: np.random.Generator, n: int) -> Case:
    (simplex, moving), (box, free) = _cost_on_simplex(rng, n), _box(rng, n)
    return Product([simplex, WithCost(box, linear=oe.Columns("fee"))]), pd.concat([moving, free], axis=1)


CASES: dict[str, Callable[[np.random.Generator, int], Case]] = {
    **sets_by_row.CASES,
    "box with cost": _cost_on_box,
    "knapsack with cost": _cost_on_knapsack,
    "list with cost": _cost_on_list,
    "list with flags and cost": _cost_on_listed_available,
    "mean-variance at a cost": _mean_variance,
    "product with costs": _costs_in_product,
    "simplex with cost": _cost_on_simplex,
    "simplex with flags and cost": _cost_on_available,
    "squares by clarabel": _cost_by_clarabel,
    "whole items with cost": _cost_on_whole_items,
    "whole numbers with cost": _cost_on_whole_numbers,
    "risk with cost": _cost_on_risk,
    "polytope with cost": _cost_on_polytope,
    "two resources with cost": _cost_on_two_resources,
}
