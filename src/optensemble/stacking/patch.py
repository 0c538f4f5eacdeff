"""The multicalibration patch: a joint ridge on the paper's cells, which comes in only if it pays out of fold.

The cells are those of Algorithm 3 on the forecast's own level sets and every member's, Algorithm 2's winner sets, and
the user's subgroups. The tables of folds add up: what the other folds teach is the whole table minus one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.progress import Step, silent
from optensemble.members.outputs import View
from optensemble.multicalibration import events
from optensemble.multicalibration.events import Cells
from optensemble.multicalibration.loop import Patch, PatchLog, replay
from optensemble.multicalibration.state import Situation, Solver
from optensemble.stacking.stack import Gate, judge, squared_loss
from optensemble.stats.folds import Fold
from optensemble.stats.sample_size import MIN_CELL
from optensemble.stats.sampling import Sampling

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MOST_CELLS = 2048
"""Beyond this many cells only those with the most rows are kept."""

MOST_ROUNDS = 2
STRENGTHS = (1000.0, 100.0, 10.0)
"""Pseudo-rows of zero residual in every cell, to choose from."""

MOST_STEPS = (1 + MOST_ROUNDS) * len(STRENGTHS)

_CHUNK = 4096  # rows


@dataclass
class Patched:
    """What came of it: the corrections, the out-of-fold predictions with them, and why it stopped.

    ``cells`` are the cells of the last situation; ``occupied`` of them have rows, ``thin`` too few;
    ``kept`` are those with enough, without the ``cut`` that are too many. The last are those of so many ``columns`` of
    subgroups.
    """

    log: PatchLog
    predictions: Floats
    cells: Cells
    kept: Indices
    columns: int = 0
    occupied: int = 0
    thin: int = 0
    cut: int = 0
    gates: list[Gate] = field(default_factory=list)
    note: str = ""

    @property
    def subgroups(self) -> Indices:
        """The kept cells that are subgroups of the user's."""
        return self.kept[self.kept >= self.first_subgroup]

    @property
    def first_subgroup(self) -> int:
        """The number of the first cell that is a subgroup."""
        layout = self.cells.layout
        return int(layout.offsets[len(layout.events) - self.columns])

    @property
    def notes(self) -> list[str]:
        """Say which cells were left out."""
        said = []
        if self.thin:
            few = f"{self.thin:,} of {self.occupied:,} cells hold fewer than {MIN_CELL} rows"
            said.append(f"{few} and were left out of the patch")
        if self.cut:
            said.append(f"{self.cut:,} further cells, those with the fewest rows, were more than the patch can hold")
        return said


def situate(view: View, predictions: Floats, omega: Solver, buckets: Buckets) -> Situation:
    """Return what a forecast induces beside the members; who promises most is a group, as the user's subgroups are."""
    room = np.empty((1, *predictions.shape))
    return Situation(
        predictions[None].copy(),
        omega,
        buckets,
        actions=np.concatenate([view.actions, room]),
        groups=view.groups,
    )


def make_layout(view: View, buckets: Buckets) -> events.Layout:
    """Return the cells: own level sets, every member's level sets, winner sets, subgroups."""
    return events.black_box(buckets, len(view.actions), view.group_sizes)


def apply(log: PatchLog, view: View, predictions: Floats, omega: Solver, buckets: Buckets) -> Floats:
    """Return a forecast for any rows with the corrections made."""
    situation = situate(view, predictions, omega, buckets)
    replay(situation, log)
    return np.asarray(situation.predictions[0])


def learn_patch(
    view: View,
    predictions: Floats,
    labels: Floats,
    omega: Solver,
    buckets: Buckets,
    sampling: Sampling,
    parts: list[Fold],
    step: Step = silent,
) -> Patched:
    """Correct out-of-fold predictions as long as that lowers their out-of-fold loss, at most twice.

    Subgroups are corrected by themselves first: beside hundreds of level sets, which ask for a strong ridge, they would
    hardly be. At most :data:`MOST_STEPS` are told by ``step``.
    """
    layout = make_layout(view, buckets)
    cells, none = situate(view, predictions, omega, buckets).cells(0, layout), np.empty(0, np.int64)
    state = _look(Patched(PatchLog(layout), predictions, cells, none, len(view.titles)))
    for alone in (True, *[False] * MOST_ROUNDS):
        kept = state.subgroups if alone else state.kept
        if not len(kept):
            continue
        table = Table(state.cells, kept, labels - state.predictions, parts)
        strength, corrected = _best(table, labels, state.predictions, parts, step)
        gate = judge(squared_loss(labels, state.predictions), squared_loss(labels, corrected), sampling)
        state.gates.append(gate)
        if gate.open:
            state.log.rounds.append((Patch(0, kept, table.solve(strength), table.counts),))
            situation = situate(view, corrected, omega, buckets)
            state.predictions, state.cells = corrected, situation.cells(0, layout)
            _look(state)
        elif not alone:
            state.note = str(gate)
            break
    return state


