"""JSON as it should be: one value for each name, and numbers that are numbers."""

from __future__ import annotations

import json
from typing import Any

import orjson

from optensemble.serving.refusals import Refusal, malformed


def parse(body: bytes) -> dict[str, Any]:
    """Return a JSON object; refuse what is none, and objects that have a name twice."""
    try:
        found = orjson.loads(body)  # refuses NaN, Infinity, half characters, and nesting deeper than 1,024
    except orjson.JSONDecodeError as error:
        raise malformed(f"the body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise Refusal(422, f"the body must be a JSON object, such as {{...}}; it is {_kind(found)}.")
    # every name is followed by a colon: as many colons as names leave none for names that were lost
    if body.count(b":") != _names(found):
        _require_distinct(body)
    return found


def _names(found: dict[str, Any]) -> int:
    """Return the number of names in an object, and in those in its lists; deeper ones are counted as none."""
    count = len(found)
    for value in found.values():
        if type(value) is list:
            count += sum(len(each) for each in value if type(each) is dict)
    return count


def _require_distinct(body: bytes) -> None:
    try:
        json.loads(body, object_pairs_hook=_distinct)
    except RecursionError:
        raise malformed("the body is nested too deeply. Send rows of plain values.") from None
    except ValueError:  # of integers with thousands of digits
        raise malformed("the body has a number that is too long.") from None


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise malformed(f"an object has the name {twice[:60]!r} twice. Give each name once.")


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
