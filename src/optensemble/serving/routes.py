"""The table of routes: what is asked how, by whom it is answered and with what. Requests and OpenAPI follow from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from optensemble.serving.accept import HTML, JSON
from optensemble.serving.arrow_stream import MEDIA_TYPE as ARROW
from optensemble.serving.endpoints import EVENTS, FORM, Endpoints
from optensemble.serving.exchange import Answer, Exchange
from optensemble.serving.metrics import MEDIA_TYPE as PROMETHEUS

Handler = Callable[[Endpoints, Exchange], Awaitable[Answer | None]]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")

BODY_REFUSALS = {
    400: "The body cannot be read.",
    408: "The body did not arrive in time.",
    409: "It contradicts an earlier request.",
    413: "The body is too long, or has too many rows.",
    415: "The Content-Type is not known.",
    422: "The values cannot be used.",
}
REFUSALS = {
    400: "The host is not one of this server's.",
    403: "A page of another site asks.",
    406: "No type is accepted.",
}
BUSY = {503: "The server is starting, stopping or busy, or its log cannot be written."}


@dataclass(frozen=True)
class Operation:
    """A method of a path.

    Attributes
    ----------
    method, path
        How it is asked.
    handler
        What is done.
    summary
        The same in words.
    bodies, answers
        The schemas of the request's body and of the answer, by their media types; empty for text.
    refusals
        The statuses of other answers, with what they mean.
    status
        Of the answer.
    is_open
        Whether everybody may ask.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[str, str]
    refusals: Mapping[int, str] = field(default_factory=lambda: BUSY)
    bodies: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    is_open: bool = False


OPERATIONS = (
    Operation(
        "POST",
        "/decide",
        Endpoints.decide,
        "Decide rows. The same row may be asked for again by its id: the answer is the decision that was made.",
        {JSON: "Decisions", ARROW: ""},
        BODY_REFUSALS | BUSY,
        {JSON: "DecideRequest", ARROW: ""},
    ),
    Operation(
        "POST",
        "/observe",
        Endpoints.observe,
        "Learn from the labels of rows that were decided. The same labels may be given again.",
        {JSON: "Observed"},
        BODY_REFUSALS | BUSY,
        {JSON: "ObserveRequest", ARROW: ""},
    ),
    Operation("GET", "/status", Endpoints.status, "Where the ensemble stands.", {JSON: "Status"}),
    Operation("GET", "/certificate", Endpoints.certificate, "The regret, and its bound.", {JSON: "Certificate"}),
    Operation("GET", "/monitor", Endpoints.monitor, "What the monitor has seen.", {JSON: "Monitor"}),
    Operation("GET", "/metrics", Endpoints.metrics, "Metrics for Prometheus.", {PROMETHEUS: ""}),
    Operation("GET", "/healthz", Endpoints.alive, "Whether the process lives.", {JSON: "Health"}, {}, is_open=True),
    Operation("GET", "/readyz", Endpoints.ready, "Whether rows would be decided.", {JSON: "Health"}),
    Operation("GET", "/openapi.json", Endpoints.openapi, "This description.", {JSON: ""}),
    Operation("GET", "/", Endpoints.page, "The live page.", {HTML: ""}, is_open=True),
    Operation("GET", "/events", Endpoints.events, "What changes on the live page, as it changes.", {EVENTS: ""}),
    Operation(
        "POST",
        "/session",
        Endpoints.sign_in,
        "Sign in with a form, for the live page in a browser.",
        {HTML: ""},
        {400: BODY_REFUSALS[400], 408: BODY_REFUSALS[408], 413: BODY_REFUSALS[413], 415: BODY_REFUSALS[415]},
        {FORM: "SignIn"},
        303,
        is_open=True,
    ),
)
"""All that may be asked."""

PATHS = frozenset(operation.path for operation in OPERATIONS)
OPEN_PATHS = frozenset(operation.path for operation in OPERATIONS if operation.is_open)
"""Paths that need no token: the process lives or not, and the page and the form see to it themselves."""


def by_path() -> dict[str, dict[str, Operation]]:
    """Return the operations of each path by their methods; what is told is told without a body as well."""
    found: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        methods = found.setdefault(operation.path, {})
        methods[operation.method] = operation
        if operation.method == "GET" and operation.path != "/events":
            methods["HEAD"] = operation
    return found
