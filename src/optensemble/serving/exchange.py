"""A request and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from optensemble.serving.accept import JSON
from optensemble.serving.refusals import Refusal
from optensemble.serving.security import HEADERS

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CSP = "Content-Security-Policy"

_LENGTH, _IN_PARTS = b"content-length", b"transfer-encoding"
_EVERY = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Answer:
    """What a request is answered with."""

    body: bytes
    kind: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Exchange:
    """A request of HTTP, until it is answered."""

    __slots__ = ("_send", "headers", "held", "method", "path", "read", "receive", "sent", "status")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method, self.path = str(scope["method"]), str(scope["path"])
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.receive, self._send = receive, send
        self.status, self.sent = 0, 0
        self.held = 0  # bytes of a body that came in parts
        self.read = (
            self.headers.get(_LENGTH, b"0") == b"0" and _IN_PARTS not in self.headers
        )  # whether there is no more to be read

    async def begin(
        self, kind: str, status: int = 200, headers: Mapping[str, str] | None = None, length: int = -1
    ) -> None:
        """Send the head of an answer; without a length its body comes in parts."""
        head = [(b"content-type", kind.encode()), *(_EVERY if not headers else _with(headers))]
        if not self.read:  # what is left of the body would be taken for the next request, or come for ever
            head.append((b"connection", b"close"))
        if length >= 0:
            head.append((b"content-length", b"%d" % length))
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": head})

    async def write(self, part: bytes, *, more: bool = True) -> None:
        """Send a part of the body."""
        self.sent += len(part)
        await self._send({"type": "http.response.body", "body": part, "more_body": more})

    async def answer(self, answer: Answer) -> None:
        """Send an answer as a whole."""
        await self.begin(answer.kind, answer.status, answer.headers, len(answer.body))
        await self.write(answer.body, more=False)

    async def refuse(self, refusal: Refusal) -> None:
        """Send a refusal, unless an answer has been begun."""
        if self.status:
            return
        await self.answer(Answer(refusal.body, JSON, refusal.status, refusal.headers))


def _with(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer, and others, which replace those of the same name."""
    return [(name.lower().encode(), value.encode()) for name, value in {**HEADERS, **headers}.items()]
