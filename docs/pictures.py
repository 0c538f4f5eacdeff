"""The pictures of the site and the README, from seeded runs: `python docs/pictures.py` draws them into docs/images."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from matplotlib.ticker import MaxNLocator

import optensemble as oe
from optensemble import feasible
from optensemble.report.drawing import COLOURS, INK, MUTED, inline_svg, new_figure, png, style

Floats = npt.NDArray[np.float64]
Model = Callable[[Floats], Floats]

FOLDER = Path(__file__).parent / "images"
GREEN, BLUE, ORANGE, PURPLE, RED = COLOURS
WIDE, TALL = 7.4, 3.1


class World(NamedTuple):
    """Three models that each see a third of what moves four payoffs, and are over- or underconfident about it."""

    models: list[tuple[str, Model]]
    omega: feasible.FeasibleSet
    slopes: Floats

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return rows and labels."""
        X = rng.normal(size=(n, len(self.slopes)))
        return X, X @ self.slopes + rng.normal(scale=1.5, size=(n, self.omega.dimension))


def make_world() -> World:
    """Return the world that most pictures show: weights that sum to 1, of limited variance."""
    rng = np.random.default_rng(0)
    return _world(rng.normal(size=(6, 4)) / 2, [3.0, 1.5, 0.5])


def _world(slopes: Floats, sure: Sequence[float]) -> World:
    parts = np.array_split(np.arange(6), 3)
    models = [
        (name, _partial(slopes, *known)) for name, known in zip("ABC", zip(parts, sure, strict=True), strict=True)
    ]
    covariance = np.eye(4) + 0.3
    return World(models, feasible.RiskBudget(covariance, limit=0.85), slopes)


def _partial(slopes: Floats, features: npt.NDArray[np.int64], sure: float) -> Model:
    return lambda X: np.asarray(sure * X[:, features] @ slopes[features])


# Decisions and sets


def draw_decision() -> Figure:
    """Draw three kinds of sets of two goods, in which forecast and true payoffs pick different actions."""
    sets: list[tuple[str, feasible.FeasibleSet]] = [
        ("linear limits", feasible.Polytope(A_ub=[[1, 1], [2, 1]], b_ub=[1.2, 1.7])),
        ("a risk limit", feasible.Oracle(_in_quarter_disc, dimension=2)),
        ("a list of plans", feasible.Vertices([(0, 0), (0.9, 0.15), (0.55, 0.55), (0.15, 0.9), (0.5, 0.2)])),
    ]
    figure = new_figure(WIDE, TALL)
    for axes, (title, omega) in zip(figure.subplots(1, 3, sharey=True), sets, strict=True):
        _draw_set(axes, omega)
        for name, colour, y in (("forecast", ORANGE, [0.35, 0.6]), ("true", GREEN, [0.62, 0.3])):
            axes.annotate("", xy=y, xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6})
            action = omega.argmax([y])[0]
            axes.plot(*action, "o", color=colour, markersize=9, label=f"{name} payoffs, and the best action for them")
        axes.set(title=title, xlabel="amount of the first good", xlim=(-0.03, 1.08), ylim=(-0.03, 1.08), aspect="equal")
        axes.set_xticks([0, 0.5, 1])
        axes.set_yticks([0, 0.5, 1])
    figure.axes[0].set_ylabel("amount of the second good")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def _in_quarter_disc(C: Floats) -> Floats:
    positive = np.maximum(C, 0.0)
    return np.asarray(0.95 * positive / np.maximum(np.linalg.norm(positive, axis=1, keepdims=True), 1e-12))


def _draw_set(axes: Axes, omega: feasible.FeasibleSet) -> None:
    angles = np.linspace(0, 2 * np.pi, 721)
    corners = omega.argmax(np.column_stack([np.cos(angles), np.sin(angles)]))
    if isinstance(omega, feasible.Vertices):
        axes.plot(*omega.vertices.T, "o", color=MUTED, markersize=9, alpha=0.5)
    else:
        axes.add_patch(Polygon(corners, facecolor=MUTED, alpha=0.25, edgecolor="none"))


# The winner's curse


