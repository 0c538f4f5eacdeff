"""Requests to decide and to observe, as they are written in JSON or as an Arrow stream.

An id is text, or a whole number, which is the same as its text: 7, 7.0 and "7" are one id, and in answers it is "7".
Rows may come without ids if they have none in a column either: each is then given a random one, for numbers might be
ids that others give. An answer that is lost cannot be asked for again without one.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from optensemble._core.suggestions import did_you_mean, listed
from optensemble.serving.accept import JSON
from optensemble.serving.arrow_stream import read_stream
from optensemble.serving.refusals import Refusal, unusable
from optensemble.serving.settings import Limits
from optensemble.serving.strict_json import parse
from optensemble.tables.in_memory import MemoryTables
from optensemble.tables.labels import value_text

ID = "id"
"""The column of ids in an Arrow stream, where the ensemble knows none by another name."""

WEIGHTS, GROUPS = "weights", "groups"

Records = list[dict[str, Any]]

_EXACT = 2.0**53  # larger whole numbers are rounded in JSON by many programs
_RANDOM_BYTES = 16


@dataclass(frozen=True)
class WireTerms:
    """What requests may hold: limits, and the column of the table that has ids, if there is one."""

    limits: Limits
    id_column: str | None = None


@dataclass(frozen=True, eq=False)
class RowRequest:
    """Rows with ids: to be decided, or with labels.

    ``rows`` are records of JSON or a table; ``columns`` are the names that all records have, None where they differ.
    ``weights`` and ``groups`` are of rows with labels.
    """

    rows: Records | MemoryTables
    ids: list[str]
    columns: Hashable = None
    weights: list[float] | None = None
    groups: list[str] | None = None

    @property
    def tables(self) -> MemoryTables:
        """The rows as a table."""
        return self.rows if isinstance(self.rows, MemoryTables) else MemoryTables.of_records(self.rows)

    @property
    def records(self) -> Records:
        """The rows as records; only those that have a key can be had so."""
        assert not isinstance(self.rows, MemoryTables)
        return self.rows

    @property
    def key(self) -> Hashable:
        """What requests have in common that may be made one; None for one that stays by itself."""
        return None if self.columns is None else (self.columns, self.weights is None, self.groups is None)


def join(requests: Sequence[RowRequest]) -> RowRequest:
    """Return requests of one key as one."""
    first = requests[0]
    if len(requests) == 1:
        return first
    return RowRequest(
        [record for each in requests for record in each.records],
        [id_ for each in requests for id_ in each.ids],
        first.columns,
        None if first.weights is None else [one for each in requests for one in each.weights or ()],
        None if first.groups is None else [one for each in requests for one in each.groups or ()],
    )


def read_decide(body: bytes, kind: str, terms: WireTerms) -> RowRequest:
    """Return the rows of a request to decide."""
    if kind != JSON:
        return _of_stream(body, terms, needs_ids=False)
    given = _fields(body, ("rows",), ("ids",))
    rows, name = _records(given["rows"], "rows", terms), terms.id_column
    if "ids" in given:
        if name is not None and any(name in row for row in rows):
            raise unusable(f"there are ids, and rows have a column {name!r} of ids as well. Give one of these.")
        ids = read_ids(given["ids"], len(rows), "rows", terms.limits)
    elif name is not None:
        ids = read_ids([row.get(name) for row in rows], len(rows), "rows", terms.limits, f"column {name!r}")
    else:
        ids = random_ids(len(rows))
    return RowRequest(rows, ids, _common_columns(rows))


def read_observe(body: bytes, kind: str, terms: WireTerms) -> RowRequest:
    """Return the labels of a request to observe."""
    if kind != JSON:
        return _of_stream(body, terms, needs_ids=True)
    given = _fields(body, ("ids", "labels"), (WEIGHTS, GROUPS))
    rows = _records(given["labels"], "labels", terms)
    return RowRequest(
        rows,
        read_ids(given["ids"], len(rows), "labels", terms.limits),
        _common_columns(rows),
        _weights(given[WEIGHTS], len(rows)) if WEIGHTS in given else None,
        _groups(given[GROUPS], len(rows)) if GROUPS in given else None,
    )


def too_many_rows(limits: Limits) -> Refusal:
    """Return the refusal of too many rows."""
    return Refusal(413, f"a request may have at most {limits.most_rows:,} rows. Send fewer at a time.")


# JSON


def _fields(body: bytes, needed: Sequence[str], further: Sequence[str]) -> dict[str, Any]:
    given, known = parse(body), [*needed, *further]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f" It has {listed(known)}."
            raise unusable(f"a request has no field {name[:60]!r}.{hint}")
    for name in needed:
        if name not in given:
            raise unusable(f"the request lacks the field {name!r}. Add it.")
    return given


def _records(given: Any, what: str, terms: WireTerms) -> Records:
    if not isinstance(given, list) or not given:
        raise unusable(f"{what} must be a list of objects, one for each row; got {_shown(given)}.")
    if len(given) > terms.limits.most_rows:
        raise too_many_rows(terms.limits)
    for number, row in enumerate(given):
        if type(row) is not dict or not row:
            raise unusable(
                f"{what}[{number}] must be an object with a value for each column; got {_shown(row)}. Write "
                '{"column": value, …}.'
            )
    return given


def _common_columns(rows: Records) -> Hashable:
    first = rows[0].keys()
    return frozenset(first) if len(rows) == 1 or all(row.keys() == first for row in rows) else None


def read_ids(given: Any, n: int, what: str, limits: Limits, name: str = "ids") -> list[str]:
    """Return ids as text; refuse what is no id, and other than one for each of ``n`` rows."""
    if not isinstance(given, list) or len(given) != n:
        got = f"{len(given)} ids" if isinstance(given, list) else _shown(given)
        raise unusable(f"{name} must hold one id for each of the {n} {what}; got {got}.")
    return [_id_text(value, number, name, limits) for number, value in enumerate(given)]


def _id_text(value: Any, number: int, name: str, limits: Limits) -> str:
    kind = type(value)
    whole = (kind is int or (kind is float and value.is_integer())) and -_EXACT <= value <= _EXACT
    if whole or kind is str or isinstance(value, date):
        text = value_text(value)
        if 0 < len(text) <= limits.longest_id and text.isprintable():
            return text
    raise unusable(
        f"{name}[{number}] must be text of 1 to {limits.longest_id} characters that can be printed, or a whole number "
        f"of at most 2^53; got {_shown(value)}. Give another id."
    )


def random_ids(n: int) -> list[str]:
    """Return ids that nobody else gives."""
    digits = os.urandom(_RANDOM_BYTES * n).hex()
    size = 2 * _RANDOM_BYTES
    return [digits[start : start + size] for start in range(0, size * n, size)]


def _weights(given: Any, n: int) -> list[float]:
    if not isinstance(given, list) or len(given) != n or any(type(each) not in (int, float) for each in given):
        raise unusable(f"weights must hold a number for each of the {n} labels; got {_shown(given)}.")
    return [float(each) for each in given]


def _groups(given: Any, n: int) -> list[str]:
    if not isinstance(given, list) or len(given) != n or any(type(each) not in (int, float, str) for each in given):
        raise unusable(f"groups must hold text or a number for each of the {n} labels; got {_shown(given)}.")
    return [value_text(each) for each in given]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return "an object"
    return "null" if value is None else repr(value)[:60]


# Arrow


def _of_stream(body: bytes, terms: WireTerms, *, needs_ids: bool) -> RowRequest:
    tables, name = read_stream(body, terms.limits), terms.id_column or ID
    if not tables.rows:
        raise unusable("the table has no rows. Send a table with rows.")
    if tables.rows > terms.limits.most_rows:
        raise too_many_rows(terms.limits)
    if name not in tables.columns:
        if needs_ids or terms.id_column is not None:
            raise unusable(f"the table has no column {name!r} of ids. Add one.")
        return RowRequest(tables, random_ids(tables.rows))
    return RowRequest(tables, read_ids(_values(tables, name), tables.rows, "rows", terms.limits, f"column {name!r}"))


def _values(tables: MemoryTables, name: str) -> list[Any]:
    return tables.values(name)
