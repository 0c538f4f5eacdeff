"""What a fit of DecisionEnsemble is given: members, labels, groups and weights, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.hashing import Hashes, hash_labels
from optensemble._core.suggestions import listed
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import missing_rows
from optensemble.members.alignment import Labels, RowNames, align_all, column_order, label_names
from optensemble.members.frames import text_names
from optensemble.members.validation import as_labels, as_members, as_weights, pick_rows, row_count, row_labels
from optensemble.stats.sample_size import MINIMUM_ROWS

_FEWEST_GROUPS = 5
_LARGEST_LABEL = 1e60


def is_rule(groups: Any) -> bool:
    """Return whether groups are found in X, and so in further rows too."""
    return callable(groups) or isinstance(groups, (str, Integral))


def as_member_list(members: Any, what: str) -> list[tuple[str, Any]]:
    """Return pairs of name and member; of none an empty list."""
    if isinstance(members, FeasibleSet):
        raise InputError(f"{what} got the feasible set {members!r}. Give it as feasible=….")
    if isinstance(members, Iterator):
        raise InputError(
            f"{what} must be a list of pairs; got an iterator, which can be read but once. Make it a list."
        )
    none = members is None or (isinstance(members, Sized) and len(members) == 0)
    return [] if none else as_members(members, what)


def require_enough(n: int) -> None:
    """Refuse to judge out of fold what has too few rows for that."""
    if n < MINIMUM_ROWS:
        raise InputError(
            f"DecisionEnsemble needs at least {MINIMUM_ROWS} rows to fit on; got {n}. Below that nothing can be judged "
            "out of fold, and no promise would mean anything. optensemble.plan(k, d) says how many rows are enough."
        )


def require_size(largest: float) -> None:
    """Refuse labels that are too large, or too small, for the squares that are made of them."""
    if largest > _LARGEST_LABEL or 0 < largest < 1 / _LARGEST_LABEL:
        raise InputError(f"the labels go up to {largest:.3g}, which squares of squares cannot hold. Scale them.")


class Origin(NamedTuple):
    """The numbers that rows had among ``total`` rows as they were given: some may be left out, others sorted."""

    rows: Indices
    total: int

    @classmethod
    def all_of(cls, total: int) -> Origin:
        """Return that of rows that are all there, in their order."""
        return cls(np.arange(total), total)

    def take(self, kept: Indices) -> Origin:
        """Return that of some of the rows."""
        return self._replace(rows=self.rows[kept])


class LabelledBatch(NamedTuple):
    """Rows with their labels, in the user's units, the groups of rows that belong together, and weights, if any.

    ``names`` are those of the labels and of the columns of X, once they are known. ``ids`` are as they were given, and
    become ``keys``, a hash of each, once rows are in order. ``origin`` is where the rows come from; None if they are
    as they were given.
    """

    X: Any
    labels: Any
    groups: Any = None
    weights: Any = None
    names: RowNames = RowNames()
    ids: Any = None
    keys: Hashes | None = None
    origin: Origin | None = None

    def take(self, kept: Indices) -> LabelledBatch:
        """Return some of the rows, whose labels and weights are arrays already."""
        groups = self.groups
        if groups is not None and not is_rule(groups):
            groups = np.asarray(row_labels(groups, self.X, len(self.labels)), dtype=object)[kept]
        weights, keys = (None if each is None else each[kept] for each in (self.weights, self.keys))
        origin = (self.origin or Origin.all_of(len(self.labels))).take(kept)
        X, labels = pick_rows(self.X, kept), self.labels[kept]
        return LabelledBatch(X, labels, groups, weights, self.names, None, keys, origin)


def named_batch(
    batch: LabelledBatch, names: RowNames, dimension: int, *, time_ordered: bool, source: RowNames | None = None
) -> LabelledBatch:
    """Return rows in memory in one order, that of the ``names`` known so far, or else of their own names.

    Rows of a source are as they are, and its names, ``source``, must be in the order of those known.
    """
    known = RowNames(names.labels or batch.names.labels, names.features or batch.names.features)
    if source is not None:
        _require_order(source.labels, known.labels)
        return batch._replace(names=RowNames(known.labels or source.labels, source.features), ids=None)
    labels = known.labels or label_names(batch.labels, dimension)
    found = RowNames(labels, known.features or text_names(batch.X))
    others = {"groups": batch.groups, "sample_weight": batch.weights, "ids": batch.ids, "keys": batch.keys}
    rows = align_all(batch.X, batch.labels, others, found, time_ordered=time_ordered)
    groups, weights, ids, keys = (rows.others[name] for name in others)
    keys = keys if ids is None else hash_ids(ids, rows.X)
    origin = batch.origin
    if rows.order is not None:
        origin = (origin or Origin.all_of(len(rows.order))).take(rows.order)
    return LabelledBatch(rows.X, rows.labels, groups, weights, found, None, keys, origin)


def hash_ids(ids: Any, X: Any) -> Hashes:
    """Return a hash of every row's id: given one by one, as a column of X, or by a callable of X."""
    n = row_count(X)
    if not is_rule(ids) and np.shape(ids := np.asarray(ids)) != (n,):
        raise InputError(
            f"ids must hold one id for each of the {n} rows, or name a column of X; got an array of shape {ids.shape}."
        )
    try:
        return hash_labels(row_labels(ids, X, n))
    except InputError as error:
        wrong = InputError(str(error).replace("group labels", "ids"))
        wrong.rows = error.rows
        raise wrong from error


