"""Algorithm 1 and the one loop around it: correct the predictions until they are unbiased on every cell.

The loop sees cells and labels, and never Ω: a :class:`~optensemble.events.Situation` answers with new actions and
cells when predictions have changed. A *round* is a set of patches made on the same cells; the log of all rounds,
replayed on any rows by the same :func:`correct`, is the fitted model.

Update never needs the rows. On frozen cells it acts on the table of overlaps ``G = ZᵀZ`` and residual sums
``H = Zᵀ(y − h)`` alone: a patch is ``δ = H_C / G_CC``, after which ``H −= G[:, C] δ``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble import _tables
from optensemble._exact import cell_sums
from optensemble._least_squares import least_squares
from optensemble._tables import Correction, Tables, overlaps, tabulate
from optensemble._types import Floats, Indices, Rows
from optensemble.events import Cells, Layout
from optensemble.guarantees import lemma_6
from optensemble.history import Recorder
from optensemble.situation import TIE, Situation

_SLICE = 10_000  # patches between two looks at the keyboard


@dataclass(frozen=True)
class Patch:
    """Add ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``."""

    member: int
    cells: Indices
    delta: Floats


@dataclass(frozen=True)
class PatchLog:
    """All corrections in order; the patches of one round are made on the same cells, then rows are solved again."""

    layout: Layout
    rounds: list[tuple[Patch, ...]] = field(default_factory=list)


class Step(NamedTuple):
    """What a schedule wants done in a round, and what it saw.

    ``made`` counts per member the patches of a violation above α, ``drop`` is what Lemma 1 says the patches take
    off the squared error, summed over members, and ``last`` ends the loop after this round.
    """

    patches: tuple[Patch, ...]
    violation: float
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
    callback
        Called as ``callback(round, violation)`` after every round.

    Returns
    -------
    What was done. An interrupt (Ctrl-C) ends the loop and keeps all whole rounds; the situation itself may then
    hold half of the last one, so replay the log to go on.
    """
    next_step = SCHEDULES[schedule](situation, labels, layout, alpha, shrinkage)
    log, history, recorder = PatchLog(layout), list[Floats](), Recorder(situation, labels)
    if max_rounds is None:
        max_rounds = lemma_6(alpha, recorder.squared_error.tolist())
    made, drop = np.zeros(len(situation.predictions), dtype=np.int64), 0.0
    finished = interrupted = False
    try:
        while not finished and len(log.rounds) < max_rounds:
            step = next_step()
            if step is None:
                finished = True
                break
            history.append(recorder.entry(step.violation))
            log.rounds.append(step.patches)
            made, drop, finished = made + step.made, drop + step.drop, step.last
            for member, rows in correct(situation, layout, step.patches):
                recorder.refresh(member, rows)
            if callback is not None:
                callback(len(log.rounds), step.violation)
    except KeyboardInterrupt:
        interrupted = True
    return Run(log, history[: len(log.rounds)], made, drop, finished, interrupted, exact=shrinkage == 0)


def replay(situation: Situation, log: PatchLog) -> None:
    """Make all corrections of a log on the rows of a situation, in place."""
    for patches in log.rounds:
        correct(situation, log.layout, patches)


def correct(situation: Situation, layout: Layout, patches: tuple[Patch, ...]) -> list[tuple[int, Rows]]:
    """Make the patches of one round, all on the cells as they are now, and solve again the rows that moved."""
    moved = [
        (
            patch.member,
            _shift(situation.predictions[patch.member], situation.cells(patch.member, layout), patch),
        )
        for patch in patches
    ]
    for member, rows in moved:
        situation.resolve(member, rows)
    return moved


def _shift(predictions: Floats, cells: Cells, patch: Patch) -> Rows:
    """Add the patch to ``predictions`` in place, event by event; return the rows that lie in a patched cell."""
    offsets = cells.layout.offsets
    event_of = np.searchsorted(offsets, patch.cells, side="right") - 1
    moved = np.zeros(len(predictions), dtype=np.bool_)
    for event in sorted(set(event_of.tolist())):
        mine = event_of == event
        table = np.zeros((offsets[event + 1] - offsets[event], predictions.shape[1]))
        patched = np.zeros(len(table), dtype=np.bool_)
        table[patch.cells[mine] - offsets[event]] = patch.delta[mine]
        patched[patch.cells[mine] - offsets[event]] = True
        local = cells.column(event) - offsets[event]
        hit = patched[local]
        if hit.all():
            predictions += table[local]
        else:
            rows = np.flatnonzero(hit)
            predictions[rows] += table[local[rows]]
        moved |= hit
    return slice(None) if moved.all() else np.flatnonzero(moved)


def worst_violation(situation: Situation, labels: Floats, layout: Layout) -> float:
    """Return the largest ``Pr[C]·‖E[y − h | C]‖_∞`` over all members and cells (Definition 1), measured afresh."""
    worst = 0.0
    for member, predictions in enumerate(situation.predictions):
        sums = tabulate(situation.cells(member, layout), labels - predictions).sums
        worst = max(worst, float(np.abs(sums).max()) / len(labels))
    return worst