def _look(state: Patched) -> Patched:
    """Find the cells with enough rows; say what is left out."""
    counts = np.concatenate([_counts(state.cells, event) for event in range(len(state.cells.layout.events))])
    enough = np.flatnonzero(counts >= MIN_CELL)
    asked_for = enough >= state.first_subgroup
    most = enough[np.lexsort((-counts[enough], ~asked_for))[:MOST_CELLS]]
    state.kept, state.occupied = np.sort(most), int((counts > 0).sum())
    state.thin, state.cut = state.occupied - len(enough), len(enough) - len(most)
    if not len(enough):
        state.note = f"no cell has {MIN_CELL} rows"
    return state


def _counts(cells: Cells, event: int) -> Indices:
    start, stop = cells.layout.offsets[event : event + 2]
    return np.bincount(cells.column(event) - start, minlength=stop - start)


class Table:
    """``G = ZᵀZ`` and ``H = Zᵀ(y − h)`` on the cells kept, of every fold; those of the others add up."""

    def __init__(self, cells: Cells, kept: Indices, residual: Floats, parts: list[Fold]) -> None:
        onto = one_hot(cells, kept)
        self.onto = [onto[fold.test] for fold in parts]
        self._sums = [part.T @ residual[fold.test] for part, fold in zip(self.onto, parts, strict=True)]
        self._all_sums = np.sum(self._sums, axis=0)

        self._shared = [overlaps(part) for part in self.onto]
        self._all_shared = np.sum(self._shared, axis=0)

    @property
    def counts(self) -> Indices:
        """How many rows each cell has."""
        return np.diag(self._all_shared).astype(np.int64)

    def solve(self, strength: float, left_out: int | None = None) -> Floats:
        """Return the correction of each cell that all folds teach, or all but one."""
        from scipy.linalg import cho_factor, cho_solve

        shared, sums = self._all_shared.copy(), self._all_sums
        if left_out is not None:
            shared, sums = shared - self._shared[left_out], sums - self._sums[left_out]
        shared[np.diag_indices(len(shared))] += strength
        return np.asarray(cho_solve(cho_factor(shared, overwrite_a=True), sums))


def one_hot(cells: Cells, kept: Indices) -> csr_array:
    """Return ``Z``: which of the kept cells each row belongs to."""
    from scipy.sparse import csr_array

    number = np.full(cells.layout.count, -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    columns = np.stack([number[cells.column(event)] for event in range(len(cells.layout.events))], axis=1)
    inside = columns >= 0
    ends = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return csr_array((np.ones(ends[-1]), columns[inside], ends), shape=(len(columns), len(kept)))


def overlaps(onto: csr_array) -> Floats:
    """Return how many rows each two cells share; whole numbers, exact in single precision up to 2²⁴ rows a chunk."""
    shared = np.zeros((onto.shape[1], onto.shape[1]))
    for start in range(0, onto.shape[0], _CHUNK):
        dense = onto[start : start + _CHUNK].toarray().astype(np.float32)
        shared += dense.T @ dense
    return shared


def _corrected(table: Table, predictions: Floats, parts: list[Fold], correction: Callable[[int], Floats]) -> Floats:
    """Return out-of-fold predictions with the corrections that ``correction(fold)`` finds without that fold."""
    corrected = predictions.copy()
    for number, fold in enumerate(parts):
        corrected[fold.test] += table.onto[number] @ correction(number)
    return corrected


def _best(table: Table, labels: Floats, predictions: Floats, parts: list[Fold], step: Step) -> tuple[float, Floats]:
    """Return the strength of the lowest out-of-fold loss, and the predictions corrected with it.

    The strongest comes first. Once the loss no longer falls, a weaker one, which corrects more, will not help either.
    """
    best, lowest = (STRENGTHS[0], predictions), float(squared_loss(labels, predictions).mean())
    for strength in STRENGTHS:
        corrected = _corrected(table, predictions, parts, partial(table.solve, strength))
        step()
        loss = float(squared_loss(labels, corrected).mean())
        if loss >= lowest:
            break
        best, lowest = (strength, corrected), loss
    return best
