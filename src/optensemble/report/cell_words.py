"""The names of cells in words, with the names of coordinates in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_BUCKET = r"in (?P<bucket>[\[(][^,]+, [^,]+[\])])"
_PATTERNS: list[tuple[str, Callable[[dict[str, str]], str]]] = [
    (rf"own action\[(?P<j>\d+)\] {_BUCKET}", lambda part: f"own action on {part['j']} is {part['bucket']}"),
    (
        rf"action\[(?P<j>\d+)\] of (?P<who>.*) {_BUCKET}",
        lambda part: f"action of {part['who']} on {part['j']} is {part['bucket']}",
    ),
    (
        rf"(?P<who>.*) followed, action\[(?P<j>\d+)\] {_BUCKET}",
        lambda part: f"{part['who']} is followed, and its action on {part['j']} is {part['bucket']}",
    ),
    (r"(?P<who>.*) followed", lambda part: f"{part['who']} is followed"),
]


def cell_words(name: str, coordinates: Sequence[str] | None = None) -> str:
    """Say which rows a cell holds.

    >>> cell_words("own action[1] in [0.2, 0.3)", ["north", "south"])
    'own action on south is 0.2 to below 0.3'
    >>> cell_words("action[0] of planner in [0.9, 1]")
    'action of planner on coordinate 0 is 0.9 to 1'
    """
    for pattern, say in _PATTERNS:
        found = re.fullmatch(pattern, name, flags=re.DOTALL)
        if found:
            return say(_named(found.groupdict(), coordinates))
    return name


def _named(part: dict[str, str], coordinates: Sequence[str] | None) -> dict[str, str]:
    if "j" not in part:
        return part
    known = dict(enumerate(coordinates or []))  # a member may be called what looks like another coordinate
    return part | {"j": known.get(int(part["j"]), f"coordinate {part['j']}"), "bucket": _range(part["bucket"])}


def _range(bucket: str) -> str:
    low, high = bucket[1:-1].split(", ")
    return f"{low} to {'below ' if bucket.endswith(')') else ''}{high}".replace("-", "−")
