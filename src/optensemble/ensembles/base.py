"""What every ensemble is: a fitted policy that answers for any rows, and can be kept in a file."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.estimator import BaseEstimator

if TYPE_CHECKING:
    from optensemble.evaluation.payoff_summary import Assessments
    from optensemble.evaluation.promise import Promise


_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_LOOKING_UP = threading.Lock()
"""Locks are kept beside the ensembles, because a lock can be neither copied nor pickled."""


@dataclass(frozen=True)
class Answer:
    """Everything an ensemble has to say of a batch of rows.

    Attributes
    ----------
    actions
        What to do, of shape (n, d).
    promised
        The payoff it expects of that, per row.
    low, high
        Limits that a row's own payoff keeps within 95 times out of 100; infinite where no record says so.
    chosen
        Whom it follows, as an index into ``names_``.
    predictions
        The coefficients behind the decision, of shape (n, d).
    assessed
        What it took each row for before its record corrected that: what a promise of their mean is made of.
    """

    actions: Floats
    promised: Floats
    low: Floats
    high: Floats
    chosen: Indices
    predictions: Floats
    assessed: Floats


class Policy(BaseEstimator, ABC):
    """The common ground of all ensembles; not to be used itself.

    Threads may share an ensemble. Whatever changes it holds its lock, works on a copy and puts that in its place by one
    assignment; a question is answered by the ensemble as it stood when it was asked.

    ``table_`` says which columns of a table play which part, if it was fitted by a job file.
    """

    table_: dict[str, Any] | None = None
    fingerprints_: npt.NDArray[np.uint64]

    @abstractmethod
    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X at once."""

    @abstractmethod
    def _promise_of(self, assessed: Assessments) -> Promise:
        """Promise the average payoff over rows of which only a summary of their assessments is at hand."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Say whether ``fit`` has been called."""

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
        """Return the coefficients behind the decision for every row of X, of shape (n, d)."""
        return self.answer(X).predictions

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted ensemble to one file, whole or not at all; see :func:`optensemble.load`."""
        from optensemble.persistence.files import save

        now = self._as_it_stands()
        now._require_fitted()
        save(now, path)
        self._keep("_forecaster", now)

    def _repr_html_inner(self) -> str:
        """Return what a notebook shows: what came of the fit, or scikit-learn's diagram while there was none."""
        if not self.__sklearn_is_fitted__():
            diagram: str = super()._repr_html_inner()
            return diagram
        from optensemble.report.notebook import show_ensemble

        return show_ensemble(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        # scikit-learn leaves HTML out where its setting display="text" says so
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from optensemble.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call fit(X, Y) first.")

    def _changing(self) -> Any:
        """Return the lock that is held by what changes the ensemble: one change at a time."""
        with _LOOKING_UP:
            return _LOCKS.setdefault(self, threading.RLock())

    def _as_it_stands(self) -> Self:
        """Return a copy that no other thread changes; it shares everything that is not replaced as a whole."""
        copy = object.__new__(type(self))
        copy.__dict__ = vars(self).copy()
        return copy

    def _become(self, fitted: Self) -> None:
        """Take over everything at once; what an earlier fit learned and this one did not is gone."""
        unlearned = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = unlearned | vars(fitted)

    def _keep(self, name: str, answered: Self) -> None:
        """Keep what an answer had to learn, unless the ensemble has changed since, or is changing now."""
        if hasattr(answered, name) and (lock := self._changing()).acquire(blocking=False):
            try:
                if self.fingerprints_ is answered.fingerprints_:  # every change of rows makes new ones
                    setattr(self, name, getattr(answered, name))
            finally:
                lock.release()

    def __sklearn_clone__(self) -> Self:
        # members are already fitted: a clone shares them, where scikit-learn would make them unfitted copies
        return type(self)(**self.get_params(deep=False))
