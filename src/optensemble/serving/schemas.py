"""JSON schemas of requests and answers, with the names of this ensemble's columns, labels and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optensemble.serving.calls import LiveCalls
from optensemble.serving.requests import GROUPS, WEIGHTS

Schema = dict[str, Any]

_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_LIMIT: Schema = {"type": ["number", "null"], "description": "null if it is infinite"}
_PERHAPS: Schema = {"type": ["number", "null"]}
_CELL: Schema = {"type": ["number", "string", "boolean", "null"]}


def schemas(calls: LiveCalls) -> dict[str, Schema]:
    """Return all schemas by their names."""
    return {**_requests(calls), **_decisions(calls), **_findings(calls), "Error": _object({"error": _TEXT})}


def _object(properties: Mapping[str, Schema], optional: Sequence[str] = (), **others: Any) -> Schema:
    """Return the schema of an object; all is required that is not optional."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, **others}


def _list(items: Schema, **others: Any) -> Schema:
    return {"type": "array", "items": items, **others}


def _closed(properties: Mapping[str, Schema], optional: Sequence[str] = ()) -> Schema:
    return _object(properties, optional, additionalProperties=False)


def _requests(calls: LiveCalls) -> dict[str, Schema]:
    limits, name = calls.terms.limits, calls.terms.id_column
    rows = {"minItems": 1, "maxItems": limits.most_rows}
    id_ = {
        "type": ["string", "integer"],
        "minLength": 1,
        "maxLength": limits.longest_id,
        "pattern": "^[!-~]+$",
        "minimum": -(2**53),
        "maximum": 2**53,
        "description": '7 and "7" are the same id',
    }
    needed = {column: _column(calls, column) for column in calls.columns.needed}
    optional = [column for column in needed if column in calls.optional]
    if name is not None:
        needed, optional = {**needed, name: id_}, [*optional, name]
    row = _object(needed, optional, additionalProperties=_CELL, minProperties=1)
    label = _object(dict.fromkeys(calls.labels, _PERHAPS), additionalProperties=_CELL)
    terms = {WEIGHTS: _list(_NUMBER), GROUPS: _list({"type": ["string", "number"]})}
    return {
        "DecideRequest": _closed({"rows": _list(row, **rows), "ids": _list(id_, **rows)}, ["ids"]),
        "ObserveRequest": _closed(
            {"ids": _list(id_, **rows), "labels": _list(label, **rows), **terms}, [WEIGHTS, GROUPS]
        ),
        "SignIn": _closed({"token": _TEXT}),
    }


def _column(calls: LiveCalls, name: str) -> Schema:
    if name in calls.optional:
        return {"type": ["number", "null"]}
    return _NUMBER if name in calls.numbers else {"type": ["number", "string", "boolean"]}


def _decisions(calls: LiveCalls) -> dict[str, Schema]:
    policies = list(calls.live.policies_)
    decision = {
        "id": _TEXT,
        "action": _closed(dict.fromkeys(calls.labels, _NUMBER)),
        "promised": _NUMBER,
        "low": _LIMIT,
        "high": _LIMIT,
        "followed": {"enum": policies},
        "weights": _closed(dict.fromkeys(policies, _NUMBER)),
    }
    refit = _closed({"due": _TEXT, "running": _FLAG})
    counts = dict.fromkeys(("learned", "known", "unlabelled", "open"), _COUNT)
    return {
        "Decision": _closed(decision),
        "Decisions": _closed({"decisions": _list({"$ref": "#/components/schemas/Decision"})}),
        "Observed": _closed({**counts, "refit": refit}),
    }


def _findings(calls: LiveCalls) -> dict[str, Schema]:
    policies = list(calls.live.policies_)
    refit = {"due": _TEXT, "running": _FLAG, "made": _COUNT, "failed": _COUNT, "last": {"type": ["string", "null"]}}
    counts = dict.fromkeys(("decided", "labels", "open", "expired"), _COUNT)
    status = {
        "version": _TEXT,
        "sense": {"enum": ["max", "min"]},
        **counts,
        "policies": _closed(dict.fromkeys(policies, _NUMBER)),
        "correction": _NUMBER,
        "refit": _closed(refit),
        "finding": _TEXT,
        "alarms": _list(_TEXT),
        "log": {"type": ["object", "null"]},
    }
    of_policy = {"policy": {"enum": policies}, **dict.fromkeys(("weight", "lost", "bound"), _NUMBER)}
    of_policy |= dict.fromkeys(("lost_per_row", "bound_per_row"), _PERHAPS)
    whole = {**dict.fromkeys(("rows", "open", "expired"), _COUNT), "counted": _NUMBER}
    parts = dict.fromkeys(("promise_error", "regret", "drift", "played"), _PERHAPS)
    return {
        "Status": _closed(status),
        "Certificate": _closed({"finding": _TEXT, "policies": _list(_closed(of_policy)), **whole, **parts}),
        "Monitor": _closed(
            {"finding": _TEXT, "watches": {"type": ["object", "null"]}, "alarms": _list({"type": "object"})}
        ),
        "Health": _closed({"status": _TEXT}),
    }
