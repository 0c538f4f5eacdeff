"""Is an ensemble worth the rows it is fitted on? Generated worlds with known truth, and members trained on the spot.

    python benchmarks/generators.py                          all worlds, eight seeds each: 96 runs, about 40 minutes
    python benchmarks/generators.py --runs 12 --rows 500
    python benchmarks/generators.py --quick                  one run of four worlds with few rows; nothing can be missed
    python benchmarks/generators.py --cache DIR              keep what members predict in DIR, and take it from there

The worlds are made from the published formulas of PyEPO's generators (Elmachtoub and Grigas 2022; Tang and Khalil
2022): shortest paths on a grid of five by five nodes, packing 16 items under two limits, a portfolio under a risk
limit, and tours of seven nodes. Labels are polynomials of degree ``deg`` in five features, times or plus noise.

Members are six: least squares, ridge on products of features, a forest, boosted trees, nearest neighbours, and a linear
model trained on decisions (SPO+). They are put together in two ways. *Held out*: members are trained on half of the
rows, and the combination is learned on the other half. *Cross-fitted*: the combination is learned on what members
predict for folds they were not trained on, five of them, and then follows members trained on all rows; of
DecisionEnsemble that is ``cv``. Combinations are the average, a non-negative stack, a ridge on everything, in each row
the member best on the 20 calibration rows nearest to it, and DecisionEnsemble.

Regret is what decisions lose to the best ones, in percent of what those come to, over 10,000 fresh rows; both under the
labels that are expected given a row's features, so that label noise does not blur it. Without noise that is PyEPO's
normalised regret. Promises are judged by labels with their noise. Differences are paired by run, with standard errors
over runs.

The script fails unless the cross-fitted DecisionEnsemble is ahead of the held-out one by two standard errors, ahead of
each cross-fitted simple combination by two, not behind the best of these over all runs, picked in hindsight, by more
than one, and unless promises are kept in 93 % of runs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from honesty import Floats, payoff, ridge_stack, show
from scipy.optimize import nnls
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import optensemble as oe
from optensemble import feasible

Numbers = npt.NDArray[np.int64]

FEATURES, FOLDS, NEIGHBOURS = 5, 5, 20
FRESH_ROWS = 10_000
SIMPLE = ("average", "nnls stack", "ridge stack")
NEAREST, OURS = "best of the nearest", "DecisionEnsemble"
MEMBERS = ("least squares", "ridge of products", "forest", "boosted trees", "neighbours", "SPO+")
HELD_OUT, CROSS_FITTED = "held out", "cross-fitted"


class Rows(NamedTuple):
    """Features, labels, and what the labels are expected to be given the features."""

    X: Floats
    Y: Floats
    expected: Floats


@dataclass(frozen=True)
class World:
    """A feasible set, whether its labels are costs, and where rows come from."""

    title: str
    omega: feasible.FeasibleSet
    sense: str
    draw: Callable[[int, np.random.Generator], Rows]

    @property
    def sign(self) -> float:
        """-1 where labels are costs."""
        return 1.0 if self.sense == "max" else -1.0

    def solve(self, predictions: Floats) -> Floats:
        """Return the best actions under predictions of the labels."""
        return self.omega.argmax(np.ascontiguousarray(self.sign * predictions, dtype=np.float64))


def drawn(rows: int, rng: np.random.Generator, slopes: Floats) -> tuple[Floats, Floats]:
    """Return features, and what each label's slopes make of them."""
    X = rng.normal(size=(rows, FEATURES))
    return X, X @ slopes.T / np.sqrt(FEATURES)


def make_path(degree: int, width: float, rng: np.random.Generator) -> World:
    """Return paths over a grid of five by five nodes, from the first corner to the last; 40 edges."""
    nodes = list(itertools.product(range(5), range(5)))
    edges = [((i, j), (i, j + 1)) for i, j in nodes if j < 4] + [((i, j), (i + 1, j)) for i, j in nodes if i < 4]
    slopes = rng.binomial(1, 0.5, (len(edges), FEATURES)).astype(np.float64)

    def draw(rows: int, rng: np.random.Generator) -> Rows:
        X, index = drawn(rows, rng, slopes)
        expected = (index + 3) ** degree / 3.5**degree + 1
        return Rows(X, expected * rng.uniform(1 - width, 1 + width, expected.shape), expected)

    omega = feasible.ShortestPath(edges, (0, 0), (4, 4))
    return World(f"path, deg {degree}, noise {width:g}", omega, "min", draw)


