"""Files of strangers: saved ensembles with a few values changed and their checksums made right again.

Whatever such a file says, ``load`` refuses it or the ensemble answers: nothing may crash, raise an exception that is
not ours, take more than 2 GiB or more than ten seconds. A worker process loads one file after the other and asks all
that can be asked; if it dies, the parent knows which file it was.

    python tests/fuzz_files.py --files 5000            # about ten minutes on two cores
    python tests/fuzz_files.py --files 1 --seed 4711   # one file again, with the traceback of what was raised
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import OptEnsembleError

MOST_BYTES, MOST_SECONDS = 2 << 30, 10.0
CHUNK = 250
"""Files for one worker: a crash loses no more."""

Json = Any
Arrays = dict[str, npt.NDArray[Any]]
Random = np.random.Generator


# Ensembles to begin with


def make_sets() -> dict[str, feasible.FeasibleSet]:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 2), (2, 1)]
    return {
        "box": feasible.Box([-1.0, 0.0, 0.5], [1.0, 2.0, 0.5]),
        "simplex": feasible.Simplex(3),
        "vertices": feasible.Vertices(rng.integers(0, 3, size=(6, 3))),
        "polytope": feasible.Polytope(A_ub=[[1, 1, 0], [0, 1, 1]], b_ub=[0.5, 0.6]),
        "large polytope": feasible.Polytope(A_ub=rng.uniform(size=(5, 12)), b_ub=np.full(5, 2.0)),
        "risk": feasible.RiskBudget(np.diag([1.0, 2.0, 3.0]), 0.8),
        "large risk": feasible.RiskBudget(root @ root.T, 4.0, upper=0.5),
        "factors": feasible.RiskBudget(factors=[[1.0], [0.5], [0.1]], specific=0.3, limit=0.7),
        "fractions": feasible.Knapsack([1.0, 2.0, 3.0], 3.0),
        "knapsack": feasible.Knapsack([[1.0, 2.0, 3.0], [2.0, 1.0, 1.0]], [3.0, 2.0], integer=True),
        "top k": feasible.TopK(4, 2, at_most=True),
        "assignment": feasible.Assignment(2, 3),
        "path": feasible.ShortestPath(edges, 0, 3),
        "whole": feasible.MixedInteger(A_ub=[[3.0, 4.0, 5.0]], b_ub=[8.0]),
        "mixed": feasible.MixedInteger(A_ub=[[3.0, 4.0, 5.0]], b_ub=[8.0], integer=[0, 1]),
        "product": feasible.Product([feasible.Simplex(2), feasible.Product([feasible.Box(upper=[0.5])])]),
        "with cost": feasible.WithCost(feasible.Simplex(3), 0.1, (0.5, np.eye(3)), (oe.Columns([0, 1, 2]), 0.3)),
        "by key": feasible.ByKey(10, {0: feasible.Simplex(3), 1: feasible.Knapsack([1, 2, 3], oe.Columns(11))}),
    }


def make_rows(omega: feasible.FeasibleSet, n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return labels, and a table: predictions of two models, actions of a policy, groups of four, two and twenty."""
    rng, d = np.random.default_rng(1), omega.dimension
    Y = rng.normal(size=(n, d)) + 0.5
    models = [Y + rng.normal(size=(n, d)), Y * rng.uniform(size=d)]
    noise = 2 * rng.normal(size=(n, d))
    groups = [rng.integers(0, count, (n, 1)) for count in (4, 2, 20)]
    policy = omega.for_rows(np.hstack([*models, noise, *groups])).argmax(Y + noise)
    return np.hstack([*models, policy, *groups]), Y


