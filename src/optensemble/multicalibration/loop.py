"""Algorithm 1 and the one loop around it: correct the predictions until they are unbiased on every cell.

The loop sees cells and labels, and never Ω: a ``Situation`` answers with new actions and
cells when predictions have changed. A *round* is a set of patches made on the same cells; the log of all rounds,
replayed on any rows by the same :func:`correct`, is the fitted model.

Update never needs the rows. On frozen cells it acts on the table of overlaps ``G = ZᵀZ`` and residual sums
``H = Zᵀ(y − h)`` alone: a patch is ``δ = H_C / G_CC``, after which ``H −= G[:, C] δ``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices, Rows
from optensemble._core.exact_sums import cell_sums
from optensemble._core.tolerances import SAME_ASSESSMENT
from optensemble.guarantees import lemma_6
from optensemble.multicalibration import cell_tables as _tables
from optensemble.multicalibration.cell_tables import Correction, Tables, overlaps, tabulate
from optensemble.multicalibration.compiled_rounds import Progress, Runner, new_diary, replay_rounds, run_rounds, shift
from optensemble.multicalibration.events import Cells, Layout
from optensemble.multicalibration.history import VIOLATION, Recorder
from optensemble.multicalibration.least_squares import least_squares
from optensemble.multicalibration.state import Situation

_SLICE = 10_000  # patches between two looks at the keyboard


@dataclass(frozen=True)
class Patch:
    """Add ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``; cells ascend.

    ``rows[c]`` is how many fitting rows the cell had when that was learned; -1 where it is not known.
    """

    member: int
    cells: Indices
    delta: Floats
    rows: Indices


@dataclass(frozen=True)
class PatchLog:
    """All corrections in order; the patches of one round are made on the same cells, then rows are solved again."""

    layout: Layout
    rounds: list[tuple[Patch, ...]] = field(default_factory=list)


class Rounds(NamedTuple):
    """What a schedule did when it was last asked: one round or several.

    ``entries`` are what the history says of each, ``made`` counts per member the patches of a violation above α,
    ``drop`` is what Lemma 1 says the patches take off the squared error, summed over members; ``last`` ends the loop.
    """

    patches: list[tuple[Patch, ...]]
    entries: list[Floats]
    made: Indices
    drop: float
    last: bool = False


@dataclass(frozen=True)
class Run:
    """What the loop did: the log, an entry per round, per member the patches made, the drop Lemma 1 foretells.

    ``finished`` if the schedule had no more to do; ``exact`` if its patches were not shrunk.
    """

    log: PatchLog
    history: list[Floats]
    patches: Indices
    drop: float
    finished: bool
    interrupted: bool
    exact: bool


def debias(
    situation: Situation,
    labels: Floats,
    layout: Layout,
    *,
    schedule: str,
    alpha: float,
    max_rounds: int | None = None,
    shrinkage: float = 0.0,
    min_cell: int = 1,
    callback: Callable[[int, float], None] | None = None,
) -> Run:
    """Patch the situation's predictions, in place, until no cell violates α-consistency.

    This is the loop of Algorithms 2 and 3. The schedule says what a round patches.

    Parameters
    ----------
    situation
        Predictions and what they induce on the fitting rows.
    labels
        Of shape (n, d).
    layout
        The cells to be consistent on.
    schedule
        A key of :data:`SCHEDULES`.
    alpha
        The tolerance of Definition 1.
    max_rounds
        Stop after so many rounds, finished or not; by default after Lemma 6's.
    shrinkage
        Pseudo-rows of zero residual in every cell (joint schedule).
    min_cell
        Cells of fewer rows are not patched, whatever their violation.
    callback
        Called as ``callback(round, violation)`` after every round.

    Returns
    -------
    What was done. An interrupt (Ctrl-C) ends the loop and keeps all whole rounds; the situation itself may then
    hold half of the last one, so replay the log to go on.
    """
    recorder = Recorder(situation, labels)
    go_on = SCHEDULES[schedule](situation, labels, layout, alpha, shrinkage, min_cell, recorder)
    log, history = PatchLog(layout), list[Floats]()
    if max_rounds is None:
        max_rounds = lemma_6(alpha, recorder.squared_error.tolist())
    made, drop = np.zeros(len(situation.predictions), dtype=np.int64), 0.0
    finished = interrupted = False
    try:
        while not finished and len(log.rounds) < max_rounds:
            rounds = go_on(1 if callback is not None else max_rounds - len(log.rounds))
            if rounds is None:
                finished = True
                break
            log.rounds.extend(rounds.patches)
            history.extend(rounds.entries)
            made, drop, finished = made + rounds.made, drop + rounds.drop, rounds.last
            if callback is not None:
                callback(len(log.rounds), float(history[-1][VIOLATION]))
    except KeyboardInterrupt:
        interrupted = True
    return Run(log, history[: len(log.rounds)], made, drop, finished, interrupted, exact=shrinkage == 0)


def replay(situation: Situation, log: PatchLog, start: int = 0, stop: int | None = None) -> None:
    """Make the corrections of a log on the rows of a situation, in place: all of them, or those of some rounds."""
    patched = filter(None, log.rounds[start:stop])
    for alone, rounds in groupby(patched, key=lambda patches: len(patches) == 1):
        if alone:
            _replay_many(situation, log.layout, [patches[0] for patches in rounds])
        else:
            for patches in rounds:
                correct(situation, log.layout, patches)


def walk(situation: Situation, logs: Sequence[PatchLog], rounds: Sequence[int]) -> Iterator[Situation]:
    """Make the corrections of logs one after the other, and show the situation after so many rounds, ascending."""
    for done, after in pairwise([0, *rounds]):
        begun = 0
        for log in logs:
            replay(situation, log, max(done - begun, 0), max(after - begun, 0))
            begun += len(log.rounds)
        yield situation


def _replay_many(situation: Situation, layout: Layout, patches: list[Patch]) -> None:
    """Make rounds of one patch each, as many at once as can be."""
    run, moved = Runner(replay_rounds, situation.omega.kernel), np.empty(len(situation.winner), dtype=np.int64)
    members = np.array([patch.member for patch in patches])
    log = (
        *(members, np.array([len(patch.cells) for patch in patches])),
        *(np.concatenate([patch.cells for patch in patches]), np.concatenate([patch.delta for patch in patches])),
    )
    done = 0
    while done < len(patches):
        done, situation.solves, _, left = run(situation.state, layout.plan, moved, *log, done, situation.solves)
        if left:
            situation.resolve(int(members[done - 1]), moved[:left])


def correct(situation: Situation, layout: Layout, patches: tuple[Patch, ...]) -> list[tuple[int, Rows]]:
    """Make the patches of one round, all on the cells as they are now, and solve again the rows that moved."""
    moved = [(patch.member, _shift(situation, layout, patch)) for patch in patches]
    for member, rows in moved:
        situation.resolve(member, rows)
    return moved


def _shift(situation: Situation, layout: Layout, patch: Patch) -> Rows:
    moved = np.empty(len(situation.winner), dtype=np.int64)
    count = shift(situation.state, layout.plan, patch.member, patch.cells, patch.delta, moved)
    return slice(None) if count == len(moved) else moved[:count].copy()


def worst_violation(situation: Situation, labels: Floats, layout: Layout, min_cell: int = 1) -> float:
    """Return the largest ``Pr[C]·‖E[y − h | C]‖_∞`` over all members and cells (Definition 1), measured afresh.

    Cells of fewer than ``min_cell`` rows do not count.
    """
    worst = 0.0
    for member, predictions in enumerate(situation.predictions):
        sums = tabulate(situation.cells(member, layout), labels - predictions, min_cell).sums
        worst = max(worst, float(np.abs(sums).max()) / len(labels))
    return worst


def count_thin(situation: Situation, layout: Layout, min_cell: int) -> tuple[int, int]:
    """Count over all members the cells that have rows, but fewer than ``min_cell``, and those that have any."""
    thin = occupied = 0
    for member in range(len(situation.predictions)):
        cells = situation.cells(member, layout)
        for event, (start, stop) in enumerate(pairwise(layout.offsets)):
            counts = np.bincount(cells.column(event) - start, minlength=stop - start)
            thin, occupied = thin + int(((counts > 0) & (counts < min_cell)).sum()), occupied + int((counts > 0).sum())
    return thin, occupied


# Algorithm 1 on frozen cells: from tables to one delta for each cell


def update(cells: Cells, residual: Floats, tables: Tables, alpha: float) -> Correction:
    """Algorithm 1: while some cell violates, patch the worst.

    Where ``G`` would be too large, every violating cell of a column is patched at once, column after column: the
    cells of a column are disjoint, so these are patches of Algorithm 1 too, in another order.
    """
    n, threshold = len(residual), alpha * len(residual)
    delta = np.zeros_like(tables.sums)
    if len(tables.occupied) > _tables.TABLE_LIMIT:
        patches, drop = _sweep(cells, residual.copy(), tables, threshold, delta)
        return Correction(delta, patches, drop / n)
    sums, counts = tables.sums[tables.occupied], tables.counts[tables.occupied].astype(np.float64)
    shared, total = overlaps(cells, tables), np.zeros_like(sums)
    patches, drop, made, worst, before = 0, 0.0, _SLICE, np.abs(sums).max(), np.inf
    # if many patches bring no progress, rounding has worn the tables out: the next round makes new ones
    while made == _SLICE and worst < before:
        made, dropped = patch_worst(sums, counts, shared, total, threshold, _SLICE)
        patches, drop = patches + made, drop + dropped
        worst, before = np.abs(sums).max(), worst
    delta[tables.occupied] = total
    return Correction(delta, patches, drop / n)


@njit(cache=True, nogil=True)
def patch_worst(
    sums: Floats, counts: Floats, overlaps: Floats, delta: Floats, threshold: float, most: int
) -> tuple[int, float]:
    """Patch the worst cell, at most ``most`` times, while some ``|H_C|`` exceeds the threshold; in place."""
    cells, d = sums.shape
    drop = 0.0
    for made in range(most):
        worst, C = 0.0, -1
        for cell in range(cells):
            for j in range(d):
                size = abs(sums[cell, j])
                if size > threshold and size > worst * (1.0 + SAME_ASSESSMENT):  # a tie goes to the first cell
                    worst, C = size, cell
        if C < 0:
            return made, drop
        step = sums[C] / counts[C]
        delta[C] += step
        for j in range(d):
            drop += counts[C] * step[j] ** 2
        for cell in range(cells):
            shared = overlaps[cell, C]
            if shared > 0.0:
                for j in range(d):
                    sums[cell, j] -= shared * step[j]
    return most, drop


def _sweep(cells: Cells, residual: Floats, tables: Tables, threshold: float, delta: Floats) -> tuple[int, float]:
    """Patch every violating cell of one column at once, column after column, until a whole sweep finds none."""
    offsets, kept = cells.layout.offsets, np.zeros(cells.layout.count, dtype=np.bool_)
    kept[tables.occupied] = True
    patches, drop, quiet, event = 0, 0.0, 0, 0
    while quiet < len(cells.layout.events):
        start, stop = offsets[event : event + 2]
        local = cells.column(event) - start
        counts, sums = cell_sums(local, residual, stop - start)
        violating = (np.abs(sums).max(axis=1) > threshold) & kept[start:stop]
        quiet = 0 if violating.any() else quiet + 1
        if quiet == 0:
            step = np.where(violating[:, None], sums / np.maximum(counts, 1)[:, None], 0.0)
            delta[start:stop] += step
            residual -= step[local]
            patches += int(violating.sum())
            drop += float((counts[:, None] * step**2).sum())
        event = (event + 1) % len(cells.layout.events)
    return patches, drop


# Schedules: what a round patches

Schedule = Callable[[int], Rounds | None]
"""Does at least one and at most so many rounds, or returns None where there is nothing left to do."""


def _frozen(
    situation: Situation,
    labels: Floats,
    layout: Layout,
    alpha: float,
    shrinkage: float,
    min_cell: int,
    recorder: Recorder,
) -> Schedule:
    """Run Algorithm 1 in every round, as Algorithms 2 and 3 are printed."""
    return _whole_rounds(situation, labels, layout, alpha, min_cell, recorder, partial(update, alpha=alpha))


def _joint(
    situation: Situation,
    labels: Floats,
    layout: Layout,
    alpha: float,
    shrinkage: float,
    min_cell: int,
    recorder: Recorder,
) -> Schedule:
    """Go in every round to where Algorithm 1 would end if alpha were 0."""
    solve = partial(least_squares, shrinkage=shrinkage)
    return _whole_rounds(situation, labels, layout, alpha, min_cell, recorder, solve)


def _whole_rounds(
    situation: Situation,
    labels: Floats,
    layout: Layout,
    alpha: float,
    min_cell: int,
    recorder: Recorder,
    solve: Callable[[Cells, Floats, Tables], Correction],
) -> Schedule:
    """Correct in a round every member that violates, each on its own frozen cells."""

    def go_on(most: int) -> Rounds | None:
        patches, made = [], np.zeros(len(situation.predictions), dtype=np.int64)
        worst, drop = 0.0, 0.0
        for member, predictions in enumerate(situation.predictions):
            cells, residual = situation.cells(member, layout), labels - predictions
            tables = tabulate(cells, residual, min_cell)
            violation = float(np.abs(tables.sums).max()) / len(labels)
            worst = max(worst, violation)
            if violation > alpha:
                correction = solve(cells, residual, tables)
                patched = np.flatnonzero(correction.delta.any(axis=1))
                patches.append(Patch(member, patched, correction.delta[patched], tables.counts[patched]))
                made[member], drop = correction.patches, drop + correction.drop
        if not patches:
            return None
        entry = recorder.entry(worst)
        for member, rows in correct(situation, layout, tuple(patches)):
            recorder.refresh(member, rows)
        return Rounds([tuple(patches)], [entry], made, drop)

    return go_on


class _RoundRobin:
    """Visit in a round one (model, bucket, coordinate) and patch all cells there, whatever their violation.

    The order of the published experiments. It ends when a full cycle saw no violation above α. Rounds are made many at
    once by compiled code; a round whose rows that code leaves unsolved is closed here.
    """

    def __init__(
        self,
        situation: Situation,
        labels: Floats,
        layout: Layout,
        alpha: float,
        shrinkage: float,
        min_cell: int,
        recorder: Recorder,
    ) -> None:
        self._situation, self._recorder = situation, recorder
        self._cycle = np.array(layout.visits(len(situation.predictions)), dtype=np.int64)
        self._visited = np.empty(len(labels), dtype=np.int64)
        self._run = partial(
            Runner(run_rounds, situation.omega.kernel),
            *(situation.state, layout.plan, self._visited, self._cycle, labels, alpha, min_cell, recorder.tally),
        )
        self._diary = new_diary(layout, recorder.columns, labels.shape[1])
        self._began, self._done = 0, Progress(0, situation.solves, 0, 0)

    def __call__(self, most: int) -> Rounds:
        if self._done.left:
            return self._close()
        self._began += self._done.rounds
        now = self._began, self._situation.solves, self._done.quiet
        self._done = self._run(*now, self._diary.first(most))
        self._situation.solves = self._done.solves
        whole = self._done.rounds - (self._done.left > 0)
        return self._read(0, whole) if whole else self._close()

    def _close(self) -> Rounds:
        """Solve the rows that the last round in the diary still waits for."""
        number, rows = self._done.rounds - 1, self._visited[: self._done.left]
        member = int(self._cycle[(self._began + number) % len(self._cycle), 0])
        self._situation.resolve(member, rows)
        self._recorder.refresh(member, rows)
        self._done = self._done._replace(left=0)
        return self._read(number, number + 1)

    def _read(self, start: int, stop: int) -> Rounds:
        """Copy rounds out of the diary, which is overwritten later."""
        diary, before = self._diary, int(self._diary.length[:start].sum())
        after = before + int(diary.length[start:stop].sum())
        cells, delta = diary.cells[before:after].copy(), diary.delta[before:after].copy()
        counts = diary.counts[before:after].copy()
        members = self._cycle[np.arange(self._began + start, self._began + stop) % len(self._cycle), 0]
        patches, begin = list[tuple[Patch, ...]](), 0
        for member, length in zip(members.tolist(), diary.length[start:stop].tolist(), strict=True):
            end = begin + length
            here = slice(begin, end)
            patches.append((Patch(member, cells[here], delta[here], counts[here]),) if length else ())
            begin = end
        made = np.zeros(len(self._situation.predictions), dtype=np.int64)
        np.add.at(made, members, diary.made[start:stop])
        entries = list(diary.entries[start:stop].copy())
        last = self._done.quiet == len(self._cycle) and not self._done.left
        return Rounds(patches, entries, made, float(diary.drop[start:stop].sum()), last)


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "frozen": _frozen,
    "joint": _joint,
    "round-robin": _RoundRobin,
}
"""What a round patches, by name."""