def draw_curse() -> Figure:
    """Show promised and realised payoff by the number of unbiased models that compete by self-assessment."""
    rng, omega, most = np.random.default_rng(1), feasible.Simplex(4), 16
    signal = rng.normal(size=(20_000, 4))
    labels = signal + rng.normal(size=signal.shape)
    predictions = signal + rng.normal(size=(most, *signal.shape))
    actions = np.stack([omega.argmax(said) for said in predictions])
    assessed, earned = (actions * predictions).sum(axis=2), (actions * labels).sum(axis=2)
    counts = np.arange(1, most + 1)
    winners = [assessed[:k].argmax(axis=0) for k in counts]
    rows = np.arange(len(labels))
    figure = new_figure(WIDE, TALL)
    axes = figure.subplots()
    axes.plot(counts, [assessed[w, rows].mean() for w in winners], "o--", color=ORANGE, label="promised")
    axes.plot(counts, [earned[w, rows].mean() for w in winners], "o-", color=GREEN, label="earned")
    average = [(omega.argmax(predictions[:k].mean(axis=0)) * labels).sum(axis=1).mean() for k in counts]
    axes.plot(counts, average, color=MUTED, label="earned by the average of the models")
    axes.set(xlabel="number of competing models", ylabel="mean payoff", ylim=(0, None))
    axes.legend()
    return figure


# Debiasing


def draw_cells() -> Figure:
    """Show the bias of one coordinate on each of its level sets, before and after debiasing."""
    world, rng = make_world(), np.random.default_rng(2)
    X, Y = world.draw(4000, rng)
    ensemble = oe.WhiteBoxEnsemble(world.models[:1], world.omega, validation=None).fit(X, Y)
    figure = new_figure(WIDE, TALL)
    panels = figure.subplots(1, 3, sharey=True)
    rounds = [0, 1, ensemble.n_rounds_]
    titles = ["as given", "after one round", f"after all {ensemble.n_rounds_} rounds"]
    for axes, title, situation in zip(panels, titles, ensemble.retrace(X, rounds), strict=True):
        bucket = np.minimum((situation.actions[0, :, 0] * 10 + 1e-9).astype(int), 9)
        off = np.bincount(bucket, Y[:, 0] - situation.predictions[0, :, 0], minlength=10) / len(Y)
        promised, earned = situation.taken(situation.assessed).mean(), (situation.actions[0] * Y).sum(axis=1).mean()
        axes.axhspan(-ensemble.alpha, ensemble.alpha, color=GREEN, alpha=0.25, linewidth=0)
        axes.bar(np.arange(10) / 10 + 0.05, off, width=0.08, color=BLUE)
        axes.set(title=title, xlabel=f"weight on the first asset\npromised {promised:.2f}, earned {earned:.2f}")
    panels[0].set_ylabel("true − predicted of the first asset:\nshare of rows × mean")
    return figure


# In sample and out of sample


def draw_rows() -> Figure:
    """Show promised and realised payoff on fresh rows, by the number of rows fitted on."""
    world = make_world()
    fresh, truth = world.draw(20_000, np.random.default_rng(3))
    sizes = [100, 200, 400, 800, 1600, 3200]
    runs = [[_both(world, n, seed, fresh, truth) for n in sizes] for seed in range(3)]
    found = np.mean(runs, axis=0)
    average = np.mean([model(fresh) for _, model in world.models], axis=0)
    levels = [("with the true slopes", INK, fresh @ world.slopes), ("by the plain average", BLUE, average)]
    figure = new_figure(WIDE, TALL)
    for axes, title, (promised, earned) in zip(
        figure.subplots(1, 2, sharey=True),
        ["the paper's white box, as printed", "DecisionEnsemble"],
        [(0, 1), (2, 3)],
        strict=True,
    ):
        axes.plot(sizes, found[:, promised], "o--", color=ORANGE, label="promised for fresh rows")
        axes.plot(sizes, found[:, earned], "o-", color=GREEN, label="earned on fresh rows")
        for name, colour, forecast in levels:
            earned_by = (world.omega.argmax(forecast) * truth).sum(axis=1).mean()
            axes.axhline(earned_by, color=colour, linestyle=":", label=f"earned {name}")
        axes.set(title=title, xlabel="rows fitted on", xscale="log")
        axes.set_xticks(sizes[::2], [f"{n:,}" for n in sizes[::2]])
        axes.minorticks_off()
    figure.axes[0].set_ylabel("mean payoff")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _both(world: World, n: int, seed: int, fresh: Floats, truth: Floats) -> list[float]:
    X, Y = world.draw(n, np.random.default_rng([4, seed]))
    paper = oe.WhiteBoxEnsemble(world.models, world.omega, validation=None).fit(X, Y)
    honest = oe.DecisionEnsemble(world.models, feasible=world.omega).fit(X, Y)
    said, answer = paper.answer(fresh), honest.answer(fresh)
    return [
        *(said.promised.mean(), (said.actions * truth).sum(axis=1).mean()),
        *(answer.promised.mean(), (answer.actions * truth).sum(axis=1).mean()),
    ]


