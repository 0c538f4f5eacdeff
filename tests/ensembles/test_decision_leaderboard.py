"""The leaderboard and the guarantees of a DecisionEnsemble, recomputed out of fold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import optensemble as oe
from optensemble import feasible
from optensemble.stats.folds import folds
from tests.ensembles.decision import (
    ACCESS,
    NEW,
    OLD,
    SENSES,
    Ensemble,
    N,
    answers,
    fitted,
    forecasts,
    make,
    member_actions,
    payoff,
    problem,
    same,
)
from tests.problems import Problem, lookup


@ACCESS
@SENSES
def test_the_leaderboard_tells_what_members_earned(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    board = ensemble.leaderboard_.set_index("candidate")
    best = ensemble.record_.realised
    quantile = stats.t.ppf(0.975, N - 1)
    for m, name in enumerate(["m0", "m1", "m2"]):
        earned = payoff(member_actions(access, sense, m), Y)
        row, half = board.loc[name], quantile * stats.sem(earned)
        assert row["realised"] == pytest.approx(earned.mean(), rel=1e-9)
        assert (row["low"], row["high"]) == pytest.approx((earned.mean() - half, earned.mean() + half), rel=1e-9)
        if name == ensemble.winner_:
            continue
        gain, error = earned - best, stats.sem(earned - best)
        assert row["difference"] == pytest.approx(gain.mean(), rel=1e-9)
        assert row["difference_low"] == pytest.approx(gain.mean() - quantile * error, rel=1e-9)
        assert row["difference_high"] == pytest.approx(gain.mean() + quantile * error, rel=1e-9)
    assert board["chosen"].sum() == 1
    assert board.index[board["chosen"]].tolist() == [ensemble.winner_]
    assert set(board.index[board["kind"] != "left out"]) == {*ensemble.names_, "ensemble"}
    assert (board["why"].str.len() > 0).all()


@ACCESS
def test_the_shares_of_rows_followed_sum_to_one(access: str) -> None:
    ensemble = fitted(access)
    board = ensemble.leaderboard_.set_index("candidate")["followed"]
    assert board[ensemble.names_].sum() == pytest.approx(1.0)
    assert board["ensemble"] == float(ensemble.winner_ == "ensemble")


def test_the_mean_label_decides_for_the_baseline_of_that_name() -> None:
    ensemble, Y = fitted(), problem().Y[OLD]
    np.testing.assert_allclose(forecasts(ensemble, problem().X[NEW])["mean"][0], Y.mean(axis=0))
    row = ensemble.leaderboard_.set_index("candidate").loc["mean"]
    assert row["kind"] == "baseline"
    earned = np.concatenate([Y[test, Y[train].mean(axis=0).argmax()] for train, test in folds(N, random_state=0)])
    assert row["realised"] == pytest.approx(earned.mean(), rel=1e-9)


@pytest.mark.parametrize("name", ["ridge", "ensemble", "average", "mean", "stack"])
def test_a_member_may_have_any_name(name: str) -> None:
    X, Y = problem().X[OLD], problem().Y[OLD]
    (_, first), *others = problem().models
    ensemble = Ensemble([(name, first), *others], feasible=problem().omega).fit(X, Y)
    assert same(answers(ensemble, X), answers(fitted(), X))
    assert ensemble.names_[0] == name
    board = ensemble.leaderboard_
    assert board["candidate"].is_unique
    assert f"{name} of all" in set(board["candidate"])
    assert board.set_index("candidate").loc[name, "kind"] == "model"
    assert board.loc[board["chosen"], "candidate"].tolist() == [ensemble.winner_]


@pytest.mark.parametrize(
    ("names", "given_way"),
    [
        (("ridge", "ridge of all"), ["ridge of all of all"]),
        (("refined", "patched"), ["refined of all", "patched of all"]),
        (("ensemble", "mean"), ["ensemble of all", "mean of all"]),
    ],
)
def test_no_two_lines_of_the_leaderboard_have_the_same_name(names: tuple[str, str], given_way: list[str]) -> None:
    models = list(zip(names, [model for _, model in problem().models], strict=False))
    ensemble = Ensemble(models, feasible=problem().omega).fit(problem().X[OLD], problem().Y[OLD])
    listed = ensemble.leaderboard_["candidate"]
    assert listed.is_unique
    assert {*names, *given_way} <= set(listed)
    assert len(set(ensemble.names_)) == len(ensemble.names_)
    left_out = ensemble.leaderboard_.query("kind == 'left out'")
    assert [f"{name} was left out: {why}" for name, why in left_out[["candidate", "why"]].to_numpy()] == [
        note for note in ensemble.notes_ if " was left out: " in note
    ]


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_a_better_single_member_is_selected_instead_of_the_ensemble() -> None:
    """Labels are the first member's predictions: no candidate can do better."""
    given = problem()
    exact = Problem(given.X, given.P[0], given.P, given.omega)
    ensemble = make("policies", exact).fit(exact.X[OLD], exact.Y[OLD])
    board = ensemble.leaderboard_.set_index("candidate")
    assert ensemble.winner_ in ("m0", "ensemble")
    np.testing.assert_array_equal(ensemble.decide(exact.X[NEW]), exact.actions[0][NEW])
    assert board.loc["m0", "difference"] == pytest.approx(0, abs=1e-12)


