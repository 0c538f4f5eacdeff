"""How much memory does a fit need? n = 200,000 rows, d = 4 labels, k = 4 models: peak, as a multiple of predictions.

The peak is the high-water mark of the resident memory (Linux), above what was resident when the fit began: the data
and the members' own predictions are the user's and were there before.

    python benchmarks/memory.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import NotConvergedWarning

N, D, K = 200_000, 4, 4
MAX_ROUNDS = 160
AT_MOST = 5.5


def resident(field: str) -> int:
    """Bytes of ``VmRSS`` (now) or ``VmHWM`` (at most so far)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}: this benchmark needs Linux")


def peak_of(ensemble: Any, rows: Any, Y: Any) -> int:
    """Bytes that fitting takes at most, above what is there already."""
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # begins a new high-water mark
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        ensemble.fit(rows, Y)
    return resident("VmHWM") - before


def measure(kind: str, schedule: str) -> dict[str, float]:
    """Fit once and return what it took."""
    rng = np.random.default_rng(0)
    omega = feasible.Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6])
    Y = rng.normal(size=(N, D))
    P = np.stack([Y * (np.arange(D) == m) + 0.3 * rng.normal(size=(N, D)) for m in range(K)])
    given = P if kind == "WhiteBoxEnsemble" else np.stack([omega.argmax(p) for p in P])
    members = [(f"m{i}", lambda X, a=a: a[X] if len(X) < N else a) for i, a in enumerate(given)]
    ensemble = getattr(oe, kind)(members, omega, schedule=schedule, max_rounds=MAX_ROUNDS, validation=None)
    rows = np.arange(N)
    peak_of(ensemble, rows[:1000], Y[:1000])  # compiles
    start = time.perf_counter()
    peak = peak_of(ensemble, rows, Y)
    seconds = time.perf_counter() - start
    return {"rounds": ensemble.n_rounds_, "seconds": seconds, "peak": peak, "times": peak / P.nbytes}


def main() -> None:
    """Measure every ensemble and schedule and print the table."""
    table = Table(title=f"Peak memory of fit, n={N:,}, d={D}, k={K}; the predictions take {N * D * K * 8 / 1e6:.0f} MB")
    for heading in ("ensemble", "schedule", "rounds", "seconds", "peak MB", "times the predictions"):
        table.add_column(heading, justify="left" if heading in ("ensemble", "schedule") else "right")
    worst = 0.0
    for kind, schedule in product(("WhiteBoxEnsemble", "BlackBoxEnsemble"), ("frozen", "joint", "round-robin")):
        # a process of its own: memory that an earlier fit has given back must not hide what this one takes
        command = [sys.executable, __file__, kind, schedule]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        worst = max(worst, found["times"])
        numbers = (
            f"{found['rounds']}",
            f"{found['seconds']:.1f}",
            f"{found['peak'] / 1e6:.0f}",
            f"{found['times']:.2f}",
        )
        table.add_row(kind, schedule, *numbers)
    Console().print(table)
    if worst > AT_MOST:
        raise SystemExit(f"a fit took {worst:.2f} times the predictions' memory; about 5 is expected")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main()
