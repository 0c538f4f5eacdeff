"""The fit of Algorithms 2 and 3: functions of rows and hyperparameters; what the algorithms differ in are arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble._core.progress import Progress, silent
from optensemble.ensembles.cross_validation import CrossValidation, FittedStage, Study, cross_validate
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.ensembles.starting_point import StartingPoint
from optensemble.evaluation.fitting_sums import FittingSums
from optensemble.evaluation.lemmas_in_sample import PaperOutcome
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.possible_payoffs import LabelRange
from optensemble.members.blocks import ArrayBlocks, Block
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.corrections import replay
from optensemble.multicalibration.events import Layout, PartNames
from optensemble.multicalibration.history import VIOLATION, Recorder
from optensemble.multicalibration.loop import Callback, Consistency, Run, debias, measure_consistency
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.resolution import require_resolution
from optensemble.multicalibration.schedules import Debiasing
from optensemble.multicalibration.state import Situation
from optensemble.stacking.baselines import learn_baselines
from optensemble.stacking.forecaster import Forecaster
from optensemble.stats.row_design import RowDesign
from optensemble.stats.sample_size import MINIMUM_ROWS
from optensemble.stats.sampling import Sampling


@dataclass(frozen=True)
class Algorithm:
    """What Algorithms 2 and 3 differ in, beside their members: the cells, and the start."""

    layout: Layout
    names: list[str]
    parts: PartNames
    from_mean: bool = False
    coordinates: Sequence[str] = ()


@dataclass(frozen=True)
class FittingRows:
    """The rows of a fit, asked once, with their labels in the user's units."""

    start: StartingPoint
    labels: Floats
    time_ordered: bool
    seed: int | None
    again: Callable[[], StartingPoint]
    """Asks the members once more: an interrupt may leave a round half done."""

    @property
    def label_range(self) -> LabelRange:
        """The least and the largest label."""
        return LabelRange.of(self.labels)

    def study(self, from_mean: bool) -> Study:
        """Return the rows as a study of what is learned out of fold."""
        return Study(self.start, self.labels, from_mean, Sampling(self.time_ordered), self.seed)


@dataclass(frozen=True)
class Ending:
    """The state in the end, on all fitting rows.

    Attributes
    ----------
    consistency
        The violations left.
    entry
        The last line of the history.
    solves
        The number of rows handed to the solver.
    largest_label
        In absolute value.
    sums
        What the lemmas ask.
    """

    consistency: Consistency
    entry: Floats
    solves: int
    largest_label: float
    sums: FittingSums


@dataclass(frozen=True)
class DebiasedFit:
    """The outcome of a fit: the debiasing done, the state in the end, and what cross-validation chose."""

    how: Debiasing
    run: Run
    ending: Ending
    validation: CrossValidation | None = None

    @property
    def history(self) -> Floats:
        """The history of all rounds, and the state in the end."""
        last = self.ending.entry
        return np.concatenate([self.run.history.reshape(-1, len(last)), last[None]])

    @property
    def stage(self) -> FittedStage:
        """The debiasing as it can be done again: with as many rounds as were made."""
        return FittedStage(self.how._replace(max_rounds=len(self.run.log.rounds)), self.ending.sums.rows)


def fit_corrections(
    rows: FittingRows,
    terms: Hyperparameters,
    algorithm: Algorithm,
    earlier: tuple[PatchLog, ...],
    callback: Callback | None,
    progress: Progress = silent,
) -> DebiasedFit:
    """Debias on all rows from where the earlier logs have come to."""
    situation = rows.start.situation()
    require_resolution(terms.alpha, rows.labels, situation.predictions)
    how, validation = terms.debiasing(algorithm.layout), None
    if terms.validated:
        study = rows.study(algorithm.from_mean)
        validation = cross_validate(study, how, terms.shrinkages(how), terms.sign, progress)
        how = how._replace(shrinkage=validation.chosen.shrinkage, max_rounds=validation.chosen.rounds)
    replay_all(situation, earlier)
    run = debias(situation, rows.labels, how, callback)
    if run.interrupted:
        if terms.validated:
            raise KeyboardInterrupt  # the record is one of all rounds
        situation = replay_all(rows.again().situation(), (*earlier, run.log))  # the last round may be half done
    return DebiasedFit(how, run, _ending(situation, rows.labels, how), validation)


def said_by(outputs: MemberOutputs) -> list[Floats]:
    """Return what rows are known again by: members' own outputs in the user's units, parameters of rows' sets.

    Where members are fitted here it is the rows' own contents.
    """
    own = [outputs.omega.values] if outputs.omega.varies else []
    if outputs.contents is not None:
        return [outputs.contents, *own]
    return [*(outputs.sign * outputs.predictions), *outputs.actions[outputs.models :], *own]


def replay_all(situation: Situation, logs: tuple[PatchLog, ...]) -> Situation:
    """Make the corrections of all logs, in place."""
    for log in logs:
        replay(situation, log)
    return situation


