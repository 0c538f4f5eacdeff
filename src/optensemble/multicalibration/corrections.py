"""The one path of correction: patches made on cells as they are, for fitting and for any rows later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event, Lock

import numba
import numpy as np

from optensemble._core.arrays import Floats, Rows
from optensemble.multicalibration.compiled_replay import Looks, Moved, ReplayDone, ReplayedPatches, replay_rounds
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.moves import FoundRows, SolvedRows, Span, shift
from optensemble.multicalibration.patches import PackedRounds, Patch, PatchLog
from optensemble.multicalibration.runner import Runner
from optensemble.multicalibration.state import Situation, compare_given

_ROWS = 2048
"""Rows that go through all rounds before the next ones: their state stays in the cache."""

_VISITS = 1 << 16
"""Rows times patches, at least, in one piece of work."""


_NO_LOOKS = Looks.at(np.empty(0, dtype=np.int64), np.empty((0, 0)), 0)

_VISITS_OF_A_THREAD = 1 << 21
"""The same for each thread: with less, threads spend more time on waiting for each other than they save."""


def replay(situation: Situation, log: PatchLog, start: int = 0, stop: int | None = None) -> None:
    """Make the corrections of a log on the rows of a situation, in place: all of them, or those of some rounds."""
    rounds = PackedRounds.of(log.rounds[start:stop])
    if len(rounds.members):
        for _ in _replay(situation, log.layout, rounds, _NO_LOOKS):
            pass


def trace(
    situation: Situation,
    logs: Sequence[PatchLog],
    rounds: Sequence[int],
    labels: Floats,
    tell: Callable[[float], None] = lambda share: None,
) -> Floats:
    """Make the corrections of logs one after the other, and return what is seen after each number of ``rounds``.

    Some rows go through all rounds before the next ones do. A line of the result has means over rows of what
    :class:`~optensemble.multicalibration.compiled_replay.Looks` adds up. ``tell`` is given the share that is done.
    """
    sums, begun = list[Floats](), 0
    for number, log in enumerate(logs):
        packed, last = PackedRounds.of(log.rounds), number == len(logs) - 1
        mine = [each - begun for each in rounds[len(sums) :] if last or each <= begun + len(packed)]
        after = packed.first_patch[np.minimum(mine, len(packed))] if mine else np.empty(0, dtype=np.int64)
        seen, rows = np.zeros((len(mine), 2 + 3 * len(situation.predictions))), 0
        for part, count in _replay(situation, log.layout, packed, Looks.at(after, labels, len(situation.predictions))):
            seen, rows = seen + part, rows + count
            tell((number + rows / len(labels)) / len(logs))
        sums, begun = [*sums, *seen], begun + len(packed)
    return np.array(sums) / len(labels)


def _replay(situation: Situation, layout: Layout, rounds: PackedRounds, looks: Looks) -> Iterator[tuple[Floats, int]]:
    """Make rounds on all rows, in pieces on all threads; yield, piece by piece in their order, what its looks saw."""
    work = _Replay(
        situation, layout, ReplayedPatches.of(rounds), looks, Runner(replay_rounds, situation.omega.bound_kernel)
    )
    spans = work.spans()
    threads = min(numba.get_num_threads(), len(spans), work.visits // _VISITS_OF_A_THREAD)
    if threads <= 1:  # there may be no row
        yield from map(work, spans)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(work, spans)
        except BaseException:
            work.halted.set()
            raise


def walk(situation: Situation, logs: Sequence[PatchLog], rounds: Sequence[int]) -> Iterator[Situation]:
    """Make the corrections of logs one after the other, and show the situation after each number of ``rounds``."""
    for done, after in pairwise([0, *rounds]):
        begun = 0
        for log in logs:
            replay(situation, log, max(done - begun, 0), max(after - begun, 0))
            begun += len(log.rounds)
        yield situation


@dataclass(frozen=True)
class _Replay:
    """Patches to be made on rows of a situation, some rows after the others; each row goes through by itself."""

    situation: Situation
    layout: Layout
    patches: ReplayedPatches
    looks: Looks
    run: Runner
    halted: Event = field(default_factory=Event)
    lock: Lock = field(default_factory=Lock)

    @property
    def visits(self) -> int:
        """Rows times patches."""
        return len(self.situation.winner) * len(self.patches.members)

    def spans(self) -> list[Span]:
        """Return the rows in pieces; a set without a kernel is asked about all of them at once."""
        n = len(self.situation.winner)
        size = n if self.run.by_hand else max(_ROWS, _VISITS // max(len(self.patches.members), 1))
        return [(first, min(first + size, n)) for first in range(0, n, size)]

    def __call__(self, span: Span) -> tuple[Floats, int]:
        """Make all patches on some rows, unless halted; return what was seen of them on the way, and their number.

        Given policies are compared once, with the last actions.
        """
        seen = self.looks._replace(seen=np.zeros_like(self.looks.seen))
        try:
            solves = self._make_patches(span, seen)
        finally:  # an interrupt leaves nothing that contradicts the actions
            if self.situation.given:
                compare_given(self.situation.state, np.arange(*span))
        with self.lock:
            self.situation.solves += solves
        return seen.seen, span[1] - span[0]

    def _make_patches(self, span: Span, looks: Looks) -> int:
        """Make the patches and count the rows solved; those that the kernel leaves are solved one thread at a time."""
        state, count, members = self.situation.state, span[1] - span[0], self.patches.members
        moved = Moved(np.empty((self.patches.most, count), np.int64), np.empty(self.patches.most, np.int64))
        room = FoundRows.room(self.layout), SolvedRows.room(self.run.kernel, count, state.actions.shape[2])
        data = state, self.layout.plan, *room, self.patches, moved, looks
        done = ReplayDone(0, 0, 0, 0, 0)
        while (done.patches < len(members) or done.looks < len(looks.after)) and not self.halted.is_set():
            done = ReplayDone(*self.run(*data, span, done.patches, done.solves, done.looks))
            if done.solved < done.moved:
                last = done.patches - 1
                rows = moved.rows[last - self.patches.begin[last], done.solved : done.moved]
                with self.lock:
                    self.situation.resolve(int(members[last]), rows)
        return done.solves


def correct(situation: Situation, layout: Layout, patches: tuple[Patch, ...]) -> list[tuple[int, Rows]]:
    """Make the patches of one round, all on the cells as they are now, and solve again the rows that moved."""
    moved = [(patch.member, _shift(situation, layout, patch)) for patch in patches]
    for member, rows in moved:
        situation.resolve(member, rows)
    return moved


def _shift(situation: Situation, layout: Layout, patch: Patch) -> Rows:
    moved, found = np.empty(len(situation.winner), dtype=np.int64), FoundRows.room(layout)
    rows = 0, len(moved)
    count = shift(situation.state, layout.plan, patch.member, patch.cells, patch.delta, rows, found, moved)
    return slice(None) if count == len(moved) else moved[:count].copy()
