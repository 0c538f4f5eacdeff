"""What white box and black box share: parameters, the fit around the loop, and the replay behind every answer."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator

from optensemble._evidence import Setting, observe
from optensemble._exact import row_dots
from optensemble._types import Floats, Indices
from optensemble._validation import (
    as_labels,
    bucket_count,
    group_columns,
    require_choice,
    require_number,
    require_resolution,
    require_rows,
    row_count,
)
from optensemble.debiasing import SCHEDULES, PatchLog, Run, debias, replay, worst_violation
from optensemble.events import Buckets, Grouping, Layout
from optensemble.exceptions import InputError, NotConvergedWarning, NotFittedError
from optensemble.feasible import FeasibleSet
from optensemble.history import Recorder, history_frame
from optensemble.situation import Situation

Callback = Callable[[int, float], None]


@dataclass(frozen=True)
class Answer:
    """Everything an ensemble has to say of a batch of rows.

    Attributes
    ----------
    actions
        What to do, of shape (n, d).
    promised
        The payoff it expects of that, per row.
    chosen
        Whom it follows, as an index into ``names_``.
    predictions
        The coefficients behind the decision, of shape (n, d).
    """

    actions: Floats
    promised: Floats
    chosen: Indices
    predictions: Floats


@dataclass(frozen=True)
class Terms:
    """The parameters of a fit, on which every answer depends: parameters set later wait for the next fit."""

    feasible: FeasibleSet
    sense: str
    bucket_width: float
    groups: Any
    alpha: float
    schedule: str
    max_rounds: int | None
    shrinkage: float
    M: float | None
    validation: None

    @property
    def sign(self) -> float:
        """Return 1 to maximise, -1 to minimise."""
        return 1.0 if self.sense == "max" else -1.0

    @property
    def buckets(self) -> Buckets:
        """Return the bucketing of the set's actions."""
        return Buckets(self.feasible.lower, self.feasible.upper, bucket_count(self.bucket_width))

    def group_labels(self, X: Any) -> list[list[Any]]:
        """Return the columns of group labels of the rows of X."""
        return group_columns(X, self.groups, row_count(X))


