"""What the lemmas speak of, measured out of fold, with intervals: α-consistency, and what is said to follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from optensemble import guarantees
from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble.feasible import FeasibleSet
from optensemble.members.outputs import View
from optensemble.stacking.final_policy import Decided, last_of
from optensemble.stacking.forecaster import Learned
from optensemble.stacking.leaderboard import Candidate
from optensemble.stacking.patch import Patched, one_hot
from optensemble.stats.intervals import Family, Means
from optensemble.stats.sampling import Sampling

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_UNITS = 32  # independent rows are dealt out into so many: the spread of their sums is all that is needed
_MOST_PARTITIONS = 200
_AT_ONCE = 1 << 20  # means times units


def verify(
    learned: Learned,
    own: Candidate,
    members: list[Candidate],
    labels: Floats,
    omega: FeasibleSet,
    buckets: Buckets,
    sampling: Sampling,
    sign: float,
) -> pd.DataFrame:
    """Compare, out of fold, the policy of the forecast itself with its promise and with every member.

    If the patch came in, bounds rest on how consistent the patched forecast is: the upper limit of its worst violation
    on the cells it was patched on. Otherwise there is none. Out of fold nothing is guaranteed; everything is observed.
    How consistent it is on the user's subgroups is told whether the patch came in or not.
    """
    patched, forecast = learned.patched, learned.out_of_fold[last_of(learned.out_of_fold)]
    rows, alpha = [], np.inf
    if patched.log.rounds and len(patched.kept):
        rows.append(_consistency(patched, patched.kept, "cells", labels - forecast, sampling))
        alpha = rows[-1][-1]
    if len(patched.subgroups):
        rows.append(_consistency(patched, patched.subgroups, "subgroups", labels - forecast, sampling))
    setting = (alpha, 1 / buckets.count, omega.span, float(np.abs(labels).max()), float(np.abs(forecast).max()))
    gap = _interval(sign * (own.assessed - own.realised), sampling)
    title = f"promised − realised of {own.name}"
    rows.append(("Corollary 1", title, guarantees.corollary_1(*setting, reach=omega.reach), *gap))
    for member in members:
        lead = _interval(member.realised - own.realised, sampling)
        title = f"payoff of {member.name} − of {own.name}" if sign > 0 else f"cost of {own.name} − of {member.name}"
        rows.append(("Lemma 4", title, guarantees.lemma_4(*setting, reach=omega.reach), *lead))
    table = pd.DataFrame(rows, columns=["lemma", "quantity", "bound", "observed", "low", "high"])
    size = table["observed"].where(table["lemma"] != "Corollary 1", table["observed"].abs())
    return table.assign(holds=size <= table["bound"], guaranteed=False)


def _consistency(
    patched: Patched, kept: Indices, what: str, residual: Floats, sampling: Sampling
) -> tuple[str, str, float, float, float, float]:
    title = f"worst Pr[C]·|E[y − h | C]| of {len(kept):,} {what}"
    return ("Definition 1", title, np.inf, *worst_violation(one_hot(patched.cells, kept), residual, sampling))


def _interval(values: Floats, sampling: Sampling) -> tuple[float, float, float]:
    mean, half = float(values.mean()), sampling.quantile(len(values)) * sampling.error(values)
    return mean, mean - half, mean + half


def worst_violation(onto: csr_array, residual: Floats, sampling: Sampling) -> tuple[float, float, float]:
    """Return the largest ``Pr[C]·|E[y_j − h_j | C]|`` of the cells, and a 95 % interval for what it is in truth.

    Simultaneous over all cells and coordinates, by a multiplier bootstrap; rows that go together go as one.
    """
    units = _units(len(residual), sampling)
    family, step = Family(units, seed=[0]), max(_AT_ONCE // (_UNITS * residual.shape[1]), 1)
    found = [
        family.add(_cell_means(onto[:, start : start + step], residual, units))
        for start in range(0, onto.shape[1], step)
    ]
    size = np.abs(np.concatenate([each.estimate for each in found]))
    half = np.concatenate([each.error for each in found]) * family.critical([found[0].freedom])
    return float(size.max()), float(np.maximum(size - half, 0.0).max()), float((size + half).max())


def _units(n: int, sampling: Sampling) -> Indices:
    if sampling.clusters is not None:
        return sampling.clusters % _UNITS
    if sampling.time_ordered:
        return np.arange(n) * min(n // 10, _UNITS) // n
    return np.arange(n) % _UNITS


def _cell_means(onto: csr_array, residual: Floats, units: Indices) -> Means:
    """Return the means over all rows of the residuals in each cell, a column for every cell and coordinate."""
    from scipy.sparse import csr_array

    (n, cells), count = onto.shape, int(units.max()) + 1
    shares = np.bincount(units, minlength=count) / n
    apart = units.repeat(np.diff(onto.indptr)) * cells + onto.indices  # every unit's part of a cell, a cell of its own
    spread = csr_array((onto.data, apart, onto.indptr), shape=(n, count * cells))
    sums = (spread.T @ residual).reshape(count, -1)
    total = sums.sum(axis=0)
    centred = sums - shares[:, None] * total
    error = np.sqrt(np.square(centred).sum(axis=0) * count / (count - 1)) / n
    return Means(total / n, error, float(count - 1), centred, np.arange(count))


def level_sets(
    view: View, decided: Decided, buckets: Buckets, names: list[str], members: list[str]
) -> list[tuple[list[str], Indices]]:
    """Return the cells an audit looks at.

    Who was followed, the user's subgroups, own level sets and, unless they are too many, every member's.
    """
    found = [([f"{name} followed" for name in names], decided.chosen)]
    if view.subgroups is not None:
        subgroups = zip(view.titles, view.subgroups.astype(np.int64), strict=True)
        found += [(list(titles), part) for titles, part in subgroups]
    found += _partitions(decided.actions, buckets, "own action")
    if view.actions.shape[0] * view.actions.shape[2] <= _MOST_PARTITIONS:
        for name, actions in zip(members, view.actions, strict=True):
            found += _partitions(actions, buckets, "action", f" of {name}")
    return found


def _partitions(actions: Floats, buckets: Buckets, what: str, whose: str = "") -> Iterator[tuple[list[str], Any]]:
    levels = buckets(np.ascontiguousarray(actions)).astype(np.int64)
    for j in range(levels.shape[1]):
        yield [f"{what}[{j}]{whose} {bucket}" for bucket in buckets.names(j)], levels[:, j]