# Cross-fitting


def draw_folds() -> Figure:
    """Show for five folds which rows are learned from and which are judged."""
    figure = new_figure(WIDE, 2.5)
    axes = figure.subplots()
    for turn in range(5):
        for fold in range(5):
            held_out = turn == fold
            box = Rectangle((fold, -turn), 0.94, -0.78, facecolor=ORANGE if held_out else BLUE, linewidth=0)
            box.set_alpha(0.55 if held_out else 0.2)
            axes.add_patch(box)
            axes.text(fold + 0.47, -turn - 0.39, "judged" if held_out else "learned from", ha="center", va="center")
        axes.text(-0.15, -turn - 0.39, f"turn {turn + 1}", ha="right", va="center")
    axes.set(xlim=(-0.8, 5), ylim=(-4.9, 0.55))
    for fold in range(5):
        axes.text(fold + 0.47, 0.25, f"rows of fold {fold + 1}", ha="center", va="center", color=INK)
    axes.set_axis_off()
    return figure


# Promise and audit


def draw_promises() -> Figure:
    """Show promised and realised payoff of forty fits, each on its own rows."""
    world = make_world()
    figure = new_figure(WIDE, TALL)
    axes = figure.subplots()
    for number in range(1, 41):
        rng = np.random.default_rng([5, number])
        ensemble = oe.DecisionEnsemble(world.models, feasible=world.omega).fit(*world.draw(400, rng))
        X, Y = world.draw(200, rng)
        promise, earned = ensemble.promise(X), float((ensemble.decide(X) * Y).sum(axis=1).mean())
        kept = promise.low <= earned <= promise.high
        axes.plot([number] * 2, [promise.low, promise.high], color=PURPLE, linewidth=4, alpha=0.35)
        axes.plot(number, promise.mean, "_", color=PURPLE, markersize=8)
        axes.plot(number, earned, "o" if kept else "X", color=GREEN if kept else RED, markersize=5 if kept else 8)
    axes.plot([], [], color=PURPLE, linewidth=4, alpha=0.35, label="promised, 95 %")
    axes.plot([], [], "o", color=GREEN, label="earned: kept")
    axes.plot([], [], "X", color=RED, label="earned: not kept")
    axes.set(xlabel="fits on 400 rows, each with 200 new rows", ylabel="mean payoff of the new rows")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


# Promised against realised


def draw_promised_realised() -> Figure:
    """Promised against realised mean payoff on fresh rows: three ways to decide in each of twenty worlds."""
    found = _twenty_worlds()
    longest, highest = found[..., 0].max() * 1.05, found[..., 3].max() * 1.08
    figure = new_figure(WIDE, 3.6)
    axes = figure.subplots()
    axes.plot([0, highest], [0, highest], color=INK, linewidth=1, label="realised = promised")
    names = [
        "DecisionEnsemble,\nwith its 95 % interval",
        "the paper's white box,\nas printed",
        "the most confident\nmodel",
    ]
    for way, (name, colour, marker) in enumerate(zip(names, (GREEN, PURPLE, ORANGE), "os^", strict=True)):
        promised, low, high, realised = found[:, way].T
        axes.hlines(realised, low, high, color=colour, alpha=0.35, linewidth=3)
        axes.plot(promised, realised, marker, color=colour, markersize=5.5, label=name)
    axes.set(xlabel="promised mean payoff of 2,000 fresh rows", ylabel="realised mean payoff")
    axes.set(xlim=(0, longest), ylim=(0, highest))
    figure.legend(loc="outside right center", labelspacing=1.2)
    return figure


