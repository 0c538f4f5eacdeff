"""The description of the endpoints in OpenAPI 3.1, from the table of routes and the columns of the ensemble."""

from __future__ import annotations

from typing import Any

import optensemble
from optensemble.serving.calls import LiveCalls
from optensemble.serving.routes import OPERATIONS, REFUSALS, Operation
from optensemble.serving.schemas import schemas
from optensemble.serving.settings import Settings


def describe(calls: LiveCalls, *, settings: Settings) -> dict[str, Any]:
    """Return the description."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, settings)
    components: dict[str, Any] = {"schemas": schemas(calls)}
    if settings.token is not None:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "optensemble", "version": optensemble.__version__},
        "paths": paths,
        "components": components,
        **({"security": [{"token": []}]} if settings.token is not None else {}),
    }


def _operation(operation: Operation, settings: Settings) -> dict[str, Any]:
    refusals = {**REFUSALS, **operation.refusals}
    if settings.token is not None and (not operation.is_open or operation.path in ("/", "/session")):
        refusals[401] = "The token is missing, or is not the right one."
    found: dict[str, Any] = {
        "operationId": operation.handler.__name__,
        "summary": operation.summary,
        "responses": {
            str(operation.status): {"description": "Done.", "content": _contents(operation.answers)},
            **{str(status): _refusal(status, refusals[status], operation) for status in sorted(refusals)},
        },
    }
    if operation.bodies:
        found["requestBody"] = {"required": True, "content": _contents(operation.bodies)}
    if operation.is_open:
        found["security"] = []
    return found


def _contents(kinds: Any) -> dict[str, Any]:
    return {kind: {"schema": _reference(name)} if name else {} for kind, name in kinds.items()}


def _refusal(status: int, meaning: str, operation: Operation) -> dict[str, Any]:
    contents: dict[str, Any] = {"application/json": {"schema": _reference("Error")}}
    if status == 401 and operation.path in ("/", "/session"):
        contents = {"text/html": {}}
    found: dict[str, Any] = {"description": meaning, "content": contents}
    headers = {401: "WWW-Authenticate", 503: "Retry-After"}
    if status in headers:
        found["headers"] = {headers[status]: {"schema": {"type": "string"}}}
    return found


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