def _require_order(given: Labels, known: Labels) -> None:
    """Refuse a source whose labels are those known in another order, or others."""
    if given is not None and known is not None and column_order(given, known, "the source") is not None:
        raise InputError(
            f"the labels of the source are {listed(given)}, and those fitted on {listed(known)}. Name them in the same "
            "order."
        )


def checked_batches(rows: list[LabelledBatch], dimension: int, missing_labels: str) -> list[LabelledBatch]:
    """Return the batches with labels and weights as arrays of their own; there must be enough rows in all."""
    found = [labelled_rows(batch, dimension, missing_labels) for batch in rows]
    total = sum(len(batch.labels) for batch in found)
    require_enough(total)
    weighted = [batch.weights is not None for batch in found]
    if any(weighted) != all(weighted):
        raise InputError("some rows have weights and others do not. Give sample_weight for all of them, or for none.")
    return found


def labelled_rows(batch: LabelledBatch, dimension: int, missing_labels: str = "raise") -> LabelledBatch:
    """Return a batch with its labels and weights as arrays; rows that lack labels are refused, or dropped."""
    n = row_count(batch.X)
    labels = as_labels(batch.labels, n, dimension, None, gaps=missing_labels == "drop")
    weights = None if batch.weights is None else as_weights(batch.weights, batch.X, n)
    unlabelled = missing_rows(labels)
    if unlabelled is None:
        return batch._replace(labels=labels.copy(), weights=weights)
    return batch._replace(labels=labels, weights=weights).take(np.flatnonzero(~unlabelled))


def split_batches(rows: list[LabelledBatch], kept: Indices) -> tuple[list[LabelledBatch], list[LabelledBatch]]:
    """Split rows of all batches into those that are not kept and those that are, which are given by number."""
    others, chosen, start = list[LabelledBatch](), list[LabelledBatch](), 0
    for batch in rows:
        numbers = np.arange(len(batch.labels))
        here = np.isin(start + numbers, kept)
        others += [batch.take(numbers[~here])] if not here.all() else []
        chosen += [batch.take(numbers[here])] if here.any() else []
        start += len(numbers)
    return others, chosen


def join_origins(rows: Sequence[LabelledBatch]) -> Origin | None:
    """Return where the rows of all batches come from, given one batch after the other."""
    if all(batch.origin is None for batch in rows):
        return None
    found, total = list[Indices](), 0
    for batch in rows:
        origin = batch.origin or Origin.all_of(len(batch.labels))
        found.append(total + origin.rows)
        total += origin.total
    return Origin(np.concatenate(found), total)


MISSING_LABELS = ["raise", "drop"]
"""What may be done with rows that lack labels."""


def unlabelled_notes(missing: int, rows: int) -> list[str]:
    """Return how many rows were left out for want of labels, in a sentence if there are any."""
    return [f"{missing:,} of {rows:,} rows have no labels and were left out"] if missing else []


_LEAST_OUTSIDE = 0.1  # of all weight, beside the fold that has most of it


def require_weights(by_fold: Floats, rows: int) -> None:
    """Refuse weights that are no numbers of rows, given what they sum to in each fold."""
    total = float(by_fold.sum())
    if total < MINIMUM_ROWS:
        raise InputError(
            f"the weights of {rows:,} rows sum to {total:.3g}; a weight is the number of rows that a row counts for, "
            f"and {MINIMUM_ROWS} at least are needed. Scale the weights, for example to a mean of 1."
        )
    rest = total - float(by_fold.max())
    if rest < _LEAST_OUTSIDE * total:
        raise InputError(
            f"the weights of {rows:,} rows sum to {total:.3g}, of which {rest:.3g} lie outside one fold of the rows: "
            "too little to judge by what was not learned from. Weights must not be those of a handful of rows."
        )


def group_hashes(rows: list[LabelledBatch]) -> Hashes | None:
    """Return a hash of every row's group; the same label in two batches is the same group."""
    given = [batch.groups is not None for batch in rows]
    if not any(given):
        return None
    if not all(given):
        raise InputError("some rows have groups and others do not. Give groups for all of them, or for none.")
    found = [hash_labels(row_labels(batch.groups, batch.X, len(batch.labels))) for batch in rows]
    require_groups(len(np.unique(np.concatenate(found))))
    return np.concatenate(found)


def require_groups(count: int) -> None:
    """Refuse too few groups to judge some by what the others teach."""
    if count < _FEWEST_GROUPS:
        raise InputError(
            f"groups must have at least {_FEWEST_GROUPS} different labels, for some are judged by what the others "
            f"teach; got {count}. Leave groups out if rows do not belong together; if forecasts are to be unbiased in "
            "each of them, they are subgroups."
        )
