"""What a fit of DecisionEnsemble is given: members, labels and groups, checked."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from optensemble._core.hashing import Hashes, hash_labels
from optensemble._core.suggestions import listed
from optensemble.exceptions import InputError
from optensemble.feasible import FeasibleSet
from optensemble.members.alignment import Labels, RowNames, align_all, column_order, label_names
from optensemble.members.frames import text_names
from optensemble.members.validation import as_labels, as_members, row_count, row_labels
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


class LabelledBatch(NamedTuple):
    """Rows with their labels, in the user's units, and the groups of rows that belong together, if any.

    ``names`` are those of the labels and of the columns of X, once they are known.
    """

    X: Any
    labels: Any
    groups: Any
    names: RowNames = RowNames()


def named_batch(
    batch: LabelledBatch, names: RowNames, dimension: int, *, time_ordered: bool, source: RowNames | None = None
) -> LabelledBatch:
    """Return rows in memory in one order, that of the ``names`` known so far, or else of their own names.

    Rows of a source are as they are, and its names, ``source``, must be in the order of those known.
    """
    known = RowNames(names.labels or batch.names.labels, names.features or batch.names.features)
    if source is not None:
        _require_order(source.labels, known.labels)
        return batch._replace(names=RowNames(known.labels or source.labels, source.features))
    labels = known.labels or label_names(batch.labels, dimension)
    found = RowNames(labels, known.features or text_names(batch.X))
    rows = align_all(batch.X, batch.labels, {"groups": batch.groups}, found, time_ordered=time_ordered)
    return batch._replace(X=rows.X, labels=rows.labels, groups=rows.others["groups"], names=found)


def _require_order(given: Labels, known: Labels) -> None:
    """Refuse a source whose labels are those known in another order, or others."""
    if given is not None and known is not None and column_order(given, known, "the source") is not None:
        raise InputError(
            f"the labels of the source are {listed(given)}, and those fitted on {listed(known)}. Name them in the same "
            "order."
        )


def checked_batches(rows: list[LabelledBatch], dimension: int) -> list[LabelledBatch]:
    """Return the batches with labels as arrays of their own; there must be enough rows in all."""
    counts = [row_count(batch.X) for batch in rows]
    require_enough(sum(counts))
    labels = [as_labels(batch.labels, n, dimension, None) for n, batch in zip(counts, rows, strict=True)]
    return [batch._replace(labels=Y.copy()) for batch, Y in zip(rows, labels, strict=True)]


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
            f"teach; got {count}. Leave groups out if rows do not belong together."
        )