def make_knapsack(degree: int, width: float, rng: np.random.Generator) -> World:
    """Return 16 items, a third of whose weight may be taken, in two dimensions; values are rounded up."""
    items = 16
    weights = rng.integers(300, 801, (2, items)) / 100
    slopes = rng.binomial(1, 0.5, (items, FEATURES)).astype(np.float64)

    def draw(rows: int, rng: np.random.Generator) -> Rows:
        X, index = drawn(rows, rng, slopes)
        value = 5 * ((index + 3) ** degree + 1) / 3.5**degree
        if not width:
            return Rows(X, np.ceil(value), np.ceil(value))
        expected = (_below_ceiling(value * (1 + width)) - _below_ceiling(value * (1 - width))) / (2 * width * value)
        return Rows(X, np.ceil(value * rng.uniform(1 - width, 1 + width, value.shape)), expected)

    omega = feasible.Vertices(full_packs(weights, weights.sum(axis=1) / 3))
    return World(f"knapsack, deg {degree}, noise {width:g}", omega, "max", draw)


def _below_ceiling(value: Floats) -> Floats:
    """Return the integral of the ceiling from 0 to a positive value."""
    whole = np.floor(value)
    return np.asarray(whole * (whole + 1) / 2 + (value - whole) * (whole + 1))


def full_packs(weights: Floats, capacity: Floats) -> Floats:
    """Return every choice of items that fits, and to which nothing can be added."""
    items = weights.shape[1]
    packs = ((np.arange(2**items)[:, None] >> np.arange(items)) & 1).astype(np.float64)
    packs = packs[(packs @ weights.T <= capacity + 1e-9).all(axis=1)]
    room = capacity + 1e-9 - packs @ weights.T
    fits = (weights.T[None] <= room[:, None]).all(axis=2) & (packs == 0)
    return np.asarray(packs[~fits.any(axis=1)])


def make_portfolio(degree: int, noise: float, rng: np.random.Generator) -> World:
    """Return 20 assets whose returns share four factors; the variance may be 2.25 times that of equal weights."""
    assets, factors = 20, 4
    slopes = rng.binomial(1, 0.5, (assets, FEATURES)).astype(np.float64)
    loadings = rng.uniform(-0.0025 * noise, 0.0025 * noise, (assets, factors))
    covariance = loadings @ loadings.T + (0.01 * noise) ** 2 * np.eye(assets)

    def draw(rows: int, rng: np.random.Generator) -> Rows:
        X, index = drawn(rows, rng, slopes)
        expected = (0.05 * index + 0.1 ** (1 / degree)) ** degree
        common = rng.normal(size=(rows, factors)) @ loadings.T
        return Rows(X, expected + common + 0.01 * noise * rng.normal(size=expected.shape), expected)

    omega = feasible.RiskBudget(covariance, 2.25 * float(covariance.mean()))
    return World(f"portfolio, deg {degree}, noise {noise:g}", omega, "max", draw)


