"""Bodies of requests, as long and as slow as they may be."""

from __future__ import annotations

import asyncio

from optensemble.serving.exchange import Exchange, Message, Receive
from optensemble.serving.refusals import Refusal, unavailable
from optensemble.serving.settings import Limits

_LINGER = 1.0  # seconds to read on for: a client that still writes would not see why it was refused
_LINGER_TIMES = 4  # times the longest body


class Disconnected(Exception):  # noqa: N818  (nobody is there to be told of an error)
    """The client has gone before its request was complete."""


class Room:
    """Bytes of bodies that are held at a time, of all requests together; those of a small one are not counted."""

    def __init__(self, limits: Limits) -> None:
        self.left = limits.most_bytes_at_once

    def take(self, exchange: Exchange, count: int) -> None:
        """Hold bytes until the request is answered; refuse where there is no room."""
        if count > self.left:
            raise unavailable("the server is receiving as much as it can hold. Try again later.")
        self.left -= count
        exchange.held += count

    def release(self, exchange: Exchange) -> None:
        """Hold no more for a request."""
        self.left += exchange.held
        exchange.held = 0


async def read_body(exchange: Exchange, limits: Limits, room: Room) -> bytes:
    """Return a request's body; refuse one that is too long or too slow, without keeping it."""
    declared, receive = exchange.headers.get(b"content-length"), exchange.receive
    if declared is not None and int(declared) > limits.most_bytes:  # the parser has seen that it is a number
        if b"expect" not in exchange.headers:
            await _discard(receive, limits)
        raise _too_long(limits)
    try:
        async with asyncio.timeout(limits.request_seconds):
            first = _present(await receive())
            parts, more = [first.get("body", b"")], bool(first.get("more_body"))
            if more:
                more = await _add_parts(parts, exchange, limits, room)
    except TimeoutError:
        raise _too_slow(limits) from None
    if more:
        await _discard(receive, limits)
        raise _too_long(limits)
    exchange.read = True
    if len(parts[0]) > limits.most_bytes:
        raise _too_long(limits)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _add_parts(parts: list[bytes], exchange: Exchange, limits: Limits, room: Room) -> bool:
    """Add the other parts of a body to the first; return whether it is too long, and what came is not kept."""
    length = len(parts[0])
    room.take(exchange, length)
    more = True
    while more:
        message = _present(await exchange.receive())
        part, more = message.get("body", b""), bool(message.get("more_body"))
        length += len(part)
        if length > limits.most_bytes:
            parts.clear()
            return True
        room.take(exchange, len(part))
        parts.append(part)
    return False


def _present(message: Message) -> Message:
    if message["type"] == "http.disconnect":
        raise Disconnected
    return message


async def _discard(receive: Receive, limits: Limits) -> None:
    """Read on for a moment without keeping anything."""
    seen = 0
    try:
        async with asyncio.timeout(_LINGER):
            while seen < _LINGER_TIMES * limits.most_bytes:
                message = await receive()
                seen += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _too_long(limits: Limits) -> Refusal:
    return Refusal(
        413,
        f"the body of a request may have at most {limits.most_bytes:,} bytes. Send fewer rows at a time.",
    )


def _too_slow(limits: Limits) -> Refusal:
    return Refusal(408, f"the body of the request did not arrive within {limits.request_seconds:g} seconds.")
