"""Whom to follow where, and who wins: against explicit design matrices, and by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble import feasible
from optensemble.members.outputs import View
from optensemble.multicalibration.events import Buckets
from optensemble.stacking.arm_choice import Choice, fit_choice
from optensemble.stacking.final_policy import Decider, Learning, learn_decider
from optensemble.stacking.forecaster import Learned, learn_forecasts
from optensemble.stacking.leaderboard import (
    ENSEMBLE,
    Candidate,
    find_winner,
    finding,
    league_curse,
    make_leaderboard,
    paired,
)
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling
from tests.problems import Floats

# The choice


def arms(seed: int, arms: int = 4, evaluators: int = 2, n: int = 80) -> tuple[Floats, Floats]:
    """What evaluators say of arms, and what arms earn: 0.7 of the first evaluator, and noise."""
    rng = np.random.default_rng(seed)
    assessed = rng.normal(1.0, 2.0, size=(arms, evaluators, n))
    return assessed, 0.7 * assessed[:, 0] + rng.normal(size=(arms, n)) + rng.normal(size=(arms, 1))


def textbook_choice(assessed: Floats, realised: Floats, prior: Floats, pull: float) -> tuple[Floats, Floats]:
    """Regress on a design with a row for every arm in every row, and pseudo-rows for what the slopes are pulled to."""
    a, e, n = assessed.shape
    beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
    rows, target = [], []
    for arm in range(a):
        for i in range(n):
            rows.append([*np.eye(a)[arm], *beyond[arm, :, i]])
            target.append(earned[arm, i])
    weight = 400 * pull * a * (beyond.var() or 1.0)
    penalty = np.diag(np.sqrt([5 * pull] * a + [weight] * e))
    design = np.vstack([rows, penalty])
    solution = np.linalg.lstsq(design, [*target, *(penalty @ [*np.zeros(a), *prior])], rcond=None)[0]
    return solution[:a], solution[a:]


@given(seed=st.integers(0, 50), count=st.integers(2, 5), evaluators=st.integers(1, 3), pull=st.floats(0.5, 8))
def test_a_choice_is_a_ridge_on_payoff_differences(seed: int, count: int, evaluators: int, pull: float) -> None:
    assessed, realised = arms(seed, count, evaluators, 30)
    prior = np.random.default_rng(seed).uniform(size=evaluators)
    choice = fit_choice(assessed, realised, prior, pull)
    constants, slopes = textbook_choice(assessed, realised, prior, pull)
    np.testing.assert_allclose(choice.constants, constants, atol=1e-9)
    np.testing.assert_allclose(choice.slopes, slopes, atol=1e-9)


def test_the_arm_of_the_highest_calibrated_value_is_picked() -> None:
    assessed, _ = arms(0)
    choice = Choice(np.array([0.0, 1.0, -1.0, 0.5]), np.array([0.3, 0.8]))
    picked = choice(assessed)
    for i in range(80):
        middle = assessed[:, :, i].mean(axis=0)
        values = [c + (assessed[a, :, i] - middle) @ [0.3, 0.8] for a, c in enumerate(choice.constants)]
        assert picked[i] == int(np.argmax(values))
        np.testing.assert_allclose(choice.values(assessed)[:, i], values)


def test_with_many_rows_the_truth_is_found_and_with_few_the_prior_stays() -> None:
    prior = np.array([0.0, 1.0])
    many = fit_choice(*arms(0, n=40_000), prior)
    np.testing.assert_allclose(many.slopes, [0.7, 0.0], atol=0.03)
    few = fit_choice(*arms(0, n=10), prior)
    np.testing.assert_allclose(few.slopes, prior, atol=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_arms_that_are_all_the_same_are_worth_the_same(count: int, scale: float) -> None:
    one = scale * np.random.default_rng(0).normal(size=(1, 2, 50))
    choice = fit_choice(np.repeat(one, count, axis=0), np.repeat(one[:, 0], count, axis=0), np.array([0.5, 0.5]))
    np.testing.assert_allclose(choice.constants, 0, atol=1e-12 * scale)
    np.testing.assert_allclose(choice.slopes, 0.5)


@given(seed=st.integers(0, 20), shift=st.floats(-1e3, 1e3))
def test_what_all_arms_share_does_not_matter(seed: int, shift: float) -> None:
    assessed, realised = arms(seed, n=30)
    plain = fit_choice(assessed, realised, np.ones(2))
    common = shift + np.random.default_rng(seed).normal(size=30)
    moved = fit_choice(assessed + common, realised + 3 * common, np.ones(2))
    np.testing.assert_allclose(moved.slopes, plain.slopes, atol=1e-8)
    np.testing.assert_allclose(moved.constants, plain.constants, atol=1e-8)


# Learning to decide


def learn(seed: int, sampling: Sampling, models: int = 2) -> tuple[Learning, Learned, View, Floats, list[Fold]]:
    n, omega = 300, feasible.Simplex(3)
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n, 3))
    predictions = signal + rng.normal(size=(3, n, 3))
    labels = signal + rng.normal(size=(n, 3))
    actions = np.stack([omega.argmax(p) for p in predictions])
    view = View(predictions[:models], actions, labels.std(axis=0))
    parts = sampling.folds(n, 0)
    learned = learn_forecasts(view, labels, omega, Buckets(omega.lower, omega.upper, 10), sampling, parts)
    names = ["a", "b", "c", *(name for name in NAMES if name in learned.out_of_fold), "ensemble"]
    return learn_decider(names, view, labels, omega, learned, sampling, parts), learned, view, labels, parts


NAMES = ("average", "stack", "refined", "patched", "ridge", "mean")


def top(forecast: Floats) -> Floats:
    return np.asarray(np.eye(3)[np.argmax(forecast, axis=1)])


@pytest.mark.parametrize("models", [0, 2])
@pytest.mark.parametrize("kind", ["independent", "in time order", "clustered"])
def test_arms_are_picked_out_of_fold(models: int, kind: str) -> None:
    clusters = np.arange(300) // 6 if kind == "clustered" else None
    sampling = Sampling(kind == "in time order", clusters)
    learning, learned, view, labels, parts = learn(1, sampling, models)
    forecasts = learned.out_of_fold
    played = [name for name in ("average", "stack", "refined", "patched") if name in forecasts]
    actions = [*view.actions, *(top(forecasts[name]) for name in played)]
    judges = [forecasts[name] for name in ("stack", "refined", "patched") if name in forecasts]
    shares = blend(judges, labels)
    if models == 0:
        judges += [view.actions.mean(axis=0) * labels.std(axis=0), forecasts["mean"]]
        shares = np.concatenate([shares, [0.0, 0.0]])
    assessed = np.array([[(a * j).sum(axis=1) for j in judges] for a in actions])
    realised = np.array([(a * labels).sum(axis=1) for a in actions])
    effects = [sampling.design_effect(arm) for arm in realised - realised.mean(axis=0)]
    pull = float(np.mean(effects)) * (1.0 if models else 0.5)
    picked = np.empty(300, dtype=np.int64)
    for train, test in parts:
        constants, slopes = textbook_choice(assessed[:, :, train], realised[:, train], shares, pull)
        picked[test] = Choice(constants, slopes)(assessed[:, :, test])
    earned = realised[picked, np.arange(300)]
    np.testing.assert_allclose(learning.candidates[ENSEMBLE].realised, earned, atol=1e-9)
    constants, slopes = textbook_choice(assessed, realised, shares, pull)
    np.testing.assert_allclose(learning.decider.choice.constants, constants, atol=1e-8)
    np.testing.assert_allclose(learning.decider.choice.slopes, slopes, atol=1e-8)


def blend(forecasts: list[Floats], labels: Floats) -> Floats:
    count, middle = len(forecasts), np.mean(forecasts, axis=0)
    apart = np.stack([(f - middle).ravel() for f in forecasts], axis=1)
    strength = 0.1 * np.square(apart).sum() / count or 1.0
    rows = np.vstack([apart, np.sqrt(strength) * np.eye(count)])
    target = np.concatenate([(labels - middle).ravel(), np.zeros(count)])
    weights = np.maximum(1 / count + np.linalg.lstsq(rows, target, rcond=None)[0], 0)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("models", [0, 1, 2, 3])
def test_candidates_are_what_members_and_forecasts_earn(models: int) -> None:
    learning, learned, view, labels, _ = learn(2, Sampling(), models)
    known = [name for name in NAMES if name in learned.out_of_fold]
    policies = [*view.actions, *(top(learned.out_of_fold[name]) for name in known)]
    last = learned.out_of_fold[[name for name in ("stack", "refined", "patched") if name in known][-1]]
    for number, actions in enumerate(policies):
        candidate, name = learning.candidates[number], [*"abc", *known][number]
        assert candidate.name == name
        np.testing.assert_allclose(candidate.realised, (actions * labels).sum(axis=1), atol=1e-12)
        by = learned.out_of_fold[name] if name in ("ridge", "mean") else last
        np.testing.assert_allclose(candidate.assessed, (actions * by).sum(axis=1), atol=1e-12)
    margins = {candidate.name: candidate.margin for candidate in learning.candidates.values()}
    assert [margins[name] for name in "abc"] == [2.0] * models + [0.5] * (3 - models)
    assert {margins[name] for name in ("average", "stack", "ridge", "mean") if name in margins} == {2.0}
    assert {margins[name] for name in ("refined", "patched", "ensemble") if name in margins} == {np.inf}
    assert [candidate.kind for candidate in learning.candidates.values()][1:4] == ["model"] * models + ["policy"] * (
        3 - models
    )


@pytest.mark.parametrize("winner", [ENSEMBLE, 0, 1, 2, 3, 4, 5, 6])
def test_whoever_wins_decides(winner: int) -> None:
    learning, learned, view, _, _ = learn(2, Sampling())
    omega = feasible.Simplex(3)
    buckets = Buckets(omega.lower, omega.upper, 10)
    decider = replace(learning.decider, winner=winner)
    decided = decider(view, omega, buckets)
    forecasts = learned.forecaster(view, omega, buckets)
    policies = [*view.actions, *(top(forecasts[name]) for name in decider.forecasts)]
    np.testing.assert_array_equal(decided.actions, np.stack(policies)[decided.chosen, np.arange(300)])
    np.testing.assert_allclose(decided.assessed, (decided.actions * decided.forecast).sum(axis=1), atol=1e-12)
    if winner != ENSEMBLE:
        assert (decided.chosen == winner).all()


class Counting:
    """A simplex that counts the rows it solves."""

    def __init__(self) -> None:
        self.omega, self.solved = feasible.Simplex(3), 0
        self.kernel = None

    def argmax(self, C: Floats, hint: Floats | None = None) -> Floats:
        self.solved += len(C)
        return self.omega.argmax(C)


@pytest.mark.parametrize("winner", [0, 1, 2])
def test_a_member_that_decides_alone_takes_no_solves(winner: int) -> None:
    learning, _, view, _, _ = learn(2, Sampling())
    counting = Counting()
    decider: Decider = replace(learning.decider, winner=winner)
    decider(view, counting, Buckets(counting.omega.lower, counting.omega.upper, 10))
    assert counting.solved == 0


# The league


def candidate(realised: Floats, margin: float = 2.0, name: str = "x") -> Candidate:
    return Candidate(name, "model", realised, realised, margin)


def league(seed: int, leads: list[float], n: int = 120, margin: float = 2.0) -> dict[int, Candidate]:
    """An ensemble, and candidates that lead it by about so many standard errors."""
    rng = np.random.default_rng(seed)
    ensemble = rng.normal(size=n)
    found = {ENSEMBLE: candidate(ensemble, np.inf, "ensemble")}
    for number, lead in enumerate(leads):
        noise = rng.normal(size=n)
        noise += lead * float(stats.sem(noise)) - noise.mean()
        found[number] = candidate(ensemble + noise, margin, f"m{number}")
    return found


def test_the_ensemble_plays_unless_beaten_by_the_margin() -> None:
    assert find_winner(league(0, [1.9, 0.0, -5.0]), Sampling()) == ENSEMBLE
    assert find_winner(league(0, [1.9, 2.1, -5.0]), Sampling()) == 1
    assert find_winner(league(0, [0.4], margin=0.5), Sampling()) == ENSEMBLE
    assert find_winner(league(0, [0.6], margin=0.5), Sampling()) == 0
    assert find_winner(league(0, [99.0], margin=np.inf), Sampling()) == ENSEMBLE


@given(seed=st.integers(0, 1000), leads=st.lists(st.floats(-4, 6), min_size=1, max_size=5))
def test_of_those_that_beat_the_ensemble_the_one_that_earns_most_plays(seed: int, leads: list[float]) -> None:
    candidates = league(seed, leads, n=60)
    gains = {
        number: each.realised - candidates[ENSEMBLE].realised for number, each in candidates.items() if number >= 0
    }
    beating = [number for number, gain in gains.items() if gain.mean() > 2 * float(stats.sem(gain))]
    expected = max(beating, key=lambda number: gains[number].mean()) if beating else ENSEMBLE
    assert find_winner(candidates, Sampling()) == expected


def test_rows_that_hang_together_make_it_harder_to_win() -> None:
    rng = np.random.default_rng(0)
    ensemble, clusters = rng.normal(size=200), np.arange(200) // 20
    lead = 0.4 + rng.normal(size=10)[clusters] + 0.1 * rng.normal(size=200)
    lead += 0.4 - lead.mean()
    candidates = {ENSEMBLE: candidate(ensemble, np.inf), 0: candidate(ensemble + lead)}
    assert find_winner(candidates, Sampling()) == 0
    assert find_winner(candidates, Sampling(clusters=clusters)) == ENSEMBLE
    assert find_winner(candidates, Sampling(time_ordered=True)) == ENSEMBLE


def test_rounding_is_no_difference() -> None:
    payoff = np.random.default_rng(0).normal(size=100)
    np.testing.assert_array_equal(paired(payoff, payoff * (1 + 1e-15)), 0)
    np.testing.assert_array_equal(paired(payoff + 1e-3, payoff), (payoff + 1e-3) - payoff)
    candidates = {ENSEMBLE: candidate(payoff, np.inf), 0: candidate(payoff + 1e-14)}
    assert find_winner(candidates, Sampling()) == ENSEMBLE


# The winner's curse


def equals(rng: np.random.Generator, n: int = 150, count: int = 8) -> dict[int, Candidate]:
    """Candidates that all earn 0 on average, whatever the rows say."""
    return {number: candidate(rng.normal(size=n), 0.5) for number in range(-1, count)}


def blocks_of(values: Floats, size: int) -> Floats:
    """The same payoff for so many rows one after the other."""
    return np.repeat(values, size, axis=-1)


CURSED = {
    "few rows": (150, 1, Sampling()),
    "many rows": (1300, 1, Sampling()),
    "in time order": (20, 30, Sampling(time_ordered=True)),
    "clustered": (60, 5, Sampling(clusters=np.repeat(np.arange(60), 5))),
}


@pytest.mark.parametrize("kind", CURSED)
def test_the_curse_is_about_what_the_winner_of_equals_is_flattered_by(kind: str) -> None:
    """Candidates that all earn 0 in truth: what the winner earns is all flattery."""
    n, size, sampling = CURSED[kind]
    estimated, flattered = [], []
    for seed in range(60):
        drawn = equals(np.random.default_rng(seed), n)
        candidates = {number: replace(each, realised=blocks_of(each.realised, size)) for number, each in drawn.items()}
        flattered.append(drawn[find_winner(drawn, Sampling())].realised.mean())
        estimated.append(league_curse(candidates, sampling, seed))
    assert min(estimated) >= 0
    assert np.mean(flattered) > 1.2 / np.sqrt(n)
    assert 0.6 < np.mean(estimated) / np.mean(flattered) < 1.4


def test_there_is_no_curse_where_nobody_else_can_win() -> None:
    rng = np.random.default_rng(0)
    alone = {ENSEMBLE: candidate(rng.normal(size=150), np.inf), 0: candidate(rng.normal(size=150) - 5)}
    assert league_curse(alone, Sampling(), 0) == pytest.approx(0, abs=1e-12)
    assert league_curse({ENSEMBLE: alone[ENSEMBLE]}, Sampling(), 0) == 0


@pytest.mark.parametrize("clustered", [True, False])
def test_the_curse_is_how_much_more_the_winner_of_resampled_rows_leads_there(clustered: bool) -> None:
    candidates = equals(np.random.default_rng(0))
    clusters = np.arange(150) % 30
    sampling = Sampling(clusters=clusters) if clustered else Sampling()
    units = 30 if clustered else 150
    if clustered:  # a cluster is one row, that weighs as many
        means = {
            number: np.array([each.realised[clusters == c].mean() for c in range(30)])
            for number, each in candidates.items()
        }
        unit = {number: replace(candidates[number], realised=realised) for number, realised in means.items()}
    else:
        unit = candidates
    payoffs = np.stack([each.realised for each in unit.values()])
    lead = payoffs - unit[find_winner(unit, Sampling())].realised
    rng, excess = np.random.default_rng(5), []
    for _ in range(60):
        rows = rng.integers(units, size=units)
        again = {number: replace(each, realised=each.realised[rows]) for number, each in unit.items()}
        number = list(again).index(find_winner(again, Sampling()))
        excess.append(lead[number, rows].mean() - lead[number].mean())
    assert league_curse(candidates, sampling, 5) == pytest.approx(np.mean(excess), rel=1e-9)


def test_the_curse_depends_on_the_seed_alone() -> None:
    candidates = equals(np.random.default_rng(0))
    first, again, other = (league_curse(candidates, Sampling(), seed) for seed in (1, 1, 2))
    assert first == again != other


# The leaderboard


def board(sign: float, sampling: Sampling) -> tuple[pd.DataFrame, dict[int, Candidate], int]:
    candidates = league(3, [3.0, -1.0, 0.5])
    candidates[2] = replace(candidates[2], margin=np.inf, kind="forecast")
    winner = find_winner(candidates, sampling)
    followed = {0: 1.0, 1: 0.0, 2: 0.0} if winner == 0 else {0: 0.2, 1: 0.5, 2: 0.3}
    table = make_leaderboard(candidates, winner, sampling, sign, followed, {"patched": "no cell has 50 rows"})
    return table, candidates, winner


SAMPLINGS = {
    "independent": (Sampling(), 119),
    "in time order": (Sampling(time_ordered=True), 9),
    "clustered": (Sampling(clusters=np.arange(120) // 4), 29),
}


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_leaderboard_is_worked_out_row_by_row(sign: float, kind: str) -> None:
    sampling, freedom = SAMPLINGS[kind]
    table, candidates, winner = board(sign, sampling)
    t = stats.t.ppf(0.975, freedom)
    rows = table.set_index("candidate")
    for number, each in candidates.items():
        row, gain = rows.loc[each.name], each.realised - candidates[winner].realised
        # what was fitted on the rows varies with them: as if there were n²/(n + 50)
        fitted = 1 + 50 / 120 if each.kind not in ("model", "policy") else 1.0
        error, lead = sampling.error(each.realised) * np.sqrt(fitted), sampling.error(gain)
        mean = sign * each.realised.mean()
        expected = {
            "realised": mean,
            "low": mean - t * error,
            "high": mean + t * error,
            "difference": sign * gain.mean(),
            "difference_low": sign * gain.mean() - t * lead,
            "difference_high": sign * gain.mean() + t * lead,
            "detectable": (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * lead,
            "promised": sign * each.assessed.mean(),
        }
        for column, value in expected.items():
            assert row[column] == pytest.approx(value, rel=1e-3 if column == "detectable" else 1e-9, abs=1e-12), column
        assert row["chosen"] == (number == winner)
    best_first = sign * table["realised"].dropna()
    assert best_first.is_monotonic_decreasing
    assert table.iloc[-1][["candidate", "kind", "why"]].tolist() == ["patched", "left out", "no cell has 50 rows"]
    assert table["chosen"].sum() == 1
    assert table["followed"].notna().all()


def test_the_leaderboard_says_why() -> None:
    table, _, winner = board(1.0, Sampling())
    assert winner == 0
    why = table.set_index("candidate")["why"]
    assert why["m0"] == "beats the ensemble out of fold by more than 2 standard errors"
    assert why["m1"].endswith(
        "standard errors worse than the winner; only if more than 2 better than the ensemble would it play instead"
    )
    assert why["m2"].startswith("part of the ensemble; alone ")
    assert why["ensemble"] == "3.0 standard errors worse than the winner"
    candidates = league(3, [1.0])
    table = make_leaderboard(candidates, ENSEMBLE, Sampling(), 1.0, {0: 0.5}, {})
    assert "nothing simple beats that" in table.set_index("candidate")["why"]["ensemble"]


def test_who_is_better_than_the_winner_by_less_than_the_margin_is_told_so() -> None:
    candidates = league(3, [1.5])
    table = make_leaderboard(candidates, ENSEMBLE, Sampling(), 1.0, {0: 0.5}, {})
    why = table.set_index("candidate").loc["m0", "why"]
    size, condition = str(why).split("; ")
    assert size == "1.5 standard errors better than the winner"
    assert condition == "only if more than 2 better than the ensemble would it play instead"


def test_what_is_worse_by_the_same_in_every_row_is_always_worse() -> None:
    payoff = np.tile([0.0, 4.0], 50)
    candidates = {ENSEMBLE: candidate(payoff, np.inf, "ensemble"), 0: candidate(payoff - 2.0, name="lower")}
    table = make_leaderboard(candidates, ENSEMBLE, Sampling(), 1.0, {0: 0.5}, {}).set_index("candidate")
    assert str(table.loc["lower", "why"]).startswith("always worse")


def test_who_earns_the_same_as_the_winner_is_listed_after_it() -> None:
    payoff = np.random.default_rng(0).normal(size=100)
    candidates = {0: candidate(payoff, name="twin"), ENSEMBLE: candidate(payoff, np.inf, "ensemble")}
    table = make_leaderboard(candidates, ENSEMBLE, Sampling(), 1.0, {0: 0.0}, {})
    assert table["candidate"].tolist() == ["ensemble", "twin"]
    assert table["why"].tolist()[1] == "earns the same as the winner"


@pytest.mark.parametrize("others", [[], [-1.0, -2.0, -3.0, -4.0, -5.0]], ids=["two", "seven"])
@pytest.mark.parametrize(("lead", "sign"), [(5.0, 1.0), (5.0, -1.0), (2.2, 1.0), (0.5, 1.0), (0.5, -1.0)])
def test_the_finding_in_a_sentence(lead: float, sign: float, others: list[float]) -> None:
    candidates = league(1, [lead, *others])
    candidates[0] = replace(candidates[0], name="best")
    gain = candidates[0].realised - candidates[ENSEMBLE].realised
    # the winner may be any of those that are compared with the mean: each interval must hold more often
    half = stats.t.ppf(1 - 0.025 / (1 + len(others)), 119) * float(stats.sem(gain))
    words = finding(candidates, 0, candidates[ENSEMBLE].realised, Sampling(), sign)
    said = re.search(r"best (earns|costs) (\S+) ± (\S+) (more|less)", words)
    assert said is not None
    assert (said[1], said[4]) == (("earns", "more") if sign > 0 else ("costs", "less"))
    assert (float(said[2]), float(said[3])) == pytest.approx((gain.mean(), half), abs=0.5 * 10 ** -len(said[3][2:]))
    assert words.startswith("nothing beats deciding by the mean label: ") == (gain.mean() <= half)
    assert words.startswith("nothing") == (lead < 2 or (lead < 3 and bool(others)))
    assert words.endswith(", out of fold")


def test_where_the_mean_label_wins_nothing_beats_it() -> None:
    candidates = league(1, [-3.0])
    words = finding(candidates, ENSEMBLE, candidates[ENSEMBLE].realised, Sampling(), 1.0)
    assert words.startswith("nothing beats deciding by the mean label: ")
