"""Cells in words for readers: which rows a cell holds, with the names of coordinates."""

from __future__ import annotations

from collections.abc import Sequence

from optensemble._core.buckets import Interval
from optensemble.multicalibration.cell_names import CellName, CellPart, Leader, LevelSet


def cell_text(name: CellName, coordinates: Sequence[str] | None = None) -> str:
    """Return which rows a cell holds.

    >>> level = LevelSet(1, Interval("0.2", "0.3", closed=False), own=True)
    >>> cell_text(CellName((level,)), ["north", "south"])
    'own action on south is 0.2 to below 0.3'
    >>> planner = LevelSet(0, Interval("0.9", "1", closed=True), member="planner")
    >>> cell_text(CellName((planner,)))
    'action of planner on coordinate 0 is 0.9 to 1'
    """
    return ", and ".join(_part_text(part, coordinates or ()) for part in name.parts)


def _part_text(part: CellPart, coordinates: Sequence[str]) -> str:
    if isinstance(part, Leader):
        return f"{part.name} {'promises most' if part.promises else 'is followed'}"
    if not isinstance(part, LevelSet):
        return part.text()
    where = coordinates[part.coordinate] if coordinates else f"coordinate {part.coordinate}"
    whose = "own action" if part.own else "its action" if part.member is None else f"action of {part.member}"
    return f"{whose} on {where} is {_range_text(part.interval)}"


def _range_text(interval: Interval) -> str:
    return f"{interval.low} to {'' if interval.closed else 'below '}{interval.high}".replace("-", "−")
