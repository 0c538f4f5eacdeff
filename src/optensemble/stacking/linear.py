"""Everything linear in what members say: means, scales, stack, refinement and ridge, for every fold.

It is learned from the Gram matrices of folds (:mod:`optensemble.stacking.moments`): what the other folds teach is the
sum of theirs, and the loss on a fold of any linear forecast is a quadratic form in its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.members.blocks import Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.filling import Filling
from optensemble.stacking.fold_maps import FoldMap, FoldStack
from optensemble.stacking.moments import Basis, MemberMoments, Moments
from optensemble.stacking.patterns import (
    Pattern,
    PatternForecast,
    enough_rows,
    members_of,
    pad,
    pattern_code,
    pattern_codes,
    with_at_least,
)
from optensemble.stacking.ridge import RIDGE_PENALTIES, Ridge, RidgePath, RidgeTable
from optensemble.stacking.stack import PRIOR_SHARE, Stack, StackTable, average_weights, decision_weights
from optensemble.stats.sample_size import MINIMUM_ROWS


@dataclass(frozen=True)
class LinearFit:
    """What is learned from the moments.

    Attributes
    ----------
    centre
        The point about which the folds' maps are.
    mean, scale
        The labels' means and standard deviations.
    stack, refinement, ridge
        Learned from all rows.
    stacked, refined, ridged, means
        The forecasts of every fold.
    reach, label_size, weight_size
        How far members' outputs are from the centre at most, (members·d,), the size of the largest label, and the
        largest weight of a row.
    filling
        What absent members would say.
    penalties
        Of the refinement and the ridge.
    patterns
        The same for rows in which some members are absent, where that is common: the number of the pattern, and the
        fit in terms of all members.
    alone
        The forecasts of rows in which one member is absent, of all rows.
    """

    centre: Floats
    mean: Floats
    scale: Floats
    stack: Stack
    refinement: Ridge
    ridge: Ridge
    stacked: FoldStack
    refined: FoldMap
    ridged: FoldMap
    means: Floats
    reach: Floats
    label_size: float
    filling: Filling
    weight_size: float = 1.0
    penalties: tuple[float, float] = (1.0, 1.0)
    patterns: tuple[tuple[int, LinearFit], ...] = ()
    alone: tuple[PatternForecast, ...] = ()

    def by_pattern(self, which: str, wide: Floats, chunk: Chunk) -> Floats:
        """Return one of the forecasts of every row: of the fit for who is absent in it, if there is one."""
        found: Floats = getattr(self, which)(wide, chunk)
        if self.patterns:
            codes = pattern_codes(chunk.outputs.absent, chunk.outputs.count)
            for code, fit in self.patterns:
                rows = codes == code
                if rows.any():
                    found[rows] = getattr(fit, which)(wide, chunk)[rows]
        return found

    def bound(self, which: str) -> float:
        """Return a bound on the size of one of the forecasts."""
        fits = [self, *(fit for _, fit in self.patterns)]
        return max(float(getattr(fit, which).reach(self.reach)) for fit in fits)

    @property
    def forecasts(self) -> tuple[PatternForecast, ...]:
        """The forecasts of rows in which members are absent, learned from all rows, the seen patterns first."""
        seen = [_as_forecast(code, fit) for code, fit in self.patterns]
        known = {each.absent for each in seen}
        return (*seen, *(each for each in self.alone if each.absent not in known))


def _as_forecast(code: int, fit: LinearFit) -> PatternForecast:
    absent, _ = members_of(code, len(fit.stack.weights))
    return PatternForecast(tuple(absent.tolist()), fit.stack, fit.ridge, fit.refinement)


class _Standardised:
    """The moments about the means of all rows, in units of standard deviations.

    ``unit`` are the standard deviations of labels that a unit of an action is worth, if not those of these rows.
    """

    def __init__(self, found: Moments, basis: Basis, models: int, unit: Floats | None = None) -> None:
        self.basis, whole, members = basis, found.gram.sum(axis=0), found.members
        self.k, self.d = found.reach.shape
        self._eye = np.eye(self.d)
        p = len(whole) - self.d - 1  # columns
        n = whole[-1, -1]
        shift = whole[-1, : p + self.d] / n
        deviations = np.sqrt(np.maximum(np.diag(whole)[: p + self.d] / n - shift**2, 0.0))
        self.mean, self.scale = basis.labels + shift[p:], deviations[p:] if unit is None else unit
        # what a unit of an action is worth
        self.unit = np.where(np.arange(self.k)[:, None] < models, 1.0, self.scale)
        if basis.span is None:
            spread = deviations[:p] * self.unit.ravel()
            self.spread = np.where(spread > 1e-9 * spread.max(initial=0.0), spread, 1.0)
            onto = self.unit.ravel() / self.spread
        else:
            self.spread, onto = np.asarray(basis.scale) * self.unit.ravel(), np.ones(p)
        about = np.eye(p + self.d + 1)
        about[-1, : p + self.d] = -shift
        about[:, :p] *= onto
        self.gram = about.T @ found.gram @ about
        self.centre = members.features.sum(axis=0) / n
        self.n, self.p, self._shift, self._onto = n, p, shift[:p], onto
        self._decisions = found.decisions
        self._stacks = self._stack_tables(found.gram, members)
        size = float((found.size * self.unit).max(initial=0.0))
        variance = np.einsum("fjaa->aj", members.squares) / n - self.centre**2
        varied = float((np.maximum(variance, 0.0) * self.unit**2).mean())
        self.strength = PRIOR_SHARE * max(varied, (1e-9 * size) ** 2, float(np.finfo(np.float64).tiny))

    def _stack_tables(self, grams: Floats, found: MemberMoments) -> list[StackTable]:
        tables, shift = [], self.mean - self.basis.labels
        own = slice(self.p, self.p + self.d)
        for gram, about, features, squares, products in zip(
            grams, self.gram, found.features, found.squares, found.products, strict=True
        ):
            n, labels = gram[-1, -1], gram[-1, self.p : self.p + self.d]
            mean, sums = self.centre.T, features.T  # (d, members)
            cross = mean[:, :, None] * sums[:, None, :]
            square = squares - cross - cross.transpose(0, 2, 1) + n * mean[:, :, None] * mean[:, None, :]
            product = products - mean * labels[:, None] - shift[:, None] * (sums - n * mean)
            unit = self.unit.T
            tables.append(
                StackTable(
                    n=n,
                    features=(features - n * self.centre) * self.unit,
                    labels=labels - n * shift,
                    squares=np.einsum("jab,ja,jb->ab", square, unit, unit),
                    products=np.einsum("ja,ja->a", product, unit),
                    label_squares=float(np.trace(about[own, own])),
                )
            )
        return tables

    def filling(self, found: MemberMoments) -> Filling:
        """Return means and covariances of what members say."""
        covariance = found.squares.sum(axis=0) / self.n - self.centre.T[:, :, None] * self.centre.T[:, None, :]
        return Filling(self.basis.centre.reshape(self.k, self.d) + self.centre, covariance)

    def learn(self, left_out: int | None, prior: Floats) -> tuple[Stack, RidgePath]:
        """Learn the stack and the ridges of all folds but one, about the means of all rows."""
        keep = [fold for fold in range(len(self.gram)) if fold != left_out]
        table = _add_up([self._stacks[fold] for fold in keep])
        gram, p, d = self.gram[keep].sum(axis=0), self.p, self.d
        ridges = RidgeTable(gram[-1, -1], gram[-1, :p], gram[-1, p : p + d], gram[:p, :p], gram[:p, p : p + d])
        return self._stack(table, keep, prior), RidgePath(ridges)

    def _stack(self, table: StackTable, keep: list[int], prior: Floats) -> Stack:
        """Fit a stack: by what matters to decisions where all members are models, otherwise by all coordinates."""
        strength, found = self.strength * table.n, self._decisions
        if found is None:
            return table.fit(prior, strength)
        members = self.centre + table.features / table.n
        labels = self.mean - self.basis.labels + table.labels / table.n
        about = np.concatenate([np.eye(self.k + 1), -np.concatenate([members, labels[None]]).T])
        worth = about.T @ found.gram[keep].sum(axis=0) @ about
        rounding = float(table.n * self.k * (1e-9 * found.size) ** 2) or float(np.finfo(np.float64).tiny)
        weights = decision_weights(worth[: self.k, : self.k], worth[: self.k, self.k], rounding)
        beyond = self.mean - self.basis.centre.reshape(self.k, self.d) - self.centre
        return table.scale(weights, beyond, strength)

    def stack_coefficients(self, stack: Stack) -> Floats:
        """Return a stack as coefficients of the standardised columns."""
        spread = self.spread.reshape(self.k, self.d)
        matrix = (stack.weights[:, None, None] * spread[:, :, None] * np.eye(self.d)).reshape(-1, self.d)
        return matrix if self.basis.span is None else self.basis.span.T @ matrix

    def loss(self, fold: int, coefficients: Floats, constants: Floats) -> float:
        """Return the sum of squared errors on a fold."""
        onto = np.concatenate([-coefficients, self._eye, -constants[None]])
        return float((onto * (self.gram[fold] @ onto)).sum())

    def on_outputs(self, coefficients: Floats, constants: Floats) -> tuple[Floats, Floats]:
        """Return coefficients of what members say about the provisional centre, and constants in the labels' units."""
        whole = coefficients * self._onto[:, None]
        constants = self.mean + constants - self._shift @ whole
        if self.basis.span is not None:
            whole = (self.basis.span @ whole) / np.asarray(self.basis.scale)[:, None]
        return whole, constants

    def as_ridge(self, coefficients: Floats, constants: Floats) -> Ridge:
        """Return the same as a ridge on features: actions of policies in units of the labels' deviations."""
        centre = (self.basis.centre.reshape(self.k, self.d) + self.centre) * self.unit
        whole = coefficients if self.basis.span is None else self.basis.span @ coefficients
        return Ridge(centre.ravel(), self.spread, whole, constants)


