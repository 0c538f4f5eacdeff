"""How fast is the loop? Experiment A of the paper, 5,000 rounds round-robin, 400 rows, 4 models, in one run.

Beside it a loop that does what the published experiments do, row by row: in every round it solves every row of every
model, with Clarabel given new coefficients in the fastest way it has (one solver, ``update``). A round of that loop and
a fit are timed in turn, so that both see the same noise, and the median of the ratios is what counts.

    python benchmarks/loop.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import clarabel
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy import sparse

import optensemble as oe
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import make_experiment
from optensemble.feasible import RiskBudget

Floats = npt.NDArray[np.float64]

ROUNDS, ROWS, SEED, TURNS = 5000, 400, 42, 40
AT_LEAST = 12_000


class RowByRow:
    """One Clarabel solver for the simplex under a risk limit; a row at a time."""

    def __init__(self, omega: RiskBudget, tolerance: float) -> None:
        d = omega.dimension
        root = np.linalg.cholesky(omega.covariance / omega.limit).T
        rows = np.vstack([np.ones((1, d)), -np.eye(d), np.zeros((1, d)), -root])
        right = np.concatenate([[1.0], np.zeros(d), [1.0], np.zeros(d)])
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(d), clarabel.SecondOrderConeT(1 + d)]
        settings = clarabel.DefaultSettings()
        settings.verbose = settings.presolve_enable = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        empty = sparse.csc_matrix((d, d))
        self.solver = clarabel.DefaultSolver(empty, np.ones(d), sparse.csc_matrix(rows), right, cones, settings)

    def argmax(self, C: Floats) -> Floats:
        """Solve the rows one by one."""
        actions = np.empty_like(C)
        for i, c in enumerate(C):
            self.solver.update(q=-c)
            actions[i] = self.solver.solve().x
        return actions


class NaiveLoop:
    """The loop row by row; every call makes a round, from the predictions that the round before it left."""

    def __init__(self, P: Floats, Y: Floats, solver: RowByRow) -> None:
        self.h, self.labels, self.solver, self.rounds = P.copy(), Y, solver, 0

    def __call__(self) -> None:
        """Solve every row of every model, and patch the cells of one (model, bucket, coordinate)."""
        k, t = len(self.h), self.rounds
        actions = np.stack([self.solver.argmax(p) for p in self.h])
        winner = (actions * self.h).sum(axis=2).argmax(axis=0)
        member, bucket, coordinate = t % k, (t // k) % 10, (t // (10 * k)) % 4
        level = np.minimum((actions[member, :, coordinate] * 10 + 1e-9).astype(int), 9) == bucket
        for chosen in range(k):
            cell = level & (winner == chosen)
            if cell.any():
                self.h[member, cell] += (self.labels - self.h[member])[cell].mean(axis=0)
        self.rounds += 1


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fit(ensemble: Any, X: Any, Y: Floats) -> None:
    """Fit, without a word about rounds that were not enough."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        ensemble.fit(X, Y)


def main() -> None:
    """Time both loops and print the table."""
    experiment = make_experiment("A", SEED)
    X, Y = experiment.draw(ROWS, SEED + 1)
    P = np.stack([model(X) for _, model in experiment.models])
    lookups = [(name, lambda rows, p=p: p[rows]) for (name, _), p in zip(experiment.models, P, strict=True)]
    rows = np.arange(ROWS)  # look-ups, so that the members' own time is not ours
    white = oe.WhiteBoxEnsemble(
        lookups, experiment.feasible, schedule="round-robin", max_rounds=ROUNDS, validation=None
    )
    fit(white.set_params(max_rounds=10), rows, Y)  # compiles
    white.set_params(max_rounds=ROUNDS)
    assert isinstance(experiment.feasible, RiskBudget)
    every = len(P) * ROWS * ROUNDS
    table = Table(
        title=f"Experiment A, {ROUNDS:,} rounds round-robin, {ROWS} rows, {len(P)} models ({experiment.note})"
    )
    for heading in ("loop", "seconds", "row-solves", "times ours"):
        table.add_column(heading, justify="left" if heading == "loop" else "right")
    loops = {tolerance: NaiveLoop(P, Y, RowByRow(experiment.feasible, tolerance)) for tolerance in (1e-8, 1e-12)}
    ours, theirs = list[float](), {tolerance: list[float]() for tolerance in loops}
    for _ in range(TURNS):
        for tolerance, loop in loops.items():
            theirs[tolerance].append(seconds(loop) * ROUNDS)
        ours.append(seconds(lambda: fit(white, rows, Y)))
    table.add_row("optensemble", f"{np.median(ours):.3f} (at best {min(ours):.3f})", f"{white.n_solves_:,}", "1")
    ratios = []
    for tolerance, found in theirs.items():
        ratios.append(float(np.median(np.array(found) / ours)))
        name = f"every row, every round, Clarabel at {tolerance:g} (scaled from {TURNS} rounds)"
        table.add_row(name, f"{np.median(found):.0f} (at best {min(found):.0f})", f"{every:,}", f"{ratios[-1]:.0f}")
    console = Console()
    console.print(table)
    console.print(f"row-solves avoided: {every - white.n_solves_:,} ({every / white.n_solves_:.0f} times fewer)")
    if min(ratios) < AT_LEAST:
        raise SystemExit(f"the loop is only {min(ratios):.0f} times faster; at least {AT_LEAST} is expected")


if __name__ == "__main__":
    main()