def promised_realised_in_numbers() -> str:
    """Return what the pages say of this picture."""
    promised, low, high, realised = np.moveaxis(_twenty_worlds(), 2, 0)
    kept = ((low <= realised) & (realised <= high))[:, 0].sum()
    paper, boldest = ((promised / realised)[:, way] for way in (1, 2))
    return (
        f"DecisionEnsemble's interval held in {kept} of {len(realised)} worlds; the most confident model promised "
        f"{boldest.min():.1f} to {boldest.max():.1f} times what it earned, the white box {paper.min():.1f} to "
        f"{paper.max():.1f} times\n"
    )


@cache
def _twenty_worlds() -> Floats:
    return np.array([_three_ways(seed) for seed in range(20)])


def _three_ways(seed: int) -> list[list[float]]:
    """Return promise, its limits and the realised payoff of each way; a self-assessment has no limits but itself."""
    rng = np.random.default_rng([6, seed])
    world = _world(rng.normal(size=(6, 4)) * rng.uniform(0.2, 1.0), rng.permutation([3.0, 1.5, 0.5]).tolist())
    X, Y = world.draw(400, rng)
    fresh, truth = world.draw(2000, rng)
    honest = oe.DecisionEnsemble(world.models, feasible=world.omega).fit(X, Y)
    promise = honest.promise(fresh)
    paper = oe.WhiteBoxEnsemble(world.models, world.omega, validation=None).fit(X, Y).answer(fresh)
    said = np.array([model(fresh) for _, model in world.models])
    actions = np.array([world.omega.argmax(predictions) for predictions in said])
    assessed, rows = (actions * said).sum(axis=2), np.arange(len(fresh))
    boldest = assessed.argmax(axis=0)
    ways = [
        ([promise.mean, promise.low, promise.high], honest.decide(fresh)),
        ([float(paper.promised.mean())] * 3, paper.actions),
        ([float(assessed.max(axis=0).mean())] * 3, actions[boldest, rows]),
    ]
    return [[*promised, float((taken * truth).sum(axis=1).mean())] for promised, taken in ways]


# Plots from Python


def draw_plots() -> Figure:
    """Draw a leaderboard and an audit as the methods of ensembles and audits do, into axes of one figure."""
    world, rng = make_world(), np.random.default_rng(7)
    ensemble = oe.DecisionEnsemble(world.models, feasible=world.omega).fit(*world.draw(600, rng))
    audit = ensemble.audit(*world.draw(400, rng))
    figure = new_figure(WIDE, TALL)
    left, right = figure.subplots(1, 2)
    ensemble.plot_leaderboard(left).set_title("ensemble.plot_leaderboard(ax)")
    audit.plot(right).set_title("audit.plot(ax)")
    return figure


# Learning while deciding


