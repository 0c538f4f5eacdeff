"""How a fit grows with the rows: from Parquet, in memory, on Dask workers; and the fit as it was before, if given.

Every measurement is a process of its own, on one thread of linear algebra; ratios are within one run.

    python benchmarks/scale.py                       # 10⁵ and 10⁶ rows: about two minutes
    python benchmarks/scale.py --full                # 10⁷ rows too: about five minutes, 2 GB of disk
    python benchmarks/scale.py --rows 1e8            # the same up to any number of rows
    python benchmarks/scale.py --before OLD/src      # beside an earlier version of the package
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

Floats = npt.NDArray[np.float64]

MODELS, LABELS = 4, 4
ITEMS, PLANNERS, KNAPSACK_ROWS = 48, 6, 100_000
WRITTEN = 1 << 16


def polytope() -> Any:
    """Return a small linear program."""
    from optensemble import feasible

    return feasible.Polytope(A_ub=[[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 0.0, 1.0]], b_ub=[2.0, 2.5], lower=0.0, upper=1.0)


def make_rows(rng: np.random.Generator, omega: Any, n: int, k: int, d: int) -> tuple[list[Floats], Floats]:
    """Return predictions of each model, and labels that are lower where the second one's policy takes the item."""
    signal = rng.normal(5.0, 2.0, size=(n, d))
    said = [signal + rng.normal(0.0, 1 + m / 3, size=(n, d)) for m in range(k)]
    labels = signal + rng.normal(size=(n, d))
    labels -= 1.5 * (omega.argmax(said[1]) >= 0.5)
    return said, labels


def columns(k: int, d: int) -> list[list[str]]:
    """Return the names of each model's columns."""
    return [[f"m{m}_{j}" for j in range(d)] for m in range(k)]


def write_parquet(path: Path, n: int) -> None:
    """Write ``n`` rows, in row groups of 65,536."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [*chain.from_iterable(columns(MODELS, LABELS)), *(f"y_{j}" for j in range(LABELS))]
    schema = pa.schema([(name, pa.float64()) for name in names])
    rng, omega = np.random.default_rng(0), polytope()
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, WRITTEN):
            said, labels = make_rows(rng, omega, min(WRITTEN, n - start), MODELS, LABELS)
            arrays = [pa.array(column) for block in (*said, labels) for column in block.T.copy()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


class Meter:
    """The CPU time and the largest anonymous memory of this process while something is done."""

    def __enter__(self) -> Meter:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before would be used again, and not be seen
        self._done, self.before = threading.Event(), _anonymous()
        self.most = self.before
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.most = max(self.most, _anonymous())

    def __exit__(self, *error: object) -> None:
        self.cpu, self.wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        self._done.set()
        self._thread.join()

    @property
    def figures(self) -> dict[str, float]:
        """Seconds, and megabytes in all and beyond those at the start."""
        return {"cpu": self.cpu, "wall": self.wall, "most": self.most / 1e6, "extra": (self.most - self.before) / 1e6}


def _anonymous() -> int:
    """Return the bytes of memory that are backed by no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


# Measurements, each in a process of its own


def ensemble(k: int, d: int, omega: Any, by_name: bool = True) -> Any:
    """Return an ensemble of columns."""
    import optensemble as oe

    names = columns(k, d)
    numbered = [list(range(m * d, (m + 1) * d)) for m in range(k)]
    models = [(f"m{m}", oe.Columns(names[m] if by_name else numbered[m])) for m in range(k)]
    return oe.DecisionEnsemble(models, feasible=omega)


def warm_up(k: int, d: int, omega: Any) -> None:
    """Have everything compiled and loaded."""
    said, labels = make_rows(np.random.default_rng(1), omega, 3000, k, d)
    ensemble(k, d, omega, by_name=False).fit(np.hstack(said), labels)


def measure_read(path: str) -> dict[str, float]:
    """Read all columns once."""
    import pyarrow.parquet as pq

    with Meter() as meter, pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(WRITTEN, use_threads=False):
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False).sum()
    return meter.figures


