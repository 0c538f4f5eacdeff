"""How fast are sets with a known cost of acting? Each beside Clarabel through cvxpy, row by row.

cvxpy compiles the problem once and is given new parameters for each row; Clarabel runs at cvxpy's default tolerances
for the rate, and at 1e-11 for the gap. Both on one thread. The script fails if something is slower or less exact than
is asked of it.

    python benchmarks/known_cost.py             # below a minute; part of benchmarks/feasible.py
    python benchmarks/known_cost.py turnover    # only the cases whose name contains one of the words
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import cvxpy
import numba
import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble.feasible import FeasibleSet, Polytope, Simplex, WithCost

Floats = npt.NDArray[np.float64]
cp: Any = cvxpy

OURS, THEIRS, COMPARED, REPEATS = 20_000, 150, 100, 3
"""Rows of a run of ours and of the alternative, rows whose values are compared, and runs."""

GAP = 1e-9
"""What the alternative may gain, relative to the size of the terms of its value."""


@dataclass(frozen=True)
class CostCase:
    """A set with a cost, the same as a cvxpy problem in parameters that rows give, and the ratio that is asked."""

    name: str
    omega: WithCost
    problem: Any
    action: Any
    coefficients: Any
    others: dict[Any, Callable[[pd.DataFrame], Floats]]
    at_least: float | None = 20.0


def sectors(d: int, count: int) -> Floats:
    """Return sums of equally many neighbouring coordinates."""
    return np.asarray(np.kron(np.eye(count), np.ones(d // count)), dtype=np.float64)


def portfolios(d: int, capped: bool) -> tuple[FeasibleSet, Any, list[Any]]:
    """Return weights that sum to 1, maybe with caps and sectors, as a set and as constraints of a variable."""
    a = cp.Variable(d)
    limits = [a >= 0, cp.sum(a) == 1]
    if not capped:
        return Simplex(d), a, limits
    groups, most, each = sectors(d, d // 5), 4.0 / d, 8.0 / d
    omega = Polytope(groups, np.full(len(groups), each), np.ones((1, d)), [1.0], upper=most)
    return omega, a, [*limits, groups @ a <= each, a <= most]


def turnover(capped: bool, d: int = 20) -> CostCase:
    """Return a fee for moving away from weights that rows hold."""
    omega, a, limits = portfolios(d, capped)
    c, held = cp.Parameter(d), cp.Parameter(d)
    problem = cp.Problem(cp.Maximize(c @ a - 0.02 * cp.norm1(a - held)), limits)
    name = f"turnover d={d}, {'caps and sectors' if capped else 'simplex'}"
    ours = WithCost(omega, turnover=(oe.Columns("held_*"), 0.02))
    return CostCase(name, ours, problem, a, c, {held: lambda X: X.filter(like="held_").to_numpy()})


def mean_variance(capped: bool, d: int = 50) -> CostCase:
    """Return a charge of 2 for a unit of variance."""
    omega, a, limits = portfolios(d, capped)
    c, Q = cp.Parameter(d), covariance(d)
    problem = cp.Problem(cp.Maximize(c @ a - 2.0 * cp.quad_form(a, cp.psd_wrap(Q))), limits)
    name = f"mean-variance d={d}, {'caps and sectors' if capped else 'simplex'}"
    return CostCase(name, WithCost(omega, quadratic=(2.0, Q)), problem, a, c, {})


def both(d: int = 20) -> CostCase:
    """Return variance and turnover together, for which there is no compiled solver."""
    omega, a, limits = portfolios(d, capped=False)
    c, held, Q = cp.Parameter(d), cp.Parameter(d), covariance(d)
    cost = 2.0 * cp.quad_form(a, cp.psd_wrap(Q)) + 0.02 * cp.norm1(a - held)
    ours = WithCost(omega, quadratic=(2.0, Q), turnover=(oe.Columns("held_*"), 0.02))
    rows = {held: lambda X: X.filter(like="held_").to_numpy()}
    problem = cp.Problem(cp.Maximize(c @ a - cost), limits)
    return CostCase(f"variance and turnover d={d}", ours, problem, a, c, rows, at_least=None)


def covariance(d: int) -> Floats:
    """Return a covariance of five factors and specific risks."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(d, 5))
    return np.asarray(0.01 * factors @ factors.T + np.diag(rng.uniform(0.01, 0.05, d)), dtype=np.float64)


