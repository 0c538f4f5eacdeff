"""The whole fit of a decision ensemble on arrays, row by row and fold by fold: slow, and plain enough to be believed.

The folds are given. Of the package only the feasible set, the bounds of the lemmas and the bootstrap are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import nnls

from optensemble import guarantees
from optensemble.members.outputs import MemberOutputs
from optensemble.stats.intervals import Family, Means
from tests.problems import Floats, level_set_masks
from tests.stacking.textbook import decision_stack

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

RIDGES = [10.0**power for power in range(7)]
ORDER = ("average", "stack", "refined", "patched", "ridge", "mean")
ENSEMBLE = -1


@dataclass(frozen=True)
class Test:
    """A mean gain, its standard error, and whether it is large enough."""

    __test__ = False

    gain: float
    error: float
    passed: bool


@dataclass(frozen=True)
class FitRows:
    """What is fitted on: all members' outputs, labels, the fold of every row, and how rows depend on each other."""

    outputs: MemberOutputs
    labels: Floats
    fold: Rows
    time_ordered: bool
    clusters: Rows | None
    seed: int

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def splits(self) -> list[tuple[Rows, Rows]]:
        """The rows to learn from and the rows to speak of, fold by fold."""
        return [(np.flatnonzero(self.fold != f), np.flatnonzero(self.fold == f)) for f in np.unique(self.fold)]

    @cached_property
    def features(self) -> Floats:
        said = self.outputs
        return np.concatenate([said.predictions, said.actions[said.models :] * self.labels.std(axis=0)])

    @cached_property
    def columns(self) -> Floats:
        """Everything that members say, standardised over all rows."""
        wide = np.concatenate(list(self.features), axis=1)
        return np.asarray((wide - wide.mean(axis=0)) / wide.std(axis=0))

    # Standard errors

    def design_effect(self, values: Floats) -> float:
        effect, variance = 1.0, values.var(ddof=1)
        if variance == 0:
            return effect
        if self.time_ordered:
            means = [block.mean() for block in np.array_split(values, 10)]
            effect = max(effect, np.var(means, ddof=1) * self.n / 10 / variance)
        if self.clusters is not None:
            centred, numbers = values - values.mean(), np.unique(self.clusters)
            sums = np.array([centred[self.clusters == number].sum() for number in numbers])
            sizes = self.sizes
            left = 1 - 2 * (sizes**3).sum() / (self.n * (sizes**2).sum()) + (sizes**2).sum() / self.n**2
            effect = max(effect, (sums**2).sum() / (self.n * variance) / left)
        return float(effect)

    @property
    def sizes(self) -> Floats:
        return np.unique(np.zeros(0) if self.clusters is None else self.clusters, return_counts=True)[1].astype(float)

    def error(self, values: Floats) -> float:
        return float(values.std(ddof=1) / np.sqrt(self.n) * np.sqrt(self.design_effect(values)))

    def quantile(self, family: int = 1) -> float:
        freedom = self.n - 1.0
        if self.clusters is not None:
            freedom = self.sizes.sum() ** 2 / (self.sizes**2).sum() - 1
        if self.time_ordered:
            freedom = min(freedom, 9.0)
        return float(stats.t.ppf(1 - 0.025 / family, freedom))

    def test(self, gains: Floats) -> Test:
        """Whether a loss falls by one standard error, or by two in time order."""
        error = self.error(gains)
        return Test(float(gains.mean()), error, bool(gains.mean() > (2 if self.time_ordered else 1) * error))


def loss(labels: Floats, forecast: Floats) -> Floats:
    return np.asarray(np.square(labels - forecast).sum(axis=1))


def decision_loss(rows: FitRows, labels: Floats, forecast: Floats) -> Floats:
    """The squared error in what sets members' actions apart."""
    actions = rows.outputs.actions
    apart = actions - actions.mean(axis=0)
    return np.asarray(np.square((apart * (labels - forecast)).sum(axis=2)).sum(axis=0))


