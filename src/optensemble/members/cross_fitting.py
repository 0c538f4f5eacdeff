"""Cross-fitting: members that are fitted here, out of fold for what is learned from them, and on all rows to decide.

What the ensemble learns from is what each member says of rows it was not fitted on, so no rows need be set aside.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.hashing import hash_labels
from optensemble._core.progress import Progress, Stage
from optensemble._core.threads import one_blas_thread
from optensemble.exceptions import AbsentWarning, InputError
from optensemble.members.alignment import OutputNames
from optensemble.members.copy_spread import match_spread, spaced_rows
from optensemble.members.estimators import (
    PREFIT,
    Arguments,
    fit_arguments,
    is_ensemble,
    is_pair,
    parts_of,
    takes_all_labels,
    unfitted,
    with_seeds,
)
from optensemble.members.fingerprints import Marks, alike_by_nature, fingerprints
from optensemble.members.fit_inputs import LabelledBatch, Origin, join_origins
from optensemble.members.frames import index_of
from optensemble.members.per_label import PerLabel
from optensemble.members.row_contents import row_contents
from optensemble.members.validation import as_rows, ask_member, join_rows, pick_rows, row_count, row_labels
from optensemble.stats.folds import Fold, folds
from optensemble.stats.row_design import RowDesign

FOLDS = 5
"""Folds unless ``cv`` says otherwise: as in scikit-learn, members see four fifths of the rows each time."""

STAGE = "fitting members"

_GAP = 0.01  # of the rows, at each edge of a fold in time order: neighbours there would tell of each other
_FEWEST_FOLDS = 2

PREDICT, DECIDE = "predict", "decide"
"""The methods that models and policies answer by."""


class Trainee(NamedTuple):
    """A member that is to be fitted: its name, the estimator, and the method it answers by."""

    name: str
    member: Any
    method: str

    @property
    def kind(self) -> str:
        """The word for it."""
        return "model" if self.method == PREDICT else "policy"

    @property
    def output(self) -> str:
        """What it says, in words."""
        return f"the {'predictions' if self.method == PREDICT else 'actions'} of {self.kind} {self.name!r}"


@dataclass(frozen=True)
class TrainingRows:
    """The rows that members are fitted on, with labels in the user's units, and weights and groups if there are any.

    ``origin`` is where they come from; None if they are as they were given. Members that are our own ensembles are told
    whether the rows are ``time_ordered``.
    """

    X: Any
    labels: Floats
    weights: Floats | None = None
    groups: Sequence[Any] | None = None
    origin: Origin | None = None
    time_ordered: bool = False

    @classmethod
    def of(cls, batches: Sequence[LabelledBatch], *, time_ordered: bool = False) -> TrainingRows:
        """Join the rows of all batches, whose labels and weights are arrays already."""
        X = batches[0].X if len(batches) == 1 else join_rows([batch.X for batch in batches])
        if X is None:
            raise InputError(
                "members are fitted on all rows, and these are tables of several kinds, or with other columns. Give "
                "the further rows as the same kind of table, with the same columns."
            )
        labels = np.concatenate([batch.labels for batch in batches])
        weights = None if batches[0].weights is None else np.concatenate([batch.weights for batch in batches])
        groups = None
        if batches[0].groups is not None:
            found = [row_labels(batch.groups, batch.X, len(batch.labels)) for batch in batches]
            groups = [label for part in found for label in part]
        return cls(X, labels, weights, groups, join_origins(batches), time_ordered)

    @property
    def arguments(self) -> Arguments:
        """What the ``fit`` of an estimator may ask for, or be told."""
        groups = None
        if self.groups is not None:
            groups = np.array([str(each) if isinstance(each, tuple) else each for each in self.groups])
        return {"sample_weight": self.weights, "groups": groups, "time_ordered": self.time_ordered}

    def labels_for(self, estimator: Any, columns: slice, names: Sequence[str] | None) -> Any:
        """Return labels to be fitted to, as scikit-learn has them: an array, of one label without a second dimension.

        Our own ensembles find columns by the labels' names: theirs is a table, and of labels with names a frame.
        """
        found = self.labels[:, columns]
        if not is_ensemble(estimator):
            return found[:, 0] if found.shape[1] == 1 else found
        return found if names is None else pd.DataFrame(found, index_of(self.X), list(names[columns]))


@dataclass(frozen=True)
class CrossFitted:
    """Members after cross-fitting.

    Attributes
    ----------
    members
        By name, fitted on all rows.
    said
        By name, what each said of the rows out of fold, of shape (rows, d); only of the rows ``kept``.
    kept
        The rows that each has an out-of-fold answer for; None if it is all of them.
    notes
        What a user should know, in sentences.
    """

    members: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, Floats] = field(default_factory=dict)
    kept: Indices | None = None
    notes: tuple[str, ...] = ()


def require_cv(cv: Any) -> None:
    """Refuse a ``cv`` that is neither a number of folds, a splitter, pairs of rows, ``"prefit"`` nor None."""
    if cv is None or (cv == PREFIT if isinstance(cv, str) else callable(getattr(cv, "split", None))):
        return
    if isinstance(cv, Integral) and not isinstance(cv, bool) and int(cv) >= _FEWEST_FOLDS:
        return
    if isinstance(cv, (list, tuple)) and len(cv) and all(map(is_pair, cv)):
        return
    if isinstance(cv, Iterator):
        raise InputError(
            "cv is an iterator, which can be read but once. Make it a list: cv=list(splitter.split(X, Y)), or give the "
            "splitter itself."
        )
    raise InputError(
        f"cv must be a number of folds from {_FEWEST_FOLDS}, a splitter of scikit-learn, a list of pairs of rows, "
        f"'prefit' or None; got {cv!r}."
    )


def member_folds(cv: Any, rows: TrainingRows, *, time_ordered: bool, seed: int) -> list[Fold]:
    """Return the folds that members are cross-fitted on; each row is judged at most once.

    Of a number, folds are contiguous in time order, with a gap at their edges, and otherwise dealt out; rows of one
    group, and copies of one row, stay together. Pairs name rows as they were given.
    """
    n = len(rows.labels)
    if cv is None or isinstance(cv, Integral):
        count, clusters = FOLDS if cv is None else int(cv), _clusters(rows, time_ordered=time_ordered)
        most = n if clusters is None else int(clusters.max()) + 1
        if count > most:
            raise InputError(f"cv={count} asks for more folds than there are rows or groups ({most:,}). Take fewer.")
        gap = max(round(_GAP * n), 1) if time_ordered else 0
        return folds(n, time_ordered=time_ordered, clusters=clusters, random_state=seed, count=count, gap=gap)
    return _given_folds(cv, rows, n)


def _clusters(rows: TrainingRows, *, time_ordered: bool) -> Indices | None:
    """Return the number of each row's group; without groups that of copies of one row, which would tell of it."""
    if rows.groups is not None:
        return np.unique(hash_labels(rows.groups), return_inverse=True)[1]
    if time_ordered:
        return None
    contents, n = row_contents(rows.X), len(rows.labels)
    prints = fingerprints(contents, rows.labels)
    marks, single = Marks.of(prints, n, contents, rows.labels), alike_by_nature(rows.labels, contents)
    design = marks.cluster(RowDesign(n), single)
    if design is None or design.clusters is None:
        return None
    return np.unique(design.clusters.row_ids(prints, 0), return_inverse=True)[1]


