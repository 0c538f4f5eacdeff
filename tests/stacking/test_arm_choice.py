"""Calibrated choice among candidate policies, against explicit design matrices."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optensemble.stacking.arm_choice import Choice, ChoiceSums
from tests.problems import Floats
from tests.stacking.candidates import textbook_choice


def arms(seed: int, arms: int = 4, evaluators: int = 2, n: int = 80) -> tuple[Floats, Floats]:
    """What evaluators say of arms, and what arms earn: 0.7 of the first evaluator, and noise."""
    rng = np.random.default_rng(seed)
    assessed = rng.normal(1.0, 2.0, size=(arms, evaluators, n))
    return assessed, 0.7 * assessed[:, 0] + rng.normal(size=(arms, n)) + rng.normal(size=(arms, 1))


@given(seed=st.integers(0, 50), count=st.integers(2, 5), evaluators=st.integers(1, 3), pull=st.floats(0.5, 8))
def test_a_choice_is_a_ridge_on_payoff_differences(seed: int, count: int, evaluators: int, pull: float) -> None:
    assessed, realised = arms(seed, count, evaluators, 30)
    prior = np.random.default_rng(seed).uniform(size=evaluators)
    choice = ChoiceSums.of(assessed, realised).fit(prior, pull)
    constants, slopes = textbook_choice(assessed, realised, prior, pull)
    np.testing.assert_allclose(choice.constants, constants, atol=1e-9)
    np.testing.assert_allclose(choice.slopes, slopes, atol=1e-9)


def test_the_candidate_of_the_highest_calibrated_value_is_picked() -> None:
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
    many = ChoiceSums.of(*arms(0, n=40_000)).fit(prior)
    np.testing.assert_allclose(many.slopes, [0.7, 0.0], atol=0.03)
    few = ChoiceSums.of(*arms(0, n=10)).fit(prior)
    np.testing.assert_allclose(few.slopes, prior, atol=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_identical_candidates_have_equal_values(count: int, scale: float) -> None:
    one = scale * np.random.default_rng(0).normal(size=(1, 2, 50))
    choice = ChoiceSums.of(np.repeat(one, count, axis=0), np.repeat(one[:, 0], count, axis=0)).fit(np.full(2, 0.5))
    np.testing.assert_allclose(choice.constants, 0, atol=1e-12 * scale)
    np.testing.assert_allclose(choice.slopes, 0.5)


@given(seed=st.integers(0, 20), shift=st.floats(-1e3, 1e3))
def test_a_payoff_common_to_all_candidates_does_not_matter(seed: int, shift: float) -> None:
    assessed, realised = arms(seed, n=30)
    plain = ChoiceSums.of(assessed, realised).fit(np.ones(2))
    common = shift + np.random.default_rng(seed).normal(size=30)
    moved = ChoiceSums.of(assessed + common, realised + 3 * common).fit(np.ones(2))
    np.testing.assert_allclose(moved.slopes, plain.slopes, atol=1e-8)
    np.testing.assert_allclose(moved.constants, plain.constants, atol=1e-8)


@given(seed=st.integers(0, 50), parts=st.lists(st.integers(1, 30), min_size=2, max_size=5), data=st.data())
def test_sums_of_parts_add_up_and_a_fold_is_left_out(seed: int, parts: list[int], data: st.DataObject) -> None:
    n, ends = sum(parts), np.cumsum([0, *parts])
    assessed, realised = arms(seed, n=n)
    slices = [slice(start, stop) for start, stop in pairwise(ends)]
    whole, cut = ChoiceSums.of(assessed, realised, slices), data.draw(st.integers(1, n - 1))
    both = np.minimum(ends, cut), np.maximum(ends, cut)
    begun, ended = (
        ChoiceSums.of(assessed, realised, [slice(start, stop) for start, stop in pairwise(each)]) for each in both
    )
    for left, right in zip(vars(begun + ended).values(), vars(whole).values(), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
    left_out = data.draw(st.integers(0, len(parts) - 1))
    others = np.delete(np.arange(n), np.r_[slices[left_out]])
    prior = np.array([0.3, 0.6])
    constants, slopes = textbook_choice(assessed[:, :, others], realised[:, others], prior, 2.0)
    choice = whole.fit(prior, 2.0, left_out)
    np.testing.assert_allclose(choice.constants, constants, atol=1e-9)
    np.testing.assert_allclose(choice.slopes, slopes, atol=1e-9)