def payoff(actions: Floats, labels: Floats) -> Floats:
    return np.asarray((actions * labels).sum(axis=1))


# Everything linear


def fit_stack(rows: FitRows, train: Rows) -> tuple[Floats, Floats]:
    """The weights, and what the stack says of all rows: least squares on rows, and pseudo-rows that say the prior."""
    features, labels, models = rows.features[:, train], rows.labels[train], rows.outputs.models
    k = len(features)
    if models == k:
        pull = 0.1 * rows.features.var(axis=1).mean() * len(train)
        shares, predict = decision_stack(features, labels, rows.outputs.actions[:, train], pull)
        return shares, predict(rows.features)
    prior = np.where(np.arange(k) < models, 1 / max(models, 1), 0.0)
    pseudo = np.sqrt(0.1 * rows.features.var(axis=1).mean() * len(train)) * np.eye(k)
    centre, level = features.mean(axis=1), labels.mean(axis=0)
    design = np.vstack([(features - centre[:, None]).reshape(k, -1).T, pseudo])
    weights = nnls(design, np.concatenate([(labels - level).ravel(), pseudo @ prior]))[0]
    return weights, level + np.tensordot(weights, rows.features - centre[:, None], 1)


def fit_ridge(rows: FitRows, train: Rows, target: Floats, penalty: float) -> Floats:
    """What a ridge of a target on some rows says of all rows."""
    centre, level = rows.columns[train].mean(axis=0), target[train].mean(axis=0)
    design = np.vstack([rows.columns[train] - centre, np.sqrt(penalty) * np.eye(rows.columns.shape[1])])
    goal = np.vstack([target[train] - level, np.zeros((rows.columns.shape[1], target.shape[1]))])
    return np.asarray(level + (rows.columns - centre) @ np.linalg.lstsq(design, goal, rcond=None)[0])


def refine(rows: FitRows, train: Rows, said: Floats, penalty: float) -> Floats:
    """What a ridge of what the stack leaves on some rows says of all rows; the level is the stack's."""
    left = rows.labels - said
    return fit_ridge(rows, train, left - left[train].mean(axis=0), penalty)


@dataclass(frozen=True)
class Linear:
    """The forecasts out of fold, those learned from all rows, and the weights of the stack."""

    out_of_fold: dict[str, Floats]
    whole: dict[str, Floats]
    weights: Floats


def learn_linear(rows: FitRows) -> Linear:
    everything, labels = np.arange(rows.n), rows.labels
    stack, mean = np.empty_like(labels), np.empty_like(labels)
    refined, ridge = (np.empty((len(RIDGES), *labels.shape)) for _ in range(2))
    for train, test in rows.splits:
        said = fit_stack(rows, train)[1]
        stack[test], mean[test] = said[test], labels[train].mean(axis=0)
        for number, penalty in enumerate(RIDGES):
            refined[number, test] = (said + refine(rows, train, said, penalty))[test]
            ridge[number, test] = fit_ridge(rows, train, labels, penalty)[test]
    best = {
        name: int(np.argmin([loss(labels, each).sum() for each in tried]))
        for name, tried in (("refined", refined), ("ridge", ridge))
    }
    found = {"mean": mean, "ridge": ridge[best["ridge"]], "stack": stack, "refined": refined[best["refined"]]}
    weights, said = fit_stack(rows, everything)
    whole = {
        "mean": np.broadcast_to(labels.mean(axis=0), labels.shape),
        "ridge": fit_ridge(rows, everything, labels, RIDGES[best["ridge"]]),
        "stack": said,
        "refined": said + refine(rows, everything, said, RIDGES[best["refined"]]),
    }
    return Linear(found, whole, weights)


# The patch


