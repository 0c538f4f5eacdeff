"""Rows and columns that belong together by their names: aligned where that is unambiguous, and otherwise refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Indices
from optensemble._core.columns import Columns
from optensemble._core.deferred import pd
from optensemble._core.patterns import coordinates, star_of, trimmed
from optensemble._core.suggestions import listed
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.frames import (
    column_names,
    date_columns,
    index_of,
    is_default,
    is_frame,
    is_made_up,
    numbers_of,
    select,
    take,
    text_names,
)

Labels = Sequence[str] | None
"""The names of the labels, in the order of the feasible set's coordinates; None where they have none."""

_LABELS = "the labels Y"


# Columns


def label_names(Y: Any, d: int) -> list[str] | None:
    """Return the names of ``d`` labels; None for arrays, for columns that are only numbered, and for equal names.

    >>> label_names(pd.DataFrame({"north": [1.0], "south": [2.0]}), 2)
    ['north', 'south']
    >>> label_names(pd.DataFrame([[1.0, 2.0]]), 2), label_names(np.ones((1, 2)), 2)
    (None, None)
    """
    given = column_names(Y)
    if given is None or len(given) != d or is_made_up(given):
        return None
    names = [str(name) for name in given]
    return names if len(set(names)) == d else None


def matching(names: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """Return for each label the place of its name, by whole names or without common beginnings and ends.

    None if they do not correspond.

    >>> matching(["vendor_s", "vendor_n"], ["price_n", "price_s"]), matching(["a", "b"], ["n", "s"])
    ([1, 0], None)
    """
    if len(names) != len(labels):
        return None
    for ours in _forms(labels):
        for theirs in _forms(names):
            place = {name: at for at, name in enumerate(theirs)}
            if len(place) == len(labels) and place.keys() == set(ours):
                return [place[name] for name in ours]
    return None


def _forms(names: Sequence[str]) -> list[list[str]]:
    """Return names as they are, without their common beginning, and without their common end too."""
    whole = list(names)
    return [whole, coordinates(whole), trimmed(whole)] if len(whole) > 1 else [whole]


def column_order(given: Sequence[Any], labels: Labels, what: str) -> list[int] | None:
    """Return the order that puts columns in that of the labels; None if they are in order, or go by position.

    Raises ``InputError`` if both have names that do not correspond. ``what`` has the columns, for the error.
    """
    names = [str(name) for name in given]
    if labels is None:
        numbers = list(range(len(given)))
        permuted = list(given) != numbers and all(isinstance(name, Integral) for name in given)
        return sorted(numbers, key=given.__getitem__) if permuted and sorted(given) == numbers else None
    if len(given) != len(labels) or names == list(labels):
        return None  # if it is the wrong shape, that will be said
    if is_made_up(given) and set(names) != set(labels):
        return None
    found = matching(names, labels)
    if found is not None:
        return None if found == sorted(found) else found
    if len(set(names)) < len(names):
        return None
    raise InputError(
        f"the columns of {what} are {listed(names)}, but the labels are {listed(labels)}. Name its columns as the "
        "labels, or give an array in their order."
    )


def require_set_columns(omega: FeasibleSet, X: Any, labels: Labels) -> None:
    """Refuse a set that takes a number for each label from columns of X that are in another order than the labels."""
    for parameter in omega.parameters if labels is not None else ():
        source = parameter.sources[0]
        if len(parameter.sources) > 1 or not isinstance(source, Columns) or parameter.size != omega.dimension:
            continue
        names = [str(name) for name in source.found_in(X)]
        found = matching(names, labels or ())
        if found is not None and found != sorted(found):
            raise InputError(
                f"{parameter.name} of the feasible set comes from the columns {listed(names)}, but the labels are "
                f"{listed(labels or ())}. List the columns in the order of the labels."
            )


# Rows


def row_order(
    index: pd.Index | None, other: pd.Index | None, what: str, *, numbered: bool = False, of: str = "X"
) -> Indices | None:
    """Return the order that puts rows of index ``other`` in that of X, ``index``; None if they go by position.

    They go by position if the two are equal, or if they are not the same labels and one of them only numbers its rows.
    With ``numbered`` an index that only numbers rows says nothing even where the labels are the same: a function that
    returns a frame without setting its index numbers the rows of X as they came. ``what`` has the other index, and
    ``of`` has the first, for errors.
    """
    if index is None or other is None or index is other or index.equals(other):
        return None
    if len(index) != len(other):
        _require_same_rows(index, other, what, of)
        return None  # if they only number their rows, the wrong shape will be said
    if numbered and is_default(other):
        return None
    found = _places(index, other)
    if found is not None:
        return found
    if is_default(index) or is_default(other):
        return None
    again = "" if index.is_unique and other.is_unique else " Labels that are there several times cannot be matched."
    raise InputError(
        f"the rows of {what} and of {of} have different indexes: {_shown(other)} in {what}, and {_shown(index)} in "
        f"{of}.{again} Give both the same index, or arrays (to_numpy()) if their rows are in the same order."
    )


def _require_same_rows(index: pd.Index, other: pd.Index, what: str, of: str) -> None:
    """Refuse rows of which some are missing, and name them."""
    if is_default(index) or is_default(other) or not index.is_unique or not other.is_unique:
        return
    for here, there, where, lacking in ((index, other, of, what), (other, index, what, of)):
        missing = here[~here.isin(there)]
        if len(missing):
            raise InputError(
                f"{of} has {len(index):,} rows and {what} has {len(other):,}: {_shown(missing)} of {where} "
                f"{'is' if len(missing) == 1 else 'are'} not in {lacking}. Give both the same rows."
            )


def _places(index: pd.Index, other: pd.Index) -> Indices | None:
    """Return where the labels of an index are in the other; None unless both have the same ones, each once."""
    if not index.is_unique or not other.is_unique:
        return None
    try:
        found = np.asarray(other.get_indexer(index), dtype=np.int64)
    except (TypeError, ValueError):  # labels that cannot be compared
        return None
    return found if (found >= 0).all() else None


def _shown(index: pd.Index) -> str:
    names = [str(name) if isinstance(name, (pd.Timestamp, pd.Period)) else name for name in index]
    return listed(names, most=3)


def time_order(X: Any) -> Indices | None:
    """Return the order of time of the rows of X by its index; None if it has no times, or is in order."""
    index = index_of(X)
    if not isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)) or index.is_monotonic_increasing:
        return None
    missing = int(np.asarray(index.isna()).sum())
    if missing:
        raise InputError(
            f"the index of X has no time in {missing:,} of {len(index):,} rows, which cannot be put in time order. "
            "Remove these rows, or leave time_ordered out."
        )
    return np.asarray(index.argsort(kind="stable"), dtype=np.int64)


