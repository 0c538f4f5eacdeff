"""What white box and black box share: parameters, the fit around the loop, and the replay behind every answer."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble._core.threads import one_blas_thread
from optensemble._core.validation import require_choice, require_number
from optensemble.ensembles.base import Answer, Policy
from optensemble.ensembles.cross_validation import Replies, Stage, Study, cross_validate
from optensemble.ensembles.hyperparameters import Terms
from optensemble.evaluation.audit import Audit, Observed, audit
from optensemble.evaluation.lemmas_in_sample import Setting, audited_partitions, observe
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.explanation.cases import explain_replay
from optensemble.explanation.explanation import Explanation, as_coordinates, as_row
from optensemble.feasible import FeasibleSet
from optensemble.members.fingerprints import count_seen, fingerprints, marks
from optensemble.members.outputs import View
from optensemble.members.subgroups import Grouping, Titles, part_titles
from optensemble.members.validation import as_labels, number_labels, require_rows, row_count, row_labels
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.history import Recorder, history_frame
from optensemble.multicalibration.loop import PatchLog, Run, count_thin, replay, walk, worst_violation
from optensemble.multicalibration.resolution import require_resolution
from optensemble.multicalibration.state import Situation
from optensemble.stacking.final_policy import play
from optensemble.stacking.forecaster import Forecaster, learn_simple
from optensemble.stats.sample_size import MINIMUM_ROWS
from optensemble.stats.sampling import Sampling

Callback = Callable[[int, float], None]


class Ensemble(Policy):
    """The common ground of :class:`WhiteBoxEnsemble` and :class:`BlackBoxEnsemble`; not to be used itself."""

    feasible: FeasibleSet
    sense: str
    alpha: float
    bucket_width: float
    schedule: str | None
    max_rounds: int | None
    shrinkage: float | None
    min_cell: int | None
    groups: Any
    M: float | None
    validation: str | None

    terms_: Terms
    schedule_: str
    shrinkage_: float
    min_cell_: int
    members_: list[tuple[str, Any]]
    names_: list[str]
    log_: tuple[PatchLog, ...]
    grouping_: Grouping | None
    time_ordered_: bool
    M_: float
    n_rows_: int
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
    _stages: list[Stage]
    _seed: int | None
    _forecaster: Forecaster | None

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X, from one replay of the corrections."""
        now = self._as_it_stands()
        situation = now._replayed(X)
        assessed: Floats = situation.taken(situation.assessed)
        unknown = np.full_like(assessed, np.inf)
        low, high = now.record_.limits(assessed) if hasattr(now, "record_") else (-unknown, unknown)
        return Answer(
            actions=situation.taken(situation.actions),
            promised=now._promised(situation),
            low=low,
            high=high,
            chosen=situation.choice,
            predictions=situation.behind(),
            assessed=assessed,
        )

    def self_assess(self, X: Any) -> Floats:
        """Return the payoff promised for every row of X, in the user's units and sense.

        With ``validation="cv"`` it is what can be believed: corrected by the out-of-fold record. With
        ``validation=None`` it is the algorithm's own, which is honest on the fitting rows alone; see :meth:`promise`.
        """
        return self.answer(X).promised

    def promise(self, X: Any) -> Promise:
        """Promise the average payoff over the rows of X, with a 95 % interval for what will be realised on them.

        It rests on a record of rows that corrections were not learned from. With ``validation="cv"`` the fit left
        one. With ``validation=None`` the first call makes it, by debiasing anew without each of the folds in turn:
        this takes as long as some ten fits, and the rows fitted on must be as they were. Where there can be no
        record, below 100 rows or after loading a file without one, the interval is infinite and ``note`` says why.
        """
        now = self._as_it_stands()
        situation = now._replayed(X)
        promise = now._promise(situation)
        self._keep("record_", now)
        return promise

    def _promise_of(self, assessed: Assessments) -> Promise:
        """Promise the average payoff over rows of which only a summary of their assessments is at hand."""
        now = self._as_it_stands()
        now._require_fitted()
        require_rows(assessed.count, 1)
        missing = "" if hasattr(now, "record_") else now._cross_fit()
        if not missing:
            self._keep("record_", now)
            return now.record_.promise(assessed)
        return Promise(
            mean=assessed.mean,
            low=-np.inf,
            high=np.inf,
            rows=assessed.count,
            rely_on=-now.terms_.sign * np.inf,
            time_ordered=now.time_ordered_,
            note=f"{missing}: nothing is known of other rows. Judge it by audit(X, Y) on rows of known labels",
        )

    def audit(self, X: Any, Y: Any, *, time_ordered: bool | None = None, groups: Any = None) -> Audit:
        """Judge the ensemble on rows of known labels that it was not fitted on.

        Parameters
        ----------
        X, Y
            The rows and their labels.
        time_ordered
            Whether the rows are in time order; by default as the rows fitted on were.
        groups
            If rows of the same label belong together (a customer, a day): a label for every row, or a column of X.

        Returns
        -------
        Promised beside realised payoff, biases and regrets, with intervals. Its rivals are the members as they were
        given, and what anyone would make of them: average, stack, ridge, and the mean label; its arms are whom the
        ensemble may follow, corrected.
        """
        require_choice(time_ordered, "time_ordered", [None, True, False])
        now = self._as_it_stands()
        now._require_fitted()
        terms = now.terms_
        labels = as_labels(Y, row_count(X), terms.feasible.dimension, None)
        replies = now._ask([X])
        seen = count_seen(fingerprints(*replies.said, labels), now.fingerprints_)
        before = terms.situation(replies)
        given = before.actions[:-1] if before.given else before.actions
        rivals = {name: row_dots(actions, labels) for (name, _), actions in zip(now.members_, given, strict=True)}
        for name, actions in now._simple_policies(replies, given).items():
            rivals.setdefault(name, row_dots(actions, labels))
        situation = now._replay(before)
        observed = Observed(
            promised=now._promised(situation),
            realised=row_dots(situation.taken(situation.actions), labels),
            interval=now._promise(situation),
            names=list(now.names_),
            chosen=situation.choice,
            arms=np.stack([row_dots(actions, labels) for actions in situation.actions]),
            rivals=rivals,
            residuals=labels - situation.behind(),
            partitions=audited_partitions(situation, terms.buckets, now._group_titles, now.names_),
            sign=terms.sign,
            time_ordered=now.time_ordered_ if time_ordered is None else bool(time_ordered),
            clusters=None if groups is None else number_labels(row_labels(groups, X, len(labels))),
            seen=seen,
        )
        for learned in ("record_", "_forecaster"):
            self._keep(learned, now)
        return audit(observed)

    def explain(self, X: Any, row: int = 0, coordinates: Sequence[Any] | None = None) -> Explanation:
        """Say why a row of X is decided as it is; parameters as of :meth:`DecisionEnsemble.explain`."""
        now = self._as_it_stands()
        now._require_fitted()
        terms, row = now.terms_, as_row(row, row_count(X))
        named = as_coordinates(coordinates, terms.feasible.dimension)
        return explain_replay(
            terms.situation(now._ask([X]).take(np.array([row]))),
            now.log_,
            terms.buckets,
            now.names_,
            now._group_titles,
            row=row,
            coordinates=named,
            start="mean" if now._from_mean else "init",
            believe=now._believed,
            believed="calibrated" if terms.validated else "corrected",
        )

    def score(self, X: Any, Y: Any) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        now = self._as_it_stands()
        actions = now.decide(X)
        require_rows(len(actions), 1)
        labels = as_labels(Y, len(actions), now.terms_.feasible.dimension, None)
        return now.terms_.sign * float(row_dots(actions, labels).mean())

    def retrace(self, X: Any, rounds: Iterable[int]) -> Iterator[Situation]:
        """Follow the corrections on the rows of X, which may be any, and show how things stand in between.

        Parameters
        ----------
        X
            The rows.
        rounds
            After how many rounds to look, ascending; what lies beyond the last round shows the end.

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
        return walk(now._begin(X), now.log_, looks[1:])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "log_")

    # Before the loop

    @abstractmethod
    def _ask(self, batches: Sequence[Any]) -> Replies:
        """Ask all members about the rows of all batches, one after the other."""

    @abstractmethod
    def _layout(self) -> Layout:
        """Return the cells to be consistent on."""

    @abstractmethod
    def _tabulate(self, situation: Situation, labels: Floats, setting: Setting) -> None:
        """Learn the tables of guarantees."""

    @property
    def _from_mean(self) -> bool:
        """Whether the model begins as the mean of the labels it is fitted on."""
        return False

    def _begin(self, X: Any) -> Situation:
        """Return the situation before any correction."""
        return self.terms_.situation(self._ask([X]))

    def _replay(self, situation: Situation) -> Situation:
        for log in self.log_:
            replay(situation, log)
        return situation

    def _replayed(self, X: Any) -> Situation:
        self._require_fitted()
        return self._replay(self._begin(X))

    def _promised(self, situation: Situation) -> Floats:
        return self._believed(situation.taken(situation.assessed))

    def _believed(self, assessed: Floats) -> Floats:
        """Return what can be believed of every row, if that was learned; otherwise the algorithm's own assessment."""
        return self.record_.correct(assessed) if self.terms_.validated else assessed

    def _promise(self, situation: Situation) -> Promise:
        return self._promise_of(Assessments.of(situation.taken(situation.assessed)))

    def _prepare(self, X: Any, Y: Any, time_ordered: bool, random_state: int | None) -> Self:
        """Check what can be checked beforehand, and return a copy to fit, so that a failure loses nothing."""
        self._check_parameters()
        require_choice(time_ordered, "time_ordered", [True, False])
        if random_state is not None:
            require_number(random_state, "random_state", at_least=0, whole=True)
        n = row_count(X)
        require_rows(n)
        labels = as_labels(Y, n, self.feasible.dimension, self.M)
        fitted = self.__sklearn_clone__()
        fitted.terms_ = Terms.of(self)
        fitted.terms_.require_enough(n)
        fitted.grouping_, fitted.time_ordered_ = fitted._learn_groups(X), time_ordered
        fitted.log_, fitted._stages, fitted._seed = (), [], random_state
        fitted._rows, fitted._forecaster = [(X, labels.copy())], None
        return fitted

    def _check_parameters(self) -> None:
        Terms.of(self).check()

    @property
    def _group_titles(self) -> Titles:
        return () if self.grouping_ is None else part_titles(self.terms_.groups, self.grouping_)

    def _learn_groups(self, X: Any, known: Grouping | None = None) -> Grouping | None:
        if self.terms_.groups is None:
            return None
        return (known or Grouping(())).learn(self.terms_.group_labels(X))

    def _group_parts(self, batches: Sequence[Any]) -> npt.NDArray[np.int32] | None:
        if self.grouping_ is None:
            return None
        return np.concatenate([self.grouping_(self.terms_.group_labels(X)) for X in batches], axis=1)

    @property
    def _group_sizes(self) -> tuple[int, ...]:
        return () if self.grouping_ is None else self.grouping_.sizes

    def _simple_policies(self, replies: Replies, actions: Floats) -> dict[str, Floats]:
        """Return what average, stack, ridge and the mean label, learned on the fitting rows, would do."""
        forecaster, omega = self._learn_simple(), self.terms_.feasible
        if forecaster is None:
            return {}
        view = self._view(replies, actions, forecaster.scale)
        with one_blas_thread():
            forecasts = forecaster(view, omega, self.terms_.buckets)
        return play(view, forecasts, omega)

    def _learn_simple(self) -> Forecaster | None:
        """Learn them when they are first asked for; None where the fitting rows are gone or too few."""
        if self._forecaster is None and self._rows and self.n_rows_ >= MINIMUM_ROWS:
            labels, replies = self.terms_.sign * self._all_labels(), self._ask_all()
            actions = self.terms_.situation(replies).actions[: len(self.members_)]
            view = self._view(replies, actions, labels.std(axis=0))
            parts = Sampling(self.time_ordered_).folds(len(labels), self._seed)
            with one_blas_thread():
                self._forecaster = learn_simple(view, labels, parts)
        return self._forecaster

    def _view(self, replies: Replies, actions: Floats, scale: Floats) -> View:
        none = np.empty((0, *actions.shape[1:]))
        return View(none if replies.actions is not None else self.terms_.sign * replies.predictions, actions, scale)

    # The loop, and after it

    def _ask_all(self) -> Replies:
        return self._ask([X for X, _ in self._rows])

    def _all_labels(self) -> Floats:
        return self._rows[0][1] if len(self._rows) == 1 else np.concatenate([labels for _, labels in self._rows])

    def _learn(self, fitted: Self, replies: Replies, callback: Callback | None) -> Run:
        """Debias on all rows from where the log has come to, and become what was fitted."""
        terms, labels = fitted.terms_, fitted._all_labels()
        require_resolution(terms.alpha, labels, replies.predictions)
        fitted.fingerprints_ = fitted._add_fingerprints(marks(*replies.said, labels))
        stage = terms.stage(fitted._layout(), len(labels))
        if terms.validated:
            stage = fitted._validate(replies, labels, stage)
        situation = fitted._replay(terms.situation(replies))
        run = stage.debias(situation, labels, callback)
        if run.interrupted and terms.validated:
            raise KeyboardInterrupt  # the record is one of all rounds
        fitted.log_ = (*fitted.log_, run.log)
        fitted._stages = [*fitted._stages, stage._replace(rounds=len(run.log.rounds))]
        if run.interrupted:
            situation = fitted._replay(terms.situation(fitted._ask_all()))  # the last round may be half done
        fitted._tabulate(situation, labels, fitted._conclude(situation, labels, stage, run))
        self._become(fitted)
        return run

    def _conclude(self, situation: Situation, labels: Floats, stage: Stage, run: Run) -> Setting:
        """Learn how it went; what the guarantees are a function of is returned."""
        terms = self.terms_
        self.schedule_, self.shrinkage_, self.min_cell_ = stage.schedule, stage.shrinkage, stage.min_cell
        self.worst_violation_ = worst_violation(situation, labels, stage.layout, stage.min_cell)
        self.converged_ = bool(self.worst_violation_ <= terms.alpha)
        self.n_thin_, occupied = count_thin(situation, stage.layout, stage.min_cell)
        tried = len(self.validation_) if terms.validated else None
        self.stopped_ = why_stopped(run, self.worst_violation_, stage, self.n_thin_, occupied, tried)
        entries = [*run.history, Recorder(situation, labels).entry(self.worst_violation_)]
        self.history_ = history_frame(entries, self.names_, self.names_[situation.given :])
        self.M_ = float(np.abs(labels).max()) if terms.M is None else float(terms.M)
        self.n_rows_, self.n_rounds_ = len(labels), len(run.log.rounds)
        self.n_patches_, self.n_solves_ = run.patches, situation.solves
        # the lemmas speak of all cells, those that were left out too
        worst = worst_violation(situation, labels, stage.layout) if self.n_thin_ else self.worst_violation_
        return observe(situation, run, self.history_, terms.feasible, terms.alpha, terms.bucket_width, self.M_, worst)

    def _announce(self, run: Run) -> None:
        """Warn of what the user should know, and pass on an interrupt once everything is in its place."""
        if run.interrupted:
            raise KeyboardInterrupt
        if self.n_rounds_ == 0 and self.alpha >= 2 * self.M_:
            warnings.warn(
                f"alpha={self.alpha:g} is more than labels of size {self.M_:g} can be wrong by: nothing was corrected. "
                "Alpha is in the units of the labels; take a smaller one.",
                UserWarning,
                stacklevel=3,
            )
        if not self.converged_ and not self.terms_.validated:
            advice = (
                "Take a smaller alpha, or schedule='frozen'" if run.finished else "Allow more rounds, or more alpha"
            )
            from optensemble.exceptions import NotConvergedWarning

            warnings.warn(f"debiasing did not converge: {self.stopped_}. {advice}.", NotConvergedWarning, stacklevel=3)

    # Out of fold

    def _study(self, replies: Replies, labels: Floats) -> Study:
        sampling = Sampling(self.time_ordered_)
        return Study(replies, labels, self.terms_.situation, self._from_mean, sampling, self._seed)

    def _validate(self, replies: Replies, labels: Floats, stage: Stage) -> Stage:
        """Learn out of fold how much to shrink and how many rounds to make, and what the outcome may promise."""
        terms = self.terms_
        choice = cross_validate(self._study(replies, labels), stage, terms.shrinkages(stage), terms.sign)
        self.validation_ = choice.table
        self.record_ = Record(choice.promised, choice.realised, terms.sign, self.time_ordered_, curse=choice.curse)
        return stage._replace(shrinkage=choice.shrinkage, rounds=choice.rounds)

    def _cross_fit(self) -> str:
        """Record what the fit does out of fold; return why that cannot be, or nothing."""
        labels = self._all_labels() if self._rows else np.empty((0, 0))
        if not self._knows_its_rows:
            return "the rows it was fitted on are not in its file"
        if len(labels) < MINIMUM_ROWS:
            return f"it was fitted on {len(labels)} rows, and below {MINIMUM_ROWS} nothing can be judged out of fold"
        replies = self._ask_all()
        if not np.array_equal(marks(*replies.said, labels), self.fingerprints_):
            return "the rows it was fitted on have changed since"
        _, promised, realised = self._study(replies, labels).out_of_fold(self._stages)
        self.record_ = Record(promised[-1], realised[-1], self.terms_.sign, self.time_ordered_)
        return ""

    @property
    def _knows_its_rows(self) -> bool:
        return len(self._stages) == len(self.log_)

    def _add_fingerprints(self, found: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        return found if self._knows_its_rows else np.concatenate([self.fingerprints_, found])


def why_stopped(run: Run, worst: float, stage: Stage, thin: int, occupied: int, tried: int | None) -> str:
    """Say why a fit ended where it did; ``tried`` counts the candidates of a cross-validation, if there was one."""
    rounds, least = len(run.log.rounds), stage.min_cell
    left = f"the worst violation left is {worst:.3g}, above alpha={stage.alpha:g}"
    if tried and tried > 1 and rounds == 0:
        reason = "no correction earned more out of fold than none"
    elif worst <= stage.alpha:
        reason = f"every cell {f'of at least {least} rows ' if thin else ''}is within alpha"
    elif tried and tried > 1:
        reason = f"of all that was tried, {rounds} round{'s' if rounds > 1 else ''} earned most out of fold; {left}"
    elif run.interrupted:
        reason = f"interrupted after {rounds} rounds; {left}"
    elif run.finished:
        reason = f"a full cycle saw no violation above alpha, but its own patches brought one back; {left}"
    else:
        reason = f"max_rounds={rounds} reached; {left}"
    left_out = f" ({thin:,} of {occupied:,} cells have fewer than {least} rows and were left as they are)"
    return reason + (left_out if thin else "")
