"""The fit of Algorithms 2 and 3 on rows that are read pass by pass; see :mod:`optensemble.multicalibration.passes`.

Between passes every block of rows waits on disk as far as it has come. What is not there is made again from the log of
corrections, which is sent along with every pass: it does not matter who looks at which block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.engine import BLOCK_ROWS, Engine
from optensemble._core.exact_sums import add_rows
from optensemble._core.sums import LARGEST, Sums
from optensemble.ensembles._paper_fit import Algorithm, DebiasedFit, Ending, said_by
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.ensembles.starting_point import StartingPoint
from optensemble.evaluation.fitting_sums import FittingSums
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.blocks import Block
from optensemble.members.fingerprints import Marks, fingerprints
from optensemble.members.outputs import MemberOutputs
from optensemble.members.sources import (
    RawBlock,
    RawBlocks,
    RowSource,
    Scratch,
    SourceBlocks,
    Survey,
    SurveyPass,
    survey_rows,
)
from optensemble.members.validation import as_labels, row_count
from optensemble.multicalibration.corrections import correct
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.history import SOLVES
from optensemble.multicalibration.loop import Callback, Consistency
from optensemble.multicalibration.passes import Guess, Look, debias_in_passes, look_well
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.resolution import require_resolution
from optensemble.multicalibration.schedules import TABLE_SOLVES, Debiasing
from optensemble.multicalibration.state import Situation

Step = Callable[[int], None]


def require_passes(terms: Hyperparameters) -> None:
    """Refuse what needs all rows in memory."""
    if terms.validated:
        raise InputError(
            f"validation={terms.validation!r} needs all rows in memory, and these are read from a source as they are "
            "needed. Give validation=None, or the rows as arrays or a frame."
        )
    if terms.schedule_in_use not in TABLE_SOLVES:
        raise InputError(
            f"schedule={terms.schedule_in_use!r} needs all rows in memory, and these are read from a source as they "
            "are needed. Give schedule='joint' or 'frozen', or the rows as arrays or a frame."
        )


def require_in_memory(X: Any, *, streamed: bool) -> None:
    """Refuse to extend by rows of a source, or an ensemble that was fitted on such rows."""
    if streamed or isinstance(X, RowSource):
        raise InputError(
            "extend needs all rows in memory, and these are read from a source as they are needed. Fit again, with all "
            "policies, on a source of all rows."
        )


# Before members are asked


@dataclass(frozen=True)
class LabelPass:
    """What to look for in rows before members are asked; sums are made once the largest label is known."""

    omega: FeasibleSet
    M: float | None
    subgroups: Any
    rows: int
    largest: float | None = None


@dataclass(frozen=True)
class LabelLook(Sums):
    """The values of subgroups, the largest label in absolute value, and the limbs of the labels' sum."""

    survey: Survey
    largest: float = field(metadata=LARGEST)
    high: Floats
    low: Floats