def sorted_times(X: Any) -> str:
    """Return where X has times that its rows are in the order of, in words; empty if it has none.

    >>> sorted_times(pd.DataFrame({"day": pd.date_range("2026-01-01", periods=4), "load": [1.0, 3.0, 2.0, 4.0]}))
    "the column 'day' of X"
    """
    index = index_of(X)
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return "the index of X" if index.is_monotonic_increasing and 2 * index.nunique() > len(index) else ""
    for name, column in date_columns(X):
        if column.is_sorted() and 2 * column.n_unique() > len(column):
            return f"the column {name!r} of X"
    return ""


# What is given


def align_labels(Y: Any, X: Any, labels: Labels) -> Any:
    """Return labels as numbers, their rows in the order of X, their columns in that of the labels known."""
    given, order = column_names(Y), row_order(index_of(X), index_of(Y), "Y")
    if given is not None and labels is not None and len(given) == len(labels) == 1:
        _require_same(given, labels)
    columns = None if given is None else column_order(given, labels, "Y")
    numbers = numbers_of(Y, _LABELS)
    numbers = numbers if order is None else numbers[order]
    return numbers if columns is None else numbers[:, columns]


def require_labels(Y: Any, labels: Labels) -> None:
    """Refuse a frame that lacks a label's column, or has others, by their names."""
    given = column_names(Y) if is_frame(Y) else None
    if given is None or labels is None or is_made_up(given):
        return
    names = [str(name) for name in given]
    lacking, others = ([each for each in one if each not in two] for one, two in ((labels, names), (names, labels)))
    if lacking and not others:
        raise InputError(f"Y has no column {listed(lacking)}. It needs one for each label: {listed(labels)}.")
    if others and not lacking:
        raise InputError(f"Y has the column {listed(others)}, which is no label. Select the labels: {listed(labels)}.")


def _require_same(given: Sequence[Any], labels: Sequence[str]) -> None:
    if str(given[0]) != labels[0] and not is_made_up(given):
        raise InputError(f"the column of Y is {str(given[0])!r}, but the label is {labels[0]!r}. Rename one of them.")


def align_rows(values: Any, X: Any, what: str, of: str = "X") -> Any:
    """Return a value for every row in the order of X; a rule by which they are found in X, or None, as it is.

    ``what`` the values are, and what ``of``, for errors.
    """
    order = row_order(index_of(X), index_of(values), what, of=of)
    return values if order is None else take(values, order)


