"""A fit in passes over blocks is the fit row by row: gates, forecasts, choice, winner, leaderboard, lemmas, record."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from optensemble import feasible
from optensemble._core.engine import Local
from optensemble._core.progress import silent
from optensemble.ensembles._decision_fit import DecisionData, DecisionFit, learn_decision
from optensemble.members import blocks
from optensemble.stacking.leaderboard import leaderboard_frame
from optensemble.stats.sampling import Sampling
from tests.problems import Floats, bucket
from tests.stacking import rowwise
from tests.stacking.passes import FitRows, Learned, outputs_of

OMEGA = feasible.Polytope(A_ub=[[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], b_ub=[1.35, 0.7])
MEMBERS = ["a", "b", "c"]


class Case(NamedTuple):
    """A world to fit on: which members are models, how rows depend on each other, and what there is to be found."""

    models: int
    n: int
    time_ordered: bool = False
    clustered: bool = False
    subgroups: bool = False
    bias: float = 0.0
    good: float = 0.7
    blind: bool = False
    sign: float = 1.0
    seed: int = 0


CASES = [
    Case(models=3, n=300),
    Case(models=3, n=300, bias=1.5, subgroups=True),
    Case(models=3, n=700, time_ordered=True, bias=2.0, sign=-1.0),
    Case(models=3, n=900, clustered=True, subgroups=True, bias=-1.0),
    Case(models=3, n=3000, bias=0.6, subgroups=True, seed=5),
    Case(models=3, n=1500, time_ordered=True, clustered=True, subgroups=True, bias=3.0),
    Case(models=0, n=300, subgroups=True),
    Case(models=0, n=800, time_ordered=True, bias=1.5),
    Case(models=0, n=1200, clustered=True, bias=-2.0, sign=-1.0),
    Case(models=0, n=2500, bias=1.0, subgroups=True, seed=3),
    Case(models=0, n=600, good=0.05),
    Case(models=2, n=400, good=0.02),
    Case(models=2, n=400, clustered=True, subgroups=True, bias=1.0, sign=-1.0),
    Case(models=2, n=1000, time_ordered=True, subgroups=True, bias=-2.0),
    Case(models=2, n=2000, bias=2.0),
    Case(models=1, n=500, bias=1.0, subgroups=True, seed=2),
    # where members know nothing, a baseline may beat all that
    Case(models=0, n=300, blind=True, seed=12),
    Case(models=0, n=300, blind=True, seed=29),
    Case(models=0, n=300, blind=True, seed=39),
]


def make_rows(case: Case) -> tuple[FitRows, rowwise.FitRows]:
    rng, n = np.random.default_rng(case.seed), case.n
    clusters = np.repeat(np.arange(n), rng.integers(1, 7, size=n))[:n].astype(np.int64) if case.clustered else None
    signal = rng.normal(size=(n, 3))
    if clusters is not None:
        signal += rng.normal(size=(n, 3))[clusters]
    noise = np.array([0.7, 1.0, case.good])  # the last member may know nearly everything
    seen = rng.normal(size=(n, 3)) if case.blind else signal
    predictions = seen * [[[1.0]], [[0.6]], [[1.0]]] + noise[:, None, None] * rng.normal(size=(3, n, 3))
    actions = np.stack([OMEGA.argmax(each) for each in predictions])
    labels = signal + 0.2 + 0.7 * rng.normal(size=(n, 3))
    labels[:, 0] += case.bias * (bucket(actions[1], OMEGA, 10)[:, 0] == 0)
    outputs = replace(outputs_of(predictions[: case.models].copy(), actions, OMEGA), sign=case.sign)
    if case.subgroups:
        regions = np.minimum(rng.geometric(0.4, size=n) - 1, 4).astype(np.int32)
        labels[:, 1] -= 0.8 * (regions == 1) * np.sign(case.bias)
        titles = (*(f"region={part}" for part in range(5)), "region unseen")
        outputs = outputs.in_subgroups(regions[None], (titles,))
    rows = FitRows.of(outputs, labels, Sampling(case.time_ordered, clusters), case.seed)
    fold = rows.design(0, n, rows.blocks.rows.groups).fold
    return rows, rowwise.FitRows(outputs, labels, fold, case.time_ordered, clusters, case.seed)


@cache
def fits(case: Case) -> tuple[Learned, DecisionFit, rowwise.Fit]:
    rows, plain = make_rows(case)
    data = DecisionData(rows.blocks, rows.design, rows.blocks.first, case.seed)
    return Learned.of(rows), learn_decision(MEMBERS, data, Local(), silent), rowwise.fit_rows(MEMBERS, plain)


def close(ours: Any, theirs: Any, what: str = "", size: float = 1.0) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * size, err_msg=what)


EVERY = pytest.mark.parametrize("case", CASES, ids=str)


@EVERY
def test_gates_open_and_close_by_the_same_numbers(case: Case) -> None:
    learned, _, plain = fits(case)
    assert len(learned.tests) == len(plain.patched.tests)
    for ours, theirs in zip(
        [learned.refinement, *learned.tests], [plain.refinement, *plain.patched.tests], strict=True
    ):
        close(ours.gain, theirs.gain, "gain")
        close(ours.error, theirs.error, "error")
        assert ours.passed == theirs.passed


@EVERY
def test_forecasts_are_the_same_out_of_fold_and_from_all_rows(case: Case) -> None:
    learned, fit, plain = fits(case)
    assert set(learned.forecasts) == set(plain.forecasts)
    for name, theirs in plain.forecasts.items():
        close(learned.forecasts[name], theirs, name)
    forecaster, linear = fit.policy.forecaster, plain.linear
    close(forecaster.stack.weights, linear.weights, "weights")
    features = learned.rows.outputs.features(forecaster.scale)
    close(features, plain.rows.features, "features")
    close(forecaster.mean, plain.rows.labels.mean(axis=0), "mean")
    close(forecaster.scale, plain.rows.labels.std(axis=0), "scale")
    close(forecaster.stack(features), linear.whole["stack"], "stack")
    close(forecaster.ridge(features), linear.whole["ridge"], "ridge")
    refined = forecaster.stack(features) + learned.linear.refinement(features)
    close(refined, linear.whole["refined"], "refined")
    assert (forecaster.refinement is None) == (not plain.refinement.passed)
    rounds = [] if forecaster.patch is None else forecaster.patch.rounds
    for (patch,), (kept, delta, counts) in zip(rounds, plain.patched.log, strict=True):
        assert patch.cells.tolist() == kept
        assert patch.rows.tolist() == counts
        close(patch.delta, delta, "patch")


@EVERY
def test_the_choice_and_the_winner_are_the_same(case: Case) -> None:
    _, fit, plain = fits(case)
    close(fit.policy.choice.constants, plain.choice.constants, "constants")
    close(fit.policy.choice.slopes, plain.choice.slopes, "slopes")
    assert fit.policy.winner == plain.winner
    assert fit.names == plain.names


@EVERY
def test_the_leaderboard_is_the_same(case: Case) -> None:
    _, fit, plain = fits(case)
    table = leaderboard_frame(fit.standings, {}).set_index("candidate")
    expected = list(plain.leaderboard())
    assert len(table) == len(expected)
    for line in expected:
        ours = table.loc[str(line["candidate"])]
        for column, value in line.items():
            if column == "followed":
                twins = plain.twins(str(line["candidate"]))  # rounding chooses among those that always do the same
                both = sum(float(str(each["followed"])) for each in expected if each["candidate"] in twins)
                close(table.loc[twins, "followed"].sum(), both, column)
            elif isinstance(value, (float, np.floating)):
                close(ours[column], value, column)
            elif column != "candidate":
                assert ours[column] == value


@EVERY
def test_the_finding_is_the_line_of_the_mean_label(case: Case) -> None:
    _, fit, plain = fits(case)
    gain, half, sure = plain.beyond_mean_label()
    said = re.search(r"(earns|costs) (\S+) (more|less).*\(95 %: (\S+) to (\S+)\)", fit.finding)
    if said is None:
        assert fit.finding.endswith("decides, in every row") == (fit.winner == "mean")
        assert fit.winner == "mean" or (gain, half) == (0, 0)
        return
    digits = len(said[2].partition(".")[2])
    better = (said[3] == "more") == (case.sign > 0)
    shown = [float(number.replace("−", "-")) for number in said.group(2, 4, 5)]
    size = gain if better else -gain
    assert shown == pytest.approx([size, size - half, size + half], abs=0.51 * 10**-digits)
    assert ("surely beat" in fit.finding or "not beat" in fit.finding) == (not sure)
    assert ("but was learned and selected among" in fit.finding) == (gain > half and not sure)


@EVERY
def test_the_lemmas_are_measured_to_the_same_numbers(case: Case) -> None:
    _, fit, plain = fits(case)
    expected = list(plain.guarantees())
    assert fit.guarantees["lemma"].tolist() == [lemma for lemma, *_ in expected]
    for column, values in zip(("bound", "observed", "low", "high"), list(zip(*expected, strict=True))[1:], strict=True):
        close(fit.guarantees[column].to_numpy(), np.array(values), column)


@EVERY
def test_the_record_is_the_same(case: Case) -> None:
    _, fit, plain = fits(case)
    sign, rows = case.sign, plain.rows
    advantage: tuple[Floats, Floats] = plain.beyond_members()
    for record, (assessed, realised) in ((fit.record, (plain.assessed, plain.realised)), (fit.advantage, advantage)):
        close(record.assessed, sign * assessed, "assessed")
        close(record.realised, sign * realised, "realised")
        close(record.curse, plain.curse, "curse")
        np.testing.assert_array_equal(record.folds, rows.fold)
        assert record.time_ordered == case.time_ordered
        assert (record.clusters is None) == (rows.clusters is None)
        if rows.clusters is not None:
            np.testing.assert_array_equal(record.clusters, rows.clusters)


@EVERY
def test_rows_that_are_put_in_the_order_of_their_chunks_teach_the_same_to_the_bit(case: Case) -> None:
    (rows, _), (_, fit, _) = make_rows(case), fits(case)
    before = rows.outputs.actions.copy()
    owned = replace(rows.blocks, owned=True)
    again = learn_decision(MEMBERS, DecisionData(owned, rows.design, owned.first, case.seed), Local(), silent)
    assert case.time_ordered or (rows.outputs.actions != before).any()
    assert fit.winner == again.winner
    for name in ("assessed", "realised", "folds"):
        np.testing.assert_array_equal(getattr(again.record, name), getattr(fit.record, name))
        np.testing.assert_array_equal(getattr(again.advantage, name), getattr(fit.advantage, name))
    assert again.standings == fit.standings
    pd.testing.assert_frame_equal(again.guarantees, fit.guarantees, check_exact=True)


@pytest.mark.parametrize("case", [CASES[4], CASES[5], CASES[9]], ids=str)
def test_rows_may_come_in_chunks_of_any_size(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, whole, _ = fits(case)
    for size in (100, 777):
        monkeypatch.setattr(blocks, "CHUNK_ROWS", size)
        data = DecisionData(learned.rows.blocks, learned.rows.design, learned.rows.blocks.first, case.seed)
        fit = learn_decision(MEMBERS, data, Local(), silent)
        assert fit.policy.winner == whole.policy.winner
        close(fit.record.assessed, whole.record.assessed)
        close(fit.record.realised, whole.record.realised)
        close(fit.record.curse, whole.record.curse)
        numbers = ["bound", "observed", "low", "high"]
        close(fit.guarantees[numbers].to_numpy(), whole.guarantees[numbers].to_numpy())
        for ours, theirs in zip(fit.standings, whole.standings, strict=True):
            assert ours.candidate == theirs.candidate
            close([ours.realised, ours.low, ours.difference_low], [theirs.realised, theirs.low, theirs.difference_low])


def test_the_cases_are_of_all_kinds() -> None:
    """Gates are open and closed, patches of every number, and winners of every kind."""
    found = [fits(case)[2] for case in CASES]
    assert {fit.refinement.passed for fit in found} == {True, False}
    assert {len(fit.patched.log) for fit in found} >= {0, 1, 2}
    assert any(not test.passed for fit in found for test in fit.patched.tests)
    winners = {fit.candidates[fit.winner].name for fit in found}
    assert {"ensemble", "c", "ridge", "stack", "mean"} <= winners
