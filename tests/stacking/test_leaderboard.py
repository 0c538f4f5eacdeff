"""The leaderboard: one-standard-error test, selection bias, and reasons in words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from optensemble.stacking.arms import ENSEMBLE
from optensemble.stacking.leaderboard import _select, leaderboard_frame, pair_squares, winning_reason
from optensemble.stats.paired_tests import paired_difference
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stacking.candidates import Earning, Field, earning
from tests.stats.textbook import SAMPLINGS as DEPENDENT
from tests.stats.textbook import N, textbook_error
from tests.stats.textbook import candidates as drawn

# The competition


def compete(seed: int, leads: list[float], n: int = 120, margin: float = 2.0) -> Field:
    """An ensemble, and candidates that lead it by about these numbers of standard errors."""
    rng = np.random.default_rng(seed)
    ensemble = rng.normal(size=n)
    found = {ENSEMBLE: earning(ensemble, np.inf, "ensemble")}
    for number, lead in enumerate(leads):
        noise = rng.normal(size=n)
        noise += lead * float(stats.sem(noise)) - noise.mean()
        found[number] = earning(ensemble + noise, margin, f"m{number}")
    return Field(found)


def test_the_ensemble_is_selected_unless_beaten_by_the_margin() -> None:
    assert compete(0, [1.9, 0.0, -5.0]).winner == ENSEMBLE
    assert compete(0, [1.9, 2.1, -5.0]).winner == 1
    assert compete(0, [0.4], margin=0.5).winner == ENSEMBLE
    assert compete(0, [0.6], margin=0.5).winner == 0
    assert compete(0, [99.0], margin=np.inf).winner == ENSEMBLE


@given(seed=st.integers(0, 1000), leads=st.lists(st.floats(-4, 6), min_size=1, max_size=5))
def test_the_candidate_that_earns_most_is_selected_among_those_that_beat_the_ensemble(
    seed: int, leads: list[float]
) -> None:
    assume(all(abs(lead - 2.0) > 1e-6 for lead in leads))  # at the margin itself, rounding decides
    field = compete(seed, leads, n=60)
    ensemble = field.earnings[ENSEMBLE].realised
    gains = {number: each.realised - ensemble for number, each in field.earnings.items() if number >= 0}
    beating = [number for number, gain in gains.items() if gain.mean() > 2 * float(stats.sem(gain))]
    expected = max(beating, key=lambda number: gains[number].mean()) if beating else ENSEMBLE
    assert field.winner == expected


@given(
    seed=st.integers(0, 10**6),
    leads=st.lists(st.floats(-1, 8), max_size=5),
    kind=st.sampled_from(sorted(DEPENDENT)),
    data=st.data(),
)
def test_a_candidate_is_selected_if_it_beats_the_first_by_its_own_margin(
    seed: int, leads: list[float], kind: str, data: st.DataObject
) -> None:
    gains = drawn(seed, leads)
    payoffs = gains + np.random.default_rng(seed).normal(size=N)
    margins = [np.inf, *(data.draw(st.sampled_from([0.5, 2.0, np.inf])) for _ in leads)]
    beating = {
        number: gain.mean()
        for number, (gain, margin) in enumerate(zip(gains, margins, strict=True))
        if number and margin * textbook_error(gain, kind) < gain.mean()
    }
    expected = max(beating, key=lambda number: beating[number]) if beating else 0
    earnings = {number - 1: earning(payoffs[number], margin) for number, margin in enumerate(margins)}
    assert Field(earnings, DEPENDENT[kind]).winner == expected - 1
    if kind == "independent":
        assert _select(payoffs, margins) == expected


def test_dependent_rows_widen_the_margin() -> None:
    rng = np.random.default_rng(0)
    ensemble, clusters = rng.normal(size=200), np.arange(200) // 20
    lead = 0.4 + rng.normal(size=10)[clusters] + 0.1 * rng.normal(size=200)
    lead += 0.4 - lead.mean()
    earnings = {ENSEMBLE: earning(ensemble, np.inf), 0: earning(ensemble + lead)}
    assert Field(earnings).winner == 0
    assert Field(earnings, Sampling(clusters=clusters)).winner == ENSEMBLE
    assert Field(earnings, Sampling(time_ordered=True)).winner == ENSEMBLE


def test_rounding_is_no_difference() -> None:
    payoff = np.random.default_rng(0).normal(size=100)
    np.testing.assert_array_equal(paired_difference(payoff, payoff * (1 + 1e-15)), 0)
    np.testing.assert_array_equal(paired_difference(payoff + 1e-3, payoff), (payoff + 1e-3) - payoff)
    assert Field({ENSEMBLE: earning(payoff, np.inf), 0: earning(payoff + 1e-14)}).winner == ENSEMBLE
    squares = pair_squares(np.stack([payoff, payoff + 1e-14, payoff + 1e-3]), 1e-10)
    assert squares[0, 1] == squares[1, 0] == 0
    assert squares[0, 2] == pytest.approx(np.square((payoff + 1e-3) - payoff).sum(), rel=1e-12)


# Selection bias


def equals(rng: np.random.Generator, n: int = 150, count: int = 8) -> dict[int, Earning]:
    """Candidates that all earn 0 on average, whatever the rows say."""
    return {number: earning(rng.normal(size=n), 0.5) for number in range(-1, count)}


def blocks_of(values: Floats, size: int) -> Floats:
    """The same payoff for this number of consecutive rows."""
    return np.repeat(values, size, axis=-1)


CURSED = {
    "few rows": (150, 1, Sampling()),
    "many rows": (1300, 1, Sampling()),
    "in time order": (20, 30, Sampling(time_ordered=True)),
    "clustered": (60, 5, Sampling(clusters=np.repeat(np.arange(60), 5))),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CURSED)
def test_the_selection_bias_estimate_is_close_to_the_true_bias_among_equals(kind: str) -> None:
    """Candidates that all earn 0 in truth: what the winner earns is all flattery."""
    n, size, sampling = CURSED[kind]
    estimated, flattered = [], []
    for seed in range(60):
        drawn = equals(np.random.default_rng(seed), n)
        earnings = {number: replace(each, realised=blocks_of(each.realised, size)) for number, each in drawn.items()}
        flattered.append(drawn[Field(drawn).winner].realised.mean())
        estimated.append(Field(earnings, sampling).bias(seed))
    assert min(estimated) >= 0
    assert np.mean(flattered) > 1.2 / np.sqrt(n)
    assert 0.6 < np.mean(estimated) / np.mean(flattered) < 1.4


def test_there_is_no_selection_bias_with_a_single_possible_winner() -> None:
    rng = np.random.default_rng(0)
    alone = {ENSEMBLE: earning(rng.normal(size=150), np.inf), 0: earning(rng.normal(size=150) - 5)}
    assert Field(alone).bias(0) == pytest.approx(0, abs=1e-12)
    assert Field({ENSEMBLE: alone[ENSEMBLE]}).bias(0) == 0


@pytest.mark.parametrize("clustered", [True, False])
def test_the_selection_bias_is_the_lead_of_the_winner_of_resampled_rows(clustered: bool) -> None:
    earnings = equals(np.random.default_rng(0))
    clusters = np.arange(150) % 30
    sampling = Sampling(clusters=clusters) if clustered else Sampling()
    units = 30 if clustered else 150
    if clustered:  # a cluster is one row, that weighs as many
        means = {
            number: np.array([each.realised[clusters == c].mean() for c in range(30)])
            for number, each in earnings.items()
        }
        unit = {number: replace(earnings[number], realised=realised) for number, realised in means.items()}
    else:
        unit = earnings
    payoffs = np.stack([each.realised for each in unit.values()])
    lead = payoffs - unit[Field(unit).winner].realised
    rng, excess = np.random.default_rng(5), []
    for _ in range(60):
        rows = rng.integers(units, size=units)
        again = {number: replace(each, realised=each.realised[rows]) for number, each in unit.items()}
        number = list(again).index(Field(again).winner)
        excess.append(lead[number, rows].mean() - lead[number].mean())
    assert Field(earnings, sampling).bias(5) == pytest.approx(np.mean(excess), rel=1e-9)


def test_the_selection_bias_depends_on_the_seed_alone() -> None:
    field = Field(equals(np.random.default_rng(0)))
    first, again, other = (field.bias(seed) for seed in (1, 1, 2))
    assert first == again != other


# The leaderboard


def change(field: Field, number: int, **changes: Any) -> Field:
    earnings = dict(field.earnings)
    earnings[number] = replace(earnings[number], candidate=replace(earnings[number].candidate, **changes))
    return replace(field, earnings=earnings)


def board(sign: float, sampling: Sampling, parts: int = 1) -> tuple[pd.DataFrame, Field, int]:
    field = change(replace(compete(3, [3.0, -1.0, 0.5]), sampling=sampling), 2, margin=np.inf, kind="forecast")
    winner = field.winner
    followed = {0: 1.0, 1: 0.0, 2: 0.0} if winner == 0 else {0: 0.2, 1: 0.5, 2: 0.3}
    standings = field.competition(winner, sign, parts=parts).standings(followed)
    return leaderboard_frame(standings, {"patched": "no cell has 50 rows"}), field, winner


def frame(field: Field, followed: float) -> pd.DataFrame:
    """The leaderboard of an ensemble that wins, and of whose actions so many are the first member's."""
    return leaderboard_frame(field.competition(ENSEMBLE, 1.0).standings({0: followed}), {})


