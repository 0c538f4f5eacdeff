"""Decisions from Parquet to Parquet by the command line: rows per second, and peak memory that stays where it is.

The paper's LP with four members (experiment C). The peak of a process that decides for a million rows must be that of
one that decides for a quarter of them, but for a tenth.

    python benchmarks/decide.py [ROWS]

With another checkout, the same rows are decided by it too, in turns: the tables must be equal, and this version must
take at most 1 / 2.5 of the time, start of the process included. What rows cost beyond the first 50,000 is shown too.

    build/wheel/env/bin/python benchmarks/decide.py [ROWS] --against CHECKOUT

An environment with the package alone, as ``make wheel`` makes it, is what users have: numba loads tools for tests
where it finds them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optensemble.experiments.setup import Experiment, make_experiment

ROWS = 1_000_000
FITTED = 2_000
CHUNK = 50_000
SLACK = 1.10
ROUNDS = 3
FASTER = 2.5
HERE = Path(__file__).resolve().parents[1]

JOB = """
[data]
fit = "history.parquet"
labels = "y_*"
id = "id"
[models]
m0 = "m0_*"
m1 = "m1_*"
m2 = "m2_*"
m3 = "m3_*"
[feasible]
kind = "polytope"
A_ub = [[1, 1, 0, 0], [0, 1, 1, 0]]
b_ub = [0.5, 0.6]
"""


def rows_of(experiment: Experiment, count: int, seed: int, labelled: bool) -> pa.Table:
    """Draw rows, and have every member predict."""
    X, Y = experiment.draw(count, seed)
    columns: dict[str, Any] = {"id": np.arange(count) + count * seed}
    for number, (_, model) in enumerate(experiment.models):
        said = model(X)
        columns |= {f"m{number}_{j}": said[:, j] for j in range(said.shape[1])}
    if labelled:
        columns |= {f"y_{j}": Y[:, j] for j in range(Y.shape[1])}
    return pa.table(columns)


def write_rows(path: Path, rows: int) -> None:
    """All in one row group: the worst case for memory.

    Another process writes them, because the peak of a child is at least that of its parent when it began.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(_write_rows, path, rows).result()


def _write_rows(path: Path, rows: int) -> None:
    experiment = make_experiment("C")
    parts = [rows_of(experiment, CHUNK, seed, labelled=False) for seed in range(10, 10 + rows // CHUNK)]
    pq.write_table(pa.concat_tables(parts), path, row_group_size=rows)


class Spent(NamedTuple):
    """What a process took: seconds on the clock, seconds of processors, and its peak memory in MiB."""

    seconds: float
    processor: float
    peak: float


def run(folder: Path, *arguments: str, checkout: Path = HERE) -> Spent:
    """Run the command of a checkout."""
    start = time.perf_counter()
    kept = folder / "bytecode" / ("ours" if checkout == HERE else "theirs")
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONPYCACHEPREFIX": str(kept)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as where it is installed
    child = subprocess.Popen([sys.executable, "-m", "optensemble", *arguments], cwd=folder, env=environment)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, f"{' '.join(arguments)} ended with {child.returncode}"
    return Spent(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def decide(folder: Path, out: str = "decisions.parquet", checkout: Path = HERE) -> Spent:
    """Decide for the rows in the folder."""
    return run(folder, "decide", "ensemble.oe", "new.parquet", "-o", out, "--quiet", checkout=checkout)


def require_flat_memory(folder: Path, rows: int) -> None:
    """Decide for tables of three lengths; the longest must not take more memory than one of a quarter."""
    peaks = []
    for count in (CHUNK, rows // 4, rows):
        write_rows(folder / "new.parquet", count)
        spent = decide(folder)
        written = pq.read_metadata(folder / "decisions.parquet").num_rows
        assert written == count, f"{written} rows of {count} were written"
        peaks.append(spent.peak)
        speed = f"{spent.seconds:6.2f} s, {count / spent.seconds:>9,.0f} rows/s"
        print(f"{count:>9,} rows: {speed}, peak {spent.peak:,.0f} MiB", flush=True)
    grown = peaks[-1] / peaks[-2]
    print(f"peak memory of {rows:,} rows over that of {rows // 4:,}: {grown:.3f} (at most {SLACK})")
    if grown > SLACK:
        sys.exit("peak memory grows with the number of rows")


def fastest(folder: Path, checkouts: dict[str, Path]) -> dict[str, Spent]:
    """Decide for the rows in the folder by each checkout in turns; return each one's least."""
    spent: dict[str, list[Spent]] = {name: [] for name in checkouts}
    for _ in range(ROUNDS):
        for name, checkout in checkouts.items():
            spent[name].append(decide(folder, f"{name}.parquet", checkout))
    return {name: Spent(*(min(each) for each in zip(*found, strict=True))) for name, found in spent.items()}


def require_faster(folder: Path, rows: int, other: Path) -> None:
    """Decide by another checkout and by this one: for few rows, which shows what the start takes, and for all."""
    checkouts, few = {"theirs": other, "ours": HERE}, dict[str, Spent]()
    for count in (CHUNK, rows):
        write_rows(folder / "new.parquet", count)
        for checkout in checkouts.values():
            decide(folder, checkout=checkout)  # compiles what is not compiled yet, bytecode too
        found = fastest(folder, checkouts)
        same = pq.read_table(folder / "theirs.parquet").equals(pq.read_table(folder / "ours.parquet"))
        assert same, "the decisions differ"
        for name, spent in found.items():
            print(f"{count:>9,} rows, {name:>6}: {spent.seconds:6.2f} s, {spent.processor:6.2f} s of processors")
        ratio = found["theirs"].seconds / found["ours"].seconds
        print(f"{count:>9,} rows: {ratio:.2f} times as fast", flush=True)
        few = few or found
    theirs, ours = (found[name].seconds - few[name].seconds for name in ("theirs", "ours"))
    print(f"rows beyond the first {CHUNK:,}: {theirs:.2f} s by theirs, {ours:.2f} s by ours", flush=True)
    if ratio < FASTER:
        sys.exit(f"{rows:,} rows must be decided {FASTER} times as fast")


def main() -> None:
    """Fit once, then decide."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=int, nargs="?", default=ROWS)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    experiment = make_experiment("C")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.toml").write_text(JOB, encoding="utf-8")
        pq.write_table(rows_of(experiment, FITTED, 1, labelled=True), folder / "history.parquet")
        run(folder, "fit", "job.toml", "--quiet", checkout=given.against or HERE)
        if given.against is None:
            require_flat_memory(folder, given.rows)
        else:
            require_faster(folder, given.rows, given.against)


if __name__ == "__main__":
    main()