@pytest.mark.filterwarnings("ignore::optensemble.exceptions.DataWarning")
def test_where_a_member_wins_it_decides_everywhere() -> None:
    """Two policies that are right in turns, by a rule that no linear blend of actions can see; one of them mostly."""
    rng = np.random.default_rng(3)
    actions = np.eye(3)[rng.integers(3, size=(4, 400))]
    Y = 0.3 * rng.normal(size=(400, 3)) + 2.0 * actions[0]
    Y += rng.normal(size=(400, 1)) * 3
    policies = [(f"p{i}", lookup(a)) for i, a in enumerate(actions)]
    ensemble = Ensemble(policies=policies, feasible=feasible.Simplex(3)).fit(np.arange(400), Y)
    assert payoff(ensemble.decide(np.arange(400)), Y).mean() == pytest.approx(payoff(actions[0], Y).mean(), rel=0.02)
    if ensemble.winner_ != "ensemble":
        assert set(ensemble.choose(np.arange(400))) == {ensemble.names_.index(ensemble.winner_)}


@ACCESS
@SENSES
def test_observed_guarantees_are_out_of_fold_and_none_is_guaranteed(access: str, sense: str) -> None:
    ensemble, Y = fitted(access, sense=sense), problem().Y[OLD]
    table = ensemble.guarantees_
    assert not table["guaranteed"].any()
    assert "patched" not in ensemble.names_
    assert np.isinf(table["bound"]).all()  # without a patch nothing bounds anything
    assert table["holds"].all()
    board = ensemble.leaderboard_.set_index("candidate")
    own = ensemble.winner_  # what decides
    leads = table[table["lemma"] == "Lemma 4"].set_index("quantity")
    members = [(m, name) for m, name in enumerate(["m0", "m1", "m2"]) if name != own]
    assert len(leads) == len(members)  # and is not compared with itself
    for m, name in members:
        behind = payoff(member_actions(access, sense, m), Y).mean() - board.loc[own, "realised"]
        title = f"payoff of {name} − of {own}" if sense == "max" else f"cost of {own} − of {name}"
        row = leads.loc[title]
        assert row["observed"] == pytest.approx(behind if sense == "max" else -behind, abs=1e-9)
        assert row["low"] <= row["observed"] <= row["high"]
    gap = table.set_index("lemma").loc["Corollary 1"]
    boast = board["promised"] - board["realised"]
    assert gap["quantity"] == f"promised − realised of {own}"
    assert gap["observed"] == pytest.approx(boast[own], abs=1e-9)
    assert gap["low"] <= gap["observed"] <= gap["high"]


def test_a_patch_is_bounded_by_how_consistent_it_is() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(2000, 3))
    X = np.concatenate(signal + 0.5 * rng.normal(size=(2, 2000, 3)), axis=1)
    Y = signal + 0.5 * rng.normal(size=(2000, 3))
    Y[:, 0] -= 2.0 * (X[:, 3:].argmax(axis=1) == 0)
    models = [("first", oe.Columns([0, 1, 2])), ("second", oe.Columns([3, 4, 5]))]
    ensemble = Ensemble(models, feasible=feasible.Simplex(3)).fit(X, Y)
    table = ensemble.guarantees_.set_index("lemma")
    assert "patched" in ensemble.names_
    consistency = table.loc["Definition 1"]
    assert 0 <= consistency["low"] <= consistency["observed"] <= consistency["high"]
    decides = f"promised − realised of {ensemble.winner_}"
    gaps = table["quantity"][table.index == "Corollary 1"]
    assert gaps.tolist() == [decides, "promised − realised of patched alone"]
    alone = table[table["quantity"].str.contains("patched alone")]
    assert alone.index.tolist() == ["Corollary 1", "Lemma 4", "Lemma 4"]
    assert np.isfinite(alone["bound"]).all()
    assert (alone["bound"] > consistency["high"]).all()
    assert alone["holds"].all()
    assert np.isinf(table.loc[~table["quantity"].isin(alone["quantity"]), "bound"]).all()  # of the patch alone
