"""Learning while deciding: what LiveEnsemble earns in simulated worlds, beside refits and the ensemble left as it is.

    python benchmarks/live.py                                  all of it, about ten minutes
    python benchmarks/live.py --quick                          two seeds, only to see that it works
    python benchmarks/live.py --worlds abrupt switching --delays 0 24 --seeds 30
    python benchmarks/live.py --variants                       changes of several strengths, at several times

400 rows are fitted on, 720 decided one after the other; the label of a row comes as many rows late as the delay says.
Worlds are those of `worlds.py`: stationary, with an abrupt break, drifting, switching back and forth, and one with an
adversary (spite), who sees what LiveEnsemble's policies propose and how they weigh, and takes payoff from what only
the heaviest of them chose. These labels are then given to the other methods as they are.

frozen         DecisionEnsemble as it was fitted
refit          fitted again every 120 rows, on all labels known by then
rolling        fitted again every 60 rows, on the last 200 rows whose labels are known by then
average        the mean of the models' forecasts
best member    the model that earned most on the test rows, in hindsight
live           LiveEnsemble with its defaults
- refitted     what the latest fit of LiveEnsemble would have earned by itself
- online       what its online stack would have earned by itself

Payoffs are in points, percent of the way from deciding by the mean label of the fitting rows to foresight on the test
rows, with standard errors over seeds. The script fails if a certificate is broken, or if what is asked for is missed in
the mean over delays; single delays are printed beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from honesty import show
from threadpoolctl import threadpool_limits
from worlds import ABRUPT, KINDS, MODELS, OMEGA, SPITE, STATIONARY, SWITCHING, Change, D, Floats, Rows, draw

import optensemble as oe

DELAYS = (0, 6, 24)
FROZEN, REFIT, ROLLING, AVERAGE, BEST, LIVE, REFITTED, ONLINE = METHODS = (
    "frozen",
    "refit",
    "rolling",
    "average",
    "best member",
    "live",
    "- refitted",
    "- online",
)

BLOCK, LATEST = 120, 200
"""Rows between two refits, and those that a rolling refit has; it comes twice as often."""

ROUNDING = 1e-6  # points

REQUIREMENTS = ((ABRUPT, REFIT, 7.0), (STATIONARY, FROZEN, -0.5), (SWITCHING, REFIT, -1.0))
"""By how many points LiveEnsemble is to be ahead, of what, and where."""

VARIANTS = (
    *(Change(ABRUPT, strength=strength, shift=shift) for strength in (1.0, 0.75, 0.5) for shift in (0.0, 0.5, 1.0)),
    *(Change(ABRUPT, at=at) for at in (1 / 6, 1 / 3, 1 / 2, 2 / 3)),
    *(Change(SWITCHING, strength=strength, shift=shift) for strength in (1.0, 0.5) for shift in (0.0, 0.5, 1.0)),
    *(Change(SWITCHING, turn=turn) for turn in ((15, 25), (30, 50), (120, 200))),
)


def ensemble_of(rows: Rows) -> oe.DecisionEnsemble:
    """Return an ensemble of all models, fitted on rows in time order."""
    models = [(f"model {m}", oe.Columns(list(range(D * m, D * (m + 1))))) for m in range(MODELS)]
    return oe.DecisionEnsemble(models, feasible=OMEGA).fit(rows.said, rows.labels, time_ordered=True)


def known_before(row: int, delay: int) -> int:
    """Return of how many rows the labels are known when a row is decided."""
    return max(row - delay, 0)


def refit_in_blocks(
    frozen: oe.DecisionEnsemble, fitting: Rows, test: Rows, delay: int, block: int, latest: int | None = None
) -> Floats:
    """Return the actions of an ensemble that is fitted again before every block of rows, on the latest ones or all."""
    parts = [np.asarray(frozen.decide(test.said[:block]))]
    for begin in range(block, len(test), block):
        known = fitting.joined(test, known_before(begin, delay))
        again = ensemble_of(known if latest is None else known.last(latest))
        parts.append(np.asarray(again.decide(test.said[begin : begin + block])))
    return np.vstack(parts)


@dataclass(frozen=True, eq=False)
class Decided:
    """What a LiveEnsemble did, what it promised, and the labels that came: an adversary may have changed them."""

    live: oe.LiveEnsemble
    actions: Floats
    promised: Floats
    weights: Floats
    labels: Floats


def decide_live(frozen: oe.DecisionEnsemble, test: Rows, delay: int, spite: float) -> Decided:
    """Let a LiveEnsemble decide row by row, and give it each label when it is known; at the end, all of them."""
    live, labels = oe.LiveEnsemble(frozen), test.labels.copy()
    actions, promised, weights = np.empty(labels.shape), np.empty(len(test)), np.empty((len(test), 3))
    for row in range(len(test)):
        if row > delay:
            live.observe(ids=[row - delay - 1], Y=labels[row - delay - 1 : row - delay])
        said = test.said[row : row + 1]
        answer = live.answer(said, ids=[row])
        actions[row], promised[row], weights[row] = answer.actions[0], answer.promised[0], answer.chosen[0]
        if spite:
            labels[row] -= spite * _beyond_others(live, answer, said)
    late = range(max(len(test) - delay - 1, 0), len(test))
    live.observe(ids=late, Y=labels[late.start :])
    return Decided(live, actions, promised, weights, labels)


def _beyond_others(live: oe.LiveEnsemble, answer: oe.LiveAnswer, said: Floats) -> Floats:
    """Return by how much the action of the heaviest policy exceeds the mean of the others', of one row.

    The mixture is of the fitted, the refitted and the online policy. What the first two do can be asked, and the third
    follows from what was played; where it weighs too little for that, it counts as if it did what was played.
    """
    weights, played = answer.chosen[0], answer.actions[0]
    asked = np.stack([np.asarray(fit.decide(said))[0] for fit in (live.ensemble_, live.refitted_)])
    online = (played - weights[:2] @ asked) / weights[2] if weights[2] > 0.01 else played
    actions = np.vstack([asked, online])
    heaviest = int(weights.argmax())
    return np.asarray(actions[heaviest] - np.delete(actions, heaviest, axis=0).mean(axis=0))


@dataclass(frozen=True, eq=False)
class Run:
    """One world with one delay and seed, in points.

    Attributes
    ----------
    points
        By method.
    bound, lost
        The certificate's bound, and what was lost to the best policy.
    beyond
        By how much the bound was exceeded, by our own account of what was lost to the fitted ensemble.
    error
        The mean of realised less promised payoffs.
    weights
        The mean weight of each policy.
    refits
        Their number.
    """

    points: dict[str, float]
    bound: float
    lost: float
    beyond: float
    error: float
    weights: Floats
    refits: int


def play(change: Change, seed: int, delay: int) -> Run:
    """Draw a world, have all methods decide in it, and score them."""
    fitting, test = draw(change, seed)
    frozen = ensemble_of(fitting)
    decided = decide_live(frozen, test, delay, change.spite if change.kind == SPITE else 0.0)
    test = Rows(test.said, decided.labels)
    members = [test.said[:, D * m : D * (m + 1)] for m in range(MODELS)]
    actions = {
        FROZEN: np.asarray(frozen.decide(test.said)),
        REFIT: refit_in_blocks(frozen, fitting, test, delay, BLOCK),
        ROLLING: refit_in_blocks(frozen, fitting, test, delay, BLOCK // 2, LATEST),
        AVERAGE: OMEGA.argmax(np.mean(members, axis=0)),
        LIVE: decided.actions,
    }
    earned = {name: _mean_payoff(each, test) for name, each in actions.items()}
    earned[BEST] = max(_mean_payoff(OMEGA.argmax(np.ascontiguousarray(said)), test) for said in members)
    history = decided.live.history_
    for name, policy in ((REFITTED, "refitted"), (ONLINE, "online stack")):
        earned[name] = float(history[policy].sum()) / len(test)
    floor = _mean_payoff(np.tile(OMEGA.argmax(fitting.labels.mean(axis=0)[None]), (len(test), 1)), test)
    unit = 100 / (_mean_payoff(OMEGA.argmax(test.labels), test) - floor)
    certificate = decided.live.certificate()
    bound, own = float(certificate["bound_per_row"].iloc[0]), earned[FROZEN] - earned[LIVE]
    return Run(
        points={name: unit * (each - floor) for name, each in earned.items()},
        bound=unit * bound,
        lost=unit * float(certificate["lost_per_row"].max()),
        beyond=unit * (max(own, float(certificate["lost_per_row"].max())) - bound),
        error=unit * (earned[LIVE] - float(decided.promised.mean())),
        weights=decided.weights.mean(axis=0),
        refits=int((decided.live.refits_["taken_up"] < len(test)).sum()),
    )


def _mean_payoff(actions: Floats, rows: Rows) -> float:
    return float((actions * rows.labels).sum(axis=1).mean())


# What is printed


Runs = dict[tuple[str, int], list[Run]]
"""The runs of all seeds, by world and delay."""


def with_error(values: Floats) -> str:
    """Return a mean with its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.2f} ± {error:.2f}"