def make_ensembles() -> Iterator[tuple[str, Any, npt.NDArray[np.float64]]]:
    """Fit ensembles of all kinds whose members are columns: their files need nothing but themselves."""
    sets = make_sets()
    columns = {name: _columns(omega.dimension) for name, omega in sets.items()}
    for number, (name, omega) in enumerate(sets.items()):
        models, policies, groups = columns[name]
        X, Y = make_rows(omega, 130)
        terms: dict[str, Any] = {
            "time_ordered": bool(number % 2),
            "groups": 3 * omega.dimension + 2 if number % 3 == 0 else None,
        }
        decision = oe.DecisionEnsemble(models, policies, omega, subgroups=groups[:1] if number % 2 else None)
        few = 40 if omega.kernel is not None else 4  # each a mixed-integer programme
        yield f"decision {name}", decision.fit(X, Y, **terms), X[:few]
    for name, schedule in (("polytope", "frozen"), ("large polytope", "round-robin"), ("risk", "joint")):
        omega = sets[name]
        models, policies, groups = columns[name]
        X, Y = make_rows(omega, 130)
        paper: dict[str, Any] = {"schedule": schedule, "max_rounds": 40, "alpha": 0.02, "validation": None}
        by_groups: dict[str, Any] = {"subgroups": groups, "bucket_width": 0.25}
        white = oe.WhiteBoxEnsemble(models, omega, **paper, **by_groups).fit(X[:60], Y[:60])
        yield f"white {name}", white, X[:40]
        black = oe.BlackBoxEnsemble(policies, omega, conditional=name != "large polytope", **paper, **by_groups)
        yield f"black {name}", black.fit(X[:60], Y[:60]), X[:40]
    X, Y = make_rows(sets["box"], 130)
    models, policies, _ = columns["box"]
    white = oe.WhiteBoxEnsemble(models, sets["box"]).fit(X, Y, time_ordered=True)
    white.table_ = {  # as if a job file had said so
        "labels": ["a", "b", "c"],
        "coordinates": ["a", "b", "c"],
        "groups": [],
        "id": None,
        "time": "day",
        "clusters": None,
    }
    yield "white cv", white, X[:40]
    black = oe.BlackBoxEnsemble(policies, sets["box"], init=models[0][1], sense="min")
    yield "black cv", black.fit(X, Y), X[:40]
    patched = oe.DecisionEnsemble(models, None, sets["box"], subgroups=[9])
    yield "decision patched", patched.fit(*make_biased(sets["box"])), X[:40]
    X, Y = make_rows(sets["box"], 300)
    X[::4, :3], X[::7, 3:6] = np.nan, np.nan
    models, policies, _ = columns["box"]
    gaps = oe.DecisionEnsemble(models, policies, sets["box"]).fit(X, Y, sample_weight=np.arange(300) % 3)
    yield "decision gaps", gaps, X[:40]
    extended = oe.BlackBoxEnsemble(policies, sets["box"], validation=None, max_rounds=20, subgroups=[9])
    extended.fit(X[:60], Y[:60])
    yield "black extended", extended.extend(policies=[("other", _member(2, 3))], X=X[60:], Y=Y[60:]), X[:40]

    yield "decision rows", make_updated(sets["box"]), X[:40]


def make_updated(omega: feasible.FeasibleSet) -> oe.DecisionEnsemble:
    """Return an ensemble whose file has rows with columns of all kinds, those of the fit and others since."""
    X, Y = make_rows(omega, 190)
    frame = named_columns(X)
    names = [[f"c{3 * number + c}" for c in range(3)] for number in range(3)]
    models, policies = [("first", oe.Columns(names[0])), ("second", oe.Columns(names[1]))], oe.Columns(names[2])
    ensemble = oe.DecisionEnsemble(models, [("policy", policies)], omega, subgroups=["text", "truth", "small"])
    ensemble.fit(frame[:150], Y[:150], groups="date", sample_weight=1.0 + np.arange(150) % 2, ids=np.arange(150))
    return ensemble.update(frame[150:], Y[150:], sample_weight=np.ones(40), ids=np.arange(150, 190))


