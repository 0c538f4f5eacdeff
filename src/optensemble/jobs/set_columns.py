"""Columns that parameters of a set come from: as a job file names them, resolved in its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optensemble._core.columns import Columns
from optensemble._core.deferred import pd
from optensemble._core.suggestions import did_you_mean, listed
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.jobs.roles import require_no_label
from optensemble.tables.labels import value_text
from optensemble.tables.patterns import align, is_pattern, split, stars
from optensemble.tables.reading import require_columns

_ONE, _SEVERAL = "column", "columns"
_FORMS = 'column = "budget", columns = "free_*" or columns = ["monday", "tuesday"]'


@dataclass(frozen=True)
class SetTable:
    """A table that a set takes parameters from: its columns, which of them are labels, and the coordinates' names."""

    columns: Sequence[str]
    name: str
    labels: Sequence[str]
    coordinates: Sequence[str]

    def beginning(self, first: int) -> SetTable:
        """Return the same for a block of a product: the coordinates from number ``first`` on."""
        return replace(self, coordinates=self.coordinates[first:])


# As the job file has them


def with_columns(value: Any, where: str) -> Any:
    """Return an argument with ``Columns`` in place of ``{ column = … }`` and ``{ columns = … }``.

    >>> with_columns([{"column": "room"}, 0.6], "job.toml: [feasible] b_ub")
    [Columns(['room']), 0.6]
    """
    if isinstance(value, list):
        return [with_columns(each, where) for each in value]
    if not isinstance(value, dict):
        return value
    if not names_columns(value) or len(value) > 1:
        raise InputError(f"{where} must be a number, or a table with one key: {_FORMS}; got {value!r}.")
    return _as_columns(value, where)


def names_columns(value: dict[str, Any]) -> bool:
    """Return whether a table of the job file names columns."""
    return _ONE in value or _SEVERAL in value


def _as_columns(value: dict[str, Any], where: str) -> Columns:
    [(key, given)] = value.items()
    if key == _ONE:
        if not isinstance(given, str) or not given or is_pattern(given):
            raise InputError(f"{where}: column must be the name of one column; got {given!r}. Use columns for several.")
        return Columns(given)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{where}: columns must be a pattern or a list of columns; got {given!r}. Write {_FORMS}.")
    if isinstance(given, list) and any(map(is_pattern, names)):
        raise InputError(f"{where}: columns must be one pattern, or a list of names; got {given!r}. List the columns.")
    try:
        return Columns(names)
    except InputError as error:
        raise InputError(f"{where}: columns: {error}") from error


# In the table


def has_patterns(value: Any) -> bool:
    """Return whether an argument names columns by a pattern."""
    if isinstance(value, Columns):
        return value.width is None
    if isinstance(value, (list, tuple)):
        return any(map(has_patterns, value))
    return isinstance(value, dict) and any(map(has_patterns, value.values()))


def resolved(value: Any, draft: FeasibleSet, table: SetTable, where: str) -> Any:
    """Return an argument with the columns that its patterns stand for.

    A parameter with one number for each coordinate is matched with the labels by the star; of any other all columns are
    taken, numbers sorted. The ``draft`` is the set with the patterns as they are: it knows the parameters' sizes.
    """
    if isinstance(value, Columns) and value.width is None:
        return _resolved_pattern(value, draft, table, where)
    if isinstance(value, (list, tuple)):
        return type(value)(resolved(each, draft, table, where) for each in value)
    if isinstance(value, dict):
        return {name: resolved(each, draft, table, f"{where}.{name}") for name, each in value.items()}
    return value


def _resolved_pattern(given: Columns, draft: FeasibleSet, table: SetTable, where: str) -> Columns:
    [pattern] = given.names
    place = f"{where}, in {table.name}"
    by_coordinate = any(
        parameter.sources == (given,) and parameter.size == draft.dimension > 1 for parameter in draft.parameters
    )
    if by_coordinate:
        return Columns(align(str(pattern), table.coordinates[: draft.dimension], table.columns, place))
    before, after = split(str(pattern), place)
    return Columns([before + star + after for star in stars(str(pattern), table.columns, place)])


