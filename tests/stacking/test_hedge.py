"""AdaHedge with late labels, against its formulas written out; payoffs of any size leave weights and bound sound."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.stacking.hedge import Hedge
from tests.problems import Floats

ROUNDING = 1e-9
"""Of the sum of all payoffs' sizes: what the order of additions may change."""

sizes = st.sampled_from([0.0, 1.0, 1e-300, 1e-12, 1e12, 1e100])
payoffs = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e3, 1e3), st.floats(-1e100, 1e100))


def textbook_weights(lost: list[float], gap: float) -> list[float]:
    """Exponential weights with the rate ln(m)/D; equal ones among the leaders where D is 0."""
    if gap == 0:
        leaders = [float(each == max(lost)) for each in lost]
        return [each / sum(leaders) for each in leaders]
    rate = math.log(max(len(lost), 2)) / gap
    odds = [math.exp(rate * (each - max(lost))) for each in lost]
    return [each / math.fsum(odds) for each in odds]


def textbook(beyond: Floats, weights: Floats, start: float) -> dict[str, float | list[float]]:
    """AdaHedge (de Rooij et al., 2014) in plain Python, with the sums of its certificate."""
    lost, gap = [0.0] * beyond.shape[1], start
    gaps, drifts, plays = [start], list[float](), list[float]()
    for row, then in zip(beyond.tolist(), weights.tolist(), strict=True):
        now = textbook_weights(lost, gap)
        mean = math.fsum(map(math.prod, zip(now, row, strict=True)))
        after = [before + each for before, each in zip(lost, row, strict=True)]
        if gap == 0:
            mixed = max(after) - max(lost)
        else:  # ln Σ v·exp(η·g)/η, with the greatest term taken out
            rate = math.log(max(len(lost), 2)) / gap
            terms = [(math.log(v) / rate + g, v) for v, g in zip(now, row, strict=True) if v > 0]
            most = max(size for size, _ in terms)
            mixed = most + math.log(math.fsum(math.exp(rate * (size - most)) for size, _ in terms)) / rate
        earned = math.fsum(map(math.prod, zip(then, row, strict=True)))
        gaps.append(max(mixed - mean, 0.0))
        drifts.append(mean - earned)
        plays.append(earned)
        lost, gap = after, math.fsum(gaps)
    return {"lost": lost, "gap": gap, "drift": math.fsum(drifts), "played": math.fsum(plays)}


def observed(beyond: Floats, weights: Floats, start: float) -> Hedge:
    return Hedge.over(beyond.shape[1], start).learn(beyond, weights)


def some_weights(n: int, policies: int, seed: int) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.ones(policies), size=n)


def bits(hedge: Hedge) -> list[bytes]:
    return [np.asarray(getattr(hedge, each.name)).tobytes() for each in fields(hedge)]


def require_kept(hedge: Hedge, beyond: Floats) -> None:
    """Check that what was lost to each policy is at most the bound, and that all numbers are numbers."""
    size = float(np.abs(beyond).max(axis=1).sum())
    assert all(np.isfinite(getattr(hedge, each.name)).all() for each in fields(hedge))
    assert math.isfinite(hedge.bound)
    assert hedge.lost.max() <= hedge.bound + ROUNDING * size
    assert (hedge.weights >= 0).all()
    assert hedge.weights.sum() == pytest.approx(1.0, rel=1e-12)


@given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 40),
    policies=st.integers(1, 5),
    start=st.sampled_from([0.0, 0.1, 5.0, 1e4]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_weights_and_sums_are_those_of_the_textbook(
    seed: int, n: int, policies: int, start: float, scale: float
) -> None:
    beyond = scale * np.random.default_rng(seed).standard_t(2, size=(n, policies))
    weights = some_weights(n, policies, seed)
    hedge, expected = observed(beyond, weights, start), textbook(beyond, weights, start)
    size = float(np.abs(beyond).sum())
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(hedge, name), value, rtol=ROUNDING, atol=ROUNDING * size, err_msg=name)
    np.testing.assert_allclose(hedge.weights, textbook_weights(hedge.lost.tolist(), hedge.gap), atol=ROUNDING)
    regret = hedge.gap - start + (hedge.gap if policies > 1 else 0.0)
    assert hedge.bound == pytest.approx(regret + hedge.drift + hedge.played, rel=ROUNDING, abs=ROUNDING * size)


@given(seed=st.integers(0, 1000), n=st.integers(1, 60), policies=st.integers(1, 4), cuts=st.lists(st.integers(0, 60)))
def test_rows_cut_into_calls_give_the_same_bits(seed: int, n: int, policies: int, cuts: list[int]) -> None:
    beyond = np.random.default_rng(seed).standard_t(2, size=(n, policies))
    weights, hedge = some_weights(n, policies, seed), Hedge.over(policies, 0.5)
    for rows in np.split(np.arange(n), sorted(min(cut, n) for cut in cuts)):
        hedge = hedge.learn(beyond[rows], weights[rows])
    assert bits(hedge) == bits(observed(beyond, weights, 0.5))


