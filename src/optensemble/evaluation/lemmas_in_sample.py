"""The lemmas in sample: beside each bound the observation on the fitting rows, and whether the bound holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from optensemble import guarantees
from optensemble._core.deferred import pd
from optensemble.evaluation.audit_inputs import AuditedPartition
from optensemble.evaluation.fitting_sums import FittingSums, compared_partitions
from optensemble.feasible import FeasibleSet
from optensemble.multicalibration.cell_names import CellName, Coordinates
from optensemble.multicalibration.events import Partitions, PartNames
from optensemble.multicalibration.loop import Run
from optensemble.multicalibration.state import Situation

LemmaLine = tuple[str, str, float, float]
"""The lemma, the quantity it bounds, the bound, and the observation."""

_SUM_ROUNDING = 1e-9  # relative: what sums over many rows may differ by


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


@dataclass(frozen=True)
class PaperOutcome:
    """A fit of one of the paper's algorithms, as its lemmas see it.

    Attributes
    ----------
    sums
        The state in the end, summed up over the fitting rows.
    run
        The outcome of the loop.
    before, after
        The squared error of each model before and after.
    rounds
        The number of rounds that removed a violation above α.
    worst
        The worst violation left, over all cells.
    names
        Of the contenders.
    parts
        The partitions and the names of their parts.
    coordinates
        The names of the coordinates of an action, if they have any.
    """

    sums: FittingSums
    run: Run
    before: list[float]
    after: list[float]
    rounds: int
    worst: float
    names: list[str]
    parts: tuple[Partitions, PartNames]
    coordinates: Coordinates = ()

    def setting(self, omega: FeasibleSet, alpha: float, width: float, M: float) -> Setting:
        """Return what the bounds are functions of."""
        return Setting(
            alpha=alpha,
            width=width,
            M=M,
            M_h=self.sums.largest,
            span=omega.span,
            reach=omega.reach,
            before=self.before,
            after=self.after,
            drop=self.run.drop,
            patches=self.run.patches.tolist(),
            rounds=self.rounds,
            consistent=self.worst <= alpha,
            exact=self.run.exact,
        )


def white_box_table(outcome: PaperOutcome, setting: Setting) -> pd.DataFrame:
    """Lemmas 1, 2 (with 5) and 6 to 9."""
    return _lemma_table([*_course(setting, outcome.names), *_white_box_lemmas(outcome, setting)], setting)


def _white_box_lemmas(outcome: PaperOutcome, setting: Setting) -> Iterator[LemmaLine]:
    sums, n, k = outcome.sums, outcome.sums.rows, len(outcome.names)
    promised, earned, pointwise = sums.promised / n, sums.earned / n, sums.pointwise / n
    # the best φ follows, wherever i was followed, the model that earned the most there
    swapped = sums.swapped.max(axis=0)
    most = guarantees.lemma_6(setting.alpha, setting.before)
    gap, short = setting.bound(guarantees.lemma_7, k), setting.bound(guarantees.lemma_8, k)
    regret = setting.bound(guarantees.lemma_9, k)
    yield "Lemma 6", "rounds that removed a violation", most, setting.rounds
    yield "Lemma 7", "|promised − realised|", gap, abs(promised - earned)
    yield "Lemma 8", "pointwise best self-assessment − realised", short, pointwise - earned
    yield "Lemma 9", "best swap of models − realised", regret, swapped.sum() / n - earned


def black_box_table(outcome: PaperOutcome, setting: Setting, cells: pd.DataFrame) -> pd.DataFrame:
    """Lemmas 1, 2 (with 5), 3, 4 and 10, and Corollary 1; ``cells`` is the comparison behind Lemma 10."""
    rows = [*_course(setting, outcome.names[-1:]), *_black_box_lemmas(outcome, setting)]
    tightest = cells.iloc[int((cells["bound"] - cells["observed"]).to_numpy().argmin())]
    worst = f"payoff of {tightest['policy']} − realised, where {tightest['cell']}"
    rows.append(("Lemma 10", worst, tightest["bound"], tightest["observed"]))
    table = _lemma_table(rows, setting)
    table.loc[table["lemma"] == "Lemma 10", "guaranteed"] = tightest["guaranteed"]
    return table


def _black_box_lemmas(outcome: PaperOutcome, setting: Setting) -> Iterator[LemmaLine]:
    sums, names = outcome.sums, outcome.names
    promised, earned = sums.assessed / sums.rows, sums.realised / sums.rows
    gap, self_gap = setting.bound(guarantees.lemma_3), setting.bound(guarantees.corollary_1)
    regret = setting.bound(guarantees.lemma_4)
    *policies, own = range(len(names))
    for p in policies:
        yield "Lemma 3", f"|E[π·h] − E[π·y]| of {names[p]}", gap, abs(promised[p] - earned[p])
    yield "Corollary 1", "|promised − realised|", self_gap, abs(promised[own] - earned[own])
    for p in policies:
        yield "Lemma 4", f"payoff of {names[p]} − realised", regret, earned[p] - earned[own]


def conditional_utility(outcome: PaperOutcome, setting: Setting, *, conditional: bool) -> pd.DataFrame:
    """Compare the ensemble with the best given policy on every level set and subgroup that has rows (Lemma 10).

    This is guaranteed where ``conditional`` cells were among those within α.
    """
    names, (partitions, part_names), found = outcome.names, outcome.parts, []
    for number, part in zip(compared_partitions(partitions), outcome.sums.parts, strict=True):
        counts, sums = part.counts, part.gains
        for cell in np.flatnonzero(counts).tolist():
            best, probability = int(sums[cell].argmax()), counts[cell] / outcome.sums.rows
            bound, observed = setting.bound(guarantees.lemma_10, probability), sums[cell, best] / counts[cell]
            cell_text = part_names[number][cell].text(outcome.coordinates)
            found.append((cell_text, int(counts[cell]), names[best], bound, observed))
    table = pd.DataFrame(found, columns=["cell", "rows", "policy", "bound", "observed"])
    return table.assign(
        holds=table["observed"] <= table["bound"] + _rounding(setting), guaranteed=conditional and setting.consistent
    )


def black_box_partitions(situation: Situation, partitions: Partitions, names: PartNames) -> Iterator[AuditedPartition]:
    """Return the level sets of the own policy, the subgroups, and the level sets of every given policy."""
    parts = situation.parts(0)
    for number in compared_partitions(partitions):
        yield [CellName((part,)) for part in names[number]], parts[number].astype(np.int64)


def white_box_partitions(situation: Situation, partitions: Partitions, names: PartNames) -> Iterator[AuditedPartition]:
    """Return the leaders, the level sets of the action taken crossed with them, and the subgroups."""
    parts, leaders = situation.parts(0), names[partitions.leader]
    yield [CellName((leader,)) for leader in leaders], situation.winner.astype(np.int64)
    for own in partitions.own:
        taken = situation.taken(situation.level[:, own])
        cells = [CellName((leader, level)) for leader in leaders for level in names[own]]
        yield cells, (situation.winner * partitions.levels[own] + taken).astype(np.int64)
    for number in partitions.subgroups:
        yield [CellName((part,)) for part in names[number]], parts[number].astype(np.int64)


def _course(setting: Setting, names: list[str]) -> Iterator[LemmaLine]:
    fell = sum(setting.before) - sum(setting.after)
    yield "Lemma 1", "drop of squared error, all models", setting.drop, fell
    for name, before, patches in zip(names, setting.before, setting.patches, strict=True):
        yield "Lemma 2", f"patches of {name} (Lemma 5 too)", guarantees.lemma_2(setting.alpha, before), patches


def _lemma_table(rows: list[LemmaLine], setting: Setting) -> pd.DataFrame:
    lemmas, quantities, bounds, observed = zip(*rows, strict=True)
    bound, found = np.array(bounds, dtype=np.float64), np.array(observed, dtype=np.float64)
    equal = np.array([lemma == "Lemma 1" for lemma in lemmas])
    course = np.array([lemma in ("Lemma 1", "Lemma 2", "Lemma 6") for lemma in lemmas])
    holds = np.where(equal, np.abs(found - bound) <= 1e-6 * sum(setting.before), found <= bound + _rounding(setting))
    # convergence is bounded whatever happens, unless patches are shrunk; utility once every cell is within alpha
    guaranteed = equal | np.where(course, setting.exact, setting.consistent)
    columns = {"lemma": list(lemmas), "quantity": list(quantities), "bound": bound, "observed": found}
    return pd.DataFrame({**columns, "holds": holds, "guaranteed": guaranteed})


def _rounding(setting: Setting) -> float:
    return _SUM_ROUNDING * (setting.M + setting.M_h) * setting.reach
