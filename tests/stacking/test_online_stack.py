"""The stack that learns row by row: a ridge of all rows where no label is clipped, and no spike moves it far."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optensemble.stacking.online_stack import MEMORY, OnlineStack
from tests.problems import Floats

RIDGE, CLIP, FAR, UNCLIPPED = 20.0, 4.0, 5.0, 20
BLIND = ("products", "centre", "seen", "size")
"""What labels have no part in."""

ARRAYS = tuple(each.name for each in fields(OnlineStack) if each.name != "models")


class Rows(NamedTuple):
    features: Floats
    labels: Floats
    counts: Floats

    def take(self, rows: slice) -> Rows:
        return Rows(self.features[rows], self.labels[rows], self.counts[rows])

    @property
    def n(self) -> int:
        return len(self.labels)


class Ridge(NamedTuple):
    """The parts of a stack, from all rows at once."""

    weights: Floats
    level: Floats
    centre: Floats

    def forecast(self, features: Floats, *, models: bool) -> Floats:
        apart = np.nan_to_num(features - self.centre)
        if models and not self.centre[0].any():  # no model was ever there: the first that is is taken as it is
            apart[:, 0] = np.where(np.isnan(features[:, 0]), 0.0, features[:, 0] - self.level)
        found = self.level + np.einsum("f,nfd->nd", self.weights, apart)
        return np.asarray(found + apart[:, 0] if models else found)


def shares(gains: Floats) -> Floats:
    """Return the weight of each row in a mean that goes so far towards every row, before each row and in the end."""
    found = np.zeros((len(gains) + 1, len(gains)))
    for i, gain in enumerate(gains.tolist()):
        found[i + 1] = (1 - gain) * found[i]
        found[i + 1, i] = gain
    return found


def gains_of(counts: Floats) -> Floats:
    """Return how far a mean goes towards each row: a plain mean at first, then one that forgets; 0 for no row."""
    seen = counts.cumsum()
    return np.minimum(np.maximum(counts / MEMORY, counts / np.where(seen > 0, seen, 1.0)), 1.0)


def ridge(rows: Rows, *, models: bool) -> Ridge:
    """Solve the exponentially weighted ridge of labels on features, both less their means before each row.

    Rows with a feature so far off that it is cut are passed over: few are drawn.
    """
    rows = Rows(*(each[rows.counts > 0] for each in rows))
    n, d = rows.labels.shape
    there = ~np.isnan(rows.features[:, :, 0])
    values = np.nan_to_num(rows.features)
    apart, centres = np.zeros_like(values), list[Floats]()
    for f in range(values.shape[1]):
        means = shares(gains_of(rows.counts * there[:, f])) @ values[:, f]
        centres.append(means[-1])
        began = (rows.counts * there[:, f]).cumsum() - rows.counts * there[:, f] > 0
        apart[:, f] = np.where((there[:, f] & began)[:, None], values[:, f] - means[:-1], 0.0)
    gains = gains_of(rows.counts)
    levels = shares(gains) @ rows.labels
    beyond = rows.labels - levels[:-1] - (apart[:, 0] if models else 0.0)
    beyond[0] = 0.0  # there is no level yet
    squares = np.square(apart).sum(axis=(1, 2)) / apart.shape[1]
    gains[: int((squares > 0).argmax()) + 1] = 1.0  # the unit of the ridge begins with the first row that differs
    sizes = shares(gains) @ squares
    size, limits = float(sizes[-1]), FAR * np.sqrt(sizes[:-1, None, None])
    early = (rows.counts.cumsum() - rows.counts < UNCLIPPED)[:, None, None]
    assume((np.abs(apart) <= np.where(early, np.inf, limits)).all())
    since = rows.counts.sum() - rows.counts.cumsum()
    weight = np.repeat(np.sqrt(rows.counts * (1 - 1 / MEMORY) ** since), d)[:, None]
    design = np.concatenate(
        [weight * apart.transpose(0, 2, 1).reshape(n * d, -1), np.sqrt(RIDGE * size) * np.eye(len(centres))]
    )
    target = np.concatenate([weight[:, 0] * beyond.ravel(), np.zeros(len(centres))])
    return Ridge(np.linalg.lstsq(design, target)[0], levels[-1], np.stack(centres))


def learned(rows: Rows, *, models: bool, cuts: list[int] | None = None) -> OnlineStack:
    stack = OnlineStack.begin(rows.features.shape[1], rows.labels.shape[1], models=models)
    for start, stop in pairwise([0, *(cuts or []), rows.n]):
        stack = stack.learn(*rows.take(slice(start, stop)))
    return stack


def some_rows(seed: int, n: int, k: int, d: int, *, models: bool, absent: bool = False, weighted: bool = False) -> Rows:
    """Draw rows whose labels are ±1 off what members say, who never go far: nothing is near where it is clipped."""
    rng = np.random.default_rng(seed)
    said = 5.0 + rng.uniform(-0.5, 0.5, size=(n, d)) + rng.uniform(-0.5, 0.5, size=(k, n, d))
    if absent:
        said[rng.uniform(size=(k, n)) < 0.3] = np.nan
    there = ~np.isnan(said)
    average = np.nan_to_num(said).sum(axis=0) / np.where(there.any(axis=0), there.sum(axis=0), np.nan)
    features = np.stack([average, *(said - average)] if models else list(said), axis=1)
    labels = 3.0 + 0.5 * np.nan_to_num(average, nan=5.0) + 0.5 * np.nan_to_num(said[0], nan=5.0)
    counts = rng.integers(0, 4, size=n).astype(float) if weighted else np.ones(n)
    turn = (counts > 0).cumsum()[:, None]  # at first they alternate, lest deviations seem small
    noise = np.where(turn < 40, (-1.0) ** turn, rng.choice([-1.0, 1.0], size=(n, d)))
    return Rows(features, labels + noise, counts)


def same_bits(one: OnlineStack, other: OnlineStack, names: tuple[str, ...]) -> bool:
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


def require_finite(stack: OnlineStack, features: Floats) -> None:
    for name in ARRAYS:
        assert np.isfinite(getattr(stack, name)).all(), name
    assert np.isfinite(stack(features)).all()


worlds = given(
    seed=st.integers(0, 1000),
    n=st.integers(1, 250),
    k=st.integers(1, 4),
    d=st.integers(1, 3),
    models=st.booleans(),
    absent=st.booleans(),
    weighted=st.booleans(),
)


@worlds
def test_where_no_label_is_clipped_it_is_the_ridge_of_all_rows(
    seed: int, n: int, k: int, d: int, models: bool, absent: bool, weighted: bool
) -> None:
    rows = some_rows(seed, n, k, d, models=models, absent=absent, weighted=weighted)
    if not rows.counts.any():
        return
    stack, expected = learned(rows, models=models), ridge(rows, models=models)
    for name in Ridge._fields:
        np.testing.assert_allclose(getattr(stack, name), getattr(expected, name), atol=1e-8, err_msg=name)
    fresh = some_rows(seed + 1, 5, k, d, models=models, absent=absent).features
    np.testing.assert_allclose(stack(fresh), expected.forecast(fresh, models=models), atol=1e-8)


@given(seed=st.integers(0, 1000), models=st.booleans())
def test_clipped_labels_count_as_if_they_were_four_deviations_off(seed: int, models: bool) -> None:
    rows, rng = some_rows(seed, 120, 3, 2, models=models), np.random.default_rng(seed)
    rows.labels[:] += 2 * rng.standard_t(1.5, size=rows.labels.shape)
    rows.labels[60] += 1e9
    stack, deviation, clipped = OnlineStack.begin(rows.features.shape[1], 2, models=models), np.zeros(2), 0
    counted = rows.labels.copy()
    for i in range(rows.n):
        told = stack(rows.features[i : i + 1])[0] if models or i else rows.labels[0]
        missed = rows.labels[i] - told
        if i >= UNCLIPPED:
            missed = missed.clip(-CLIP * deviation, CLIP * deviation)
            deviation += (1.1 * np.abs(missed) - deviation) / 200
        else:
            deviation += (np.abs(missed) - deviation) / (i + 1)
        counted[i] = told + missed
        clipped += int((np.abs(counted[i] - rows.labels[i]) > 1e-6).any())
        stack = stack.learn(*rows.take(slice(i, i + 1)))
        np.testing.assert_allclose(stack.deviation, deviation, rtol=1e-6)
    expected = ridge(rows._replace(labels=counted), models=models)
    for name in Ridge._fields:
        np.testing.assert_allclose(getattr(stack, name), getattr(expected, name), rtol=1e-5, atol=1e-6, err_msg=name)
    assert clipped


@pytest.mark.parametrize("models", [True, False])
def test_every_spike_is_the_same_spike(models: bool) -> None:
    rows = some_rows(0, 100, 3, 2, models=models)
    before, last = learned(rows, models=models), rows.features[-1:]
    told, most = before(last), CLIP * before.deviation
    after = [before.learn(last, told + size, np.ones(1)) for size in (10 * most, 1e6, 1e50, 1e100)]
    assert all(same_bits(each, after[0], ARRAYS) for each in after[1:])
    for each in after:
        assert (np.abs(each.level - before.level) <= (np.abs(told - before.level) + most) / MEMORY + 1e-9).all()
        assert (each.deviation <= before.deviation * (1 + (1.1 * CLIP - 1) / 200) + 1e-9).all()
        assert (np.abs(each(rows.features) - before(rows.features)) < 0.3 * before.deviation).all()


@pytest.mark.parametrize("size", [100.0, 1e6])
def test_a_member_that_says_something_absurd_once_does_not_move_it_far(size: float) -> None:
    rows = some_rows(0, 300, 3, 2, models=True)
    said = rows.features[:, :1] + rows.features[:, 1:]
    said[200, 0] += size
    average = said.mean(axis=1, keepdims=True)
    spiked = rows._replace(features=np.concatenate([average, said - average], axis=1))
    later = rows.features[201:]
    shift = learned(spiked.take(slice(201)), models=True)(later) - learned(rows.take(slice(201)), models=True)(later)
    assert np.abs(shift).max() < 0.3


def test_a_member_that_joins_late_is_taken_as_it_is() -> None:
    rows = some_rows(0, 60, 3, 2, models=False)
    rows.features[:40, 0] = np.nan
    rows.features[40:, 0] += 1000.0
    stack = learned(rows, models=False)
    np.testing.assert_allclose(stack.centre[0], rows.features[40:, 0].mean(axis=0), rtol=1e-9)


@worlds
def test_what_labels_have_no_part_in_does_not_depend_on_the_cut_to_the_bit(
    seed: int, n: int, k: int, d: int, models: bool, absent: bool, weighted: bool
) -> None:
    rows = some_rows(seed, n, k, d, models=models, absent=absent, weighted=weighted)
    whole, single = learned(rows, models=models), learned(rows, models=models, cuts=list(range(1, n)))
    assert same_bits(whole, single, BLIND)
    for name in ARRAYS:
        if name != "deviation":  # it is of forecasts, and these of weights that are solved for at the end of a call
            np.testing.assert_allclose(getattr(whole, name), getattr(single, name), atol=1e-8, err_msg=name)


@given(seed=st.integers(0, 1000), models=st.booleans(), blocks=st.sets(st.integers(1, 11)))
def test_cuts_where_weights_are_solved_for_anyway_give_the_same_bits(seed: int, models: bool, blocks: set[int]) -> None:
    rows = some_rows(seed, 192, 3, 2, models=models)
    rows.labels[::13] *= 100.0
    cuts = sorted(16 * block for block in blocks)
    assert same_bits(learned(rows, models=models), learned(rows, models=models, cuts=cuts), ARRAYS)


@given(seed=st.integers(0, 1000), models=st.booleans(), cuts=st.sets(st.integers(1, 99)))
def test_the_same_calls_give_the_same_bits(seed: int, models: bool, cuts: set[int]) -> None:
    rows = some_rows(seed, 100, 3, 2, models=models)
    rows.labels[::13] *= 100.0
    one, other = (learned(rows, models=models, cuts=sorted(cuts)) for _ in range(2))
    assert same_bits(one, other, ARRAYS)


def test_rows_that_count_for_nothing_are_passed_over() -> None:
    rows = some_rows(0, 60, 3, 2, models=True)
    counts = np.ones(60)
    counts[10:20] = 0.0
    rows.labels[10:20] = 1e6
    kept = Rows(*(each[counts > 0] for each in rows))
    every, all_kept = list(range(1, 60)), list(range(1, 50))
    weighted = learned(rows._replace(counts=counts), models=True, cuts=every)
    assert same_bits(weighted, learned(kept, models=True, cuts=all_kept), ARRAYS)


def test_a_row_that_counts_for_many_moves_means_as_far_as_these_would() -> None:
    rows = some_rows(0, 40, 3, 2, models=True)
    twice = Rows(*(np.repeat(each, 2, axis=0) for each in rows))
    weighted, repeated = learned(rows._replace(counts=np.full(40, 2.0)), models=True), learned(twice, models=True)
    np.testing.assert_allclose(weighted.level, repeated.level, rtol=1e-9)
    np.testing.assert_allclose(weighted.centre, repeated.centre, atol=1e-9)
    assert weighted.seen.tolist() == repeated.seen.tolist()


def test_before_any_row_it_is_the_mean_of_the_models() -> None:
    features = some_rows(0, 6, 3, 2, models=True, absent=True).features
    features[2] = np.nan
    stack = OnlineStack.begin(4, 2, models=True)
    assert not stack.begun
    np.testing.assert_array_equal(stack(features), np.nan_to_num(features[:, 0]))
    policies = OnlineStack.begin(3, 2, models=False)
    np.testing.assert_array_equal(policies(features[:, 1:]), np.zeros((6, 2)))


def test_learning_leaves_the_stack_before_as_it_was() -> None:
    rows = some_rows(0, 40, 3, 2, models=True)
    stack = learned(rows, models=True)
    before = {name: getattr(stack, name).copy() for name in ARRAYS}
    stack.learn(*rows)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(stack, name), value)


def test_an_absent_member_counts_as_its_mean_and_one_that_never_spoke_for_nothing() -> None:
    rows = some_rows(0, 80, 3, 2, models=False)
    rows.features[:, 2] = np.nan
    stack = learned(rows, models=False)
    without = learned(rows._replace(features=np.ascontiguousarray(rows.features[:, :2])), models=False)
    assert stack.weights[2] == 0.0
    said = rows.features[:1].copy()
    said[0, 2] = 77.0
    np.testing.assert_array_equal(stack(said), stack(rows.features[:1]))
    filled = rows.features[:1].copy()
    filled[0, 0], said[0, 0] = np.nan, stack.centre[0]
    np.testing.assert_allclose(stack(filled), stack(said), rtol=1e-12)
    assert without.weights.shape == (2,)


def test_models_that_come_after_the_first_labels_are_taken_as_they_are() -> None:
    """Neither left out nor added to the level of the labels, which they forecast themselves."""
    rows = some_rows(0, 40, 3, 2, models=True)
    rows.labels[:] += 100.0
    later = rows.features[30:] + np.array([100.0, 0.0, 0.0, 0.0])[:, None]
    rows.features[:30] = np.nan
    stack = learned(rows.take(slice(0, 30)), models=True)
    np.testing.assert_array_equal(stack(later), later[:, 0])
    np.testing.assert_allclose(stack(np.full((1, 4, 2), np.nan)), stack.level[None])


def test_weights_follow_a_break_within_the_memory() -> None:
    rng = np.random.default_rng(0)
    said = rng.normal(size=(600, 2, 1))
    average = said.mean(axis=1)
    features = np.stack([average, *(said - average[:, None]).transpose(1, 0, 2)], axis=1)
    labels = np.concatenate([said[:300, 0], said[300:, 1]]) + 0.1 * rng.normal(size=(600, 1))
    stack = learned(Rows(features[:300], labels[:300], np.ones(300)), models=True)
    assert stack.weights[1] > 0.3 > -0.3 > stack.weights[2]
    after = stack.learn(features[300:], labels[300:], np.ones(300))
    assert after.weights[1] < -0.3 < 0.3 < after.weights[2]


EXTREMES = {
    "labels of 1e100": (1.0, 1e100, 1.0),
    "labels of 1e-100": (1.0, 1e-100, 1.0),
    "features of 1e100": (1e100, 1.0, 1.0),
    "features of 1e-170": (1e-170, 1.0, 1.0),
    "both of 1e100, rows of 1e9": (1e100, 1e100, 1e9),
    "rows of 1e-9": (1.0, 1.0, 1e-9),
    "nothing": (0.0, 0.0, 1.0),
}


@pytest.mark.parametrize("models", [True, False])
@pytest.mark.parametrize("cut", [1, 200])
@pytest.mark.parametrize("kind", EXTREMES)
def test_extreme_numbers_leave_numbers(kind: str, cut: int, models: bool) -> None:
    rows, (wide, high, often) = some_rows(0, 200, 3, 2, models=models), EXTREMES[kind]
    rows = Rows(wide / 5 * rows.features, high * np.sign(rows.labels - 8), often * rows.counts)
    stack = OnlineStack.begin(rows.features.shape[1], 2, models=models)
    for start in range(0, rows.n, cut):
        stack = stack.learn(*rows.take(slice(start, start + cut)))
        require_finite(stack, rows.features)


@pytest.mark.parametrize("often", [1.0, 100.0, 1e6])
def test_members_that_say_the_same_leave_the_ridge_to_decide(often: float) -> None:
    rows = some_rows(0, 200, 1, 2, models=False)
    features = np.repeat(rows.features, 4, axis=1)
    stack = learned(Rows(features, rows.labels, often * rows.counts), models=False)
    require_finite(stack, features)
    np.testing.assert_allclose(stack.weights, stack.weights[0], rtol=1e-3)
    assert np.abs(stack(features) - rows.labels).mean() < 1.5


def test_members_that_were_tiny_and_become_huge_leave_numbers() -> None:
    rows = some_rows(0, 60, 3, 2, models=True)
    rows.features[:30] *= 1e-50
    rows.features[30:] *= 1e99
    rows.labels[:] *= 1e99
    require_finite(learned(rows, models=True), rows.features)
