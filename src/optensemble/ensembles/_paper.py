"""The fit that the paper's two ensembles share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.progress import Progress, Stage, as_progress, silent
from optensemble._core.validation import as_flag, require_choice, require_number
from optensemble.ensembles._decision_rows import as_engine, needed_columns
from optensemble.ensembles._own_members import NOTHING_SAID, refuse_streamed
from optensemble.ensembles._paper_answers import FittedPaper
from optensemble.ensembles._paper_fit import (
    Algorithm,
    DebiasedFit,
    FittingRows,
    cross_fitted_record,
    fit_baselines,
    fit_corrections,
    outcome_of,
    said_by,
    validated_record,
    validation_frame,
    warn_not_converged,
    warn_of_alpha,
    why_stopped,
)
from optensemble.ensembles._paper_streams import (
    AskedLook,
    Beginning,
    BlockStates,
    SourceLabels,
    Stream,
    require_passes,
    survey_labels,
)
from optensemble.ensembles.base import INIT
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.evaluation.data_sample import Finding
from optensemble.evaluation.data_warnings import find_forgotten_time, tell
from optensemble.exceptions import InputError
from optensemble.members.alignment import RowNames, require_set_columns, sorted_times
from optensemble.members.cross_fitting import Trainee, TrainingRows
from optensemble.members.estimators import wrapped
from optensemble.members.fingerprints import marks
from optensemble.members.fit_inputs import MISSING_LABELS, LabelledBatch, labelled_rows, named_batch, split_batches
from optensemble.members.labelled_rows import with_labels
from optensemble.members.query import Members
from optensemble.members.sources import RawBlocks, RowSource, SourceBlocks, around_rows
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_labels, pick_rows, require_rows, row_count
from optensemble.multicalibration.history import history_frame
from optensemble.multicalibration.loop import Callback, Run
from optensemble.stats.sample_size import MINIMUM_ROWS


class FitTerms(NamedTuple):
    """The terms of a fit, as the user gives them."""

    time_ordered: bool | None
    random_state: int | None
    missing_labels: str


def refuse_weights(weights: Any) -> None:
    """Refuse weights with advice, where a user of other estimators would expect them."""
    if weights is not None:
        raise InputError(
            "white and black boxes take no sample_weight: the paper's lemmas count rows. Repeat rows, or use "
            "DecisionEnsemble, which takes weights."
        )


def forgotten_time(terms: FitTerms, X: Any) -> list[Finding]:
    """Return whether rows are in time order that were not said to be, or not to be."""
    return find_forgotten_time(sorted_times(X)) if terms.time_ordered is None else []


class PaperEnsemble(FittedPaper):
    """The common ground of :class:`WhiteBoxEnsemble` and :class:`BlackBoxEnsemble`; not to be used itself."""

    def cross_fit(self, *, progress: Progress | None = None) -> Self:
        """Make the out-of-fold record and the baselines that ``validation=None`` leaves out.

        The fit is done anew without each of the folds in turn: this takes as long as five to ten fits, and the rows
        fitted on must be as they were. Afterwards :meth:`promise` has limits, and :meth:`audit` compares with average,
        stack, ridge and the mean label. With ``validation="cv"`` the fit has left both, and nothing is done.

        Parameters
        ----------
        progress
            Called as ``progress("cross-fitting", share)`` as work goes on. An error it raises is passed on, and the
            ensemble is then as it was before.

        Returns
        -------
        The ensemble itself.
        """
        told = as_progress(progress)
        with self._changing():
            self._require_fitted()
            if self.has_record:
                return self
            fitted, missing = self._as_it_stands(), self._why_no_record()
            rows = None if missing else fitted._fitting_rows()
            if rows is None or not np.array_equal(marks(*said_by(rows.start.outputs), rows.labels), self.fingerprints_):
                missing = missing or "the rows it was fitted on have changed since"
                raise InputError(
                    f"no record can be made: {missing}. Fit again, on at least {MINIMUM_ROWS} rows"
                    f"{' as arrays or a frame' if self._streamed else ''}."
                )
            from_mean = fitted._algorithm().from_mean
            fitted.record_ = cross_fitted_record(rows, fitted._stages, from_mean, fitted.terms_.sign, told)
            fitted._forecaster = fit_baselines(rows)
            self._become(fitted)
        return self

    def _prepare(self, X: Any, Y: Any, terms: FitTerms) -> Self:
        """Validate what can be validated beforehand, and return a copy to fit, so that a failure loses nothing."""
        fitted = self._ready(terms)
        require_rows(row_count(X))
        d = self.feasible.dimension
        named = named_batch(LabelledBatch(X, Y), RowNames(), d, time_ordered=fitted.time_ordered_)
        fitted._learn_names(named.names, named.X)
        require_set_columns(self.feasible, named.X, named.names.labels)
        batch = labelled_rows(named, d, terms.missing_labels)
        X, Y = batch.X, batch.labels
        require_rows(n := row_count(X))
        labels = as_labels(Y, n, d, self.M)
        fitted.terms_.require_enough(n)
        fitted.terms_ = replace(fitted.terms_, feasible=around_rows(fitted.terms_.feasible, [X]))
        fitted.grouping_ = fitted._learn_grouping(X)
        fitted._take_rows([batch._replace(labels=labels.copy())])
        return fitted

    def _take_rows(self, rows: Sequence[LabelledBatch]) -> None:
        """Keep rows, and where they come from, after those there are."""
        origins = {number: each.origin for number, each in enumerate(rows, start=len(self._rows)) if each.origin}
        if origins:
            self._origins = {**self._origins, **origins}
        self._rows = [*self._rows, *((batch.X, batch.labels) for batch in rows)]

    def _fit_members(
        self, n_jobs: int | None, progress: Progress, earlier: Mapping[str, Floats] = NOTHING_SAID
    ) -> None:
        """Fit members that are to be fitted; what they say out of fold is what is learned from.

        Rows of which none says anything, as the first ones of forward chaining, are left out. Members that an
        ``earlier`` fit has fitted are asked about the rows that have come since.
        """
        rows = [LabelledBatch(*each, origin=self._origins.get(number)) for number, each in enumerate(self._rows)]
        terms: dict[str, Any] = {"time_ordered": self.time_ordered_, "seed": self._seed}
        found = self._train(self._trainees(), rows, n_jobs=n_jobs, progress=progress, **terms)
        before = self.cross_fitted_ if earlier else []
        self._take_fitted(found, self.feasible.dimension)
        self.cross_fitted_ = [*before, *self.cross_fitted_]
        self._said = {**self._further(earlier), **found.said}
        if found.kept is not None:
            _, chosen = split_batches(rows, found.kept)
            self._rows, self._origins = [], {}
            self._take_rows(chosen)
            self.terms_.require_enough(len(found.kept))

    def _further(self, earlier: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return what members have said of all rows, given what they said of the first of them."""
        if not earlier:
            return {}
        known = len(next(iter(earlier.values())))
        new = pick_rows(TrainingRows.of([LabelledBatch(*each) for each in self._rows]).X, np.arange(known, self._count))
        if not row_count(new):
            return dict(earlier)
        start = self._start([new])
        outputs, names = start.outputs, [name for name, _ in self.members_]
        said = dict(
            zip(names, [*(outputs.sign * outputs.predictions), *outputs.actions[outputs.models :]], strict=True)
        )
        if start.initial is not None:
            said[INIT] = start.initial
        return {name: np.concatenate([each, said[name]]) for name, each in earlier.items()}

    @property
    def _count(self) -> int:
        return sum(len(labels) for _, labels in self._rows)

    @abstractmethod
    def _trainees(self) -> list[Trainee]:
        """Return the members that are to be fitted."""

    def _fitted_again(self, rows: list[LabelledBatch]) -> Self:
        joined = TrainingRows.of(rows)
        again = self._same_parameters()
        for what in self.member_parameters if self.cross_fitted_ else ():
            members = getattr(again, what)
            setattr(again, what, None if members is None else self._as_given(members))
        fit: Any = getattr(again, "fit")  # noqa: B009  (each of the two ensembles has its own)
        fitted: Self = fit(joined.X, joined.labels, time_ordered=self.time_ordered_, random_state=self._seed)
        return fitted

    def _ready(self, terms: FitTerms) -> Self:
        """Return a copy that has the parameters, which are checked, and no rows yet."""
        time_ordered, random_state, missing_labels = terms
        self._check_parameters(stacklevel=5)
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [True, False, None])
        if random_state is not None:
            require_number(random_state, "random_state", at_least=0, whole=True)
        fitted = self._same_parameters()
        fitted.terms_, fitted.time_ordered_ = Hyperparameters.of(self), bool(time_ordered)
        fitted.log_, fitted._stages, fitted._seed = (), [], random_state
        fitted._rows, fitted._streamed, fitted._forecaster, fitted._doubts = [], False, None, ()
        fitted._said, fitted.cross_fitted_ = NOTHING_SAID, []
        return fitted

    def _check_parameters(self, stacklevel: int = 4) -> None:
        """Validate the parameters; ``stacklevel`` is the number of calls from here to the user's."""
        if self.groups is not None:
            warnings.warn(
                "groups= is now called subgroups=: groups are rows that belong together. Give subgroups= instead.",
                FutureWarning,
                stacklevel=stacklevel,
            )
        Hyperparameters.of(self).check()

    def _learn(self, fitted: Self, rows: FittingRows, callback: Callback | None, progress: Progress = silent) -> Run:
        """Debias on all rows from where the log has come to, and become what was fitted."""
        said = marks(*said_by(rows.start.outputs), rows.labels)
        known = fitted._knows_its_rows
        fitted.fingerprints_ = said if known else np.concatenate([fitted.fingerprints_, said])
        algorithm = fitted._algorithm()
        fit = fit_corrections(rows, fitted.terms_, algorithm, fitted.log_, callback, progress)
        fitted._stages = [*fitted._stages, fit.stage]
        fitted.log_ = (*fitted.log_, fit.run.log)
        if fit.validation is not None:
            fitted.validation_ = validation_frame(fit.validation)
            fitted.record_ = validated_record(fit.validation, fitted.terms_.sign, rows)
            fitted._forecaster = fit_baselines(rows)
        fitted._conclude(fit, algorithm)
        self._become(fitted)
        return fit.run

    def _learn_source(
        self,
        source: RowSource,
        terms: FitTerms,
        engine: Any,
        callback: Callback | None,
        told: Progress,
    ) -> Run:
        """Debias on rows that are read pass by pass, and become what was fitted; ``terms`` are as of :meth:`_ready`."""
        from optensemble.tables.scratch import FolderScratch, scratch_folder

        fitted, engine = self._ready(terms), as_engine(engine, None)
        require_passes(fitted.terms_)
        fitted._take_members()
        refuse_streamed(fitted._trainees())
        fitted.members_ = [(name, wrapped(each, name, self.feasible.dimension)) for name, each in fitted.members_]
        require_rows(source.row_count)
        fitted._learn_names(source.names)
        omega = fitted.terms_.feasible
        columns = needed_columns([*fitted.members_, *fitted._asked_first()], [fitted.terms_.subgroups], omega)
        source = source if columns is None else source.only(columns)
        with scratch_folder() as folder:
            with Stage(told, "asking members", 3 * RawBlocks(source).count) as step:
                if terms.missing_labels == "drop":
                    source = with_labels(source, omega.dimension, engine, silent)
                labels = survey_labels(source, engine, fitted.terms_, step)
                if labels.survey.box is not None:
                    fitted.terms_ = replace(fitted.terms_, feasible=omega.enveloped(*labels.survey.box))
                values = labels.survey.values
                known = None if values is None else Subgroups.of_values(fitted.terms_.subgroups, values)
                fitted.grouping_ = None if known is None else known.grouping
                query = replace(fitted._query(), models=[*fitted._asked_first(), *fitted._query().models])
                blocks = SourceBlocks(source, query, scratch=FolderScratch(folder, "members"))
                states = BlockStates(fitted._beginning(labels), FolderScratch(folder, "rounds"))
                stream, algorithm = Stream(blocks, engine, states, labels), fitted._algorithm()
                first = stream.first(algorithm, step)
            fitted._look_at_members(first)
            fit = stream.fit(first, fitted.terms_.debiasing(algorithm.layout), callback)
        fitted._streamed, fitted._stages, fitted.log_ = True, [fit.stage], (fit.run.log,)
        fitted.fingerprints_ = first.marks.hashes if first.marks.telling else first.marks.hashes[:0]
        fitted._conclude(fit, algorithm)
        self._become(fitted)
        return fit.run

    # What the two algorithms differ in when rows are read pass by pass

    @abstractmethod
    def _take_members(self) -> None:
        """Take the members as they were given."""

    def _asked_first(self) -> Members:
        """Return the model that a black box begins with, if it is one."""
        return []

    def _beginning(self, labels: SourceLabels) -> Beginning:
        """Return how the state of a block begins."""
        return Beginning()

    def _look_at_members(self, first: AskedLook) -> None:
        """Keep what looks like a mistake in rows of a source: members that seem to have been trained on them."""

    @abstractmethod
    def _find_doubts(self, rows: FittingRows) -> tuple[Finding, ...]:
        """Return what looks like a mistake in rows in memory, whose labels may have names."""

    def _conclude(self, fit: DebiasedFit, algorithm: Algorithm) -> None:
        """Learn how the fit went, and the tables of guarantees."""
        terms, ending, found = self.terms_, fit.ending, fit.ending.consistency
        self.schedule_, self.shrinkage_, self.min_cell_ = fit.how.schedule, fit.how.shrinkage, fit.how.min_cell
        self.worst_violation_, self.n_thin_ = found.worst, found.below
        self.converged_, self.stopped_ = bool(found.worst <= terms.alpha), why_stopped(fit)
        models = self.names_[len(self.names_) - len(fit.run.patches) :]
        self.history_ = history_frame(fit.history, self.names_, models)
        self.M_ = ending.largest_label if terms.M is None else float(terms.M)
        self.n_rows_, self.n_rounds_ = ending.sums.rows, len(fit.run.log.rounds)
        self.n_patches_, self.n_solves_ = fit.run.patches, ending.solves
        outcome = outcome_of(fit, algorithm)
        self._tabulate(outcome, outcome.setting(terms.feasible, terms.alpha, terms.bucket_width, self.M_))

    def _announce(self, run: Run, told: Sequence[Finding] = ()) -> None:
        """Warn of what the user should know, and pass on an interrupt once everything is in its place."""
        if run.interrupted:
            raise KeyboardInterrupt
        tell(self._doubts, told, stacklevel=4)
        if self.n_rounds_ == 0 and self.alpha >= 2 * self.M_:
            warn_of_alpha(self.alpha, self.M_)
        if not self.converged_ and not self.terms_.validated:
            warn_not_converged(self.stopped_, finished=run.finished)
