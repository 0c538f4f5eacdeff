"""Commands that start at once: a process with everything loaded forks for each of them.

    python tests/cli/warm_commands.py serve SOCKET     # forks for each request, one at a time
    python tests/cli/warm_commands.py SOCKET ARGS...   # one request: folder, arguments and output go to the server

A command runs in the process group of whoever asked for it: to kill the group is to kill all of it at once. What a
terminal is like goes with the request.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "TERM")


def ask(path: str, arguments: list[str]) -> int:
    """Have a command run, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        terminal = {name: os.environ[name] for name in TERMINAL if name in os.environ}
        request = json.dumps(
            {"folder": os.getcwd(), "arguments": arguments, "group": os.getpgrp(), "terminal": terminal}
        )
        socket.send_fds(server, [request.encode()], [1, 2])
        return int(server.recv(64) or b"1")


def serve(path: str) -> None:
    """Run commands, one after the other, each in a process of its own."""
    import optensemble.cli.main
    import optensemble.jobs.audit
    import optensemble.jobs.decide
    import optensemble.jobs.live_decide
    import optensemble.jobs.live_report
    import optensemble.jobs.live_start
    import optensemble.jobs.refit
    import optensemble.jobs.update
    import optensemble.report.live_page
    import optensemble.report.page  # noqa: F401

    _load_kernels()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            client, _ = listening.accept()
            with client:
                request, outputs, _, _ = socket.recv_fds(client, 1 << 16, 2)
                child = os.fork()
                if not child:
                    _run(json.loads(request), outputs)
                for output in outputs:
                    os.close(output)
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with contextlib.suppress(OSError):  # the one who asked may have been killed
                    client.sendall(str(code % 256).encode())


@contextlib.contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """Yield a folder for the path that has the command ``optensemble``, which starts at once."""
    shim, place = folder / "optensemble", str(folder / "socket")
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{__file__}" "{place}" "$@"\n')
    shim.chmod(0o755)
    server = subprocess.Popen([sys.executable, __file__, "serve", place])
    deadline = time.monotonic() + 120
    while not Path(place).exists() and server.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        yield folder
    finally:
        server.kill()
        server.wait()


def _load_kernels() -> None:
    """Do once what commands do, so that compiled code is there before the first fork."""
    import numpy as np

    import optensemble as oe

    X = np.random.default_rng(0).normal(size=(200, 9))
    Y, plan = X[:, :3] + X[:, 3:6], np.eye(3)[X[:, 6:].argmax(axis=1)]
    rows = np.hstack([X, plan])
    members = [(name, oe.Columns(range(at, at + 3))) for name, at in (("a", 0), ("b", 3), ("plan", 9))]
    ensemble = oe.DecisionEnsemble(members[:2], members[2:], oe.feasible.Simplex(3))
    ensemble.fit(rows[:120], Y[:120], time_ordered=True).update(rows[120:160], Y[120:160], ids=np.arange(40))
    ensemble.audit(rows[160:], Y[160:])


def _run(request: dict[str, object], outputs: list[int]) -> None:
    """Become the command; never returns."""
    from optensemble.cli.main import main

    code = 70
    try:
        os.setpgid(0, int(str(request["group"])))
        os.chdir(str(request["folder"]))
        os.environ.update(request["terminal"])  # type: ignore[call-overload]
        for number, output in enumerate(outputs, start=1):
            os.dup2(output, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))
        sys.argv = ["optensemble", *map(str, request["arguments"])]  # type: ignore[call-overload]
        main()
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
