"""How fast are the feasible sets? Each beside the best licence-free alternative, in one run, on one thread.

The alternatives are used in the fastest way they have: one HiGHS model whose costs change and whose last basis is the
next start, one Clarabel solver at 1e-12 whose linear term is updated, SciPy's assignment, NumPy's argpartition on the
whole batch. PIQP and OR-Tools join, in a process of their own, where they are installed. Further tables show what a
second thread brings, sets whose parameters come from the row (benchmarks/by_row.py), sets with a known cost of acting
(benchmarks/known_cost.py), and what compilation costs. The script fails if something is slower than is asked of it.

    python benchmarks/feasible.py            # everything, a few minutes
    python benchmarks/feasible.py grid risk  # only the sets whose name contains one of the words
    python benchmarks/feasible.py --against CHECKOUT [WORD ...]  # beside another version: benchmarks/version_before.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import rivals
from by_row import by_row_table, grid_edges, rate
from compilation import compilation_table
from known_cost import known_cost_table
from rich.console import Console
from rich.table import Table
from version_before import compare_versions

from optensemble.feasible import (
    Assignment,
    FeasibleSet,
    Knapsack,
    MixedInteger,
    Polytope,
    RiskBudget,
    ShortestPath,
    TopK,
)

Floats = npt.NDArray[np.float64]
Argmax = Callable[[Floats], Floats]

THREADED_ROWS = 100_000


@dataclass(frozen=True)
class Case:
    """A set, an alternative that solves the same rows, and how many times faster the set is asked to be.

    ``threaded`` is how many times faster it is asked to be with a second thread.
    """

    name: str
    omega: FeasibleSet
    rival: str
    argmax: Argmax
    at_least: float
    draw: Callable[[np.random.Generator, int, int], Floats] = lambda rng, n, d: rng.normal(size=(n, d))
    threaded: float = 1.6


def all_cases() -> list[Callable[[], Case]]:
    """List the cases; each is made when its turn comes."""
    return [
        paper_lp,
        paper_risk,
        grid_as_path,
        grid_as_polytope,
        random_lp,
        battery,
        lambda: knapsack_lp(1),
        lambda: knapsack_lp(2),
        lambda: knapsack_01(1, 1000),
        lambda: knapsack_01(2, 200),
        few_knapsacks,
        equal_values,
        sites,
        lambda: risk(50),
        lambda: risk(200),
        sectors,
        top_k,
        assignment,
    ]


def linear(name: str, constraints: dict[str, Any], at_least: float, omega: FeasibleSet | None = None) -> Case:
    """Return a linear programme beside HiGHS."""
    d = np.shape(constraints["A_ub" if "A_ub" in constraints else "A_eq"])[1]
    return Case(name, omega or Polytope(**constraints), "HiGHS warm", rivals.highs_warm(d, **constraints), at_least)


def paper_lp() -> Case:
    """Experiments C and D of the paper."""
    case = linear("paper's LP, d=4", {"A_ub": [[1, 1, 0, 0], [0, 1, 1, 0]], "b_ub": [0.5, 0.6]}, 500)
    return replace(case, threaded=1.25)  # as fast as the memory that its actions are written to


def paper_risk() -> Case:
    """Experiments A and B of the paper: the simplex under a quadratic limit."""
    rng = np.random.default_rng(1)
    root = rng.uniform(-3, 3, size=(19, 4))
    covariance = root.T @ root
    limit = 0.5 * (RiskBudget(covariance, 1e9).least_variance + float(np.diag(covariance).min()))
    return risky("paper's simplex + quadratic, d=4", covariance, limit, 100)


def risky(name: str, covariance: Floats, limit: float, at_least: float, **constraints: Any) -> Case:
    """Return a risk budget beside Clarabel."""
    omega = RiskBudget(covariance, limit, **constraints)
    return Case(name, omega, "Clarabel 1e-12", rivals.clarabel_risk(covariance, limit, **constraints), at_least)


def flow(edges: list[tuple[int, int]], nodes: int) -> dict[str, Any]:
    """Return the conservation of a unit of flow from the first node to the last."""
    A, b = np.zeros((nodes, len(edges))), np.zeros(nodes)
    for j, (tail, head) in enumerate(edges):
        A[tail, j], A[head, j] = 1.0, -1.0
    b[0], b[-1] = 1.0, -1.0
    return {"A_eq": A, "b_eq": b}


def grid_as_path() -> Case:
    """Return the 5×5 grid as a graph."""
    edges = grid_edges(5)
    return linear("grid path 5×5 as ShortestPath", flow(edges, 25), 100, ShortestPath(edges, 0, 24))


def grid_as_polytope() -> Case:
    """Return the 5×5 grid as flow conservation."""
    return linear("grid path 5×5 as Polytope", flow(grid_edges(5), 25), 15)


def random_lp() -> Case:
    """Return a dense random programme."""
    A = np.random.default_rng(2).uniform(size=(6, 30))
    return linear("random LP d=30, 6 constraints", {"A_ub": A, "b_ub": 0.25 * A.sum(axis=1)}, 15)


def battery(hours: int = 24, capacity: float = 4.0, efficiency: float = 0.95) -> Case:
    """Return charging and discharging, at most a unit an hour each, with limits on the state of charge."""
    below = np.tril(np.ones((hours, hours)))
    charge = np.hstack([efficiency * below, -below / efficiency])
    room = np.concatenate([np.full(hours, capacity / 2), np.full(hours, capacity / 2)])
    case = linear("battery LP d=48", {"A_ub": np.vstack([charge, -charge]), "b_ub": room}, 5)

    def prices(rng: np.random.Generator, n: int, d: int) -> Floats:
        price = 50 + 20 * np.sin(np.linspace(0, 4 * np.pi, hours)) + rng.normal(scale=15, size=(n, hours))
        return np.hstack([-price, price])

    return replace(case, draw=prices)


def knapsack_lp(resources: int) -> Case:
    """Return a fractional knapsack."""
    weights = np.random.default_rng(3).uniform(1, 10, size=(resources, 48))
    capacity = 0.5 * weights.sum(axis=1)
    name, constraints = f"fractional knapsack d=48, {resources} resource(s)", {"A_ub": weights, "b_ub": capacity}
    case = linear(name, constraints, 20, Knapsack(weights, capacity))
    threaded = 1.25 if resources == 1 else case.threaded  # as fast as the memory that its actions are written to
    return replace(case, draw=lambda rng, n, d: rng.uniform(size=(n, d)), threaded=threaded)


def knapsack_01(resources: int, at_least: float) -> Case:
    """Return a 0/1 knapsack."""
    weights = np.random.default_rng(4).integers(1, 101, size=(resources, 32)).astype(np.float64)
    capacity = 0.5 * weights.sum(axis=1)
    solver = rivals.highs_mip(32, A_ub=weights, b_ub=capacity)
    omega = Knapsack(weights, capacity, integer=True)
    name = f"0/1 knapsack d=32, {resources} resource(s)"
    return Case(name, omega, "HiGHS MIP", solver, at_least, lambda rng, n, d: rng.uniform(1, 100, size=(n, d)))


def few_knapsacks() -> Case:
    """Return 0/1 knapsacks a few at a time."""
    case = knapsack_01(1, 100)
    return replace(case, name=f"{case.name}, 4 rows", draw=lambda rng, n, d: rng.uniform(1, 100, size=(4, d)))


def equal_values() -> Case:
    """Return a 0/1 knapsack of more items than a word has bits, all of them worth the same: ties upon ties."""
    weights = np.random.default_rng(4).integers(1, 101, size=(1, 70)).astype(np.float64)
    capacity = 0.5 * weights.sum(axis=1)
    solver, omega = rivals.highs_mip(70, A_ub=weights, b_ub=capacity), Knapsack(weights, capacity, integer=True)
    name, one = "0/1 knapsack d=70, equal values", lambda rng, n, d: np.repeat(rng.uniform(1, 2, (n, 1)), d, axis=1)
    return Case(name, omega, "HiGHS MIP", solver, 100, one)


def sites() -> Case:
    """Return which of ten sites to open: four in all, two in a region, and people for each."""
    people = [2.0, 1, 1, 2, 1, 2, 1, 1, 2, 1]
    A_ub = np.vstack([np.ones(10), np.repeat(np.eye(3), [3, 3, 4], axis=1), people])
    limits: dict[str, Any] = {"A_ub": A_ub, "b_ub": [4, 2, 2, 2, 6]}
    return Case("whole numbers d=10", MixedInteger(**limits), "HiGHS MIP", rivals.highs_mip(10, **limits), 1000)


def random_covariance(d: int) -> Floats:
    """Return a covariance with a few common factors."""
    rng = np.random.default_rng(5)
    F = rng.normal(size=(d, max(d // 10, 2)))
    return np.asarray(F @ F.T / 4 + np.diag(rng.uniform(0.5, 2.0, size=d)))


def risk(d: int) -> Case:
    """Return a portfolio whose variance may be twice the least."""
    covariance = random_covariance(d)
    return risky(f"risk budget d={d}", covariance, 2 * RiskBudget(covariance, 1e9).least_variance, 50)


def sectors() -> Case:
    """Return a portfolio in which none of five sectors may have more than 30 percent."""
    covariance = random_covariance(50)
    limit = 2 * RiskBudget(covariance, 1e9).least_variance
    A_ub = np.kron(np.eye(5), np.ones(10))
    return risky("risk budget with sector caps d=50", covariance, limit, 4, A_ub=A_ub, b_ub=np.full(5, 0.3))


def top_k() -> Case:
    """Return the best ten of a hundred."""
    return Case("top-k d=100, k=10", TopK(100, 10), "argpartition", rivals.argpartition(10), 1)


def assignment() -> Case:
    """Return a square assignment."""
    return Case("assignment 10×10", Assignment(10), "SciPy", rivals.scipy_assignment(10, 10), 1.5)


def rate_of(argmax: Argmax, C: Floats) -> float:
    """Return how many of the rows are solved in a second."""
    return rate(lambda rows: argmax(C[:rows]), len(C))


def compare(case: Case) -> tuple[list[str], bool]:
    """Measure a case; return its line of the table, and whether it is as fast, exact and feasible as asked."""
    omega = case.omega
    C = case.draw(np.random.default_rng(6), 2_000_000 // omega.dimension, omega.dimension)
    omega.argmax(C[:100])
    ours, theirs = rate_of(omega.argmax, C), rate_of(case.argmax, C)
    few = C[: max(50, min(2000, int(theirs)))]
    mine, rival = omega.argmax(few), case.argmax(few)
    gap = float((((rival - mine) * few).sum(axis=1) / np.abs(few * rival).sum(axis=1).clip(1e-300)).max())
    excess = float(omega.violation(mine).max())
    fast, asked = ours >= case.at_least * theirs, f"{case.at_least:g}"
    line = [case.name, f"{ours:,.0f}", case.rival, f"{theirs:,.0f}", f"{ours / theirs:,.1f}", asked]
    return [*line, f"{max(gap, 0.0):.0e}", f"{excess:.0e}"], fast and gap <= 1e-7 and excess <= 1e-7


def second_thread(case: Case) -> float:
    """Return how many times faster two threads are."""
    C = case.draw(np.random.default_rng(7), THREADED_ROWS, case.omega.dimension)
    ratios = []
    for _ in range(5):
        seconds = []
        for threads in (1, 2):
            numba.set_num_threads(threads)
            start = time.perf_counter()
            case.omega.argmax(C)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    numba.set_num_threads(1)
    return median(ratios)


def shared_core() -> str:
    """Say whether the first two processors are one core."""
    path = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    siblings = path.read_text().strip() if path.exists() else "unknown"
    return f"processors that share a core with the first: {siblings}"


def main(words: Sequence[str]) -> None:
    """Print the tables, line by line."""
    two_threads = numba.get_num_threads() >= 2
    numba.set_num_threads(1)
    console, failed = Console(width=150), []
    table = Table(title="Rows per second on one thread")
    for heading in ("set", "ours", "alternative", "its", "ratio", "asked", "largest gap", "infeasibility"):
        table.add_column(heading, justify="left" if heading in ("set", "alternative") else "right")
    threads = Table(title=f"A second thread, {THREADED_ROWS:,} rows that take below a second; {shared_core()}")
    for heading in ("set", "times faster (median of 5)"):
        threads.add_column(heading)
    for make in all_cases():
        case = make()
        if words and not any(word in case.name for word in words):
            continue
        console.print(f"[dim]{case.name}[/dim]")
        line, fine = compare(case)
        table.add_row(*line)
        failed += [] if fine else [case.name]
        rows = case.draw(np.random.default_rng(8), 1000, case.omega.dimension)
        for name, rows_per_second in rivals.others(case.omega, rows):
            table.add_row("", "", name, f"{rows_per_second:,.0f}", "", "", "", "")
        if two_threads and rate_of(case.omega.argmax, rows) > THREADED_ROWS:
            ratio = second_thread(case)
            threads.add_row(case.name, f"{ratio:.2f}")
            failed += [] if ratio >= case.threaded else [f"{case.name} with two threads"]
    console.print(table)
    console.print(threads)
    for further in (by_row_table, known_cost_table):
        further_table, slow = further(words, console)
        console.print(further_table)
        failed += slow
    if not words:
        compilation, slow = compilation_table()
        console.print(compilation)
        failed += slow
    if failed:
        raise SystemExit(f"slower, less exact or less feasible than asked: {', '.join(failed)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only the sets whose name contains one of these")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="compare with the version in this checkout")
    given = parser.parse_args()
    main(given.words) if given.against is None else compare_versions(given.against, given.words)