class Ensemble(BaseEstimator, ABC):
    """The common ground of :class:`WhiteBoxEnsemble` and :class:`BlackBoxEnsemble`; not to be used itself."""

    feasible: FeasibleSet
    sense: str
    alpha: float
    bucket_width: float
    schedule: str
    max_rounds: int | None
    shrinkage: float
    groups: Any
    M: float | None
    validation: None

    terms_: Terms
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
    converged_: bool
    stopped_: str
    worst_violation_: float
    history_: pd.DataFrame
    guarantees_: pd.DataFrame

    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X, from one replay of the corrections."""
        situation = self._replayed(X)
        return Answer(
            actions=situation.taken(situation.actions),
            promised=situation.taken(situation.assessed),
            chosen=situation.choice,
            predictions=situation.behind(),
        )

    def decide(self, X: Any) -> Floats:
        """Return the action to take for every row of X, of shape (n, d)."""
        return self.answer(X).actions

    def self_assess(self, X: Any) -> Floats:
        """Return the payoff promised for every row of X, in the user's units and sense."""
        return self.answer(X).promised

    def choose(self, X: Any) -> Indices:
        """Return for every row of X whom the ensemble follows, as an index into ``names_``."""
        return self.answer(X).chosen

    def predict(self, X: Any) -> Floats:
        """Return the corrected coefficients behind the decision for every row of X, of shape (n, d)."""
        return self.answer(X).predictions

    def score(self, X: Any, Y: Any) -> float:
        """Return the mean payoff earned on rows with known labels; of a cost its negative: greater is better."""
        actions = self.decide(X)
        require_rows(len(actions), 1)
        labels = as_labels(Y, len(actions), self.terms_.feasible.dimension, None)
        return self.terms_.sign * float(row_dots(actions, labels).mean())

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted ensemble to one file, whole or not at all; see :func:`optensemble.load`."""
        from optensemble.persistence import save

        self._require_fitted()
        save(self, path)

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
        self._require_fitted()
        looks = [0, *rounds]
        if sorted(looks) != looks:
            raise InputError(f"rounds must be at least 0 and ascend; got {looks[1:]}.")
        return self._walk(self._begin(X), looks)

    def _walk(self, situation: Situation, looks: list[int]) -> Iterator[Situation]:
        for done, after in pairwise(looks):
            begun = 0
            for log in self.log_:
                replay(situation, log, max(done - begun, 0), max(after - begun, 0))
                begun += len(log.rounds)
            yield situation

    def __sklearn_clone__(self) -> Self:
        # members are already fitted: a clone shares them, where scikit-learn would make them unfitted copies
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "log_")

    # Before the loop

    @abstractmethod
    def _begin(self, X: Any) -> Situation:
        """Return the situation before any correction."""

    def _replayed(self, X: Any) -> Situation:
        self._require_fitted()
        situation = self._begin(X)
        for log in self.log_:
            replay(situation, log)
        return situation

    def _require_fitted(self) -> None:
        if not hasattr(self, "log_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call fit(X, Y) first.")

    def _prepare(self, X: Any, Y: Any, time_ordered: bool) -> tuple[Self, Floats]:
        """Check what can be checked beforehand; return a copy to fit, so that a failure loses nothing, and labels."""
        self._check_parameters()
        require_choice(time_ordered, "time_ordered", [True, False])
        n = row_count(X)
        require_rows(n)
        labels = as_labels(Y, n, self.feasible.dimension, self.M)
        fitted = self.__sklearn_clone__()
        fitted._take_terms()
        fitted.grouping_, fitted.time_ordered_ = fitted._learn_groups(X), time_ordered
        return fitted, labels

    def _take_terms(self) -> None:
        self.terms_ = Terms(**{field.name: getattr(self, field.name) for field in fields(Terms)})

    def _check_parameters(self) -> None:
        if not isinstance(self.feasible, FeasibleSet):
            raise InputError(
                f"feasible must be a set from optensemble.feasible; got {type(self.feasible).__name__}. Wrap a "
                "function of your own as feasible.Oracle(function, dimension). One set serves all rows."
            )
        require_choice(self.sense, "sense", ["max", "min"])
        require_choice(self.schedule, "schedule", list(SCHEDULES))
        require_choice(self.validation, "validation", [None])
        require_number(self.alpha, "alpha", above=0)
        require_number(self.shrinkage, "shrinkage", at_least=0)
        bucket_count(self.bucket_width)
        if self.shrinkage > 0 and self.schedule != "joint":
            raise InputError(f"shrinkage is for schedule='joint'; got schedule={self.schedule!r}. Leave it at 0.")
        if self.max_rounds is not None:
            require_number(self.max_rounds, "max_rounds", at_least=0, whole=True)
        if self.M is not None:
            require_number(self.M, "M", above=0)

    def _learn_groups(self, X: Any, known: Grouping | None = None) -> Grouping | None:
        if self.terms_.groups is None:
            return None
        return (known or Grouping(())).learn(self.terms_.group_labels(X))

    def _group_parts(self, X: Any) -> npt.NDArray[np.int32] | None:
        return None if self.grouping_ is None else self.grouping_(self.terms_.group_labels(X))

    @property
    def _group_sizes(self) -> tuple[int, ...]:
        return () if self.grouping_ is None else self.grouping_.sizes

    # The loop, and after it

    def _debias(self, situation: Situation, labels: Floats, layout: Layout, callback: Callback | None) -> Run:
        terms = self.terms_
        require_resolution(terms.alpha, labels, situation.predictions)
        return debias(
            situation,
            labels,
            layout,
            schedule=terms.schedule,
            alpha=float(terms.alpha),
            max_rounds=terms.max_rounds,
            shrinkage=float(terms.shrinkage),
            callback=callback,
        )

    def _conclude(self, situation: Situation, labels: Floats, layout: Layout, run: Run) -> Setting:
        """Learn how it went; what the guarantees are a function of is returned."""
        terms = self.terms_
        self.worst_violation_ = worst_violation(situation, labels, layout)
        self.converged_ = bool(self.worst_violation_ <= terms.alpha)
        self.stopped_ = self._reason(run)
        entries = [*run.history, Recorder(situation, labels).entry(self.worst_violation_)]
        self.history_ = history_frame(entries, self.names_, self.names_[situation.given :])
        self.M_ = float(np.abs(labels).max()) if terms.M is None else float(terms.M)
        self.n_rows_, self.n_rounds_ = len(labels), len(run.log.rounds)
        self.n_patches_, self.n_solves_ = run.patches, situation.solves
        return observe(situation, run, self.history_, terms.feasible, terms.alpha, terms.bucket_width, self.M_)

    def _reason(self, run: Run) -> str:
        if self.converged_:
            return "every cell is within alpha"
        left = f"the worst violation left is {self.worst_violation_:.3g}, above alpha={self.terms_.alpha:g}"
        if run.interrupted:
            return f"interrupted after {len(run.log.rounds)} rounds; {left}"
        if run.finished:
            return f"a full cycle saw no violation above alpha, but its own patches brought one back; {left}"
        return f"max_rounds={len(run.log.rounds)} reached; {left}"

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
        if not self.converged_:
            advice = (
                "Take a smaller alpha, or schedule='frozen'" if run.finished else "Allow more rounds, or more alpha"
            )
            warnings.warn(f"debiasing did not converge: {self.stopped_}. {advice}.", NotConvergedWarning, stacklevel=3)
