"""The forecasts of the fitting rows, each by what the other folds teach."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import dots_of_each
from optensemble.members.blocks import Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import beyond_mean
from optensemble.stacking.cells import RowCells
from optensemble.stacking.context import FoldContext
from optensemble.stacking.fold_maps import wide_outputs
from optensemble.stacking.forecaster import (
    AVERAGE,
    CONTEXT,
    MEAN,
    PATCHED,
    REFINED,
    RIDGE,
    STACK,
    ForecastBatch,
    average_of,
)
from optensemble.stacking.linear import LinearFit
from optensemble.stacking.patch import (
    FoldPatch,
)
from optensemble.stacking.stack import squared_loss
from optensemble.stats.blocks import UnitSums


@dataclass(frozen=True)
class Corrected:
    """A forecast at some step of its correction, and the actions it induces where they are known."""

    forecast: Floats
    actions: Floats | None = None


@dataclass(frozen=True)
class OutOfFold:
    """The forecasts of the fitting rows, each by what the other folds teach.

    The stack is ``refined``, unless there is a ``context`` correction, which takes its place; ``ridged`` if there is a
    ridge to compare with.
    """

    linear: LinearFit
    refined: bool = True
    ridged: bool = True
    context: FoldContext | None = None
    patches: tuple[FoldPatch, ...] = ()

    @property
    def is_refined_last(self) -> bool:
        """Whether the refinement is the last step."""
        return self.refined and self.context is None and not self.patches

    @property
    def steps(self) -> int:
        """The number of steps from the stack to the last forecast."""
        return (self.refined or self.context is not None) + len(self.patches)

    def without_last(self) -> OutOfFold:
        """Return the same without the last step."""
        if self.patches:
            return replace(self, patches=self.patches[:-1])
        return replace(self, refined=False) if self.context is None else replace(self, context=None)

    def wide(self, chunk: Chunk) -> Floats:
        """Return what members say, about the centre."""
        return wide_outputs(chunk.outputs, self.linear.centre, self.linear.filling)

    def corrected(self, chunk: Chunk, wide: Floats, cells: RowCells) -> list[Corrected]:
        """Return the stack, and the forecast after every step; the cells are then those of the last but one."""
        found = [Corrected(self.linear.by_pattern("stacked", wide, chunk))]
        if self.context is not None:
            found.append(Corrected(self.context.correct(chunk, found[0].forecast)))
        elif self.refined:
            found.append(Corrected(self.linear.by_pattern("refined", wide, chunk)))
        for patch in self.patches:
            last = found[-1].forecast
            found[-1] = Corrected(last, chunk.outputs.omega.argmax(last))
            cells.take_up(_given(found[-1].actions))
            found.append(Corrected(patch(last, cells, chunk.ends)))
        return found

    def batch(
        self, chunk: Chunk, cells: RowCells, found: list[Corrected] | None = None, *, ridge: bool = True
    ) -> ForecastBatch:
        """Return all forecasts of some rows; the cells are then those of the last.

        ``found`` are the steps of its correction if they are known already. The ridge may be left out.
        """
        ridge = ridge and self.ridged
        outputs, wide = chunk.outputs, self.wide(chunk) if ridge or found is None else None
        steps = self.corrected(chunk, _given(wide), cells) if found is None else found[: self.steps + 1]
        last = steps[-1]
        steps[-1] = last if last.actions is not None else Corrected(last.forecast, outputs.omega.argmax(last.forecast))
        cells.take_up(_given(steps[-1].actions))
        sizes = np.diff(chunk.ends)
        forecasts = {MEAN: np.repeat(self.linear.means, sizes, axis=0)}
        solved = dict[str, Floats]()
        if not outputs.omega.varies:  # one solve for each fold is enough
            solved[MEAN] = np.repeat(outputs.omega.argmax(self.linear.means), sizes, axis=0)
        if ridge:
            forecasts[RIDGE] = self.linear.by_pattern("ridged", _given(wide), chunk)
        if outputs.models:
            forecasts[AVERAGE] = average_of(outputs, self._filled(chunk))
        named = {STACK: steps[0]} | ({PATCHED: steps[-1]} if self.patches else {})
        if self.refined or self.context is not None:
            named[REFINED if self.context is None else CONTEXT] = steps[1]
        for name, step in named.items():
            forecasts[name] = step.forecast
            if step.actions is not None:
                solved[name] = step.actions
        return ForecastBatch(forecasts, solved)

    def _filled(self, chunk: Chunk) -> Floats:
        """Return what models say, with what absent ones would say; of shape (models, n, d)."""
        outputs = chunk.outputs
        if outputs.absent is None:
            return outputs.predictions
        return self.linear.filling(np.stack(outputs.said), outputs.absent)[: outputs.models]

    def reach(self, columns: int) -> float:
        """Return a bound on the size of weighted residuals, of rows that lie in so many cells."""
        linear = self.linear.bound("refined" if self.refined and self.context is None else "stacked")
        context = 0.0 if self.context is None else self.context.reach
        patches = sum(patch.reach(columns) for patch in self.patches)
        return (self.linear.label_size + linear + context + patches) * self.linear.weight_size


def _given(values: Floats | None) -> Floats:
    if values is None:
        raise ValueError("this was not computed")
    return values


def gain_sums(chunk: Chunk, out_of_fold: OutOfFold, found: list[Corrected]) -> UnitSums:
    """Return by how much the last step lowers the loss that it is judged by, and squared error; by 0 if there is none.

    Context and patches make forecasts right where members are wrong, and are judged by squared error. The refinement
    weighs members anew: where all of them are models, it is judged by what sets their actions apart, as the weights of
    the stack are.
    """
    outputs, labels = chunk.outputs, chunk.labels
    before, after = found[max(len(found) - 2, 0)].forecast, found[-1].forecast
    judged = squared = squared_loss(labels, before) - squared_loss(labels, after)
    if out_of_fold.is_refined_last and outputs.models == len(outputs.actions):
        judged = _decision_loss(outputs, labels - before) - _decision_loss(outputs, labels - after)
    return UnitSums.of(np.stack([judged, squared]), chunk.units, chunk.weights)


def _decision_loss(outputs: MemberOutputs, residuals: Floats) -> Floats:
    """Return the squared error in what members' actions are worth beyond their mean, of every row."""
    missed = beyond_mean(dots_of_each(outputs.actions, [residuals])[:, 0], outputs.absent)
    return np.asarray(np.square(missed).sum(axis=0))
