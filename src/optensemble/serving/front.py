"""The front door: lets requests in or refuses them, turns errors into answers, counts and logs."""

from __future__ import annotations

import asyncio
from time import perf_counter

from optensemble.exceptions import LogError
from optensemble.serving.access_log import AccessLog
from optensemble.serving.exchange import Exchange, Message, Receive, Scope, Send
from optensemble.serving.limits import Disconnected, Room
from optensemble.serving.metrics import RequestMetrics
from optensemble.serving.refusals import Refusal, refusal_of
from optensemble.serving.routes import METHODS, OPEN_PATHS, PATHS
from optensemble.serving.security import Guard
from optensemble.serving.service import LOGGER

EXCHANGE = "optensemble.exchange"
"""Where endpoints find the exchange in their scope."""

_GONE = 499  # the status of who has gone before the answer, as other servers log it


class FrontDoor:
    """ASGI middleware around the endpoints."""

    def __init__(self, app: object, guard: Guard, room: Room, metrics: RequestMetrics, log: AccessLog) -> None:
        self._app, self._guard, self._room, self._metrics, self._log = app, guard, room, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)  # type: ignore[operator]
        elif scope["type"] == "http":
            await self._exchange(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _exchange(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange, began = Exchange(scope, receive, send), perf_counter()
        scope[EXCHANGE] = exchange
        try:
            self._guard.require_own_host(exchange.headers)
            if exchange.path not in OPEN_PATHS:
                self._guard.require_token(exchange.method, exchange.headers)
            await self._app(scope, receive, _unused)  # type: ignore[operator]
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except Disconnected:
            exchange.status = _GONE
        except asyncio.CancelledError:  # the time to drain is over
            exchange.status = exchange.status or _GONE
            raise
        except Exception as error:
            await exchange.refuse(_told(error))
        finally:
            if exchange.held:
                self._room.release(exchange)
            seconds = perf_counter() - began
            method = exchange.method if exchange.method in METHODS else "other"
            path = exchange.path if exchange.path in PATHS else "other"
            self._metrics.add(method, path, exchange.status, seconds)
            self._log.add(exchange.method, exchange.path, exchange.status, seconds, exchange.sent)


def _told(error: Exception) -> Refusal:
    """Return what a caller is told of an error; what they are not told is in the server's log."""
    refusal = refusal_of(error)
    if isinstance(error, LogError):
        LOGGER.error("%s", error)
    elif refusal.status >= 500:
        LOGGER.error("unexpected error", exc_info=error)
    return refusal


async def _unused(message: Message) -> None:
    raise RuntimeError(f"an endpoint sent {message['type']} past its exchange")
