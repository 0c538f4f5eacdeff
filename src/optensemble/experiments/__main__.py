"""The demo: white box and black box on the paper's experiments A and C, on the fitting rows and on fresh ones."""

from __future__ import annotations

import time
import warnings

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from optensemble import BlackBoxEnsemble, WhiteBoxEnsemble
from optensemble.exceptions import NotConvergedWarning
from optensemble.experiments import Experiment, make_experiment

Floats = npt.NDArray[np.float64]

FITTING_ROWS, FRESH_ROWS, SEED = 400, 5000, 42


def main() -> None:
    """Fit both ensembles on two experiments and print what they promise and earn."""
    console = Console()
    for name in "AC":
        with console.status(f"experiment {name}: training the members"):
            experiment = make_experiment(name, SEED)
        with console.status(f"experiment {name}: debiasing"), warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConvergedWarning)
            console.print(_table(experiment))
    console.print(
        "On the rows they were fitted on, both keep their promise: that is the paper's guarantee. "
        "On fresh rows nothing is guaranteed, and the table says what happens there."
    )


def _table(experiment: Experiment) -> Table:
    X, Y = experiment.draw(FITTING_ROWS, SEED + 1)
    fresh_X, fresh_Y = experiment.draw(FRESH_ROWS, SEED + 2)
    omega = experiment.feasible
    policies = [(name, lambda X, model=model: omega.argmax(model(X))) for name, model in experiment.models]
    start = time.perf_counter()
    ensembles = {
        "white box": WhiteBoxEnsemble(experiment.models, omega).fit(X, Y),
        "black box": BlackBoxEnsemble(policies, omega).fit(X, Y),
    }
    seconds = time.perf_counter() - start
    table = Table(title=f"Experiment {experiment.name} ({experiment.note}), both fitted in {seconds:.1f} s")
    for heading in ("", "promised", "earned", "promised, fresh rows", "earned, fresh rows"):
        table.add_column(heading, justify="right" if heading else "left")
    best = max(policies, key=lambda policy: _mean_payoff(policy[1](X), Y))
    table.add_row(f"best member ({best[0]})", "", _mean(best[1](X), Y), "", _mean(best[1](fresh_X), fresh_Y))
    for name, ensemble in ensembles.items():
        promised = (f"{ensemble.self_assess(rows).mean():.2f}" for rows in (X, fresh_X))
        earned = (_mean(ensemble.decide(X), Y), _mean(ensemble.decide(fresh_X), fresh_Y))
        first, second = promised
        table.add_row(name, first, earned[0], second, earned[1])
    foresight = (_mean(omega.argmax(labels), labels) for labels in (Y, fresh_Y))
    table.add_row("foresight", "", next(foresight), "", next(foresight))
    return table


def _mean_payoff(actions: Floats, labels: Floats) -> float:
    return float((actions * labels).sum(axis=1).mean())


def _mean(actions: Floats, labels: Floats) -> str:
    return f"{_mean_payoff(actions, labels):.2f}"


if __name__ == "__main__":
    main()