# Algorithm 1 on frozen cells: from tables to one delta for each cell


def update(cells: Cells, residual: Floats, tables: Tables, alpha: float) -> Correction:
    """Algorithm 1: while some cell violates, patch the worst.

    Where ``G`` would be too large, every violating cell of a column is patched at once, column after column: the
    cells of a column are disjoint, so these are patches of Algorithm 1 too, in another order.
    """
    n, threshold = len(residual), alpha * len(residual)
    delta = np.zeros_like(tables.sums)
    if len(tables.occupied) > _tables.TABLE_LIMIT:
        patches, drop = _sweep(cells, residual.copy(), threshold, delta)
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
                if size > threshold and size > worst * (1.0 + TIE):  # a tie goes to the first cell
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


def _sweep(cells: Cells, residual: Floats, threshold: float, delta: Floats) -> tuple[int, float]:
    """Patch every violating cell of one column at once, column after column, until a whole sweep finds none."""
    offsets = cells.layout.offsets
    patches, drop, quiet, event = 0, 0.0, 0, 0
    while quiet < len(cells.layout.events):
        start, stop = offsets[event : event + 2]
        local = cells.column(event) - start
        counts, sums = cell_sums(local, residual, stop - start)
        violating = np.abs(sums).max(axis=1) > threshold
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

Schedule = Callable[[], Step | None]
"""Gives the next round's step, or None where there is nothing left to do."""


def _frozen(situation: Situation, labels: Floats, layout: Layout, alpha: float, shrinkage: float) -> Schedule:
    """Run Algorithm 1 in every round, as Algorithms 2 and 3 are printed."""
    return _whole_rounds(situation, labels, layout, alpha, partial(update, alpha=alpha))


def _joint(situation: Situation, labels: Floats, layout: Layout, alpha: float, shrinkage: float) -> Schedule:
    """Go in every round to where Algorithm 1 would end if alpha were 0."""
    return _whole_rounds(situation, labels, layout, alpha, partial(least_squares, shrinkage=shrinkage))


def _whole_rounds(
    situation: Situation,
    labels: Floats,
    layout: Layout,
    alpha: float,
    solve: Callable[[Cells, Floats, Tables], Correction],
) -> Schedule:
    """Correct in a round every member that violates, each on its own frozen cells."""

    def step() -> Step | None:
        patches, made = [], np.zeros(len(situation.predictions), dtype=np.int64)
        worst, drop = 0.0, 0.0
        for member, predictions in enumerate(situation.predictions):
            cells, residual = situation.cells(member, layout), labels - predictions
            tables = tabulate(cells, residual)
            violation = float(np.abs(tables.sums).max()) / len(labels)
            worst = max(worst, violation)
            if violation > alpha:
                correction = solve(cells, residual, tables)
                patched = np.flatnonzero(correction.delta.any(axis=1))
                patches.append(Patch(member, patched, correction.delta[patched]))
                made[member], drop = correction.patches, drop + correction.drop
        return Step(tuple(patches), worst, made, drop) if patches else None

    return step


def _round_robin(situation: Situation, labels: Floats, layout: Layout, alpha: float, shrinkage: float) -> Schedule:
    """Visit in a round one (model, bucket, coordinate) and patch all cells there, whatever their size.

    The order of the published experiments. It ends when a full cycle saw no violation above α.
    """
    cycle = layout.visits(len(situation.predictions))
    time = quiet = 0

    def step() -> Step:
        nonlocal time, quiet
        visit = cycle[time % len(cycle)]
        time += 1
        made = np.zeros(len(situation.predictions), dtype=np.int64)
        cells = situation.cells(visit.member, layout)
        rows = cells.visited(visit)
        start, stop = layout.offsets[visit.event : visit.event + 2]
        width = (stop - start) // layout.sizes[layout.events[visit.event].partitions[0]]
        first = start + visit.part * width
        residual = labels[rows] - situation.predictions[visit.member, rows]
        counts, sums = cell_sums(cells.column(visit.event, rows) - first, residual, width)
        violations = np.abs(sums).max(axis=1) / len(labels)
        made[visit.member] = np.count_nonzero(violations > alpha)
        quiet = 0 if made.any() else quiet + 1
        occupied = np.flatnonzero(counts)
        delta = sums[occupied] / counts[occupied, None]
        drop = float((counts[occupied, None] * delta**2).sum()) / len(labels)
        patches = (Patch(visit.member, first + occupied, delta),) if len(occupied) else ()
        return Step(patches, float(violations.max()), made, drop, last=quiet == len(cycle))

    return step


SCHEDULES: dict[str, Callable[..., Schedule]] = {
    "frozen": _frozen,
    "joint": _joint,
    "round-robin": _round_robin,
}
"""What a round patches, by name."""
