"""Members without an answer in some rows: not followed there, and forecasts are made of those present."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import optensemble as oe
from optensemble import feasible
from optensemble.exceptions import AbsentWarning, InputError
from tests.ensembles.decision import ACCESS, Ensemble, forecasts, payoff
from tests.problems import Floats

N, D, K = 600, 3, 3
SIMPLEX = feasible.Simplex(D)


@cache
def world(n: int = 2 * N, seed: int = 0) -> tuple[Floats, Floats]:
    """What three members predict, side by side, and labels."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, D))
    said = [signal + size * rng.normal(size=(n, D)) for size in (0.4, 0.7, 1.0)]
    return np.hstack(said), signal + 0.8 * rng.normal(size=(n, D))


def without(rows: Any, member: int, n: int = 2 * N) -> Floats:
    table = world(n)[0].copy()
    table[rows, D * member : D * (member + 1)] = np.nan
    return table


def columns(member: int) -> oe.Columns:
    return oe.Columns(list(range(D * member, D * (member + 1))))


def policy(member: int) -> Any:
    """The policy of a member's predictions; without an answer where these lack."""

    def decide(table: Floats) -> Floats:
        said = columns(member).predict(table)
        there = ~np.isnan(said).any(axis=1)
        actions = np.full_like(said, np.nan)
        actions[there] = SIMPLEX.argmax(said[there])
        return actions

    return decide


def make(access: str = "models", members: tuple[int, ...] = (0, 1, 2), **parameters: Any) -> Ensemble:
    seen = {"models": K, "policies": 0, "both": 2}[access]
    models = [(f"m{m}", columns(m)) for m in members if m < seen]
    policies = [(f"m{m}", policy(m)) for m in members if m >= seen]
    return Ensemble(models or None, policies or None, feasible=SIMPLEX, **{"context": None, **parameters})


AT_RANDOM = np.random.default_rng(5).random(2 * N) < 0.2
OLD, NEW = slice(0, N), slice(N, 2 * N)


@pytest.mark.no_cover
@ACCESS
@pytest.mark.parametrize("member", [0, 2])
def test_an_absent_member_is_not_followed_and_is_counted(access: str, member: int) -> None:
    table, Y = without(AT_RANDOM, member), world()[1]
    ensemble = make(access).fit(table[OLD], Y[OLD])
    count = int(AT_RANDOM[OLD].sum())
    assert f"'m{member}' has no answer in {count} of {N} rows" in ensemble.notes_
    answer = ensemble.answer(table[NEW])
    assert answer.absent == {f"m{member}": int(AT_RANDOM[NEW].sum())}
    assert not (answer.chosen[AT_RANDOM[NEW]] == member).any()
    np.testing.assert_allclose(SIMPLEX.violation(answer.actions), 0.0, atol=1e-12)
    assert np.isfinite(answer.promised).all()


@ACCESS
def test_a_member_that_decides_everywhere_has_a_stand_in(access: str) -> None:
    ensemble = make(access).fit(*(each[OLD] for each in world()))
    object.__setattr__(ensemble.decider_, "winner", 2)
    table = without(AT_RANDOM, 2)[NEW]
    answer, away = ensemble.answer(table), AT_RANDOM[NEW]
    assert (answer.chosen[~away] == 2).all()
    stand_in = 0 if access == "policies" else K + ensemble.decider_.forecasts.index("average")
    assert (answer.chosen[away] == stand_in).all()
    if access == "policies":
        expected = policy(0)(table)
    else:
        there = [columns(m).predict(table) for m in range(2)]
        expected = SIMPLEX.argmax(np.mean(there, axis=0))
    np.testing.assert_array_equal(answer.actions[away], expected[away])


@pytest.mark.parametrize("access", ["models", "both"])
def test_where_a_member_is_absent_forecasts_are_those_of_the_others_alone(access: str) -> None:
    table, Y = without(AT_RANDOM, 1), world()[1]
    ensemble = make(access).fit(table[OLD], Y[OLD])
    others = make(access, (0, 2)).fit(table[OLD], Y[OLD])
    found, alone = forecasts(ensemble, table[NEW]), forecasts(others, table[NEW])
    away = AT_RANDOM[NEW]
    for name in ("average", "stack", "ridge"):
        # models are weighted by differences between all members' actions, those of the absent one where it was there
        about = 0.3 if (access, name) == ("models", "stack") else 1e-8
        np.testing.assert_allclose(found[name][away], alone[name][away], atol=about)
        assert not np.allclose(found[name][~away], alone[name][~away], atol=1e-3)


