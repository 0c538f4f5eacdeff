"""The base of all ensembles: a fitted policy that answers for any rows, and can be kept in a file."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.validation import as_flag, as_floats, require_choice
from optensemble.ensembles._frames import DEFAULT, NUMPY, answer_frame, answer_text, kind_of, output_of, require_output
from optensemble.ensembles._own_members import OwnMembers
from optensemble.ensembles._shown import Shown
from optensemble.evaluation.payoff_record import Record
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.possible_payoffs import Possible
from optensemble.evaluation.promise import Promise
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import OutputNames, RowNames, align_all, align_labels, in_fitted_order
from optensemble.members.fit_inputs import MISSING_LABELS, LabelledBatch, labelled_rows
from optensemble.members.frames import index_of
from optensemble.members.query import Members
from optensemble.members.subgroups import Grouping
from optensemble.members.validation import as_labels, number_labels, row_count, row_labels

if TYPE_CHECKING:
    from optensemble.evaluation.audit import Audit
    from optensemble.evaluation.audit_inputs import AuditInputs
    from optensemble.evaluation.data_sample import Finding
    from optensemble.explanation.explanation import Explanation
    from optensemble.members.outputs import MemberOutputs

_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_LOOKING_UP = threading.Lock()
"""Locks are kept beside the ensembles, because a lock can be neither copied nor pickled."""

DECISION, WHITE_BOX, BLACK_BOX = "decision", "white_box", "black_box"
"""The kinds of ensembles."""

INIT = "the model begun with"
"""The name by which the model that a black box begins with is fitted."""

OWN = "own"
"""The name, last in a black box's ``names_``, of the model's own policy."""


@dataclass(frozen=True, repr=False)
class Answer:
    """Everything an ensemble has to say of a batch of rows.

    Attributes
    ----------
    actions
        The decisions, of shape (n, d).
    promised
        The expected payoff of each row's action.
    low, high
        95 % prediction interval for a row's payoff; ±inf without an out-of-fold record.
    chosen
        The candidate followed, as an index into ``names_``.
    predictions
        The coefficients behind the decision, of shape (n, d).
    assessed
        The raw self-assessment of each row, before its calibration: what a promise of the mean is made of.
    beyond
        The number of rows whose own bounds of actions go beyond those of all rows fitted on: actions out there count as
        in the outermost level set.
    fallback
        The number of rows that could not be solved, and took the fallback action of the feasible set.
    absent, incomplete
        The number of rows in which each member has no answer, of those that lack some; and whether some member has
        none in each row, None if all have.
    mended
        The number of rows in which the action of a policy was off by rounding, and was moved onto the feasible set.
    possible
        The least and the largest payoff that each row's action can come to; None where nothing is known of that.
    labels, candidates
        The names of the labels, and so of the coordinates of an action, if they have any; and ``names_``.
    index, frame
        The index of X, if it has one, and the kind of table that :meth:`to_frame` makes.
    """

    actions: Floats
    promised: Floats
    low: Floats
    high: Floats
    chosen: Indices
    predictions: Floats
    assessed: Floats
    beyond: int = 0
    fallback: int = 0
    absent: dict[str, int] = field(default_factory=dict)
    incomplete: npt.NDArray[np.bool_] | None = None
    mended: int = 0
    possible: Possible | None = None
    labels: tuple[str, ...] | None = None
    candidates: tuple[str, ...] = ()
    index: pd.Index | None = None
    frame: str = NUMPY

    @property
    def followed(self) -> npt.NDArray[Any]:
        """The name of the candidate followed in each row."""
        names = self.candidates or tuple(map(str, range(int(self.chosen.max(initial=-1)) + 1)))
        return np.array(names, dtype=object)[self.chosen]

    def to_frame(self) -> Any:
        """Return the answer as a table, with a row for each row of X, and its index.

        Its columns are ``action_…`` for each label, ``followed`` (a name), ``promised``, ``low`` and ``high``. It is a
        polars or pyarrow table if X is one, and otherwise pandas.
        """
        return answer_frame(self)

    def take(self, rows: Indices) -> Answer:
        """Return the answer for some of the rows, in this order; the numbers of rows stay those of all."""
        named = ("actions", "promised", "low", "high", "chosen", "predictions", "assessed")
        index = None if self.index is None else self.index.take(rows)
        incomplete = None if self.incomplete is None else self.incomplete[rows]
        possible = None if self.possible is None else self.possible.take(rows)
        taken = {name: getattr(self, name)[rows] for name in named}
        return replace(self, index=index, incomplete=incomplete, possible=possible, **taken)

    def assessments(self, weights: Floats | None = None) -> Assessments:
        """Summarise the rows for a promise of their mean payoff, see ``promise_of``."""
        return Assessments.of(self.assessed, weights, self.incomplete, self.possible)

    def __str__(self) -> str:
        return "\n".join(answer_text(self))

    def __repr__(self) -> str:
        return f"Answer({'; '.join(answer_text(self))})"


class AuditedRows(NamedTuple):
    """An audit, the answer that it judges, and the rows with their labels and weights, in the order of the audit.

    ``order`` are the places that the rows had as they were given; None if they are there still.
    """

    audit: Audit
    answer: Answer
    batch: LabelledBatch
    order: Indices | None


class Policy(Shown, OwnMembers, ABC):
    """The base of all ensembles; not to be used itself.

    Threads may share an ensemble. Whatever changes it holds its lock, works on a copy and puts that in its place by one
    assignment; a question is answered by the ensemble as it stood when it was asked.

    ``table_`` says which columns of a table play which part, if it was fitted by a job file. ``labels_`` are the names
    of the labels, if they have any; ``feature_names_in_`` are those of the columns of X, if it was a frame, and
    ``n_features_in_`` is their number, if it was a table.
    """

    kind: ClassVar[str]
    sense: str
    table_: dict[str, Any] | None = None
    labels_: list[str] | None = None
    feature_names_in_: list[str]
    n_features_in_: int
    _output: str = DEFAULT
    names_: list[str]
    members_: Members
    cross_fitted_: list[str] = []  # noqa: RUF012  (replaced as a whole)
    n_rows_: int
    time_ordered_: bool
    record_: Record
    refit_due_: str = ""
    _doubts: tuple[Finding, ...] = ()
    _sign: float
    fingerprints_: npt.NDArray[np.uint64]

    @abstractmethod
    def answer(self, X: Any) -> Answer:
        """Return actions, promises, choices and predictions for the rows of X at once."""

    @abstractmethod
    def _look(self, X: Any, asked: MemberOutputs | None = None) -> tuple[MemberOutputs, Answer]:
        """Return the answer for the rows of X, and what members said of them, unless that is given."""

    def _propose(self, X: Any) -> tuple[MemberOutputs, tuple[Floats, Floats]]:
        """Return what members say of the rows of X, and of the answer only actions and promised payoffs."""
        outputs, answer = self._look(X)
        return outputs, (answer.actions, answer.promised)

    @abstractmethod
    def _asks_as(self, other: Policy) -> bool:
        """Return whether another ensemble asks the same of the same members: what it was told will do."""

    @property
    @abstractmethod
    def _kept_rows(self) -> list[LabelledBatch]:
        """The rows that the ensemble has learned from, or has yet to: what it can be fitted again on."""

    @abstractmethod
    def _fitted_again(self, rows: list[LabelledBatch]) -> Self:
        """Return an ensemble with the same parameters and members, fitted on these rows."""

    @property
    @abstractmethod
    def _label_scale(self) -> Floats:
        """The unit of each coordinate's label: its standard deviation where that was learned, else 1."""

    @property
    @abstractmethod
    def _spread(self) -> float:
        """By how much the payoffs of policies differ in a row, roughly; 0 where no record tells."""

    @abstractmethod
    def _audit_inputs(self, X: Any, Y: Any, weights: Floats | None) -> tuple[AuditInputs, Answer]:
        """Return what an audit looks at, and the answer that it judges, from one pass over the members."""

    @abstractmethod
    def promise_of(self, assessed: Assessments, absent: Mapping[str, int] | None = None) -> Promise:
        """Promise the average payoff over rows, given only a summary of their self-assessments.

        ``absent`` counts the rows in which each member has no answer, as :attr:`Answer.absent` does.
        """

    def finds_unlike(self, assessed: Assessments, absent: Mapping[str, int] | None = None) -> bool:
        """Return whether a promise over rows would say that they are unlike the fitting rows."""
        return self.promise_of(assessed, absent).unlike

    @abstractmethod
    def explain(self, X: Any, row: int = 0, coordinates: Any = None) -> Explanation:
        """Explain the decision of one row of X."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool:
        """Return whether ``fit`` has been called."""

    # What kind it is

    @property
    @abstractmethod
    def feasible_(self) -> FeasibleSet:
        """Ω as it was fitted with; where bounds come from the row, ``lower`` and ``upper`` are those of all rows."""

    @property
    @abstractmethod
    def n_policies(self) -> int:
        """The number of members known by their actions alone; they come last."""

    @property
    @abstractmethod
    def has_record(self) -> bool:
        """Whether there is an out-of-fold record that promises rest on."""

    @property
    @abstractmethod
    def known_subgroups(self) -> Grouping | None:
        """The values of the subgroups that were learned; None without subgroups."""

    @property
    def policy_members(self) -> Members:
        """The members known by their actions alone."""
        return self.members_[len(self.members_) - self.n_policies :]

    @property
    @abstractmethod
    def outcome(self) -> list[str]:
        """The outcome of the fit, in sentences."""

    @property
    def data_warnings_(self) -> list[str]:
        """What looks like a mistake in the rows fitted on, in sentences.

        Labels among the inputs of a member, other units, columns in another order, and the like; each is told by a
        :class:`~optensemble.exceptions.DataWarning` too. An ensemble from a file has none.
        """
        return [finding.sentence for finding in self._doubts]

    # Answers

    def decide(self, X: Any) -> Any:
        """Return the action to take for every row of X, of shape (n, d).

        Of a frame (pandas, polars, pyarrow) it is a frame, with the index of X and the names of the labels as columns,
        ``action_0``, ``action_1``, … if labels had no names; of all else it is an array. :meth:`set_output` overrides
        that.
        """
        now = self._as_it_stands()
        return output_of(now._actions(X), X, now.labels_, now._output)

    def _actions(self, X: Any) -> Floats:
        """Return the actions alone."""
        return self.answer(X).actions

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set what :meth:`decide` returns, whatever X is.

        Parameters
        ----------
        transform
            ``"default"``: a frame of a frame, and otherwise an array; ``"numpy"``, ``"pandas"`` or ``"polars"``: that.
            None leaves it as it is.

        Returns
        -------
        The ensemble itself.
        """
        if transform is not None:
            require_output(transform)
            with self._changing():
                self._output = transform
        return self

    def self_assess(self, X: Any) -> Floats:
        """Return the payoff promised for every row of X, in the user's units and sense."""
        return self.answer(X).promised

    def choose(self, X: Any, *, names: bool = False) -> npt.NDArray[Any]:
        """Return for every row of X the candidate that the ensemble follows: an index into ``names_``, or its name."""
        answer = self.answer(X)
        return answer.followed if names else answer.chosen

    def predict(self, X: Any) -> Floats:
        """Return the coefficients behind the decision for every row of X, of shape (n, d)."""
        return self.answer(X).predictions

    def earned(self, X: Any, actions: Any, Y: Any) -> Floats:
        """Return what actions on the rows of X come to once labels are known, net of costs, in the user's sense."""
        now = self._as_it_stands()
        now._require_fitted()
        X = in_fitted_order(X, now._known.features)
        omega = now.feasible_.for_rows(X)
        taken = as_floats(OutputNames(now.labels_)(actions, None, X, "actions"), "actions", ndim=2)
        labels = as_labels(align_labels(Y, X, now.labels_), len(taken), omega.dimension, None)
        return now._sign * omega.value(taken, now._sign * labels)

    def audit(
        self,
        X: Any,
        Y: Any,
        *,
        time_ordered: bool | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
    ) -> Audit:
        """Judge the ensemble on rows of known labels that it was not fitted on.

        Parameters
        ----------
        X, Y
            The rows and their labels.
        time_ordered
            Whether the rows are in time order; by default as the rows fitted on were.
        groups
            If rows of the same label belong together (a customer, a day): a label for every row, a column of X, or a
            callable that finds the labels. By default the column or callable that was given to ``fit``, if any.
        sample_weight
            A weight for every row, a column of X, or a callable of X: the number of rows that a row counts for.
            Intervals go by the effective number of rows, ``(Σw)²/Σw²``.
        missing_labels
            What to do with rows that lack labels, wholly or in part: ``"raise"`` an error, or ``"drop"`` them.

        Returns
        -------
        Promised beside realised payoff, biases and regrets, with intervals. Its baselines are the members as they were
        given, and what anyone would make of them: average, stack, ridge, and the mean label (of a white or black box
        with ``validation=None`` only after ``cross_fit``). Swaps are between the candidates that the ensemble may
        follow.
        """
        options = {"sample_weight": sample_weight, "missing_labels": missing_labels}
        return self.audit_with_answer(X, Y, time_ordered=time_ordered, groups=groups, **options)[0]

    def audit_with_answer(
        self,
        X: Any,
        Y: Any,
        *,
        time_ordered: bool | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
    ) -> tuple[Audit, Answer]:
        """Return the audit on labelled rows, and the answer that it judges, from one pass over the members."""
        options = {"sample_weight": sample_weight, "missing_labels": missing_labels}
        audited = self._audited_rows(X, Y, time_ordered=time_ordered, groups=groups, **options)
        answer, order = audited.answer, audited.order
        return audited.audit, answer if order is None else answer.take(np.argsort(order))

    def _audited_rows(
        self, X: Any, Y: Any, *, time_ordered: bool | None, groups: Any, sample_weight: Any, missing_labels: str
    ) -> AuditedRows:
        """Return the audit on labelled rows, with these rows and the answer for them in the order of the audit."""
        require_choice(time_ordered := as_flag(time_ordered), "time_ordered", [None, True, False])
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        now = self._as_it_stands()
        now._require_fitted()
        ordered = now.time_ordered_ if time_ordered is None else bool(time_ordered)
        rule = now._grouping_rule if groups is None else None
        groups = rule if groups is None else groups
        others, d, n = {"groups": groups, "sample_weight": sample_weight}, now.feasible_.dimension, row_count(X)
        rows = align_all(X, Y, others, now._known, time_ordered=ordered)
        given = LabelledBatch(rows.X, rows.labels, rows.others["groups"], rows.others["sample_weight"])
        batch = labelled_rows(given, d, missing_labels)
        kept = np.arange(n)
        if len(batch.labels) < n:
            kept = np.flatnonzero(~np.isnan(as_labels(rows.labels, n, d, None, gaps=True)).any(axis=1))
        inputs, answer = now._audit_inputs(batch.X, batch.labels, batch.weights)
        clusters = None if groups is None else number_labels(row_labels(batch.groups, batch.X, len(answer.actions)))
        if rule is not None and clusters is not None and not clusters.any():
            of = rule if isinstance(rule, str) else "group"
            warnings.warn(f"all rows are of one {of}: they are treated as independent", UserWarning, stacklevel=3)
            clusters = None
        inputs = replace(inputs, time_ordered=ordered, clusters=clusters, weights=batch.weights)
        inputs = replace(inputs, unlabelled=n - len(kept), coordinates=tuple(now.labels_ or ()))
        from optensemble.evaluation.audit import make_audit  # not loaded by those who only decide

        return AuditedRows(make_audit(inputs), answer, batch, None if rows.order is None else rows.order[kept])

    @property
    def _known(self) -> RowNames:
        """The names of labels and of the columns of X that the fit has learned."""
        return RowNames(self.labels_, getattr(self, "feature_names_in_", None))

    def _learn_names(self, names: RowNames, X: Any = None) -> None:
        """Keep the names of the rows fitted on, and how many columns X has, if it is a table."""
        self.labels_ = None if names.labels is None else list(names.labels)
        if names.features is not None:
            self.feature_names_in_ = list(names.features)
        shape: Any = getattr(X, "shape", ())
        if len(shape) == 2:
            self.n_features_in_ = int(shape[1])

    def _answer_names(self, X: Any) -> dict[str, Any]:
        """Return what an answer for the rows of X says of names."""
        labels = None if self.labels_ is None else tuple(self.labels_)
        return {"labels": labels, "candidates": tuple(self.names_), "index": index_of(X), "frame": kind_of(X)}

    @property
    def _grouping_rule(self) -> Any:
        """The column or callable by which ``fit`` found rows that belong together; None if there is none."""
        return None

    def save(self, path: str | PathLike[str], *, keep_rows: bool = True, keep_members: bool = True) -> None:
        """Write the fitted ensemble to one file, whole or not at all; see :func:`optensemble.load`.

        Parameters
        ----------
        path
            The file.
        keep_rows
            Whether the file of a :class:`~optensemble.DecisionEnsemble` has the rows that it was fitted on and updated
            with, which ``extend`` needs: the columns that are needed, labels, groups and weights. False forgets them.
            Rows that were read from files, and rows of more than 256 MB, which is told by a warning, are never in it;
            nor is an X that is neither an array of numbers nor a pandas frame of numbers, text and dates.
        keep_members
            Whether the file has the members that are estimators in the manner of scikit-learn, with ``get_params``. It
            takes ``optensemble[skops]``; without it, and where skops cannot store one, the member is given again to
            ``load``, as functions are. False leaves them out.
        """
        from optensemble.persistence.files import save

        now = self._as_it_stands()
        now._require_fitted()
        require_choice(keep_rows := as_flag(keep_rows), "keep_rows", [True, False])
        require_choice(keep_members := as_flag(keep_members), "keep_members", [True, False])
        save(now, path, keep_rows=bool(keep_rows), keep_members=bool(keep_members))

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from optensemble.exceptions import NotFittedError  # loads scikit-learn

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

    def _same_parameters(self) -> Self:
        copy = super()._same_parameters()
        return copy if self._output == DEFAULT else copy.set_output(transform=self._output)