def make_tours(degree: int, width: float, rng: np.random.Generator) -> World:
    """Return all tours of seven nodes in the plane; 21 edges, whose costs begin with their lengths."""
    count = 7
    places = np.concatenate([rng.uniform(-2, 2, (count // 2, 2)), rng.normal(size=(count - count // 2, 2))])
    pairs = list(itertools.combinations(range(count), 2))
    lengths = np.array([np.hypot(*(places[a] - places[b])) for a, b in pairs])
    slopes = rng.binomial(1, 0.5, (len(pairs), FEATURES)) * rng.uniform(-2, 2, (len(pairs), FEATURES))

    def draw(rows: int, rng: np.random.Generator) -> Rows:
        X, index = drawn(rows, rng, slopes)
        encoded = (index + 3) ** degree / 3.0 ** (degree - 1)
        return Rows(X, lengths + encoded * rng.uniform(1 - width, 1 + width, encoded.shape), lengths + encoded)

    return World(f"tours, deg {degree}, noise {width:g}", feasible.Vertices(all_tours(count, pairs)), "min", draw)


def all_tours(count: int, pairs: list[tuple[int, int]]) -> Floats:
    """Return the edges of every tour, each once."""
    number = {pair: at for at, pair in enumerate(pairs)}
    tours = set[tuple[int, ...]]()
    for order in itertools.permutations(range(1, count)):
        stops = (0, *order, 0)
        tours.add(tuple(sorted(number[min(a, b), max(a, b)] for a, b in itertools.pairwise(stops))))
    edges = np.zeros((len(tours), len(pairs)))
    for row, tour in enumerate(sorted(tours)):
        edges[row, list(tour)] = 1.0
    return edges


SETTINGS: tuple[tuple[Callable[[int, float, np.random.Generator], World], int, float], ...] = (
    (make_path, 4, 0.5),
    (make_knapsack, 4, 0.5),
    (make_portfolio, 4, 1.0),
    (make_tours, 4, 0.5),
    (make_path, 1, 0.0),
    (make_path, 1, 0.5),
    (make_path, 4, 0.0),
    (make_path, 6, 0.0),
    (make_path, 6, 0.5),
    (make_knapsack, 1, 0.5),
    (make_portfolio, 2, 2.0),
    (make_tours, 4, 0.0),
)
"""What makes a world, with its degree and its noise."""


class Boosting:
    """Gradient boosting of squared error, by trees that answer for all labels at once."""

    def __init__(self, seed: int, rounds: int = 150, rate: float = 0.1, depth: int = 3) -> None:
        self.seed, self.rounds, self.rate, self.depth = seed, rounds, rate, depth

    def fit(self, X: Floats, Y: Floats) -> Boosting:
        """Train it."""
        self.mean, self.trees = Y.mean(axis=0), list[DecisionTreeRegressor]()
        rng, left = np.random.default_rng(self.seed), Y - self.mean
        for _ in range(self.rounds):
            part = rng.random(len(X)) < 0.7
            tree = DecisionTreeRegressor(max_depth=self.depth, min_samples_leaf=3, random_state=0)
            self.trees.append(tree.fit(X[part], left[part]))
            left = left - self.rate * tree.predict(X)
        return self

    def predict(self, X: Floats) -> Floats:
        """Return what it predicts."""
        total = sum((tree.predict(X) for tree in self.trees), start=np.zeros(len(self.mean)))
        return np.asarray(self.mean + self.rate * total)


class DecisionTrained:
    """A linear model trained on the SPO+ loss, from least squares on, by Adam; the mean of the later half of steps."""

    def __init__(self, world: World, seed: int, steps: int = 600, batch: int = 64, rate: float = 0.01) -> None:
        self.world, self.seed, self.steps, self.batch, self.rate = world, seed, steps, batch, rate

    def fit(self, X: Floats, Y: Floats) -> DecisionTrained:
        """Train it."""
        wide, unit = _with_constant(X), float(Y.std())
        slopes = np.linalg.lstsq(wide, Y / unit, rcond=None)[0]
        best, rng = self.world.solve(Y), np.random.default_rng(self.seed)
        first, second, total = np.zeros_like(slopes), np.zeros_like(slopes), np.zeros_like(slopes)
        for step in range(1, self.steps + 1):
            rows = rng.integers(len(X), size=self.batch)
            taken = self.world.solve(2 * wide[rows] @ slopes - Y[rows] / unit)
            gradient = 2 * self.world.sign * wide[rows].T @ (taken - best[rows]) / self.batch
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
            slopes -= self.rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
            total += slopes if 2 * step > self.steps else 0.0
        self.slopes = unit * total / (self.steps - self.steps // 2)
        return self

    def predict(self, X: Floats) -> Floats:
        """Return what it predicts."""
        return _with_constant(X) @ self.slopes


def _with_constant(X: Floats) -> Floats:
    return np.hstack([X, np.ones((len(X), 1))])


def make_members(world: World, seed: int) -> list[Any]:
    """Return untrained members, in the order of their names."""
    products = make_pipeline(
        PolynomialFeatures(2, include_bias=False), StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))
    )
    forest = RandomForestRegressor(100, min_samples_leaf=2, max_features=0.5, random_state=seed)
    neighbours = KNeighborsRegressor(10, weights="distance")
    return [LinearRegression(), products, forest, Boosting(seed), neighbours, DecisionTrained(world, seed)]


class Said(NamedTuple):
    """What members predict (members, n, d): for the rows to learn a combination from, and for fresh ones.

    ``rows`` are those to learn from, among all; ``folds`` are those that members were cross-fitted on, None if they
    were trained on the other rows. ``copies`` is then what is predicted for all rows to learn from by members trained
    without each of the folds, and on all rows.
    """

    rows: Numbers
    fitting: Floats
    fresh: Floats
    folds: list[tuple[Numbers, Numbers]] | None = None
    copies: list[Floats] | None = None


class Run(NamedTuple):
    """One run: all rows to fit on, fresh rows, and what members predict, held out and cross-fitted."""

    fit: Rows
    fresh: Rows
    held_out: Said
    cross_fitted: Said


def train(world: World, fit: Rows, at: Numbers, X: list[Floats], seed: int) -> list[Floats]:
    """Train members on some rows; return what they predict for others, one array for each set of these."""
    members = [member.fit(fit.X[at], fit.Y[at]) for member in make_members(world, seed)]
    # single precision, as in the cache
    return [np.stack([member.predict(rows) for member in members]).astype(np.float32).astype(np.float64) for rows in X]


def make_run(world: World, rows: int, seed: int, share: float, cache: Path | None) -> Run:
    """Draw rows, and train members on a share of them, on all but each fold, and on all."""
    rng = np.random.default_rng([seed, rows])
    fit, fresh = world.draw(rows, rng), world.draw(FRESH_ROWS, rng)
    order = rng.permutation(rows)
    own, others = np.sort(order[: round(share * rows)]), np.sort(order[round(share * rows) :])
    folds = [(np.setdiff1d(order, fold), np.sort(fold)) for fold in np.array_split(order, FOLDS)]
    name = f"{world.title.replace(', ', '_').replace(' ', '')}_{rows}_{share:.2f}_{seed}.npz"
    if cache is not None and (cache / name).exists():
        kept = np.load(cache / name)
        held, held_fresh, fresh_said, *copies = [each.astype(np.float64) for each in kept.values()]
    else:
        held, held_fresh = train(world, fit, own, [fit.X[others], fresh.X], seed)
        copies = [train(world, fit, rest, [fit.X], seed)[0] for rest, _ in folds]
        whole, fresh_said = train(world, fit, np.arange(rows), [fit.X, fresh.X], seed)
        copies.append(whole)
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            np.savez(cache / name, *(each.astype(np.float32) for each in (held, held_fresh, fresh_said, *copies)))
    out_of_fold = np.empty_like(copies[0])
    for (_, fold), copy in zip(folds, copies, strict=False):
        out_of_fold[:, fold] = copy[:, fold]
    crossed = Said(np.arange(rows), out_of_fold, fresh_said, folds, copies)
    return Run(fit, fresh, Said(others, held, held_fresh), crossed)


class Replayed:
    """A member whose fits were made before, for all methods alike: it says what it said then."""

    def __init__(self, known: dict[bytes, tuple[int, int]], said: Said, member: int) -> None:
        self.known, self.said, self.member = known, said, member

    def __deepcopy__(self, memo: Any) -> Replayed:
        return Replayed(self.known, self.said, self.member)

    def fit(self, X: Floats, Y: Floats) -> Replayed:
        """Take note of which of those fits this is: the one without a fold, or that on all rows."""
        seen = {self.known[row.tobytes()][1] for row in X}
        folds = self.said.folds or []
        self.copy_ = next((at for at, (_, fold) in enumerate(folds) if seen.isdisjoint(fold.tolist())), len(folds))
        return self

    def predict(self, X: Floats) -> Floats:
        """Return what it said of these rows."""
        fresh, rows = np.array([self.known[row.tobytes()] for row in X]).T
        if fresh.all():
            return np.asarray(self.said.fresh[self.member, rows])
        said = self.said.fitting if self.said.copies is None else self.said.copies[self.copy_]
        return np.asarray(said[self.member, rows])


def decide_by_ensemble(world: World, run: Run, said: Said) -> tuple[Floats, bool]:
    """Fit a DecisionEnsemble, of members that are cross-fitted or of those trained on the other rows.

    Return its actions on fresh rows, and whether its promise for them is kept by their labels.
    """
    X, known = run.fit.X[said.rows], dict[bytes, tuple[int, int]]()
    for fresh, rows in enumerate((X, run.fresh.X)):
        known |= {row.tobytes(): (fresh, at) for at, row in enumerate(rows)}
    members = [Replayed(known, said, number) for number in range(len(MEMBERS))]
    if said.folds is None:
        members = [member.fit(X, X) for member in members]
    models = list(zip(MEMBERS, members, strict=True))
    ensemble = oe.DecisionEnsemble(models, feasible=world.omega, sense=world.sense, cv=said.folds or "prefit")
    ensemble.fit(X, run.fit.Y[said.rows], random_state=0)
    actions, promise = ensemble.decide(run.fresh.X), ensemble.promise(run.fresh.X)
    return actions, bool(promise.low <= payoff(actions, run.fresh.Y).mean() <= promise.high)


def stacked(said: Said, labels: Floats) -> Floats:
    """Return fresh predictions of a non-negative stack with weights shared by all labels, a little held to equal."""
    k, n, _ = said.fitting.shape
    centre, level = said.fitting.mean(axis=1, keepdims=True), labels.mean(axis=0)
    pull = said.fitting.std() * np.sqrt(0.1 * n)
    left = np.vstack([(said.fitting - centre).reshape(k, -1).T, pull * np.eye(k)])
    weights, _ = nnls(left, np.concatenate([(labels - level).ravel(), np.full(k, pull / k)]))
    return np.asarray(np.tensordot(weights, said.fresh - centre, 1) + level)


def follow_nearest(world: World, said: Said, fit: Rows, fresh: Rows) -> Floats:
    """Return in each row the actions of the member that earned most on the nearest rows to learn from."""
    X, labels = fit.X[said.rows], world.sign * fit.Y[said.rows]
    earned = np.stack([payoff(world.solve(each), labels) for each in said.fitting])
    nearest = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X).kneighbors(fresh.X, return_distance=False)
    best = earned[:, nearest].mean(axis=2).argmax(axis=0)
    actions = np.stack([world.solve(each) for each in said.fresh])
    return np.asarray(actions[best, np.arange(len(best))])


def decide_all(world: World, run: Run, said: Said) -> tuple[dict[str, Floats], bool]:
    """Return every member's and every combination's actions on fresh rows, and whether the promise is kept."""
    labels = run.fit.Y[said.rows]
    wide, wide_fresh = np.hstack(list(said.fitting)), np.hstack(list(said.fresh))
    forecasts = dict(zip(MEMBERS, said.fresh, strict=True))
    forecasts["average"] = said.fresh.mean(axis=0)
    forecasts["nnls stack"] = stacked(said, labels)
    forecasts["ridge stack"] = ridge_stack(wide, labels, wide_fresh)
    actions = {name: world.solve(forecast) for name, forecast in forecasts.items()}
    actions[NEAREST] = follow_nearest(world, said, run.fit, run.fresh)
    actions[OURS], kept = decide_by_ensemble(world, run, said)
    return actions, kept


def regret(world: World, actions: Floats, expected: Floats) -> float:
    """Return in percent what actions lose to the best ones, as a share of what those come to."""
    best = payoff(world.solve(expected), expected)
    return float(100 * world.sign * (best - payoff(actions, expected)).sum() / np.abs(best).sum())


Scores = dict[tuple[str, str], float]
"""The regret by way (held out or cross-fitted) and method."""


def score_run(world: World, run: Run) -> tuple[Scores, list[bool]]:
    """Return the regrets of everything, and whether the promises of both ensembles are kept."""
    scores, kept = Scores(), list[bool]()
    for way, said in ((HELD_OUT, run.held_out), (CROSS_FITTED, run.cross_fitted)):
        actions, held = decide_all(world, run, said)
        scores |= {(way, name): regret(world, each, run.fresh.expected) for name, each in actions.items()}
        kept.append(held)
    return scores, kept


class Lead(NamedTuple):
    """By how many points of regret DecisionEnsemble is ahead, and the standard error over runs."""

    mean: float
    error: float

    @classmethod
    def of(cls, ahead: Floats) -> Lead:
        """Return the mean of paired differences with its standard error."""
        error = ahead.std(ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.nan
        return cls(float(ahead.mean()), float(error))

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}"


class Results:
    """The regrets of all runs, and promises."""

    def __init__(self) -> None:
        self.titles, self.scores, self.kept = list[str](), list[Scores](), list[list[bool]]()

    def add(self, title: str, scores: Scores, kept: list[bool]) -> None:
        """Take up a run."""
        self.titles.append(title)
        self.scores.append(scores)
        self.kept.append(kept)

    def regrets(self, way: str, method: str) -> Floats:
        """Return the regret of every run."""
        return np.array([scores[way, method] for scores in self.scores])

    def lead(self, way: str, method: str) -> Lead:
        """Return by how much the cross-fitted ensemble is ahead."""
        return Lead.of(self.regrets(way, method) - self.regrets(CROSS_FITTED, OURS))

    @property
    def best_simple(self) -> str:
        """The cross-fitted simple combination of the least regret over all runs."""
        return min(SIMPLE, key=lambda name: self.regrets(CROSS_FITTED, name).mean())

    def print(self) -> None:
        """Print the regrets by world and overall, and by how much the ensemble is ahead."""
        titles, of = list(dict.fromkeys(self.titles)), np.array(self.titles)
        rows = []
        for name in (*MEMBERS, *SIMPLE, NEAREST, OURS):
            row = [name]
            for way in (HELD_OUT, CROSS_FITTED):
                itself = (way, name) == (CROSS_FITTED, OURS)
                row += [f"{self.regrets(way, name).mean():.3f}", "" if itself else str(self.lead(way, name))]
            rows.append(row)
        heading = f"Regret in percent, {len(self.titles)} runs; ahead: of each, the cross-fitted DecisionEnsemble"
        show(heading, ["policy", HELD_OUT, "ahead", "cross-fitted, or trained on all rows", "ahead"], rows)
        by_world = []
        for title in titles:
            part = of == title
            ours = self.regrets(CROSS_FITTED, OURS)[part]
            leads = [str(Lead.of(self.regrets(CROSS_FITTED, name)[part] - ours)) for name in SIMPLE]
            held = str(Lead.of(self.regrets(HELD_OUT, OURS)[part] - ours))
            promises = " ".join(f"{sum(each)}/{len(each)}" for each in np.array(self.kept)[part].T)
            by_world.append([title, f"{ours.mean():.2f}", held, *leads, promises])
        columns = ["world", "regret", "ahead of held out", *(f"of {name}" for name in SIMPLE), "promises kept"]
        show("The cross-fitted DecisionEnsemble, world by world (promises: held out, cross-fitted)", columns, by_world)

    def missed(self) -> list[str]:
        """Say what was found, and return what was asked for and missed."""
        missed = []
        held = self.lead(HELD_OUT, OURS)
        if held.mean < 2 * held.error:
            missed.append(f"cross-fitted ahead of held out by two standard errors: {held}")
        for name in SIMPLE:
            lead = self.lead(CROSS_FITTED, name)
            if lead.mean < 2 * lead.error:
                missed.append(f"ahead of the cross-fitted {name} by two standard errors: {lead}")
        best = self.lead(CROSS_FITTED, self.best_simple)
        print(f"The best simple combination over all runs, in hindsight, is the {self.best_simple}: ahead by {best}.")
        each = np.min([self.regrets(CROSS_FITTED, name) for name in SIMPLE], axis=0)
        print(f"Of the best of each run, in hindsight: {Lead.of(each - self.regrets(CROSS_FITTED, OURS))}.")
        if best.mean < -best.error:
            missed.append(f"at least level with the best simple combination, the {self.best_simple}: {best}")
        kept = 100 * np.mean(self.kept, axis=0)
        print(f"Promises kept: {kept[0]:.0f} % held out, {kept[1]:.0f} % cross-fitted.")
        return missed + ([] if kept[1] >= 93 else [f"promises kept in 93 % of runs: {kept[1]:.1f} %"])


def main() -> None:
    """Make the runs, print what they say, and fail if something asked for is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=8 * len(SETTINGS), help="how many; worlds take turns")
    parser.add_argument("--rows", type=int, default=1000, help="to train members and to fit on, in all")
    parser.add_argument("--share", type=float, default=0.5, help="of the rows that held-out members are trained on")
    parser.add_argument("--seed", type=int, default=0, help="of the first run of every world")
    parser.add_argument("--cache", type=Path, help="a folder to keep members' predictions in")
    parser.add_argument("--quick", action="store_true", help="four runs of 400 rows, only to see that it works")
    given = parser.parse_args()
    runs, size = (4, 400) if given.quick else (given.runs, given.rows)
    results = Results()
    for number in range(runs):
        begun = time.perf_counter()
        make, degree, noise = SETTINGS[number % len(SETTINGS)]
        seed = given.seed + number // len(SETTINGS)
        world = make(degree, noise, np.random.default_rng([seed, degree, round(10 * noise)]))
        scores, kept = score_run(world, make_run(world, size, seed, given.share, given.cache))
        results.add(world.title, scores, kept)
        ours, average = scores[CROSS_FITTED, OURS], scores[CROSS_FITTED, "average"]
        took = time.perf_counter() - begun
        print(
            f"  {number + 1}/{runs} {world.title}, seed {seed}: regret {ours:.2f}, of the average {average:.2f}, "
            f"held out {scores[HELD_OUT, OURS]:.2f} ({took:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    results.print()
    missed = results.missed()
    for each in missed:
        print(f"MISSED: {each}")
    sys.exit(1 if missed and not given.quick else 0)


if __name__ == "__main__":
    main()
