"""The refits of a LiveEnsemble: the rows to learn from, when they are due, and running them aside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.ensembles.base import Policy
from optensemble.members.fit_inputs import LabelledBatch
from optensemble.members.sources import RowSource
from optensemble.members.validation import join_rows, pick_rows

FEWEST = 60
"""New labels that a refit waits for."""

_SHARE = 6  # of the rows fitted on: new labels that make a refit due are so many times fewer
_WINDOW = 20_000  # rows: the least that are kept
_TIMES = 4  # the rows fitted on, if these are more
_JOINED = 64  # pieces: single rows are joined before they are many
_LONGEST = 500  # letters of an error that are kept
_SPARE = 4  # a quarter more rows than the window are kept before some are left out


def due_after(rows: int) -> int:
    """Return after how many new labels a fit on so many rows is due again.

    >>> due_after(300), due_after(3000)
    (60, 500)
    """
    return max(FEWEST, rows // _SHARE)


def default_window(rows: int) -> int:
    """Return how many rows are kept to be fitted on again, given how many were fitted on.

    >>> default_window(400), default_window(100_000)
    (20000, 400000)
    """
    return max(_WINDOW, _TIMES * rows)


class Arrived(NamedTuple):
    """Rows with their labels, in the user's units, weights and groups; ``numbers`` say when they were decided."""

    numbers: Indices
    X: Any
    labels: Floats
    weights: Floats | None
    groups: Any

    def part(self, rows: slice, X: Any) -> Arrived:
        """Return some of the labels with the rows that they belong to."""
        weights, groups = (None if each is None else each[rows] for each in (self.weights, self.groups))
        return Arrived(self.numbers[rows], X, self.labels[rows], weights, groups)

    def take(self, rows: Indices) -> Arrived:
        """Return some of the rows."""
        others = (None if each is None else each[rows] for each in (self.weights, self.groups))
        return Arrived(self.numbers[rows], pick_rows(self.X, rows), self.labels[rows], *others)


def join_arrived(pieces: list[Arrived]) -> list[Arrived]:
    """Return rows that have arrived in the order in which they were decided: as one piece, if X is of one kind."""
    X = pieces[0].X if len(pieces) == 1 else join_rows([piece.X for piece in pieces])
    numbers = np.concatenate([piece.numbers for piece in pieces])
    if X is None:
        return _in_runs(pieces, np.argsort(numbers))
    labels = np.concatenate([piece.labels for piece in pieces])
    counts = [np.ones(len(piece.labels)) if piece.weights is None else piece.weights for piece in pieces]
    weights = None if all(piece.weights is None for piece in pieces) else np.concatenate(counts)
    groups = None if pieces[0].groups is None else np.concatenate([piece.groups for piece in pieces])
    return [Arrived(numbers, X, labels, weights, groups).take(np.argsort(numbers))]


def _in_runs(pieces: list[Arrived], order: Indices) -> list[Arrived]:
    """Return rows in an order of all of them, cut where they come from another piece."""
    lengths = [len(piece.numbers) for piece in pieces]
    piece_of, row_of = np.repeat(np.arange(len(pieces)), lengths)[order], np.concatenate(list(map(np.arange, lengths)))
    edges = [0, *(np.flatnonzero(np.diff(piece_of)) + 1).tolist(), len(order)]
    return [pieces[piece_of[start]].take(row_of[order[start:stop]]) for start, stop in pairwise(edges)]