def _given_folds(cv: Any, rows: TrainingRows, n: int) -> list[Fold]:
    if hasattr(cv, "split"):
        pairs, origin = _split(cv, rows), None
    else:
        pairs, origin = list(cv), rows.origin
    if any(not np.size(test) for _, test in pairs):
        raise InputError("cv has a fold without rows to judge. Leave it out.")
    found = [Fold(np.sort(_rows(train, n, origin)), np.sort(_rows(test, n, origin))) for train, test in pairs]
    found = [fold for fold in found if len(fold.test)]
    if not found:
        raise InputError(f"cv has no fold with rows to judge on, of {n:,}. Give a number of folds, such as cv=5.")
    if any(not len(fold.train) or np.isin(fold.test, fold.train).any() for fold in found):
        raise InputError("cv has a fold with rows that it is both fitted and judged on, or without rows to fit on.")
    judged = np.bincount(np.concatenate([fold.test for fold in found]), minlength=n)
    if judged.max() > 1:
        raise InputError(
            f"cv judges {int((judged > 1).sum()):,} of {n:,} rows more than once; what members say of a row must be "
            "one answer. Take a splitter whose test rows do not overlap, such as KFold, GroupKFold or TimeSeriesSplit."
        )
    return found


def _split(cv: Any, rows: TrainingRows) -> list[Any]:
    """Return the folds of a splitter; one that goes by groups must be given some."""
    try:
        return list(cv.split(rows.X, rows.labels, rows.groups))
    except (TypeError, ValueError) as error:
        if rows.groups is not None or "groups" not in str(error):
            raise
        raise InputError(
            f"cv={cv!r} goes by groups, and there are none. Give fit(..., groups=...). White and black boxes, whose "
            "fit takes none, are given the folds themselves: cv=list(splitter.split(X, Y, groups))."
        ) from error


