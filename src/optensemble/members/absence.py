"""Members without an answer in some rows: who is absent, and what stands in for them.

A member is absent in a row if it has no answer there. It cannot be followed then. Where an action of its own is asked
for all the same (level sets, a member that is followed everywhere), those present stand in: the policy of the mean of
the models that are present; without a model, the first policy that is present; without anyone, any action of the set.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats
from optensemble._core.progress import Step, silent
from optensemble.exceptions import AbsentWarning, InputError
from optensemble.feasible import FeasibleSet

if TYPE_CHECKING:
    from optensemble.members.outputs import MemberOutputs

Absent = npt.NDArray[np.bool_]
"""Whether each member is absent in each row, of shape (members, n)."""


def absence_titles(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the names of the two parts of the rows: those in which a member is present, and the others.

    >>> absence_titles(["vendor"])
    (('vendor present', 'vendor absent'),)
    """
    return tuple((f"{name} present", f"{name} absent") for name in names)


_MOSTLY = 0.5  # beyond this share of the rows, a member is absent rather than present


def absence_notes(names: Sequence[str], absent: Sequence[int], rows: int) -> list[str]:
    """Return in how many of all rows each member is absent, in sentences.

    >>> absence_notes(["ours", "theirs"], [0, 12], 100)
    ["'theirs' has no answer in 12 of 100 rows"]
    """
    counts = zip(names, absent, strict=True)
    return [f"{name!r} has no answer in {count:,} of {rows:,} rows" for name, count in counts if count]


def warn_of_absence(names: Sequence[str], absent: Sequence[int], rows: int, stacklevel: int) -> None:
    """Warn of members that are absent in more than half of all rows."""
    for name, count in zip(names, absent, strict=True):
        if count <= _MOSTLY * rows:
            continue
        warnings.warn(
            f"{name!r} has no answer in {count:,} of {rows:,} rows. What is learned of it rests on few rows: leave it "
            "out, or check its columns.",
            AbsentWarning,
            stacklevel=stacklevel + 1,
        )


def require_present(names: Sequence[str], absent: Sequence[int], rows: int) -> None:
    """Refuse members that are absent in all rows."""
    gone = [name for name, count in zip(names, absent, strict=True) if count == rows]
    if gone:
        raise InputError(
            f"{gone[0]!r} has no answer in any of the {rows:,} rows: nothing can be learned of it. Leave it out, or "
            "check its columns."
        )


def absent_rows(said: Floats) -> npt.NDArray[np.bool_]:
    """Return the rows in which an output (n, d) has no answer, wholly or in part."""
    return np.asarray(np.isnan(said).any(axis=1))


def missing_rows(said: Floats) -> npt.NDArray[np.bool_] | None:
    """Return the same; None if there are none."""
    if np.isfinite(said.sum()):
        return None
    missing = absent_rows(said)
    return missing if missing.any() else None


def join_absent(parts: Sequence[Absent | None], sizes: Sequence[int]) -> Absent | None:
    """Return who is absent in the rows of several batches; None where a batch has nobody absent, or all have."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    nobody = [np.zeros((len(known[0]), size), dtype=np.bool_) for size in sizes]
    return np.concatenate([none if part is None else part for part, none in zip(parts, nobody, strict=True)], axis=1)


def mean_present(values: Floats, absent: Absent | None) -> Floats:
    """Return the mean over members (members, n, d) of those present; 0 in rows in which none is.

    >>> mean_present(np.array([[[1.0]], [[3.0]]]), np.array([[False], [True]]))
    array([[1.]])
    """
    mean = mean_of_all(values) if values.flags.c_contiguous and len(values) else np.asarray(values.mean(axis=0))
    if absent is None:
        return mean
    rows = np.flatnonzero(absent.any(axis=0))
    there = ~absent[:, rows]
    sums = np.where(there[:, :, None], values[:, rows], 0.0).sum(axis=0)
    mean[rows] = sums / np.maximum(there.sum(axis=0), 1)[:, None]
    return mean


@njit(cache=True, nogil=True, error_model="numpy")
def mean_of_all(values: Floats) -> Floats:
    """Return ``values.mean(axis=0)``, to the bit, in one go through the memory of each member."""
    members, n, d = values.shape
    mean: Floats = values[0].copy()
    total = mean.reshape(-1)
    for m in range(1, members):
        more = values[m].reshape(-1)
        for at in range(n * d):
            total[at] += more[at]
    for at in range(n * d):
        total[at] /= members
    return mean


def mean_rows_present(values: Floats, absent: Absent | None) -> Floats:
    """Return the same of one number for each member and row, of shape (members, n)."""
    return np.asarray(mean_present(values[:, :, None], absent)[:, 0])


def solve_members(asked: MemberOutputs, step: Step = silent) -> MemberOutputs:
    """Solve the models' policies, and have others stand in for absent members, in place; a model is a step."""
    predictions, actions, omega, absent = asked.predictions, asked.actions, asked.omega, asked.absent
    for number in range(asked.models):
        if absent is None or not absent[number].any():
            actions[number] = omega.argmax(predictions[number])
        step()
    if absent is not None:
        stand_in(predictions, actions, absent, omega)
    return asked


def stand_in(predictions: Floats, actions: Floats, absent: Absent, omega: FeasibleSet) -> None:
    """Write what stands in for absent members into their predictions and actions, in place.

    The predictions of models that are absent must be finite; models that are somewhere absent are yet to be solved.
    """
    models = len(predictions)
    rows = np.flatnonzero(absent.any(axis=0))
    away = absent[:, rows]
    average = mean_present(predictions, absent[:models]) if models else np.zeros(actions.shape[1:])
    instead = omega.take(rows).argmax(average[rows])
    for policy in range(len(actions) - 1, models - 1, -1):  # so that the first that is present has the last word
        there = ~away[policy] & away[:models].all(axis=0)
        instead[there] = actions[policy, rows[there]]
    for member in np.flatnonzero(away.any(axis=1)):
        if member < models:
            predictions[member, absent[member]] = average[absent[member]]
            there = np.flatnonzero(~absent[member])
            actions[member, there] = omega.take(there).argmax(predictions[member, there])
        actions[member, rows[away[member]]] = instead[away[member]]


def stand_in_numbers(absent: Absent, models: int, average: int, mean: int) -> npt.NDArray[np.int64]:
    """Return the number of the candidate that stands in for absent members in each row.

    That is the ``average`` of models, the first policy present, or, where nobody is, deciding by the ``mean`` label.
    """
    found = np.full(absent.shape[1], mean)
    for policy in range(len(absent) - 1, models - 1, -1):
        found[~absent[policy]] = policy
    if models:
        found[~absent[:models].all(axis=0)] = average
    return found
