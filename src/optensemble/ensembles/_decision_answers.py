"""The answers of a fitted DecisionEnsemble: one pass over the members, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.deferred import pd
from optensemble._core.hashing import Hashes
from optensemble._core.suggestions import listed
from optensemble._core.threads import one_blas_thread
from optensemble.ensembles.base import DECISION, Answer, Policy
from optensemble.evaluation.payoff_record import Calibration, Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.possible_payoffs import Possible
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import OutputNames, align_labels, in_fitted_order
from optensemble.members.context import Context
from optensemble.members.fingerprints import count_seen, fingerprints, marks
from optensemble.members.fit_inputs import LabelledBatch, is_rule
from optensemble.members.known_rows import KnownRows
from optensemble.members.mending import DEFAULT_MENDING, Mending, Tally
from optensemble.members.outputs import MemberOutputs
from optensemble.members.query import MemberQuery
from optensemble.members.sources import RowSource, SourceBlocks
from optensemble.members.subgroups import Grouping, Subgroups
from optensemble.members.validation import as_labels, as_weights, require_rows, row_count
from optensemble.monitoring.monitor import Monitor
from optensemble.stacking.arms import Decisions
from optensemble.stacking.final_policy import FinalPolicy, PolicyPass
from optensemble.stats.row_design import KnownClusters

if TYPE_CHECKING:
    from optensemble.evaluation.audit_inputs import AuditInputs
    from optensemble.explanation.explanation import Explanation

_FEW_ABSENT = 0.05  # share of the rows: fewer hardly move their mean

NO_ROWS = "the rows this ensemble was fitted on are not in its file"
"""Why there are no rows to go on from, where a file does not say more."""

BUCKETS = 10
"""The number of level sets of each coordinate."""


class FittedDecision(Policy):
    """A fitted :class:`~optensemble.DecisionEnsemble`, as those see it who ask; not to be used itself."""

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
    monitor_: Monitor
    time_ordered_: bool
    n_updated_: int
    _set: FeasibleSet
    _sense: str
    _sign: float
    _mending: Mending = DEFAULT_MENDING
    _seed: int | None
    _subgroups: Subgroups | None
    _groups: KnownClusters | None
    _watched: Calibration
    _absences: tuple[int, ...] = ()
    on_error: str
    _rows: list[LabelledBatch]
    _later: list[LabelledBatch]
    _leading: list[LabelledBatch] = []  # noqa: RUF012  (replaced as a whole)
    _context: Context | None = None
    _context_columns: tuple[Any, ...] = ()
    _known_rows: KnownRows = KnownRows()
    _no_rows: str = NO_ROWS

    # Answers

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X at once."""
        return self._as_it_stands()._look(X)[1]

    def _look(self, X: Any, asked: MemberOutputs | None = None) -> tuple[MemberOutputs, Answer]:
        tally = Tally()
        asked = self._asked(X, tally) if asked is None else asked
        return asked, self._answer(asked, self._decided(asked), X, tally)

    def _propose(self, X: Any) -> tuple[MemberOutputs, tuple[Floats, Floats]]:
        asked = self._asked(X)
        decisions = self._decided(asked)
        possible = self._possible(asked, decisions.actions)
        promised = self.record_.correct(self._sign * decisions.assessed, asked.incomplete, possible)
        return asked, (decisions.actions, promised)

    def _asks_as(self, other: Policy) -> bool:
        if not isinstance(other, FittedDecision) or len(self.members_) != len(other.members_):
            return False
        if any(each._context is not None or each._subgroups is not None for each in (self, other)):
            return False
        same = [ours is theirs for (_, ours), (_, theirs) in zip(self.members_, other.members_, strict=True)]
        one, two = self._set, other._set
        box = one is two or (np.array_equal(one.lower, two.lower) and np.array_equal(one.upper, two.upper))
        return all(same) and box and self._absences == other._absences

    def _actions(self, X: Any) -> Floats:
        return self._decided(self._asked(X)).actions

    def _answer(self, outputs: MemberOutputs, decisions: Decisions, X: Any, tally: Tally) -> Answer:
        assessed, incomplete = self._sign * decisions.assessed, outputs.incomplete
        possible = self._possible(outputs, decisions.actions)
        low, high = self.record_.limits(assessed, incomplete, possible)
        return Answer(
            actions=np.array(decisions.actions),
            promised=self.record_.correct(assessed, incomplete, possible),
            low=low,
            high=high,
            chosen=decisions.chosen,
            predictions=self._sign * decisions.forecast,
            assessed=assessed,
            beyond=int(outputs.omega.beyond().sum()),
            absent=self._absent_rows(outputs),
            incomplete=incomplete if incomplete.any() else None,
            possible=possible,
            fallback=int(outputs.omega.took_fallback(decisions.actions, decisions.forecast).sum()),
            mended=tally.rows,
            **self._answer_names(X),
        )

    def _possible(self, outputs: MemberOutputs, actions: Floats) -> Possible | None:
        """Return the payoffs that actions can come to in each row; None where nothing is known of that."""
        return self.record_.labels.payoffs(outputs.omega, actions, self._sign)

    def _absent_rows(self, outputs: MemberOutputs) -> dict[str, int]:
        """Return in how many rows each member is absent, of those that are absent in some."""
        if outputs.absent is None:
            return {}
        counts = zip((name for name, _ in self.members_), outputs.absent.sum(axis=1).tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def promise_of(self, assessed: Assessments, absent: Mapping[str, int] | None = None) -> Promise:
        """Promise the average payoff over rows, given only a summary of their self-assessments."""
        self._require_fitted()
        require_rows(assessed.count, 1)
        return self._with_doubts(self.record_.promise(assessed), absent or {})

    def _with_doubts(self, promise: Promise, absent: Mapping[str, int]) -> Promise:
        """Return a promise that says so if members are absent that never were in fitting: no record tells of that."""
        new = self._newly_absent(absent, promise.rows)
        if not new:
            return promise
        told = f"{listed(new, 3)} had an answer in every fitting row, but not here: the promise may not hold"
        return replace(promise, unlike=True, note="; ".join(filter(None, [promise.note, told])))

    def _newly_absent(self, absent: Mapping[str, int], rows: int) -> list[str]:
        """Return the members that are absent in more than a few of the rows, and never were in fitting."""
        known = {self.members_[number][0] for number in self._absences}
        return [name for name, count in absent.items() if name not in known and count > _FEW_ABSENT * rows]

    def finds_unlike(self, assessed: Assessments, absent: Mapping[str, int] | None = None) -> bool:
        """Return whether a promise over rows would say that they are unlike the fitting rows."""
        self._require_fitted()
        require_rows(assessed.count, 1)
        return self.record_.finds_unlike(assessed) or bool(self._newly_absent(absent or {}, assessed.count))

    def promise(self, X: Any) -> Promise:
        """Promise the average payoff over the rows of X, with a 95 % interval for what will be realised on them."""
        now = self._as_it_stands()
        now._require_fitted()
        require_rows(row_count(X), 1)
        done = now._pass(X)
        decisions = done.decisions
        incomplete = done.outputs.incomplete
        ahead = now._sign * (decisions.assessed - done.members_assessed)
        advantage = now.advantage_.promise(Assessments.of(ahead, incomplete=incomplete))
        possible = now._possible(done.outputs, decisions.actions)
        assessed = Assessments.of(now._sign * decisions.assessed, incomplete=incomplete, possible=possible)
        promise = now.promise_of(assessed, now._absent_rows(done.outputs))
        return replace(promise, advantage=advantage)

    def explain(self, X: Any, row: int = 0, coordinates: Sequence[Any] | None = None) -> Explanation:
        """Explain the decision of one row of X: who is followed, the alternatives, the patches behind the prediction.

        Parameters
        ----------
        X
            A batch of rows, of which one is explained.
        row
            Its number, counted from 0.
        coordinates
            Names of the coordinates of an action, for tables and words; by default those of the labels, or numbers.
        """
        from optensemble.explanation.cases import Question, explain_decision  # not loaded by those who only decide
        from optensemble.explanation.explanation import as_coordinates, as_row, with_promise

        now = self._as_it_stands()
        now._require_fitted()
        row = as_row(row, row_count(X))
        done = now._pass(X, every=True)
        question = Question(
            row=row,
            coordinates=as_coordinates(now.labels_ if coordinates is None else coordinates, now._set.dimension),
            names=now.names_,
            calibrate=partial(now.record_.correct, incomplete=done.outputs.incomplete),
        )
        with one_blas_thread():
            explanation = explain_decision(question, now.decider_, done)
        told = now._answer(done.outputs, done.decisions, X, Tally()).take(np.array([row]))
        return with_promise(explanation, told.promised, told.low, told.high)

    def score(self, X: Any, Y: Any, sample_weight: Any = None) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        done, labels = self._as_it_stands()._decide_labelled(X, Y)
        weights = None if sample_weight is None else as_weights(sample_weight, X, len(labels))
        return float(np.average(done.outputs.omega.value(done.decisions.actions, labels), weights=weights))

    def _audit_inputs(self, X: Any, Y: Any, weights: Floats | None) -> tuple[AuditInputs, Answer]:
        from optensemble.ensembles._decision_fit import audit_inputs  # not loaded by those who only decide
        from optensemble.evaluation.audit_inputs import SEEN

        tally = Tally()
        done, labels = self._decide_labelled(X, Y, every=True, tally=tally)
        found, (fitted, later) = fingerprints(*done.outputs.known_by, labels), self._marks
        now = self._as_fitted() if count_seen(found, later) > SEEN * len(found) else self
        answer = now._answer(done.outputs, done.decisions, X, tally)
        inputs = audit_inputs(
            done,
            self.decider_,
            labels,
            promised=answer.promised,
            interval=now.promise_of(answer.assessments(weights), answer.absent),
            names=(self.names_, [name for name, _ in self.members_]),
        )
        return replace(inputs, seen=count_seen(found, fitted)), answer

    @property
    def _marks(self) -> tuple[Hashes, Hashes]:
        """The marks of rows fitted on, and of those taken in since; where they are a sample, all count as fitted on."""
        marks = self.fingerprints_
        whole = len(marks) == self.n_rows_ + self.n_updated_ == len(self.record_.assessed)
        return (marks[: self.n_rows_], marks[self.n_rows_ :]) if whole else (marks, marks[:0])

    def _as_fitted(self) -> Self:
        """Return the ensemble with the promise of its fit, which has learned nothing from rows taken in since."""
        then, n = self._as_it_stands(), self.n_rows_
        then.record_ = self.record_.first(n)
        then.fingerprints_, then.n_updated_ = self.fingerprints_[:n], 0
        return then

    # What kind it is

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "decider_")

    @property
    def feasible_(self) -> FeasibleSet:
        """Ω as it was fitted with; where bounds come from the row, ``lower`` and ``upper`` are those of all rows."""
        return self._set

    @property
    def n_policies(self) -> int:
        """The number of members known by their actions alone."""
        return len(self.members_) - self.n_models_

    @property
    def has_record(self) -> bool:
        """Whether there is an out-of-fold record that promises rest on: a fit leaves one."""
        return True

    @property
    def known_subgroups(self) -> Grouping | None:
        """The values of the subgroups that were learned; None without subgroups."""
        return None if self._subgroups is None else self._subgroups.grouping

    @property
    def outcome(self) -> list[str]:
        """The outcome of the fit, in sentences."""
        return [self.finding_, *self.notes_]

    # Rows

    @property
    def _kept_rows(self) -> list[LabelledBatch]:
        return [*self._rows, *self._later] if self._rows else []  # rows of an update alone are not those of the fit

    @property
    def _label_scale(self) -> Floats:
        return np.asarray(self.decider_.forecaster.scale)

    @property
    def _spread(self) -> float:
        return float(np.median(np.abs(self.advantage_.realised)))

    def _query(self, tally: Tally | None = None) -> MemberQuery:
        """Return how members are asked; ``tally`` counts policies' actions that are mended."""
        buckets = Buckets(self._set.lower, self._set.upper, BUCKETS)
        models = self.members_[: self.n_models_]
        terms = (self._set, buckets, self._sign, self._subgroups, self._mending, Tally() if tally is None else tally)
        return MemberQuery(
            *(models, self.policy_members, *terms),
            gaps=True,
            on_error=self.on_error,
            absences=self._absences,
            output_names=OutputNames(self.labels_),
            fitted_here=frozenset(self.cross_fitted_),
            features=self._known.features,
            context=self._context,
        )

    def _asked(self, X: Any, tally: Tally | None = None) -> MemberOutputs:
        """Ask every member once; the policies of models are left to be solved."""
        self._require_fitted()
        return self._query(tally).ask(in_fitted_order(X, self._known.features), copies=False)

    def _decided(self, asked: MemberOutputs) -> Decisions:
        with one_blas_thread():
            return self.decider_.decide(asked)

    def _pass(self, X: Any, *, every: bool = False, tally: Tally | None = None) -> PolicyPass:
        """Ask every member once and decide, all members solved; with ``every``, the policies of all forecasts too."""
        asked = self._asked(X, tally)
        with one_blas_thread():
            return self.decider_(asked, every=every)

    def _decide_labelled(
        self, X: Any, Y: Any, *, every: bool = False, tally: Tally | None = None
    ) -> tuple[PolicyPass, Floats]:
        self._require_fitted()
        n = row_count(X)
        require_rows(n, 1)
        labels = self._sign * as_labels(align_labels(Y, X, self.labels_), n, self._set.dimension, None)
        return self._pass(X, every=every, tally=tally), labels

    def _same_groups(self, given: Any) -> Any:
        """Return the groups of further rows: as given, or found in the same way as those of the rows fitted on."""
        if self._groups is None:
            if given is not None:
                raise InputError("the rows fitted on had no groups. Leave groups out, or fit again with groups.")
            return None
        found = self._grouping_rule if given is None else given
        if found is None:
            raise InputError("the rows fitted on had groups. Give groups= for these rows too.")
        return found

    @property
    def _grouping_rule(self) -> Any:
        """The column or callable by which ``fit`` found rows that belong together; None if there is none."""
        groups = self._rows[-1].groups if getattr(self, "_rows", None) else None
        return groups if is_rule(groups) else None

    def _require_same_rows(self) -> None:
        """Refuse to go on with rows that are no longer what they were."""
        for batch in self._rows[:1]:
            if isinstance(batch.X, RowSource):  # a part says enough: all of them are read again anyway
                first = SourceBlocks(batch.X, self._query()).first
                outputs, labels = first.outputs, first.labels
            else:
                outputs, labels = self._query()(batch.X), self._sign * batch.labels
            found = marks(*outputs.known_by, labels, total=self.n_rows_)
            known = self.fingerprints_
            # those that only members learned from come last
            same = np.isin(found, known).all() if self._leading else np.array_equal(found, known[: len(found)])
            if len(known) and not same:
                raise InputError("X was changed since the fit, or a member answers otherwise. Fit again on all rows.")