def all_cells(rows: FitRows, forecast: Floats) -> tuple[list[Mask], int]:
    """Members' level sets, the forecast's own, leaders, the user's subgroups; and where these begin."""
    said, omega = rows.outputs, rows.outputs.omega
    policies = [*said.actions, omega.argmax(np.ascontiguousarray(forecast))]
    masks = [mask for actions in policies for mask in level_set_masks(actions, omega, said.buckets.count)]
    if said.models > 1:
        claims = np.stack([payoff(a, p) for a, p in zip(said.actions, said.predictions, strict=False)])
        masks += [claims.argmax(axis=0) == model for model in range(said.models + 1)]
    first = len(masks)
    for titles, parts in zip(said.titles, [] if said.subgroups is None else said.subgroups, strict=True):
        masks += [parts == part for part in range(len(titles))]
    return masks, first


def cell_ridge(masks: list[Mask], residual: Floats, penalty: float) -> Floats:
    Z = np.stack(masks, axis=1).astype(float)
    return np.asarray(np.linalg.solve(Z.T @ Z + penalty * np.eye(len(masks)), Z.T @ residual))


@dataclass(frozen=True)
class Patched:
    """The patches (cells, corrections, rows), the tests of all rounds, and the forecast with them out of fold."""

    log: list[tuple[list[int], Floats, list[int]]]
    tests: list[Test]
    forecast: Floats


def learn_patches(rows: FitRows, forecast: Floats) -> Patched:
    """Subgroups alone, then all cells at most twice, as long as the loss falls out of fold."""
    log, tests, labels = [], [], rows.labels
    for alone in (True, False, False):
        masks, first = all_cells(rows, forecast)
        kept = [c for c, mask in enumerate(masks) if mask.sum() >= 50 and (c >= first or not alone)]
        if not kept:
            continue
        chosen, residual = [masks[c] for c in kept], labels - forecast
        best, corrected = 0.0, forecast
        for penalty in (1000.0, 100.0, 10.0):
            weaker = forecast.copy()
            for train, test in rows.splits:
                delta = cell_ridge([mask[train] for mask in chosen], residual[train], penalty)
                weaker[test] += np.stack([mask[test] for mask in chosen], axis=1) @ delta
            if loss(labels, weaker).sum() >= loss(labels, corrected).sum():
                break
            best, corrected = penalty, weaker
        tests.append(rows.test(loss(labels, forecast) - loss(labels, corrected)))
        if tests[-1].passed:
            log.append((kept, cell_ridge(chosen, residual, best), [int(mask.sum()) for mask in chosen]))
            forecast = corrected
        elif not alone:
            break
    return Patched(log, tests, forecast)


# The choice


def blend(forecasts: list[Floats], labels: Floats) -> Floats:
    count, middle = len(forecasts), np.mean(forecasts, axis=0)
    apart = np.stack([(each - middle).ravel() for each in forecasts], axis=1)
    pseudo = np.sqrt(0.1 * np.square(apart).sum() / count or 1.0) * np.eye(count)
    goal = np.concatenate([(labels - middle).ravel(), np.zeros(count)])
    weights = np.maximum(1 / count + np.linalg.lstsq(np.vstack([apart, pseudo]), goal, rcond=None)[0], 0)
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class Choice:
    """A constant for every arm, and a slope for every evaluator."""

    constants: Floats
    slopes: Floats

    def pick(self, assessed: Floats) -> Rows:
        beyond = assessed - assessed.mean(axis=0)
        return np.asarray((self.constants[:, None] + np.einsum("aen,e->an", beyond, self.slopes)).argmax(axis=0))


def fit_choice(assessed: Floats, realised: Floats, prior: Floats, strength: float) -> Choice:
    """A regression with a row for every arm in every row, and pseudo-rows for what is begun with."""
    arms, evaluators, n = assessed.shape
    beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
    design = np.vstack([np.column_stack([np.tile(np.eye(arms)[arm], (n, 1)), beyond[arm].T]) for arm in range(arms)])
    spread = 400 * strength * arms * (beyond.var() or 1.0)
    pseudo = np.diag(np.sqrt([5 * strength] * arms + [spread] * evaluators))
    goal = np.concatenate([earned.ravel(), pseudo @ [*np.zeros(arms), *prior]])
    found = np.linalg.lstsq(np.vstack([design, pseudo]), goal, rcond=None)[0]
    return Choice(found[:arms], found[arms:])