def test_where_all_are_present_the_stack_is_that_of_the_rows_in_which_they_are() -> None:
    table, Y = without(AT_RANDOM, 1), world()[1]
    ensemble = make().fit(table[OLD], Y[OLD])
    whole = ~AT_RANDOM[OLD]
    alone = make().fit(table[OLD][whole], Y[OLD][whole])
    there = ~AT_RANDOM[NEW]
    found, expected = forecasts(ensemble, table[NEW])["stack"], forecasts(alone, table[NEW])["stack"]
    np.testing.assert_allclose(found[there], expected[there], atol=1e-8)


@ACCESS
def test_a_member_that_stops_after_the_fit_leaves_what_the_others_would_have_made(access: str) -> None:
    table, Y = world()
    ensemble, others = make(access).fit(table[OLD], Y[OLD]), make(access, (0, 2)).fit(table[OLD], Y[OLD])
    later = without(slice(None), 1)[NEW]
    found, alone = forecasts(ensemble, later), forecasts(others, later)
    # models are weighted by differences between all members' actions, of whom there was one more
    np.testing.assert_allclose(found["stack"], alone["stack"], atol=0.3 if access == "models" else 1e-8)
    earned, expected = (payoff(each.decide(later), Y[NEW]).mean() for each in (ensemble, others))
    assert earned > expected - 0.05
    assert ensemble.answer(later).absent == {"m1": N}
    promise = ensemble.promise(later)
    assert promise.unlike
    assert "'m1' had an answer in every fitting row, but not here" in promise.note
    assert not ensemble.promise(table[NEW]).unlike


def test_members_that_are_absent_together_are_filled_in_by_the_other() -> None:
    table, Y = world()
    ensemble = make().fit(table[OLD], Y[OLD])
    later = table[NEW].copy()
    later[:, : 2 * D] = np.nan
    found = forecasts(ensemble, later)
    # as far as the last member tells: its conditional mean, coordinate by coordinate
    for j in range(D):
        slope = np.polyfit(later[:, 2 * D + j], found["stack"][:, j], 1)[0]
        truth = np.polyfit(table[OLD][:, 2 * D + j], Y[OLD][:, j], 1)[0]
        assert slope == pytest.approx(truth, abs=0.12)


@ACCESS
def test_rows_in_which_nobody_is_present_are_decided_by_the_mean_label(access: str) -> None:
    table, Y = world()
    ensemble = make(access).fit(table[OLD], Y[OLD])
    later = table[NEW].copy()
    later[:5] = np.nan
    answer = ensemble.answer(later)
    np.testing.assert_allclose(answer.predictions[:5], np.tile(Y[OLD].mean(axis=0), (5, 1)), atol=0.15)
    assert (answer.chosen[:5] >= K).all()
    alone = ensemble.answer(table[NEW])
    np.testing.assert_array_equal(answer.actions[5:], alone.actions[5:])


@ACCESS
def test_a_mask_without_gaps_changes_no_bit(access: str) -> None:
    table, Y = world()
    ensemble = make(access).fit(table[OLD], Y[OLD])
    later = table[NEW].copy()
    later[7, :D] = np.nan
    found, expected = ensemble.answer(later), ensemble.answer(table[NEW])
    others = np.arange(N) != 7
    np.testing.assert_array_equal(found.actions[others], expected.actions[others])
    np.testing.assert_allclose(found.promised[others], expected.promised[others], rtol=1e-12)


def test_absence_is_an_event_that_forecasts_are_unbiased_on() -> None:
    rng = np.random.default_rng(3)
    n = 4000
    signal = rng.normal(size=(n, D))
    away = rng.random(n) < 0.45
    Y = signal + 1.5 * away[:, None] * np.array([1.0, 0.0, 0.0]) + 0.5 * rng.normal(size=(n, D))
    said = np.hstack([signal + 0.5 * rng.normal(size=(n, D)) for _ in range(2)])
    said[away, :D] = np.nan
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = Ensemble(models, feasible=SIMPLEX).fit(said[:3000], Y[:3000])
    later, labels, gone = said[3000:], Y[3000:], away[3000:]
    bias = (labels - ensemble.predict(later))[gone].mean(axis=0)
    assert np.abs(bias).max() < 0.12
    named = [str(name) for name in ensemble.audit(later, labels).cell_names]
    assert "first absent" in named


def test_absent_in_all_rows_is_an_error_and_in_most_of_them_a_warning() -> None:
    Y = world()[1]
    with pytest.raises(InputError, match=r"'m1' has no answer in any of the 600 rows.*Leave it out"):
        make().fit(without(slice(None), 1)[OLD], Y[OLD])
    mostly = np.arange(2 * N) % 10 > 3
    with pytest.warns(AbsentWarning, match=r"'m1' has no answer in 360 of 600 rows.*leave it out"):
        make().fit(without(mostly, 1)[OLD], Y[OLD])


