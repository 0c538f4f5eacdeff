"""The honest front door: models, policies or both in, one policy out, and a promise that can be believed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import row_dots
from optensemble._core.number_format import figures
from optensemble._core.progress import Progress, Stage, Step, as_progress, silent
from optensemble._core.threads import one_blas_thread, thread_count
from optensemble._core.validation import as_flag, require_choice, require_number
from optensemble.ensembles.base import Answer, Policy
from optensemble.evaluation.audit import Audit, Observed, audit
from optensemble.evaluation.lemmas_out_of_fold import level_sets, verify
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError, RefitWarning
from optensemble.explanation.cases import explain_decision
from optensemble.explanation.explanation import Explanation, as_coordinates, as_row
from optensemble.feasible import FeasibleSet, require_set
from optensemble.members.fingerprints import count_seen, fingerprints, marks
from optensemble.members.fit_inputs import (
    as_member_list,
    group_labels,
    is_rule,
    number_repeats,
    require_enough,
    require_size,
)
from optensemble.members.outputs import View
from optensemble.members.query import ask_members
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import (
    as_labels,
    as_members,
    number_labels,
    require_rows,
    row_count,
    row_labels,
    warn_if_trained_on,
)
from optensemble.stacking.final_policy import (
    Decided,
    Decider,
    Learning,
    beyond_members,
    last_of,
    learn_decider,
    members_assessed,
    play,
    title_all,
)
from optensemble.stacking.forecaster import FORECASTS, PATCHED, REFINED, Learned, learn_forecasts
from optensemble.stacking.leaderboard import ENSEMBLE_NAME, finding, league_curse, make_leaderboard
from optensemble.stats.folds import Fold, fold_numbers
from optensemble.stats.sampling import Sampling

BUCKETS = 10
_SEEN = 0.1  # some rows may be alike by chance: a night without sun
_OLD = "rows have come since the fit on"
_BROKEN = 2.0  # half-widths: an honest promise is missed by more in one batch of ten thousand
_STALE = 0.4
"""New rows, as a share of those fitted on, after which a fit in time order is due again."""


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

    names_: list[str]
    members_: list[tuple[str, Any]]
    n_models_: int
    decider_: Decider
    winner_: str
    leaderboard_: pd.DataFrame
    finding_: str
    guarantees_: pd.DataFrame
    notes_: list[str]
    record_: Record
    advantage_: Record
    time_ordered_: bool
    n_rows_: int
    n_updated_: int
    refit_due_: str
    _set: FeasibleSet
    _sense: str
    _sign: float
    _seed: int | None
    _subgroups: Subgroups | None
    _groups: list[Any] | None
    _rows: list[tuple[Any, Floats, Any]]
    _later: list[tuple[Any, Floats, Any]]

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
            self._fit_rows([(X, Y, groups)], time_ordered, random_state, n_jobs, progress)
        return self

    def extend(
        self,
        *,
        models: Any = None,
        policies: Any = None,
        X: Any = None,
        Y: Any = None,
        groups: Any = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit again with further members, further rows, or both, and with all rows that :meth:`update` was given.

        Rows are added to those so far (labels are kept, X is kept by reference). An ensemble that was loaded from a
        file has none of these: it is fitted on the new rows alone, with a warning.
        """
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
            old_models, old_policies = self.members_[: self.n_models_], self.members_[self.n_models_ :]
            wider.models = [*old_models, *as_member_list(models, "models")]
            wider.policies = [*old_policies, *as_member_list(policies, "policies")]
            self._require_same_rows()
            rows = [*self._rows, *self._later]
            rows += [] if X is None else [(X, Y, self._same_groups(groups))]
            seed = self._seed if random_state is None else random_state
            wider._fit_rows(rows, self.time_ordered_, seed, n_jobs, progress)
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
        view, decided, labels = self._decide_labelled(X, Y)
        found, groups = fingerprints(*view.said, labels), self._same_groups(groups)
        seen = count_seen(found, self.fingerprints_)
        if seen > _SEEN * len(labels):
            raise InputError(f"{seen:,} of these {len(labels):,} rows were fitted on or given before. Give new ones.")
        if groups is not None:
            self._groups = [*(self._groups or []), *row_labels(groups, X, view.count)]
        clusters = None if self._groups is None else number_labels(self._groups)[-view.count :]
        assessed, realised = self._sign * decided.assessed, self._sign * row_dots(decided.actions, labels)
        promised = self.record_.promise(assessed)
        self.record_ = self.record_.extend(assessed, realised, clusters)
        ahead, gained = beyond_members(view, decided, labels)
        self.advantage_ = self.advantage_.extend(self._sign * ahead, self._sign * gained, clusters)
        if len(self.fingerprints_):
            self.fingerprints_ = np.concatenate([self.fingerprints_, found])
        self.n_updated_ += len(labels)
        self._later = [*self._later, (X, self._sign * labels, groups)]
        self.refit_due_ = self._why_refit(promised, float(realised.mean()))

    # Answers

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X at once."""
        now = self._as_it_stands()
        decided = now._decide(now._view(X))
        assessed = now._sign * decided.assessed
        low, high = now.record_.limits(assessed)
        return Answer(
            actions=np.array(decided.actions),
            promised=now.record_.correct(assessed),
            low=low,
            high=high,
            chosen=decided.chosen,
            predictions=now._sign * decided.forecast,
            assessed=assessed,
        )

    def _promise_of(self, assessed: Assessments) -> Promise:
        """Promise the average payoff over rows of which only a summary of their assessments is at hand."""
        self._require_fitted()
        require_rows(assessed.count, 1)
        return self.record_.promise(assessed)

    def promise(self, X: Any) -> Promise:
        """Promise the average payoff over the rows of X, with a 95 % interval for what will be realised on them."""
        now = self._as_it_stands()
        view = now._view(X)
        require_rows(view.count, 1)
        decided = now._decide(view)
        promise = now.record_.promise(now._sign * decided.assessed)
        assessed = now._sign * (decided.assessed - members_assessed(view, decided))
        return replace(promise, advantage=now.advantage_.promise(assessed))

    def explain(self, X: Any, row: int = 0, coordinates: Sequence[Any] | None = None) -> Explanation:
        """Say why a row of X is decided as it is: who is followed, what else could be done, what moved the prediction.

        Parameters
        ----------
        X
            A batch of rows, of which one is explained.
        row
            Which, counted from 0.
        coordinates
            Names of the coordinates of an action, for tables and words; by default they are numbered.
        """
        now = self._as_it_stands()
        now._require_fitted()
        row, named = as_row(row, row_count(X)), as_coordinates(coordinates, now._set.dimension)
        terms = (now._set, now._buckets, now.names_, now.record_.correct, now._sign)
        why = now.leaderboard_["why"]
        always = why[now.leaderboard_["chosen"]].item()
        with one_blas_thread():
            return explain_decision(now.decider_, now._view(X), *terms, row=row, coordinates=named, always=always)

    def score(self, X: Any, Y: Any) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        _, decided, labels = self._as_it_stands()._decide_labelled(X, Y)
        return float(row_dots(decided.actions, labels).mean())

    def audit(self, X: Any, Y: Any, *, time_ordered: bool | None = None, groups: Any = None) -> Audit:
        """Judge the ensemble on rows of known labels that it was not fitted on; see :class:`~optensemble.Audit`.

        ``time_ordered`` is by default as the rows fitted on were; ``groups`` are as of :meth:`fit`, by
        default the column or callable that was given there.
        """
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [None, True, False])
        now = self._as_it_stands()
        groups = now._rule if groups is None else groups
        view, decided, labels = now._decide_labelled(X, Y)
        with one_blas_thread():
            played = play(view, now.decider_.forecaster(view, now._set, now._buckets), now._set)
        arms = [*view.actions, *(played[name] for name in now.decider_.forecasts)]
        earned = [now._sign * row_dots(actions, labels) for actions in arms]
        elaborate = [now._number(name) for name in (REFINED, PATCHED) if name in played]
        simple = [number for number in range(len(arms)) if number not in elaborate]
        return audit(
            Observed(
                promised=now.record_.correct(now._sign * decided.assessed),
                realised=now._sign * row_dots(decided.actions, labels),
                interval=now.record_.promise(now._sign * decided.assessed),
                names=list(now.names_),
                chosen=decided.chosen,
                arms=np.stack(earned),
                rivals={now.names_[number]: earned[number] for number in simple},
                residuals=now._sign * (labels - decided.forecast),
                partitions=level_sets(view, decided, now._buckets, now.names_, [name for name, _ in now.members_]),
                sign=now._sign,
                time_ordered=now.time_ordered_ if time_ordered is None else bool(time_ordered),
                clusters=None if groups is None else number_labels(row_labels(groups, X, view.count)),
                seen=count_seen(fingerprints(*view.said, labels), now.fingerprints_),
            )
        )

    # Fitting

    def _fit_rows(
        self,
        rows: list[tuple[Any, Any, Any]],
        time_ordered: bool,
        random_state: int | None,
        n_jobs: int | None,
        progress: Progress | None,
    ) -> None:
        """Learn on a copy, so that a failure or an interrupt loses nothing."""
        tell = as_progress(progress)
        fitted, view, labels, sampling = self._prepare(rows, time_ordered, random_state, tell)
        threads, parts = thread_count(n_jobs), sampling.folds(view.count, random_state)
        with one_blas_thread():
            learned = learn_forecasts(view, labels, fitted._set, fitted._buckets, sampling, parts, threads, tell)
            members = [name for name, _ in fitted.members_]
            titles = title_all(members)
            fitted.names_ = [*members, *(titles[name] for name in FORECASTS if name in learned.out_of_fold)]
            names = [*fitted.names_, titles[ENSEMBLE_NAME]]
            learning = learn_decider(names, view, labels, fitted._set, learned, sampling, parts, tell)
            with Stage(tell, "verifying", 1):
                fitted._conclude(view, labels, learned, learning, sampling, parts, titles)
        self._become(fitted)

    def _prepare(
        self, rows: list[tuple[Any, Any, Any]], time_ordered: bool, random_state: int | None, progress: Progress
    ) -> tuple[Self, View, Floats, Sampling]:
        models, policies = as_member_list(self.models, "models"), as_member_list(self.policies, "policies")
        omega = require_set(self.feasible)
        require_choice(self.sense, "sense", ["max", "min"])
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [True, False])
        if random_state is not None:
            require_number(random_state, "random_state", at_least=0, whole=True)
        fitted = self.__sklearn_clone__()
        if not models and not policies:
            raise InputError("no models or policies were given. Give pairs of a name and a member.")
        fitted.members_, fitted.n_models_ = as_members([*models, *policies], "models and policies"), len(models)
        fitted._take_terms(omega)
        fitted.time_ordered_, fitted._seed = time_ordered, random_state
        counts = [row_count(X) for X, _, _ in rows]
        require_enough(sum(counts))
        labelled = [as_labels(Y, n, omega.dimension, None) for n, (_, Y, _) in zip(counts, rows, strict=True)]
        labels = fitted._sign * np.concatenate(labelled)
        require_size(labels)
        fitted._rows = [(X, Y.copy(), groups) for Y, (X, _, groups) in zip(labelled, rows, strict=True)]
        fitted._subgroups = Subgroups.learn(self.subgroups, [X for X, _, _ in rows])
        with Stage(progress, "asking members", len(rows) * len(fitted.members_)) as step:
            view = View.joined([fitted._ask(X, labels.std(axis=0), step) for X, _, _ in rows])
        for (name, model), predictions in zip(models, view.predictions, strict=True):
            warn_if_trained_on(model, name, fitted._sign * predictions, fitted._sign * labels, stacklevel=5)
        fitted.fingerprints_ = marks(*view.said, labels)
        fitted._groups = group_labels(rows, counts)
        clusters = None if fitted._groups is None else number_labels(fitted._groups)
        if clusters is None and not time_ordered:
            clusters = number_repeats(fitted.fingerprints_)
        return fitted, view, labels, Sampling(time_ordered, clusters)

    def _take_terms(self, omega: FeasibleSet) -> None:
        """Keep the parameters of this fit: those set later wait for the next."""
        self._set, self._sense, self._sign = omega, self.sense, 1.0 if self.sense == "max" else -1.0

    def _conclude(
        self,
        view: View,
        labels: Floats,
        learned: Learned,
        learning: Learning,
        sampling: Sampling,
        parts: list[Fold],
        titles: dict[str, str],
    ) -> None:
        """Learn what came of it: who won, what may be promised, and what is known of both."""
        sign, candidates, decided = self._sign, learning.candidates, learning.decided
        self.decider_, winner = learning.decider, learning.decider.winner
        self.winner_ = candidates[winner].name
        self.n_rows_, self.n_updated_, self.refit_due_, self._later = view.count, 0, "", []
        left_out = {titles[name]: why for name, why in learned.left_out.items()}
        self.notes_ = [f"{name} was left out: {why}" for name, why in left_out.items()]
        self.notes_ += learned.patched.notes
        self.leaderboard_ = make_leaderboard(candidates, winner, sampling, sign, learning.followed, left_out)
        members, number = [candidates[m] for m in range(len(self.members_))], self._number
        constant = self._set.argmax(labels.mean(axis=0, keepdims=True))[0]
        self.finding_ = finding(candidates, winner, labels @ constant, sampling, sign)
        own = candidates[number(last_of(learned.out_of_fold))]
        self.guarantees_ = verify(learned, own, members, labels, self._set, self._buckets, sampling, sign)
        record = Record(
            assessed=sign * decided.assessed,
            realised=sign * row_dots(decided.actions, labels),
            sign=sign,
            time_ordered=sampling.time_ordered,
            clusters=sampling.clusters,
            curse=league_curse(candidates, sampling, self._seed),
            folds=fold_numbers(parts),
        )
        self.record_ = record
        assessed, realised = beyond_members(view, decided, labels)
        self.advantage_ = replace(record, assessed=sign * assessed, realised=sign * realised)

    def _number(self, forecast: str) -> int:
        return len(self.members_) + self.decider_.forecasts.index(forecast)

    # Looking at rows

    @property
    def _buckets(self) -> Buckets:
        return Buckets(self._set.lower, self._set.upper, BUCKETS)

    def _ask(self, X: Any, scale: Floats, step: Step = silent) -> View:
        """Ask every member of the rows of X."""
        models, policies = self.members_[: self.n_models_], self.members_[self.n_models_ :]
        return ask_members(models, policies, X, self._set, self._sign, scale, self._subgroups, step)

    def _view(self, X: Any) -> View:
        self._require_fitted()
        return self._ask(X, self.decider_.forecaster.scale)

    def _decide(self, view: View) -> Decided:
        with one_blas_thread():
            return self.decider_(view, self._set, self._buckets)

    def _decide_labelled(self, X: Any, Y: Any) -> tuple[View, Decided, Floats]:
        view = self._view(X)
        require_rows(view.count, 1)
        labels = self._sign * as_labels(Y, view.count, self._set.dimension, None)
        return view, self._decide(view), labels

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
        """Return the column or callable that groups were found by, if they were and it is known."""
        groups = self._rows[-1][2] if getattr(self, "_rows", None) else None
        return groups if is_rule(groups) else None

    def _require_same_rows(self) -> None:
        """Refuse to go on with rows that are no longer what they were."""
        for X, Y, _ in self._rows[:1]:
            view = self._ask(X, self.decider_.forecaster.scale)
            found = marks(*view.said, self._sign * Y)
            if len(self.fingerprints_) and not np.array_equal(found, self.fingerprints_[: view.count]):
                raise InputError("X was changed since the fit, or a member answers otherwise. Fit again on all rows.")

    def _why_refit(self, promised: Promise, realised: float) -> str:
        """Say why to fit again, and go on saying so until that is done; nothing while there is no reason."""
        reasons = [self.refit_due_] if self.refit_due_ else []
        if abs(realised - promised.mean) > _BROKEN * (promised.high - promised.mean):
            shown = figures([realised, promised.low, promised.high, promised.high - promised.mean])
            reasons.append(
                f"{promised.rows:,} rows came to {shown[0]} on average, far from the promised {shown[1]} to {shown[2]}"
            )
        if self.time_ordered_ and self.n_updated_ >= _STALE * self.n_rows_ and _OLD not in self.refit_due_:
            reasons.append(f"{self.n_updated_:,} {_OLD} {self.n_rows_:,}")
        return "; ".join(reasons)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "decider_")
