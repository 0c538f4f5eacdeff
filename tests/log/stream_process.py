"""A process that forks others, which decide and learn with a log and are killed at random moments.

``python -m tests.log.stream_process LOG FOLDER KILLS SEED REFIT_IN`` plays a stream once undisturbed, once with so many
kills, and prints what it found as JSON. Children are forked, so that a life takes no longer than what it does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import optensemble as oe
from optensemble import feasible
from tests.ensembles.live import bits, told

D, FITTED, ROWS = 3, 300, 1500


class World(NamedTuple):
    X: Any
    Y: Any
    ensemble: Any


class Event(NamedTuple):
    rows: list[int]
    labels: bool


def make_world() -> World:
    """Members that are columns of an array, and that swap half way."""
    rng = np.random.default_rng(7)
    n = FITTED + ROWS
    signal_, swapped = rng.normal(size=(n, D)), (np.arange(n) >= FITTED + ROWS // 2)[:, None]
    close, far = signal_ + 0.4 * rng.normal(size=(n, D)), signal_ + 2.0 * rng.normal(size=(n, D))
    X = np.hstack([np.where(swapped, far, close), np.where(swapped, close, far)])
    Y = signal_ + 0.5 * rng.normal(size=(n, D))
    members = [("north", oe.Columns([0, 1, 2])), ("south", oe.Columns([3, 4, 5]))]
    fit = oe.DecisionEnsemble(members, feasible=feasible.Simplex(D), context=None).fit(X[:FITTED], Y[:FITTED])
    return World(X, Y, fit)


def events() -> list[Event]:
    """Batches of any size, labels late and in any order, some of them twice."""
    rng = np.random.default_rng(11)
    found, start, waiting, known = list[Event](), FITTED, list[int](), list[int]()
    while start < FITTED + ROWS:
        stop = min(start + int(rng.choice([1, 1, 3, 9])), FITTED + ROWS)
        found.append(Event(list(range(start, stop)), labels=False))
        waiting, start = [*waiting, *range(start, stop)], stop
        here = [row for row in waiting if rng.random() < 0.3]
        waiting = [row for row in waiting if row not in set(here)]
        again = [row for row in known[-50:] if rng.random() < 0.05]
        known += here
        if here:
            found.append(Event([*here, *again], labels=True))
    return found


def step(live: oe.LiveEnsemble, world: World, event: Event) -> Any:
    """What an event leads to."""
    ids = [f"row {row}" for row in event.rows]
    if event.labels:
        live.observe(ids, world.Y[event.rows])
        return [live.weights_.tolist(), live.correction_, live.rows_]
    return told(live.answer(world.X[event.rows], ids=ids))


def received(folder: Path) -> list[Any]:
    """What a client was told before the kill, event by event; a last line may be broken off."""
    path = folder / "received.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def life(log: str, folder: Path, world: World, stream: list[Event], refit_in: str, begun: int = -1) -> None:
    """Resume and go on with the event that a client was not yet told the end of; a byte says that this begins."""
    done = received(folder)
    (folder / "whole.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in done))
    os.replace(folder / "whole.jsonl", folder / "received.jsonl")  # without a last line that was broken off
    live = oe.LiveEnsemble.resume(log, wait=20, refit_in=refit_in)
    if begun >= 0:
        os.write(begun, b".")
    file = os.open(folder / "received.jsonl", os.O_WRONLY | os.O_APPEND)
    for event in stream[len(done) :]:
        os.write(file, f"{json.dumps(step(live, world, event))}\n".encode())
    live.close()
    (folder / "done").touch()


def forked(work: Callable[[int], None], after: float | None = None, *, begun: bool = False) -> bool:
    """Run work in a forked process, killed after some seconds, or so long after it has begun; return whether it was."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reads)
            work(writes)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writes)
    if after is not None:
        if begun:
            os.read(reads, 1)
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    os.close(reads)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    if not killed and os.WEXITSTATUS(status):
        raise SystemExit("a child has failed")
    return killed


def main(log: str, folder: Path, kills: int, seed: int, refit_in: str) -> None:
    rng, world, stream = np.random.default_rng(seed), make_world(), events()

    warm_up = oe.LiveEnsemble(world.ensemble, refit=20)  # kernels are loaded once, not in every life
    for event in stream[:60]:
        step(warm_up, world, event)

    def begin(_: int) -> None:
        oe.LiveEnsemble(world.ensemble, log=log, refit_in=refit_in).close()

    def undisturbed(_: int) -> None:
        live = oe.LiveEnsemble(world.ensemble, log=str(folder / "clean.db"), refit_in=refit_in)
        found = {"steps": [step(live, world, event) for event in stream], "bits": bits(live)}
        (folder / "clean.json").write_text(json.dumps(found))
        live.close()

    forked(undisturbed)
    forked(begin)
    count = 0
    while count < kills:
        if (folder / "done").exists():
            break
        begun = bool(rng.random() < 0.8)  # the others are killed while they resume
        count += forked(
            lambda pipe: life(log, folder, world, stream, refit_in, pipe),
            after=float(rng.uniform(0.0, 0.04)),
            begun=begun,
        )
    lived = len(received(folder))
    if not (folder / "done").exists():
        forked(lambda _: life(log, folder, world, stream, refit_in))

    def compare(_: int) -> None:
        clean = json.loads((folder / "clean.json").read_text())
        told_of = received(folder)
        with oe.LiveEnsemble.resume(log, read_only=True) as live:
            decided = {each.id: each for each in live.log.latest(10 * ROWS)}
            counts = live.log.counts()
            steps = [(event, said) for event, said in zip(stream, told_of, strict=True) if not event.labels]
            missing = [row for event, _ in steps for row in event.rows if f"row {row}" not in decided]
            actions = [
                decided[f"row {row}"].action.tolist() == said[0][at]
                for event, said in steps
                for at, row in enumerate(event.rows)
            ]
            labelled = sum(each.label is not None for each in decided.values())
            summary = {
                "kills": count,
                "events": len(stream),
                "events while kills went on": lived,
                "same steps": told_of == clean["steps"],
                "same bits": json.loads(json.dumps(bits(live))) == clean["bits"],
                "refits": len(live.refits_),
                "missing": len(missing),
                "same actions in the log": all(actions),
                "decisions": counts.decisions,
                "ids": len(decided),
                "labels": counts.labels,
                "labelled": labelled,
                "rows learned from": live.rows_,
            }
        print(json.dumps(summary))

    forked(compare)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