def test_a_member_that_fails_may_be_absent() -> None:
    table, Y = world()

    def fails(X: Floats) -> Floats:
        if len(X) < N:
            raise TimeoutError("no answer from the vendor")
        return columns(0).predict(X)

    members: list[tuple[str, Any]] = [("vendor", fails), ("ours", columns(1))]
    ensemble = Ensemble(members, feasible=SIMPLEX, on_error="absent").fit(table[OLD], Y[OLD])
    with pytest.warns(AbsentWarning, match="'vendor' failed on 20 rows and is absent there: TimeoutError: no answer"):
        answer = ensemble.answer(table[N : N + 20])
    assert answer.absent == {"vendor": 20}
    strict = Ensemble(members, feasible=SIMPLEX).fit(table[OLD], Y[OLD])
    with pytest.raises(TimeoutError):
        strict.decide(table[N : N + 20])
    with pytest.raises(InputError, match="on_error must be one of 'raise', 'absent'"):
        Ensemble(members, feasible=SIMPLEX, on_error="ignore").fit(table[OLD], Y[OLD])


@ACCESS
def test_what_was_learned_of_absence_is_in_the_file(access: str, tmp_path: Path) -> None:
    table, Y = without(AT_RANDOM, 0), world()[1]
    ensemble = make(access, on_error="absent").fit(table[OLD], Y[OLD])
    ensemble.save(tmp_path / "gaps.oe")
    given = dict(ensemble.members_)
    models = {name: given[name] for name in list(given)[: ensemble.n_models_]}
    policies = {name: given[name] for name in list(given)[ensemble.n_models_ :]}
    again = oe.load(tmp_path / "gaps.oe", models=models or None, policies=policies or None)
    assert again.on_error == "absent"
    before, after = ensemble.answer(table[NEW]), again.answer(table[NEW])
    np.testing.assert_array_equal(before.actions, after.actions)
    np.testing.assert_array_equal(before.promised, after.promised)


def test_updates_audits_and_explanations_of_rows_with_gaps() -> None:
    table, Y = without(AT_RANDOM, 0), world()[1]
    ensemble = make("both").fit(table[OLD], Y[OLD])
    audit = ensemble.audit(table[NEW], Y[NEW])
    assert audit.totals.rows == N
    ensemble.update(table[NEW], Y[NEW])
    assert ensemble.n_updated_ == N
    row = int(np.flatnonzero(AT_RANDOM[NEW])[0])
    explained = ensemble.explain(table[NEW], row)
    absent = explained.alternatives.set_index("name").loc["m0 (absent)"]
    assert np.isnan(absent["value"])
    assert "m0" not in explained.steps["stage"].tolist()


def test_gaps_of_a_frame_may_be_null_in_any_way() -> None:
    table, Y = without(AT_RANDOM, 0), world()[1]
    names = [f"m{m}_{j}" for m in range(K) for j in range(D)]
    frame = pd.DataFrame(table, columns=names)
    models = [(f"m{m}", oe.Columns([f"m{m}_{j}" for j in range(D)])) for m in range(K)]
    expected = Ensemble(models, feasible=SIMPLEX).fit(frame[OLD], Y[OLD]).decide(frame[NEW])
    nullable = frame.convert_dtypes()
    found = Ensemble(models, feasible=SIMPLEX).fit(nullable[OLD], Y[OLD]).decide(nullable[NEW])
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_members_may_be_absent_where_each_row_has_a_set_and_a_cost_of_its_own() -> None:
    table, Y = without(AT_RANDOM, 0), world()[1]
    rng = np.random.default_rng(1)
    table = np.hstack([table, rng.uniform(1, 4, (2 * N, 1))])
    omega = feasible.WithCost(feasible.Knapsack([1.0, 2.0, 1.5], oe.Columns(K * D)), linear=0.05)
    models = [(f"m{m}", columns(m)) for m in range(K)]
    weights = rng.uniform(0.5, 2.0, 2 * N)
    ensemble = Ensemble(models, feasible=omega).fit(table[OLD], Y[OLD], sample_weight=weights[OLD])
    answer = ensemble.answer(table[NEW])
    assert answer.absent == {"m0": int(AT_RANDOM[NEW].sum())}
    assert omega.for_rows(table[NEW]).violation(answer.actions).max() <= 1e-9
    alone = np.vstack([ensemble.decide(table[row : row + 1]) for row in range(N, N + 30)])
    np.testing.assert_array_equal(alone, answer.actions[:30])
    assert ensemble.audit(table[NEW], Y[NEW], sample_weight=weights[NEW]).kept