def all_cases() -> list[Callable[[], CostCase]]:
    """List the cases; each is made when its turn comes."""
    return [
        lambda: turnover(capped=False),
        lambda: turnover(capped=True),
        lambda: mean_variance(capped=False),
        lambda: mean_variance(capped=True),
        both,
    ]


def solve(case: CostCase, X: pd.DataFrame, C: Floats, **options: float) -> Floats:
    """Solve rows through cvxpy, one after the other."""
    given = {parameter: read(X) for parameter, read in case.others.items()}
    actions = np.empty_like(C)
    for i, c in enumerate(C):
        case.coefficients.value = c
        for parameter, values in given.items():
            parameter.value = values[i]
        case.problem.solve(solver=cp.CLARABEL, **options)
        actions[i] = case.action.value
    return actions


def rate(run: Callable[[], object], rows: int) -> float:
    """Return rows per second, the median of a few runs."""
    rates = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        rates.append(rows / (time.perf_counter() - start))
    return median(rates)


def draw_rows(case: CostCase, rng: np.random.Generator) -> tuple[pd.DataFrame, Floats]:
    """Draw the weights that rows hold, and their coefficients."""
    n, d = OURS if case.at_least else OURS // 10, case.omega.dimension
    X = pd.DataFrame(rng.dirichlet(np.ones(d), n), columns=[f"held_{j}" for j in range(d)])
    return X, 0.05 + 0.05 * rng.normal(size=(n, d))


def compare(case: CostCase) -> tuple[list[str], bool]:
    """Measure a case; return its line of the table, and whether it is as fast and exact as asked."""
    X, C = draw_rows(case, np.random.default_rng(6))
    n = len(C)
    bound = case.omega.for_rows(X)
    few = slice(0, COMPARED)
    part = bound.take(few)
    mine = part.argmax(C[few])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cvxpy warns where Clarabel stops short of 1e-11
        rival = solve(case, X[few], C[few], tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    size = np.abs(C[few] * mine).sum(axis=1) + np.abs(part.cost(mine))
    gap = float(((part.value(rival, C[few]) - part.value(mine, C[few])) / size).max())
    excess = float(part.violation(mine).max())
    ours = rate(lambda: bound.argmax(C), n)
    theirs = rate(lambda: solve(case, X[:THEIRS], C[:THEIRS]), THEIRS)
    asked = f"{case.at_least:g}" if case.at_least else ""
    line = [case.name, case.omega.recognised, f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:,.1f}", asked]
    fine = gap <= GAP and excess <= GAP and ours >= (case.at_least or 0.0) * theirs
    return [*line, f"{max(gap, 0.0):.0e}", f"{excess:.0e}"], fine


def known_cost_table(words: Sequence[str], console: Console) -> tuple[Table, list[str]]:
    """Return the table, and the names of cases that are slower or less exact than asked."""
    table, failed = Table(title="A known cost: rows per second on one thread"), list[str]()
    headings = (
        "set and cost",
        "recognised",
        "ours",
        "Clarabel through cvxpy",
        "ratio",
        "asked",
        "largest gap",
        "infeasibility",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in headings[:2] else "right")
    for make in all_cases():
        case = make()
        if words and not any(word in case.name for word in words):
            continue
        console.print(f"[dim]{case.name}[/dim]")
        line, fine = compare(case)
        table.add_row(*line)
        failed += [] if fine else [case.name]
    return table, failed


def main(words: Sequence[str]) -> None:
    """Print the table."""
    numba.set_num_threads(1)
    console = Console(width=150)
    table, failed = known_cost_table(words, console)
    console.print(table)
    if failed:
        raise SystemExit(f"slower, less exact or less feasible than asked: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
