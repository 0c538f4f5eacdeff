"""The demo: white box and black box on the paper's experiments A and C, on the fitting rows and on fresh ones."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from optensemble import BlackBoxEnsemble, WhiteBoxEnsemble
from optensemble._types import Floats
from optensemble.experiments import Experiment, make_experiment
from optensemble.experiments.setup import Model

Ask = Callable[[Floats], tuple[Floats, Floats]]
"""From features to actions and the payoff they promise."""

FITTING_ROWS, FRESH_ROWS, SEED = 400, 2000, 42


def main() -> None:
    """Fit both ensembles on two experiments and print what they promise and earn."""
    console = Console()
    for name in "AC":
        with console.status(f"experiment {name}: training the members"):
            experiment = make_experiment(name, SEED)
        with console.status(f"experiment {name}: debiasing"):
            console.print(_table(experiment))
    console.print(
        "On the rows they were fitted on, both keep their promise: that is the paper's guarantee. "
        "On fresh rows nothing is guaranteed, and the table says what happens there."
    )


def _table(experiment: Experiment) -> Table:
    omega, models = experiment.feasible, experiment.models
    X, Y = experiment.draw(FITTING_ROWS, SEED + 1)
    fresh_X, fresh_Y = experiment.draw(FRESH_ROWS, SEED + 2)
    policies = [(name, lambda X, model=model: omega.argmax(model(X))) for name, model in models]
    start = time.perf_counter()
    white = WhiteBoxEnsemble(models, omega).fit(X, Y)
    black = BlackBoxEnsemble(policies, omega).fit(X, Y)
    seconds = time.perf_counter() - start
    _, best = max(models, key=lambda pair: _payoff(omega.argmax(pair[1](X)), Y).mean())

    def optimise(predict: Model) -> Ask:
        def ask(X: Floats) -> tuple[Floats, Floats]:
            predictions = predict(X)
            actions = omega.argmax(predictions)
            return actions, _payoff(actions, predictions)

        return ask

    def follow(ensemble: WhiteBoxEnsemble | BlackBoxEnsemble) -> Ask:
        def ask(X: Floats) -> tuple[Floats, Floats]:
            answer = ensemble.answer(X)
            return answer.actions, answer.promised

        return ask

    asked: dict[str, Ask] = {
        "best member": optimise(best),
        "average member": optimise(lambda X: np.mean([model(X) for _, model in models], axis=0)),
        "white box": follow(white),
        "black box": follow(black),
    }
    table = Table(title=f"Experiment {experiment.name} ({experiment.note}), both fitted in {seconds:.1f} s")
    for heading in ("", "promised", "earned", "promised, fresh", "earned, fresh"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, ask in asked.items():
        numbers: list[float] = []
        for features, labels in ((X, Y), (fresh_X, fresh_Y)):
            actions, promised = ask(features)
            numbers += [promised.mean(), _payoff(actions, labels).mean()]
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    foresight = [f"{_payoff(omega.argmax(labels), labels).mean():.2f}" for labels in (Y, fresh_Y)]
    table.add_row("foresight", "", foresight[0], "", foresight[1])
    return table


def _payoff(actions: Floats, coefficients: Floats) -> Floats:
    return np.asarray((actions * coefficients).sum(axis=1))


if __name__ == "__main__":
    main()
