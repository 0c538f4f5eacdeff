"""Labels as they are given to a LiveEnsemble: with ids, weights and groups, validated and in one order."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble.ensembles._live_rows import as_ids, hash_ids, ids_listed
from optensemble.ensembles.base import DECISION, Policy
from optensemble.evaluation.possible_payoffs import NOTHING_KNOWN
from optensemble.exceptions import DataWarning, InputError
from optensemble.members.alignment import align_labels, align_rows, require_labels
from optensemble.members.frames import index_of, is_default
from optensemble.members.sources import RowSource
from optensemble.members.validation import as_labels, as_weights, row_count, row_labels

_DOUBTFUL = 100.0  # times the largest label of the fit


class Given(NamedTuple):
    """Labels of rows with these ids, in the user's units, and the rows' weights and groups if they have any."""

    ids: npt.NDArray[Any]
    labels: Floats
    weights: Floats | None
    groups: npt.NDArray[Any] | None

    def take(self, rows: Indices) -> Given:
        """Return those of some rows, by their places."""
        weights, groups = (None if each is None else each[rows] for each in (self.weights, self.groups))
        return Given(self.ids[rows], self.labels[rows], weights, groups)


def as_given(fit: Policy, ids: Any, Y: Any, weights: Any, groups: Any, refits: bool, rule: Any, *, gaps: bool) -> Given:
    """Return labels in the order of their ids; with ``gaps`` those of rows that lack some are left out.

    ``refits`` says whether the rows are refitted on, and ``rule`` how their groups are then found in X.
    """
    n = row_count(Y, "Y")
    named = as_ids(ids, n, "Y")
    require_labels(Y, fit.labels_)
    labels = as_labels(align_labels(Y, None, fit.labels_), n, fit.feasible_.dimension, None, gaps=gaps)
    counts = _as_counts(fit, align_rows(weights, Y, "sample_weight", "Y"), n, refits=refits)
    grouped = _as_groups(fit, align_rows(groups, Y, "groups", "Y"), n, rule, refits=refits)
    given = Given(named, labels, counts, grouped)
    if (order := _order_by_ids(named, Y)) is not None:
        given = given.take(order)._replace(ids=named)
    return given.take(np.flatnonzero(~np.isnan(given.labels).any(axis=1))) if gaps else given


def warn_of_units(fit: Policy, given: Given, *, stacklevel: int) -> None:
    """Warn of labels that are much larger than any before: what is learned from them cannot be undone."""
    known = fit.record_.labels if fit.has_record else NOTHING_KNOWN
    sizes, usual = np.abs(given.labels), max(abs(known.low), abs(known.high))
    if (largest := float(sizes.max(initial=0.0))) > _DOUBTFUL * usual > 0:
        row = int(sizes.max(axis=1).argmax())
        warnings.warn(
            f"a label of row {ids_listed(given.ids[row : row + 1])[0]!r} is {largest:.3g} in absolute value; "
            f"the largest in the fit was {usual:.3g}. Check its units: what has been learned from a label cannot be "
            "undone.",
            DataWarning,
            stacklevel=stacklevel + 1,
        )


def _as_counts(fit: Policy, weights: Any, n: int, *, refits: bool) -> Floats | None:
    if weights is None:
        return None
    if np.ndim(weights) == 0:
        raise InputError(
            f"sample_weight must hold one weight for each of the {n} rows of Y; got {weights!r}. X is not available in "
            "observe: give the numbers themselves."
        )
    if refits and any(isinstance(each.X, RowSource) for each in fit._kept_rows):
        raise InputError(
            "the rows of the fit are read from files and count once each: rows with sample_weight cannot be refitted "
            "on beside them. Leave sample_weight out, or give LiveEnsemble refit='never'."
        )
    if refits and fit.kind != DECISION:
        raise InputError(
            "white and black boxes cannot be refitted with weights. Leave sample_weight out, or give LiveEnsemble "
            "refit='never'."
        )
    return as_weights(weights, None, n)


def _as_groups(fit: Any, groups: Any, n: int, rule: Any, *, refits: bool) -> npt.NDArray[Any] | None:
    if groups is not None and not callable(groups) and np.shape(groups)[:1] != (n,):
        raise InputError(
            f"groups must hold the group of each of the {n} rows of Y; got {groups!r:.80}. X is not available in "
            "observe: give the groups themselves."
        )
    if refits and groups is not None and fit.kind != DECISION:
        raise InputError("white and black boxes cannot be refitted with groups. Leave groups out.")
    if not refits or fit.kind != DECISION:
        return None
    if rule is not None and groups is not None:
        raise InputError("the groups of these rows are found in X, as those of the fit were. Leave groups out.")
    if groups is None and (fit._groups is None or rule is not None):
        return None
    if groups is None or fit._groups is None:
        fit._same_groups(groups)  # which says what is wrong
    found = np.empty(n, dtype=object)
    found[:] = row_labels(groups, None, n)
    return found


def _order_by_ids(ids: npt.NDArray[Any], Y: Any) -> Indices | None:
    """Return the order that puts labels in that of their ids, where their index holds these; None by position.

    An index of times or text that holds some of the ids and not others is refused.
    """
    index = index_of(Y)
    if index is None or is_default(index):
        return None
    try:
        given = as_ids(index.to_numpy() if index.nlevels == 1 else list(index), len(ids), "Y")
    except InputError:
        return None  # labels of the index that are no ids
    place = {key: at for at, key in enumerate(hash_ids(given).tolist())}
    found = [place.get(key, -1) for key in hash_ids(ids).tolist()]
    if len(place) == len(found) and -1 not in found:
        return None if found == list(range(len(found))) else np.array(found)
    if given.dtype.kind in "iu" or max(found) < 0:
        return None
    lacking = [label for label, at in zip(ids_listed(ids), found, strict=True) if at < 0]
    what = f"but not {lacking[0]!r}" if lacking else "some of them several times"
    raise InputError(
        f"the index of Y holds ids of these rows, {what}. Give labels for these ids, each once, or an array "
        "(Y.to_numpy()) if its rows are in the order of the ids."
    )
