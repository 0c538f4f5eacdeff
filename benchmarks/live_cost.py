"""What deciding and learning with LiveEnsemble costs beside the fitted ensemble's own decide, and what it keeps.

    python benchmarks/live_cost.py                    all of it, about three minutes
    python benchmarks/live_cost.py --rows 20000       a shorter stream

Cost: three problems with four models each, rows one by one and in batches. Both ensembles decide the same rows, in
turns; the LiveEnsemble has been fitted again, so that it follows three different policies, and is given the labels of
the rows before. Times are medians of a call, as multiples of the same call of `DecisionEnsemble.decide`; refits
are left out here, and take as long as the fits that they are.

Memory: a stream of 100,000 rows in batches of 100, whose labels come 2,000 rows late, with refits as they fall due. The
resident memory and the size of a saved file are read along the way: once the refit window is full, neither grows.

The script fails if deciding takes more than three times as long, or if memory or files grow over the last third of the
stream. What learning from labels takes on top is printed beside it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from honesty import show
from memory import resident
from threadpoolctl import threadpool_limits
from worlds import Floats

import optensemble as oe
from optensemble import feasible

MODELS, FITTED = 4, 1000
BATCHES = {1: 600, 100: 100, 1000: 30}
"""Rows in a batch, and how many batches are timed."""

MOST = 3.0
"""Times the fitted ensemble's own decide."""

STREAM, STEP, LATE, WINDOW = 100_000, 100, 2000, 20_000
GROWTH = 1.05
"""How much larger memory and file may be at the end than two thirds through the stream."""


def draw(n: int, d: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return what models say, a column for each model and coordinate, and labels."""
    signal = rng.normal(size=(n, 1, d))
    said = signal + rng.normal(size=(n, MODELS, d))
    return said.reshape(n, MODELS * d), signal[:, 0] + rng.normal(size=(n, d))


def fitted(omega: feasible.FeasibleSet, rng: np.random.Generator) -> oe.DecisionEnsemble:
    """Return an ensemble fitted on some rows."""
    d = omega.dimension
    models = [(f"model {m}", oe.Columns(list(range(d * m, d * (m + 1))))) for m in range(MODELS)]
    return oe.DecisionEnsemble(models, feasible=omega, context=None).fit(*draw(FITTED, d, rng))


def problems() -> dict[str, feasible.FeasibleSet]:
    """Return sets whose solves take a tenth of a microsecond, one, and ten."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(50, 60))
    covariance = factors @ factors.T / 60
    return {
        "LP, d = 8": feasible.Polytope(A_ub=np.ones((1, 8)), b_ub=[2.0]),
        "knapsack, d = 48": feasible.Knapsack(rng.uniform(1, 2, size=48), 10.0),
        "risk budget, d = 50": feasible.RiskBudget(covariance, 0.1),
    }


def times(ensemble: oe.DecisionEnsemble, batch: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the median seconds of a call, for rows in batches of a size."""
    live = oe.LiveEnsemble(ensemble, refit=lambda live: live.rows_ == FITTED)
    X, Y = draw(FITTED, ensemble.feasible_.dimension, rng)
    live.decide(X)
    live.observe(range(FITTED), Y)
    assert live.refitted_ is not live.ensemble_
    spent: dict[str, list[float]] = {"fitted": [], "live": [], "observe": []}
    for _ in range(BATCHES[batch] + 1):
        X, Y = draw(batch, ensemble.feasible_.dimension, rng)
        ids = range(live.decided_, live.decided_ + batch)
        calls: dict[str, Any] = {
            "fitted": partial(ensemble.decide, X),
            "live": partial(live.decide, X, ids=ids),
            "observe": partial(live.observe, ids, Y),
        }
        for name, call in calls.items():
            begun = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - begun)
    return {name: float(np.median(each[1:])) for name, each in spent.items()}  # the first compiles


def show_cost() -> list[str]:
    """Print the table of costs, and return what is missed."""
    rows, missed = [], list[str]()
    for name, omega in problems().items():
        rng = np.random.default_rng(1)
        ensemble = fitted(omega, rng)
        for batch in BATCHES:
            spent = times(ensemble, batch, rng)
            per_row = [1e6 * each / batch for each in spent.values()]
            decide = spent["live"] / spent["fitted"]
            whole = (spent["live"] + spent["observe"]) / spent["fitted"]
            rows.append([name, f"{batch:,}", *(f"{each:,.1f}" for each in per_row), f"{decide:.2f}", f"{whole:.2f}"])
            if decide > MOST:
                missed.append(f"{name}, batches of {batch:,}: deciding takes {decide:.2f} times as long")
    columns = ["problem", "rows at once", "fitted", "live.decide", "live.observe", "decide", "decide and observe"]
    show("Microseconds a row, and as multiples of the fitted ensemble's decide", columns, rows)
    return missed


def show_memory(stream: int) -> list[str]:
    """Print memory and file sizes along a stream, and return what is missed."""
    rng = np.random.default_rng(2)
    ensemble = fitted(problems()["LP, d = 8"], rng)
    live = oe.LiveEnsemble(ensemble, window=min(WINDOW, stream // 5))
    rows, sizes, labels, begun = [], list[tuple[int, int]](), dict[int, Floats](), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, stream, STEP):
            X, labels[start] = draw(STEP, 8, rng)
            live.decide(X, ids=range(start, start + STEP))
            if (known := start - LATE) >= 0:
                live.observe(range(known, known + STEP), labels.pop(known))
            if (start + STEP) % (stream // 6) < STEP:
                path = Path(folder) / "live.oe"
                memory = resident("VmRSS")
                live.save(path)
                sizes.append((memory, path.stat().st_size))
                seen = f"{start + STEP:,}", f"{len(live.open_):,}", f"{len(live.refits_)}", f"{len(live.history_)}"
                rows.append([*seen, f"{memory / 2**20:,.0f}", f"{path.stat().st_size / 2**20:,.1f}"])
    columns = ["rows decided", "open", "refits", "spans of history", "memory, MiB", "file, MiB"]
    show(f"Along a stream of {stream:,} rows, {time.perf_counter() - begun:.0f} s with refits", columns, rows)
    before, end = sizes[3], sizes[-1]
    return [
        f"{what} grows from {one:,} to {two:,} bytes over the last third"
        for what, one, two in zip(("memory", "the file"), before, end, strict=True)
        if two > GROWTH * one
    ]


def main() -> int:
    """Measure, and print what came of it; return 1 if something asked for is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=STREAM)
    stream = parser.parse_args().rows
    missed = [*show_cost(), *show_memory(stream)]
    for each in missed:
        print(f"MISSED: {each}")
    print(f"asked for: at most {MOST:g} times, memory and file that do not grow: {'missed' if missed else 'kept'}")
    return int(bool(missed))


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