def test_learning_leaves_what_was_known_before_as_it_was() -> None:
    hedge = observed(np.ones((3, 2)), np.full((3, 2), 0.5), 1.0)
    before = bits(hedge)
    hedge.learn(np.array([[1.0, -1.0]]), np.array([[0.5, 0.5]]))
    assert bits(hedge) == before


@given(
    rows=st.lists(st.lists(payoffs, min_size=3, max_size=3), min_size=1, max_size=30),
    policies=st.integers(1, 3),
    start=sizes,
    seed=st.integers(0, 1000),
)
def test_no_payoffs_however_large_break_the_bound(
    rows: list[list[float]], policies: int, start: float, seed: int
) -> None:
    beyond = np.array(rows)[:, :policies]
    weights, hedge = some_weights(len(beyond), policies, seed), Hedge.over(policies, start)
    for i in range(len(beyond)):
        hedge = hedge.learn(beyond[i : i + 1], weights[i : i + 1])
        require_kept(hedge, beyond[: i + 1])


@pytest.mark.parametrize("start", [0.0, 5e-324, 1e-308, 1.0, 1e100])
@pytest.mark.parametrize(
    "beyond",
    [
        [[0.0, 0.0, 0.0]] * 4,
        [[1.0, 1.0, 1.0]] * 4,
        [[1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]] * 4,
        [[1e100, -1e100, 0.0]] + [[-1e-100, 1e-100, 0.0]] * 8,
        [[1e100, -1e100, 0.0], [-1e100, 1e100, 0.0]] * 4,
        [[1e-300, 0.0, -1e-300]] * 4 + [[-1e100, 1e100, 1e100]],
        [[5e-324, 0.0, -5e-324]] * 8,
        [[-1e100, -1e100, -1e100]] * 4 + [[1.0, 0.0, -1.0]],
    ],
    ids=["nothing", "alike", "ties", "huge then tiny", "huge", "tiny then huge", "subnormal", "all far behind"],
)
def test_extreme_payoffs_give_numbers_and_keep_the_bound(beyond: list[list[float]], start: float) -> None:
    rows, hedge = np.array(beyond), Hedge.over(3, start)
    for i in range(len(rows)):
        hedge = hedge.learn(rows[i : i + 1], hedge.weights[None])
        require_kept(hedge, rows[: i + 1])
    assert abs(hedge.drift) <= ROUNDING * np.abs(rows).sum()  # the weights in force were those that were played


def test_without_a_start_the_leaders_share_all_weight_until_one_falls_behind() -> None:
    hedge = Hedge.over(3, 0.0).learn(np.array([[1.0, 1.0, 1.0]]), np.full((1, 3), 1 / 3))
    assert hedge.weights.tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert hedge.gap == 0.0
    hedge = hedge.learn(np.array([[2.0, 2.0, -1.0]]), hedge.weights[None])
    assert hedge.gap == 1.0  # the leaders gained 2, equal weights 1
    assert hedge.weights[0] == hedge.weights[1] > hedge.weights[2] > 0


def test_one_policy_has_all_weight_and_loses_only_what_was_not_played() -> None:
    beyond = np.array([[3.0], [-1.0]])
    hedge = observed(beyond, np.ones((2, 1)), 1.0)
    assert hedge.weights.tolist() == [1.0]
    assert hedge.bound == hedge.lost[0] == hedge.played == 2.0


@given(seed=st.integers(0, 1000), scale=st.sampled_from([2.0**-40, 2.0**40]))
def test_weights_do_not_depend_on_the_unit_of_payoffs(seed: int, scale: float) -> None:
    beyond, weights = np.random.default_rng(seed).normal(size=(30, 3)), some_weights(30, 3, seed)
    one, other = observed(beyond, weights, 1.0), observed(scale * beyond, weights, scale)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    assert other.bound == pytest.approx(scale * one.bound, rel=1e-9)


def test_labels_in_time_cost_no_drift_and_late_ones_what_the_weights_of_now_would_have_earned_more() -> None:
    beyond, played = np.random.default_rng(0).normal(size=(40, 3)), list[Floats]()
    prompt, late, drift = Hedge.over(3, 1.0), Hedge.over(3, 1.0), 0.0
    for row in beyond:
        prompt = prompt.learn(row[None], prompt.weights[None])
        played.append(late.weights)
        if len(played) > 7:
            i = len(played) - 8
            drift += float((late.weights - played[i]) @ beyond[i])
            late = late.learn(beyond[i][None], played[i][None])
    assert prompt.drift == pytest.approx(0.0, abs=1e-12)
    assert late.drift == pytest.approx(drift, rel=1e-9)
    assert abs(late.drift) > 1e-3


def test_the_policy_that_earns_more_gets_nearly_all_weight() -> None:
    beyond = np.random.default_rng(0).normal(size=(2000, 3)) + np.array([0.3, 0.0, 0.0])
    assert observed(beyond, some_weights(2000, 3, 0), 5.0).weights[0] > 0.99
