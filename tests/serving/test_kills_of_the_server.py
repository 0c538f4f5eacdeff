"""Kill -9 under load, at random moments: whatever a client was told is in the log, once, and nothing is told twice."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from tests.serving.processes import Server, running
from tests.serving.worlds import LABELS, M, N, ensemble, labels, rows

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]

KILLS, CLIENTS, REFIT = 10, 6, 300
SHARED = 100  # rows that all clients decide
PAUSE = 0.02
DIES_EARLY = "import os, threading; threading.Timer({}, os.kill, (os.getpid(), 9)).start()"


@dataclass
class World:
    """The server of the moment, and what all clients were told."""

    server: Server | None = None
    told: dict[str, list[Any]] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)
    learned: int = 0
    broken_off: int = 0
    over: bool = False
    lock: Any = field(default_factory=threading.Lock)

    def post(self, path: str, body: Any) -> Any:
        """Ask again and again, until there is an answer."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if (server := self.server) is not None:
                    status, _, answer = server.ask("POST", path, body)
                    if status == 200:
                        return json.loads(answer)
                    assert status == 503, answer
            except ConnectionRefusedError:  # it is down
                pass
            except (OSError, http.client.HTTPException):
                with self.lock:
                    self.broken_off += 1
            time.sleep(0.02)
        raise AssertionError(f"no answer to {path}")


@dataclass
class Client(threading.Thread):
    """Decides rows of its own, and some that others decide as well; gives labels late, and twice."""

    world: World
    number: int
    failure: BaseException | None = None

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.rng, self.next = np.random.default_rng(self.number), SHARED + self.number
        self.open = list[int]()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            while not self.world.over:
                self.step()
                time.sleep(PAUSE)
            self.observe(self.open)
        except BaseException as error:
            self.failure = error

    def step(self) -> None:
        """A request to decide, and now and then one with labels."""
        count = int(self.rng.choice([1, 1, 1, 4, 12]))
        places = [self.next + CLIENTS * row for row in range(count)]
        places += self.rng.choice(SHARED, size=int(self.rng.integers(3)), replace=False).tolist()
        self.next += CLIENTS * count
        self.decide(places)
        self.open = list(dict.fromkeys([*self.open, *places]))
        if self.rng.random() < 0.5:
            ready = [place for place in self.open if self.rng.random() < 0.5]
            self.observe(ready)
            self.open = [place for place in self.open if place not in set(ready)]

    def decide(self, places: list[int]) -> None:
        ids = [name_of(place) for place in places]
        decisions = self.world.post("/decide", {"rows": rows(*within(places)), "ids": ids})["decisions"]
        assert [each["id"] for each in decisions] == ids
        with self.world.lock:
            for each in decisions:
                self.world.told.setdefault(each["id"], []).append(each)

    def observe(self, places: list[int]) -> None:
        if not places:
            return
        ids = [name_of(place) for place in places]
        found = self.world.post("/observe", {"ids": ids, "labels": labels(*within(places))})
        assert found["learned"] + found["known"] == len(places)
        with self.world.lock:
            self.world.accepted |= set(ids)
            self.world.learned += found["learned"]


def name_of(place: int) -> str:
    return f"row {place}"


def within(places: list[int]) -> list[int]:
    """The world is gone through again and again, with other ids."""
    return [place % M for place in places]


def live_through_kills(log: Path, world: World) -> None:
    """Serve, and be killed at random moments: mostly while requests come, now and then while it starts."""
    rng = np.random.default_rng(5)
    for number in range(KILLS):
        early = number % 5 == 4
        with running(log, "--quiet", code=DIES_EARLY.format(rng.uniform(0.3, 1.5)) if early else "") as server:
            world.server = server
            time.sleep(0.0 if early else rng.uniform(0.1, 1.2))
            assert (server.process.wait(20) if early else server.stop(signal.SIGKILL)) == -signal.SIGKILL
            assert server.told() == ""


def test_what_clients_were_told_survives_kills(tmp_path: Path) -> None:
    log, world = tmp_path / "a.db", World()
    oe.LiveEnsemble(ensemble(), log=log, refit=REFIT, window=N).close()
    clients = [Client(world, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        live_through_kills(log, world)
        with running(log, "--quiet") as server:
            world.server, world.over = server, True
            for client in clients:
                client.join(60)
            assert [client.failure for client in clients] == [None] * CLIENTS
            assert server.stop() == 0
            assert server.told() == ""
    finally:
        world.over = True
    told = f"{len(world.told)} rows decided, {world.broken_off} requests broken off, {len(world.accepted)} labels"
    print(f"{told}, {world.learned} of them told to be learned")
    require_that_nothing_is_lost(log, world)
    with oe.LiveEnsemble.resume(log) as live:  # and it goes on
        place = SHARED + CLIENTS
        again = live.answer(frame_of([place]), ids=[name_of(place)])
        assert again.actions[0].tolist() == list(world.told[name_of(place)][0]["action"].values())
        live.answer(frame_of([0, 1]), ids=["new", "newer"])
        live.observe(["newer", "new"], [list(each.values()) for each in labels(1, 0)])
        assert live.decided_ == len(world.told) + 2


def require_that_nothing_is_lost(log: Path, world: World) -> None:
    """Compare the log with what clients were told."""
    assert world.broken_off >= KILLS / 2, "requests were under way when it was killed"
    assert len(world.told) > 300
    for told in world.told.values():
        assert all(each == told[0] for each in told), "no id is decided in two ways"
    with oe.LiveEnsemble.resume(log, read_only=True) as live:
        decisions, counts = live.log.latest(10 * len(world.told)), live.log.counts()
        found = {each.id: each for each in decisions}
        assert len(decisions) == len(found) == counts.decisions == live.decided_, "no id is decided twice"
        assert set(found) == set(world.told)
        for id_, (first, *_) in world.told.items():
            assert dict(zip(LABELS, found[id_].action.tolist(), strict=True)) == first["action"]
            assert found[id_].promised == first["promised"]
        labelled = {id_ for id_, each in found.items() if each.label is not None}
        assert labelled == world.accepted, "labels that were accepted are learned"
        assert counts.labels == live.rows_ == len(labelled), "none counts twice"
        assert world.learned <= len(labelled)
        for id_ in labelled:
            assert found[id_].label.tolist() == list(labels(*within([int(id_.removeprefix("row "))]))[0].values())
        assert sum(not failed for failed in live.refits_["failed"]) > 3


def frame_of(places: list[int]) -> Any:
    return pd.DataFrame(rows(*within(places)))
