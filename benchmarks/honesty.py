"""Is DecisionEnsemble honest, and better, on rows it has never seen? Seven questions, each with a printed table.

    python benchmarks/honesty.py                       all of them, about ten minutes
    python benchmarks/honesty.py coverage --repetitions 5
    python benchmarks/honesty.py rows payoff nothing knowledge trend cost

coverage    how often 95 % intervals of promise() hold what is then realised, and how wide they are
rows        the same where every row has a budget of its own, or pays for the turnover from what it holds
payoff      the paper's experiments on 20,000 fresh rows, beside stacking by ridge
nothing     labels shuffled: does it say that nothing beats the mean, and is its promise honest?
knowledge   members that see different features, one of them a policy without predictions
trend       rows in time order whose level grows steadily
cost        fitting, in units of solving every member's every row once

The script fails if something asked for is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import Ridge, RidgeCV

import optensemble as oe
from optensemble import feasible
from optensemble.experiments import Experiment, make_experiment

Floats = npt.NDArray[np.float64]

SEEDS = (42, 1, 2)
NOISY_R2 = 0.2
ACCESS = ("white", "black", "mixed")
FITTING_ROWS = (100, 400, 2000)
FRESH_ROWS = 1000


def payoff(actions: Floats, labels: Floats) -> Floats:
    """Return what actions earn, row by row."""
    return np.asarray((actions * labels).sum(axis=1))


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in ("world", "access", "policy") else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


class World:
    """An experiment of the paper, its members trained once; noisy if label noise is to leave an R² of about 0.2.

    Rows are given as what the members predict: a column for each member and label.
    """

    def __init__(self, name: str, seed: int, noisy: bool) -> None:
        self.experiment: Experiment = make_experiment(name, seed)
        self.title = f"{name}{', noisy' if noisy else ''}"
        self.omega, self.seed, self.noisy = self.experiment.feasible, seed, noisy
        self.count = len(self.experiment.models)
        _, labels = self.experiment.draw(20_000, seed + 3)
        self.noise = labels.std(axis=0) * np.sqrt(1 / NOISY_R2 - 1) if noisy else np.zeros(labels.shape[1])

    def draw(self, rows: int, seed: int) -> tuple[Floats, Floats]:
        """Return what members predict for new rows, and their labels."""
        X, Y = self.experiment.draw(rows, seed)
        table = np.hstack([model(X) for _, model in self.experiment.models])
        return table, Y + np.random.default_rng(seed).normal(size=Y.shape) * self.noise

    def ensemble(self, access: str) -> oe.DecisionEnsemble:
        """Return an ensemble that may see predictions, actions, or of half of the members each."""
        d = self.omega.dimension
        models = [oe.Columns(list(range(d * m, d * (m + 1)))) for m in range(self.count)]
        seen = {"white": self.count, "black": 0, "mixed": self.count // 2}[access]
        policies = [(f"policy {m}", self._policy(models[m])) for m in range(seen, self.count)]
        return oe.DecisionEnsemble([(f"model {m}", models[m]) for m in range(seen)], policies, self.omega)

    def _policy(self, model: oe.Columns) -> Callable[[Floats], Floats]:
        def decide(table: Floats) -> Floats:
            said = model.predict(table)
            there = ~np.isnan(said).any(axis=1)  # a policy without a prediction has no answer either
            actions = np.full_like(said, np.nan)
            actions[there] = self.omega.for_rows(table[there]).argmax(said[there])
            return actions

        return decide


class RowWorld(World):
    """Three members that know a third of the features each, and a set that takes columns of its own from the row.

    ``"budgets"``: a knapsack with a budget by row. ``"turnover"``: weights that sum to 1, at a cost of a tenth of a
    label's standard deviation for what is bought or sold beside the weights held, which differ by row.
    """

    def __init__(self, kind: str, seed: int, noisy: bool) -> None:
        self.title, self.kind, self.count, self.d = f"{kind}{', noisy' if noisy else ''}", kind, 3, 6
        rng = np.random.default_rng(seed)
        self.slopes = rng.normal(size=(12, self.d)) / np.sqrt(12)
        self.noise = np.full(self.d, np.sqrt(1 / NOISY_R2 - 1) if noisy else 0.5)
        said = self.count * self.d
        if kind == "budgets":
            self.omega = feasible.Knapsack(rng.uniform(1, 5, self.d), oe.Columns(said))
        else:
            held = oe.Columns(list(range(said, said + self.d)))
            self.omega = feasible.WithCost(feasible.Simplex(self.d), turnover=(held, 0.1))

    def draw(self, rows: int, seed: int) -> tuple[Floats, Floats]:
        """Return what members predict for new rows with their own parameters, and their labels."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rows, 12))
        seen = np.split(np.arange(12), self.count)
        said = [X[:, part] @ self.slopes[part] for part in seen]
        own = rng.uniform(0, 12, (rows, 1)) if self.kind == "budgets" else rng.dirichlet(np.ones(self.d), rows)
        return np.hstack([*said, own]), X @ self.slopes + rng.normal(size=(rows, self.d)) * self.noise