class Vendors(NamedTuple):
    """Four vendors' forecasts of what four goods earn: correlated with it, each as much as its quality says."""

    reliable: Floats

    @property
    def models(self) -> list[tuple[str, Model]]:
        """The vendors' forecasts, which are columns of the rows."""
        return [(f"vendor {name}", _forecast_by(number)) for number, name in enumerate("ABCD")]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return rows and labels."""
        signal, noise = rng.normal(size=(n, 1, 4)), rng.normal(size=(n, 4, 4))
        quality = self.reliable[:, None]
        forecasts = quality * signal + np.sqrt(1 - quality**2) * noise
        return forecasts.reshape(n, 16), signal[:, 0] + rng.normal(scale=0.5, size=(n, 4))

    def swapped(self) -> Vendors:
        """Return the same vendors when the best have become the worst."""
        return Vendors(self.reliable[::-1])


def _forecast_by(number: int) -> Model:
    return lambda X: X[:, 4 * number : 4 * number + 4]


VENDORS = Vendors(np.array([0.9, 0.7, 0.4, 0.1]))


class Looked(NamedTuple):
    """What was lost to the best policy, and its bound, after each batch of labels."""

    rows: Floats
    lost: Floats
    bound: Floats


def _followed(
    seed: list[int], breaks: Sequence[int], rows: int, *, fitted: int = 400, late: int = 0, play: str = "auto"
) -> tuple[oe.LiveEnsemble, Looked]:
    """Return an ensemble that went on learning over breaks at which vendors swap, and what it certified meanwhile."""
    rng = np.random.default_rng(seed)
    ensemble = oe.DecisionEnsemble(VENDORS.models, feasible=feasible.Simplex(4)).fit(*VENDORS.draw(fitted, rng))
    lengths = np.diff([0, *breaks, rows]).tolist()
    parts = [(VENDORS.swapped() if at % 2 else VENDORS).draw(length, rng) for at, length in enumerate(lengths)]
    X, Y = (np.concatenate(each) for each in zip(*parts, strict=True))
    live, told, step = oe.LiveEnsemble(ensemble, play=play), [(0.0, 0.0, 0.0)], 20
    for start in range(0, rows, step):
        live.decide(X[start : start + step], ids=range(start, start + step))
        if (known := start - late) >= 0:
            live.observe(ids=range(known, known + step), Y=Y[known : known + step])
            certificate = live.certificate()
            told.append((live.rows_, certificate["lost"].max(), certificate["bound"].max()))
    return live, Looked(*np.array(told).T)


def draw_live() -> Figure:
    """Draw a live ensemble over a break at which vendors swap, as its method does."""
    live, _ = _followed([8, 0], breaks=[480], rows=1040, fitted=1000)
    figure = live.plot(new_figure(WIDE, 7.8))
    for axes in figure.axes:
        axes.axvline(480, color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)))
    figure.axes[0].annotate("break", (480, 0.02), (4, 0), ("data", "axes fraction"), "offset points", color=INK)
    return figure


def draw_certificate() -> Figure:
    """Show the regret against the best policy and its bound: three settings, each with four runs over two breaks."""
    settings: dict[str, dict[str, Any]] = {
        "labels at once": {},
        "labels 40 rows late": {"late": 40},
        "late, and one policy played": {"late": 40, "play": "heaviest"},
    }
    figure = new_figure(WIDE, TALL)
    for axes, (title, setting) in zip(figure.subplots(1, 3, sharey=True), settings.items(), strict=True):
        for run in range(4):
            breaks = np.sort(np.random.default_rng([9, run]).choice(np.arange(100, 1000, 20), 2, replace=False))
            _, (rows, lost, bound) = _followed([9, run], breaks.tolist(), 1200, **setting)
            axes.plot(rows, bound, color=PURPLE, linestyle="--", linewidth=1.2, label="bound")
            axes.plot(rows, lost, color=GREEN, linewidth=1.2, label="regret")
        axes.axhline(0, color=INK, linewidth=1)
        axes.set(title=title, xlabel="labelled rows")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
        axes.xaxis.set_major_formatter("{x:,.0f}")
    figure.axes[0].set_ylabel("regret against the best policy")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles[:2], labels[:2], loc="outside lower center", ncols=2)
    return figure


def draw_monitor() -> Figure:
    """Draw the evidence against an honest forecast, and against one that comes to promise too much."""
    figure = new_figure(WIDE, TALL)
    panels = figure.subplots(1, 2, sharey=True)
    titles = ["an honest forecast", "half an sd lower from row 1,000"]
    for axes, title, drop in zip(panels, titles, (0.0, 0.5), strict=True):
        rng = np.random.default_rng(10)
        promised = rng.normal(1.0, 0.5, size=1500)
        realised = promised + rng.standard_t(4, size=1500) / np.sqrt(2) - drop * (np.arange(1500) >= 1000)
        oe.Monitor(sigma=1.0).observe(promised, realised).plot(axes).set(title=title)
        axes.get_legend().remove()
    panels[1].set_ylabel("")
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "decision": draw_decision,
    "curse": draw_curse,
    "cells": draw_cells,
    "rows": draw_rows,
    "folds": draw_folds,
    "promises": draw_promises,
    "promised_realised": draw_promised_realised,
    "plots": draw_plots,
    "live": draw_live,
    "certificate": draw_certificate,
    "monitor": draw_monitor,
}
FRONT = "promised_realised"
"""The picture of the README, where it is a PNG on white: GitHub's dark pages would hide dark lines."""


def main(folder: Path = FOLDER) -> None:
    """Draw all pictures, and print what pages say of them; the same versions give the same files."""
    for name, draw in PICTURES.items():
        with style():
            figure = draw()
            drawing = inline_svg(figure, name, name)
            if name == FRONT:
                (folder / f"{name}.png").write_bytes(png(figure))
        (folder / f"{name}.svg").write_text(f"{drawing}\n", encoding="utf-8")
    sys.stdout.write(promised_realised_in_numbers())


if __name__ == "__main__":
    main()