SAMPLINGS = {
    "independent": (Sampling(), 119),
    "in time order": (Sampling(time_ordered=True), 9),
    "clustered": (Sampling(clusters=np.arange(120) // 4), 29),
}


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("parts", [1, 7])
def test_the_leaderboard_is_worked_out_row_by_row(sign: float, kind: str, parts: int) -> None:
    sampling, freedom = SAMPLINGS[kind]
    table, field, winner = board(sign, sampling, parts)
    t = stats.t.ppf(0.975, freedom)
    rows = table.set_index("candidate")
    for number, each in field.earnings.items():
        row, gain = rows.loc[each.candidate.name], each.realised - field.earnings[winner].realised
        # what was fitted on the rows varies with them: as if there were n²/(n + 50)
        fitted = 1 + 50 / 120 if each.candidate.kind not in ("model", "policy") else 1.0
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
        if number == winner:  # what decides is not compared with itself
            expected |= dict.fromkeys(("difference", "difference_low", "difference_high", "detectable"), np.nan)
        for column, value in expected.items():
            close = pytest.approx(value, rel=1e-3 if column == "detectable" else 1e-9, abs=1e-12, nan_ok=True)
            assert row[column] == close, column
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
        "standard errors worse than the winner; "
        "would decide alone only if more than 2 standard errors better than the ensemble"
    )
    assert why["m2"].startswith("part of the ensemble; alone ")
    assert why["ensemble"] == "3.0 standard errors worse than the winner"


@pytest.mark.parametrize(
    ("leads", "said"),
    [
        ([-1.0, -0.1, -5.0], "no candidate did better"),
        ([-1.0, -0.1, 5.0], "its part m2 did better alone"),
        ([1.0, -1.0, -5.0], "m0 did better, by too little to be sure"),
        ([1.0, 0.5, 5.0], "m0, m1 did better, by too little to be sure; its part m2 did better alone"),
    ],
)
def test_what_did_better_is_said_as_the_table_says_it(leads: list[float], said: str) -> None:
    table = frame(change(compete(3, leads), 2, margin=np.inf, kind="forecast"), 0.5).set_index("candidate")
    assert str(table["why"]["ensemble"]).removeprefix(winning_reason(ENSEMBLE, 0.0).partition(";")[0]) == f"; {said}"
    assert (table.loc[["m0", "m1", "m2"], "difference"] > 0).tolist() == [lead > 0 for lead in leads]


def test_a_candidate_better_by_less_than_the_margin_is_said_to_be_so() -> None:
    table = frame(compete(3, [1.5]), 0.5)
    why = table.set_index("candidate").loc["m0", "why"]
    size, condition = str(why).split("; ")
    assert size == "1.5 standard errors better than the winner"
    assert condition == "would decide alone only if more than 2 standard errors better than the ensemble"


def test_a_constant_loss_is_called_always_worse() -> None:
    payoff = np.tile([0.0, 4.0], 50)
    field = Field({ENSEMBLE: earning(payoff, np.inf, "ensemble"), 0: earning(payoff - 2.0, name="lower")})
    table = frame(field, 0.5).set_index("candidate")
    assert str(table.loc["lower", "why"]).startswith("always worse")


def test_a_candidate_that_earns_the_same_is_listed_after_the_winner() -> None:
    payoff = np.random.default_rng(0).normal(size=100)
    field = Field({0: earning(payoff, name="twin"), ENSEMBLE: earning(payoff, np.inf, "ensemble")})
    table = frame(field, 0.0)
    assert table["candidate"].tolist() == ["ensemble", "twin"]
    assert table["why"].tolist()[1] == "earns the same as the winner"


@pytest.mark.parametrize("others", [[], [-1.0, -2.0, -3.0, -4.0, -5.0]], ids=["two", "seven"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("lead", [5.0, 2.8, 2.2, 0.5, -0.5, -3.0])
def test_the_finding_says_of_the_mean_label_what_its_line_in_the_table_says(
    lead: float, sign: float, others: list[float]
) -> None:
    field = change(compete(1, [lead, *others]), 0, name="best")
    gain = field.earnings[0].realised - field.earnings[ENSEMBLE].realised
    half, n = stats.t.ppf(0.975, 119) * float(stats.sem(gain)), 2 + len(others)
    words = field.finding(0, sign, ENSEMBLE)
    said = re.search(r"(earns|costs) (\S+) (more|less).* \(95 %: (\S+) to (\S+)\)", words)
    assert said is not None
    assert (said[1], said[3]) == ("earns" if sign > 0 else "costs", "more" if sign * lead > 0 else "less")
    line = frame_of(field, 0, sign).loc["ensemble"]
    digits = len(said[2].partition(".")[2])
    shown = [float(each.replace("−", "-")) for each in said.group(2, 4, 5)]
    turned = sorted(abs(line["difference"]) / line["difference"] * line[["difference_low", "difference_high"]])
    assert shown == pytest.approx([abs(line["difference"]), *turned], abs=0.5 * 10**-digits + 1e-12)
    assert shown == pytest.approx([abs(gain.mean()), *(abs(gain.mean()) + np.array([-half, half]))], abs=10**-digits)
    # it may be any of those that are compared with the mean label: each interval must hold more often; and other rows
    # would teach otherwise
    sure = gain.mean() > stats.t.ppf(1 - 0.025 / (n - 1), 119) * float(stats.sem(gain)) * np.sqrt(1 + 50 / 120)
    beats = "" if sure else "surely beat" if lead > 0 else "does not beat"
    assert beats in words
    assert ("beat" in words) == (not sure) == (lead < 2.3 or (lead < 3 and bool(others)))
    assert (f"but was learned and selected among {n} candidates" in words) == (gain.mean() > half and not sure)
    assert " out of fold (95 %: " in words


def frame_of(field: Field, winner: int, sign: float) -> pd.DataFrame:
    return leaderboard_frame(field.competition(winner, sign, ENSEMBLE).standings({}), {}).set_index("candidate")


def test_where_the_mean_label_decides_it_is_not_compared_with_itself() -> None:
    words = compete(1, [3.0]).finding(0, 1.0, mean=0)
    assert words == "the mean label itself decides, in every row"


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", SAMPLINGS)
def test_where_the_winner_does_what_the_mean_label_says_nothing_is_gained(sign: float, kind: str) -> None:
    """Sums over rows of each are rounded; that of their differences is exactly 0."""
    field = replace(compete(1, [3.0, 0.0], n=120), sampling=SAMPLINGS[kind][0])
    twin = replace(field.earnings[0], candidate=replace(field.earnings[0].candidate, name="twin"))
    words = replace(field, earnings=field.earnings | {1: twin}).finding(0, sign, mean=1, parts=7)
    same = f"it {'earns' if sign > 0 else 'costs'} the same out of fold"
    assert words == f"m0 does not beat deciding by the mean label: {same}"


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_limits_lie_within_what_is_possible(sign: float) -> None:
    rng = np.random.default_rng(0)
    few = np.where(
        rng.random(60) < 0.05, rng.exponential(10, 60), 0.0
    )  # a mean of little more than 0, and a wide error
    field = Field({ENSEMBLE: earning(sign * few, np.inf, "ensemble"), 0: earning(sign * few[::-1])})
    free = field.competition(ENSEMBLE, sign).standings({})
    clipped = replace(field.competition(ENSEMBLE, sign), possible=(0.0, np.inf)).standings({})
    assert min(line.low for line in free) < 0
    assert [line.low for line in clipped] == [max(line.low, 0.0) for line in free]
    assert [line.high for line in clipped] == [line.high for line in free]