def row_worlds(seed: int) -> Iterator[World]:
    """Return worlds whose set differs by row, plain and noisy."""
    for kind in ("budgets", "turnover"):
        for noisy in (False, True):
            yield RowWorld(kind, seed, noisy)


def worlds(seed: int) -> Iterator[World]:
    """Return the paper's experiments, plain and noisy."""
    for name in "ABCD":
        for noisy in (False, True):
            yield World(name, seed, noisy)


def coverage(repetitions: int) -> list[str]:
    """Redraw fitting and fresh rows many times; count how often the promise holds."""
    return measure_coverage(worlds(SEEDS[0]), repetitions)


def row_coverage(repetitions: int) -> list[str]:
    """Count the same where every row has a set of its own, or acting has a cost."""
    return measure_coverage(row_worlds(SEEDS[0]), repetitions)


def measure_coverage(worlds: Iterator[World], repetitions: int) -> list[str]:
    """Count how often promises hold in some worlds, for all kinds of members and numbers of rows."""
    found: dict[tuple[str, str, int], list[tuple[bool, float, float]]] = {}
    for world in worlds:
        for repetition in range(repetitions):
            for n in FITTING_ROWS:
                table, Y = world.draw(n, 100_000 * n + repetition)
                fresh, labels = world.draw(FRESH_ROWS, 100_000 * n + 50_000 + repetition)
                for access in ACCESS:
                    ensemble = world.ensemble(access).fit(table, Y)
                    promise, earned = ensemble.promise(fresh), ensemble.earned(fresh, ensemble.decide(fresh), labels)
                    plain = 1.96 * earned.std() * np.sqrt(1 / n + 1 / FRESH_ROWS)
                    kept = promise.low <= earned.mean() <= promise.high
                    width = (promise.high - promise.low) / 2 / plain
                    gap = (promise.mean - earned.mean()) / plain
                    found.setdefault((world.title, access, n), []).append((kept, width, gap))
        print(f"  {world.title}: done", file=sys.stderr)
    rows = []
    for access in ACCESS:
        for title in dict.fromkeys(key[0] for key in found):
            cells = [_summary(found[title, access, n]) for n in FITTING_ROWS]
            rows.append([access, title, *(text for cell in cells for text in cell)])
    headings = [f"{what}, n={n}" for n in FITTING_ROWS for what in ("kept %", "width", "gap")]
    fits = [each for several in found.values() for each in several]
    kept, width, gap = _summary(fits)
    rows.append(["all", f"{len(fits):,} fits", kept, width, gap, *[""] * 6])
    show(
        f"Coverage of promise() on {FRESH_ROWS:,} fresh rows, {repetitions} repetitions each; half-width (median) and "
        "gap (mean) in units of 1.96·s·√(1/n + 1/n_new)",
        ["access", "world", *headings],
        rows,
    )
    share = 100 * np.mean([each[0] for each in fits])
    widest = max(float(np.median([each[1] for each in several])) for several in found.values())
    missed = [] if 93 <= share <= 98 else [f"coverage of 93 to 98 %: {share:.1f} %"]
    for access in ACCESS:
        for n in FITTING_ROWS:
            part = [each[0] for key, several in found.items() if key[1:] == (access, n) for each in several]
            if np.mean(part) < 0.9:
                missed.append(f"coverage of 90 % or more, {access} access, n={n}: {100 * np.mean(part):.1f} %")
    return missed + ([] if widest <= 1.5 else [f"median half-width of at most 1.5: {widest:.2f}"])


