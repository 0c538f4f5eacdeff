"""The multicalibration patch: a joint ridge on the paper's cells, kept only if it lowers the out-of-fold loss.

The cells are those of Algorithm 3 on the forecast's own level sets and every member's, Algorithm 2's leaders, and the
user's subgroups. The tables of folds add up: what the other folds teach is the whole table minus one's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import gather_sums
from optensemble._core.progress import Step, silent
from optensemble.members.fit_data import FitData
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration import events
from optensemble.multicalibration.cell_names import CellPart, Leader, subgroup_parts
from optensemble.multicalibration.cell_tables import CellTable, cell_counts, fold_tables
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import Cells, Layout, PartNames
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.multicalibration.state import Situation
from optensemble.stacking.stack import squared_loss
from optensemble.stats.paired_tests import PairedTest, compare_losses
from optensemble.stats.sample_size import MIN_CELL

MOST_CELLS = 2048
"""Beyond this number of cells only those with the most rows are kept: the table of overlaps is dense."""

MOST_ROUNDS = 2

PATCH_PENALTIES = (1000.0, 100.0, 10.0)
"""Pseudo-rows of zero residual in every cell, to choose from."""

MOST_STEPS = (1 + MOST_ROUNDS) * len(PATCH_PENALTIES)


@dataclass
class PatchFit:
    """The outcome of fitting the patch: corrections, out-of-fold predictions with them, and the tests behind both.

    Attributes
    ----------
    log
        The corrections; empty if none was kept.
    predictions, actions
        Out of fold, with the corrections, and the actions they induce.
    before
        The actions that the uncorrected predictions induce.
    cells, kept
        The cells of the last predictions, and the numbers of those that have enough rows and fit into the table.
    occupied, below, cut
        The number of cells with rows, with fewer than ``MIN_CELL``, and left out because they are too many.
    tests
        The one-standard-error test of every round.
    note
        The reason why no further round was made.
    """

    log: PatchLog
    predictions: Floats
    actions: Floats
    before: Floats
    cells: Cells
    kept: Indices
    columns: int = 0
    occupied: int = 0
    below: int = 0
    cut: int = 0
    tests: list[PairedTest] = field(default_factory=list)
    note: str = ""

    @property
    def subgroups(self) -> Indices:
        """The kept cells that are subgroups of the user's."""
        return self.kept[self.kept >= self.first_subgroup]

    @property
    def first_subgroup(self) -> int:
        """The number of the first cell that is a subgroup of the user's; their ``columns`` are the last events."""
        layout = self.cells.layout
        return int(layout.offsets[len(layout.events) - self.columns])

    @property
    def notes(self) -> list[str]:
        """The cells left out, in words."""
        said = []
        if self.below:
            few = f"{self.below:,} of {self.occupied:,} cells hold fewer than {MIN_CELL} rows"
            said.append(f"{few} and were left out of the patch")
        if self.cut:
            said.append(f"{self.cut:,} further cells, those with the fewest rows, were more than the patch can hold")
        return said


def situate(outputs: MemberOutputs, predictions: Floats) -> Situation:
    """Return what a forecast induces beside the members; the leading model is a subgroup, as the user's are."""
    return Situation(
        predictions[None].copy(), outputs.omega, outputs.buckets, given=outputs.actions, groups=_patch_groups(outputs)
    )


def _patch_groups(outputs: MemberOutputs) -> npt.NDArray[np.int32] | None:
    leaders = [outputs.leaders[None]] if outputs.models > 1 else []
    found = leaders if outputs.subgroups is None else [*leaders, outputs.subgroups]
    return np.concatenate(found) if found else None


def make_layout(outputs: MemberOutputs) -> Layout:
    """Return the cells: own level sets, every member's level sets, the leading model, subgroups."""
    # one part more than there are models: groups end with a part for what no fitting row has
    leaders = (outputs.models + 1,) if outputs.models > 1 else ()
    return events.black_box(outputs.buckets, len(outputs.actions), (*leaders, *map(len, outputs.titles)))


