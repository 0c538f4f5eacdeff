"""The one-standard-error test, against the formulas of a textbook."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from optensemble.stats.paired_tests import PairedTest, compare_losses
from optensemble.stats.sampling import Sampling


def test_losses_are_compared_row_by_row() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.uniform(size=(2, 120))
    test = compare_losses(before, after, Sampling())
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
    assert compare_losses(gain, np.zeros(200), sampling).passed == bool(passes)


def test_a_refinement_without_effect_is_not_used() -> None:
    loss = np.random.default_rng(0).uniform(size=50)
    test = compare_losses(loss, loss, Sampling())
    assert not test.passed
    assert str(test) == "the out-of-fold loss did not fall"


def test_a_test_in_words() -> None:
    assert str(PairedTest(0.3, 0.2, 2.0)) == "the out-of-fold loss fell by 1.5 standard errors; more than 2 are needed"
    assert str(PairedTest(-0.3, 0.2, 1.0)) == "the out-of-fold loss did not fall"