def require_set_columns(omega: FeasibleSet, table: SetTable, where: str) -> None:
    """Raise ``InputError`` on columns that the table lacks, or that are labels: these are unknown at decision time."""
    for parameter in omega.parameters:
        names, place = [str(name) for name in parameter.columns or ()], f"{where} {parameter.name}"
        require_columns(names, table.columns, f"{place}: {table.name}")
        require_no_label(names, table.labels, place)


def require_parameters(omega: FeasibleSet, columns: Sequence[str], table: str) -> None:
    """Raise ``InputError`` on a column that a fitted set takes a parameter from, and that a table lacks."""
    for parameter in omega.parameters:
        for name in map(str, parameter.columns or ()):
            if not is_pattern(name) and name not in columns:
                hint = did_you_mean(name, columns) or " Add it."
                raise InputError(
                    f"{table} has no column {name!r}, which {parameter.name} of the feasible set comes from.{hint}"
                )


# What to read of it


@dataclass(frozen=True)
class ReadColumns:
    """Columns of a set: those of numbers, and those of labels, such as nodes and keys, and the labels by their text."""

    numbers: tuple[str, ...] = ()
    labels: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of labels."""
        return tuple(name for name, _ in self.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.numbers, *self.texts)

    @classmethod
    def of(cls, omega: FeasibleSet, columns: Sequence[str], table: str) -> ReadColumns:
        """Return the columns of a set in a table with these columns, which tell what its patterns stand for."""
        numbers, labels = dict[str, None](), dict[str, dict[str, Any]]()
        for parameter in omega.parameters:
            names = expanded(parameter.columns or (), columns, table)
            if parameter.codes is None:
                numbers |= dict.fromkeys(names)
            else:
                known = {value_text(label): label for label in parameter.codes}
                labels |= {name: labels.get(name, {}) | known for name in names}
        return cls(tuple(name for name in numbers if name not in labels), tuple(labels.items()))


NO_COLUMNS = ReadColumns()
"""The columns of one set for all rows."""


def expanded(names: Sequence[str | int], columns: Sequence[str], table: str) -> list[str]:
    """Return the columns of a table that names and patterns stand for."""
    found = list[str]()
    for name in map(str, names):
        if name in columns or not is_pattern(name):
            found.append(name)
        else:
            before, _, after = name.partition("*")
            found += [before + star + after for star in stars(name, columns, table)]
    return found


# In words


@dataclass(frozen=True)
class ParameterSummary:
    """A parameter of the set that comes from the row: its columns, and what they hold.

    Of numbers that is the least and the largest, of labels how many different ones; the others are None.
    """

    parameter: str
    columns: list[str]
    least: float | None = None
    largest: float | None = None
    distinct: int | None = None

    def __str__(self) -> str:
        several = "s" if len(self.columns) > 1 else ""
        found = (
            f"{self.distinct:,} different value{'s' if self.distinct != 1 else ''}"
            if self.distinct is not None
            else f"between {_four_digits(self.least)} and {_four_digits(self.largest)}"
        )
        return f"{self.parameter} by row: column{several} {listed(self.columns, 3)}, {found}"


def summarise_parameters(omega: FeasibleSet, rows: pd.DataFrame) -> list[ParameterSummary]:
    """Return a summary of every parameter of a set that comes from columns."""
    found = list[ParameterSummary]()
    for parameter in omega.parameters:
        columns = expanded(parameter.columns or (), list(rows.columns), "the table")
        if parameter.codes is not None:
            distinct = len(np.unique(rows[columns].astype(str).to_numpy()))
            found.append(ParameterSummary(parameter.name, columns, distinct=distinct))
        elif columns:
            numbers = rows[columns].to_numpy(dtype=np.float64)
            numbers = numbers[np.isfinite(numbers)]
            ends = (float(numbers.min()), float(numbers.max())) if numbers.size else (None, None)
            found.append(ParameterSummary(parameter.name, columns, *ends))
    return found


def _four_digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}".replace("-", "−")
