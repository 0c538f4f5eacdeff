"""Names of cells, made of the parts they are products of; frames and sentences are made from them at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optensemble._core.buckets import Buckets, Interval

Coordinates = Sequence[str]
"""The names of the coordinates of an action; empty where they have none."""


def named(coordinates: Coordinates) -> Coordinates:
    """Return names of coordinates; nothing if they are only their numbers.

    >>> named(["bread", "milk"]), named(["0", "1"])
    (['bread', 'milk'], ())
    """
    return () if list(coordinates) == [str(j) for j in range(len(coordinates))] else coordinates


@dataclass(frozen=True)
class LevelSet:
    """Rows on which one coordinate of an action lies in one bucket (Definition 2).

    The action is that of ``member``, or else the one taken; ``own`` sets the forecast's own policy apart from members.
    """

    coordinate: int
    interval: Interval
    member: str | None = None
    own: bool = False

    def text(self, coordinates: Coordinates = ()) -> str:
        """Return the name in words."""
        name = coordinates[self.coordinate] if coordinates else f"action[{self.coordinate}]"
        whose = "" if self.member is None else f" of {self.member}"
        return f"{'own ' if self.own else ''}{name}{whose} {self.interval}"


@dataclass(frozen=True)
class Leader:
    """Rows on which one policy is followed, or (``promises``) one model has the highest self-assessment."""

    name: str
    promises: bool = False

    def text(self, coordinates: Coordinates = ()) -> str:
        """Return the name in words."""
        return f"{self.name} {'promises most' if self.promises else 'followed'}"


@dataclass(frozen=True)
class Subgroup:
    """Rows of one value of a column of the user's subgroups."""

    title: str

    def text(self, coordinates: Coordinates = ()) -> str:
        """Return the name in words."""
        return self.title


CellPart = LevelSet | Leader | Subgroup


@dataclass(frozen=True)
class CellName:
    """A cell as the product of its parts: rows that are in all of them.

    >>> name = CellName((Leader("ours"), LevelSet(0, Interval("0.5", "1", closed=True))))
    >>> str(name), name.text(["bread"])
    ('ours followed, action[0] in [0.5, 1]', 'ours followed, bread in [0.5, 1]')
    """

    parts: tuple[CellPart, ...]

    def text(self, coordinates: Coordinates = ()) -> str:
        """Return the name in words, with the names of coordinates in it."""
        return ", ".join(part.text(coordinates) for part in self.parts)

    def __str__(self) -> str:
        return self.text()


def level_sets(buckets: Buckets, member: str | None = None, *, own: bool = False) -> list[list[LevelSet]]:
    """Return the level sets of an action, a list for each coordinate."""
    return [
        [LevelSet(j, interval, member, own) for interval in buckets.intervals(j)] for j in range(len(buckets.lower))
    ]


def subgroup_parts(titles: Sequence[Sequence[str]]) -> list[list[Subgroup]]:
    """Return the parts of the user's subgroups, a list for each column."""
    return [[Subgroup(title) for title in column] for column in titles]