def _summary(fits: list[tuple[bool, float, float]]) -> tuple[str, str, str]:
    kept, width, gap = zip(*fits, strict=True)
    return f"{100 * np.mean(kept):.1f}", f"{np.median(width):.2f}", f"{np.mean(gap):+.2f}"


def fresh_payoffs(repetitions: int) -> list[str]:
    """Compare with ridge stacking on 20,000 fresh rows, 400 fitting rows, three seeds."""
    rows, missed = [], []
    for seed in SEEDS:
        for name in "ABCD":
            world = World(name, seed, noisy=False)
            table, Y = world.draw(400, seed + 1)
            fresh, labels = world.draw(20_000, seed + 2)
            ensemble = world.ensemble("white").fit(table, Y)
            earned = float(payoff(ensemble.decide(fresh), labels).mean())
            ridge = float(payoff(world.omega.argmax(ridge_stack(table, Y, fresh)), labels).mean())
            most = float(payoff(world.omega.argmax(labels), labels).mean())
            floor = float(payoff(world.omega.argmax(np.tile(Y.mean(axis=0), (1, 1))), labels).mean())
            way, promise = most - floor, ensemble.promise(fresh)
            half = (promise.high - promise.low) / 2
            beyond = max(abs(promise.mean - earned) - half, 0.0)
            numbers = (earned, ridge, most, promise.mean, half)
            share = 100 * (earned - ridge) / way
            rows.append([name, str(seed), *(f"{number:.3f}" for number in numbers), f"{share:+.2f}", ensemble.winner_])
            if share < -1:
                missed.append(f"{name}, seed {seed}: payoff {share:+.2f} % of the way below ridge stacking")
            if beyond > 0.03 * way:
                missed.append(f"{name}, seed {seed}: gap beyond its interval {100 * beyond / way:.1f} % of the way")
    columns = [
        "world",
        "seed",
        "earned",
        "ridge stacking",
        "foresight",
        "promised",
        "±",
        "ahead of ridge, % of the way",
    ]
    show("Experiments A–D, 400 fitting rows, 20,000 fresh rows", [*columns, "policy"], rows)
    return missed


def ridge_stack(table: Floats, Y: Floats, fresh: Floats) -> Floats:
    """Return predictions of a ridge regression on everything the members say, strength by cross-validation."""
    mean, scale = table.mean(axis=0), table.std(axis=0) + 1e-9
    fitted = RidgeCV(np.logspace(-1, 5, 13)).fit((table - mean) / scale, Y)
    return np.asarray(fitted.predict((fresh - mean) / scale))


def nothing(repetitions: int) -> list[str]:
    """Shuffle the labels: the promise must be honest, and the finding that nothing beats the mean."""
    rows, missed = [], []
    for access in ACCESS:
        for name in "ABCD":
            world = World(name, SEEDS[0], noisy=False)
            said, kept = 0, 0
            for repetition in range(repetitions):
                table, Y = world.draw(400, 30_000 + repetition)
                fresh, labels = world.draw(FRESH_ROWS, 40_000 + repetition)
                rng = np.random.default_rng(repetition)
                ensemble = world.ensemble(access).fit(table, rng.permutation(Y))
                promise, shuffled = ensemble.promise(fresh), rng.permutation(labels)
                earned = payoff(ensemble.decide(fresh), shuffled).mean()
                kept += promise.low <= earned <= promise.high
                said += " than deciding by the mean label" not in ensemble.finding_
            rows.append([access, name, f"{100 * said / repetitions:.0f}", f"{100 * kept / repetitions:.0f}"])
    show(
        f"No signal: labels shuffled, {repetitions} repetitions",
        ["access", "world", "says that nothing beats the mean, %", "promise kept, %"],
        rows,
    )
    spoke, held = (float(np.mean([float(row[column]) for row in rows])) for column in (2, 3))
    if spoke < 90:
        missed.append(f"says that nothing beats the mean in 90 % or more: {spoke:.1f}")
    if not 91 <= held <= 99:
        missed.append(f"promise kept in about 95 %: {held:.1f}")
    return missed