def named_columns(X: npt.NDArray[np.float64]) -> pd.DataFrame:
    """Return rows as a frame, with columns of text, truth values, small numbers and dates."""
    frame, numbers = pd.DataFrame(X).add_prefix("c"), np.arange(len(X))
    dates = pd.to_datetime(numbers // 3 * 86400, unit="s")
    text = np.where(X[:, 0] > 0, "north", "south")
    return frame.assign(text=text, truth=X[:, 1] > 0, small=(numbers % 3).astype(np.int8), date=dates)


def make_biased(omega: feasible.FeasibleSet) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rows whose labels are off by their group: a patch pays."""
    X, Y = make_rows(omega, 1500)
    return X, Y + 3.0 * (X[:, [-3]] == 1) - 3.0 * (X[:, [-3]] == 2)


def _columns(d: int) -> tuple[list[tuple[str, oe.Columns]], list[tuple[str, oe.Columns]], list[int]]:
    models = [("first", _member(0, d)), ("second", _member(1, d))]
    return models, [("policy", _member(2, d))], [3 * d, 3 * d + 1]


def _member(number: int, d: int) -> oe.Columns:
    return oe.Columns(range(number * d, (number + 1) * d))


# Files, and what may be changed in them


@dataclass
class Content:
    """A file, unpacked."""

    document: Json
    arrays: Arrays

    @classmethod
    def of(cls, path: Path) -> Content:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("ensemble.json"))
            with np.load(io.BytesIO(archive.read("arrays.npz"))) as arrays:
                return cls(document, {name: arrays[name] for name in arrays.files})

    def write(self, path: Path) -> None:
        """Write it with the checksums that it has now."""
        packed = io.BytesIO()
        np.savez_compressed(packed, **self.arrays)  # type: ignore[arg-type]
        parts = {"ensemble.json": json.dumps(self.document).encode(), "arrays.npz": packed.getvalue()}
        sums = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}
        manifest = {"format": "optensemble", "schema_version": 1, "sha256": sums}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("manifest.json", json.dumps(manifest))
            for name, part in parts.items():
                archive.writestr(name, part)


def leaves(value: Json, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Go through the ways to all values of a document."""
    if way:
        yield way
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in entries:
            yield from leaves(entry, (*way, key))


def change_value(content: Content, rng: Random) -> None:
    """Change, remove or repeat one value of the document."""
    ways = [way for way in leaves(content.document) if way != ("kind",) or rng.random() < 0.1]
    short = [way for way in ways if len(way) < 4 or way[0] != "logs"]  # layouts are long
    ways = ways if rng.random() < 0.4 else short
    way = ways[rng.integers(len(ways))]
    holder = content.document
    for key in way[:-1]:
        holder = holder[key]
    key, action = way[-1], rng.random()
    if action < 0.08:
        holder.pop(key)
    elif action < 0.12 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        holder[key] = another(holder[key], rng)


def another(value: Json, rng: Random) -> Json:
    """Return another value: near, of another size, or of another kind."""
    near: list[Json] = []
    if isinstance(value, int | float):
        near = [value + 1, value - 1, -value, 0, 1, 5, 2 * value, 1_000_000, 2**31, 2**40, 2**63 - 1, -(2**63), 10**400]
    if isinstance(value, float):
        near += [value * 1e300, 1e-320, float("nan"), float("inf"), -0.0]
    if isinstance(value, str):
        near = ["", value * 2, value.upper(), "\ud800", "mean", "RiskBudget", "TopK", "\0", "own", "a" * 100_000]
    if isinstance(value, list):
        near = [value[:-1], value * 2, value[::-1], [value], value[:1] * 50]
    strange: list[Json] = [None, True, False, 0, -1, 3, 1_000_000, 0.5, "x", [], {}, [[[]]], {"a": 1}, [0, 1, 2]]
    listed = near if near and rng.random() < 0.75 else strange
    return listed[rng.integers(len(listed))]


def change_array(content: Content, rng: Random) -> None:
    """Change an entry, the kind or the shape of one array, or remove it."""
    names = list(content.arrays)
    read_later = [name for name in names if not name.startswith(("history_", "guarantees_", "validation_"))]
    names = names if rng.random() < 0.3 else read_later
    name = names[rng.integers(len(names))]
    array, action = content.arrays[name], rng.random()
    if action < 0.65 and array.size:
        changed = array.copy()
        changed.flat[rng.integers(array.size)] = _entry(array, rng)
        content.arrays[name] = changed
    elif action < 0.7:
        del content.arrays[name]
    else:
        content.arrays[name] = _reshaped(array, rng)


def _entry(array: npt.NDArray[Any], rng: Random) -> Any:
    if array.dtype.kind == "U":
        return ["", "x", "\ud800", "\0"][rng.integers(4)]
    if array.dtype.kind == "b":
        return rng.random() < 0.5
    if array.dtype.kind == "f":
        values = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e-320, 1e308, -1e308, 1e16, 0.1]
        return values[rng.integers(len(values))]
    some = array.flat[rng.integers(array.size)]
    if array.dtype.kind not in "iu":
        return some
    info = np.iinfo(array.dtype)
    values = [some, 0, 1, -1, 5, 1000, 1_000_000, 2**31, 2**40, info.max, info.min]
    return np.clip(values[rng.integers(len(values))], info.min, info.max)


