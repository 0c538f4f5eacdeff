"""Servers that listen, each in a thread of this process."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optensemble as oe
from optensemble.jobs.live_table import LiveTable
from optensemble.serving import run
from optensemble.serving.run import Address, serve
from optensemble.serving.settings import Limits, Settings
from tests.serving.processes import Server, make_log


class Running:
    """A server in a thread, and what became of it."""

    def __init__(self, opening: Callable[[], LiveTable], settings: Settings, **options: Any) -> None:
        self.server: Any = None
        self.finished: bool | None = None
        self.error: BaseException | None = None
        self.url = ""
        self._given = opening, Address("127.0.0.1", 0), settings
        self._options = options
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        own, outer = run.DrainingServer, self

        class Captured(own):  # type: ignore[misc, valid-type]
            def __init__(self, *given: Any) -> None:
                super().__init__(*given)
                outer.server = self

        run.DrainingServer = Captured  # type: ignore[assignment, misc]
        try:
            self.finished = serve(*self._given, on_listening=lambda url: setattr(self, "url", url), **self._options)
        except BaseException as error:
            self.error = error
        finally:
            run.DrainingServer = own  # type: ignore[misc]

    def stop(self) -> None:
        """Stop it as a signal does."""
        self.server._stop(15, None)
        self.thread.join(30)
        assert not self.thread.is_alive()


@contextmanager
def threaded(folder: Path, limits: Limits, **options: Any) -> Iterator[Server]:
    """A server around a new log."""
    log = make_log(folder / "a.db")

    def opening() -> LiveTable:
        return LiveTable.of(oe.LiveEnsemble.resume(log, refit_in="background"))

    running = Running(opening, Settings(limits=limits), **options)
    while not running.url and running.thread.is_alive():
        time.sleep(0.01)
    assert running.error is None, running.error
    process: subprocess.Popen[bytes] = running  # type: ignore[assignment]
    server = Server(process, int(running.url.rpartition(":")[2]), folder / "lines")
    try:
        while server.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.02)
        yield server
    finally:
        running.stop()
    assert running.finished, "not all was finished in time"