def points(runs: list[Run], method: str) -> Floats:
    """Return what a method earned, by seed."""
    return np.array([run.points[method] for run in runs])


def lead(runs: list[Run], method: str) -> Floats:
    """Return by how many points LiveEnsemble is ahead of a method, by seed."""
    return points(runs, LIVE) - points(runs, method)


def show_points(found: Runs, seeds: int) -> None:
    """Print what methods earned."""
    rows = [
        [kind, str(delay), *(with_error(points(runs, name)) for name in METHODS)]
        for (kind, delay), runs in found.items()
    ]
    title = f"Points: percent of the way from the mean label to foresight, {seeds} seeds"
    show(title, ["world", "delay", *METHODS], rows)


def show_live(found: Runs) -> None:
    """Print what LiveEnsemble says of itself, and how it weighs its policies."""
    rows = []
    for (kind, delay), runs in found.items():
        values = {name: np.array([getattr(run, name) for run in runs]) for name in ("bound", "lost", "error", "refits")}
        weights = np.mean([run.weights for run in runs], axis=0)
        rows.append(
            [
                kind,
                str(delay),
                with_error(lead(runs, FROZEN)),
                with_error(lead(runs, REFIT)),
                with_error(lead(runs, ROLLING)),
                f"{values['bound'].mean():.2f}",
                f"{values['lost'].mean():.2f}",
                f"{sum(run.beyond > ROUNDING for run in runs)}/{len(runs)}",
                with_error(values["error"]),
                f"{np.abs(values['error']).mean():.2f}",
                " ".join(f"{weight:.2f}" for weight in weights),
                f"{values['refits'].mean():.1f}",
            ]
        )
    columns = [
        "− frozen",
        "− refit",
        "− rolling",
        "bound",
        "lost",
        "beyond",
        "promise error",
        "size",
        "weights",
        "refits",
    ]
    title = (
        "LiveEnsemble, in points: its lead; the certificate's bound, what was lost to the best policy, and the runs in "
        "which more was lost; realised less promised, and the mean size of that; mean weights: fitted, refitted, online"
    )
    show(title, ["world", "delay", *columns], rows)


