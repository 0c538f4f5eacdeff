"""Refusals: what a request is answered with when it is not answered; each has a status and a message."""

from __future__ import annotations

import orjson

from optensemble.exceptions import ConflictError, FeasibleSetError, InputError, LogError, SolverError

RETRY_AFTER = 1
"""Seconds after which a request may be sent again that was refused for want of room."""

UNEXPECTED = "the server failed at this request. Its operator finds the reason in the server's log."
UNWRITABLE = "the log cannot be written at the moment, and nothing was decided or learned. Try again later."

_LONGEST = 1000  # characters of a message: it may quote the request


class Refusal(Exception):  # noqa: N818  (most are no errors of ours)
    """A request that is refused, with an HTTP status and headers."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, shown(message), headers or {}

    @property
    def body(self) -> bytes:
        """The answer."""
        return orjson.dumps({"error": self.message})


def shown(text: str) -> str:
    """Return a text in one line, without control characters, and not too long.

    >>> shown("a" + chr(27) + "[31m" + chr(10) + "b")
    'a?[31m b'
    """
    line = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    line = line.encode(errors="replace").decode()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 2] + " …"


def malformed(message: str) -> Refusal:
    """Return the refusal of a body that cannot be read."""
    return Refusal(400, message)


def unusable(message: str) -> Refusal:
    """Return the refusal of values that cannot be used."""
    return Refusal(422, message)


def unavailable(message: str, after: int = RETRY_AFTER) -> Refusal:
    """Return the refusal of a request that may be sent again later."""
    return Refusal(503, message, {"Retry-After": str(after)})


def refusal_of(error: BaseException) -> Refusal:
    """Return what a caller is told of an error; nothing of one that is not the caller's."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, LogError):
        return unavailable(UNWRITABLE)
    if isinstance(error, (InputError, FeasibleSetError, SolverError)):
        return Refusal(409 if isinstance(error, ConflictError) else 422, str(error))
    return Refusal(500, UNEXPECTED)
