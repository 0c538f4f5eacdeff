"""The one-standard-error test, against the formulas of a textbook."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from optensemble.stats.blocks import UnitSums
from optensemble.stats.paired_tests import PairedTest, best_of, loss_test, paired_difference, paired_test
from optensemble.stats.sampling import Sampling
from tests.problems import Floats
from tests.stats.textbook import SAMPLINGS, N, candidates, textbook_error

KINDS = st.sampled_from(sorted(SAMPLINGS))
leading = st.lists(st.floats(-3, 4), min_size=0, max_size=5)


@given(seed=st.integers(0, 10**6), lead=st.floats(-3, 4), needed=st.floats(0.1, 3), kind=KINDS)
def test_a_mean_gain_is_compared_with_its_standard_error(seed: int, lead: float, needed: float, kind: str) -> None:
    gain = candidates(seed, [lead])[1]
    test = paired_test(gain, SAMPLINGS[kind], needed)
    assert test.gain == pytest.approx(gain.mean(), rel=1e-12)
    assert test.error == pytest.approx(textbook_error(gain, kind), rel=1e-9)
    assert test.needed == needed
    assert test.passed == (gain.mean() > needed * test.error)


@given(seed=st.integers(0, 10**6), leads=leading, kind=KINDS)
def test_the_best_is_taken_if_it_beats_the_first_by_one_standard_error(
    seed: int, leads: list[float], kind: str
) -> None:
    gains = candidates(seed, leads)
    means = [gain.mean() for gain in gains]
    best = means.index(max(means))
    expected = best if means[best] > textbook_error(gains[best], kind) else 0
    assert best_of(gains, SAMPLINGS[kind]) == expected


def test_of_equals_the_first_is_taken() -> None:
    gain = candidates(0, [3.0])[1]
    assert best_of(np.stack([0 * gain, gain, gain]), Sampling()) == 1
    assert best_of(np.zeros((3, N)), Sampling()) == 0
    assert best_of(np.stack([np.zeros(N), np.full(N, 0.25)]), Sampling()) == 1  # beyond doubt


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_a_difference_is_row_by_row_and_rounding_is_none(seed: int, scale: float) -> None:
    left, right = scale * np.random.default_rng(seed).normal(size=(2, N))
    np.testing.assert_array_equal(paired_difference(left, right), left - right)
    np.testing.assert_array_equal(paired_difference(left, left * (1 + 1e-14)), 0.0)
    some = np.where(np.arange(N) % 2 == 0, left, left + scale)
    np.testing.assert_array_equal(paired_difference(some, left)[::2], 0.0)
    assert (paired_difference(some, left)[1::2] > 0.9 * scale).all()


def falling(gains: Floats, sampling: Sampling) -> PairedTest:
    """The test of a loss that falls by these numbers."""
    return loss_test(UnitSums.of(gains[None], sampling.units(len(gains))))


def test_losses_are_compared_row_by_row() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.uniform(size=(2, 120))
    test = falling(before - after, Sampling())
    assert test.gain == pytest.approx((before - after).mean(), rel=1e-12)
    assert test.error == pytest.approx(float(stats.sem(before - after)), rel=1e-12)
    assert test.passed == (test.gain > test.error)


@pytest.mark.parametrize(
    ("ratio", "time_ordered", "passes"), [(0.9, False, 0), (1.1, False, 1), (1.9, True, 0), (2.1, True, 1)]
)
def test_a_loss_must_fall_by_more_than_one_standard_error_and_in_time_order_by_two(
    ratio: float, time_ordered: bool, passes: int
) -> None:
    noise = np.random.default_rng(0).normal(size=200)
    sampling = Sampling(time_ordered)
    noise -= noise.mean()
    gain = noise + ratio * sampling.error(noise)
    assert falling(gain, sampling).passed == bool(passes)


def test_a_refinement_without_effect_is_not_used() -> None:
    loss = np.random.default_rng(0).uniform(size=50)
    test = falling(loss - loss, Sampling())
    assert not test.passed
    assert str(test) == "the out-of-fold loss did not fall"


def test_a_test_in_words() -> None:
    assert str(PairedTest(0.3, 0.2, 2.0)) == "the out-of-fold loss fell by 1.5 standard errors; more than 2 are needed"
    assert str(PairedTest(-0.3, 0.2, 1.0)) == "the out-of-fold loss did not fall"