# The leaderboard


@dataclass(frozen=True)
class Candidate:
    """What a candidate does in every row out of fold, by which forecast it is assessed, and the margin it needs."""

    name: str
    kind: str
    actions: Floats
    by: Floats
    margin: float


def select(payoffs: Floats, margins: list[float], rows: FitRows | None) -> int:
    """Of those that beat the first by their margin the one that earns most; otherwise the first."""
    best, most = 0, 0.0
    for number, margin in enumerate(margins):
        gain = payoffs[number] - payoffs[0]
        gain = np.where(np.abs(gain) <= 1e-10 * np.abs(payoffs[[0, number]]).max(), 0.0, gain)
        if not np.isfinite(margin) or gain.mean() <= max(most, 0.0):
            continue
        error = float(stats.sem(gain)) if rows is None else rows.error(gain)
        if gain.mean() > margin * error:
            best, most = number, float(gain.mean())
    return best


def selection_bias(payoffs: Floats, margins: list[float], rows: FitRows) -> float:
    """How much more the winner of resampled rows leads on these than on all rows."""
    units = np.arange(rows.n) % 500
    if rows.time_ordered:
        units = np.arange(rows.n) * 20 // rows.n
    elif rows.clusters is not None:
        units = rows.clusters
    count = int(units.max()) + 1
    summed = np.stack([np.bincount(units, each) for each in payoffs]) * count / rows.n
    lead = summed - summed[select(summed, margins, None)]
    rng, excess = np.random.default_rng(rows.seed), []
    for _ in range(60):
        drawn = rng.integers(count, size=count)
        winner = select(summed[:, drawn], margins, None)
        excess.append(lead[winner, drawn].mean() - lead[winner].mean())
    return max(float(np.mean(excess)), 0.0)


