"""The live page, and the stream of what changes on it: drawn once for all who look, and only while somebody does."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from html import unescape
from typing import Any, TypeVar

import orjson

from optensemble.report.html import Html
from optensemble.report.live_page import LivePageData, changed_sections, live_sections, make_live_page
from optensemble.serving.exchange import Exchange
from optensemble.serving.refusals import unavailable
from optensemble.serving.service import LOGGER, LiveService

EVENTS = "/events"
REFRESH = 2.0
"""Seconds between two looks at the ensemble, at least."""

_HEARTBEAT = 15.0  # seconds of silence after which a comment shows that the connection is alive, or that it is not
_DECISIONS = 50
_ALSO = "; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
_META = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]*)"')

Sections = dict[str, Html]
Drawn = TypeVar("Drawn")


class LiveView:
    """Shows a LiveEnsemble in browsers.

    Parameters
    ----------
    service
        The service whose ensemble it is.
    """

    def __init__(self, service: LiveService) -> None:
        self._service, self._listeners = service, 0
        self._drawing = ThreadPoolExecutor(1, thread_name_prefix="optensemble page")  # figures are not thread-safe
        self._lock = asyncio.Lock()
        self._page, self._page_at = b"", -REFRESH
        self._sections: Sections = {}
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """The number of those who listen."""
        return self._listeners

    async def page(self) -> tuple[bytes, str]:
        """Return the page and its Content-Security-Policy; of those who ask at about one time all see the same."""
        _ = self._service.calls  # refused while it starts
        async with self._lock:
            if time.monotonic() - self._page_at >= REFRESH:
                self._page = await self._draw(lambda data: make_live_page(data, events=EVENTS).encode())
                self._page_at = time.monotonic()
        policy = _META.search(self._page.decode())
        return self._page, unescape(policy[1] if policy else "default-src 'none'") + _ALSO

    async def send_events(self, exchange: Exchange) -> None:
        """Send what changes until the listener goes, or the server stops."""
        if self._listeners >= self._service.limits.most_listeners:
            raise unavailable(f"{self._listeners:,} pages are being kept up to date, which is the most.", after=30)
        if self._closed:
            raise unavailable("the server is stopping. Try again once it has been started again.", after=5)
        self._listeners += 1
        gone = asyncio.ensure_future(_until_gone(exchange))
        try:
            if self._looking is None:
                self._sections = {}  # they may be old
                self._looking = asyncio.create_task(self._look())
            await exchange.begin("text/event-stream")
            await exchange.write(b"retry: 3000\n\n")
            await self._send_changes(exchange, gone)
        finally:
            gone.cancel()
            self._listeners -= 1

    async def _send_changes(self, exchange: Exchange, gone: asyncio.Future[None]) -> None:
        """Send to one listener all that it has not seen; the first event has all parts."""
        seen: Sections = {}
        while not gone.done() and not self._closed:
            news = self._news
            if changed := changed_sections(seen, self._sections):
                seen = dict(self._sections)
                await exchange.write(b"data: " + orjson.dumps(changed) + b"\n\n")
            waiting = asyncio.ensure_future(news.wait())
            both: list[asyncio.Future[Any]] = [waiting, gone]
            done, _ = await asyncio.wait(both, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if not done:
                await exchange.write(b": still here\n\n")
        if not gone.done():
            await exchange.write(b"", more=False)

    async def _look(self) -> None:
        """Look at the ensemble again and again while somebody listens."""
        try:
            while self._listeners and not self._closed:
                began = time.monotonic()
                try:
                    self._sections = await self._draw(live_sections)
                    self._tell()
                except Exception as error:  # the log may be in use: the page says when it was last up to date
                    LOGGER.warning("the live page was not drawn: %s", error)
                await asyncio.sleep(max(REFRESH - (took := time.monotonic() - began), took))
        finally:
            self._looking = None

    async def _draw(self, make: Callable[[LivePageData], Drawn]) -> Drawn:
        calls = self._service.calls

        def data() -> LivePageData:
            log = calls.live.log
            latest = [] if log is None else log.latest(_DECISIONS)
            return LivePageData.of(calls.live, latest, datetime.now(UTC), coordinates=calls.labels)

        found = await self._service.worker.call(data)
        return await asyncio.get_running_loop().run_in_executor(self._drawing, make, found)

    def _tell(self) -> None:
        """Wake all who listen."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._tell()
        self._drawing.shutdown(wait=False, cancel_futures=True)


async def _until_gone(exchange: Exchange) -> None:
    """Return once a listener has closed the connection."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass
