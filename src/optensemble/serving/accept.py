"""Media types: what a request says that it is, and what it accepts."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble.serving.refusals import Refusal

JSON = "application/json"
HTML = "text/html"


def media_type(header: bytes | None) -> str:
    """Return the type that a Content-Type names, without its parameters.

    >>> media_type(b"Application/JSON; charset=utf-8"), media_type(None)
    ('application/json', '')
    """
    return "" if header is None else header.split(b";", 1)[0].strip().lower().decode("latin-1")


def require_media_type(header: bytes | None, known: Sequence[str]) -> str:
    """Return the type of a body; refuse one that is not known, or not named.

    A page of another site could send a body without a type, or as plain text, and would not be asked for leave first.
    """
    found = media_type(header)
    if found not in known:
        got = f"got {found[:60]!r}" if found else "there is none"
        raise Refusal(415, f"Content-Type must be {' or '.join(known)}; {got}.")
    return found


def chosen_type(header: bytes | None, offered: Sequence[str]) -> str:
    """Return the type to answer in, the first of those that are accepted most; refuse where none is.

    >>> chosen_type(b"text/*;q=0.5, application/json", ["text/html", "application/json"])
    'application/json'
    """
    if header is None or header == b"*/*":
        return offered[0]
    ranges = [_range(part) for part in header.decode("latin-1").lower().split(",") if part.strip()]
    if not ranges:
        return offered[0]
    shares = [_share(kind, ranges) for kind in offered]
    if max(shares) <= 0:
        raise Refusal(406, f"this answer is given as {' or '.join(offered)}. Accept one of these.")
    return offered[shares.index(max(shares))]


def _share(kind: str, ranges: list[tuple[str, float]]) -> float:
    """Return how much a type is accepted: as the most specific range says that it is in."""
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        for each, share in ranges:
            if each == name:
                return share
    return 0.0


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (each.strip() for each in part.split(";"))
    share = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    try:
        return name, float(share) if 0.0 <= float(share) <= 1.0 else 0.0
    except ValueError:
        return name, 0.0
