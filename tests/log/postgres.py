"""A PostgreSQL server of the tests' own, on loopback, with a database for each that asks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

_NUMBERS = count()


def find_programs() -> Path | None:
    """The folder with the programs of the newest PostgreSQL, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("postgres")
    return Path(program).resolve().parent if program else None


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def server() -> Iterator[str]:
    """Start a server and stop it; yields the beginning of URLs. Root may not run one, and lets ``postgres`` do so."""
    programs = find_programs()
    assert programs is not None
    user = {"user": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="oe-postgres-", dir="/tmp"))
    try:
        if user:
            shutil.chown(folder, "postgres")
        data, port = folder / "data", _free_port()
        quiet = {"check": True, "capture_output": True, "cwd": folder}
        begin = [programs / "initdb", "-D", data, "-U", "tests", "--auth=trust", "--encoding=UTF8", "--no-sync"]
        subprocess.run(begin, **quiet, **user)  # type: ignore[call-overload]
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder}"
        control = [programs / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", folder / "log"]
        subprocess.run([*control, "-o", options, "start"], **quiet, **user)  # type: ignore[call-overload]
        try:
            yield f"postgresql://tests@127.0.0.1:{port}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **quiet, **user)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(base: str) -> str:
    """The URL of a new database."""
    name = f"log_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{base}/{name}"
