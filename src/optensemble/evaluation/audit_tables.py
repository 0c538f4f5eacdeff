"""The tables of an audit: every number beside how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble.evaluation.audit_inputs import SEEN, AuditInputs
from optensemble.multicalibration.cell_names import CellName
from optensemble.stats.intervals import Family, Means, means

FEWEST_IN_CELL = 10
"""A cell with fewer rows is left out."""

FEWEST_OF_CHOICE = 30
"""A candidate followed on fewer rows gets no interval."""

WORST = 50
"""The number of cells shown."""

BIAS_LEVEL = 0.99
"""At this level a gap is beyond chance: an audit a week at 95 % would raise a doubt every few months for nothing."""

SUM_ROUNDING = 1e-9
"""Relative: what mean payoffs may be off by in their sums, and more."""

_RESIDUAL_ROUNDING = 1e-12  # relative to the largest residual: what is left of a coordinate that is known


@dataclass(frozen=True)
class AuditSummary:
    """Promised and realised mean payoff, and whether the promise was kept; see :class:`~optensemble.Audit`.

    ``kept`` is None where there were no limits to keep, or where rows were fitted on; ``unlabelled`` counts further
    rows that lack labels.
    """

    rows: int
    seen: int
    promised: float
    promise: float
    low: float
    high: float
    realised: float
    half_width: float
    gap: float
    gap_low: float
    gap_high: float
    kept: bool | None
    unlabelled: int = 0


def summarise(inputs: AuditInputs, units: Indices) -> tuple[AuditSummary, bool]:
    """Return promised and realised payoff over all rows, and whether the gap is beyond chance."""
    interval, found = inputs.interval, means(inputs.triple, units, weights=inputs.weights)
    _, promised, realised = found.estimate.tolist()
    half = found.half_width().tolist()
    gap = interval.mean - realised  # a trend may set the promise of a mean apart from the mean of promises
    # without limits there is nothing to keep, and rows that were fitted on prove nothing
    judged = np.isfinite([interval.low, interval.high]).any() and inputs.seen <= SEEN * len(inputs.realised)
    from scipy.special import stdtrit  # only audits need it, and it takes a tenth of a second to load

    chance = float(found.error[0]) * float(stdtrit(max(found.freedom, 1.0), (1 + BIAS_LEVEL) / 2))
    totals = AuditSummary(
        rows=len(inputs.realised),
        seen=inputs.seen,
        promised=promised,
        promise=interval.mean,
        low=interval.low,
        high=interval.high,
        realised=realised,
        half_width=half[2],
        gap=gap,
        gap_low=gap - half[0],
        gap_high=gap + half[0],
        kept=within_limits(interval.low, realised, interval.high) if judged else None,
        unlabelled=inputs.unlabelled,
    )
    return totals, abs(gap) > chance


def within_limits(low: float, realised: float, high: float) -> bool:
    """Return whether a mean lies within limits, up to rounding.

    >>> within_limits(0.1 + 0.2, 0.3, 0.5), within_limits(0.31, 0.3, 0.5)
    (True, False)
    """
    room = SUM_ROUNDING * max(abs(value) for value in (low, realised, high) if isfinite(value))
    return low - room <= realised <= high + room


def choice_table(inputs: AuditInputs, units: Indices) -> pd.DataFrame:
    """Return promised and realised payoff where each candidate was followed."""
    found = []
    for number, name in enumerate(inputs.names):
        rows = np.flatnonzero(inputs.chosen == number)
        if rows.size:
            of = means(inputs.triple[rows], units[rows], weights=inputs.weights_of(rows))
            gap, promised, realised = of.estimate.tolist()
            half, note = float(of.half_width()[0]), ""
            if rows.size < FEWEST_OF_CHOICE:
                half, note = np.nan, f"fewer than {FEWEST_OF_CHOICE} rows"
            elif np.isnan(half):
                note = "all rows belong together"
            found.append((name, rows.size, promised, realised, gap, gap - half, gap + half, note))
    return pd.DataFrame(found, columns=["chosen", "rows", "promised", "realised", "gap", "low", "high", "note"])


def lift_table(inputs: AuditInputs, units: Indices) -> pd.DataFrame:
    """Compare the ensemble with each baseline."""
    table = pd.DataFrame({"rival": list(inputs.rivals)})
    if not inputs.rivals:
        return table.reindex(columns=["rival", "realised", "gain", "low", "high"])
    found = means(inputs.gains, units, weights=inputs.weights)
    half = found.half_width()
    realised = [inputs.mean(payoff) for payoff in inputs.rivals.values()]
    return table.assign(realised=realised, gain=found.estimate, low=found.estimate - half, high=found.estimate + half)


def swap_table(inputs: AuditInputs, units: Indices, family: Family) -> pd.DataFrame:
    """Return what following j would have gained wherever i was followed, as a mean over all rows."""
    gains = inputs.sign * (inputs.arms - inputs.realised).T
    k, counts = len(inputs.names), np.bincount(inputs.chosen, minlength=len(inputs.names))
    gain, half = np.zeros((k, k)), np.full((k, k), np.nan)
    found: dict[int, Means] = {}
    for number in np.flatnonzero(counts).tolist():
        followed = inputs.chosen == number
        of = means(np.where(followed[:, None], gains, 0.0), units, carried=followed, weights=inputs.weights)
        gain[number] = of.estimate
        if counts[number] >= FEWEST_IN_CELL:
            found[number] = family.add(of)
    critical = family.critical(of.freedom for of in found.values())
    for (number, of), errors in zip(found.items(), critical, strict=True):
        half[number] = errors * of.error
    return pd.DataFrame(
        {
            "chosen": np.repeat(np.array(inputs.names, dtype=object), k),
            "instead": inputs.names * k,
            "rows": np.repeat(counts, k),
            "gain": gain.ravel(),
            "low": (gain - half).ravel(),
            "high": (gain + half).ravel(),
        }
    )


# Cells


class CellFindings(NamedTuple):
    """The worst cells with their names; the numbers of cells below the minimum, of pairs tested, and of biased ones."""

    worst: pd.DataFrame
    names: tuple[CellName, ...]
    thin: int
    tested: int
    biased: int


def cell_table(inputs: AuditInputs, units: Indices, family: Family) -> CellFindings:
    """Find the worst violations of α-consistency."""
    size = np.abs(inputs.residuals)
    residuals = np.where(size > _RESIDUAL_ROUNDING * size.max(initial=0.0), inputs.residuals, 0.0)
    names, counts, found, thin = _on_cells(inputs, residuals, units, family)
    shares = counts / len(residuals) if inputs.weights is None else _cell_weights(inputs) / inputs.weights.sum()
    d = residuals.shape[1]
    bias = np.array([of.estimate for of in found]).reshape(-1, d)
    error = np.array([of.error for of in found]).reshape(-1, d)
    detectable = error * family.critical(of.freedom for of in found)[:, None]
    significant = np.abs(bias) > detectable
    # by |t| in terms of its critical value, which is larger for cells of few rows
    cell, coordinate = np.unravel_index(_worst_first(np.abs(bias), detectable)[:WORST], bias.shape)
    at = (cell, coordinate)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(bias[at] == 0, 0.0, bias[at] / error[at])
    worst = pd.DataFrame(
        {
            "cell": [names[each].text(inputs.coordinates) for each in cell],
            "coordinate": np.array(inputs.coordinates, dtype=object)[coordinate] if inputs.coordinates else coordinate,
            "rows": counts[cell],
            "bias": bias[at],
            "low": bias[at] - detectable[at],
            "high": bias[at] + detectable[at],
            "violation": shares[cell] * np.abs(bias[at]),
            "t": t,
            "detectable": detectable[at],
            "significant": significant[at],
        }
    )
    return CellFindings(worst, tuple(names[each] for each in cell), thin, bias.size, int(significant.sum()))


def conditional_table(inputs: AuditInputs, units: Indices, family: Family) -> tuple[pd.DataFrame, tuple[CellName, ...]]:
    """Compare the ensemble with the best baseline on every cell, the clearest loss first; and name the cells."""
    if not inputs.rivals:
        return pd.DataFrame(columns=["cell", "rows", "realised", "rival", "rival_realised", "gain", "low", "high"]), ()
    names, counts, found, _ = _on_cells(inputs, inputs.gains, units, family)
    payoffs = np.array([np.average(inputs.realised[rows], weights=inputs.weights_of(rows)) for rows in _enough(inputs)])
    # a baseline that does the same in all rows of a cell is what decides there, and is not compared with itself
    apart = [np.where((of.estimate == 0) & (of.error == 0), np.inf, of.estimate) for of in found]
    best = [int(gains.argmin()) for gains in apart]
    gain = np.array([of.estimate[i] for of, i in zip(found, best, strict=True)])
    half = family.critical(of.freedom for of in found) * [of.error[i] for of, i in zip(found, best, strict=True)]
    table = pd.DataFrame(
        {
            "cell": [name.text(inputs.coordinates) for name in names],
            "rows": counts,
            "realised": payoffs,
            "rival": [list(inputs.rivals)[i] for i in best],
            "rival_realised": payoffs - inputs.sign * gain,
            "gain": gain,
            "low": gain - half,
            "high": gain + half,
        }
    )
    compared = np.array([np.isfinite(gains).any() for gains in apart], dtype=np.bool_)
    order = _worst_first(-gain, half)
    order = order[compared[order]]
    return table.iloc[order].reset_index(drop=True), tuple(names[each] for each in order)


def _on_cells(
    inputs: AuditInputs, values: Floats, units: Indices, family: Family
) -> tuple[list[CellName], Indices, list[Means], int]:
    """Return the means on every cell that has enough rows, and how many have some but too few."""
    names, counts, found, thin = [], [], [], 0
    for name, rows in _occupied(inputs):
        if len(rows) < FEWEST_IN_CELL:
            thin += 1
            continue
        names.append(name)
        counts.append(len(rows))
        found.append(family.add(means(values[rows], units[rows], weights=inputs.weights_of(rows))))
    return names, np.array(counts, dtype=np.int64), found, thin


def _enough(inputs: AuditInputs) -> Iterator[Indices]:
    """Go through the rows of the cells that have enough."""
    return (rows for _, rows in _occupied(inputs) if len(rows) >= FEWEST_IN_CELL)


def _cell_weights(inputs: AuditInputs) -> Floats:
    """Return the weight of the rows of each cell that has enough."""
    return np.array([float(np.asarray(inputs.weights_of(rows)).sum()) for rows in _enough(inputs)])


def _occupied(inputs: AuditInputs) -> Iterator[tuple[CellName, Indices]]:
    """Go through the cells that have rows."""
    for names, part in inputs.partitions:
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=len(names)))
        for name, rows in zip(names, np.split(order, ends[:-1]), strict=True):
            if rows.size and (inputs.weights is None or inputs.weights[rows].any()):
                yield name, rows


def _worst_first(badness: Floats, scale: Floats) -> Indices:
    """Order by ``badness/scale``; a badness of 0 is none, whatever its scale; what has no scale comes last."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(badness == 0, 0.0, badness / scale)
    return np.argsort(-np.nan_to_num(ratio, nan=-np.inf, posinf=np.inf, neginf=-np.inf), axis=None, kind="stable")