def _reshaped(array: npt.NDArray[Any], rng: Random) -> npt.NDArray[Any]:
    number = array.dtype.kind in "biuf"
    with np.errstate(all="ignore"):
        ways: list[Callable[[], npt.NDArray[Any]]] = [
            lambda: array[:-1],
            lambda: np.concatenate([array, array]),
            lambda: array[None],
            lambda: array.T.copy(order="F"),
            lambda: array.ravel(),
            lambda: array[:0],
            lambda: np.zeros((0, 10**9), array.dtype),
            lambda: array.astype(array.dtype.newbyteorder(">")),
            lambda: array.astype(np.float32 if number else "U1"),
            lambda: np.nan_to_num(array).astype(np.int8) if number else array.astype("U9"),
            lambda: array.astype(np.float64) if number else array[:1],
            lambda: array.astype(bool) if number else array[:1],
            lambda: np.zeros(array.shape, "M8[s]"),
            lambda: array.astype(complex) if number else array[:1],
            lambda: np.zeros(1_000_000) if number else array,
        ]
        return ways[rng.integers(len(ways))]() if array.ndim else array[None]


def mutated(samples: list[Content], seed: int) -> tuple[int, Content]:
    """Return a sample with one to five values changed."""
    rng = np.random.default_rng([2026, seed])
    number = int(rng.integers(len(samples)))
    content = Content(json.loads(json.dumps(samples[number].document)), dict(samples[number].arrays))
    for _ in range(rng.integers(1, 6)):
        (change_value if rng.random() < 0.5 else change_array)(content, rng)
    return number, content


# Loading them


def ask_all(path: Path, X: npt.NDArray[np.float64] | pd.DataFrame) -> str:
    """Load a file and ask all that can be asked; say how far that went, or what was raised that must not be."""
    try:
        ensemble = oe.load(path)
    except OptEnsembleError:
        return "refused"
    except Exception:
        return f"FOREIGN from load\n{traceback.format_exc()}"
    fate = "answers"
    for ask in ("decide", "answer", "choose", "promise", "explain", "predict"):
        try:
            getattr(ensemble, ask)(X)
        except OptEnsembleError:
            fate = "cannot answer"
        except Exception:
            return f"FOREIGN from {ask}\n{traceback.format_exc()}"
    try:
        if getattr(ensemble, "_later", ()):
            ensemble.extend()
    except OptEnsembleError:
        fate = "cannot answer"
    except Exception:
        return f"FOREIGN from extend\n{traceback.format_exc()}"
    return fate