def look_at_labels(block: RawBlock, state: LabelPass) -> LabelLook:
    """Look at some rows before members are asked."""
    d = state.omega.dimension
    labels = np.concatenate([as_labels(piece.labels, row_count(piece.X), d, state.M) for piece in block.pieces])
    high, low = np.zeros((1, d)), np.zeros((1, d))
    if state.largest is not None:
        everywhere, counts = np.zeros((len(labels), 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
        add_rows(everywhere, labels, state.largest, state.rows, counts, high, low)
    survey = survey_rows(block, SurveyPass(None, None if state.largest is not None else state.subgroups, state.omega))
    return LabelLook(survey, float(np.abs(labels).max(initial=0.0)), high, low)


@dataclass(frozen=True)
class SourceLabels:
    """The values of subgroups in a source, the largest label in absolute value, and the labels' mean."""

    survey: Survey
    largest: float
    mean: Floats


def survey_labels(source: RowSource, engine: Engine, terms: Hyperparameters, step: Step) -> SourceLabels:
    """Look at all rows before members are asked, and a second time for the exact mean."""
    blocks = RawBlocks(source)
    asked = LabelPass(terms.feasible, terms.M, terms.subgroups, source.row_count)
    first = engine.run(look_at_labels, blocks, asked, step)
    summed = engine.run(look_at_labels, blocks, replace(asked, largest=first.largest), step)
    return SourceLabels(first.survey, first.largest, (summed.high + summed.low)[0] / source.row_count)


# Blocks, as far as they have come


@dataclass(frozen=True)
class Beginning:
    """How the state of a block begins: with models' own predictions, a mean, or those of the first model asked."""

    mean: Floats | None = None
    by_model: bool = False

    def __call__(self, outputs: MemberOutputs) -> StartingPoint:
        """Return the starting point of some rows."""
        if self.by_model:
            alone = replace(outputs, predictions=outputs.predictions[:0], actions=outputs.actions[1:])
            return StartingPoint(alone, outputs.sign * outputs.predictions[0])
        if self.mean is None:
            return StartingPoint(outputs)
        return StartingPoint(outputs, np.broadcast_to(self.mean, (outputs.count, len(self.mean))))


@dataclass(frozen=True)
class BlockStates:
    """Where blocks of rows wait between passes, and how they are brought up to date with a log."""

    begin: Beginning
    scratch: Scratch | None

    def situation(self, block: Block, log: PatchLog) -> Situation:
        """Return the situation of a block after all corrections of a log."""
        start, number = self.begin(block.outputs), block.start // BLOCK_ROWS
        kept = None if self.scratch is None else self.scratch.load(number)
        if kept is None or kept["rounds"] > len(log.rounds):
            situation, done = start.situation(), -1
        else:
            situation, done = start.resumed(kept["predictions"], kept["actions"], int(kept["solves"])), kept["rounds"]
        for patches in log.rounds[max(int(done), 0) :]:
            correct(situation, log.layout, patches)
        if self.scratch is not None and done < len(log.rounds):
            own = situation.actions[situation.given :]
            counts = {"rounds": np.int64(len(log.rounds)), "solves": np.int64(situation.solves)}
            self.scratch.keep(number, {"predictions": situation.predictions, "actions": own, **counts})
        return situation


@dataclass(frozen=True)
class PaperPass:
    """A pass over all rows as they are after the corrections of a log."""

    states: BlockStates
    layout: Layout
    log: PatchLog
    guess: Guess


@dataclass(frozen=True)
class AskedLook(Sums):
    """What is known once members were asked: marks of the rows, the largest prediction, the largest residuals.

    ``missed`` are the squared errors of every model by coordinate, ``spread`` the labels' around their mean.
    """

    marks: Marks
    largest: float = field(metadata=LARGEST)
    tops: Floats = field(metadata=LARGEST)
    missed: Floats
    spread: Floats


@dataclass(frozen=True)
class AskingPass:
    """The pass that asks members."""

    states: BlockStates
    layout: Layout
    rows: int
    mean: Floats


def ask_block(block: Block, state: AskingPass) -> AskedLook:
    """Ask members about a block, and make its state."""
    situation, labels = state.states.situation(block, PatchLog(state.layout)), block.outputs.sign * block.labels
    said = said_by(state.states.begin(block.outputs).outputs)
    residuals = labels - situation.predictions
    return AskedLook(
        marks=Marks.of(fingerprints(*said, labels), state.rows, *said, labels),
        largest=float(np.abs(situation.predictions).max(initial=0.0)),
        tops=np.abs(residuals).max(axis=(1, 2)),
        missed=np.square(residuals).sum(axis=1),
        spread=np.square(labels - state.mean).sum(axis=0),
    )


@dataclass(frozen=True)
class RoundLook(Sums):
    """What a round needs to know."""

    look: Look


def look_at_round(block: Block, state: PaperPass) -> RoundLook:
    """Bring a block up to date with the log, and look at its cells."""
    labels = block.outputs.sign * block.labels
    return RoundLook(Look.at(state.states.situation(block, state.log), labels, state.layout, state.guess))


@dataclass(frozen=True)
class LastLook(Sums):
    """What the end of a fit is measured by."""

    look: Look
    sums: FittingSums


def look_last(block: Block, state: PaperPass) -> LastLook:
    """Look at a block after the last round."""
    situation, labels = state.states.situation(block, state.log), block.outputs.sign * block.labels
    sums = FittingSums.of(situation, labels, state.layout.partitions)
    return LastLook(Look.at(situation, labels, state.layout, state.guess), sums)


@dataclass(frozen=True)
class Stream:
    """The rows of a fit that are read pass by pass: blocks with what members say of them, and who runs a pass."""

    blocks: SourceBlocks
    engine: Engine
    states: BlockStates
    labels: SourceLabels

    def first(self, algorithm: Algorithm, step: Step) -> AskedLook:
        """Ask members about all rows."""
        asked = AskingPass(self.states, algorithm.layout, self.blocks.row_count, self.labels.mean)
        return self.engine.run(ask_block, self.blocks, asked, step)

    def fit(self, first: AskedLook, how: Debiasing, callback: Callback | None) -> DebiasedFit:
        """Debias on all rows."""
        require_resolution(how.alpha, np.array([self.labels.largest]), np.array([first.largest]))
        guess = Guess.first(how.layout, self.blocks.row_count, tuple(first.tops.tolist()))

        def seen(log: PatchLog, asked: Guess) -> RoundLook:
            state = PaperPass(self.states, how.layout, log, asked)
            return self.engine.run(look_at_round, self.blocks, state)

        run, guess = debias_in_passes(seen, guess, how, callback)

        def last(asked: Guess) -> LastLook:
            return self.engine.run(look_last, self.blocks, PaperPass(self.states, how.layout, run.log, asked))

        ended, _ = look_well(last, guess.without_overlaps, how, overlaps=False)
        return DebiasedFit(how, run, self._ending(ended, how))

    def _ending(self, found: LastLook, how: Debiasing) -> Ending:
        look, worst = found.look, found.look.worst(how.min_cell)
        consistency = Consistency(worst, look.worst(), *look.count_below(how.min_cell))
        entry = look.entry(worst)
        return Ending(consistency, entry, int(entry[SOLVES]), self.labels.largest, found.sums)
