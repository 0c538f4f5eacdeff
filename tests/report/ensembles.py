"""Fitted ensembles with rows that came later, as users might have them; each is made once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import optensemble as oe
from optensemble import feasible
from optensemble.ensembles.base import Policy
from optensemble.report.data import ReportData, report_data
from optensemble.report.page import make_report_page

Floats = npt.NDArray[np.float64]

NASTY = """<script>alert("1")</script> & 'more' $x_1$ id="z 日本語"""
LONG = "a_name_without_any_space_" * 6


@dataclass(frozen=True)
class Case:
    """What was data, and the rows it was data on."""

    data: ReportData
    X: Any


def judge(
    ensemble: Policy, X: Any, Y: Floats, coordinates: list[str], when: pd.Series | None = None, **audited: Any
) -> Case:
    answer, audit = ensemble.answer(X), ensemble.audit(X, Y, **audited)
    data = report_data(ensemble, audit, answer, X, Y, when=when, coordinates=coordinates, source="later.parquet")
    return Case(data, X)


@cache
def electricity() -> Case:
    """A battery, 24 hourly prices, three vendors who know half of a day each, a planner, in time order."""
    n, m, hours = 400, 200, np.arange(24)
    rng = np.random.default_rng(0)
    shape = 3.2 * rng.normal(size=(n + m, 24)).cumsum(axis=1)
    base = 40 + 15 * np.sin((hours - 9) / 24 * 2 * np.pi) + 8 * np.sin(np.arange(n + m) / 365 * 2 * np.pi)[:, None]
    prices = base + shape + rng.normal(0, 4, shape.shape)
    plan = np.zeros_like(prices)
    plan[:, [3, 4, 13]], plan[:, [8, 18, 19]] = -0.5, 0.5
    said = {
        "early": base + shape * np.where(hours < 12, 0.9, 0.1) + rng.normal(0, 2.5, shape.shape),
        "late": base + shape * np.where(hours < 12, 0.2, 0.8) + rng.normal(0, 3, shape.shape),
        "ours": base + 0.4 * shape + rng.normal(0, 6, shape.shape),
        "planner": plan,
    }
    X = pd.DataFrame({f"{name}_{j}": column for name, table in said.items() for j, column in enumerate(table.T)})
    charge = np.tril(np.ones((24, 24)))
    omega = feasible.Polytope(
        np.vstack([charge, -charge]), np.ones(48), np.ones((1, 24)), np.zeros(1), lower=-0.5, upper=0.5
    )
    members = [(name, oe.Columns([f"{name}_{j}" for j in range(24)])) for name in said]
    ensemble = oe.DecisionEnsemble(models=members[:3], policies=members[3:], feasible=omega)
    ensemble.fit(X[:n], prices[:n], time_ordered=True)
    when = pd.Series(pd.date_range("2023-01-01", periods=n + m))[n:].reset_index(drop=True)
    return judge(ensemble, X[n:].reset_index(drop=True), prices[n:], [f"h{hour:02d}" for hour in hours], when)


@cache
def portfolio() -> Case:
    """Four assets under a risk limit, two models and a policy; rows are independent."""
    n, m, mean = 500, 800, np.array([0.2, 0.1, 0.3, 0.0])
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n + m, 4))
    slopes = 0.5 * rng.normal(size=(4, 4))
    Y = X @ slopes + mean + rng.normal(scale=0.8, size=(n + m, 4))
    covariance = np.cov(Y.T)
    omega = feasible.RiskBudget(covariance, 0.8 * float(np.diag(covariance).min()))
    first = np.arange(4) < 2
    models = [("left", lambda X: np.where(first, X @ slopes, 0)), ("right", lambda X: np.where(first, 0, X @ slopes))]
    steady = [("steady", lambda X: omega.argmax(np.tile(mean, (len(X), 1))))]
    ensemble = oe.DecisionEnsemble(models=models, policies=steady, feasible=omega).fit(X[:n], Y[:n], random_state=1)
    return judge(ensemble, X[n:], Y[n:], ["north", "south", "east", "west"])