def learn_linear(found: Moments, basis: Basis, outputs: MemberOutputs) -> LinearFit:
    """Learn every linear forecast, for each fold from the others and from all rows; penalties by out-of-fold loss.

    Of ``outputs``, which may be those of any rows, only the kinds of members matter.
    """
    return _learn(found, basis, outputs.models)


def learn_patterns(linear: LinearFit, found: Moments, basis: Basis, models: int, codes: Indices | None) -> LinearFit:
    """Return the fit with forecasts for common patterns of who is absent, and for each member's absence alone."""
    k, _ = found.reach.shape
    if basis.span is not None or k == 1:
        return linear
    patterns, alone = list[tuple[int, LinearFit]](), list[PatternForecast]()
    known = np.zeros(1, dtype=np.int64) if codes is None else codes
    for code in known.tolist() if found.by_pattern is not None else []:
        _, present = members_of(code, k)
        rows = found.of_patterns(with_at_least(code, known))
        if len(present) and enough_rows(rows.gram):
            patterns.append((code, _learn_present(linear, rows.of_members(present), basis, models, present)))
    for member in range(k):
        code = pattern_code((member,))
        _, present = members_of(code, k)
        rows = found.of_patterns(with_at_least(code, known))
        if code not in known and rows.gram[:, -1, -1].sum() >= MINIMUM_ROWS:
            whole = rows.of_members(present).in_one_fold
            alone.append(_learn_whole((member,), linear, whole, basis.of_members(present, k), models, present))
    return replace(linear, patterns=tuple(patterns), alone=tuple(alone))