def show_requirements(found: Runs) -> bool:
    """Print what is asked for beside what was measured, for each delay and their mean; return whether means meet it."""
    rows, met = [], True
    for kind, method, least in REQUIREMENTS:
        leads = {delay: lead(runs, method) for (world, delay), runs in found.items() if world == kind}
        pooled = {"all delays": np.mean(list(leads.values()), axis=0)} if leads else {}
        for delay, ahead in [*leads.items(), *pooled.items()]:
            verdict = "met" if ahead.mean() >= least else "MISSED"
            met &= verdict == "met" or delay not in pooled
            rows.append([kind, str(delay), f"live − {method}", f"≥ {least:+g}", with_error(ahead), verdict])
    if rows:
        show("Asked for and measured, in points", ["world", "delay", "difference", "asked for", "measured", ""], rows)
    return met


def show_variants(delays: list[int], seeds: int) -> None:
    """Print the lead where changes are of different strengths, and at different times."""
    rows = []
    for change in VARIANTS:
        when = f"{change.turn[0]}–{change.turn[1]} rows" if change.kind == SWITCHING else "drawn"
        when = when if change.at is None else f"{change.at:.0%}"
        for delay in delays:
            runs = [play(change, seed, delay) for seed in range(seeds)]
            row = [change.kind, f"{change.strength:g}", f"{change.shift:g}", when, str(delay)]
            row += [f"{points(runs, name).mean():.1f}" for name in METHODS]
            rows.append([*row, with_error(lead(runs, FROZEN)), with_error(lead(runs, REFIT))])
            print(f"  {' '.join(row[:5])}: {rows[-1][-1]}", file=sys.stderr, flush=True)
    columns = ["world", "strength", "shift", "when", "delay", *METHODS, "− frozen", "− refit"]
    show(f"Variants of change, {seeds} seeds, in points; the lead of LiveEnsemble", columns, rows)


def play_all(
    kinds: list[str], delays: list[int], seeds: int, change: Change
) -> Iterator[tuple[tuple[str, int], list[Run]]]:
    """Play all worlds with all delays."""
    for kind in kinds:
        for delay in delays:
            begun = time.perf_counter()
            runs = [play(replace(change, kind=kind), seed, delay) for seed in range(seeds)]
            print(f"  {kind}, delay {delay}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
            yield (kind, delay), runs


def main() -> int:
    """Play, and print what came of it; return 1 if something asked for is missed, or a bound broken."""
    usual = Change(ABRUPT)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--delays", nargs="+", type=int, default=list(DELAYS), help="rows that labels are late")
    parser.add_argument("--seeds", type=int, default=20, help="how many worlds of each kind")
    parser.add_argument("--strength", type=float, default=usual.strength, help="of the change of skills; 1 swaps them")
    parser.add_argument("--shift", type=float, default=usual.shift, help="of the level, in sd of the signal")
    parser.add_argument("--at", type=float, help="where an abrupt break comes, as a share of the test rows")
    parser.add_argument("--spite", type=float, default=usual.spite, help="of the adversary, in sd of the signal")
    parser.add_argument("--variants", action="store_true", help="changes of several strengths and times instead")
    parser.add_argument("--quick", action="store_true", help="two seeds, delays of 0 and 24, only to see that it works")
    given = parser.parse_args()
    delays, seeds = ([0, 24], 2) if given.quick else (given.delays, given.seeds)
    if given.variants:
        show_variants(delays, seeds)
        return 0
    change = Change(ABRUPT, given.strength, given.shift, given.at, spite=given.spite)
    found = dict(play_all(given.worlds, delays, seeds, change))
    show_points(found, seeds)
    show_live(found)
    broken = any(run.beyond > ROUNDING for runs in found.values() for run in runs)
    return int(not show_requirements(found) or broken)


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
