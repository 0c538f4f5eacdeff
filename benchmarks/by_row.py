"""How fast are sets whose parameters come from the row? Each beside the fixed set, HiGHS, and a set built per row.

Rows per second on one thread with a fixed set, with a parameter of its own in every row, and with 20 different values
of it. The alternatives: one HiGHS model whose costs and right-hand sides change, and that starts from the last basis;
and a set of ours that is built for every row. The script fails if something is slower than is asked of it.

    python benchmarks/by_row.py             # a few minutes; part of benchmarks/feasible.py
    python benchmarks/by_row.py knapsack    # only the sets whose name contains one of the words
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pandas as pd
import rivals
from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble.feasible import (
    Assignment,
    Box,
    FeasibleSet,
    Knapsack,
    MixedInteger,
    Polytope,
    RiskBudget,
    ShortestPath,
    TopK,
)

Floats = npt.NDArray[np.float64]

NUMBERS = 2_000_000
SECONDS, REPEATS = 0.4, 3
DISTINCT = 20
TIMES_BUILT = 20.0
"""How many times faster than a set built per row everything is asked to be."""


@dataclass(frozen=True)
class RowCase:
    """A set with a parameter from the row, the same set with a fixed one, and what is asked.

    ``share`` of the fixed set's rate, and ``highs`` times that of HiGHS with changed right-hand sides ``A_ub a <= b``,
    where ``right`` returns ``b`` for the rows of a table.
    """

    name: str
    fixed: FeasibleSet
    by_row: FeasibleSet
    table: Callable[[np.random.Generator, int], pd.DataFrame]
    share: float | None = 0.4
    draw: Callable[[np.random.Generator, int, int], Floats] = lambda rng, n, d: rng.normal(size=(n, d))
    A_ub: Floats | None = None
    right: Callable[[pd.DataFrame], Floats] | None = None
    highs: float = 15.0


def columns(name: str, values: Floats) -> pd.DataFrame:
    """Return the columns of a matrix as a frame."""
    return pd.DataFrame(values, columns=[f"{name}_{j}" for j in range(values.shape[1])])


def all_cases() -> list[Callable[[], RowCase]]:
    """List the cases; each is made when its turn comes."""
    return [
        box,
        knapsack,
        knapsack_01,
        top_k,
        available,
        assignment,
        closed_roads,
        trips,
        lambda: risk(4),
        lambda: risk(50),
        battery,
        random_lp,
        sites,
    ]


def box() -> RowCase:
    """Return bounds by row."""
    omega = Box(upper=oe.Columns("free_*"), dimension=48)
    return RowCase(
        "box d=48, upper", Box(dimension=48), omega, lambda rng, n: columns("free", rng.uniform(size=(n, 48)))
    )


def knapsack() -> RowCase:
    """Return a budget by row."""
    weights = np.random.default_rng(3).uniform(1, 10, size=48)
    half = 0.5 * weights.sum()
    return RowCase(
        "fractional knapsack d=48, capacity",
        Knapsack(weights, half),
        Knapsack(weights, oe.Columns("budget")),
        lambda rng, n: pd.DataFrame({"budget": half * rng.uniform(0.5, 1.5, n)}),
        draw=lambda rng, n, d: rng.uniform(size=(n, d)),
    )


def knapsack_01() -> RowCase:
    """Return a budget by row, of whole items."""
    weights = np.random.default_rng(4).integers(1, 101, size=32).astype(np.float64)
    half = 0.5 * weights.sum()
    return RowCase(
        "0/1 knapsack d=32, capacity",
        Knapsack(weights, half, integer=True),
        Knapsack(weights, oe.Columns("budget"), integer=True),
        lambda rng, n: pd.DataFrame({"budget": np.rint(half * rng.uniform(0.5, 1.5, n))}),
        draw=lambda rng, n, d: rng.uniform(1, 100, size=(n, d)),
    )


def top_k() -> RowCase:
    """Return a number of places by row."""
    omega = TopK(100, oe.Columns("places"))
    return RowCase(
        "top-k d=100, k", TopK(100, 10), omega, lambda rng, n: pd.DataFrame({"places": rng.integers(5, 16, n)})
    )


def available() -> RowCase:
    """Return who is there by row."""
    omega = TopK(100, 10, available=oe.Columns("there_*"))
    there = lambda rng, n: columns("there", (rng.uniform(size=(n, 100)) < 0.8).astype(float))  # noqa: E731
    return RowCase("top-k d=100, available", TopK(100, 10), omega, there)


def assignment() -> RowCase:
    """Return pairs that may not be, by row."""
    omega = Assignment(10, 10, forbidden=oe.Columns("off_*"))
    off = lambda rng, n: columns("off", (rng.uniform(size=(n, 100)) < 0.1).astype(float))  # noqa: E731
    return RowCase("assignment 10×10, forbidden", Assignment(10, 10), omega, off)


def grid_edges(size: int) -> list[tuple[int, int]]:
    """Return the edges of a grid, to the right and down."""
    node = np.arange(size * size).reshape(size, size)
    right, down = zip(node[:, :-1].flat, node[:, 1:].flat, strict=True), zip(node[:-1].flat, node[1:].flat, strict=True)
    return [(int(a), int(b)) for a, b in (*right, *down)]


def closed_roads() -> RowCase:
    """Return a grid of which some edges are closed; those along its border never are."""
    edges = grid_edges(5)
    inner = np.array([a % 5 and b % 5 and a >= 5 and b < 20 and a % 5 < 4 and b % 5 < 4 for a, b in edges], dtype=bool)
    closed = lambda rng, n: columns("closed", ((rng.uniform(size=(n, 40)) < 0.2) & inner).astype(float))  # noqa: E731
    omega = ShortestPath(edges, 0, 24, closed=oe.Columns("closed_*"))
    return RowCase("grid path 5×5, closed", ShortestPath(edges, 0, 24), omega, closed)


def trips() -> RowCase:
    """Return origins and destinations by row: any of the first two rows of the grid to any of the last two."""
    edges = grid_edges(5)

    def ends(rng: np.random.Generator, n: int) -> pd.DataFrame:
        start, stop = rng.integers(0, 2, (2, n)), rng.integers(3, 5, (2, n))
        return pd.DataFrame({"from": 5 * start[0] + start[1], "to": 5 * stop[0] + stop[1]})

    omega = ShortestPath(edges, oe.Columns("from"), oe.Columns("to"))
    return RowCase("grid path 5×5, source and target", ShortestPath(edges, 0, 24), omega, ends)


def risk(d: int) -> RowCase:
    """Return a limit by row, from 1.5 to 3 times the least variance."""
    rng = np.random.default_rng(5)
    F = rng.normal(size=(d, max(d // 10, 2)))
    covariance = F @ F.T / 4 + np.diag(rng.uniform(0.5, 2.0, size=d))
    least = RiskBudget(covariance, 1e9).least_variance
    return RowCase(
        f"risk budget d={d}, limit",
        RiskBudget(covariance, 2 * least),
        RiskBudget(covariance, oe.Columns("risk")),
        lambda rng, n: pd.DataFrame({"risk": least * rng.uniform(1.5, 3.0, n)}),
    )


def battery(hours: int = 24, capacity: float = 4.0, efficiency: float = 0.95) -> RowCase:
    """Return a battery whose state of charge at the beginning differs by row."""
    below = np.tril(np.ones((hours, hours)))
    charge = np.hstack([efficiency * below, -below / efficiency])
    A = np.vstack([charge, -charge])

    def right(X: Any) -> Floats:
        begun = X["charge"].to_numpy()[:, None]
        return np.hstack([np.repeat(capacity - begun, hours, axis=1), np.repeat(begun, hours, axis=1)])

    def prices(rng: np.random.Generator, n: int, d: int) -> Floats:
        price = 50 + 20 * np.sin(np.linspace(0, 4 * np.pi, hours)) + rng.normal(scale=15, size=(n, hours))
        return np.hstack([-price, price])

    return RowCase(
        "battery LP d=48, b_ub",
        Polytope(A_ub=A, b_ub=np.full(2 * hours, capacity / 2)),
        Polytope(A_ub=A, b_ub=right),
        lambda rng, n: pd.DataFrame({"charge": rng.uniform(0, capacity, n)}),
        share=0.25,
        draw=prices,
        A_ub=A,
        right=right,
    )


def random_lp() -> RowCase:
    """Return a dense random programme whose right-hand sides differ by row."""
    A = np.random.default_rng(2).uniform(size=(6, 30))
    usual = 0.25 * A.sum(axis=1)
    return RowCase(
        "random LP d=30, 6 constraints, b_ub",
        Polytope(A_ub=A, b_ub=usual),
        Polytope(A_ub=A, b_ub=oe.Columns("room_*")),
        lambda rng, n: columns("room", usual * rng.uniform(0.5, 1.5, size=(n, 6))),
        share=0.25,
        A_ub=A,
        right=lambda X: X.to_numpy(),
    )


def sites() -> RowCase:
    """Return which of ten sites to open, with people for each by row: a list, of which each row takes its part."""
    people = [2.0, 1, 1, 2, 1, 2, 1, 1, 2, 1]
    A_ub = np.vstack([np.ones(10), np.repeat(np.eye(3), [3, 3, 4], axis=1), people])
    limits = [4.0, 2, 2, 2]
    return RowCase(
        "whole numbers d=10, b_ub",
        MixedInteger(A_ub=A_ub, b_ub=[*limits, 6.0]),
        MixedInteger(A_ub=A_ub, b_ub=[*limits, oe.Columns("people")]),
        lambda rng, n: pd.DataFrame({"people": rng.integers(2, 9, n).astype(float)}),
        share=None,
    )


def rate(solve: Callable[[int], Any], most: int) -> float:
    """Return rows per second: the median of a few runs, each on as many rows as the time allows."""
    rows = 1
    while True:
        start = time.perf_counter()
        solve(rows)
        seconds = time.perf_counter() - start
        if rows == most or seconds > SECONDS / 3:
            break
        rows = min(most, max(2 * rows, int(rows * SECONDS / max(seconds, 1e-6))))
    rates = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        solve(rows)
        rates.append(rows / (time.perf_counter() - start))
    return median(rates)


def draw_rows(case: RowCase, rng: np.random.Generator) -> tuple[pd.DataFrame, Floats]:
    """Draw the parameters and the coefficients of rows."""
    d = case.fixed.dimension
    C = case.draw(rng, NUMBERS // d, d)
    return case.table(rng, len(C)), C


def compare(case: RowCase) -> tuple[list[str], list[str]]:
    """Measure a case; return its line of the table, and what is slower than asked."""
    rng = np.random.default_rng(6)
    X, C = draw_rows(case, rng)
    n = len(C)
    few = X.iloc[rng.integers(0, DISTINCT, n)].reset_index(drop=True)
    bound, distinct = case.by_row.for_rows(X), case.by_row.for_rows(few)
    for omega in (case.fixed, bound.take(slice(100))):
        omega.argmax(C[:100])
    fixed = rate(lambda rows: case.fixed.argmax(C[:rows]), n)
    ours = rate(lambda rows: bound.take(slice(rows)).argmax(C[:rows]), n)
    twenty = rate(lambda rows: distinct.take(slice(rows)).argmax(C[:rows]), n)
    built = rate(lambda rows: [bound.of_row(i).argmax(C[i : i + 1]) for i in range(rows)], 1000)
    line = [case.name, f"{fixed:,.0f}", f"{ours:,.0f}", f"{twenty:,.0f}", f"{ours / fixed:.2f}", _asked(case.share)]
    slow = []
    if case.share is not None and ours < case.share * fixed:
        slow.append(f"{case.name}: {ours / fixed:.2f} of the fixed set's rate, not {case.share:g}")
    if ours < TIMES_BUILT * built:
        slow.append(f"{case.name}: {ours / built:.0f} times a set built per row, not {TIMES_BUILT:g}")
    line += [f"{built:,.0f}", f"{ours / built:,.0f}"]
    if case.A_ub is None or case.right is None:
        return [*line, "", ""], slow
    solve = rivals.highs_changed(case.A_ub, case.right(X))
    theirs = rate(lambda rows: solve(C[:rows]), n)
    sample = C[: int(min(n, max(theirs, 100)))]
    mine, rival = bound.take(slice(len(sample))).argmax(sample), solve(sample)
    gap = float((((rival - mine) * sample).sum(axis=1) / np.abs(sample * rival).sum(axis=1).clip(1e-300)).max())
    slow += [f"{case.name}: {ours / theirs:.1f} times HiGHS, not {case.highs:g}"] if ours < case.highs * theirs else []
    slow += [f"{case.name}: a gap of {gap:.0e}"] if gap > 1e-7 else []
    return [*line, f"{theirs:,.0f}", f"{ours / theirs:,.1f}"], slow


def _asked(share: float | None) -> str:
    return "" if share is None else f"{share:g}"


def by_row_table(words: Sequence[str], told: Console) -> tuple[Table, list[str]]:
    """Return the table, and what is slower than asked."""
    table, slow = Table(title="By row: rows per second on one thread"), list[str]()
    headings = ["set, parameter by row", "fixed", "by row", "20 values", "of fixed", "asked"]
    for heading in [*headings, "built per row", "times that", "HiGHS, changed rows", "times that"]:
        table.add_column(heading, justify="left" if heading == headings[0] else "right")
    for make in all_cases():
        case = make()
        if words and not any(word in case.name for word in words):
            continue
        told.print(f"[dim]{case.name}[/dim]")
        line, missed = compare(case)
        table.add_row(*line)
        slow += missed
    return table, slow


def main(words: Sequence[str]) -> None:
    """Print the table."""
    numba.set_num_threads(1)
    console = Console(width=160)
    table, slow = by_row_table(words, console)
    console.print(table)
    if slow:
        raise SystemExit(f"slower than asked: {'; '.join(slow)}")


if __name__ == "__main__":
    main(sys.argv[1:])
