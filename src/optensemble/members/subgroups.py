"""Subgroups to be consistent on: where they are found in X, which values they have, and how their parts are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from optensemble.exceptions import InputError
from optensemble.members.validation import group_columns, row_count

Values = tuple[frozenset[Any], ...]
"""The different values of every column."""

PartTitles = tuple[tuple[str, ...], ...]
"""The names of the parts of every column."""


@dataclass(frozen=True)
class Grouping:
    """A user's groups: each column of the group labels splits the rows by its values.

    Values that were not there when the groups were learned share one more, last, part.
    """

    values: tuple[tuple[Any, ...], ...]

    def learn(self, labels: Sequence[Sequence[Any]]) -> Grouping:
        """Return a grouping that also knows the values in ``labels``; the known ones keep their numbers."""
        known = self.values or ((),) * len(labels)
        return Grouping(
            tuple(
                (*old, *sorted(set(column).difference(old), key=lambda value: (str(type(value)), value)))
                for old, column in zip(known, labels, strict=True)
            )
        )

    def __call__(self, labels: Sequence[Sequence[Any]]) -> npt.NDArray[np.int32]:
        """Return the part of every row in every column, of shape (columns, n)."""
        parts = []
        for known, column in zip(self.values, labels, strict=True):
            number = {value: i for i, value in enumerate(known)}
            parts.append([number.get(value, len(known)) for value in column])
        return np.array(parts, dtype=np.int32)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many parts each column has."""
        return tuple(len(known) + 1 for known in self.values)


NO_GROUPING = Grouping(())


@dataclass(frozen=True)
class Subgroups:
    """A column of X, a list of columns, or a callable of X, and the values that were there when it was learned.

    Values that were not there share one more, last, part.

    >>> regions = Subgroups.learn(0, [np.array([["north"], ["south"], ["south"]])])
    >>> regions(np.array([["south"], ["east"]])).tolist()
    [[1, 2]]
    >>> regions.titles
    (('column 0=north', 'column 0=south', 'column 0 unseen'),)
    """

    rule: Any
    grouping: Grouping

    @classmethod
    def learn(cls, rule: Any, batches: list[Any], known: Grouping = NO_GROUPING) -> Self | None:
        """Learn the values in the rows of all batches, where ``known`` ones keep their numbers; None without a rule."""
        if rule is None:
            return None
        _require_rule(rule)
        found = [subgroup_values(rule, X) for X in batches]
        for values in found:
            _require_columns(len(values), len(found[0]))
        return cls.of_values(rule, tuple(frozenset().union(*column) for column in zip(*found, strict=True)), known)

    @classmethod
    def of_values(cls, rule: Any, values: Values, known: Grouping = NO_GROUPING) -> Self | None:
        """Return the subgroups of these values, where ``known`` ones keep their numbers; None without columns."""
        return cls(rule, known.learn([list(column) for column in values])) if values else None

    def __call__(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the part of every row in every column, of shape (columns, n)."""
        labels = _subgroup_labels(self.rule, X)
        _require_columns(len(labels), len(self.grouping.values))
        return self.grouping(labels)

    @cached_property
    def titles(self) -> PartTitles:
        """Return the names of the parts of every column."""
        return part_titles(self.rule, self.grouping)


def part_titles(rule: Any, grouping: Grouping) -> PartTitles:
    """Name the parts of groups by the columns that they are found in.

    >>> part_titles("region", Grouping((("north", "south"),)))
    (('region=north', 'region=south', 'region unseen'),)
    """
    return tuple(
        (*(f"{name}={value}" for value in known), f"{name} unseen")
        for name, known in zip(_column_titles(rule, len(grouping.values)), grouping.values, strict=True)
    )


def _column_titles(rule: Any, count: int) -> list[str]:
    if callable(rule):
        return ["group"] if count == 1 else [f"group {number}" for number in range(count)]
    return [name if isinstance(name, str) else f"column {name}" for name in _rule_columns(rule)]


def _rule_columns(rule: Any) -> list[Any]:
    return list(rule) if isinstance(rule, (list, tuple)) else [rule]


def _require_rule(rule: Any) -> None:
    if not callable(rule) and not all(isinstance(name, (str, Integral)) for name in _rule_columns(rule)):
        raise InputError(
            f"subgroups must be a column of X, a list of columns, or a callable of X; got {type(rule).__name__}. "
            "Put the labels of the rows into a column of X: they are needed of further rows too."
        )


def _require_columns(count: int, known: int) -> None:
    if count != known:
        raise InputError(
            f"subgroups(X) returned {count} label(s) of every row, but {known} of the first rows fitted on. "
            "Let it return as many of any rows."
        )


def subgroup_values(rule: Any, X: Any) -> Values:
    """Return the different values of every column of subgroups among the rows of X."""
    _require_rule(rule)
    return tuple(frozenset(column) for column in _subgroup_labels(rule, X))


def _subgroup_labels(rule: Any, X: Any) -> list[list[Any]]:
    try:
        return group_columns(X, rule, row_count(X))
    except Exception as error:
        error.add_note("This came from the subgroups of the ensemble.")
        raise