def _learn_present(linear: LinearFit, found: Moments, basis: Basis, models: int, present: Indices) -> LinearFit:
    """Learn from those present, given moments of theirs, and return the fit in terms of all members."""
    k, d = len(linear.stack.weights), len(linear.mean)
    fit = _learn(found, basis.of_members(present, k), int((present < models).sum()), linear.scale)
    alone = PatternForecast((), fit.stack, fit.ridge, fit.refinement).padded(present, k)

    def wide(coefficients: Floats) -> Floats:
        whole = pad(coefficients.reshape(-1, len(present), d, d), present, k, axis=1)
        return whole.reshape(-1, k * d, d)

    return replace(
        fit,
        centre=linear.centre,
        stack=alone.stack,
        ridge=alone.ridge,
        refinement=alone.refinement,
        stacked=FoldStack(pad(fit.stacked.weights, present, k, axis=1), fit.stacked.constants),
        refined=FoldMap(wide(fit.refined.coefficients), fit.refined.constants),
        ridged=FoldMap(wide(fit.ridged.coefficients), fit.ridged.constants),
        reach=linear.reach,
    )


def _learn_whole(
    absent: Pattern, linear: LinearFit, found: Moments, basis: Basis, models: int, present: Indices
) -> PatternForecast:
    """Learn from those present on all rows alone, with the penalties that were chosen for all members."""
    table = _Standardised(found, basis, int((present < models).sum()), linear.scale)
    stack, path = table.learn(None, average_weights(len(present), int((present < models).sum())))
    start = table.stack_coefficients(stack)
    beyond = path.towards(start)(linear.penalties[0])
    ridge = path.towards()(linear.penalties[1])
    centre = basis.centre.reshape(table.k, table.d) + table.centre
    made = PatternForecast(
        absent=absent,
        stack=stack.about(centre * table.unit, table.mean),
        ridge=_with_level(table.as_ridge(ridge, path.level - path.centre @ ridge), table.mean),
        refinement=table.as_ridge(beyond, -(path.centre @ beyond)),
    )
    return made.padded(present, len(linear.stack.weights))


