"""DecisionEnsemble: models, policies or both in, one policy out, with a promise that holds out of sample."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self, Unpack

from optensemble._core.engine import Engine
from optensemble._core.hashing import hash_labels
from optensemble._core.progress import Progress, Stage, as_progress
from optensemble._core.validation import as_flag, require_choice, require_number, require_options
from optensemble.ensembles._decision_answers import FittedDecision
from optensemble.ensembles._decision_fit import STALE, DecisionData, FitOptions, learn_decision, why_broken
from optensemble.ensembles._decision_rows import (
    as_batch,
    as_engine,
    common_groups,
    first_rows,
    is_streamed,
    known_clusters,
    member_room,
    needed_columns,
    survey_source,
)
from optensemble.evaluation.data_sample import Finding
from optensemble.evaluation.data_warnings import (
    find_data_warnings,
    find_trained_on,
    merge_findings,
    tell,
)
from optensemble.exceptions import InputError, RefitWarning
from optensemble.feasible import FeasibleSet
from optensemble.feasible.registry import require_set
from optensemble.members.blocks import ArrayBlocks
from optensemble.members.fingerprints import add_marks, count_seen, fingerprints
from optensemble.members.fit_inputs import (
    LabelledBatch,
    as_member_list,
    checked_batches,
    group_hashes,
    require_enough,
)
from optensemble.members.sources import RawBlocks, RowSource, Scratch, SourceBlocks, SurveyPass, around_rows, as_source
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_members, row_labels
from optensemble.stacking.leaderboard import leaderboard_frame
from optensemble.stats.row_design import ClusterTable, RowDesign

_SEEN = 0.1  # some rows may be alike by chance: a night without sun


class DecisionEnsemble(FittedDecision):
    """One policy from models, policies or both, honest out of sample.

    Nothing is to be tuned. Everything that is kept, chosen or promised is judged out of fold: a stack of what the
    members say; a refinement and a multicalibration patch (the paper's cells), each only if it lowers the out-of-fold
    loss; in every row the candidate of the highest *calibrated* assessment; and if a simple baseline beats all that,
    the baseline. The promise is calibrated by its own out-of-fold record. (A few numbers, such as the penalty of a
    ridge and the weights of a blend, are chosen on all rows.)

    Parameters
    ----------
    models
        Pairs of a name and a model that is already fitted, on other rows: anything with ``predict(X) -> (n, d)``, a
        callable, or :class:`Columns` of a table.
    policies
        Pairs of a name and a policy that is known by its actions alone: a callable ``X -> (n, d)``, anything with
        ``decide(X)``, or :class:`Columns`.
    feasible
        The set Ω that actions are constrained to.
    sense
        ``"max"`` for payoffs, ``"min"`` for costs; everything is reported in the user's units and sense.
    subgroups
        A column of X, a list of columns, or a callable of X, if forecasts are to be unbiased on rows of each of its
        values too (a region, a weekday). The patch corrects values of at least 50 rows if that lowers the
        out-of-fold loss, and an audit looks at each. Values that no fitting row has are taken as they come.

    Attributes
    ----------
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
    notes_
        What was left out, and why.
    record_
        Self-assessed and realised payoff, out of fold: what the promise rests on.
    data_warnings_
        What looks like a mistake in the rows fitted on, in sentences: labels among the inputs of a member, other units,
        columns in another order, and the like. Each is told by a :class:`~optensemble.exceptions.DataWarning` too.
    refit_due_
        After :meth:`update`: why the ensemble should be fitted again; empty if it need not be.

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
    ) -> None:
        self.models = models
        self.policies = policies
        self.feasible = feasible
        self.sense = sense
        self.subgroups = subgroups

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        time_ordered: bool = False,
        groups: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
        engine: Any = None,
    ) -> Self:
        """Learn to decide from rows that the members were not trained on.

        Parameters
        ----------
        X
            What the members speak of: an array, or a pandas or polars frame; :class:`Rows` of files, which are read
            as they are needed; or a Dask frame. At least 100 rows.
        Y
            The labels, of shape (n, d); of a Dask frame the names of their columns; of :class:`Rows` nothing.
        time_ordered
            Whether the rows are in time order. Then folds are contiguous, tests stricter and intervals wider.
        groups
            A label for every row, a column of X, or a callable of X, if rows of the same label belong together (a
            customer, a day): they stay in one fold, and intervals allow for it. (Not to be mistaken for ``subgroups``.)
        random_state
            Seeds how rows are shuffled into folds; the same seed gives the same bits, and None is a seed too.
        n_jobs
            How many threads share the blocks of rows; -1 is all. The result does not depend on it.
        progress
            Called as ``progress(stage, share)`` as work goes on: asking members, cross-fitting, patching, choosing,
            verifying; the share of a stage ends with 1. What it raises ends the fit, and the ensemble is as it was.
        engine
            A ``dask.distributed.Client``, whose workers then share the work, or anything that runs a pass, see
            ``optensemble._core.engine.Engine``. By default this process. The result does not depend on it.
        """
        with self._changing():
            options: FitOptions = {"random_state": random_state, "n_jobs": n_jobs, "progress": progress}
            self._fit_rows([as_batch(X, Y, groups)], time_ordered, {**options, "engine": engine})
        return self

    def extend(
        self,
        *,
        models: Any = None,
        policies: Any = None,
        X: Any = None,
        Y: Any = None,
        groups: Any = None,
        **options: Unpack[FitOptions],
    ) -> Self:
        """Fit again with further members, further rows, or both, and with all rows that :meth:`update` was given.

        Rows are added to those so far (labels are kept, X is kept by reference). An ensemble that was loaded from a
        file has none of these: it is fitted on the new rows alone, with a warning. ``random_state``, ``n_jobs`` and
        ``progress`` are as of :meth:`fit`.
        """
        require_options(options, FitOptions, "extend")
        with self._changing():
            self._require_fitted()
            if all(given is None for given in (models, policies, X, Y)) and not self._later:
                raise InputError("extend got nothing to go on with. Give models=, policies=, or X= and Y=.")
            if (X is None and Y is not None) or (Y is None and X is not None and not isinstance(X, RowSource)):
                raise InputError("extend needs X and Y together; got only one of them.")
            further = [] if X is None else [as_batch(X, Y, self._same_groups(groups))]
            if X is None and not self._rows and not self._later:
                raise InputError("the rows this ensemble was fitted on are not in its file. Give X= and Y= too.")
            if not self._rows:
                warnings.warn(
                    "the rows this ensemble was fitted on are not in its file: it is fitted on the new rows alone.",
                    UserWarning,
                    stacklevel=2,
                )
            wider = self.__sklearn_clone__()
            wider.models = [*self.members_[: self.n_models_], *as_member_list(models, "models")]
            wider.policies = [*self.policy_members, *as_member_list(policies, "policies")]
            self._require_same_rows()
            rows = [*self._rows, *self._later, *further]
            if options.get("random_state") is None:
                options["random_state"] = self._seed
            wider._fit_rows(rows, self.time_ordered_, options, self._doubts)
            if self.table_ is not None:
                wider.table_ = self.table_
            self._become(wider)
        return self

    def update(self, X: Any, Y: Any, *, groups: Any = None) -> Self:
        """Take in the labels of past decisions: the promise is redone, decisions stay as they are.

        The rows must be new: neither fitted on nor given before, in time order if those fitted on were, with groups if
        those had groups (a column name or a callable need not be given again). When it is time to fit again,
        ``refit_due_`` says why, and a :class:`RefitWarning` does; ``extend()`` does it.
        """
        with self._changing():
            updated = self._as_it_stands()
            updated._take_in(X, Y, groups)
            self._become(updated)
            if self.refit_due_:
                advice = "Call extend() to fit again with them" if self._rows else "Fit again, on all rows"
                warnings.warn(f"{self.refit_due_}. {advice}.", RefitWarning, stacklevel=2)
        return self

    def _take_in(self, X: Any, Y: Any, groups: Any) -> None:
        """Add rows to the record, and say whether it is time to fit again."""
        done, labels = self._decide_labelled(X, Y)
        outputs, decisions = done.outputs, done.decisions
        found, groups = fingerprints(*outputs.known_by, labels), self._same_groups(groups)
        seen = count_seen(found, self.fingerprints_)
        if seen > _SEEN * len(labels):
            raise InputError(f"{seen:,} of these {len(labels):,} rows were fitted on or given before. Give new ones.")
        clusters = None
        if groups is not None and self._groups is not None:
            clusters, self._groups = self._groups.number(hash_labels(row_labels(groups, X, outputs.count)))
        assessed, realised = (
            self._sign * decisions.assessed,
            self._sign * outputs.omega.value(decisions.actions, labels),
        )
        promised = self.record_.promise(assessed)
        self.record_ = self.record_.extend(assessed, realised, clusters)
        ahead, gained = done.beyond_members(labels)
        self.advantage_ = self.advantage_.extend(self._sign * ahead, self._sign * gained, clusters)
        if len(self.fingerprints_):
            self.fingerprints_ = add_marks(self.fingerprints_, found)
        before = self.n_updated_
        self.n_updated_ += len(labels)
        self._later = [*self._later, LabelledBatch(X, self._sign * labels, groups)]
        reasons = [self.refit_due_] if self.refit_due_ else []
        reasons += [broken] if (broken := why_broken(promised, float(realised.mean()))) else []
        if self.time_ordered_ and before < STALE * self.n_rows_ <= self.n_updated_:
            reasons.append(f"{self.n_updated_:,} rows have come since the fit on {self.n_rows_:,}")
        self.refit_due_ = "; ".join(reasons)

    # Fitting

    def _fit_rows(
        self, rows: list[LabelledBatch], time_ordered: bool, options: FitOptions, told: Sequence[Finding] = ()
    ) -> None:
        """Learn on a copy, so that a failure or an interrupt loses nothing; warn of what was not ``told`` before."""
        progress, seed = as_progress(options.get("progress")), options.get("random_state")
        engine = as_engine(options.get("engine"), options.get("n_jobs"))
        fitted = self._with_terms(time_ordered, seed)
        names = [name for name, _ in fitted.members_]
        if is_streamed(rows):
            with member_room(fitted.members_) as scratch:
                data = fitted._streamed(rows, engine, progress, scratch)
                doubts = find_data_warnings(first_rows(names, data.first, rows))
                fit = learn_decision(names, data, engine, progress)
        else:
            data = fitted._in_memory(rows, progress)
            doubts = find_data_warnings(first_rows(names, data.first, rows))  # before rows are put in another order
            fit = learn_decision(names, data, engine, progress)
        fitted._doubts = merge_findings(find_trained_on(fitted.members_, fit.scores), doubts)
        fitted.decider_, fitted.names_, fitted.winner_ = fit.policy, fit.names, fit.winner
        fitted.leaderboard_ = leaderboard_frame(fit.standings, fit.left_out)
        fitted.finding_, fitted.notes_, fitted.guarantees_ = fit.finding, fit.notes, fit.guarantees
        fitted.record_, fitted.advantage_, fitted.fingerprints_ = fit.record, fit.advantage, fit.marks
        fitted.n_rows_, fitted.n_updated_, fitted.refit_due_, fitted._later = data.design.rows, 0, "", []
        self._become(fitted)
        tell(self._doubts, told, stacklevel=4)

    def _with_terms(self, time_ordered: bool, seed: int | None) -> Self:
        """Return an ensemble of the same parameters, which are checked, ready to learn."""
        models, policies = as_member_list(self.models, "models"), as_member_list(self.policies, "policies")
        omega = require_set(self.feasible)
        require_choice(self.sense, "sense", ["max", "min"])
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [True, False])
        if seed is not None:
            require_number(seed, "random_state", at_least=0, whole=True)
        fitted = self.__sklearn_clone__()
        if not models and not policies:
            raise InputError("no models or policies were given. Give pairs of a name and a member.")
        fitted.members_, fitted.n_models_ = as_members([*models, *policies], "models and policies"), len(models)
        fitted._take_terms(omega)
        fitted.time_ordered_, fitted._seed = time_ordered, seed
        return fitted

    def _in_memory(self, rows: list[LabelledBatch], progress: Progress) -> DecisionData:
        """Ask all members about all rows."""
        self._rows = checked_batches(rows, self._set.dimension)
        self._set = around_rows(self._set, [batch.X for batch in rows])
        self._subgroups = Subgroups.learn(self.subgroups, [batch.X for batch in rows])
        groups = group_hashes(self._rows)
        blocks = ArrayBlocks.ask(self._query(), self._rows, groups, progress)
        table = None if groups is None else ClusterTable.of(groups, 0)
        return self._designed(blocks, table)

    def _streamed(
        self, rows: list[LabelledBatch], engine: Engine, progress: Progress, scratch: Scratch | None
    ) -> DecisionData:
        """Ask members when rows are read; look first for groups and subgroups, if there are any."""
        groups, self._rows = common_groups(rows), rows
        source = as_source(rows)
        require_enough(source.row_count)
        columns = needed_columns(self.members_, groups, self.subgroups, self._set)
        source = source if columns is None else source.only(columns)
        with Stage(progress, "asking members", RawBlocks(source).count) as step:
            found = survey_source(source, engine, SurveyPass(groups, self.subgroups, self._set), step)
        self._set = self._set if found.box is None else self._set.enveloped(*found.box)
        self._subgroups = None if found.values is None else Subgroups.of_values(self.subgroups, found.values)
        return self._designed(SourceBlocks(source, self._query(), groups, scratch), found.clusters)

    def _designed(self, blocks: ArrayBlocks | SourceBlocks, clusters: ClusterTable | None) -> DecisionData:
        design = RowDesign(blocks.row_count, self.time_ordered_, self._seed or 0)
        design, self._groups = known_clusters(design, clusters)
        return DecisionData(blocks, design, blocks.first, self._seed)

    def _take_terms(self, omega: FeasibleSet) -> None:
        """Keep the parameters of this fit: those set later wait for the next."""
        self._set, self._sense, self._sign = omega, self.sense, 1.0 if self.sense == "max" else -1.0
