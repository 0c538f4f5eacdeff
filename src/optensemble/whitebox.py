"""Algorithm 2: follow, row by row, the model with the highest self-assessment, after making it believable."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from optensemble import events
from optensemble._ensemble import Callback, Ensemble
from optensemble._evidence import white_box_table
from optensemble._types import Floats
from optensemble._validation import (
    as_members,
    as_predictions,
    ask,
    row_count,
    warn_if_trained_on,
)
from optensemble.feasible import FeasibleSet
from optensemble.situation import Situation


class WhiteBoxEnsemble(Ensemble):
    """One policy from several models that predict the coefficients of a linear objective (Algorithm 2).

    Every model is corrected until it is unbiased on the level sets of its own action, crossed with who has the
    highest self-assessment. Then the ensemble earns, on the rows it was fitted on, about the *pointwise maximum* of
    the corrected models' self-assessments (Lemma 8). Against the models as they were given, and on rows it has not
    seen, nothing is guaranteed: judge it there.

    Parameters
    ----------
    models
        Pairs of a name and a fitted model: anything with ``predict(X) -> (n, d)``, or a callable. They must not
        have been trained on the rows given to :meth:`fit`.
    feasible
        The set of actions, from :mod:`optensemble.feasible`.
    sense
        ``"max"`` to maximise a payoff, ``"min"`` to minimise a cost.
    alpha
        The tolerance of consistency, in the units of the labels: summed over the rows of a cell and divided by all
        rows, the predictions may be off by no more (Definition 1).
    bucket_width
        The width of the level sets, as a share of each coordinate's range; it must divide 1.
    schedule
        ``"frozen"`` (the paper's pseudo-code), ``"round-robin"`` (the order of its experiments), or ``"joint"``
        (the limit of the first in one solve per round).
    max_rounds
        Stop after so many rounds; by default after as many as Lemma 6 says can be needed.
    shrinkage
        For ``schedule="joint"``: pseudo-rows without bias in every cell.
    groups
        Also be unbiased on groups of rows: a column of X, a list of columns, or a callable ``X -> (n,)`` labels.
    M
        A bound on the absolute value of the labels; estimated from the labels if not given.
    validation
        ``None``: the paper to the letter, honest on the fitting rows.

    Attributes
    ----------
    names_
        The models' names.
    converged_, stopped_, worst_violation_
        Whether all cells ended within alpha, why the fit stopped, and the worst violation left.
    n_rounds_, n_patches_, n_solves_
        Rounds made, patches of a violation above alpha per model, rows handed to the solver.
    history_
        A frame with one row per round: promised and realised payoff of the ensemble and of each model, on how many
        rows each was chosen, squared errors, worst violation.
    guarantees_
        A frame: each lemma's bound beside what was observed on the fitting rows.
    log_
        The corrections.

    Examples
    --------
    >>> import numpy as np
    >>> import optensemble as oe
    >>> from optensemble import feasible
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> Y = X + rng.normal(scale=0.1, size=(400, 2))
    >>> left, right = (lambda X: X * [1, 0]), (lambda X: X * [0, 1])
    >>> ensemble = oe.WhiteBoxEnsemble([("left", left), ("right", right)], feasible.Simplex(2)).fit(X, Y)
    >>> ensemble.converged_
    True
    >>> ensemble.decide(X).shape
    (400, 2)
    """

    def __init__(
        self,
        models: Any,
        feasible: FeasibleSet,
        *,
        sense: str = "max",
        alpha: float = 0.01,
        bucket_width: float = 0.1,
        schedule: str = "frozen",
        max_rounds: int | None = None,
        shrinkage: float = 0.0,
        groups: Any = None,
        M: float | None = None,
        validation: None = None,
    ) -> None:
        self.models = models
        self.feasible = feasible
        self.sense = sense
        self.alpha = alpha
        self.bucket_width = bucket_width
        self.schedule = schedule
        self.max_rounds = max_rounds
        self.shrinkage = shrinkage
        self.groups = groups
        self.M = M
        self.validation = validation

    def fit(self, X: Any, Y: Any, *, time_ordered: bool = False, callback: Callback | None = None) -> Self:
        """Correct the models on rows they were not trained on.

        Parameters
        ----------
        X
            What the models predict from: an array, or a pandas or polars frame.
        Y
            The labels, of shape (n, d).
        time_ordered
            Whether the rows are in time order. Debiasing does not depend on the order of rows; it is remembered as
            ``time_ordered_`` for whoever judges the ensemble later.
        callback
            Called as ``callback(round, violation)`` after every round.

        Returns
        -------
        The ensemble itself. An interrupt (Ctrl-C) is passed on after the finished rounds have been kept: the
        ensemble is then fitted as far as it came.
        """
        fitted, labels = self._prepare(X, Y, time_ordered)
        fitted.members_ = as_members(self.models, "models")
        fitted.names_ = [name for name, _ in fitted.members_]
        situation = fitted._begin(X)
        for (name, model), predictions in zip(fitted.members_, situation.predictions, strict=True):
            warn_if_trained_on(model, name, predictions, labels)
        layout = events.white_box(fitted.terms_.buckets, len(fitted.names_), fitted._group_sizes)
        run = fitted._debias(situation, labels, layout, callback)
        fitted.log_ = (run.log,)
        if run.interrupted:
            situation = fitted._replayed(X)  # the last round may be half done
        setting = fitted._conclude(situation, labels, layout, run)
        fitted.guarantees_ = white_box_table(situation, labels, setting, fitted.terms_.sign, fitted.names_)
        self.__dict__.update(fitted.__dict__)
        self._announce(run)
        return self

    def predict_members(self, X: Any) -> Floats:
        """Return every model's corrected predictions, of shape (k, n, d)."""
        return self._replayed(X).predictions

    def _begin(self, X: Any) -> Situation:
        terms = self.terms_
        n, d = row_count(X), terms.feasible.dimension
        predictions = np.empty((len(self.members_), n, d))
        for member, (name, model) in enumerate(self.members_):
            predictions[member] = as_predictions(ask(model, name, "predict", X), name, n, d)
        groups = self._group_parts(X)
        return Situation(predictions, terms.feasible, terms.buckets, sign=terms.sign, groups=groups)
