"""The rows of a LiveEnsemble: open until their labels come, then known by a hash of their id for a while."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import takewhile
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.hashing import Hashes, hash_labels, hash_numbers
from optensemble._core.suggestions import listed
from optensemble.ensembles._decision_rows import needed_part
from optensemble.ensembles.base import Policy
from optensemble.exceptions import ConflictError, InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import only_columns
from optensemble.members.frames import as_kind, copy_of, is_default
from optensemble.members.validation import pick_rows

REMEMBERED = 1 << 17
"""Rows whose labels have come, the last of them, that are known again if they are given once more."""

RAW, PROMISED, LOW, HIGH, WATCHED = range(5)
"""What is promised of a row: before the correction, as made, its interval, and by the latest fit for its own action."""

CERTAIN = (RAW, PROMISED, WATCHED)
"""Those that are never infinite."""

EXPIRED = -1
"""In place of a hash of labels: the row expired before any arrived."""

_EXACT = 2.0**53
"""Floats below it tell whole numbers apart."""


# Ids


def as_ids(ids: Any, n: int, what: str) -> npt.NDArray[Any]:
    """Return a copy of the ids of ``n`` rows: an array of whole numbers, of times, or of objects as Python has them."""
    found = _array_of(ids)
    if found.shape != (n,):
        raise InputError(
            f"ids must hold one id for each of the {n} rows of {what}; got {_shape(ids, found)}. Give a list "
            "or a column of ids; of rows that were decided without any, answer.ids has them."
        )
    if found.dtype.kind == "i" or (found.dtype.kind == "u" and found.max(initial=0) < 1 << 63):
        return found
    try:
        plain = list(pd.DatetimeIndex(found).as_unit("ns") if found.dtype.kind == "M" else map(_plain, found))
    except (TypeError, ValueError, OverflowError) as error:  # a time beyond those of nanoseconds is a ValueError
        raise InputError(
            f"ids must be strings, numbers, timestamps or tuples of these ({error}). Give other ids."
        ) from error
    if lacking := [at for at, each in enumerate(plain) if each is None or each is pd.NaT]:
        raise InputError(f"ids[{lacking[0]}] of {n} is missing. Give every row an id.")
    kinds = {type(each) for each in plain}
    if kinds == {int}:
        return np.array(plain, dtype=np.int64)
    if kinds == {pd.Timestamp} and all(each.tz is None for each in plain):
        return np.asarray(pd.DatetimeIndex(plain).as_unit("ns"))
    return _objects(plain)


def _array_of(ids: Any) -> npt.NDArray[Any]:
    """Return ids as an array of their own; a list's as objects, so that none is taken for another: 1 and "1" differ."""
    if isinstance(ids, range | str | bytes) or not isinstance(ids, Sequence):
        return np.array(ids)
    return (
        np.array(ids, dtype=np.int64)
        if all(type(each) is int and -_EXACT < each < _EXACT for each in ids)
        else _objects(ids)
    )


def _objects(ids: Sequence[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(ids), dtype=object)
    found[:] = ids
    return found


def _plain(value: Any) -> Any:
    """Return an id as Python has it, equal for equal ids: of a whole number an int, of any time a Timestamp."""
    if isinstance(value, str | UUID):
        text = str(value)
        text.encode()  # half a character is a ValueError
        return text
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, date | np.datetime64):  # NaT is a date
        return None if value is None else pd.Timestamp(value).as_unit("ns")
    if isinstance(value, bool | np.bool_ | int | np.integer) and not isinstance(value, np.timedelta64):
        whole = int(value)
        return int(np.int64(whole))  # which says what is too large
    if isinstance(value, float | np.floating):
        number = float(value)
        if np.isnan(number):
            return None
        return int(number) if number.is_integer() and abs(number) < _EXACT else number
    raise TypeError(f"{type(value).__name__} is none of these")


def _shape(ids: Any, found: npt.NDArray[Any]) -> str:
    return f"an array of shape {found.shape}" if found.ndim else repr(ids)


def hash_ids(ids: npt.NDArray[Any]) -> Hashes:
    """Return a hash of every id; equal ids have equal hashes, whatever they were given as."""
    if ids.dtype.kind in "iu":  # at once: hashing text takes longer than deciding
        return hash_numbers(ids)
    labels = ids_listed(ids)
    keys = hash_labels([_as_label(each) for each in labels])
    whole = [at for at, each in enumerate(labels) if type(each) is int]
    keys[whole] = hash_numbers(np.array([labels[at] for at in whole], dtype=np.int64))
    return keys