def _rows(given: Any, n: int, origin: Origin | None) -> Indices:
    """Return the numbers of rows that are named as they were given; those that were left out since are not there."""
    rows, total = np.asarray(given), n if origin is None else origin.total
    if rows.size and rows.dtype.kind not in "biu":
        raise InputError(f"cv must name rows by their numbers from 0; got {rows.flat[0]!r}.")
    rows = np.flatnonzero(rows) if rows.dtype.kind == "b" else rows.astype(np.int64)
    wrong = rows[(rows < 0) | (rows >= total)]
    if wrong.size:
        raise InputError(f"cv names row {int(wrong.max())} of {total:,}. Give the numbers of rows from 0.")
    if origin is None:
        return rows
    number = np.full(total, -1)
    number[origin.rows] = np.arange(n)
    return number[rows][number[rows] >= 0]


class _Job(NamedTuple):
    """One fit: of an estimator to all labels, or to one, on the rows of a fold or on all."""

    trainee: int
    part: int
    fold: int | None


class _Fitted(NamedTuple):
    """What a fit leaves: the estimator where it is one on all rows, and otherwise what it says of its fold.

    ``known`` is what a model says of some of the rows that it was fitted on; ``failed`` is why it says nothing of its
    fold, where it failed to answer and may.
    """

    estimator: Any
    said: Floats | None
    known: Floats | None = None
    failed: str = ""


def cross_fit(
    trainees: Sequence[Trainee],
    rows: TrainingRows,
    splits: Sequence[Fold],
    *,
    names: OutputNames,
    seed: int,
    n_jobs: int | None,
    progress: Progress,
    on_error: str = "raise",
) -> CrossFitted:
    """Fit each member without each of the folds in turn, and on all rows.

    Parameters
    ----------
    trainees
        The members.
    rows
        What they are fitted on.
    splits
        The folds.
    names
        Puts what members say in the order of the labels.
    seed
        Seeds random states that are None.
    n_jobs
        How many fits run side by side, as joblib takes it; the result does not depend on it.
    progress
        Told of every fit.
    on_error
        With ``"absent"``, a copy that fails to answer is absent in the rows of its fold, with a warning.
    """
    n, d = rows.labels.shape
    plan = _Plan([each._replace(member=_prepared(each, d, seed)) for each in trainees], rows, splits, names.labels)
    jobs, said = plan.jobs, {each.name: np.full((n, d), np.nan) for each in trainees}
    known = {each.name: np.full((len(splits) + 1, len(plan.spaced), d), np.nan) for each in trainees}
    done: dict[str, list[Any]] = {each.name: [] for each in trainees}
    with Stage(progress, STAGE, len(jobs)) as step:
        for job, result in zip(jobs, _run(plan, names, n_jobs, on_error), strict=True):
            name = plan.trainees[job.trainee].name
            if job.fold is None:
                done[name].append(result.estimator)
            else:
                said[name][splits[job.fold].test, plan.columns(job)] = result.said
            if result.known is not None:
                own = known[name][-1 if job.fold is None else job.fold]
                own[plan.is_known(job.fold), plan.columns(job)] = result.known
            if result.failed:
                warnings.warn(f"{name!r} failed out of fold on {result.failed}", AbsentWarning, stacklevel=6)
            step()
    for each in trainees:
        match_spread(said[each.name], known[each.name], splits, rows.labels, rows.weights)
    fitted = {each.name: _joined(each.member, done[each.name]) for each in plan.trainees}
    judged, notes = np.unique(np.concatenate([fold.test for fold in splits])), _weight_notes(plan.trainees, rows)
    if len(judged) == n:
        return CrossFitted(fitted, said, None, notes)
    return CrossFitted(fitted, {name: each[judged] for name, each in said.items()}, judged, notes)