def measure_stream(path: str) -> dict[str, float]:
    """Fit from Parquet in this process."""
    import optensemble as oe

    warm_up(MODELS, LABELS, polytope())
    with Meter() as meter:
        fitted = ensemble(MODELS, LABELS, polytope()).fit(oe.Rows(path, labels="y_*"))
    fitted.save(f"{path}.oe")
    return meter.figures | {"file": os.path.getsize(f"{path}.oe") / 1e6}


def measure_memory(rows: str) -> dict[str, float]:
    """Fit arrays of a linear program."""
    omega = polytope()
    warm_up(MODELS, LABELS, omega)
    said, labels = make_rows(np.random.default_rng(0), omega, int(rows), MODELS, LABELS)
    return _fit_arrays(said, labels, omega)


def measure_knapsack(rows: str) -> dict[str, float]:
    """Fit arrays of a knapsack."""
    from optensemble import feasible

    rng = np.random.default_rng(0)
    omega = feasible.Knapsack(rng.uniform(1.0, 5.0, ITEMS), 60.0)
    warm_up(PLANNERS, ITEMS, omega)
    said, labels = make_rows(rng, omega, int(rows), PLANNERS, ITEMS)
    return _fit_arrays(said, labels, omega)


def _fit_arrays(said: list[Floats], labels: Floats, omega: Any) -> dict[str, float]:
    k, d = len(said), labels.shape[1]
    X, predictions = np.hstack(said), 8 * k * labels.size / 1e6
    said.clear()
    with Meter() as meter:
        ensemble(k, d, omega, by_name=False).fit(X, labels)
    return meter.figures | {"predictions": predictions}


def measure_dask(path: str, workers: str) -> dict[str, float]:
    """Fit from Parquet on Dask workers that have fitted before; CPU time is that of all processes."""
    import optensemble as oe
    from optensemble.distributed.cluster import open_client

    rows = oe.Rows(path, labels="y_*")
    with open_client(workers=int(workers)) as client:  # as optensemble fit --workers does
        ensemble(MODELS, LABELS, polytope()).fit(rows, engine=client)
        before, start = _cpu_of_all(client), time.perf_counter()
        ensemble(MODELS, LABELS, polytope()).fit(rows, engine=client)
        wall = time.perf_counter() - start
        return {"wall": wall, "cpu": _cpu_of_all(client) - before}


def _cpu_of_all(client: Any) -> float:
    return float(time.process_time() + sum(client.run(time.process_time).values()))


MEASUREMENTS: dict[str, Callable[..., dict[str, float]]] = {
    "read": measure_read,
    "stream": measure_stream,
    "memory": measure_memory,
    "knapsack": measure_knapsack,
    "dask": measure_dask,
}