def work(folder: Path, first: int, count: int) -> None:
    """Try some files, and write a line about each before and after; those not mutated answer, to begin with."""
    warnings.simplefilter("ignore")
    names = json.loads((folder / "samples.json").read_text())
    samples = [Content.of(folder / f"{name}.oe") for name in names]
    arrays = {name: np.load(folder / f"{name}.npy") for name in names}
    rows = [named_columns(X) if name == "decision rows" else X for name, X in arrays.items()]
    for name, X in zip(names, rows, strict=True):
        fate = ask_all(folder / f"{name}.oe", X)  # compiles what has to be
        assert fate == "answers", f"{name}: {fate}"
    path = folder / f"mutated-{first}.oe"
    for seed in range(first, first + count):
        number, content = mutated(samples, seed)
        try:
            content.write(path)
        except (ValueError, UnicodeEncodeError):  # numpy or JSON cannot write it
            _tell({"seed": seed, "fate": "cannot be written"})
            continue
        _tell({"seed": seed, "sample": names[number]})
        began = time.process_time()
        fate = ask_all(path, rows[number])
        seconds, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        _tell({"seed": seed, "fate": fate, "seconds": seconds, "bytes": peak})


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


# The parent


def prepare(folder: Path) -> None:
    """Save an ensemble of every kind, and rows to ask about."""
    warnings.simplefilter("ignore")
    names = []
    for name, ensemble, X in make_ensembles():
        ensemble.save(folder / f"{name}.oe")
        np.save(folder / f"{name}.npy", X)
        names.append(name)
    (folder / "samples.json").write_text(json.dumps(names))


def try_chunk(folder: Path, chunk: tuple[int, int]) -> list[dict[str, Any]]:
    """Have a worker try files; one that dies or hangs is told of the file it was at."""
    command = [sys.executable, __file__, "--work", str(folder), str(chunk[0]), str(chunk[1])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 6 * chunk[1], check=False)
        output, code, error = done.stdout, done.returncode, done.stderr
    except subprocess.TimeoutExpired as late:
        output, code, error = (late.stdout or b"").decode(), -1, "it took too long"
    lines = [json.loads(line) for line in output.splitlines()]
    if code and not (lines and "fate" in lines[-1] and lines[-1]["seed"] == sum(chunk) - 1):
        seed = lines[-1]["seed"] if lines else chunk[0]
        lines.append({"seed": seed, "fate": f"CRASH {code}\n{error[-2000:]}"})
    return [line for line in lines if "fate" in line]


def run(files: int, seed: int, processes: int) -> tuple[Counter[str], list[str]]:
    """Try a number of files; return the counts of outcomes, and the failures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        chunks = [(first, min(CHUNK, seed + files - first)) for first in range(seed, seed + files, CHUNK)]
        with ThreadPoolExecutor(processes) as pool:
            lines = [line for found in pool.map(partial(try_chunk, folder), chunks) for line in found]
    fates = Counter(line["fate"].split("\n")[0] for line in lines)
    wrong = [f"file {line['seed']}: {what}" for line in lines if (what := what_is_wrong(line))]
    fates["slowest, in ms"] = round(1000 * max(line.get("seconds", 0.0) for line in lines))
    fates["peak, in MiB"] = max(line.get("bytes", 0) for line in lines) >> 20
    return fates, wrong


def what_is_wrong(line: dict[str, Any]) -> str:
    """Say what must not have happened to a file; nothing if all is well."""
    if line["fate"].startswith(("FOREIGN", "CRASH")):
        return str(line["fate"])
    late = f"{line['seconds']:.1f} s" if line.get("seconds", 0.0) > MOST_SECONDS else ""
    return late or (f"{line['bytes']:,} bytes" if line.get("bytes", 0) > MOST_BYTES else "")


@cache
def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    if arguments().work:
        folder, first, count = arguments().work
        work(Path(folder), int(first), int(count))
        return
    fates, wrong = run(arguments().files, arguments().seed, arguments().processes)
    for fate, count in fates.most_common():
        print(f"{count:>7,}  {fate}")
    for line in wrong:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
