"""The update of a DecisionEnsemble: labels of past decisions are taken in, rows given before are recognised."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.deferred import pd
from optensemble._core.hashing import Hashes, hash_labels
from optensemble._core.validation import require_choice
from optensemble.ensembles._decision_answers import FittedDecision
from optensemble.ensembles._decision_rows import as_batch
from optensemble.ensembles._watch import tell, weighed
from optensemble.evaluation.payoff_summary import Assessments
from optensemble.evaluation.possible_payoffs import LabelRange
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError, RefitWarning
from optensemble.members.alignment import RowNames
from optensemble.members.fingerprints import MOST_REPEATS, add_marks, count_seen, fingerprints, is_sample
from optensemble.members.fit_inputs import (
    MISSING_LABELS,
    LabelledBatch,
    is_rule,
    join_origins,
    labelled_rows,
    named_batch,
)
from optensemble.members.known_rows import KnownRows, Recognised, count_alike, find_repeats
from optensemble.members.sources import RowSource
from optensemble.members.validation import join_rows, row_labels
from optensemble.stacking.final_policy import PolicyPass

STALE = 0.4
"""New rows, as a share of those fitted on, after which a fit in time order is due again."""

REPEATED = ["raise", "skip"]
"""What may be done with rows that were given before."""

_SEEN = 0.1  # some rows may be alike by chance: a night without sun


@dataclass(frozen=True)
class Update:
    """What an update did.

    Attributes
    ----------
    rows
        The number of rows with labels that it was given.
    taken_in
        Those that are new, and count from now on.
    skipped
        Those that were fitted on or given before.
    changed
        Those that were given before with other labels or forecasts; they are skipped too, and counted here alone.
    promise, realised
        The promise that was in force for the rows taken in, and their mean payoff; None and NaN if there are none.
    """

    rows: int
    taken_in: int
    skipped: int = 0
    changed: int = 0
    promise: Promise | None = None
    realised: float = np.nan


class UpdatedDecision(FittedDecision):
    """A fitted :class:`~optensemble.DecisionEnsemble` that takes in labels; not to be used itself."""

    last_update_: Update

    def update(
        self,
        X: Any,
        Y: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        missing_labels: str = "raise",
        ids: Any = None,
        repeated: str = "raise",
    ) -> Self:
        """Take in the labels of past decisions: the promise is redone, decisions stay as they are.

        The rows are in time order if those fitted on were, with groups if those had groups (a column name or a callable
        need not be given again). Weights and rows that lack labels are as of :meth:`fit`. When it is time to fit again,
        ``refit_due_`` says why, and a :class:`RefitWarning` does: many rows in time order, or an alarm of ``monitor_``,
        which looks at the rows in the order in which they come. ``extend()`` fits again.

        Parameters
        ----------
        ids
            An id for every row, a column of X, or a callable of X, as of :meth:`fit`. A row is known by its id and by
            its numbers, what members say and the labels; while all ids are distinct, an id that comes with other
            numbers is the same row, changed. Without ids rows are known by their numbers alone.
        repeated
            What to do with rows that were fitted on or given before: ``"raise"`` an error, or ``"skip"`` them, and
            those that have changed, with a warning. ``last_update_`` counts them. Without ids an error is raised only
            if more than a tenth of the rows are known, for rows may be alike by chance.
        """
        require_choice(missing_labels, "missing_labels", MISSING_LABELS)
        require_choice(repeated, "repeated", REPEATED)
        with self._changing():
            updated = self._as_it_stands()
            updated._require_fitted()
            batch = updated._in_order(as_batch(X, Y, groups, sample_weight, ids), updated._known)
            updated._take_new(labelled_rows(batch, updated._set.dimension, missing_labels), repeated)
            self._become(updated)
            if changed := self.last_update_.changed:
                warnings.warn(
                    f"{changed:,} of these {self.last_update_.rows:,} rows were given before with other labels or "
                    "forecasts: they are skipped, and count as they were. Fit again on all rows to correct them.",
                    UserWarning,
                    stacklevel=2,
                )
            if self.refit_due_ and self.last_update_.taken_in:
                advice = "Call extend() to fit again with them" if self._rows else "Fit again, on all rows"
                warnings.warn(f"{self.refit_due_}. {advice}.", RefitWarning, stacklevel=2)
        return self

    def _in_order(self, batch: LabelledBatch, known: RowNames) -> LabelledBatch:
        """Return further rows in the order of names that are known, and of time where rows are."""
        source = batch.X.names if isinstance(batch.X, RowSource) else None
        return named_batch(batch, known, self._set.dimension, time_ordered=self.time_ordered_, source=source)

    def _take_new(self, batch: LabelledBatch, repeated: str) -> None:
        """Take in the rows that were not given before."""
        done, labels = self._decide_labelled(batch.X, batch.labels)
        prints = fingerprints(*done.outputs.known_by, labels)
        known = self._recognise(batch.keys, prints, repeated)
        new, changed = np.flatnonzero(~(known.repeated | known.changed)), int(known.changed.sum())
        counts = Update(len(prints), len(new), int(known.repeated.sum()), changed)
        if not len(new):
            self.last_update_ = counts
            return
        if len(new) < len(prints):  # asked anew, so that nothing depends on the rows that are skipped
            batch, prints = batch.take(new), prints[new]
            done, labels = self._decide_labelled(batch.X, batch.labels)
        promise, realised = self._take_in(batch, done, labels, prints)
        self.last_update_ = Update(counts.rows, counts.taken_in, counts.skipped, changed, promise, realised)

    def _recognise(self, keys: Hashes | None, prints: Hashes, repeated: str) -> Recognised:
        """Find the rows that were given before; refuse them if they must be new."""
        n, none = len(prints), np.zeros(len(prints), dtype=bool)
        known, marks = Recognised(none, none), self.fingerprints_
        if keys is not None:
            known = self._known_rows.recognise(KnownRows(keys, prints))
            found = int((known.repeated | known.changed).sum())
            if repeated == "raise" and found:
                raise InputError(
                    f"{found:,} of these {n:,} rows were fitted on or given before, by their ids. Give new ones, or "
                    'repeated="skip".'
                )
            if len(self._known_rows) == self._rows_known:
                return known
        elif repeated == "skip":
            return Recognised(self._known_by_numbers(prints), none)
        seen = count_seen(prints[~known.repeated], marks)
        if seen > _SEEN * n:
            raise InputError(f"{seen:,} of these {n:,} rows were fitted on or given before. Give new ones.")
        return known

    def _known_by_numbers(self, prints: Hashes) -> Any:
        """Return which rows were given before, by their numbers alone."""
        marks = self.fingerprints_
        if not len(marks) or is_sample(marks):
            why = "only a sample of the rows fitted on is known" if len(marks) else "many rows are alike"
            raise InputError(f"rows given before cannot be told from new ones: {why}. Give ids, or the times of rows.")
        found = find_repeats(prints, marks)
        alike = count_alike(prints[found], marks, MOST_REPEATS)
        if alike:
            warnings.warn(
                f"{alike:,} rows that are like many others were skipped as given before, and may be new. Give ids, or "
                "the times of rows, to tell them apart.",
                UserWarning,
                stacklevel=4,
            )
        return found

    def _count_known(
        self, X: Any, Y: Any, *, groups: Any = None, sample_weight: Any = None, ids: Any = None
    ) -> int | None:
        """Return how many of the rows fitted on or given before are among these; None where that cannot be told.

        By ids, a row whose numbers have changed is the same row.
        """
        total, batch = self._rows_known, as_batch(X, Y, groups, sample_weight, ids)
        if batch.keys is not None and len(self._known_rows) == total:
            return int(find_repeats(batch.keys, self._known_rows.keys).sum())
        marks = self.fingerprints_
        if len(marks) != total or is_sample(marks):
            return None
        batch = self._in_order(batch, self._known)
        done, labels = self._decide_labelled(batch.X, batch.labels)
        return int(find_repeats(fingerprints(*done.outputs.known_by, labels), marks).sum())

    def _take_in(self, batch: LabelledBatch, done: PolicyPass, labels: Any, prints: Hashes) -> tuple[Promise, float]:
        """Add rows to the record, and say whether it is time to fit again; return what was promised and realised."""
        outputs, decisions, weights = done.outputs, done.decisions, batch.weights
        groups, clusters = self._same_groups(batch.groups), None
        if groups is not None and self._groups is not None:
            clusters, self._groups = self._groups.number(hash_labels(row_labels(groups, batch.X, outputs.count)))
        assessed, realised = (
            self._sign * decisions.assessed,
            self._sign * outputs.omega.value(decisions.actions, labels),
        )
        incomplete = outputs.incomplete if outputs.absent is not None else None
        possible, seen = self._possible(outputs, decisions.actions), LabelRange.of(self._sign * labels)
        promised = self.record_.promise(Assessments.of(assessed, weights, incomplete, possible))
        self.record_ = self.record_.extend(assessed, realised, clusters, weights, incomplete, seen)
        ahead, gained = done.beyond_members(labels)
        ahead, gained = self._sign * ahead, self._sign * gained
        self.advantage_ = self.advantage_.extend(ahead, gained, clusters, weights, incomplete)
        if len(self.fingerprints_):
            self.fingerprints_ = add_marks(self.fingerprints_, prints)
        if batch.keys is not None:
            self._known_rows += KnownRows(batch.keys, prints)
        rows = batch._replace(labels=self._sign * labels, groups=groups, names=self._known)
        before, mean = self.n_updated_, float(np.average(realised, weights=weights))
        self.n_updated_ += len(labels)
        self._later = [*self._later, rows]
        expected = self._watched.correct(assessed, incomplete, possible)
        self._watch(*(weighed(each, weights, self._watched.weighing) for each in (expected, realised)))
        if self.time_ordered_ and before < STALE * self.n_rows_ <= self.n_updated_:
            stale = f"{self.n_updated_:,} rows have come since the fit on {self.n_rows_:,}"
            self.refit_due_ = "; ".join(filter(None, [self.refit_due_, stale]))
        return promised, mean

    def _watch(self, promised: Floats, realised: Floats) -> None:
        """Have the monitor look at rows, promised as at the fit; what it tells is the first reason for a refit."""
        told, self.monitor_ = tell(self.monitor_), self.monitor_.copy().observe(promised, realised)
        now, due = tell(self.monitor_), self.refit_due_
        if now != told:
            self.refit_due_ = due.replace(told, now) if told and told in due else "; ".join(filter(None, [now, due]))

    @property
    def _rows_known(self) -> int:
        """How many rows were fitted on or given before; marks have those that only members learned from too."""
        return max(self.n_rows_ + self.n_updated_, len(self.fingerprints_))

    @property
    def _time_column(self) -> str | None:
        """The column of times, where rows are in time order and a job has named it."""
        return (self.table_ or {}).get("time") if self.time_ordered_ else None


def merge_in_time(rows: list[LabelledBatch], time: str | None) -> list[LabelledBatch]:
    """Return the rows of all batches as one, sorted by a column of times: labels may come late.

    Rows that are not frames with this column are as they are.
    """
    frames = [batch.X for batch in rows]
    if time is None or len(rows) < 2 or not all(isinstance(X, pd.DataFrame) and time in X for X in frames):
        return rows
    shared = [name for name in frames[0] if all(name in X for X in frames)]
    X, first = join_rows([X[shared] for X in frames]), rows[0]
    groups = first.groups if is_rule(first.groups) else None
    if groups is None and first.groups is not None:
        labels = [row_labels(batch.groups, batch.X, len(batch.labels)) for batch in rows]
        groups = np.array([label for part in labels for label in part], dtype=object)
    try:
        order = np.argsort(X[time].to_numpy(), kind="stable")
    except TypeError as error:
        raise InputError(f"the times in column {time!r} are of several kinds. Fit again, on all rows.") from error
    weights, keys = (_joined([getattr(batch, name) for batch in rows]) for name in ("weights", "keys"))
    joined = LabelledBatch(
        *(X, np.concatenate([batch.labels for batch in rows]), groups, weights, first.names, None, keys),
        origin=join_origins(rows),
    )
    return [joined.take(order)]


def _joined(parts: list[Any]) -> Any:
    return None if any(part is None for part in parts) else np.concatenate(parts)
