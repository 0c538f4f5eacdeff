"""The calibrated choice: in every row the candidate policy (arm) of the highest calibrated assessment.

Raw self-assessments are too high where they are highest. So realised payoff differences are regressed on assessed ones,
``R_a − R̄ = c_a + Σ_e b_e·(Z_ae − Z̄_e)``, and the arm with the highest fitted value is played. An arm may be absent in
some rows: means are then of those present, and it is not played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import inner, reduction
from optensemble._core.lanes import LANES, larger, load, load_column, smaller, spread, store, where_greater
from optensemble._core.sums import LARGEST, Sums
from optensemble.members.absence import Absent

INTERCEPT_PRIOR = 5.0
"""Pseudo-rows that hold each arm's intercept to 0."""

SLOPE_PRIOR = 400.0
"""Pseudo-rows that hold the slopes to their prior."""


@dataclass(frozen=True)
class Choice:
    """``c`` of each arm, and ``b`` of each evaluator."""

    constants: Floats
    slopes: Floats

    def __call__(self, assessed: Floats, absent: Absent | None = None) -> Indices:
        """Return for every row the arm to play; ``assessed`` is of shape (arms, evaluators, n)."""
        return np.asarray(self.values(assessed, absent).argmax(axis=0))

    def values(self, assessed: Floats, absent: Absent | None = None) -> Floats:
        """Return the expected payoff of each arm beyond the mean arm, of shape (arms, n); -inf where it is absent."""
        beyond = beyond_mean(assessed, absent)
        values = np.asarray(self.constants[:, None] + np.einsum("aen,e->an", beyond, self.slopes))
        if absent is not None:
            values[absent] = -np.inf
        return values


class Contenders(NamedTuple):
    """The arms of some rows, and the forecasts that assess them, for compiled code.

    ``arms`` (arms, n, d) are actions, ``evaluators`` (evaluators, n, d) forecasts; ``costs`` (arms, n) are those of the
    actions, and ``absent`` (arms, n) says where arms cannot be played: both without rows if there are none.
    """

    arms: Floats
    evaluators: Floats
    costs: Floats
    absent: Absent


NO_COSTS: Floats = np.empty((0, 0))
NO_ABSENCE: Absent = np.empty((0, 0), dtype=np.bool_)


class Blend(NamedTuple):
    """What arms are compared by: ``g = Σ_e b_e·forecast_e`` of each row, for an arm is worth ``c_a + a·g``.

    Means over arms are the same for all of them, and left out. Values of a row that differ by more than its ``slack``
    differ as those of :class:`Choice` do.
    """

    values: Floats
    slack: Floats


ROUNDING = 1e-8
"""Relative to the size of what is added up: arms that are this close are told apart by the full computation.

It is more than rounding comes to, and than the best action under the blend may fall short by.
"""


_SHORT = 8
"""Of fewer coordinates, arms are valued in eight rows side by side: too few to be added several at a time."""


@njit(cache=True, nogil=True)
def blend_evaluators(evaluators: Floats, constants: Floats, slopes: Floats, largest: Floats) -> Blend:
    """Return the blend of the forecasts that assess arms; no action's coordinates are larger than ``largest`` (d,)."""
    count, n, d = evaluators.shape
    values, slack = np.zeros((n, d)), np.full(n, np.abs(constants).max())
    for e in range(count):
        forecasts, slope = evaluators[e], slopes[e]
        for i in range(n):
            row, forecast = values[i], forecasts[i]
            for j in range(d):
                row[j] += slope * forecast[j]
            slack[i] += abs(slope) * size_under(forecast, largest)
    slack *= ROUNDING
    return Blend(values, slack)


@njit(cache=True, nogil=True)
def pick_arms(contenders: Contenders, constants: Floats, slopes: Floats, blend: Blend) -> tuple[Indices, Floats]:
    """Return for every row the arm of the highest calibrated assessment, as :class:`Choice` does, and its action."""
    actions, _, costs, absent = contenders
    arms, n, d = actions.shape
    picked, taken, assessed, values = np.empty(n, np.int64), np.empty((n, d)), np.empty(arms), np.empty(arms)
    weights, ranks, side_by_side = np.empty(d * LANES), np.empty(2 * LANES), 0
    if d < _SHORT and not len(costs) and not len(absent):
        side_by_side = n - n % LANES
    for i in range(n):
        slack = blend.slack[i]
        if i < side_by_side:
            lane = i % LANES
            if lane == 0:
                rank_rows(actions, constants, blend.values, i, weights, ranks)
            best, ahead = int(ranks[lane]), ranks[LANES + lane]
        else:
            slack += value_arms(contenders, constants, slopes, blend.values, i, values)
            best, ahead = rank_arms(values)
        if not ahead > slack:  # or one of them is not a number
            best = pick_exactly(contenders, i, constants, slopes, assessed, values)
        picked[i] = best
        for j in range(d):
            taken[i, j] = actions[best, i, j]
    return picked, taken