def _as_label(value: Any) -> Any:
    """Return what stands for an id in a hash: a time is one in nanoseconds, in UTC where it has a zone."""
    if isinstance(value, pd.Timestamp):
        return ("time" if value.tz is None else "UTC", value.as_unit("ns").value)
    return tuple(map(_as_label, value)) if isinstance(value, tuple) else value


def ids_listed(ids: npt.NDArray[Any]) -> list[Any]:
    """Return ids as a list of what Python has for them."""
    return pd.DatetimeIndex(ids).tolist() if ids.dtype.kind == "M" else ids.tolist()


# Rows


@dataclass(frozen=True, eq=False)
class OpenRows:
    """Rows that were decided together, and whose labels are yet to come.

    Attributes
    ----------
    numbers
        Of the rows, ascending: how many were decided before.
    keys, ids
        The id of each row, as a hash and as it was given.
    X
        The rows themselves, if they are to be learned from.
    omega
        Ω, bound to them.
    proposed
        The action of each policy, of shape (policies, n, d).
    played
        The action that was played, of shape (n, d).
    features
        What the online stack learns from, of shape (n, features, d).
    weights
        Of the policies, of shape (n, policies), before one of them was played.
    promises
        Of shape (n, 5), in the user's units: :data:`RAW`, :data:`PROMISED`, :data:`LOW`, :data:`HIGH`, :data:`WATCHED`.
    fit
        The number of that fit.
    """

    numbers: Indices
    keys: Hashes
    ids: npt.NDArray[Any]
    X: Any
    omega: FeasibleSet
    proposed: Floats
    played: Floats
    features: Floats
    weights: Floats
    promises: Floats
    fit: Indices

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Any) -> OpenRows:
        """Return some of the rows, by their places, which ascend; nothing is kept of the others."""
        X, omega = None if self.X is None else pick_rows(self.X, rows), self.omega
        return OpenRows(
            self.numbers[rows],
            self.keys[rows],
            self.ids[rows],
            X,
            omega.bind_again(omega.values[rows], X) if omega.needs_table else omega.take(rows),
            self.proposed[:, rows],
            self.played[rows],
            self.features[rows],
            self.weights[rows],
            self.promises[rows],
            self.fit[rows],
        )


class Batch(NamedTuple):
    """Rows that were decided together, with a mask of those that are open, and their number.

    The others are taken out once they are the majority: labels that arrive one by one cost no copy of the batch each.
    """

    rows: OpenRows
    still: npt.NDArray[np.bool_]
    open: int

    @classmethod
    def of(cls, rows: OpenRows) -> Batch:
        """Return rows that are all open."""
        return cls(rows, np.ones(len(rows), dtype=np.bool_), len(rows))

    @property
    def opened(self) -> OpenRows:
        """The open rows alone."""
        return self.rows if self.open == len(self.rows) else self.rows.take(np.flatnonzero(self.still))

    def without(self, gone: Any) -> list[Batch]:
        """Return what is left once some rows, by their places or a mask, are open no more: one batch or none."""
        still = self.still.copy()
        still[gone] = False
        left = self._replace(still=still, open=int(np.count_nonzero(still)))
        if 2 * left.open < len(self.rows):
            return [self.of(left.opened)] if left.open else []
        return [left]


class Found(NamedTuple):
    """Rows whose labels have come: their numbers, and those that were known before with the same labels."""

    numbers: Indices
    known: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Change:
    """What becomes of a ledger: its batches and counts, and what is entered in its tables and struck out of them.

    ``opened`` and ``closed`` are entered; ``gone`` are struck out of the open rows, ``forgotten`` out of the others.
    """

    batches: list[Batch]
    opened: dict[int, int]
    gone: list[int]
    closed: dict[int, int]
    decided: int
    expired: int
    forgotten: list[int] = field(default_factory=list)


