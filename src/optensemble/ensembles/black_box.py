"""Algorithm 3: one model that is consistent with itself and with every given policy, and decides by itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble._core.exact_sums import exact_mean
from optensemble._core.progress import Progress, as_progress, silent
from optensemble._core.validation import require_choice
from optensemble.ensembles._decision_rows import as_batch
from optensemble.ensembles._own_members import NOTHING_SAID
from optensemble.ensembles._paper import FitTerms, PaperEnsemble, forgotten_time, refuse_weights
from optensemble.ensembles._paper_fit import Algorithm, FittingRows
from optensemble.ensembles._paper_streams import Beginning, SourceLabels, require_in_memory
from optensemble.ensembles.base import BLACK_BOX, INIT, OWN
from optensemble.ensembles.hyperparameters import Hyperparameters
from optensemble.evaluation.audit_inputs import AuditedPartition
from optensemble.evaluation.data_sample import DataSample, Finding
from optensemble.evaluation.data_warnings import find_data_warnings, find_trained_on, merge_findings
from optensemble.evaluation.lemmas_in_sample import (
    PaperOutcome,
    Setting,
    black_box_partitions,
    black_box_table,
    conditional_utility,
)
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import OutputNames, only_columns
from optensemble.members.cross_fitting import CrossFitted, Trainee
from optensemble.members.estimators import wrapped
from optensemble.members.fit_inputs import LabelledBatch, named_batch
from optensemble.members.mending import DEFAULT_MENDING, Mending
from optensemble.members.query import MemberQuery, Members
from optensemble.members.sources import RowSource
from optensemble.members.validation import (
    as_labels,
    as_members,
    as_predictions,
    ask_member,
    explained_variance,
    require_rows,
    row_count,
)
from optensemble.multicalibration import events
from optensemble.multicalibration.cell_names import subgroup_parts
from optensemble.multicalibration.loop import Callback
from optensemble.multicalibration.state import Situation


class BlackBoxEnsemble(PaperEnsemble):
    """One policy from several policies that are known by their actions alone (Algorithm 3).

    A single model of the labels is corrected until it is unbiased on the level sets of its own action and of every
    given policy's. Then its policy earns, on the rows it was fitted on, at least about as much as each of them
    (Lemma 4). Of other rows the lemma says nothing: by default (``validation="cv"``) how far to correct is chosen by
    what it earns out of fold, and what it promises rests on the out-of-fold record.

    Parameters
    ----------
    policies
        Pairs of a name and a policy: a callable ``X -> (n, d)`` of feasible actions, or anything with ``decide(X)``,
        such as another ensemble. The policy of a model is ``lambda X: omega.argmax(model.predict(X))``; of a model of
        costs ``lambda X: omega.argmax(-model.predict(X))``.
    feasible, sense, alpha, bucket_width, schedule, max_rounds, shrinkage, min_cell, subgroups, M, validation, groups
        As of :class:`WhiteBoxEnsemble`.
    cv
        As of :class:`DecisionEnsemble`: policies with ``fit(X, Y)`` and ``decide(X)`` are cross-fitted too.
    init
        What to begin with: ``"mean"``, the labels' mean, or a model of the labels, fitted or not.
    conditional
        Also be unbiased on the products of level sets that Lemma 10 needs, so that the ensemble earns about as much
        as each policy *on* every level set and group. Many more cells: give it many rows.
    on_infeasible, tolerance
        What to do with actions of policies that are off by rounding, as of :class:`DecisionEnsemble`.

    Attributes
    ----------
    names_
        The policies' names, and last ``"own"``: ``choose`` returns the policy whose action is taken, "own" where it is
        none of theirs.
    init_
        The labels' mean, or the model begun with.
    conditional_
        A frame: on every level set and group the comparison with the best policy there, beside Lemma 10's bound.
    converged_, stopped_, worst_violation_, n_rounds_, n_patches_, n_solves_, n_thin_, history_, guarantees_, log_
        As of :class:`WhiteBoxEnsemble`; a policy's promise in ``history_`` is what the model expects it to earn.
    schedule_, shrinkage_, min_cell_, validation_, record_, fingerprints_
        As of :class:`WhiteBoxEnsemble`.

    Examples
    --------
    >>> import numpy as np
    >>> import optensemble as oe
    >>> from optensemble import feasible
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> Y = X + rng.normal(scale=0.1, size=(400, 2))
    >>> omega = feasible.Simplex(2)
    >>> bold, shy = (lambda X: omega.argmax(X)), (lambda X: np.full(X.shape, 0.5))
    >>> ensemble = oe.BlackBoxEnsemble([("bold", bold), ("shy", shy)], omega).fit(X, Y)
    >>> ensemble.names_
    ['bold', 'shy', 'own']
    >>> ensemble.validation_.query("chosen")["rounds"].item()
    1
    """

    kind = BLACK_BOX
    member_parameters = ("policies",)
    conditional_: pd.DataFrame
    init_: Any
    _mending: Mending = DEFAULT_MENDING

    def __init__(
        self,
        policies: Any,
        feasible: FeasibleSet,
        *,
        init: Any = "mean",
        conditional: bool = False,
        sense: str = "max",
        alpha: float = 0.01,
        bucket_width: float = 0.1,
        schedule: str | None = None,
        max_rounds: int | None = None,
        shrinkage: float | None = None,
        min_cell: int | None = None,
        subgroups: Any = None,
        M: float | None = None,
        validation: str | None = "cv",
        groups: Any = None,
        on_infeasible: str = "project",
        tolerance: float | None = None,
        cv: Any = None,
    ) -> None:
        self.policies = policies
        self.feasible = feasible
        self.init = init
        self.conditional = conditional
        self.sense = sense
        self.alpha = alpha
        self.bucket_width = bucket_width
        self.schedule = schedule
        self.max_rounds = max_rounds
        self.shrinkage = shrinkage
        self.min_cell = min_cell
        self.subgroups = subgroups
        self.M = M
        self.validation = validation
        self.groups = groups
        self.on_infeasible = on_infeasible
        self.tolerance = tolerance
        self.cv = cv

    def fit(
        self,
        X: Any,
        Y: Any = None,
        *,
        time_ordered: bool | None = None,
        random_state: int | None = None,
        missing_labels: str = "raise",
        sample_weight: None = None,
        callback: Callback | None = None,
        progress: Progress | None = None,
        engine: Any = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Correct the model on rows of known labels, in memory or in files; as :meth:`WhiteBoxEnsemble.fit`."""
        refuse_weights(sample_weight)
        told, terms = as_progress(progress), FitTerms(time_ordered, random_state, missing_labels)
        with self._changing():
            batch = as_batch(X, Y, None)
            if isinstance(batch.X, RowSource):
                self._announce(self._learn_source(batch.X, terms, engine, callback, told))
                return self
            fitted = self._prepare(X, Y, terms)
            fitted._take_members()
            fitted._take_init()
            fitted._fit_members(n_jobs, told)
            rows = fitted._fitting_rows()
            fitted._doubts = (*fitted._find_doubts(rows), *forgotten_time(terms, X))
            self._announce(self._learn(fitted, rows, callback, told))
        return self

    def extend(self, *, policies: Any = None, X: Any = None, Y: Any = None, callback: Callback | None = None) -> Self:
        """Go on with new policies, new rows, or both.

        With ``validation=None`` from the current model, whose corrections are kept. With ``validation="cv"`` the
        ensemble is fitted again, on all rows and with all policies: what was chosen out of fold was chosen without
        the new ones.

        Parameters
        ----------
        policies
            Further pairs of a name and a policy.
        X, Y
            Further rows. They are added to the rows fitted on so far (labels are copied, X is not), and
            come after them in time. An ensemble that was loaded from a file has none of these: with
            ``validation=None`` it goes on with the new rows alone, with a warning, and otherwise it refuses.
        callback
            Called as ``callback(round, violation)`` after every round.

        Returns
        -------
        The ensemble itself; ``history_``, ``guarantees_`` and the counts speak of this extension.
        """
        with self._changing():
            self._require_fitted()
            self._check_parameters(stacklevel=3)
            if policies is None and X is None and Y is None:
                raise InputError("extend got nothing to go on with. Give policies=, or X= and Y=, or all three.")
            if (X is None) != (Y is None):
                raise InputError("extend needs X and Y together; got only one of them.")
            require_in_memory(X, streamed=self._streamed)
            if X is None and not self._rows:
                raise InputError("the rows this ensemble was fitted on are not in its file. Give X= and Y= too.")
            if not self._rows and Hyperparameters.of(self).validated:
                raise InputError(
                    'the rows this ensemble was fitted on are not in its file, and with validation="cv" extend fits '
                    "again, on all rows. Give all of them to fit(X, Y)."
                )
            fitted = self._extended(policies, X, Y)
            if X is not None and not self._rows:
                warnings.warn(
                    "the rows this ensemble was fitted on are not in its file: it goes on with the new rows alone.",
                    UserWarning,
                    stacklevel=2,
                )
            rows, told = fitted._fitting_rows(), self._doubts
            fitted._doubts = fitted._find_doubts(rows)
            self._announce(self._learn(fitted, rows, callback), told)
        return self

    def _extended(self, policies: Any, X: Any, Y: Any) -> Self:
        """Return a copy that has the further policies and rows, and has yet to learn from them."""
        fitted = self._same_parameters()
        fitted.__dict__.update(self.__dict__)
        fitted.terms_ = Hyperparameters.of(self)
        self._require_same_terms()
        again = fitted.terms_.validated  # members that were fitted here are, too
        known = self._as_given(self.members_) if again else self.members_
        if policies is not None or (again and self.cross_fitted_):
            fitted._take_policies([*known, *([] if policies is None else as_members(policies, "policies"))])
            fitted.policies = fitted.members_
        if X is not None:
            fitted._add_rows(X, Y)
        fitted._forecaster = None
        for name in ("record_", "validation_"):
            fitted.__dict__.pop(name, None)
        if fitted.terms_.validated:
            fitted.terms_.require_enough(sum(len(labels) for _, labels in fitted._rows))
            fitted.log_, fitted._stages = (), []
            fitted._take_init()
        fitted._fit_members(None, silent, NOTHING_SAID if again else self._said)
        return fitted

    def _require_same_terms(self) -> None:
        terms = Hyperparameters.of(self)
        for name in ("feasible", "sense", "bucket_width", "subgroups"):  # the log is in terms of these
            before, now = getattr(self.terms_, name), getattr(terms, name)
            if now is not before and now != before:
                raise InputError(f"{name} was {before!r} at the fit and is {now!r} now. Set it back, or fit again.")

    def _add_rows(self, X: Any, Y: Any) -> None:
        n, d = row_count(X), self.feasible.dimension
        require_rows(n + sum(len(labels) for _, labels in self._rows))
        batch = named_batch(LabelledBatch(X, Y, None), self._known, d, time_ordered=self.time_ordered_)
        X, labels = batch.X, as_labels(batch.labels, n, d, self.M)
        self._learn_names(batch.names)
        self._take_rows([batch._replace(labels=labels.copy())])
        self.grouping_ = self._learn_grouping(X, self.grouping_)

    @property
    def n_policies(self) -> int:
        """The number of members known by their actions alone: all of them."""
        return len(self.members_)

    def _query(self) -> MemberQuery:
        terms = self.terms_
        about = (terms.feasible, terms.buckets, terms.sign, self._learned_subgroups(), self._mending)
        return MemberQuery([], self.members_, *about, output_names=OutputNames(self.labels_))

    def _algorithm(self) -> Algorithm:
        buckets, subgroups = self.terms_.buckets, self._learned_subgroups()
        titles = () if subgroups is None else subgroups.titles
        policies = [name for name, _ in self.members_]
        layout = events.black_box(buckets, len(policies), tuple(map(len, titles)), conditional=self.conditional)
        parts = layout.partitions.names(buckets, groups=subgroup_parts(titles), policies=policies)
        return Algorithm(
            layout, self.names_, parts, from_mean=isinstance(self.init_, np.ndarray), coordinates=self.labels_ or ()
        )

    def _partitions(self, situation: Situation) -> Iterator[AuditedPartition]:
        algorithm = self._algorithm()
        return black_box_partitions(situation, algorithm.layout.partitions, algorithm.parts)

    def _tabulate(self, outcome: PaperOutcome, setting: Setting) -> None:
        self.conditional_ = conditional_utility(outcome, setting, conditional=self.conditional)
        self.guarantees_ = black_box_table(outcome, setting, self.conditional_)

    def _trainees(self) -> list[Trainee]:
        begun = getattr(self, "init_", self.init)
        return self._find_trainees([] if isinstance(begun, (str, np.ndarray)) else [(INIT, begun)], self.members_)

    def _take_fitted(self, found: CrossFitted, d: int) -> None:
        super()._take_fitted(found, d)
        if not isinstance(self.init_, np.ndarray):
            self.init_ = found.members.get(INIT, wrapped(self.init_, "init", d))
            self.cross_fitted_ += [INIT] if INIT in found.members else []

    def _take_init(self) -> None:
        labels = np.concatenate([labels for _, labels in self._rows])
        self.init_ = exact_mean(labels) if isinstance(self.init, str) else self.init

    def _asked_first(self) -> Members:
        return [] if isinstance(self.init, str) else [("init", self.init)]

    def _beginning(self, labels: SourceLabels) -> Beginning:
        self.init_ = labels.mean if isinstance(self.init, str) else self.init
        return Beginning(labels.mean) if isinstance(self.init, str) else Beginning(by_model=True)

    def _find_doubts(self, rows: FittingRows) -> tuple[Finding, ...]:
        outputs, initial = rows.start.outputs, rows.start.initial
        policies = [name for name, _ in self.members_]
        sample = DataSample.of(policies, outputs, outputs.sign * rows.labels, self.labels_ or ())
        if initial is None or isinstance(self.init_, np.ndarray):
            return merge_findings([], find_data_warnings(sample))
        own = INIT in self.cross_fitted_
        trained = find_trained_on([("init", None if own else self.init_)], [explained_variance(initial, rows.labels)])
        sample = replace(sample, predictions={"init": initial[: len(sample.labels)]})
        return merge_findings(trained, find_data_warnings(sample, ["init"] if own else []))

    def _initial(self, batches: Sequence[Any], said: Mapping[str, Floats]) -> Floats | None:
        if INIT in said:
            return said[INIT]
        return np.concatenate([self._initial_predictions(X) for X in batches])

    def _initial_predictions(self, X: Any) -> Floats:
        n, d = row_count(X), self.terms_.feasible.dimension
        if isinstance(self.init_, np.ndarray):
            return np.broadcast_to(self.init_, (n, d))
        X = only_columns(X, self._known.features) if INIT in self.cross_fitted_ else X
        said = OutputNames(self.labels_)(ask_member(self.init_, "init", "predict", X), self.init_, X, "model 'init'")
        return as_predictions(said, "init", n, d)

    def _take_members(self) -> None:
        self._take_policies(self.policies)

    def _take_policies(self, members: Any) -> None:
        self.members_ = as_members(members, "policies")
        self._mending = Mending(self.on_infeasible, self.tolerance)
        self.names_ = [*(name for name, _ in self.members_), OWN]
        if self.names_.count(OWN) > 1:
            raise InputError(f"a policy cannot be named {OWN!r}: that is the ensemble's own. Give it another name.")

    def _check_parameters(self, stacklevel: int = 4) -> None:
        super()._check_parameters(stacklevel + 1)
        require_choice(self.conditional, "conditional", [True, False])
        Mending(self.on_infeasible, self.tolerance).check()
        if (isinstance(self.init, str) and self.init != "mean") or isinstance(self.init, np.ndarray):
            raise InputError(
                f"init must be 'mean' or a model of the labels, with predict(X) or callable; got {self.init!r}."
            )
