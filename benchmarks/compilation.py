"""What compilation costs: the first use of each set with an empty cache, and again in a new process.

As a script it is one such process: ``python benchmarks/compilation.py "Simplex(3)"`` prints the seconds of
the processor from a finished import to the first answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.table import Table

MOST_COLD, MOST_WARM = 5.0, 1.0

SETS = [
    "Box(dimension=4)",
    "Simplex(4)",
    "Vertices(np.eye(4))",
    "Polytope(A_ub=[[1, 1, 0, 0], [0, 1, 1, 0]], b_ub=[0.5, 0.6])",
    "Polytope(A_ub=np.random.default_rng(0).uniform(size=(6, 30)), b_ub=np.full(6, 4.0))",
    "RiskBudget(np.eye(4), 0.5)",
    "RiskBudget(np.eye(20), 0.1)",
    "RiskBudget(np.eye(20), 0.1, A_ub=np.kron(np.eye(4), np.ones(5)), b_ub=np.full(4, 0.4))",
    "Knapsack(np.arange(1.0, 11.0), 20.0)",
    "Knapsack(np.arange(1.0, 11.0), 20.0, integer=True)",
    "Knapsack(np.arange(1.0, 21.0).reshape(2, 10), [20.0, 60.0], integer=True)",
    "TopK(10, 3)",
    "Assignment(4)",
    "ShortestPath([(0, 1), (1, 2), (0, 2)], 0, 2)",
    "ShortestPath([(0, 1), (1, 2), (2, 1), (2, 3)], 0, 3)",
    "WithCost(Simplex(4), turnover=(0.25, 0.1))",
    "WithCost(Vertices(np.eye(4)), quadratic=np.ones((4, 4)))",
]


def compilation_table() -> tuple[Table, list[str]]:
    """Return the table, and the sets that take longer than they may."""
    table, slow = Table(title="Seconds of the processor to the first answer, import of the package not counted"), []
    for heading in ("set", "first process", "next process"):
        table.add_column(heading, justify="left" if heading == "set" else "right")
    for made in SETS:
        with tempfile.TemporaryDirectory() as folder:
            cold, warm = (first_use_in(made, folder) for _ in range(2))
        table.add_row(made, f"{cold:.2f}", f"{warm:.2f}")
        slow += [f"compilation of {made}"] if cold > MOST_COLD or warm > MOST_WARM else []
    return table, slow


def first_use_in(made: str, cache: str, source: Path | None = None) -> float:
    """Return the seconds of a new process with a cache of compiled code, which imports the package from a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache} | ({} if source is None else {"PYTHONPATH": str(source)})
    command = [sys.executable, __file__, made]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def first_use(made: str) -> float:
    """Return the seconds of the processor that it takes to make a set and to solve one row."""
    from optensemble import feasible

    start = time.process_time()
    used = {name: getattr(feasible, name) for name in feasible.__all__ if name in made}  # loaded as they are named
    omega = eval(made, {"np": np, **used})  # one of the lines above
    omega.argmax(np.ones((1, omega.dimension)))
    return time.process_time() - start


if __name__ == "__main__":
    print(first_use(sys.argv[1]))