def _learn(found: Moments, basis: Basis, models: int, unit: Floats | None = None) -> LinearFit:
    table = _Standardised(found, basis, models, unit)
    prior = average_weights(table.k, models)
    folds = len(found.gram)
    learned = [table.learn(fold, prior) for fold in [*range(folds), None]]
    starts = [table.stack_coefficients(stack) for stack, _ in learned]
    refining, ridging = (_Penalised(table, learned, begin) for begin in (starts, None))
    stack, _ = learned[-1]
    centre = table.basis.centre.reshape(table.k, table.d) + table.centre
    whole, constants = refining.best(folds)
    start = table.stack_coefficients(stack)
    return LinearFit(
        centre=basis.centre,
        mean=table.mean,
        scale=table.scale,
        stack=stack.about(centre * table.unit, table.mean),
        refinement=table.as_ridge(whole - start, constants - _stack_constant(stack)),
        ridge=_with_level(table.as_ridge(*ridging.best(folds)), table.mean),
        stacked=FoldStack(
            np.stack([each.weights[:, None] * table.unit for each, _ in learned[:-1]]),
            np.stack([_offset(each, table) for each, _ in learned[:-1]]),
        ),
        refined=refining.maps(folds),
        ridged=ridging.maps(folds),
        means=table.mean + np.stack([path.level for _, path in learned[:-1]]),
        reach=found.reach.ravel(),
        label_size=float(found.label_size),
        filling=basis.filling or table.filling(found.members),
        weight_size=float(found.weight_size),
        penalties=(refining.penalty, ridging.penalty),
    )


def _with_level(ridge: Ridge, mean: Floats) -> Ridge:
    return Ridge(ridge.mean, ridge.scale, ridge.coefficients, ridge.level + mean)


def _stack_constant(stack: Stack) -> Floats:
    """Return what a stack says where members say their means."""
    return np.asarray(stack.level - np.tensordot(stack.weights, stack.centre, 1))


def _offset(stack: Stack, table: _Standardised) -> Floats:
    """Return what a fold's stack says at the provisional centre."""
    return np.asarray(table.mean + _stack_constant(stack) - stack.weights @ (table.centre * table.unit))


class _Penalised:
    """Ridges about some coefficients, or about 0, for every fold; the penalty is that of the lowest loss."""

    def __init__(
        self, table: _Standardised, learned: list[tuple[Stack, RidgePath]], starts: list[Floats] | None
    ) -> None:
        self._table, self._learned, self._starts = table, learned, starts
        self._constants = [_stack_constant(stack) for stack, _ in learned]
        self._ways: list[Callable[[float], Floats]] = [
            path.towards() if starts is None else path.towards(start)
            for (_, path), start in zip(learned, starts or [np.empty(0)] * len(learned), strict=True)
        ]
        folds = range(len(learned) - 1)
        losses = [sum(table.loss(f, *self._fit(f, penalty)) for f in folds) for penalty in RIDGE_PENALTIES]
        self.penalty = RIDGE_PENALTIES[int(np.argmin(losses))]

    def _fit(self, fold: int, penalty: float) -> tuple[Floats, Floats]:
        (_, path), beyond = self._learned[fold], self._ways[fold](penalty)
        if self._starts is None:
            return beyond, path.level - path.centre @ beyond
        return self._starts[fold] + beyond, self._constants[fold] - path.centre @ beyond

    def best(self, fold: int) -> tuple[Floats, Floats]:
        """Return coefficients and constants on the standardised columns."""
        return self._fit(fold, self.penalty)

    def maps(self, folds: int) -> FoldMap:
        """Return the maps of every fold on what members say."""
        found = [self._table.on_outputs(*self.best(fold)) for fold in range(folds)]
        return FoldMap(np.stack([each for each, _ in found]), np.stack([each for _, each in found]))


def _add_up(tables: list[StackTable]) -> StackTable:
    return StackTable(*(sum(parts[1:], start=parts[0]) for parts in zip(*tables, strict=True)))