@dataclass
class Ledger:
    """All rows that were decided: those that are open, and the last of those that are not.

    A list of batches is never changed, but replaced.

    Attributes
    ----------
    batches
        Open rows, in the order in which they were decided.
    places
        The number of each open row, by its key.
    closed
        A hash of the labels of each row that is remembered, by its key.
    decided, expired
        The number of rows decided so far, and of those that expired.
    """

    batches: list[Batch] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    closed: OrderedDict[int, int] = field(default_factory=OrderedDict)
    decided: int = 0
    expired: int = 0

    def copy(self) -> Ledger:
        """Return a ledger of the same rows, which goes on by itself."""
        return replace(self, places=self.places.copy(), closed=self.closed.copy())

    @property
    def open(self) -> int:
        """The number of open rows."""
        return len(self.places)

    @property
    def first_open(self) -> int:
        """The number of the first open row; that of the next row if none is open."""
        batches = self.batches
        if not batches:
            return self.decided
        batch = batches[0]
        return int(batch.rows.numbers[batch.still][0])

    def are_open(self, numbers: Indices) -> bool:
        """Return whether all rows with these numbers, which ascend, are open."""
        starts = np.array([batch.rows.numbers[0] for batch in self.batches], dtype=np.int64)
        places = np.searchsorted(starts, numbers, "right") - 1
        if not len(starts) or (places < 0).any():
            return False
        for place in np.unique(places).tolist():
            batch, own = self.batches[place], numbers[places == place]
            at = np.searchsorted(batch.rows.numbers, own)
            if at[-1] >= len(batch.rows) or (batch.rows.numbers[at] != own).any() or not batch.still[at].all():
                return False
        return True

    def knows_none(self, hashes: Hashes) -> bool:
        """Return whether no row is remembered that has one of these ids."""
        keys = hashes.tolist()
        return self.places.keys().isdisjoint(keys) and self.closed.keys().isdisjoint(keys)

    def require_new(
        self, places: dict[int, int], hashes: Hashes, ids: npt.NDArray[Any], *, numbered: bool = False
    ) -> None:
        """Refuse ids that were there before, or twice; ``numbered`` if they are rows' numbers, for want of ids.

        ``places`` are the numbers of the rows by the hashes of their ids.
        """
        if len(places) < len(ids):
            repeated = _repeated(hashes.tolist(), ids)
            raise InputError(f"ids must be distinct; {repeated} is there twice. Give each row its own.")
        if not (self.places.keys().isdisjoint(places) and self.closed.keys().isdisjoint(places)):
            keys = hashes.tolist()
            known = [at for at, key in enumerate(keys) if key in self.places or key in self.closed]
            raise ConflictError(
                f"{len(known):,} of these {len(keys):,} ids were given to rows decided before: {_named(ids, known)}. "
                + ("Rows without ids are numbered: give ids in every call or in none." if numbered else _OWN)
            )

    def opening(self, batch: OpenRows, new: dict[int, int], before: int) -> tuple[Change, Change]:
        """Return what takes up rows decided now, and gives up all before a number; and what takes this back."""
        batches = [*self.batches, Batch.of(batch)]
        old = list(takewhile(lambda each: each.rows.numbers[0] < before, batches))
        late = [each.rows.numbers < before for each in old]
        given_up = [
            int(key) for each, gone in zip(old, late, strict=True) for key in each.rows.keys[gone & each.still].tolist()
        ]
        left = [part for each, gone in zip(old[-1:], late[-1:], strict=True) for part in each.without(gone)]
        ahead = Change(
            batches=[*left, *batches[len(old) :]] if old else batches,
            opened={key: number for key, number in new.items() if number >= before} if old else new,
            gone=given_up,
            closed=dict.fromkeys(given_up, EXPIRED),
            decided=self.decided + len(batch),
            expired=self.expired + len(given_up),
        )
        again = {key: self.places[key] for key in given_up if key not in new}
        back = Change(self.batches, again, list(new), {}, self.decided, self.expired, given_up)
        return ahead, back

    def closing(self, numbers: Indices, prints: dict[int, int]) -> Change:
        """Return what removes open rows, by their numbers, which ascend; ``prints`` are kept by their keys."""
        batches = self.batches.copy()
        for at, batch, places in reversed(list(self._cut(numbers))):
            batches[at : at + 1] = [] if len(places) == batch.open else batch.without(places)
        return Change(batches, {}, list(prints), prints, self.decided, self.expired)

    def apply(self, change: Change) -> None:
        """Let a change take place; each step may be repeated after an interrupt."""
        self.batches = change.batches
        for key in change.gone:
            self.places.pop(key, None)
        for key in change.forgotten:
            self.closed.pop(key, None)
        self.places.update(change.opened)
        self.closed.update(change.closed)
        while len(self.closed) > REMEMBERED:
            self.closed.popitem(last=False)
        self.decided, self.expired = change.decided, change.expired

    def find(self, keys: list[int], ids: npt.NDArray[Any], prints: list[int]) -> Found:
        """Return the numbers of the rows with these ids; refuse those that are not open, unless nothing has changed."""
        if len(set(keys)) < len(keys):
            raise InputError(f"ids must be distinct; {_repeated(keys, ids)} is there twice. Give each label once.")
        places, closed = self.places, self.closed
        numbers = np.array([places.get(key, -1) for key in keys], dtype=np.int64)
        known = numbers < 0
        if not known.any():
            return Found(numbers, known)
        missing = np.flatnonzero(known).tolist()
        gone = [at for at in missing if closed.get(keys[at]) == EXPIRED]
        if gone:
            raise ConflictError(
                f"{len(gone):,} of these {len(keys):,} rows have expired: {_named(ids, gone)}. Leave them out, or use "
                "a larger expire_after."
            )
        unknown = [at for at in missing if keys[at] not in closed]
        if unknown:
            raise InputError(
                f"{len(unknown):,} of these {len(keys):,} ids are of no open row: {_named(ids, unknown)}. {self._known}"
                "Use the ids that were given to answer() or decide(); rows that were given none are numbered "
                "(answer.ids)."
            )
        other = [at for at in missing if closed[keys[at]] != prints[at]]
        if other:
            raise ConflictError(
                f"{len(other):,} of these {len(keys):,} rows already have different labels: {_named(ids, other)}. What "
                "has been learned from a label cannot be undone. Leave them out."
            )
        return Found(numbers, known)

    @property
    def _known(self) -> str:
        """Name an id that labels may be given for."""
        if not self.batches:
            return "No row is open. "
        batch = self.batches[0]
        first = ids_listed(batch.rows.ids[batch.still][:1])[0]
        return f"Open rows have ids such as {first!r}. "

    def take(self, numbers: Indices) -> Iterator[OpenRows]:
        """Yield open rows, by their numbers, which ascend, batch by batch."""
        for _, batch, places in self._cut(numbers):
            yield batch.rows if len(places) == len(batch.rows) else batch.rows.take(places)

    @property
    def open_rows(self) -> list[OpenRows]:
        """The open rows, batch by batch."""
        return [batch.opened for batch in self.batches]

    def _cut(self, numbers: Indices) -> Iterator[tuple[int, Batch, Indices]]:
        """Yield each batch that has some of the rows, with its place and theirs in it."""
        at, start = 0, 0
        while start < len(numbers):
            at = bisect_right(self.batches, numbers[start], lo=at, key=lambda batch: batch.rows.numbers[0]) - 1
            own = self.batches[at].rows.numbers
            stop = start + int(np.searchsorted(numbers[start:], own[-1], "right"))
            yield at, self.batches[at], np.searchsorted(own, numbers[start:stop])
            at, start = at + 1, stop