@cache
def journey() -> Case:
    """The cost of a way to work, which rises after the fit: the promise is not kept."""
    n, m, usual = 400, 300, np.array([10.0, 12.0, 21.0, 9.0, 14.0])
    rng = np.random.default_rng(2)
    roads = [("home", "lake"), ("lake", "work"), ("home", "work"), ("home", "hill"), ("hill", "work")]
    X = rng.normal(size=(n + m, 5))
    Y = usual + 3 * X + rng.normal(0, 2, X.shape)
    Y[n:] += np.linspace(0, 4, m)[:, None]
    models = [("maps", lambda X: usual + 3 * X * [1, 1, 0, 0, 0]), ("radio", lambda X: usual + 3 * X * [0, 0, 1, 1, 1])]
    omega = feasible.ShortestPath(roads, "home", "work")
    ensemble = oe.DecisionEnsemble(models=models, feasible=omega, sense="min").fit(X[:n], Y[:n])
    names = [f"{start}→{end}" for start, end in roads]
    return judge(ensemble, X[n:], Y[n:], names, pd.Series(np.arange(float(m))), time_ordered=True)


def boxes(kind: str, sense: str = "max", n: int = 400, m: int = 300, **parameters: Any) -> Case:
    """The paper's algorithms, on four labels; each of three members knows some of them."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n + m, 4))
    Y = X + rng.normal(scale=0.6, size=X.shape)
    sign = 1.0 if sense == "max" else -1.0
    omega = feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 1]], b_ub=[0.8, 1.1])

    def model(i: int) -> Callable[[Floats], Floats]:
        return lambda X: X * (np.arange(4) % 3 == i)

    def policy(i: int) -> Callable[[Floats], Floats]:
        return lambda X: omega.argmax(sign * model(i)(X))

    member, make = (model, oe.WhiteBoxEnsemble) if kind == "white" else (policy, oe.BlackBoxEnsemble)
    ensemble = make([(f"m{i}", member(i)) for i in range(3)], omega, sense=sense, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oe.exceptions.NotConvergedWarning)
        ensemble.fit(X[:n], Y[:n])
    return judge(ensemble, X[n:], Y[n:], ["a", "b", "c", "d"])


@cache
def white_box() -> Case:
    return boxes("white")


@cache
def white_box_of_costs() -> Case:
    return boxes("white", "min")


@cache
def black_box() -> Case:
    return boxes("black")


@cache
def paper() -> Case:
    """Fitted on so few rows that nothing can be promised of others."""
    return boxes("white", n=60, validation=None, max_rounds=50)


def simplex(
    d: int,
    k: int,
    m: int,
    *,
    n: int = 120,
    sense: str = "max",
    names: list[str] | None = None,
    coordinates: list[str] | None = None,
    constant: bool = False,
    when: pd.Series | None = None,
    **audited: Any,
) -> Case:
    """One unit to share out among ``d`` coordinates; each of ``k`` models knows some of them."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n + m, d))
    Y = np.ones_like(X) if constant else X + rng.normal(scale=0.5, size=X.shape)
    models = [
        (name, lambda X, i=i: X * (np.arange(d) % k == i))
        for i, name in enumerate(names or [f"m{i}" for i in range(k)])
    ]
    omega = feasible.Simplex(d) if d > 1 else feasible.Box(0, 1, dimension=1)
    ensemble = oe.DecisionEnsemble(models=models, feasible=omega, sense=sense).fit(X[:n], Y[:n])
    return judge(ensemble, X[n:], Y[n:], coordinates or [f"y_{j}" for j in range(d)], when, **audited)


CASES: dict[str, Callable[[], Case]] = {
    "electricity": electricity,
    "portfolio": portfolio,
    "journey": journey,
    "white box": white_box,
    "white box of costs": white_box_of_costs,
    "black box": black_box,
    "paper": paper,
}


@cache
def page_of(name: str) -> str:
    return make_report_page(CASES[name]().data)