@inner
def rank_rows(actions, constants, blend, first, weights, ranks):  # type: ignore[no-untyped-def]
    """Write the best arm of each of eight rows, from the first on, and by how much it is ahead of the second best."""
    arms, _, d = actions.shape
    for j in range(d):
        store(weights, j, load_column(blend, first, j))
    best, highest, second = spread(0.0), spread(-np.inf), spread(-np.inf)
    for a in range(arms):
        value = spread(constants[a])
        for j in range(d):
            value = value + load_column(actions[a], first, j) * load(weights, j)
        second = larger(second, smaller(value, highest))
        best = where_greater(value, highest, spread(np.float64(a)), best)
        highest = larger(value, highest)
    store(ranks, 0, best)
    store(ranks, 1, highest - second)


@inner
def value_arms(contenders, constants, slopes, blend, i, values):  # type: ignore[no-untyped-def]
    """Write what each arm of a row is worth under the blend; return the slack that costs add to that of the row."""
    actions, _, costs, absent = contenders
    for a in range(len(actions)):
        values[a] = constants[a] + worth(actions[a, i], blend[i])
    slack = 0.0
    if len(costs):
        slope, steep, most = 0.0, 0.0, 0.0
        for each in slopes:
            slope, steep = slope + each, steep + abs(each)
        for a in range(len(actions)):
            values[a] -= slope * costs[a, i]
            most = max(most, abs(costs[a, i]))
        slack = ROUNDING * steep * most
    if len(absent):
        for a in range(len(actions)):
            values[a] = -np.inf if absent[a, i] else values[a]
    return slack


@inner
def rank_arms(values):  # type: ignore[no-untyped-def]
    """Return the best arm of a row, and by how much it is ahead of the second best."""
    best, highest, second = 0, -np.inf, -np.inf
    for a in range(len(values)):  # without branches, which could not be predicted
        better, second = values[a] > highest, max(second, min(values[a], highest))
        best, highest = a if better else best, values[a] if better else highest
    return best, highest - second


# Sums in any order: the slack allows for their rounding.


@reduction
def worth(action: Floats, weights: Floats) -> float:
    """Return ``action·weights``."""
    total = 0.0
    for j in range(len(action)):
        total += action[j] * weights[j]
    return total


@reduction
def size_under(forecast: Floats, largest: Floats) -> float:
    """Return the largest that sums can come to in which an action is assessed."""
    total = 0.0
    for j in range(len(forecast)):
        total += abs(forecast[j]) * largest[j]
    return total


@inner
def pick_exactly(contenders, i, constants, slopes, assessed, values):  # type: ignore[no-untyped-def]
    """Return the arm of a row, by the computation of :class:`Choice` in its order."""
    actions, evaluators, costs, absent = contenders
    arms, _, d = actions.shape
    values[:] = 0.0
    for e in range(len(evaluators)):
        forecast, total, count = evaluators[e, i], 0.0, 0
        for a in range(arms):
            if len(absent) and absent[a, i]:
                continue
            arm, worth = actions[a, i], 0.0
            for j in range(d):
                worth += arm[j] * forecast[j]
            assessed[a] = worth - costs[a, i] if len(costs) else worth
            total += assessed[a]
            count += 1
        mean = total / max(count, 1)
        for a in range(arms):
            values[a] += (assessed[a] - mean) * slopes[e]
    best, highest = 0, -np.inf
    for a in range(arms):
        value = constants[a] + values[a]
        if value > highest and not (len(absent) and absent[a, i]):
            best, highest = a, value
    return best


def beyond_mean(values: Floats, absent: Absent | None) -> Floats:
    """Return values of arms (arms, ..., n) beyond their mean over the arms present; 0 for those absent."""
    if absent is None:
        return np.asarray(values - values.mean(axis=0))
    between = (1,) * (values.ndim - 2)
    there = (~absent).reshape(len(absent), *between, absent.shape[1])
    count = np.maximum(there.sum(axis=0), 1)
    return np.where(there, values - np.where(there, values, 0.0).sum(axis=0) / count, 0.0)