def part_names(outputs: MemberOutputs, members: list[str]) -> PartNames:
    """Return the names of the parts of every partition of the cells."""
    leaders = [[Leader(name, promises=True) for name in members[: outputs.models]]] if outputs.models > 1 else []
    groups: list[Sequence[CellPart]] = [*leaders, *subgroup_parts(outputs.titles)]
    return make_layout(outputs).partitions.names(outputs.buckets, groups=groups, policies=members)


def apply_patch(log: PatchLog, outputs: MemberOutputs, predictions: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a forecast with the corrections made, and the actions it induces without and with them."""
    situation = situate(outputs, predictions)
    before = situation.actions[-1].copy()
    replay(situation, log)
    return situation.predictions[0], before, situation.actions[-1]


def learn_patch(data: FitData, predictions: Floats, step: Step = silent) -> PatchFit:
    """Correct out-of-fold predictions as long as that lowers their out-of-fold loss, at most twice.

    Subgroups are corrected by themselves first: beside hundreds of level sets, which ask for a strong ridge, they would
    hardly be. At most :data:`MOST_STEPS` steps are reported.
    """
    outputs, labels, layout = data.outputs, data.labels, make_layout(data.outputs)
    start = situate(outputs, predictions)
    own, none = start.actions[-1], np.empty(0, np.int64)
    fit = PatchFit(PatchLog(layout), predictions, own, own, start.cells(0, layout), none, columns=len(outputs.titles))
    _select_cells(fit)
    for alone in (True, *[False] * MOST_ROUNDS):
        kept = fit.subgroups if alone else fit.kept
        if not len(kept):
            continue
        tables = fold_tables(fit.cells, labels - fit.predictions, kept, [fold.test for fold in data.folds])
        whole = reduce(add, tables)
        penalty, corrected = _choose_penalty(whole, tables, fit, data, step)
        test = compare_losses(squared_loss(labels, fit.predictions), squared_loss(labels, corrected), data.sampling)
        fit.tests.append(test)
        if test.passed:
            fit.log.rounds.append((Patch(0, kept, whole.ridge(penalty), whole.counts),))
            situation = situate(outputs, corrected)
            fit.predictions, fit.actions = corrected, situation.actions[-1]
            fit.cells = situation.cells(0, layout)
            _select_cells(fit)
        elif not alone:
            fit.note = str(test)
            break
    return fit


def _select_cells(fit: PatchFit) -> None:
    """Find the cells with enough rows, and count those left out."""
    counts = cell_counts(fit.cells)
    enough = np.flatnonzero(counts >= MIN_CELL)
    asked_for = enough >= fit.first_subgroup
    most = enough[np.lexsort((-counts[enough], ~asked_for))[:MOST_CELLS]]
    fit.kept, fit.occupied = np.sort(most), int((counts > 0).sum())
    fit.below, fit.cut = fit.occupied - len(enough), len(enough) - len(most)
    if not len(enough):
        fit.note = f"no cell has {MIN_CELL} rows"


def _choose_penalty(
    whole: CellTable, tables: list[CellTable], fit: PatchFit, data: FitData, step: Step
) -> tuple[float, Floats]:
    """Return the penalty of the lowest out-of-fold loss, and the predictions corrected with it.

    The strongest comes first. Once the loss no longer falls, a weaker one, which corrects more, will not help either.
    """
    labels, best = data.labels, (PATCH_PENALTIES[0], fit.predictions)
    lowest = float(squared_loss(labels, fit.predictions).mean())
    delta = np.zeros((fit.cells.layout.count, labels.shape[1]))
    columns = [fit.cells.columns(fold.test) for fold in data.folds]
    for penalty in PATCH_PENALTIES:
        corrected = fit.predictions.copy()
        for table, fold, cells in zip(tables, data.folds, columns, strict=True):
            delta[whole.kept] = (whole - table).ridge(penalty)
            corrected[fold.test] += gather_sums(cells, delta)
        step()
        loss = float(squared_loss(labels, corrected).mean())
        if loss >= lowest:
            break
        best, lowest = (penalty, corrected), loss
    return best