@dataclass(frozen=True, eq=False)
class RefitRows:
    """The rows to fit again on: those of the fit, and those whose labels have come since, the latest of them.

    Attributes
    ----------
    first
        The rows of the fit.
    pieces
        The others, as they came.
    window
        How many rows are fitted on at most; some more are kept until they are left out, all at once.
    kept
        How many rows are kept, without those that are read from files.
    """

    first: list[LabelledBatch]
    pieces: tuple[Arrived, ...]
    window: int
    kept: int

    @classmethod
    def of(cls, first: list[LabelledBatch], pieces: Sequence[Arrived], window: int) -> Self:
        """Return the rows of a fit, and others."""
        kept = sum(map(_count, first)) + sum(len(piece.numbers) for piece in pieces)
        return cls(first, tuple(pieces), window, kept)

    def __len__(self) -> int:
        others = [batch.X.row_count if isinstance(batch.X, RowSource) else len(batch.labels) for batch in self.first]
        return sum(others) + sum(len(piece.numbers) for piece in self.pieces)

    def add(self, piece: Arrived) -> RefitRows:
        """Return the rows with further ones."""
        pieces, small = [*self.pieces, piece], 0
        while small < len(pieces) and len(pieces[-1 - small].numbers) < _JOINED:
            small += 1
        if small >= _JOINED:
            pieces = [*pieces[:-small], *join_arrived(pieces[-small:])]
        more = replace(self, pieces=tuple(pieces), kept=self.kept + len(piece.numbers))
        return more.joined() if more.kept > self.window + max(self.window // _SPARE, _JOINED) else more

    def joined(self) -> RefitRows:
        """Return the same rows in few pieces, in the order in which they were decided, at most as many as are kept."""
        pieces = join_arrived(list(self.pieces)) if self.pieces else []
        over = self._over([*(_count(batch) for batch in self.first), *(len(piece.numbers) for piece in pieces)])
        first = [
            _without(batch, cut)
            for batch, cut in zip(self.first, over, strict=False)
            if cut < _count(batch) or isinstance(batch.X, RowSource)
        ]
        others = zip(pieces, over[len(self.first) :], strict=True)
        kept = [piece.take(np.arange(cut, len(piece.numbers))) for piece, cut in others if cut < len(piece.numbers)]
        return self.of(first, kept, self.window)

    def _over(self, counts: list[int]) -> list[int]:
        """Return how many rows to leave out of each piece, the first ones first."""
        left, over = max(sum(counts) - self.window, 0), list[int]()
        for count in counts:
            over.append(min(left, count))
            left -= over[-1]
        return over

    def batches(self, groups: Any) -> list[LabelledBatch]:
        """Return the rows as a fit takes them; ``groups`` is the rule that finds those of rows that came later."""
        found = [
            LabelledBatch(piece.X, piece.labels, groups if piece.groups is None else piece.groups, piece.weights)
            for piece in self.pieces
        ]
        whole = [*self.first, *found]
        if any(batch.weights is not None for batch in whole):
            ones = [np.ones(len(batch.labels)) if batch.weights is None else batch.weights for batch in whole]
            whole = [batch._replace(weights=each) for batch, each in zip(whole, ones, strict=True)]
        return whole


def _count(batch: LabelledBatch) -> int:
    """Return how many rows in memory a batch has: those that are read from files do not count."""
    return 0 if isinstance(batch.X, RowSource) else len(batch.labels)


def _without(batch: LabelledBatch, cut: int) -> LabelledBatch:
    """Return a batch without its first rows."""
    return batch.take(np.arange(cut, len(batch.labels))) if cut else batch


@dataclass
class Outcome:
    """What came of a refit: an ensemble, or the error it ended with, and that in words."""

    fit: Policy | None = None
    failed: str = ""
    error: BaseException | None = None


@dataclass(frozen=True)
class Refit:
    """A refit, as it is listed.

    Attributes
    ----------
    decided, labels, watched
        When it became due: the number of rows decided, of those with labels, and of those the monitor had seen.
    why
        Why it was due.
    rows
        How many rows were fitted on.
    taken_up
        The number of rows decided before it decides.
    failed
        The error it ended with; empty if it did not fail.
    """

    decided: int
    labels: int
    watched: int
    why: str
    rows: int
    taken_up: int | None = None
    failed: str = ""

    @property
    def outcome(self) -> str:
        """What came of it, in words."""
        return f"failed: {self.failed}" if self.failed else f"{self.rows:,} rows"


@dataclass(eq=False)
class RunningRefit:
    """A refit in a thread of its own, to be taken up before a certain row is decided.

    That row, not the time it takes, says from when on it decides: the same calls give the same bits.
    """

    refit: Refit
    due_at: int
    work: Callable[[], Policy]
    outcome: Outcome = field(default_factory=Outcome)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to fit, in a thread; at once, if there is none to be had."""
        thread = threading.Thread(target=self.run, name="optensemble refit", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self.run()
        else:
            self._thread = thread

    def run(self) -> None:
        """Fit."""
        try:
            self.outcome.fit = self.work()
        except BaseException as error:  # told where the refit is taken up
            told = f"{type(error).__name__}: {error}"[:_LONGEST].encode(errors="replace").decode()  # a file holds it
            self.outcome.error, self.outcome.failed = error, told

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing to wait for; never of one that has not begun."""
        begun = self._thread is not None or self.outcome.fit is not None or bool(self.outcome.failed)
        return begun and (self._thread is None or not self._thread.is_alive())

    def wait(self) -> Outcome:
        """Wait until the fit has ended, and return what came of it; an interrupt may have kept it from beginning."""
        if self._thread is not None:
            self._thread.join()
        elif self.outcome.fit is None and not self.outcome.failed:
            self.run()
        return self.outcome
