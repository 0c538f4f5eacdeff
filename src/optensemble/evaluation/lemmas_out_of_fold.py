"""The lemmas out of fold: α-consistency and what follows from it, measured with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from optensemble import guarantees
from optensemble._core.arrays import Floats, Indices, gathered
from optensemble._core.buckets import Buckets
from optensemble._core.cell_sums import add_limbs, renumbered
from optensemble._core.deferred import pd
from optensemble._core.sums import LARGEST, Sums
from optensemble.evaluation.audit_inputs import AuditedPartition
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.cell_names import CellName, Leader, Subgroup, level_sets
from optensemble.stacking.final_policy import PolicyPass
from optensemble.stacking.patch import SUMMED_TOGETHER, number_cells
from optensemble.stats.blocks import RowUnits, UnitSums, part_of
from optensemble.stats.intervals import Family, Means
from optensemble.stats.row_design import RowDesign

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


@dataclass(frozen=True)
class CellPass:
    """The cells to be verified, and the units of dependent rows whose sums tell how much chance there is in them."""

    kept: Indices
    count: int
    design: RowDesign

    @property
    def units(self) -> int:
        """The number of units."""
        if self.design.time_ordered and self.design.clusters is None:
            return min(self.design.rows // 10, _UNITS)
        return min(self.design.rows, _UNITS) if self.design.clusters is None else _UNITS

    def unit_of(self, rows: Indices, units: RowUnits) -> Indices:
        """Return the unit of each row: dependent rows are one."""
        if units.cluster is not None:
            return np.asarray(units.cluster % _UNITS)
        if self.design.time_ordered:
            return part_of(rows, self.design.rows, self.units)
        return np.asarray(rows % _UNITS)


@dataclass(frozen=True)
class CellSums(Sums):
    """Sums of residuals over units and cells (units, cells, d), and the number of each unit's rows."""

    sums: Floats
    rows: Floats

    @classmethod
    def gather(cls, chunks: Iterable[tuple[npt.NDArray[Any], ...]], d: int, top: float, state: CellPass) -> Self:
        """Sum over chunks the residuals of rows that lie in these cells, by unit.

        A chunk is the rows' cells, residuals, units, and weights if they have any; weighted residuals are about at most
        ``top``.
        """
        shape = (state.units, len(state.kept), d)
        counts, high, low = np.zeros(shape[:2], dtype=np.int64), np.zeros(shape), np.zeros(shape)
        number, rows = number_cells(state.kept, state.count), np.zeros(state.units)
        for columns, residual, unit, *weights in gathered(chunks, SUMMED_TOGETHER):
            rows += np.bincount(unit, weights[0] if weights else None, minlength=state.units)
            residual = residual * weights[0][:, None] if weights else residual
            if len(state.kept):
                add_limbs(renumbered(columns, number), unit, residual, top, state.design.rows, counts, high, low)
        high += low
        return cls(high, rows)

    def worst(self, places: Indices) -> tuple[float, float, float]:
        """Return the largest ``Pr[C]·|E[y_j − h_j | C]|`` of some cells, and a 95 % interval for its true value.

        Simultaneous over all cells and coordinates, by a multiplier bootstrap; dependent rows are one unit.
        """
        used = self.rows > 0
        unit_sums, count, n = self.sums[used], int(used.sum()), self.rows.sum()
        family, step = Family(np.arange(count), seed=[0]), max(_MEANS_AT_ONCE // (_UNITS * self.sums.shape[2]), 1)
        shares, found = self.rows[used] / n, []
        for start in range(0, len(places), step):
            sums = unit_sums[:, places[start : start + step]].reshape(count, -1)
            total = sums.sum(axis=0)
            centred = sums - shares[:, None] * total
            error = np.sqrt(np.square(centred).sum(axis=0) * count / (count - 1)) / n
            found.append(family.add(Means(total / n, error, float(count - 1), centred, np.arange(count))))
        size = np.abs(np.concatenate([each.estimate for each in found]))
        half = np.concatenate([each.error for each in found]) * family.critical([found[0].freedom])
        return float(size.max()), float(np.maximum(size - half, 0.0).max()), float((size + half).max())


@dataclass(frozen=True)
class LemmaSums(Sums):
    """What the lemmas are measured by beside cells: the forecast's own promise, the sizes of labels and forecast.

    ``lowest`` (as its negative) and ``highest`` are the least and the largest label.
    """

    gap: UnitSums
    lowest: float = field(metadata=LARGEST)
    highest: float = field(metadata=LARGEST)
    forecast_size: float = field(metadata=LARGEST)

    @property
    def label_size(self) -> float:
        """The size of the largest label."""
        return max(self.lowest, self.highest)


@dataclass(frozen=True)
class Played:
    """A policy that is compared: its name, what it promised more than it earned, and by how much members lead it."""

    name: str
    gap: UnitSums
    leads: dict[str, UnitSums]


@dataclass(frozen=True)
class Measured:
    """The evidence for the lemmas: the sums, the cells they are on, and the setting.

    ``decider`` is what decides, ``own`` the policy of the last forecast, which is what bounds are for.
    """

    sums: LemmaSums
    cells: CellSums
    kept: Indices
    subgroups: Indices
    patched: bool
    decider: Played
    own: Played


def verify(found: Measured, outputs: MemberOutputs) -> pd.DataFrame:
    """Compare, out of fold, what decides with its promise and with every member.

    The paper bounds these for the policy of a consistent forecast. What decides is in general another one, and has no
    bound. If the patch was kept, the policy of the patched forecast alone is compared too, beside bounds that rest on
    how consistent the forecast is: the upper limit of its worst violation on the cells it was patched on. Out of fold
    nothing is guaranteed; everything is observed. The consistency on the user's subgroups is given whether the patch
    was kept or not.
    """
    omega, rows, alpha = outputs.omega, list[LemmaRow](), np.inf
    if found.patched and len(found.kept):
        rows.append(_consistency(found, found.kept, "cells"))
        alpha = rows[-1].high
    if len(found.subgroups):
        rows.append(_consistency(found, found.subgroups, "subgroups"))
    rows += _compared(found.decider, found.decider.name, (np.inf, np.inf), outputs.sign)
    if np.isfinite(alpha):
        sizes = float(found.sums.label_size), float(found.sums.forecast_size)
        setting = (alpha, 1 / outputs.buckets.count, omega.span, *sizes)
        bounds = [bound(*setting, reach=omega.reach) for bound in (guarantees.corollary_1, guarantees.lemma_4)]
        rows += _compared(found.own, f"{found.own.name} alone", (bounds[0], bounds[1]), outputs.sign)
    return _lemma_frame(rows)


def _compared(policy: Played, name: str, bounds: tuple[float, float], sign: float) -> list[LemmaRow]:
    """Return a policy beside its promise and beside every member."""
    rows = [LemmaRow("Corollary 1", f"promised − realised of {name}", bounds[0], *_interval(policy.gap, sign))]
    for member, lead in policy.leads.items():
        title = f"payoff of {member} − of {name}" if sign > 0 else f"cost of {name} − of {member}"
        rows.append(LemmaRow("Lemma 4", title, bounds[1], *_interval(lead)))
    return rows


def _lemma_frame(rows: list[LemmaRow]) -> pd.DataFrame:
    table = pd.DataFrame([vars(row) for row in rows])
    size = table["observed"].where(table["lemma"] != "Corollary 1", table["observed"].abs())
    return table.assign(holds=size <= table["bound"], guaranteed=False)


def _consistency(found: Measured, cells: Indices, what: str) -> LemmaRow:
    title = f"worst Pr[C]·|E[y − h | C]| of {len(cells):,} {what}"
    return LemmaRow("Definition 1", title, np.inf, *found.cells.worst(np.searchsorted(found.kept, cells)))


def _interval(sums: UnitSums, sign: float = 1.0) -> tuple[float, float, float]:
    mean, half = sign * float(sums.means[0]), sums.quantile() * float(sums.errors[0])
    return mean, mean - half, mean + half


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