def knowledge(repetitions: int) -> list[str]:
    """Three members, each of its own third of the features; the third is a policy without predictions."""
    d, thirds, rows, missed = 8, 3, [], []
    omega = feasible.Knapsack(np.ones(d), 3.0)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        slopes = rng.normal(size=(12, d))

        def draw(n: int, rng: np.random.Generator = rng, slopes: Floats = slopes) -> tuple[Floats, Floats]:
            X = rng.normal(size=(n, 12))
            return X, X @ slopes + rng.normal(size=(n, d))

        train, labels = draw(2000)
        parts = np.split(np.arange(12), thirds)
        trained = [Ridge().fit(train[:, part], labels) for part in parts]
        members = [lambda X, m=m: trained[m].predict(X[:, parts[m]]) for m in range(thirds)]  # noqa: B023
        policy = lambda X: omega.argmax(members[2](X))  # noqa: B023, E731
        X, Y = draw(400)
        fresh, truth = draw(20_000)
        ensemble = oe.DecisionEnsemble(
            models=[("first", members[0]), ("second", members[1])], policies=[("third", policy)], feasible=omega
        ).fit(X, Y)
        ours = payoff(ensemble.decide(fresh), truth)
        rivals = simple_rivals(omega, [members[0], members[1]], policy, X, Y, fresh)
        for name, actions in rivals.items():
            gain = ours - payoff(actions, truth)
            half = 1.96 * gain.std() / np.sqrt(len(gain))
            rows.append([str(seed), name, f"{payoff(actions, truth).mean():.3f}", f"{gain.mean():+.3f}", f"{half:.3f}"])
            if gain.mean() < 0:
                missed.append(f"knowledge, seed {seed}: {name} is above by {-gain.mean():.3f}")
        rows.append([str(seed), f"DecisionEnsemble ({ensemble.winner_})", f"{ours.mean():.3f}", "", ""])
    show(
        "Members that know different things: two models and a policy, 400 fitting rows, 20,000 fresh rows",
        ["seed", "policy", "earned", "DecisionEnsemble earns more by", "±"],
        rows,
    )
    return missed


def simple_rivals(
    omega: feasible.FeasibleSet,
    models: list[Callable[[Floats], Floats]],
    policy: Callable[[Floats], Floats],
    X: Floats,
    Y: Floats,
    fresh: Floats,
) -> dict[str, Floats]:
    """Return what anyone would do who sees predictions of the models and the actions of the policy."""
    said, said_fresh = ([model(rows) for model in models] for rows in (X, fresh))
    rivals = {"first": omega.argmax(said_fresh[0]), "second": omega.argmax(said_fresh[1]), "third": policy(fresh)}
    rivals["average of the models"] = omega.argmax(np.mean(said_fresh, axis=0))
    rivals["sum of the models"] = omega.argmax(np.sum(said_fresh, axis=0))
    rivals["ridge on the models"] = omega.argmax(ridge_stack(np.hstack(said), Y, np.hstack(said_fresh)))
    both, both_fresh = np.hstack([*said, policy(X)]), np.hstack([*said_fresh, policy(fresh)])
    rivals["ridge on models and policy"] = omega.argmax(ridge_stack(both, Y, both_fresh))
    return rivals


