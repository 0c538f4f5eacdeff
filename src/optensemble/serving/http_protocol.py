"""HTTP of connections that may be slow, many, or not HTTP: uvicorn's protocol with limits that it has not."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from optensemble.serving.settings import Limits

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class LimitedProtocol(HttpToolsProtocol):
    """A connection whose headers must arrive in time and be short, and whose client must read what it is sent."""

    limits = Limits()

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._late: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._head, self._in_head = 0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.most_connections:
            self._refuse(503, "too many connections are open. Try again later.")
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in data, and no more headers than there may be."""
        if self.transport.is_closing():  # what comes after a refusal
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > self.limits.most_header_bytes:
                self._refuse(431, f"the headers of a request may have at most {self.limits.most_header_bytes:,} bytes.")

    def on_message_begin(self) -> None:
        """Wait for the headers of a request."""
        super().on_message_begin()
        self._in_head, self._head = True, 0
        if self._late is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Let the application see to the rest."""
        self._in_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(400, "this is not a request of HTTP/1.1.")

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing of clients that would rather speak another protocol."""

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(self.limits.request_seconds, self._refuse_late)

    def _refuse_late(self) -> None:
        self._late = None
        if self._in_head:
            self._refuse(408, f"the headers did not arrive within {self.limits.request_seconds:g} seconds.")
        elif self.cycle is None:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and close the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # else the answer before would be cut
            body = orjson.dumps({"error": message})
            head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n"
            retry = b"retry-after: 1\r\n" if status == 503 else b""
            self.transport.write(head % (status, _REASONS[status], len(body)) + retry + b"\r\n" + body)
        self.transport.close()

    def _cancel(self) -> None:
        for timer in (self._late, self._stalled):
            if timer is not None:
                timer.cancel()
        self._late = self._stalled = None


def limited(limits: Limits) -> type[LimitedProtocol]:
    """Return the protocol with these limits."""
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits})