@dataclass(frozen=True)
class _Plan:
    """All fits to be made: of members, on the rows of every fold and on all."""

    trainees: Sequence[Trainee]
    rows: TrainingRows
    splits: Sequence[Fold]
    names: Sequence[str] | None = None

    @property
    def jobs(self) -> list[_Job]:
        """The fits, those of a member and of a fold next to each other."""
        return [
            _Job(number, part, fold)
            for number, each in enumerate(self.trainees)
            for fold in [*range(len(self.splits)), None]
            for part in range(len(parts_of(each.member)))
        ]

    def columns(self, job: _Job) -> slice:
        """Return the labels of a fit: one if the member is made of an estimator for each, otherwise all."""
        several = isinstance(self.trainees[job.trainee].member, PerLabel)
        return slice(job.part, job.part + 1) if several else slice(None)

    @cached_property
    def spaced(self) -> Indices:
        """Some rows that models are asked about although they were fitted on them."""
        return spaced_rows(len(self.rows.labels), len(self.splits))

    def is_known(self, fold: int | None) -> npt.NDArray[np.bool_]:
        """Return which of those are fitted on where a fold is left out."""
        return np.isin(self.spaced, np.arange(len(self.rows.labels)) if fold is None else self.splits[fold].train)

    def cut(self, fold: int | None) -> tuple[Any, Any, Any]:
        """Return the rows of X to fit on, those to be asked about, of all rows none, and some that are known."""
        known = pick_rows(self.rows.X, self.spaced[self.is_known(fold)])
        if fold is None:
            return self.rows.X, None, known
        train, test = self.splits[fold]
        return pick_rows(self.rows.X, train), pick_rows(self.rows.X, test), known

    def arguments(self) -> list[list[Arguments]]:
        """Return the further values of rows that each part of each member is given."""
        given = self.rows.arguments
        return [[fit_arguments(part, given) for part in parts_of(each.member)] for each in self.trainees]

    def calls(self, arguments: list[list[Arguments]]) -> Iterator[tuple[Trainee, Any, Any, Arguments, Any, Any]]:
        """Yield for every fit the estimator, X, labels and further values of rows, and the rows to be asked about."""
        last: int | None = -1
        X = unseen = known = None
        for job in self.jobs:
            if job.fold != last:  # the rows of one fold at a time
                last, (X, unseen, known) = job.fold, self.cut(job.fold)
            trainee = self.trainees[job.trainee]
            estimator = parts_of(trainee.member)[job.part]
            labels = self.rows.labels_for(estimator, self.columns(job), self.names)
            values = arguments[job.trainee][job.part]
            if job.fold is not None:
                train = self.splits[job.fold].train
                labels = pick_rows(labels, train)
                values = {key: value[train] if np.ndim(value) else value for key, value in values.items()}
            yield trainee._replace(member=estimator), X, labels, values, unseen, known


def _run(plan: _Plan, names: OutputNames, n_jobs: int | None, on_error: str) -> Iterator[_Fitted]:
    """Yield what each fit leaves, in order, as it is done."""
    from sklearn.utils.parallel import Parallel, delayed  # joblib's, with the configuration of scikit-learn

    arguments = plan.arguments()  # here: joblib draws calls from threads that do not know the configuration
    calls = (delayed(_fit_one)(*call, names, on_error) for call in plan.calls(arguments))
    yield from Parallel(n_jobs=n_jobs, return_as="generator")(calls)


def _prepared(trainee: Trainee, d: int, seed: int) -> Any:
    """Return an unfitted copy: of an estimator of one label, one for each."""
    member = unfitted(trainee.member)
    if trainee.method == PREDICT and d > 1 and not isinstance(member, PerLabel) and not takes_all_labels(member):
        member = PerLabel([unfitted(member) for _ in range(d)])
    return with_seeds(member, trainee.name, seed)


def _joined(member: Any, fitted: list[Any]) -> Any:
    return PerLabel(fitted) if isinstance(member, PerLabel) else fitted[0]


def _fit_one(
    trainee: Trainee,
    X: Any,
    labels: Any,
    values: Arguments,
    unseen: Any,
    known: Any,
    names: OutputNames,
    on_error: str,
) -> _Fitted:
    """Fit a copy of an estimator, and ask it about the rows of its fold; about none if it is fitted on all rows.

    A model is asked about some rows that it knows, too.
    """
    estimator = unfitted(trainee.member)
    try:
        with one_blas_thread():  # whose number would change the bits
            estimator.fit(X, labels, **values)
    except Exception as error:
        where = "on all rows" if unseen is None else "without one of the folds"
        error.add_note(f"This came from the member {trainee.name!r} of the ensemble, as it was fitted {where}.")
        raise
    d = 1 if labels.ndim == 1 else labels.shape[1]

    def ask(rows: Any) -> tuple[Floats, str]:
        n = row_count(rows)
        try:
            said = ask_member(estimator, trainee.name, trainee.method, rows)
        except Exception as error:
            if on_error != "absent":
                raise
            return np.full((n, d), np.nan), f"{n:,} rows and is absent there: {type(error).__name__}: {error}"
        numbers = names(said, estimator, rows, f"{trainee.kind} {trainee.name!r}")
        return as_rows(numbers, trainee.output, n, d, gaps=True), ""

    own = ask(known)[0] if trainee.method == PREDICT and row_count(known) else None
    if unseen is None:
        return _Fitted(estimator, None, own)
    said, failed = ask(unseen)
    return _Fitted(None, said, own, failed)


def _weight_notes(trainees: Sequence[Trainee], rows: TrainingRows) -> tuple[str, ...]:
    """Return which members were fitted without the weights of rows."""
    if rows.weights is None:
        return ()
    notes = list[str]()
    for trainee in trainees:
        weighted = [bool(fit_arguments(each, {"sample_weight": rows.weights})) for each in parts_of(trainee.member)]
        if not all(weighted):
            where = " for some labels" if any(weighted) else ""
            why = "its fit takes none, or does not ask for them"
            notes.append(f"{trainee.name} was fitted without weights{where}: {why}")
    return tuple(notes)
