"""The application: routes of Starlette behind the front door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route

from optensemble.serving.access_log import AccessLog
from optensemble.serving.endpoints import Endpoints
from optensemble.serving.exchange import Exchange, Receive, Scope, Send
from optensemble.serving.front import EXCHANGE, FrontDoor
from optensemble.serving.limits import Room
from optensemble.serving.live_view import LiveView
from optensemble.serving.metrics import RequestMetrics
from optensemble.serving.openapi import describe
from optensemble.serving.refusals import Refusal
from optensemble.serving.routes import Operation, by_path
from optensemble.serving.security import Guard
from optensemble.serving.service import LiveService
from optensemble.serving.settings import Settings


class Endpoint:
    """The operations of a path, as an ASGI application."""

    def __init__(self, endpoints: Endpoints, operations: Mapping[str, Operation]) -> None:
        self._endpoints, self._operations = endpoints, operations
        self._allowed = ", ".join(sorted(operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        exchange: Exchange = scope[EXCHANGE]
        operation = self._operations.get(exchange.method)
        if operation is None:
            raise Refusal(405, f"this path answers {self._allowed}.", {"Allow": self._allowed})
        answer = await operation.handler(self._endpoints, exchange)
        if answer is not None:
            await exchange.answer(answer)


def make_app(
    service: LiveService,
    settings: Settings,
    *,
    log: AccessLog | None = None,
    grace: Callable[[], float] = lambda: 30.0,
    on_view: Callable[[LiveView], None] | None = None,
) -> Starlette:
    """Return the application around a service, which it starts, and stops within ``grace`` seconds."""
    view, guard, room, metrics = LiveView(service), Guard(settings), Room(settings.limits), RequestMetrics()
    log = AccessLog(settings.access_log) if log is None else log
    endpoints = Endpoints(service, guard, room, view, metrics, partial(describe, settings=settings))
    if on_view is not None:
        on_view(view)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        service.start()
        try:
            yield {}
        finally:
            view.close()
            await service.stop(grace())
            log.close()

    app = Starlette(
        routes=[Route(path, Endpoint(endpoints, operations)) for path, operations in by_path().items()],
        middleware=[Middleware(FrontDoor, guard=guard, room=room, metrics=metrics, log=log)],
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.router.default = _nothing
    return app


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise Refusal(
        404,
        "there is nothing under this path. GET /openapi.json tells what there is.",
    )
