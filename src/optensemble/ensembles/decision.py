"""DecisionEnsemble: models, policies or both in, one policy out, with a promise that holds out of sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from optensemble._core.engine import Engine
from optensemble._core.progress import Progress, Stage, as_progress
from optensemble._core.validation import as_flag, require_choice, require_number, require_options
from optensemble.ensembles._decision_members import DecisionMembers
from optensemble.ensembles._decision_rows import (
    FitOptions,
    as_batch,
    as_engine,
    common_rule,
    is_streamed,
    known_clusters,
    member_room,
    needed_columns,
    survey_source,
    with_keys,
)
from optensemble.ensembles._decision_update import merge_in_time
from optensemble.ensembles._own_members import refuse_streamed
from optensemble.ensembles._watch import monitor_of
from optensemble.evaluation.data_sample import Finding
from optensemble.evaluation.data_warnings import (
    find_forgotten_time,
    find_trained_on,
    merge_findings,
    tell,
)
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import require_set
from optensemble.members.absence import warn_of_absence
from optensemble.members.alignment import RowNames, require_set_columns, sorted_times
from optensemble.members.blocks import ArrayBlocks
from optensemble.members.estimators import wrapped
from optensemble.members.fingerprints import alike_by_nature, repeat_notes
from optensemble.members.fit_inputs import (
    MISSING_LABELS,
    LabelledBatch,
    as_member_list,
    checked_batches,
    group_hashes,
    require_enough,
    unlabelled_notes,
)
from optensemble.members.labelled_rows import with_labels
from optensemble.members.mending import Mending, Tally
from optensemble.members.sources import RawBlocks, RowSource, Scratch, SourceBlocks, SurveyPass, around_rows, as_source
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_members, row_count
from optensemble.stats.row_design import ClusterTable, RowDesign

if TYPE_CHECKING:
    from optensemble.ensembles._decision_fit import DecisionData

_FIT_KEYWORDS = ("time_ordered", "groups", "sample_weight", "missing_labels", "ids")


class DecisionEnsemble(DecisionMembers):
    """One policy from models, policies or both, honest out of sample.

    Nothing is to be tuned. Everything that is kept, chosen or promised is judged out of fold: a stack of what the
    members say; a refinement of it or a correction by columns of X, and a multicalibration patch (the paper's cells),
    each only if it lowers the out-of-fold loss; in every row the candidate of the highest *calibrated* assessment; and
    if a simple baseline beats all that, the baseline. The promise is calibrated by its own out-of-fold record. (A few
    numbers, such as the penalty of a ridge and the weights of a blend, are chosen on all rows.)

    Parameters
    ----------
    models
        Pairs of a name and a model: an estimator that is not fitted yet, which is cross-fitted here; or one that is
        fitted, on other rows, and taken as it is: anything with ``predict(X) -> (n, d)``, a callable, or
        :class:`Columns` of a table. Estimators of one output are fitted once for each label; a list of estimators, one
        for each label, is a model too.
    policies
        Pairs of a name and a policy that is known by its actions alone: a callable ``X -> (n, d)``, anything with
        ``decide(X)``, or :class:`Columns`; and with ``fit(X, Y)`` and ``decide(X)`` one to be cross-fitted, such as
        another ensemble.
    feasible
        The set Ω that actions are constrained to.
    sense
        ``"max"`` for payoffs, ``"min"`` for costs; everything is reported in the user's units and sense.
    subgroups
        A column of X, a list of columns, or a callable of X, if forecasts are to be unbiased on rows of each of its
        values too (a region, a weekday). The patch corrects values of at least 50 rows if that lowers the
        out-of-fold loss, and an audit looks at each. Values that no fitting row has are taken as they come.
    on_error
        What to do if a member fails on a batch of rows: ``"raise"`` its error, or take it for ``"absent"`` there, with
        a warning. (A member that says NaN in a row is absent in that row, whatever this says.)
    on_infeasible
        What to do with actions of policies that are outside Ω: ``"project"`` moves those that are off by rounding, by
        the ``tolerance`` at most, onto it, and ``notes_`` and :attr:`Answer.mended` count them; ``"raise"`` is an error
        for all of them. Those further outside are an error in any case.
    tolerance
        By how much an action may be outside and be mended, in the units of Ω; by default 1e-6 of its extent.
    cv
        How members that are not fitted yet are cross-fitted: a number of folds (5 if it is None), a splitter of
        scikit-learn or pairs of rows to fit and to judge on, whose judged rows must not overlap. What members say out
        of fold is what the ensemble learns from; each is then fitted again on all rows, to decide. Pairs number the
        rows of X as it is given to :meth:`fit`, rows that :meth:`extend` adds after them. Folds of a number
        keep groups and copies of a row together; in time order they are contiguous, with a gap of a hundredth of the
        rows at their edges. ``TimeSeriesSplit`` is forward chaining: rows before the first fold are only learned from.
        ``"prefit"`` takes all members as they are. An object with ``fit`` that does not follow scikit-learn's
        convention for what is fitted is taken as it is, unless ``cv`` is given. A file keeps a number of folds, but no
        splitter: a later :meth:`extend` takes five folds then, and of forward chaining it has no rows to go on from.
    context
        Columns of X that a forecast may look at beside what members say: names, patterns or numbers of columns;
        ``"auto"``, all numeric ones of an array or frame that no member reads as :class:`Columns` and that are no
        labels, groups, ids or weights, unless they are more than 256; columns that explain all of a label are left
        out. None or ``"off"``: none. In time order there is no context.

    Attributes
    ----------
    cross_fitted_
        The members that were fitted here.
    members_
        Pairs of a name and a member as it answers: those that were fitted here are fitted on all rows.
    names_
        The candidates it may follow: members, then the forecasts made of them. ``choose`` returns an index into it.
    winner_
        What decides: ``"ensemble"``, the calibrated choice among candidates, or what beat it.
    leaderboard_
        A frame: every candidate's out-of-fold payoff with its interval, the paired difference to the winner, what
        size of difference could be seen with these rows, promised beside realised, chosen or not, and why.
    finding_
        In a sentence, whether anything beats deciding by the mean label.
    guarantees_
        A frame: α-consistency and the lemmas that rest on it, measured out of fold, with intervals.
    labels_, feature_names_in_, n_features_in_
        The names of the labels, None if they had none; those of the columns of X, if it was a frame, and their number.
    notes_
        What was left out, and why; and which policies were moved onto Ω, in how many rows (of rows that are read from
        files: in some).
    record_
        Self-assessed and realised payoff, out of fold: what the promise rests on.
    monitor_
        The :class:`Monitor` of the promise of the fit, which is not redone: :meth:`update` shows it every row.
    refit_due_
        After :meth:`update`: why the ensemble should be fitted again; empty if it need not be.
    last_update_
        After :meth:`update`: how many ``rows`` with labels it was given; how many were ``taken_in``, ``skipped`` or
        ``changed``; and the ``promise`` that was in force for those taken in, beside what they ``realised``.

    Examples
    --------
    >>> import numpy as np
    >>> import optensemble as oe
    >>> from optensemble import feasible
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> Y = X + rng.normal(scale=0.5, size=(600, 2))
    >>> left, right = (lambda X: X * [1, 0]), (lambda X: X * [0, 1])
    >>> ensemble = oe.DecisionEnsemble(models=[("left", left), ("right", right)], feasible=feasible.Simplex(2))
    >>> ensemble.fit(X[:400], Y[:400]).decide(X[400:]).shape
    (200, 2)
    >>> promise = ensemble.promise(X[400:])
    >>> earned = (ensemble.decide(X[400:]) * Y[400:]).sum(axis=1).mean()
    >>> bool(promise.low <= earned <= promise.high)
    True
    """

    def __init__(
        self,
        models: Any = None,
        policies: Any = None,
        feasible: FeasibleSet | None = None,
        sense: str = "max",
        subgroups: Any = None,
        on_error: str = "raise",
        on_infeasible: str = "project",
        tolerance: float | None = None,
        cv: Any = None,
        context: Any = "auto",
    ) -> None:
        self.models = models
        self.policies = policies
        self.feasible = feasible
        self.sense = sense
        self.subgroups = subgroups
        self.on_error = on_error
        self.on_infeasible = on_infeasible
        self.tolerance = tolerance
        self.cv = cv
        self.context = context

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        time_ordered: bool | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
        ids: Any = None,
        **options: Unpack[FitOptions],
    ) -> Self:
        """Learn to decide: from rows that members were not trained on, or, where they are to be fitted, with them.

        A member may have no answer in some rows (NaN, or null in a column): it is absent there, is not followed, and
        forecasts are made of those present. Its absence is an event that forecasts are made unbiased on, and
        ``notes_`` counts the rows.

        Parameters
        ----------
        X
            What the members speak of: an array, or a frame (pandas, polars, pyarrow); :class:`Rows` of files, which are
            read as they are needed; or a Dask frame. At least 100 rows.
        Y
            The labels, of shape (n, d); of a Dask frame the names of their columns; of :class:`Rows` nothing. The index
            of a pandas frame is aligned with that of X; the names of its columns are those of the labels from now on.
        time_ordered
            Whether the rows are in time order. Then folds are contiguous, tests stricter and intervals wider, and rows
            are sorted by a time index of X. By default they are not, with a warning if X has sorted dates or times and
            there are no groups.
        groups
            A label for every row, a column of X, or a callable of X, if rows of the same label belong together (a
            customer, a day): they stay in one fold, and intervals allow for it. (Not to be mistaken for ``subgroups``.)
        sample_weight
            A weight for every row, a column of X, or a callable of X: the number of rows that a row counts for. Weights
            enter every sum; intervals go by the effective number of rows, ``(Σw)²/Σw²``. They are handed to members
            that are fitted here and take them; where scikit-learn's metadata routing is enabled, to those that ask for
            them, and so are groups.
        missing_labels
            What to do with rows that lack labels, wholly or in part: ``"raise"`` an error, or ``"drop"`` them;
            ``notes_`` counts them.
        ids
            An id for every row, a column of X, or a callable of X, by which :meth:`update` knows rows again; a hash of
            each is kept. Times will do: rows of one id are told apart by their numbers.
        random_state
            Seeds how rows are shuffled into folds, and random states of members fitted here that are None; the same
            seed gives the same bits, and None is a seed too.
        n_jobs
            How many threads share the blocks of rows, and how many fits of members run side by side; -1 is all. The
            result does not depend on it.
        progress
            Called as ``progress(stage, share)`` as work goes on: fitting members, asking members, cross-fitting,
            patching, choosing, verifying; the share of a stage ends with 1. What it raises ends the fit, and the
            ensemble is as it was.
        engine
            A ``dask.distributed.Client``, whose workers then share the work, or anything that runs a pass, see
            ``optensemble._core.engine.Engine``. By default this process. The result does not depend on it.
        """
        require_options(options, FitOptions, "fit", _FIT_KEYWORDS)
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        with self._changing():
            self._fit_rows([as_batch(X, Y, groups, sample_weight, ids)], time_ordered, missing_labels, options)
        return self

    def extend(
        self,
        *,
        models: Any = None,
        policies: Any = None,
        X: Any = None,
        Y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
        ids: Any = None,
        **options: Unpack[FitOptions],
    ) -> Self:
        """Fit again with further members, further rows, or both, and with all rows that :meth:`update` was given.

        Rows are added to those so far (labels are kept, X is kept by reference; a file has them unless they were
        forgotten). Where they are not there, fit again on all rows: ``extend`` refuses. The rows of a job with a column
        of times are sorted by it. Other parameters are as of :meth:`fit`.
        """
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        require_options(options, FitOptions, "extend")
        with self._changing():
            self._require_fitted()
            if not self._rows:
                raise InputError(f"{self._no_rows}: extend cannot go on from them. Fit again, on all rows: fit(X, Y).")
            if all(given is None for given in (models, policies, X, Y)) and not self._later:
                raise InputError("extend got nothing to go on with. Give models=, policies=, or X= and Y=.")
            if (X is None and Y is not None) or (Y is None and X is not None and not isinstance(X, RowSource)):
                raise InputError("extend needs X and Y together; got only one of them.")
            further = [] if X is None else [as_batch(X, Y, self._same_groups(groups), sample_weight, ids)]
            further = [self._in_order(batch, self._known) for batch in further]
            known = self._as_given(self.members_)
            members = (
                [*known[: self.n_models_], *as_member_list(models, "models")],
                [*known[self.n_models_ :], *as_member_list(policies, "policies")],
            )
            self._require_same_rows()
            if options.get("random_state") is None:
                options["random_state"] = self._seed
            wider = self._with_rows(
                [*self._rows, *self._later, *further], *members, missing_labels, options, self._doubts
            )
            self._become(wider)
        return self

    # Fitting

    def _fitted_again(self, rows: list[LabelledBatch]) -> Self:
        known = self._as_given(self.members_)
        members = known[: self.n_models_], known[self.n_models_ :]
        return self._with_rows(rows, *members, "raise", {"random_state": self._seed}, None)

    def _with_rows(
        self,
        rows: list[LabelledBatch],
        models: Any,
        policies: Any,
        missing_labels: str,
        options: FitOptions,
        told: Sequence[Finding] | None,
    ) -> Self:
        """Return an ensemble with the same parameters, fitted on these rows with these members."""
        wider = self._same_parameters()
        wider.models, wider.policies = models, policies
        rows = merge_in_time(rows, self._time_column)
        wider._fit_rows(rows, self.time_ordered_, missing_labels, options, told, self._context_columns)
        if self.table_ is not None:
            wider.table_ = self.table_
        return wider

    def _fit_rows(
        self,
        rows: list[LabelledBatch],
        time_ordered: bool | None,
        missing_labels: str,
        options: FitOptions,
        told: Sequence[Finding] | None = (),
        context: Sequence[Any] | None = None,
    ) -> None:
        """Learn on a copy, so that a failure or an interrupt loses nothing; warn of what was not ``told`` before.

        Where ``told`` is None nothing is: a fit again on rows of which most were looked at before. ``context`` are the
        columns of an earlier fit, if there was one.
        """
        from optensemble.ensembles._decision_fit import learn_decision  # not loaded by those who only decide
        from optensemble.stacking.leaderboard import leaderboard_frame

        progress, seed = as_progress(options.get("progress")), options.get("random_state")
        engine = as_engine(options.get("engine"), options.get("n_jobs"))
        fitted = self._with_terms(False if time_ordered is None else time_ordered, seed)
        roles = [rule for batch in rows for rule in (batch.groups, batch.weights, batch.ids)]
        tally, rows = Tally(), fitted._named(rows)
        names, streamed = [name for name, _ in fitted.members_], is_streamed(rows)
        fitted._find_context(rows, roles, context)
        if streamed:
            with member_room(fitted.members_) as scratch:
                data, judged = fitted._streamed(rows, missing_labels, engine, progress, scratch, tally), rows
                doubts = fitted._look_at(data.first, names)
                fit = learn_decision(names, data, engine, progress)
        else:
            data, judged = fitted._in_memory(rows, missing_labels, options, tally)
            doubts = fitted._look_at(data.first, names)  # before rows are reordered
            fit = learn_decision(names, data, engine, progress)
        if time_ordered is None and fitted._groups is None:
            doubts += find_forgotten_time(sorted_times(rows[0].X))
        fitted._doubts = merge_findings(find_trained_on(fitted._given_fitted(), fit.scores), doubts)
        fitted.decider_, fitted.names_, fitted.winner_ = fit.policy, fit.names, fit.winner
        fitted.leaderboard_ = leaderboard_frame(fit.standings, fit.left_out)
        total = sum(batch.X.row_count if isinstance(batch.X, RowSource) else row_count(batch.X) for batch in rows)
        leading = sum(len(batch.labels) for batch in fitted._leading)
        together = not fitted.time_ordered_ and fitted._groups is None
        fitted.finding_, fitted.guarantees_ = fit.finding, fit.guarantees
        fitted.notes_ = [
            *fit.notes,
            *tally.notes(once=not streamed),
            *unlabelled_notes(total - data.design.rows - leading, total),
            *fitted._member_notes,
            *repeat_notes(fit.marks, data.design.rows, together=together, single=data.single),
        ]
        fitted._absences = tuple(number for number, count in enumerate(fit.absent) if count)
        fitted.record_, fitted.advantage_, fitted.fingerprints_ = fit.record, fit.advantage, fit.marks
        fitted.monitor_, fitted._watched = monitor_of(fit.record, fitted._sense), fit.record.calibration
        fitted._known_rows = with_keys(judged, fit.prints)
        if fit.policy.forecaster.context is None:
            fitted._context = None  # nothing looks at it
        fitted._mark_leading()
        fitted.n_rows_, fitted.n_updated_, fitted.refit_due_, fitted._later = data.design.rows, 0, "", []
        self._become(fitted)
        if told is not None:
            warn_of_absence(names, fit.absent, data.design.rows, stacklevel=4)
            tell(self._doubts, told, stacklevel=4)

    def _with_terms(self, time_ordered: bool, seed: int | None) -> Self:
        """Return an ensemble of the same parameters, which are checked, ready to learn."""
        models, policies = as_member_list(self.models, "models"), as_member_list(self.policies, "policies")
        omega = require_set(self.feasible)
        require_choice(self.sense, "sense", ["max", "min"])
        require_choice(self.on_error, "on_error", ["raise", "absent"])
        Mending(self.on_infeasible, self.tolerance).check()
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [True, False])
        if seed is not None:
            require_number(seed, "random_state", at_least=0, whole=True)
        fitted = self._same_parameters()
        if not models and not policies:
            raise InputError("no models or policies were given. Give pairs of a name and a member.")
        members = as_members([*models, *policies], "models and policies")
        fitted.members_ = [(name, wrapped(member, name, omega.dimension)) for name, member in members]
        fitted.n_models_ = len(models)
        fitted._take_terms(omega)
        fitted.time_ordered_, fitted._seed = time_ordered, seed
        return fitted

    def _named(self, rows: list[LabelledBatch]) -> list[LabelledBatch]:
        """Return all rows in the order of the names of the first, which are learned."""
        found, known = list[LabelledBatch](), RowNames()
        for batch in rows:
            found.append(self._in_order(batch, known))
            known = RowNames(known.labels or found[-1].names.labels, known.features or found[-1].names.features)
        self._learn_names(known, found[0].X)
        for batch in found:
            if not isinstance(batch.X, RowSource):
                require_set_columns(self._set, batch.X, known.labels)
        return found

    def _in_memory(
        self, rows: list[LabelledBatch], missing_labels: str, options: FitOptions, tally: Tally
    ) -> tuple[DecisionData, list[LabelledBatch]]:
        """Fit members that are to be fitted, and ask all of them about the rows to be judged on, which are returned."""
        self._rows, progress = (
            checked_batches(rows, self._set.dimension, missing_labels),
            as_progress(options.get("progress")),
        )
        self._set = around_rows(self._set, [batch.X for batch in self._rows])
        self._subgroups = Subgroups.learn(self.subgroups, [batch.X for batch in self._rows])
        judged, said = self._fit_members(options.get("n_jobs"), progress)
        groups = group_hashes(judged)
        blocks = ArrayBlocks.ask(self._query(tally), judged, groups, progress, said)
        table = None if groups is None else ClusterTable.of(groups, 0, blocks.rows.weights)
        return self._designed(blocks, table, options.get("n_jobs")), judged

    def _streamed(
        self,
        rows: list[LabelledBatch],
        missing_labels: str,
        engine: Engine,
        progress: Progress,
        scratch: Scratch | None,
        tally: Tally,
    ) -> DecisionData:
        """Ask members when rows are read; look first for groups and subgroups, if there are any."""
        refuse_streamed(self._trainees())
        groups, weights, self._rows = common_rule(rows, "groups"), common_rule(rows, "weights"), rows
        self._leading, self._member_notes = [], []
        source = as_source(rows)
        columns = needed_columns(self.members_, (groups, self.subgroups, weights, self._context_columns), self._set)
        source = source if columns is None else source.only(columns)
        passes = 2 if missing_labels == "drop" else 1
        with Stage(progress, "asking members", passes * RawBlocks(source).count) as step:
            if missing_labels == "drop":
                source = with_labels(source, self._set.dimension, engine, step)
            require_enough(source.row_count)
            found = survey_source(source, engine, SurveyPass(groups, self.subgroups, self._set, weights), step)
        self._set = self._set if found.box is None else self._set.enveloped(*found.box)
        self._subgroups = None if found.values is None else Subgroups.of_values(self.subgroups, found.values)
        return self._designed(SourceBlocks(source, self._query(tally), groups, scratch, weights), found.clusters)

    def _designed(
        self, blocks: ArrayBlocks | SourceBlocks, clusters: ClusterTable | None, n_jobs: int | None = None
    ) -> DecisionData:
        from optensemble.ensembles._decision_fit import DecisionData  # not loaded by those who only decide

        design = RowDesign(blocks.row_count, self.time_ordered_, self._seed or 0)
        design, self._groups = known_clusters(design, clusters)
        single = None
        if self.cross_fitted_ and isinstance(blocks, ArrayBlocks):
            single = alike_by_nature(blocks.rows.labels, *blocks.rows.outputs.known_by)
        return DecisionData(blocks, design, blocks.first, self._seed, n_jobs, self.cross_fitted_, single)

    def _take_terms(self, omega: FeasibleSet) -> None:
        """Keep the parameters of this fit: those set later wait for the next."""
        self._mending = Mending(self.on_infeasible, self.tolerance)
        self._set, self._sense, self._sign = omega, self.sense, 1.0 if self.sense == "max" else -1.0
