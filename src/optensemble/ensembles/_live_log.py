"""What a LiveEnsemble enters into its log: an entry for everything that takes place as a whole, and how it is replayed.

Every commit of a LiveEnsemble is an entry; entries that are replayed in their order lead to the same state, bit for
bit, for they hold what was decided and what was observed, and when refits became due and decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.suggestions import listed
from optensemble.ensembles._live_refits import Arrived
from optensemble.ensembles._live_rows import OpenRows, ids_listed
from optensemble.ensembles._live_state import Played
from optensemble.exceptions import ConflictError, LogError, OptEnsembleError
from optensemble.members.row_contents import row_contents

# Entries


@dataclass(frozen=True, eq=False)
class Opened:
    """Rows that were decided, and are open now; ``contents`` has a hash of each, to know it again by."""

    rows: OpenRows
    contents: Floats


@dataclass(frozen=True, eq=False)
class Learned:
    """Labels that have arrived, without X, and what the actions of their rows came to, in the user's sense."""

    given: Arrived
    realised: Floats


@dataclass(frozen=True)
class Due:
    """A refit that became due: why, and before which row it is to decide."""

    why: str
    due_at: int


@dataclass(frozen=True)
class TakenUp:
    """The refit decides from now on, unless it ``failed``."""

    failed: str


Entry = Opened | Learned | Due | TakenUp


# The log, as a LiveEnsemble sees it


class RepeatedError(LogError):
    """Rows with these ids are in the log already; the call is to look for them there."""


class Decided(NamedTuple):
    """Rows as they were decided before; ``found`` says which of those asked for these are, ``kept`` whose are known.

    Of a row whose decision was deleted since, nothing but its id is known.
    """

    found: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]
    contents: Floats
    numbers: Indices
    played: Floats
    weights: Floats
    promises: Floats


class Log(Protocol):
    """Keeps entries, each as a whole or not at all, before anything else learns of them."""

    def append(self, entry: Entry) -> None:
        """Keep an entry; once this returns, it will survive whatever becomes of the process."""

    @property
    def next(self) -> int:
        """The number of the next entry."""

    def arrived(self, seq: int) -> bool:
        """Return whether the entry with this number is kept, though its ``append`` was broken off."""

    def require_lead(self) -> object:
        """Refuse what would change anything, if the log was closed or is only read."""

    def find(self, keys: Sequence[int]) -> Decided | None:
        """Return what was decided in rows with these keys; None if none was decided."""

    def after_commit(self, live: Any) -> None:
        """Do what is due once an entry has taken place."""

    def close(self, live: Any) -> None:
        """Let others lead."""


# Reading


@dataclass(frozen=True, eq=False)
class LoggedDecision:
    """A decision as it is in the log, and its outcome if that is known.

    Attributes
    ----------
    id, number
        The id of the row, and how many rows were decided before it.
    at
        When it was decided, in UTC.
    action
        The action that was played.
    promised, low, high
        The promised payoff, and its 95 % prediction interval.
    raw
        The promise before the correction.
    weights
        Of the policies.
    proposed
        The action of each policy, of shape (policies, d).
    fit
        How many refits had been taken up.
    label, realised, labelled_at
        The label, the payoff of the action, and when the label arrived; None until then.
    """

    id: Any
    number: int
    at: datetime
    action: Floats
    promised: float
    low: float
    high: float
    raw: float
    weights: Floats
    proposed: Floats
    fit: int
    label: Floats | None = None
    realised: float | None = None
    labelled_at: datetime | None = None


# Rows that are asked again


class Before(NamedTuple):
    """Rows of a call that were decided before, and the places of the others."""

    decided: Decided
    new: Indices

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Let errors number rows as they were given, not as those that are new."""
        try:
            yield
        except OptEnsembleError as error:
            if error.rows is not None:
                named, first, count = error.rows
                error.rows = named, int(self.new[first]), count
            raise

    def joined(self, played: Played | None, chosen: Any) -> Played:
        """Return what is played in all rows; ``chosen`` makes of weights those that actions are mixed by."""
        old, new = self.decided, self.new
        parts = old.played, old.weights, chosen(old.weights), old.promises
        if played is None:
            return Played(*parts)
        whole = []
        for before, now in zip(parts, played, strict=True):
            joined = np.array(before)
            joined[new] = now
            whole.append(joined)
        return Played(*whole)


def contents_of(X: Any) -> Floats:
    """Return a hash of each row of X."""
    return row_contents(X)[:, 0]


def decided_before(
    log: Log, keys: Sequence[int], ids: npt.NDArray[Any], contents: Callable[[Indices], Floats]
) -> Before | None:
    """Return rows that were decided before; refuse ids whose rows were others, or are known no more.

    ``contents`` makes a hash of each of some rows, by their places.
    """
    if (decided := log.find(keys)) is None:
        return None
    known = np.flatnonzero(decided.found & decided.kept)
    others = np.zeros(len(ids), dtype=np.bool_)
    others[known] = contents(known) != decided.contents[known]
    if others.any():
        raise ConflictError(
            f"{int(others.sum()):,} of these {len(ids):,} ids were given to other rows before: {_listed(ids, others)}. "
            "A row is decided once: give each row an id of its own."
        )
    gone = decided.found & ~decided.kept
    if gone.any():
        raise ConflictError(
            f"{int(gone.sum()):,} of these {len(ids):,} rows were decided before, and their decisions are no longer "
            f"in the log: {_listed(ids, gone)}. Give new rows ids of their own."
        )
    return Before(decided, np.flatnonzero(~decided.found))


def _listed(ids: npt.NDArray[Any], some: npt.NDArray[np.bool_]) -> str:
    return listed(ids_listed(ids[some]), most=3)


# Replaying


def replay(live: Any, entry: Entry) -> None:
    """Let an entry take place again, in an ensemble that keeps none meanwhile."""
    if isinstance(entry, Opened):
        live._open(entry.rows, dict(zip(entry.rows.keys.tolist(), entry.rows.numbers.tolist(), strict=True)))
    elif isinstance(entry, Learned):
        live._learn(entry.given)
    elif isinstance(entry, Due):
        live._begin_refit(entry.why, entry.due_at)
    else:
        live._finish_refit(entry.failed)
