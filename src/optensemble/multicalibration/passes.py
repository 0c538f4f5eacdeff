"""The loop of Algorithms 2 and 3 in passes over rows that are not all at hand: a pass looks, a round follows from it.

A look is a table that adds up over disjoint rows: the cells of every member, and the line of the history. Exact sums
need to know beforehand how large residuals are, and overlaps which cells have enough rows. Both are guessed from the
round before, and where the guess turns out wrong the rows are looked at again: the bits are those of a fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import same_grids
from optensemble._core.sums import EACH, LARGEST, Sums
from optensemble.exceptions import InputError
from optensemble.guarantees import lemma_6
from optensemble.multicalibration import cell_tables
from optensemble.multicalibration.cell_tables import CellTable, count_overlaps, tabulate_all
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.history import SOLVES, VIOLATION, Recorder
from optensemble.multicalibration.loop import Callback, Run
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.multicalibration.schedules import TABLE_SOLVES, Debiasing, FoundRound
from optensemble.multicalibration.state import Situation

_ALL_CELLS = 1024  # up to this number of cells, overlaps of all are counted: a table of 8 MB for each member


@dataclass(frozen=True)
class Guess:
    """What a look takes for granted, per member: the largest residual, and the cells that may have enough rows."""

    rows: int
    tops: tuple[float, ...]
    among: tuple[Indices, ...]

    @classmethod
    def first(cls, layout: Layout, rows: int, tops: tuple[float, ...]) -> Self:
        """Return the guess before the first look: no more than a few cells can be counted without knowing them."""
        among = np.arange(layout.count if layout.count <= _ALL_CELLS else 0)
        return cls(rows, tops, tuple(among for _ in tops))

    @property
    def without_overlaps(self) -> Self:
        """The same for a look that counts no overlaps."""
        return replace(self, among=tuple(np.arange(0) for _ in self.tops))


@dataclass(frozen=True)
class MemberLook(Sums):
    """The cells of one member on some rows: all of them, the overlaps of some, and the largest residual."""

    table: CellTable
    shared: Floats
    top: float = field(metadata=LARGEST)


@dataclass(frozen=True)
class Look(Sums):
    """What a pass saw of some rows: the cells of every member, and the history's line with sums instead of means."""

    rows: int
    members: tuple[MemberLook, ...] = field(metadata=EACH)
    line: Floats

    @classmethod
    def at(cls, situation: Situation, labels: Floats, layout: Layout, guess: Guess) -> Look:
        """Look at some of the rows."""
        n, members = len(labels), []
        for member, predictions in enumerate(situation.predictions):
            cells, residual = situation.cells(member, layout), labels - predictions
            top, among = float(np.abs(residual).max(initial=0.0)), guess.among[member]
            # a guess that is too low would spoil the sums, which are then made again
            table = tabulate_all(cells, residual, max(guess.tops[member], top), guess.rows)
            shared = count_overlaps(cells, among) if len(among) else np.zeros((0, 0))
            members.append(MemberLook(table, shared, top))
        line = Recorder(situation, labels).entry()
        counted = _counted(len(situation.actions), len(line))
        return cls(n, tuple(members), np.where(counted, line, line * n))

    def entry(self, violation: float) -> Floats:
        """Return the line of the history."""
        entry = self.line / np.where(self._counted, 1, self.rows)
        entry[VIOLATION] = violation
        return np.asarray(entry)

    @property
    def _counted(self) -> npt.NDArray[np.bool_]:
        return _counted((len(self.line) - 4 - len(self.members)) // 3, len(self.line))

    @property
    def squared_error(self) -> Floats:
        """Of each member, the mean of ``‖y − h‖²``."""
        return np.asarray(self.line[-len(self.members) :] / self.rows)

    def thick(self, least: int) -> list[CellTable]:
        """Return per member the table of the cells that have at least ``least`` rows."""
        return [found.table.thick(least) for found in self.members]

    def worst(self, least: int = 1) -> float:
        """Return the largest violation of cells of at least ``least`` rows."""
        return max(table.largest / self.rows for table in self.thick(least))

    def count_below(self, least: int) -> tuple[int, int]:
        """Count over all members the cells that have rows, but fewer than ``least``, and those that have any."""
        counts = np.concatenate([found.table.counts for found in self.members])
        return int(((counts > 0) & (counts < least)).sum()), int((counts > 0).sum())


def _counted(contenders: int, columns: int) -> npt.NDArray[np.bool_]:
    """Return which columns of the history are counts: solves, and the rows on which each contender is followed."""
    counted = np.zeros(columns, dtype=np.bool_)
    counted[SOLVES] = True
    counted[4 + 2 * contenders : 4 + 3 * contenders] = True
    return counted


class HasLook(Protocol):
    """What a pass returns: a look, and maybe more."""

    @property
    def look(self) -> Look:
        """The look."""


Seen = TypeVar("Seen", bound=HasLook)


def look_well(run: Callable[[Guess], Seen], guess: Guess, how: Debiasing, overlaps: bool) -> tuple[Seen, Guess]:
    """Look at all rows, and again while something was guessed wrong; return what holds then."""
    while True:
        seen = run(guess)
        better = _better(guess, seen.look, how, overlaps)
        if better is guess:
            return seen, guess
        guess = better


def _better(guess: Guess, look: Look, how: Debiasing, overlaps: bool) -> Guess:
    """Return the guess itself if it was right, otherwise what has been seen."""
    tops, among, wrong = list(guess.tops), list(guess.among), False
    for member, (found, table) in enumerate(zip(look.members, look.thick(how.min_cell), strict=True)):
        if not same_grids(guess.tops[member], found.top, guess.rows):
            tops[member], wrong = found.top, True
        elif overlaps and table.largest / look.rows > how.alpha and not np.isin(table.kept, among[member]).all():
            _require_few(len(table.kept), how.min_cell)
            among[member], wrong = table.kept, True
    return Guess(guess.rows, tuple(tops), tuple(among)) if wrong else guess


def _require_few(cells: int, least: int) -> None:
    """Refuse more cells than overlaps can be held of: in memory there are other ways, which go by the rows often."""
    if cells > cell_tables.TABLE_LIMIT:
        raise InputError(
            f"{cells:,} cells have at least {least} row{'s' if least > 1 else ''}, and rows that are read from files "
            f"can be corrected on at most {cell_tables.TABLE_LIMIT:,}: how many rows each two cells share is held as a "
            "table. Take a larger bucket_width or min_cell, or give the rows in memory."
        )


def find_round(look: Look, guess: Guess, how: Debiasing) -> FoundRound:
    """Find the round that corrects every member that violates, each on its own frozen cells."""
    found, worst = FoundRound(np.zeros(len(look.members), dtype=np.int64)), 0.0
    for member, table in enumerate(look.thick(how.min_cell)):
        violation = table.largest / look.rows
        worst = max(worst, violation)
        if violation > how.alpha:
            _require_few(len(table.kept), how.min_cell)
            at = np.searchsorted(guess.among[member], table.kept)
            shared = np.ascontiguousarray(look.members[member].shared[np.ix_(at, at)])
            found.add(member, table, TABLE_SOLVES[how.schedule](how)(replace(table, shared=shared), look.rows))
    return replace(found, worst=worst)


def debias_in_passes(
    run: Callable[[PatchLog, Guess], HasLook], guess: Guess, how: Debiasing, callback: Callback | None = None
) -> tuple[Run, Guess]:
    """Do what :func:`~optensemble.multicalibration.loop.debias` does, in a pass for each round.

    Parameters
    ----------
    run
        Looks at all rows as they are after the corrections of a log.
    guess
        What the first look takes for granted.
    how
        The cells, the schedule and its parameters.
    callback
        Called as ``callback(round, violation)`` after every round.

    Returns
    -------
    The outcome, and what the next look may take for granted. An interrupt ends the loop and keeps all rounds found.
    """
    rounds, history = list[tuple[Patch, ...]](), list[Floats]()
    log = PatchLog(how.layout, rounds)
    made, drop, most = np.zeros(len(guess.tops), dtype=np.int64), 0.0, how.max_rounds
    finished = interrupted = False
    try:
        while most is None or len(rounds) < most:
            seen, guess = look_well(lambda asked: run(log, asked), guess, how, overlaps=True)
            look = seen.look
            if most is None:
                most = lemma_6(how.alpha, look.squared_error.tolist())
                if most == 0:
                    break
            found = find_round(look, guess, how)
            if not found.patches:
                finished = True
                break
            history.append(look.entry(found.worst))
            rounds.append(tuple(found.patches))
            made, drop = made + found.made, drop + found.drop
            if callback is not None:
                callback(len(rounds), found.worst)
    except KeyboardInterrupt:
        interrupted = True
    lines = np.array(history[: len(rounds)])
    return Run(log, lines, made, drop, finished, interrupted, exact=how.shrinkage == 0), guess
