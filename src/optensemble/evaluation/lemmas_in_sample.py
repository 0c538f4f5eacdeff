"""The guarantees as a table: beside each bound what was observed on the fitting rows, and whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from optensemble import guarantees
from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import cell_sums, row_dots
from optensemble.feasible import FeasibleSet
from optensemble.members.subgroups import Titles
from optensemble.multicalibration.loop import Run
from optensemble.multicalibration.state import Situation

Row = tuple[str, str, float, float]

_ROUNDING = 1e-9  # relative: what sums over many rows may differ by


@dataclass(frozen=True)
class Setting:
    """What every bound is a function of, and how the fit went.

    ``before`` and ``after`` are the models' squared errors, ``drop`` is what Lemma 1 says they fell by in all,
    ``patches`` counts for each model, and ``rounds`` in all, those that removed a violation above α. The fit was
    ``consistent`` if it ended with every cell within α, and ``exact`` if its patches were not shrunk.
    """

    alpha: float
    width: float
    M: float
    M_h: float
    span: float
    reach: float
    before: list[float]
    after: list[float]
    drop: float
    patches: list[int]
    rounds: int
    consistent: bool
    exact: bool

    def bound(self, lemma: Callable[..., float], *args: float) -> float:
        """Evaluate a bound in its general form."""
        return lemma(self.alpha, self.width, self.span, self.M, self.M_h, *args, reach=self.reach)


def observe(
    situation: Situation,
    run: Run,
    history: pd.DataFrame,
    omega: FeasibleSet,
    alpha: float,
    width: float,
    M: float,
    worst: float,
) -> Setting:
    """Gather what the bounds are a function of, from a fit and the history it left; ``worst`` is over all cells."""
    errors = history.filter(like="squared_error_").to_numpy()
    violation = history["worst_violation"].to_numpy()
    return Setting(
        alpha=alpha,
        width=width,
        M=M,
        M_h=float(np.abs(situation.predictions).max()),
        span=omega.span,
        reach=omega.reach,
        before=errors[0].tolist(),
        after=errors[-1].tolist(),
        drop=run.drop,
        patches=run.patches.tolist(),
        rounds=int((violation[:-1] > alpha).sum()),
        consistent=worst <= alpha,
        exact=run.exact,
    )


def white_box_table(
    situation: Situation, labels: Floats, setting: Setting, sign: float, names: list[str]
) -> pd.DataFrame:
    """Lemmas 1, 2 (with 5) and 6 to 9."""
    return _table([*_course(setting, names), *_white_box_rows(situation, labels, setting, sign)], setting)


def _white_box_rows(situation: Situation, labels: Floats, setting: Setting, sign: float) -> Iterator[Row]:
    k = len(situation.predictions)
    realised = sign * np.stack([row_dots(actions, labels) for actions in situation.actions])
    promised = sign * float(situation.taken(situation.assessed).mean())
    earned = float(situation.taken(realised).mean())
    pointwise = float((sign * situation.assessed).max(axis=0).mean())
    # the best φ follows, wherever i was followed, whoever earned the most there
    swapped = np.stack([np.bincount(situation.winner, row, minlength=k) for row in realised]).max(axis=0)
    most = guarantees.lemma_6(setting.alpha, setting.before)
    gap, short = setting.bound(guarantees.lemma_7, k), setting.bound(guarantees.lemma_8, k)
    regret = setting.bound(guarantees.lemma_9, k)
    yield "Lemma 6", "rounds that removed a violation", most, setting.rounds
    yield "Lemma 7", "|promised − realised|", gap, abs(promised - earned)
    yield "Lemma 8", "pointwise best self-assessment − realised", short, pointwise - earned
    yield "Lemma 9", "best swap of models − realised", regret, swapped.sum() / len(labels) - earned


def black_box_table(
    situation: Situation, labels: Floats, setting: Setting, sign: float, names: list[str], cells: pd.DataFrame
) -> pd.DataFrame:
    """Lemmas 1, 2 (with 5), 3, 4 and 10, and Corollary 1; ``cells`` is the comparison behind Lemma 10."""
    rows = [*_course(setting, names[-1:]), *_black_box_rows(situation, labels, setting, sign, names)]
    tightest = cells.iloc[int((cells["bound"] - cells["observed"]).to_numpy().argmin())]
    worst = f"payoff of {tightest['policy']} − realised, where {tightest['cell']}"
    rows.append(("Lemma 10", worst, tightest["bound"], tightest["observed"]))
    table = _table(rows, setting)
    table.loc[table["lemma"] == "Lemma 10", "guaranteed"] = tightest["guaranteed"]
    return table


def _black_box_rows(
    situation: Situation, labels: Floats, setting: Setting, sign: float, names: list[str]
) -> Iterator[Row]:
    promised = (sign * situation.assessed).mean(axis=1)
    earned = np.array([sign * row_dots(actions, labels).mean() for actions in situation.actions])
    gap, self_gap = setting.bound(guarantees.lemma_3), setting.bound(guarantees.corollary_1)
    regret = setting.bound(guarantees.lemma_4)
    *policies, own = range(len(names))
    for p in policies:
        yield "Lemma 3", f"|E[π·h] − E[π·y]| of {names[p]}", gap, abs(promised[p] - earned[p])
    yield "Corollary 1", "|promised − realised|", self_gap, abs(promised[own] - earned[own])
    for p in policies:
        yield "Lemma 4", f"payoff of {names[p]} − realised", regret, earned[p] - earned[own]


def conditional_utility(
    situation: Situation,
    labels: Floats,
    setting: Setting,
    sign: float,
    names: list[str],
    buckets: Buckets,
    groups: Titles,
    *,
    conditional: bool,
) -> pd.DataFrame:
    """Compare the ensemble with the best given policy on every level set and group that has rows (Lemma 10).

    This is guaranteed where ``conditional`` cells were among those within α.
    """
    realised = sign * np.stack([row_dots(actions, labels) for actions in situation.actions])
    gain = np.ascontiguousarray((realised[:-1] - realised[-1]).T)
    parts, found = situation.parts(0), []
    for partition, titles in _partitions(buckets, groups, names[:-1]):
        counts, sums = cell_sums(parts[partition].astype(np.int64), gain, len(titles))
        for cell in np.flatnonzero(counts):
            best, probability = int(sums[cell].argmax()), counts[cell] / len(gain)
            bound, observed = setting.bound(guarantees.lemma_10, probability), sums[cell, best] / counts[cell]
            found.append((titles[cell], int(counts[cell]), names[best], bound, observed))
    table = pd.DataFrame(found, columns=["cell", "rows", "policy", "bound", "observed"])
    return table.assign(
        holds=table["observed"] <= table["bound"] + _rounding(setting), guaranteed=conditional and setting.consistent
    )


def _partitions(buckets: Buckets, groups: Titles, policies: list[str]) -> Iterator[tuple[int, list[str]]]:
    """List the partitions of a black box that are conditioned on, and name their parts; ``d`` is the winner's."""
    d = len(buckets.lower)
    yield from ((j, [f"own action[{j}] {bucket}" for bucket in buckets.names(j)]) for j in range(d))
    yield from _group_partitions(d, groups)
    for number, (policy, j) in enumerate(product(policies, range(d)), start=d + 1 + len(groups)):
        yield number, [f"action[{j}] of {policy} {bucket}" for bucket in buckets.names(j)]


