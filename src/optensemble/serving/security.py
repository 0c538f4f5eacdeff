"""Who may ask, and from where: host names, origins, the token and sessions of browsers."""

from __future__ import annotations

import hashlib
import hmac
import time
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from optensemble.serving.refusals import Refusal, malformed
from optensemble.serving.settings import Settings

COOKIE = "optensemble_session"
SESSION_SECONDS = 12 * 3600
_SAFE = ("GET", "HEAD")
UNTRUSTED = {"WWW-Authenticate": 'Bearer realm="optensemble"'}

Headers = dict[bytes, bytes]

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "same-origin",  # without a referrer a browser would not say where a form comes from
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every answer; pages have a Content-Security-Policy of their own."""


class Guard:
    """Lets requests in, or refuses them."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.hosts
        token = settings.token
        self._token = None if token is None else _digest(token.encode())
        self._key = None if token is None else hmac.digest(token.encode(), b"optensemble session", "sha256")

    @property
    def needs_token(self) -> bool:
        """Whether callers must show a token."""
        return self._token is not None

    def require_own_host(self, headers: Headers) -> None:
        """Refuse a request that was meant for another host, or that a page of another site sends.

        A page of any site may have a name of its own lead to this machine (DNS rebinding); the Host header tells.
        """
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._hosts is not None and _name_of(host) not in self._hosts:
            raise malformed(
                f"this server does not answer for the host {host[:60]!r}, only for {', '.join(self._hosts)}. Use "
                "one of these, or start it with --allow-host."
            )
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.decode("latin-1")) != host:
            raise Refusal(403, "this server does not answer the pages of other sites. Ask it from a program.")

    def require_token(self, method: str, headers: Headers) -> None:
        """Refuse a request without the token; a session that was signed in may look, and do nothing."""
        if self._token is None or self._shows_token(headers) or (method in _SAFE and self._has_session(headers)):
            return
        raise Refusal(
            401,
            "this server needs a token. Send it in a header: Authorization: Bearer TOKEN",
            UNTRUSTED,
        )

    def _shows_token(self, headers: Headers) -> bool:
        kind, _, shown = headers.get(b"authorization", b"").partition(b" ")
        return kind.lower() == b"bearer" and self._is_token(shown.strip())

    def _is_token(self, shown: bytes) -> bool:
        """Return whether a token is the right one, in a time that tells nothing about it."""
        return self._token is not None and hmac.compare_digest(_digest(shown), self._token)

    # Sessions

    def session_for(self, form: bytes) -> str | None:
        """Return the cookie for who signed in with a form; None if the token in it is not the right one."""
        try:
            fields = parse_qs(form.decode("ascii"), max_num_fields=4, strict_parsing=True)
        except (UnicodeDecodeError, ValueError):
            raise malformed("the form must have one field, token.") from None
        if not self._is_token(fields.get("token", [""])[0].strip().encode(errors="replace")):
            return None
        ends = str(int(time.time()) + SESSION_SECONDS)
        value = f"{ends}.{self._signed(ends)}"
        return f"{COOKIE}={value}; Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"

    def _has_session(self, headers: Headers) -> bool:
        given = headers.get(b"cookie")
        if self._key is None or given is None:
            return False
        try:
            cookie = SimpleCookie(given.decode("latin-1")).get(COOKIE)
        except CookieError:
            return False
        ends, _, signed = ("" if cookie is None else cookie.value).partition(".")
        own = hmac.compare_digest(self._signed(ends).encode(), signed.encode(errors="replace"))
        return own and ends.isascii() and ends.isdigit() and int(ends[:12]) > time.time()

    def _signed(self, text: str) -> str:
        return hmac.digest(self._key or b"", text.encode(errors="replace"), "sha256").hex()


def _digest(token: bytes) -> bytes:
    """Return what tokens are compared by: of one length, so that a comparison does not tell theirs."""
    return hashlib.sha256(token).digest()


def _name_of(host: str) -> str:
    """Return a host without its port.

    >>> _name_of("localhost:8000"), _name_of("[::1]:80"), _name_of("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin.lower()).netloc
    except ValueError:
        return ""
