"""Stored estimators of strangers: blobs with a few values changed, loaded and asked for predictions.

Whatever such a blob says, it is refused or the estimator answers, if only by an exception: nothing may crash, hang or
take more than 2 GiB. A worker process goes through many blobs; if it dies, the parent knows at which one.

    python -m tests.fuzz_members --blobs 3000           # a few minutes
    python -m tests.fuzz_members --blobs 1 --seed 4711  # one of them again
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

from optensemble.persistence.estimator_blobs import dump_estimator, load_estimator
from tests.fuzz_files import MOST_BYTES, MOST_SECONDS, _entry, _reshaped, another, leaves
from tests.persistence.estimators import PLAIN, X, as_npy, fitted, packed, poisson, read_npy, unpacked

CHUNK = 250
Blob = tuple[Any, dict[str, bytes]]
Random = np.random.Generator


def change_schema(blob: Blob, rng: Random) -> None:
    """Change, remove or move one value of the schema; the content of a JSON node is a value too."""
    ways = list(leaves(blob[0]))
    way = ways[rng.integers(len(ways))]
    holder = blob[0]
    for key in way[:-1]:
        holder = holder[key]
    key, action = way[-1], rng.random()
    if action < 0.1:
        holder.pop(key)
    elif action < 0.3:  # another value of the same kind, from elsewhere
        others = [each for each in ways if each[-1] == key]
        found = blob[0]
        for step in others[rng.integers(len(others))]:
            found = found[step]
        holder[key] = json.loads(json.dumps(found))
    elif key == "content" and isinstance(holder[key], str):
        holder[key] = json.dumps(another(json.loads(holder[key]), rng))
    else:
        holder[key] = another(holder[key], rng)


def change_array(blob: Blob, rng: Random) -> None:
    """Change an entry, the kind or the shape of one array."""
    names = [name for name in blob[1] if name.endswith(".npy")]
    if not names:
        return
    name = names[rng.integers(len(names))]
    array = read_npy(blob[1][name]).copy()
    if array.dtype.names and array.size and rng.random() < 0.9:
        field = array[array.dtype.names[rng.integers(len(array.dtype.names))]]
        field[rng.integers(field.size)] = _entry(field, rng)
    elif not array.dtype.names and array.size and rng.random() < 0.6:
        array.flat[rng.integers(array.size)] = _entry(array, rng)
    else:
        array = _reshaped(array, rng)
    blob[1][name] = as_npy(array)


def mutated(samples: list[bytes], seed: int) -> bytes:
    """Return a sample with one to three values changed."""
    rng = np.random.default_rng([2027, seed])
    blob = unpacked(samples[rng.integers(len(samples))])
    for _ in range(rng.integers(1, 4)):
        (change_schema if rng.random() < 0.4 else change_array)(blob, rng)
    return packed(*blob)


def ask(blob: bytes) -> str:
    """Load a blob and ask for predictions; say how far that went."""
    try:
        estimator, asked = load_estimator(blob, frozenset(), 1 << 24)
    except Exception:
        return "refused"
    if asked:
        return "not trusted"
    fate = "answers"
    for rows in (X, X.astype(np.float32), X[:, :2], np.hstack([X, X]), np.full_like(X, np.nan), 1e9 * X, -X):
        try:
            estimator.predict(rows)
        except Exception:
            fate = "cannot answer" if rows is X else fate
    return fate


def work(first: int, count: int) -> None:
    """Try some blobs, and write a line before and after each."""
    warnings.simplefilter("ignore")
    samples = [dump_estimator(each)[0] for each in [*map(fitted, PLAIN), poisson()]]
    for seed in range(first, first + count):
        try:
            blob = mutated(samples, seed)
        except (KeyError, TypeError, ValueError, UnicodeEncodeError):  # it cannot be written
            continue
        print(json.dumps({"seed": seed}), flush=True)
        began = time.process_time()
        fate = ask(blob)
        seconds, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"seed": seed, "fate": fate, "seconds": seconds, "bytes": peak}), flush=True)


def run(blobs: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Try a number of blobs; return the counts of outcomes, and the failures."""
    fates, wrong = Counter[str](), list[str]()
    for first in range(seed, seed + blobs, CHUNK):
        count = min(CHUNK, seed + blobs - first)
        command = [sys.executable, "-m", "tests.fuzz_members", "--work", str(first), str(count)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120 + 2 * count, check=False)
            output, code, error = done.stdout, done.returncode, done.stderr
        except subprocess.TimeoutExpired as late:
            output, code, error = (late.stdout or b"").decode(), -1, "it took too long"
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        if code:
            wrong.append(f"blob {lines[-1]['seed'] if lines else first}: CRASH {code} {error[-1000:]}")
        for line in lines:
            fates.update([line["fate"]] if "fate" in line else [])
            if line.get("seconds", 0.0) > MOST_SECONDS or line.get("bytes", 0) > MOST_BYTES:
                wrong.append(f"blob {line['seed']}: {line['seconds']:.1f} s, {line['bytes']:,} bytes")
    return fates, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--blobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", nargs=2, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return
    fates, wrong = run(arguments.blobs, arguments.seed)
    print(dict(fates))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