def in_fitted_order(X: Any, features: Sequence[str] | None) -> Any:
    """Return X with the columns of the rows fitted on first, in their order; X as it is if some are missing.

    A sparse matrix is one of rows from now on: not all kinds can be cut into rows.
    """
    if hasattr(X, "tocsr"):
        return X.tocsr()
    if features is None:
        return X
    names = text_names(X)
    if names is None or names[: len(features)] == tuple(features):
        return X
    known = set(features)
    if not known <= set(names):
        return X
    return select(X, [*features, *(name for name in names if name not in known)])


def only_columns(X: Any, features: Sequence[str] | None) -> Any:
    """Return X with these columns alone, where they have names and X has them all."""
    names = None if features is None else text_names(X)
    if features is None or names is None or names == tuple(features) or not set(features) <= set(names):
        return X
    return select(X, list(features))


class RowNames(NamedTuple):
    """What is known of names since the fit: those of the labels, and of the columns of X."""

    labels: Labels = None
    features: Sequence[str] | None = None


class AlignedRows(NamedTuple):
    """Rows with their labels, and further values of each row, in one order.

    ``order`` are the places they had in X as it was given; None if they are there still.
    """

    X: Any
    labels: Any
    others: dict[str, Any]
    order: Indices | None = None


def align_all(X: Any, Y: Any, others: Mapping[str, Any], names: RowNames, *, time_ordered: bool = False) -> AlignedRows:
    """Return everything in the order of X; where rows are in time order and X has a time index, in that of time."""
    X = in_fitted_order(X, names.features)
    labels = align_labels(Y, X, names.labels)
    found = {name: align_rows(values, X, name) for name, values in others.items()}
    order = time_order(X) if time_ordered else None
    if order is None or len(labels) != len(order):
        return AlignedRows(X, labels, found)
    found = {name: values if np.ndim(values) == 0 else take(values, order) for name, values in found.items()}
    return AlignedRows(take(X, order), take(labels, order), found, order)


# What members say


@dataclass
class OutputNames:
    """The names of members' outputs, which must be those of the labels.

    Where labels have no names, members that have names must at least agree with each other; ``first`` are those of the
    first that has any.
    """

    labels: Labels = None
    first: tuple[str, list[str]] | None = field(default=None, compare=False)

    def __call__(self, said: Any, member: Any, X: Any, what: str) -> Any:
        """Return what a member said of the rows of X in the order of X and of the labels; ``what`` names it."""
        if isinstance(member, Columns):
            in_order = self.order_of_columns(member.found_in(X), member, what)
            return said if in_order is None else said[:, in_order]
        given = column_names(said)
        if given is None and index_of(said) is None:
            return numbers_of(said, what)
        order = row_order(index_of(X), index_of(said), what, numbered=True)
        columns = None
        if given is not None and len(given) > 1 and not is_made_up(given):
            columns = column_order(given, self.labels, what)
            if columns is None:
                self._require_agreement([str(name) for name in given], what)
        numbers = numbers_of(said, what)
        numbers = numbers if order is None else numbers[order]
        return numbers if columns is None else numbers[:, columns]

    def order_of_columns(self, found: Sequence[Any], member: Columns, what: str) -> list[int] | None:
        """Return the order that puts the columns found for a member in that of the labels; None if they are in order.

        A list must be in that order: only what a pattern found is put in another.
        """
        names = [str(name) for name in found]
        if self.labels is not None and member.width is None and len(names) != len(self.labels):
            raise InputError(
                f"the columns of {what} are {listed(names)}, found by {listed(member.names)}, but the labels are "
                f"{listed(self.labels)}. X must have one of these columns for each label; if it has others too, list "
                "those that are meant."
            )
        if len(found) < 2 or isinstance(found[0], int):
            return None
        if self.labels is None:
            if member.width is None:  # a list is in the order that its user knows
                self._require_agreement(names, what)
            return None
        order = matching(names, self.labels)
        if order is None and len(member.names) == 1:
            order = matching([star_of(str(member.names[0]), name) for name in names], self.labels)
        if order is None or order == sorted(order):
            return None
        if member.width is not None:
            raise InputError(
                f"the columns of {what} are {listed(names)}, in another order than the labels {listed(self.labels)}. "
                "List them in the labels' order."
            )
        return order

    def _require_agreement(self, names: list[str], what: str) -> None:
        """Refuse two members that have the same names in different orders: one of them is not as the labels are."""
        if self.labels is not None:
            return
        if self.first is None:
            self.first = what, names
            return
        order = matching(names, self.first[1])
        if order is not None and order != sorted(order):
            raise InputError(
                f"the columns of {what} are {listed(names)}, in another order than those of {self.first[0]}, "
                f"{listed(self.first[1])}, and the labels have no names to tell which is right. Give Y as a frame."
            )
