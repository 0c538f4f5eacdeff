"""The server under load: requests a second and latency, beside an endpoint that only echoes, and beside the ensemble.

``python benchmarks/serve.py``: single rows from 1 and 16 clients, batches of 1,000 rows in JSON and Arrow, with a log
in SQLite that is flushed to disk with every commit. ``--minutes 5``: as many minutes of decisions and labels, with the
memory of the server. Ratios are of medians of rounds that alternate, for both processes share the machine's cores.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import optensemble as oe
from optensemble.serving.access_log import AccessLog
from optensemble.serving.exchange import Answer, Receive, Scope, Send
from optensemble.serving.front import EXCHANGE, FrontDoor
from optensemble.serving.http_protocol import limited
from optensemble.serving.limits import Room, read_body
from optensemble.serving.metrics import RequestMetrics
from optensemble.serving.security import Guard
from optensemble.serving.settings import Limits, Settings

D, N, BATCH = 5, 1000, 1000
CLIENTS = (1, 16, 64)
LEAST_OF_ECHO, LEAST_IN_PROCESS = {1: 0.0, 16: 0.12, 64: 0.2}, 0.5
"""A call takes about as long for 64 rows as for one: what is decided together depends on how many ask at a time."""

ROUNDS, SECONDS = 3, 1.5
ARROW = "application/vnd.apache.arrow.stream"
LABELS = [f"y_{j}" for j in range(D)]


# The ensemble


def world(rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of two models' predictions, and labels."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(rows, D))
    said = [signal + rng.normal(scale=scale, size=signal.shape) for scale in (0.3, 0.4)]
    columns = [f"{model}_{j}" for model in "ab" for j in range(D)]
    labels = signal + rng.normal(scale=0.5, size=signal.shape)
    return pd.DataFrame(np.hstack(said), columns=columns), pd.DataFrame(labels, columns=LABELS)


def make_live(log: Path) -> oe.LiveEnsemble:
    """Return a LiveEnsemble with a new log."""
    X, Y = world(N)
    models = [(model, oe.Columns([f"{model}_{j}" for j in range(D)])) for model in "ab"]
    ensemble = oe.DecisionEnsemble(models, feasible=oe.feasible.Simplex(D)).fit(X, Y)
    return oe.LiveEnsemble(ensemble, refit_in="background", log=log)


# Servers


class Echo:
    """An endpoint that only sends back what it is sent."""

    def __init__(self) -> None:
        self._limits = Limits()
        self._room = Room(self._limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it back."""
        exchange = scope[EXCHANGE]
        await exchange.answer(Answer(await read_body(exchange, self._limits, self._room)))


async def _bare(request: Request) -> Response:
    return Response(await request.body(), media_type="application/json")


def serve_echo(port: int) -> None:
    """Serve the echo as decisions are served: behind the same front door, with the same limits and headers.

    Under /bare it is without all that, as Starlette and uvicorn have it.
    """
    limits = Limits()
    door: dict[str, Any] = {
        "guard": Guard(Settings()),
        "room": Room(limits),
        "metrics": RequestMetrics(),
        "log": AccessLog(""),
    }
    app = Starlette(routes=[Route("/decide", Echo())], middleware=[Middleware(FrontDoor, **door)])
    bare = Starlette(routes=[Route("/bare", _bare, methods=["POST"])])

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        await (app if scope["path"] == "/decide" else bare)(scope, receive, send)

    uvicorn.run(
        both, port=port, http=limited(limits), loop="uvloop", lifespan="off", log_level="error", access_log=False
    )


def free_port() -> int:
    """Return a port that is free."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def wait_until_ready(port: int, path: str) -> None:
    """Return once a server answers."""
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            if connection.getresponse().status in (200, 404):
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server did not start")


@contextmanager
def serving(log: Path) -> Iterator[tuple[int, int]]:
    """Run a server; yield its port and its process."""
    port = free_port()
    command = [sys.executable, "-m", "optensemble", "serve", "--log", str(log), "--port", str(port), "--quiet"]
    process = subprocess.Popen(command)
    try:
        wait_until_ready(port, "/readyz")
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, "the server did not stop well"


@contextmanager
def echoing() -> Iterator[int]:
    """Run the echo; yield its port."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=serve_echo, args=(port,), daemon=True)
    process.start()
    try:
        wait_until_ready(port, "/")
        yield port
    finally:
        process.terminate()
        process.join()


# Clients


@dataclass(frozen=True)
class Rate:
    """Requests a second, and how long they took, in milliseconds."""

    rate: float
    p50: float
    p99: float