@dataclass(frozen=True)
class Fit:
    """Everything that is learned, out of fold and from all rows."""

    rows: FitRows
    linear: Linear
    refinement: Test
    patched: Patched
    forecasts: dict[str, Floats]
    choice: Choice
    candidates: dict[int, Candidate]
    winner: int
    chosen: Rows
    actions: Floats
    forecast: Floats
    curse: float

    @property
    def names(self) -> list[str]:
        return [candidate.name for number, candidate in self.candidates.items() if number != ENSEMBLE]

    def twins(self, name: str) -> list[str]:
        """The candidates, but for the ensemble, that do in every row what this one does."""
        found = {each.name: each.actions for each in self.candidates.values()}
        same = [each for each in self.names if np.array_equal(found[each], found[name])]
        return [name] if name == "ensemble" else same

    @property
    def assessed(self) -> Floats:
        return payoff(self.actions, self.forecast)

    @property
    def realised(self) -> Floats:
        return payoff(self.actions, self.rows.labels)

    def beyond_members(self) -> tuple[Floats, Floats]:
        """The advantage over the mean member, as assessed and as realised."""
        members = self.rows.outputs.actions
        return (
            self.assessed - np.mean([payoff(each, self.forecast) for each in members], axis=0),
            self.realised - np.mean([payoff(each, self.rows.labels) for each in members], axis=0),
        )

    def leaderboard(self) -> Iterator[dict[str, object]]:
        """A line for every candidate, in the user's sense."""
        rows, sign, t = self.rows, self.rows.outputs.sign, self.rows.quantile()
        best = payoff(self.candidates[self.winner].actions, rows.labels)
        for number, each in self.candidates.items():
            earned = payoff(each.actions, rows.labels)
            gain = earned - best
            learning = 1.0 if each.kind in ("model", "policy") else np.sqrt(1 + 50 / rows.n)
            half, lead = t * rows.error(earned) * learning, t * rows.error(gain)
            followed = float(number == self.winner) if number == ENSEMBLE else float((self.chosen == number).mean())
            itself = np.nan if number == self.winner else 1.0
            yield {
                "candidate": each.name,
                "kind": each.kind,
                "realised": sign * earned.mean(),
                "low": sign * earned.mean() - half,
                "high": sign * earned.mean() + half,
                "difference": itself * (sign * gain.mean()),
                "difference_low": itself * (sign * gain.mean() - lead),
                "difference_high": itself * (sign * gain.mean() + lead),
                "detectable": itself * 2.8 * rows.error(gain),
                "promised": sign * payoff(each.actions, each.by).mean(),
                "followed": followed,
                "chosen": number == self.winner,
            }

    def beyond_mean_label(self) -> tuple[float, float, bool]:
        """What the winner earns more than the mean label out of fold, the half-width, and whether that is sure."""
        rows, (mean,) = self.rows, [each for each in self.candidates.values() if each.name == "mean"]
        gain = payoff(self.candidates[self.winner].actions, rows.labels) - payoff(mean.actions, rows.labels)
        sure = gain.mean() > rows.quantile(len(self.candidates) - 1) * rows.error(gain) * np.sqrt(1 + 50 / rows.n)
        return float(gain.mean()), rows.quantile() * rows.error(gain), bool(sure)

    def guarantees(self) -> Iterator[tuple[str, float, float, float, float]]:
        """Lemma, bound, what was observed, and the ends of its interval."""
        rows, omega, sign = self.rows, self.rows.outputs.omega, self.rows.outputs.sign
        last = [name for name in ("stack", "refined", "patched") if name in self.forecasts][-1]
        forecast, alpha = self.forecasts[last], np.inf
        masks, first = all_cells(rows, forecast)
        kept = [c for c, mask in enumerate(masks) if mask.sum() >= 50]
        if self.patched.log:
            found = worst_violation(rows, [masks[c] for c in kept], rows.labels - forecast)
            alpha = found[2]
            yield "Definition 1", np.inf, *found
        if subgroups := [masks[c] for c in kept if c >= first]:
            yield "Definition 1", np.inf, *worst_violation(rows, subgroups, rows.labels - forecast)
        yield "Corollary 1", np.inf, *self._interval(sign * (self.assessed - self.realised))
        for number, actions in enumerate(rows.outputs.actions):
            if number != self.winner:
                yield "Lemma 4", np.inf, *self._interval(payoff(actions, rows.labels) - self.realised)
        if np.isinf(alpha):
            return
        own = payoff(omega.argmax(np.ascontiguousarray(forecast)), rows.labels)
        promised = payoff(omega.argmax(np.ascontiguousarray(forecast)), forecast)
        sizes = float(np.abs(rows.labels).max()), float(np.abs(forecast).max())
        setting = (alpha, 1 / rows.outputs.buckets.count, omega.span, *sizes)
        yield (
            "Corollary 1",
            guarantees.corollary_1(*setting, reach=omega.reach),
            *self._interval(sign * (promised - own)),
        )
        for actions in rows.outputs.actions:
            lead = payoff(actions, rows.labels) - own
            yield "Lemma 4", guarantees.lemma_4(*setting, reach=omega.reach), *self._interval(lead)

    def _interval(self, values: Floats) -> tuple[float, float, float]:
        mean, half = float(values.mean()), self.rows.quantile() * self.rows.error(values)
        return mean, mean - half, mean + half


