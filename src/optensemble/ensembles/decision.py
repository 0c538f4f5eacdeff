"""The honest front door: models, policies or both in, one policy out, and a promise that can be believed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypedDict, Unpack

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
from optensemble._core.number_format import format_by_error
from optensemble._core.progress import Progress, Stage, as_progress
from optensemble._core.threads import one_blas_thread, thread_count
from optensemble._core.validation import as_flag, require_choice, require_number, require_options
from optensemble.ensembles._decision_fit import fit_decision
from optensemble.ensembles.base import DECISION, Answer, Policy
from optensemble.evaluation.audit import Audit, audit
from optensemble.evaluation.audit_inputs import AuditInputs
from optensemble.evaluation.lemmas_out_of_fold import audited_cells
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError, RefitWarning
from optensemble.explanation.cases import Question, explain_decision
from optensemble.explanation.explanation import Explanation, as_coordinates, as_row
from optensemble.feasible import FeasibleSet, require_set
from optensemble.members.fingerprints import count_seen, fingerprints, marks
from optensemble.members.fit_data import FitData
from optensemble.members.fit_inputs import (
    as_member_list,
    group_labels,
    is_rule,
    number_repeats,
    require_enough,
    require_size,
)
from optensemble.members.query import MemberQuery
from optensemble.members.subgroups import Grouping, Subgroups
from optensemble.members.validation import (
    as_labels,
    as_members,
    number_labels,
    require_rows,
    row_count,
    row_labels,
    warn_if_trained_on,
)
from optensemble.stacking.final_policy import FinalPolicy, PolicyPass
from optensemble.stacking.forecaster import PATCHED, REFINED
from optensemble.stacking.leaderboard import leaderboard_frame
from optensemble.stats.sampling import Sampling

BUCKETS = 10
_SEEN = 0.1  # some rows may be alike by chance: a night without sun
_BROKEN = 2.0  # half-widths: an honest promise is missed by more in one batch of ten thousand
_STALE = 0.4
"""New rows, as a share of those fitted on, after which a fit in time order is due again."""


class LabelledBatch(NamedTuple):
    """Rows with their labels, in the user's units, and groups of rows that belong together, if any."""

    X: Any
    labels: Any
    groups: Any


class FitOptions(TypedDict, total=False):
    """Options that a fit and an extension share; see :meth:`DecisionEnsemble.fit`."""

    random_state: int | None
    n_jobs: int | None
    progress: Progress | None