def measure(what: str, *arguments: object, source: str | None = None) -> dict[str, float]:
    """Make a measurement in a process of its own."""
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = os.environ | one | ({"PYTHONPATH": source} if source else {})
    command = [sys.executable, __file__, "--measure", what, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def best(what: str, *arguments: object, source: str | None = None, times: int = 2) -> dict[str, float]:
    """Make a measurement several times, and return the quickest: other work on the machine only adds."""
    return min((measure(what, *arguments, source=source) for _ in range(times)), key=lambda found: found["wall"])


class Report:
    """One table: what was asked, what was measured."""

    def __init__(self) -> None:
        self._table = Table("what", "at most / at least", "measured", "", box=None, pad_edge=False)
        self.missed = 0

    def add(self, what: str, limit: str, value: float, held: bool, unit: str = "") -> None:
        """Add a line."""
        self.missed += not held
        self._table.add_row(what, limit, f"{value:,.2f}{unit}", "" if held else "missed")

    def note(self, what: str, value: str) -> None:
        """Add a line that nothing is asked of."""
        self._table.add_row(what, "", value, "")

    def print(self) -> None:
        """Print the table."""
        Console(width=120).print(self._table)


def streamed(report: Report, folder: Path, sizes: list[int]) -> None:
    """Measure fits from Parquet of growing size."""
    found, reading = {}, {}
    for n in sizes:
        path = folder / f"rows-{n}.parquet"
        write_parquet(path, n)
        reading[n], found[n] = measure("read", path), measure("stream", path)
        report.note(
            f"Parquet, {n:,} rows",
            f"{found[n]['cpu']:.1f} CPU s, {found[n]['most']:.0f} MB, file {found[n]['file']:.1f} MB",
        )
        if n < sizes[-1] and n != 10**6:
            path.unlink()
    for small, large in pairwise(sizes):
        ratio = found[large]["cpu"] / found[small]["cpu"]
        report.add(
            f"CPU time, {large:,} rows / {small:,}", f"<= {1.1 * large / small:g}", ratio, ratio <= 1.1 * large / small
        )
    last = sizes[-1]
    ratio = found[last]["cpu"] / reading[last]["cpu"]
    report.add(f"CPU time / reading the columns once, {last:,} rows", "<= 100", ratio, ratio <= 100)
    report.add(
        f"anonymous memory, {last:,} rows", "<= 1,000 MB", found[last]["most"], found[last]["most"] <= 1000, " MB"
    )
    if last > 10**6:
        ratio = found[last]["most"] / found[10**6]["most"]
        report.add(f"memory, {last:,} rows / 1,000,000", "<= 1.2", ratio, ratio <= 1.2)
        report.add("the saved file", "<= 20 MB", found[last]["file"], found[last]["file"] <= 20, " MB")


def in_memory(report: Report, before: str | None) -> None:
    """Measure fits of arrays, beside those of an earlier version."""
    for what, rows, faster, copies in (("memory", 10**6, 3.0, 4.0), ("knapsack", KNAPSACK_ROWS, 3.5, 6.0)):
        now = best(what, rows)
        report.note(f"in memory, {what}, {rows:,} rows", f"{now['cpu']:.1f} CPU s, {now['extra']:.0f} MB more")
        ratio = now["extra"] / now["predictions"]
        report.add(f"{what}: memory / predictions", f"<= {copies:g}", ratio, ratio <= copies)
        if before is not None:
            then = best(what, rows, source=before)
            speed = then["cpu"] / now["cpu"]
            report.note(f"{what}, before", f"{then['cpu']:.1f} CPU s, {then['extra']:.0f} MB more")
            report.add(f"{what}: CPU time before / now", f">= {faster:g}", speed, speed >= faster)


def on_dask(report: Report, folder: Path) -> None:
    """Measure a fit of a million rows on two workers beside that of one process."""
    path = folder / "rows-1000000.parquet"
    alone, both = best("stream", path, times=4), best("dask", path, 2, times=4)
    speed, work = alone["wall"] / both["wall"], both["cpu"] / alone["cpu"]
    report.add("two workers: time of one process / of both", ">= 1.6", speed, speed >= 1.6)
    report.add("two workers: CPU time / that of one process", "<= 1.3", work, work <= 1.3)


def main() -> None:
    """Make all measurements, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="10⁷ rows too")
    parser.add_argument("--rows", type=float, help="the most rows")
    parser.add_argument("--before", help="the source folder of an earlier version")
    parser.add_argument("--folder", help="where the files go; they are removed in the end")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(MEASUREMENTS[given.measure[0]](*given.measure[1:])))
        return
    most = int(given.rows or (1e7 if given.full else 1e6))
    sizes = [n for n in (10**power for power in range(5, 12)) if n < most] + [most]
    report = Report()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        in_memory(report, given.before)
        streamed(report, Path(folder), sizes)
        if 10**6 in sizes:
            on_dask(report, Path(folder))
    report.print()
    sys.exit(1 if report.missed else 0)


if __name__ == "__main__":
    main()
