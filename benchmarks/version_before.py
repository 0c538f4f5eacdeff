"""A version beside the one in another checkout of the repository: rates, actions and compile times, in one run.

Every case of benchmarks/feasible.py, by_row.py and known_cost.py is solved by both versions. Two processes, one for
each, take turns on the same rows, so that both see the same noise. Seconds are those of the processor, on one thread,
and a ratio is the median over a few turns. The actions of both are compared, on rows as they are drawn and on the same
rows rounded to whole numbers, which are full of ties.

    python benchmarks/feasible.py --against ../before                # everything, about a quarter of an hour
    python benchmarks/feasible.py --against ../before grid Shortest  # cases and sets whose name contains a word

It fails if a case gains less than ``ASKED``, if another became slower, if actions differ by more than ``SLACK``, or if
a set takes longer to its first answer. As a script this file is one of the two processes: it reads requests as lines of
JSON, and answers each by one.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from compilation import SETS, first_use_in
from rich.console import Console
from rich.table import Table

Floats = npt.NDArray[np.float64]

HERE = Path(__file__).resolve().parents[1]
"""The checkout of this version."""

ASKED = {
    "grid path 5×5 as ShortestPath": 1.8,
    "risk budget d=200": 4.0,
    "risk budget d=50": 2.5,
    "0/1 knapsack d=32, 1 resource(s)": 2.5,
    "paper's LP, d=4": 1.5,
    "paper's simplex + quadratic, d=4": 1.5,
}
"""How many times faster than the version before these cases are asked to be; the others may not be slower."""

NOISE = 0.9
"""The ratio of rates from which on a case counts as not slower: that of a version with itself varies so much."""

COMPILE_NOISE, LEAST_SECONDS = 1.1, 0.2
"""The ratio, and the seconds on top of it, from which on a first answer counts as later."""

SLACK = 1e-9
"""How far actions of the two versions may lie apart."""

SECONDS, TURNS, COMPILE_TURNS, COMPARED = 0.15, 7, 2, 4000
"""Seconds and number of turns, turns of compilation, and rows whose actions are compared."""


# One of the two processes: it has the cases, and solves them by the version it imports


class Solved(NamedTuple):
    """A case as it is solved here: from the number of rows, and whether they are rounded, to their actions."""

    name: str
    rows: int
    solve: Callable[[int, bool], Floats]


def all_cases() -> list[Callable[[], Solved]]:
    """List the cases; each is made when its turn comes."""
    import by_row
    import feasible
    import known_cost

    return [
        *(partial(fixed_case, make) for make in feasible.all_cases()),
        *(partial(bound_case, make, "by_row", by_row.draw_rows) for make in by_row.all_cases()),
        *(partial(bound_case, make, "omega", known_cost.draw_rows) for make in known_cost.all_cases()),
    ]


def fixed_case(make: Callable[[], Any]) -> Solved:
    """Return a case of one set for all rows."""
    case = make()
    d = case.omega.dimension
    C = case.draw(np.random.default_rng(6), 2_000_000 // d, d)
    whole = np.rint(C[:COMPARED])
    return Solved(case.name, len(C), lambda rows, rounded: case.omega.argmax((whole if rounded else C)[:rows]))


def bound_case(make: Callable[[], Any], attribute: str, draw: Callable[..., tuple[Any, Floats]]) -> Solved:
    """Return a case of a set, an attribute of what is made, that is bound to the rows drawn."""
    case = make()
    X, C = draw(case, np.random.default_rng(6))
    bound, whole = getattr(case, attribute).for_rows(X), np.rint(C[:COMPARED])

    def solve(rows: int, rounded: bool) -> Floats:
        actions: Floats = bound.take(slice(rows)).argmax((whole if rounded else C)[:rows])
        return actions

    return Solved(case.name, len(C), solve)


@lru_cache(maxsize=1)
def made(number: int) -> Solved:
    """Return a case; the one before it is forgotten."""
    return all_cases()[number]()


def seconds_of(case: Solved, rows: int, least: float) -> float:
    """Return the seconds that the rows take, on average over as many solutions as take a while."""
    start, count = time.process_time(), 0
    while count == 0 or time.process_time() - start < least:
        case.solve(rows, False)
        count += 1
    return (time.process_time() - start) / count


def rows_in_time(case: Solved) -> int:
    """Return how many rows are solved in the time of a turn; all of them where that takes less."""
    rows = 1
    while True:
        seconds = seconds_of(case, rows, 0.0)
        if rows == case.rows or seconds > SECONDS / 3:
            return rows
        rows = min(case.rows, max(2 * rows, int(rows * SECONDS / max(seconds, 1e-6))))


def answer(number: int, task: str, rows: int, file: str) -> Any:
    """Answer a request about a case: its name, how many rows to take, their seconds, or their actions in a file."""
    case = made(number)
    if task == "name":
        return case.name
    if task == "rows":
        case.solve(min(100, case.rows), False)  # compiles
        return rows_in_time(case)
    if task == "seconds":
        return seconds_of(case, rows, SECONDS)
    few = min(rows, COMPARED)
    np.save(file, np.concatenate([case.solve(few, False), case.solve(few, True)]))
    return file


def serve() -> None:
    """Answer requests until there are no more; the first line is the number of cases."""
    print(len(all_cases()), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(**json.loads(line))), flush=True)


# The process that compares


class Version:
    """A process that solves the cases by the version of one checkout."""

    def __init__(self, source: Path, folder: str) -> None:
        self.source, self.file = source, str(Path(folder) / "actions.npy")
        environment = os.environ | {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(compiled_code_of(source))}
        environment |= dict.fromkeys(("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, __file__], env=environment, **pipes)
        self.cases: int = self._read()

    def __enter__(self) -> Version:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()

    def ask(self, number: int, task: str, rows: int = 0) -> Any:
        """Return the answer to a request about a case."""
        assert self.process.stdin is not None
        request = {"number": number, "task": task, "rows": rows, "file": self.file}
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self._read()

    def actions(self, number: int, rows: int) -> Floats:
        """Return the actions of the first rows of a case."""
        found: Floats = np.load(self.ask(number, "actions", rows))
        return found

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of the version in {self.source} ended; its error is above.")
        return json.loads(line)


def source_of(checkout: Path) -> Path:
    """Return the folder of a checkout that is imported from."""
    source = checkout.resolve() / "src"
    if not (source / "optensemble").is_dir():
        raise SystemExit(f"{checkout} is no checkout of this repository: it has no src/optensemble.")
    return source


def compiled_code_of(source: Path) -> Path:
    """Return the folder for compiled code of a version, one for every state of its files.

    numba's own cache misses changes in functions that are called from other files.
    """
    state = hashlib.sha256()
    for file in sorted(source.rglob("*.py")):
        state.update(file.read_bytes())
    return HERE / "build" / "compiled" / state.hexdigest()[:16]


def compare_case(number: int, name: str, now: Version, before: Version) -> tuple[list[str], list[str]]:
    """Return the line of a case, and what it missed."""
    rows, _ = (version.ask(number, "rows") for version in (before, now))
    taken: dict[Version, list[float]] = {before: [], now: []}
    for turn in range(TURNS):
        for version in (before, now) if turn % 2 else (now, before):
            taken[version].append(version.ask(number, "seconds", rows))
    ratio = median(old / new for old, new in zip(taken[before], taken[now], strict=True))
    rates = (rows / median(taken[version]) for version in (before, now))
    apart = difference(before.actions(number, rows), now.actions(number, rows))
    asked, missed = ASKED.get(name, NOISE), list[str]()
    missed += [f"{name}: {ratio:.2f} times the version before, not {asked:g}"] if ratio < asked else []
    missed += [f"{name}: actions differ by {apart:.0e}"] if not apart <= SLACK else []
    told = "equal" if apart == 0.0 else f"differ by {apart:.0e}"
    return [name, *(f"{rate:,.0f}" for rate in rates), f"{ratio:.2f}", f"{asked:g}", told], missed


def difference(old: Floats, new: Floats) -> float:
    """Return the largest difference; 0 only of what is equal to the bit."""
    if old.tobytes() == new.tobytes():
        return 0.0
    return max(float(np.abs(old - new).max()), sys.float_info.min)  # zeros of different signs differ too


def rates_table(checkout: Path, words: Sequence[str], told: Console) -> tuple[Table, list[str]]:
    """Return the rates of all cases whose name contains one of the words, and what was missed."""
    table, missed = Table(title="Rows per second of the processor, on one thread"), list[str]()
    for heading in ("set", "before", "now", "ratio", "asked", "actions"):
        table.add_column(heading, justify="left" if heading in ("set", "actions") else "right")
    with (
        tempfile.TemporaryDirectory() as folder,
        Version(source_of(checkout), folder) as before,
        Version(HERE / "src", folder) as now,
    ):
        for number in range(now.cases):
            name = now.ask(number, "name")
            if wanted(name, words):
                told.print(f"[dim]{name}[/dim]")
                line, slower = compare_case(number, name, now, before)
                table.add_row(*line)
                missed += slower
    return table, missed


def compilation_table(checkout: Path, words: Sequence[str], told: Console) -> tuple[Table, list[str]]:
    """Return the seconds to the first answer with an empty cache, and which sets take longer."""
    table, missed = Table(title="Seconds of the processor to the first answer, import not counted"), list[str]()
    for heading in ("set", "before", "now", "ratio"):
        table.add_column(heading, justify="left" if heading == "set" else "right")
    for made in (each for each in SETS if wanted(each, words)):
        told.print(f"[dim]{made}[/dim]")
        taken: dict[Path, list[float]] = {source_of(checkout): [], HERE / "src": []}
        for _ in range(COMPILE_TURNS):
            for source, seconds in taken.items():
                with tempfile.TemporaryDirectory() as folder:
                    seconds.append(first_use_in(made, folder, source))
        old, new = (min(seconds) for seconds in taken.values())
        table.add_row(made, f"{old:.2f}", f"{new:.2f}", f"{new / old:.2f}")
        if new > COMPILE_NOISE * old + LEAST_SECONDS:
            missed.append(f"compilation of {made}: {new:.1f} s, not {old:.1f}")
    return table, missed


def wanted(name: str, words: Sequence[str]) -> bool:
    """Whether a name contains one of the words, if there are any."""
    return not words or any(word in name for word in words)


def compare_versions(checkout: Path, words: Sequence[str]) -> None:
    """Print the tables, and fail if something was missed."""
    told, missed = Console(width=150), list[str]()
    for make in (rates_table, compilation_table):
        table, slower = make(checkout, words, told)
        told.print(table)
        missed += slower
    if missed:
        raise SystemExit(f"not as asked: {'; '.join(missed)}")


if __name__ == "__main__":
    serve()