def kept_part(fit: Policy, X: Any, groups: Any) -> Any:
    """Return what is kept of X to be learned from: a copy, which neither changes with X nor keeps it in memory.

    Of a frame whose members are all columns only those that are needed are kept, and of others the columns of the fit,
    in their order, in a table of the same kind; ``groups`` is the rule that finds groups in it.
    """
    if fit.feasible_.needs_table:
        return copy_of(X)
    part = needed_part(fit, X, groups)
    if part is X:
        part = as_kind(only_columns(X, fit._known.features), next((rows.X for rows in fit._kept_rows), X))
    if isinstance(part, pd.DataFrame) and isinstance(part.index, pd.RangeIndex) and not is_default(part.index):
        part = part.reset_index(drop=True)
    return copy_of(part)


def join_open(parts: list[OpenRows]) -> OpenRows:
    """Return rows of several batches as one; X and ids are left out."""
    if len(parts) == 1:
        return parts[0]
    named = ("numbers", "keys", "played", "features", "weights", "promises", "fit")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in named}
    omega = parts[0].omega.joined([part.omega for part in parts])
    proposed = np.concatenate([part.proposed for part in parts], axis=1)
    return replace(parts[0], X=None, ids=parts[0].ids[:0], omega=omega, proposed=proposed, **joined)


_OWN = "Give each row an id of its own."


def _repeated(keys: list[int], ids: npt.NDArray[Any]) -> str:
    """Name the first id that is there twice."""
    first = {key: at for at, key in reversed(list(enumerate(keys)))}
    return _named(ids, [next(at for at, key in enumerate(keys) if first[key] < at)])


def _named(ids: npt.NDArray[Any], places: list[int]) -> str:
    return listed([str(each) if isinstance(each, pd.Timestamp) else each for each in ids_listed(ids[places])], most=3)
