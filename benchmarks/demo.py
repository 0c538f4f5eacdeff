"""Where the time of ``make demo`` goes: the paper's four experiments, in seconds by phase.

Another checkout of the package, say the version before, is run after this one, on the same data. Machines differ: the
replay on fresh rows must then take less than 4 / 17 of its time there, which is 4 seconds where it was 17.

    python benchmarks/demo.py
    python benchmarks/demo.py --against ../before
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

TRAINING, FIT, REPLAY_IN_SAMPLE = "training members", "fit in sample", "replay in sample"
REPLAY_FRESH, DECISION, DRAWING = "replay on fresh rows", "decision ensemble", "figures and page"
TOTAL = "total"
PHASES = (TRAINING, FIT, REPLAY_IN_SAMPLE, REPLAY_FRESH, DECISION, DRAWING)
AT_MOST, BEFORE = 4.0, 17.0  # seconds for the replay on fresh rows, where it once took so many

Spent = defaultdict[str, float]


def timed(function: Callable[..., Any], spent: Spent, phase: Callable[[int], str]) -> Callable[..., Any]:
    """Return a function that adds the time of its calls to a phase, which may depend on the number of the call."""
    calls = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        begun = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[phase(calls)] += time.perf_counter() - begun
            calls += 1

    return call


def timed_steps(function: Callable[..., Iterator[Any]], spent: Spent, phase: str) -> Callable[..., Iterator[Any]]:
    """Return the same of a function that yields; what is done with what it yields counts too."""

    def steps(*arguments: Any) -> Iterator[Any]:
        begun = time.perf_counter()
        yield from function(*arguments)
        spent[phase] += time.perf_counter() - begun

    return steps


def run_demo() -> dict[str, float]:
    """Run the experiments of the version that is imported, and return the seconds of each phase."""
    from optensemble.experiments import reproduce, run
    from optensemble.experiments.settings import Settings

    spent, module = Spent(float), vars(run)
    for name in ("fit_decision_ensemble", "decision_reply", "audit_decision"):
        module[name] = timed(module[name], spent, lambda call: DECISION)
    run.compile_kernels(Settings())  # what it takes to compile is not a matter of this version
    spent.clear()
    module["_fit_ensembles"] = timed(module["_fit_ensembles"], spent, lambda call: FIT)
    # of every experiment the curves in sample come first
    in_order = REPLAY_IN_SAMPLE, REPLAY_FRESH
    module["_record_curves"] = timed(module["_record_curves"], spent, lambda call: in_order[call % 2])
    module = vars(reproduce)
    module["compile_kernels"] = lambda settings: 0.0
    module["make_experiment"] = timed(module["make_experiment"], spent, lambda call: TRAINING)
    module["draw_files"] = timed_steps(module["draw_files"], spent, DRAWING)
    module["make_experiment_page"] = timed(module["make_experiment_page"], spent, lambda call: DRAWING)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        reproduce.reproduce_paper(Path(folder), Settings())
        spent[TOTAL] = time.perf_counter() - begun
    return dict(spent)


def run_version(source: Path) -> dict[str, float]:
    """Run the same in a process of its own, with the package of some folder."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    command = [sys.executable, __file__, "--seconds-as-json"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def print_table(columns: dict[str, dict[str, float]]) -> None:
    """Print the seconds of each phase, a column for each version."""
    table = Table(title="make demo, seconds by phase")
    table.add_column("phase")
    for heading in columns:
        table.add_column(heading, justify="right")
    for phase in (*PHASES, "everything else", TOTAL):
        named = [sum(seconds[each] for each in PHASES) for seconds in columns.values()]
        rest = [seconds[TOTAL] - known for seconds, known in zip(columns.values(), named, strict=True)]
        shown = rest if phase == "everything else" else [seconds[phase] for seconds in columns.values()]
        table.add_row(phase, *(f"{each:.2f}" for each in shown))
    Console().print(table)


def main() -> None:
    """Run one version or two, print the table, and fail if the replay takes too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of the package, run too")
    parser.add_argument("--seconds-as-json", action="store_true", help="print the seconds of this version, and no more")
    given = parser.parse_args()
    if given.seconds_as_json:
        print(json.dumps(run_demo()))
        return
    columns = {"this version": run_version(Path(__file__).parents[1] / "src")}
    if given.against is not None:
        columns["the other"] = run_version(given.against / "src")
    print_table(columns)
    ours, *others = (seconds[REPLAY_FRESH] for seconds in columns.values())
    most = AT_MOST / BEFORE * min(others) if others else AT_MOST
    if ours >= most:
        raise SystemExit(f"the replay on fresh rows took {ours:.1f} s; less than {most:.1f} s is expected")


if __name__ == "__main__":
    main()
