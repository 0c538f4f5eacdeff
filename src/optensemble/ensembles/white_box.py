"""Algorithm 2: follow, row by row, the model with the highest self-assessment, after making it consistent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from optensemble._core.arrays import Floats
from optensemble._core.progress import Progress, as_progress
from optensemble.ensembles._decision_rows import as_batch
from optensemble.ensembles._paper import FitTerms, PaperEnsemble, forgotten_time, refuse_weights
from optensemble.ensembles._paper_fit import Algorithm, FittingRows, replay_all
from optensemble.ensembles._paper_streams import AskedLook
from optensemble.ensembles.base import WHITE_BOX
from optensemble.evaluation.audit_inputs import AuditedPartition
from optensemble.evaluation.data_sample import DataSample, Finding
from optensemble.evaluation.data_warnings import find_data_warnings, find_trained_on, merge_findings
from optensemble.evaluation.lemmas_in_sample import (
    PaperOutcome,
    Setting,
    white_box_partitions,
    white_box_table,
)
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import OutputNames
from optensemble.members.cross_fitting import Trainee
from optensemble.members.query import MemberQuery
from optensemble.members.sources import RowSource
from optensemble.members.validation import as_members, explained_variance, mean_explained
from optensemble.multicalibration import events
from optensemble.multicalibration.cell_names import Leader, subgroup_parts
from optensemble.multicalibration.loop import Callback
from optensemble.multicalibration.state import Situation


class WhiteBoxEnsemble(PaperEnsemble):
    """One policy from several models that predict the coefficients of a linear objective (Algorithm 2).

    Every model is corrected until it is unbiased on the level sets of its own action, crossed with who has the
    highest self-assessment. Then the ensemble earns, on the rows it was fitted on, about the *pointwise maximum* of
    the corrected models' self-assessments (Lemma 8). Against the models as they were given nothing is guaranteed.

    The lemmas say nothing out of sample. For that there is ``validation="cv"``, the default: how far to
    correct is chosen by what it earns out of fold, with no correction among the choices, and :meth:`self_assess` and
    :meth:`promise` rest on the out-of-fold record. With ``validation=None`` the algorithm is the paper's to the
    letter, and only :meth:`promise` is honest on other rows, after :meth:`cross_fit`.

    Parameters
    ----------
    models
        Pairs of a name and a model: anything with ``predict(X) -> (n, d)``, or a callable. Estimators that are not
        fitted yet are cross-fitted here; fitted ones must not have been trained on the rows given to :meth:`fit`.
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
        (the limit of the first in one solve per round). By default joint with ``validation="cv"``, otherwise frozen.
    max_rounds
        The largest number of rounds; by default as many as Lemma 6 says can be needed, and with
        ``validation="cv"`` and the joint schedule 10. Cross-validation may choose fewer.
    shrinkage
        For ``schedule="joint"``: pseudo-rows without bias in every cell. By default chosen by cross-validation out of
        10, 100 and 1,000; with ``validation=None`` there are none.
    min_cell
        Cells of fewer fitting rows are not patched, and do not count as violating. By default 50 with
        ``validation="cv"``; with ``validation=None`` no cell is left out.
    subgroups
        Also be unbiased on subgroups of rows: a column of X, a list of columns, or a callable ``X -> (n,)`` labels.
    M
        A bound on the absolute value of the labels; estimated from the labels if not given.
    validation
        ``"cv"``: choose shrinkage and number of rounds by realised payoff in cross-validation, which needs at least
        100 rows and the work of some ten to fifteen fits. No correction is made unless the best choice beats making
        none by more than one paired standard error. ``None``: the paper to the letter, honest on the fitting rows.
    groups
        The old name of ``subgroups``; it works with a ``FutureWarning``.
    cv
        How members that are not fitted yet are cross-fitted, as of :class:`DecisionEnsemble`.

    Attributes
    ----------
    names_
        The models' names.
    labels_, feature_names_in_, n_features_in_
        The names of the labels, None if they had none; those of the columns of X, if it was a frame, and their number.
    cross_fitted_
        The members that were fitted here.
    converged_, stopped_, worst_violation_
        Whether all cells ended within alpha, why the fit stopped, and the worst violation left.
    n_rounds_, n_patches_, n_solves_
        Rounds made, patches of a violation above alpha per model, rows handed to the solver; on all rows, without
        cross-validation.
    n_thin_
        How many cells had rows in the end, but fewer than ``min_cell``, counted for every model.
    schedule_, shrinkage_, min_cell_
        What was used, given or not.
    validation_
        With ``validation="cv"`` a frame with a row per candidate, the simplest first: shrinkage, rounds, mean
        ``realised`` and ``promised`` payoff out of fold, ``gain`` over round 0 (positive is better, of costs too) with
        its paired ``standard_error``, and whether it was ``chosen``.
    record_
        Out of fold, what was assessed and what was realised of each row: what promises rest on. With
        ``validation=None`` it is made by :meth:`cross_fit`.
    fingerprints_
        A hash of every row fitted on: an audit recognises them.
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
    >>> models, omega = [("left", left), ("right", right)], feasible.Simplex(2)
    >>> ensemble = oe.WhiteBoxEnsemble(models, omega).fit(X, Y)
    >>> ensemble.decide(X).shape
    (400, 2)
    >>> print(ensemble.promise(rng.normal(size=(1000, 2))))
    0.5... (95 %: 0.5... to 0.5...) on average over 1,000 rows
    >>> oe.WhiteBoxEnsemble(models, omega, validation=None).fit(X, Y).converged_
    True
    """

    kind = WHITE_BOX
    member_parameters = ("models",)

    def __init__(
        self,
        models: Any,
        feasible: FeasibleSet,
        *,
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
        cv: Any = None,
    ) -> None:
        self.models = models
        self.feasible = feasible
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
        """Correct the models on rows they were not trained on; models that are not fitted yet are cross-fitted first.

        Parameters
        ----------
        X
            What the models predict from: an array, or a pandas or polars frame. With ``validation=None`` and the
            schedules frozen and joint also :class:`Rows` of files, or a Dask frame: they are read once in every round,
            and the result is the same. What models said, and how far rows have come, waits in a temporary folder
            meanwhile (TMPDIR says where): some 32 bytes for each row, coordinate and model.
        Y
            The labels, of shape (n, d); of a Dask frame the names of their columns; of :class:`Rows` nothing.
        time_ordered
            Whether the rows are in time order. Debiasing does not depend on it, but folds do, which are then
            contiguous, and so do promises, whose interval then allows for a level that wanders.
            By default they are not, with a warning if X has sorted dates or times.
        random_state
            Seeds the folds of rows that are not in time order.
        missing_labels
            What to do with rows that lack labels, wholly or in part: ``"raise"`` an error, or ``"drop"`` them.
        sample_weight
            None: the paper's lemmas count rows. :class:`DecisionEnsemble` takes weights.
        callback
            Called as ``callback(round, violation)`` after every round of the debiasing on all rows, not of those
            that cross-validation makes.
        progress
            Called as ``progress("cross-validating", share)`` as cross-validation goes on; with ``validation=None``
            there is none. Where rows are read from files it is called as ``progress("asking members", share)``. An
            error it raises is passed on, and the ensemble is then as it was before.
        engine
            Where rows are read from files: a ``dask.distributed.Client``, whose workers then share the work, or
            anything that runs a pass, see ``optensemble._core.engine.Engine``. By default this process. The
            result does not depend on it.
        n_jobs
            How many fits of models run side by side, as in scikit-learn. The result does not depend on it.

        Returns
        -------
        The ensemble itself. An interrupt (Ctrl-C) is passed on. With ``validation="cv"`` the ensemble is then as it
        was before; with ``validation=None`` it is fitted as far as it came, all finished rounds kept.
        """
        refuse_weights(sample_weight)
        told, terms = as_progress(progress), FitTerms(time_ordered, random_state, missing_labels)
        with self._changing():
            batch = as_batch(X, Y, None)
            if isinstance(batch.X, RowSource):
                self._announce(self._learn_source(batch.X, terms, engine, callback, told))
                return self
            fitted = self._prepare(X, Y, terms)
            fitted._take_members()
            fitted._fit_members(n_jobs, told)
            rows = fitted._fitting_rows()
            fitted._doubts = (*fitted._find_doubts(rows), *forgotten_time(terms, X))
            self._announce(self._learn(fitted, rows, callback, told))
        return self

    def _take_members(self) -> None:
        self.members_ = as_members(self.models, "models")
        self.names_ = [name for name, _ in self.members_]

    def _trainees(self) -> list[Trainee]:
        return self._find_trainees(self.members_)

    def _look_at_members(self, first: AskedLook) -> None:
        scores = [mean_explained(missed, first.spread) for missed in first.missed]
        self._doubts = merge_findings(find_trained_on(self.members_, scores), [])

    def _find_doubts(self, rows: FittingRows) -> tuple[Finding, ...]:
        outputs = rows.start.outputs
        scores = [explained_variance(outputs.sign * said, rows.labels) for said in outputs.predictions]
        sample = DataSample.of(self.names_, outputs, outputs.sign * rows.labels, self.labels_ or ())
        doubts = find_data_warnings(sample, self.cross_fitted_)
        return merge_findings(find_trained_on(self._given_fitted(), scores), doubts)

    def predict_members(self, X: Any) -> Floats:
        """Return every model's corrected predictions, of shape (k, n, d)."""
        now = self._as_it_stands()
        now._require_fitted()
        return replay_all(now._start([X]).situation(), now.log_).predictions

    @property
    def n_policies(self) -> int:
        """The number of members known by their actions alone: none."""
        return 0

    def _query(self) -> MemberQuery:
        terms = self.terms_
        about = (terms.feasible, terms.buckets, terms.sign, self._learned_subgroups())
        return MemberQuery(self.members_, [], *about, output_names=OutputNames(self.labels_))

    def _algorithm(self) -> Algorithm:
        buckets, subgroups = self.terms_.buckets, self._learned_subgroups()
        titles = () if subgroups is None else subgroups.titles
        layout = events.white_box(buckets, len(self.names_), tuple(map(len, titles)))
        parts = layout.partitions.names(buckets, [Leader(name) for name in self.names_], subgroup_parts(titles))
        return Algorithm(layout, self.names_, parts, coordinates=self.labels_ or ())

    def _partitions(self, situation: Situation) -> Iterator[AuditedPartition]:
        algorithm = self._algorithm()
        return white_box_partitions(situation, algorithm.layout.partitions, algorithm.parts)

    def _tabulate(self, outcome: PaperOutcome, setting: Setting) -> None:
        self.guarantees_ = white_box_table(outcome, setting)
