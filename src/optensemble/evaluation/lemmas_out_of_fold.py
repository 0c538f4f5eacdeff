"""The lemmas out of fold: α-consistency and what follows from it, measured with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from optensemble import guarantees
from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble.evaluation.audit_inputs import AuditedPartition
from optensemble.members.fit_data import FitData
from optensemble.multicalibration.cell_names import CellName, Leader, Subgroup, level_sets
from optensemble.multicalibration.cell_tables import unit_tables
from optensemble.multicalibration.events import Cells
from optensemble.stacking.final_policy import PolicyPass, last_of
from optensemble.stacking.forecaster import ForecastFit
from optensemble.stacking.leaderboard import Candidate
from optensemble.stats.intervals import Family, Means
from optensemble.stats.sampling import Sampling

_UNITS = 32  # independent rows are dealt out into these: the spread of their sums is all that is needed
_MOST_PARTITIONS = 200
_MEANS_AT_ONCE = 1 << 20  # means times units


@dataclass(frozen=True)
class LemmaRow:
    """One lemma beside what was observed out of fold, with a 95 % interval."""

    lemma: str
    quantity: str
    bound: float
    observed: float
    low: float
    high: float


def verify(fit: ForecastFit, own: Candidate, members: list[Candidate], data: FitData) -> pd.DataFrame:
    """Compare, out of fold, the policy of the forecast itself with its promise and with every member.

    If the patch was kept, bounds rest on how consistent the patched forecast is: the upper limit of its worst violation
    on the cells it was patched on. Otherwise there is none. Out of fold nothing is guaranteed; everything is observed.
    The consistency on the user's subgroups is given whether the patch was kept or not.
    """
    patch, forecasts, omega, sign = fit.patch, fit.out_of_fold.forecasts, data.outputs.omega, data.outputs.sign
    labels, forecast = data.labels, forecasts[last_of(forecasts)]
    rows, alpha = list[LemmaRow](), np.inf
    residual = labels - forecast
    if patch.log.rounds and len(patch.kept):
        rows.append(_consistency(patch.cells, patch.kept, "cells", residual, data.sampling))
        alpha = rows[-1].high
    if len(patch.subgroups):
        rows.append(_consistency(patch.cells, patch.subgroups, "subgroups", residual, data.sampling))
    width = 1 / data.outputs.buckets.count
    setting = (alpha, width, omega.span, float(np.abs(labels).max()), float(np.abs(forecast).max()))
    gap = _interval(sign * (own.assessed - own.realised), data.sampling)
    title = f"promised − realised of {own.name}"
    rows.append(LemmaRow("Corollary 1", title, guarantees.corollary_1(*setting, reach=omega.reach), *gap))
    for member in members:
        lead = _interval(member.realised - own.realised, data.sampling)
        title = f"payoff of {member.name} − of {own.name}" if sign > 0 else f"cost of {own.name} − of {member.name}"
        rows.append(LemmaRow("Lemma 4", title, guarantees.lemma_4(*setting, reach=omega.reach), *lead))
    return _lemma_frame(rows)


def _lemma_frame(rows: list[LemmaRow]) -> pd.DataFrame:
    table = pd.DataFrame([vars(row) for row in rows])
    size = table["observed"].where(table["lemma"] != "Corollary 1", table["observed"].abs())
    return table.assign(holds=size <= table["bound"], guaranteed=False)


def _consistency(cells: Cells, kept: Indices, what: str, residual: Floats, sampling: Sampling) -> LemmaRow:
    title = f"worst Pr[C]·|E[y − h | C]| of {len(kept):,} {what}"
    return LemmaRow("Definition 1", title, np.inf, *worst_cell_violation(cells, kept, residual, sampling))


def _interval(values: Floats, sampling: Sampling) -> tuple[float, float, float]:
    mean, half = float(values.mean()), sampling.quantile(len(values)) * sampling.error(values)
    return mean, mean - half, mean + half


def worst_cell_violation(
    cells: Cells, kept: Indices, residual: Floats, sampling: Sampling
) -> tuple[float, float, float]:
    """Return the largest ``Pr[C]·|E[y_j − h_j | C]|`` of the cells kept, and a 95 % interval for its true value.

    Simultaneous over all cells and coordinates, by a multiplier bootstrap; dependent rows are one unit.
    """
    units = _units(len(residual), sampling)
    family, step = Family(units, seed=[0]), max(_MEANS_AT_ONCE // (_UNITS * residual.shape[1]), 1)
    found = [
        family.add(_cell_means(cells, kept[start : start + step], residual, units))
        for start in range(0, len(kept), step)
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


def _cell_means(cells: Cells, kept: Indices, residual: Floats, units: Indices) -> Means:
    """Return the means over all rows of the residuals in each cell, a column for every cell and coordinate."""
    n, count = len(residual), int(units.max()) + 1
    shares = np.bincount(units, minlength=count) / n
    of_unit = [np.flatnonzero(units == unit) for unit in range(count)]
    sums = np.stack([table.sums.ravel() for table in unit_tables(cells, residual, kept, of_unit)])
    total = sums.sum(axis=0)
    centred = sums - shares[:, None] * total
    error = np.sqrt(np.square(centred).sum(axis=0) * count / (count - 1)) / n
    return Means(total / n, error, float(count - 1), centred, np.arange(count))


def audited_cells(done: PolicyPass, names: list[str], members: list[str]) -> list[AuditedPartition]:
    """Return the cells an audit looks at.

    The candidate followed, the user's subgroups, own level sets and, unless they are too many, every member's.
    """
    outputs, decisions = done.outputs, done.decisions
    found = [([CellName((Leader(name),)) for name in names], decisions.chosen)]
    if outputs.subgroups is not None:
        for titles, part in zip(outputs.titles, outputs.subgroups.astype(np.int64), strict=True):
            found.append(([CellName((Subgroup(title),)) for title in titles], part))
    found += _levels(decisions.actions, outputs.buckets, None)
    if outputs.actions.shape[0] * outputs.actions.shape[2] <= _MOST_PARTITIONS:
        for name, actions in zip(members, outputs.actions, strict=True):
            found += _levels(actions, outputs.buckets, name)
    return found


def _levels(actions: Floats, buckets: Buckets, member: str | None) -> Iterator[AuditedPartition]:
    levels = buckets(np.ascontiguousarray(actions)).astype(np.int64)
    for j, sets in enumerate(level_sets(buckets, member, own=member is None)):
        yield [CellName((each,)) for each in sets], levels[:, j]
