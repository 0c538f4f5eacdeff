"""The answers of the paper's fitted ensembles: one replay of the corrections, and what is made of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.threads import one_blas_thread
from optensemble.ensembles._own_members import NOTHING_SAID
from optensemble.ensembles._paper_fit import (
    Algorithm,
    FittingRows,
    replay_all,
    said_by,
)
from optensemble.ensembles.base import WHITE_BOX, Answer, Policy
from optensemble.ensembles.cross_validation import FittedStage
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.ensembles.starting_point import StartingPoint
from optensemble.evaluation.audit_inputs import AuditedPartition, AuditInputs
from optensemble.evaluation.lemmas_in_sample import PaperOutcome, Setting
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.possible_payoffs import Possible
from optensemble.evaluation.promise import Promise, unknown_promise
from optensemble.exceptions import InputError
from optensemble.explanation.cases import Question, explain_replay
from optensemble.explanation.explanation import (
    CALIBRATED,
    CORRECTED,
    Explanation,
    as_coordinates,
    as_row,
    with_promise,
)
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import align_labels, in_fitted_order
from optensemble.members.fingerprints import count_seen, fingerprints
from optensemble.members.fit_inputs import LabelledBatch, Origin
from optensemble.members.mending import Tally
from optensemble.members.outputs import MemberOutputs
from optensemble.members.query import MemberQuery
from optensemble.members.subgroups import NO_GROUPING, Grouping, Subgroups
from optensemble.members.validation import as_labels, as_weights, require_rows, row_count
from optensemble.multicalibration.corrections import walk
from optensemble.multicalibration.patches import PatchLog
from optensemble.multicalibration.state import Situation
from optensemble.stacking.arms import solve_policies
from optensemble.stacking.forecaster import AVERAGE, MEAN, Forecaster
from optensemble.stats.sample_size import MINIMUM_ROWS


class FittedPaper(Policy):
    """A fitted white or black box, as those see it who ask; not to be used itself."""

    feasible: FeasibleSet
    alpha: float
    M: float | None
    subgroups: Any
    groups: Any

    terms_: Hyperparameters
    schedule_: str
    shrinkage_: float
    min_cell_: int
    log_: tuple[PatchLog, ...]
    grouping_: Grouping | None
    time_ordered_: bool
    M_: float
    n_rounds_: int
    n_patches_: Indices
    n_solves_: int
    n_thin_: int
    converged_: bool
    stopped_: str
    worst_violation_: float
    history_: pd.DataFrame
    guarantees_: pd.DataFrame
    validation_: pd.DataFrame
    record_: Record
    _rows: list[tuple[Any, Floats]]
    _origins: Mapping[int, Origin] = {}  # by the number of the batch
    _stages: list[FittedStage]
    _seed: int | None
    _forecaster: Forecaster | None
    _said: Mapping[str, Floats] = NOTHING_SAID  # by members that were fitted here, out of fold, of the rows fitted on
    _streamed: bool = False  # whether the rows fitted on were read from a source, and not kept

    # Answers

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X, from one replay of the corrections."""
        return self._as_it_stands()._look(X)[1]

    def _look(self, X: Any, asked: MemberOutputs | None = None) -> tuple[MemberOutputs, Answer]:
        self._require_fitted()
        tally = Tally()
        start = self._start([X], tally)
        return start.outputs, self._answer(replay_all(start.situation(), self.log_), X, tally)

    def _asks_as(self, other: Policy) -> bool:
        return False  # a black box begins with a model of its own, which is asked too

    @property
    def _kept_rows(self) -> list[LabelledBatch]:
        return [LabelledBatch(X, labels, names=self._known) for X, labels in self._rows]

    @property
    def _label_scale(self) -> Floats:
        return np.ones(self.feasible_.dimension)

    @property
    def _spread(self) -> float:
        return 0.0

    def _answer(self, situation: Situation, X: Any, tally: Tally) -> Answer:
        assessed: Floats = situation.taken(situation.assessed)
        actions, predictions, omega = situation.taken(situation.actions), situation.behind(), situation.omega
        unknown, possible = np.full_like(assessed, np.inf), self._possible(situation)
        low, high = self.record_.limits(assessed, None, possible) if self.has_record else (-unknown, unknown)
        return Answer(
            actions=actions,
            promised=self._calibrated(assessed, possible),
            low=low,
            high=high,
            chosen=situation.choice,
            predictions=predictions,
            assessed=assessed,
            beyond=int(omega.beyond().sum()),
            fallback=int(omega.took_fallback(actions, self.terms_.sign * predictions).sum()),
            mended=tally.rows,
            possible=possible,
            **self._answer_names(X),
        )

    def self_assess(self, X: Any) -> Floats:
        """Return the payoff promised for every row of X, in the user's units and sense.

        It is calibrated by the out-of-fold record, which ``validation="cv"`` or :meth:`cross_fit` leaves. Without a
        record it is the algorithm's own, which is honest on the fitting rows alone; see :meth:`promise`.
        """
        return self.answer(X).promised

    def promise(self, X: Any) -> Promise:
        """Promise the average payoff over the rows of X, with a 95 % interval for what will be realised on them.

        It rests on a record of rows that corrections were not learned from. With ``validation="cv"`` the fit left
        one; with ``validation=None``, :meth:`cross_fit` makes it. Without a record the interval is infinite, and
        ``note`` says why.
        """
        now = self._as_it_stands()
        now._require_fitted()
        situation = replay_all(now._start([X]).situation(), now.log_)
        assessed: Floats = situation.taken(situation.assessed)
        return now.promise_of(Assessments.of(assessed, possible=now._possible(situation)))

    def promise_of(self, assessed: Assessments, absent: Mapping[str, int] | None = None) -> Promise:
        """Promise the average payoff over rows, given only a summary of their self-assessments."""
        now = self._as_it_stands()
        now._require_fitted()
        require_rows(assessed.count, 1)
        if now.has_record:
            return now.record_.promise(assessed)
        missing = now._why_no_record() or "it was fitted with validation=None, and cross_fit() was not called"
        return unknown_promise(assessed, missing, now.terms_.sign, time_ordered=now.time_ordered_)

    def _audit_inputs(self, X: Any, Y: Any, weights: Floats | None) -> tuple[AuditInputs, Answer]:
        labels = as_labels(align_labels(Y, X, self.labels_), row_count(X), self.terms_.feasible.dimension, None)
        tally = Tally()
        start = self._start([X], tally)
        baselines, blind = self._baselines(start.outputs, labels)
        situation = replay_all(start.situation(), self.log_)
        answer = self._answer(situation, X, tally)
        inputs = AuditInputs(
            promised=answer.promised,
            realised=start.outputs.earned(answer.actions, labels),
            interval=self.promise_of(answer.assessments(weights)),
            names=list(self.names_),
            chosen=answer.chosen,
            arms=np.stack([start.outputs.earned(actions, labels) for actions in situation.actions]),
            rivals=baselines,
            blind=blind,
            residuals=labels - answer.predictions,
            partitions=list(self._partitions(situation)),
            sign=self.terms_.sign,
            seen=count_seen(fingerprints(*said_by(start.outputs), labels), self.fingerprints_),
        )
        return inputs, answer

    def explain(self, X: Any, row: int = 0, coordinates: Sequence[Any] | None = None) -> Explanation:
        """Explain the decision of one row of X; parameters as of :meth:`DecisionEnsemble.explain`."""
        now = self._as_it_stands()
        now._require_fitted()
        row = as_row(row, row_count(X))
        question = Question(
            row=row,
            coordinates=as_coordinates(
                now.labels_ if coordinates is None else coordinates, now.terms_.feasible.dimension
            ),
            names=now.names_,
            calibrate=now._calibrated,
            basis=CALIBRATED if now.has_record else CORRECTED,
        )
        algorithm = now._algorithm()
        situation = now._start([X]).take(np.array([row])).situation()
        begun = "mean" if algorithm.from_mean else "init"
        explanation = explain_replay(question, situation, now.log_, algorithm.parts, begun)
        told = now._answer(situation, X, Tally())  # which the explanation has replayed
        return with_promise(explanation, told.promised, told.low, told.high)

    def score(self, X: Any, Y: Any, sample_weight: Any = None) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        now = self._as_it_stands()
        now._require_fitted()
        X = in_fitted_order(X, now._known.features)
        actions = now.answer(X).actions
        require_rows(len(actions), 1)
        labels = as_labels(align_labels(Y, X, now.labels_), len(actions), now.terms_.feasible.dimension, None)
        omega = now.terms_.feasible.for_rows(X)
        weights = None if sample_weight is None else as_weights(sample_weight, X, len(labels))
        return float(np.average(omega.value(actions, now.terms_.sign * labels), weights=weights))

    def retrace(self, X: Any, rounds: Iterable[int]) -> Iterator[Situation]:
        """Follow the corrections on any rows X, and show the state in between.

        Parameters
        ----------
        X
            The rows.
        rounds
            The numbers of rounds after which to look, ascending; beyond the last round the end is shown.

        Returns
        -------
        An iterator over the situation at every look: predictions, actions, promises and choices. It is one object,
        which changes from look to look.
        """
        now = self._as_it_stands()
        now._require_fitted()
        looks = [0, *rounds]
        if sorted(looks) != looks:
            raise InputError(f"rounds must be at least 0 and ascend; got {looks[1:]}.")
        return walk(now._start([X]).situation(), now.log_, looks[1:])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "log_")

    @property
    def _sign(self) -> float:  # type: ignore[override]
        return self.terms_.sign

    @property
    def feasible_(self) -> FeasibleSet:
        """Ω as it was fitted with; where bounds come from the row, ``lower`` and ``upper`` are those of all rows."""
        return self.terms_.feasible

    @property
    def known_subgroups(self) -> Grouping | None:
        """The values of the subgroups that were learned; None without subgroups."""
        return self.grouping_

    @property
    def outcome(self) -> list[str]:
        """The outcome of the fit, in sentences."""
        rounds = f"{self.n_rounds_:,} round{'' if self.n_rounds_ == 1 else 's'} of correction"
        return [f"{rounds} on {self.n_rows_:,} rows: {self.stopped_}"]

    # What the two algorithms differ in

    @abstractmethod
    def _query(self) -> MemberQuery:
        """Return how members are asked."""

    @abstractmethod
    def _algorithm(self) -> Algorithm:
        """Return the cells, their names, and the start."""

    @abstractmethod
    def _partitions(self, situation: Situation) -> Iterator[AuditedPartition]:
        """Return the cells an audit looks at."""

    @abstractmethod
    def _tabulate(self, outcome: PaperOutcome, setting: Setting) -> None:
        """Learn the tables of guarantees."""

    def _initial(self, batches: Sequence[Any], said: Mapping[str, Floats]) -> Floats | None:
        """Return the predictions that a black box begins with, unless they are ``said``; None for a white box."""
        return None

    # Rows

    def _start(
        self, batches: Sequence[Any], tally: Tally | None = None, said: Mapping[str, Floats] = NOTHING_SAID
    ) -> StartingPoint:
        """Ask all members about the rows of all batches, one after the other; not those that ``said`` something."""
        batches = [in_fitted_order(X, self._known.features) for X in batches]
        own = {"fitted_here": frozenset(self.cross_fitted_), "features": self._known.features}
        initial, query = self._initial(batches, said), replace(self._query(), **own)  # type: ignore[arg-type]
        query = query if tally is None else replace(query, tally=tally)
        return StartingPoint(query.joined(batches, said=said), initial)

    def _fitting_rows(self) -> FittingRows:
        batches = [X for X, _ in self._rows]
        labels = [labels for _, labels in self._rows]
        whole = labels[0] if len(labels) == 1 else np.concatenate(labels)

        def asked() -> StartingPoint:
            return self._start(batches, said=self._said)

        return FittingRows(asked(), whole, self.time_ordered_, self._seed, again=asked)

    def _learned_subgroups(self) -> Subgroups | None:
        return None if self.grouping_ is None else Subgroups(self.terms_.subgroups, self.grouping_)

    def _learn_grouping(self, X: Any, known: Grouping | None = None) -> Grouping | None:
        learned = Subgroups.learn(self.terms_.subgroups, [X], known or NO_GROUPING)
        return None if learned is None else learned.grouping

    def _baselines(self, outputs: MemberOutputs, labels: Floats) -> tuple[dict[str, Floats], Floats | None]:
        """Return what members, and average, stack, ridge and mean label if they were learned, earn in each row.

        What the mean label earns comes by itself too, as a member may have its name.
        """
        names = [name for name, _ in self.members_]
        found = {name: outputs.earned(actions, labels) for name, actions in zip(names, outputs.actions, strict=True)}
        itself = self._itself
        if self._forecaster is None:
            return {name: payoff for name, payoff in found.items() if name not in itself}, None
        with one_blas_thread():
            batch = self._forecaster(outputs)
        simple = {name: outputs.earned(taken, labels) for name, taken in solve_policies(outputs.omega, batch).items()}
        rest = {name: payoff for name, payoff in simple.items() if name not in found}
        mean = None if MEAN in itself else simple[MEAN]
        return {name: payoff for name, payoff in (found | rest).items() if name not in itself}, mean

    @property
    def _itself(self) -> tuple[str, ...]:
        """The baselines that do what the ensemble does, where nothing was corrected: it is not compared with itself."""
        if any(log.rounds for log in self.log_):
            return ()
        if self.kind == WHITE_BOX:
            return (self.members_[0][0], AVERAGE) if len(self.members_) == 1 else ()
        # a policy may have that name, and is compared
        return (MEAN,) if self._algorithm().from_mean and MEAN not in dict(self.members_) else ()

    # Calibration

    @property
    def has_record(self) -> bool:
        """Whether there is an out-of-fold record that promises rest on."""
        return hasattr(self, "record_")

    def _calibrated(self, assessed: Floats, possible: Possible | None = None) -> Floats:
        """Return self-assessments calibrated by the out-of-fold record; without one the algorithm's own."""
        return self.record_.correct(assessed, None, possible) if self.has_record else assessed

    def _possible(self, situation: Situation) -> Possible | None:
        """Return the payoffs that the actions taken can come to; None where nothing is known of that."""
        if not self.has_record:
            return None
        omega: Any = situation.omega
        return self.record_.labels.payoffs(omega, situation.taken(situation.actions), self.terms_.sign)

    def _why_no_record(self) -> str:
        """Return why no out-of-fold record can be made; nothing if it can."""
        if self._streamed:
            return "it was fitted on rows that were read from a source, and a record needs them all in memory"
        if not self._knows_its_rows:
            return "the rows it was fitted on are not in its file"
        if self.n_rows_ < MINIMUM_ROWS:
            return f"it was fitted on {self.n_rows_} rows, and below {MINIMUM_ROWS} nothing can be judged out of fold"
        return ""

    @property
    def _knows_its_rows(self) -> bool:
        return len(self._stages) == len(self.log_)