def worst_violation(rows: FitRows, masks: list[Mask], residual: Floats) -> tuple[float, float, float]:
    """The largest ``Pr[C]·|E[y − h | C]|`` with a simultaneous interval, from sums over units of dependent rows."""
    n, unit = rows.n, np.arange(rows.n) % 32
    if rows.clusters is not None:
        unit = rows.clusters % 32
    elif rows.time_ordered:
        unit = np.arange(n) * min(n // 10, 32) // n
    count = int(unit.max()) + 1
    sums = np.array([[residual[mask & (unit == u)].sum(axis=0) for mask in masks] for u in range(count)])
    sums = sums.reshape(count, -1)
    total = sums.sum(axis=0)
    centred = sums - np.bincount(unit)[:, None] / n * total
    error = np.sqrt(np.square(centred).sum(axis=0) * count / (count - 1)) / n
    family = Family(np.arange(count), seed=[0])
    found = family.add(Means(total / n, error, float(count - 1), centred, np.arange(count)))
    size, half = np.abs(found.estimate), found.error * family.critical([found.freedom])
    return float(size.max()), float(np.maximum(size - half, 0.0).max()), float((size + half).max())


def fit_rows(members: list[str], rows: FitRows) -> Fit:
    """Fit everything."""
    outputs, labels, omega, linear = rows.outputs, rows.labels, rows.outputs.omega, learn_linear(rows)
    forecasts = dict(linear.out_of_fold)
    judged = decision_loss if outputs.models == len(outputs.actions) else lambda _, *both: loss(*both)
    refinement = rows.test(judged(rows, labels, forecasts["stack"]) - judged(rows, labels, forecasts["refined"]))
    if not refinement.passed:
        del forecasts["refined"]
    patched = learn_patches(rows, forecasts["refined" if refinement.passed else "stack"])
    if patched.log:
        forecasts["patched"] = patched.forecast
    if outputs.models:
        forecasts["average"] = outputs.predictions.mean(axis=0)
    known = [name for name in ORDER if name in forecasts]
    solved = {name: omega.argmax(np.ascontiguousarray(forecasts[name])) for name in known}
    # the choice
    played = [name for name in ("average", "stack", "refined", "patched") if name in known]
    arms = [*outputs.actions, *(solved[name] for name in played)]
    judges = [forecasts[name] for name in ("stack", "refined", "patched") if name in known]
    realised, last = np.array([payoff(arm, labels) for arm in arms]), judges[-1]
    worth = [np.array([payoff(arm, judge) for arm in arms]) for judge in judges]
    prior = blend([each - each.mean(axis=0) for each in worth], realised - realised.mean(axis=0))
    if not outputs.models:
        judges = [*judges, outputs.actions.mean(axis=0) * labels.std(axis=0), forecasts["mean"]]
        prior = np.concatenate([prior, np.zeros(2)])
    assessed = np.array([[payoff(arm, judge) for judge in judges] for arm in arms])
    effects = [rows.design_effect(each) for each in realised - realised.mean(axis=0)]
    strength = float(np.mean(effects)) * (1.0 if outputs.models else 0.5)
    picked = np.empty(rows.n, dtype=np.int64)
    for train, test in rows.splits:
        choice = fit_choice(assessed[:, :, train], realised[:, train], prior, strength)
        picked[test] = choice.pick(assessed[:, :, test])
    everything, taken = np.arange(rows.n), np.stack(arms)
    # the leaderboard
    k = len(members)
    candidates = {ENSEMBLE: Candidate("ensemble", "choice", taken[picked, everything], last, np.inf)}
    for number, (name, actions) in enumerate(zip(members, outputs.actions, strict=True)):
        kind, margin = ("model", 2.0) if number < outputs.models else ("policy", 0.5)
        candidates[number] = Candidate(name, kind, actions, last, margin)
    for number, name in enumerate(known, start=k):
        kind, margin = ("forecast", np.inf) if name in ("refined", "patched") else ("baseline", 2.0)
        by = forecasts[name] if name in ("ridge", "mean") else last
        candidates[number] = Candidate(name, kind, solved[name], by, margin)
    payoffs = np.stack([payoff(each.actions, labels) for each in candidates.values()])
    margins = [each.margin for each in candidates.values()]
    winner = list(candidates)[select(payoffs, margins, rows)]
    numbers = np.array([*range(k), *(k + known.index(name) for name in played)])
    return Fit(
        rows=rows,
        linear=linear,
        refinement=refinement,
        patched=patched,
        forecasts=forecasts,
        choice=fit_choice(assessed, realised, prior, strength),
        candidates=candidates,
        winner=winner,
        chosen=numbers[picked] if winner == ENSEMBLE else np.full(rows.n, winner),
        actions=candidates[winner].actions,
        forecast=candidates[winner].by,
        curse=selection_bias(payoffs, margins, rows),
    )