class DecisionEnsemble(Policy):
    """One policy from models, policies or both, that is honest on rows it has never seen.

    Nothing is to be tuned. Everything that is let in, chosen or promised is judged on rows that it was not fitted on:
    a stack of what the members say; a refinement and a multicalibration patch (the paper's cells), each only if it
    lowers the out-of-fold loss; in every row the arm of the highest *calibrated* assessment; and if something simple
    beats all that, the simple thing. The promise is corrected by its own out-of-fold record. (A few numbers, such as
    the strength of a ridge and the weights of a blend, are chosen on all rows.)

    Parameters
    ----------
    models
        Pairs of a name and a model that is already fitted, on other rows: anything with ``predict(X) -> (n, d)``, a
        callable, or :class:`Columns` of a table.
    policies
        Pairs of a name and a policy of which only the actions are known: a callable ``X -> (n, d)``, anything with
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
        Whom it may follow: members, then the forecasts made of them. ``choose`` returns an index into it.
    winner_
        Who decides: ``"ensemble"``, the calibrated choice among arms, or what beat it.
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
        What was assessed and what was realised, out of fold: what the promise rests on.
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

    kind = DECISION
    n_models_: int
    decider_: FinalPolicy
    winner_: str
    leaderboard_: pd.DataFrame
    finding_: str
    guarantees_: pd.DataFrame
    notes_: list[str]
    record_: Record
    advantage_: Record
    time_ordered_: bool
    n_updated_: int
    refit_due_: str
    _set: FeasibleSet
    _sense: str
    _sign: float
    _seed: int | None
    _subgroups: Subgroups | None
    _groups: list[Any] | None
    _rows: list[LabelledBatch]
    _later: list[LabelledBatch]

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
        Y: Any,
        *,
        time_ordered: bool = False,
        groups: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn to decide from rows that the members were not trained on.

        Parameters
        ----------
        X
            What the members speak of: an array, or a pandas or polars frame. At least 100 rows.
        Y
            The labels, of shape (n, d).
        time_ordered
            Whether the rows are in time order. Then folds are contiguous, gates stricter and intervals wider.
        groups
            A label for every row, a column of X, or a callable of X, if rows of the same label belong together (a
            customer, a day): they stay in one fold, and intervals allow for it. (Not to be mistaken for ``subgroups``.)
        random_state
            Seeds how rows are shuffled into folds; the same seed gives the same bits, and None is a seed too.
        n_jobs
            How many threads share the folds; -1 is all. The result does not depend on it.
        progress
            Called as ``progress(stage, share)`` as work goes on: asking members, cross-fitting, patching, choosing,
            verifying; the share of a stage ends with 1. What it raises ends the fit, and the ensemble is as it was.
        """
        with self._changing():
            options: FitOptions = {"random_state": random_state, "n_jobs": n_jobs, "progress": progress}
            self._fit_rows([LabelledBatch(X, Y, groups)], time_ordered, options)
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
            if (X is None) != (Y is None):
                raise InputError("extend needs X and Y together; got only one of them.")
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
            rows = [*self._rows, *self._later]
            rows += [] if X is None else [LabelledBatch(X, Y, self._same_groups(groups))]
            if options.get("random_state") is None:
                options["random_state"] = self._seed
            wider._fit_rows(rows, self.time_ordered_, options)
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
        found, groups = fingerprints(*outputs.said, labels), self._same_groups(groups)
        seen = count_seen(found, self.fingerprints_)
        if seen > _SEEN * len(labels):
            raise InputError(f"{seen:,} of these {len(labels):,} rows were fitted on or given before. Give new ones.")
        if groups is not None:
            self._groups = [*(self._groups or []), *row_labels(groups, X, outputs.count)]
        clusters = None if self._groups is None else number_labels(self._groups)[-outputs.count :]
        assessed, realised = self._sign * decisions.assessed, self._sign * row_dots(decisions.actions, labels)
        promised = self.record_.promise(assessed)
        self.record_ = self.record_.extend(assessed, realised, clusters)
        ahead, gained = done.beyond_members(labels)
        self.advantage_ = self.advantage_.extend(self._sign * ahead, self._sign * gained, clusters)
        if len(self.fingerprints_):
            self.fingerprints_ = np.concatenate([self.fingerprints_, found])
        before = self.n_updated_
        self.n_updated_ += len(labels)
        self._later = [*self._later, LabelledBatch(X, self._sign * labels, groups)]
        self.refit_due_ = self._why_refit(promised, float(realised.mean()), before)

    # Answers

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X at once."""
        now = self._as_it_stands()
        return now._answer(now._pass(X))

    def _answer(self, done: PolicyPass) -> Answer:
        decisions = done.decisions
        assessed = self._sign * decisions.assessed
        low, high = self.record_.limits(assessed)
        return Answer(
            actions=np.array(decisions.actions),
            promised=self.record_.correct(assessed),
            low=low,
            high=high,
            chosen=decisions.chosen,
            predictions=self._sign * decisions.forecast,
            assessed=assessed,
        )

    def promise_of(self, assessed: Assessments) -> Promise:
        """Promise the average payoff over rows of which only a summary of their self-assessments is at hand."""
        self._require_fitted()
        require_rows(assessed.count, 1)
        return self.record_.promise(assessed)

    def promise(self, X: Any) -> Promise:
        """Promise the average payoff over the rows of X, with a 95 % interval for what will be realised on them."""
        now = self._as_it_stands()
        now._require_fitted()
        require_rows(row_count(X), 1)
        done = now._pass(X)
        decisions = done.decisions
        advantage = now.advantage_.promise(now._sign * (decisions.assessed - done.members_assessed))
        return replace(now.record_.promise(now._sign * decisions.assessed), advantage=advantage)

    def explain(self, X: Any, row: int = 0, coordinates: Sequence[Any] | None = None) -> Explanation:
        """Explain the decision of one row of X: who is followed, the alternatives, the patches behind the prediction.

        Parameters
        ----------
        X
            A batch of rows, of which one is explained.
        row
            Its number, counted from 0.
        coordinates
            Names of the coordinates of an action, for tables and words; by default they are numbered.
        """
        now = self._as_it_stands()
        now._require_fitted()
        question = Question(
            row=as_row(row, row_count(X)),
            coordinates=as_coordinates(coordinates, now._set.dimension),
            names=now.names_,
            calibrate=now.record_.correct,
        )
        with one_blas_thread():
            return explain_decision(question, now.decider_, now._pass(X, every=True))

    def score(self, X: Any, Y: Any) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        done, labels = self._as_it_stands()._decide_labelled(X, Y)
        return float(row_dots(done.decisions.actions, labels).mean())

    def audit(self, X: Any, Y: Any, *, time_ordered: bool | None = None, groups: Any = None) -> Audit:
        """Judge the ensemble on rows of known labels that it was not fitted on; see :class:`~optensemble.Audit`.

        ``time_ordered`` is by default as the rows fitted on were; ``groups`` are as of :meth:`fit`, by
        default the column or callable that was given there.
        """
        return self.audit_with_answer(X, Y, time_ordered=time_ordered, groups=groups)[0]

    def audit_with_answer(
        self, X: Any, Y: Any, *, time_ordered: bool | None = None, groups: Any = None
    ) -> tuple[Audit, Answer]:
        """Return the audit on labelled rows, and the answer that it judges, from one pass over the members."""
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [None, True, False])
        now = self._as_it_stands()
        groups = now._rule if groups is None else groups
        done, labels = now._decide_labelled(X, Y, every=True)
        outputs, policy, answer = done.outputs, now.decider_, now._answer(done)
        arms = [*outputs.actions, *(done.played[name] for name in policy.forecasts)]
        earned = [now._sign * row_dots(actions, labels) for actions in arms]
        elaborate = [
            policy.members + policy.forecasts.index(name) for name in (REFINED, PATCHED) if name in done.played
        ]
        inputs = AuditInputs(
            promised=answer.promised,
            realised=now._sign * row_dots(answer.actions, labels),
            interval=now.record_.promise(answer.assessed),
            names=list(now.names_),
            chosen=answer.chosen,
            arms=np.stack(earned),
            rivals={name: earned[at] for at, name in enumerate(now.names_) if at not in elaborate},
            residuals=now._sign * (labels - done.decisions.forecast),
            partitions=audited_cells(done, now.names_, [name for name, _ in now.members_]),
            sign=now._sign,
            time_ordered=now.time_ordered_ if time_ordered is None else bool(time_ordered),
            clusters=None if groups is None else number_labels(row_labels(groups, X, outputs.count)),
            seen=count_seen(fingerprints(*outputs.said, labels), now.fingerprints_),
        )
        return audit(inputs), answer

    # What kind it is

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "decider_")

    @property
    def n_policies(self) -> int:
        """The number of members known by their actions alone."""
        return len(self.members_) - self.n_models_

    @property
    def known_subgroups(self) -> Grouping | None:
        """The values of the subgroups that were learned; None without subgroups."""
        return None if self._subgroups is None else self._subgroups.grouping

    @property
    def outcome(self) -> list[str]:
        """The outcome of the fit, in sentences."""
        return [self.finding_, *self.notes_]

    # Fitting

    def _fit_rows(self, rows: list[LabelledBatch], time_ordered: bool, options: FitOptions) -> None:
        """Learn on a copy, so that a failure or an interrupt loses nothing."""
        progress, seed = as_progress(options.get("progress")), options.get("random_state")
        fitted, data = self._prepare(rows, time_ordered, seed, progress)
        fit = fit_decision([name for name, _ in fitted.members_], data, thread_count(options.get("n_jobs")), progress)
        fitted.decider_, fitted.names_, fitted.winner_ = fit.policy, fit.names, fit.winner
        fitted.leaderboard_ = leaderboard_frame(fit.standings, fit.left_out)
        fitted.finding_, fitted.notes_, fitted.guarantees_ = fit.finding, fit.notes, fit.guarantees
        fitted.record_, fitted.advantage_ = fit.record, fit.advantage
        fitted.n_rows_, fitted.n_updated_, fitted.refit_due_, fitted._later = data.outputs.count, 0, "", []
        self._become(fitted)

    def _prepare(
        self, rows: list[LabelledBatch], time_ordered: bool, seed: int | None, progress: Progress
    ) -> tuple[Self, FitData]:
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
        counts = [row_count(batch.X) for batch in rows]
        require_enough(sum(counts))
        labelled = [as_labels(batch.labels, n, omega.dimension, None) for n, batch in zip(counts, rows, strict=True)]
        labels = fitted._sign * np.concatenate(labelled)
        require_size(labels)
        fitted._rows = [batch._replace(labels=Y.copy()) for Y, batch in zip(labelled, rows, strict=True)]
        fitted._subgroups = Subgroups.learn(self.subgroups, [batch.X for batch in rows])
        with Stage(progress, "asking members", len(rows) * len(fitted.members_)) as step:
            outputs = fitted._query().joined([batch.X for batch in rows], step)
        for (name, model), predictions in zip(models, outputs.predictions, strict=True):
            warn_if_trained_on(model, name, fitted._sign * predictions, fitted._sign * labels, stacklevel=5)
        fitted.fingerprints_ = marks(*outputs.said, labels)
        fitted._groups = group_labels([(batch.X, batch.labels, batch.groups) for batch in rows], counts)
        clusters = None if fitted._groups is None else number_labels(fitted._groups)
        if clusters is None and not time_ordered:
            clusters = number_repeats(fitted.fingerprints_)
        return fitted, FitData(outputs, labels, Sampling(time_ordered, clusters), seed)

    def _take_terms(self, omega: FeasibleSet) -> None:
        """Keep the parameters of this fit: those set later wait for the next."""
        self._set, self._sense, self._sign = omega, self.sense, 1.0 if self.sense == "max" else -1.0

    # Rows

    def _query(self) -> MemberQuery:
        """Return how members are asked."""
        buckets = Buckets(self._set.lower, self._set.upper, BUCKETS)
        models = self.members_[: self.n_models_]
        return MemberQuery(models, self.policy_members, self._set, buckets, self._sign, self._subgroups)

    def _pass(self, X: Any, *, every: bool = False) -> PolicyPass:
        """Ask every member once and decide; with ``every``, solve the policies of all forecasts."""
        self._require_fitted()
        outputs = self._query()(X)
        with one_blas_thread():
            return self.decider_(outputs, every=every)

    def _decide_labelled(self, X: Any, Y: Any, *, every: bool = False) -> tuple[PolicyPass, Floats]:
        self._require_fitted()
        n = row_count(X)
        require_rows(n, 1)
        labels = self._sign * as_labels(Y, n, self._set.dimension, None)
        return self._pass(X, every=every), labels

    def _same_groups(self, given: Any) -> Any:
        """Return the groups of further rows: as given, or found in the same way as those of the rows fitted on."""
        if self._groups is None:
            if given is not None:
                raise InputError("the rows fitted on had no groups. Leave groups out, or fit again with groups.")
            return None
        found = self._rule if given is None else given
        if found is None:
            raise InputError("the rows fitted on had groups. Give groups= for these rows too.")
        return found

    @property
    def _rule(self) -> Any:
        """The column or callable that groups were found by, if it is known."""
        groups = self._rows[-1].groups if getattr(self, "_rows", None) else None
        return groups if is_rule(groups) else None

    def _require_same_rows(self) -> None:
        """Refuse to go on with rows that are no longer what they were."""
        for batch in self._rows[:1]:
            outputs = self._query()(batch.X)
            found = marks(*outputs.said, self._sign * batch.labels)
            if len(self.fingerprints_) and not np.array_equal(found, self.fingerprints_[: outputs.count]):
                raise InputError("X was changed since the fit, or a member answers otherwise. Fit again on all rows.")

    def _why_refit(self, promised: Promise, realised: float, before: int) -> str:
        """Return why to fit again, and all reasons so far; ``before`` rows had come before these."""
        reasons = [self.refit_due_] if self.refit_due_ else []
        if abs(realised - promised.mean) > _BROKEN * (promised.high - promised.mean):
            shown = format_by_error([realised, promised.low, promised.high, promised.high - promised.mean])
            reasons.append(
                f"{promised.rows:,} rows came to {shown[0]} on average, far from the promised {shown[1]} to {shown[2]}"
            )
        if self.time_ordered_ and before < _STALE * self.n_rows_ <= self.n_updated_:
            reasons.append(f"{self.n_updated_:,} rows have come since the fit on {self.n_rows_:,}")
        return "; ".join(reasons)