class _Client(asyncio.Protocol):
    """Sends one request after the other over one connection, each once the one before is answered."""

    def __init__(self, bodies: Callable[[], bytes], until: float, done: asyncio.Future[None]) -> None:
        self._bodies, self._until, self._done = bodies, until, done
        self.took = list[float]()
        self._received, self._missing = b"", -1

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._bodies())

    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            self._received += data
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._received[:end].lower()
            assert head.startswith(b"http/1.1 200"), self._received
            start = head.index(b"content-length: ") + 16
            length = int(head[start:].split(b"\r\n", 1)[0])
            self._missing = length - (len(self._received) - end - 4)
        else:
            self._missing -= len(data)
        if self._missing > 0:
            return
        self.took.append(time.perf_counter() - self._began)
        self._received, self._missing = b"", -1
        if time.perf_counter() < self._until:
            self._send()
        else:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server has closed the connection"))


async def _load(port: int, clients: int, bodies: Callable[[], bytes], seconds: float) -> Rate:
    loop, began = asyncio.get_running_loop(), time.perf_counter()
    made, ends = list[_Client](), list[asyncio.Future[None]]()
    for _ in range(clients):
        ends.append(loop.create_future())
        make = partial(_Client, bodies, began + seconds, ends[-1])
        made.append((await loop.create_connection(make, "127.0.0.1", port))[1])
    await asyncio.wait_for(asyncio.gather(*ends), seconds + 60)
    took = np.concatenate([client.took for client in made])
    return Rate(len(took) / (time.perf_counter() - began), *(1000 * np.quantile(took, [0.5, 0.99])).tolist())


def load(port: int, clients: int, bodies: Callable[[], bytes], seconds: float = SECONDS) -> Rate:
    """Return what a server does for so many clients at a time."""
    return uvloop.run(_load(port, clients, bodies, seconds))


def request(body: bytes, path: str = "/decide", kind: str = "application/json") -> bytes:
    """Return a request of HTTP."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    accept = f"Accept: {kind}\r\n" if kind == ARROW else ""
    return (head + accept + "\r\n").encode() + body


class Requests:
    """Requests that are all new: of rows that were made before, with new ids."""

    def __init__(self, rows: int, kind: str, path: str = "/decide") -> None:
        self._rows, self._kind, self._path, self._count = rows, kind, path, 0
        X = world(4 * max(rows, 16), seed=1)[0]
        starts = range(0, len(X) - rows + 1, max(rows, 1))
        self._parts = [X.iloc[start : start + rows] for start in starts]
        self._json = [orjson.dumps(part.to_dict("records")) for part in self._parts]
        self._run = f"{time.time():.3f}"

    def __call__(self) -> bytes:
        """Return the next request."""
        number, self._count = self._count % len(self._parts), self._count + 1
        ids = [f"{self._run}-{self._count}-{row}" for row in range(self._rows)]
        if self._kind == ARROW:
            table = pa.Table.from_pandas(self._parts[number], preserve_index=False).append_column("id", pa.array(ids))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            return request(sink.getvalue().to_pybytes(), kind=ARROW)
        return request(b'{"ids":' + orjson.dumps(ids) + b',"rows":' + self._json[number] + b"}", self._path)


# In process


def in_process(live: oe.LiveEnsemble, rows: int, seconds: float = SECONDS) -> Rate:
    """Return the rate of decisions from a frame, without a server."""
    X, count, took = world(rows, seed=2)[0], 0, list[float]()
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        ids = [f"{began}-{count}-{row}" for row in range(rows)]
        start = time.perf_counter()
        live.answer(X, ids=ids)
        took.append(time.perf_counter() - start)
        count += 1
    return Rate(1 / float(np.mean(took)), *(1000 * np.quantile(took, [0.5, 0.99])).tolist())


# Figures


def show(name: str, rates: list[Rate], unit: float = 1.0) -> float:
    """Print the medians of rounds; return that of the rate."""
    rate, p50, p99 = (float(median(getattr(each, name) for each in rates)) for name in ("rate", "p50", "p99"))
    print(f"{name:42} {unit * rate:12,.0f} {p50:10.2f} {p99:10.2f}")
    return rate


def measure(folder: Path) -> list[str]:
    """Print the table; return what is too little."""
    live = make_live(folder / "served.db")
    live.close()
    beside = make_live(folder / "beside.db")
    found: dict[str, list[Rate]] = {}
    with serving(folder / "served.db") as (port, _), echoing() as echo:
        size = len(Requests(1, "json")())
        print(f"a request of one row has {size:,} bytes\n")
        for each in range(ROUNDS + 1):
            now = {f"echo, {n}": load(echo, n, Requests(1, "json")) for n in CLIENTS}
            now["bare echo"] = load(echo, 16, Requests(1, "json", "/bare"))
            now |= {f"decide, {n}": load(port, n, Requests(1, "json")) for n in CLIENTS}
            now["in process, 1 row"] = in_process(beside, 1, SECONDS / 2)
            for name, kind in (("JSON", "json"), ("Arrow", ARROW)):
                now[name] = load(port, 2, Requests(BATCH, kind))
                now[f"in process, beside {name}"] = in_process(beside, BATCH)
            if each:  # the first round is to warm up
                for name, rate in now.items():
                    found.setdefault(name, []).append(rate)
    beside.close()
    print(f"{'':42} {'a second':>12} {'p50, ms':>10} {'p99, ms':>10}")
    ratios = {}
    for n in CLIENTS:
        echoed = show(f"echo, {n} client{'s' * (n > 1)}: requests", found[f"echo, {n}"])
        decided = show(f"POST /decide, {n} client{'s' * (n > 1)}: requests", found[f"decide, {n}"])
        ratios[f"single rows, {n} client{'s' * (n > 1)}, of echo"] = decided / echoed, LEAST_OF_ECHO[n]
    bare = show("bare echo, 16 clients: requests", found["bare echo"])
    ratios["single rows, 16 clients, of a bare echo"] = median(r.rate for r in found["decide, 16"]) / bare, 0.0
    alone = show("in process, 1 row at a time: rows", found["in process, 1 row"])
    ratios["single rows, 16 clients, of in process"] = median(r.rate for r in found["decide, 16"]) / alone, 0.0
    for name in ("JSON", "Arrow"):
        served = show(f"POST /decide, {BATCH:,} rows in {name}: rows", found[name], BATCH)
        here = show(f"in process, {BATCH:,} rows at a time: rows", found[f"in process, beside {name}"], BATCH)
        ratios[f"batches in {name}, of in process"] = served / here, LEAST_IN_PROCESS
    print()
    for name, (ratio, least) in ratios.items():
        print(f"{name:42} {ratio:12.2f}{f'   at least {least}' if least else ''}")
    return [name for name, (ratio, least) in ratios.items() if ratio < least]


# Sustained load


def resident(pid: int) -> float:
    """Return the memory of a process, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) / 1024


