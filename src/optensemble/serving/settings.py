"""Settings of the server: its limits, and whom it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from optensemble.exceptions import InputError

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine for itself."""

MEGABYTE = 1_000_000
_SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Limits:
    """What a client may ask for, and for how long.

    Attributes
    ----------
    most_bytes, most_rows
        Of a request's body.
    most_bytes_at_once
        Of all bodies that are being received or wait.
    longest_id
        Characters of an id.
    request_seconds
        The time to receive the headers of a request, and again its body.
    queue_seconds, most_queued
        The time that a request may wait for its turn, and the number of requests that may.
    idle_seconds
        The time that a connection may stay open between requests, and that a client may take to read.
    most_connections, most_listeners
        The number of connections at a time, and of those that listen to the live page.
    most_header_bytes
        Of a request's line and headers.
    """

    most_bytes: int = 16 * MEGABYTE
    most_rows: int = 10_000
    most_bytes_at_once: int = 256 * MEGABYTE
    longest_id: int = 200
    request_seconds: float = 20.0
    queue_seconds: float = 20.0
    most_queued: int = 1000
    idle_seconds: float = 75.0
    most_connections: int = 1000
    most_listeners: int = 64
    most_header_bytes: int = 32_768


@dataclass(frozen=True)
class Settings:
    """How the server answers.

    Attributes
    ----------
    token
        What callers must show; None if nobody has to.
    hosts
        The names that a request's Host header may have; None for any.
    limits
        What a client may ask for.
    access_log
        ``"text"``, ``"json"``, or empty for none.
    """

    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] | None = LOOPBACK
    limits: Limits = Limits()
    access_log: str = ""


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    return f"[{host}]" in LOOPBACK or host in LOOPBACK or host.startswith("127.")


def hosts_for(host: str, allowed: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names that requests may use: on a loopback address, or where some are given, no others."""
    if not is_loopback(host) and not allowed:
        return None
    own = f"[{host}]" if ":" in host else host
    return tuple(name.lower() for name in dict.fromkeys((*LOOPBACK, own, *allowed)))


def require_token(token: str | None, variable: str, host: str) -> str | None:
    """Return the token; refuse an address that others can reach without one, and one that could be guessed."""
    if not token:
        if is_loopback(host):
            return None
        raise InputError(
            f"--host {host} can be reached by other machines: a token is needed. Put one into the environment "
            f"variable {variable}, for example with: export {variable}=$(openssl rand -hex 32)"
        )
    if len(token) < _SHORTEST_TOKEN or not all("!" <= each <= "~" for each in token):
        raise InputError(
            f"the token in {variable} must have at least {_SHORTEST_TOKEN} characters, letters, digits and signs of "
            f"ASCII without spaces; it has {len(token)}. Make one, for example with: openssl rand -hex 32"
        )
    return token