def _group_partitions(d: int, groups: Titles) -> Iterator[tuple[int, list[str]]]:
    return ((d + 1 + column, list(titles)) for column, titles in enumerate(groups))


def audited_partitions(
    situation: Situation, buckets: Buckets, groups: Titles, names: list[str]
) -> list[tuple[list[str], Indices]]:
    """Return the partitions behind the cells that decide: the names of their parts, and the part of every row.

    Of a white box the level sets of the action taken, crossed with whose it is; of a black box its own and every given
    policy's; and the user's groups.
    """
    parts = situation.parts(0)
    if situation.given:
        found = [(titles, parts[number]) for number, titles in _partitions(buckets, groups, names[:-1])]
    else:
        found = [([f"{name} followed" for name in names], situation.winner)]
        levels = buckets(situation.taken(situation.actions))
        for j, size in enumerate(buckets.sizes):
            titles = [f"{name} followed, action[{j}] {bucket}" for name in names for bucket in buckets.names(j)]
            found.append((titles, situation.winner * size + levels[:, j]))
        found += [(titles, parts[number]) for number, titles in _group_partitions(len(buckets.lower), groups)]
    return [(titles, part.astype(np.int64)) for titles, part in found]


def _course(setting: Setting, names: list[str]) -> Iterator[Row]:
    fell = sum(setting.before) - sum(setting.after)
    yield "Lemma 1", "drop of squared error, all models", setting.drop, fell
    for name, before, patches in zip(names, setting.before, setting.patches, strict=True):
        yield "Lemma 2", f"patches of {name} (Lemma 5 too)", guarantees.lemma_2(setting.alpha, before), patches


def _table(rows: list[Row], setting: Setting) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["lemma", "quantity", "bound", "observed"])
    lemma = table["lemma"]
    within = table["observed"] <= table["bound"] + _rounding(setting)
    equal = (table["observed"] - table["bound"]).abs() <= 1e-6 * sum(setting.before)
    # convergence is bounded whatever happens, unless patches are shrunk; utility once every cell is within alpha
    guaranteed = (lemma == "Lemma 1") | (lemma.isin(["Lemma 2", "Lemma 6"]) & setting.exact)
    utility = ~lemma.isin(["Lemma 1", "Lemma 2", "Lemma 6"]) & setting.consistent
    return table.assign(holds=within.where(lemma != "Lemma 1", equal), guaranteed=guaranteed | utility)


def _rounding(setting: Setting) -> float:
    return _ROUNDING * (setting.M + setting.M_h) * setting.reach
