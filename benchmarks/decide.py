"""Decisions from Parquet to Parquet by the command line: rows per second, and peak memory that stays where it is.

The paper's LP with four members (experiment C). The peak of a process that decides for a million rows must be that of
one that decides for a quarter of them, but for a tenth.

    python benchmarks/decide.py [ROWS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optensemble.experiments.setup import Experiment, make_experiment

ROWS = 1_000_000
FITTED = 2_000
CHUNK = 50_000
SLACK = 1.10

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
CHILD = """
import sys
sys.argv[0] = "optensemble"
from optensemble.cli import main
try:
    main()
finally:
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
    print(peak, file=sys.stderr)
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


def write_rows(experiment: Experiment, path: Path, rows: int) -> None:
    """All in one row group: the worst case for memory."""
    parts = [rows_of(experiment, CHUNK, seed, labelled=False) for seed in range(10, 10 + rows // CHUNK)]
    pq.write_table(pa.concat_tables(parts), path, row_group_size=rows)


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """Run a command; return its seconds, and its peak memory in MiB."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], cwd=folder, check=True, stderr=subprocess.PIPE, encoding="utf-8"
    )
    return time.perf_counter() - start, int(done.stderr.split()[-1]) / 1024


def main() -> None:
    """Fit once, then decide for tables of three lengths."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    experiment = make_experiment("C")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.toml").write_text(JOB, encoding="utf-8")
        pq.write_table(rows_of(experiment, FITTED, 1, labelled=True), folder / "history.parquet")
        run(folder, "fit", "job.toml", "--quiet")
        peaks = []
        for count in (CHUNK, rows // 4, rows):
            write_rows(experiment, folder / "new.parquet", count)
            seconds, peak = run(folder, "decide", "ensemble.oe", "new.parquet", "-o", "decisions.parquet", "--quiet")
            written = pq.read_metadata(folder / "decisions.parquet").num_rows
            assert written == count, f"{written} rows of {count} were written"
            peaks.append(peak)
            speed = f"{seconds:6.2f} s, {count / seconds:>9,.0f} rows/s"
            print(f"{count:>9,} rows: {speed}, peak {peak:,.0f} MiB", flush=True)
    grown = peaks[-1] / peaks[-2]
    print(f"peak memory of {rows:,} rows over that of {rows // 4:,}: {grown:.3f} (at most {SLACK})")
    if grown > SLACK:
        sys.exit("peak memory grows with the number of rows")


if __name__ == "__main__":
    main()