def trend(repetitions: int) -> list[str]:
    """Rows in time order whose level grows steadily, or does not: how often the promise and its lower limit hold."""
    n, d, rows, missed = 400, 6, [], []
    omega = feasible.TopK(d, 2)
    for growth in (0.0, 0.1, 0.3):
        for ahead in (40, 200, 400):
            kept, relied, widths = [], [], []
            for repetition in range(repetitions):
                X, Y = trending(n + ahead, d, growth * (n + ahead) / n, np.random.default_rng(repetition))
                models = [("first", lambda X: 10 + X), ("second", lambda X: 10 + 0.5 * X)]
                ensemble = oe.DecisionEnsemble(models, feasible=omega).fit(X[:n], Y[:n], time_ordered=True)
                promise, earned = ensemble.promise(X[n:]), payoff(ensemble.decide(X[n:]), Y[n:])
                kept.append(promise.low <= earned.mean() <= promise.high)
                relied.append(earned.mean() >= promise.rely_on)
                plain = 1.96 * earned.std() * np.sqrt(1 / n + 1 / ahead)
                widths.append((promise.high - promise.low) / 2 / plain)
            numbers = (f"{100 * np.mean(kept):.0f}", f"{100 * np.mean(relied):.0f}", f"{np.median(widths):.1f}")
            rows.append([f"{100 * growth:.0f} % over {n} rows", str(ahead), *numbers])
            if np.mean(kept) < 0.9:
                missed.append(f"promise kept in 90 % or more, growth {growth}, {ahead} rows ahead: {np.mean(kept):.2f}")
    show(
        f"Rows in time order with a steady trend, {n} fitting rows, {repetitions} repetitions",
        ["growth", "rows ahead", "promise kept, %", "limit to rely on held, %", "width"],
        rows,
    )
    return missed


def trending(n: int, d: int, growth: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return rows whose labels have noise that lasts, and a level that grows by a share of itself."""
    X, noise = rng.normal(size=(n, d)), rng.normal(size=n)
    for row in range(1, n):
        noise[row] = 0.5 * noise[row - 1] + noise[row] / 2
    level = 10 * (1 + growth * np.arange(n) / n)
    return X, X + level[:, None] + noise[:, None] + rng.normal(size=(n, d))


def cost(repetitions: int) -> list[str]:
    """Time a fit against solving every member's every row once, on one thread each."""
    n, k, d = 4000, 6, 36
    rng = np.random.default_rng(0)
    omega = feasible.Knapsack(rng.uniform(1, 5, d), 30.0)
    Y = rng.normal(5, 2, size=(n, d))
    table = np.hstack([Y + rng.normal(0, 1 + m / 3, size=(n, d)) for m in range(k)])
    models = [(f"model {m}", oe.Columns(list(range(d * m, d * (m + 1))))) for m in range(k)]
    predictions = [model.predict(table) for _, model in models]
    ensemble = oe.DecisionEnsemble(models, feasible=omega)
    ratios = []
    for _ in range(repetitions + 1):
        begun = time.perf_counter()
        for prediction in predictions:
            omega.argmax(prediction)
        solving = time.perf_counter() - begun
        begun = time.perf_counter()
        ensemble.fit(table, Y)
        ratios.append((time.perf_counter() - begun) / solving)
    ratio = float(np.median(ratios[1:]))  # the first compiles
    rows = [[f"{n:,}", str(k), str(d), f"{1000 * solving:.0f}", f"{ratio:.1f}", f"{min(ratios[1:]):.1f}"]]
    show(
        "Cost of a fit on a fractional knapsack, in units of solving every member's every row once",
        ["n", "k", "d", "solving, ms", f"ratio, median of {repetitions}", "least"],
        rows,
    )
    return [] if ratio <= 20 else [f"cost of at most 20 times the solves: {ratio:.1f}"]


PARTS: dict[str, tuple[Callable[[int], list[str]], int]] = {
    "coverage": (coverage, 20),
    "rows": (row_coverage, 20),
    "payoff": (fresh_payoffs, 1),
    "nothing": (nothing, 20),
    "knowledge": (knowledge, 1),
    "trend": (trend, 50),
    "cost": (cost, 7),
}


def main() -> None:
    """Answer the questions asked for, and fail if an answer is not what it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="which questions; all by default")
    parser.add_argument("--repetitions", type=int, help="of what is repeated")
    given: Any = parser.parse_args()
    missed = []
    for name in given.parts or PARTS:
        part, repetitions = PARTS[name]
        begun = time.perf_counter()
        missed += part(given.repetitions or repetitions)
        print(f"{name}: {time.perf_counter() - begun:.0f} s\n", flush=True)
    if missed:
        sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
