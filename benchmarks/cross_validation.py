"""How many joint fits is a cross-validation worth? Ratios within one run, of white box and black box.

Seven members and a knapsack of 20 items, 20,000 rows. A fit with ``validation="cv"`` is three shrinkages of up to ten
rounds on each of five folds; ``cross_fit`` does one fit again on each. Both are compared with one joint fit of as many
rounds on all rows. The script fails if cross_fit takes more than 15 such fits.

    python benchmarks/cross_validation.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import NotConvergedWarning

Floats = npt.NDArray[np.float64]

ROWS, ITEMS, MEMBERS, SEED = 20_000, 20, 7, 0
JOINT: dict[str, Any] = {"validation": None, "schedule": "joint", "min_cell": 50}
AT_MOST = 15


def make_ensembles() -> tuple[dict[str, Callable[..., Any]], Floats]:
    """Return how to make a white box and a black box of look-ups, so that members take no time, and the labels."""
    rng = np.random.default_rng(SEED)
    signal = rng.normal(size=(ROWS, ITEMS))
    labels = signal + rng.normal(size=(ROWS, ITEMS))
    omega = feasible.Knapsack(rng.uniform(0.5, 1.5, size=ITEMS), ITEMS / 4)
    said = [signal * rng.uniform(0.5, 1.5) + rng.normal(size=signal.shape) for _ in range(MEMBERS)]
    models = [(f"model {k}", partial(np.take, p, axis=0)) for k, p in enumerate(said)]
    policies = [(f"policy {k}", partial(np.take, omega.argmax(p), axis=0)) for k, p in enumerate(said)]

    def white(**parameters: Any) -> Any:
        return oe.WhiteBoxEnsemble(models, omega, **parameters)

    def black(**parameters: Any) -> Any:
        return oe.BlackBoxEnsemble(policies, omega, **parameters)

    return {"white box": white, "black box": black}, labels


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of some work."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(make: Callable[..., Any], labels: Floats) -> list[tuple[str, int, float, float]]:
    """Return what was done, with its rounds and seconds, and the seconds of one joint fit of as many rounds."""
    rows, done = np.arange(ROWS), []
    for schedule in ("joint", "frozen"):  # compiles
        make(validation=None, schedule=schedule, max_rounds=1).fit(rows[:200], labels[:200]).cross_fit()

    def joint(rounds: int) -> float:
        return seconds(lambda: make(**JOINT, shrinkage=100.0, max_rounds=rounds).fit(rows, labels))

    validated = make()
    taken = seconds(lambda: validated.fit(rows, labels))
    tried = int(validated.validation_["rounds"].max())
    done.append(('fit, validation="cv"', tried, taken, joint(tried)))
    for schedule in ("joint", "frozen"):
        fitted = make(**{**JOINT, "schedule": schedule}, max_rounds=10).fit(rows, labels)
        taken = seconds(fitted.cross_fit)
        done.append((f"cross_fit, {schedule}", fitted.n_rounds_, taken, joint(fitted.n_rounds_)))
    return done


def main() -> None:
    """Time all of it and print the table."""
    table = Table(title=f"{MEMBERS} members, {ROWS:,} rows, a knapsack of {ITEMS} items")
    for heading in ("ensemble", "what", "rounds", "seconds", "one joint fit", "joint fits"):
        table.add_column(heading, justify="left" if heading in ("ensemble", "what") else "right")
    makers, labels = make_ensembles()
    worst = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        for name, make in makers.items():
            for what, rounds, taken, one in measure(make, labels):
                table.add_row(name, what, str(rounds), f"{taken:.2f}", f"{one:.2f}", f"{taken / one:.1f}")
                worst = max(worst, taken / one if what.startswith("cross_fit") else 0.0)
    Console().print(table)
    if worst > AT_MOST:
        raise SystemExit(f"cross_fit takes {worst:.0f} joint fits of as many rounds; at most {AT_MOST} are expected")


if __name__ == "__main__":
    main()
