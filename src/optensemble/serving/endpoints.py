"""Endpoints: what is done for each request that was let in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from optensemble.serving.accept import HTML, JSON, chosen_type, media_type, require_media_type
from optensemble.serving.answers import AnswerPart, decisions_json, decisions_stream, json_body
from optensemble.serving.arrow_stream import MEDIA_TYPE as ARROW
from optensemble.serving.exchange import CSP, Answer, Exchange
from optensemble.serving.limits import Room, read_body
from optensemble.serving.live_view import LiveView
from optensemble.serving.metrics import MEDIA_TYPE as PROMETHEUS
from optensemble.serving.metrics import RequestMetrics
from optensemble.serving.refusals import Refusal
from optensemble.serving.requests import RowRequest, WireTerms, read_decide, read_observe
from optensemble.serving.security import UNTRUSTED, Guard
from optensemble.serving.service import LiveService
from optensemble.serving.settings import Limits
from optensemble.serving.sign_in import SIGN_IN_POLICY, sign_in_page

FORM = "application/x-www-form-urlencoded"
EVENTS = "text/event-stream"

_AT_ONCE = 20_000  # bytes that are read in the event loop; longer bodies are read in a thread
_FEW = 200  # rows that are written there

Reader = Callable[[bytes, str, WireTerms], RowRequest]


class Endpoints:
    """The endpoints of a server."""

    def __init__(
        self,
        service: LiveService,
        guard: Guard,
        room: Room,
        view: LiveView,
        metrics: RequestMetrics,
        describe: Callable[[Any], Any],
    ) -> None:
        self._service, self._guard, self._room, self._view = service, guard, room, view
        self._metrics, self._describe = metrics, describe

    @property
    def _limits(self) -> Limits:
        return self._service.limits

    # Deciding and learning

    async def decide(self, exchange: Exchange) -> Answer:
        """Decide rows."""
        wanted = chosen_type(exchange.headers.get(b"accept"), (JSON, ARROW))
        calls, request = self._service.calls, await self._request(exchange, read_decide)
        part: AnswerPart = await self._service.decide(request)
        if wanted == ARROW:
            name = calls.terms.id_column or "id"
            return Answer(await asyncio.to_thread(decisions_stream, part.answer, calls.labels, name), ARROW)
        if len(request.ids) <= _FEW:
            return Answer(decisions_json(part.decisions))
        return Answer(await asyncio.to_thread(lambda: decisions_json(part.decisions)))

    async def observe(self, exchange: Exchange) -> Answer:
        """Learn from labels."""
        chosen_type(exchange.headers.get(b"accept"), (JSON,))
        request = await self._request(exchange, read_observe)
        return Answer(json_body(await self._service.observe(request)))

    async def _request(self, exchange: Exchange, read: Reader) -> RowRequest:
        kind = require_media_type(exchange.headers.get(b"content-type"), (JSON, ARROW))
        terms = self._service.calls.terms
        body = await read_body(exchange, self._limits, self._room)
        if len(body) <= _AT_ONCE:
            return read(body, kind, terms)
        return await asyncio.to_thread(read, body, kind, terms)

    # Looking

    async def status(self, exchange: Exchange) -> Answer:
        """Tell where the ensemble stands."""
        return await self._told(exchange, lambda: self._service.calls.status())

    async def certificate(self, exchange: Exchange) -> Answer:
        """Tell the regret and its bound."""
        return await self._told(exchange, lambda: self._service.calls.certificate())

    async def monitor(self, exchange: Exchange) -> Answer:
        """Tell what the monitor has seen."""
        return await self._told(exchange, lambda: self._service.calls.monitor())

    async def openapi(self, exchange: Exchange) -> Answer:
        """Describe the endpoints."""
        chosen_type(exchange.headers.get(b"accept"), (JSON,))
        return Answer(json_body(self._describe(self._service.calls)))

    async def _told(self, exchange: Exchange, tell: Callable[[], Any]) -> Answer:
        chosen_type(exchange.headers.get(b"accept"), (JSON,))
        _ = self._service.calls  # refused at once while it starts
        return Answer(json_body(await self._service.worker.call(tell)))

    async def metrics(self, exchange: Exchange) -> Answer:
        """Give the metrics."""
        chosen_type(exchange.headers.get(b"accept"), ("text/plain", "application/openmetrics-text"))
        known = await self._service.metrics()
        return Answer((self._metrics.text() + known).encode(), PROMETHEUS)

    async def alive(self, exchange: Exchange) -> Answer:
        """Say that the process lives."""
        return Answer(b'{"status":"alive"}')

    async def ready(self, exchange: Exchange) -> Answer:
        """Say whether rows would be decided."""
        await self._service.require_writable()
        return Answer(b'{"status":"ready"}')

    # The page

    async def page(self, exchange: Exchange) -> Answer:
        """Show the live page, or the form to sign in."""
        chosen_type(exchange.headers.get(b"accept"), (HTML,))
        try:
            self._guard.require_token(exchange.method, exchange.headers)
        except Refusal as refusal:
            headers = refusal.headers | {CSP: SIGN_IN_POLICY}
            return Answer(sign_in_page().encode(), f"{HTML}; charset=utf-8", refusal.status, headers)
        page, policy = await self._view.page()
        return Answer(page, f"{HTML}; charset=utf-8", headers={CSP: policy})

    async def events(self, exchange: Exchange) -> None:
        """Send the parts of the page that change."""
        chosen_type(exchange.headers.get(b"accept"), (EVENTS,))
        _ = self._service.calls
        await self._view.send_events(exchange)

    async def sign_in(self, exchange: Exchange) -> Answer:
        """Begin a session of a browser."""
        if media_type(exchange.headers.get(b"content-type")) != FORM:
            raise Refusal(415, f"Content-Type must be {FORM}.")
        cookie = self._guard.session_for(await read_body(exchange, self._limits, self._room))
        if cookie is None and self._guard.needs_token:
            page = sign_in_page("This is not the token.")
            return Answer(page.encode(), f"{HTML}; charset=utf-8", 401, {**UNTRUSTED, CSP: SIGN_IN_POLICY})
        return Answer(b"", HTML, 303, {"Location": "/"} | ({} if cookie is None else {"Set-Cookie": cookie}))