@dataclass(frozen=True)
class ChoiceSums(Sums):
    """The sums over rows that a choice is fitted from, fold by fold.

    Attributes
    ----------
    rows
        The number of rows, or the sum of their weights, in which each arm is present, (folds, arms).
    assessed, earned
        Of each arm beyond the mean arm: its assessments (folds, arms, evaluators), and its payoff (folds, arms).
    squares, products
        Over arms too: of assessments with each other (folds, evaluators, evaluators), and with payoffs.
    together
        Over the rows in which some arm is absent, of each two arms that are present one in the number of those present,
        (folds, arms, arms): means beyond which payoffs are regressed are theirs. Where all are present, intercepts
        that sum to 0 need no such term.
    size
        The largest assessment.
    """

    rows: Floats
    assessed: Floats
    earned: Floats
    squares: Floats
    products: Floats
    together: Floats
    size: float = field(metadata=LARGEST)

    @classmethod
    def of(
        cls,
        assessed: Floats,
        realised: Floats,
        folds: Sequence[slice] = (slice(None),),
        absent: Absent | None = None,
        weights: Floats | None = None,
    ) -> Self:
        """Sum over the rows of each fold what evaluators expect of arms (arms, evaluators, n) and what these earned."""
        beyond, earned = beyond_mean(assessed, absent), beyond_mean(realised, absent)
        there = np.ones(realised.shape) if absent is None else 1.0 - absent
        total, taken = beyond, earned
        if weights is not None:
            there, total, taken = there * weights, beyond * weights, earned * weights
        flat = [_flat(beyond[:, :, fold]) for fold in folds]
        weighted = flat if weights is None else [_flat(total[:, :, fold]) for fold in folds]
        return cls(
            rows=np.stack([there[:, fold].sum(axis=1) for fold in folds]),
            assessed=np.stack([total[:, :, fold].sum(axis=2) for fold in folds]),
            earned=np.stack([taken[:, fold].sum(axis=1) for fold in folds]),
            squares=np.stack([left @ right.T for left, right in zip(weighted, flat, strict=True)]),
            products=np.stack([each @ earned[:, fold].ravel() for each, fold in zip(weighted, folds, strict=True)]),
            together=np.stack([_together(absent, weights, fold, len(realised)) for fold in folds]),
            size=float(np.abs(assessed).max(initial=0.0)),
        )

    def fit(self, prior: Floats, strength: float = 1.0, left_out: int | None = None) -> Choice:
        """Fit constants and slopes by ridge regression, on all folds or all but one.

        Parameters
        ----------
        prior
            The slopes to begin with.
        strength
            The prior strength, relative to that for independent rows.
        left_out
            The fold that is not learned from.
        """
        keep = [fold for fold in range(len(self.rows)) if fold != left_out]
        rows, sums, squares = (
            self.rows[keep].sum(axis=0),
            self.assessed[keep].sum(axis=0),
            self.squares[keep].sum(axis=0),
        )
        arms, evaluators = sums.shape
        n = rows.mean()
        rounding = 1e-9 * self.size  # arms that differ no more are the same
        variance = float(np.trace(squares) - sums.sum() ** 2 / (sums.size * n)) / (sums.size * n)
        spread = strength * SLOPE_PRIOR * arms * (max(variance, rounding**2) or 1.0)
        normal, target = np.zeros((arms + evaluators,) * 2), np.empty(arms + evaluators)
        normal[:arms, :arms] = np.diag(rows + strength * INTERCEPT_PRIOR) - self.together[keep].sum(axis=0)
        normal[:arms, arms:] = sums
        normal[arms:, :arms] = sums.T
        normal[arms:, arms:] = squares + spread * np.eye(evaluators)
        target[:arms] = self.earned[keep].sum(axis=0)
        target[arms:] = self.products[keep].sum(axis=0) + spread * prior
        solution = np.linalg.solve(normal, target)
        return Choice(solution[:arms], solution[arms:])


def _together(absent: Absent | None, weights: Floats | None, fold: slice, arms: int) -> Floats:
    if absent is None:
        return np.zeros((arms, arms))
    there, away = ~absent[:, fold], absent[:, fold].any(axis=0)
    share = away / np.maximum(there.sum(axis=0), 1)
    return np.asarray((there * (share if weights is None else share * weights[fold])) @ there.T)


def _flat(beyond: Floats) -> Floats:
    """Return assessments (arms, evaluators, n) as a line for each evaluator."""
    return np.ascontiguousarray(beyond.transpose(1, 0, 2)).reshape(beyond.shape[1], -1)
