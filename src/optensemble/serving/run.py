"""The process of the server: a socket, an event loop, and a drain when it is told to stop."""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn

from optensemble.exceptions import InputError
from optensemble.jobs.live_table import LiveTable
from optensemble.serving.app import make_app
from optensemble.serving.http_protocol import limited
from optensemble.serving.live_view import LiveView
from optensemble.serving.service import LOGGER, LiveService
from optensemble.serving.settings import Settings

_BACKLOG = 1024
_SWITCH = 0.005


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int


class DrainingServer(uvicorn.Server):
    """A server that ends its streams before it waits for requests, and that ends well when it is told to."""

    def __init__(self, config: uvicorn.Config, grace: float) -> None:
        super().__init__(config)
        self._grace, self._until = grace, float("inf")
        self.service: LiveService | None = None
        self.view: LiveView | None = None

    @property
    def seconds_left(self) -> float:
        """The time left to stop in."""
        return self._grace if self._until == float("inf") else max(self._until - time.monotonic(), 0.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, finish what is under way, and close."""
        self._until = time.monotonic() + self._grace
        if self.service is None or self.service.failure is None:
            LOGGER.info("stopping: requests under way are finished")
        if self.service is not None:
            self.service.drain()
        if self.view is not None:
            self.view.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals stop the server; it ends as it does without one, and a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():  # which alone may listen to signals
            yield
            return
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(
    opening: Callable[[], LiveTable],
    address: Address,
    settings: Settings,
    *,
    grace: float = 30.0,
    keep_days: float | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> bool:
    """Serve until a signal comes; return whether all that was under way was finished in time.

    It listens at once, and answers once the ensemble is open. An error in opening it is raised.
    """
    listening = _listen(address)
    config = uvicorn.Config(
        "",
        interface="asgi3",
        http=limited(settings.limits),
        loop=_loop(),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=int(settings.limits.idle_seconds),
        timeout_graceful_shutdown=max(int(grace * 0.7), 1),
        backlog=_BACKLOG,
    )
    server = DrainingServer(config, grace)
    service = LiveService(opening, settings.limits, keep_days=keep_days, on_failure=lambda: _end(server))
    server.service = service
    config.app = make_app(
        service, settings, grace=lambda: server.seconds_left, on_view=lambda view: setattr(server, "view", view)
    )
    if on_listening is not None:
        on_listening(url_of(listening))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    try:
        with _quiet_uvicorn():
            server.run(sockets=[listening])
    finally:
        sys.setswitchinterval(interval)
        listening.close()
    if service.failure is not None:
        raise service.failure
    return service.stopped


def _end(server: DrainingServer) -> None:
    server.should_exit = True


def _listen(address: Address) -> socket.socket:
    """Return a socket that listens; before anything else, so that a port that is taken is known at once."""
    made = None
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        if made is not None:
            made.close()
        why = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {address.host}, port {address.port}: {why}. Use another --port or --host."
        ) from error
    made.setblocking(False)
    return made


def url_of(listening: socket.socket) -> str:
    """Return the address of the page."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _loop() -> Any:
    if sys.platform == "win32":
        return "asyncio"
    return "uvloop"


@contextmanager
def _quiet_uvicorn() -> Iterator[None]:
    """Let uvicorn tell only what is wrong."""
    logger = logging.getLogger("uvicorn.error")
    level, logger.level = logger.level, logging.WARNING
    try:
        yield
    finally:
        logger.level = level
