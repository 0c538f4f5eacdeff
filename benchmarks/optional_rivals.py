"""Alternatives beyond our dependencies, in a process of their own: they bring copies of libraries that others load too.

``python benchmarks/optional_rivals.py ortools problem.npz`` prints rows per second.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def ortools_rate(weights: Floats, capacity: Floats, C: Floats) -> float:
    """Return rows per second of OR-Tools, which wants whole numbers: values are multiplied by a million."""
    from ortools.algorithms.python import knapsack_solver

    kinds = knapsack_solver.SolverType
    kind = kinds.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER
    solver = knapsack_solver.KnapsackSolver(kind, "benchmark")
    whole, room, values = weights.astype(int).tolist(), capacity.astype(int).tolist(), (C * 1e6).astype(int).tolist()
    start = time.perf_counter()
    for value in values:
        solver.init(value, whole, room)
        solver.solve()
    return len(C) / (time.perf_counter() - start)


def piqp_rate(weights: Floats, capacity: Floats, C: Floats) -> float:
    """Return rows per second of PIQP's dense solver, whose linear term is updated."""
    import piqp

    d = weights.shape[1]
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-9
    below = np.full(len(capacity), -np.inf)
    solver.setup(np.zeros((d, d)), -C[0], None, None, weights, below, capacity, np.zeros(d), np.ones(d))
    start = time.perf_counter()
    for c in C:
        solver.update(c=-c)
        solver.solve()
    return len(C) / (time.perf_counter() - start)


if __name__ == "__main__":
    with np.load(sys.argv[2]) as problem:
        measure = {"ortools": ortools_rate, "piqp": piqp_rate}[sys.argv[1]]
        print(measure(problem["weights"], problem["capacity"], problem["C"]))
