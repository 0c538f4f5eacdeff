"""A pipeline that ends in an ensemble: transformations of X before members see it, and decisions at the end."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, _name_estimators

from optensemble.ensembles.base import Policy
from optensemble.exceptions import InputError


class DecisionPipeline(Pipeline):
    """scikit-learn's ``Pipeline`` with the answers of the ensemble at its end; see :func:`make_pipeline`."""

    def decide(self, X: Any) -> Any:
        """Return the action to take for every row of X."""
        return self._last.decide(self._transformed(X))

    def answer(self, X: Any) -> Any:
        """Return actions, promises, choices and predictions for the rows of X at once."""
        return self._last.answer(self._transformed(X))

    def promise(self, X: Any) -> Any:
        """Promise the average payoff over the rows of X."""
        return self._last.promise(self._transformed(X))

    def audit(self, X: Any, Y: Any, **options: Any) -> Any:
        """Judge the ensemble on rows of known labels that it was not fitted on."""
        return self._last.audit(self._transformed(X), Y, **options)

    def explain(self, X: Any, row: int = 0, coordinates: Any = None) -> Any:
        """Explain the decision of one row of X."""
        return self._last.explain(self._transformed(X), row, coordinates)

    @property
    def _last(self) -> Any:
        ensemble = self.steps[-1][1]
        if not isinstance(ensemble, Policy):
            raise InputError(f"the last step must be an ensemble of optensemble; got {type(ensemble).__name__}.")
        return ensemble

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return X


def make_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> DecisionPipeline:
    """Make a pipeline of transformers and, last, an ensemble, which decides.

    Parameters
    ----------
    steps
        Transformers of scikit-learn, and an ensemble. Transformers are fitted on all rows before members are
        cross-fitted: they must not look at labels. A transformer that does belongs in the pipeline of a member.
    memory, verbose
        As of scikit-learn's ``make_pipeline``.

    Returns
    -------
    A ``Pipeline`` that has ``decide``, ``answer``, ``promise``, ``audit`` and ``explain`` too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression, Ridge
    >>> from sklearn.preprocessing import StandardScaler
    >>> import optensemble as oe
    >>> from optensemble import feasible
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> Y = X + rng.normal(scale=0.5, size=(200, 2))
    >>> models = [("plain", LinearRegression()), ("ridge", Ridge(100.0))]
    >>> ensemble = oe.DecisionEnsemble(models, feasible=feasible.Simplex(2))
    >>> oe.make_pipeline(StandardScaler(), ensemble).fit(X, Y).decide(X).shape
    (200, 2)
    """
    return DecisionPipeline(_name_estimators(steps), memory=memory, verbose=verbose)
