"""Members that are columns of X: all of them read at once, where there is nothing to be said of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.columns import NUMBERS, Columns
from optensemble._core.deferred import is_plain_frame, pd
from optensemble.exceptions import InputError
from optensemble.members.alignment import Labels, OutputNames
from optensemble.members.frames import is_numeric, text_names
from optensemble.members.number_table import NumberTable

ColumnMember = tuple[str, Columns]
"""What a member is called in errors, such as "model 'vendor'", and its columns."""


class _Places(NamedTuple):
    """Where the columns of members are in a table, one member after the other, and whose names others agree with."""

    columns: slice | Indices
    first: tuple[str, list[str]] | None


def read_together(
    members: Sequence[ColumnMember], X: Any, d: int, names: OutputNames, *, all_members: bool = True
) -> Floats | None:
    """Return the columns of members in the order of the labels, of shape (n, members, d); NaN where X has no value.

    None unless X is an array, a table of numbers or a pandas frame that has all of them as numbers, ``d`` for each
    member, in an order that the labels' names allow. Read one by one, members tell what is wrong. Unless these are
    ``all_members``, nor may their names be any that others' names must agree with, for others may come first.
    """
    places = _find_places(members, X, d, names.labels)
    if places is None or (places.first is not None and not (all_members and _agree(places.first, names))):
        return None
    numbers = _taken(X, places.columns)
    return None if numbers is None else numbers.reshape(len(numbers), len(members), d)


def _find_places(members: Sequence[ColumnMember], X: Any, d: int, labels: Labels) -> _Places | None:
    if type(X) is np.ndarray:
        return _numbered_places(X.shape[1], tuple(members), d) if X.ndim == 2 else None
    named = isinstance(X, NumberTable) or is_plain_frame(X)
    columns = text_names(X) if named else None
    if columns is None:
        return None
    return _named_places(columns, tuple(members), d, None if labels is None else tuple(labels))


def _agree(first: tuple[str, list[str]], names: OutputNames) -> bool:
    """Return whether names are those that members had before; if there were none, they are from now on."""
    if names.first is None:
        names.first = first
    return names.first == first


@lru_cache(maxsize=64)
def _numbered_places(width: int, members: tuple[ColumnMember, ...], d: int) -> _Places | None:
    """Return where columns are in arrays of some width; None if they are not numbered, or not all there."""
    found = [number for _, member in members for number in member.names]
    if any(len(member.names) != d for _, member in members) or not all(isinstance(each, int) for each in found):
        return None
    return _Places(_as_slice(found), None) if max(map(int, found)) < width else None


@lru_cache(maxsize=64)
def _named_places(
    columns: tuple[str, ...], members: tuple[ColumnMember, ...], d: int, labels: tuple[str, ...] | None
) -> _Places | None:
    """Return where columns are in frames that have these ``columns``; None if something about them is to be said."""
    place = {name: number for number, name in enumerate(columns)}
    names, found = OutputNames(labels), list[int]()
    try:
        for what, member in members:
            own = member.found_among(columns)
            order = names.order_of_columns(own, member, what)
            if len(own) != d or not place.keys() >= set(own):
                return None
            found += [place[str(own[j])] for j in (range(d) if order is None else order)]
    except InputError:
        return None
    return _Places(_as_slice(found), names.first)


def _as_slice(numbers: Sequence[Any]) -> slice | Indices:
    """Return the numbers of columns as a slice, if they follow each other: that takes no copy."""
    first, count = int(numbers[0]), len(numbers)
    consecutive = list(numbers) == list(range(first, first + count))
    return slice(first, first + count) if consecutive else np.array(numbers, dtype=np.int64)


def _taken(X: npt.NDArray[Any] | NumberTable | pd.DataFrame, columns: slice | Indices) -> Floats | None:
    """Return some columns as floats; None if they are not all numbers of numpy's."""
    if isinstance(X, NumberTable):
        return X.rows[:, columns]
    numbers: npt.NDArray[Any]
    if isinstance(X, np.ndarray):
        numbers = X[:, columns]
    else:
        whole = isinstance(columns, slice) and columns == slice(0, X.shape[1])
        chosen = X if whole else X.iloc[:, columns]
        if not is_numeric(chosen):
            return None
        numbers = chosen.to_numpy()
    return numbers.astype(np.float64, copy=False) if numbers.dtype.kind in NUMBERS else None
