"""Servers in processes of their own, as they are run."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optensemble as oe
from tests.serving.worlds import ensemble

STARTS_WITHIN = 60.0


@dataclass
class Server:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int
    lines: Path

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask over a connection of its own; return status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body, given = json.dumps(body).encode(), {"Content-Type": "application/json", **given}
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it by a signal; return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(40)

    def told(self) -> str:
        """What it wrote to stderr."""
        return self.lines.read_text()


def make_log(path: Path) -> Path:
    """A new log."""
    oe.LiveEnsemble(ensemble(), log=path, refit="never").close()
    return path


def free_port() -> int:
    """A port that is free."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def running(log: Path, *options: str, code: str = "", token: str = "", port: int = 0) -> Iterator[Server]:
    """A server around a log; ``code`` runs in its process before the command does."""
    port = port or free_port()
    given = ["serve", "--log", str(log), "--port", str(port), *options]
    program = f"{code}\nimport sys; sys.argv = ['optensemble', *{given!r}]\nfrom optensemble.cli import main; main()"
    lines = log.with_suffix(f".{port}.lines")
    with lines.open("ab") as stream:
        clean = {name: value for name, value in os.environ.items() if name != "OPTENSEMBLE_TOKEN"}
        process = subprocess.Popen([sys.executable, "-c", program], stderr=stream, env={**clean, "SECRET": token})
    server = Server(process, port, lines)
    try:
        _wait(server, {"Authorization": f"Bearer {token}"} if token else {})
        yield server
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(20)


def _wait(server: Server, headers: Mapping[str, str]) -> None:
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until:
        if server.process.poll() is not None:
            return
        try:
            if server.ask("GET", "/readyz", headers=headers)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(server.told())
