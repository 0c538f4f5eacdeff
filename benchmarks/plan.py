"""What a decision costs beside the solves it takes; and what one row costs, from an array and from a frame.

Members are columns, so that no model's time counts. *The solves* are every candidate policy solved once by ``argmax``:
the members', those of the forecasts that may be played, and one for each further round of patches. Batch and solves are
timed in turn on one thread, and their ratio is what is asked about. One row is timed by its own processor time; "at
best" is the fifth percentile, which is what a quiet core would show on a busy machine.

    python benchmarks/plan.py                       # in about two minutes
    python benchmarks/plan.py --against CHECKOUT    # beside another version: times, and whether actions are equal
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble import feasible

Floats = npt.NDArray[np.float64]

ROUNDS, SINGLE_ROWS = 7, 1000
P50, P99, FRAME = 0.4, 1.0, 1.0
"""Milliseconds that one row may take, at the median and at the 99th percentile, and that a frame may add."""


@dataclass(frozen=True)
class Case:
    """A set, the sizes of fit and batch, and how many times the solves' time a batch may take.

    With ``biased`` labels are lower where the first member acts, which patches correct. Of the knapsack, a row then
    lies in 337 cells, and their corrections are 16,176 numbers, added in the order of the fit: that takes about as long
    as half of the solves, and the batch may take more of their time than without.
    """

    name: str
    omega: Callable[[], feasible.FeasibleSet]
    members: int
    fitted: int
    batch: int
    most: float
    biased: float = 0.0


def paper_lp() -> feasible.FeasibleSet:
    """Return the set of experiments C and D."""
    return feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6])


def knapsack() -> feasible.FeasibleSet:
    """Return a fractional knapsack of 48 items."""
    weights = np.random.default_rng(3).uniform(1, 10, size=48)
    return feasible.Knapsack(weights, 0.5 * weights.sum())


def risk_budget() -> feasible.FeasibleSet:
    """Return portfolios of 50 assets whose variance may be twice the least."""
    rng = np.random.default_rng(5)
    factors = rng.normal(size=(50, 5))
    covariance = factors @ factors.T / 4 + np.diag(rng.uniform(0.5, 2.0, size=50))
    return feasible.RiskBudget(covariance, 2 * feasible.RiskBudget(covariance, 1e9).least_variance)


CASES = [
    Case("paper's LP, d=4, k=4", paper_lp, 4, 20_000, 200_000, 2.5),
    Case("the same with patches", paper_lp, 4, 20_000, 200_000, 2.5, biased=1.0),
    Case("knapsack d=48, k=6", knapsack, 6, 5_000, 20_000, 1.5),
    Case("the same with patches", knapsack, 6, 5_000, 20_000, 2.25, biased=1.0),
    Case("risk budget d=50, k=4", risk_budget, 4, 2_000, 4_000, 1.5),
    Case("the same, lower where the first acts", risk_budget, 4, 4_000, 4_000, 1.5, biased=4.0),
]


def draw(case: Case, omega: feasible.FeasibleSet, n: int, seed: int) -> tuple[Floats, Floats]:
    """Draw labels, and members that see them through noise, each with a bias and a scale of its own."""
    d, k = omega.dimension, case.members
    world, rng = np.random.default_rng(99), np.random.default_rng(seed)
    signal, level = rng.normal(size=(n, d)), world.normal(size=d)
    said = [
        level + 0.3 * world.normal(size=d) + signal * world.uniform(0.3, 1.2, size=d) + 0.7 * rng.normal(size=(n, d))
        for _ in range(k)
    ]
    labels = level + signal + 0.7 * rng.normal(size=(n, d)) - case.biased * omega.argmax(said[0])
    return np.hstack(said), labels


def fit(case: Case, *, frame: bool = False) -> tuple[Any, feasible.FeasibleSet, Any]:
    """Return the fitted ensemble, its set, and a batch of new rows, as an array or as a frame."""
    omega = case.omega()
    d, k = omega.dimension, case.members
    names: list[Any] = [f"c{j}" if frame else j for j in range(k * d)]
    members = [(f"m{m}", oe.Columns(names[m * d : (m + 1) * d])) for m in range(k)]
    (X, Y), (new, _) = draw(case, omega, case.fitted, 0), draw(case, omega, case.batch, 9)
    rows: list[Any] = [pd.DataFrame(each, columns=names) if frame else each for each in (X, new)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ensemble = oe.DecisionEnsemble(models=members, feasible=omega).fit(rows[0], Y)
    return ensemble, omega, rows[1]


def solves_of(ensemble: Any, X: Floats) -> list[Floats]:
    """Return the coefficients of every solve that the candidates take."""
    done = ensemble.decider_(ensemble._asked(X))
    played = [
        done.forecasts[name] for name in ("average", "stack", "refined", "context", "patched") if name in done.played
    ]
    patch = ensemble.decider_.forecaster.patch
    further = [] if patch is None else [done.forecasts["patched"]] * (len(patch.rounds) - 1)
    return [np.ascontiguousarray(each) for each in (*done.outputs.predictions, *played, *further)]


def seconds(work: Callable[[], Any]) -> float:
    """Return the processor time of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def one_row(decide: Callable[[Any], Any], rows: list[Any]) -> tuple[float, float, float]:
    """Return milliseconds of one row: the fifth, the fiftieth and the 99th percentile."""
    for row in rows[:50]:
        decide(row)
    found = []
    for row in rows:
        start = time.thread_time()
        decide(row)
        found.append(time.thread_time() - start)
    low, middle, high = np.quantile(found, [0.05, 0.5, 0.99]) * 1e3
    return float(low), float(middle), float(high)


