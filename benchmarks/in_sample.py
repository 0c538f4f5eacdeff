"""How far do the ensembles get on the rows they were debiased on? The paper's four experiments, three seeds each.

400 rows, round-robin, 5,000 rounds (D: 8,000), alpha 0.01, bucket width 0.1. "Way" is the share of the way from the
best initial policy to foresight; "gap" is promised minus earned, as a share of that way.

    python benchmarks/in_sample.py
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import make_experiment

ROWS, SEEDS = 400, (42, 1, 2)


def main() -> None:
    """Fit white box and black box on every experiment and print what they reach."""
    table = Table(title=f"On the {ROWS} rows debiased on, in percent of the way from best initial policy to foresight")
    for heading in ("experiment", "seed", "white box: way", "gap", "black box: way", "gap", "seconds"):
        table.add_column(heading, justify="right")
    for name in "ABCD":
        for seed in SEEDS:
            table.add_row(name, str(seed), *measure(name, seed))
    Console().print(table)


def measure(name: str, seed: int) -> list[str]:
    """Return ways and gaps of one experiment."""
    experiment = make_experiment(name, seed)
    X, Y = experiment.draw(ROWS, seed + 1)
    omega = experiment.feasible
    policies = [(member, lambda X, model=model: omega.argmax(model(X))) for member, model in experiment.models]
    best = max((omega.argmax(model(X)) * Y).sum(axis=1).mean() for _, model in experiment.models)
    way = (omega.argmax(Y) * Y).sum(axis=1).mean() - best
    options: dict[str, Any] = {"schedule": "round-robin", "max_rounds": 8000 if name == "D" else 5000}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        white = oe.WhiteBoxEnsemble(experiment.models, omega, **options).fit(X, Y)
        black = oe.BlackBoxEnsemble(policies, omega, **options).fit(X, Y)
    seconds = time.perf_counter() - start
    cells = []
    for ensemble in (white, black):
        end = ensemble.history_.iloc[-1]
        cells += [f"{100 * (end.realised - best) / way:.1f}", f"{100 * (end.promised - end.realised) / way:+.1f}"]
    return [*cells, f"{seconds:.1f}"]


if __name__ == "__main__":
    main()