def _ending(situation: Situation, labels: Floats, how: Debiasing) -> Ending:
    """Measure the state in the end afresh."""
    found = measure_consistency(situation, labels, how.layout, how.min_cell)
    return Ending(
        consistency=found,
        entry=Recorder(situation, labels).entry(found.worst),
        solves=situation.solves,
        largest_label=float(np.abs(labels).max()),
        sums=FittingSums.of(situation, labels, how.layout.partitions),
    )


def outcome_of(fit: DebiasedFit, algorithm: Algorithm) -> PaperOutcome:
    """Return the fit as the lemmas see it."""
    history, members = fit.history, len(fit.run.patches)
    return PaperOutcome(
        sums=fit.ending.sums,
        run=fit.run,
        before=history[0, -members:].tolist(),
        after=history[-1, -members:].tolist(),
        rounds=int((history[:-1, VIOLATION] > fit.how.alpha).sum()),
        worst=fit.ending.consistency.worst_of_all,
        names=algorithm.names,
        parts=(algorithm.layout.partitions, algorithm.parts),
        coordinates=algorithm.coordinates,
    )


def why_stopped(fit: DebiasedFit) -> str:
    """Return why a fit ended where it did, in words."""
    found = fit.ending.consistency
    run, rounds, least, alpha = fit.run, len(fit.run.log.rounds), fit.how.min_cell, fit.how.alpha
    tried = 0 if fit.validation is None else len(fit.validation.candidates)
    left = f"the worst violation left is {found.worst:.3g}, above alpha={alpha:g}"
    if tried > 1 and rounds == 0:
        reason = "no correction earned more out of fold than none"
    elif found.worst <= alpha:
        reason = f"every cell {f'of at least {least} rows ' if found.below else ''}is within alpha"
    elif tried > 1:
        reason = f"of all that was tried, {rounds} round{'s' if rounds > 1 else ''} earned most out of fold; {left}"
    elif run.interrupted:
        reason = f"interrupted after {rounds} rounds; {left}"
    elif run.finished:
        reason = f"a full cycle saw no violation above alpha, but its own patches brought one back; {left}"
    else:
        reason = f"max_rounds={rounds} reached; {left}"
    left_out = f" ({found.below:,} of {found.occupied:,} cells have fewer than {least} rows and were left as they are)"
    return reason + (left_out if found.below else "")


def validation_frame(found: CrossValidation) -> pd.DataFrame:
    """Return a row for every candidate of a cross-validation, the simplest first."""
    candidates = found.candidates
    return pd.DataFrame(
        {
            "shrinkage": [np.nan, *(candidate.shrinkage for candidate in candidates[1:])],
            "rounds": [candidate.rounds for candidate in candidates],
            "realised": np.stack([candidate.realised for candidate in candidates]).mean(axis=1),
            "promised": np.stack([candidate.promised for candidate in candidates]).mean(axis=1),
            "gain": found.gains.mean(axis=1),
            "standard_error": found.errors,
            "chosen": np.arange(len(candidates)) == found.number,
        }
    )


def validated_record(found: CrossValidation, sign: float, rows: FittingRows) -> Record:
    """Return the out-of-fold record of the candidate chosen."""
    terms = sign, rows.time_ordered
    return Record(found.chosen.promised, found.chosen.realised, *terms, curse=found.bias, labels=rows.label_range)


def cross_fitted_record(
    rows: FittingRows, stages: list[FittedStage], from_mean: bool, sign: float, progress: Progress = silent
) -> Record:
    """Return the out-of-fold record of a fit that was not validated: its stages done anew without each fold in turn."""
    ((_, (promised, realised)),) = rows.study(from_mean).out_of_fold(
        stages, [stages[-1].how], "cross-fitting", progress
    )
    return Record(promised[-1], realised[-1], sign, rows.time_ordered, labels=rows.label_range)


def fit_baselines(rows: FittingRows) -> Forecaster | None:
    """Fit average, stack, ridge and mean label to the members' outputs; None where the rows are too few."""
    if len(rows.labels) < MINIMUM_ROWS:
        return None
    outputs = rows.start.outputs
    blocks = ArrayBlocks(Block(0, outputs, outputs.sign * rows.labels))
    return learn_baselines(blocks, RowDesign(blocks.row_count, rows.time_ordered, rows.seed or 0))


def warn_of_alpha(alpha: float, largest: float) -> None:
    """Warn of a tolerance in other units than the labels'."""
    warnings.warn(
        f"alpha={alpha:g} is more than labels of size {largest:g} can be wrong by: nothing was corrected. "
        "Alpha is in the units of the labels; take a smaller one.",
        UserWarning,
        stacklevel=4,
    )


def warn_not_converged(stopped: str, *, finished: bool) -> None:
    """Warn of a violation that is left."""
    from optensemble.exceptions import NotConvergedWarning

    advice = "Take a smaller alpha, or schedule='frozen'" if finished else "Allow more rounds, or more alpha"
    warnings.warn(f"debiasing did not converge: {stopped}. {advice}.", NotConvergedWarning, stacklevel=4)