def measure_here(number: int, path: Path) -> None:
    """Write the actions of a case, and print its seconds: what another version is asked for."""
    numba.set_num_threads(1)
    case = CASES[number]
    ensemble, _, X = fit(case)
    actions = ensemble.decide(X)
    np.save(path, actions)
    print(json.dumps(min(seconds(lambda: ensemble.decide(X)) for _ in range(ROUNDS))))


def measure_there(number: int, checkout: Path) -> tuple[float, Floats]:
    """Return the seconds and the actions of another version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "actions.npy"
        environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, __file__, "--case", str(number), "--actions", str(path)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8")
        return float(json.loads(done.stdout)), np.load(path)


def compare(case: Case, number: int, checkout: Path | None, table: Table) -> list[str]:
    """Add a line to the table; return what is slower than asked."""
    ensemble, omega, X = fit(case)
    coefficients = solves_of(ensemble, X)
    actions = ensemble.decide(X)
    pairs = [
        (seconds(lambda: ensemble.decide(X)), seconds(lambda: [omega.argmax(each) for each in coefficients]))
        for _ in range(ROUNDS)
    ]
    ratio = float(np.median([batch / solves for batch, solves in pairs]))
    batch = min(batch for batch, _ in pairs)
    rounds = ensemble.decider_.forecaster.patch
    patches = 0 if rounds is None else len(rounds.rounds)
    line = [case.name, str(patches), str(len(coefficients)), f"{len(X) / batch:,.0f}", f"{ratio:.2f}", f"{case.most:g}"]
    failed = [] if ratio <= case.most else [f"{case.name}: {ratio:.2f} times the solves"]
    if checkout is not None:
        before, theirs = measure_there(number, checkout)
        equal = bool(np.array_equal(actions, theirs))
        line += [f"{before / batch:.1f}", "yes" if equal else f"no, by {np.abs(actions - theirs).max():.0e}"]
        failed += [] if equal else [f"{case.name}: actions differ"]
    table.add_row(*line)
    return failed


def single_rows(table: Table) -> list[str]:
    """Time one row of the LP, of the knapsack, and of the knapsack's frame of 288 columns."""
    failed, medians = [], dict[str, float]()
    for case, frame in ((CASES[0], False), (CASES[2], False), (CASES[2], True)):
        ensemble, _, X = fit(case, frame=frame)
        rows = [X[i : i + 1] for i in range(SINGLE_ROWS)]
        low, middle, high = one_row(ensemble.decide, rows)
        name = case.name + (", from a frame" if frame else "")
        medians[name] = middle
        more = middle - medians[case.name]
        table.add_row(name, f"{low:.2f}", f"{middle:.2f}", f"{high:.2f}", f"{more:+.2f}" if frame else "")
        if frame:
            failed += [] if more <= FRAME else [f"{name}: {more:.2f} ms more"]
        else:
            failed += [] if middle <= P50 and high < P99 else [f"{name}: one row {middle:.2f} and {high:.2f} ms"]
    return failed


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    parser.add_argument("--case", type=int)
    parser.add_argument("--actions", type=Path)
    options = parser.parse_args()
    if options.case is not None:
        measure_here(options.case, options.actions)
        return
    numba.set_num_threads(1)
    batches = Table(title="Batches, one thread: rows per second, and time over that of the solves")
    headings = ["set", "rounds of patches", "solves", "rows/s", "times the solves", "asked: at most"]
    for heading in [*headings, *(["times faster", "equal actions"] if options.against else [])]:
        batches.add_column(heading, justify="left" if heading == "set" else "right")
    console, failed = Console(width=140), list[str]()
    for number, case in enumerate(CASES):
        failed += compare(case, number, options.against, batches)
    console.print(batches)
    rows = Table(title=f"One row, ms of processor time; asked: at most {P50} at the median and {P99} at p99")
    for heading in ("set", "at best", "p50", "p99", f"more than from an array (asked: at most {FRAME})"):
        rows.add_column(heading, justify="left" if heading == "set" else "right")
    failed += single_rows(rows)
    console.print(rows)
    if failed:
        raise SystemExit(f"more than asked: {'; '.join(failed)}")


if __name__ == "__main__":
    main()
