"""What a DecisionEnsemble does before it learns: members are fitted, the context is found, first rows are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns
from optensemble._core.progress import Progress
from optensemble.ensembles._decision_rows import first_of, first_rows
from optensemble.ensembles._decision_update import UpdatedDecision
from optensemble.evaluation.data_rules import LEAKED
from optensemble.evaluation.data_sample import Finding
from optensemble.evaluation.data_warnings import explained_by_context, find_context_leaks, find_data_warnings
from optensemble.members.blocks import Block
from optensemble.members.context import Context, find_columns, is_asked, is_named
from optensemble.members.cross_fitting import Trainee
from optensemble.members.fingerprints import add_marks, fingerprints
from optensemble.members.fit_inputs import LabelledBatch, require_enough, split_batches
from optensemble.members.known_rows import KnownRows
from optensemble.members.sources import RowSource
from optensemble.members.validation import as_labels, row_count


class DecisionMembers(UpdatedDecision):
    """A :class:`~optensemble.DecisionEnsemble` with members that are fitted and a context; not to be used itself."""

    member_terms = ("time_ordered", "groups", "sample_weight")
    context: Any
    _member_notes: list[str]

    def _trainees(self) -> list[Trainee]:
        """Return the members that are to be fitted."""
        return self._find_trainees(self.members_[: self.n_models_], self.policy_members)

    def _fit_members(self, n_jobs: int | None, progress: Progress) -> tuple[list[LabelledBatch], Mapping[str, Floats]]:
        """Fit members, and return the rows that they have answers for out of fold, and these.

        Members learn from the others too, as from the first rows of forward chaining.
        """
        terms: dict[str, Any] = {"time_ordered": self.time_ordered_, "seed": self._seed, "on_error": self.on_error}
        found = self._train(self._trainees(), self._rows, n_jobs=n_jobs, progress=progress, **terms)
        self._take_fitted(found, self._set.dimension)
        self._leading, self._member_notes = [], list(found.notes)
        if found.kept is None:
            return self._rows, found.said
        self._leading, judged = split_batches(self._rows, found.kept)
        require_enough(len(found.kept))
        leading = sum(len(batch.labels) for batch in self._leading)
        self._member_notes += [f"{leading:,} rows have no answer out of fold: only members learned from them"]
        return judged, found.said

    def _mark_leading(self) -> None:
        """Have audits and updates recognise rows that only members learned from."""
        for batch in self._leading:
            outputs = self._query()(batch.X)
            prints = fingerprints(*outputs.known_by, self._sign * batch.labels)
            if len(self.fingerprints_):
                self.fingerprints_ = add_marks(self.fingerprints_, prints)
            if len(self._known_rows) and batch.keys is not None:
                self._known_rows += KnownRows(batch.keys, prints)

    def _find_context(self, rows: list[LabelledBatch], roles: Sequence[Any], known: Sequence[Any] | None) -> None:
        """Find the columns of X that a forecast may look at, and what they are like in the first rows.

        ``roles`` are columns, or whatever else, by which groups, weights and ids are found; ``known`` are the columns
        of an earlier fit.

        In time order there are none: contiguous folds interpolate between what was before and what comes after, and
        cannot tell whether a function of X extrapolates. Files have columns that nobody thought of: of theirs, only
        those named are read.
        """
        self._context, self._context_columns = None, ()
        X, named = rows[0].X, known is not None or is_named(self.context)
        if self.time_ordered_ or not (named or (is_asked(self.context) and not isinstance(X, RowSource))):
            return
        X, labels = first_of(X, rows[0].labels)
        used: list[Any] = [rule for rule in roles if isinstance(rule, str)]
        if isinstance(X, np.ndarray) and X.ndim == 2:  # whose columns may be counted from the last
            used += [int(rule) % X.shape[1] for rule in roles if isinstance(rule, Integral)]
        used += self.labels_ or []
        used += [name for _, each in self.members_ if isinstance(each, Columns) for name in each.found_in(X)]
        columns = find_columns(self.context, X, used) if known is None else list(known)
        self._context = Context.learn(columns, X) if columns else None
        if self._context is not None and not named:
            kept = self._apart_from_labels(self._context, X, labels)
            self._context = Context.learn(kept, X) if kept else None
        self._context_columns = () if self._context is None else self._context.columns

    def _apart_from_labels(self, found: Context, X: Any, labels: Any) -> list[Any]:
        """Return the columns that are no label under another name: a table of X may have been given with them."""
        truth = as_labels(labels, row_count(X), self._set.dimension, None, gaps=True)
        there = ~np.isnan(truth).any(axis=1)
        shares = explained_by_context(found(X)[there], truth[there])
        return [name for name, share in zip(found.columns, shares.tolist(), strict=True) if share <= LEAKED]

    def _look_at(self, first: Block, names: list[str]) -> list[Finding]:
        """Return what looks like a mistake in the first rows."""
        found = find_data_warnings(first_rows(names, first, self.labels_), self.cross_fitted_)
        columns = () if self._context is None else self._context.columns
        return [*found, *find_context_leaks(columns, first.outputs.context, first.labels)]
