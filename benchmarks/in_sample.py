"""How far do the ensembles get on the rows they were debiased on? The paper's four experiments, three seeds each.

400 rows, round-robin, 5,000 rounds (D: 8,000; B also 10,000 and 20,000), alpha 0.01, bucket width 0.1. "Way" is the
share of the way from the best initial policy to foresight; "gap" is promised minus earned, as a share of that way. The
script fails if an ensemble misses what is asked of it.

    python benchmarks/in_sample.py
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import Experiment, make_experiment
from optensemble.experiments.outcome import BLACK_BOX_ENSEMBLE, WHITE_BOX_ENSEMBLE
from optensemble.experiments.run import make_ensembles
from optensemble.experiments.settings import Settings

SEEDS = (42, 1, 2)
ROUNDS = {"A": [5000], "B": [5000, 10_000, 20_000], "C": [5000], "D": [8000]}
LEAST_WAY = {"A": 95, "B": 85, "C": 95, "D": 85}
LARGEST_GAP = {"A": 15, "B": 30, "C": 10, "D": 10}
LARGEST_GAP_OF_BLACK_BOX = 10


def main() -> None:
    """Fit white box and black box on every experiment, print what they reach, and compare it with what is asked."""
    table = Table(title="In percent of the way from best initial policy to foresight, on the rows debiased on")
    for heading in ("experiment", "seed", "rounds", "white box: way", "gap", "black box: way", "gap", "seconds"):
        table.add_column(heading, justify="right")
    missed = []
    for name, several in ROUNDS.items():
        for seed in SEEDS:
            experiment, before = make_experiment(name, seed), np.inf
            for rounds in several:
                begun = time.perf_counter()
                (way, gap), (black_way, black_gap) = measure(experiment, seed, rounds)
                numbers = (f"{way:.1f}", f"{gap:+.1f}", f"{black_way:.1f}", f"{black_gap:+.1f}")
                table.add_row(name, str(seed), f"{rounds:,}", *numbers, f"{time.perf_counter() - begun:.1f}")
                asked = {
                    f"white box way of at least {LEAST_WAY[name]}": way >= LEAST_WAY[name],
                    f"white box gap of at most {LARGEST_GAP[name]}": abs(gap) <= LARGEST_GAP[name],
                    "white box gap smaller with more rounds": abs(gap) < before,
                    "black box above the best initial policy": black_way > 0,
                    f"black box gap of at most {LARGEST_GAP_OF_BLACK_BOX}": abs(black_gap) <= LARGEST_GAP_OF_BLACK_BOX,
                }
                missed += [
                    f"{name}, seed {seed}, {rounds:,} rounds: {what}" for what, held in asked.items() if not held
                ]
                before = abs(gap)
    Console().print(table)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


def measure(experiment: Experiment, seed: int, rounds: int) -> list[tuple[float, float]]:
    """Return way and gap of white box and of black box."""
    X, Y = experiment.draw(400, seed + 1)
    omega, names = experiment.feasible, [name for name, _ in experiment.models]
    predictions = [model(X) for _, model in experiment.models]
    best = max((omega.argmax(prediction) * Y).sum(axis=1).mean() for prediction in predictions)
    most = (omega.argmax(Y) * Y).sum(axis=1).mean()
    ensembles = make_ensembles(omega, names, Settings(), rounds)
    reached = []
    for name in (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            end = ensembles[name].fit(np.hstack(predictions), Y).history_.iloc[-1]
        reached.append(
            (100 * (end.realised - best) / (most - best), 100 * (end.promised - end.realised) / (most - best))
        )
    return reached


if __name__ == "__main__":
    main()