async def _sustain(port: int, pid: int, seconds: float) -> list[tuple[float, int, float]]:
    """Decide and observe from 16 clients; return moments with rows so far and memory."""
    X, Y = world(2048, seed=3)
    rows, labels = X.to_dict("records"), Y.to_dict("records")
    ends, decided, seen = time.perf_counter() + seconds, 0, list[tuple[float, int, float]]()

    async def one(client: int) -> None:
        nonlocal decided
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        count = 0
        while time.perf_counter() < ends:
            place, id_ = (count * 16 + client) % len(rows), f"s{client}-{count}"
            for body in (
                request(orjson.dumps({"ids": [id_], "rows": [rows[place]]})),
                request(orjson.dumps({"ids": [id_], "labels": [labels[place]]}), "/observe"),
            ):
                writer.write(body)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert b" 200 " in head.split(b"\r\n", 1)[0], head
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            count, decided = count + 1, decided + 1
        writer.close()

    async def look() -> None:
        began = time.perf_counter()
        while time.perf_counter() < ends:
            seen.append((time.perf_counter() - began, decided, resident(pid)))
            await asyncio.sleep(max(seconds / 12, 1))

    await asyncio.gather(look(), *(one(client) for client in range(16)))
    return seen


def sustain(folder: Path, minutes: float) -> list[str]:
    """Print memory over time; return what is wrong."""
    make_live(folder / "sustained.db").close()
    with serving(folder / "sustained.db") as (port, pid):
        seen = uvloop.run(_sustain(port, pid, 60 * minutes))
    print(f"\n{'seconds':>10} {'rows':>12} {'rows a second':>14} {'memory, MB':>12}")
    before = (0.0, 0)
    for at, rows, memory in seen:
        print(f"{at:10.0f} {rows:12,} {(rows - before[1]) / max(at - before[0], 1e-9):14,.0f} {memory:12.0f}")
        before = at, rows
    # windows of rows and hashes of ids are limited, but take a while to fill
    half = [memory for _, _, memory in seen[len(seen) // 2 :]]
    grown = half[-1] / half[0] - 1
    print(f"memory has grown by {grown:.1%} in the second half")
    return ["memory"] if grown > 0.1 else []


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=0.0, help="sustained load in place of the table")
    parser.add_argument("--folder", help="where logs are kept: durability costs what its disk takes")
    given = parser.parse_args()
    os.environ.pop("OPTENSEMBLE_TOKEN", None)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        failed = sustain(Path(folder), given.minutes) if given.minutes else measure(Path(folder))
    if failed:
        raise SystemExit(f"below the least: {', '.join(failed)}")


if __name__ == "__main__":
    main()
